//! What a report costs once the collector is warm: no memory, and so much time, which is told and not judged.

use catena_adapt::observe::{Delivery, FlowFigures, Limits, Observer, Refusal};
use catena_io::CountingAllocator;
use catena_model::id::{BlueprintNumber, PathId};
use catena_model::telemetry::{
    ArrivalTime, DeviceId, FlowCounter, FlowName, HopRecord, HopReport, PacketReport, PlannedHop,
    PlannedPath, PlannedVisit, ReportReason, Stamp, VisitLatency,
};
use std::hint::black_box;
use std::num::NonZeroU32;
use std::time::Instant;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const VERSION: BlueprintNumber = BlueprintNumber(1);
const PATHS: u32 = 64;
const HOPS: u16 = 4;

/// Reports of many paths and flows, written over and over.
struct Stream {
    observer: Observer,
    report: PacketReport,
    told: u64,
}

impl Stream {
    fn new() -> Self {
        let limits = Limits { reports_per_second: 1_000_000_000, ..Limits::default() };
        let mut observer = Observer::new(limits);
        for path in 0..PATHS {
            let visit = |device| PlannedVisit { device: DeviceId(device), functions: Vec::new() };
            let hops = (1..=HOPS).map(|device| PlannedHop { visits: vec![visit(device)] });
            let planned = PlannedPath {
                path: PathId(path),
                version: VERSION,
                one_in: NonZeroU32::MIN.saturating_add(63),
                hops: hops.collect(),
            };
            observer.plan(planned, 0).expect("it is short");
        }
        let report = PacketReport {
            path: PathId(0),
            version: VERSION,
            flow: FlowName(0),
            sequence: 0,
            reason: ReportReason::Sampled,
            is_incomplete: false,
            hops: vec![HopReport::Recorded(HopRecord::default()); usize::from(HOPS)],
        };
        Self { observer, report, told: 0 }
    }

    /// The next one, ten microseconds after the one before. Each path has as many flows as it has room for, and after
    /// ten seconds others.
    fn tell(&mut self) -> Result<(), Refusal> {
        self.told += 1;
        let now_ns = 1_000_000_000 + self.told * 10_000;
        let round = self.told / u64::from(PATHS);
        let turn = now_ns / 10_000_000_000 % 2;
        self.report.path = PathId((self.told % u64::from(PATHS)) as u32);
        self.report.flow = FlowName(round % 16 + 16 * turn);
        self.report.sequence = self.told;
        for (hop, report) in self.report.hops.iter_mut().enumerate() {
            let before = (usize::from(HOPS) - hop) as u64 * 100_000;
            *report = HopReport::Recorded(HopRecord {
                device: Some(DeviceId(hop as u16 + 1)),
                arrival: Some(Stamp {
                    time: ArrivalTime::from_ns(now_ns - before),
                    is_synchronised: true,
                }),
                latency: Some(VisitLatency {
                    ns: 10_000 + self.told * 7_919 % 50_000,
                    is_saturated: false,
                }),
                queue: None,
                counter: Some(FlowCounter::of(round * 64)),
            });
        }
        let wall = Some(ArrivalTime::from_ns(now_ns));
        let delivery = Delivery { device: DeviceId(HOPS), connection: 1, now_ns, wall };
        self.observer.report(&delivery, &self.report)
    }
}

#[test]
fn no_report_allocates_once_the_collector_is_warm() {
    let mut stream = Stream::new();
    // All flows that there is room for, all series, and some windows.
    for _ in 0..300_000 {
        stream.tell().unwrap();
    }
    let before = CountingAllocator::asked();
    // Many windows, and flows that make room for others.
    for _ in 0..1_500_000 {
        stream.tell().unwrap();
    }
    assert_eq!(CountingAllocator::asked() - before, 0);
    let now_ns = 1_000_000_000 + stream.told * 10_000;
    let known = stream.observer.figures(PathId(1), VERSION, now_ns).unwrap();
    assert!(known.let_go.flows > 0, "some did");
    assert_eq!(known.chain[0].windows.len(), 18);
    let is_counted = |flow: &FlowFigures| flow.hops.iter().all(|hop| hop.rate.is_some());
    assert!(known.flows.iter().any(is_counted));
    assert!(CountingAllocator::asked() > before, "the allocator counts");
}

#[test]
fn reports_a_second_are_told() {
    let mut stream = Stream::new();
    for _ in 0..200_000 {
        stream.tell().unwrap();
    }
    let reports = 2_000_000;
    let began = Instant::now();
    for _ in 0..reports {
        black_box(stream.tell()).unwrap();
    }
    let second = f64::from(reports) / began.elapsed().as_secs_f64();
    println!(
        "{second:.0} reports a second, each with {HOPS} hops, of {PATHS} paths (goal: 1,000,000)"
    );
}
