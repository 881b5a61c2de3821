//! From the program to the tables. Knows which contradictions a program may not hold, and which
//! absences it may: a path that is being taken down can outlive a port or network it names.

use super::classifier::{Rules, Surroundings};
use super::encap::{self, Positions, Written};
use super::flow_memory::Key;
use super::pins::Pins;
use super::rendezvous;
use super::short_keys::ShortKeys;
use super::slices::Slices;
use super::tables::{
    Descent, HopTable, InstancePlace, InstanceTable, LocalInstance, NetworkIndex, NetworkTable,
    NodeIndex, PathTable, PortIndex, PortTable, Seat, Tables, WatchedInstance,
};
use catena_model::id::{ChainId, NetworkId, PortId};
use catena_model::limits::{
    CHAIN_FUNCTIONS_MAX, FUNCTION_INSTANCES_MAX, NODE_ADDRESSES_MAX, NODE_PATHS_MAX,
    NODE_PORTS_MAX, NODE_RULES_MAX, NODE_SLICES_MAX,
};
use catena_model::program::{
    HopEntry, HopKind, InstanceEntry, Location, NetworkEntry, PathEntry, PortEntry, RewriteEntry,
    RulePlace,
};
use catena_model::resource::{Encapsulation, FailurePolicy};
use catena_model::{NodeName, NodeProgram, PathId, SliceId};
use catena_wire::scalar::MacAddr;
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

/// Why a program cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// A table has more entries than its limit.
    #[error("the program has {have} {what}; at most {max} are carried")]
    TooMany {
        /// What there is too much of.
        what: &'static str,
        /// How many the program has.
        have: usize,
        /// The limit.
        max: usize,
    },
    /// Two entries have the same identity.
    #[error("{what} {id} is in the program twice")]
    Twice {
        /// The kind of entry.
        what: &'static str,
        /// Its identity.
        id: String,
    },
    /// A port is in a network that the program does not hold.
    #[error("port {port} is in network {network}, which is not in the program")]
    PortWithoutNetwork {
        /// The port.
        port: PortId,
        /// The network.
        network: NetworkId,
    },
    /// A rule sends into a path that the program does not hold.
    #[error("rule '{rule}' sends into path {path}, which is not in the program")]
    RuleWithoutPath {
        /// Name of the rule.
        rule: String,
        /// The path.
        path: PathId,
    },
    /// A slice, or a path of one, speaks of a path that the program does not hold.
    #[error("slice {slice} speaks of path {path}, which is not in the program")]
    SliceWithoutPath {
        /// The slice.
        slice: SliceId,
        /// The path.
        path: PathId,
    },
    /// The path of a slice goes, or delivers in another network, while a slice that stays speaks of it.
    #[error("path {path} cannot go, or deliver elsewhere: a slice speaks of it")]
    SlicePathInUse {
        /// The path.
        path: PathId,
    },
    /// A change of what is not there.
    #[error("{what} {id} is changed, and not in the program")]
    Missing {
        /// The kind of entry.
        what: &'static str,
        /// Its identity.
        id: String,
    },
    /// A path identifier lies outside the pool of its encapsulation.
    #[error("path {path} cannot be carried as {}: its identifier is outside the pool", encapsulation.name())]
    PathIdentifier {
        /// The path.
        path: PathId,
        /// The encapsulation.
        encapsulation: Encapsulation,
    },
}

/// What the entries' names resolve to.
struct Names<'p> {
    node: &'p NodeName,
    nodes: HashMap<&'p NodeName, NodeIndex>,
    networks: HashMap<NetworkId, NetworkIndex>,
    ports: HashMap<PortId, PortIndex>,
}

