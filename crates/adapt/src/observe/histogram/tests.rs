//! Histograms held against sorted samples, and their ranks against the binomial distribution.

use super::*;
use proptest::prelude::*;

/// The value of a rank, from 1.
fn of_rank(sorted: &[u64], rank: u64) -> u64 {
    sorted[usize::try_from(rank).unwrap() - 1]
}

fn histogram(precision: Precision, values: &[u64]) -> Histogram {
    let mut histogram = Histogram::new(precision);
    values.iter().for_each(|ns| histogram.note(*ns, 1));
    histogram
}

/// Values of any size, and often of the ends of buckets.
fn values() -> impl Strategy<Value = Vec<u64>> {
    let end =
        (0..34_u32, 0..3_u64).prop_map(|(bit, more)| ((1_u64 << bit) + more).saturating_sub(1));
    let any = (0..34_u32, any::<u64>()).prop_map(|(bits, value)| value >> (63 - bits) >> 1);
    prop::collection::vec(prop_oneof![end, any].prop_map(|ns| ns.min(LONGEST_NS - 1)), 1..400)
}

fn precision() -> impl Strategy<Value = Precision> {
    prop::sample::select(vec![Precision::Fine, Precision::Coarse])
}

#[test]
fn errors_are_those_that_are_stated() {
    assert_eq!(Precision::Fine.error_divisor(), 64);
    assert_eq!(Precision::Coarse.error_divisor(), 16);
    for precision in [Precision::Fine, Precision::Coarse] {
        let buckets = precision.buckets();
        assert_eq!(precision.bucket(LONGEST_NS - 1), buckets - 1, "the last one is in use");
        // One bucket begins where the one before ends.
        let mut next = 0;
        for bucket in 0..buckets {
            let (least, values) = precision.span(bucket);
            assert_eq!(least, next);
            assert_eq!(precision.bucket(least), bucket);
            assert_eq!(precision.bucket(least + values - 1), bucket);
            next = least + values;
        }
        assert_eq!(next, LONGEST_NS);
    }
}

proptest! {
    #[test]
    fn quantiles_are_those_of_sorted_samples_within_the_stated_error(
        precision in precision(), mut values in values()
    ) {
        let told = histogram(precision, &values).quantiles().unwrap();
        values.sort_unstable();
        let samples = values.len() as u64;
        prop_assert_eq!(told.samples, samples);
        for (permille, quantile) in [(500, told.p50), (950, told.p95), (990, told.p99)] {
            let rank = (samples * permille).div_ceil(1_000);
            let truth = of_rank(&values, rank);
            let ns = quantile.ns.unwrap();
            prop_assert!(ns.abs_diff(truth) <= truth / precision.error_divisor(), "{ns}, {truth}");
            let ranks = Ranks::of(samples, permille);
            let least = (ranks.low > 0).then(|| of_rank(&values, ranks.low));
            let most = (ranks.high <= samples).then(|| of_rank(&values, ranks.high));
            prop_assert_eq!(least.is_some(), quantile.at_least.is_some());
            prop_assert_eq!(most.is_some(), quantile.at_most.is_some());
            // The bounds are the ends of buckets, a whole one away at most.
            if let Some((least, told)) = least.zip(quantile.at_least) {
                prop_assert!(told <= least && least - told <= 2 * least / precision.error_divisor());
            }
            if let Some((most, told)) = most.zip(quantile.at_most) {
                prop_assert!(told >= most && told - most <= 2 * most / precision.error_divisor());
            }
        }
    }

    #[test]
    fn what_is_merged_is_what_would_have_been_noted_together(
        precision in precision(), one in values(), other in values(), longer in 0..3_u64
    ) {
        let mut merged = histogram(precision, &one);
        let mut second = histogram(precision, &other);
        second.note_longer(longer);
        prop_assert!(merged.merge(&second));
        let mut together = histogram(precision, &[one, other].concat());
        together.note_longer(longer);
        prop_assert_eq!(&merged, &together);
        merged.clear();
        prop_assert_eq!(merged, Histogram::new(precision));
    }
}

#[test]
fn histograms_of_two_precisions_are_not_mixed() {
    let mut fine = histogram(Precision::Fine, &[5]);
    assert!(!fine.merge(&histogram(Precision::Coarse, &[5])));
    assert_eq!(fine.samples(), 1);
}

#[test]
fn of_nothing_nothing_is_told_and_of_little_no_bounds() {
    assert_eq!(Histogram::new(Precision::Fine).quantiles(), None);
    let one = histogram(Precision::Fine, &[40]).quantiles().unwrap();
    let told = Quantile { ns: Some(40), at_least: None, at_most: None };
    assert_eq!((one.samples, one.p50, one.p99), (1, told, told));
}

#[test]
fn what_took_longer_than_can_be_told_has_no_figure_and_a_lower_bound() {
    let mut histogram = histogram(Precision::Fine, &[1_000; 900]);
    histogram.note_longer(100);
    let told = histogram.quantiles().unwrap();
    let p99 = Quantile { ns: None, at_least: Some(0xff_ffff * 128), at_most: None };
    assert_eq!(told.p99, p99);
    assert_eq!(told.p50.ns, Some(1_000 - 1_000 % 16 + 8));
    assert!(told.p50.at_most.is_some());
}

/// ln(n!), for each n.
fn logs_of_factorials(most: u64) -> Vec<f64> {
    let mut sum = 0.0;
    let mut logs = vec![0.0];
    for number in 1..=most {
        sum += (number as f64).ln();
        logs.push(sum);
    }
    logs
}

/// Samples below a quantile of all packets are binomial, so what is between two ranks can be reckoned.
#[test]
fn bounds_hold_in_997_of_1_000_cases_by_the_binomial_distribution() {
    let logs = logs_of_factorials(6_000);
    let mut least: f64 = 1.0;
    for samples in [1, 2, 5, 10, 20, 50, 99, 100, 101, 300, 1_000, 1_500, 6_000_u64] {
        for permille in [500, 950, 990] {
            let share = permille as f64 / 1_000.0;
            let ranks = Ranks::of(samples, permille);
            let log = |number: u64| logs[usize::try_from(number).unwrap()];
            // The quantile is between the two if so many samples are below it.
            let inside = |below: u64| ranks.low <= below && below < ranks.high;
            let chance = |below: u64| {
                let ways = log(samples) - log(below) - log(samples - below);
                let (is, is_not) = (below as f64, (samples - below) as f64);
                (ways + is * share.ln() + is_not * (1.0 - share).ln()).exp()
            };
            let held: f64 = (0..=samples).filter(|below| inside(*below)).map(chance).sum();
            assert!(held >= 0.997, "{samples} samples, {permille}: {held}");
            least = least.min(held);
        }
    }
    assert!(least < 0.999_9, "bounds are no wider than they need to be: {least}");
}
