//! What passes until the first packet of a flow goes on, by the rate of flows and in parts: `labs/reactive.yaml`,
//! by the counters of its data planes.

use super::southbound::{self, Southbound};
use crate::peers::{Folder, Unavailable};
use crate::plot::{Axis, Plot, line};
use crate::results::{Better, Figure, Fold, Goal, Notes};
use serde::Deserialize;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::LazyLock;

const LAB: &str = "reactive";
/// Flows a second; the short form of the lab has some of them.
pub(super) const RATES: [u32; 5] = [100, 500, 1_000, 2_000, 5_000];
/// The whole and its parts, and what 99 of 100 flows may take, in microseconds.
const PARTS: [(&str, Option<f64>); 5] = [
    ("whole", Some(1_000.0)),
    ("header", Some(2.0)),
    ("controller", None),
    ("channel", None),
    ("edge", Some(100.0)),
];

static FIGURES: LazyLock<Vec<Figure>> = LazyLock::new(|| {
    let lower =
        |name: String, unit, goal| Figure::new(name.leak(), unit, Better::Lower, Goal::Value(goal));
    let of_rate = |rate| {
        let means = PARTS
            .map(|(part, _)| Figure { goal: Goal::None, ..lower(mean_of(part, rate), "µs", 0.0) });
        let ranks = PARTS.into_iter().filter_map(|(part, goal)| Some((part, goal?)));
        let ranks = ranks.map(move |(part, goal)| lower(p99_of(part, rate), "µs", goal));
        let unset = lower(unset_of(rate), "flows", 0.0).by(Fold::Most);
        means.into_iter().chain(ranks).chain([unset])
    };
    RATES.into_iter().flat_map(of_rate).collect()
});

fn mean_of(part: &str, rate: u32) -> String {
    format!("setup_{rate}_{part}_us")
}

fn p99_of(part: &str, rate: u32) -> String {
    format!("setup_{rate}_{part}_p99_us")
}

fn unset_of(rate: u32) -> String {
    format!("setup_{rate}_unanswered")
}

pub(super) fn figures() -> Vec<Figure> {
    FIGURES.clone()
}

/// What is read of the lab's report.
#[derive(Deserialize)]
struct Report {
    checks: Vec<Check>,
    evidence: Evidence,
}

#[derive(Deserialize)]
struct Check {
    text: String,
    holds: bool,
}

#[derive(Deserialize)]
struct Evidence {
    runs: Vec<Run>,
}

#[derive(Deserialize)]
struct Run {
    chain: Option<String>,
    setups: Option<Setups>,
}

#[derive(Clone, Copy, Deserialize)]
struct Setups {
    flows: Flows,
    whole: Times,
    header: Times,
    controller: Times,
    channel: Times,
    edge: Times,
    southbound: Option<Southbound>,
}

#[derive(Clone, Copy, Deserialize)]
struct Flows {
    asked: u64,
    answered: u64,
}

#[derive(Clone, Copy, Deserialize)]
struct Times {
    mean: f64,
    p99: f64,
}

impl Setups {
    /// In the order of [`PARTS`].
    const fn parts(&self) -> [Times; PARTS.len()] {
        [self.whole, self.header, self.controller, self.channel, self.edge]
    }
}

/// Runs the lab and takes what it measured; answers what could not be, and why.
pub(super) fn measure(is_quick: bool, root: &Path, notes: &mut Notes) -> Vec<String> {
    eprintln!("bench: flows that are set up with their first packet");
    match report(is_quick, root) {
        Ok(report) => {
            let broken = report.checks.iter().filter(|check| !check.holds);
            let mut missing: Vec<String> = broken
                .map(|check| format!("a lab of set-ups where «{}» holds", check.text))
                .collect();
            missing.extend(take(&report.evidence.runs, notes));
            missing
        }
        Err(reason) => vec![format!("set-ups of flows ({reason})")],
    }
}

fn report(is_quick: bool, root: &Path) -> Result<Report, Unavailable> {
    let unavailable = |error: &dyn std::fmt::Display| Unavailable::new("the lab", error);
    let folder = Folder::new()?;
    let mut lab = Command::new(crate::servers::program(root));
    lab.args(["lab", "run", "--results"]).arg(&folder.0);
    if !is_quick {
        lab.arg("--full");
    }
    lab.arg(root.join(format!("labs/{LAB}.yaml"))).stdin(Stdio::null());
    let done = lab.output().map_err(|error| unavailable(&error))?;
    // A check that does not hold fails the lab, and is told in its report.
    let text = std::fs::read_to_string(folder.0.join(LAB).join("report.json")).map_err(|_| {
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        unavailable(&said.trim().lines().last().unwrap_or("it ended without a report"))
    })?;
    serde_json::from_str(&text).map_err(|error| unavailable(&error))
}