pub(super) fn compile(program: &NodeProgram) -> Result<Tables, CompileError> {
    check_limits(program)?;
    let names = Names {
        node: &program.node,
        nodes: index(&program.tunnels, "node", |entry| &entry.node, NodeIndex)?,
        networks: index(&program.networks, "network", |entry| entry.id, NetworkIndex)?,
        ports: index(&program.ports, "port", |entry| entry.id, PortIndex)?,
    };
    let mut uses = port_uses(program, &names);
    let joined = joined_paths(program);
    let addresses = addresses(program);
    let own_addresses = |used: &PortUse| {
        let siblings = used.siblings.iter().map(|port| &program.ports[usize::from(port.0)]);
        let known = siblings.filter_map(|port| addresses.get(&(port.network, port.mac)));
        known.flatten().copied().collect()
    };
    let ports = program.ports.iter().map(|entry| {
        let used = uses.remove(&entry.id);
        port_table(entry, used, own_addresses, &joined, &names)
    });
    let ports = ports.collect::<Result<Vec<_>, _>>()?;
    let vnis = index(&program.networks, "VNI", |entry| u32::from(entry.vni), NetworkIndex)?;
    let mut paths = Vec::with_capacity(program.paths.len());
    let mut watched = Vec::new();
    let mut chain_ends = HashMap::new();
    for entry in &program.paths {
        let mut path = path_table(entry, &names, &mut watched)?;
        path.network = network_of(entry, program, &names);
        let next = u32::try_from(chain_ends.len()).unwrap_or(u32::MAX);
        path.chain_end =
            (!entry.is_way_back).then(|| *chain_ends.entry(entry.chain).or_insert(next));
        paths.push(path);
    }
    for instance in &mut watched {
        let network = program.ports[usize::from(instance.ingress.0)].network;
        let known = addresses.get(&(network, instance.ingress_mac));
        instance.addresses = known.cloned().unwrap_or_default();
    }
    let vni_of = |path: &PathTable| {
        path.destination.map(|network| program.networks[usize::from(network.0)].vni)
    };
    let positions = Positions::compile(&paths, vni_of, &program.slice_paths)?;
    let vnis = program.networks.iter().map(|n| (n.vni, vnis[&u32::from(n.vni)])).collect();
    let surroundings = Surroundings { ports: &names.ports, paths: &paths, positions: &positions };
    let rules = Rules::compile(&program.rules, &surroundings)?;
    let mut tables = Tables {
        program: Arc::new(without_slices(program)),
        number: program.number,
        choice_seed: program.choice_seed,
        underlay_mtu: program.underlay.mtu,
        networks: networks(program, &names).into(),
        vnis: Arc::new(vnis),
        nodes: program.tunnels.iter().map(|entry| entry.address).collect(),
        sources: Arc::new(sources(program, &names)),
        rules: Arc::new(rules),
        pins: Arc::new(Pins::compile(&program.pins, &program.paths, &positions)),
        port_indexes: Arc::new(names.ports),
        has_rewriters: paths.iter().any(PathTable::is_rewritten_here),
        ports: ports.into(),
        positions,
        chain_ends: Arc::new(chain_ends),
        descent: Descent::root(),
        paths: paths.into(),
        watched: watched.into(),
        slices: Slices::default(),
        slice_order: OnceLock::new(),
    };
    tables.fill_slices(program)?;
    Ok(tables)
}

/// What names are looked up in; slices have theirs in a table of their own.
fn without_slices(program: &NodeProgram) -> NodeProgram {
    NodeProgram {
        node: program.node.clone(),
        number: program.number,
        underlay: program.underlay,
        choice_seed: program.choice_seed,
        tunnels: program.tunnels.clone(),
        networks: program.networks.clone(),
        ports: program.ports.clone(),
        macs: program.macs.clone(),
        neighbours: program.neighbours.clone(),
        rules: program.rules.clone(),
        paths: program.paths.clone(),
        chains: program.chains.clone(),
        pins: program.pins.clone(),
        slices: Vec::new(),
        slice_paths: Vec::new(),
    }
}

fn check_limits(program: &NodeProgram) -> Result<(), CompileError> {
    let at_most = |what, have, max| {
        if have > max { Err(CompileError::TooMany { what, have, max }) } else { Ok(()) }
    };
    // Ports, networks and nodes are counted in 16 bits; NODE_PORTS_MAX is below that.
    at_most("ports", program.ports.len(), NODE_PORTS_MAX)?;
    at_most("networks", program.networks.len(), NODE_PORTS_MAX)?;
    at_most("nodes", program.tunnels.len(), NODE_PORTS_MAX)?;
    at_most("rules", program.rules.len(), NODE_RULES_MAX)?;
    at_most("paths", program.paths.len(), NODE_PATHS_MAX)?;
    at_most("chains", program.chains.len(), NODE_PATHS_MAX)?;
    at_most("pins", program.pins.len(), NODE_PATHS_MAX)?;
    at_most("MACs", program.macs.len(), NODE_ADDRESSES_MAX)?;
    at_most("addresses", program.neighbours.len(), NODE_ADDRESSES_MAX)?;
    at_most("slices", program.slices.len(), NODE_SLICES_MAX)?;
    at_most("paths of slices", program.slice_paths.len(), NODE_SLICES_MAX)?;
    for path in &program.paths {
        at_most("functions in one path", path.hops.len(), CHAIN_FUNCTIONS_MAX)?;
        for hop in &path.hops {
            at_most("instances of one function", hop.instances.len(), FUNCTION_INSTANCES_MAX)?;
        }
    }
    Ok(())
}

