//! Liars beside honest nodes: what decisions read is the same, bit for bit.

use super::world::*;
use crate::observe::limits::{AGE_MAX_NS, CLOCKS_APART_MAX_NS, OVERTAKEN_MAX};
use crate::observe::{Delivery, Limits, NodeTelling, Observer, PathFigures, Refusal, Refusals};
use catena_model::id::{BlueprintNumber, PathId};
use catena_model::telemetry::{
    ArrivalTime, DelayReport, DelaySpan, DeviceId, FlowCounter, FlowName, HopRecord, HopReport,
    PacketReport, ReportReason, Source, Stamp, VisitLatency,
};
use proptest::prelude::*;

/// A path that the liar ends himself.
const HIS_PATH: PathId = PathId(8);
const LIAR: DeviceId = DeviceId(66);

/// Watches the honest path and that of the liar.
fn both(limits: Limits) -> Observer {
    let mut observer = watching(limits);
    observer.plan(planned(HIS_PATH, LIAR), 0).unwrap();
    observer
}

/// An honest report, and when.
type Told = (Delivery, PacketReport);

fn honest(seed: u64, reports: usize) -> (Vec<Told>, World) {
    let mut world = World::new(seed);
    world.lossy[1] = 0.05;
    let mut told = Vec::new();
    while told.len() < reports {
        let flow = FlowName(world.random.u64(0..3));
        if let Some(report) = world.sampled(flow) {
            told.push((world.delivery(), report));
        }
        world.now_ns += 3 * MILLISECOND;
    }
    (told, world)
}

/// What decisions read of the honest path when nobody lies.
fn alone(told: &[Told], end_ns: u64) -> PathFigures {
    let mut observer = both(Limits::default());
    for (delivery, report) in told {
        observer.report(delivery, report).unwrap();
    }
    figures(&mut observer, end_ns)
}

fn refused(telling: &NodeTelling) -> Vec<(&'static str, u64)> {
    let of = |refusal: &Refusal| (refusal.name(), telling.refused.of(*refusal));
    Refusal::ALL.iter().map(of).filter(|(_, count)| *count > 0).collect()
}

/// What a node says that ends another path, by a connection of its own.
fn of_a_stranger(random: &mut fastrand::Rng, truth: &PacketReport) -> PacketReport {
    let mut lie = truth.clone();
    lie.flow = FlowName(random.u64(0..6));
    let hop = WRITING[random.usize(0..4)];
    match random.u8(0..5) {
        // Of the honest path, word by word or changed.
        0 => {}
        1 => record(&mut lie, hop).latency.iter_mut().for_each(|it| it.ns *= 50),
        2 => record(&mut lie, hop).counter = Some(FlowCounter::of(random.u64(..))),
        // Of his own, with whatever is in it.
        3 => lie.path = HIS_PATH,
        _ => {
            lie.path = HIS_PATH;
            lie.flow = FlowName(random.u64(..));
            record(&mut lie, 4).device = Some(LIAR);
        }
    }
    lie
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_liar_with_a_connection_of_his_own_changes_no_figure_of_others(seed: u64, lies in 1..20_usize) {
        let (told, world) = honest(seed, 300);
        let end_ns = world.now_ns + SECOND;
        let truth = alone(&told, end_ns);
        let mut observer = both(Limits::default());
        let mut random = fastrand::Rng::with_seed(seed ^ 1);
        for (delivery, report) in &told {
            for _ in 0..lies {
                let mut lie = of_a_stranger(&mut random, report);
                lie.sequence = random.u64(..);
                let by = if random.bool() { LIAR } else { DeviceId(random.u16(..)) };
                let by = if by == END { LIAR } else { by };
                let connection = random.u64(1..4);
                let delivery = Delivery { device: by, connection, ..*delivery };
                let _ = observer.report(&delivery, &lie);
                let delays = DelayReport {
                    path: report.path,
                    version: report.version,
                    sequence: lie.sequence.wrapping_add(1),
                    source: Source::Engine,
                    span: DelaySpan::Visit { hop: 1 },
                    delays: vec![(1, u32::MAX)],
                };
                if ![10, 20, 30].contains(&by.0) {
                    prop_assert!(observer.delays(&delivery, &delays).is_err());
                }
            }
            observer.report(delivery, report).unwrap();
        }
        prop_assert_eq!(figures(&mut observer, end_ns), truth);
        prop_assert!(observer.strangers() + observer.telling(LIAR).unwrap().refused.all() > 0);
    }

    #[test]
    fn lies_among_the_words_of_an_honest_node_are_named_and_change_no_figure(
        seed: u64, most in 1..4_usize
    ) {
        let (told, world) = honest(seed, 300);
        let end_ns = world.now_ns + SECOND;
        let truth = alone(&told, end_ns);
        let mut observer = both(Limits::default());
        let mut random = fastrand::Rng::with_seed(seed ^ 2);
        let (mut sequence, mut lied) = (0, Refusals::default());
        for (delivery, report) in &told {
            sequence += 1;
            let report = PacketReport { sequence, ..report.clone() };
            observer.report(delivery, &report).unwrap();
            for _ in 0..random.usize(0..=most) {
                sequence += 1;
                let (lie, wanted) = lie(&mut random, &report, sequence, delivery.wall.unwrap());
                prop_assert_eq!(observer.report(delivery, &lie), Err(wanted), "{:?}", lie);
                lied.count(wanted);
            }
        }
        prop_assert_eq!(figures(&mut observer, end_ns), truth);
        let telling = observer.telling(END).unwrap();
        prop_assert_eq!(telling.refused, lied);
        prop_assert_eq!(telling.believed, 300);
    }
}

