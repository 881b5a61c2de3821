//! Whether a chain over segments of IPv6 has all that its packets need: a place in the IPv6 underlay for every node
//! that they leave or come to, and room for their headers. Knows headers' lengths; refuses to know ways in the underlay.

use crate::intent::Intent;
use crate::inventory::{Inventory, NodeFacts};
use crate::render::Rendering;
use crate::sends::Sending;
use catena_model::NodeName;
use catena_model::id::PortId;
use catena_model::program::{HopEntry, HopKind};
use std::collections::BTreeSet;

/// Have the nodes that these packets leave and come to a place in the IPv6 underlay?
///
/// # Errors
/// Which has none, and what to do.
pub(crate) fn check(
    inventory: &Inventory,
    sends: &BTreeSet<(PortId, Sending)>,
) -> Result<(), String> {
    for (_, send) in sends {
        let mut nodes = send.origins(inventory.nodes.keys());
        if nodes.is_empty() {
            continue;
        }
        nodes.push(&send.to);
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

/// Do packets of a chain's network fit the underlay with the longest header of its way?
///
/// # Errors
/// How many bytes they are, and which MTU would do.
pub(crate) fn check_lengths(
    intent: &Intent,
    inventory: &Inventory,
    way: &Rendering,
) -> Result<(), String> {
    let Some(network) = intent.networks.get(&way.destination) else { return Ok(()) };
    let segments = segments_max(&way.hops);
    let nodes = way.hops.iter().flat_map(|hop| &hop.instances).map(|one| &one.node);
    let least =
        nodes.filter_map(|node| inventory.facts(node)).min_by_key(|facts| facts.underlay.mtu);
    let Some(NodeFacts { underlay, .. }) = least else { return Ok(()) };
    // Of a frame that is carried whole, its Ethernet header too.
    let added = way.encapsulation.segmented_bytes(segments);
    let (tenants, carries) = (usize::from(network.mtu), usize::from(underlay.mtu));
    if segments == 0 || tenants + added <= carries {
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

/// The most segments of a header on the way: nodes of hops that follow one another, wherever packets enter.
fn segments_max(hops: &[HopEntry]) -> usize {
    let through = hops.iter().filter(|hop| hop.kind == HopKind::Through);
    let nodes = through.map(|hop| {
        let nodes: BTreeSet<&NodeName> = hop.instances.iter().map(|one| &one.node).collect();
        nodes
    });
    let mut last = BTreeSet::new();
    let mut segments = 0;
    for here in nodes {
        // Where both are on one node, and on no other, they are one segment.
        if here.len() > 1 || last != here {
            segments += 1;
        }
        last = here;
    }
    segments
}
