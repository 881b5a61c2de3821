//! Delays of frames and what several runs of one case come to. Pure.

use crate::run::statistics::mean;
use serde::Serialize;

/// Delays of one stream, in nanoseconds. What was lost is late: in the mean, among the quantiles and as
/// the longest it stands with the time after which nobody waited for it any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Delays {
    /// Arithmetic mean.
    pub mean_ns: f64,
    /// Median.
    pub p50_ns: u64,
    /// 99 of 100 are no longer.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// Mean difference of neighbours of one slice (RFC 3550 section 6.4.1 without its smoothing),
    /// of all slices; 0 when each has but one frame.
    pub jitter_ns: f64,
    /// The same of the slice that has most of it.
    pub jitter_worst_ns: f64,
}

/// Differences of neighbours in one slice.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Jitter {
    last_ns: Option<u64>,
    sum_ns: u64,
    steps: u64,
}

impl Jitter {
    /// The delay of the slice's next frame.
    pub(crate) fn note(&mut self, delay_ns: u64) {
        if let Some(last) = self.last_ns.replace(delay_ns) {
            self.sum_ns += last.abs_diff(delay_ns);
            self.steps += 1;
        }
    }

    #[allow(clippy::cast_precision_loss, reason = "sums of nanoseconds are below 2^52")]
    fn mean_ns(self) -> f64 {
        if self.steps == 0 { 0.0 } else { self.sum_ns as f64 / self.steps as f64 }
    }
}

impl Delays {
    /// The figures of delays, and of the differences in each slice; sorts the delays. `lost`: how
    /// many more there would have been, and what each of them counts, in nanoseconds.
    #[allow(clippy::cast_precision_loss, reason = "sums of nanoseconds are below 2^52")]
    pub(crate) fn of(delays_ns: &mut [u64], slices: &[Jitter], lost: (u64, u64)) -> Self {
        let ((lost, late_ns), came) = (lost, delays_ns.len());
        let all = came.saturating_add(usize::try_from(lost).unwrap_or(usize::MAX));
        if all == 0 {
            return Self::default();
        }
        let sum = |all: Jitter, one: &Jitter| Jitter {
            sum_ns: all.sum_ns + one.sum_ns,
            steps: all.steps + one.steps,
            ..all
        };
        let jitter_ns = slices.iter().fold(Jitter::default(), sum).mean_ns();
        let jitter_worst_ns = slices.iter().map(|one| one.mean_ns()).fold(0.0, f64::max);
        delays_ns.sort_unstable();
        let at = |hundredths: usize| {
            let place = all.saturating_mul(hundredths).div_ceil(100).saturating_sub(1);
            delays_ns.get(place).copied().unwrap_or(late_ns)
        };
        let came_ns = delays_ns.iter().sum::<u64>() as f64;
        Self {
            mean_ns: (came_ns + lost as f64 * late_ns as f64) / all as f64,
            p50_ns: at(50),
            p99_ns: at(99),
            max_ns: at(100),
            jitter_ns,
            jitter_worst_ns,
        }
    }
}

/// The mean of several runs without the best and the worst of them, as the study takes it; of fewer
/// than three runs the mean of all.
#[must_use]
pub(crate) fn mean_without_extremes(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.as_slice() {
        [_, middle @ .., _] if !middle.is_empty() => mean(middle).mean,
        all => mean(all).mean,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_and_the_worst_of_ten_runs_are_dropped() {
        let runs = [5.0, 5.0, 5.0, 5.0, 900.0, 5.0, 5.0, 1.0, 5.0, 5.0];
        assert!((mean_without_extremes(&runs) - 5.0).abs() < 1e-9);
        assert!((mean_without_extremes(&[2.0, 4.0]) - 3.0).abs() < 1e-9);
        assert!(mean_without_extremes(&[]).abs() < 1e-9);
    }

    #[test]
    fn quantiles_are_delays_that_came() {
        let mut delays: Vec<u64> = (1..=200).rev().collect();
        let found = Delays::of(&mut delays, &[], (0, 0));
        assert_eq!((found.p50_ns, found.p99_ns, found.max_ns), (100, 198, 200));
        assert!((found.mean_ns - 100.5).abs() < 1e-9);
        assert_eq!(Delays::of(&mut [], &[], (0, 0)), Delays::default());
    }

    #[test]
    fn what_is_lost_is_late_and_neither_mean_nor_quantile_looks_away() {
        let of = |lost| {
            let mut delays: Vec<u64> = (1..=98).collect();
            let found = Delays::of(&mut delays, &[], (lost, 9_000));
            (found.mean_ns.round(), found.p50_ns, found.p99_ns, found.max_ns)
        };
        assert_eq!(of(0), (50.0, 49, 98, 98));
        assert_eq!(of(2), (229.0, 50, 9_000, 9_000));
        assert_eq!(of(98), (4_525.0, 98, 9_000, 9_000));
        let all_lost = Delays::of(&mut [], &[], (1, 9_000));
        assert_eq!((all_lost.mean_ns, all_lost.p50_ns), (9_000.0, 9_000));
    }

    #[test]
    fn jitter_is_that_within_slices_and_not_between_them() {
        let slice = |delays: &[u64]| {
            let mut jitter = Jitter::default();
            delays.iter().for_each(|delay| jitter.note(*delay));
            jitter
        };
        let slices = [slice(&[100, 101, 100]), slice(&[900, 906]), slice(&[5])];
        let found = Delays::of(&mut [100, 900, 101, 906, 100, 5], &slices, (0, 0));
        assert!((found.jitter_ns - 8.0 / 3.0).abs() < 1e-9, "{found:?}");
        assert!((found.jitter_worst_ns - 6.0).abs() < 1e-9, "{found:?}");
    }
}
