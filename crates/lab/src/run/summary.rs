//! The figures of several runs in one file, in the words of the study's experiments.

use super::capture::write_json;
use super::report::RunReport;
use crate::error::Result;
use serde_json::{Map, Value, json};
use std::path::Path;

/// Bit/s of one Gbit/s.
const GIGABIT: f64 = 1e9;
/// Milliseconds of one second.
const MILLISECONDS: f64 = 1e3;

/// `steering`, `deploy`, `tcp` and `location` of those reports that have them, with machine,
/// versions and repeats.
#[must_use]
pub fn summary(reports: &[RunReport]) -> Value {
    let mut all = Map::new();
    let mut repeats = Map::new();
    for report in reports {
        repeats.insert(report.name.clone(), json!(report.repeats));
        all.insert("machine".into(), report.machine.clone());
        all.insert("versions".into(), report.versions.clone());
        all.insert("not_controlled".into(), json!(report.not_controlled));
        if report.evidence.runs.iter().any(|run| run.proof.is_some()) {
            all.insert("steering".into(), steering(report));
        }
        if !report.lengths.is_empty() {
            all.insert("deploy".into(), deploy(report));
        }
        for (group, key) in [("length", "tcp"), ("location", "location")] {
            let rows = report.throughput.iter().filter(|row| row.group.as_deref() == Some(group));
            let figures: Map<String, Value> =
                rows.map(|row| (row.label.clone(), json!(row.median / GIGABIT))).collect();
            if !figures.is_empty() {
                all.insert(key.into(), Value::Object(figures));
            }
        }
    }
    all.insert("repeats".into(), Value::Object(repeats));
    let failed: Map<String, Value> = reports
        .iter()
        .filter(|report| !report.passed())
        .map(|report| (report.name.clone(), json!(report.failed_checks())))
        .collect();
    all.insert("ok".into(), json!(failed.is_empty()));
    all.insert("failed_checks".into(), Value::Object(failed));
    Value::Object(all)
}

/// Writes [`summary`] to a file.
///
/// # Errors
/// The file cannot be written.
pub fn write_summary(reports: &[RunReport], path: &Path) -> Result<()> {
    write_json(path, &summary(reports))
}

fn steering(report: &RunReport) -> Value {
    let proofs: Map<String, Value> = report
        .evidence
        .runs
        .iter()
        .filter_map(|run| Some((run.case.clone(), run.proof.as_ref()?["chains"].clone())))
        .collect();
    json!({"ok": report.passed(), "proofs": proofs})
}

fn deploy(report: &RunReport) -> Value {
    let ms = |seconds: f64| seconds * MILLISECONDS;
    let lengths: Vec<Value> = report
        .lengths
        .iter()
        .map(|row| {
            json!({
                "length": row.length,
                "samples": row.samples,
                "fc_ms": ms(row.fc.mean),
                "pp_ms": ms(row.pp.mean),
                "ppg_ms": ms(row.ppg.mean),
                "pc_ms": ms(row.pc.mean),
                "total_ms": ms(row.total.mean),
                "total_half_width_95_ms": ms(row.total.half_width_95),
            })
        })
        .collect();
    json!({
        "lengths": lengths,
        "per_function_ms": report.deploy_seconds_per_function.map(ms),
    })
}
