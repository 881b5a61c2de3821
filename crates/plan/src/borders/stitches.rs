//! Where headers over several functions end between two of them: at switches that were marked as edges, whose headers
//! lead on over functions themselves. From where a header begins it leads as far as it has room, so there are as few
//! as can be. Knows hops, ways and room; refuses to know what is in force where.
//!
//! Nothing hangs on it that an edge writes such a header: until it knows it, and where none of its numbers is left, the
//! one before ends at a function, whose node writes the next.

use super::Cutting;
use crate::inventory::NodeFacts;
use crate::ledger::PathRecord;
use crate::{routing, way_detours};
use catena_model::NodeName;
use catena_model::limits::NODE_PATHS_MAX;
use catena_model::program::{HopKind, InstanceEntry, Pathlet, StitchEntry};
use catena_model::source_route::{self, JoinedWay, behind};
use catena_model::stitch::STITCHES_SINCE_PROTOCOL;
use catena_model::topology::{CableEnd, PortNumber};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Combinations of instances for which edges are asked for headers, from one place on a path where headers begin. As
/// far as there are more, headers end at functions.
const COMBINATIONS_MAX: usize = 8;

/// The stitches that each node knows.
pub type StitchBooks = BTreeMap<NodeName, Arc<BTreeSet<Stitch>>>;

/// Where a header ends, and which follow until one ends at a function.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Stitch {
    /// As the node is told of it.
    #[serde(flatten)]
    pub entry: StitchEntry,
    /// The edges that write these, and the numbers by which they know them.
    pub edges: Vec<(NodeName, PortNumber)>,
}

/// The nodes whose headers may lead to one that an edge writes.
pub(crate) fn holders<'b>(
    books: &'b StitchBooks,
    edge: &NodeName,
    number: PortNumber,
) -> impl Iterator<Item = &'b NodeName> {
    let leads =
        move |stitch: &Stitch| stitch.edges.iter().any(|(at, own)| (at, *own) == (edge, number));
    books.iter().filter(move |(_, own)| own.iter().any(leads)).map(|(node, _)| node)
}

/// The way to a function, of those that headers lead along one behind the other.
struct Leg<'l> {
    from: &'l NodeName,
    to: &'l InstanceEntry,
    place: usize,
    ports: Vec<PortNumber>,
    cables: &'l [CableEnd],
}

/// Where a header begins: at a leg, and there behind so many ports.
type Start = (usize, usize);

/// Where it ends.
#[derive(Clone, Copy)]
enum End {
    Function(usize),
    Edge(Start),
}

impl<'c> Cutting<'c> {
    /// Those of all paths.
    pub(super) fn stitches(&mut self) -> StitchBooks {
        let mut found = BTreeMap::new();
        let ledger = self.ledger;
        if self.inventory.switches.values().any(NodeFacts::writes_headers) {
            // What is one number for a whole way ends where that does.
            let has_ports = |path: &&PathRecord| {
                path.encapsulation.is_source_route() && !path.encapsulation.needs_identities()
            };
            for path in ledger.paths.values().filter(has_ports) {
                self.stitches_of(path, &mut found);
            }
        }
        found.into_iter().map(|(node, own)| (node, Arc::new(own))).collect()
    }

    fn stitches_of(
        &mut self,
        path: &'c PathRecord,
        found: &mut BTreeMap<NodeName, BTreeSet<Stitch>>,
    ) {
        let starts = path.starts(std::iter::empty());
        let mut open: Vec<(&NodeName, usize)> = starts.iter().map(|node| (*node, 0)).collect();
        if path.starts(self.inventory.nodes.keys()).len() > starts.len() {
            // No host is told of all ways of the chain: the nodes of its first function lead on.
            let first = through(path, 0).into_iter().flat_map(|place| {
                path.hops[place].instances.iter().map(move |one| (&one.node, place + 1))
            });
            open.extend(first);
        }
        let mut begun = BTreeSet::new();
        while let Some((writer, from)) = open.pop() {
            let first = through(path, from).filter(|_| begun.insert((writer, from)));
            for met in first.into_iter().flat_map(|first| combinations(path, first)) {
                let local = met.first().filter(|(_, one)| one.node == *writer);
                open.extend(match local {
                    Some((place, one)) => Some((&one.node, place + 1)),
                    None => self.stitches_from(path, (writer, &met), found),
                });
            }
        }
    }