/// Whatever a hop says.
fn any_hop() -> impl Strategy<Value = HopReport> {
    let device = prop::option::of(prop::sample::select(vec![10_u16, 20, 30, 40, 66, 99]));
    let arrival = prop::option::of((any::<u64>(), any::<bool>()));
    let latency = prop::option::of((any::<u64>(), any::<bool>()));
    let record = (device, arrival, latency, prop::option::of(any::<u64>()));
    let record = record.prop_map(|(device, arrival, latency, counter)| HopRecord {
        device: device.map(DeviceId),
        arrival: arrival
            .map(|(ns, is_synchronised)| Stamp { time: ArrivalTime::from_ns(ns), is_synchronised }),
        latency: latency.map(|(ns, is_saturated)| VisitLatency { ns, is_saturated }),
        queue: None,
        counter: counter.map(FlowCounter::of),
    });
    let record = record.prop_map(HopReport::Recorded);
    prop_oneof![8 => record, 3 => Just(HopReport::Silent), 1 => Just(HopReport::Malformed)]
}

proptest! {
    #[test]
    fn whatever_is_told_whenever_is_counted_once(
        told in prop::collection::vec(
            (prop::collection::vec(any_hop(), 0..7), any::<[u64; 4]>(), any::<bool>()), 1..60
        )
    ) {
        let mut observer = both(Limits::default());
        let mut believed = 0;
        for (hops, [flow, sequence, now_ns, wall], is_known) in &told {
            let report = PacketReport {
                path: if *is_known { PATH } else { PathId(*flow as u32) },
                version: VERSION,
                flow: FlowName(flow % 3),
                // Most go up.
                sequence: if *is_known { sequence >> 58 } else { *sequence },
                reason: ReportReason::Sampled,
                is_incomplete: false,
                hops: hops.clone(),
            };
            let wall = is_known.then_some(ArrivalTime::from_ns(*wall));
            let delivery = Delivery { device: END, connection: flow % 5, now_ns: *now_ns, wall };
            believed += u64::from(observer.report(&delivery, &report).is_ok());
            figures(&mut observer, *wall.map_or(&0, |_| now_ns));
        }
        let telling = observer.telling(END).unwrap();
        prop_assert_eq!(telling.believed, believed);
        prop_assert_eq!(telling.believed + telling.refused.all(), told.len() as u64);
        prop_assert_eq!(figures(&mut observer, u64::MAX).taken.reports, believed);
    }
}

