//! The control thread's side of the worker: starts it, gives it orders and waits for their outcome.

use super::DataplaneError;
use super::order::{Order, Report, Reports};
use super::wake::Bell;
use super::worker::Worker;
use crate::engine::EngineConfig;
use catena_io::{IoError, drop_privileges, stay_on_core};
use catena_model::NodeName;
use std::num::NonZeroU64;
use std::sync::mpsc::{self, Receiver, Sender, SyncSender, TryRecvError};
use std::thread::JoinHandle;

/// A running worker.
pub(super) struct Desk {
    orders: Option<Sender<Order>>,
    worker_bell: Bell,
    reports: Receiver<Report>,
    report_bell: Bell,
    thread: Option<JoinHandle<Result<(), IoError>>>,
}

impl Desk {
    /// Starts a worker, on a core of its own if one is named. It moves packets without any privilege.
    ///
    /// # Errors
    /// No descriptor or thread is left.
    pub(super) fn start(
        node: NodeName,
        own_core: Option<u32>,
        slice_bits_per_second: Option<NonZeroU64>,
    ) -> Result<Self, DataplaneError> {
        let worker_bell = Bell::new().map_err(start_error)?;
        let report_bell = Bell::new().map_err(start_error)?;
        let (orders, queue) = mpsc::channel();
        let (sender, reports) = mpsc::channel();
        let way_back = Reports::new(sender, report_bell.clone());
        let bell = worker_bell.clone();
        let work = move || {
            if let Some(core) = own_core {
                stay_on_core(core)?;
            }
            drop_privileges()?;
            let config = EngineConfig { slice_bits_per_second, ..EngineConfig::new(node) };
            Worker::new(config, queue, bell, way_back)?.run(own_core.is_some())
        };
        let thread = std::thread::Builder::new()
            .name("worker".into())
            .spawn(work)
            .map_err(DataplaneError::Start)?;
        Ok(Self { orders: Some(orders), worker_bell, reports, report_bell, thread: Some(thread) })
    }

    /// Gives an order and waits until it has been carried out.
    ///
    /// # Errors
    /// The worker has ended; the reason is in the error.
    pub(super) fn order<T>(
        &mut self,
        order: impl FnOnce(SyncSender<T>) -> Order,
    ) -> Result<T, DataplaneError> {
        let (done, outcome) = mpsc::sync_channel(1);
        if let Some(orders) = &self.orders {
            // A closed channel shows when the outcome is waited for.
            orders.send(order(done)).ok();
        }
        self.worker_bell.ring();
        outcome.recv().map_err(|_| self.why_ended())
    }

    /// Rings when there are reports or the worker has ended.
    pub(super) fn bell(&self) -> &Bell {
        &self.report_bell
    }

    /// The next report, until there is none.
    ///
    /// # Errors
    /// The worker has ended; the reason is in the error.
    pub(super) fn next_report(&mut self) -> Result<Option<Report>, DataplaneError> {
        match self.reports.try_recv() {
            Ok(report) => Ok(Some(report)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(self.why_ended()),
        }
    }

    fn why_ended(&mut self) -> DataplaneError {
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(Err(error))) => DataplaneError::Worker(error),
            _ => DataplaneError::WorkerEnded,
        }
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        // A worker that nobody can order ends after its vector.
        self.orders = None;
        self.worker_bell.ring();
        if let Some(thread) = self.thread.take()
            && let Ok(Err(error)) = thread.join()
        {
            tracing::error!("the worker ended badly: {error}");
        }
    }
}

fn start_error(errno: rustix::io::Errno) -> DataplaneError {
    DataplaneError::Start(errno.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_with_a_core_of_its_own_stays_there_and_obeys() {
        let node: NodeName = "host1".parse().unwrap();
        let mut desk = Desk::start(node, Some(0), None).unwrap();
        let counters = desk.order(|done| Order::Counters { done }).unwrap();
        assert_eq!(counters.ports.len(), 0);
        let threads = std::fs::read_dir("/proc/self/task").unwrap().flatten();
        let states = threads.filter_map(|thread| {
            let status = std::fs::read_to_string(thread.path().join("status")).ok()?;
            status.contains("Name:\tworker\n").then_some(status)
        });
        assert!(states.into_iter().any(|state| state.contains("Cpus_allowed_list:\t0\n")));
    }

    #[test]
    fn a_core_that_is_not_there_ends_the_worker_with_the_reason() {
        let node: NodeName = "host1".parse().unwrap();
        let mut desk = Desk::start(node, Some(u32::MAX), None).unwrap();
        let told = desk.order(|done| Order::Counters { done }).err().unwrap();
        assert!(told.to_string().contains("core"), "{told}");
    }
}
