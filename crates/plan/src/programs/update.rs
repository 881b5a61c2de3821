//! One update of all programs: what differs is taken up source by source, and each entry that it
//! touches is made anew from all of its sources.

use super::{Machine, Programs, Sources, machine, port_entry};
use crate::counts::{Counts, Edit, edit_within};
use crate::index::IndexedIntent;
use crate::intent::{Table, differences};
use crate::ledger::{PathPhase, PathRecord};
use catena_model::bundle::{Configuration, ConfigurationEntry};
use catena_model::entry::{Entries, RuleKey};
use catena_model::id::{ChainId, FunctionId, InstanceId, NetworkId, PortId};
use catena_model::program::{
    ChainEntry, Location, MacEntry, NeighbourEntry, NetworkEntry, PinEntry, PortEntry, PortRole,
    RuleEntry,
};
use catena_model::resource::{Network, OwnTraffic, Port};
use catena_model::{NodeName, PathId};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

/// Sets or strikes out an entry; one that stays as it was is not touched.
pub(super) fn set<K: Ord + Clone, E: PartialEq>(
    table: &mut Table<K, Arc<E>>,
    key: K,
    entry: Option<E>,
) {
    match entry {
        Some(entry) if table.get(&key).is_some_and(|known| **known == entry) => {}
        Some(entry) => {
            table.insert(key, Arc::new(entry));
        }
        None => {
            table.remove(&key);
        }
    }
}

/// The update, as far as it has come.
pub(super) struct Update<'u> {
    pub(super) programs: Programs,
    pub(super) from: Sources<'u>,
    pub(super) to: Sources<'u>,
    /// Chains with a path that differs.
    chains: BTreeSet<ChainId>,
    pub(super) ports: BTreeSet<PortId>,
    /// Those whose port number is another.
    pub(super) numbered: BTreeSet<PortId>,
    /// Ports whose MAC and addresses are to be looked at.
    stations: BTreeSet<PortId>,
    machines: BTreeSet<Machine>,
    networks: BTreeSet<NetworkId>,
    /// Where a network may have come or gone.
    places: BTreeSet<(NodeName, NetworkId)>,
    /// How many brought a network to a node before.
    uses_before: Table<NetworkId, Counts<NodeName>>,
    /// How many ports of a machine paths had before.
    walked_before: Counts<Machine>,
}

impl<'u> Update<'u> {
    pub(super) fn new(programs: Programs, from: Sources<'u>, to: Sources<'u>) -> Self {
        let (uses_before, walked_before) = (programs.uses.clone(), programs.walked.clone());
        Self {
            programs,
            uses_before,
            walked_before,
            from,
            to,
            chains: BTreeSet::new(),
            ports: BTreeSet::new(),
            numbered: BTreeSet::new(),
            stations: BTreeSet::new(),
            machines: BTreeSet::new(),
            networks: BTreeSet::new(),
            places: BTreeSet::new(),
        }
    }

    pub(super) fn finish(mut self) -> Programs {
        self.take_port_numbers();
        self.take_paths();
        self.take_routes();
        self.take_onward();
        self.take_stitches();
        for chain in std::mem::take(&mut self.chains) {
            self.make_pins(chain);
            self.make_chain(chain);
        }
        self.take_ports();
        self.take_functions();
        self.take_networks();
        for machine in std::mem::take(&mut self.machines) {
            // No port of one that no path goes through is told the others' addresses.
            if [&self.walked_before, &self.programs.walked].iter().any(|all| all.of(&machine) > 0) {
                self.ports.extend(self.programs.machines.of(machine));
            }
        }
        for port in std::mem::take(&mut self.ports) {
            self.make_port(port);
        }
        for (node, network) in std::mem::take(&mut self.places) {
            self.make_place(&node, network);
        }
        for network in std::mem::take(&mut self.networks) {
            self.make_network(network);
        }
        for port in std::mem::take(&mut self.stations) {
            let declared = [self.from, self.to].map(|sources| sources.intent.ports.get(&port));
            let networks = declared.into_iter().flatten().map(|port| port.network);
            let nodes = networks.flat_map(|network| self.nodes_of(network));
            for node in nodes.collect::<BTreeSet<_>>() {
                self.make_station(&node, port);
            }
        }
        self.programs
    }

