//! `catena chain show`: a chain with what its nodes counted, direction by direction, and what is expected of it beside
//! that. Knows what each number leaves out and says so; refuses to add up what different data planes did not count.

mod why;

use crate::chain_delays;
use crate::failure::Failure;
use crate::output::{Format, Table, block, say, table, tell};
use crate::prediction::{self, Expected};
use catena_client::Client;
use catena_model::account::{HopCounters, Volume};
use catena_model::delays::ChainDelays;
use catena_model::service_time::ServiceTime;
use catena_model::setup::ChainSetups;
use catena_model::status::{
    ChainAtNode, ChainReport, LostOnReturn, PathInstance, PathReport, SilentNode,
};
use catena_model::{DropReason, NodeName};
use serde_json::Value;
use std::collections::BTreeMap;
use why::Why;

/// A phase of a path: traffic takes it.
const IN_USE: &str = "classified";
/// Another has taken its place.
const FORMER: &str = "superseded";
/// What the numbers of a data plane are marked with that began to count on a path in use.
const ANEW: char = '*';
/// In place of a number that nobody told.
const UNTOLD: &str = "–";
const COLUMNS: [&str; 9] = [
    "hop",
    "node",
    "in packets",
    "in bytes",
    "out packets",
    "out bytes",
    "not back",
    "lost at port",
    "dropped",
];

/// What is asked beside what was counted.
#[derive(Clone, Copy)]
pub(crate) struct Asked {
    /// Is it to be told which functions are asked side by side, and why?
    pub(crate) is_why: bool,
    /// Packets a second for which delay and load are to be told; none: as many as come.
    pub(crate) rate: Option<f64>,
}

pub(crate) fn show(
    client: &Client,
    report: &ChainReport,
    asked: Asked,
    output: Format,
) -> Result<(), Failure> {
    // What is expected depends on threads that may ask functions which stand together.
    let stand_together = report.paths.iter().flat_map(|path| &path.hops).any(|hop| hop.member > 0);
    let why =
        (asked.is_why || stand_together).then(|| why::of_report(client, report)).transpose()?;
    let threads = why.as_ref().map(Why::threads).unwrap_or_default();
    let expected = prediction::of_report(client, report, &threads, asked.rate)?;
    let why = why.filter(|_| asked.is_why);
    let delays = chain_delays::of_report(client, report)?;
    let mut told = serde_json::to_value(report)?;
    if let Value::Object(told) = &mut told {
        let prediction = expected.as_ref().map(|expected| ("prediction", expected.json()));
        let why = why.as_ref().map(serde_json::to_value).transpose()?.map(|why| ("why", why));
        let delays = delays.as_ref().map(serde_json::to_value).transpose()?;
        let delays = delays.map(|delays| ("delays", delays));
        let more = prediction.into_iter().chain(why).chain(delays);
        told.extend(more.map(|(key, value)| (key.to_owned(), value)));
    }
    tell(output, &told, |_| {
        people(report, expected.as_ref(), why.as_ref(), delays.as_ref());
    })
}

fn people(
    report: &ChainReport,
    expected: Option<&Expected>,
    why: Option<&Why>,
    delays: Option<&ChainDelays>,
) {
    say!(
        "{}   {} ─► {}",
        report.name,
        report.encapsulation.title(),
        functions(report).join(" ─► ")
    );
    let path = report.status.path.map_or_else(String::new, |path| format!("   path {path}"));
    say!("{}{path}   {}", report.status.state.name(), report.status.reason);
    for way in ways(report) {
        if let Some(title) = &way.title {
            say!("{title}");
        }
        block(way.table());
        for line in way.drops().into_iter().chain(way.inside()) {
            say!("{line}");
        }
    }
    if let Some(line) = setup_line(report) {
        say!("{line}");
    }
    if let Some(telemetry) = &report.telemetry {
        say!("telemetry {telemetry}");
    }
    for (function, segments) in &report.via {
        let segments: Vec<String> = segments.iter().map(ToString::to_string).collect();
        say!("to {function} via {}", segments.join(", "));
    }
    for line in remarks(report) {
        say!("{line}");
    }
    for instance in &report.health {
        say!("instance {} {}", instance.name, instance.health.name());
    }
    for line in expected.map(prediction::lines).unwrap_or_default() {
        say!("{line}");
    }
    for line in why.map(Why::lines).unwrap_or_default() {
        say!("{line}");
    }
    if let Some(delays) = delays {
        chain_delays::people(delays);
    }
}

