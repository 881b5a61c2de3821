//! Watches superseded paths until no packet is on them, so that the planner may remove them.

use super::settle::lagging;
use super::{Signal, Signals, Situation};
use crate::error::ControllerError;
use crate::southbound::fleet::Fleet;
use catena_model::{NodeCounters, NodeName, PathId};
use std::collections::BTreeMap;
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
        turned.retain(|path, _| draining.contains(path));
        if draining.is_empty() {
            situations.changed().await.map_err(|_| ended())?;
            continue;
        }
        for path in draining {
            turned.entry(path).or_insert_with(Instant::now);
        }
        tokio::time::sleep(DRAIN_INTERVAL).await;
        let counters = fleet.counters().await;
        for (path, since) in &turned {
            if since.elapsed() >= DRAIN_WAIT_MAX || is_empty(&counters, *path) {
                signals.send(Signal::Drained(*path)).await.map_err(|_| ended())?;
            }
        }
    }
}

/// Paths whose classifiers have all turned away: nothing enters them any more.
fn turned_away(now: &Situation) -> Vec<PathId> {
    let is_new = |path: &PathId| !now.inventory.drained.contains(path);
    let has_turned = |path: &PathId| {
        now.blueprint.ledger.paths.get(path).is_some_and(|record| lagging(now, record).is_empty())
    };
    let draining = catena_plan::draining(&now.blueprint);
    draining.into_iter().filter(is_new).filter(has_turned).collect()
}

/// Has every packet that entered the path left it?
fn is_empty(counters: &BTreeMap<NodeName, NodeCounters>, path: PathId) -> bool {
    let (mut entered, mut left) = (0u64, 0u64);
    let at_nodes = counters.values().flat_map(|node| &node.chains);
    for chain in at_nodes.filter(|chain| chain.path == path) {
        entered += chain.entered.packets;
        left += chain.finished.packets + chain.dropped.values().sum::<u64>();
    }
    entered == left
}
