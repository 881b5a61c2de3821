//! Whether a chain carries traffic, and if not, what is missing.

use crate::atlas::Atlas;
use crate::blueprint::Blueprint;
use crate::drain::{DRAIN_WAIT_MAX, PIN_WAIT_MAX};
use crate::graph::{Graphs, groups};
use crate::intent::Intent;
use crate::inventory::Inventory;
use crate::ledger::{Ledger, PathPhase, PathRecord};
use crate::routing::{render_routed, why_unready, why_unwritten};
use crate::ways::Roads;
use catena_model::id::ChainId;
use catena_model::status::{ChainState, ChainStatus};
use catena_model::{NodeName, PathId};
use std::collections::BTreeSet;

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
    let classified = current.ledger.classified(chain);
    let waiting_state = waiting_state(current, inventory, &classified);
    let path = classified.first().map(|(id, _)| *id);
    let status = |state, reason: String| ChainStatus { chain, state, reason, path };
    let Some(declared) = intent.chains.get(&chain) else {
        return status(waiting_state, "the chain is being removed".into());
    };
    let graphs = Graphs::with_slices(intent, current.slices.places());
    let seed = current.ledger.choice_seed;
    let roads = Roads::new(&current.ledger.cables, inventory, seed, Atlas::default());
    let ledger = (&*current.ledger, &roads);
    let ways = match render_routed((intent, inventory, &graphs), ledger, declared) {
        Ok(ways) => ways,
        Err(missing) if path.is_some() => return status(ChainState::Degraded, missing),
        Err(missing) => return status(waiting_state, missing),
    };
    let is_declared = classified.len() == ways.len()
        && classified
            .iter()
            .zip(&ways)
            .all(|((id, path), way)| way.is_carried_by(path) && way.is_entered_as(*id, path));
    if !is_declared {
        if let Some(reason) = held_up(ledger, (intent, inventory, &graphs), chain) {
            return status(waiting_state, reason);
        }
        return status(waiting_state, install_reason(current, inventory, chain));
    }
    match lagging(current, inventory, &classified) {
        Some((_, node)) => status(waiting_state, node_reason(inventory, &node)),
        None => {
            let ledger = &current.ledger;
            let paths = classified.iter();
            let mut unwritten =
                paths.filter_map(|(_, path)| why_unwritten(ledger, inventory, path));
            match unwritten.next() {
                Some(why) => status(ChainState::Degraded, why),
                None => status(ChainState::Active, absence(inventory, &classified)),
            }
        }
    }
}

/// Does nothing declared stand in the way of a chain, so that it comes into force by waiting alone?
#[must_use]
pub fn can_be_laid(
    current: &Blueprint,
    intent: &Intent,
    inventory: &Inventory,
    chain: ChainId,
) -> bool {
    let Some(declared) = intent.chains.get(&chain) else { return false };
    let graphs = Graphs::with_slices(intent, current.slices.places());
    let seed = current.ledger.choice_seed;
    let roads = Roads::new(&current.ledger.cables, inventory, seed, Atlas::default());
    let ledger = (&*current.ledger, &roads);
    render_routed((intent, inventory, &graphs), ledger, declared).is_ok()
        && held_up(ledger, (intent, inventory, &graphs), chain).is_none()
}

/// Which other chain of its graph a chain waits for, and why.
fn held_up(
    ledger: (&Ledger, &Roads<'_>),
    (intent, inventory, graphs): (&Intent, &Inventory, &Graphs<'_>),
    chain: ChainId,
) -> Option<String> {
    let groups = groups(ledger.0, graphs, &BTreeSet::from([chain]));
    let group = groups.into_iter().find(|group| group.contains(&chain))?;
    let others = group.into_iter().filter(|other| *other != chain);
    let mut others = others.filter_map(|id| intent.chains.get(&id));
    others.find_map(|other| {
        let is_carried = graphs.is_entered(other);
        let ways = render_routed((intent, inventory, graphs), ledger, other);
        let why = ways.err().filter(|_| is_carried)?;
        Some(format!("it turns together with chain '{}', and {why}", other.name()))
    })
}

type InUse<'p> = [(PathId, &'p PathRecord)];

