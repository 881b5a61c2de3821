//! Whether a chain carries traffic, and if not, what is missing.

use crate::blueprint::Blueprint;
use crate::intent::Intent;
use crate::inventory::Inventory;
use crate::ledger::{PathPhase, PathRecord, PlacedRule};
use crate::render::{Rendering, render};
use catena_model::id::ChainId;
use catena_model::status::{ChainState, ChainStatus};
use catena_model::{NodeName, PathId};

/// State of a chain under the current blueprint.
///
/// It is `active` only when every node concerned has acknowledged the path as it is declared now.
#[must_use]
pub fn chain_status(
    current: &Blueprint,
    intent: &Intent,
    inventory: &Inventory,
    chain: ChainId,
) -> ChainStatus {
    let classified =
        current.ledger.current(chain).find(|(_, path)| path.phase == PathPhase::Classified);
    let waiting_state = match classified {
        None => ChainState::Building,
        Some((_, path)) if is_first_turn(current, inventory, path) => ChainState::Building,
        Some(_) => ChainState::Updating,
    };
    let path = classified.map(|(id, _)| id);
    let status = |state, reason: String| ChainStatus { chain, state, reason, path };
    let Some(declared) = intent.chains.get(&chain) else {
        return status(waiting_state, "the chain is being removed".into());
    };
    let rendering = match render(intent, inventory, declared) {
        Ok(rendering) => rendering,
        Err(missing) if classified.is_some() => return status(ChainState::Degraded, missing),
        Err(missing) => return status(waiting_state, missing),
    };
    match classified {
        Some((id, path)) if is_declared(id, path, &rendering) => {
            match current.lagging(inventory, path) {
                None => status(ChainState::Active, String::new()),
                Some(node) => status(waiting_state, node_reason(inventory, &node)),
            }
        }
        _ => status(waiting_state, install_reason(current, inventory, chain)),
    }
}

/// Have all nodes concerned dropped the rules of a chain that is no longer declared?
#[must_use]
pub fn is_withdrawn(current: &Blueprint, inventory: &Inventory, chain: ChainId) -> bool {
    current
        .ledger
        .paths
        .values()
        .filter(|path| path.chain == chain)
        .all(|path| path.phase == PathPhase::Superseded && current.is_running(inventory, path))
}

/// A chain whose classifiers have not all turned for the first time is still being built.
fn is_first_turn(current: &Blueprint, inventory: &Inventory, path: &PathRecord) -> bool {
    !path.is_update && current.lagging(inventory, path).is_some()
}

fn is_declared(id: PathId, path: &PathRecord, rendering: &Rendering) -> bool {
    let same_rule = |placed: &PlacedRule, wanted: &PlacedRule| {
        let mut wanted = wanted.clone();
        wanted.rule.path = id;
        *placed == wanted
    };
    path.encapsulation == rendering.encapsulation
        && path.hops == rendering.hops
        && path.destination == rendering.destination
        && path.rules.len() == rendering.rules.len()
        && path.rules.iter().zip(&rendering.rules).all(|(placed, wanted)| same_rule(placed, wanted))
}

fn install_reason(current: &Blueprint, inventory: &Inventory, chain: ChainId) -> String {
    let installed =
        current.ledger.current(chain).find(|(_, path)| path.phase == PathPhase::Installed);
    let Some((_, path)) = installed else {
        return "no path identifier is free, or the planner has not run yet".into();
    };
    match current.lagging(inventory, path) {
        Some(node) => node_reason(inventory, &node),
        None => "every node knows the path; the classifiers are about to turn".into(),
    }
}

fn node_reason(inventory: &Inventory, node: &NodeName) -> String {
    match inventory.nodes.get(node) {
        None => format!("node '{node}' has never connected"),
        Some(facts) if !facts.is_connected => format!("node '{node}' is not connected"),
        Some(facts) => match &facts.refusal {
            Some(reason) => format!("node '{node}' refused its program: {reason}"),
            None => format!("node '{node}' has not acknowledged its program yet"),
        },
    }
}
