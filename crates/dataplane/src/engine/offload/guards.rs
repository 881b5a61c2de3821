//! What transforms depend on, and the kernel's slot of each: a change bumps the slot, and all that
//! depends on it ends at once, without a scan. Knows slots and epochs; refuses to know what changed.

use super::offload_tables::OffloadTables;
use crate::engine::tables::descent::Dependency;
use catena_fastpath::Guard;
use std::collections::HashMap;

/// The slot that never changes.
const ALWAYS: u32 = 0;

/// The slots of all dependencies.
#[derive(Default)]
pub(super) struct Guards {
    by_dependency: HashMap<Dependency, Guard>,
    free: Vec<u32>,
    /// Slots ever used, besides slot 0.
    used: u32,
}

impl Guards {
    /// The guard of a dependency as it is now; none: all slots are taken.
    pub(super) fn of(
        &mut self,
        dependency: Dependency,
        kernel_tables: &mut dyn OffloadTables,
    ) -> Option<Guard> {
        if let Some(guard) = self.by_dependency.get(&dependency) {
            return Some(*guard);
        }
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None if self.used + 1 < kernel_tables.guards() => {
                self.used += 1;
                ALWAYS + self.used
            }
            None => return None,
        };
        let guard = Guard { slot, epoch: kernel_tables.bump(slot) };
        self.by_dependency.insert(dependency, guard);
        Some(guard)
    }

    /// The dependency has changed: what was decided by it holds no more.
    pub(super) fn bump(&mut self, dependency: Dependency, kernel_tables: &mut dyn OffloadTables) {
        if let Some(guard) = self.by_dependency.get_mut(&dependency) {
            guard.epoch = kernel_tables.bump(guard.slot);
        }
    }

    /// It is gone for good; its slot may serve another.
    pub(super) fn forget(&mut self, dependency: Dependency, kernel_tables: &mut dyn OffloadTables) {
        if let Some(guard) = self.by_dependency.remove(&dependency) {
            kernel_tables.bump(guard.slot);
            self.free.push(guard.slot);
        }
    }

    /// Every dependency with its slot.
    pub(super) fn all(&self) -> impl Iterator<Item = (Dependency, u32)> + '_ {
        self.by_dependency.iter().map(|(dependency, guard)| (*dependency, guard.slot))
    }
}