/// Numbers the entries of a table by a key that must be unique.
fn index<'p, E, K: std::hash::Hash + Eq + ToString, I>(
    entries: &'p [E],
    what: &'static str,
    key: impl Fn(&'p E) -> K,
    make: impl Fn(u16) -> I,
) -> Result<HashMap<K, I>, CompileError> {
    let mut index = HashMap::with_capacity(entries.len());
    for (number, entry) in (0..=u16::MAX).zip(entries) {
        let id = key(entry).to_string();
        if index.insert(key(entry), make(number)).is_some() {
            return Err(CompileError::Twice { what, id });
        }
    }
    Ok(index)
}

/// What the paths want of a port.
#[derive(Default)]
struct PortUse {
    speaks: Vec<Encapsulation>,
    reaches: Vec<NetworkIndex>,
    /// All ports of the instances that it belongs to, itself included.
    siblings: Vec<PortIndex>,
    /// The paths that come out of it bare, with their chains.
    bare: Vec<(ChainId, PathId)>,
    /// The networks of those paths.
    networks: Vec<u32>,
    /// One of those functions does not keep MACs.
    changes_mac: bool,
    rewrites: Vec<RewriteEntry>,
}

fn port_uses(program: &NodeProgram, names: &Names<'_>) -> HashMap<PortId, PortUse> {
    let mut uses: HashMap<PortId, PortUse> = HashMap::new();
    for path in &program.paths {
        let destination = names.networks.get(&path.destination);
        let hops = path.hops.iter();
        let instances = hops.flat_map(|hop| hop.instances.iter().map(move |one| (hop, one)));
        for (hop, instance) in instances {
            if instance.node == *names.node {
                let ports = [instance.ingress, instance.egress];
                for port in ports {
                    let used = uses.entry(port).or_default();
                    used.reaches.extend(destination);
                    used.siblings.extend(ports.iter().filter_map(|port| names.ports.get(port)));
                }
                let egress = uses.entry(instance.egress).or_default();
                egress.speaks.extend(instance.speaks);
                if instance.speaks.is_none() && hop.kind == HopKind::Through {
                    egress.bare.push((path.chain, path.id));
                    egress.networks.push(network_of(path, program, names));
                    egress.changes_mac |= !hop.keeps_mac;
                    let known = |entry: &&RewriteEntry| !egress.rewrites.contains(entry);
                    egress.rewrites.extend(hop.rewrites.as_ref().filter(known).cloned());
                }
            }
        }
    }
    for port in uses.values_mut() {
        port.speaks.sort_unstable();
        port.speaks.dedup();
        port.reaches.sort_unstable();
        port.reaches.dedup();
        port.siblings.sort_unstable();
        port.siblings.dedup();
        port.bare.sort_unstable();
        port.bare.dedup();
        port.networks.sort_unstable();
        port.networks.dedup();
    }
    uses
}

/// What the proxy's memory calls the network of a path.
fn network_of(path: &PathEntry, program: &NodeProgram, names: &Names<'_>) -> u32 {
    let network = names.networks.get(&path.destination);
    network.map_or(Key::UNTOLD, |index| program.networks[usize::from(index.0)].vni.into())
}

/// The paths that a packet may be on before or behind another.
fn joined_paths(program: &NodeProgram) -> HashSet<PathId> {
    let ends = program.rules.iter().filter_map(|rule| match rule.matches.place {
        RulePlace::After(ended) => Some([ended, rule.path]),
        RulePlace::Endpoints | RulePlace::Port(_) => None,
    });
    ends.flatten().collect()
}

/// The addresses of each MAC of each network.
fn addresses(program: &NodeProgram) -> HashMap<(NetworkId, MacAddr), Vec<IpAddr>> {
    let mut addresses: HashMap<_, Vec<IpAddr>> = HashMap::new();
    for entry in &program.neighbours {
        addresses.entry((entry.network, entry.mac)).or_default().push(entry.address);
    }
    addresses
}

