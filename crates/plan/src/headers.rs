//! The headers of packets on source routes, as edges write them along a path: to which functions each leads, and with
//! which ports. Knows hops, ways and numbers; refuses to know what is in force where.

use crate::borders::{Carried, Part, Stitch, parts};
use crate::inventory::{Inventory, NodeFacts};
use crate::ledger::{Ledger, PathRecord};
use crate::onward::Onward;
use crate::{routing, way_detours};
use catena_model::NodeName;
use catena_model::program::{DetourEntry, HopKind, InstanceEntry, NodeIdentity};
use catena_model::source_route::{JoinedWay, Leg, behind};
use catena_model::status::PathHeader;
use catena_model::topology::PortNumber;
use std::collections::BTreeSet;

/// Combinations of instances that are looked at, of those that flows may meet.
const COMBINATIONS_MAX: usize = 64;

/// A header.
pub(crate) struct Header<'p> {
    /// The node that writes it.
    pub(crate) from: &'p NodeName,
    /// The functions that it leads to: the place of the hop, the instance, and the ports up to it.
    pub(crate) to: Vec<(usize, &'p InstanceEntry, usize)>,
    /// The edge at which it ends, behind the last of them.
    pub(crate) edge: Option<&'p NodeName>,
    pub(crate) way: JoinedWay,
}

/// The headers on a path, copies for taps included, from everywhere that packets enter it at and for the combinations
/// of instances that flows may meet. What has no way has no header.
pub(crate) fn headers<'p>(
    ledger: &Ledger,
    path: &'p PathRecord,
    inventory: &'p Inventory,
) -> Vec<Header<'p>> {
    let mut found = Vec::new();
    for start in path.starts(inventory.nodes.keys()) {
        for met in combinations(path) {
            let walk = Walk { ledger, inventory, path, met: &met };
            found.extend(walk.through(start));
            found.extend(walk.to_taps(start));
        }
    }
    found.sort_by_key(|(place, _)| *place);
    found.into_iter().map(|(_, header)| header).collect()
}

/// A header with the place of the hop that it is for.
type Placed<'p> = (usize, Header<'p>);

/// The headers on a path for people, each once. Where flows may meet many combinations of instances, those of some.
#[must_use]
pub fn path_headers<'p>(
    ledger: &Ledger,
    path: &'p PathRecord,
    inventory: &'p Inventory,
) -> Vec<PathHeader> {
    let mut known = BTreeSet::new();
    let found = headers(ledger, path, inventory);
    let told = found.into_iter().map(|Header { from, to, edge, way }| PathHeader {
        from: from.clone(),
        edge: edge.cloned(),
        instances: to.iter().map(|(_, instance, _)| instance.name.clone()).collect(),
        ports: way.ports.len(),
        added_bytes: way.added_bytes(path.encapsulation, 0),
    });
    told.filter(|one| {
        known.insert((one.from.clone(), one.edge.clone(), one.instances.clone(), one.ports))
    })
    .collect()
}

/// For each, the place of an instance at each hop: every instance is in one at least, as far as there are so many.
fn combinations(path: &PathRecord) -> BTreeSet<Vec<usize>> {
    let counts = || path.hops.iter().map(|hop| hop.instances.len().max(1));
    let side_by_side = |number: usize| counts().map(|count| number % count).collect();
    let most = counts().max().unwrap_or(1);
    let mut all: BTreeSet<Vec<usize>> = (0..most).map(side_by_side).collect();
    let one = |mut number: usize| {
        let digit = |count: usize| {
            let place = number % count;
            number /= count;
            place
        };
        counts().map(digit).collect()
    };
    let every = counts().fold(1_usize, usize::saturating_mul);
    all.extend((0..every.min(COMBINATIONS_MAX)).map(one));
    all
}

/// The way of a flow that meets these instances.
struct Walk<'w, 'p> {
    ledger: &'w Ledger,
    inventory: &'p Inventory,
    path: &'p PathRecord,
    met: &'w [usize],
}

