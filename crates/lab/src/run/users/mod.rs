//! The experiment with 5G users: the study's generator, sender, receiver and comparison on a lab that
//! stands. Knows its cases and their order; refuses to know how a frame is made, and judges nothing.

mod bench;
mod captures;
mod comparing;
mod delays;
mod flood;
pub mod frames;
mod keeping;
mod link;
mod moving;
mod open_vswitch;
mod proving;
mod slices;
mod stream;
mod table;

pub use comparing::Comparison;
pub use delays::Delays;
pub(crate) use delays::mean_without_extremes;
pub use flood::Isolation;
pub use keeping::Lowered;
pub(crate) use table::{users_csv, users_table};

use crate::error::Result;
use crate::up::RunningLab;
use crate::vocabulary::{HOPS_OF_SLICE, Users};
use bench::{Bench, By, Case, SEARCH_FIRST};
use moving::Moving;
use serde::Serialize;
use serde_json::Value;
use slices::Declared;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Instant;

/// Bytes of the judge's packets where the file names no size: those of the study's smallest.
const SIZE_OF_PROOF: u32 = 64;
/// What rows of the other switch are called.
const BESIDE: &str = "plain, Open vSwitch";

/// The runs of one case.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UsersRow {
    /// `users`, `plain` for packets without tunnels, and `plain, Open vSwitch` for those through it.
    pub content: &'static str,
    /// Bytes of a packet, from its own IP header on.
    pub size: u32,
    /// Hops of all slices.
    pub hops: u32,
    /// Share of the no-drop rate.
    pub share: f64,
    /// Each run.
    pub runs: Vec<Comparison>,
    /// Mean delay of the runs without the best and the worst, in microseconds.
    pub delay_us: f64,
    /// The same of their medians.
    pub median_us: f64,
    /// The same of their p99.
    pub p99_us: f64,
    /// The longest delay of all runs, in microseconds.
    pub max_us: f64,
}

/// All that the experiment measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct UsersEvidence {
    /// The switch beside ours, or why it was not measured; none: it was not asked for.
    pub open_vswitch: Option<String>,
    /// No-drop rates by content and size, in frames a second.
    pub no_drop: Vec<(&'static str, u32, f64)>,
    /// Rates that turned out to be none at which nothing is lost, and were lowered.
    pub lowered: Vec<Lowered>,
    /// By packet size, with the fewest hops.
    pub sizes: Vec<UsersRow>,
    /// By hops, with the largest size.
    pub hops: Vec<UsersRow>,
    /// Slices that were declared, and how long it took until all were in force, in seconds.
    pub declared: Vec<(usize, f64)>,
    /// The stream under which users moved, and how often they did.
    pub moved: Option<(u32, Comparison)>,
    /// A slice beside one that floods.
    pub isolation: Option<Isolation>,
    /// The independent judge's verdict on where a frame of every slice went; none: nothing is
    /// captured.
    pub proof: Option<Value>,
}

impl UsersEvidence {
    /// Every stream that is to be clean, with a name for people: what another switch loses is told,
    /// and judges nobody.
    pub(crate) fn streams(&self) -> impl Iterator<Item = (String, &Comparison)> {
        let named = |row: &UsersRow, what: &str| {
            format!("{} of {} bytes, {} hops, {what}", row.content, row.size, row.hops)
        };
        let rows = self.sizes.iter().chain(&self.hops).filter(|row| row.content != BESIDE);
        let rows = rows.flat_map(move |row| {
            let name = named(row, &format!("{:.0} % of the rate", row.share * 100.0));
            row.runs.iter().map(move |run| (name.clone(), run))
        });
        rows.chain(self.moved.iter().map(|(_, run)| ("users that move".to_owned(), run)))
    }
}

