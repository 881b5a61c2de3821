//! The programs of all nodes, made whole of everything there is: what those must be that follow one
//! change after the other.

#![allow(clippy::unwrap_used)]

use crate::{Blueprint, Direction, Intent, Inventory, Ledger, PathPhase, PathRecord, SlicePhase};
use catena_model::bundle::{Configuration, ConfigurationEntry, MemberEntry};
use catena_model::id::{NetworkId, PortId};
use catena_model::program::{
    Balance, BorderEntry, ChainEntry, DetourEntry, ExitEntry, ExitPlace, HopEntry, HopKind,
    IdentityEntry, Location, MacEntry, NeighbourEntry, NetworkEntry, NodeIdentity, OnwardEntry,
    PathEntry, PinEntry, PortEntry, PortRole, RouteEntry, RuleEntry, SetupEntry, StitchEntry,
    TunnelEntry,
};
use catena_model::resource::{FailurePolicy, Network, OwnTraffic, Port};
use catena_model::topology::CableEnd;
use catena_model::{BlueprintNumber, NodeName, NodeProgram, PathId, ProjectId};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// What every node is told by a blueprint that was made for this intent and these nodes.
pub(crate) fn assert_programs(blueprint: &Blueprint, intent: &Intent, inventory: &Inventory) {
    let whole = programs(&blueprint.ledger, intent, inventory);
    let told = blueprint.programs.keys();
    assert!(told.eq(whole.keys().chain(inventory.switches.keys())));
    for (node, facts) in &inventory.switches {
        let told = blueprint.program(node).unwrap();
        let itself = NodeProgram {
            choice_seed: blueprint.ledger.choice_seed,
            discovery_key: blueprint.ledger.discovery_key,
            exits: exits(&blueprint.ledger, node, &[]),
            identities: identities(&blueprint.ledger, node),
            ..NodeProgram::empty(node.clone(), told.number, facts.underlay)
        };
        assert_eq!(told, itself, "a switch knows nothing of tenants");
    }
    for (node, mut program) in whole {
        program.number = blueprint.programs.get(&node).unwrap().number;
        let mut told = blueprint.program(&node).unwrap();
        assert_slices(blueprint, &node, &told);
        (told.slices, told.slice_paths) = Default::default();
        assert_eq!(told, program);
    }
}

/// What a node is told of slices: it depends on nothing but how far their paths have come.
fn assert_slices(blueprint: &Blueprint, node: &NodeName, told: &NodeProgram) {
    let (mut slices, mut paths) = (BTreeSet::new(), BTreeSet::new());
    for (id, path) in blueprint.slices.paths() {
        let like = blueprint.ledger.paths.get(&path.like);
        let mut hops = like.into_iter().flat_map(|like| &like.hops);
        let is_hop = hops.any(|hop| hop.instances.iter().any(|one| one.node == *node));
        let classifies = path.at.as_ref().is_none_or(|at| at == node);
        let is_known = match path.phase {
            SlicePhase::Installed => is_hop,
            SlicePhase::Classified | SlicePhase::Superseded => is_hop || classifies,
            SlicePhase::Forgotten => false,
        };
        paths.extend(is_known.then_some((id, path.slice, path.like, path.carries_metadata)));
        let is_entered = path.phase == SlicePhase::Classified && classifies;
        slices.extend(is_entered.then_some((path.slice, id)));
    }
    let told_paths = told.slice_paths.iter();
    let told_paths = told_paths.map(|path| (path.id, path.slice, path.like, path.carries_metadata));
    assert_eq!(told_paths.collect::<BTreeSet<_>>(), paths);
    let told_slices = told.slices.iter().map(|slice| (slice.id, slice.path));
    assert_eq!(told_slices.collect::<BTreeSet<_>>(), slices);
}

/// The programs of all nodes, all with number 0: the caller knows which of them are new.
fn programs(
    ledger: &Ledger,
    intent: &Intent,
    inventory: &Inventory,
) -> BTreeMap<NodeName, NodeProgram> {
    let functions =
        Functions { ports: function_ports(intent), machines: function_machines(ledger, intent) };
    let make = |node: &NodeName| program(node, ledger, intent, inventory, &functions);
    inventory.nodes.keys().filter_map(|node| Some((node.clone(), make(node)?))).collect()
}

