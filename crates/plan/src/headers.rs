//! The headers of packets on source routes, as edges write them along a path: to which functions each leads, and with
//! which ports. Knows hops, ways and numbers; refuses to know what is in force where.

use crate::borders::{Carried, Part, parts};
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
    /// The edge at which it ends before any of them.
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
        self.header(from, place, to).into_iter().collect()
    }

    /// That to an instance of another node, over as many others as it has room for.
    fn header(
        &self,
        from: &'p NodeName,
        place: usize,
        to: &'p InstanceEntry,
    ) -> Option<Header<'p>> {
        let (ports, detours) = self.leg(from, to)?;
        let books = (&self.ledger.ways, &self.ledger.port_numbers);
        let identities = routing::identities(books, from, &to.node, 0).unwrap_or_default();
        let way = Leg { ports: &ports, detours: &detours, identities: &identities };
        let way = JoinedWay::new(way);
        let mut header = Header { from, to: vec![(place, to, ports.len())], edge: None, way };
        let mut last = to;
        for next in behind(&self.path.hops, place) {
            let joined = self.instance(next).and_then(|instance| {
                self.leads_on(from, last, instance).then_some(())?;
                let (ports, detours) = self.leg(&last.node, instance)?;
                let identities = self.onward_identities(last, instance);
                let leg = Leg { ports: &ports, detours: &detours, identities: &identities };
                let way = header.way.and(leg, self.path.encapsulation)?;
                Some((instance, way))
            });
            let Some((instance, way)) = joined else { break };
            header.to.push((next, instance, way.ports.len()));
            header.way = way;
            last = instance;
        }
        Some(header)
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
