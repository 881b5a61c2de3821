//! Nodes that tell the truth, and others.

use super::*;
use catena_model::telemetry::{
    ArrivalTime, FlowCounter, FlowName, HopRecord, HopReport, ReportReason, Stamp, VisitLatency,
};
use serde_json::{Value, json};
use uuid::Uuid;

const PATH: PathId = PathId(7);
const SECOND: u64 = 1_000_000_000;

fn node(number: u16) -> NodeName {
    NodeName::new(format!("host{number}")).unwrap()
}

/// host1 has number 10, host2 has 20, and so on; host9 has none.
fn device_of(node: &NodeName) -> Option<DeviceId> {
    let number: u16 = node.as_str().strip_prefix("host")?.parse().ok()?;
    (number != 9).then_some(DeviceId(number * 10))
}

fn id(number: u64) -> Uuid {
    Uuid::from_u128(number.into())
}

/// A path over hops, each of instances at nodes; a hop of none is a tap at host8.
fn record(hops: &[&[u16]]) -> PathRecord {
    let instance = |hop: usize, place: usize, at: u16| {
        let number = 100 * hop as u64 + place as u64;
        json!({
            "id": id(number), "name": format!("f{hop}-{place}"), "node": node(at),
            "ingress": id(number + 10_000), "egress": id(number + 20_000),
            "ingress_mac": "02:00:00:00:00:01", "weight": 1, "speaks": null
        })
    };
    let hop = |(hop, nodes): (usize, &&[u16])| {
        let (kind, nodes) = if nodes.is_empty() { ("tap", &[8][..]) } else { ("through", *nodes) };
        let instances = nodes.iter().enumerate().map(|(place, at)| instance(hop, place, *at));
        json!({
            "function": id(500 + hop as u64), "name": format!("f{hop}"), "kind": kind,
            "on_failure": "unwatched", "instances": instances.collect::<Vec<Value>>()
        })
    };
    let told = json!({
        "chain": id(1), "chain_name": "web", "encapsulation": "srv6",
        "hops": hops.iter().enumerate().map(hop).collect::<Vec<Value>>(),
        "destination": id(2), "rules": [], "ports": [], "holders": [], "phase": "classified",
        "since": 4, "needs": {}, "is_update": false
    });
    serde_json::from_value(told).unwrap()
}

fn follow(state: &mut State, paths: &[(PathId, &PathRecord)], now_ns: u64) {
    let telemetry = Telemetry::default();
    let paths = paths.iter().map(|(id, record)| (*id, *record, &telemetry));
    state.follow(paths, device_of, now_ns);
}

/// What packet number `count` of a flow says that comes by these nodes at a moment, of which each takes 3 µs.
fn end(devices: &[u16], count: u32, now_ns: u64) -> PathEnd {
    let hop = |device: &u16| {
        let stamp = Stamp { time: ArrivalTime::from_ns(now_ns), is_synchronised: false };
        HopReport::Recorded(HopRecord {
            device: Some(DeviceId(*device)),
            arrival: Some(stamp),
            latency: Some(VisitLatency { ns: 3_072, is_saturated: false }),
            queue: None,
            counter: Some(FlowCounter::of(count.into())),
        })
    };
    PathEnd {
        path: PATH,
        flow: FlowName(5),
        reason: ReportReason::Sampled,
        is_incomplete: false,
        hops: devices.iter().map(hop).collect(),
    }
}

struct World {
    state: State,
    sequence: u64,
    now_ns: u64,
}

impl World {
    fn new(hops: &[&[u16]]) -> Self {
        let mut state = State::new();
        follow(&mut state, &[(PATH, &record(hops))], 0);
        Self { state, sequence: 0, now_ns: 5 * SECOND }
    }

    fn tell_of(&mut self, from: u16, end: PathEnd) {
        let node = node(from);
        let from = Sender { node: &node, connection: 1, now_ns: self.now_ns };
        self.state.take(&from, self.sequence, end);
        self.sequence += 1;
    }

