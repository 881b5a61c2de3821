//! Where nodes are: on the data network, and in the IPv6 underlay, where segments name them.

use crate::id::NodeName;
use crate::telemetry::DeviceId;
pub use catena_wire::srv6::Locator;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use utoipa::ToSchema;

/// Nodes of before this version of the protocol know no locators.
pub const LOCATORS_SINCE_PROTOCOL: u32 = 17;
/// Nodes of before this version of the protocol lead packets over no segments of others.
pub const VIA_SINCE_PROTOCOL: u32 = 19;

/// The node's own address on the data network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Underlay {
    /// Source of its tunnels.
    pub address: IpAddr,
    /// Largest IP packet that the data network carries, in bytes.
    pub mtu: u16,
}

impl Default for Underlay {
    /// None yet.
    fn default() -> Self {
        Self { address: Ipv4Addr::UNSPECIFIED.into(), mtu: 0 }
    }
}

/// A node's place in the IPv6 underlay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
pub struct SegmentPlace {
    /// Source of its packets.
    #[schema(value_type = String)]
    pub address: Ipv6Addr,
    /// The prefix below which its segment identifiers are (RFC 8986 section 3.1).
    #[schema(value_type = String)]
    pub locator: Locator,
}

/// A node that segments may name: this one, or another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocatorEntry {
    /// The node.
    pub node: NodeName,
    /// Its place.
    pub place: SegmentPlace,
    /// Its number in telemetry; none: it writes none.
    #[serde(default)]
    pub device: Option<DeviceId>,
}
