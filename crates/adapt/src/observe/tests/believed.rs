//! What honest reports say, and what nobody can know.

use super::world::*;
use crate::observe::limits::{
    BEGUN_ANEW_AFTER, DELAYS_PER_REPORT_MAX, FLOW_QUIET_MAX_NS, HOPS_MAX,
};
use crate::observe::{
    DelayFigures, Delivery, Limits, Losses, Observer, PathFigures, Refusal, Unwatchable,
};
use catena_model::id::PathId;
use catena_model::telemetry::{
    ArrivalTime, DelayReport, DelaySpan, DeviceId, FlowCounter, FlowName, HopReport, PlannedHop,
    PlannedPath, ReportReason, Source, VisitLatency,
};

const FLOW: FlowName = FlowName(1);

/// So many reports of one flow.
fn tell_many(observer: &mut Observer, world: &mut World, reports: usize) {
    for _ in 0..reports {
        let report = world.sampled(FLOW).unwrap();
        tell(observer, world, &report).unwrap();
    }
}

/// What is known a window after the last report.
fn later(observer: &mut Observer, world: &World) -> PathFigures {
    figures(observer, world.now_ns + SECOND)
}

fn only(delays: &[DelayFigures]) -> &DelayFigures {
    let [only] = delays else { panic!("{delays:?}") };
    only
}

/// The sample of a rank of a quantile.
fn truth(samples: &[u64], permille: u64) -> u64 {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    sorted[(sorted.len() as u64 * permille).div_ceil(1_000) as usize - 1]
}

#[test]
fn delays_of_functions_and_of_the_chain_are_told_by_window_with_source_and_samples() {
    let (mut observer, mut world) = (observer(), World::new(1));
    // Over the end of what stamps count, in the eighth second.
    tell_many(&mut observer, &mut world, 12_000);
    assert!(world.now_ns > 9 * SECOND, "{}", world.now_ns);
    let known = later(&mut observer, &world);
    for (delays, samples) in
        [(&known.hops[1].visits[0].delays, &world.services), (&known.chain, &world.chains)]
    {
        let told = only(delays);
        assert_eq!((told.source, told.spoiled), (Source::Packet, 0));
        assert_eq!(told.all.samples, 12_000);
        assert_eq!(told.windows.len(), samples.len());
        for window in &told.windows {
            let samples = &samples[&window.window];
            assert_eq!(window.quantiles.samples, samples.len() as u64);
            let truth = truth(samples, 950);
            assert!(window.quantiles.p95.ns.unwrap().abs_diff(truth) <= truth / 64);
        }
    }
    assert_eq!(known.hops[1].visits[0].functions.len(), 1);
    assert_eq!(known.taken.reports, 12_000);
    assert_eq!(known.taken.complete, 12_000, "a plain router that is silent is as planned");
    let losses = known.hops[1].passage.as_ref().unwrap().losses.unwrap();
    assert_eq!(losses, Losses { source: Source::Packet, lost: 0, samples: 11_999 });
}

#[test]
fn where_nothing_was_observed_there_is_no_figure() {
    let (mut observer, mut world) = (observer(), World::new(1));
    let nothing = later(&mut observer, &world);
    assert!(nothing.chain.is_empty() && nothing.flows.is_empty());
    assert!(nothing.hops.iter().all(|hop| hop.passage.is_none() && hop.leg.is_empty()));
    assert_eq!(observer.figures(PathId(8), VERSION, world.now_ns), None);
    let mut report = world.sampled(FLOW).unwrap();
    for hop in WRITING {
        let record = record(&mut report, hop);
        (record.arrival, record.latency, record.counter) = (None, None, None);
    }
    tell(&mut observer, &world, &report).unwrap();
    let known = later(&mut observer, &world);
    assert_eq!(known.taken.reports, 1);
    assert!(known.chain.is_empty());
    let has_any = |hop: &crate::observe::HopFigures| {
        hop.passage.is_some()
            || !hop.leg.is_empty()
            || hop.visits.iter().any(|visit| !visit.delays.is_empty())
    };
    assert!(!known.hops.iter().any(has_any), "{:?}", known.hops);
    let [flow] = &known.flows[..] else { panic!("{:?}", known.flows) };
    assert!(flow.hops.iter().all(|hop| hop.rate.is_none() && hop.losses.is_none()));
}

