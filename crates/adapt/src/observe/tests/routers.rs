//! Plain routers among nodes: which of them a packet that has left some out was at, and what nobody can know.

use super::world::*;
use crate::observe::{Delivery, HopTaken, Limits, Observer, PathFigures, Taken};
use catena_model::telemetry::{
    DelayReport, DelaySpan, DeviceId, FlowName, HopReport, PlannedHop, PlannedPath, Source,
};
use std::collections::BTreeSet;

/// A plain router.
const NONE: u16 = 0;

/// Tells of packets over these hops, of devices or routers, on a path that was planned so.
fn told(planned: &[u16], packets: &[&[u16]]) -> PathFigures {
    let (mut observer, mut world) = (Observer::new(Limits::default()), World::new(3));
    observer.plan(path(planned), 0).unwrap();
    for devices in packets {
        let mut report = world.sampled(FlowName(1)).unwrap();
        let known: Vec<_> = report.hops.iter().copied().filter_map(by_device).collect();
        let of = |device: &u16| known.iter().find(|(of, _)| of.0 == *device).map(|(_, hop)| *hop);
        report.hops =
            devices.iter().map(|of_hop| of(of_hop).unwrap_or(HopReport::Silent)).collect();
        tell(&mut observer, &world, &report).unwrap();
    }
    figures(&mut observer, world.now_ns)
}

fn path(devices: &[u16]) -> PlannedPath {
    let hop = |device: &u16| match *device {
        NONE => PlannedHop::default(),
        device => PlannedHop { visits: vec![visit(device)] },
    };
    PlannedPath { hops: devices.iter().map(hop).collect(), ..planned(PATH, END) }
}

fn by_device(hop: HopReport) -> Option<(DeviceId, HopReport)> {
    let HopReport::Recorded(record) = hop else { return None };
    Some((record.device?, hop))
}

/// Recorded, silent and missing, of each hop.
fn taken(known: &PathFigures) -> Vec<[u64; 3]> {
    let of = |taken: HopTaken| [taken.recorded, taken.silent, taken.missing];
    known.hops.iter().map(|hop| of(hop.taken)).collect()
}

#[test]
fn a_router_before_and_one_behind_a_node_are_told_apart_where_that_is_known() {
    let way = [10, NONE, 20, NONE, 40];
    let known = told(&way, &[&way, &[10, 20, NONE, 40], &[10, NONE, 20, 40]]);
    assert_eq!(taken(&known), [[3, 0, 0], [0, 2, 1], [3, 0, 0], [0, 2, 1], [3, 0, 0]]);
    // The node between was left out, and neither of the routers.
    let known = told(&way, &[&[10, NONE, NONE, 40]]);
    assert_eq!(taken(&known), [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 1, 0], [1, 0, 0]]);
}

#[test]
fn of_a_router_that_was_one_or_another_nothing_is_told() {
    let known = told(&[10, NONE, 20, NONE, 40], &[&[10, NONE, 40]]);
    assert_eq!(taken(&known), [[1, 0, 0], [0, 0, 0], [0, 0, 1], [0, 0, 0], [1, 0, 0]]);
    assert_eq!(known.taken, Taken { reports: 1, missing: 1, ..Taken::default() });
    // One of two nodes was there and wrote nothing.
    let known = told(&[10, 20, NONE, 30, 40], &[&[10, NONE, NONE, 40]]);
    assert_eq!(taken(&known), [[1, 0, 0], [0, 0, 0], [0, 1, 0], [0, 0, 0], [1, 0, 0]]);
    assert_eq!(known.taken, Taken { reports: 1, silent: 1, missing: 1, ..Taken::default() });
}

#[test]
fn the_first_node_tells_of_the_chain_also_behind_a_router() {
    let mut observer = Observer::new(Limits::default());
    observer.plan(path(&[NONE, 10, 20, 40]), 0).unwrap();
    let delays = |sequence| DelayReport {
        path: PATH,
        version: VERSION,
        sequence,
        span: DelaySpan::Chain,
        source: Source::Probe,
        delays: vec![(7 * MILLISECOND, 2)],
    };
    let tellers = [10, 20, 40].map(|device| {
        let device = DeviceId(device);
        let delivery = Delivery { device, connection: 1, now_ns: 0, wall: None };
        observer.delays(&delivery, &delays(u64::from(device.0))).is_ok().then_some(device.0)
    });
    let tellers: BTreeSet<u16> = tellers.into_iter().flatten().collect();
    assert_eq!(tellers, BTreeSet::from([10, 40]));
}