    fn entries(&mut self, node: &NodeName) -> Option<&mut Entries> {
        self.programs.entries_mut(node)
    }

    // ----- paths -----

    fn take_paths(&mut self) {
        for (id, record) in self.to.paths.since(self.from.paths) {
            if let Some(former) = self.from.paths.get(&id) {
                self.leave(id, former);
            }
            if let Some(record) = record {
                self.enter(id, record);
            }
        }
    }

    fn leave(&mut self, id: PathId, path: &PathRecord) {
        self.touch(Edit::Remove, id, path);
        let stays = self.to.paths.get(&id).map(|path| path.nodes(self.to.nodes.keys()));
        for node in path.nodes(self.from.nodes.keys()) {
            self.edit_use(Edit::Remove, &node, path.destination);
            let has_gone = !stays.as_ref().is_some_and(|stays| stays.contains(&node));
            self.leave_members(id, path, &node);
            let rules = rules_at(id, path, &node, self.from);
            let Some(entries) = self.entries(&node) else { continue };
            for (key, _) in rules {
                entries.rules.remove(&key);
            }
            entries.setups.remove(&id);
            if has_gone {
                entries.paths.remove(&id);
            }
        }
    }

    fn enter(&mut self, id: PathId, path: &PathRecord) {
        self.touch(Edit::Add, id, path);
        let entry = Arc::new(path.entry(id));
        for node in path.nodes(self.to.nodes.keys()) {
            self.edit_use(Edit::Add, &node, path.destination);
            self.enter_members(id, path, &node);
            let rules = rules_at(id, path, &node, self.to);
            let Some(entries) = self.entries(&node) else { continue };
            if entries.paths.get(&id) != Some(&entry) {
                // All nodes of the path share it.
                entries.paths.insert(id, Arc::clone(&entry));
            }
            for (key, rule) in rules {
                set(&mut entries.rules, key, Some(rule.clone()));
            }
            set(&mut entries.setups, id, path.setup_entry(id, &node));
        }
    }

    /// What bundled functions are made of goes with the last path that needs it at a node.
    fn leave_members(&mut self, id: PathId, path: &PathRecord, node: &NodeName) {
        for member in path.members_at(node) {
            let entry = path.member_entry(id, member);
            let use_of = (node.clone(), entry.configuration);
            self.programs.configured.edit(Edit::Remove, use_of.clone());
            let is_over = self.programs.configured.of(&use_of) == 0;
            let Some(entries) = self.entries(node) else { continue };
            entries.members.remove(&entry.key());
            if is_over {
                entries.configurations.remove(&entry.configuration);
            }
        }
    }

    fn enter_members(&mut self, id: PathId, path: &PathRecord, node: &NodeName) {
        for member in path.members_at(node) {
            let entry = path.member_entry(id, member);
            self.programs.configured.edit(Edit::Add, (node.clone(), entry.configuration));
            let Some(entries) = self.entries(node) else { continue };
            let configuration = Configuration::clone(&member.configuration);
            let made_of = ConfigurationEntry { configuration };
            set(&mut entries.configurations, entry.configuration, Some(made_of));
            set(&mut entries.members, entry.key(), Some(entry));
        }
    }

    /// Something brings a network to a node, or does no longer.
    fn edit_use(&mut self, edit: Edit, node: &NodeName, network: NetworkId) {
        edit_within(&mut self.programs.uses, edit, &network, node.clone());
        self.places.insert((node.clone(), network));
    }