#[test]
fn a_flows_rate_at_a_hop_is_what_its_counter_says_over_what_its_clock_says() {
    let (mut observer, mut world) = (observer(), World::new(2));
    let (mut first, mut last) = (None, None);
    while world.now_ns < 7 * SECOND {
        let report = world.sampled(FLOW).unwrap();
        let arrival = world.now_ns;
        if arrival / SECOND == 6 {
            let hop = world.counters[&(FLOW, 3)];
            let stamp = match report.hops[3] {
                HopReport::Recorded(record) => record.arrival.unwrap().time,
                _ => panic!("no record"),
            };
            last = Some((hop, stamp));
        } else if arrival / SECOND == 5 {
            let stamp = match report.hops[3] {
                HopReport::Recorded(record) => record.arrival.unwrap().time,
                _ => panic!("no record"),
            };
            first = Some((world.counters[&(FLOW, 3)], stamp));
        }
        tell(&mut observer, &world, &report).unwrap();
    }
    let ((before, start), (now, end)) = first.zip(last).unwrap();
    let known = figures(&mut observer, 7 * SECOND + 1);
    let rate = known.flow(FLOW).unwrap().hops[3].rate.unwrap();
    assert_eq!((rate.packets, rate.over_ns), (now - before, end.since(start)));
    assert_eq!(known.flow(FLOW).unwrap().hops[ROUTER].rate, None);
    // Later nothing was heard of it.
    let known = figures(&mut observer, 9 * SECOND + 1);
    assert_eq!(known.flow(FLOW).unwrap().hops[3].rate, None);
}

#[test]
fn a_delay_between_nodes_is_none_unless_both_clocks_are_synchronised() {
    let (mut observer, mut world) = (observer(), World::new(3));
    for _ in 0..100 {
        let mut report = world.sampled(FLOW).unwrap();
        // Its clock is its own, and far from those of others.
        let stamp = record(&mut report, 1).arrival.as_mut().unwrap();
        stamp.is_synchronised = false;
        stamp.time = ArrivalTime::from_ns(stamp.time.ns() + 77 * SECOND);
        tell(&mut observer, &world, &report).unwrap();
    }
    let known = later(&mut observer, &world);
    assert!(known.hops[0].leg.is_empty() && known.hops[1].leg.is_empty());
    assert_eq!(only(&known.hops[3].leg).all.samples, 100);
    assert_eq!(only(&known.chain).all.samples, 100, "its ends are synchronised");
    assert_eq!(only(&known.hops[1].visits[0].delays).all.samples, 100);
}

#[test]
fn stamps_by_a_clock_that_two_nodes_share_are_compared_and_by_two_clocks_are_not() {
    let legs = |clocks: &[(u16, u64)]| {
        let (mut observer, mut world) = (observer(), World::new(3));
        let clocks = clocks.iter().map(|(device, clock)| (DeviceId(*device), *clock));
        observer.know_clocks(clocks.collect());
        for _ in 0..100 {
            let mut report = world.sampled(FLOW).unwrap();
            for hop in WRITING {
                record(&mut report, hop).arrival.as_mut().unwrap().is_synchronised = false;
            }
            tell(&mut observer, &world, &report).unwrap();
        }
        let known = later(&mut observer, &world);
        let legs = known.hops.iter().map(|hop| !hop.leg.is_empty());
        (legs.collect::<Vec<_>>(), !known.chain.is_empty())
    };
    assert_eq!(legs(&[]), (vec![false; 5], false));
    let (between, whole) = legs(&[(10, 7), (20, 7), (30, 8)]);
    assert_eq!((between, whole), (vec![true, false, false, false, false], false));
    let (between, whole) = legs(&[(10, 7), (20, 7), (30, 7), (END.0, 7)]);
    assert_eq!((between, whole), (vec![true, true, false, true, false], true));
}

#[test]
fn clocks_that_say_they_agree_and_do_not_cost_the_window() {
    let (mut observer, mut world) = (observer(), World::new(4));
    tell_many(&mut observer, &mut world, 100);
    let mut report = world.sampled(FLOW).unwrap();
    let ahead = world.stamp(world.now_ns + MILLISECOND);
    record(&mut report, 1).arrival.as_mut().unwrap().time = ahead;
    tell(&mut observer, &world, &report).unwrap();
    tell_many(&mut observer, &mut world, 100);
    let known = later(&mut observer, &world);
    assert!(known.hops[1].leg.is_empty(), "that window is told no more");
    assert_eq!(only(&known.hops[0].leg).all.samples, 201, "the clock before was late, not early");
    assert_eq!(only(&known.chain).all.samples, 201);
    world.now_ns += SECOND;
    tell_many(&mut observer, &mut world, 100);
    let leg = later(&mut observer, &world).hops[1].leg.clone();
    assert_eq!((only(&leg).all.samples, only(&leg).spoiled), (100, 1));
}

