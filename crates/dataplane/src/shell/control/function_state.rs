//! What functions remember, on its way from workers to who writes it down, and the end of a data plane whose functions
//! need somebody else.

use super::Control;
use crate::engine::StateChange;
use crate::shell::DataplaneError;
use crate::shell::order::{Order, Report};
use std::time::Duration;

/// A data plane goes on for so long at least, whoever has ended.
const STARTER_REST: Duration = Duration::from_secs(10);

impl Control {
    /// Has what a worker tells written down. Where there is no room for it, the worker tells all of it again.
    pub(super) fn keep_state(&mut self, worker: usize, changes: Vec<StateChange>) {
        if !self.keeper.keep(number(worker), changes) {
            tracing::warn!("the disk is too slow for what functions remember: it is written anew");
            self.workers.tell(worker, Order::FunctionStateAnew);
        }
    }

    /// Has everything written down that is not yet. A worker that has ended has nothing to tell.
    pub(super) fn keep_last_state(&mut self) {
        let Ok((first, others)) = self.workers.order_all(|done| Order::FunctionState { done })
        else {
            return;
        };
        // What they have told before that comes first.
        while let Ok(Some(report)) = self.workers.next_report() {
            if let Report::FunctionState(worker, changes) = report {
                self.keeper.keep_last(number(worker), changes);
            }
        }
        for (worker, changes) in [first].into_iter().chain(others).enumerate() {
            self.keeper.keep_last(number(worker), changes);
        }
    }

    /// Whoever starts processes has ended, and one is needed: an agent that is there starts both anew. Without one, or
    /// where it ends again and again, all that needs no process goes on.
    pub(super) fn end_without_starter(&mut self) -> Result<(), DataplaneError> {
        let is_settled = self.began.elapsed() >= STARTER_REST;
        if !(self.makers.has_ended() && self.agent.is_some() && is_settled) {
            return Ok(());
        }
        self.keep_last_state();
        Err(DataplaneError::StarterEnded)
    }
}

fn number(worker: usize) -> u32 {
    u32::try_from(worker).unwrap_or(u32::MAX)
}
