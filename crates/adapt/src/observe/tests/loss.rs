//! Packets that are lost, reports that are lost, and both out of order.

use super::world::*;
use crate::observe::{DelayFigures, Observer, PathFigures, Quantile, Quantiles};
use catena_model::telemetry::{FlowName, HopReport, PacketReport};
use proptest::prelude::*;
use std::collections::BTreeMap;

const FLOWS: u64 = 5;

/// One report of each flow, so that all are known.
fn begin(observers: &mut [&mut Observer], world: &mut World) {
    let lossy = std::mem::take(&mut world.lossy);
    for flow in 0..FLOWS {
        let report = world.sampled(FlowName(flow)).unwrap();
        for observer in &mut *observers {
            tell(observer, world, &report).unwrap();
        }
    }
    world.lossy = lossy;
}

fn lost(known: &PathFigures, hop: usize) -> i64 {
    known.hops[hop].passage.as_ref().unwrap().losses.unwrap().lost as i64
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever becomes of reports on their way: those that come say it all.
    #[test]
    fn losses_are_exact_at_the_hop_where_they_are_whichever_reports_are_lost_repeated_or_late(
        seed: u64, lossy in prop::array::uniform4(0.0..0.3_f64), unreported in 0.0..0.9_f64
    ) {
        let (mut observer, mut world) = (observer(), World::new(seed));
        world.lossy = [lossy[0], lossy[1], 0.0, lossy[2], lossy[3]];
        begin(&mut [&mut observer], &mut world);
        let before = world.counters.clone();
        let mut held: Option<PacketReport> = None;
        for _ in 0..600 {
            let flow = FlowName(world.random.u64(0..FLOWS));
            let Some(report) = world.sampled(flow) else { continue };
            if world.random.f64() < unreported {
                held = held.or(Some(report));
                continue;
            }
            tell(&mut observer, &world, &report).unwrap();
            prop_assert!(tell(&mut observer, &world, &report).is_err());
            if let Some(late) = held.take() {
                prop_assert!(tell(&mut observer, &world, &late).is_err());
            }
        }
        // One last report of each.
        world.lossy[4] = 0.0;
        for flow in 0..FLOWS {
            let report = (0..10_000).find_map(|_| world.sampled(FlowName(flow))).unwrap();
            tell(&mut observer, &world, &report).unwrap();
        }
        let known = figures(&mut observer, world.now_ns);
        for hop in [0, 1, 3] {
            prop_assert_eq!(lost(&known, hop), world.lost_since(&before, hop), "hop {}", hop);
        }
        prop_assert!(known.hops[4].passage.as_ref().unwrap().losses.is_none(), "nothing is behind");
    }

    /// Two counters that say nothing of each other but that the second never counts more.
    #[test]
    fn fewer_than_half_of_what_counters_count_may_be_lost_between_two_reports(
        lost_now in 0..(1_u64 << 19) - 1, seed: u64
    ) {
        let (mut observer, mut world) = (observer(), World::new(seed));
        begin(&mut [&mut observer], &mut world);
        let flow = FlowName(0);
        // Reports of others say that this is long ago.
        world.sequence += 1 << 17;
        for hop in [0, 1] {
            *world.counters.get_mut(&(flow, hop)).unwrap() += lost_now;
        }
        let report = world.sampled(flow).unwrap();
        tell(&mut observer, &world, &report).unwrap();
        prop_assert_eq!(lost(&figures(&mut observer, world.now_ns), 1), lost_now as i64);
    }

    /// Packets that others overtake between two nodes are counted in another order there.
    #[test]
    fn where_packets_overtake_one_another_losses_are_off_by_no_more_than_these(
        seed: u64, depth in 1..30_u64
    ) {
        let (mut observer, mut world) = (observer(), World::new(seed));
        world.lossy[0] = 0.1;
        begin(&mut [&mut observer], &mut world);
        let before = world.counters.clone();
        for _ in 0..300 {
            let flow = FlowName(world.random.u64(0..FLOWS));
            let Some(mut report) = world.sampled(flow) else { continue };
            // So many of those behind it were counted before it, or of those before it behind it.
            let (ahead, behind) = (world.random.u64(0..=depth), world.random.u64(0..=depth));
            let counter = world.counters[&(flow, 3)] + ahead - behind;
            record(&mut report, 3).counter = Some(catena_model::telemetry::FlowCounter::of(counter));
            prop_assert_eq!(tell(&mut observer, &world, &report), Ok(()));
        }
        let known = figures(&mut observer, world.now_ns);
        let allowed = (depth * FLOWS) as i64;
        let lost_behind = lost(&known, 1);
        prop_assert!(lost_behind <= allowed, "{lost_behind} of none, {allowed}");
        // What comes since the last report of a flow is not known.
        let truth = world.lost_since(&before, 0);
        prop_assert!(lost(&known, 0) <= truth && truth - lost(&known, 0) <= 8 * 300 / 10);
    }
}