    /// Those of the headers that follow one that a node writes. Answers where one ends at a function.
    fn stitches_from(
        &mut self,
        path: &'c PathRecord,
        (writer, met): (&'c NodeName, &[(usize, &'c InstanceEntry)]),
        found: &mut BTreeMap<NodeName, BTreeSet<Stitch>>,
    ) -> Option<(&'c NodeName, usize)> {
        let legs = self.legs(path, writer, met);
        let (mut start, mut starts) = ((0, 0), Vec::new());
        let last = loop {
            match self.reach(path, &legs, start)? {
                End::Function(leg) => break leg,
                End::Edge(at) => start = at,
            }
            starts.push(start);
        };
        // From the last to the first: none leads to what an edge does not know.
        let (mut behind, mut edges) = (None, Vec::new());
        for (number_of_edges, (leg, at)) in starts.iter().copied().enumerate().rev() {
            let header = self.joined(path, &legs, ((leg, at), last), behind);
            let edge = &legs[leg].cables[at].node;
            let Some(number) = header.and_then(|header| self.number(edge, header).ok()) else {
                break;
            };
            edges.insert(0, (edge.clone(), number));
            behind = Some(((leg, at), edge, number));
            let to = legs[leg..=last].iter().map(|leg| (leg.to.node.clone(), leg.to.ingress));
            let Ok(at) = u8::try_from(at) else { break };
            let from = legs[leg].from;
            let (encapsulation, to) = (path.encapsulation, to.collect());
            let entry = StitchEntry { from: from.clone(), to, encapsulation, at, number };
            let stitch = Stitch { entry, edges: edges.clone() };
            // Who writes the header that ends there; the node of the function before takes what is left of it.
            let first = Some(writer).filter(|_| number_of_edges == 0);
            for holder in first.into_iter().chain([from]) {
                let facts = self.inventory.nodes.get(holder);
                if facts.is_some_and(|facts| facts.protocol >= STITCHES_SINCE_PROTOCOL) {
                    let own = found.entry(holder.clone()).or_default();
                    if own.len() < NODE_PATHS_MAX {
                        own.insert(stitch.clone());
                    }
                }
            }
        }
        let last = legs.get(last)?;
        Some((&last.to.node, last.place + 1))
    }

    /// The ways to these instances, as far as headers of edges may lead along them: these carry no detours, so they do
    /// not where there are any.
    fn legs(
        &self,
        path: &PathRecord,
        writer: &'c NodeName,
        met: &[(usize, &'c InstanceEntry)],
    ) -> Vec<Leg<'c>> {
        let ledger = self.ledger;
        let books = (&ledger.ways, &ledger.port_numbers);
        let keeps = |node| self.inventory.nodes.get(node).is_some_and(NodeFacts::keeps_rests);
        let mut from = writer;
        let leg = |(number, (place, to)): (usize, &(usize, &'c InstanceEntry))| {
            let (at, to) = (std::mem::replace(&mut from, &to.node), *to);
            let ports = routing::ports(books, at, (&to.node, to.ingress))?;
            let cables = ledger.ways.get(at).and_then(|ways| ways.get(&to.node));
            let detours = way_detours::entries(&ledger.detours, at, &to.node);
            let is_bare = !path.encapsulation.carries_detours() || detours.is_empty();
            let cables = cables.map(Vec::as_slice).unwrap_or_default();
            let leg = Leg { from: at, to, place: *place, ports, cables };
            ((number == 0 || keeps(at)) && is_bare).then_some(leg)
        };
        met.iter().enumerate().map_while(leg).collect()
    }

    /// The farthest end of a header that begins here; none: no way leads so far.
    fn reach(&self, path: &PathRecord, legs: &[Leg<'_>], (first, at): Start) -> Option<End> {
        let by = path.encapsulation;
        // As long as any number of an edge: it has none yet.
        let highest = PortNumber::new(u8::MAX - 1)?;
        let (mut way, mut from) = (JoinedWay::default(), at);
        for (place, leg) in legs.iter().enumerate().skip(first) {
            let Some(longer) = way.and(plain(leg.ports.get(from..)?), by) else {
                let has_room = |end: &usize| {
                    let before = leg.ports[from..*end].iter().copied();
                    let before: Vec<PortNumber> = before.chain([highest]).collect();
                    way.and(plain(&before), by).is_some()
                };
                let edge = |end: &usize| {
                    let facts = self.inventory.switches.get(&leg.cables[*end].node);
                    facts.is_some_and(NodeFacts::writes_headers)
                };
                let mut ends = (from + 1..leg.cables.len()).rev();
                let end = ends.find(|end| edge(end) && has_room(end));
                let edge = end.map(|end| End::Edge((place, end)));
                return edge.or((place > first).then(|| End::Function(place - 1)));
            };
            (way, from) = (longer, 0);
        }
        legs.len().checked_sub(1).map(End::Function)
    }

    /// What an edge writes from here to the last of these functions, or up to another edge; none: no header is like
    /// that.
    fn joined(
        &self,
        path: &PathRecord,
        legs: &[Leg<'_>],
        ((first, at), last): (Start, usize),
        behind: Option<(Start, &NodeName, PortNumber)>,
    ) -> Option<Pathlet> {
        let mut ports: Vec<PortNumber> = Vec::new();
        let until = behind.map_or((last, usize::MAX), |(start, ..)| start);
        for (place, leg) in legs.iter().enumerate().take(until.0 + 1).skip(first) {
            let from = if place == first { at } else { 0 };
            let end = if place == until.0 { until.1.min(leg.ports.len()) } else { leg.ports.len() };
            ports.extend(leg.ports.get(from..end)?);
        }
        ports.extend(behind.map(|(.., number)| number));
        if path.encapsulation.fault_of_route(&ports).is_some() {
            return None;
        }
        let (to, last) = (legs.get(first)?.to, legs.get(last)?.to);
        let end = behind.map_or(&last.node, |(_, edge, _)| edge).clone();
        let (node, to, identities) = (to.node.clone(), to.ingress, Vec::new());
        Some(Pathlet { node, to, end, ports, identities })
    }
}

/// A way without detours.
fn plain(ports: &[PortNumber]) -> source_route::Leg<'_> {
    source_route::Leg { ports, detours: &[], identities: &[] }
}

/// The place of the first function that packets pass, from a place on.
fn through(path: &PathRecord, from: usize) -> Option<usize> {
    let mut places =
        (from..path.hops.len()).filter(|place| !path.hops[*place].instances.is_empty());
    places.find(|place| path.hops[*place].kind == HopKind::Through)
}

/// The instances that flows may meet one after the other, with the places of their hops, as far as there are few
/// combinations.
fn combinations(path: &PathRecord, first: usize) -> Vec<Vec<(usize, &InstanceEntry)>> {
    let mut all = vec![Vec::new()];
    for place in std::iter::once(first).chain(behind(&path.hops, first)) {
        let instances = &path.hops[place].instances;
        if all.len() * instances.len() > COMBINATIONS_MAX || instances.is_empty() {
            break;
        }
        let longer = |met: &Vec<(usize, _)>| {
            let on = |one| met.iter().copied().chain([(place, one)]).collect::<Vec<_>>();
            instances.iter().map(on).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(longer).collect();
    }
    all.retain(|met| !met.is_empty());
    all
}
