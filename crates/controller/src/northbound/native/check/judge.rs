//! What the sightings of a path's probes mean. Knows what a sound chain does with a probe and names
//! the first thing that went otherwise; pure.

use catena_model::check::{CheckFinding, ClockTime, Sighting};
use catena_model::explain::ExplainAction;
use catena_model::program::HopKind;
use catena_model::{DropReason, NodeName, PathId};
use catena_plan::PathRecord;
use std::collections::BTreeMap;

/// Ethernet header of a tenant's frame, in bytes.
const ETHERNET_BYTES: usize = 14;

/// What was seen of probes, node by node.
pub(super) type Seen = BTreeMap<NodeName, Vec<Sighting>>;

/// The probes that were sent into a path.
pub(super) struct Sent<'r> {
    /// What the path is to people: «forward», «reverse».
    pub(super) way: String,
    pub(super) path: PathId,
    pub(super) record: &'r PathRecord,
    /// Where they were sent in.
    pub(super) node: &'r NodeName,
    /// Numbers of the small ones.
    pub(super) small: std::ops::Range<u64>,
    pub(super) large: u64,
    /// Length of the large one's frame.
    pub(super) large_bytes: usize,
}

/// A probe was given to an instance.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Visit {
    /// The service index at which: it falls along the path.
    index: u8,
    function: String,
    instance: String,
    node: String,
}

/// How far one probe came.
#[derive(Debug, Default, PartialEq, Eq)]
struct Trail {
    is_classified: bool,
    /// In which order it was delivered to whom.
    visits: Vec<Visit>,
    returns: usize,
    bypassed: Vec<(String, String)>,
    /// Sent to another node, from where, and by how much larger.
    sent: Vec<(NodeName, NodeName, usize)>,
    /// Nodes at which anything was seen.
    nodes: Vec<NodeName>,
    dropped: Option<(NodeName, DropReason)>,
    has_finished: bool,
    /// When it was classified, and when it was at the end.
    times: [Option<ClockTime>; 2],
}

impl Trail {
    /// What a probe met on the path; in a graph it goes on into others.
    fn of(probe: u64, path: PathId, seen: &Seen) -> Self {
        let mut trail = Self::default();
        for (node, sightings) in seen {
            let mut is_elsewhere = false;
            let mut chosen = Visit { node: node.to_string(), ..Visit::default() };
            for sighting in sightings.iter().filter(|sighting| sighting.probe == probe) {
                if !trail.nodes.contains(node) {
                    trail.nodes.push(node.clone());
                }
                is_elsewhere = path_after(&sighting.action).map_or(is_elsewhere, |on| on != path);
                if let ExplainAction::Branched { .. } | ExplainAction::Sliced { port: None, .. } =
                    sighting.action
                {
                    (trail.has_finished, trail.times[1]) = (true, sighting.at);
                } else if !is_elsewhere {
                    trail.take(node, sighting, &mut chosen);
                }
            }
        }
        trail.visits.sort_by_key(|visit| std::cmp::Reverse(visit.index));
        trail
    }

    fn take(&mut self, node: &NodeName, sighting: &Sighting, chosen: &mut Visit) {
        match &sighting.action {
            ExplainAction::Classified { .. } | ExplainAction::Sliced { .. } => {
                (self.is_classified, self.times[0]) = (true, sighting.at);
            }
            ExplainAction::Forwarded { position, function, .. } => {
                chosen.index = position.index;
                chosen.function.clone_from(function);
            }
            ExplainAction::Bypassed { function, instance, .. } => {
                self.bypassed.push((function.clone(), instance.clone()));
            }
            ExplainAction::Visited { instance, .. } => {
                chosen.instance.clone_from(instance);
                self.visits.push(chosen.clone());
            }
            // What runs inside is visited, and left, in one step.
            ExplainAction::Judged { function, instance, .. } => {
                chosen.function.clone_from(function);
                chosen.instance.clone_from(instance);
                self.visits.push(chosen.clone());
                self.returns += 1;
            }
            ExplainAction::Recalled { .. } => self.returns += 1,
            ExplainAction::Encapsulated { to, added_bytes, .. } => {
                self.sent.push((node.clone(), to.clone(), *added_bytes));
            }
            ExplainAction::Finished { .. } => {
                (self.has_finished, self.times[1]) = (true, sighting.at);
            }
            ExplainAction::Dropped { reason } => self.dropped = Some((node.clone(), *reason)),
            _ => {}
        }
    }
}

/// The path that a packet is on by what was said of it last.
fn path_after(action: &ExplainAction) -> Option<PathId> {
    match action {
        ExplainAction::Classified { path, .. }
        | ExplainAction::Sliced { path, .. }
        | ExplainAction::Branched { path, .. }
        | ExplainAction::Finished { path, .. } => Some(*path),
        ExplainAction::Forwarded { position, .. }
        | ExplainAction::Bypassed { position, .. }
        | ExplainAction::Judged { position, .. }
        | ExplainAction::Recalled { position, .. } => Some(position.path),
        _ => None,
    }
}

