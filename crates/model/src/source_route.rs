//! What a program says of source routes: port numbers, ways to ports of other nodes, and what nodes divide
//! numbers of ways by. Knows numbers; refuses to know how a frame carries them.

use crate::entry::Entries;
use crate::id::{NodeName, PortId};
use crate::limits::{
    ROUTE_COMBINATIONS_MAX, ROUTE_DETOUR_BYTES_MAX, ROUTE_FUNCTIONS_MAX, ROUTE_JOINED_BYTES_MAX,
};
use crate::program::{Balance, HopEntry, HopKind, InstanceEntry};
use crate::resource::Encapsulation;
use crate::stitch::StitchEntry;
use crate::topology::PortNumber;
use catena_wire::source_route::native::{DETOUR_BYTES_WITHOUT_PORTS, PortWidth};
use catena_wire::source_route::polka::Degree;
use catena_wire::source_route::polka::residues::Irreducible;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::sync::OnceLock;

use utoipa::ToSchema;

/// Where a frame on a source route goes that names a port number of this node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExitPlace {
    /// Into the cable at this interface of the node.
    // The planner wrote the other word down up to commit a4c6339.
    #[serde(alias = "interface")]
    Link(String),
    /// To a function or an endpoint, by a port of this node.
    Port(PortId),
    /// On along its way under another header, which this node writes: it is a switch that was made an edge.
    Pathlet(Pathlet),
}

/// A header that takes the place of one that ends at an edge between. What has its number has this header, and
/// never another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Pathlet {
    /// The node at which the way comes out in the end.
    pub node: NodeName,
    /// The port that it comes out of there.
    pub to: PortId,
    /// The node at which this header is at its end: that one, or the next edge.
    pub end: NodeName,
    /// The port numbers by which a frame leaves each node from this edge on; the last is that of the port, or by which
    /// the next edge knows the header that it writes.
    pub ports: Vec<PortNumber>,
    /// What the nodes behind this edge divide numbers of ways by, in their order; empty: one of them has nothing.
    #[serde(default)]
    pub identities: Vec<NodeIdentity>,
}

/// Where headers of an encapsulation end, and an edge between writes the next one, because they have no room for the
/// whole of a [`RouteEntry`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BorderEntry {
    /// The node of the route.
    pub node: NodeName,
    /// Its port.
    pub to: PortId,
    /// The encapsulation.
    pub encapsulation: Encapsulation,
    /// How many ports of the route are taken before the edge.
    pub at: u8,
    /// The number by which the edge knows the header that it writes: the last of this one.
    pub number: PortNumber,
}

/// The version of the protocol since which switches write headers, and nodes end theirs at them.
pub const EDGES_SINCE_PROTOCOL: u32 = 11;

/// A port number of source routes. It is never another's while a packet may carry it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitEntry {
    /// The number.
    pub number: PortNumber,
    /// What it stands for.
    pub to: ExitPlace,
}

impl ExitEntry {
    /// The interface, if it is a link.
    #[must_use]
    pub fn link(&self) -> Option<&str> {
        match &self.to {
            ExitPlace::Link(interface) => Some(interface),
            ExitPlace::Port(_) | ExitPlace::Pathlet(_) => None,
        }
    }
}

/// The way from this node to a port of another, over links.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteEntry {
    /// The other node.
    pub node: NodeName,
    /// The port.
    pub to: PortId,
    /// The port numbers by which a frame leaves each node on the way, its own link first; the last is that of
    /// the port.
    pub ports: Vec<PortNumber>,
    /// Ways round the cables on it, for the nodes whose cables they are.
    pub detours: Vec<DetourEntry>,
    /// What the nodes behind the first divide numbers of ways by, in their order; empty: one of them has nothing.
    #[serde(default)]
    pub identities: Vec<NodeIdentity>,
    /// The same in the second pass, in which a header that leads on from a function of this node goes along the route.
    #[serde(default)]
    pub later_identities: Vec<NodeIdentity>,
    /// The longest IP packet that all links on it take, those of its detours among them, in bytes; none: nobody told
    /// of one of them, and they are as the underlay.
    #[serde(default)]
    pub mtu: Option<u16>,
}

impl RouteEntry {
    /// The part of it up to an edge that writes the next header. Detours behind that are the edge's affair.
    #[must_use]
    pub fn up_to(&self, border: &BorderEntry) -> Self {
        let at = usize::from(border.at);
        let taken = self.ports.iter().take(at).copied();
        let is_before = |detour: &&DetourEntry| detour.rejoin <= border.at;
        Self {
            node: self.node.clone(),
            to: self.to,
            ports: taken.chain([border.number]).collect(),
            detours: self.detours.iter().filter(is_before).cloned().collect(),
            identities: self.identities.iter().take(at).copied().collect(),
            // What is left of a header leads along whole routes alone.
            later_identities: Vec::new(),
            mtu: self.mtu,
        }
    }
}