/// Takes what runs measured, each at the rate of its chain; answers what runs are without.
#[allow(clippy::cast_precision_loss)]
fn take(runs: &[Run], notes: &mut Notes) -> Vec<String> {
    let mut missing = Vec::new();
    for run in runs {
        let name = run.chain.as_deref().unwrap_or_default();
        let rate = name.strip_prefix('r').and_then(|rate| rate.parse::<u32>().ok());
        let rate = rate.filter(|rate| RATES.contains(rate));
        let (Some(rate), Some(setups)) = (rate, &run.setups) else {
            missing.push(format!("set-ups of «{name}» (no flow was counted)"));
            continue;
        };
        for ((part, goal), times) in PARTS.into_iter().zip(setups.parts()) {
            notes.take(&mean_of(part, rate), true, times.mean);
            if goal.is_some() {
                notes.take(&p99_of(part, rate), true, times.p99);
            }
        }
        let Flows { asked, answered } = setups.flows;
        notes.take(&unset_of(rate), true, asked.saturating_sub(answered) as f64);
        match &setups.southbound {
            Some(southbound) => southbound::take(rate, southbound, notes),
            None => missing.push(format!("bytes between edge and controller of «{name}»")),
        }
    }
    missing
}

pub(super) fn plot(notes: &Notes) -> Plot {
    let points = |figure: &dyn Fn(u32) -> String| -> Vec<(f64, String)> {
        RATES.into_iter().map(|rate| (f64::from(rate), figure(rate))).collect()
    };
    let mut lines = vec![line(notes, "99 of 100", true, points(&|rate| p99_of("whole", rate)))];
    for (part, _) in PARTS {
        lines.push(line(notes, part, true, points(&|rate| mean_of(part, rate))));
    }
    Plot {
        stem: "source-route-setup".into(),
        title: "Set-up of a flow by the rate of flows, means and the slowest of a hundred".into(),
        x: Axis::logarithmic("flows a second (logarithmic)"),
        y: Axis::logarithmic("microseconds (logarithmic)"),
        lines,
    }
}

#[cfg(test)]
mod tests {
    use super::southbound::tests::SEEN;
    use super::*;

    fn run(chain: &str, is_counted: bool) -> Run {
        let part = |mean| Times { mean, p99: 10.0 * mean };
        let setups = Setups {
            flows: Flows { asked: 200, answered: 199 },
            whole: part(200.0),
            header: part(1.0),
            controller: part(20.0),
            channel: part(100.0),
            edge: part(79.0),
            southbound: (chain != "r1000").then_some(SEEN),
        };
        Run { chain: Some(chain.into()), setups: is_counted.then_some(setups) }
    }

    #[test]
    fn a_run_is_taken_at_the_rate_of_its_chain_and_one_without_a_flow_is_told() {
        let mut notes = Notes::default();
        let runs = [run("r500", true), run("r100", false), run("r7", true), run("r1000", true)];
        let missing = take(&runs, &mut notes);
        assert_eq!(missing.len(), 3, "{missing:?}");
        let of = |figure: String| notes.samples(&figure).map(|samples| samples.ours.clone());
        assert_eq!(of(mean_of("channel", 500)), Some(vec![100.0]));
        assert_eq!(of(p99_of("header", 500)), Some(vec![10.0]));
        assert_eq!(of(unset_of(500)), Some(vec![1.0]));
        assert_eq!(of(mean_of("whole", 100)), None);
        assert_eq!(of("control_up_bytes_500".into()), Some(vec![110.0]));
        assert_eq!(of("control_up_bytes_1000".into()), None, "not observed, hence not 0");
    }

    #[test]
    fn the_lab_has_a_chain_for_each_rate() {
        let text = std::fs::read_to_string(crate::folder().join("../labs/reactive.yaml")).unwrap();
        for rate in RATES {
            assert!(text.contains(&format!("{{name: r{rate}, ")), "{rate}");
            assert!(text.contains(&format!("packets_per_second: {rate}}}")), "{rate}");
        }
    }
}