/// What port numbers stand for at a node, in their order; those of ports only where the port is.
fn exits(ledger: &Ledger, node: &NodeName, ports: &[PortEntry]) -> Vec<ExitEntry> {
    let books = ledger.port_numbers.get(node).into_iter();
    let entries = books.flat_map(|book| book.exits()).map(|(number, to)| ExitEntry { number, to });
    let is_there = |exit: &ExitEntry| match exit.to {
        ExitPlace::Link(_) | ExitPlace::Pathlet(_) => true,
        ExitPlace::Port(id) => ports.iter().any(|port| port.id == id),
    };
    let mut exits: Vec<ExitEntry> = entries.filter(is_there).collect();
    exits.sort_by_key(|exit| exit.number);
    exits
}

/// The ways of a node to the ports that any path on source routes leads to from there, looked up path by path.
fn routes(ledger: &Ledger, inventory: &Inventory, node: &NodeName) -> Vec<RouteEntry> {
    let mut ends: BTreeSet<(NodeName, PortId)> = BTreeSet::new();
    for path in ledger.paths.values() {
        for (port, send) in path.sends() {
            if send.origins(inventory.nodes.keys()).contains(&node) {
                ends.insert((send.to, port));
            }
        }
    }
    let route = |(end, port): (NodeName, PortId)| {
        let legs = ledger.ways.get(node)?.get(&end)?;
        let last = ledger.port_numbers.get(&end)?.of_port(port)?;
        Some(RouteEntry {
            node: end.clone(),
            to: port,
            ports: legs.iter().map(|leg| leg.port).chain([last]).collect(),
            detours: detours(ledger, node, &end),
            identities: named(ledger, legs, &end, 0),
            later_identities: named(ledger, legs, &end, 1),
            mtu: mtu(ledger, (node, &end)),
        })
    };
    ends.into_iter().filter_map(route).collect()
}

/// What every cable of a way takes, and of its detours, as both ends of each told.
fn mtu(ledger: &Ledger, (from, to): (&NodeName, &NodeName)) -> Option<u16> {
    let mut legs = ledger.ways[from].get(to)?.clone();
    let own = ledger.detours.get(from).and_then(|own| own.get(to));
    legs.extend(own.into_iter().flat_map(|way| &way.detours).flat_map(|one| one.ends.clone()));
    let mut least = u16::MAX;
    for leg in &legs {
        let cable = ledger.cables.iter().find(|ends| ends.contains(leg))?;
        for end in cable {
            least = least.min(*ledger.link_mtus.get(&end.node)?.get(&end.port)?);
        }
    }
    (!legs.is_empty()).then_some(least)
}

/// Where headers over several functions end between two of them: at edges that know what to write there.
fn stitches(ledger: &Ledger, node: &NodeName) -> Vec<StitchEntry> {
    let own = ledger.stitches.get(node).into_iter().flat_map(|own| own.iter());
    let stitch = |stitch: &crate::Stitch| {
        let StitchEntry { from, to, at, number, .. } = &stitch.entry;
        let edge = &ledger.ways[from][&to[0].0][usize::from(*at)].node;
        assert_eq!(stitch.edges[0], (edge.clone(), *number));
        for (edge, number) in &stitch.edges {
            assert!(ledger.port_numbers[edge].pathlet_of(*number).unwrap().is_known);
        }
        stitch.entry.clone()
    };
    own.map(stitch).collect()
}

/// Where headers of a node end that have no room for the whole of its ways: at edges that know what to write there.
fn borders(ledger: &Ledger, node: &NodeName) -> Vec<BorderEntry> {
    let mut found = Vec::new();
    for (end, ports) in ledger.borders.get(node).into_iter().flat_map(|own| own.iter()) {
        let all = ports.iter().flat_map(|(port, all)| all.iter().map(move |one| (port, one)));
        for (port, (by, border)) in all {
            let way = &ledger.ways[node][end];
            assert_eq!(way[usize::from(border.at)].node, border.edge);
            let book = &ledger.port_numbers[&border.edge];
            let given = book.pathlet_of(border.number).unwrap();
            assert!(given.is_known && (&given.pathlet.node, given.pathlet.to) == (end, *port));
            let (node, encapsulation) = (end.clone(), *by);
            let (at, number) = (border.at, border.number);
            found.push(BorderEntry { node, to: *port, encapsulation, at, number });
        }
    }
    found
}

