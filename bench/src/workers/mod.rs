//! What several workers are worth: the real ones, with their rings between them, over ports in memory. One
//! worker on one core in turns with two on two, and what follows for more.

mod memory_port;

use crate::engine::drive::wrong;
use crate::engine::frames::{Position, Template, Turn};
use crate::engine::kinds::Kind;
use crate::engine::site::{self, Hop, Seat};
use crate::error::BenchError;
use crate::machine::calibrate;
use crate::plot::{Axis, Line, Plot};
use crate::publish::{Run, publish};
use crate::results::{Better, Figure, Goal, Notes, median};
use catena_dataplane::engine::{EngineConfig, Tables};
use catena_dataplane::shell::StandaloneWorkers;
use catena_model::NodeProgram;
use catena_model::program::RulePlace;
use memory_port::{Gauge, MemoryPort};
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How much is measured.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// Less of everything.
    #[arg(long)]
    pub(crate) quick: bool,
}

const SAMPLES: usize = 15;
const SAMPLES_QUICK: usize = 5;
/// Flows of each port.
const FLOWS: u32 = 1_024;
/// Before a sample, and while it lasts.
const WARMING: Duration = Duration::from_millis(100);
const SAMPLE: Duration = Duration::from_millis(300);
/// A sample that ends later than this has stood still.
const HANG: Duration = Duration::from_secs(30);

/// What packets of both endpoints do.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Work {
    /// To the other endpoint, on no path.
    Switch,
    /// Into a function that knows nothing of chains.
    Proxy,
}

/// What a frame costs a worker at a port: nothing, or the least that an AF_PACKET ring does each way here.
const FREE: Duration = Duration::ZERO;
const PACKET_RING: Duration = Duration::from_nanos(400);

/// What is measured, at which ports, and what the model says of four workers and of eight.
type Measured = (Work, Duration, &'static str, [(f64, &'static str); 2]);
const ALL: [Measured; 4] = [
    (
        Work::Switch,
        FREE,
        "switch_2_workers_mpps",
        [(4.0, "switch_4_workers_model_times"), (8.0, "switch_8_workers_model_times")],
    ),
    (
        Work::Proxy,
        FREE,
        "proxy_2_workers_mpps",
        [(4.0, "proxy_4_workers_model_times"), (8.0, "proxy_8_workers_model_times")],
    ),
    (
        Work::Switch,
        PACKET_RING,
        "switch_ports_2_workers_mpps",
        [(4.0, "switch_ports_4_workers_model_times"), (8.0, "switch_ports_8_workers_model_times")],
    ),
    (
        Work::Proxy,
        PACKET_RING,
        "proxy_ports_2_workers_mpps",
        [(4.0, "proxy_ports_4_workers_model_times"), (8.0, "proxy_ports_8_workers_model_times")],
    ),
];

/// Figures of two workers beside one.
pub(crate) fn figures() -> Vec<Figure> {
    let mut all = vec![Figure::new("copy_1500_ns", "ns", Better::Lower, Goal::None)];
    for (_, _, measured, models) in ALL {
        all.push(Figure::new(measured, "Mpps", Better::Higher, Goal::None));
        let model = |(_, name)| Figure::new(name, "times", Better::Higher, Goal::None);
        all.extend(models.map(model));
    }
    all
}

/// Measures, writes the results and prints them.
pub(crate) fn run(options: &Options, folder: &Path) -> Result<(), BenchError> {
    let mut notes = Notes::default();
    calibrate(&mut notes);
    let samples = if options.quick { SAMPLES_QUICK } else { SAMPLES };
    for (work, cost, figure, models) in ALL {
        eprintln!("bench: {figure}");
        for _ in 0..samples {
            let one = mpps(work, cost, 1)?;
            let two = mpps(work, cost, 2)?;
            notes.take(figure, false, one);
            notes.take(figure, true, two);
            for (workers, name) in models {
                notes.take(name, true, model(workers, one, two));
            }
        }
    }
    let text = |key: &str, value: String| (key.to_owned(), value);
    let plots = vec![plot(&notes)];
    let run = Run {
        name: "workers",
        about: "Millions of packets of 64 bytes per second, by the clock on the wall: «ours» by two workers, \
                each spinning on a core of its own, «peer» by one, in turns, with the data plane's own rings \
                and orders. Two endpoints send 1,024 flows each out of memory, and what is sent is \
                forgotten. Ports are free, or («ports») keep their worker busy for 400 ns for each frame \
                each way, the least that an AF_PACKET ring costs here (800 to 1,000 ns both ways). Half of \
                the packets are decided by the worker that has not read them, and half leave by a port of \
                the one that has not decided them. The model takes what two workers need for a packet beyond \
                what one needs for those two crossings of half of the packets, and lets four and eight have \
                those of three quarters and seven eighths; caches and memory that more cores share are not \
                in it."
            .into(),
        versions: [text("ours", env!("CARGO_PKG_VERSION").into())].into(),
        options: [
            text("quick", options.quick.to_string()),
            text("milliseconds of a sample", SAMPLE.as_millis().to_string()),
        ]
        .into(),
        notes,
        plots,
    };
    publish(run, folder)
}

