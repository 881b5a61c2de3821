//! Delays of datagrams that left as if by chance, by chain and traffic, beside what is predicted of them. Pure.

use super::evidence::{Evidence, RunEvidence};
use super::report::table;
use super::statistics::{Mean, mean, median};
use super::tool::TrafficResult;
use crate::vocabulary::{Lab, LabChain};
use comfy_table::Table;
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt::Write as _;

const NS_PER_US: f64 = 1e3;

/// All repeats of one traffic through one chain.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DelayRow {
    /// The chain.
    pub chain: String,
    /// What figures call it.
    pub label: String,
    /// The traffic.
    pub traffic: String,
    /// Functions in it.
    pub functions: Vec<String>,
    /// How those that stand together were asked, as hosts told it.
    pub forms: BTreeSet<String>,
    /// Datagrams a second that left, in the mean of all repeats.
    pub packets_per_second: f64,
    /// Mean delay of each repeat, in nanoseconds, in their order.
    pub samples_ns: Vec<f64>,
    /// Mean of the repeats, in nanoseconds, with its interval.
    pub mean_ns: Mean,
    /// Delay that 99 of 100 do not exceed, in nanoseconds: the median of the repeats.
    pub p99_ns: f64,
    /// Datagrams that never came, of all repeats together.
    pub lost: u64,
    /// What was predicted, in nanoseconds: the median of the repeats; none: nothing, of one of them.
    pub predicted_ns: Option<f64>,
    /// Were all functions timed that this is predicted by?
    pub is_measured: bool,
}

/// Rows in the order of the sweep, and of the file.
pub(super) fn rows(lab: &Lab, evidence: &Evidence) -> Vec<DelayRow> {
    let chains = lab.chains.iter();
    let pairs = chains.flat_map(|chain| lab.traffic.iter().map(move |traffic| (chain, traffic)));
    pairs.filter_map(|(chain, traffic)| row(chain, &traffic.name, &evidence.runs)).collect()
}

fn row(chain: &LabChain, traffic: &str, runs: &[RunEvidence]) -> Option<DelayRow> {
    let all = runs.iter().flat_map(|run| &run.traffic);
    let is_it = |result: &&TrafficResult| {
        result.chain.as_ref() == Some(&chain.name) && result.traffic == traffic
    };
    let results: Vec<&TrafficResult> = all.filter(is_it).collect();
    let delays: Vec<_> = results.iter().filter_map(|result| result.delay).collect();
    let expected: Vec<_> = results.iter().filter_map(|result| result.predicted.as_ref()).collect();
    let samples_ns: Vec<f64> = delays.iter().map(|delay| delay.mean_ns).collect();
    if samples_ns.is_empty() {
        return None;
    }
    let p99s: Vec<f64> = delays.iter().map(|delay| delay.p99_ns as f64).collect();
    let rates: Vec<f64> = delays.iter().map(|delay| delay.packets_per_second).collect();
    let means: Vec<f64> = expected.iter().filter_map(|expected| expected.mean_ns).collect();
    let is_predicted = !means.is_empty() && means.len() == results.len();
    Some(DelayRow {
        chain: chain.name.clone(),
        label: chain.label.clone(),
        traffic: traffic.to_owned(),
        functions: chain.document.chain.iter().map(|step| step.name.clone()).collect(),
        forms: expected.iter().flat_map(|expected| expected.forms.iter().cloned()).collect(),
        packets_per_second: mean(&rates).mean,
        mean_ns: mean(&samples_ns),
        samples_ns,
        p99_ns: median(&p99s),
        lost: results.iter().filter_map(|result| result.lost).sum(),
        predicted_ns: is_predicted.then(|| median(&means)),
        is_measured: is_predicted && expected.iter().all(|expected| expected.is_measured),
    })
}

/// The row of a chain for the traffic of another row.
fn beside<'r>(rows: &'r [DelayRow], chain: &str, row: &DelayRow) -> Option<&'r DelayRow> {
    rows.iter().find(|other| other.chain == chain && other.traffic == row.traffic)
}

