//! Frames to everybody from a MAC that is no station's, as those of virtual routers are: where each
//! was heard first. Knows digests, age and bounds; refuses to know who may repeat a frame.
//!
//! A frame has one place, given by its digest and a seed that nobody outside knows, and a newer one
//! takes it. What is forgotten so can be repeated once more, and is known again by that.

use crate::engine::tables::network::NetworkTable;
use crate::engine::vector::Work;
use crate::engine::vector::owner::Owner;
use catena_wire::flow::mix;

/// Frames remembered.
const FRAMES_MAX: usize = 4_096;
/// How long a bridge may hold a frame before it passes it on (IEEE 802.1D-2004 table 7-3), in
/// nanoseconds.
const TRANSIT_NS: u64 = 4_000_000_000;

/// What a frame and all echoes of it are known by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameDigest(u64);

#[derive(Debug, Clone, Copy)]
struct Entry {
    digest: FrameDigest,
    from: Owner,
    seen_ns: u64,
}

/// The memory.
#[derive(Debug)]
pub(crate) struct FloodMemory {
    places: Vec<Option<Entry>>,
    seed: u64,
}

impl FloodMemory {
    pub(crate) fn new(seed: u64) -> Self {
        Self { places: vec![None; FRAMES_MAX], seed }
    }

    /// What a frame of this network is known by.
    pub(crate) fn digest(&self, work: &Work, network: &NetworkTable) -> FrameDigest {
        let source = work.view.source.0.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        let sender = mix(self.seed ^ source) ^ u64::from(u32::from(network.vni));
        FrameDigest(mix(sender) ^ catena_wire::digest::kept(&work.view, work.buffer.bytes()))
    }

    /// Where the frame was heard first, if it may still be on its way through a bridge.
    pub(crate) fn first(&self, now_ns: u64, digest: FrameDigest) -> Option<Owner> {
        let entry = self.places[place(digest)]?;
        let is_it = entry.digest == digest && now_ns.saturating_sub(entry.seen_ns) <= TRANSIT_NS;
        is_it.then_some(entry.from)
    }

    /// The frame goes to everybody now.
    pub(crate) fn note(&mut self, now_ns: u64, digest: FrameDigest, from: Owner) {
        if self.first(now_ns, digest).is_none_or(|first| first == from) {
            self.places[place(digest)] = Some(Entry { digest, from, seen_ns: now_ns });
        }
    }

    /// The same memory, for an engine with other names for where frames come from.
    pub(crate) fn lent(&self, name: impl Fn(Owner) -> Owner) -> Self {
        let renamed = |entry: Entry| Entry { from: name(entry.from), ..entry };
        let places = self.places.iter().map(|entry| entry.map(renamed)).collect();
        Self { places, seed: self.seed }
    }
}

fn place(FrameDigest(digest): FrameDigest) -> usize {
    usize::try_from(mix(digest) % FRAMES_MAX as u64).unwrap_or(0)
}
