//! How long the packets of a slice waited: a histogram of bounded size and the jitter of RFC 3550.
//! Knows durations alone.

use catena_model::account::Volume;
use catena_model::slice_wait::SliceWait;

/// Buckets of each doubling: a value is told within an eighth.
const STEPS: usize = 8;
const STEP_BITS: u32 = STEPS.trailing_zeros();
/// Doublings from a nanosecond: the last bucket is for a second and longer.
const DOUBLINGS: usize = 30;
const BUCKETS: usize = STEPS * DOUBLINGS;
/// Each difference moves the jitter by this share of itself (RFC 3550 section 6.4.1), as a shift.
const JITTER_SHIFT: u32 = 4;

/// What is known of the waits of one slice.
#[derive(Clone, Debug)]
pub(super) struct Waits {
    /// Made by the first packet that waits: most slices have a rate alone.
    counts: Option<Box<[u32; BUCKETS]>>,
    released: Volume,
    max_ns: u64,
    last_ns: Option<u64>,
    /// The jitter in sixteenths of a nanosecond, as RFC 3550 appendix A.8 keeps it.
    jitter: u64,
}

impl Waits {
    pub(super) fn new() -> Self {
        Self { counts: None, released: Volume::default(), max_ns: 0, last_ns: None, jitter: 0 }
    }

    /// A packet, or the packets of a super-frame, waited so long.
    pub(super) fn note(&mut self, waited_ns: u64, volume: Volume) {
        self.released.merge(volume);
        self.max_ns = self.max_ns.max(waited_ns);
        let counts = self.counts.get_or_insert_with(|| Box::new([0; BUCKETS]));
        if let Some(count) = counts.get_mut(bucket(waited_ns)) {
            *count = count.saturating_add(1);
        }
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

    /// The upper end of the bucket in which so many hundredths of all waits are reached.
    fn quantile(&self, hundredths: u64) -> u64 {
        let counts = self.counts.as_deref().map_or(&[][..], |counts| &counts[..]);
        let all: u64 = counts.iter().map(|count| u64::from(*count)).sum();
        let wanted = (all * hundredths).div_ceil(100);
        let mut seen = 0;
        for (place, count) in counts.iter().enumerate() {
            seen += u64::from(*count);
            if seen >= wanted {
                return upper_end(place).min(self.max_ns);
            }
        }
        self.max_ns
    }
}

/// Values below `STEPS` have a bucket each; beyond, each doubling has as many.
fn bucket(value: u64) -> usize {
    let small = usize::try_from(value).unwrap_or(usize::MAX);
    if small < STEPS {
        return small;
    }
    let doubling = value.ilog2() - STEP_BITS;
    let step = usize::try_from(value >> doubling).unwrap_or(0) - STEPS;
    ((doubling as usize + 1) * STEPS + step).min(BUCKETS - 1)
}

/// The greatest value of a bucket.
fn upper_end(bucket: usize) -> u64 {
    if bucket < STEPS {
        return bucket as u64;
    }
    let (doubling, step) = (bucket / STEPS - 1, bucket % STEPS);
    (((STEPS + step) as u64 + 1) << doubling) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Volume = Volume { packets: 1, bytes: 64 };

    #[test]
    fn each_duration_is_in_a_bucket_that_ends_within_an_eighth_of_it() {
        for value in (0..4_096).chain((12..29).flat_map(|bit| [1 << bit, (1 << bit) + 12_345])) {
            let end = upper_end(bucket(value));
            assert!(end >= value && end <= value + value / STEPS as u64, "{value}: {end}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

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
