//! Learns from the data planes which instances are dead, and says what that means for a chain.
//! Knows what was declared for that case; the nodes act on it by themselves, long before.

use super::Situation;
use crate::error::ControllerError;
use crate::southbound::fleet::Fleet;
use catena_model::NodeName;
use catena_model::id::{ChainId, InstanceId};
use catena_model::resource::FailurePolicy;
use catena_model::status::Health;
use catena_plan::Intent;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// How often nodes are asked while anything is watched.
const INTERVAL: Duration = Duration::from_secs(1);

/// The instances that their nodes found dead.
pub(crate) type Dead = Arc<BTreeSet<InstanceId>>;

/// Goes on until the controller stops.
pub(crate) async fn watch(
    mut situations: watch::Receiver<Situation>,
    fleet: Arc<Fleet>,
    dead: watch::Sender<Dead>,
) -> Result<(), ControllerError> {
    let mut known: BTreeMap<NodeName, BTreeSet<InstanceId>> = BTreeMap::new();
    loop {
        let is_watched = {
            let now = situations.borrow_and_update();
            let mut functions = now.intent.functions.values();
            functions.any(|function| function.on_failure != FailurePolicy::Unwatched)
        };
        if is_watched {
            // A node that does not answer is believed as before.
            for (node, counters) in fleet.counters(false).await {
                let is_dead = |health: &Health| *health == Health::Dead;
                let watched = counters.health.into_iter();
                let found = watched.filter(|one| is_dead(&one.health)).map(|one| one.instance);
                known.insert(node, found.collect());
            }
        } else {
            known.clear();
        }
        let now: BTreeSet<InstanceId> = known.values().flatten().copied().collect();
        dead.send_if_modified(|before| {
            let has_changed = **before != now;
            if has_changed {
                *before = Arc::new(now);
            }
            has_changed
        });
        if is_watched {
            tokio::time::sleep(INTERVAL).await;
        } else {
            situations.changed().await.map_err(|_| ControllerError::Ended("health watch"))?;
        }
    }
}

/// What ails a chain, in one line; none: all its watched instances live as far as known.
pub(crate) fn complaint(
    intent: &Intent,
    dead: &BTreeSet<InstanceId>,
    chain: ChainId,
) -> Option<String> {
    let mut complaints = Vec::new();
    for id in &intent.chains.get(&chain)?.functions {
        let Some(function) = intent.functions.get(id) else { continue };
        let is_dead = |instance: &&InstanceId| dead.contains(*instance);
        let has_others = function.instances.iter().any(|instance| !dead.contains(instance));
        let treatment = match function.on_failure {
            FailurePolicy::Unwatched => continue,
            FailurePolicy::Reroute if has_others => "rerouted",
            FailurePolicy::Bypass => "bypassed",
            FailurePolicy::Reroute | FailurePolicy::Block => "blocked",
        };
        for instance in function.instances.iter().filter(is_dead) {
            let name = intent.instances.get(instance).map(|instance| instance.label.name.as_str());
            complaints.push(format!(
                "instance '{}' of function '{}' is dead: {treatment}",
                name.unwrap_or("?"),
                function.label.name,
            ));
        }
    }
    (!complaints.is_empty()).then(|| complaints.join("; "))
}
