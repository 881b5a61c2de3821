//! Isolation of slices: how much each may send, and whose packet goes first.
//!
//! Knows rates, classes and the time it is told. Refuses to know what waits: packets are values,
//! and where they go on is the engine's affair. Slices without a policy never come here.
//!
//! A packet over its slice's rate ends by name. What may go on waits in the lane of its slice, and
//! the lanes take turns: urgent ones before all others, each kind among itself by deficit round
//! robin. Nothing goes out faster than the exit, if that has a rate. The memory is bounded, for each
//! lane and for all. A lane may take no more places than are free, and all lanes that one port fills
//! only so many that some are left (`shares`): so whoever floods leaves room for the rest, by however
//! many slices. Where no lane is idle, the port whose slices hold most of them gives one up for a port
//! with fewer, and gets none for another slice. A slice whose lane has gone is forgotten with what it
//! sent: should it get another, it is let through once more up to its burst.

pub(crate) mod bucket;
mod exit;
mod lane;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
mod waits;

use crate::engine::collections::shares::{Holder, Shares, leaves_room, must_yield};
use crate::engine::vector::owner::Owner;
use crate::engine::vector::{KeptPlace, Work};
pub(crate) use bucket::TokenBucket;
use catena_model::account::Volume;
use catena_model::limits::{
    NODE_SCHEDULED_SLICES_MAX, NODE_SLICE_PACKETS_WAITING_MAX, SLICE_PACKETS_WAITING_MAX,
    SLICE_QUANTUM_BYTES_MIN,
};
use catena_model::program::{DelayClass, SlicePolicy};
use catena_model::slice_wait::SliceWait;
use catena_model::{DropReason, SliceId};
use exit::Exit;
use lane::{Lane, Place, Rounds};
use std::collections::HashMap;
use std::num::NonZeroU64;

/// Bytes of a turn of an urgent slice: a full frame, so that none of them waits for long.
const URGENT_QUANTUM_BYTES: u64 = 2_048;
/// Lanes that are looked at for one that may be given to another slice.
const IDLE_LOOKS: usize = 64;

#[derive(Debug)]
struct Waiting<T> {
    item: T,
    volume: Volume,
    since_ns: u64,
    holder: Holder,
    next: Option<Place>,
}

/// Packets of slices that wait for their turn.
pub(crate) type Shaper = Scheduler<Work>;

/// The lanes of all slices that have a policy and have sent.
#[derive(Debug)]
pub(crate) struct Scheduler<T> {
    lanes: Vec<Lane>,
    of_slice: HashMap<SliceId, u32>,
    /// Of the lanes, by where the first packet of their slices came in.
    lane_shares: Shares<Owner>,
    /// Where the next look for an idle lane begins.
    hand: usize,
    places: Vec<Option<Waiting<T>>>,
    free: Vec<Place>,
    /// Of the free places, those that are kept for packets that were metered.
    kept: usize,
    /// Of the places, by where the packets came in.
    shares: Shares<Owner>,
    urgent: Rounds,
    shared: Rounds,
    exit: Exit,
}

impl<T> Scheduler<T> {
    /// `exit_bits_per_second`: what the slices of this node share; none: as much as the node can.
    pub(crate) fn new(exit_bits_per_second: Option<NonZeroU64>) -> Self {
        Self {
            lanes: Vec::new(),
            of_slice: HashMap::new(),
            lane_shares: Shares::new(),
            hand: 0,
            places: Vec::new(),
            free: Vec::new(),
            kept: 0,
            shares: Shares::new(),
            urgent: Rounds::default(),
            shared: Rounds::default(),
            exit: Exit::new(exit_bits_per_second),
        }
    }

    /// Is a place kept for a packet that was metered?
    pub(crate) fn is_expecting(&self) -> bool {
        self.kept > 0
    }

    /// Does nothing wait?
    pub(crate) fn is_empty(&self) -> bool {
        self.free.len() == self.places.len()
    }