#[test]
fn a_packet_that_came_to_the_end_before_it_came_says_that_clocks_do_not_agree() {
    let (mut observer, mut world) = (observer(), World::new(4));
    tell_many(&mut observer, &mut world, 100);
    let mut report = world.sampled(FLOW).unwrap();
    let first = record(&mut report, 0).arrival.unwrap().time;
    let before = ArrivalTime::from_ns(first.ns() - 1_000);
    record(&mut report, 4).arrival.as_mut().unwrap().time = before;
    tell(&mut observer, &world, &report).unwrap();
    let known = later(&mut observer, &world);
    assert!(known.chain.is_empty() && known.hops[3].leg.is_empty());
    assert_eq!(only(&known.hops[1].leg).all.samples, 101);
}

#[test]
fn one_clock_does_not_disagree_with_itself() {
    let (mut observer, mut world) = (Observer::new(Limits::default()), World::new(4));
    let mut twice = planned(PATH, END);
    twice.hops[3] = PlannedHop { visits: vec![visit(20)] };
    observer.plan(twice, 0).unwrap();
    let mut report = world.sampled(FLOW).unwrap();
    record(&mut report, 3).device = Some(DeviceId(20));
    let stamp = record(&mut report, 1).arrival.unwrap();
    record(&mut report, 3).arrival.as_mut().unwrap().time =
        ArrivalTime::from_ns(stamp.time.ns() - 1);
    assert_eq!(tell(&mut observer, &world, &report), Err(Refusal::TimeOutsideBounds));
}

#[test]
fn a_flow_that_was_silent_for_long_begins_anew_and_nothing_is_told_of_between() {
    let (mut observer, mut world) = (observer(), World::new(12));
    tell_many(&mut observer, &mut world, 10);
    world.now_ns += FLOW_QUIET_MAX_NS + SECOND;
    for hop in WRITING {
        // Tables of nodes have forgotten it too, and its packets since then began at different numbers.
        world.counters.insert((FLOW, hop), 5_000 * hop as u64);
    }
    tell_many(&mut observer, &mut world, 10);
    let known = later(&mut observer, &world);
    let losses = known.hops[0].passage.as_ref().unwrap().losses.unwrap();
    assert_eq!((losses.lost, losses.samples, known.flows[0].begun_anew), (0, 18, 0));
}

#[test]
fn packets_that_are_told_for_being_slow_are_no_sample_of_delays() {
    let (mut observer, mut world) = (observer(), World::new(5));
    tell_many(&mut observer, &mut world, 50);
    for reason in [ReportReason::Latency, ReportReason::Saturated, ReportReason::Queue] {
        let mut report = world.sampled(FLOW).unwrap();
        report.reason = reason;
        let slow = VisitLatency { ns: VisitLatency::MAX_NS, is_saturated: true };
        record(&mut report, 1).latency = Some(slow);
        tell(&mut observer, &world, &report).unwrap();
    }
    let known = later(&mut observer, &world);
    assert_eq!(only(&known.hops[1].visits[0].delays).all.samples, 50);
    assert_eq!(only(&known.chain).all.samples, 50);
    let losses = known.hops[0].passage.as_ref().unwrap().losses.unwrap();
    assert_eq!(losses.samples, 52, "what they counted is as good as any");
}

#[test]
fn what_is_longer_than_its_field_is_told_as_no_less() {
    let (mut observer, mut world) = (observer(), World::new(6));
    for _ in 0..100 {
        let mut report = world.sampled(FLOW).unwrap();
        let slow = VisitLatency { ns: VisitLatency::MAX_NS, is_saturated: true };
        record(&mut report, 1).latency = Some(slow);
        tell(&mut observer, &world, &report).unwrap();
    }
    let known = later(&mut observer, &world);
    let p95 = only(&known.hops[1].visits[0].delays).all.p95;
    assert_eq!((p95.ns, p95.at_least, p95.at_most), (None, Some(VisitLatency::MAX_NS), None));
}

