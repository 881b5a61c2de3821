//! `catena chain delays`: how long a chain takes, hop by hop, as its packets and engines tell it. Knows from where
//! each figure is and says so; refuses to add up what was measured otherwise.

use crate::failure::Failure;
use crate::output::{Format, Table, block, say, table, tell};
use crate::prediction::seconds;
use catena_client::Client;
use catena_model::NodeName;
use catena_model::delays::{
    ChainDelays, DelayFigure, DelayQuantile, HopDelays, InstanceDelay, MeasuredDelay, PathDelays,
    TellingNode,
};
use catena_model::status::ChainReport;
use std::collections::BTreeMap;

const COLUMNS: [&str; 8] = ["delay", "node", "functions", "source", "p50", "p95", "p99", "samples"];
const MEASURED_COLUMNS: [&str; 11] =
    ["function", "node", "path", "hop", "time", "source", "p50", "p95", "p99", "samples", "seen"];
/// In place of a number that nobody told.
const UNTOLD: &str = "–";
/// In place of functions where nobody writes of packets.
const NO_TELEMETRY: &str = "no telemetry";
const SECONDS_PER_NS: f64 = 1e-9;

pub(crate) fn show(client: &Client, name: &str, output: Format) -> Result<(), Failure> {
    let delays = client.chain_delays(name)?;
    tell(output, &delays, |_| {
        if delays.paths.is_empty() && delays.instances.is_empty() {
            say!("chain {}: no packet was timed yet, and it has no telemetry", delays.name);
        }
        people(&delays);
    })
}