/// The way from another node to a port of a node, for headers that lead over several functions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnwardEntry {
    /// The node where it begins, with a function that packets come from.
    pub from: NodeName,
    /// The node where it ends: it may be the same.
    pub node: NodeName,
    /// The port.
    pub to: PortId,
    /// As those of a [`RouteEntry`].
    pub ports: Vec<PortNumber>,
    /// As those of a [`RouteEntry`].
    pub detours: Vec<DetourEntry>,
    /// What its nodes divide numbers of ways by in the second pass, the one where it begins first; empty: one of them
    /// has nothing, or that one does not begin a pass.
    #[serde(default)]
    pub identities: Vec<NodeIdentity>,
}

/// An irreducible polynomial over GF(2) of degree 16, by which a node of a domain reads its port from the number of a
/// way: its coefficients below t^16.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeIdentity(pub u16);

impl NodeIdentity {
    const DEGREE: u8 = Degree::Sixteen.get();

    /// All that there are, the lowest first.
    #[must_use]
    pub fn all() -> &'static [Self] {
        static ALL: OnceLock<Vec<NodeIdentity>> = OnceLock::new();
        let found = || {
            let all = Irreducible::of_degree(Self::DEGREE.into());
            all.map(|polynomial| Self((polynomial.bits() & 0xffff) as u16)).collect()
        };
        ALL.get_or_init(found)
    }

    /// Its coefficients.
    #[must_use]
    pub const fn bits(self) -> u32 {
        1 << Self::DEGREE | self.0 as u32
    }

    /// The polynomial; none: this one can be divided, and is nobody's.
    #[must_use]
    pub fn polynomial(self) -> Option<Irreducible> {
        Irreducible::new(self.bits())
    }
}

/// What a node divides numbers of ways by in one pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdentityEntry {
    /// The pass.
    pub pass: u8,
    /// The polynomial.
    pub identity: NodeIdentity,
}

/// A way round one cable of a route, which its frames bring with them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DetourEntry {
    /// The port whose cable it is for, by how many ports were taken before.
    pub at: u8,
    /// The port with which the route goes on behind it, counted in the same way.
    pub rejoin: u8,
    /// The port numbers by which a frame leaves the nodes on it, in order.
    pub ports: Vec<PortNumber>,
}

impl DetourEntry {
    /// Bytes that it takes in a header at most, whatever its port numbers are.
    #[must_use]
    pub fn bytes_max(&self) -> usize {
        DETOUR_BYTES_WITHOUT_PORTS + self.ports.len()
    }
}

/// The places of the hops that a header to one of them may lead to behind it, in their order. Behind a function that
/// rewrites, or where something else than the flow chooses among the next one's instances, only the function's own node
/// knows which that is; copies for taps have headers of their own. Where instances are many, so are the ways between
/// them: [`ROUTE_COMBINATIONS_MAX`] in all are known.
pub fn behind(hops: &[HopEntry], place: usize) -> impl Iterator<Item = usize> + '_ {
    let first = hops.get(place).filter(|hop| hop.kind == HopKind::Through);
    let through = hops.iter().enumerate().skip(place + 1);
    let through = through.filter(move |(_, hop)| first.is_some() && hop.kind == HopKind::Through);
    let reached = through.scan((first, 0), |(last, ways), (next, hop)| {
        let goes_on = last.replace(hop).is_some_and(|last| {
            *ways += last.instances.len() * hop.instances.len();
            let by_flow = hop.balance == Balance::Flow || hop.instances.len() == 1;
            last.rewrites.is_none() && by_flow && *ways <= ROUTE_COMBINATIONS_MAX
        });
        goes_on.then_some(next)
    });
    reached.take(ROUTE_FUNCTIONS_MAX - 1)
}

/// The version of the protocol since which a node keeps what is left of a header while one of its functions has the
/// packet. One of before ends a frame that names more than the function.
pub const RESTS_SINCE_PROTOCOL: u32 = 10;

/// The version of the protocol since which a node gives functions that read source routes their header. One of before
/// ends such frames.
pub const GIVES_SINCE_PROTOCOL: u32 = 12;

/// The version of the protocol since which the node of a function begins the next pass with what is left of a number
/// of a way. One of before ends a frame whose number leads on from there.
pub const PASSES_SINCE_PROTOCOL: u32 = 12;

