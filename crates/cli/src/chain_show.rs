//! `catena chain show`: a chain with what its nodes counted, direction by direction. Knows what each
//! number leaves out and says so; refuses to add up what different data planes did not count.

use crate::failure::Failure;
use crate::output::{Format, Table, block, say, table, tell};
use catena_model::NodeName;
use catena_model::account::{HopCounters, Volume};
use catena_model::status::{ChainAtNode, ChainReport, PathReport};

/// A phase of a path: traffic takes it.
const IN_USE: &str = "classified";
/// What the numbers of a data plane are marked with that began to count on a path in use.
const ANEW: char = '*';
const COLUMNS: [&str; 8] =
    ["hop", "node", "in packets", "in bytes", "out packets", "out bytes", "not back", "dropped"];

pub(crate) fn show(report: &ChainReport, output: Format) -> Result<(), Failure> {
    tell(output, report, |_| {
        say!(
            "{}   {} ─► {}",
            report.name,
            report.encapsulation.name().to_uppercase(),
            functions(report).join(" ─► ")
        );
        let path = report.status.path.map_or_else(String::new, |path| format!("   path {path}"));
        say!("{}{path}   {}", report.status.state.name(), report.status.reason);
        for way in ways(report) {
            if let Some(title) = &way.title {
                say!("{title}");
            }
            block(way.table());
            for line in way.drops() {
                say!("{line}");
            }
        }
        for line in remarks(report) {
            say!("{line}");
        }
        for instance in &report.health {
            say!("instance {} {}", instance.name, instance.health.name());
        }
    })
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

/// One direction of a chain.
struct Way<'r> {
    /// None: there is only one.
    title: Option<String>,
    path: Option<&'r PathReport>,
    /// What each node counted on it.
    nodes: Vec<&'r ChainAtNode>,
}

/// The directions that traffic takes; while there is none, all that was counted.
fn ways(report: &ChainReport) -> Vec<Way<'_>> {
    let used: Vec<&PathReport> = report.paths.iter().filter(|path| path.phase == IN_USE).collect();
    if used.is_empty() {
        return vec![Way { title: None, path: None, nodes: report.nodes.iter().collect() }];
    }
    let is_one = used.len() == 1;
    let way = |path: &&'_ PathReport| {
        let title = (!is_one).then(|| format!("{}   path {}", path.direction, path.path));
        let nodes = report.nodes.iter().filter(|node| node.counters.path == path.path);
        (title, nodes.collect())
    };
    let ways = used.iter().map(|path| {
        let (title, nodes) = way(path);
        Way { title, path: Some(*path), nodes }
    });
    ways.collect()
}

impl Way<'_> {
    fn table(&self) -> Table {
        let mut shown = table(COLUMNS);
        let mut hops: Vec<(&ChainAtNode, &HopCounters, bool)> = Vec::new();
        for node in &self.nodes {
            let of_node = node.counters.hops.iter();
            // A node's drops are told once, beside the first of its functions.
            hops.extend(of_node.enumerate().map(|(at, hop)| (*node, hop, at == 0)));
        }
        hops.sort_by_key(|(_, hop, _)| hop.hop);
        let has_hops = |node: &ChainAtNode| !node.counters.hops.is_empty();
        let is_end = |volume: Volume, node: &ChainAtNode| volume.packets > 0 || !has_hops(node);
        let (mut entered, mut finished) = (Vec::new(), Vec::new());
        for node in &self.nodes {
            let counted = &node.counters;
            let drops_told = !has_hops(node);
            if is_end(counted.entered, node) && (counted.entered.packets > 0 || drops_told) {
                let dropped = drops_told.then(|| dropped(node));
                entered.push(row("entered", node, [None, Some(counted.entered)], None, dropped));
            }
            if counted.finished.packets > 0 {
                finished.push(row("finished", node, [Some(counted.finished), None], None, None));
            }
        }
        if entered.is_empty() {
            entered.push(nobody("entered", [None, Some(Volume::default())]));
        }
        if finished.is_empty() {
            finished.push(nobody("finished", [Some(Volume::default()), None]));
        }
        entered.into_iter().for_each(|row| shown.add_row(row));
        for (node, hop, is_first) in hops {
            let dropped = is_first.then(|| dropped(node));
            if self.is_tap(hop) {
                let name = format!("{} (tap)", hop.name);
                shown.add_row(row(&name, node, [Some(hop.delivered), None], None, dropped));
                continue;
            }
            let not_back = hop.delivered.packets.saturating_sub(hop.returned.packets);
            let volumes = [Some(hop.delivered), Some(hop.returned)];
            shown.add_row(row(&hop.name, node, volumes, Some(not_back), dropped));
            if hop.bypassed.packets > 0 {
                let name = format!("{} bypassed", hop.name);
                shown.add_row(row(&name, node, [Some(hop.bypassed), None], None, None));
            }
        }
        finished.into_iter().for_each(|row| shown.add_row(row));
        shown
    }

    fn is_tap(&self, hop: &HopCounters) -> bool {
        let hops = self.path.map(|path| path.hops.as_slice()).unwrap_or_default();
        hops.get(usize::from(hop.hop)).is_some_and(|hop| hop.is_tap)
    }

    /// Drops by name, a line for each node and name.
    fn drops(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for node in &self.nodes {
            for (reason, count) in node.counters.dropped.iter().filter(|(_, count)| **count > 0) {
                lines.push(format!("dropped at {}: {reason} {count}", name(node)));
            }
        }
        lines
    }
}