    /// Notes the ports of a path, and what else is made of it.
    fn touch(&mut self, edit: Edit, id: PathId, path: &PathRecord) {
        self.chains.insert(path.chain);
        for placed in &path.ports {
            let (port, programs) = (placed.port.id, &mut self.programs);
            let was_walked = programs.port_paths.has_any(port);
            programs.port_paths.edit(edit, port, id);
            if was_walked != programs.port_paths.has_any(port)
                && let Some(machine) = self.from.intent.ports.get(&port).and_then(machine)
            {
                programs.walked.edit(edit, machine);
            }
            edit_within(&mut programs.port_nodes, edit, &port, placed.node.clone());
            programs.placed.edit(edit, placed.port.network, (port, id));
            self.ports.insert(port);
            for sources in [self.from, self.to] {
                self.machines.extend(sources.intent.ports.get(&port).and_then(machine));
            }
        }
    }

    /// The pins of a chain's paths: they name paths of the same chain.
    fn make_pins(&mut self, chain: ChainId) {
        for (id, path) in self.from.paths.of_chain(chain) {
            for node in path.nodes(self.from.nodes.keys()) {
                let Some(entries) = self.entries(&node) else { continue };
                (0..).zip(&path.pins).for_each(|(place, _)| {
                    entries.pins.remove(&(id, place));
                });
            }
        }
        let to = self.to;
        for (id, path) in to.paths.of_chain(chain) {
            if path.phase == PathPhase::Superseded || path.pins.is_empty() {
                continue;
            }
            let nodes = path.nodes(to.nodes.keys());
            for node in nodes.iter().filter(|node| path.is_classified_by(node)) {
                // Who did not classify into the former path knows none of its flows.
                let knows =
                    |old: PathId| to.paths.get(&old).is_some_and(|old| old.is_classified_by(node));
                let Some(entries) = self.entries(node) else { continue };
                for (place, pin) in (0..).zip(&path.pins).filter(|(_, pin)| knows(pin.old)) {
                    let entry = PinEntry {
                        old: pin.old,
                        new: id,
                        instances: pin.instances.clone(),
                        idle_ms: pin.idle_ms,
                    };
                    set(&mut entries.pins, (id, place), Some(entry));
                }
            }
        }
    }

    /// The name of a chain, where paths of it are: that of the newest.
    fn make_chain(&mut self, chain: ChainId) {
        let mut names: BTreeMap<NodeName, Option<&String>> = BTreeMap::new();
        for (_, path) in self.from.paths.of_chain(chain) {
            names.extend(path.nodes(self.from.nodes.keys()).into_iter().map(|node| (node, None)));
        }
        for (_, path) in self.to.paths.of_chain(chain) {
            let nodes = path.nodes(self.to.nodes.keys()).into_iter();
            names.extend(nodes.map(|node| (node, Some(&path.chain_name))));
        }
        for (node, name) in names {
            let entry = name.map(|name| ChainEntry { id: chain, name: name.clone() });
            if let Some(entries) = self.entries(&node) {
                set(&mut entries.chains, chain, entry);
            }
        }
    }

    // ----- ports -----

    fn take_ports(&mut self) {
        for (id, old, new) in differences(&self.from.intent.ports, &self.to.intent.ports) {
            self.ports.insert(*id);
            self.stations.insert(*id);
            self.move_member(old, new);
            let is_walked = self.programs.port_paths.has_any(*id);
            for (edit, port) in [(Edit::Remove, old), (Edit::Add, new)] {
                let Some(machine) = port.and_then(machine) else { continue };
                self.programs.machines.edit(edit, machine.clone(), *id);
                if is_walked {
                    self.programs.walked.edit(edit, machine.clone());
                }
                self.machines.insert(machine);
            }
        }
    }

