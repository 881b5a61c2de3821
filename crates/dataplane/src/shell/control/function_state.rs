//! What functions remember, on its way from workers to who writes it down.

use super::Control;
use crate::engine::StateChange;
use crate::shell::order::Order;

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
        for (worker, changes) in [first].into_iter().chain(others).enumerate() {
            self.keeper.keep_last(number(worker), changes);
        }
    }
}

fn number(worker: usize) -> u32 {
    u32::try_from(worker).unwrap_or(u32::MAX)
}
