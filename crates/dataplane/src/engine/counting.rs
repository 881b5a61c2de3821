//! What an engine tells of its counters. Knows which sums are whose; refuses to count.

use crate::engine::Engine;
use catena_model::account::{NodeCounters, SliceCounters};
use catena_model::topology::PortNumber;
use catena_model::{CounterScope, PathId, SliceId};
use std::collections::BTreeSet;

impl Engine {
    /// All counters at this moment. `ring_full` and `interface` are for the shell to fill in.
    #[must_use]
    pub fn counters(&self) -> NodeCounters {
        self.counters_of(None)
    }

    /// The same of some chains and ports alone; none: of all.
    #[must_use]
    pub fn counters_of(&self, of: Option<&CounterScope>) -> NodeCounters {
        let at = (&self.config.node, self.now_ns);
        let mut counters = self.counters.export(at, &self.tables, &self.slots, of);
        counters.health = self.health.report();
        counters.deaths = self.functions.deaths();
        if let Some(of) = of {
            counters.functions = self.functions.export(|instance| of.functions.contains(instance));
        }
        counters.setups = self.setup_counters(of);
        let lives = counters.links.iter().filter_map(|link| PortNumber::of_link(link.port));
        counters.link_lives = lives.map(|number| self.config.links.life(number)).collect();
        let [flows, inside] = self.proxy_flows.crowded();
        for crowded in [flows, inside, &self.affinity.crowded] {
            crowded.export(&self.tables, &self.slots, &mut counters.crowded);
        }
        let told: BTreeSet<PathId> = counters.chains.iter().map(|chain| chain.path).collect();
        let pinned = self.tables.pins.old_paths().filter(|(old, _)| told.contains(old));
        for (old, idle_ms) in pinned {
            let kept = self.affinity.count(self.now_ns, old, idle_ms);
            for chain in counters.chains.iter_mut().filter(|chain| chain.path == old) {
                chain.pinned_flows = chain.pinned_flows.max(kept);
            }
        }
        counters
    }

    /// The counters of so many paths of slices, those of the slices behind one in the order of their
    /// identifiers. Sorted anew after each change of slices, unless [`Tables::order_slices`] was
    /// called for these tables.
    #[must_use]
    pub fn slice_counters(&self, after: Option<SliceId>, limit: usize) -> Vec<SliceCounters> {
        let order = self.tables.slices_in_order();
        let start = after.map_or(0, |after| order.partition_point(|(slice, _)| *slice <= after));
        let shown = order.iter().skip(start).take(limit);
        let told = |(slice, path): &(SliceId, PathId)| {
            let sums = self.counters.path_sums(self.tables.positions.start(*path)?)?;
            let entry = self.tables.slices.of_id(*slice);
            Some(SliceCounters {
                slice: *slice,
                name: entry.map(|entry| entry.name.to_string()).unwrap_or_default(),
                path: *path,
                entered: sums.entered,
                finished: sums.finished,
                tunnelled_out: sums.tunnelled_out,
                tunnelled_in: sums.tunnelled_in,
                dropped: sums.dropped.export(),
                wait: self.shaper.report(*slice),
                is_injected: entry.is_some_and(|entry| entry.is_injected),
            })
        };
        shown.filter_map(told).collect()
    }
}
