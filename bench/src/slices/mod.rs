//! Users of 5G tenants in the engine, in memory and on one core: what a packet costs by hops and
//! size, and how long it takes at the study's rates. Frames are GTP-in-VXLAN; each user is a slice of
//! its own, told by VNI and TEID, and enters its own path of two hops.

mod control;
mod drive;
mod site;

use crate::error::BenchError;
use crate::machine::calibrate;
use crate::plot::{Axis, Line, Plot};
use crate::publish::{Run, publish};
use crate::results::{Better, Figure, Fold, Goal, Notes, median};
use drive::Drive;
use std::path::Path;
use std::sync::LazyLock;

/// How much is measured.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// Less of everything.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Only what the engine does, in memory: no lab is brought up.
    #[arg(long)]
    no_control: bool,
    /// Only the lab's part.
    #[arg(long, conflicts_with = "no_control")]
    only_control: bool,
}

const SAMPLES: usize = 10;
const SAMPLES_QUICK: usize = 3;
/// Labs that slices are made in.
const CONTROL_SAMPLES: usize = 5;
const CONTROL_SAMPLES_QUICK: usize = 1;
/// Packets of a sample.
const PACKETS: usize = 1 << 18;
const PACKETS_QUICK: usize = 1 << 16;
/// Hops of all slices, two for each: the study's, and beyond.
const HOPS: [u32; 18] = [
    1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024, 2_048, 4_096, 8_192, 16_384, 65_536, 262_144,
    1_048_576,
];
/// The study's largest table.
const HOPS_STUDY: u32 = 16_384;
/// Bytes of a user's packet, before 100 bytes of tunnels.
const SIZES: [usize; 8] = [64, 128, 256, 512, 768, 1_024, 1_280, 1_500];
/// The study's rates, in Gbit/s.
const RATES: [u32; 5] = [1, 5, 10, 15, 20];
/// The study's delays, in microseconds: up to 4,096 hops, and the peaks beyond.
const STUDY_US: f64 = 3.0;
const STUDY_PEAK_US: f64 = 11.0;
const HOPS_BEFORE_PEAKS: u32 = 4_096;
/// The next rate to try, of one that was too high.
const LOWER: f64 = 0.8;
/// Runs in a row that a rate must keep, and the arrivals that may wait in the mean.
const KEPT_RUNS: usize = 3;
const KEPT_ARRIVALS: f64 = 64.0;

