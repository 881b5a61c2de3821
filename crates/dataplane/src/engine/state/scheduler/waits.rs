//! How long the packets of a slice waited: a histogram of bounded size and the jitter of RFC 3550.
//! Knows durations alone.

use crate::engine::collections::histogram::Histogram;
use catena_model::account::Volume;
use catena_model::slice_wait::SliceWait;

/// Each difference moves the jitter by this share of itself (RFC 3550 section 6.4.1), as a shift.
const JITTER_SHIFT: u32 = 4;

/// What is known of the waits of one slice.
#[derive(Clone, Debug)]
pub(super) struct Waits {
    /// Empty until a packet waits: most slices have a rate alone.
    durations: Histogram,
    released: Volume,
    max_ns: u64,
    last_ns: Option<u64>,
    /// The jitter in sixteenths of a nanosecond, as RFC 3550 appendix A.8 keeps it.
    jitter: u64,
}

impl Waits {
    pub(super) fn new() -> Self {
        let (durations, released) = (Histogram::default(), Volume::default());
        Self { durations, released, max_ns: 0, last_ns: None, jitter: 0 }
    }

    /// A packet, or the packets of a super-frame, waited so long.
    pub(super) fn note(&mut self, waited_ns: u64, volume: Volume) {
        self.released.merge(volume);
        self.max_ns = self.max_ns.max(waited_ns);
        self.durations.note(waited_ns, 1);
        if let Some(last_ns) = self.last_ns.replace(waited_ns) {
            let difference = waited_ns.abs_diff(last_ns);
            self.jitter = self.jitter.saturating_add(difference) - (self.jitter >> JITTER_SHIFT);
        }
    }

    /// The figures; what waits now, and what was refused, is for the caller to add.
    pub(super) fn report(&self) -> SliceWait {
        SliceWait {
            waiting: 0,
            released: self.released,
            p50_ns: self.quantile(50),
            p99_ns: self.quantile(99),
            max_ns: self.max_ns,
            jitter_ns: self.jitter >> JITTER_SHIFT,
        }
    }

    fn quantile(&self, hundredths: u64) -> u64 {
        self.durations.quantile(hundredths).unwrap_or(0).min(self.max_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Volume = Volume { packets: 1, bytes: 64 };

    #[test]
    fn quantiles_and_jitter_are_those_of_the_durations() {
        let mut waits = Waits::new();
        (1..=100_u64).for_each(|n| waits.note(n * 1_000, ONE));
        let report = waits.report();
        assert!((50_000..57_000).contains(&report.p50_ns), "{}", report.p50_ns);
        assert!((99_000..=100_000).contains(&report.p99_ns), "{}", report.p99_ns);
        assert_eq!(report.max_ns, 100_000);
        // Each differs from the last by a microsecond: that is where the estimate goes.
        assert!((950..=1_000).contains(&report.jitter_ns), "{}", report.jitter_ns);
        assert_eq!(report.released.packets, 100);
    }
}
