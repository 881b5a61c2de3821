//! What the figures are called, what they are held against, and the picture of them.

use super::restart::Restarted;
use super::usage::ROLES;
use crate::plot::{Axis, Line, Plot};
use crate::results::{Better, Figure, Fold, Goal, Notes, median, quantile};
use std::sync::LazyLock;
use std::time::Duration;

/// Chains in force while one more is made, changed and removed.
pub(super) const SIZES: [usize; 5] = [0, 10, 100, 1_000, 10_000];
/// The sizes of which one is held against the peer; the smaller in the quick form.
pub(super) const PEER_SIZES: [usize; 2] = [100, 1_000];
/// How many times longer the peer may be expected to take.
const PEER_RATIO: f64 = 20.0;
/// The greetings of four nodes have less; a program among so many chains has megabytes.
const RESTART_BYTES: f64 = 32_768.0;
/// The size that goals are set for.
const LARGEST: usize = SIZES[SIZES.len() - 1];
/// How many times the cost of the smallest size that of a larger may be.
const GROWTH: f64 = 1.5;
const BYTES: &str = "bytes_one_more";
const STREAM_LOST: &str = "stream_lost";
const STREAM_SENT: &str = "stream_sent";

/// What is done with one chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    Make,
    Change,
    Remove,
}

impl Work {
    pub(super) const ALL: [Self; 3] = [Self::Make, Self::Change, Self::Remove];

    fn name(self) -> &'static str {
        match self {
            Self::Make => "one_more",
            Self::Change => "change",
            Self::Remove => "remove",
        }
    }

    /// In milliseconds, among the largest number of chains.
    fn goal_ms(self) -> Goal {
        match self {
            Self::Make => Goal::Value(5.0),
            Self::Change => Goal::Value(15.0),
            Self::Remove => Goal::None,
        }
    }
}

static FIGURES: LazyLock<Vec<Figure>> = LazyLock::new(|| {
    let lower = |name: String, unit, goal| Figure::new(name.leak(), unit, Better::Lower, goal);
    let mut all = vec![lower("copy_1500_ns".into(), "ns", Goal::None)];
    for size in SIZES {
        let goal = |goal: Goal| if size == LARGEST { goal } else { Goal::None };
        for work in Work::ALL {
            let name = work.name();
            all.push(lower(format!("{name}_ms_{size}"), "ms", goal(work.goal_ms())));
            all.push(lower(format!("{name}_p99_ms_{size}"), "ms", Goal::None));
        }
        all.push(lower(cpu(size), "µs", goal(Goal::Value(2_000.0))));
        all.extend(ROLES.map(|role| lower(cpu_of(role, size), "µs", Goal::None)));
        all.push(lower(rest(size), "%", Goal::None));
        all.push(lower(format!("{BYTES}_{size}"), "bytes", Goal::None));
        let mib = [("controller", 256.0), ("dataplane", 200.0)];
        all.extend(mib.map(|(role, mib)| {
            lower(memory(role, size), "MiB", goal(Goal::Value(mib))).by(Fold::Most)
        }));
    }
    all.push(lower(BYTES.into(), "bytes", Goal::Value(4_096.0)));
    for work in Work::ALL {
        let sizes = SIZES.into_iter().filter(|size| is_compared(*size));
        let goal = Goal::Quotient(Some(GROWTH));
        all.extend(sizes.map(|size| lower(growth(work, size), "ms", goal)));
    }
    for size in [SIZES[2], LARGEST] {
        let goal = |value: f64| if size == LARGEST { Goal::Value(value) } else { Goal::None };
        all.push(lower(format!("restart_reads_s_{size}"), "s", goal(1.0)));
        all.push(lower(format!("restart_in_step_s_{size}"), "s", goal(2.0)));
        all.push(lower(format!("restart_bytes_to_nodes_{size}"), "bytes", goal(RESTART_BYTES)));
    }
    all.extend(PEER_SIZES.map(|size| lower(beside(size), "ms", Goal::Ratio(PEER_RATIO))));
    all.push(lower(STREAM_LOST.into(), "packets", Goal::Value(0.0)).by(Fold::Sum));
    all.push(Figure::new(STREAM_SENT, "packets", Better::Higher, Goal::None).by(Fold::Sum));
    all
});

/// All figures, in the order of the table.
pub(crate) fn figures() -> Vec<Figure> {
    FIGURES.clone()
}

fn cpu(size: usize) -> String {
    format!("cpu_us_one_more_{size}")
}

fn cpu_of(role: &str, size: usize) -> String {
    format!("cpu_us_one_more_{role}_{size}")
}

fn rest(size: usize) -> String {
    format!("cpu_percent_at_rest_{size}")
}

fn memory(role: &str, size: usize) -> String {
    format!("{role}_mib_{size}")
}

fn beside(size: usize) -> String {
    format!("neutron_one_more_vs_ours_{size}")
}