/// Is there a prediction of each, from measured times; and is it as near as that (percent), beyond what datagrams take
/// through this chain?
pub(super) fn judge(rows: &[DelayRow], within: Option<&(f64, String)>) -> (bool, String) {
    if rows.is_empty() {
        return (false, "no datagram was timed".to_owned());
    }
    let mut found = Vec::new();
    let mut holds = true;
    let bare = within.map(|(_, chain)| chain.as_str());
    for row in rows.iter().filter(|row| Some(row.chain.as_str()) != bare) {
        let name = format!("{} {}", row.chain, row.traffic);
        let Some(predicted) = row.predicted_ns.filter(|_| row.is_measured) else {
            return (false, format!("{name}: nothing is predicted from measured times"));
        };
        let Some((most, chain)) = within else {
            found.push(format!("{name} {:.0} µs", predicted / NS_PER_US));
            continue;
        };
        let Some(bare) = beside(rows, chain, row) else {
            return (false, format!("{name}: nothing was timed of '{chain}' beside it"));
        };
        let percent = ((row.mean_ns.mean - bare.mean_ns.mean) / predicted - 1.0) * 100.0;
        holds &= percent.abs() <= *most;
        found.push(format!("{name} {percent:+.1} %"));
    }
    (holds, found.join(", "))
}

/// For people, in microseconds.
pub(super) fn delays_table(rows: &[DelayRow]) -> Option<Table> {
    let head = [
        "chain",
        "asked",
        "traffic",
        "packets/s",
        "mean µs (± 95 %)",
        "p99 µs",
        "predicted mean µs",
    ];
    let mut shown = table(&head);
    let us = |ns: f64| format!("{:.0}", ns / NS_PER_US);
    for row in rows {
        let forms: Vec<&str> = row.forms.iter().map(String::as_str).collect();
        let asked = if forms.is_empty() { "by the worker".to_owned() } else { forms.join(", ") };
        shown.add_row([
            row.chain.clone(),
            asked,
            row.traffic.clone(),
            format!("{:.0}", row.packets_per_second),
            format!("{} ± {}", us(row.mean_ns.mean), us(row.mean_ns.half_width_95)),
            us(row.p99_ns),
            row.predicted_ns.map_or_else(|| "–".to_owned(), us),
        ]);
    }
    (!rows.is_empty()).then_some(shown)
}

/// For programs, in nanoseconds.
pub(super) fn delays_csv(rows: &[DelayRow]) -> String {
    let mut text =
        String::from("chain,traffic,packets_per_second,repeat,mean_ns,predicted_mean_ns\n");
    for row in rows {
        let predicted = row.predicted_ns.map(|ns| ns.to_string()).unwrap_or_default();
        for (at, sample) in row.samples_ns.iter().enumerate() {
            let DelayRow { chain, traffic, packets_per_second, .. } = row;
            let repeat = at + 1;
            let _ = writeln!(
                text,
                "{chain},{traffic},{packets_per_second},{repeat},{sample},{predicted}"
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(chain: &str, mean_ns: f64, predicted_ns: Option<f64>) -> DelayRow {
        DelayRow {
            chain: chain.into(),
            label: chain.into(),
            traffic: "50".into(),
            functions: Vec::new(),
            forms: BTreeSet::new(),
            packets_per_second: 100.0,
            samples_ns: vec![mean_ns],
            mean_ns: mean(&[mean_ns]),
            p99_ns: mean_ns,
            lost: 0,
            predicted_ns,
            is_measured: predicted_ns.is_some(),
        }
    }

    #[test]
    fn what_is_measured_is_held_against_what_is_predicted_without_what_nothing_takes() {
        let within = |percent: f64| Some((percent, "bare".to_owned()));
        let bare = row("bare", 100_000.0, Some(1.0));
        let rows = [bare.clone(), row("plan", 1_140_000.0, Some(1e6))];
        assert_eq!(judge(&rows, within(5.0).as_ref()), (true, "plan 50 +4.0 %".to_owned()));
        assert!(!judge(&rows, within(3.0).as_ref()).0);
        assert_eq!(judge(&rows[1..], None), (true, "plan 50 1000 µs".to_owned()));
        for wrong in [&[][..], &[row("plan", 5.0, None)], &[row("plan", 5.0, Some(5.0))]] {
            assert!(!judge(wrong, within(100.0).as_ref()).0, "{wrong:?}");
        }
        let guessed = DelayRow { is_measured: false, ..row("plan", 1e6, Some(1e6)) };
        assert!(!judge(&[guessed], None).0);
    }
}
