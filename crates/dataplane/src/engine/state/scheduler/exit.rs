//! The exit that slices share: when it has sent what it was given. Knows a rate and the time; with
//! no rate it is always free.

use std::num::NonZeroU64;

const NS_PER_SECOND: u128 = 1_000_000_000;
/// What an exit makes up for when its driver comes late: beyond it, time that nobody used is lost.
const LATENESS_NS_MAX: u64 = 10_000_000;

/// The exit.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Exit {
    bits_per_second: Option<NonZeroU64>,
    free_ns: u64,
    /// Of a nanosecond that the exit is still busy: this part, with the rate as denominator.
    rest: u128,
}

impl Exit {
    pub(super) fn new(bits_per_second: Option<NonZeroU64>) -> Self {
        Self { bits_per_second, ..Self::default() }
    }

    /// When it is free; none: it always is.
    pub(super) fn free_ns(&self) -> Option<u64> {
        self.bits_per_second.map(|_| self.free_ns)
    }

    /// Nothing waited until now: time that went by unused is gone.
    pub(super) fn wake(&mut self, now_ns: u64) {
        if self.free_ns < now_ns {
            self.free_ns = now_ns;
            self.rest = 0;
        }
    }

    pub(super) fn is_free(&self, now_ns: u64) -> bool {
        self.free_ns().is_none_or(|free_ns| free_ns <= now_ns)
    }

    /// Gives it so many bytes to send.
    pub(super) fn send(&mut self, now_ns: u64, bytes: u64) {
        let Some(rate) = self.bits_per_second else { return };
        let rate = u128::from(rate.get());
        let late_since = now_ns.saturating_sub(LATENESS_NS_MAX);
        self.wake(late_since);
        let total = self.rest + u128::from(bytes) * 8 * NS_PER_SECOND;
        let busy_ns = u64::try_from(total / rate).unwrap_or(u64::MAX);
        self.free_ns = self.free_ns.saturating_add(busy_ns);
        self.rest = total % rate;
    }
}