/// Carries the experiment out; each part is told with its duration.
pub(crate) fn carry_out(
    running: &RunningLab,
    users: &Users,
    folder: &Path,
    tell: &mut dyn FnMut(&str, f64),
) -> Result<UsersEvidence> {
    let mut bench = Bench::set_up(running, users, folder)?;
    let mut declared = Declared::new(running, users);
    let mut evidence = UsersEvidence::default();
    let fewest = users.hops.first().copied().unwrap_or(HOPS_OF_SLICE);
    declare(&mut declared, users, fewest, &mut evidence, tell)?;
    let start = Instant::now();
    evidence.open_vswitch = bench.start_open_vswitch();
    if let Some(said) = &evidence.open_vswitch {
        tell(said, start.elapsed().as_secs_f64());
    }
    by_size(&mut bench, &declared, fewest, &mut evidence, tell)?;
    bench.end_open_vswitch();
    if users.moves > 0 {
        let start = Instant::now();
        let moved = moving::carry_out(&mut bench, Moving::asked(users))?;
        evidence.moved = Some((users.moves, moved));
        tell(&format!("{} moves of a user", users.moves), start.elapsed().as_secs_f64());
    }
    if let Some(flood) = &users.flood {
        let start = Instant::now();
        evidence.isolation = Some(flood::carry_out(&mut bench, flood)?);
        tell(&format!("{} pairs beside a flood", flood.pairs), start.elapsed().as_secs_f64());
    }
    if let Some(size) = users.sizes.last().copied() {
        let known = evidence.no_drop.iter().find(|(what, of, _)| *what == "users" && *of == size);
        let mut rate = known.map_or(SEARCH_FIRST, |(_, _, rate)| *rate);
        for hops in users.hops.iter().copied() {
            declare(&mut declared, users, hops, &mut evidence, tell)?;
            let start = Instant::now();
            one_count(&mut bench, &declared, (size, hops), &mut rate, &mut evidence)?;
            tell(&format!("{hops} hops"), start.elapsed().as_secs_f64());
        }
    }
    let start = Instant::now();
    evidence.proof = proving::carry_out(&mut bench, &declared, folder)?;
    if evidence.proof.is_some() {
        tell("captures judged", start.elapsed().as_secs_f64());
    }
    Ok(evidence)
}

fn declare(
    declared: &mut Declared<'_>,
    users: &Users,
    hops: u32,
    evidence: &mut UsersEvidence,
    tell: &mut dyn FnMut(&str, f64),
) -> Result<()> {
    if users.tenants.is_empty() {
        return Ok(());
    }
    let slices = (hops / HOPS_OF_SLICE).max(1) as usize;
    let more = slices.saturating_sub(declared.len());
    if more > 0 {
        let seconds = declared.grow(slices)?;
        tell(&format!("{more} slices more, {slices} in all"), seconds);
        evidence.declared.push((slices, seconds));
    }
    Ok(())
}

/// Delay by packet size with few hops: all sizes and contents by turns, and all at one rate, the
/// lowest that each of them keeps; so nothing but size and content differs.
fn by_size(
    bench: &mut Bench<'_>,
    declared: &Declared<'_>,
    hops: u32,
    evidence: &mut UsersEvidence,
    tell: &mut dyn FnMut(&str, f64),
) -> Result<()> {
    let share = bench.users.shares.iter().copied().fold(0.0, f64::max);
    let mut rate = f64::INFINITY;
    let mut all: Vec<(Case, UsersRow)> = Vec::new();
    for size in bench.users.sizes.iter().copied() {
        for case in bench.cases(declared, size)? {
            let start = Instant::now();
            let found = bench.no_drop_rate(&case)?;
            let text = format!("{} of {size} bytes: {found:.0} frames a second", case.content);
            tell(&text, start.elapsed().as_secs_f64());
            evidence.no_drop.push((case.content, size, found));
            rate = rate.min(found * share);
            let row = UsersRow::new(case.content, size, hops, share);
            all.push((case, row));
        }
    }
    let start = Instant::now();
    let (cases, rows): (Vec<Case>, Vec<UsersRow>) = all.into_iter().unzip();
    let lowered = &mut evidence.lowered;
    let rows = bench.at_a_rate_it_keeps(&mut rate, hops, lowered, |bench, rate| {
        let mut rows = rows.clone();
        for repeat in 0..bench.users.repeat {
            for (case, row) in cases.iter().zip(&mut rows) {
                let content = row.content.replace(", ", "-");
                let name = (repeat == 0).then(|| format!("{content}-{}", row.size));
                row.runs.push(bench.measured(case, rate, name.as_deref())?);
            }
        }
        Ok(rows)
    })?;
    if !lowered.is_empty() {
        // None of them keeps more than what all were measured at.
        for (_, _, found) in &mut evidence.no_drop {
            *found = found.min(rate / share);
        }
    }
    if !rows.is_empty() {
        let text = format!("{} sizes at {rate:.0} frames a second", bench.users.sizes.len());
        tell(&text, start.elapsed().as_secs_f64());
    }
    evidence.sizes.extend(rows.into_iter().map(UsersRow::finished));
    Ok(())
}