/// What stands between the bounds that are told.
fn is_within(told: &Quantile, truth: u64) -> bool {
    told.at_least.is_none_or(|least| least <= truth)
        && told.at_most.is_none_or(|most| truth <= most)
}

fn of_rank(sorted: &[u64], permille: u64) -> u64 {
    sorted[(sorted.len() as u64 * permille).div_ceil(1_000) as usize - 1]
}

/// How many of three quantiles are not within what is told.
fn outside(told: &Quantiles, samples: &[u64]) -> (usize, usize) {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    let told = [(500, told.p50), (950, told.p95), (990, told.p99)];
    let is_out =
        |(permille, told): &&(u64, Quantile)| !is_within(told, of_rank(&sorted, *permille));
    (told.iter().filter(is_out).count(), told.len())
}

/// The same packets, told whole and with a fifth of the reports lost.
struct Pair {
    whole: Observer,
    thinned: Observer,
    world: World,
    before: BTreeMap<(FlowName, usize), u64>,
    told: u64,
    kept: u64,
}

impl Pair {
    fn new(seed: u64, pace: impl FnOnce(&mut World)) -> Self {
        let mut world = World::new(seed);
        let (mut whole, mut thinned) = (observer(), observer());
        pace(&mut world);
        begin(&mut [&mut whole, &mut thinned], &mut world);
        let before = world.counters.clone();
        Self { whole, thinned, world, before, told: FLOWS, kept: FLOWS }
    }

    fn run(&mut self, seconds: u64) {
        let end = self.world.now_ns + seconds * SECOND;
        while self.world.now_ns < end {
            let flow = FlowName(self.world.random.u64(0..FLOWS));
            let report = self.world.sampled(flow);
            // Some hundred reports in a window.
            self.world.now_ns += 2 * MILLISECOND;
            let Some(report) = report else { continue };
            self.told += 1;
            tell(&mut self.whole, &self.world, &report).unwrap();
            if self.world.random.f64() >= 0.2 {
                self.kept += 1;
                tell(&mut self.thinned, &self.world, &report).unwrap();
            }
        }
    }

    fn figures(&mut self) -> [PathFigures; 2] {
        let now_ns = self.world.now_ns;
        [&mut self.whole, &mut self.thinned].map(|observer| figures(observer, now_ns))
    }
}

fn delays(known: &PathFigures) -> [&DelayFigures; 2] {
    [&known.hops[1].visits[0].delays[0], &known.chain[0]]
}