fn growth(work: Work, size: usize) -> String {
    format!("{}_{size}_vs_{}", work.name(), SIZES[0])
}

/// Among so few chains as ten nothing can have grown.
fn is_compared(size: usize) -> bool {
    size >= 100
}

/// How long each of the same work took.
pub(super) fn take_times(notes: &mut Notes, work: Work, size: usize, took: &[Duration]) {
    let ms: Vec<f64> = took.iter().map(|took| took.as_secs_f64() * 1e3).collect();
    let name = work.name();
    ms.iter().for_each(|ms| notes.take(&format!("{name}_ms_{size}"), true, *ms));
    if let Some(p99) = quantile(&ms, 0.99) {
        notes.take(&format!("{name}_p99_ms_{size}"), true, p99);
    }
    if !is_compared(size) {
        return;
    }
    let figure = growth(work, size);
    let few = notes.samples(&format!("{name}_ms_{}", SIZES[0])).cloned().unwrap_or_default();
    ms.iter().for_each(|ms| notes.take(&figure, true, *ms));
    few.ours.iter().for_each(|ms| notes.take(&figure, false, *ms));
}

/// Processor time of one more chain by role, in microseconds.
pub(super) fn take_cpu(notes: &mut Notes, size: usize, us: [f64; ROLES.len()]) {
    notes.take(&cpu(size), true, us.iter().sum());
    for (role, us) in ROLES.into_iter().zip(us) {
        notes.take(&cpu_of(role, size), true, us);
    }
}

/// Share of one core, in hundredths, that all processes use while nothing is asked of them.
pub(super) fn take_rest(notes: &mut Notes, size: usize, percent: f64) {
    notes.take(&rest(size), true, percent);
}

/// Memory of the largest process of a role.
pub(super) fn take_memory(notes: &mut Notes, size: usize, role: &str, mib: f64) {
    notes.take(&memory(role, size), true, mib);
}

/// Bytes to all nodes for one more chain.
pub(super) fn take_bytes(notes: &mut Notes, size: usize, bytes: f64) {
    notes.take(&format!("{BYTES}_{size}"), true, bytes);
}

/// The bytes among the largest number of chains that was reached are those that the goal is about.
pub(super) fn settle_bytes(notes: &mut Notes) {
    let mut largest = SIZES.iter().rev().map(|size| format!("{BYTES}_{size}"));
    let samples = largest.find_map(|figure| notes.samples(&figure).cloned()).unwrap_or_default();
    samples.ours.iter().for_each(|bytes| notes.take(BYTES, true, *bytes));
}

/// What it took to start anew.
#[allow(clippy::cast_precision_loss)]
pub(super) fn take_restart(notes: &mut Notes, size: usize, all: &[Restarted]) {
    for Restarted { read, in_step, bytes } in all {
        notes.take(&format!("restart_reads_s_{size}"), true, read.as_secs_f64());
        notes.take(&format!("restart_in_step_s_{size}"), true, in_step.as_secs_f64());
        notes.take(&format!("restart_bytes_to_nodes_{size}"), true, *bytes as f64);
    }
}

/// How long one more took at the peer, beside ours among as many.
pub(super) fn take_peer(notes: &mut Notes, size: usize, took: &[Duration]) {
    let ours = notes.samples(&format!("one_more_ms_{size}")).cloned().unwrap_or_default().ours;
    ours.iter().for_each(|ms| notes.take(&beside(size), true, *ms));
    took.iter().for_each(|took| notes.take(&beside(size), false, took.as_secs_f64() * 1e3));
}

/// What became of the stream while one size was measured.
#[allow(clippy::cast_precision_loss)]
pub(super) fn take_stream(notes: &mut Notes, sent: u64, lost: u64) {
    notes.take(STREAM_SENT, true, sent as f64);
    notes.take(STREAM_LOST, true, lost as f64);
}

/// Time by chains in force. A logarithmic axis has no place for none: it is drawn at one.
#[allow(clippy::cast_precision_loss)]
pub(crate) fn plot(notes: &Notes, stem: &str) -> Plot {
    let line = |(work, name): (Work, &str)| {
        let point = |size: usize| {
            let samples = notes.samples(&format!("{}_ms_{size}", work.name()))?;
            Some((size.max(1) as f64, median(&samples.ours)?))
        };
        Line { name: name.into(), points: SIZES.into_iter().filter_map(point).collect() }
    };
    let names = ["one more chain", "one changed", "one removed"];
    Plot {
        stem: stem.into(),
        title: "Time of one change by chains in force, four nodes, median".into(),
        x: Axis::logarithmic("chains in force (logarithmic; none at 1)"),
        y: Axis::logarithmic("milliseconds (logarithmic)"),
        lines: Work::ALL.into_iter().zip(names).map(line).collect(),
    }
}
