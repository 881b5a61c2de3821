//! Watches superseded paths until no packet is on them, so that the planner may remove them.

use super::{Signal, Signals, Situation};
use crate::error::ControllerError;
use crate::southbound::fleet::Fleet;
use catena_model::{NodeCounters, NodeName, PathId};
use catena_plan::PathRecord;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// How often counters are read while a path drains.
const DRAIN_INTERVAL: Duration = Duration::from_millis(100);
/// After this a path counts as drained whatever the counters say: a function may have swallowed
/// packets, and no network keeps one that long.
const DRAIN_WAIT_MAX: Duration = Duration::from_secs(2);

/// Goes on until the controller stops.
pub(crate) async fn watch(
    mut situations: watch::Receiver<Situation>,
    fleet: Arc<Fleet>,
    signals: Signals,
) -> Result<(), ControllerError> {
    let ended = || ControllerError::Ended("drain watch");
    // Since when no classifier sends into a path any more.
    let mut turned: BTreeMap<PathId, Instant> = BTreeMap::new();
    loop {
        let draining = turned_away(&situations.borrow_and_update());
        turned.retain(|path, _| draining.contains_key(path));
        if draining.is_empty() {
            situations.changed().await.map_err(|_| ended())?;
            continue;
        }
        for path in draining.keys() {
            turned.entry(*path).or_insert_with(Instant::now);
        }
        tokio::time::sleep(DRAIN_INTERVAL).await;
        let counters = fleet.counters(false).await;
        for (path, since) in &turned {
            let is_empty =
                || draining.get(path).is_some_and(|nodes| is_empty(&counters, *path, nodes));
            if since.elapsed() >= DRAIN_WAIT_MAX || is_empty() {
                signals.send(Signal::Drained(*path)).await.map_err(|_| ended())?;
            }
        }
    }
}

/// Paths whose classifiers have all turned away, so that nothing enters them any more, each with
/// the nodes that packets on it may have met.
fn turned_away(now: &Situation) -> BTreeMap<PathId, BTreeSet<NodeName>> {
    let turned = |path: PathId| {
        let record = now.blueprint.ledger.paths.get(&path)?;
        let has_turned = now.blueprint.lagging_nodes(&now.inventory, record).is_empty();
        has_turned.then(|| (path, nodes_of(record, now)))
    };
    let draining = catena_plan::draining(&now.blueprint).into_iter();
    draining.filter(|path| !now.inventory.drained.contains(path)).filter_map(turned).collect()
}

fn nodes_of(record: &PathRecord, now: &Situation) -> BTreeSet<NodeName> {
    let instances = record.hops.iter().flat_map(|hop| &hop.instances);
    let mut nodes: BTreeSet<NodeName> = instances.map(|instance| instance.node.clone()).collect();
    nodes.extend(record.holders.iter().cloned());
    for placed in &record.rules {
        match &placed.node {
            Some(node) => nodes.extend([node.clone()]),
            None => nodes.extend(now.inventory.nodes.keys().cloned()),
        }
    }
    nodes
}

/// Has every packet that entered the path left it? Who does not answer may hold some.
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