/// When the controller is asked for flows, and how often it was; none: it is not, and was not.
fn setup_line(report: &ChainReport) -> Option<String> {
    let ChainReport { setup, setups, .. } = report;
    if setup.is_proactive() && setups.is_none() {
        return None;
    }
    let ChainSetups { asked, asked_again, answered, unfit, unanswered, held } =
        setups.unwrap_or_default();
    let mut line = format!(
        "set-up {}   {asked} flows asked for, {answered} answered, {unanswered} not; {held} packets held",
        setup.name()
    );
    for (count, what) in [(asked_again, "asked for again"), (unfit, "answers that did not fit")] {
        if count > 0 {
            line.push_str(&format!(", {count} {what}"));
        }
    }
    Some(line)
}

/// The functions in order, taps marked.
fn functions(report: &ChainReport) -> Vec<String> {
    let is_tap = |name: &String| {
        let mut hops = report.paths.iter().flat_map(|path| &path.hops);
        hops.any(|hop| hop.is_tap && hop.function == *name)
    };
    let marked = report.functions.iter();
    marked.map(|name| if is_tap(name) { format!("{name} (tap)") } else { name.clone() }).collect()
}

/// A hop, and the place of a function among those of that hop.
type Place = (u16, u8);

/// One direction of a chain.
struct Way<'r> {
    /// None: there is only one.
    title: Option<String>,
    path: Option<&'r PathReport>,
    /// What each node counted on it.
    nodes: Vec<&'r ChainAtNode>,
    /// The nodes of the chain that told nothing.
    silent: &'r [SilentNode],
}

/// The directions that traffic takes; while there is none, all that was counted.
fn ways(report: &ChainReport) -> Vec<Way<'_>> {
    let used: Vec<&PathReport> = report.paths.iter().filter(|path| path.phase == IN_USE).collect();
    if used.is_empty() {
        let nodes = report.nodes.iter().collect();
        return vec![Way { title: None, path: None, nodes, silent: &report.silent }];
    }
    let is_one = used.len() == 1;
    let way = |path: &&'_ PathReport| {
        let title = (!is_one).then(|| format!("{}   path {}", path.direction, path.path));
        let nodes = report.nodes.iter().filter(|node| node.counters.path == path.path);
        (title, nodes.collect())
    };
    let ways = used.iter().map(|path| {
        let (title, nodes) = way(path);
        Way { title, path: Some(*path), nodes, silent: &report.silent }
    });
    ways.collect()
}