/// Delay with so many hops, at each share of the no-drop rate.
fn one_count(
    bench: &mut Bench<'_>,
    declared: &Declared<'_>,
    (size, hops): (u32, u32),
    rate: &mut f64,
    evidence: &mut UsersEvidence,
) -> Result<()> {
    let flows = bench.flows(declared, size)?;
    let case = Case { content: "users", by: By::Ours, flows };
    let rows = bench.at_a_rate_it_keeps(rate, hops, &mut evidence.lowered, |bench, rate| {
        let row = |share: &f64| UsersRow::new("users", size, hops, *share);
        let mut rows: Vec<UsersRow> = bench.users.shares.iter().map(row).collect();
        for repeat in 0..bench.users.repeat {
            for row in &mut rows {
                let name = (repeat == 0).then(|| format!("hops-{hops}-{:.0}", row.share * 100.0));
                row.runs.push(bench.measured(&case, rate * row.share, name.as_deref())?);
            }
        }
        Ok(rows)
    })?;
    evidence.hops.extend(rows.into_iter().map(UsersRow::finished));
    Ok(())
}

impl UsersRow {
    fn new(content: &'static str, size: u32, hops: u32, share: f64) -> Self {
        Self {
            content,
            size,
            hops,
            share,
            runs: Vec::new(),
            delay_us: 0.0,
            median_us: 0.0,
            p99_us: 0.0,
            max_us: 0.0,
        }
    }

    #[allow(clippy::cast_precision_loss, reason = "delays are below 2^52 nanoseconds")]
    fn finished(mut self) -> Self {
        let of = |delay: fn(&Comparison) -> f64| {
            mean_without_extremes(&self.runs.iter().map(delay).collect::<Vec<f64>>()) / 1e3
        };
        let mean_us = of(|run| run.delay.mean_ns);
        self.median_us = of(|run| run.delay.p50_ns as f64);
        let p99_us = of(|run| run.delay.p99_ns as f64);
        let max_ns = self.runs.iter().map(|run| run.delay.max_ns).max().unwrap_or_default();
        (self.p99_us, self.max_us) = (p99_us, max_ns as f64 / 1e3);
        self.delay_us = mean_us;
        self
    }
}

/// An address for the far end of a user's tunnel.
pub(super) fn tunnel_end(number: u32) -> Ipv4Addr {
    let [.., last] = number.to_be_bytes();
    Ipv4Addr::new(192, 0, 2, last.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_other_switch_loses_judges_nobody() {
        let row = |content| UsersRow {
            runs: vec![Comparison::default()],
            ..UsersRow::new(content, 64, 1, 1.0)
        };
        let sizes = vec![row("users"), row(BESIDE), row("plain")];
        let evidence = UsersEvidence { sizes, ..UsersEvidence::default() };
        let names: Vec<String> = evidence.streams().map(|(name, _)| name).collect();
        assert_eq!(names.len(), 2);
        assert!(names.iter().all(|name| !name.contains("Open vSwitch")), "{names:?}");
    }
}
