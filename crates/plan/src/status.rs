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
        Some((_, path)) => waiting_state(current, inventory, path),
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
                None => status(ChainState::Active, absence(inventory, path)),
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

/// What a chain is whose path is classified and not known to be in force everywhere.
fn waiting_state(current: &Blueprint, inventory: &Inventory, path: &PathRecord) -> ChainState {
    match current.lagging(inventory, path) {
        // Every node of the path knew it before the classifiers turned: this one has lost it.
        Some(node) if !path.is_classified_by(&node) && !path.holders.contains(&node) => {
            ChainState::Degraded
        }
        Some(_) if !path.is_update => ChainState::Building,
        _ => ChainState::Updating,
    }
}

/// A node that is away goes on with its program; people should know all the same.
fn absence(inventory: &Inventory, path: &PathRecord) -> String {
    let is_away =
        |node: &NodeName| inventory.nodes.get(node).is_some_and(|facts| !facts.is_connected);
    match path.nodes(inventory.nodes.keys()).into_iter().find(is_away) {
        Some(node) => format!("node '{node}' is not connected: it goes on with its last program"),
        None => String::new(),
    }
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
