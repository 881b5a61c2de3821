//! Whether a chain over segments of IPv6 has all that its packets need: a place in the IPv6 underlay for every node
//! that they leave or come to, and room for their headers; with telemetry, nodes that write it, and one header for the
//! whole way. Refuses to know ways in the underlay.

use crate::devices::Devices;
use crate::intent::Intent;
use crate::inventory::{Inventory, NodeFacts};
use crate::render::Rendering;
use crate::sends::Sending;
use catena_model::NodeName;
use catena_model::id::PortId;
use catena_model::limits::SEGMENTS_MAX;
use catena_model::program::{Balance, HopEntry, HopKind, Locator, RulePlace, SegmentPlace};
use catena_model::resource::Encapsulation;
use catena_model::source_route::behind;
use catena_model::telemetry::DeviceId;
use std::collections::{BTreeMap, BTreeSet};

/// Have the nodes that these packets leave and come to a place in the IPv6 underlay, which headers of this
/// encapsulation name? Where they may leave any host, each answers for its own: who has no place ends them by name.
///
/// # Errors
/// Which has none, and what to do.
pub(crate) fn check(
    inventory: &Inventory,
    by: Encapsulation,
    sends: &BTreeSet<(PortId, Sending)>,
) -> Result<(), String> {
    for (_, send) in sends {
        let nodes = send.from.iter().chain([&send.to]);
        nodes.into_iter().try_for_each(|node| placed(inventory, by, node))?;
    }
    if by.is_compressed() {
        let led_to: BTreeSet<&NodeName> = sends.iter().map(|(_, send)| &send.to).collect();
        check_blocks(inventory, &led_to)?;
    }
    Ok(())
}

/// Have these nodes identifiers of one block, by which containers name them?
fn check_blocks(inventory: &Inventory, nodes: &BTreeSet<&NodeName>) -> Result<(), String> {
    let or_else = "or give the chain another encapsulation";
    let places = nodes.iter().filter_map(|node| Some((*node, inventory.facts(node)?.segments?)));
    let mut first: Option<(&NodeName, Locator)> = None;
    for (node, SegmentPlace { locator, .. }) in places {
        let (block, identifier) = locator.compressed();
        if identifier == 0 {
            return Err(format!(
                "locator {locator} of node '{node}' has 0 for its last 16 bits, which ends a list of identifiers of 16 \
                 bits (RFC 9800): start its agent with another one, {or_else}"
            ));
        }
        let (other, others) = *first.get_or_insert((node, locator));
        if others.compressed().0 != block {
            return Err(format!(
                "locators {others} of node '{other}' and {locator} of node '{node}' differ in their first 32 bits, which \
                 one address that names both has but once (RFC 9800): start the agents with locators of one block, \
                 {or_else}"
            ));
        }
    }
    Ok(())
}

fn placed(inventory: &Inventory, by: Encapsulation, node: &NodeName) -> Result<(), String> {
    match inventory.facts(node) {
        None => Err(format!("node '{node}' has never connected")),
        Some(facts) if facts.segments.is_none() => Err(format!(
            "node '{node}' has no place in the IPv6 underlay: start its agent with --underlay6 ADDRESS and \
             --locator PREFIX/48, or give the chain another encapsulation"
        )),
        Some(facts) if !facts.knows_locators() => Err(format!(
            "node '{node}' runs a version that knows no segments, by what it said last; bring it up to date"
        )),
        Some(facts) if facts.protocol < by.capabilities().since_protocol => Err(format!(
            "node '{node}' runs a version that knows no {}, by what it said last; bring it up to date",
            by.name()
        )),
        Some(_) => Ok(()),
    }
}

/// Can all nodes on a way write of its packets, and does one header lead over all of it?
///
/// # Errors
/// What stands in the way, and what to do.
pub(crate) fn check_records(
    (inventory, devices): (&Inventory, &Devices),
    way: &Rendering,
    sends: &BTreeSet<(PortId, Sending)>,
) -> Result<(), String> {
    let or_else = "or take the chain's telemetry away ('telemetry': null)";
    if let Some(why) = uncovered(&way.hops) {
        return Err(format!(
            "telemetry goes to the last function in one header, and {why}, {or_else}"
        ));
    }
    let mut numbered: BTreeMap<DeviceId, &NodeName> = BTreeMap::new();
    let nodes: BTreeSet<&NodeName> =
        sends.iter().flat_map(|(_, send)| send.from.iter().chain([&send.to])).collect();
    for node in nodes {
        if !inventory.facts(node).is_some_and(NodeFacts::knows_telemetry) {
            return Err(format!(
                "node '{node}' runs a version that knows no telemetry, by what it said last; bring it up to date, \
                 {or_else}"
            ));
        }
        let Some(device) = devices.of(node) else {
            return Err(format!(
                "node '{node}' has no number in telemetry: {} are given, and {} of nodes that have gone rest for a \
                 time; wait until one is free, {or_else}",
                devices.given().count(),
                devices.resting()
            ));
        };
        if let Some(other) = numbered.insert(device, node) {
            return Err(format!(
                "node '{other}' and node '{node}' have one number in telemetry, {device}; start the agent of one of them \
                 without --locator, and with it again when that is active, {or_else}"
            ));
        }
    }
    Ok(())
}

