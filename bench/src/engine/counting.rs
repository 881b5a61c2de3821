//! What counting costs: the same work by a build that counts and by one that does not. Instructions
//! are counted by valgrind, time is taken in turns.

use super::work::Work;
use crate::instructions::{per_packet, said};
use crate::results::{Better, Figure, Goal, Notes};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Goal: three of a hundred.
const MOST: f64 = 1.03;
/// Works, and what the instructions of each and its time are called.
const WORKS: [(Work, &str, &str); 7] = [
    (Work::Push, "push_instructions", "push_counted_ns"),
    (Work::ForwardIn, "forward_in_instructions", "forward_in_counted_ns"),
    (Work::ForwardOut, "forward_out_instructions", "forward_out_counted_ns"),
    (Work::Pop, "pop_instructions", "pop_counted_ns"),
    (Work::ProxyIn, "proxy_in_instructions", "proxy_in_counted_ns"),
    (Work::ProxyOut, "proxy_out_instructions", "proxy_out_counted_ns"),
    (Work::Switch, "switch_instructions", "switch_counted_ns"),
];

/// Of every work the build that counts by the one that does not, and the dearest of all.
pub(super) fn figures() -> Vec<Figure> {
    let lower = |name, unit, goal| Figure::new(name, unit, Better::Lower, goal);
    let dearest = lower("counters_instructions_percent", "%", Goal::Value((MOST - 1.0) * 100.0));
    let of_works = WORKS.into_iter().flat_map(|(_, instructions, time)| {
        let goal = Goal::Quotient(Some(MOST));
        [lower(instructions, "instructions", goal), lower(time, "ns", goal)]
    });
    [dearest].into_iter().chain(of_works).collect()
}

/// Builds the one that does not count and measures both; answers what could not be, and why.
pub(super) fn measure(samples: usize, notes: &mut Notes) -> Vec<String> {
    match try_measure(samples, notes) {
        Ok(()) => Vec::new(),
        Err(reason) => vec![format!("what counting costs ({reason})")],
    }
}

fn try_measure(samples: usize, notes: &mut Notes) -> Result<(), String> {
    let counting = std::env::current_exe().map_err(|error| error.to_string())?;
    eprintln!("bench: building an engine that does not count");
    let uncounting = build()?;
    let mut dearest: f64 = 0.0;
    for (work, instructions, time) in WORKS {
        eprintln!("bench: counting, {}", work.name());
        let [counted, not] = [&counting, &uncounting]
            .map(|bench| per_packet(bench, &["engine", "--only", work.name()]));
        let (counted, not) = (counted?, not?);
        notes.take(instructions, true, counted);
        notes.take(instructions, false, not);
        dearest = dearest.max((counted / not - 1.0) * 100.0);
        for _ in 0..samples {
            notes.take(time, true, ns_of(&counting, work)?);
            notes.take(time, false, ns_of(&uncounting, work)?);
        }
    }
    notes.take("counters_instructions_percent", true, dearest);
    Ok(())
}

/// This benchmark once more, with an engine that does not count.
fn build() -> Result<PathBuf, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/uncounted");
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--release", "--quiet", "-p", "catena-bench"]);
    cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
    cargo.env("RUSTFLAGS", "--cfg uncounted").env("CARGO_TARGET_DIR", &folder);
    said(&mut cargo)?;
    Ok(folder.join("release/catena-bench"))
}

fn ns_of(bench: &Path, work: Work) -> Result<f64, String> {
    let mut command = Command::new(bench);
    let said = said(command.args(["engine", "--only", work.name(), "--sample"]))?;
    said.trim().parse().map_err(|_| format!("no sample: {}", said.trim()))
}