/// A way that stands in a header.
#[derive(Clone, Copy, Debug)]
pub struct Leg<'l> {
    /// The port numbers in their order.
    pub ports: &'l [PortNumber],
    /// Ways round the cables on it.
    pub detours: &'l [DetourEntry],
    /// What the nodes whose ports stand in a number divide it by, in their order and in the pass of this way: all of
    /// a way but the first of a header, whose first node takes its port before. Empty: there is no such number.
    pub identities: &'l [NodeIdentity],
}

impl<'l> Leg<'l> {
    fn of_route(route: &'l RouteEntry) -> Self {
        let RouteEntry { ports, detours, identities, .. } = route;
        Self { ports, detours, identities }
    }
}

/// The ports and detours of a header: of ways that it leads along, one behind the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JoinedWay {
    /// The port numbers in their order.
    pub ports: Vec<PortNumber>,
    /// Ways round the cables on it.
    pub detours: Vec<DetourEntry>,
    /// What the nodes behind the first divide its number by, each in the pass in which it has the frame; empty: there
    /// is no number.
    pub identities: Vec<NodeIdentity>,
    /// How many ways it is made of: to as many functions it leads, but for the last if it ends on the way there.
    pub ways: usize,
    /// It ends at an edge, which writes the next header.
    pub is_cut: bool,
}

impl JoinedWay {
    /// That of one way.
    #[must_use]
    pub fn new(Leg { ports, detours, identities }: Leg<'_>) -> Self {
        let (ports, detours) = (ports.to_vec(), detours.to_vec());
        Self { ports, detours, identities: identities.to_vec(), ways: 1, is_cut: false }
    }