/// The ways between other nodes that headers written at a node may hold: for each function that it sends to, those from
/// there to the next, and so on, as long as the next one's instance is known by the flow alone.
fn onward(ledger: &Ledger, inventory: &Inventory, node: &NodeName) -> Vec<OnwardEntry> {
    let mut found: BTreeMap<(NodeName, NodeName, PortId), OnwardEntry> = BTreeMap::new();
    let joins = |path: &&PathRecord| path.encapsulation.is_source_route();
    for path in ledger.paths.values().filter(joins) {
        let through: Vec<&HopEntry> =
            path.hops.iter().filter(|hop| hop.kind == HopKind::Through).collect();
        for first in 0..through.len() {
            if !writes(path, node, &through, first) {
                continue;
            }
            let mut pairs = 0;
            for pair in through[first..].windows(2).take(15) {
                let (last, next) = (pair[0], pair[1]);
                pairs += last.instances.len() * next.instances.len();
                let by_flow = next.balance == Balance::Flow || next.instances.len() == 1;
                if last.rewrites.is_some() || !by_flow || pairs > 64 {
                    break;
                }
                for (from, to) in last
                    .instances
                    .iter()
                    .flat_map(|from| next.instances.iter().map(move |to| (from, to)))
                    .filter(|(from, _)| from.node != *node)
                    .filter(|(from, _)| {
                        inventory.nodes.get(&from.node).is_some_and(|n| n.protocol >= 10)
                    })
                {
                    let mut entry = way(ledger, &from.node, &to.node, to.ingress);
                    // One of version 11 drops frames whose number leads on.
                    if let Some(entry) = entry.as_mut()
                        && inventory.nodes[&from.node].protocol < 12
                    {
                        entry.identities.clear();
                    }
                    let key = (from.node.clone(), to.node.clone(), to.ingress);
                    found.extend(entry.map(|entry| (key, entry)));
                }
            }
        }
    }
    found.into_values().collect()
}

/// May packets be at a node when it is this function's turn? Where they may be anywhere, no host is told of more.
fn writes(path: &PathRecord, node: &NodeName, through: &[&HopEntry], turn: usize) -> bool {
    for before in through[..turn].iter().rev() {
        if before.instances.iter().any(|one| one.node == *node) {
            return true;
        }
        if before.on_failure != FailurePolicy::Bypass {
            return false;
        }
    }
    path.rules.iter().any(|placed| placed.node.as_ref() == Some(node))
        || path.entrances.contains(node)
        || path.holders.contains(node)
        || path.slices.nodes.contains(node)
}

fn way(ledger: &Ledger, from: &NodeName, to: &NodeName, port: PortId) -> Option<OnwardEntry> {
    let last = ledger.port_numbers.get(to)?.of_port(port)?;
    let (legs, identities) = match from == to {
        true => {
            let own = ledger.port_numbers[to].identities();
            (Vec::new(), own.get(1).copied().into_iter().collect())
        }
        false => {
            let way = ledger.ways.get(from)?.get(to)?;
            let mut all = named(ledger, way, to, 1);
            match ledger.port_numbers[from].identities().get(1) {
                Some(first) if !all.is_empty() => all.insert(0, *first),
                _ => all.clear(),
            }
            (way.iter().map(|leg| leg.port).collect(), all)
        }
    };
    Some(OnwardEntry {
        from: from.clone(),
        node: to.clone(),
        to: port,
        ports: Iterator::chain(Vec::into_iter(legs), [last]).collect(),
        detours: detours(ledger, from, to),
        identities,
    })
}

