//! The queue of one slice, and the rounds in which such queues take turns. Knows sizes, quanta and
//! the order of packets; refuses to know packets and time.

use super::bucket::TokenBucket;
use super::waits::Waits;
use crate::engine::collections::shares::Holder;
use catena_model::SliceId;
use std::collections::VecDeque;

/// A place in the memory of packets that wait.
pub(super) type Place = u32;

/// The lane of one slice.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) slice: SliceId,
    /// Whose lane it is.
    pub(super) holder: Holder,
    pub(super) bucket: Option<TokenBucket>,
    pub(super) waits: Waits,
    /// Bytes of each round.
    pub(super) quantum: u64,
    pub(super) is_urgent: bool,
    /// What it may still send in this round.
    deficit: u64,
    pub(super) head: Option<Place>,
    pub(super) tail: Option<Place>,
    /// Packets and super-frames that wait.
    pub(super) waiting: usize,
    /// Places kept for those that are about to.
    pub(super) kept: usize,
    /// Their wire packets.
    pub(super) waiting_packets: u64,
}

impl Lane {
    pub(super) fn new(slice: SliceId, holder: Holder) -> Self {
        Self {
            slice,
            holder,
            bucket: None,
            waits: Waits::new(),
            quantum: 0,
            is_urgent: false,
            deficit: 0,
            head: None,
            tail: None,
            waiting: 0,
            kept: 0,
            waiting_packets: 0,
        }
    }

    /// Does nothing wait in it, nor is about to?
    pub(super) fn is_empty(&self) -> bool {
        self.waiting + self.kept == 0
    }

    /// Would nothing change if the slice sent for the first time?
    pub(super) fn is_idle(&self, now_ns: u64) -> bool {
        self.is_empty() && self.bucket.as_ref().is_none_or(|bucket| bucket.is_full(now_ns))
    }
}

/// The lanes that have something to send, in turns: deficit round robin (Shreedhar and Varghese,
/// 1996).
#[derive(Debug, Default)]
pub(super) struct Rounds {
    turns: VecDeque<u32>,
    /// The lane whose turn it is has been given its quantum.
    has_begun: bool,
}

impl Rounds {
    /// Makes room for one more lane, so that no packet waits for memory.
    pub(super) fn reserve(&mut self, lanes: usize) {
        self.turns.reserve(lanes.saturating_sub(self.turns.len()));
    }

    pub(super) fn join(&mut self, lane: u32) {
        self.turns.push_back(lane);
    }

    /// The lane that sends its first packet now; `size` gives the bytes of the packet at a place.
    pub(super) fn next(
        &mut self,
        lanes: &mut [Lane],
        size: impl Fn(Place) -> u64,
    ) -> Option<(u32, Place)> {
        loop {
            let number = *self.turns.front()?;
            let lane = lanes.get_mut(number as usize)?;
            let Some(head) = lane.head else {
                self.end_turn(lane, false);
                continue;
            };
            if !self.has_begun {
                lane.deficit += lane.quantum;
                self.has_begun = true;
            }
            let bytes = size(head);
            if bytes <= lane.deficit {
                lane.deficit -= bytes;
                return Some((number, head));
            }
            self.end_turn(lane, true);
        }
    }

    /// The lane that sent has nothing more: what it did not use is gone.
    pub(super) fn leave(&mut self, lane: &mut Lane) {
        self.end_turn(lane, false);
    }

    fn end_turn(&mut self, lane: &mut Lane, is_back: bool) {
        let number = self.turns.pop_front();
        self.has_begun = false;
        if is_back {
            self.turns.extend(number);
        } else {
            lane.deficit = 0;
        }
    }
}
