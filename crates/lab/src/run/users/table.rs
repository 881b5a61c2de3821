//! What the experiment with 5G users found, as a table for people and as lines for programs.

use super::{UsersEvidence, UsersRow, mean_without_extremes};
use crate::run::report::table;
use comfy_table::Table;
use std::fmt::Write as _;

/// Delays by size, then by hops, in microseconds.
pub(crate) fn users_table(users: &UsersEvidence) -> Table {
    let mut table = table(&[
        "packets", "bytes", "hops", "rate", "frames/s", "mean us", "p50", "p99", "max", "jitter",
        "lost",
    ]);
    for row in users.sizes.iter().chain(&users.hops) {
        let of = |value: fn(&super::Comparison) -> f64| {
            mean_without_extremes(&row.runs.iter().map(value).collect::<Vec<f64>>())
        };
        let lost: u64 = row.runs.iter().map(|run| run.lost).sum();
        let sent: u64 = row.runs.iter().map(|run| run.sent).sum();
        table.add_row([
            row.content.to_owned(),
            row.size.to_string(),
            row.hops.to_string(),
            format!("{:.0} %", row.share * 100.0),
            format!("{:.0}", of(|run| run.per_second)),
            format!("{:.1}", row.delay_us),
            format!("{:.1}", row.median_us),
            format!("{:.1}", row.p99_us),
            format!("{:.1}", row.max_us),
            jitter(of(|run| run.delay.jitter_ns)),
            format!("{lost} of {sent}"),
        ]);
    }
    table
}

/// Where each slice has but one frame there is none.
fn jitter(ns: f64) -> String {
    if ns > 0.0 { format!("{:.1}", ns / 1e3) } else { "–".to_owned() }
}

/// One line for each stream.
pub(crate) fn users_csv(users: &UsersEvidence) -> String {
    let mut text = String::from(
        "content,size,hops,share,repeat,frames_per_second,sent,lost,mean_ns,p50_ns,p99_ns,max_ns,\
         jitter_ns,jitter_worst_ns\n",
    );
    for row in users.sizes.iter().chain(&users.hops) {
        write_runs(&mut text, row);
    }
    text
}

fn write_runs(text: &mut String, row: &UsersRow) {
    let content = row.content.replace(", ", " ");
    for (repeat, run) in row.runs.iter().enumerate() {
        let delay = &run.delay;
        let _ = writeln!(
            text,
            "{content},{},{},{},{},{:.1},{},{},{:.1},{},{},{},{:.1},{:.1}",
            row.size,
            row.hops,
            row.share,
            repeat + 1,
            run.per_second,
            run.sent,
            run.lost,
            delay.mean_ns,
            delay.p50_ns,
            delay.p99_ns,
            delay.max_ns,
            delay.jitter_ns,
            delay.jitter_worst_ns,
        );
    }
}