/// The first node that does not run what one of the paths needs.
fn lagging<'p>(
    current: &Blueprint,
    inventory: &Inventory,
    paths: &InUse<'p>,
) -> Option<(&'p PathRecord, NodeName)> {
    paths.iter().find_map(|(_, path)| Some((*path, current.lagging(inventory, path)?)))
}

/// Have all nodes concerned dropped the rules of a chain that is no longer declared, or has none?
#[must_use]
pub fn is_withdrawn(current: &Blueprint, inventory: &Inventory, chain: ChainId) -> bool {
    current
        .ledger
        .paths
        .of_chain(chain)
        .all(|(_, path)| path.phase == PathPhase::Superseded && current.is_running(inventory, path))
}

/// What a former path waits for until nodes forget it.
#[must_use]
pub fn drain_reason(
    current: &Blueprint,
    inventory: &Inventory,
    id: PathId,
    path: &PathRecord,
) -> String {
    if let Some(node) = current.lagging(inventory, path) {
        return may_still_send(&node_reason(inventory, &node));
    }
    if current.ledger.is_pinned(id) {
        let bound_s = PIN_WAIT_MAX.as_secs();
        return format!("flows that began on it end there, or move after {bound_s} s");
    }
    packets_inside()
}

/// Why a former path is still there whose classifiers have not all turned away.
pub(crate) fn may_still_send(node: &str) -> String {
    format!("{node}: it may still send into it")
}

/// Why one is whose classifiers have.
pub(crate) fn packets_inside() -> String {
    let bound_s = DRAIN_WAIT_MAX.as_secs();
    format!("packets are inside functions or between nodes; they count as lost after {bound_s} s")
}

/// What a chain is that is not known to be in force everywhere as it is declared.
fn waiting_state(current: &Blueprint, inventory: &Inventory, paths: &InUse<'_>) -> ChainState {
    let Some((_, first)) = paths.first() else { return ChainState::Building };
    match lagging(current, inventory, paths) {
        // Every node of the path knew it before the classifiers turned: this one has lost it.
        Some((path, node)) if !path.is_classified_by(&node) && !path.holders.contains(&node) => {
            ChainState::Degraded
        }
        Some(_) if !first.is_update => ChainState::Building,
        _ => ChainState::Updating,
    }
}

/// A node that is away goes on with its program; people should know all the same.
fn absence(inventory: &Inventory, paths: &InUse<'_>) -> String {
    let is_away =
        |node: &NodeName| inventory.nodes.get(node).is_some_and(|facts| !facts.is_connected);
    let mut nodes = paths.iter().flat_map(|(_, path)| path.nodes(inventory.nodes.keys()));
    match nodes.find(is_away) {
        Some(node) => format!("node '{node}' is not connected: it goes on with its last program"),
        None => String::new(),
    }
}

fn install_reason(current: &Blueprint, inventory: &Inventory, chain: ChainId) -> String {
    let is_installed = |(_, path): &(PathId, &PathRecord)| path.phase == PathPhase::Installed;
    let installed: Vec<_> = current.ledger.current(chain).filter(is_installed).collect();
    if installed.is_empty() {
        return "no path identifier is free, or the planner has not run yet".into();
    }
    match lagging(current, inventory, &installed) {
        Some((_, node)) => node_reason(inventory, &node),
        None => {
            let mut reasons = installed
                .iter()
                .filter_map(|(_, path)| why_unready(&current.ledger, inventory, path));
            let about_to = || "every node knows the path; the classifiers are about to turn".into();
            reasons.next().unwrap_or_else(about_to)
        }
    }
}

pub(crate) fn node_reason(inventory: &Inventory, node: &NodeName) -> String {
    match inventory.facts(node) {
        None => format!("node '{node}' has never connected"),
        Some(facts) if !facts.is_connected => format!("node '{node}' is not connected"),
        Some(facts) => match &facts.refusal {
            Some(reason) => format!("node '{node}' refused its program: {reason}"),
            None => format!("node '{node}' has not acknowledged its program yet"),
        },
    }
}