    fn tell(&mut self, from: u16, devices: &[u16]) {
        self.now_ns += 10_000_000;
        let count = u32::try_from(self.sequence).unwrap() + 1;
        self.tell_of(from, end(devices, count, self.now_ns));
    }

    fn figures(&mut self) -> PathFigures {
        let told = self.state.told_of(PATH, self.now_ns + 2 * SECOND).unwrap();
        told.told.unwrap().1
    }

    fn refused(&self, from: u16) -> BTreeMap<&'static str, u64> {
        self.state.told_by(&node(from)).refused
    }
}

#[test]
fn functions_of_one_node_in_a_row_are_one_hop_and_taps_are_none() {
    let mut state = State::new();
    follow(&mut state, &[(PATH, &record(&[&[1], &[], &[1], &[2, 3, 2], &[3], &[3]]))], 0);
    let (planned, _) = state.told_of(PATH, 0).unwrap().told.unwrap();
    let hops = planned.path.hops.iter().map(|hop| {
        let visits = hop.visits.iter();
        visits.map(|visit| (visit.device.0, visit.functions.len())).collect::<Vec<_>>()
    });
    let expected: [&[(u16, usize)]; 3] = [&[(10, 2)], &[(20, 2), (30, 1)], &[(30, 2)]];
    assert_eq!(hops.collect::<Vec<_>>(), expected);
    assert_eq!(planned.path.one_in, Telemetry::MIRROR);
    assert!(planned.may_fold, "a flow may meet host3 twice in a row");
}

#[test]
fn a_path_whose_node_has_no_number_or_that_of_another_is_not_watched_and_says_why() {
    let mut state = State::new();
    follow(&mut state, &[(PATH, &record(&[&[1], &[9]]))], 0);
    let reason = state.told_of(PATH, 0).unwrap().told.unwrap_err();
    assert_eq!(reason, "node 'host9' has no number in telemetry");
    let one = Telemetry::default();
    let path = record(&[&[1], &[2]]);
    state.follow([(PATH, &path, &one)].into_iter(), |_| Some(DeviceId(3)), 0);
    let reason = state.told_of(PATH, 0).unwrap().told.unwrap_err();
    assert_eq!(reason, "node 'host2' has the number of node 'host1' in telemetry");
    let many: Vec<&[u16]> = (0..65).map(|hop| if hop % 2 == 0 { &[1][..] } else { &[2] }).collect();
    follow(&mut state, &[(PATH, &record(&many))], 0);
    let reason = state.told_of(PATH, 0).unwrap().told.unwrap_err();
    assert_eq!(reason, "it has 65 hops, which are not watched");
}

#[test]
fn a_path_keeps_its_version_while_it_lives_and_what_is_gone_is_forgotten() {
    let mut world = World::new(&[&[1], &[2]]);
    world.tell(2, &[10, 20]);
    let mut turned = record(&[&[1], &[2]]);
    turned.since = BlueprintNumber(9);
    follow(&mut world.state, &[(PATH, &turned)], 0);
    let told = world.state.told_of(PATH, world.now_ns).unwrap();
    assert_eq!(told.version, BlueprintNumber(4));
    assert_eq!(world.figures().taken.reports, 1);
    follow(&mut world.state, &[], 0);
    assert!(world.state.told_of(PATH, world.now_ns).is_none());
    follow(&mut world.state, &[(PATH, &turned)], 0);
    let told = world.state.told_of(PATH, world.now_ns).unwrap();
    assert_eq!((told.version, told.told.unwrap().1.taken.reports), (BlueprintNumber(9), 0));
    // The same number for another chain is another path.
    let mut other = record(&[&[1], &[2]]);
    (other.chain, other.since) = (ChainId(id(77)), BlueprintNumber(12));
    follow(&mut world.state, &[(PATH, &other)], 0);
    assert_eq!(world.state.told_of(PATH, 0).unwrap().version, BlueprintNumber(12));
}