/// What a node divides by.
fn identities(ledger: &Ledger, node: &NodeName) -> Vec<IdentityEntry> {
    let own = ledger.port_numbers.get(node).map(|book| book.identities()).unwrap_or_default();
    (0..).zip(own).map(|(pass, identity)| IdentityEntry { pass, identity: *identity }).collect()
}

/// Those of each node behind the first one in a pass.
fn named(ledger: &Ledger, legs: &[CableEnd], end: &NodeName, pass: usize) -> Vec<NodeIdentity> {
    let nodes = legs[1..].iter().map(|leg| &leg.node).chain([end]);
    let first = |node| Some(*ledger.port_numbers.get(node)?.identities().get(pass)?);
    nodes.map(first).collect::<Option<_>>().unwrap_or_default()
}

/// Those of the ledger's detours, the first that 64 bytes have room for.
fn detours(ledger: &Ledger, node: &NodeName, end: &NodeName) -> Vec<DetourEntry> {
    let detours = ledger.detours.get(node).and_then(|detours| detours.get(end));
    let (mut bytes, mut kept) = (1, Vec::new());
    for detour in detours.into_iter().flat_map(|detours| &detours.detours) {
        if bytes + 3 + detour.ends.len() <= 64 {
            bytes += 3 + detour.ends.len();
            let ports = detour.ends.iter().map(|end| end.port).collect();
            kept.push(DetourEntry { at: detour.at as u8, rejoin: detour.rejoin as u8, ports });
        }
    }
    kept
}

/// What belongs to functions.
struct Functions<'i> {
    ports: BTreeSet<PortId>,
    /// The machines of those that paths go through, and all addresses of each.
    machines: BTreeMap<Machine<'i>, Vec<IpAddr>>,
}

fn program(
    node: &NodeName,
    ledger: &Ledger,
    intent: &Intent,
    inventory: &Inventory,
    functions: &Functions<'_>,
) -> Option<NodeProgram> {
    let facts = inventory.nodes.get(node)?;
    let mut program = NodeProgram::empty(node.clone(), BlueprintNumber(0), facts.underlay);
    program.choice_seed = ledger.choice_seed;
    program.discovery_key = ledger.discovery_key;
    program.tunnels = inventory
        .nodes
        .iter()
        .filter(|(other, _)| *other != node)
        .map(|(other, facts)| TunnelEntry { node: other.clone(), address: facts.underlay.address })
        .collect();
    if facts.knows_locators() {
        let all = inventory.nodes.iter();
        let told = all.filter_map(|(other, facts)| facts.locator(other, ledger.device_of(other)));
        program.locators = told.collect();
    }
    program.ports = local_ports(node, ledger, intent, functions);
    program.exits = exits(ledger, node, &program.ports);
    program.identities = identities(ledger, node);
    program.routes = routes(ledger, inventory, node);
    program.onward = onward(ledger, inventory, node);
    program.borders = borders(ledger, node);
    program.stitches = stitches(ledger, node);
    add_paths(&mut program, ledger, inventory);
    add_networks(&mut program, intent);
    Some(program)
}

/// Declared ports of the node, and those that a path still needs though they are not declared any
/// more. A port of a path is a function's, whatever is declared now.
fn local_ports(
    node: &NodeName,
    ledger: &Ledger,
    intent: &Intent,
    functions: &Functions<'_>,
) -> Vec<PortEntry> {
    let on_paths = || {
        let placed = ledger.paths.values().flat_map(|path| &path.ports);
        placed.filter(|placed| placed.node == *node).map(|placed| &placed.port)
    };
    let of_paths: BTreeSet<PortId> = on_paths().map(|port: &PortEntry| port.id).collect();
    let is_function = |id| functions.ports.contains(&id) || of_paths.contains(&id);
    let mut ports: BTreeMap<PortId, PortEntry> = on_paths()
        .filter(|port| intent.networks.contains_key(&port.network))
        .map(|port| (port.id, port.clone()))
        .collect();
    for port in intent.ports.values().filter(|port| port.node.as_ref() == Some(node)) {
        let role = if is_function(port.id) { PortRole::Function } else { PortRole::Endpoint };
        ports.extend(port_entry(intent, port, role).map(|entry| (port.id, entry)));
    }
    for (id, entry) in &mut ports {
        let declared = intent.ports.get(id).filter(|port| port.own_traffic == OwnTraffic::Own);
        entry.own_sources =
            declared.and_then(|port| functions.machines.get(&machine(port)?)).cloned();
    }
    ports.into_values().collect()
}