impl<'p> Walk<'_, 'p> {
    fn instance(&self, place: usize) -> Option<&'p InstanceEntry> {
        self.path.hops.get(place)?.instances.get(*self.met.get(place)?)
    }

    fn leg(
        &self,
        from: &NodeName,
        to: &InstanceEntry,
    ) -> Option<(Vec<PortNumber>, Vec<DetourEntry>)> {
        let books = (&self.ledger.ways, &self.ledger.port_numbers);
        let ports = routing::ports(books, from, (&to.node, to.ingress))?;
        Some((ports, way_detours::entries(&self.ledger.detours, from, &to.node)))
    }

    /// What the nodes of the way between two instances divide by, if the first one's begins another pass.
    fn onward_identities(&self, from: &InstanceEntry, to: &InstanceEntry) -> Vec<NodeIdentity> {
        let begins_passes =
            self.inventory.nodes.get(&from.node).is_some_and(NodeFacts::begins_passes);
        let books = (&self.ledger.ways, &self.ledger.port_numbers);
        let found = routing::onward_identities(books, &from.node, &to.node);
        found.filter(|_| begins_passes).unwrap_or_default()
    }

    /// Do headers of a node lead on from an instance to another?
    fn leads_on(&self, holder: &NodeName, from: &InstanceEntry, to: &InstanceEntry) -> bool {
        let way = Onward {
            holder: holder.clone(),
            from: from.node.clone(),
            to: to.node.clone(),
            port: to.ingress,
        };
        let is_kept = self.inventory.nodes.get(&from.node).is_some_and(NodeFacts::keeps_rests);
        let is_known = *holder == from.node || self.ledger.paths.sends().onward().has(&way);
        is_kept && is_known
    }

    fn through(&self, start: &'p NodeName) -> Vec<Placed<'p>> {
        let (mut at, mut place, mut found) = (start, 0, Vec::new());
        while let Some(hop) = self.path.hops.get(place) {
            let is_passed = hop.kind == HopKind::Through;
            let instance = self.instance(place).filter(|one| is_passed && one.node != *at);
            let headers = instance.map(|instance| self.headers(at, place, instance));
            let headers = headers.unwrap_or_default();
            let to = headers.last().and_then(|header| header.to.last()).copied();
            found.extend(headers.into_iter().map(|header| (place, header)));
            if let Some((last, one, _)) = to {
                (place, at) = (last, &one.node);
            } else if let Some(instance) = self.instance(place).filter(|_| is_passed) {
                at = &instance.node;
            }
            place += 1;
        }
        found
    }

    /// Those to an instance of another node: that of the node, and those of edges on the way, where it has not room for
    /// all of that.
    fn headers(&self, from: &'p NodeName, place: usize, to: &'p InstanceEntry) -> Vec<Header<'p>> {
        let by = self.path.encapsulation;
        let way = Carried { from, to: &to.node, port: to.ingress, by };
        let parts = parts(self.ledger, way);
        let Inventory { nodes, switches, .. } = self.inventory;
        let known = |name: &NodeName| {
            let node = nodes.get_key_value(name).or_else(|| switches.get_key_value(name));
            node.map(|(name, _)| name)
        };
        if let [_, ..] = parts.split_last().map(|(_, before)| before).unwrap_or_default() {
            let begun = (from, Vec::new(), JoinedWay::default());
            let over_more = self.leg(from, to).and_then(|(ports, detours)| {
                let leg = Leg { ports: &ports, detours: &detours, identities: &[] };
                self.over_edges(begun, (from, place), leg)
            });
            if let Some(headers) = over_more {
                return headers;
            }
            let header = |part: Part| {
                let edge = known(&part.end).filter(|end| **end != to.node);
                let instance = edge.is_none().then_some((place, to, part.ports.len()));
                let (ports, detours) = (&part.ports, &part.detours);
                let way = JoinedWay::new(Leg { ports, detours, identities: &[] });
                let to = instance.into_iter().collect();
                Some(Header { from: known(&part.from)?, to, edge, way })
            };
            return parts.into_iter().filter_map(header).collect();
        }
        self.joined(from, place, to)
    }

    /// That to an instance of another node, over as many others as it has room for, and those of edges at which one
    /// ends between two of them.
    fn joined(&self, from: &'p NodeName, place: usize, to: &'p InstanceEntry) -> Vec<Header<'p>> {
        let Some((ports, detours)) = self.leg(from, to) else { return Vec::new() };
        let books = (&self.ledger.ways, &self.ledger.port_numbers);
        let identities = routing::identities(books, from, &to.node, 0).unwrap_or_default();
        let leg = Leg { ports: &ports, detours: &detours, identities: &identities };
        let mut way = JoinedWay::new(leg);
        let (mut met, mut last) = (vec![(place, to, ports.len())], to);
        for next in behind(&self.path.hops, place) {
            let instance = self.instance(next).filter(|one| self.leads_on(from, last, one));
            let leg = instance.and_then(|one| Some((one, self.leg(&last.node, one)?)));
            let Some((instance, (ports, detours))) = leg else { break };
            let identities = self.onward_identities(last, instance);
            let leg = Leg { ports: &ports, detours: &detours, identities: &identities };
            let Some(longer) = way.and(leg, self.path.encapsulation) else {
                let begun = (from, met.clone(), way.clone());
                match self.over_edges(begun, (&last.node, next), leg) {
                    Some(headers) => return headers,
                    None => break,
                }
            };
            way = longer;
            met.push((next, instance, way.ports.len()));
            last = instance;
        }
        vec![Header { from, to: met, edge: None, way }]
    }

    /// A header that ends at an edge on the way to the function at this place, and those that follow until one ends
    /// at a function; none: its node knows of no such edge.
    fn over_edges(
        &self,
        (from, met, way): (&'p NodeName, Vec<(usize, &'p InstanceEntry, usize)>, JoinedWay),
        (at, place): (&NodeName, usize),
        leg: Leg<'_>,
    ) -> Option<Vec<Header<'p>>> {
        let by = self.path.encapsulation;
        let places: Vec<usize> =
            std::iter::once(place).chain(behind(&self.path.hops, place)).collect();
        let ahead: Vec<&'p InstanceEntry> =
            places.iter().map_while(|place| self.instance(*place)).collect();
        let known = self.ledger.stitches.get(from)?.iter();
        let leads = |stitch: &&Stitch| {
            stitch.entry.encapsulation == by
                && stitch.entry.from == *at
                && stitch.entry.leads_to(&ahead)
        };
        let known: Vec<&Stitch> = known.filter(leads).collect();
        let entries = known.iter().map(|stitch| &stitch.entry);
        let (entry, way) = way.up_to_stitch(entries, leg, by)?;
        let stitch = known.iter().find(|stitch| stitch.entry == *entry)?;
        let name =
            |edge: &NodeName| self.inventory.switches.get_key_value(edge).map(|(name, _)| name);
        let mut headers = vec![Header { from, to: met, edge: name(&stitch.edges.first()?.0), way }];
        let mut legs = places.into_iter().zip(&ahead).take(entry.to.len()).peekable();
        let mut left = leg.ports.len() - usize::from(entry.at);
        for (place, (edge, number)) in stitch.edges.iter().enumerate() {
            let given = self.ledger.port_numbers.get(edge)?.pathlet_of(*number)?;
            let own = &given.pathlet.ports;
            let (mut taken, mut to) = (0, Vec::new());
            while let Some((hop, instance)) = legs.next_if(|_| taken + left <= own.len()) {
                taken += left;
                to.push((hop, *instance, taken));
                let next = legs.peek().and_then(|(_, next)| self.leg(&instance.node, next));
                left = next.map_or(0, |(ports, _)| ports.len());
            }
            let next = stitch.edges.get(place + 1).and_then(|(edge, _)| name(edge));
            // Up to the next edge, whose number is the last.
            left = left.saturating_sub(next.map_or(0, |_| own.len() - taken - 1));
            let way = JoinedWay::new(Leg { ports: own, detours: &[], identities: &[] });
            headers.push(Header { from: name(edge)?, to, edge: next, way });
        }
        Some(headers)
    }

    fn to_taps(&self, start: &'p NodeName) -> Vec<Placed<'p>> {
        let (mut at, mut found) = (start, Vec::new());
        for (place, hop) in self.path.hops.iter().enumerate() {
            let Some(instance) = self.instance(place) else { continue };
            if hop.kind == HopKind::Through {
                at = &instance.node;
            } else if instance.node != *at {
                let headers = self.headers(at, place, instance).into_iter();
                found.extend(headers.map(|header| (place, header)));
            }
        }
        found
    }
}
