//! The figures of several runs in one file, in the words of the study's experiments.

use super::capture::write_json;
use super::delays::DelayRow;
use super::evidence::RunEvidence;
use super::provenance::command;
use super::report::RunReport;
use super::statistics::median;
use super::tool::TrafficResult;
use super::updates::Update;
use crate::error::Result;
use serde_json::{Map, Value, json};
use std::path::Path;

/// Bit/s of one Gbit/s.
const GIGABIT: f64 = 1e9;
/// Nanoseconds of one second.
const NANOSECONDS: f64 = 1e9;
const NS_PER_US: f64 = 1e3;
/// Milliseconds of one second.
const MILLISECONDS: f64 = 1e3;

/// `steering`, `deploy`, `tcp`, `location`, `update`, `update_tcp`, `functions` and `parallel` of those reports that
/// have them, with what was called, its commit, machine, versions and repeats.
#[must_use]
pub fn summary(reports: &[RunReport]) -> Value {
    let mut all = Map::new();
    let mut repeats = Map::new();
    for report in reports {
        repeats.insert(report.name.clone(), json!(report.repeats));
        all.insert("machine".into(), report.machine.clone());
        all.insert("versions".into(), report.versions.clone());
        all.insert("not_controlled".into(), json!(report.not_controlled));
        all.insert("command".into(), json!(command()));
        all.insert("commit".into(), json!(report.commit));
        if report.evidence.runs.iter().any(|run| run.proof.is_some()) {
            all.insert("steering".into(), steering(report));
        }
        if let Some(figures) = parallel(report) {
            all.insert("parallel".into(), figures);
        }
        if let Some((key, figures)) = update(report) {
            all.insert(key.into(), figures);
        }
        if let Some(functions) = &report.functions {
            // Those of a lab that comes after it are there for something else.
            all.entry("functions").or_insert_with(|| json!(functions));
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

/// Mean delay through functions one after the other (chain `serial`) and as their host finds best (chain `plan`),
/// without what the way takes (chain `bare`), and what is predicted of the plan; by traffic, and of the first one by
/// itself.
fn parallel(report: &RunReport) -> Option<Value> {
    let rows = &report.evidence.delays;
    let of = |chain: &str, traffic: &str| {
        rows.iter().find(|row| row.chain == chain && row.traffic == traffic)
    };
    let figures = |traffic: &str| {
        let [serial, plan, bare] = ["serial", "plan", "bare"].map(|chain| of(chain, traffic));
        let (serial, plan, bare) = (serial?, plan?, bare?);
        let us = |row: &DelayRow| (row.mean_ns.mean - bare.mean_ns.mean) / NS_PER_US;
        Some(json!({
            "serial_us": us(serial),
            "plan_us": us(plan),
            "predicted_us": plan.predicted_ns.map(|ns| ns / NS_PER_US),
            "serial_predicted_us": serial.predicted_ns.map(|ns| ns / NS_PER_US),
            "reduction_pct": (1.0 - us(plan) / us(serial)) * 100.0,
            "bare_us": bare.mean_ns.mean / NS_PER_US,
            "forms": plan.forms,
            "packets_per_second": plan.packets_per_second,
        }))
    };
    let mut traffics: Vec<&str> = rows.iter().map(|row| row.traffic.as_str()).collect();
    traffics.dedup();
    let by_traffic: Map<String, Value> = traffics
        .iter()
        .filter_map(|traffic| Some(((*traffic).to_owned(), figures(traffic)?)))
        .collect();
    let mut first = traffics.iter().find_map(|traffic| figures(traffic))?;
    first["by_traffic"] = Value::Object(by_traffic);
    Some(first)
}

/// Writes [`summary`] to a file.
///
/// # Errors
/// The file cannot be written.
pub fn write_summary(reports: &[RunReport], path: &Path) -> Result<()> {
    write_json(path, &summary(reports))
}

/// What a stream of datagrams, or streams of TCP, suffered from changes of their chain.
fn update(report: &RunReport) -> Option<(&'static str, Value)> {
    let runs = || report.evidence.runs.iter().filter(|run| run.update.is_some());
    let updates = || runs().filter_map(|run| run.update.as_ref());
    let changes = updates().map(|update| update.changes.len()).min()?;
    let drained = updates().map(Update::counted).min().unwrap_or_default();
    let sum = |key: &str| -> u64 {
        let proofs = runs().filter_map(|run| run.update_proof.as_ref());
        proofs.filter_map(|proof| proof[key].as_u64()).sum()
    };
    if runs().any(|run| run.update_proof.is_some()) {
        let figures = json!({
            "changes": changes, "sent": sum("sent"), "lost": sum("lost"),
            "duplicated": sum("duplicated"), "mixed": sum("mixed"), "overtaken": sum("overtaken"),
            "both_versions": sum("both_versions"), "in_flight": sum("in_flight"),
            "drained_by_count": drained, "packets_per_second": offered(report),
        });
        return Some(("update", figures));
    }
    let streams = || runs().flat_map(|run| &run.traffic).filter(|traffic| traffic.broken.is_some());
    streams().next()?;
    let total =
        |value: fn(&TrafficResult) -> Option<u64>| -> u64 { streams().filter_map(value).sum() };
    let figures = json!({
        "changes": changes, "broken": total(|t| t.broken), "stalled_seconds": total(|t| t.stalled),
        "gbit_per_second": median(
            &streams().filter_map(|t| t.bits_per_second).collect::<Vec<f64>>()) / GIGABIT,
        "drained_by_count": drained,
    });
    Some(("update_tcp", figures))
}

/// Datagrams a second that left during the changes, the least of all runs.
#[allow(clippy::cast_precision_loss, reason = "packet counts of a run are far below 2^52")]
fn offered(report: &RunReport) -> Option<f64> {
    let rate = |run: &RunEvidence| {
        let changes = &run.update.as_ref()?.changes;
        let nanoseconds = changes.last()?.asked.checked_sub(changes.first()?.asked)?;
        let carried = run.update_proof.as_ref()?["each"].as_array()?;
        // What the versions between the first and the last change carried.
        let packets: u64 = carried.iter().skip(1).filter_map(|one| one["old"].as_u64()).sum();
        Some((packets as f64 * NANOSECONDS / (nanoseconds.max(1)) as f64).round())
    };
    report.evidence.runs.iter().filter_map(rate).reduce(f64::min)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Evidence;
    use crate::run::functions::FunctionFigures;
    use crate::vocabulary::Lab;

    #[test]
    fn functions_of_several_labs_are_those_of_the_first() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs");
        let report = |lab: &str, alerts: u64| {
            let lab = Lab::read(&folder.join(lab), false).unwrap();
            let mut report =
                RunReport::new(&lab, false, Evidence::default(), Vec::new(), Vec::new());
            report.functions = Some(FunctionFigures { alerts, ..FunctionFigures::default() });
            report
        };
        let told = summary(&[report("secure-web.yaml", 19), report("nfp-latency.yaml", 0)]);
        assert_eq!(told["functions"]["alerts"], 19);
    }
}
