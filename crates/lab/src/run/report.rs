//! The report of a run: as JSON and CSV for programs, as tables for people.

use super::capture::write_json;
use super::delays::{delays_csv, delays_table};
use super::evidence::{Evidence, LengthRow, RunEvidence, ThroughputRow};
use super::functions::{FunctionFigures, figures};
use super::judge::Judged;
use super::provenance::commit_of;
use super::setups::setups_table;
use super::users::{users_csv, users_table};
use crate::error::{LabError, Result};
use crate::vocabulary::Lab;
use catena_kernel::machine::machine_description;
use comfy_table::{Table, presets};
use serde::Serialize;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What was not held constant, for every caption.
pub(crate) const NOT_CONTROLLED: &str = "not controlled: all hosts, switches, functions, controller and iperf3 share this machine's \
     processors; no pinning; frequency and other load as they were";

/// Everything that a run of a lab file found.
#[derive(Clone, Debug, Serialize)]
pub struct RunReport {
    /// The lab's name.
    pub name: String,
    /// Its title.
    pub title: String,
    /// The file.
    pub file: PathBuf,
    /// Was its `full:` part laid over?
    pub is_full: bool,
    /// The machine it was taken on.
    pub machine: Value,
    /// The commit of the lab file.
    pub commit: String,
    /// Versions of the programs.
    pub versions: Value,
    /// How often each case ran.
    pub repeats: u32,
    /// What was not held constant.
    pub not_controlled: &'static str,
    /// Checks with what was found.
    pub checks: Vec<Judged>,
    /// Goals with what was found.
    pub goals: Vec<Judged>,
    /// Deployment time by length.
    pub lengths: Vec<LengthRow>,
    /// Seconds that each added function adds to a deployment.
    pub deploy_seconds_per_function: Option<f64>,
    /// Throughput by chain.
    pub throughput: Vec<ThroughputRow>,
    /// What bundled functions did, where the lab has any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub functions: Option<FunctionFigures>,
    /// All raw measurements.
    pub evidence: Evidence,
    /// Figures and tables written.
    pub files: Vec<PathBuf>,
    /// Where the logs of a failed run are.
    pub logs: Option<PathBuf>,
}

impl RunReport {
    /// Did every check hold?
    #[must_use]
    pub fn passed(&self) -> bool {
        self.checks.iter().all(|check| check.holds)
    }

    /// The checks that did not hold, as written.
    #[must_use]
    pub fn failed_checks(&self) -> Vec<&str> {
        self.checks.iter().filter(|check| !check.holds).map(|check| check.text.as_str()).collect()
    }

    pub(crate) fn new(
        lab: &Lab,
        is_full: bool,
        evidence: Evidence,
        checks: Vec<Judged>,
        goals: Vec<Judged>,
    ) -> Self {
        Self {
            name: lab.name.clone(),
            title: lab.title.clone(),
            file: lab.file.clone(),
            is_full,
            machine: machine(),
            commit: commit_of(lab.file.parent().unwrap_or(Path::new(".")), &[]),
            versions: versions(),
            repeats: lab.sweep.repeat,
            not_controlled: NOT_CONTROLLED,
            checks,
            goals,
            lengths: evidence.lengths(),
            deploy_seconds_per_function: evidence.deploy_seconds_per_function(),
            throughput: evidence.throughput(lab),
            functions: figures(lab, &evidence),
            evidence,
            files: Vec::new(),
            logs: None,
        }
    }

    /// Writes `report.json` and the CSV files.
    pub(crate) fn write(&mut self, folder: &Path) -> Result<()> {
        if !self.lengths.is_empty() {
            self.write_text(&folder.join("deploy.csv"), &lengths_csv(&self.evidence))?;
        }
        if !self.throughput.is_empty() {
            self.write_text(&folder.join("throughput.csv"), &throughput_csv(&self.throughput))?;
        }
        if !self.evidence.delays.is_empty() {
            self.write_text(&folder.join("delays.csv"), &delays_csv(&self.evidence.delays))?;
        }
        if let Some(csv) = self.evidence.users.as_ref().map(users_csv) {
            self.write_text(&folder.join("users.csv"), &csv)?;
        }
        let path = folder.join("report.json");
        self.files.push(path.clone());
        write_json(&path, self)
    }

    fn write_text(&mut self, path: &Path, text: &str) -> Result<()> {
        fs::write(path, text)
            .map_err(|error| LabError::io("write", path.display().to_string(), error))?;
        self.files.push(path.to_path_buf());
        Ok(())
    }

