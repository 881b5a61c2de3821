//! Whose account a packet is in, and where it is counted. Knows names alone; the sums are elsewhere.

use crate::engine::packet::PortSlot;

/// The serial of a slot without a port.
pub(crate) const NO_SERIAL: u32 = 0;

/// Whose account a packet is in: that of the port it came in by, or that of the tunnels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Owner {
    /// A port; the serial tells it from a later one in the same slot.
    Port { slot: PortSlot, serial: u32 },
    /// The tunnels.
    #[default]
    Tunnels,
}

/// Where a packet on a path is counted when it has left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Passage {
    /// It is on no path, or has left it.
    #[default]
    Ordinary,
    /// To another node inside the encapsulation.
    Tunnelled(PathRef),
    /// To an instance on this node.
    Delivered(PathRef, u32),
}

/// The place of a path's counters: an index that holds while the tables do, and a serial that no
/// other path has, also not a later one with the same identifier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct PathRef {
    pub(crate) index: u32,
    /// The index of the path whose hops it has: its sums hold those of slices too.
    pub(crate) template: u32,
    pub(crate) serial: u64,
}
