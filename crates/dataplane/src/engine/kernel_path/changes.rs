//! What a new program changes for flows that were decided by the old one. Knows how to compare two
//! programs; refuses to know flows. It may name too much, never too little.

use super::super::tables::{PortTable, Tables};
use super::guards::Dependency;
use catena_model::PathId;
use catena_model::id::{NetworkId, PortId};
use catena_model::program::{
    NetworkEntry, NodeProgram, PathEntry, PinEntry, PortEntry, RuleEntry, RuleMatch, RulePlace,
};
use catena_model::resource::Encapsulation;
use catena_wire::scalar::PortRange;
use ipnet::IpNet;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

/// Where more rules than that would have to be held against one another, all that they could take has
/// changed.
const COMPARISONS_MAX: usize = 10_000_000;

/// Tables, and what they change since those before them. Who makes them has time to compare; who
/// forwards has none.
pub struct Turn {
    pub(in super::super) tables: Arc<Tables>,
    since: Option<(Arc<Tables>, Changes)>,
}

impl Turn {
    /// From the one to the other.
    #[must_use]
    pub fn between(old: &Arc<Tables>, new: Arc<Tables>) -> Self {
        let is_compared = !new.differ_in_slices(old) || new.has_slices() != old.has_slices();
        let since = is_compared.then(|| (Arc::clone(old), Changes::between(old, &new)));
        Self { tables: new, since }
    }

    /// What it changes for flows that were decided by these.
    pub(super) fn changes(&mut self, old: &Tables) -> Changes {
        match self.since.take() {
            Some((since, changes)) if std::ptr::eq(&*since, old) => changes,
            _ => Changes::between(old, &self.tables),
        }
    }
}

impl From<Arc<Tables>> for Turn {
    fn from(tables: Arc<Tables>) -> Self {
        Self { tables, since: None }
    }
}

/// What ends flows.
pub(super) struct Changes {
    /// Everything that is not as it was, or is gone.
    pub(super) dependencies: BTreeSet<Dependency>,
    /// The ports that are there no more.
    pub(super) ports: Vec<PortId>,
}

impl Changes {
    fn between(old: &Tables, new: &Tables) -> Self {
        let staying: HashSet<PortId> = new.local_ports().map(|(port, _)| port).collect();
        let ports = old.local_ports().map(|(port, _)| port);
        Self {
            dependencies: changed(old, new),
            ports: ports.filter(|port| !staying.contains(port)).collect(),
        }
    }
}

fn changed(old: &Tables, new: &Tables) -> BTreeSet<Dependency> {
    let mut changed = BTreeSet::new();
    let (before, after) = (&old.program, &new.program);
    let is_other_node =
        before.underlay != after.underlay || before.choice_seed != after.choice_seed;
    if is_other_node || old.has_slices() != new.has_slices() {
        changed.extend(before.paths.iter().map(|path| Dependency::Path(path.id)));
        let of =
            |entry: &NetworkEntry| [Dependency::Network(entry.id), Dependency::Ordinary(entry.id)];
        changed.extend(before.networks.iter().flat_map(of));
        return changed;
    }
    changed_paths(old, new, &mut changed);
    changed_networks(old, new, &mut changed);
    changed_rules(&old.program, &new.program, &mut changed);
    changed
}

/// What is in the old program and not in the new one.
pub(super) fn is_gone(dependency: Dependency, new: &Tables) -> bool {
    match dependency {
        Dependency::Path(path) => new.positions.start(path).is_none(),
        Dependency::Network(network) | Dependency::Ordinary(network) => {
            new.program.networks.iter().all(|entry| entry.id != network)
        }
    }
}

/// The instances of a path as this node sees them.
#[derive(PartialEq)]
struct Surroundings<'t> {
    ports: Vec<Option<PortView<'t>>>,
    nodes: Vec<Option<IpAddr>>,
    pins: Vec<&'t PinEntry>,
}

/// What of a port changes the lot of packets on a path.
#[derive(PartialEq)]
struct PortView<'t> {
    entry: &'t PortEntry,
    is_shared: bool,
    is_met: bool,
    keeps_mac: bool,
    speaks: &'t [Encapsulation],
}

struct Index<'t> {
    ports: HashMap<PortId, &'t PortTable>,
    nodes: HashMap<&'t catena_model::NodeName, IpAddr>,
    pins: HashMap<PathId, Vec<&'t PinEntry>>,
}

impl<'t> Index<'t> {
    fn of(tables: &'t Tables) -> Self {
        let tunnels = tables.program.tunnels.iter();
        let mut pins: HashMap<PathId, Vec<&PinEntry>> = HashMap::new();
        for pin in &tables.program.pins {
            pins.entry(pin.old).or_default().push(pin);
            pins.entry(pin.new).or_default().push(pin);
        }
        Self {
            ports: tables.ports.iter().map(|port| (port.entry.id, port)).collect(),
            nodes: tunnels.map(|tunnel| (&tunnel.node, tunnel.address)).collect(),
            pins,
        }
    }

    fn around(&self, path: &PathEntry) -> Surroundings<'t> {
        let instances = || path.hops.iter().flat_map(|hop| &hop.instances);
        let view = |id: &PortId| {
            self.ports.get(id).map(|port| PortView {
                entry: &port.entry,
                is_shared: port.is_shared,
                is_met: port.is_met(),
                keeps_mac: port.keeps_mac,
                speaks: &port.speaks,
            })
        };
        let ports = instances().flat_map(|one| [view(&one.ingress), view(&one.egress)]);
        Surroundings {
            ports: ports.collect(),
            nodes: instances().map(|one| self.nodes.get(&one.node).copied()).collect(),
            pins: self.pins.get(&path.id).cloned().unwrap_or_default(),
        }
    }
}

