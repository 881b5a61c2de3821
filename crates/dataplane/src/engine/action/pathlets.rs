//! Headers that lead over several functions: one for each combination of instances that flows meet, made when the first
//! packet needs it and kept as long as the tables. Knows the ways between nodes and which instance a flow meets;
//! refuses to know how a header is written.
//!
//! Every node makes the same choice for a flow, so where a header begins all of it can be made. It ends where that is
//! not so any more ([`behind`]), and where it has no room for the next way whole.

use crate::engine::encap::{PathPosition, RouteHeader};
use crate::engine::tables::Tables;
use crate::engine::tables::path::{HopTable, PathTable};
use catena_model::limits::ROUTE_FUNCTIONS_MAX;
use catena_model::program::RouteEntry;
use catena_model::source_route::{JoinedWay, behind};
use catena_wire::frame::FrameView;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Headers that are kept of one path; where one more is needed, those of the path are made anew, and no other's:
/// whoever sends flows to all combinations of his chain delays his own.
const PATH_PATHLETS_MAX: usize = 256;
/// The same of all paths.
const PATHLETS_MAX: usize = 65_536;
/// The instance of a hop behind the last one.
const NONE: u16 = u16::MAX;

/// Where on its path a header begins, and the instances that it leads to, by their places among those of their hops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Combination {
    hop: u16,
    instances: [u16; ROUTE_FUNCTIONS_MAX],
}

/// Those of one engine.
#[derive(Debug, Default)]
pub(crate) struct Pathlets {
    /// By the index of the path with the hops.
    of_path: HashMap<u32, HashMap<Combination, Made>>,
    count: usize,
    /// Headers that were made.
    made: u64,
}

/// A header that was made.
#[derive(Debug)]
struct Made {
    /// No other has it.
    number: u64,
    header: RouteHeader,
}

impl Pathlets {
    /// Other tables are in force: none is used with them.
    pub(crate) fn forget(&mut self) {
        self.of_path.clear();
        self.count = 0;
    }

    /// The header of a packet at a position whose next instance is the one at this place among those of its hop; none:
    /// that of the way there is all there is.
    pub(crate) fn header(
        &mut self,
        (position, instance): (PathPosition, u16),
        (view, flow_hash): (&FrameView, u64),
        tables: &Tables,
    ) -> Option<&RouteHeader> {
        let seed = tables.choice_seed;
        let chosen = |hop: &HopTable| hop.choose_index(hop.hash(view, flow_hash, seed));
        self.combined((position, instance), chosen, tables).map(|made| &made.header)
    }

    /// The same where the flow alone chooses, as it does behind a hop ([`behind`]), with a number that no other header
    /// has.
    pub(crate) fn header_of_flow(
        &mut self,
        (position, instance): (PathPosition, u16),
        flow_hash: u64,
        tables: &Tables,
    ) -> Option<(u64, &RouteHeader)> {
        let chosen = |hop: &HopTable| hop.choose_index(flow_hash);
        let made = self.combined((position, instance), chosen, tables)?;
        Some((made.number, &made.header))
    }

    fn combined(
        &mut self,
        (position, instance): (PathPosition, u16),
        chosen: impl Fn(&HopTable) -> Option<usize>,
        tables: &Tables,
    ) -> Option<&Made> {
        let place = tables.positions.place(position);
        let path = tables.path(place.path);
        if path.encapsulation.route_functions_max() < 2 {
            return None;
        }
        let mut instances = [NONE; ROUTE_FUNCTIONS_MAX];
        instances[0] = instance;
        for (slot, instance) in
            instances[1..].iter_mut().zip(met_behind(path, place.hop.into(), chosen))
        {
            *slot = instance;
        }
        if instances[1] == NONE {
            return None;
        }
        let combination = Combination { hop: place.hop, instances };
        if self.count >= PATHLETS_MAX {
            self.forget();
        }
        let own = self.of_path.entry(place.path).or_default();
        if own.len() >= PATH_PATHLETS_MAX && !own.contains_key(&combination) {
            self.count -= own.len();
            own.clear();
        }
        match own.entry(combination) {
            Entry::Occupied(known) => Some(known.into_mut()),
            Entry::Vacant(room) => {
                let header = made(path, &combination, tables)?;
                self.count += 1;
                self.made += 1;
                Some(room.insert(Made { number: self.made, header }))
            }
        }
    }
}

/// The instances that a flow meets behind a hop, as far as one header may lead.
fn met_behind<'p>(
    path: &'p PathTable,
    hop: usize,
    chosen: impl Fn(&HopTable) -> Option<usize> + 'p,
) -> impl Iterator<Item = u16> + 'p {
    behind(&path.entry.hops, hop).map_while(move |next| {
        let chosen = chosen(path.hops.get(next)?)?;
        u16::try_from(chosen).ok()
    })
}

/// The header that leads to the first of these instances, and on to as many others as it has room for.
fn made(path: &PathTable, combination: &Combination, tables: &Tables) -> Option<RouteHeader> {
    let hops = &path.entry.hops;
    let first = usize::from(combination.hop);
    let places = std::iter::once(first).chain(behind(hops, first));
    let met = places
        .zip(combination.instances)
        .map_while(|(place, instance)| hops.get(place)?.instances.get(usize::from(instance)));
    let mut met = met.peekable();
    // The nodes of the others answer for the links behind them.
    let first = *met.peek()?;
    let route = tables.entries.routes.get(&(first.node.clone(), first.ingress));
    let known = (&tables.node, &tables.entries);
    let number_of = |port| tables.exits.number_of(port);
    let (way, last) = JoinedWay::along(known, met, path.encapsulation, number_of)?;
    let joined = RouteEntry {
        node: last.node.clone(),
        to: last.ingress,
        ports: way.ports,
        detours: way.detours,
        identities: way.identities,
        later_identities: Vec::new(),
        mtu: route.and_then(|route| route.mtu),
    };
    match way.is_cut {
        true => RouteHeader::of_part(path.encapsulation, &joined),
        false => RouteHeader::new(path.encapsulation, &joined),
    }
}