fn name(node: &ChainAtNode) -> &str {
    node.node.as_ref().map_or("-", NodeName::as_str)
}

fn dropped(node: &ChainAtNode) -> u64 {
    node.counters.dropped.values().copied().fold(0, u64::saturating_add)
}

/// Nobody told of any.
fn nobody(name: &str, volumes: [Option<Volume>; 2]) -> Vec<String> {
    let mut row = vec![name.to_owned(), String::new()];
    row.extend(volumes.into_iter().flat_map(|volume| cells(volume, "")));
    row
}

/// A row of one node: what went into something and came out, what did not come back, what was
/// dropped at the node.
fn row(
    name_of_row: &str,
    node: &ChainAtNode,
    volumes: [Option<Volume>; 2],
    not_back: Option<u64>,
    dropped: Option<u64>,
) -> Vec<String> {
    let mark = if node.counters.is_partial { ANEW.to_string() } else { String::new() };
    let mut row = vec![name_of_row.to_owned(), name(node).to_owned()];
    row.extend(volumes.into_iter().flat_map(|volume| cells(volume, &mark)));
    let count = |count: Option<u64>| count.map(|n| format!("{n}{mark}")).unwrap_or_default();
    row.extend([count(not_back), count(dropped)]);
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
            "superseded" => "of before, not gone yet",
            _ => "on its way, not in use yet",
        };
        format!("path {} ({}) is {phase}", path.path, path.direction)
    }));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use catena_model::DropReason;
    use catena_model::account::ChainCounters;
    use catena_model::id::{BlueprintNumber, ChainId, InstanceId, PathId};
    use catena_model::resource::Encapsulation;
    use catena_model::status::{ChainState, ChainStatus, PathHop, SilentNode};
    use std::collections::BTreeMap;

    const WEB: ChainId = ChainId(uuid::Uuid::from_u128(1));

    fn volume(packets: u64) -> Volume {
        Volume { packets, bytes: packets * 100 }
    }

    fn hop(hop: u16, name: &str, delivered: u64, returned: u64) -> HopCounters {
        HopCounters {
            hop,
            instance: InstanceId(uuid::Uuid::nil()),
            name: name.into(),
            delivered: volume(delivered),
            returned: volume(returned),
            rewritten: 0,
            ambiguous: 0,
            bypassed: Volume::default(),
        }
    }

    fn at(node: &str, path: u32, ends: [u64; 2], hops: Vec<HopCounters>) -> ChainAtNode {
        let counters = ChainCounters {
            chain: WEB,
            path: PathId(path),
            entered: volume(ends[0]),
            finished: volume(ends[1]),
            tapped: Volume::default(),
            pinned_flows: 0,
            tunnelled_out: Volume::default(),
            tunnelled_in: Volume::default(),
            dropped: BTreeMap::new(),
            hops,
            is_partial: false,
        };
        ChainAtNode { node: Some(node.parse().unwrap()), counting_ms: 40_900, counters }
    }

    fn path(path: u32, direction: &str, phase: &str, hops: &[(&str, bool)]) -> PathReport {
        let hop = |(name, is_tap): &(&str, bool)| PathHop {
            function: (*name).into(),
            is_tap: *is_tap,
            instances: Vec::new(),
        };
        PathReport {
            path: PathId(path),
            chain: WEB,
            chain_name: "web".into(),
            direction: direction.into(),
            encapsulation: Encapsulation::Nsh,
            phase: phase.into(),
            since: BlueprintNumber(3),
            hops: hops.iter().map(hop).collect(),
        }
    }

    /// A symmetric chain whose second function swallows four answers.
    fn report() -> ChainReport {
        let mut lossy = at("host2", 43, [0, 66], vec![hop(1, "v1", 66, 66)]);
        lossy.counters.dropped.insert(DropReason::TtlExpired, 3);
        lossy.counters.is_partial = true;
        ChainReport {
            status: ChainStatus {
                chain: WEB,
                state: ChainState::Active,
                reason: String::new(),
                path: Some(PathId(42)),
            },
            name: "web".into(),
            functions: vec!["v1".into(), "ids".into(), "v7".into()],
            encapsulation: Encapsulation::Nsh,
            paths: vec![
                path(42, "forward", IN_USE, &[("v1", false), ("ids", true), ("v7", false)]),
                path(43, "reverse", IN_USE, &[("v7", false), ("v1", false)]),
                path(41, "forward", "superseded", &[("v1", false)]),
            ],
            nodes: vec![
                at("host1", 42, [70, 0], Vec::new()),
                at("host2", 42, [0, 0], vec![hop(0, "v1", 70, 70), hop(1, "ids", 70, 0)]),
                at("host4", 42, [0, 70], vec![hop(2, "v7", 70, 70)]),
                at("host1", 41, [900, 900], Vec::new()),
                at("host4", 43, [70, 0], vec![hop(0, "v7", 70, 66)]),
                lossy,
            ],
            silent: vec![SilentNode { node: Some("host3".parse().unwrap()) }],
            health: Vec::new(),
            receipt: None,
        }
    }

    /// The cells of the rows of a table.
    fn rows(way: &Way<'_>) -> Vec<Vec<String>> {
        let text = way.table().to_string();
        let cells = |line: &str| line.split_whitespace().map(str::to_owned).collect();
        text.lines().skip(1).map(cells).collect()
    }

    #[test]
    fn both_directions_are_shown_with_what_did_not_come_back_and_what_was_dropped() {
        let report = report();
        let ways = ways(&report);
        let titles: Vec<_> = ways.iter().map(|way| way.title.clone().unwrap()).collect();
        assert_eq!(titles, ["forward   path 42", "reverse   path 43"]);
        assert_eq!(
            rows(&ways[0]),
            [
                vec!["entered", "host1", "70", "7000", "0"],
                vec!["v1", "host2", "70", "7000", "70", "7000", "0", "0"],
                vec!["ids", "(tap)", "host2", "70", "7000"],
                vec!["v7", "host4", "70", "7000", "70", "7000", "0", "0"],
                vec!["finished", "host4", "70", "7000"],
            ]
        );
        // What the node of v1 counted began with its data plane.
        assert_eq!(
            rows(&ways[1]),
            [
                vec!["entered", "host4", "70", "7000"],
                vec!["v7", "host4", "70", "7000", "66", "6600", "4", "0"],
                vec!["v1", "host2", "66*", "6600*", "66*", "6600*", "0*", "3*"],
                vec!["finished", "host2", "66*", "6600*"],
            ]
        );
        assert_eq!(ways[1].drops(), ["dropped at host2: ttl_expired 3"]);
        assert_eq!(functions(&report), ["v1", "ids (tap)", "v7"]);
    }

    #[test]
    fn what_the_numbers_leave_out_is_said() {
        assert_eq!(
            remarks(&report()),
            [
                "* host2 began to count anew 40 s ago, with its data plane: what came before is \
                 not in its numbers",
                "host3 told no counters: what it saw is missing here",
                "path 41 (forward) is of before, not gone yet",
            ]
        );
    }

    #[test]
    fn a_chain_without_a_path_shows_that_nothing_entered() {
        let mut report = report();
        report.paths.clear();
        report.nodes.clear();
        report.status.path = None;
        let ways = ways(&report);
        assert_eq!(rows(&ways[0]), [vec!["entered", "0", "0"], vec!["finished", "0", "0"]]);
    }
}