    /// Tables, checks and goals for people.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = format!("\n{}\n", self.title);
        if !self.lengths.is_empty() {
            let _ = writeln!(text, "{}", lengths_table(&self.lengths));
        }
        if !self.throughput.is_empty() {
            let _ = writeln!(text, "{}", throughput_table(&self.throughput));
        }
        if let Some(delays) = delays_table(&self.evidence.delays) {
            let _ = writeln!(text, "{delays}");
        }
        if let Some(users) = &self.evidence.users {
            let _ = writeln!(text, "{}", users_table(users));
            for lowered in &users.lowered {
                let _ = writeln!(text, "{lowered}");
            }
            if let Some(isolation) = &users.isolation {
                let _ = writeln!(text, "{isolation}");
            }
        }
        if let Some(setups) = setups_table(&self.evidence.runs) {
            let _ = writeln!(text, "{setups}");
        }
        if let Some(functions) = &self.functions {
            let _ = writeln!(text, "functions  {functions}");
        }
        for run in &self.evidence.runs {
            if let Some(receipt) = receipt_line(run) {
                let _ = writeln!(text, "receipt  {}: {receipt}", run.case);
            }
        }
        for check in &self.checks {
            let sign = if check.holds { "✓ check" } else { "✗ check" };
            let _ = writeln!(text, "{sign}  {}: {}", check.text, check.found);
        }
        for goal in &self.goals {
            let sign = if goal.holds { "● goal met" } else { "○ goal missed" };
            let _ = writeln!(text, "{sign}  {}: {}", goal.text, goal.found);
        }
        if let Some(logs) = &self.logs {
            let _ = writeln!(text, "logs of the lab's processes: {}", logs.display());
        }
        let files: Vec<String> = self.files.iter().map(|file| file.display().to_string()).collect();
        let _ = writeln!(text, "results: {}", files.join("  "));
        text
    }
}

/// What all changes of a run came to, in one line; none without changes.
fn receipt_line(run: &RunEvidence) -> Option<String> {
    let update = run.update.as_ref()?;
    let mut line = format!("moved 1 path {} times", update.changes.len());
    if let Some(proof) = &run.update_proof {
        let _ = write!(
            line,
            " · sent {} · in flight {} · lost {} · duplicated {} · mixed {} · overtaken {}",
            proof["sent"],
            proof["in_flight"],
            proof["lost"],
            proof["duplicated"],
            proof["mixed"],
            proof["overtaken"]
        );
    }
    let receipts = update.changes.iter().filter(|change| change.receipt.is_some()).count();
    let _ = write!(line, " · {receipts} receipts, {} drained by count", update.counted());
    Some(line)
}

fn machine() -> Value {
    let machine = machine_description(Path::new("/"));
    json!({
        "cpu_model": machine.cpu_model,
        "cpu_cores": machine.cpu_cores,
        "memory_bytes": machine.memory_bytes,
        "kernel": machine.kernel,
        "system": machine.system,
        "tcp_congestion_control": machine.tcp_congestion_control,
    })
}

fn versions() -> Value {
    let first_line = |program: &str| {
        let output = Command::new(program).arg("--version").output().ok()?;
        let said = [output.stdout, output.stderr].concat();
        String::from_utf8_lossy(&said).lines().next().map(str::to_owned)
    };
    json!({
        "catena": env!("CARGO_PKG_VERSION"),
        "iperf3": first_line("iperf3"),
        "tcpdump": first_line("tcpdump"),
        "python3": first_line("python3"),
    })
}

pub(crate) fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED).set_header(header);
    table
}

fn lengths_table(rows: &[LengthRow]) -> Table {
    let mut table = table(&["functions", "FC ms", "PP ms", "PPG ms", "PC ms", "total ms ± 95 %"]);
    for row in rows {
        let ms = |value: f64| format!("{:.2}", value * 1e3);
        table.add_row([
            row.length.to_string(),
            ms(row.fc.mean),
            ms(row.pp.mean),
            ms(row.ppg.mean),
            ms(row.pc.mean),
            format!("{} ± {}", ms(row.total.mean), ms(row.total.half_width_95)),
        ]);
    }
    table
}

fn throughput_table(rows: &[ThroughputRow]) -> Table {
    let mut table = table(&["chain", "functions", "carried by", "Gbit/s (median)", "min – max"]);
    for row in rows {
        let gigabits = |value: f64| format!("{:.2}", value / 1e9);
        let low = row.samples.iter().copied().fold(f64::INFINITY, f64::min);
        let high = row.samples.iter().copied().fold(0.0, f64::max);
        table.add_row([
            row.chain.clone(),
            row.functions.join(" "),
            row.encapsulation.map_or("–", |one| one.name()).to_owned(),
            gigabits(row.median),
            format!("{} – {}", gigabits(low), gigabits(high)),
        ]);
    }
    table
}

fn lengths_csv(evidence: &Evidence) -> String {
    let mut text = String::from("length,fc_s,pp_s,ppg_s,pc_s,total_s\n");
    for one in &evidence.deployments {
        let t = &one.timings;
        let _ = writeln!(text, "{},{},{},{},{},{}", one.length, t.fc, t.pp, t.ppg, t.pc, t.total());
    }
    text
}

fn throughput_csv(rows: &[ThroughputRow]) -> String {
    let mut text = String::from("chain,encapsulation,repeat,bits_per_second\n");
    for row in rows {
        let encapsulation = row.encapsulation.map_or("", |one| one.name());
        for (repeat, sample) in row.samples.iter().enumerate() {
            let _ = writeln!(text, "{},{encapsulation},{},{sample}", row.chain, repeat + 1);
        }
    }
    text
}
