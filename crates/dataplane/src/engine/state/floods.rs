//! What ports send to everybody in their networks. Knows how often each may, and what is only the echo
//! of another station; refuses to know who gets it.
//!
//! The switch knows where every station is and sends to everybody at most what is addressed so: a frame
//! for an unknown station goes to nobody. A group frame costs as many copies as there are stations,
//! hence a rate for each port (as the storm control of switches). A function that bridges two ports of
//! one network gives back by each what it hears by the other. All have had that from its sender, and
//! are spared it; what the function's machine sends of its own goes to everybody but itself. Whose a
//! frame is tells its source; where that is no station's, where it was heard first (`flood_memory`).

use super::flood_memory::FloodMemory;
use super::scheduler::TokenBucket;
use crate::engine::packet::PortSlot;
use catena_model::program::SliceRate;
use std::num::NonZeroU32;

/// The buckets of all ports, and what was sent to everybody.
#[derive(Debug)]
pub(crate) struct Floods {
    rate: SliceRate,
    /// By slot, with the serial of its port.
    buckets: Vec<Option<(u32, TokenBucket)>>,
    pub(crate) memory: FloodMemory,
}

impl Floods {
    /// So many frames a second for each port, and as many at once.
    pub(crate) fn new(frames_per_second: NonZeroU32, seed: u64) -> Self {
        // In the bucket a frame counts as a byte.
        let burst_bytes = frames_per_second.get();
        let rate = SliceRate { bits_per_second: u64::from(burst_bytes) * 8, burst_bytes };
        Self { rate, buckets: Vec::new(), memory: FloodMemory::new(seed) }
    }

    /// May a port send so many frames to everybody now?
    pub(crate) fn take(
        &mut self,
        now_ns: u64,
        (slot, serial): (PortSlot, u32),
        frames: u64,
    ) -> bool {
        let place = slot.index();
        if place >= self.buckets.len() {
            self.buckets.resize(place + 1, None);
        }
        let Some(entry) = self.buckets.get_mut(place) else { return false };
        let (_, bucket) = match entry {
            Some(own) if own.0 == serial => own,
            _ => entry.insert((serial, TokenBucket::full(self.rate, now_ns))),
        };
        bucket.take(now_ns, frames)
    }
}