impl Way<'_> {
    fn table(&self) -> Table {
        let mut shown = table(COLUMNS);
        let mut hops: Vec<(Place, Vec<String>)> = self.told_hops();
        hops.extend(self.silent_hops());
        hops.sort_by_key(|(place, _)| *place);
        let hops = hops.into_iter().map(|(_, row)| row);
        self.entered().into_iter().chain(hops).chain(self.finished()).for_each(|row| {
            shown.add_row(row);
        });
        shown
    }

    fn entered(&self) -> Vec<Vec<String>> {
        let mut rows = Vec::new();
        let mut is_told = false;
        for node in &self.nodes {
            let counted = node.counters.entered;
            // A node's drops are told once: here, where it has no function to tell them beside.
            let drops_told = node.counters.hops.is_empty();
            if counted.packets > 0 || drops_told {
                is_told |= counted.packets > 0 || self.silent.is_empty();
                let dropped = drops_told.then(|| dropped(node));
                rows.push(row("entered", node, [None, Some(counted)], [None, None, dropped]));
            }
        }
        if !is_told {
            let count = self.nobodys_count();
            rows.push(nobody("entered", ["", "", count, count]));
        }
        rows
    }

    fn finished(&self) -> Vec<Vec<String>> {
        let ended = self.nodes.iter().filter(|node| node.counters.finished.packets > 0);
        let mut rows: Vec<Vec<String>> = ended
            .map(|node| row("finished", node, [Some(node.counters.finished), None], [None; 3]))
            .collect();
        if rows.is_empty() {
            let count = self.nobodys_count();
            rows.push(nobody("finished", [count, count, "", ""]));
        }
        rows
    }

    /// What is known where no node told of any: that there was none, if all told.
    fn nobodys_count(&self) -> &'static str {
        if self.silent.is_empty() { "0" } else { UNTOLD }
    }

    /// The rows of what nodes counted, by hop.
    fn told_hops(&self) -> Vec<(Place, Vec<String>)> {
        let mut rows = Vec::new();
        for node in &self.nodes {
            for (at, hop) in node.counters.hops.iter().enumerate() {
                // A node's drops are told once, beside the first of its functions.
                let dropped = (at == 0).then(|| dropped(node));
                let place = (hop.hop, hop.member);
                if self.is_tap(hop) {
                    let name = format!("{} (tap)", hop.name);
                    let volumes = [Some(hop.delivered), None];
                    rows.push((place, row(&name, node, volumes, [None, None, dropped])));
                    continue;
                }
                let lost = lost_on_return(node, hop).map_or(0, LostOnReturn::total);
                let missing = hop.delivered.packets.saturating_sub(hop.returned.packets);
                let counts = [Some(missing.saturating_sub(lost)), Some(lost), dropped];
                let volumes = [Some(hop.delivered), Some(hop.returned)];
                rows.push((place, row(&hop.name, node, volumes, counts)));
                if hop.bypassed.packets > 0 {
                    let name = format!("{} bypassed", hop.name);
                    rows.push((place, row(&name, node, [Some(hop.bypassed), None], [None; 3])));
                }
            }
        }
        rows
    }

    /// The rows of instances whose nodes told nothing, by hop.
    fn silent_hops(&self) -> Vec<(Place, Vec<String>)> {
        let mut rows = Vec::new();
        for hop in self.path.into_iter().flat_map(|path| &path.hops) {
            let place = (hop.hop, hop.member);
            let is_told = |instance: &PathInstance| {
                let mut told = self.nodes.iter().flat_map(|node| &node.counters.hops);
                told.any(|counted| {
                    (counted.hop, counted.member) == place && counted.name == instance.name
                })
            };
            // Whoever is told no node is not told which ones are silent.
            let is_silent = |instance: &PathInstance| {
                let mut silent = self.silent.iter();
                silent.any(|silent| instance.node.is_none() || silent.node == instance.node)
            };
            for instance in hop.instances.iter().filter(|one| !is_told(one) && is_silent(one)) {
                let (name, behind) = match hop.is_tap {
                    true => (format!("{} (tap)", instance.name), ""),
                    false => (instance.name.clone(), UNTOLD),
                };
                let node = instance.node.as_ref().map_or("-", NodeName::as_str);
                let counts = [UNTOLD, UNTOLD, behind, behind, behind, behind, UNTOLD];
                let cells = [name.as_str(), node].into_iter().chain(counts);
                rows.push((place, cells.map(str::to_owned).collect()));
            }
        }
        rows
    }

    fn is_tap(&self, counted: &HopCounters) -> bool {
        let mut hops = self.path.into_iter().flat_map(|path| &path.hops);
        hops.any(|hop| hop.hop == counted.hop && hop.is_tap)
    }

    /// Drops and losses by name, a line for each node and name.
    fn drops(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for node in &self.nodes {
            let at = name(node);
            for (reason, count) in node.counters.dropped.iter().filter(|(_, count)| **count > 0) {
                lines.push(format!("dropped at {at}: {reason} {count}"));
            }
            for hop in &node.counters.hops {
                let lost = lost_on_return(node, hop).filter(|_| !self.is_tap(hop));
                lines.extend(lost.filter(|lost| lost.total() > 0).map(|lost| {
                    let what = reasons(&lost.dropped, lost.ring_full);
                    format!("lost at the port of {} at {at}, of all its paths: {what}", hop.name)
                }));
            }
            let nameless = reasons(&node.lost_in_kernel, 0);
            if !nameless.is_empty() && !node.counters.hops.is_empty() {
                lines.push(format!(
                    "lost in the kernel of {at}, of any port: {nameless}; some of it may be among \
                     what is not back"
                ));
            }
        }
        lines
    }
}