/// A machine: its owner and its name.
type Machine<'i> = (&'i ProjectId, &'i str);

fn machine(port: &Port) -> Option<Machine<'_>> {
    let name = Some(port.device_id.as_str()).filter(|name| !name.is_empty())?;
    Some((&port.label.project, name))
}

/// The machines of functions that paths go through, and all addresses of each. What such a machine
/// sends by a port of it that is in no pair could be a packet of a path that goes past the
/// functions that remain.
fn function_machines<'i>(
    ledger: &Ledger,
    intent: &'i Intent,
) -> BTreeMap<Machine<'i>, Vec<IpAddr>> {
    let placed = ledger.paths.values().flat_map(|path| &path.ports);
    let on_paths = placed.filter_map(|placed| intent.ports.get(&placed.port.id));
    let mut machines: BTreeMap<Machine<'i>, Vec<IpAddr>> =
        on_paths.filter_map(machine).map(|machine| (machine, Vec::new())).collect();
    if machines.is_empty() {
        return machines;
    }
    for port in intent.ports.values() {
        if let Some(addresses) = machine(port).and_then(|machine| machines.get_mut(&machine)) {
            addresses.extend(port.fixed_ips.iter().map(|fixed| fixed.address));
        }
    }
    machines
}

/// The entry of a declared port; none while it is not said where its interface is.
fn port_entry(intent: &Intent, port: &Port, role: PortRole) -> Option<PortEntry> {
    Some(PortEntry {
        id: port.id,
        name: intent.port_name(port.id),
        network: port.network,
        mac: port.mac,
        role,
        attachment: port.attachment.clone()?,
        own_sources: None,
    })
}

fn add_paths(program: &mut NodeProgram, ledger: &Ledger, inventory: &Inventory) {
    let mut chains = BTreeMap::new();
    let mut rules: Vec<(&[u16], &RuleEntry)> = Vec::new();
    for (id, path) in ledger.paths.iter() {
        if !path.nodes(inventory.nodes.keys()).contains(&program.node) {
            continue;
        }
        program.paths.push(entry(*id, path));
        chains.insert(path.chain, path.chain_name.clone());
        if path.phase != PathPhase::Superseded && is_classified_by(path, &program.node) {
            // Who did not classify into the former path knows none of its flows.
            let knows = |old: PathId| {
                ledger.paths.get(&old).is_some_and(|old| is_classified_by(old, &program.node))
            };
            let pins = path.pins.iter().filter(|pin| knows(pin.old));
            program.pins.extend(pins.map(|pin| PinEntry {
                old: pin.old,
                new: *id,
                instances: pin.instances.clone(),
                idle_ms: pin.idle_ms,
            }));
        }
        for member in &path.members {
            let instances = &path.hops[usize::from(member.hop)].instances;
            if instances.iter().any(|instance| instance.node == program.node) {
                let configuration = Configuration::clone(&member.configuration);
                let is_backward = path.direction == Direction::Reverse;
                let (hop, configured) = (member.hop, configuration.id());
                let entry = ConfigurationEntry { configuration };
                if !program.configurations.contains(&entry) {
                    program.configurations.push(entry);
                }
                program.members.push(MemberEntry {
                    path: *id,
                    hop,
                    member: member.member,
                    function: member.function.clone(),
                    is_backward,
                    configuration: configured,
                    instances: member.instances.clone(),
                });
            }
        }
        let ends = || ends(path, inventory);
        if !path.branches.is_empty() && ends().contains(&program.node) {
            rules.extend(path.branches.iter().map(|rule| (&[][..], rule)));
        }
        if path.phase == PathPhase::Classified {
            let is_here =
                |node: &Option<NodeName>| node.as_ref().is_none_or(|node| *node == program.node);
            let placed = path.rules.iter().filter(|placed| is_here(&placed.node));
            let away = path.setup.away().filter(|_| placed.clone().next().is_some());
            program.setups.extend(away.map(|away| SetupEntry { path: *id, away }));
            rules.extend(placed.map(|placed| (&placed.order[..], &placed.rule)));
        }
    }
    // A total order, so that the same intent gives the same program.
    rules.sort_by_key(|(order, rule)| (Reverse(rule.priority), *order, rule.path, rule.id));
    program.rules = rules.into_iter().map(|(_, rule)| rule.clone()).collect();
    program.chains = chains.into_iter().map(|(id, name)| ChainEntry { id, name }).collect();
}

