//! What a packet costs in the engine, in memory and on one core: no ring, no socket, no kernel. A
//! looping source copies prepared frames into buffers; a sink gives buffers and bookings back. Both
//! are inside every figure.

mod beside;
mod counting;
pub(crate) mod drive;
pub(crate) mod frames;
pub(crate) mod kinds;
mod parse;
pub(crate) mod site;
mod work;

use crate::error::BenchError;
use crate::machine::calibrate;
use crate::peers;
use crate::plot::{Axis, Line, Plot};
use crate::publish::{Run, publish};
use crate::results::{Better, Figure, Goal, Notes, median};
pub(crate) use drive::{cpu_ns, monotonic_ns, wrong};
pub(crate) use frames::Template;
pub(crate) use kinds::Kind;
pub(crate) use site::{FAR_SEGMENTS, FIRST_PATH, own_place, place};
use std::path::Path;
pub(crate) use work::{EdgeWork, KnownFlows, Visits, delivered_flows, known_flows};
use work::{Temperature, Work};

/// How much is measured.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// Less of everything.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Ours alone.
    #[arg(long)]
    no_peer: bool,
    /// Only this work, printed and not published; for example `push`. With `--packets` also a number of
    /// hops.
    #[arg(long)]
    only: Option<String>,
    /// With `--only`: so many packets, once, without a clock; for valgrind.
    #[arg(long)]
    packets: Option<usize>,
    /// With `--only`: one sample, warm, in vectors of 256.
    #[arg(long)]
    sample: bool,
}

/// Samples of each figure.
const SAMPLES: usize = 15;
const SAMPLES_QUICK: usize = 5;
/// Packets of a sample.
const PACKETS: usize = 1 << 18;
/// Vectors of a sample between which the processor's caches are emptied.
const COLD_VECTORS: usize = 12;
/// Frame sizes, in bytes.
const SIZES: [(usize, &str); 8] = [
    (64, "forward_64_ns"),
    (128, "forward_128_ns"),
    (256, "forward_256_ns"),
    (512, "forward_512_ns"),
    (768, "forward_768_ns"),
    (1_024, "forward_1024_ns"),
    (1_280, "forward_1280_ns"),
    (1_500, "forward_1500_ns"),
];
/// Hops of the table, and what the figures are called: time, and time by that of one hop.
const HOPS: [(u32, &str, &str); 11] = [
    (1, "hops_1_ns", "hops_1_vs_1"),
    (4, "hops_4_ns", "hops_4_vs_1"),
    (16, "hops_16_ns", "hops_16_vs_1"),
    (64, "hops_64_ns", "hops_64_vs_1"),
    (256, "hops_256_ns", "hops_256_vs_1"),
    (1_024, "hops_1024_ns", "hops_1024_vs_1"),
    (4_096, "hops_4096_ns", "hops_4096_vs_1"),
    (16_384, "hops_16384_ns", "hops_16384_vs_1"),
    (65_536, "hops_65536_ns", "hops_65536_vs_1"),
    (262_144, "hops_262144_ns", "hops_262144_vs_1"),
    (1_048_576, "hops_1048576_ns", "hops_1048576_vs_1"),
];
/// Goal of each step, in nanoseconds.
const STEP_NS: f64 = 50.0;

/// Goal of a look into tunnels, beyond a plain frame, in nanoseconds.
const PARSE_NS: f64 = 60.0;
/// Rounds over the frames of one sample.
const PARSE_ROUNDS: usize = 64;

