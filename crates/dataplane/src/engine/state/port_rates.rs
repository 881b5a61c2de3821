//! How often ports may do something. Knows slots and rates; refuses to know what they do.

use super::scheduler::TokenBucket;
use crate::engine::packet::PortSlot;
use catena_model::program::SliceRate;

/// A bucket for each port.
#[derive(Debug)]
pub(crate) struct PortRates {
    rate: SliceRate,
    /// By slot, with the serial of its port.
    buckets: Vec<Option<(u32, TokenBucket)>>,
}

impl PortRates {
    /// So many a second for each port, and so many at once.
    pub(crate) fn new(per_second: u32, burst: u32) -> Self {
        // In the bucket one counts as a byte.
        let rate = SliceRate { bits_per_second: u64::from(per_second) * 8, burst_bytes: burst };
        Self { rate, buckets: Vec::new() }
    }

    /// May a port do so many now?
    pub(crate) fn take(
        &mut self,
        now_ns: u64,
        (slot, serial): (PortSlot, u32),
        count: u64,
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
        bucket.take(now_ns, count)
    }
}