fn port_table(
    entry: &PortEntry,
    used: Option<PortUse>,
    own_addresses: impl Fn(&PortUse) -> Vec<IpAddr>,
    joined: &HashSet<PathId>,
    names: &Names<'_>,
) -> Result<PortTable, CompileError> {
    let network = *names
        .networks
        .get(&entry.network)
        .ok_or(CompileError::PortWithoutNetwork { port: entry.id, network: entry.network })?;
    let is_on_path = used.is_some();
    let used = used.unwrap_or_default();
    Ok(PortTable {
        entry: entry.clone(),
        network,
        is_on_path,
        is_shared: used.bare.windows(2).any(|pair| pair[0].0 == pair[1].0)
            || (used.bare.len() > 1 && used.bare.iter().any(|(_, path)| joined.contains(path))),
        keeps_mac: !used.bare.is_empty() && !used.changes_mac,
        bare: used.bare.iter().map(|(_, path)| *path).collect(),
        own_addresses: own_addresses(&used),
        siblings: used.siblings,
        networks: used.networks,
        rewrites: used.rewrites,
        speaks: used.speaks,
        reaches: used.reaches,
    })
}

fn networks(program: &NodeProgram, names: &Names<'_>) -> Vec<NetworkTable> {
    let mut tables: Vec<NetworkTable> =
        program.networks.iter().map(|entry| network_table(entry, names)).collect();
    for (port, entry) in (0..=u16::MAX).map(PortIndex).zip(&program.ports) {
        if let Some(index) = names.networks.get(&entry.network) {
            tables[usize::from(index.0)].ports.push(port);
        }
    }
    for entry in &program.macs {
        let seat = match &entry.at {
            Location::Port(port) => names.ports.get(port).map(|port| Seat::Port(*port)),
            Location::Node(node) => names.nodes.get(node).map(|node| Seat::Node(*node)),
        };
        if let (Some(index), Some(seat)) = (names.networks.get(&entry.network), seat) {
            tables[usize::from(index.0)].macs.insert(entry.mac, seat);
        }
    }
    for entry in &program.neighbours {
        if let Some(index) = names.networks.get(&entry.network) {
            tables[usize::from(index.0)].neighbours.insert(entry.address, entry.mac);
        }
    }
    for (table, entry) in tables.iter_mut().zip(&program.networks) {
        let macs = |is_v4: bool| -> Vec<MacAddr> {
            let gateways = entry.gateways.iter().filter(|gateway| gateway.is_ipv4() == is_v4);
            gateways.filter_map(|gateway| table.neighbours.get(gateway).copied()).collect()
        };
        let (v4, v6) = (macs(true), macs(false));
        table.gateways = v4;
        table.gateways_v6 = v6;
    }
    tables
}

fn network_table(entry: &NetworkEntry, names: &Names<'_>) -> NetworkTable {
    NetworkTable {
        vni: entry.vni,
        prefixes: entry.prefixes.clone(),
        gateways: Vec::new(),
        gateways_v6: Vec::new(),
        ports: Vec::new(),
        members: entry.members.iter().filter_map(|node| names.nodes.get(node).copied()).collect(),
        macs: HashMap::default(),
        neighbours: HashMap::default(),
    }
}

fn sources(program: &NodeProgram, names: &Names<'_>) -> HashMap<IpAddr, NodeIndex, ShortKeys> {
    let pairs = program.tunnels.iter().map(|entry| (entry.address, names.nodes[&entry.node]));
    pairs.collect()
}

fn path_table(
    entry: &PathEntry,
    names: &Names<'_>,
    watched: &mut Vec<WatchedInstance>,
) -> Result<PathTable, CompileError> {
    if !encap::pool(entry.encapsulation).contains(&entry.id.0) {
        let encapsulation = entry.encapsulation;
        return Err(CompileError::PathIdentifier { path: entry.id, encapsulation });
    }
    let context = match entry.encapsulation {
        Encapsulation::Nsh => Written::compile(&entry.context, names.node)?,
        Encapsulation::Mpls => Written::default(),
    };
    let mut local_instances: Vec<LocalInstance> = Vec::new();
    let mut hops = Vec::with_capacity(entry.hops.len());
    for (number, hop) in (0..=u16::MAX).zip(&entry.hops) {
        hops.push(hop_table(number, hop, names, &mut local_instances, watched));
    }
    Ok(PathTable {
        chain: entry.chain,
        id: entry.id,
        encapsulation: entry.encapsulation,
        hops,
        context,
        destination: names.networks.get(&entry.destination).copied(),
        network: Key::UNTOLD,
        is_way_back: entry.is_way_back,
        chain_end: None,
        senders: senders(entry, names),
        local_instances,
    })
}