/// A figure's name with the numbers that it is about.
struct Named {
    ns: Vec<(u32, usize, &'static str)>,
    versus: Vec<(u32, &'static str)>,
    delays: Vec<(u32, [&'static str; 5])>,
}

static NAMED: LazyLock<Named> = LazyLock::new(|| {
    let name = |text: String| -> &'static str { text.leak() };
    let sizes = SIZES.into_iter();
    let ns = HOPS.into_iter().flat_map(|hops| {
        sizes.clone().map(move |size| (hops, size, name(format!("slices_{hops}_hops_{size}_ns"))))
    });
    let delay = |hops: u32| {
        let of = |what: &str| name(format!("delay_{hops}_hops_{what}"));
        (hops, [of("gbit"), of("p50_us"), of("p99_us"), of("max_us"), of("lost")])
    };
    let study = HOPS.into_iter().filter(|hops| *hops <= HOPS_STUDY);
    Named {
        ns: ns.collect(),
        versus: HOPS.map(|hops| (hops, name(format!("slices_{hops}_hops_vs_1")))).into(),
        delays: study.map(delay).collect(),
    }
});

/// All figures, in the order of the table.
pub(crate) fn figures() -> Vec<Figure> {
    let lower = |name, unit, goal| Figure::new(name, unit, Better::Lower, goal);
    let mut all = vec![lower("copy_1500_ns", "ns", Goal::None)];
    all.extend(NAMED.ns.iter().map(|(_, _, name)| lower(name, "ns", Goal::None)));
    all.extend(NAMED.versus.iter().map(|(hops, name)| {
        let goal = match hops {
            16_384 => Some(1.3),
            1_048_576 => Some(2.5),
            _ => None,
        };
        lower(name, "times", Goal::Quotient(goal))
    }));
    for (hops, [rate, p50, p99, max, lost]) in &NAMED.delays {
        let (name, unit) = (*rate, "Gbit/s");
        all.push(Figure::new(name, unit, Better::Higher, Goal::None));
        let study = if *hops <= HOPS_BEFORE_PEAKS { STUDY_US } else { STUDY_PEAK_US };
        all.push(lower(p50, "us", Goal::Value(study)));
        all.push(lower(p99, "us", Goal::Value(study)));
        all.push(lower(max, "us", Goal::None).by(Fold::Most));
        all.push(lower(lost, "packets", Goal::Value(0.0)).by(Fold::Sum));
    }
    all.extend([
        lower(control::STUDY_API, "s", Goal::None),
        lower(control::STUDY_BULK, "s", Goal::None),
        lower(control::BULK, "s", Goal::Value(5.0)),
        lower(control::BULK_CPU, "s", Goal::None),
        lower(control::MILLION, "s", Goal::None),
        lower(control::ONE, "ms", Goal::None),
        lower(control::ONE_CPU, "us", Goal::None),
        lower(control::AMONG_MANY, "times", Goal::Quotient(Some(1.5))),
        lower(control::CPU_AMONG_MANY, "times", Goal::Quotient(Some(1.5))),
    ]);
    all
}

/// Measures, writes the results and prints them.
pub(crate) fn run(options: &Options, folder: &Path) -> Result<(), BenchError> {
    let mut notes = Notes::default();
    calibrate(&mut notes);
    let (samples, packets) = match options.quick {
        true => (SAMPLES_QUICK, PACKETS_QUICK),
        false => (SAMPLES, PACKETS),
    };
    if !options.no_control {
        let samples = if options.quick { CONTROL_SAMPLES_QUICK } else { CONTROL_SAMPLES };
        control::measure(folder.parent().unwrap_or(folder), samples, &mut notes)?;
    }
    let mut by_rate = Vec::new();
    if !options.only_control {
        costs(samples, packets, &mut notes)?;
        by_rate = delays(samples, packets as u64, &mut notes)?;
    }
    let text = |key: &str, value: String| (key.to_owned(), value);
    let plots = vec![cost_plot(&notes), delay_plot(by_rate)];
    let run = Run {
        name: "slices",
        about: "Nanoseconds of processor time per GTP-in-VXLAN packet of a user, source and sink \
                included, in vectors of 256: parsed to VNI, TEID and inner flow, found among the \
                slices, entered into its own path, handed to its first function with NSH in front. \
                Users come in an order without pattern, over all slices. Sizes are those of the \
                user's IP packet; 100 bytes of tunnels stand before it. Delays: packets of 1,500 \
                bytes arrive one by one by the outside world's clock, from memory, at 20 Gbit/s or \
                the highest rate below that loses nothing three times in a row; a packet's delay is \
                from its arrival to the end of the vector that it left with; one that is lost counts \
                as late, with the whole length of its stream. Its goals are held by p50 and by p99, \
                beside the largest of all samples and the sum of what was lost: 3 us up to 4,096 hops \
                and 11 us beyond, which in the study are averages and their peaks, of a switch with \
                network cards on another machine. Slices made: in `labs/bench-slices.yaml`, a \
                controller and two nodes with agent and data plane on the same cores, each path with a \
                hop on either; until the store has them on disk and both nodes have acknowledged them, \
                after which both data planes are asked for every one. By 16 connections one by one, or \
                by the bulk route; one alone is answered when it is in force."
            .into(),
        versions: [text("ours", env!("CARGO_PKG_VERSION").into())].into(),
        options: [
            text("quick", options.quick.to_string()),
            text("packets of a sample", packets.to_string()),
        ]
        .into(),
        notes,
        plots,
    };
    publish(run, folder)
}

/// What a packet costs by hops and size; each table in turns with one of a single hop.
fn costs(samples: usize, packets: usize, notes: &mut Notes) -> Result<(), BenchError> {
    let smallest = SIZES[0];
    let mut one = Drive::new(1, site::frame(smallest)?)?;
    for hops in HOPS {
        eprintln!("bench: slices of {hops} hops");
        let mut drive = Drive::new(hops, site::frame(smallest)?)?;
        let versus = NAMED.versus.iter().find(|(of, _)| *of == hops).map(|(_, name)| *name);
        // Every entry is met more than ten times in all samples.
        let packets = packets.max(hops as usize * 10 / samples + 1);
        for _ in 0..samples {
            for (of, size, name) in NAMED.ns.iter().filter(|(of, ..)| *of == hops) {
                // Beyond the study's tables the size says nothing new.
                if *of > HOPS_STUDY && *size != smallest {
                    continue;
                }
                drive.send(site::frame(*size)?);
                let ns = drive.ns(packets)?;
                notes.take(name, true, ns);
                if let Some(versus) = versus.filter(|_| *size == smallest) {
                    notes.take(versus, true, ns);
                    notes.take(versus, false, one.ns(packets.min(PACKETS))?);
                }
            }
        }
    }
    Ok(())
}

/// A rate in Gbit/s and what its plot shows.
type AtRate = (u32, Vec<(f64, f64)>);

/// Delays at the highest rate that loses nothing, from the study's highest down; and for each of the
/// study's rates the mean by hops.
#[allow(clippy::cast_precision_loss)]
fn delays(samples: usize, packets: u64, notes: &mut Notes) -> Result<Vec<AtRate>, BenchError> {
    let frame = site::frame(1_500)?;
    let bits = frame.len() as f64 * 8.0;
    let mut by_rate: Vec<AtRate> = RATES.map(|rate| (rate, Vec::new())).into();
    for (hops, [kept, p50, p99, max, lost]) in &NAMED.delays {
        eprintln!("bench: delay with {hops} hops");
        let mut drive = Drive::new(*hops, frame.clone())?;
        for (rate, points) in &mut by_rate {
            let runs = (0..samples).map(|_| drive.paced(bits / f64::from(*rate), packets));
            let means: Result<Vec<f64>, _> = runs.map(|run| run.map(|run| run.mean_us())).collect();
            points.push((f64::from(*hops), median(&means?).unwrap_or(f64::NAN)));
        }
        let mut gap_ns = bits / f64::from(RATES[RATES.len() - 1]);
        while !is_kept(&mut drive, gap_ns, packets)? {
            gap_ns /= LOWER;
        }
        for _ in 0..samples {
            let paced = drive.paced(gap_ns, packets)?;
            notes.take(kept, true, bits / gap_ns);
            notes.take(p50, true, paced.us(50));
            notes.take(p99, true, paced.us(99));
            notes.take(max, true, paced.us(100));
            notes.take(lost, true, paced.lost as f64);
        }
    }
    Ok(by_rate)
}

/// Is nothing lost at this rate, nor much stored?
fn is_kept(drive: &mut Drive, gap_ns: f64, packets: u64) -> Result<bool, BenchError> {
    for _ in 0..KEPT_RUNS {
        let paced = drive.paced(gap_ns, packets)?;
        if paced.lost > 0 || paced.mean_us() * 1e3 > KEPT_ARRIVALS * gap_ns {
            return Ok(false);
        }
    }
    Ok(true)
}

pub(crate) fn cost_plot(notes: &Notes) -> Plot {
    let line = |size: usize| {
        let of = NAMED.ns.iter().filter(|(_, of, _)| *of == size);
        let points = of.filter_map(|(hops, _, name)| {
            Some((f64::from(*hops), median(&notes.samples(name)?.ours)?))
        });
        Line { name: format!("{size} bytes"), points: points.collect() }
    };
    Plot {
        stem: "slices-hops".into(),
        title: "Cost of a user's packet by hops".into(),
        x: Axis::logarithmic("hops, two for each slice (logarithmic)"),
        y: Axis::linear("nanoseconds per packet"),
        lines: [64, 512, 1_500].map(line).into(),
    }
}

fn delay_plot(by_rate: Vec<(u32, Vec<(f64, f64)>)>) -> Plot {
    let line = |(rate, points)| Line { name: format!("{rate} Gbit/s"), points };
    Plot {
        stem: "slices-delay".into(),
        title: "Delay in memory by hops and rate (figure 5 of the 5G study)".into(),
        x: Axis::logarithmic("hops, two for each slice (logarithmic)"),
        y: Axis::linear("microseconds, mean"),
        lines: by_rate.into_iter().map(line).collect(),
    }
}
