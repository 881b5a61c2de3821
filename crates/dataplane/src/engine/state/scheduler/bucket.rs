//! A token bucket that is exact: in any span of time it lets through at most its burst and what its
//! rate gives in that span. Knows bits and nanoseconds; refuses to know packets.

use catena_model::program::SliceRate;

/// Parts of a bit that one bit per second gives in a nanosecond: with this unit nothing is rounded.
const PARTS_PER_BIT: u128 = 1_000_000_000;

/// The bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TokenBucket {
    rate: SliceRate,
    parts: u128,
    filled_ns: u64,
}

impl TokenBucket {
    /// A full bucket.
    pub(crate) fn full(rate: SliceRate, now_ns: u64) -> Self {
        Self { rate, parts: room(rate), filled_ns: now_ns }
    }

    /// What it was made with.
    pub(crate) fn rate(&self) -> SliceRate {
        self.rate
    }

    /// Has it filled again?
    pub(crate) fn is_full(&self, now_ns: u64) -> bool {
        self.parts_at(now_ns) == room(self.rate)
    }

    fn parts_at(&self, now_ns: u64) -> u128 {
        let elapsed_ns = now_ns.saturating_sub(self.filled_ns);
        let gained = u128::from(elapsed_ns) * u128::from(self.rate.bits_per_second);
        self.parts.saturating_add(gained).min(room(self.rate))
    }

    /// Takes so many bytes out, if they are there.
    pub(crate) fn take(&mut self, now_ns: u64, bytes: u64) -> bool {
        self.parts = self.parts_at(now_ns);
        self.filled_ns = self.filled_ns.max(now_ns);
        let asked = parts(bytes);
        let is_there = asked <= self.parts;
        if is_there {
            self.parts -= asked;
        }
        is_there
    }
}

fn room(rate: SliceRate) -> u128 {
    parts(u64::from(rate.burst_bytes))
}

fn parts(bytes: u64) -> u128 {
    u128::from(bytes) * 8 * PARTS_PER_BIT
}