impl Way<'_> {
    /// What is known of bundled functions beyond what came and went, a line for each at each node.
    fn inside(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for node in &self.nodes {
            for hop in &node.counters.hops {
                let counts = [(hop.denied, "denied"), (hop.generated, "made")];
                let counts = counts.into_iter().filter(|(count, _)| *count > 0);
                let mut told: Vec<String> =
                    counts.map(|(count, what)| format!("{what} {count}")).collect();
                told.extend(took(&hop.service_time));
                if !told.is_empty() {
                    lines.push(format!("{} at {}: {}", hop.name, name(node), told.join(", ")));
                }
            }
        }
        lines
    }
}

/// How long a packet was with a bundled function; none: nobody has timed any.
fn took(time: &ServiceTime) -> Option<String> {
    let [half, most] = [50, 99].map(|part| time.quantile_ns(part));
    let (mean, half, most) = (time.mean_ns()?, half?, most?);
    Some(format!(
        "took {mean} ns for a packet in the mean, at most {half} ns for half of them and {most} ns for 99 of 100"
    ))
}

fn name(node: &ChainAtNode) -> &str {
    node.node.as_ref().map_or("-", NodeName::as_str)
}

fn dropped(node: &ChainAtNode) -> u64 {
    node.counters.dropped.values().copied().fold(0, u64::saturating_add)
}

/// What was lost at the port of a hop's instance.
fn lost_on_return<'n>(node: &'n ChainAtNode, hop: &HopCounters) -> Option<&'n LostOnReturn> {
    node.lost_on_return.iter().find(|lost| lost.instance == hop.instance)
}

/// Counts with their names; empty: there are none.
fn reasons(dropped: &BTreeMap<DropReason, u64>, ring_full: u64) -> String {
    let named = dropped.iter().map(|(reason, count)| (reason.name(), *count));
    let named = named.chain([("ring_full", ring_full)]).filter(|(_, count)| *count > 0);
    named.map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
}

/// No node told of any.
fn nobody(name: &str, volumes: [&str; 4]) -> Vec<String> {
    [name, ""].into_iter().chain(volumes).map(str::to_owned).collect()
}

/// A row of one node: what went into something and came out, what did not come back, what was lost
/// at the function's port, what was dropped at the node.
fn row(
    name_of_row: &str,
    node: &ChainAtNode,
    volumes: [Option<Volume>; 2],
    counts: [Option<u64>; 3],
) -> Vec<String> {
    let mark = if node.counters.is_partial { ANEW.to_string() } else { String::new() };
    let mut row = vec![name_of_row.to_owned(), name(node).to_owned()];
    row.extend(volumes.into_iter().flat_map(|volume| cells(volume, &mark)));
    let count = |count: Option<u64>| count.map(|n| format!("{n}{mark}")).unwrap_or_default();
    row.extend(counts.map(count));
    row
}

fn cells(volume: Option<Volume>, mark: &str) -> [String; 2] {
    match volume {
        Some(volume) => [volume.packets, volume.bytes].map(|count| format!("{count}{mark}")),
        None => [String::new(), String::new()],
    }
}

/// What the numbers leave out.
fn remarks(report: &ChainReport) -> Vec<String> {
    let mut lines = Vec::new();
    let mut anew: Vec<(&str, u64)> = Vec::new();
    for node in report.nodes.iter().filter(|node| node.counters.is_partial) {
        let since = (name(node), node.counting_ms / 1_000);
        if !anew.contains(&since) {
            anew.push(since);
        }
    }
    lines.extend(anew.into_iter().map(|(node, seconds)| {
        format!(
            "{ANEW} {node} began to count anew {seconds} s ago, with its data plane: what came \
             before is not in its numbers"
        )
    }));
    lines.extend(report.silent.iter().map(|silent| {
        let node = silent.node.as_ref().map_or("a node", NodeName::as_str);
        format!("{node} told no counters: what it saw is missing here")
    }));
    let is_other = |path: &&PathReport| path.phase != IN_USE && report.status.path.is_some();
    lines.extend(report.paths.iter().filter(is_other).map(|path| {
        let phase = match path.phase.as_str() {
            FORMER => "former, not gone yet",
            _ => "on its way, not in use yet",
        };
        format!("path {} ({}) is {phase}", path.path, path.direction)
    }));
    lines
}

#[cfg(test)]
mod tests;