/// Who sends to each position: the nodes of the function before, and those of its own, where one of
/// its instances may stand in for another. Which nodes classify into a path no program says.
fn senders(entry: &PathEntry, names: &Names<'_>) -> Vec<Option<Box<[NodeIndex]>>> {
    let nodes = |hop: &HopEntry| -> Vec<NodeIndex> {
        let nodes = hop.instances.iter().filter_map(|one| names.nodes.get(&one.node).copied());
        nodes.collect()
    };
    let mut before: Option<Vec<NodeIndex>> = None;
    let mut senders = Vec::with_capacity(entry.hops.len() + 1);
    for hop in entry.hops.iter().map(Some).chain([None]) {
        let own = hop.map(nodes).unwrap_or_default();
        senders.push(before.as_ref().map(|before| {
            let mut all: Vec<NodeIndex> = before.iter().chain(&own).copied().collect();
            all.sort_unstable();
            all.dedup();
            all.into()
        }));
        if hop.is_some_and(|hop| hop.kind == HopKind::Through) {
            before = Some(own);
        }
    }
    senders
}

fn hop_table(
    number: u16,
    hop: &HopEntry,
    names: &Names<'_>,
    local_instances: &mut Vec<LocalInstance>,
    watched: &mut Vec<WatchedInstance>,
) -> HopTable {
    let mut instances = Vec::with_capacity(hop.instances.len());
    for entry in &hop.instances {
        let watch = watch(hop, entry, names, watched);
        instances.push(InstanceTable {
            seed: rendezvous::seed(entry.id),
            weight: entry.weight,
            place: instance_place(number, hop.kind, entry, names, local_instances),
            watch,
        });
        if entry.node == *names.node {
            local_instances.push(LocalInstance {
                hop: number,
                id: entry.id,
                name: entry.name.clone(),
                ingress: names.ports.get(&entry.ingress).copied(),
                egress: names.ports.get(&entry.egress).copied(),
                is_tap: hop.kind == HopKind::Tap,
                watch,
            });
        }
    }
    HopTable {
        kind: hop.kind,
        balance: hop.balance.clone(),
        rewrites: hop.rewrites.clone(),
        keeps_mac: hop.keeps_mac,
        instances,
        on_failure: hop.on_failure,
    }
}

/// The place of an instance among those that are probed. What a tap gets does not come back, hence
/// nobody could tell what it does.
fn watch(
    hop: &HopEntry,
    entry: &InstanceEntry,
    names: &Names<'_>,
    watched: &mut Vec<WatchedInstance>,
) -> Option<u32> {
    let is_watched = hop.on_failure != FailurePolicy::Unwatched && hop.kind == HopKind::Through;
    if !is_watched || entry.node != *names.node {
        return None;
    }
    let (ingress, egress) = (*names.ports.get(&entry.ingress)?, *names.ports.get(&entry.egress)?);
    let known = watched.iter().position(|watched| watched.id == entry.id);
    let place = known.unwrap_or_else(|| {
        watched.push(WatchedInstance {
            id: entry.id,
            name: entry.name.clone(),
            ingress,
            egress,
            ingress_mac: entry.ingress_mac,
            addresses: Vec::new(),
        });
        watched.len() - 1
    });
    u32::try_from(place).ok()
}

fn instance_place(
    number: u16,
    kind: HopKind,
    entry: &InstanceEntry,
    names: &Names<'_>,
    earlier: &[LocalInstance],
) -> InstancePlace {
    if entry.node != *names.node {
        let node = names.nodes.get(&entry.node).copied();
        return node.map_or(InstancePlace::Nowhere, InstancePlace::There);
    }
    let ports = (names.ports.get(&entry.ingress), names.ports.get(&entry.egress));
    let (Some(&ingress), Some(&egress)) = ports else { return InstancePlace::Unported };
    // What an unaware function returns tells nothing but its port and flow. Of siblings at one hop
    // a flow meets only one, so these may share a port.
    let is_silent = |local: &LocalInstance| local.is_tap && kind == HopKind::Tap;
    let is_used = |local: &LocalInstance| {
        local.hop != number && local.egress == Some(egress) && !is_silent(local)
    };
    if entry.speaks.is_none() && earlier.iter().any(is_used) {
        return InstancePlace::Ambiguous;
    }
    InstancePlace::Here {
        ingress,
        egress,
        ingress_mac: entry.ingress_mac,
        speaks: entry.speaks,
        local: u32::try_from(earlier.len()).unwrap_or(u32::MAX),
    }
}
