//! Where a node says that it is, and by which clock, in its agent's first word.

use catena_model::program::SegmentPlace;

/// Where a node says that it is, and by which clock.
#[derive(Clone, Debug)]
pub struct ToldPlace {
    /// Its address on the data network.
    pub address: String,
    /// The MTU of that, in bytes.
    pub mtu: u32,
    /// Its place in the IPv6 underlay, if it has one.
    pub segments: Option<SegmentPlace>,
    /// What tells the clock that its packets are stamped by from others, if it is known.
    pub clock: Option<u64>,
}

impl From<(String, u32)> for ToldPlace {
    fn from((address, mtu): (String, u32)) -> Self {
        Self { address, mtu, segments: None, clock: None }
    }
}
