//! The ways round the cables of ways, as they are remembered: one that leads over cables that are there stays what it
//! is. Knows ways and cables; refuses to know which cables are dead.

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

/// The ways round the cables of the ways from one node, by where those end.
pub type NodeRounds = BTreeMap<NodeName, Rounds>;

/// Those of the ways from every node.
pub type RoundBooks = BTreeMap<NodeName, Arc<NodeRounds>>;

/// The ways round the cables of one way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rounds {
    /// The way, as it was when they were looked for.
    pub over: Vec<CableEnd>,
    /// In the order of the cables that they are for.
    pub rounds: Vec<Round>,
}

/// A way round one cable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Round {
    /// The cable, by its place on the way.
    pub at: usize,
    /// The cable with which the way goes on, by its place; behind the last: at the way's end.
    pub rejoin: usize,
    /// The ports by which a frame leaves the nodes on it, in order.
    pub ends: Vec<CableEnd>,
}

type FarEnds<'f> = BTreeMap<&'f CableEnd, &'f CableEnd>;

impl Round {
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
    books: &mut RoundBooks,
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
        let mut next = NodeRounds::new();
        for (to, legs) in ways.iter() {
            let known = former.and_then(|former| former.get(to));
            let kept = |known: &Rounds| {
                let mut rounds = known.rounds.iter();
                known.over == *legs && rounds.all(|round| round.carries(&far_ends, legs, to))
            };
            let rounds = match known.filter(|known| !has_grown && kept(known)) {
                Some(known) => known.clone(),
                None => {
                    searches += 1;
                    look(known, (from, to), legs, (roads, &far_ends))
                }
            };
            next.insert(to.clone(), rounds);
        }
        if former.is_none_or(|former| **former != next) {
            books.insert(from.clone(), Arc::new(next));
        }
    }
    searches
}

/// The ways round a way, of the former ones those that still are some.
fn look(
    former: Option<&Rounds>,
    (from, to): (&NodeName, &NodeName),
    legs: &[CableEnd],
    (roads, far_ends): (&Roads<'_>, &FarEnds<'_>),
) -> Rounds {
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
            let mut rounds = former.rounds.iter().filter(|_| former.over == legs);
            rounds.find(|one| one.at == place && one.carries(far_ends, legs, to)).cloned()
        });
        // A shorter one is worth a turn.
        let length = |round: &Round| round.ends.len() + legs.len() - round.rejoin;
        let new = Round { at: place, rejoin, ends };
        Some(stays.filter(|stays| length(stays) <= length(&new)).unwrap_or(new))
    });
    Rounds { over: legs.to_vec(), rounds: found.collect() }
}

/// The nodes with a way round that leaves a node by a port.
pub(crate) fn nodes_over<'r>(
    books: &'r RoundBooks,
    end: &'r CableEnd,
) -> impl Iterator<Item = &'r NodeName> {
    let leads_over = move |rounds: &NodeRounds| {
        let mut ends = rounds.values().flat_map(|one| &one.rounds).flat_map(|round| &round.ends);
        ends.any(|other| other == end)
    };
    books.iter().filter(move |(_, rounds)| leads_over(rounds)).map(|(node, _)| node)
}

/// Those that headers from one node to another have room for, cables at the start of the way first.
pub(crate) fn entries(books: &RoundBooks, from: &NodeName, to: &NodeName) -> Vec<DetourEntry> {
    let rounds = books.get(from).and_then(|rounds| rounds.get(to));
    let mut left = ROUTE_DETOUR_BYTES_MAX - NUMBER_BYTES;
    let ports = rounds.map_or(0, |rounds| rounds.over.len() + 1);
    let entries = rounds.into_iter().flat_map(|rounds| &rounds.rounds).filter_map(Round::entry);
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