    /// A network is told anew where a node gets its first port of it, or loses the last.
    fn move_member(&mut self, old: Option<&Port>, new: Option<&Port>) {
        let place = |port: &Port| Some((port.network, port.node.clone()?));
        let (old, new) = (old.and_then(place), new.and_then(place));
        if old == new {
            return;
        }
        for (edit, place) in [(Edit::Remove, old), (Edit::Add, new)] {
            let Some((network, node)) = place else { continue };
            let is_there = |programs: &Programs| {
                programs.members.get(&network).is_some_and(|all| all.of(&node) > 0)
            };
            let was_there = is_there(&self.programs);
            edit_within(&mut self.programs.members, edit, &network, node.clone());
            if was_there != is_there(&self.programs) {
                self.networks.insert(network);
            }
        }
    }

    /// The ports of functions that some chain has or had.
    fn take_functions(&mut self) {
        let (from, to) = (self.from.intent, self.to.intent);
        for (_, old, new) in differences(&from.chains, &to.chains) {
            let of = |intent, functions: &[FunctionId]| {
                functions.iter().flat_map(|id| ports_of_function(intent, *id)).collect::<Vec<_>>()
            };
            self.ports.extend(old.into_iter().flat_map(|chain| of(from, &chain.functions)));
            self.ports.extend(new.into_iter().flat_map(|chain| of(to, &chain.functions)));
        }
        for (id, ..) in differences(&from.functions, &to.functions) {
            self.ports.extend(ports_of_function(from, *id));
            self.ports.extend(ports_of_function(to, *id));
        }
        for (id, ..) in differences(&from.instances, &to.instances) {
            self.ports.extend(ports_of_instance(from, *id));
            self.ports.extend(ports_of_instance(to, *id));
        }
    }

    fn make_port(&mut self, id: PortId) {
        let mut wanted = self.port_entries(id);
        wanted.retain(|node, _| self.programs.nodes.contains_key(node));
        let holders: Arc<[NodeName]> = wanted.keys().cloned().collect();
        let former = match holders.is_empty() {
            true => self.programs.holders.remove(&id),
            false => self.programs.holders.insert(id, Arc::clone(&holders)),
        };
        let nodes: BTreeSet<&NodeName> =
            former.iter().flat_map(|all| all.iter()).chain(holders.iter()).collect();
        let mut moved = Vec::new();
        for node in nodes {
            let Some(entries) = self.entries(node) else { continue };
            let (known, entry) = (entries.ports.get(&id), wanted.remove(node));
            let networks = (known.map(|e| e.network), entry.as_ref().map(|e| e.network));
            if networks.0 != networks.1 {
                moved.push((node.clone(), networks));
            }
            set(&mut entries.ports, id, entry);
            self.make_exit(node, id);
        }
        for (node, (old, new)) in moved {
            for (edit, network) in [(Edit::Remove, old), (Edit::Add, new)] {
                network.iter().for_each(|network| self.edit_use(edit, &node, *network));
            }
        }
    }

    /// A port as its node has it, and other nodes whose paths still need it though it is not declared
    /// there any more. A port of a path is a function's, whatever is declared now.
    fn port_entries(&self, id: PortId) -> BTreeMap<NodeName, PortEntry> {
        let intent = self.to.intent;
        let on_paths = self.programs.port_nodes.get(&id);
        let mut entries = BTreeMap::new();
        let declared = intent.ports.get(&id);
        if let Some((port, node)) = declared.and_then(|port| Some((port, port.node.as_ref()?))) {
            let is_on_path = on_paths.is_some_and(|nodes| nodes.of(node) > 0);
            let is_function = is_on_path || is_of_chain(intent, id);
            let role = if is_function { PortRole::Function } else { PortRole::Endpoint };
            entries.extend(port_entry(intent, port, role).map(|entry| (node.clone(), entry)));
        }
        let mut nodes = on_paths.into_iter().flat_map(Counts::iter);
        if nodes.any(|(node, _)| !entries.contains_key(node)) {
            for (node, entry) in self.entries_on_paths(id) {
                entries.entry(node).or_insert(entry);
            }
        }
        let own = declared.filter(|port| port.own_traffic == OwnTraffic::Own).and_then(machine);
        let own_sources = own.and_then(|machine| self.addresses(machine));
        let made = entries.into_iter();
        made.map(|(node, e)| (node, PortEntry { own_sources: own_sources.clone(), ..e })).collect()
    }