/// How many times as much so many workers would do as one: of `w` workers a packet crosses between two of
/// them in `(w - 1) / w` of the cases, once to be decided and once to be sent.
fn model(workers: f64, one_mpps: f64, two_mpps: f64) -> f64 {
    let (one, two) = (1.0 / one_mpps, 2.0 / two_mpps);
    let crossing = (two - one).max(0.0) / 0.5;
    workers * one / (one + crossing * (workers - 1.0) / workers)
}

fn program(work: Work) -> Result<NodeProgram, BenchError> {
    let mut program = site::program(&[Hop::Bare, Hop::Far], 1)?;
    match work {
        Work::Switch => program.rules.clear(),
        Work::Proxy => {
            program.rules.iter_mut().for_each(|rule| rule.matches.place = RulePlace::Endpoints);
        }
    }
    Ok(program)
}

/// The frames that a port repeats.
fn frames(from: Seat, to: Seat) -> Vec<Vec<u8>> {
    let template = Template::bare(Kind::ORDINARY, (from, to), to.mac().0, 64);
    let frame = |flow| {
        let mut bytes = template.bytes().to_vec();
        template.patch(&mut bytes, Turn { flow, position: Position { path: 0, index: 0 } });
        bytes
    };
    (0..FLOWS).map(frame).collect()
}

/// Millions of packets per second that so many workers send; all that came must have been sent.
fn mpps(work: Work, cost: Duration, workers: usize) -> Result<f64, BenchError> {
    let program = program(work)?;
    let tables = Tables::compile(&program).map_err(|error| wrong("the program", &error))?;
    let config = EngineConfig { flow_seed: 7, ..EngineConfig::new(program.node.clone()) };
    let count = NonZeroUsize::new(workers).unwrap_or(NonZeroUsize::MIN);
    let own_cores = (0..).take(workers).collect();
    let failed = |error: catena_dataplane::shell::DataplaneError| wrong("the workers", &error);
    let mut pool = StandaloneWorkers::start(&config, count, own_cores).map_err(failed)?;
    pool.replace_tables(&Arc::new(tables)).map_err(failed)?;
    let gauge = Arc::new(Gauge::default());
    let ends = [(Seat::Source, Seat::Sink), (Seat::Sink, Seat::Source)];
    let all = ends.map(|(from, to)| (from, frames(from, to)));
    for (seat, frames) in all.into_iter().chain([(Seat::BareIn, Vec::new())]) {
        let port =
            MemoryPort::new(frames, cost, &gauge).map_err(|error| wrong("a port", &error))?;
        pool.attach(seat.port(), Box::new(port)).map_err(failed)?;
    }
    gauge.is_flowing.store(true, Ordering::Relaxed);
    std::thread::sleep(WARMING);
    let (before, began) = (gauge.sent.load(Ordering::Relaxed), Instant::now());
    std::thread::sleep(SAMPLE);
    let sent = gauge.sent.load(Ordering::Relaxed) - before;
    let mpps = sent as f64 / began.elapsed().as_secs_f64() / 1e6;
    gauge.is_flowing.store(false, Ordering::Relaxed);
    settle(&mut pool, &gauge).map(|()| mpps)
}

/// Waits until nothing is on its way: then all that was received has been sent.
fn settle(pool: &mut StandaloneWorkers, gauge: &Gauge) -> Result<(), BenchError> {
    let began = Instant::now();
    loop {
        let counters = pool.counters().map_err(|error| wrong("the workers", &error))?;
        let ports = || counters.iter().flat_map(|worker| &worker.ports);
        let received: u64 = ports().map(|port| port.account.received.packets).sum();
        let dropped: u64 = ports().flat_map(|port| port.account.dropped.values()).sum();
        let sent = gauge.sent.load(Ordering::Relaxed);
        if dropped > 0 {
            return Err(wrong("the workers", &format!("{dropped} packets were dropped")));
        }
        if received == sent {
            return Ok(());
        }
        if began.elapsed() > HANG {
            return Err(wrong("the workers", &format!("{sent} of {received} packets were sent")));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Measured with one and two, by the model beyond.
pub(crate) fn plot(notes: &Notes) -> Plot {
    let line = |(_, _, measured, models): Measured| {
        let ours = |name: &str| median(&notes.samples(name)?.ours);
        let gain = || Some(ours(measured)? / median(&notes.samples(measured)?.peer)?);
        let beyond = models.into_iter().map(|(workers, name)| Some((workers, ours(name)?)));
        let points = [Some((1.0, 1.0)), gain().map(|gain| (2.0, gain))].into_iter().chain(beyond);
        let name = measured.trim_end_matches("_2_workers_mpps").replace('_', " at ");
        Line { name, points: points.flatten().collect() }
    };
    Plot {
        stem: "workers".into(),
        title: "Packets per second by workers, measured up to two, by a model beyond".into(),
        x: Axis::linear("workers, each with a core"),
        y: Axis::linear("times those of one"),
        lines: ALL.map(line).into(),
    }
}
