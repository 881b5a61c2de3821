//! Whether a chain over segments of IPv6 has all that its packets need: a place in the IPv6 underlay for every node
//! that they leave or come to, and room for their headers. Refuses to know ways in the underlay.

use crate::intent::Intent;
use crate::inventory::Inventory;
use crate::render::Rendering;
use crate::sends::Sending;
use catena_model::NodeName;
use catena_model::id::PortId;
use catena_model::program::{HopEntry, RulePlace};
use catena_model::source_route::behind;
use std::collections::BTreeSet;

/// Have the nodes that these packets leave and come to a place in the IPv6 underlay? Where they may leave any host,
/// each answers for its own: who has no place ends them by name.
///
/// # Errors
/// Which has none, and what to do.
pub(crate) fn check(
    inventory: &Inventory,
    sends: &BTreeSet<(PortId, Sending)>,
) -> Result<(), String> {
    for (_, send) in sends {
        let nodes = send.from.iter().chain([&send.to]);
        nodes.into_iter().try_for_each(|node| placed(inventory, node))?;
    }
    Ok(())
}

fn placed(inventory: &Inventory, node: &NodeName) -> Result<(), String> {
    match inventory.facts(node) {
        None => Err(format!("node '{node}' has never connected")),
        Some(facts) if facts.segments.is_none() => Err(format!(
            "node '{node}' has no place in the IPv6 underlay: start its agent with --underlay6 ADDRESS and \
             --locator PREFIX/48, or give the chain another encapsulation"
        )),
        Some(facts) if !facts.knows_locators() => Err(format!(
            "node '{node}' runs a version that knows no segments, by what it said last; bring it up to date"
        )),
        Some(_) => Ok(()),
    }
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
    let lengths = sends.iter().filter_map(|(port, _)| segments_towards(&way.hops, *port));
    let Some(segments) = lengths.max() else { return Ok(()) };
    let nodes = way.hops.iter().flat_map(|hop| &hop.instances).map(|one| &one.node);
    let origins = sends.iter().flat_map(|(_, send)| send.origins(inventory.nodes.keys()));
    let facts = nodes.chain(origins).filter_map(|node| inventory.facts(node));
    let Some(carries) = facts.map(|facts| facts.underlay.mtu).min() else { return Ok(()) };
    // Of a frame that is carried whole, its Ethernet header too.
    let added = way.encapsulation.segmented_bytes(segments);
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

/// The most segments of a header to the function behind a port: of this node, and of those of the functions behind
/// that are on another than the one before. None: no function is there.
pub(crate) fn segments_towards(hops: &[HopEntry], port: PortId) -> Option<usize> {
    let is_it = |hop: &HopEntry| hop.instances.iter().any(|one| one.ingress == port);
    let place = hops.iter().position(is_it)?;
    let nodes = |place: usize| -> BTreeSet<&NodeName> {
        hops.get(place).into_iter().flat_map(|hop| &hop.instances).map(|one| &one.node).collect()
    };
    let (mut last, mut segments) = (nodes(place), 1);
    for next in behind(hops, place) {
        let here = nodes(next);
        // Where both are on one node, and on no other, they are one segment.
        segments += usize::from(here.len() > 1 || last != here);
        last = here;
    }
    Some(segments)
}