#[test]
fn hops_that_are_silent_or_missing_are_counted_and_the_others_are_told() {
    let (mut observer, mut world) = (observer(), World::new(7));
    tell_many(&mut observer, &mut world, 10);
    let mut silent = world.sampled(FLOW).unwrap();
    silent.hops[1] = HopReport::Silent;
    silent.is_incomplete = true;
    tell(&mut observer, &world, &silent).unwrap();
    let mut missing = world.sampled(FLOW).unwrap();
    missing.hops.remove(1);
    tell(&mut observer, &world, &missing).unwrap();
    tell_many(&mut observer, &mut world, 1);
    let known = later(&mut observer, &world);
    let taken = known.taken;
    assert_eq!((taken.reports, taken.complete, taken.silent), (13, 11, 1));
    assert_eq!((taken.missing, taken.incomplete), (1, 1));
    let second = known.hops[1].taken;
    assert_eq!((second.recorded, second.silent, second.missing), (11, 1, 1));
    assert_eq!(known.hops[ROUTER].taken.silent, 13);
    assert_eq!(only(&known.hops[1].visits[0].delays).all.samples, 11);
    assert_eq!(only(&known.hops[0].visits[0].delays).all.samples, 13);
    // Nothing was lost: counters are held against those of the last packet that has both.
    let losses = known.hops[0].passage.as_ref().unwrap().losses.unwrap();
    assert_eq!((losses.lost, losses.samples), (0, 10));
}

#[test]
fn a_node_that_counts_anew_is_believed_again_in_time_and_its_jump_is_no_loss() {
    for (hop, restarted) in [(0, 5), (3, 5), (0, 400_000), (3, 400_000)] {
        let (mut observer, mut world) = (observer(), World::new(8));
        for at in WRITING {
            world.counters.insert((FLOW, at), 900_000);
        }
        tell_many(&mut observer, &mut world, 50);
        world.counters.insert((FLOW, hop), restarted);
        for _ in 0..BEGUN_ANEW_AFTER {
            let report = world.sampled(FLOW).unwrap();
            let told = tell(&mut observer, &world, &report);
            let refusal = told.unwrap_err();
            let counter = [Refusal::CounterBackwards, Refusal::CounterContradiction];
            assert!(counter.contains(&refusal), "{refusal:?}");
        }
        tell_many(&mut observer, &mut world, 50);
        let known = later(&mut observer, &world);
        for known in &known.hops {
            assert!(
                known.passage.as_ref().is_none_or(|it| it.losses.is_none_or(|it| it.lost == 0))
            );
        }
        assert_eq!(known.flows[0].begun_anew, 1);
        assert_eq!(known.taken.reports, 100);
    }
}

#[test]
fn a_node_that_serves_two_hops_counts_for_neither_and_another_instance_begins_anew() {
    let mut twice = planned(PATH, END);
    twice.hops[3] = PlannedHop { visits: vec![visit(20)] };
    let mut shared = planned(PATH, END);
    shared.hops[1] = PlannedHop { visits: vec![visit(20), visit(21)] };
    for (planned, is_twice) in [(twice, true), (shared, false)] {
        let (mut observer, mut world) = (Observer::new(Limits::default()), World::new(9));
        observer.plan(planned, 0).unwrap();
        for packet in 0..100 {
            let mut report = world.sampled(FLOW).unwrap();
            if is_twice {
                record(&mut report, 3).device = Some(DeviceId(20));
            } else if packet >= 50 {
                record(&mut report, 1).device = Some(DeviceId(21));
                record(&mut report, 1).counter = Some(FlowCounter::of(8 * packet + 900_000));
            }
            tell(&mut observer, &world, &report).unwrap();
        }
        let known = later(&mut observer, &world);
        let losses = |hop: usize| known.hops[hop].passage.as_ref().and_then(|it| it.losses);
        if is_twice {
            assert_eq!([0, 1, 3].map(losses), [None, None, None]);
            assert_eq!(only(&known.hops[1].leg).all.samples, 100, "one clock agrees with itself");
        } else {
            assert_eq!([0, 1].map(|hop| losses(hop).unwrap().lost), [0, 0]);
            let samples = known.hops[1].visits.iter().map(|it| only(&it.delays).all.samples);
            assert_eq!(samples.collect::<Vec<_>>(), [50, 50]);
        }
    }
}