#[test]
fn with_a_fifth_of_the_reports_lost_every_series_stays_within_its_stated_error() {
    let (mut out, mut of) = (0, 0);
    for seed in 0..12 {
        let mut pair = Pair::new(seed, |world| world.lossy[1] = 0.02);
        pair.run(20);
        assert!((pair.kept as f64) < 0.85 * pair.told as f64, "so many were lost");
        let [whole, thinned] = pair.figures();
        // Delays: each window of each series against all packets that were told.
        let samples = [&pair.world.services, &pair.world.chains];
        for (series, samples) in delays(&thinned).into_iter().zip(samples) {
            assert!(series.windows.len() >= 20);
            for window in &series.windows {
                let (outside, all) = outside(&window.quantiles, &samples[&window.window]);
                (out, of) = (out + outside, of + all);
            }
        }
        // Losses: the same, but for what was lost since the last report of each flow that came.
        for hop in [0, 1, 3] {
            let (truth, told) = (lost(&whole, hop), lost(&thinned, hop));
            assert!(truth - told <= 20 && told - truth <= 0, "hop {hop}: {told} of {truth}");
        }
        assert!(lost(&whole, 1) > 500, "and many were");
        let unknown = pair.world.lost_since(&pair.before, 1) - lost(&whole, 1);
        assert!((0..20).contains(&unknown), "{unknown}");
        // Rates of flows: exact over what they name, which is most of the window.
        for (whole, thinned) in whole.flows.iter().zip(&thinned.flows) {
            let [whole, thinned] = [whole, thinned].map(|flow| flow.hops[0].rate.unwrap());
            let per_second =
                |rate: crate::observe::Rate| rate.packets as f64 * 1e9 / rate.over_ns as f64;
            let most = 8.0 * 8.0 / thinned.packets as f64;
            assert!((per_second(thinned) / per_second(whole) - 1.0).abs() < most);
        }
    }
    // Stated: 3 of 1,000 may be. That four fifths of the packets are in the sample makes it fewer.
    assert!(of > 1_000 && out * 1_000 <= of * 3, "{out} of {of} are outside");
}

/// That the test above holds something: bounds of another height would not hold.
#[test]
fn bounds_of_a_function_that_is_a_tenth_slower_do_not_hold() {
    let mut pair = Pair::new(1, |_| ());
    pair.run(20);
    let [_, thinned] = pair.figures();
    let (mut out, mut of) = (0, 0);
    for window in &delays(&thinned)[0].windows {
        let slower: Vec<u64> =
            pair.world.services[&window.window].iter().map(|ns| ns + ns / 10).collect();
        let (outside, all) = outside(&window.quantiles, &slower);
        (out, of) = (out + outside, of + all);
    }
    assert!(out * 5 > of, "{out} of {of}");
}

#[test]
fn with_a_fifth_of_the_reports_lost_a_step_is_told_once_and_noise_never() {
    for seed in 0..6 {
        let mut pair = Pair::new(seed, |_| ());
        pair.run(45);
        for known in pair.figures() {
            assert!(delays(&known).iter().all(|series| series.steps.is_empty()), "seed {seed}");
        }
        pair.world.service_ns *= 2.0;
        let began = pair.world.now_ns / SECOND;
        pair.run(12);
        for known in pair.figures() {
            let [step] = delays(&known)[0].steps[..] else { panic!("{:?}", delays(&known)) };
            assert!((began + 3..began + 8).contains(&step.window), "{step:?}, {began}");
            assert!(step.to_ns > step.from_ns * 3 / 2, "{step:?}");
        }
    }
}

#[test]
fn a_window_in_which_all_reports_are_lost_is_missing_and_nothing_stops() {
    let mut pair = Pair::new(3, |_| ());
    pair.run(10);
    let end = pair.world.now_ns + 3 * SECOND;
    while pair.world.now_ns < end {
        let report = pair.world.sampled(FlowName(1)).unwrap();
        assert!(report.hops.iter().any(|hop| matches!(hop, HopReport::Recorded(_))));
        pair.world.now_ns += 2 * MILLISECOND;
    }
    pair.run(3);
    let [_, thinned] = pair.figures();
    let windows: Vec<u64> = delays(&thinned)[0].windows.iter().map(|it| it.window).collect();
    let gap = windows.windows(2).filter(|pair| pair[1] > pair[0] + 1).count();
    assert_eq!(gap, 1, "{windows:?}");
    assert_eq!(lost(&thinned, 1), 0);
    assert_eq!(thinned.flows.iter().map(|flow| flow.begun_anew).sum::<u64>(), 0);
}
