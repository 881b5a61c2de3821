//! What ways take: the longest IP packet that all their cables take, and the detours around them. Knows what nodes
//! told of their links; refuses to know headers, and what else may be in a packet's way.

use crate::cables::{Cables, ToldLinks, far_ends};
use crate::way_detours::DetourBooks;
use crate::ways::WayBooks;
use catena_model::NodeName;
use catena_model::topology::{CableEnd, PortNumber};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The longest IP packet that each link takes, in bytes, as its node told last.
pub type LinkMtus = BTreeMap<NodeName, BTreeMap<PortNumber, u16>>;

/// The same of the ways from one node, by where they end.
pub type NodeMtus = BTreeMap<NodeName, u16>;

/// Those of the ways from every node. One with a link of which nobody told is left out.
pub type MtuBooks = BTreeMap<NodeName, Arc<NodeMtus>>;

/// Of the links that cables are plugged into: what is told now, or was told last.
pub(crate) fn heard(former: &LinkMtus, told: &ToldLinks, cables: &Cables) -> LinkMtus {
    let mut mtus = LinkMtus::new();
    for CableEnd { node, port } in cables.iter().flatten() {
        let links = told.get(node).into_iter().flat_map(|links| links.iter());
        let now = links.filter(|link| link.number == Some(*port)).find_map(|link| link.mtu);
        if let Some(mtu) = now.or_else(|| former.get(node)?.get(port).copied()) {
            mtus.entry(node.clone()).or_default().insert(*port, mtu);
        }
    }
    mtus
}

/// Of all ways.
pub(crate) fn of_ways(
    (ways, detours): (&WayBooks, &DetourBooks),
    cables: &Cables,
    links: &LinkMtus,
) -> MtuBooks {
    let far_ends = far_ends(cables);
    let of_link = |end: &CableEnd| links.get(&end.node)?.get(&end.port).copied();
    let of_cable = |end: &CableEnd| Some(of_link(end)?.min(of_link(far_ends.get(end)?)?));
    let of_way = |from: &NodeName, to: &NodeName, legs: &[CableEnd]| {
        let around = detours.get(from).and_then(|own| own.get(to));
        let around = around.into_iter().flat_map(|way| &way.detours).flat_map(|one| &one.ends);
        let mtus: Option<Vec<u16>> = legs.iter().chain(around).map(of_cable).collect();
        mtus?.into_iter().min()
    };
    let own = |(from, ways): (&NodeName, &Arc<BTreeMap<NodeName, Vec<CableEnd>>>)| {
        let known =
            ways.iter().filter_map(|(to, legs)| Some((to.clone(), of_way(from, to, legs)?)));
        (from.clone(), Arc::new(known.collect::<NodeMtus>()))
    };
    ways.iter().map(own).filter(|(_, own)| !own.is_empty()).collect()
}
