//! Segments of others on the way to functions, plain routers among them: which may be named, and that packets visit
//! them whoever they come from. Refuses to know whether somebody answers there.

use crate::error::PlanError;
use crate::intent::Intent;
use crate::inventory::{Inventory, NodeFacts};
use crate::sends::{Starts, writers};
use catena_model::NodeName;
use catena_model::limits::SEGMENTS_MAX;
use catena_model::program::{HopEntry, HopKind, Locator};
use catena_model::resource::{Chain, Encapsulation, ServiceFunction};
use std::collections::BTreeSet;
use std::net::Ipv6Addr;

/// Can packets of a chain visit what it names, as far as the chain alone says?
pub(crate) fn check(intent: &Intent, chain: &Chain) -> Result<(), PlanError> {
    if chain.via.is_empty() {
        return Ok(());
    }
    let visits = |by: &Encapsulation| by.capabilities().visits_others;
    if !visits(&chain.encapsulation) {
        let takers = Encapsulation::ALL.iter().filter(|by| visits(by));
        let takers: Vec<&str> = takers.map(|by| by.name()).collect();
        let (chain, carried) = (chain.name(), chain.encapsulation.name());
        return Err(PlanError::NoWayOverSegments { chain, carried, takers: takers.join(", ") });
    }
    for (id, segments) in &chain.via {
        let function = intent.functions.get(id).filter(|_| chain.functions.contains(id));
        let fault = match function {
            None => Some("it is no function of the chain: leave it out".to_owned()),
            Some(function) if function.is_tap => {
                Some("it gets copies, which take no segments of others: leave it out".to_owned())
            }
            Some(_) => fault_of(segments),
        };
        if let Some(fault) = fault {
            let function = function.map_or_else(|| id.to_string(), ServiceFunction::name);
            return Err(PlanError::BadVia { chain: chain.name(), function, fault });
        }
    }
    Ok(())
}

/// Why nobody could be visited by these; none: somebody might.
fn fault_of(segments: &[Ipv6Addr]) -> Option<String> {
    if segments.is_empty() {
        return Some("it names none: leave the function out".into());
    }
    if segments.len() >= SEGMENTS_MAX {
        return Some(format!(
            "they are {}, and a header has room for {SEGMENTS_MAX} with that of the function: name fewer",
            segments.len()
        ));
    }
    segments.iter().find_map(|segment| {
        let why = Locator::of(*segment).err()?;
        Some(format!("{segment} is of no router: {why}; name one such as 'fc00:0:99::e'"))
    })
}

/// Do packets visit the segments on the way to each function, wherever they come from, and do none of them belong to
/// nodes of ours?
///
/// # Errors
/// What stands in the way, and what to do.
pub(crate) fn check_way(
    inventory: &Inventory,
    hops: &[HopEntry],
    starts: &Starts<'_>,
) -> Result<(), String> {
    let is_led =
        |(_, hop): &(usize, &HopEntry)| hop.kind == HopKind::Through && !hop.via.is_empty();
    for (place, hop) in hops.iter().enumerate().filter(is_led) {
        let origins = writers(hops, place, starts);
        check_origins(inventory, hop, &origins)?;
        check_owners(inventory, hop)?;
    }
    Ok(())
}

/// Whoever is on the node of a function already would come to it past its segments.
fn check_origins(
    inventory: &Inventory,
    hop: &HopEntry,
    origins: &BTreeSet<Option<&NodeName>>,
) -> Result<(), String> {
    let function = &hop.name;
    let is_here = |node: &NodeName| origins.contains(&Some(node)) || origins.contains(&None);
    if let Some(one) = hop.instances.iter().find(|one| is_here(&one.node)) {
        let node = &one.node;
        return Err(format!(
            "packets visit segments on the way to function '{function}' ('via'), and may come to it on node '{node}' \
             without leaving that: put it on another node, or take its segments away"
        ));
    }
    let all = origins.iter().flatten().copied().chain(hop.instances.iter().map(|one| &one.node));
    for node in all {
        if !inventory.facts(node).is_some_and(NodeFacts::knows_via) {
            return Err(format!(
                "node '{node}' runs a version that leads packets over no segments of others ('via'), by what it said \
                 last; bring it up to date"
            ));
        }
    }
    Ok(())
}

/// A node of ours takes what names its locator for a packet of a path.
fn check_owners(inventory: &Inventory, hop: &HopEntry) -> Result<(), String> {
    for segment in &hop.via {
        let locator = Locator::of(*segment).ok();
        let owner = inventory.all().find(|(_, _, facts)| {
            facts
                .segments
                .is_some_and(|place| Some(place.locator) == locator || place.address == *segment)
        });
        if let Some((node, ..)) = owner {
            let function = &hop.name;
            return Err(format!(
                "segment '{segment}' on the way to function '{function}' ('via') is of node '{node}', by its locator or its \
                 address in the underlay, which takes it for another packet: name a segment of somebody else"
            ));
        }
    }
    Ok(())
}
