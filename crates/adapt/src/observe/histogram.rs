//! How often durations were how long, in room that does not grow, and what follows for their quantiles. Knows numbers
//! alone.
//!
//! Buckets are log-linear: values below the number of steps have one each, and every doubling above has as many steps.
//! What is told is the middle of a bucket, so it is off by at most half a step: by a share of 1/64 of the true value
//! with [`Precision::Fine`] and 1/16 with [`Precision::Coarse`].
//!
//! A quantile of samples is not that of all packets. Each is told with the values between which that of all packets
//! lies in 997 of 1,000 cases, if samples are drawn by chance, whatever the distribution: those whose ranks are three
//! standard deviations of a binomial, and two, away.

/// Values from here on are told apart no more: 17.2 s.
pub const LONGEST_NS: u64 = 1 << LONGEST_BITS;
const LONGEST_BITS: u32 = 34;
/// What counts as longer than can be told took at least as long as a header can hold.
const LONGER_AT_LEAST_NS: u64 = catena_model::telemetry::VisitLatency::MAX_NS;
/// Standard deviations on either side of a rank.
const DEVIATIONS: f64 = 3.0;

/// How many buckets a doubling has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// 32: what is told is off by at most 1/64.
    Fine,
    /// 8: what is told is off by at most 1/16.
    Coarse,
}

impl Precision {
    const fn step_bits(self) -> u32 {
        match self {
            Self::Fine => 5,
            Self::Coarse => 3,
        }
    }

    /// What is told is off by at most the value divided by this.
    #[must_use]
    pub const fn error_divisor(self) -> u64 {
        2 << self.step_bits()
    }

    const fn buckets(self) -> usize {
        ((LONGEST_BITS - self.step_bits() + 1) << self.step_bits()) as usize
    }

    /// Where a value below [`LONGEST_NS`] counts.
    fn bucket(self, value: u64) -> usize {
        let bits = self.step_bits();
        let doubling = (value | 1).ilog2().saturating_sub(bits);
        let step = (value >> doubling) as usize;
        // From the second doubling on, steps count from the first above those below.
        step + ((doubling as usize) << bits)
    }

    /// The least value of a bucket, and how many values it has.
    fn span(self, bucket: usize) -> (u64, u64) {
        let bits = self.step_bits();
        let doubling = ((bucket as u64) >> bits).saturating_sub(1);
        let step = bucket as u64 - (doubling << bits);
        (step << doubling, 1 << doubling)
    }
}

/// Durations in nanoseconds, by buckets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    precision: Precision,
    counts: Box<[u64]>,
    longer: u64,
    samples: u64,
}

/// A share of all durations, and how long they are at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantile {
    /// In the samples, to the precision of their histogram; none: longer than can be told.
    pub ns: Option<u64>,
    /// For all packets, no less than this; none: there are too few samples to tell.
    pub at_least: Option<u64>,
    /// For all packets, no more than this; none: too few samples, or longer than can be told.
    pub at_most: Option<u64>,
}

/// What histograms are read for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantiles {
    /// On so many samples it stands.
    pub samples: u64,
    /// Half of them.
    pub p50: Quantile,
    /// 95 of a hundred.
    pub p95: Quantile,
    /// 99 of a hundred.
    pub p99: Quantile,
}

impl Histogram {
    /// Without any.
    #[must_use]
    pub fn new(precision: Precision) -> Self {
        let counts = vec![0; precision.buckets()].into_boxed_slice();
        Self { precision, counts, longer: 0, samples: 0 }
    }

    /// How many there are.
    #[must_use]
    pub const fn samples(&self) -> u64 {
        self.samples
    }

    /// So many took so long.
    pub fn note(&mut self, ns: u64, times: u64) {
        let bucket = if ns < LONGEST_NS { self.precision.bucket(ns) } else { usize::MAX };
        let count = self.counts.get_mut(bucket).unwrap_or(&mut self.longer);
        *count = count.saturating_add(times);
        self.samples = self.samples.saturating_add(times);
    }

    /// So many took longer than could be told.
    pub fn note_longer(&mut self, times: u64) {
        self.note(u64::MAX, times);
    }

    /// Adds those of another, without loss. Of another precision they are other buckets: then it answers `false`, and
    /// nothing is added.
    pub fn merge(&mut self, other: &Self) -> bool {
        if self.precision != other.precision {
            return false;
        }
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count = count.saturating_add(*more);
        }
        self.longer = self.longer.saturating_add(other.longer);
        self.samples = self.samples.saturating_add(other.samples);
        true
    }

    /// Forgets them, and keeps the room.
    pub fn clear(&mut self) {
        if self.samples > 0 {
            self.counts.fill(0);
            (self.longer, self.samples) = (0, 0);
        }
    }

    /// None: there are none.
    #[must_use]
    pub fn quantiles(&self) -> Option<Quantiles> {
        if self.samples == 0 {
            return None;
        }
        let ranks = [500, 950, 990].map(|permille| Ranks::of(self.samples, permille));
        let mut wanted = [0; 9];
        let flat = ranks.iter().flat_map(|ranks| [ranks.low, ranks.middle, ranks.high]);
        wanted.iter_mut().zip(flat).for_each(|(place, rank)| *place = rank);
        let found = self.buckets_of(&wanted);
        let quantile = |at: usize| {
            let [low, middle, high] = [0, 1, 2].map(|more| found.get(at + more).copied().flatten());
            let upper = |(least, values): (u64, u64)| least + (values - 1);
            let has_low = wanted.get(at).is_some_and(|rank| *rank > 0);
            Quantile {
                ns: middle.map(|(least, values)| least + values / 2),
                at_least: has_low.then(|| low.map_or(LONGER_AT_LEAST_NS, |(least, _)| least)),
                at_most: high.map(upper),
            }
        };
        Some(Quantiles {
            samples: self.samples,
            p50: quantile(0),
            p95: quantile(3),
            p99: quantile(6),
        })
    }

    /// The spans of the buckets in which these ranks are, counted from 1; none: in no bucket.
    fn buckets_of(&self, ranks: &[u64; 9]) -> [Option<(u64, u64)>; 9] {
        let mut found = [None; 9];
        let mut seen = 0_u64;
        for (bucket, count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let before = seen;
            seen = seen.saturating_add(*count);
            for (place, rank) in found.iter_mut().zip(ranks) {
                if (before + 1..=seen).contains(rank) {
                    *place = Some(self.precision.span(bucket));
                }
            }
        }
        found
    }
}

/// Ranks among samples, from 1: that of a quantile, and those between which the quantile of all packets is; 0: there is
/// no such sample below.
struct Ranks {
    low: u64,
    middle: u64,
    high: u64,
}

impl Ranks {
    fn of(samples: u64, permille: u64) -> Self {
        let middle = u128::from(samples) * u128::from(permille);
        let middle = u64::try_from(middle.div_ceil(1_000)).unwrap_or(samples).max(1);
        let share = permille as f64 / 1_000.0;
        let away = (DEVIATIONS * (samples as f64 * share * (1.0 - share)).sqrt()).ceil() as u64 + 2;
        let high = middle.saturating_add(away);
        Self { low: middle.saturating_sub(away), middle, high }
    }
}

#[cfg(test)]
mod tests;
