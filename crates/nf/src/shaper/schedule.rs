//! When packets of a class leave: each as soon as the bucket holds its bytes, and never before the one that came
//! before it. Knows tokens and what is still to leave; refuses to know packets.

use crate::packet::Time;
use crate::tokens;
use crate::tracking::carry::Bytes;
use catena_model::limits::FUNCTION_HELD_PACKETS_MAX;
use catena_rules::qos::Shaping;
use std::collections::VecDeque;

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It leaves then.
    Leaves(Time),
    /// The bucket never holds so much.
    IsTooLong,
    /// Too much waits already.
    FindsNoRoom,
}

/// The schedule of a class.
#[derive(Clone, Debug)]
pub(super) struct Schedule {
    shaping: Shaping,
    /// Tokens in the bucket.
    tokens: u64,
    /// When there were so many: when the last packet left, or will.
    at: Time,
    /// What leaves later, in its order; of what has left, some.
    leaving: VecDeque<Leaving>,
    /// Bytes of all that was ever in it.
    total: u64,
}

/// A packet that leaves later.
#[derive(Clone, Copy, Debug)]
struct Leaving {
    at: Time,
    /// Bytes of all that came before it.
    before: u64,
}

impl Schedule {
    pub(super) fn new(shaping: Shaping) -> Self {
        Self { tokens: shaping.burst, at: Time(0), leaving: VecDeque::new(), total: 0, shaping }
    }

    /// Bytes that wait now, and in how many packets.
    fn waits(&self, now: Time) -> (u64, usize) {
        let gone = self.leaving.partition_point(|packet| packet.at <= now);
        let before = self.leaving.get(gone).map_or(self.total, |packet| packet.before);
        (self.total.saturating_sub(before), self.leaving.len() - gone)
    }

    fn push(&mut self, at: Time, bytes: u64) {
        self.leaving.push_back(Leaving { at, before: self.total });
        self.total = self.total.saturating_add(bytes);
    }

    /// What becomes of a packet of so many bytes that comes now.
    pub(super) fn fate(&self, now: Time, bytes: u64) -> Fate {
        if bytes > self.shaping.burst {
            return Fate::IsTooLong;
        }
        let (leaves, _) = self.next(now, bytes);
        let (waiting, packets) = self.waits(now);
        let has_room = waiting.saturating_add(bytes) <= self.shaping.queue
            && packets < FUNCTION_HELD_PACKETS_MAX;
        if leaves > now && !has_room { Fate::FindsNoRoom } else { Fate::Leaves(leaves) }
    }

    /// When a packet leaves that comes now and is no longer than the burst, and the tokens that it leaves.
    fn next(&self, now: Time, bytes: u64) -> (Time, u64) {
        let Shaping { rate, burst, .. } = self.shaping;
        let filled = |until: Time| {
            self.tokens.saturating_add(tokens::between(rate, self.at, until)).min(burst)
        };
        let first = now.max(self.at);
        let leaves = match bytes.checked_sub(filled(first)) {
            None | Some(0) => first,
            Some(missing) => tokens::when(rate, first, missing),
        };
        (leaves, filled(leaves).saturating_sub(bytes))
    }

    /// Adds a packet that leaves.
    pub(super) fn add(&mut self, now: Time, bytes: u64) {
        while self.leaving.front().is_some_and(|packet| packet.at <= now) {
            self.leaving.pop_front();
        }
        (self.at, self.tokens) = self.next(now, bytes);
        if self.at > now {
            self.push(self.at, bytes);
        }
    }

    pub(super) fn write(&self) -> Vec<u8> {
        let ends = self.leaving.iter().skip(1).map(|packet| packet.before).chain([self.total]);
        let leaving = self.leaving.iter().zip(ends);
        let leaving = leaving.flat_map(|(packet, end)| [packet.at.0, end - packet.before]);
        let own = [self.tokens, self.at.0];
        own.into_iter().chain(leaving).flat_map(u64::to_be_bytes).collect()
    }

    /// Reads another of this class: never fuller than it may be, and in order.
    pub(super) fn read(&self, bytes: &[u8]) -> Option<Self> {
        let shaping = self.shaping;
        let mut rest = Bytes(bytes);
        let tokens = rest.long()?.min(shaping.burst);
        let at = Time(rest.long()?);
        let mut schedule = Self { tokens, at, ..Self::new(shaping) };
        let mut last = Time(0);
        while let Some(leaves) = rest.long().map(Time) {
            let is_full = schedule.leaving.len() == FUNCTION_HELD_PACKETS_MAX;
            if leaves < last || leaves > at || is_full {
                return None;
            }
            schedule.push(leaves, rest.long()?.min(shaping.burst));
            last = leaves;
        }
        Some(schedule)
    }
}