/// Why one header does not lead from the first function of a way to the last, and what to do; none: it does.
fn uncovered(hops: &[HopEntry]) -> Option<String> {
    let is_passed = |hop: &HopEntry| hop.kind == HopKind::Through;
    let Some(first) = hops.iter().position(is_passed) else {
        return Some("packets pass no function: give it one".into());
    };
    let reached = behind(hops, first).last().unwrap_or(first);
    let next = hops.iter().skip(reached + 1).find(|hop| is_passed(hop))?;
    let last = hops.get(reached)?;
    Some(match (&last.rewrites, &next.balance) {
        (Some(_), _) => format!(
            "function '{}' rewrites by what flows are known, so another leads on from it: let it be the last",
            last.name
        ),
        (None, Balance::Fields(_)) if next.instances.len() > 1 => format!(
            "function '{}' chooses among its instances by other fields than flows are known by, so another leads to \
             it: let it have one instance, or choose by flows",
            next.name
        ),
        (None, _) => format!(
            "ways to function '{}' are too many, so another leads to it: use fewer functions, or fewer instances",
            next.name
        ),
    })
}

/// Do packets of a chain's network fit the underlay with the longest header that these packets get?
///
/// # Errors
/// How many bytes they are, and which MTU would do.
pub(crate) fn check_lengths(
    (intent, inventory): (&Intent, &Inventory),
    way: &Rendering,
    sends: &BTreeSet<(PortId, Sending)>,
) -> Result<(), String> {
    let ports = way.hops.iter().flat_map(|hop| &hop.instances);
    let ports = ports.flat_map(|one| [one.ingress, one.egress]);
    let entered = way.rules.iter().filter_map(|placed| match placed.rule.matches.place {
        RulePlace::Port(port) => Some(port),
        _ => None,
    });
    let networks = ports.chain(entered).filter_map(|port| Some(intent.ports.get(&port)?.network));
    let networks = networks.chain([way.destination]).filter_map(|id| intent.networks.get(&id));
    let Some(network) = networks.max_by_key(|network| network.mtu) else { return Ok(()) };
    let ports = sends.iter().map(|(port, _)| *port);
    let Some(segments) = segments_max(&way.hops, ports, way.telemetry.is_some()) else {
        return Ok(());
    };
    if segments > SEGMENTS_MAX {
        return Err(format!(
            "its packets need a header of {segments} segments, which has room for {SEGMENTS_MAX}: use fewer functions, \
             or fewer segments on the way to them ('via')"
        ));
    }
    let nodes = way.hops.iter().flat_map(|hop| &hop.instances).map(|one| &one.node);
    let origins = sends.iter().flat_map(|(_, send)| send.origins(inventory.nodes.keys()));
    let facts = nodes.chain(origins).filter_map(|node| inventory.facts(node));
    let Some(carries) = facts.map(|facts| facts.underlay.mtu).min() else { return Ok(()) };
    // Of a frame that is carried whole, its Ethernet header too.
    let added = match way.telemetry {
        Some(_) => way.encapsulation.recorded_bytes(segments),
        None => way.encapsulation.segmented_bytes(segments),
    };
    let (tenants, carries) = (usize::from(network.mtu), usize::from(carries));
    if tenants + added <= carries {
        return Ok(());
    }
    Err(format!(
        "a packet of {tenants} bytes, which network '{}' lets tenants send, has {} bytes with a header of {segments} \
         segments, and the underlay takes {carries}: give the network an MTU of {}, or the underlay one of {}",
        network.name(),
        tenants + added,
        carries.saturating_sub(added),
        tenants + added
    ))
}

/// The most segments of a header of a way on which nodes send to the functions behind these ports. None: they send to
/// none.
pub(crate) fn segments_max(
    hops: &[HopEntry],
    ports: impl Iterator<Item = PortId>,
    has_records: bool,
) -> Option<usize> {
    // With records the node that packets enter at is a hop of its own where it serves the first function.
    let first = hops.iter().find(|hop| hop.kind == HopKind::Through);
    let first = first.filter(|_| has_records).into_iter().flat_map(|hop| &hop.instances);
    let ports = ports.chain(first.map(|one| one.ingress));
    ports.filter_map(|port| segments_towards(hops, port)).max()
}

/// The most segments of a header to the function behind a port: of this node, of those of the functions behind that are
/// on another than the one before, and those of others on the way. None: no function is there.
pub(crate) fn segments_towards(hops: &[HopEntry], port: PortId) -> Option<usize> {
    let is_it = |hop: &HopEntry| hop.instances.iter().any(|one| one.ingress == port);
    let place = hops.iter().position(is_it)?;
    let nodes = |place: usize| -> BTreeSet<&NodeName> {
        hops.get(place).into_iter().flat_map(|hop| &hop.instances).map(|one| &one.node).collect()
    };
    let via = |place: usize| hops.get(place).map_or(0, |hop| hop.via.len());
    let (mut last, mut segments) = (nodes(place), 1 + via(place));
    for next in behind(hops, place) {
        let here = nodes(next);
        // Where both are on one node, and on no other, they are one segment.
        segments += usize::from(here.len() > 1 || last != here) + via(next);
        last = here;
    }
    Some(segments)
}