fn changed_paths(old: &Tables, new: &Tables, changed: &mut BTreeSet<Dependency>) {
    let later: HashMap<PathId, &PathEntry> =
        new.program.paths.iter().map(|path| (path.id, path)).collect();
    let (before, after) = (Index::of(old), Index::of(new));
    for path in &old.program.paths {
        let is_same = later
            .get(&path.id)
            .is_some_and(|later| *later == path && before.around(path) == after.around(path));
        if !is_same {
            changed.insert(Dependency::Path(path.id));
        }
    }
}

/// A network as this node sees it.
#[derive(Default, PartialEq)]
struct NetworkView<'p> {
    entry: Option<&'p NetworkEntry>,
    macs: Vec<&'p catena_model::program::MacEntry>,
    neighbours: Vec<&'p catena_model::program::NeighbourEntry>,
    ports: Vec<(PortId, catena_wire::scalar::MacAddr, Option<&'p [IpAddr]>)>,
}

fn networks(program: &NodeProgram) -> HashMap<NetworkId, NetworkView<'_>> {
    let mut views: HashMap<NetworkId, NetworkView<'_>> = HashMap::new();
    for entry in &program.networks {
        views.entry(entry.id).or_default().entry = Some(entry);
    }
    for entry in &program.macs {
        views.entry(entry.network).or_default().macs.push(entry);
    }
    for entry in &program.neighbours {
        views.entry(entry.network).or_default().neighbours.push(entry);
    }
    for entry in &program.ports {
        let port = (entry.id, entry.mac, entry.own_sources.as_deref());
        views.entry(entry.network).or_default().ports.push(port);
    }
    views
}

fn changed_networks(old: &Tables, new: &Tables, changed: &mut BTreeSet<Dependency>) {
    let later = networks(&new.program);
    let same_nodes = old.program.tunnels == new.program.tunnels;
    for (id, view) in networks(&old.program) {
        if !same_nodes || later.get(&id) != Some(&view) {
            changed.insert(Dependency::Network(id));
            changed.insert(Dependency::Ordinary(id));
        }
    }
}

fn changed_rules(old: &NodeProgram, new: &NodeProgram, changed: &mut BTreeSet<Dependency>) {
    let by_id = |program: &'_ NodeProgram| -> HashMap<_, _> {
        program.rules.iter().enumerate().map(|(place, rule)| (rule.id, place)).collect()
    };
    let (before, after) = (by_id(old), by_id(new));
    for rule in &old.rules {
        if rule_at(new, after.get(&rule.id)) != Some(rule) {
            // What it took goes elsewhere.
            changed.insert(Dependency::Path(rule.path));
            if let RulePlace::After(ended) = rule.matches.place {
                changed.insert(Dependency::Path(ended));
            }
        }
    }
    let (mut last, mut all_added) = (None, Vec::new());
    for rule in &new.rules {
        let place = before.get(&rule.id);
        let is_same = rule_at(old, place) == Some(rule);
        // Of equal priority the first counts: one that moved forward may take what others had.
        let is_in_order = place > last;
        if is_same {
            last = last.max(place);
        }
        if !is_same || !is_in_order {
            all_added.push(rule);
        }
    }
    if all_added.len().saturating_mul(new.rules.len()) > COMPARISONS_MAX {
        changed.extend(old.paths.iter().map(|path| Dependency::Path(path.id)));
        changed.extend(old.networks.iter().map(|entry| Dependency::Ordinary(entry.id)));
        return;
    }
    for rule in all_added {
        added(rule, new, changed);
    }
}

fn rule_at<'p>(program: &'p NodeProgram, place: Option<&usize>) -> Option<&'p RuleEntry> {
    place.and_then(|place| program.rules.get(*place))
}

/// A rule may take what others took, or nobody did.
fn added(rule: &RuleEntry, program: &NodeProgram, changed: &mut BTreeSet<Dependency>) {
    match rule.matches.place {
        RulePlace::After(ended) => {
            changed.insert(Dependency::Path(ended));
        }
        RulePlace::Endpoints | RulePlace::Port(_) => {
            changed.extend(network_of(rule, program).map(Dependency::Ordinary));
        }
    }
    let others = program.rules.iter().filter(|other| other.id != rule.id);
    let met = others.filter(|other| may_meet(&rule.matches, &other.matches));
    changed.extend(met.map(|other| Dependency::Path(other.path)));
}

/// The network whose packets a rule is asked for.
fn network_of(rule: &RuleEntry, program: &NodeProgram) -> Option<NetworkId> {
    match rule.matches.place {
        RulePlace::Port(port) => {
            program.ports.iter().find(|entry| entry.id == port).map(|entry| entry.network)
        }
        RulePlace::Endpoints | RulePlace::After(_) => {
            program.paths.iter().find(|path| path.id == rule.path).map(|path| path.destination)
        }
    }
}

/// Is there a packet that both match, wherever it is?
fn may_meet(one: &RuleMatch, other: &RuleMatch) -> bool {
    let overlap = |one: Option<IpNet>, other: Option<IpNet>| match (one, other) {
        (Some(one), Some(other)) => {
            one.contains(&other.network()) || other.contains(&one.network())
        }
        _ => true,
    };
    let meet = |one: Option<PortRange>, other: Option<PortRange>| match (one, other) {
        (Some(one), Some(other)) => one.contains(other.min()) || other.contains(one.min()),
        _ => true,
    };
    one.family == other.family
        && one.vlan == other.vlan
        && (one.transport.is_none()
            || other.transport.is_none()
            || one.transport == other.transport)
        && overlap(one.source, other.source)
        && overlap(one.destination, other.destination)
        && meet(one.source_ports, other.source_ports)
        && meet(one.destination_ports, other.destination_ports)
}
