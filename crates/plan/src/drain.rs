//! When a superseded path is empty: by counting what entered and left it at all its nodes, or when
//! a bound has passed. Pure: time is an argument, of whatever kind its caller counts in.

use crate::blueprint::Blueprint;
use crate::inventory::Inventory;
use crate::ledger::PathRecord;
use crate::next::draining;
use catena_model::status::DrainProof;
use catena_model::{NodeCounters, NodeName, PathId};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Add;
use std::time::Duration;

/// How often counters should be read while a path drains.
pub const DRAIN_INTERVAL: Duration = Duration::from_millis(100);
/// After this a path counts as drained whatever the counters say: a function may have swallowed
/// packets, and no network keeps one that long.
pub const DRAIN_WAIT_MAX: Duration = Duration::from_secs(2);

/// A path that nothing enters any more.
#[derive(Debug)]
struct Turned<T> {
    since: T,
    /// The nodes that its packets may have met.
    nodes: BTreeSet<NodeName>,
}

/// The superseded paths and how long their classifiers have been turned away.
#[derive(Debug)]
pub struct DrainWatch<T> {
    turned: BTreeMap<PathId, Turned<T>>,
}

impl<T> Default for DrainWatch<T> {
    fn default() -> Self {
        Self { turned: BTreeMap::new() }
    }
}

impl<T: Copy + Ord + Add<Duration, Output = T>> DrainWatch<T> {
    /// Takes how things stand. Is there a path whose counters should be read?
    pub fn observe(&mut self, blueprint: &Blueprint, inventory: &Inventory, now: T) -> bool {
        let mut former = std::mem::take(&mut self.turned);
        for path in draining(blueprint) {
            let Some(record) = blueprint.ledger.paths.get(&path) else { continue };
            let has_turned = blueprint.lagging_nodes(inventory, record).is_empty();
            if has_turned && !inventory.drained.contains(&path) {
                let since = former.remove(&path).map_or(now, |turned| turned.since);
                self.turned.insert(path, Turned { since, nodes: nodes_of(record, inventory) });
            }
        }
        !self.turned.is_empty()
    }

    /// The paths that are empty by what the nodes counted, and those whose bound has passed.
    ///
    /// The counters must have been asked for after the last [`DrainWatch::observe`].
    #[must_use]
    pub fn drained(
        &self,
        counters: &BTreeMap<NodeName, NodeCounters>,
        now: T,
    ) -> Vec<(PathId, DrainProof)> {
        let after_ms = u64::try_from(DRAIN_WAIT_MAX.as_millis()).unwrap_or(u64::MAX);
        let proof = |(path, turned): (&PathId, &Turned<T>)| {
            if is_empty(counters, *path, &turned.nodes) {
                Some((*path, DrainProof::Counted))
            } else if turned.since + DRAIN_WAIT_MAX <= now {
                Some((*path, DrainProof::Bound { after_ms }))
            } else {
                None
            }
        };
        self.turned.iter().filter_map(proof).collect()
    }
}

fn nodes_of(record: &PathRecord, inventory: &Inventory) -> BTreeSet<NodeName> {
    record.nodes(inventory.nodes.keys())
}

/// Has every packet that entered the path left it? Who does not answer may hold some, and what a
/// data plane that ended had counted is not in the sum: then nothing is proved.
///
/// The numbers are foreign: whatever they are, their sum must not stop the controller.
fn is_empty(
    counters: &BTreeMap<NodeName, NodeCounters>,
    path: PathId,
    nodes: &BTreeSet<NodeName>,
) -> bool {
    if !nodes.iter().all(|node| counters.contains_key(node)) {
        return false;
    }
    let mut inside = 0i128;
    let at_nodes = counters.values().flat_map(|node| &node.chains);
    for chain in at_nodes.filter(|chain| chain.path == path) {
        if chain.is_partial {
            return false;
        }
        inside += i128::from(chain.entered.packets) - i128::from(chain.finished.packets);
        inside -= chain.dropped.values().map(|packets| i128::from(*packets)).sum::<i128>();
    }
    inside == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use catena_model::{Account, BlueprintNumber, Volume};

    fn answer(name: &str) -> (NodeName, NodeCounters) {
        let node = NodeName::new(name).unwrap();
        let counters = NodeCounters {
            node: node.clone(),
            program: BlueprintNumber(1),
            ports: Vec::new(),
            tunnels: Account::default(),
            tunnels_transmitted: Volume::default(),
            tunnels_ring_full: 0,
            chains: Vec::new(),
            health: Vec::new(),
            dataplane: catena_model::DataplaneLife::default(),
        };
        (node, counters)
    }

    #[test]
    fn a_path_is_not_empty_while_a_node_of_it_is_silent() {
        let (one, counters) = answer("host1");
        let (two, others) = answer("host2");
        let nodes = BTreeSet::from([one.clone(), two.clone()]);
        let mut heard = BTreeMap::new();
        assert!(!is_empty(&heard, PathId(1), &nodes), "nobody answered");
        heard.insert(one, counters);
        assert!(!is_empty(&heard, PathId(1), &nodes), "one of two answered");
        heard.insert(two, others);
        assert!(is_empty(&heard, PathId(1), &nodes));
    }
}