#[test]
fn engines_and_probes_tell_series_of_their_own_and_only_of_their_own_place() {
    let (mut observer, world) = (observer(), World::new(10));
    let mut sequence = 0;
    let mut tell = |observer: &mut Observer, device, source, span, delays: &[(u64, u32)]| {
        sequence += 1;
        let device = DeviceId(device);
        let delivery = Delivery { device, connection: 1, now_ns: world.now_ns, wall: None };
        let (path, version, delays) = (PATH, VERSION, delays.to_vec());
        let report = DelayReport { path, version, sequence, source, span, delays };
        observer.delays(&delivery, &report)
    };
    let (visit, leg) = (DelaySpan::Visit { hop: 1 }, DelaySpan::Leg { hop: 1 });
    let (engine, probe) = (Source::Engine, Source::Probe);
    let ms = MILLISECOND;
    assert_eq!(tell(&mut observer, 20, engine, visit, &[(ms, 90), (9 * ms, 10)]), Ok(()));
    assert_eq!(tell(&mut observer, 20, probe, leg, &[(3 * ms, 1)]), Ok(()));
    assert_eq!(tell(&mut observer, 10, probe, DelaySpan::Chain, &[(7 * ms, 2)]), Ok(()));
    let foreign = Err(Refusal::ForeignReporter);
    assert_eq!(tell(&mut observer, 10, engine, visit, &[(ms, 1)]), foreign);
    assert_eq!(tell(&mut observer, 30, probe, leg, &[(ms, 1)]), foreign);
    assert_eq!(tell(&mut observer, 20, probe, DelaySpan::Chain, &[(ms, 1)]), foreign);
    let none = Err(Refusal::UnplannedHop);
    assert_eq!(tell(&mut observer, 40, engine, DelaySpan::Visit { hop: 5 }, &[]), none);
    assert_eq!(tell(&mut observer, 40, probe, DelaySpan::Leg { hop: 4 }, &[]), none);
    let malformed = Err(Refusal::Malformed);
    assert_eq!(tell(&mut observer, 20, Source::Packet, visit, &[(ms, 1)]), malformed);
    let many = vec![(ms, 1); DELAYS_PER_REPORT_MAX + 1];
    assert_eq!(tell(&mut observer, 20, engine, visit, &many), malformed);
    let known = later(&mut observer, &world);
    let told = only(&known.hops[1].visits[0].delays);
    assert_eq!((told.source, told.all.samples), (Source::Engine, 100));
    assert!(told.all.p99.ns.unwrap().abs_diff(9 * ms) <= 9 * ms / 64);
    let others =
        [&known.hops[1].leg, &known.chain].map(|it| (only(it).source, only(it).all.samples));
    assert_eq!(others, [(Source::Probe, 1), (Source::Probe, 2)]);
}

#[test]
fn what_has_no_room_is_let_go_or_passed_over_and_counted() {
    let limits = Limits { paths: 2, flows_per_path: 3, windows: 2, ..Limits::default() };
    let (mut observer, mut world) = (watching(limits), World::new(11));
    let tell_of = |observer: &mut Observer, world: &mut World, flow| {
        let report = world.sampled(FlowName(flow)).unwrap();
        tell(observer, world, &report).unwrap();
    };
    for flow in [1, 2, 3, 4] {
        tell_of(&mut observer, &mut world, flow);
    }
    let known = later(&mut observer, &world);
    assert_eq!((known.flows.len(), known.let_go.passed_over, known.let_go.flows), (3, 1, 0));
    for _ in 0..4 {
        world.now_ns += SECOND;
        tell_of(&mut observer, &mut world, 2);
        tell_of(&mut observer, &mut world, 3);
    }
    tell_of(&mut observer, &mut world, 4);
    let known = later(&mut observer, &world);
    assert_eq!((known.let_go.passed_over, known.let_go.flows), (1, 1));
    assert!(known.flow(FlowName(1)).is_none() && known.flow(FlowName(4)).is_some());
    assert_eq!(only(&known.chain).windows.len(), 2);
    assert!(known.let_go.windows > 0);
    // Paths: planned again as it is it goes on, and the oldest makes room.
    observer.plan(planned(PATH, END), world.now_ns).unwrap();
    assert_eq!(figures(&mut observer, world.now_ns).taken.reports, known.taken.reports);
    for path in [8, 9] {
        observer.plan(planned(PathId(path), END), world.now_ns).unwrap();
    }
    assert_eq!((observer.figures(PATH, VERSION, world.now_ns), observer.let_go()), (None, 1));
    for path in [8, 9] {
        assert!(observer.telling(END).is_some());
        observer.forget(PathId(path), VERSION);
    }
    assert_eq!(observer.telling(END), None);
}

#[test]
fn paths_beyond_what_is_watched_are_refused() {
    let mut observer = Observer::new(Limits::default());
    let of = |hops| PlannedPath { hops, ..planned(PATH, END) };
    assert_eq!(observer.plan(of(Vec::new()), 0), Err(Unwatchable::Hops(0)));
    let many = vec![PlannedHop::default(); HOPS_MAX + 1];
    assert_eq!(observer.plan(of(many), 0), Err(Unwatchable::Hops(HOPS_MAX + 1)));
    let wide = vec![PlannedHop { visits: (0..17).map(visit).collect() }];
    assert_eq!(observer.plan(of(wide), 0), Err(Unwatchable::Visits(17)));
}
