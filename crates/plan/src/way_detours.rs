//! The detours around the cables of ways, as they are remembered: one that leads over cables that are there stays what
//! it is. Knows ways and cables; refuses to know which cables are dead.

use crate::cables::{Cables, far_ends};
use crate::route::{Leg, detours};
use crate::ways::{NodeWays, Roads, WayBooks};
use catena_model::NodeName;
use catena_model::limits::{ROUTE_DETOUR_BYTES_MAX, ROUTE_PORTS_MAX};
use catena_model::program::DetourEntry;
use catena_model::topology::CableEnd;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The detours around the cables of the ways from one node, by where those end.
pub type NodeDetours = BTreeMap<NodeName, WayDetours>;

/// Those of the ways from every node.
pub type DetourBooks = BTreeMap<NodeName, Arc<NodeDetours>>;

/// The detours around the cables of one way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WayDetours {
    /// The way, as it was when they were looked for.
    pub over: Vec<CableEnd>,
    /// In the order of the cables that they are for.
    pub detours: Vec<WayDetour>,
}

/// A detour around one cable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WayDetour {
    /// The cable, by its place on the way.
    pub at: usize,
    /// The cable with which the way goes on, by its place; behind the last: at the way's end.
    pub rejoin: usize,
    /// The ports by which a frame leaves the nodes on it, in order.
    pub ends: Vec<CableEnd>,
}

type FarEnds<'f> = BTreeMap<&'f CableEnd, &'f CableEnd>;

impl WayDetour {
    /// Does it lead from its cable's node to where it rejoins, over cables that are there?
    fn carries(&self, far_ends: &FarEnds<'_>, legs: &[CableEnd], end: &NodeName) -> bool {
        let Some(dead) = legs.get(self.at) else { return false };
        let mut at = &dead.node;
        for leg in &self.ends {
            match far_ends.get(leg).filter(|_| leg.node == *at && leg != dead) {
                Some(far) => at = &far.node,
                None => return false,
            }
        }
        at == legs.get(self.rejoin).map_or(end, |leg| &leg.node)
    }

    /// As an entry of a program; none: it is too far along for a header to say.
    fn entry(&self) -> Option<DetourEntry> {
        Some(DetourEntry {
            at: u8::try_from(self.at).ok()?,
            rejoin: u8::try_from(self.rejoin).ok()?,
            ports: self.ends.iter().map(|end| end.port).collect(),
        })
    }
}

/// Brings them to the ways there are. What leads over cables that are there stays; it is looked for anew where a way
/// is another, where a cable of one has gone, and where one may be made by cables that came. Answers of how many ways.
pub(crate) fn follow(
    books: &mut DetourBooks,
    (former_ways, ways): (&WayBooks, &WayBooks),
    roads: &Roads<'_>,
    former_cables: &Cables,
) -> usize {
    let are_same = std::ptr::eq(former_cables, roads.cables());
    let has_grown = !are_same && !roads.cables().is_subset(former_cables);
    let is_same = |node: &NodeName, ways: &Arc<NodeWays>| {
        are_same && former_ways.get(node).is_some_and(|former| Arc::ptr_eq(former, ways))
    };
    let changed: Vec<_> = ways
        .iter()
        .filter(|(node, ways)| !(books.contains_key(*node) && is_same(node, ways)))
        .collect();
    books.retain(|node, _| ways.contains_key(node));
    if changed.is_empty() {
        return 0;
    }
    let far_ends = far_ends(roads.cables());
    let mut searches = 0;
    for (from, ways) in changed {
        let former = books.get(from);
        let mut next = NodeDetours::new();
        for (to, legs) in ways.iter() {
            let known = former.and_then(|former| former.get(to));
            let kept = |known: &WayDetours| {
                let mut detours = known.detours.iter();
                known.over == *legs && detours.all(|detour| detour.carries(&far_ends, legs, to))
            };
            let detours = match known.filter(|known| !has_grown && kept(known)) {
                Some(known) => known.clone(),
                None => {
                    searches += 1;
                    look(known, (from, to), legs, (roads, &far_ends))
                }
            };
            next.insert(to.clone(), detours);
        }
        if former.is_none_or(|former| **former != next) {
            books.insert(from.clone(), Arc::new(next));
        }
    }
    searches
}

/// The detours of a way, of the former ones those that still are some.
fn look(
    former: Option<&WayDetours>,
    (from, to): (&NodeName, &NodeName),
    legs: &[CableEnd],
    (roads, far_ends): (&Roads<'_>, &FarEnds<'_>),
) -> WayDetours {
    let leg = |end: &CableEnd| Leg { node: end.node.clone(), port: end.port, is_function: false };
    let way: Vec<Leg> = legs.iter().map(leg).collect();
    let found = detours(roads.topology(), (&way, to), 0..way.len(), roads.tie(from, to));
    let found = found.into_iter().filter_map(|detour| {
        let mut at = &legs.get(detour.leg)?.node;
        let mut ends = Vec::with_capacity(detour.ports.len());
        for port in detour.ports {
            let end = CableEnd { node: at.clone(), port };
            at = &far_ends.get(&end)?.node;
            ends.push(end);
        }
        let (place, rejoin) = (detour.leg, detour.rejoin);
        let stays = former.and_then(|former| {
            let mut detours = former.detours.iter().filter(|_| former.over == legs);
            detours.find(|one| one.at == place && one.carries(far_ends, legs, to)).cloned()
        });
        // A shorter one is worth a turn.
        let length = |detour: &WayDetour| detour.ends.len() + legs.len() - detour.rejoin;
        let new = WayDetour { at: place, rejoin, ends };
        Some(stays.filter(|stays| length(stays) <= length(&new)).unwrap_or(new))
    });
    WayDetours { over: legs.to_vec(), detours: found.collect() }
}

/// The nodes with a detour that leaves a node by a port.
pub(crate) fn nodes_over<'r>(
    books: &'r DetourBooks,
    end: &'r CableEnd,
) -> impl Iterator<Item = &'r NodeName> {
    let leads_over = move |detours: &NodeDetours| {
        let mut ends =
            detours.values().flat_map(|one| &one.detours).flat_map(|detour| &detour.ends);
        ends.any(|other| other == end)
    };
    books.iter().filter(move |(_, detours)| leads_over(detours)).map(|(node, _)| node)
}

/// Those that headers from one node to another have room for, cables at the start of the way first.
pub(crate) fn entries(books: &DetourBooks, from: &NodeName, to: &NodeName) -> Vec<DetourEntry> {
    let detours = books.get(from).and_then(|detours| detours.get(to));
    let mut left = ROUTE_DETOUR_BYTES_MAX - NUMBER_BYTES;
    let ports = detours.map_or(0, |detours| detours.over.len() + 1);
    let entries =
        detours.into_iter().flat_map(|detours| &detours.detours).filter_map(WayDetour::entry);
    let entries = entries.filter(|entry| ports + entry.ports.len() <= ROUTE_PORTS_MAX);
    let fits = |entry: &DetourEntry| {
        let rest = left.checked_sub(entry_bytes(entry));
        left = rest.unwrap_or(left);
        rest.is_some()
    };
    entries.filter(fits).collect()
}

/// Bytes in which a header says how many it has.
const NUMBER_BYTES: usize = 1;

/// Bytes of a detour in a header, however small its port numbers are.
fn entry_bytes(entry: &DetourEntry) -> usize {
    3 + entry.ports.len()
}