    /// A port as paths remember it, at each node where one does. Looks at all paths over it.
    fn entries_on_paths(&self, id: PortId) -> BTreeMap<NodeName, PortEntry> {
        let paths = self.programs.port_paths.of(id).filter_map(|path| self.to.paths.get(&path));
        let placed = paths.flat_map(|path| &path.ports).filter(|placed| {
            placed.port.id == id && self.to.intent.networks.contains_key(&placed.port.network)
        });
        placed.map(|placed| (placed.node.clone(), placed.port.clone())).collect()
    }

    /// The addresses of a machine of a function that paths go through. What such a machine sends by a
    /// port of it that is in no pair could be a packet of a path that goes past the functions that
    /// remain.
    fn addresses(&self, machine: Machine) -> Option<Vec<IpAddr>> {
        let is_walked = self.programs.walked.of(&machine) > 0;
        let ports = self.programs.machines.of(machine);
        let declared = ports.filter_map(|id| self.to.intent.ports.get(&id));
        let addresses = declared.flat_map(|port| &port.fixed_ips).map(|fixed| fixed.address);
        is_walked.then(|| addresses.collect())
    }

    // ----- networks -----

    fn take_networks(&mut self) {
        let (from, to) = (self.from.intent, self.to.intent);
        for (id, ..) in differences(&from.networks, &to.networks) {
            self.networks.insert(*id);
            self.ports.extend(self.programs.placed.of(*id).map(|(port, _)| port));
        }
        for (_, old, new) in differences(&from.subnets, &to.subnets) {
            self.networks.extend([old, new].into_iter().flatten().map(|subnet| subnet.network));
        }
    }

    fn is_present(&self, node: &NodeName, network: NetworkId) -> bool {
        self.programs.uses.get(&network).is_some_and(|nodes| nodes.of(node) > 0)
    }

    /// The nodes at which a network is, or was before.
    fn nodes_of(&self, network: NetworkId) -> Vec<NodeName> {
        let uses = [&self.uses_before, &self.programs.uses];
        let nodes = uses.into_iter().filter_map(|uses| uses.get(&network)).flat_map(Counts::iter);
        nodes.map(|(node, _)| node.clone()).collect()
    }

    /// A network that may have come to a node, or gone.
    fn make_place(&mut self, node: &NodeName, network: NetworkId) {
        let was_present = self.uses_before.get(&network).is_some_and(|nodes| nodes.of(node) > 0);
        if self.is_present(node, network) == was_present {
            return;
        }
        self.make_network_at(node, network);
        for sources in [self.from, self.to] {
            let ports: Vec<PortId> = sources.intent.index().ports_of_network(network).collect();
            ports.into_iter().for_each(|port| self.make_station(node, port));
        }
    }

    fn make_network(&mut self, network: NetworkId) {
        for node in self.nodes_of(network).into_iter().collect::<BTreeSet<_>>() {
            self.make_network_at(&node, network);
        }
    }

    fn make_network_at(&mut self, node: &NodeName, network: NetworkId) {
        let declared = self.to.intent.networks.get(&network);
        let declared = declared.filter(|_| self.is_present(node, network));
        let entry = declared.map(|declared| self.network_entry(node, declared));
        if let Some(entries) = self.entries(node) {
            set(&mut entries.networks, network, entry);
        }
    }