    /// Charges a packet of this owner to its slice. None: it goes on at once; else a place is kept for
    /// it: [`Scheduler::hold`] must follow.
    ///
    /// # Errors
    /// It is over the rate of its slice, or there is no place.
    pub(crate) fn meter(
        &mut self,
        now_ns: u64,
        slice: SliceId,
        policy: &SlicePolicy,
        (owner, bytes): (Owner, u64),
    ) -> Result<Option<KeptPlace>, DropReason> {
        let number = self.lane_of(now_ns, slice, owner).ok_or(DropReason::SliceQueueFull)?;
        let lane = self.lanes.get_mut(number as usize).ok_or(DropReason::SliceQueueFull)?;
        match policy.rate {
            None => lane.bucket = None,
            Some(rate) => {
                let bucket = lane.bucket.get_or_insert_with(|| TokenBucket::full(rate, now_ns));
                if bucket.rate() != rate {
                    *bucket = TokenBucket::full(rate, now_ns);
                }
                if !bucket.take(now_ns, bytes) {
                    return Err(DropReason::SliceRateExceeded);
                }
            }
        }
        let (is_urgent, quantum) = match policy.class {
            DelayClass::Unscheduled => return Ok(None),
            DelayClass::Urgent => (true, URGENT_QUANTUM_BYTES),
            DelayClass::Shared { quantum_bytes } => {
                (false, u64::from(quantum_bytes.max(SLICE_QUANTUM_BYTES_MIN)))
            }
        };
        lane.quantum = quantum;
        // What waits keeps the class with which it came: a lane is in one of the rounds.
        if lane.waiting == 0 {
            lane.is_urgent = is_urgent;
        }
        self.make_room();
        let free = self.free.len().saturating_sub(self.kept);
        let lane = self.lanes.get_mut(number as usize).ok_or(DropReason::SliceQueueFull)?;
        if lane.waiting + lane.kept >= free.min(SLICE_PACKETS_WAITING_MAX)
            || !leaves_room(self.shares.held_by(&owner), free)
        {
            return Err(DropReason::SliceQueueFull);
        }
        lane.kept += 1;
        self.kept += 1;
        Ok(Some(KeptPlace { lane: number, holder: self.shares.take(owner) }))
    }

    /// Lets a packet wait in the place that is kept for it; without one it comes back.
    pub(crate) fn hold(
        &mut self,
        now_ns: u64,
        KeptPlace { lane, holder }: KeptPlace,
        volume: Volume,
        item: T,
    ) -> Result<(), T> {
        if self.is_empty() {
            self.exit.wake(now_ns);
        }
        let Some(found) = self.lanes.get_mut(lane as usize) else { return Err(item) };
        let Some(kept) = found.kept.checked_sub(1) else { return Err(item) };
        let Some(place) = self.free.pop() else { return Err(item) };
        found.kept = kept;
        self.kept = self.kept.saturating_sub(1);
        let waiting = Waiting { item, volume, since_ns: now_ns, holder, next: None };
        if let Some(slot) = self.places.get_mut(place as usize) {
            *slot = Some(waiting);
        }
        match found.tail.replace(place) {
            None => {
                found.head = Some(place);
                let rounds = if found.is_urgent { &mut self.urgent } else { &mut self.shared };
                rounds.join(lane);
            }
            Some(last) => {
                if let Some(Some(last)) = self.places.get_mut(last as usize) {
                    last.next = Some(place);
                }
            }
        }
        found.waiting += 1;
        found.waiting_packets += volume.packets;
        Ok(())
    }