/// All figures, in the order of the table.
pub(crate) fn figures() -> Vec<Figure> {
    let ns = |name, goal| Figure::new(name, "ns", Better::Lower, goal);
    let by = |name, goal| Figure::new(name, "times", Better::Lower, Goal::Quotient(goal));
    let mut all = vec![ns("copy_1500_ns", Goal::None)];
    for work in Work::ALL {
        let goal = if work.is_step() { Goal::Value(STEP_NS) } else { Goal::None };
        all.push(ns(work.figure(Temperature::Warm), goal));
        all.push(ns(work.figure(Temperature::Cold), Goal::None));
    }
    all.extend([
        ns("forward_ns", Goal::Value(STEP_NS)),
        ns("proxy_ns", Goal::Value(STEP_NS)),
        by("batch_1_vs_256", Some(3.0)),
    ]);
    all.extend(parse::FRAMES_OF.map(|(name, _)| ns(name, Goal::Value(PARSE_NS))));
    all.extend(SIZES.map(|(_, name)| ns(name, Goal::None)));
    for (hops, name, quotient) in HOPS {
        let goal = match hops {
            16_384 => Some(1.3),
            1_048_576 => Some(2.5),
            _ => None,
        };
        all.extend([ns(name, Goal::None), by(quotient, goal)]);
    }
    all.extend(kinds::figures());
    all.extend(counting::figures());
    all.extend(beside::figures());
    all
}

/// Measures, writes the results and prints them.
pub(crate) fn run(options: &Options, folder: &Path) -> Result<(), BenchError> {
    if let Some(only) = &options.only {
        return single(options, only);
    }
    let mut notes = Notes::default();
    calibrate(&mut notes);
    let samples = if options.quick { SAMPLES_QUICK } else { SAMPLES };
    steps(samples, &mut notes)?;
    parsing(samples, &mut notes)?;
    sizes(samples, &mut notes)?;
    hops(samples, &mut notes)?;
    kinds::measure(samples, &mut notes)?;
    let mut missing = counting::measure(samples, &mut notes);
    if !options.no_peer {
        missing.extend(beside::measure(&mut notes));
    }
    let text = |key: &str, value: String| (key.to_owned(), value);
    let plots = vec![hops_plot(&notes)];
    let run = Run {
        name: "engine",
        about: "Nanoseconds of processor time per packet of 64 bytes, source and sink included, \
                in vectors of 256. Warm: one path, 1,024 flows. Cold: the processor's caches are \
                emptied before each vector. «forward» and «proxy» are the dearer of their two \
                halves, into the function and out of it. What is MPLS, IPv6, tagged or on the slow \
                path stands beside IPv4 over NSH on the fast path, in turns. The peers get the same frames from a \
                loop in their own forwarding thread, NSH over Ethernet where ours gets a tunnel's; \
                Open vSwitch stands with those of its caches that serve it best. What counting \
                costs is told beside a build that does not count, in instructions by valgrind."
            .to_owned()
            + &missing.iter().map(|what| format!(" Not measured: {what}.")).collect::<String>(),
        versions: peers::versions()
            .into_iter()
            .chain([text("ours", env!("CARGO_PKG_VERSION").into())])
            .collect(),
        options: [
            text("quick", options.quick.to_string()),
            text("packets of a sample", PACKETS.to_string()),
        ]
        .into_iter()
        .chain(peers::options())
        .collect(),
        notes,
        plots,
    };
    publish(run, folder)
}

fn single(options: &Options, only: &str) -> Result<(), BenchError> {
    if let (Ok(hops), Some(packets)) = (only.parse(), options.packets) {
        return work::table(hops)?.count(packets);
    }
    let work = Work::ALL.into_iter().find(|work| work.name() == only);
    let work = work.map(|work| (Kind::ORDINARY, work)).or_else(|| kinds::named(only));
    let (kind, work) =
        work.ok_or_else(|| drive::wrong("--only", &format!("there is no work {only}")))?;
    if let Some(packets) = options.packets {
        return work.ready(kind, 64)?.count(packets);
    }
    let mut bench = work.ready(kind, 64)?;
    if options.sample {
        println!("{}", bench.warm_ns(256, PACKETS)?);
        return Ok(());
    }
    for batch in [1, 8, 32, 64, 128, 256] {
        let samples: Result<Vec<f64>, _> =
            (0..SAMPLES_QUICK).map(|_| bench.warm_ns(batch, PACKETS)).collect();
        println!("{only} batch {batch}: {:.1} ns", median(&samples?).unwrap_or(f64::NAN));
    }
    println!("{only} cold: {:.1} ns", bench.cold_ns(COLD_VECTORS)?);
    Ok(())
}