    /// The way from a node to the first of these instances, and on along the ways that it knows to as many others as
    /// a header has room for, and up to an edge on the way to the next, if that writes a header that leads to all that
    /// are to come; with the last instance whose way it holds any of. None: it knows no way to the first. `number_of`:
    /// the number of a port of its own.
    #[must_use]
    pub fn along<'i>(
        (node, entries): (&NodeName, &Entries),
        instances: impl Iterator<Item = &'i InstanceEntry>,
        encapsulation: Encapsulation,
        number_of: impl Fn(PortId) -> Option<PortNumber>,
    ) -> Option<(Self, &'i InstanceEntry)> {
        let met: Vec<&InstanceEntry> = instances.collect();
        let first = *met.first()?;
        let key = (first.node.clone(), first.ingress);
        let route = match entries.headed((&key.0, key.1), encapsulation)? {
            Cow::Borrowed(whole) => whole,
            Cow::Owned(part) => {
                let stitches = entries.stitches(node, &met, encapsulation);
                let whole = Leg::of_route(entries.routes.get(&key)?);
                let over_more = Self::default().up_to_stitch(stitches, whole, encapsulation);
                let at_border = || Self { is_cut: true, ..Self::new(Leg::of_route(&part)) };
                return Some((over_more.map_or_else(at_border, |(_, way)| way), first));
            }
        };
        let mut way = Self::new(Leg::of_route(route));
        for (place, pair) in met.windows(2).enumerate() {
            let &[at, to] = pair else { break };
            let own: [PortNumber; 1];
            let leg = if at.node != *node {
                let onward = entries.onward.get(&(at.node.clone(), to.node.clone(), to.ingress));
                onward.map(|way| {
                    let OnwardEntry { ports, detours, identities, .. } = &**way;
                    Leg { ports, detours, identities }
                })
            } else if to.node == *node {
                let Some(number) = number_of(to.ingress) else { return Some((way, at)) };
                own = [number];
                Some(Leg { ports: &own, detours: &[], identities: &[] })
            } else {
                let route = entries.routes.get(&(to.node.clone(), to.ingress));
                route.map(|route| Leg::of_route(route))
            };
            let Some(leg) = leg else { return Some((way, at)) };
            let Some(longer) = way.and(leg, encapsulation) else {
                let stitches = entries.stitches(&at.node, &met[place + 1..], encapsulation);
                let cut = way.up_to_stitch(stitches, leg, encapsulation);
                return Some(cut.map_or((way, at), |(_, cut)| (cut, to)));
            };
            way = longer;
        }
        Some((way, met.last()?))
    }

    /// Goes on along a part of another way, up to the farthest of these edges that a header has room for the way to;
    /// none: it has for none. Of headers at the same edge that which leads the farthest.
    #[must_use]
    pub fn up_to_stitch<'s>(
        &self,
        stitches: impl Iterator<Item = &'s StitchEntry>,
        Leg { ports, detours, .. }: Leg<'_>,
        encapsulation: Encapsulation,
    ) -> Option<(&'s StitchEntry, Self)> {
        let cut = |stitch: &'s StitchEntry| {
            let before = ports.get(..stitch.at.into())?.iter().copied();
            let before: Vec<PortNumber> = before.chain([stitch.number]).collect();
            let is_before = |detour: &&DetourEntry| detour.rejoin <= stitch.at;
            let detours: Vec<DetourEntry> = detours.iter().filter(is_before).cloned().collect();
            // None ends so that is a number of its own.
            let part = Leg { ports: &before, detours: &detours, identities: &[] };
            let way = self.and(part, encapsulation)?;
            Some((stitch, Self { is_cut: true, ..way }))
        };
        stitches.filter_map(cut).max_by_key(|(stitch, _)| (stitch.at, stitch.to.len()))
    }

    /// Goes on along another way, if a header of this encapsulation has room for all of that; none: it has not. What
    /// one holds, a part of it holds (in `classic-80` if the numbers of functions' ports are even): joining as long as
    /// there is room makes the fewest headers of ways.
    #[must_use]
    pub fn and(&self, leg: Leg<'_>, encapsulation: Encapsulation) -> Option<Self> {
        let Leg { ports, detours, identities } = leg;
        if encapsulation.needs_identities() {
            // A number has one port for each identity.
            let mut new = identities.iter();
            let is_named =
                self.identities.len() + 1 == self.ports.len() && identities.len() == ports.len();
            if !is_named || new.any(|one| self.identities.contains(one)) {
                return None;
            }
        }
        let before = u8::try_from(self.ports.len()).ok()?;
        let later = |place: u8| place.checked_add(before);
        let mut joined = self.clone();
        joined.ports.extend(ports);
        joined.identities.extend(identities);
        // Headers without detours have room for ways whatever their detours are.
        for detour in detours.iter().filter(|_| encapsulation.carries_detours()) {
            let (at, rejoin) = (later(detour.at)?, later(detour.rejoin)?);
            joined.detours.push(DetourEntry { at, rejoin, ports: detour.ports.clone() });
        }
        joined.ways += 1;
        joined.fits(encapsulation).then_some(joined)
    }

    /// Bytes by which a frame is longer with it when so many of its ports were taken before it leaves a node.
    #[must_use]
    pub fn added_bytes(&self, encapsulation: Encapsulation, taken: usize) -> usize {
        match encapsulation.route_bytes_per_port_taken() {
            0 => {
                let around = match encapsulation.carries_detours() {
                    true => detour_bytes(&self.ports, &self.detours),
                    false => 0,
                };
                encapsulation.added_bytes(&self.ports, false) + around
            }
            _ => encapsulation.added_bytes(self.ports.get(taken..).unwrap_or_default(), false),
        }
    }

    fn fits(&self, encapsulation: Encapsulation) -> bool {
        let Self { ports, detours, ways, .. } = self;
        let most = encapsulation.route_functions_max();
        let around = detours.iter().map(DetourEntry::bytes_max).sum::<usize>();
        *ways <= most.min(ROUTE_FUNCTIONS_MAX)
            && encapsulation.fault_of_route(ports).is_none()
            && around < ROUTE_DETOUR_BYTES_MAX
            && self.added_bytes(encapsulation, 0) <= ROUTE_JOINED_BYTES_MAX
    }
}

/// A header of a source route: a pathlet, behind whose last function, or at whose edge, the next is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PathHeader {
    /// The node that writes it.
    pub from: NodeName,
    /// Names of the instances that it leads to, in order.
    pub instances: Vec<String>,
    /// The switch at which it ends, before any instance, and which writes the next one; none: it leads to instances.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edge: Option<NodeName>,
    /// How many port numbers are in it.
    pub ports: usize,
    /// Bytes by which a packet is longer with it.
    pub added_bytes: usize,
}

/// Bytes that ways round dead cables add to the header of a route with these ports, its own ports growing with the
/// widest of theirs.
#[must_use]
pub fn detour_bytes(ports: &[PortNumber], detours: &[DetourEntry]) -> usize {
    if detours.is_empty() {
        return 0;
    }
    let widest = |ports: &mut dyn Iterator<Item = &PortNumber>| {
        PortWidth::for_port(ports.map(|port| port.get()).max().unwrap_or_default()).bits()
    };
    let own = widest(&mut ports.iter());
    let width = widest(&mut ports.iter().chain(detours.iter().flat_map(|detour| &detour.ports)));
    let octets = |count: usize, bits: u8| (count * usize::from(bits)).div_ceil(8);
    let each =
        |detour: &DetourEntry| DETOUR_BYTES_WITHOUT_PORTS + octets(detour.ports.len(), width);
    1 + detours.iter().map(each).sum::<usize>() + octets(ports.len(), width)
        - octets(ports.len(), own)
}