/// Networks of local ports, and those in which local paths deliver.
fn add_networks(program: &mut NodeProgram, intent: &Intent) {
    let mut present: BTreeSet<NetworkId> = program.ports.iter().map(|port| port.network).collect();
    present.extend(program.paths.iter().map(|path| path.destination));
    for network in present.iter().filter_map(|id| intent.networks.get(id)) {
        let entry = network_entry(&program.node, network, intent);
        program.networks.push(entry);
    }
    for port in intent.ports.values().filter(|port| present.contains(&port.network)) {
        let Some(node) = &port.node else { continue };
        let at = if *node == program.node {
            Location::Port(port.id)
        } else {
            Location::Node(node.clone())
        };
        program.macs.push(MacEntry { network: port.network, mac: port.mac, at });
        program.neighbours.extend(port.fixed_ips.iter().map(|fixed| NeighbourEntry {
            network: port.network,
            address: fixed.address,
            mac: port.mac,
        }));
    }
}

fn network_entry(node: &NodeName, network: &Network, intent: &Intent) -> NetworkEntry {
    let subnets = || intent.subnets.values().filter(|subnet| subnet.network == network.id);
    let ports = intent.ports.values().filter(|port| port.network == network.id);
    let members: BTreeSet<&NodeName> = ports.filter_map(|port| port.node.as_ref()).collect();
    NetworkEntry {
        id: network.id,
        name: network.label.name.clone(),
        vni: network.vni,
        prefixes: subnets().map(|subnet| subnet.cidr.trunc()).collect(),
        gateways: subnets().filter_map(|subnet| subnet.gateway).collect(),
        members: members.into_iter().filter(|member| *member != node).cloned().collect(),
    }
}

/// The ports of instances that some chain meets.
fn function_ports(intent: &Intent) -> BTreeSet<PortId> {
    let functions = intent.chains.values().flat_map(|chain| &chain.functions);
    let instances = functions
        .filter_map(|id| intent.functions.get(id))
        .flat_map(|function| &function.instances)
        .filter_map(|id| intent.instances.get(id));
    instances.flat_map(|instance| [instance.ingress, instance.egress]).collect()
}

fn entry(id: PathId, path: &PathRecord) -> PathEntry {
    PathEntry {
        id,
        chain: path.chain,
        encapsulation: path.encapsulation,
        context: path.context.clone(),
        hops: path.hops.clone(),
        destination: path.destination,
        is_way_back: path.direction == Direction::Reverse,
        splits_flows: path.splits_flows,
        telemetry: path.telemetry.clone(),
    }
}

fn is_classified_by(path: &PathRecord, node: &NodeName) -> bool {
    let is_here = |at: &Option<NodeName>| at.as_ref().is_none_or(|here| here == node);
    path.entrances.contains(node) || path.rules.iter().any(|placed| is_here(&placed.node))
}

/// Where packets are behind the last function.
fn ends(path: &PathRecord, inventory: &Inventory) -> BTreeSet<NodeName> {
    if let Some(last) = path.hops.iter().rfind(|hop| hop.kind == HopKind::Through) {
        return last.instances.iter().map(|instance| instance.node.clone()).collect();
    }
    let mut nodes = path.entrances.clone();
    nodes.extend(path.slices.nodes.iter().cloned());
    nodes.extend(path.rules.iter().filter_map(|placed| placed.node.clone()));
    if path.slices.is_everywhere || path.rules.iter().any(|placed| placed.node.is_none()) {
        nodes.extend(inventory.nodes.keys().cloned());
    }
    nodes
}
