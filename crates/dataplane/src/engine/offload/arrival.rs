//! By what packets come from other nodes, for the kernel. Refuses to know what becomes of them.

use catena_fastpath::Origin;
use catena_model::resource::Encapsulation;

/// What has brought a packet from another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// A tunnel over IPv4.
    Tunnel,
    /// Segments of IPv6.
    Segments,
}

impl Arrival {
    /// That of a key.
    pub(super) fn of(origin: u8) -> Self {
        if origin == Origin::Segments as u8 { Self::Segments } else { Self::Tunnel }
    }

    /// That of the packets of a path.
    pub(super) fn by(encapsulation: Encapsulation) -> Self {
        if encapsulation.is_segmented() { Self::Segments } else { Self::Tunnel }
    }
}
