//! What the kernel path tells of itself. Knows sums; refuses to change anything.

use super::KernelPath;
use super::offload_tables::Losses;
use crate::engine::tables::descent::Dependency;
use catena_model::kernel::KernelCounters;

impl KernelPath {
    pub(crate) fn sent_up(&mut self) -> u64 {
        self.kernel_tables.sent_up()
    }

    pub(crate) fn counters(&mut self) -> KernelCounters {
        let mut counters = self.counters.clone();
        counters.flows = self.flows.len() as u64;
        counters.flows_max = u64::from(self.kernel_tables.flows());
        let Losses { refused, copies_refused, strays } = self.kernel_tables.losses();
        (counters.refused, counters.copies_refused) = (refused, copies_refused);
        (counters.strays, counters.let_up) = (strays, self.looks.flows);
        let slots: Vec<(Dependency, u32)> = self.guards.all().collect();
        for (dependency, slot) in slots {
            let stale = self.kernel_tables.stale(slot);
            match dependency {
                Dependency::Path(path) if stale > 0 => {
                    counters.stale_paths.insert(path, stale);
                }
                Dependency::Network(network) | Dependency::Ordinary(network) if stale > 0 => {
                    *counters.stale_networks.entry(network).or_default() += stale;
                }
                _ => {}
            }
        }
        counters
    }
}
