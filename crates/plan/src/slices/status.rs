//! Whether a slice carries traffic, and if not, what is missing.

use super::book::{SlicePath, SlicePhase};
use crate::blueprint::Blueprint;
use crate::inventory::Inventory;
use crate::routing::is_routed;
use crate::status::{may_still_send, node_reason, packets_inside};
use catena_model::id::SliceId;
use catena_model::preview::SlicesDraining;
use catena_model::program::SliceEntry;
use catena_model::slice::{Slice, SliceStatus};
use catena_model::status::ChainState;
use catena_model::{BlueprintNumber, NodeName, PathId};

/// State of a slice under the current blueprint. It is `active` only when every node concerned has
/// acknowledged it as it is declared now.
#[must_use]
pub fn slice_status(current: &Blueprint, inventory: &Inventory, slice: &Slice) -> SliceStatus {
    let book = &current.slices;
    let ways = book.ways(slice.id);
    let status = |state, reason: String| SliceStatus { state, reason, path: ways.classified };
    let waiting =
        if ways.classified.is_some() { ChainState::Updating } else { ChainState::Building };
    let as_declared = ways.classified.and_then(|id| {
        let path = book.paths.get(&id)?;
        is_as_declared(current, slice, id, path).then_some(path)
    });
    match as_declared {
        Some(path) => match lagging(current, inventory, path.at.as_ref(), path.since) {
            None => status(ChainState::Active, String::new()),
            Some(node) => status(waiting, node_reason(inventory, &node)),
        },
        None => status(waiting, what_is_missing(current, inventory, slice, ways.installed)),
    }
}

fn is_as_declared(current: &Blueprint, slice: &Slice, id: PathId, path: &SlicePath) -> bool {
    let entry = current.slices.entries.get(&slice.id);
    let target = current.slices.wanted.targets.get(&slice.chain);
    path.chain == slice.chain
        && target == Some(&path.like)
        && path.carries_metadata == slice.carries_metadata
        && entry.is_some_and(|entry| **entry == SliceEntry::of(slice, id))
}

fn what_is_missing(
    current: &Blueprint,
    inventory: &Inventory,
    slice: &Slice,
    installed: Option<PathId>,
) -> String {
    let Some(target) = current.slices.wanted.targets.get(&slice.chain) else {
        return "its chain has no path yet".into();
    };
    if let Some(path) = installed.and_then(|id| current.slices.paths.get(&id)) {
        let record = current.ledger.paths.get(&path.like);
        let hops = record.map(crate::PathRecord::hop_nodes).unwrap_or_default();
        let lags = |node: &&NodeName| !inventory.has_acknowledged(node, path.since);
        return match hops.iter().find(lags) {
            Some(node) => node_reason(inventory, node),
            None => "the nodes of its hops know its path; the classifiers are about to turn".into(),
        };
    }
    let record = current.ledger.paths.get(target);
    match record.and_then(|record| current.lagging(inventory, record)) {
        Some(node) => node_reason(inventory, &node),
        None if record.is_some_and(|record| !is_routed(&current.ledger, inventory, record)) => {
            "no way over links leads from where it begins to a function of its chain: the chain's state says \
             which; 'catena link list' shows what was found"
                .into()
        }
        None => "its port is not bound, or the planner has not run yet".into(),
    }
}

/// Have all nodes concerned dropped a slice that is no longer declared?
#[must_use]
pub fn is_slice_withdrawn(current: &Blueprint, inventory: &Inventory, slice: SliceId) -> bool {
    let ways = current.slices.ways(slice);
    if ways.installed.is_some() || ways.classified.is_some() {
        return false;
    }
    // Who waits for one waits for those that were turned away from beside it, too.
    let mut superseded =
        current.slices.cohorts().filter(|((phase, ..), _)| *phase == SlicePhase::Superseded);
    superseded.all(|((_, since, _, at), _)| {
        let lagging = lagging(current, inventory, at.as_ref(), *since);
        lagging.is_none_or(|node| !inventory.knows(&node))
    })
}

/// The former paths of some slices; none: they are gone.
#[must_use]
pub fn slices_draining(
    current: &Blueprint,
    inventory: &Inventory,
    is_meant: impl Fn(SliceId) -> bool,
) -> Option<SlicesDraining> {
    let book = &current.slices;
    let superseded = book.cohorts().filter(|((phase, ..), _)| *phase == SlicePhase::Superseded);
    let mut draining: Option<SlicesDraining> = None;
    for ((_, since, _, at), paths) in superseded {
        let meant = paths.iter().filter_map(|id| book.paths.get(id)).filter(|p| is_meant(p.slice));
        let count = meant.count() as u64;
        if count > 0 {
            let reason = || match lagging(current, inventory, at.as_ref(), *since) {
                Some(node) => may_still_send(&node_reason(inventory, &node)),
                None => packets_inside(),
            };
            let first = || SlicesDraining { paths: 0, reason: reason() };
            draining.get_or_insert_with(first).paths += count;
        }
    }
    draining
}

/// A node that classifies and has not acknowledged a blueprint.
fn lagging(
    current: &Blueprint,
    inventory: &Inventory,
    at: Option<&NodeName>,
    since: BlueprintNumber,
) -> Option<NodeName> {
    let lags = |node: &&NodeName| !inventory.has_acknowledged(node, since);
    match at {
        Some(node) => Some(node).filter(lags).cloned(),
        None => current.slices.nodes.iter().find(lags).cloned(),
    }
}