    fn network_entry(&self, node: &NodeName, network: &Network) -> NetworkEntry {
        let intent = self.to.intent;
        let subnets = || {
            let ids = intent.index().subnets_of_network(network.id);
            ids.filter_map(|id| intent.subnets.get(&id))
        };
        let members = self.programs.members.get(&network.id);
        let members = members.into_iter().flat_map(Counts::iter).map(|(member, _)| member);
        NetworkEntry {
            id: network.id,
            name: network.label.name.clone(),
            vni: network.vni,
            prefixes: subnets().map(|subnet| subnet.cidr.trunc()).collect(),
            gateways: subnets().filter_map(|subnet| subnet.gateway).collect(),
            members: members.filter(|member| *member != node).cloned().collect(),
        }
    }

    /// Where a port's MAC is and which addresses it has, at a node where its network is present.
    fn make_station(&mut self, node: &NodeName, id: PortId) {
        let declared = self.to.intent.ports.get(&id);
        let declared = declared.filter(|port| self.is_present(node, port.network));
        let located = declared.and_then(|port| Some((port, port.node.as_ref()?)));
        let Some(entries) = self.entries(node) else { return };
        let mac = located.map(|(port, at)| {
            let at = if at == node { Location::Port(id) } else { Location::Node(at.clone()) };
            MacEntry { network: port.network, mac: port.mac, at }
        });
        set(&mut entries.macs, id, mac);
        let fixed = located.map(|(port, _)| (port, port.fixed_ips.as_slice()));
        let mut addresses = fixed.into_iter().flat_map(|(port, fixed)| {
            fixed.iter().map(move |fixed| NeighbourEntry {
                network: port.network,
                address: fixed.address,
                mac: port.mac,
            })
        });
        for place in 0.. {
            let entry = addresses.next();
            if entry.is_none() && !entries.neighbours.contains_key(&(id, place)) {
                break;
            }
            set(&mut entries.neighbours, (id, place), entry);
        }
    }
}

/// The rules of a path at one of its nodes: at its end, and, while classifiers send into it, where
/// packets begin.
fn rules_at<'p>(
    id: PathId,
    path: &'p PathRecord,
    node: &NodeName,
    sources: Sources<'_>,
) -> Vec<(RuleKey, &'p RuleEntry)> {
    let mut rules: Vec<(&[u16], &RuleEntry)> = Vec::new();
    let ends = || path.ends(&path.entrances, sources.nodes.keys());
    if !path.branches.is_empty() && ends().contains(node) {
        rules.extend(path.branches.iter().map(|rule| (&[][..], rule)));
    }
    if path.phase == PathPhase::Classified {
        let is_here = |at: &Option<NodeName>| at.as_ref().is_none_or(|at| at == node);
        let placed = path.rules.iter().filter(|placed| is_here(&placed.node));
        rules.extend(placed.map(|placed| (&placed.order[..], &placed.rule)));
    }
    let key = |part, (order, rule): (&[u16], &'p RuleEntry)| {
        let (priority, order) = (Reverse(rule.priority), order.to_vec());
        let key = RuleKey { priority, order, path: rule.path, rule: rule.id, source: id, part };
        (key, rule)
    };
    (0..).zip(rules).map(|(part, rule)| key(part, rule)).collect()
}

/// Is it the port of an instance that some chain meets? A pair that no chain uses changes nothing
/// about its ports.
fn is_of_chain(intent: &IndexedIntent, port: PortId) -> bool {
    let index = intent.index();
    index
        .instances_of_port(port)
        .any(|instance| index.chains_of_instance(instance).next().is_some())
}

fn ports_of_instance(intent: &IndexedIntent, id: InstanceId) -> Vec<PortId> {
    let instance = intent.instances.get(&id);
    instance.map(|instance| vec![instance.ingress, instance.egress]).unwrap_or_default()
}

fn ports_of_function(intent: &IndexedIntent, id: FunctionId) -> Vec<PortId> {
    let function = intent.functions.get(&id);
    let instances = function.into_iter().flat_map(|function| &function.instances);
    instances.flat_map(|instance| ports_of_instance(intent, *instance)).collect()
}