    /// The packet whose turn it is, if the exit takes one now.
    pub(crate) fn release(&mut self, now_ns: u64) -> Option<T> {
        if !self.exit.is_free(now_ns) {
            return None;
        }
        let Self { lanes, places, urgent, shared, .. } = self;
        let size = |place: Place| {
            let waiting = places.get(place as usize).and_then(Option::as_ref);
            waiting.map_or(0, |waiting| waiting.volume.bytes)
        };
        let (rounds, (number, place)) = match urgent.next(lanes, size) {
            Some(found) => (urgent, found),
            None => {
                let found = shared.next(lanes, size)?;
                (shared, found)
            }
        };
        let waiting = self.places.get_mut(place as usize)?.take()?;
        self.free.push(place);
        self.shares.give_back(waiting.holder);
        let lane = self.lanes.get_mut(number as usize)?;
        lane.head = waiting.next;
        lane.waiting -= 1;
        lane.waiting_packets = lane.waiting_packets.saturating_sub(waiting.volume.packets);
        if lane.head.is_none() {
            lane.tail = None;
            rounds.leave(lane);
        }
        lane.waits.note(now_ns.saturating_sub(waiting.since_ns), waiting.volume);
        self.exit.send(now_ns, waiting.volume.bytes);
        Some(waiting.item)
    }

    /// When the next packet may go; none: nothing waits.
    pub(crate) fn next_release_ns(&self, now_ns: u64) -> Option<u64> {
        (!self.is_empty()).then(|| self.exit.free_ns().map_or(now_ns, |at| at.max(now_ns)))
    }

    /// How the packets of a slice wait; none: it has sent nothing that its policy speaks of.
    pub(crate) fn report(&self, slice: SliceId) -> Option<SliceWait> {
        let lane = self.lanes.get(*self.of_slice.get(&slice)? as usize)?;
        Some(SliceWait { waiting: lane.waiting_packets, ..lane.waits.report() })
    }

    /// Memory comes with the first packet that waits: a node without such slices needs none.
    fn make_room(&mut self) {
        if self.places.is_empty() {
            self.places.resize_with(NODE_SLICE_PACKETS_WAITING_MAX, || None);
            // A limit far below 2^32.
            self.free.extend((0..NODE_SLICE_PACKETS_WAITING_MAX as u32).rev());
        }
    }

    fn lane_of(&mut self, now_ns: u64, slice: SliceId, owner: Owner) -> Option<u32> {
        if let Some(known) = self.of_slice.get(&slice) {
            return Some(*known);
        }
        let number = if self.lanes.len() < NODE_SCHEDULED_SLICES_MAX {
            self.lanes.push(Lane::new(slice, self.lane_shares.take(owner)));
            self.urgent.reserve(self.lanes.len());
            self.shared.reserve(self.lanes.len());
            u32::try_from(self.lanes.len() - 1).ok()?
        } else {
            let number = self.lane_to_give(now_ns, self.lane_shares.held_by(&owner))?;
            let lane = self.lanes.get_mut(number as usize)?;
            self.of_slice.remove(&lane.slice);
            self.lane_shares.give_back(lane.holder);
            *lane = Lane::new(slice, self.lane_shares.take(owner));
            number
        };
        self.of_slice.insert(slice, number);
        Some(number)
    }

    /// A lane in which nothing waits, for one who has so many: one whose slice would be let through as a
    /// new one is, else one of the port that has most, if that is more.
    fn lane_to_give(&mut self, now_ns: u64, own: u32) -> Option<u32> {
        let mut of_most = None;
        for _ in 0..IDLE_LOOKS {
            self.hand = (self.hand + 1) % self.lanes.len().max(1);
            let Some(lane) = self.lanes.get(self.hand) else { continue };
            if lane.is_idle(now_ns) {
                return u32::try_from(self.hand).ok();
            }
            let held = self.lane_shares.held(lane.holder);
            if lane.is_empty()
                && must_yield(held, own)
                && of_most.is_none_or(|(most, _)| held > most)
            {
                of_most = Some((held, self.hand));
            }
        }
        of_most.and_then(|(_, number)| u32::try_from(number).ok())
    }
}