/// A report that cannot be true behind the one that was just believed, and what it is called.
fn lie(
    random: &mut fastrand::Rng,
    truth: &PacketReport,
    sequence: u64,
    wall: ArrivalTime,
) -> (PacketReport, Refusal) {
    let mut lie = PacketReport { sequence, ..truth.clone() };
    let hop = WRITING[random.usize(0..3)];
    let after = |ns: u64| ArrivalTime::from_ns(wall.ns().wrapping_add(ns));
    let refusal = match random.u8(0..14) {
        0 => {
            lie.path = PathId(random.u32(9..));
            Refusal::UnplannedPath
        }
        1 => {
            lie.version = BlueprintNumber(VERSION.0 + 1);
            Refusal::UnplannedPath
        }
        2 => {
            record(&mut lie, hop).device = Some(DeviceId(random.u16(100..)));
            Refusal::ForeignDevice
        }
        3 => {
            record(&mut lie, hop).device = Some(END);
            Refusal::OtherOrder
        }
        4 => {
            lie.hops.push(HopReport::Silent);
            Refusal::UnplannedHop
        }
        5 => {
            lie.hops[hop] = HopReport::Malformed;
            Refusal::Malformed
        }
        6 => {
            // The first hop is held against the last packet first.
            let counter = record(&mut lie, 0).counter.as_mut().unwrap();
            *counter =
                FlowCounter::of(u64::from(counter.get()) + (1 << 20) - random.u64(1..1 << 19));
            Refusal::CounterBackwards
        }
        7 => {
            for hop in WRITING {
                let counter = record(&mut lie, hop).counter.as_mut().unwrap();
                let far = if hop < 3 { 8 } else { 9 + u64::from(OVERTAKEN_MAX) };
                *counter = FlowCounter::of(u64::from(counter.get()) + far);
            }
            Refusal::CounterContradiction
        }
        12 => {
            // The first hop goes on, and the others would have lost so many.
            for hop in WRITING {
                let counter = record(&mut lie, hop).counter.as_mut().unwrap();
                let far = if hop == 0 { 8 } else { (1 << 20) - 1 - u64::from(OVERTAKEN_MAX) };
                *counter = FlowCounter::of(u64::from(counter.get()) + far);
            }
            Refusal::CounterBackwards
        }
        13 => {
            // All clocks agree, and nothing is known of the flow.
            lie.flow = FlowName(random.u64(100..));
            let ns = if random.bool() { 11 * SECOND } else { (1 << 40) - 11 * SECOND };
            for hop in WRITING {
                let time = &mut record(&mut lie, hop).arrival.as_mut().unwrap().time;
                *time = ArrivalTime::from_ns(time.ns() + ns);
            }
            Refusal::TimeOutsideBounds
        }
        8 => {
            let future = after(CLOCKS_APART_MAX_NS + 1 + random.u64(0..1 << 38));
            record(&mut lie, hop).arrival.as_mut().unwrap().time = future;
            Refusal::TimeOutsideBounds
        }
        9 => {
            let past = after((1 << 40) - AGE_MAX_NS - 1 - random.u64(0..1 << 38));
            record(&mut lie, hop).arrival.as_mut().unwrap().time = past;
            Refusal::TimeOutsideBounds
        }
        10 => Refusal::Repeated,
        _ => {
            lie.sequence = truth.sequence;
            Refusal::Repeated
        }
    };
    (lie, refusal)
}

#[test]
fn what_comes_late_or_by_an_earlier_connection_is_named() {
    let (told, _) = honest(1, 200);
    let mut observer = both(Limits::default());
    for (at, (delivery, report)) in told.iter().enumerate().filter(|(at, _)| at % 10 != 3) {
        let delivery = Delivery { connection: 5, ..*delivery };
        observer.report(&delivery, report).unwrap();
        assert_eq!(observer.report(&delivery, report), Err(Refusal::Repeated));
        if at % 10 == 5 {
            let late = &told[at - 2].1;
            assert_eq!(observer.report(&delivery, late), Err(Refusal::OutOfOrder));
            assert_eq!(observer.report(&delivery, late), Err(Refusal::Repeated));
        }
    }
    let (delivery, report) = &told[199];
    let next = PacketReport { sequence: report.sequence + 1, ..report.clone() };
    let former = Delivery { connection: 4, ..*delivery };
    assert_eq!(observer.report(&former, &next), Err(Refusal::OutOfOrder));
    let telling = observer.telling(END).unwrap();
    assert_eq!((telling.believed, telling.left_out), (180, 20));
    let wanted = [("repeated", 200), ("out_of_order", 21)];
    assert_eq!(refused(telling), wanted);
    // Numbers of a new connection are its own.
    let anew = Delivery { connection: 6, ..*delivery };
    let first = PacketReport { sequence: 1, ..report.clone() };
    assert_eq!(observer.report(&anew, &first), Ok(()));
}

