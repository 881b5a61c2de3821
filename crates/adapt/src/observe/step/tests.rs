//! Steps that are there, and noise in which there is none.

use super::super::histogram::{Histogram, Precision};
use super::*;

/// Delays of a window: most about a middle, a share far above.
fn window(random: &mut fastrand::Rng, (middle_ns, far): (f64, f64), samples: usize) -> Quantiles {
    let mut histogram = Histogram::new(Precision::Fine);
    for _ in 0..samples {
        let spread = (0..4).map(|_| random.f64()).sum::<f64>() / 4.0;
        let burst = if random.f64() < far { 1.0 + 9.0 * random.f64() } else { 1.0 };
        histogram.note((middle_ns * (0.5 + spread) * burst) as u64, 1);
    }
    histogram.quantiles().unwrap()
}

/// Few are far above, so p95 is among the most.
const CALM: f64 = 0.01;
/// As many that p95 is now among the most and now far above.
const WILD: f64 = 0.05;

/// Windows of these middles in turn; answers the steps.
fn steps(seed: u64, (samples, far): (usize, f64), middles: impl Iterator<Item = f64>) -> Vec<Step> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut detector = Detector::new();
    let windows = middles.enumerate();
    let judged = windows.map(|(at, middle)| {
        detector.judge(at as u64, &window(&mut random, (middle, far), samples))
    });
    judged.flatten().collect()
}

#[test]
fn a_step_up_and_a_step_down_are_told_once_each_with_what_was_before_and_since() {
    for seed in 0..20 {
        let middles = [100_000.0, 200_000.0, 100_000.0].map(|ns| std::iter::repeat_n(ns, 50));
        let told = steps(seed, (1_500, CALM), middles.into_iter().flatten());
        let [up, down] = told[..] else { panic!("seed {seed}: {told:?}") };
        // By the fourth window of the new height, or little later where one was low by chance.
        assert!((53..58).contains(&up.window) && (103..108).contains(&down.window), "{told:?}");
        assert!(up.to_ns > up.from_ns * 3 / 2 && down.to_ns < down.from_ns * 2 / 3, "{told:?}");
    }
}

#[test]
fn noise_is_told_as_a_step_no_more_often_than_is_stated() {
    let (seeds, windows) = (40, 1_000);
    let mut told = 0;
    for seed in 0..seeds {
        let far = if seed % 2 == 0 { CALM } else { WILD };
        told += steps(seed, (30, far), std::iter::repeat_n(100_000.0, windows)).len();
    }
    // Twice once in 35,960, and three standard deviations of a Poisson count.
    let expected = seeds as f64 * windows as f64 * 2.0 / 35_960.0;
    let most = expected + 3.0 * expected.sqrt();
    assert!((told as f64) <= most, "{told} steps where there is none, at most {most}");
}

/// That the test above holds something: where one window is held against the 28, the same noise is told often.
#[test]
fn the_same_noise_would_be_told_if_one_window_were_enough() {
    let mut random = fastrand::Rng::with_seed(1);
    let p95: Vec<u64> =
        (0..2_000).map(|_| told(&window(&mut random, (100_000.0, WILD), 30).p95)).collect();
    let all = p95.windows(STEP_REFERENCE_WINDOWS + 1);
    let above = all.filter(|windows| {
        let (last, before) = windows.split_last().unwrap();
        let highest = before.iter().max().unwrap();
        *last > highest + highest / MARGIN_DIVISOR
    });
    let above = above.count();
    assert!(above > 10, "{above}");
}

#[test]
fn a_step_smaller_than_the_margin_is_none() {
    let mut detector = Detector::new();
    let exactly = |ns: u64| {
        let mut histogram = Histogram::new(Precision::Fine);
        histogram.note(ns, 1_000);
        histogram.quantiles().unwrap()
    };
    let told =
        |detector: &mut Detector, ns: u64| (0..40).find_map(|at| detector.judge(at, &exactly(ns)));
    assert_eq!(told(&mut detector, 64_000), None);
    assert_eq!(told(&mut detector, 66_000), None);
    let step = told(&mut detector, 80_000).unwrap();
    assert_eq!(step.window, 3, "the fourth window");
}

#[test]
fn windows_of_few_samples_are_passed_over() {
    let mut random = fastrand::Rng::with_seed(2);
    let mut detector = Detector::new();
    for at in 0..60 {
        let (middle, samples) = if at % 2 == 0 { (100_000.0, 200) } else { (900_000.0, 19) };
        assert_eq!(detector.judge(at, &window(&mut random, (middle, CALM), samples)), None);
    }
    let step =
        (0..8).find_map(|at| detector.judge(at, &window(&mut random, (200_000.0, CALM), 200)));
    assert!(step.is_some(), "and nothing has stopped");
}