/// Each step, warm and cold; the dearer half where there are two.
fn steps(samples: usize, notes: &mut Notes) -> Result<(), BenchError> {
    for work in Work::ALL {
        eprintln!("bench: {}", work.name());
        let mut bench = work.ready(Kind::ORDINARY, 64)?;
        for _ in 0..samples {
            let warm = bench.warm_ns(256, PACKETS)?;
            notes.take(work.figure(Temperature::Warm), true, warm);
            let cold = bench.cold_ns(COLD_VECTORS)?;
            notes.take(work.figure(Temperature::Cold), true, cold);
            if work == Work::ForwardOut {
                notes.take("batch_1_vs_256", true, bench.warm_ns(1, PACKETS / 4)?);
                notes.take("batch_1_vs_256", false, warm);
            }
        }
    }
    for (whole, halves) in [
        ("forward_ns", [Work::ForwardIn, Work::ForwardOut]),
        ("proxy_ns", [Work::ProxyIn, Work::ProxyOut]),
    ] {
        let of = |work: Work| notes.samples(work.figure(Temperature::Warm)).cloned();
        let [one, other] = halves.map(|work| of(work).unwrap_or_default().ours);
        let dearer = one.iter().zip(&other).map(|(one, other)| one.max(*other));
        for sample in dearer.collect::<Vec<_>>() {
            notes.take(whole, true, sample);
        }
    }
    Ok(())
}

/// What is inside a frame, beyond what a plain one takes.
fn parsing(samples: usize, notes: &mut Notes) -> Result<(), BenchError> {
    let plain = parse::Frames::plain()?;
    for (figure, name) in parse::FRAMES_OF {
        let tunnelled = parse::Frames::tunnelled(name)?;
        for _ in 0..samples {
            let extra = tunnelled.ns(PARSE_ROUNDS) - plain.ns(PARSE_ROUNDS);
            notes.take(figure, true, extra);
        }
    }
    Ok(())
}

fn sizes(samples: usize, notes: &mut Notes) -> Result<(), BenchError> {
    for (bytes, figure) in SIZES {
        eprintln!("bench: {bytes} bytes");
        let mut bench = Work::ForwardOut.ready(Kind::ORDINARY, bytes)?;
        for _ in 0..samples {
            notes.take(figure, true, bench.warm_ns(256, PACKETS)?);
        }
    }
    Ok(())
}

/// Tables of more and more hops, in turns with one of a single hop.
fn hops(samples: usize, notes: &mut Notes) -> Result<(), BenchError> {
    let mut one = work::table(1)?;
    for (hops, figure, quotient) in HOPS {
        eprintln!("bench: {hops} hops");
        let mut bench = work::table(hops)?;
        for _ in 0..samples {
            let least = one.warm_ns(256, PACKETS)?;
            // Every entry is met more than ten times in a run of all samples.
            let packets = PACKETS.max(hops as usize * 10 / samples + 1);
            let ns = bench.warm_ns(256, packets)?;
            notes.take(figure, true, ns);
            notes.take(quotient, true, ns);
            notes.take(quotient, false, least);
        }
    }
    Ok(())
}

pub(crate) fn hops_plot(notes: &Notes) -> Plot {
    let point = |(hops, figure, _): (u32, &str, &str)| {
        Some((f64::from(hops), median(&notes.samples(figure)?.ours)?))
    };
    let of_switch = |(hops, figure): (u32, &str)| {
        Some((f64::from(hops), median(&notes.samples(figure)?.peer)?))
    };
    Plot {
        stem: "engine-hops".into(),
        title: "Cost of a packet by the size of the table".into(),
        x: Axis::logarithmic("hops in the table (logarithmic)"),
        y: Axis::linear("nanoseconds per packet"),
        lines: vec![
            Line { name: "Catena".into(), points: HOPS.into_iter().filter_map(point).collect() },
            Line {
                name: "Open vSwitch over DPDK".into(),
                points: beside::tables().filter_map(of_switch).collect(),
            },
        ],
    }
}
