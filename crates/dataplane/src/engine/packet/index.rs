//! Indexes into the tables in force, as packets carry them. Knows nothing of what they stand for.

use std::num::NonZeroU32;

/// Index of a port in the tables, the same as long as the port is there; not the slot, which
/// outlives tables that do not follow one another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PortIndex(pub(crate) u16);

/// Index of another node in the tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NodeIndex(pub(crate) u16);

/// Index of a tenant network in the tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NetworkIndex(pub(crate) u16);

/// The number of a slice in the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SliceIndex(pub(crate) NonZeroU32);

/// The network of a packet that comes back and does not say it, and of a path whose network is not on
/// this node.
pub(crate) const UNTOLD_NETWORK: u32 = u32::MAX;