/// The functions that probes must visit.
fn names<'r>(sent: &Sent<'r>) -> Vec<&'r str> {
    let through = sent.record.functions().filter(|one| one.kind == HopKind::Through);
    through.map(|one| one.name).collect()
}

/// How long the small probes took that passed as they should, in nanoseconds; those whose ends have one clock.
pub(super) fn delays(sent: &Sent<'_>, seen: &Seen) -> Vec<u64> {
    let names = names(sent);
    let trails = sent.small.clone().map(|probe| Trail::of(probe, sent.path, seen));
    let whole = trails.filter(|trail| fault(sent, trail, &names).is_none());
    let delays = whole.filter_map(|trail| match trail.times {
        [Some(began), Some(ended)] => ended.since(began),
        _ => None,
    });
    delays.collect()
}

/// Judges a path.
pub(super) fn findings(sent: &Sent<'_>, seen: &Seen) -> Vec<CheckFinding> {
    let names = names(sent);
    let mut faults: BTreeMap<String, (usize, Option<String>)> = BTreeMap::new();
    let mut whole = 0;
    for probe in sent.small.clone() {
        match fault(sent, &Trail::of(probe, sent.path, seen), &names) {
            None => whole += 1,
            Some((text, fix)) => faults.entry(text).or_insert((0, fix)).0 += 1,
        }
    }
    let mut findings = Vec::new();
    let way = &sent.way;
    if whole > 0 {
        let text = format!("{way}: {whole} probes visited {} in order", names.join(", "));
        findings.push(CheckFinding { is_ok: true, text, fix: None });
    }
    for (text, (count, fix)) in faults {
        let text = format!("{way}: {count} of {} probes {text}", sent.small.clone().count());
        findings.push(CheckFinding { is_ok: false, text, fix });
    }
    if whole > 0 {
        findings.push(largest(sent, &Trail::of(sent.large, sent.path, seen), &names));
    }
    findings
}

fn largest(sent: &Sent<'_>, trail: &Trail, names: &[&str]) -> CheckFinding {
    let (way, bytes) = (&sent.way, sent.large_bytes);
    let Some((text, fix)) = fault(sent, trail, names) else {
        let text = format!("{way}: a {bytes} B frame, the largest of its network, passes");
        return CheckFinding { is_ok: true, text, fix: None };
    };
    let last = trail.sent.last();
    let needs = last.map(|(_, _, added)| bytes + added - ETHERNET_BYTES);
    let fix = match (&trail.dropped, needs) {
        (Some((_, DropReason::MtuExceeded)), Some(needs)) => Some(format!(
            "let the data network carry packets of {needs} B (its links and --underlay-mtu of \
             the agents), or give the tenant network a smaller MTU"
        )),
        _ => fix,
    };
    let needs = match (&trail.dropped, needs) {
        (Some((_, DropReason::MtuExceeded)), Some(needs)) => format!(" (needs {needs})"),
        _ => String::new(),
    };
    CheckFinding { is_ok: false, text: format!("{way}: a {bytes} B frame {text}{needs}"), fix }
}

/// The first thing that a probe did otherwise, and what to do about it.
fn fault(sent: &Sent<'_>, trail: &Trail, names: &[&str]) -> Option<(String, Option<String>)> {
    if let Some((node, reason)) = &trail.dropped {
        let text = format!("dropped at {node}: {}", reason.name());
        return Some((text, Some(format!("{} See catena explain.", reason.sentence()))));
    }
    if let Some((function, instance)) = trail.bypassed.first() {
        let fix = format!("bring instance '{instance}' back, or replace it");
        return Some((format!("went past '{function}': its instance is dead"), Some(fix)));
    }
    if !trail.is_classified {
        let fix = "another rule with a higher priority takes its packets: see catena explain \
                   --why-not";
        return Some((format!("met no rule of the chain at {}", sent.node), Some(fix.into())));
    }
    if let Some((from, to, _)) = trail.sent.iter().find(|(_, to, _)| !trail.nodes.contains(to)) {
        let text = format!("left {from} and did not reach {to}");
        let fix = "look at the link between them, its MTU and its firewall (UDP 4790 for NSH, 6635 \
                   for MPLS)";
        return Some((text, Some(fix.into())));
    }
    if trail.returns < trail.visits.len() {
        let Visit { function, instance, node, .. } = trail.visits.last()?;
        let text = format!("did not come back from instance '{instance}' of '{function}' ({node})");
        let fix = format!(
            "look whether '{instance}' forwards (net.ipv4.ip_forward), has a route to the \
             destination and a filter in between"
        );
        return Some((text, Some(fix)));
    }
    let visited: Vec<&str> = trail.visits.iter().map(|visit| visit.function.as_str()).collect();
    if visited != names {
        let text = format!("visited {} instead of {}", visited.join(", "), names.join(", "));
        return Some((text, Some("wait for the end of the update, and check again".into())));
    }
    if !trail.has_finished {
        let text = "did not come to the end of the path in time".to_owned();
        return Some((text, Some("check again; catena node list shows which nodes answer".into())));
    }
    None
}

#[cfg(test)]
mod tests;