#[test]
fn a_flood_costs_who_floods_and_nobody_else() {
    let limits = Limits { reports_per_second: 1_000, reports_at_once: 100, ..Limits::default() };
    let (told, world) = honest(2, 300);
    let end_ns = world.now_ns + SECOND;
    let truth = alone(&told, end_ns);
    let mut observer = both(limits);
    let mut random = fastrand::Rng::with_seed(2);
    let (mut sequence, mut heard) = (0_u64, 0_u64);
    for (delivery, report) in &told {
        let flood = Delivery { device: LIAR, ..*delivery };
        for _ in 0..200 {
            sequence += 1;
            let lie = PacketReport { sequence, ..of_a_stranger(&mut random, report) };
            heard += u64::from(observer.report(&flood, &lie) != Err(Refusal::Flooded));
        }
        observer.report(delivery, report).unwrap();
    }
    assert_eq!(figures(&mut observer, end_ns), truth);
    let telling = observer.telling(LIAR).unwrap();
    assert_eq!(telling.refused.of(Refusal::Flooded), sequence - heard);
    let lasted_ns = told[299].0.now_ns - told[0].0.now_ns;
    // What may come at once, and one in each millisecond.
    assert!(heard.abs_diff(100 + lasted_ns / MILLISECOND) <= 1, "{heard}");
    assert_eq!(observer.telling(END).unwrap().refused.all(), 0);
}

#[test]
fn who_does_not_end_the_path_reports_nothing_of_it() {
    let (told, _) = honest(3, 1);
    let (delivery, report) = &told[0];
    let mut observer = both(Limits::default());
    // On the path, but not at its end; and at the end of another one.
    for device in [DeviceId(10), LIAR] {
        let by = Delivery { device, ..*delivery };
        assert_eq!(observer.report(&by, report), Err(Refusal::ForeignReporter));
    }
    // Nor does it when the end is silent.
    let mut silent = report.clone();
    silent.hops[4] = HopReport::Silent;
    silent.sequence += 1;
    let by = Delivery { device: DeviceId(10), ..*delivery };
    assert_eq!(observer.report(&by, &silent), Err(Refusal::ForeignReporter));
    // Of two that end a path each tells of the packets that came to it.
    let mut shared = planned(PATH, END);
    shared.hops[4].visits.push(visit(41));
    observer.plan(shared, 0).unwrap();
    let other = Delivery { device: DeviceId(41), ..*delivery };
    assert_eq!(observer.report(&other, report), Err(Refusal::ForeignReporter));
    assert_eq!(observer.report(delivery, report), Ok(()));
    let stranger = Delivery { device: DeviceId(99), ..*delivery };
    assert_eq!(observer.report(&stranger, report), Err(Refusal::UnknownNode));
    assert_eq!((observer.strangers(), observer.telling(DeviceId(99))), (1, None));
}

#[test]
fn without_a_clock_of_ones_own_stamps_are_held_against_one_another_and_those_before() {
    let (told, _) = honest(4, 20);
    let mut observer = both(Limits::default());
    let (mut now, mut last) = (0, None);
    for (delivery, report) in &told {
        observer.report(&Delivery { wall: None, ..*delivery }, report).unwrap();
        now = delivery.now_ns;
        last = Some(report.clone());
    }
    let mut lie = last.unwrap();
    let delivery = Delivery { device: END, connection: 1, now_ns: now + MILLISECOND, wall: None };
    let shift = |stamp: &mut Stamp, ns: u64| {
        stamp.time = ArrivalTime::from_ns(stamp.time.ns() + ns);
    };
    // Of a flow that is not known yet, one node alone.
    let mut first = PacketReport { flow: FlowName(9), sequence: lie.sequence + 1, ..lie.clone() };
    shift(record(&mut first, 1).arrival.as_mut().unwrap(), 60 * SECOND);
    assert_eq!(observer.report(&delivery, &first), Err(Refusal::TimeOutsideBounds));
    lie.sequence += 1;
    // One node alone, then all of them together, which agree with one another.
    lie.sequence += 1;
    shift(record(&mut lie, 1).arrival.as_mut().unwrap(), 60 * SECOND);
    assert_eq!(observer.report(&delivery, &lie), Err(Refusal::TimeOutsideBounds));
    for hop in WRITING {
        let counter = record(&mut lie, hop).counter.as_mut().unwrap();
        *counter = FlowCounter::of(u64::from(counter.get()) + 8);
        let ns = if hop == 1 { 0 } else { 60 * SECOND };
        shift(record(&mut lie, hop).arrival.as_mut().unwrap(), ns);
    }
    lie.sequence += 1;
    assert_eq!(observer.report(&delivery, &lie), Err(Refusal::TimeOutsideBounds));
}
