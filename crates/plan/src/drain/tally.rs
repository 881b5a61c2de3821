//! What all nodes together counted on one path. The numbers are foreign: whatever they are, their
//! sum must not stop the controller.

use super::Counted;
use catena_model::id::ChainId;
use catena_model::{ChainCounters, DropReason, PathId};
use std::collections::{BTreeMap, BTreeSet};

/// Sums over the nodes of a path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// Entered, and copied for taps.
    came: i128,
    /// Finished, dropped by name, and given to taps.
    went: i128,
    /// Given to functions, and come back from them.
    delivered: i128,
    returned: i128,
    /// Sent to other nodes, and received from them.
    sent: i128,
    received: i128,
    dropped: BTreeMap<DropReason, u64>,
    /// What a data plane that ended had counted is not in the sums: nothing is proved by them.
    is_partial: bool,
    /// Packets of the whole chain whose path was told by their order alone.
    pub(super) ambiguous: u64,
}

impl Tally {
    pub(super) fn of(counters: &Counted, id: PathId, chain: ChainId, taps: &BTreeSet<u16>) -> Self {
        let mut tally = Self::default();
        for at_node in counters.values().flat_map(|node| &node.chains) {
            if at_node.chain == chain {
                let ambiguous = at_node.hops.iter().map(|hop| hop.ambiguous);
                tally.ambiguous = ambiguous.fold(tally.ambiguous, u64::saturating_add);
            }
            if at_node.path == id {
                tally.add(at_node, taps);
            }
        }
        tally
    }

    fn add(&mut self, at_node: &ChainCounters, taps: &BTreeSet<u16>) {
        let packets = |volume: catena_model::Volume| i128::from(volume.packets);
        self.is_partial |= at_node.is_partial;
        self.came += packets(at_node.entered) + packets(at_node.tapped);
        self.went += packets(at_node.finished);
        self.sent += packets(at_node.tunnelled_out);
        self.received += packets(at_node.tunnelled_in);
        for (reason, count) in &at_node.dropped {
            self.went += i128::from(*count);
            let sum = self.dropped.entry(*reason).or_default();
            *sum = sum.saturating_add(*count);
        }
        for hop in &at_node.hops {
            if taps.contains(&hop.hop) {
                self.went += packets(hop.delivered);
            } else {
                self.delivered += packets(hop.delivered);
                self.returned += packets(hop.returned);
            }
        }
    }

    /// Has every packet that entered the path left it?
    pub(super) fn is_empty(&self) -> bool {
        !self.is_partial && self.came == self.went
    }

    /// Packets on the path.
    pub(super) fn inside(&self) -> u64 {
        count(self.came - self.went)
    }

    /// Given to functions and not come back.
    pub(super) fn kept(&self) -> u64 {
        count(self.delivered - self.returned)
    }

    /// Sent to another node and not received there.
    pub(super) fn between_nodes(&self) -> u64 {
        count(self.sent - self.received)
    }

    /// What was dropped by name since an earlier tally.
    pub(super) fn dropped_since(&self, before: &Self) -> BTreeMap<DropReason, u64> {
        let since = self.dropped.iter().map(|(reason, count)| {
            let former = before.dropped.get(reason).copied().unwrap_or_default();
            (*reason, count.saturating_sub(former))
        });
        since.filter(|(_, count)| *count > 0).collect()
    }
}

/// Flows that classifiers keep on a path.
pub(super) fn pinned_flows(counters: &Counted, id: PathId) -> u64 {
    let chains = counters.values().flat_map(|node| &node.chains);
    let flows = chains.filter(|chain| chain.path == id).map(|chain| chain.pinned_flows);
    flows.fold(0, u64::saturating_add)
}

fn count(difference: i128) -> u64 {
    u64::try_from(difference.max(0)).unwrap_or(u64::MAX)
}
