//! Tunnels between nodes: one for the ordinary traffic of tenant networks, one for each encapsulation.

use crate::encapsulation::{Carriage, Encapsulation};
use catena_wire::ports;
use serde::{Deserialize, Serialize};

/// A kind of tunnel between nodes: over a UDP port of its own, or by segments of IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "&'static str", try_from = "String")]
pub enum TunnelKind {
    /// Ordinary traffic of a tenant network (RFC 7348).
    Vxlan,
    /// Packets on their paths.
    Path(Encapsulation),
}

impl TunnelKind {
    /// Every kind that has a UDP port.
    pub const ALL: [Self; 1 + Encapsulation::TUNNELLED.len()] = {
        let mut all = [Self::Vxlan; 1 + Encapsulation::TUNNELLED.len()];
        let mut number = 0;
        while number < Encapsulation::TUNNELLED.len() {
            all[number + 1] = Self::Path(Encapsulation::TUNNELLED[number]);
            number += 1;
        }
        all
    };

    /// Packets by segments, before it is known what is inside.
    pub const SEGMENTS: Self = Self::Path(Encapsulation::Srv6);

    /// The name in messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Vxlan => "vxlan",
            Self::Path(encapsulation) => match encapsulation.capabilities().carriage {
                Carriage::Tunnel(name, _) => name,
                Carriage::Links(_) | Carriage::Segments => encapsulation.name(),
            },
        }
    }

    /// Do its packets travel by the segments that stand in them, and not over UDP?
    #[must_use]
    pub const fn is_segmented(self) -> bool {
        matches!(self, Self::Path(encapsulation) if encapsulation.is_segmented())
    }

    /// The UDP destination port, registered with IANA; 0, which is nobody's, where none carries it.
    #[must_use]
    pub const fn udp_port(self) -> u16 {
        match self {
            Self::Vxlan => ports::VXLAN,
            Self::Path(encapsulation) => match encapsulation.capabilities().carriage {
                Carriage::Tunnel(_, port) => port,
                Carriage::Links(_) | Carriage::Segments => 0,
            },
        }
    }

    /// The kind with this UDP destination port.
    #[must_use]
    pub fn of_udp_port(port: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.udp_port() == port)
    }
}

impl From<TunnelKind> for &'static str {
    fn from(kind: TunnelKind) -> Self {
        kind.name()
    }
}

impl TryFrom<String> for TunnelKind {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let segmented = Encapsulation::ALL.into_iter().filter(|one| one.is_segmented());
        let all = Self::ALL.into_iter().chain(segmented.map(Self::Path));
        let found = all.into_iter().find(|kind| kind.name() == name);
        found.ok_or_else(|| format!("'{name}' is no tunnel between nodes"))
    }
}