#[test]
fn the_node_at_the_end_is_believed_and_what_it_tells_makes_figures() {
    let mut world = World::new(&[&[1], &[2]]);
    for _ in 0..200 {
        world.tell(2, &[10, 20]);
    }
    let figures = world.figures();
    assert_eq!((figures.taken.reports, figures.taken.complete), (200, 200));
    for hop in &figures.hops {
        let [delay] = hop.visits[0].delays.as_slice() else { panic!("{hop:?}") };
        let ns = delay.all.p50.ns.unwrap();
        assert!(delay.all.samples == 200 && ns.abs_diff(3_072) <= 3_072 / 64, "{delay:?}");
        assert!(hop.leg.is_empty(), "nobody says that clocks agree");
    }
    assert!(figures.chain.is_empty());
    assert_eq!(world.state.told_by(&node(2)).telling.believed, 200);
    assert!(world.refused(2).is_empty());
}

#[test]
fn who_lies_changes_no_figure_and_is_counted() {
    let mut world = World::new(&[&[1], &[2]]);
    (0..20).for_each(|_| world.tell(2, &[10, 20]));
    let before = world.figures();
    // A device of no node of the path, in the name of a node at its end; a node of the path that does not end it;
    // one that is on no path; a path that nobody planned.
    world.tell(2, &[10, 70]);
    world.tell(1, &[10, 20]);
    world.tell(7, &[10, 20]);
    let unplanned = PathEnd { path: PathId(8), ..end(&[10, 20], 60, world.now_ns) };
    world.tell_of(2, unplanned);
    assert_eq!(world.figures(), before);
    let counted = |reasons: &[(&'static str, u64)]| reasons.iter().copied().collect();
    assert_eq!(world.refused(2), counted(&[("foreign_device", 1), ("unplanned_path", 1)]));
    assert_eq!(world.refused(1), counted(&[("foreign_reporter", 1)]));
    assert_eq!(world.refused(7), counted(&[("unknown_node", 1)]));
}

#[test]
fn a_flood_is_counted_and_changes_no_figure() {
    let mut world = World::new(&[&[1], &[2]]);
    (0..20).for_each(|_| world.tell(2, &[10, 20]));
    let before = world.figures();
    let flood = PathEnd { path: PathId(8), ..end(&[10, 20], 60, world.now_ns) };
    (0..30_000).for_each(|_| world.tell_of(2, flood.clone()));
    assert_eq!(world.figures(), before);
    let refused = world.refused(2);
    assert_eq!(refused["flooded"] + refused["unplanned_path"], 30_000, "{refused:?}");
    assert!(refused["flooded"] >= 9_000, "{refused:?}");
    assert!(world.state.told_by(&node(2)).telling.believed == 20);
}

#[test]
fn a_flow_that_meets_one_node_for_two_hops_is_left_out_of_figures_that_it_would_make_wrong() {
    let mut world = World::new(&[&[1, 2], &[2]]);
    world.tell(2, &[10, 20]);
    world.tell(2, &[20]);
    assert_eq!(world.figures().taken.reports, 1);
    assert_eq!(world.refused(2), BTreeMap::from([("folded", 1)]));
}

#[test]
fn what_was_left_out_on_the_way_is_known_by_where() {
    let mut world = World::new(&[&[1], &[2]]);
    let lost =
        PathEndsLost { engine: 1, dataplane: 2, agent: 3, unwanted: 4, unplaced: 5, strayed: 6 };
    world.state.note_lost(&node(2), lost);
    let told = world.state.told_by(&node(2)).lost_by_place();
    let places = ["engine", "dataplane", "agent", "unwanted", "unplaced", "strayed"];
    assert_eq!(told.map(|(place, _)| place), places);
    assert_eq!(told.map(|(_, count)| count), [1, 2, 3, 4, 5, 6]);
    assert!(world.state.nodes().contains(&node(2)));
    world.state.forget_node(&node(2));
    assert_eq!(world.state.told_by(&node(2)).lost, PathEndsLost::default());
}
