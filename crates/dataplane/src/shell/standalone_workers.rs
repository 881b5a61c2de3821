//! The workers of a data plane alone, over ports that their caller makes: for measurements and for whoever
//! embeds them. Knows neither agent nor disk.

use super::DataplaneError;
use super::order::Order;
use super::worker_pool::{WorkerPool, WorkerPoolParts};
use crate::engine::{EngineConfig, Tables};
use catena_io::Port;
use catena_model::account::NodeCounters;
use catena_model::id::PortId;
use std::num::NonZeroUsize;
use std::sync::Arc;

/// Running workers; they end when this is dropped.
pub struct StandaloneWorkers {
    pool: WorkerPool,
}

impl StandaloneWorkers {
    /// Starts workers with an empty program. `own_cores`: those on which the first of them spin.
    ///
    /// # Errors
    /// No descriptor or thread is left.
    pub fn start(
        config: &EngineConfig,
        workers: NonZeroUsize,
        own_cores: Vec<u32>,
    ) -> Result<Self, DataplaneError> {
        let parts = WorkerPoolParts {
            workers,
            own_cores,
            function_threads: 0,
            function_form: None,
            remembered: None,
            are_confined: false,
        };
        Ok(Self { pool: WorkerPool::start(config, parts)? })
    }

    /// Puts tables in force at all of them.
    ///
    /// # Errors
    /// A worker has ended.
    pub fn replace_tables(&mut self, tables: &Arc<Tables>) -> Result<(), DataplaneError> {
        let (_, _) = self.pool.order_at_once(|done| {
            let tables = Arc::clone(tables);
            Order::Tables { tables, is_inherited: false, done }
        })?;
        Ok(())
    }

    /// Gives a port to the worker with fewest, of those the last.
    ///
    /// # Errors
    /// A worker has ended, or cannot wait for the port.
    pub fn attach(&mut self, id: PortId, port: Box<dyn Port>) -> Result<(), DataplaneError> {
        self.pool.attach(id, port, None)?.map_err(DataplaneError::Worker)
    }

    /// What each worker has counted.
    ///
    /// # Errors
    /// A worker has ended.
    pub fn counters(&mut self) -> Result<Vec<NodeCounters>, DataplaneError> {
        let (first, others) = self.pool.order_all(|done| Order::Counters { of: None, done })?;
        Ok(std::iter::once(first).chain(others).map(|counters| *counters).collect())
    }
}
