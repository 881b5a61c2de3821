//! Which marks get a time, and how many there are. Knows made digests and times; refuses to know flows.

use super::*;
use crate::engine::encap::PathPosition;
use crate::engine::vector::decision::Epoch;
use catena_model::PathId;
use catena_model::id::InstanceId;
use uuid::Uuid;

const EGRESS: u32 = 7;
const PLACE: usize = 3;

fn visit(hop: u16) -> Visit {
    Visit {
        position: PathPosition::default(),
        path: PathId(1),
        serial: 1,
        hop,
        instance: InstanceId(Uuid::from_u128(9)),
        epoch: Epoch::default(),
    }
}

/// One flow, one visit.
struct Bench {
    sojourns: Sojourns,
    marks: MarkRef,
}

impl Bench {
    fn new() -> Self {
        Self { sojourns: Sojourns::new(5), marks: MarkRef::NONE }
    }

    fn mark(&mut self, now_ns: u64, digest: u64, ahead: u32) -> bool {
        let who = (EGRESS, PLACE, visit(0));
        let marks = self.sojourns.mark(now_ns, who, (digest, ahead), self.marks);
        self.marks = marks.unwrap_or(self.marks);
        marks.is_some()
    }

    fn back(&mut self, now_ns: u64, digest: u64) -> Option<u64> {
        let came = (digest, 1);
        let mut told = None;
        self.sojourns.come_back(now_ns, &mut self.marks, &visit(0), came, |sojourn| {
            assert_eq!(told.replace(sojourn.ns), None, "two at once");
        });
        told
    }

    fn held(&self) -> usize {
        self.sojourns.marks.iter().flatten().count()
    }
}

#[test]
fn a_packet_is_known_again_by_its_bytes_whatever_comes_before_it() {
    let mut bench = Bench::new();
    assert!(bench.mark(100, 1, 0));
    assert_eq!((bench.back(150, 2), bench.back(400, 1)), (None, Some(300)));
    assert!(!bench.marks.is_some());
    assert_eq!(bench.held(), 0);
}

#[test]
fn one_that_overtakes_is_told_when_those_before_it_are_back_with_its_own_time() {
    let mut bench = Bench::new();
    assert!(bench.mark(0, 1, 2));
    assert_eq!(
        [(10, 1), (20, 5), (90, 6)].map(|(at, one)| bench.back(at, one)),
        [None, None, Some(10)]
    );
}

#[test]
fn of_several_that_one_return_decides_each_is_told() {
    let mut bench = Bench::new();
    assert!(bench.mark(0, 1, 0) && bench.mark(10, 2, 1));
    assert_eq!(bench.back(50, 2), None);
    let mut told = Vec::new();
    let Bench { sojourns, marks } = &mut bench;
    sojourns.come_back(100, marks, &visit(0), (1, 1), |sojourn| told.push(sojourn.ns));
    assert_eq!(told, [40, 100]);
}

#[test]
fn of_packets_with_the_same_bytes_none_is_told() {
    let mut bench = Bench::new();
    assert!(bench.mark(0, 1, 1));
    assert_eq!([10, 20, 30].map(|at| bench.back(at, 1)), [None; 3]);
    assert_eq!(bench.held(), 0);
    // One that went in later does not matter.
    assert!(bench.mark(40, 1, 0));
    assert_eq!([50, 60].map(|at| bench.back(at, 1)), [Some(10), None]);
}

#[test]
fn several_marks_of_a_flow_end_in_any_order() {
    let mut bench = Bench::new();
    for digest in 1..=3 {
        assert!(bench.mark(digest * 10, digest, 0));
    }
    assert_eq!(
        [2, 9, 1, 3].map(|digest| bench.back(100, digest)),
        [Some(80), None, Some(90), Some(70)]
    );
    assert_eq!((bench.held(), bench.marks), (0, MarkRef::NONE));
}

#[test]
fn what_does_not_come_back_has_no_time_and_gives_its_place_back() {
    let mut bench = Bench::new();
    assert!(bench.mark(0, 1, 0));
    assert_eq!(bench.back(FLOW_INSIDE_NS + 1, 2), None);
    assert_eq!(bench.held(), 0);
    // Of another visit it is not asked, and not for ever kept.
    assert!(bench.mark(0, 1, 0));
    let mut elsewhere = |at_ns| {
        let Bench { sojourns, marks } = &mut bench;
        sojourns.come_back(at_ns, marks, &visit(1), (1, 1), |_| panic!("it is elsewhere"));
        marks.is_some()
    };
    assert!(elsewhere(5) && !elsewhere(FLOW_INSIDE_NS + 1));
    // Looked for long enough.
    assert!(bench.mark(0, 1, 0));
    assert!((0..LOOKS_MAX).all(|_| bench.back(1, 2).is_none()));
    assert_eq!(bench.held(), 0);
}

#[test]
fn a_flow_has_few_marks_and_an_engine_not_many_and_old_ones_make_room() {
    let mut bench = Bench::new();
    let made = (0..100).filter(|digest| bench.mark(0, *digest, 0)).count();
    assert_eq!((made, bench.held()), (PER_FLOW_MAX, PER_FLOW_MAX));
    let mut others = vec![MarkRef::NONE; MARKS_MAX];
    let sojourns = &mut bench.sojourns;
    for (flow, marks) in others.iter_mut().enumerate() {
        let who = (EGRESS, flow, visit(0));
        *marks = sojourns.mark(0, who, (1, 0), *marks).unwrap_or(*marks);
    }
    assert_eq!(others.iter().filter(|marks| marks.is_some()).count(), MARKS_MAX - PER_FLOW_MAX);
    // While all are young, each look finds another who gives way; an old one goes first.
    let young = sojourns.who_gives_way(FLOW_INSIDE_NS).unwrap();
    let other = sojourns.who_gives_way(FLOW_INSIDE_NS).unwrap();
    assert_ne!(young, other);
    let old = SEARCHED * 2 + 5;
    let flow = sojourns.marks[old].unwrap().flow_place;
    sojourns.marks.iter_mut().flatten().for_each(|mark| mark.since_ns = FLOW_INSIDE_NS);
    sojourns.marks[old].as_mut().unwrap().since_ns = 0;
    assert_eq!(sojourns.who_gives_way(FLOW_INSIDE_NS + 1), Some(flow));
    sojourns.forget(&mut others[flow]);
    assert!(!others[flow].is_some());
    assert_eq!(sojourns.who_gives_way(FLOW_INSIDE_NS + 1), None, "there is room");
}

#[test]
fn marks_stand_for_all_packets_and_are_few_whatever_the_load() {
    for (packets, every_ns) in [(2_000_000_u64, 500), (200_000, 20_000), (2_000, 50_000_000)] {
        let mut sojourns = Sojourns::new(11);
        let (mut marks, mut stand_for) = (0_u64, 0_u64);
        for packet in 0..packets {
            if sojourns.is_due(EGRESS, 1) {
                marks += 1;
                stand_for += u64::from(sojourns.draw(packet * every_ns, EGRESS));
            }
        }
        let off = stand_for.abs_diff(packets);
        assert!(off * 8 < packets, "{stand_for} of {packets}");
        let seconds = packets as f64 * every_ns as f64 / 1e9;
        assert!(marks as f64 <= 1_500.0 * seconds.max(1.0), "{marks} in {seconds} s");
        assert!(every_ns < 10_000_000 || marks == packets, "{marks} of {packets}");
    }
}
