//! What a program says of source routes: port numbers, ways to ports of other nodes, and what nodes divide
//! numbers of ways by. Knows numbers; refuses to know how a frame carries them.

use crate::id::{NodeName, PortId};
use crate::topology::PortNumber;
use catena_wire::source_route::native::{DETOUR_BYTES_WITHOUT_PORTS, PortWidth};
use catena_wire::source_route::polka::Degree;
use catena_wire::source_route::polka::residues::Irreducible;
use serde::{Deserialize, Serialize};
use std::sync::OnceLock;

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
}

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
            ExitPlace::Port(_) => None,
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
