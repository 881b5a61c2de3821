//! Packets of one way through a hop, lent to its functions to be read, and owned again when all have answered. Knows
//! how functions see them; refuses to know what functions say.

use crate::engine::vector::Work;
use crate::engine::vector::owner::Owner;
use catena_nf::packet::{Metadata, Packet, Time};
use catena_wire::field::UpperChecksum;

/// Packets that have entered together.
#[derive(Debug)]
pub(crate) struct Lent {
    /// Those that are asked about.
    pub(crate) works: Vec<Work>,
    /// Those that have ended at a function, and what functions have made.
    pub(crate) rest: Vec<Work>,
    /// When they have entered, by the engine's time in nanoseconds.
    pub(crate) now_ns: u64,
    /// The same by that of functions.
    pub(crate) now: Time,
    /// In whose accounts they are held, with how many on the wire.
    pub(crate) held: Vec<(Owner, u64)>,
}

impl Lent {
    /// As functions see those that they are asked about.
    pub(crate) fn packets(&self) -> Vec<Packet<'_>> {
        self.works.iter().map(packet).collect()
    }
}

/// How the checksum of a packet's upper layer stands. In a tunnel of its sender's the open one is the inner packet's.
pub(crate) fn upper(work: &Work) -> UpperChecksum {
    let open = work.buffer.offload.checksum;
    match open.filter(|open| work.view.l4_offset == Some(open.start)) {
        Some(_) => UpperChecksum::Open,
        None => UpperChecksum::Closed,
    }
}

/// As a function sees it.
pub(crate) fn packet(work: &Work) -> Packet<'_> {
    let link_bytes = u64::from(work.view.l3_offset);
    let wire_bytes = match work.buffer.offload.segmentation {
        Some(_) => work.volume.bytes.saturating_sub(work.volume.packets * link_bytes),
        None => u64::from(work.view.end).saturating_sub(link_bytes),
    };
    Packet {
        frame: work.buffer.bytes(),
        view: work.view,
        upper: upper(work),
        wire_packets: u32::try_from(work.volume.packets).unwrap_or(u32::MAX),
        wire_bytes,
        metadata: Metadata::default(),
    }
}
