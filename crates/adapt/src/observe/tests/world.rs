//! A path, its packets, and what truly happened to them.

use crate::observe::{Delivery, Limits, Observer, PathFigures, Refusal};
use catena_model::id::{BlueprintNumber, InstanceId, PathId};
use catena_model::telemetry::{
    ArrivalTime, DeviceId, FlowCounter, FlowName, HopRecord, HopReport, PacketReport, PlannedHop,
    PlannedPath, PlannedVisit, ReportReason, Stamp, VisitLatency,
};
use std::collections::BTreeMap;
use std::num::NonZeroU32;

pub(super) const SECOND: u64 = 1_000_000_000;
pub(super) const MILLISECOND: u64 = 1_000_000;
pub(super) const PATH: PathId = PathId(7);
pub(super) const VERSION: BlueprintNumber = BlueprintNumber(3);
/// Who ends the path, and reports.
pub(super) const END: DeviceId = DeviceId(40);
/// The hop that is a plain router.
pub(super) const ROUTER: usize = 2;
/// Hops of the path that write records.
pub(super) const WRITING: [usize; 4] = [0, 1, 3, 4];

pub(super) fn visit(device: u16) -> PlannedVisit {
    PlannedVisit {
        device: DeviceId(device),
        functions: vec![InstanceId::from(uuid::Uuid::from_u128(u128::from(device)))],
    }
}

/// Four nodes and, between them, a plain router.
pub(super) fn planned(path: PathId, end: DeviceId) -> PlannedPath {
    let hop = |device| PlannedHop { visits: vec![visit(device)] };
    PlannedPath {
        path,
        version: VERSION,
        one_in: NonZeroU32::new(8).unwrap(),
        hops: vec![hop(10), hop(20), PlannedHop::default(), hop(30), hop(end.0)],
    }
}

pub(super) fn observer() -> Observer {
    watching(Limits::default())
}

pub(super) fn watching(limits: Limits) -> Observer {
    let mut observer = Observer::new(limits);
    observer.plan(planned(PATH, END), 0).unwrap();
    observer
}

pub(super) fn figures(observer: &mut Observer, now_ns: u64) -> PathFigures {
    observer.figures(PATH, VERSION, now_ns).unwrap()
}

/// Makes packets.
pub(super) struct World {
    pub(super) random: fastrand::Rng,
    pub(super) now_ns: u64,
    /// What the clocks of nodes show at 0.
    pub(super) clock_ns: u64,
    /// Counters of a flow by hop, which never come round.
    pub(super) counters: BTreeMap<(FlowName, usize), u64>,
    /// Share of packets that are lost behind each hop.
    pub(super) lossy: [f64; 5],
    /// What functions take in the middle, nanoseconds.
    pub(super) service_ns: f64,
    pub(super) sequence: u64,
    /// The delay in functions of the second hop of whatever is reported, by window.
    pub(super) services: BTreeMap<u64, Vec<u64>>,
    /// From the first to the last.
    pub(super) chains: BTreeMap<u64, Vec<u64>>,
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            random: fastrand::Rng::with_seed(seed),
            now_ns: 5 * SECOND,
            // Stamps come round in the eighth second.
            clock_ns: (1 << 40) - 8 * SECOND,
            counters: BTreeMap::new(),
            lossy: [0.0; 5],
            service_ns: 100_000.0,
            sequence: 0,
            services: BTreeMap::new(),
            chains: BTreeMap::new(),
        }
    }

    /// What nodes' clocks show.
    pub(super) fn stamp(&self, now_ns: u64) -> ArrivalTime {
        ArrivalTime::from_ns(self.clock_ns + now_ns)
    }

    pub(super) fn delivery(&self) -> Delivery {
        Delivery {
            device: END,
            connection: 1,
            now_ns: self.now_ns,
            wall: Some(self.stamp(self.now_ns)),
        }
    }

    /// Counts a packet at a hop.
    pub(super) fn count(&mut self, flow: FlowName, hop: usize) -> FlowCounter {
        // All counters come round soon, each at another time.
        let beginning = (1 << 20) - 700 - 211 * hop as u64;
        let counter = self.counters.entry((flow, hop)).or_insert(beginning);
        *counter += 1;
        FlowCounter::of(*counter)
    }

    /// Functions take so long: most about the middle, a few far above.
    pub(super) fn service(&mut self) -> u64 {
        let spread = (0..4).map(|_| self.random.f64()).sum::<f64>() / 4.0;
        let far = if self.random.f64() < 0.01 { 8.0 } else { 1.0 };
        (self.service_ns * (0.5 + spread) * far) as u64
    }

    /// A packet, and its report if it comes to the end.
    pub(super) fn packet(&mut self, flow: FlowName) -> Option<PacketReport> {
        let began = self.now_ns;
        let mut at_ns = self.now_ns;
        let mut hops = Vec::new();
        let mut took = 0;
        for hop in 0..5 {
            if hop == ROUTER {
                hops.push(HopReport::Silent);
                continue;
            }
            let counter = self.count(flow, hop);
            let service = self.service();
            let is_end = hop == 4;
            let record = HopRecord {
                device: Some(DeviceId(10 * (hop + usize::from(hop < ROUTER)) as u16)),
                arrival: Some(Stamp { time: self.stamp(at_ns), is_synchronised: true }),
                latency: (!is_end).then_some(VisitLatency { ns: service, is_saturated: false }),
                queue: None,
                counter: Some(counter),
            };
            hops.push(HopReport::Recorded(record));
            if hop == 1 {
                took = service;
            }
            if !is_end {
                at_ns += service + 20_000;
            }
            if self.random.f64() < self.lossy[hop] {
                return None;
            }
        }
        self.now_ns = at_ns;
        let window = self.now_ns / SECOND;
        self.services.entry(window).or_default().push(took);
        self.chains.entry(window).or_default().push(at_ns - began);
        self.sequence += 1;
        Some(PacketReport {
            path: PATH,
            version: VERSION,
            flow,
            sequence: self.sequence,
            reason: ReportReason::Sampled,
            is_incomplete: false,
            hops,
        })
    }

    /// Packets without a report, and then one with.
    pub(super) fn sampled(&mut self, flow: FlowName) -> Option<PacketReport> {
        for _ in 0..7 {
            for hop in WRITING {
                self.count(flow, hop);
                if self.random.f64() < self.lossy[hop] {
                    break;
                }
            }
        }
        self.packet(flow)
    }

    /// Packets lost behind a hop since these counters.
    pub(super) fn lost_since(&self, before: &BTreeMap<(FlowName, usize), u64>, hop: usize) -> i64 {
        let next = if hop + 1 == ROUTER { ROUTER + 1 } else { hop + 1 };
        let at = |hop: usize| {
            let sum = |counters: &BTreeMap<(FlowName, usize), u64>| -> u64 {
                let of_hop = counters.iter().filter(|((_, at), _)| *at == hop);
                of_hop.map(|(_, count)| *count).sum()
            };
            sum(&self.counters) as i64 - sum(before) as i64
        };
        at(hop) - at(next)
    }
}

/// The record of a hop, to be changed.
pub(super) fn record(report: &mut PacketReport, hop: usize) -> &mut HopRecord {
    match &mut report.hops[hop] {
        HopReport::Recorded(record) => record,
        other => panic!("{other:?}"),
    }
}

pub(super) fn tell(
    observer: &mut Observer,
    world: &World,
    report: &PacketReport,
) -> Result<(), Refusal> {
    observer.report(&world.delivery(), report)
}
