//! How nodes are plugged together. Knows ends and cables; refuses to know ways along them.

use crate::id::{NodeName, PortId};
use crate::program::{SegmentPlace, Underlay};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::num::NonZeroU8;
use utoipa::ToSchema;
use uuid::Uuid;

/// What a node is for.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum NodeRole {
    /// It has ports of tenants.
    #[default]
    Host,
    /// It forwards between links, and has no tenants.
    Switch,
}

impl NodeRole {
    /// The word for people.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Switch => "switch",
        }
    }
}

/// Where a node is, and what for: what must be known of it while it is away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodePlace {
    /// Its place on the data network.
    #[serde(flatten)]
    pub underlay: Underlay,
    /// What it is for.
    #[serde(default)]
    pub role: NodeRole,
    /// The version of the protocol that it spoke last; 0: nobody has written it down.
    #[serde(default)]
    pub protocol: u32,
    /// Was the switch marked as an edge?
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_edge: bool,
    /// Its place in the IPv6 underlay, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub segments: Option<SegmentPlace>,
}

impl NodePlace {
    /// That of a host, of which nothing is known beside.
    #[must_use]
    pub const fn host(underlay: Underlay) -> Self {
        Self { underlay, role: NodeRole::Host, protocol: 0, is_edge: false, segments: None }
    }
}

/// The number of a node's port in source routes, 1 to 255.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PortNumber(pub NonZeroU8);

impl PortNumber {
    /// The number; none for 0.
    #[must_use]
    pub fn new(number: u8) -> Option<Self> {
        NonZeroU8::new(number).map(Self)
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0.get()
    }

    /// What agent and data plane call the link of this number among the ports of the node. No port that is
    /// declared has such an identity: those are made at random.
    #[must_use]
    pub const fn link_id(self) -> PortId {
        PortId(Uuid::from_u128(LINK_IDS | self.get() as u128))
    }

    /// The number of the link with this identity; none: a port has it.
    #[must_use]
    pub fn of_link(id: PortId) -> Option<Self> {
        let number = u8::try_from(id.0.as_u128() ^ LINK_IDS).ok()?;
        Self::new(number)
    }
}

impl fmt::Display for PortNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What the identities of links have in common: of version 8, which says nothing of how they are made
/// (RFC 9562 section 5.8).
const LINK_IDS: u128 = 0x0aca_7e00_0000_8000_8000_0000_0000_0000;

/// An end of a cable.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
pub struct CableEnd {
    /// The node.
    pub node: NodeName,
    /// Its port.
    #[schema(value_type = u8)]
    pub port: PortNumber,
}

impl fmt::Display for CableEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.node, self.port)
    }
}

/// A cable between two nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cable {
    /// Its ends.
    pub ends: [CableEnd; 2],
    /// Does it carry anything?
    pub is_up: bool,
    /// What it carries, in thousandths of what it could.
    pub load_permille: u16,
}
