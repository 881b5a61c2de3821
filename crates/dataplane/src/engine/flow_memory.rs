//! The proxies' memory: which flow visits which position, so that a packet that comes out of an
//! unaware function finds its path again. Knows keys, age and bounds; refuses to know what a
//! position means.
//!
//! A flow has sixteen places, given by its hash: every access costs the same, whatever keys an
//! adversary picks. Each packet into the function renews its flow, so an entry need only outlive
//! the time a packet spends inside.

use super::encap::PathPosition;
use super::transform::Epoch;
use catena_model::id::InstanceId;
use catena_model::{DropReason, PathId};
use catena_wire::flow::FlowKey;

/// How long a packet may stay inside a function and still be recognised, in nanoseconds.
pub(super) const FLOW_IDLE_NS: u64 = 60_000_000_000;
/// Places that a flow can have.
const WAYS: usize = 16;
/// Places for each flow of the limit, so that sets rarely overflow before the limit is reached.
const PLACES_PER_FLOW: usize = 2;

/// What a flow is known by: the port it will come out of and its five-tuple.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    /// Serial of the port.
    pub(super) egress: u32,
    pub(super) flow: FlowKey,
}

impl Key {
    fn hash(&self) -> u64 {
        // The odd constant spreads small serials over the whole word.
        self.flow.stable_hash() ^ u64::from(self.egress).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

/// What is remembered: the position, and what it takes to find it in later tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Visit {
    pub(super) position: PathPosition,
    pub(super) path: PathId,
    pub(super) hop: u16,
    /// The instance visited: siblings may send from one port.
    pub(super) instance: InstanceId,
    pub(super) epoch: Epoch,
}

#[derive(Clone, Copy)]
struct Entry {
    key: Key,
    visit: Visit,
    seen_ns: u64,
}

/// The memory.
pub(super) struct FlowMemory {
    places: Vec<Option<Entry>>,
    sets: usize,
    flows: usize,
    flows_max: usize,
    /// The set whose idle flows are forgotten next.
    hand: usize,
}

impl FlowMemory {
    pub(super) fn new(flows_max: usize) -> Self {
        let sets = (flows_max * PLACES_PER_FLOW).div_ceil(WAYS).max(1);
        Self { places: vec![None; sets * WAYS], sets, flows: 0, flows_max, hand: 0 }
    }

    fn set(&self, key: &Key) -> std::ops::Range<usize> {
        let set = usize::try_from(key.hash() % self.sets as u64).unwrap_or(0);
        set * WAYS..(set + 1) * WAYS
    }

    /// Notes that the flow visits a position now.
    ///
    /// # Errors
    /// [`DropReason::FlowMemoryFull`] when every place it could have is in use.
    pub(super) fn remember(
        &mut self,
        now_ns: u64,
        key: Key,
        visit: Visit,
    ) -> Result<(), DropReason> {
        let set = self.set(&key);
        let entry = Some(Entry { key, visit, seen_ns: now_ns });
        let places = &mut self.places[set.clone()];
        let known = places.iter_mut().find(|place| place.is_some_and(|found| found.key == key));
        if let Some(place) = known {
            *place = entry;
            return Ok(());
        }
        self.forget_idle(now_ns, set.clone());
        let next = self.hand * WAYS..(self.hand + 1) * WAYS;
        self.hand = (self.hand + 1) % self.sets;
        self.forget_idle(now_ns, next);
        if self.flows >= self.flows_max {
            return Err(DropReason::FlowMemoryFull);
        }
        let free = self.places[set].iter_mut().find(|place| place.is_none());
        *free.ok_or(DropReason::FlowMemoryFull)? = entry;
        self.flows += 1;
        Ok(())
    }

    /// Which position the flow visited.
    pub(super) fn recall(&mut self, now_ns: u64, key: Key) -> Option<Visit> {
        let set = self.set(&key);
        let mut found = self.places[set].iter_mut().flatten();
        let entry = found.find(|entry| entry.key == key)?;
        if is_idle(entry, now_ns) {
            return None;
        }
        entry.seen_ns = now_ns;
        Some(entry.visit)
    }

    fn forget_idle(&mut self, now_ns: u64, set: std::ops::Range<usize>) {
        for place in &mut self.places[set] {
            if place.is_some_and(|entry| is_idle(&entry, now_ns)) {
                *place = None;
                self.flows -= 1;
            }
        }
    }
}

fn is_idle(entry: &Entry, now_ns: u64) -> bool {
    now_ns.saturating_sub(entry.seen_ns) > FLOW_IDLE_NS
}
