//! A run of a lab file from beginning to end: brings the lab up, carries out the experiments,
//! judges, draws, writes, takes the lab down.

mod accounting;
mod beside;
mod capture;
mod cases;
mod ceilings;
mod datagrams;
mod delays;
mod evidence;
mod experiment;
mod faults;
mod flows;
mod footprint;
mod forged;
mod functions;
mod judge;
mod kills;
mod neighbours;
mod predicted;
mod programs;
mod proof;
mod provenance;
mod report;
mod routes;
mod sameness;
mod setups;
mod southbound;
mod stateless;
mod statistics;
mod streams;
mod summary;
mod telemetry;
mod timed;
mod tool;
mod updates;
mod users;
mod verdicts;

pub use users::frames as user_frames;

pub use beside::beside;
pub use delays::DelayRow;
pub use evidence::{DeploySample, Evidence, LengthRow, RunEvidence, ThroughputRow};
pub use faults::FaultOutcome;
pub use footprint::Footprint;
pub use forged::{Forged, Forgery};
pub use functions::{FunctionEvidence, FunctionFigures};
pub use judge::Judged;
pub use kills::Death;
pub use predicted::PredictedDelay;
pub use programs::{ProgramEnd, ProgramResult};
pub use provenance::{changes_in, command, commit_of};
pub use report::RunReport;
pub use sameness::ChainOutcome;
pub use setups::{SetupEvidence, SetupTimes};
pub use southbound::SouthboundEvidence;
pub use stateless::Stateless;
pub use statistics::{Mean, Ratio};
pub use summary::{summary, write_summary};
pub use timed::TimedDatagrams;
pub use tool::TrafficResult;
pub use updates::{Change, Update};
pub use users::{Comparison, Delays, Isolation, Lowered, UsersEvidence, UsersRow};

use crate::error::{LabError, Result};
use crate::plots;
use crate::supervisor::StartOptions;
use crate::up::RunningLab;
use crate::vocabulary::Lab;
use std::fs;
use std::path::{Path, PathBuf};

/// How a lab file shall be run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// With the durations and repeats of the study.
    pub is_full: bool,
    /// Below this folder each lab gets its own.
    pub results: PathBuf,
    /// How the lab is started.
    pub start: StartOptions,
}

/// Runs a lab file; each step is told with its duration in seconds. A failed check is no error:
/// see [`RunReport::passed`].
///
/// # Errors
/// The file is wrong, or the lab, a tool or the disk fails.
pub fn run(
    file: &Path,
    options: &RunOptions,
    tell: &mut dyn FnMut(&str, f64),
) -> Result<RunReport> {
    let lab = Lab::read(file, options.is_full)?;
    programs::check_installed(&lab)?;
    let folder = options.results.join(&lab.name);
    fs::create_dir_all(&folder)
        .map_err(|error| LabError::io("create", folder.display().to_string(), error))?;
    let running = RunningLab::start(lab, &options.start, tell)?;
    let outcome = experiment::carry_out(&running, &folder, tell);
    let evidence = outcome.inspect_err(|_| {
        experiment::keep_logs(&running, &folder);
    })?;
    let mut checks: Vec<Judged> = judge::given(&evidence).into_iter().collect();
    checks.extend(judge::judge(&running.lab.checks, &evidence));
    let goals = judge::judge(&running.lab.goals, &evidence);
    let mut report = RunReport::new(&running.lab, options.is_full, evidence, checks, goals);
    if !report.passed() {
        report.logs = experiment::keep_logs(&running, &folder);
    }
    let lab = running.lab.clone();
    running.end()?;
    for plot in &lab.plots {
        report.files.extend(plots::draw(plot, &report, &folder)?);
    }
    report.write(&folder)?;
    Ok(report)
}