/// The delays of a chain that is told of; none: its controller knows none.
///
/// # Errors
/// When the controller does not answer.
pub(crate) fn of_report(
    client: &Client,
    report: &ChainReport,
) -> Result<Option<ChainDelays>, Failure> {
    match client.chain_delays(&report.status.chain.to_string()) {
        Ok(delays) => Ok(Some(delays)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// What there is, for people.
pub(crate) fn people(delays: &ChainDelays) {
    for path in &delays.paths {
        say!("{}", headline(path));
        if let Some(table) = figures(path) {
            block(table);
        }
        for line in remarks(path) {
            say!("{line}");
        }
    }
    if !delays.instances.is_empty() {
        block(measured(&delays.instances));
    }
    for node in &delays.silent {
        let node = node.node.as_ref().map_or("a node", NodeName::as_str);
        say!("{node} did not answer: what its functions took is not known");
    }
    for line in delays.tellers.iter().filter_map(disbelieved) {
        say!("{line}");
    }
}

/// What engines measured, instance by instance.
fn measured(instances: &[InstanceDelay]) -> Table {
    let mut shown = table(MEASURED_COLUMNS);
    for delay in instances {
        let told = |ns: Option<u64>| {
            ns.map_or(UNTOLD.to_owned(), |ns| seconds(ns as f64 * SECONDS_PER_NS))
        };
        let of = |part: u64, all: u64| match all {
            0 => UNTOLD.to_owned(),
            _ => format!("{:.1} %", (100.0 * part as f64 / all as f64).min(100.0)),
        };
        shown.add_row([
            delay.instance.clone(),
            delay.node.as_ref().map_or(UNTOLD, NodeName::as_str).to_owned(),
            delay.path.to_string(),
            delay.hop.to_string(),
            match delay.measured {
                MeasuredDelay::Sojourn => "until back".into(),
                MeasuredDelay::Service => "inside".into(),
            },
            "engine".into(),
            told(delay.p50_ns),
            told(delay.p95_ns),
            told(delay.p99_ns),
            delay.samples.to_string(),
            of(delay.represented, delay.delivered),
        ]);
    }
    shown
}

/// What of a path's packets is told.
fn headline(path: &PathDelays) -> String {
    let whose = format!("telemetry path {} ({}, {})", path.path, path.direction, path.phase);
    let taken = match (&path.reason, path.taken) {
        (Some(reason), _) => return format!("{whose}: not watched: {reason}"),
        (None, Some(taken)) if taken.reports > 0 => taken,
        _ => return format!("{whose}: no packet was told of yet"),
    };
    let mut line =
        format!("{whose}: {} packets told of, {} complete", taken.reports, taken.complete);
    for (count, what) in [
        (taken.silent, "with a hop that wrote nothing"),
        (taken.missing, "with a hop missing"),
        (taken.incomplete, "incomplete by a node's word"),
    ] {
        if count > 0 {
            line.push_str(&format!(", {count} {what}"));
        }
    }
    line
}

/// The delays; none: there are none yet.
fn figures(path: &PathDelays) -> Option<Table> {
    let mut rows = Vec::new();
    for hop in &path.hops {
        for visit in &hop.visits {
            let node = visit.node.as_ref().map_or(UNTOLD, NodeName::as_str);
            let functions = visit.functions.join(", ");
            let who = [format!("hop {}", hop.hop), node.to_owned(), functions];
            rows.extend(visit.delays.iter().map(|delay| row(who.clone(), delay)));
        }
        rows.extend((hop.visits.is_empty() && hop.silent > 0).then(|| silent(hop)));
        let way = [format!("hop {} to next", hop.hop), String::new(), String::new()];
        rows.extend(hop.leg.iter().map(|delay| row(way.clone(), delay)));
    }
    let whole = ["chain".to_owned(), String::new(), String::new()];
    rows.extend(path.whole.delays.iter().map(|delay| row(whole.clone(), delay)));
    let mut shown = table(COLUMNS);
    let has_any = !rows.is_empty();
    rows.into_iter().for_each(|row| shown.add_row(row));
    has_any.then_some(shown)
}

/// A hop of somebody else's, such as a plain router.
fn silent(hop: &HopDelays) -> Vec<String> {
    let who = [format!("hop {}", hop.hop), UNTOLD.to_owned(), NO_TELEMETRY.to_owned()];
    let numbers = [""].into_iter().chain([UNTOLD; 3]).map(str::to_owned);
    who.into_iter().chain(numbers).chain([hop.silent.to_string()]).collect()
}

fn row(who: [String; 3], delay: &DelayFigure) -> Vec<String> {
    let numbers = [delay.p50, delay.p95, delay.p99].map(quantile);
    let rest = [delay.samples.to_string()];
    who.into_iter().chain([delay.source.clone()]).chain(numbers).chain(rest).collect()
}

fn quantile(quantile: DelayQuantile) -> String {
    let told = |ns: u64| seconds(ns as f64 * SECONDS_PER_NS);
    match (quantile.ns, quantile.at_least_ns) {
        (Some(ns), _) => told(ns),
        (None, Some(least)) => format!("> {}", told(least)),
        (None, None) => UNTOLD.to_owned(),
    }
}

/// What was lost, and why there is no delay of the chain.
fn remarks(path: &PathDelays) -> Vec<String> {
    let lost = |hop: &HopDelays| {
        let lost = hop.lost.as_ref().filter(|lost| lost.packets > 0)?;
        Some(format!("lost from hop {} to the next: {} packets", hop.hop, lost.packets))
    };
    let mut lines: Vec<String> = path.hops.iter().filter_map(lost).collect();
    let is_told = path.taken.is_some_and(|taken| taken.reports > 0);
    let reason = path.whole.reason.as_ref().filter(|_| is_told);
    lines.extend(reason.map(|reason| format!("no delay of the chain: {reason}")));
    lines
}

/// What of a node's reports was not believed or did not come; none: all was.
fn disbelieved(teller: &TellingNode) -> Option<String> {
    let counts = |counts: &BTreeMap<String, u64>| {
        let counts = counts.iter().map(|(name, count)| format!("{name} {count}"));
        counts.collect::<Vec<_>>().join(", ")
    };
    let mut parts = Vec::new();
    if !teller.refused.is_empty() {
        parts.push(format!("not believed: {}", counts(&teller.refused)));
    }
    if teller.left_out > 0 {
        parts.push(format!("{} did not come", teller.left_out));
    }
    if !teller.lost.is_empty() {
        parts.push(format!("no room for: {}", counts(&teller.lost)));
    }
    let node = teller.node.as_ref().map_or("a node", NodeName::as_str);
    (!parts.is_empty()).then(|| format!("reports of {node}: {}", parts.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn figure(ns: Option<u64>) -> serde_json::Value {
        let quantile = json!({"ns": ns, "at_least_ns": 2_147_483_520_u64, "at_most_ns": null});
        json!({
            "source": "packet", "samples": 40, "p50": quantile, "p95": quantile, "p99": quantile,
            "error_permille": 16, "error_ns": 64, "spoiled_windows": 0
        })
    }

    fn path(reports: u64, figures: &[serde_json::Value]) -> PathDelays {
        let visit = json!({"node": "host1", "functions": ["fw", "nat"], "delays": figures});
        let hop = json!({
            "hop": 0, "visits": [visit], "leg": [], "recorded": reports, "silent": 0, "missing": 0,
            "lost": {"source": "packet", "packets": 7, "samples": 3}
        });
        let taken = json!({
            "reports": reports, "complete": reports, "silent": 0, "missing": 0, "incomplete": 2,
            "passed_over": 0
        });
        let told = json!({
            "path": 9, "version": 4, "direction": "forward", "phase": "classified", "mirror": 8,
            "taken": taken, "hops": [hop], "whole": {"delays": [], "reason": "it has one hop"}
        });
        serde_json::from_value(told).unwrap()
    }

    #[test]
    fn figures_are_told_with_their_source_and_what_was_not_seen_is_no_zero() {
        let seen = path(40, &[figure(Some(12_300)), figure(None)]);
        assert_eq!(
            headline(&seen),
            "telemetry path 9 (forward, classified): 40 packets told of, 40 complete, 2 incomplete by a node's word"
        );
        let table = figures(&seen).unwrap().to_string();
        let rows: Vec<Vec<&str>> =
            table.lines().map(|line| line.split_whitespace().collect()).collect();
        let expected = ["hop", "0", "host1", "fw,", "nat", "packet", "12.3", "µs"];
        assert_eq!(rows[1][..8], expected, "{table}");
        assert!(table.lines().nth(2).unwrap().contains("> 2.147 s"), "{table}");
        let lines = remarks(&seen);
        assert_eq!(
            lines,
            ["lost from hop 0 to the next: 7 packets", "no delay of the chain: it has one hop"]
        );
    }

    #[test]
    fn while_nothing_was_told_that_is_the_one_line() {
        let unseen = PathDelays { hops: Vec::new(), ..path(0, &[]) };
        assert!(headline(&unseen).ends_with("no packet was told of yet"));
        assert!(figures(&unseen).is_none());
        assert!(remarks(&unseen).is_empty());
        let unwatched = PathDelays { reason: Some("of this".into()), taken: None, ..unseen };
        assert!(headline(&unwatched).ends_with("not watched: of this"));
    }

    #[test]
    fn what_engines_measured_is_told_with_the_share_of_packets_it_stands_for() {
        let delay = |measured: &str, p95: Option<u64>, delivered: u64| -> InstanceDelay {
            serde_json::from_value(json!({
                "node": "host1", "path": 9, "hop": 1, "member": 0, "instance": "fw",
                "measured": measured, "p50_ns": 1_000, "p95_ns": p95, "p99_ns": p95, "samples": 12,
                "mean_ns": 900, "sampled": 30, "timed": 20, "represented": 640,
                "delivered": delivered
            }))
            .unwrap()
        };
        let table = measured(&[delay("sojourn", Some(250_000), 1_000), delay("service", None, 0)]);
        let told = table.to_string();
        let rows: Vec<String> = told
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(
            rows[1], "fw host1 9 1 until back engine 1 µs 250 µs 250 µs 12 64.0 %",
            "{told}"
        );
        assert_eq!(rows[2], "fw host1 9 1 inside engine 1 µs – – 12 –", "{told}");
    }

    #[test]
    fn a_node_that_is_believed_has_no_line() {
        let quiet = TellingNode {
            node: Some(NodeName::new("host1").unwrap()),
            believed: 5,
            left_out: 0,
            refused: BTreeMap::new(),
            lost: BTreeMap::new(),
        };
        assert_eq!(disbelieved(&quiet), None);
        let loud = TellingNode {
            left_out: 3,
            refused: BTreeMap::from([("flooded".into(), 9)]),
            lost: BTreeMap::from([("agent".into(), 2)]),
            ..quiet
        };
        assert_eq!(
            disbelieved(&loud).unwrap(),
            "reports of host1: not believed: flooded 9; 3 did not come; no room for: agent 2"
        );
    }
}
