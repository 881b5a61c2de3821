//! Tables that follow others, over any history, beside tables that are made of the program alone: they
//! say the same in every field, whatever their indexes are.

use super::Tables;
use crate::engine::encap::PathPosition;
use crate::engine::packet::index::{NetworkIndex, NodeIndex, PortIndex};
use crate::engine::tables::names::Names;
use crate::engine::tables::network::MacLocation;
use crate::engine::tables::path::{InstancePlace, PathTable};
use crate::engine::tables::slices::Scope;
use catena_model::classifier::FieldMatch;
use catena_model::entry::{Entries, Program, RuleKey};
use catena_model::id::{ChainId, FunctionId, InstanceId, NetworkId, PortId, RuleId};
use catena_model::program::{
    Balance, ChainEntry, HopEntry, HopKind, InstanceEntry, Location, MacEntry, NeighbourEntry,
    NetworkEntry, NodeEntry, PathEntry, PinEntry, PortEntry, PortRole, RewriteEntry, RuleEntry,
    RuleMatch, RulePlace, SliceEntry, SliceMatch, SlicePathEntry, SlicePolicy, TunnelEntry,
    TupleField,
};
use catena_model::resource::{
    Attachment, Encapsulation, FailurePolicy, InterfaceRef, IpFamily, Transport, TuplePattern,
};
use catena_model::slice::SlicePlace;
use catena_model::{BlueprintNumber, NodeName, PathId, SliceId};
use catena_wire::scalar::{MacAddr, Teid, TeidRange, Vni};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use uuid::Uuid;

const HISTORIES: u64 = 60;
const STEPS: usize = 120;

/// Numbers without pattern.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as u32 % bound
    }

    fn one_in(&mut self, bound: u32) -> bool {
        self.below(bound) == 0
    }
}

fn uuid(number: u32) -> Uuid {
    Uuid::from_u128(u128::from(number) + 1)
}

fn node(number: u32) -> NodeName {
    NodeName::new(["own", "east", "west"][number as usize]).unwrap()
}

fn mac(number: u32) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, number as u8])
}

/// Edits one entry, of any kind.
fn edit(entries: &mut Entries, dice: &mut Dice) {
    let is_gone = dice.one_in(4);
    match dice.below(14) {
        0 => edit_node(entries, dice, is_gone),
        1 => edit_network(entries, dice, is_gone),
        2 | 3 => edit_port(entries, dice, is_gone),
        4 => edit_mac(entries, dice, is_gone),
        5 => edit_neighbour(entries, dice, is_gone),
        6..=8 => edit_path(entries, dice, is_gone),
        9 | 10 => edit_rule(entries, dice, is_gone),
        11 => edit_pin(entries, dice, is_gone),
        12 => edit_slice_path(entries, dice, is_gone),
        _ => edit_slice(entries, dice, is_gone),
    }
}

fn edit_node(entries: &mut Entries, dice: &mut Dice, is_gone: bool) {
    if dice.one_in(4) {
        let own = NodeEntry { choice_seed: dice.below(3).into(), ..NodeEntry::default() };
        entries.node.insert((), Arc::new(own));
        return;
    }
    let name = node(1 + dice.below(2));
    let address = IpAddr::from(Ipv4Addr::new(192, 0, 2, 1 + dice.below(3) as u8));
    entries.tunnels.remove(&name);
    if !is_gone {
        entries.tunnels.insert(name.clone(), Arc::new(TunnelEntry { node: name, address }));
    }
}

fn edit_network(entries: &mut Entries, dice: &mut Dice, is_gone: bool) {
    let id = NetworkId(uuid(dice.below(3)));
    entries.networks.remove(&id);
    if !is_gone {
        let gateway = Ipv4Addr::new(10, 0, 0, dice.below(4) as u8);
        let network = NetworkEntry {
            id,
            name: String::new(),
            vni: Vni::new(1 + dice.below(5)).unwrap(),
            prefixes: vec!["10.0.0.0/24".parse().unwrap()],
            gateways: vec![gateway.into()],
            members: (1..3).filter(|_| dice.one_in(2)).map(node).collect(),
        };
        entries.networks.insert(id, Arc::new(network));
    }
}

fn edit_port(entries: &mut Entries, dice: &mut Dice, is_gone: bool) {
    let number = dice.below(8);
    let id = PortId(uuid(number));
    entries.ports.remove(&id);
    if !is_gone {
        let port = PortEntry {
            id,
            name: String::new(),
            network: NetworkId(uuid(dice.below(3))),
            mac: mac(number),
            role: if dice.one_in(2) { PortRole::Endpoint } else { PortRole::Function },
            attachment: Attachment::Interface(InterfaceRef {
                namespace: None,
                interface: "p".into(),
            }),
            own_sources: dice.one_in(2).then(Vec::new),
        };
        entries.ports.insert(id, Arc::new(port));
    }
}

fn edit_mac(entries: &mut Entries, dice: &mut Dice, is_gone: bool) {
    let number = dice.below(10);
    let key = PortId(uuid(number));
    entries.macs.remove(&key);
    if !is_gone {
        let at = match dice.one_in(2) {
            true => Location::Port(PortId(uuid(number))),
            false => Location::Node(node(1 + dice.below(2))),
        };
        // Now and then two of one MAC.
        let entry =
            MacEntry { network: NetworkId(uuid(dice.below(3))), mac: mac(dice.below(8)), at };
        entries.macs.insert(key, Arc::new(entry));
    }
}

fn edit_neighbour(entries: &mut Entries, dice: &mut Dice, is_gone: bool) {
    let key = (PortId(uuid(dice.below(8))), dice.below(2) as u16);
    entries.neighbours.remove(&key);
    if !is_gone {
        let entry = NeighbourEntry {
            network: NetworkId(uuid(dice.below(3))),
            address: Ipv4Addr::new(10, 0, 0, dice.below(6) as u8).into(),
            mac: mac(dice.below(8)),
        };
        entries.neighbours.insert(key, Arc::new(entry));
    }
}

fn instance(dice: &mut Dice) -> InstanceEntry {
    let number = dice.below(4);
    InstanceEntry {
        id: InstanceId(uuid(number)),
        name: dice.below(2).to_string(),
        node: node(dice.below(3).saturating_sub(1)),
        ingress: PortId(uuid(2 * number)),
        egress: PortId(uuid(2 * number + 1)),
        ingress_mac: mac(2 * number),
        weight: dice.below(3),
        speaks: dice.one_in(4).then_some(Encapsulation::Nsh),
    }
}

fn hop(dice: &mut Dice) -> HopEntry {
    let rewrite =
        || RewriteEntry { fields: vec![TupleField::Source], leaves: TuplePattern::default() };
    HopEntry {
        function: FunctionId(uuid(0)),
        name: String::new(),
        kind: if dice.one_in(5) { HopKind::Tap } else { HopKind::Through },
        on_failure: [FailurePolicy::Unwatched, FailurePolicy::Bypass][dice.below(2) as usize],
        balance: Balance::Flow,
        rewrites: dice.one_in(6).then(rewrite),
        keeps_mac: dice.one_in(3),
        via: Vec::new(),
        instances: (0..=dice.below(2)).map(|_| instance(dice)).collect(),
    }
}

fn edit_path(entries: &mut Entries, dice: &mut Dice, is_gone: bool) {
    let id = PathId(100 + dice.below(6));
    entries.paths.remove(&id);
    if !is_gone {
        let path = PathEntry {
            id,
            chain: ChainId(uuid(id.0 % 3)),
            encapsulation: [Encapsulation::Nsh, Encapsulation::Mpls][dice.below(2) as usize],
            context: Vec::new(),
            hops: (0..dice.below(3)).map(|_| hop(dice)).collect(),
            destination: NetworkId(uuid(dice.below(3))),
            is_way_back: dice.one_in(4),
            splits_flows: dice.one_in(4),
            telemetry: None,
        };
        let chain = ChainEntry { id: path.chain, name: String::new() };
        entries.chains.insert(path.chain, Arc::new(chain));
        entries.paths.insert(id, Arc::new(path));
    }
}

/// A path of the program, or now and then of a slice.
fn any_path(dice: &mut Dice) -> PathId {
    PathId(if dice.one_in(12) { 200 + dice.below(4) } else { 100 + dice.below(6) })
}

fn edit_rule(entries: &mut Entries, dice: &mut Dice, is_gone: bool) {
    let (priority, path) = (dice.below(3), any_path(dice));
    let id = RuleId(uuid(dice.below(4)));
    let key = RuleKey {
        priority: Reverse(priority),
        order: vec![dice.below(4) as u16],
        path,
        rule: id,
        source: path,
        part: 0,
    };
    entries.rules.remove(&key);
    if !is_gone && (entries.paths.contains_key(&path) || path.0 >= 200) {
        let place = match dice.below(3) {
            0 => RulePlace::Endpoints,
            1 => RulePlace::Port(PortId(uuid(dice.below(8)))),
            _ => RulePlace::After(any_path(dice)),
        };
        let matches = RuleMatch {
            place,
            vlan: None,
            family: IpFamily::Ipv4,
            transport: dice.one_in(2).then_some(Transport::Udp),
            source: None,
            destination: None,
            source_ports: None,
            destination_ports: None,
            fields: FieldMatch::default(),
        };
        let rule = RuleEntry { id, name: String::new(), priority, matches, path };
        entries.rules.insert(key, Arc::new(rule));
    }
}

fn edit_pin(entries: &mut Entries, dice: &mut Dice, is_gone: bool) {
    let (new, place) = (any_path(dice), dice.below(2) as u16);
    entries.pins.remove(&(new, place));
    if !is_gone {
        let instances = (0..dice.below(2)).map(|_| InstanceId(uuid(dice.below(4)))).collect();
        let (old, idle_ms) = (any_path(dice), dice.below(3));
        entries.pins.insert((new, place), Arc::new(PinEntry { old, new, instances, idle_ms }));
    }
}

fn edit_slice_path(entries: &mut Entries, dice: &mut Dice, is_gone: bool) {
    let number = dice.below(4);
    let id = PathId(200 + number);
    entries.slice_paths.remove(&id);
    let like = PathId(100 + dice.below(6));
    if !is_gone && entries.paths.contains_key(&like) {
        let (slice, carries_metadata) = (SliceId(uuid(number)), dice.one_in(2));
        let path = SlicePathEntry { id, slice, like, carries_metadata };
        entries.slice_paths.insert(id, Arc::new(path));
    }
}

fn edit_slice(entries: &mut Entries, dice: &mut Dice, is_gone: bool) {
    let number = dice.below(4);
    let id = SliceId(uuid(number));
    entries.slices.remove(&id);
    let path = [PathId(200 + number), PathId(100 + dice.below(6))][dice.below(2) as usize];
    let is_there = entries.slice_paths.contains_key(&path) || entries.paths.contains_key(&path);
    if !is_gone && is_there {
        let place = match dice.below(3) {
            0 => SlicePlace::Endpoints,
            1 => SlicePlace::Port(PortId(uuid(dice.below(8)))),
            _ => SlicePlace::After(ChainId(uuid(dice.below(3)))),
        };
        let last = Teid(dice.below(3));
        let teids = TeidRange::new(Teid(0), last).ok();
        let matches = SliceMatch { place, tunnel_id: None, teids, qfi: None };
        let policy = SlicePolicy::default();
        let slice =
            SliceEntry { id, name: String::new(), matches, path, policy, is_injected: false };
        entries.slices.insert(id, Arc::new(slice));
    }
}

/// Tables in words, without their indexes.
struct Told<'t>(&'t Tables);

impl Told<'_> {
    fn network(&self, index: NetworkIndex) -> NetworkId {
        self.0.network(index).entry.id
    }

    fn port(&self, index: PortIndex) -> PortId {
        self.0.port(index).entry.id
    }

    fn node(&self, index: NodeIndex) -> String {
        self.0.nodes.get(index.0.into()).name.as_ref().unwrap().to_string()
    }

    fn location(&self, location: MacLocation) -> String {
        match location {
            MacLocation::Port(port) => self.port(port).to_string(),
            MacLocation::Node(node) => self.node(node),
        }
    }

    fn sorted<T: Ord>(all: impl Iterator<Item = T>) -> Vec<T> {
        let mut all: Vec<T> = all.collect();
        all.sort();
        all.dedup();
        all
    }

    /// What every place is called that rules and slices can have; `is_rules`: at whose end.
    fn places(&self, is_rules: bool) -> Vec<(Scope, String)> {
        let Names { networks, ports, ends, .. } = &self.0.names;
        let at_networks = networks.iter().map(|(id, at)| (Scope::network(*at), format!("in {id}")));
        let at_ports = ports.iter().map(|(id, at)| (Scope::port(*at), format!("at {id}")));
        let mut all: Vec<(Scope, String)> = at_networks.chain(at_ports).collect();
        if is_rules {
            let indexes = |id: &PathId| self.0.positions.index_of(*id);
            let paths = self.0.entries.paths.keys();
            let slices = self.0.entries.slice_paths.keys();
            let of_slice = |id: &PathId| self.0.positions.start(*id).map(PathPosition::path);
            all.extend(paths.filter_map(|id| Some((Scope::after(indexes(id)?), format!("{id}")))));
            all.extend(
                slices.filter_map(|id| Some((Scope::after(of_slice(id)?), format!("{id}")))),
            );
        } else {
            all.extend(ends.iter().map(|(id, at)| (Scope::after(*at), format!("after {id}"))));
        }
        all
    }

    fn nodes_and_networks(&self, told: &mut BTreeMap<String, String>) {
        let Tables { names, sources, segment_sources, locators, vnis, .. } = self.0;
        told.insert("locators".into(), format!("{locators:?}"));
        for index in names.nodes.values() {
            told.insert(
                format!("node {}", self.node(*index)),
                self.0.node_address(*index).to_string(),
            );
        }
        let sources = sources.iter().chain(segment_sources.iter());
        let sources = sources.map(|(address, node)| format!("{address} {}", self.node(*node)));
        told.insert("sources".into(), format!("{:?}", Self::sorted(sources)));
        let vnis = vnis.iter().map(|(vni, network)| format!("{vni} {}", self.network(*network)));
        told.insert("vnis".into(), format!("{:?}", Self::sorted(vnis)));
        for (id, index) in &names.networks {
            let table = self.0.network(*index);
            let ports = Self::sorted(table.ports.iter().map(|port| self.port(*port)));
            let members = Self::sorted(table.members.iter().map(|node| self.node(*node)));
            let (macs, neighbours) = table.lines.all();
            let macs = Self::sorted(macs.map(|(mac, location)| (*mac, self.location(*location))));
            let neighbours = Self::sorted(neighbours);
            let addresses = (0..8).map(|n| Self::sorted(table.lines.addresses(mac(n))));
            let addresses: Vec<_> = addresses.collect();
            told.insert(
                format!("network {id}"),
                format!(
                    "{:?} {} {:?} {ports:?} {members:?} {macs:?} {neighbours:?} {addresses:?} {:?}",
                    table.entry, table.vni, table.prefixes, table.gateways
                ),
            );
        }
    }

    /// What of a port its gate is made by.
    fn gate(&self, port: PortId) -> String {
        let Some(index) = self.0.names.port(port) else { return String::new() };
        let table = self.0.port(index);
        let speaks = [Encapsulation::Nsh, Encapsulation::Mpls].map(|one| table.speaks(one));
        let rewrites = Self::sorted(table.rewrites().iter().map(|one| format!("{one:?}")));
        let flags = [table.is_shared(), table.is_met(), table.keeps_mac(), table.is_function()];
        format!("{speaks:?} {rewrites:?} {flags:?} {}", self.network(table.network))
    }

    /// What of a port says how packets pass it.
    fn passage(&self, port: PortId) -> String {
        let Some(index) = self.0.names.port(port) else { return String::new() };
        format!("{} {}", self.gate(port), self.0.port(index).is_shared_by_slices())
    }

    fn ports(&self, told: &mut BTreeMap<String, String>) {
        for (id, index) in &self.0.names.ports {
            let table = self.0.port(*index);
            let reaches = Self::sorted(table.reaches().map(|network| self.network(network)));
            let siblings = Self::sorted(table.siblings().map(|port| self.port(port)));
            let networks = Self::sorted(table.networks());
            let own = Self::sorted(table.own_addresses.iter());
            let flags = [table.is_on_path(), table.is_shared_by_slices()];
            told.insert(
                format!("port {id}"),
                format!(
                    "{:?} {} {reaches:?} {siblings:?} {networks:?} {own:?} {flags:?}",
                    table.entry,
                    self.passage(*id)
                ),
            );
        }
    }

    fn path(&self, path: &PathTable) -> String {
        let watch = |watch: Option<u32>| watch.map(|index| self.0.watched.get(index).id);
        let place = |place: InstancePlace| match place {
            InstancePlace::Here { ingress, egress, ingress_mac, speaks, local } => {
                let ports = [ingress, egress].map(|port| self.port(port));
                format!("{ports:?} {ingress_mac} {speaks:?} {local}")
            }
            InstancePlace::There(node) => self.node(node),
            other => format!("{other:?}"),
        };
        let hops = path.hops.iter().map(|hop| {
            let instances = hop.instances.iter();
            let instances = instances.map(|one| (one.weight, place(one.place), watch(one.watch)));
            format!("{:?} {:?}", hop.kind, instances.collect::<Vec<_>>())
        });
        let hops: Vec<String> = hops.collect();
        let senders = path.senders.iter().map(|senders| {
            senders.as_ref().map(|all| Self::sorted(all.iter().map(|node| self.node(*node))))
        });
        let senders: Vec<_> = senders.collect();
        let local = path.local_instances.iter().map(|one| {
            let ports = [one.ingress, one.egress].map(|port| port.map(|port| self.port(port)));
            (one.hop, one.id, one.name.clone(), ports, one.is_tap, watch(one.watch))
        });
        let local: Vec<_> = local.collect();
        let ends = self.0.names.ends.iter();
        let end = ends.filter(|(_, end)| Some(**end) == path.chain_end).map(|(chain, _)| chain);
        let end: Vec<_> = end.collect();
        let destination = path.destination.map(|network| self.network(network));
        format!(
            "{:?} {hops:?} {senders:?} {local:?} {end:?} {destination:?} {} {}",
            path.entry, path.network, path.is_way_back
        )
    }

    fn paths(&self, told: &mut BTreeMap<String, String>) {
        let Tables { positions, entries, rules, takers, .. } = self.0;
        for (id, entry) in &entries.paths {
            let index = positions.index_of(*id).unwrap();
            assert_eq!(
                (positions.id_of(index), positions.shape_of(index)),
                (Some(*id), Some(index))
            );
            let hops = entry.hops.len() as u16;
            let (last, behind) = (hops, hops + 1);
            assert!(positions.find(*id, entry.encapsulation, last, 9).is_ok());
            assert!(positions.find(*id, entry.encapsulation, behind, 9).is_err());
            let flags = [rules.joins(*id), rules.leads_on(index), takers.contains(id)];
            let table = self.path(self.0.path(index));
            let is_pinned = self.0.is_pinned(*id);
            told.insert(format!("path {id}"), format!("{table} {flags:?} {is_pinned}"));
        }
        for (id, entry) in &entries.slice_paths {
            let start = positions.start(*id).unwrap();
            assert_eq!(positions.id(start), *id);
            assert_eq!(positions.id_of(positions.place(start).path), Some(entry.like));
            let hops = entries.paths[&entry.like].hops.len() as u16;
            let encapsulation = entries.paths[&entry.like].encapsulation;
            assert!(positions.find(*id, encapsulation, hops, 9).is_ok());
            assert!(positions.find(*id, encapsulation, hops + 1, 9).is_err());
            let tells = positions.tells_users(*id);
            told.insert(format!("slice path {id}"), format!("{entry:?} {tells}"));
        }
        told.insert("rewritten".into(), self.0.rewritten.to_string());
        let known = positions.end();
        let live = (0..known).filter(|index| positions.id_of(*index).is_some()).count();
        assert_eq!(live, entries.paths.len() + entries.slice_paths.len());
    }

    fn rules(&self, told: &mut BTreeMap<String, String>) {
        let Tables { rules, positions, entries, .. } = self.0;
        let places: BTreeMap<u32, String> =
            self.places(true).into_iter().map(|(place, name)| (place.0, name)).collect();
        let mut labels = Vec::new();
        for key in entries.rules.keys() {
            let number = rules.number(key).unwrap();
            let place = rules.place_of(number);
            let (label, start) = rules.order_and_start(number).unwrap();
            labels.push(label);
            let start = place.map(|_| positions.id(start));
            let place = place.map(|place| &places[&place.0]);
            told.insert(
                format!("rule {key:?}"),
                format!("{:?} {place:?} {start:?}", rules.entry(number)),
            );
        }
        assert!(labels.is_sorted_by(|one, other| one < other), "{labels:?}");
        for (place, name) in self.places(true) {
            let at = rules.at(place).map(|number| rules.entry(number).unwrap().id);
            told.insert(format!("rules {name}"), format!("{:?}", Self::sorted(at)));
        }
        told.insert("pins".into(), self.0.pins.described(positions));
    }

    fn all(&self) -> BTreeMap<String, String> {
        let mut told = BTreeMap::new();
        self.nodes_and_networks(&mut told);
        self.ports(&mut told);
        self.paths(&mut told);
        self.rules(&mut told);
        told.insert("slices".into(), self.0.slices.described(&self.places(false)));
        for (_, watched) in self.0.watched.iter() {
            let ports = [watched.ingress, watched.egress].map(|port| self.port(port));
            let addresses = Self::sorted(watched.addresses.iter());
            let (name, mac) = (&watched.name, watched.ingress_mac);
            told.insert(
                format!("watched {}", watched.id),
                format!("{name} {ports:?} {mac} {addresses:?}"),
            );
        }
        told
    }

    /// What actions of a path are made by.
    fn walk(&self, path: PathId) -> Option<String> {
        let index = self.0.positions.index_of(path)?;
        let table = self.0.path(index);
        let instances = || table.entry.hops.iter().flat_map(|hop| &hop.instances);
        let here = instances().filter(|one| one.node == self.0.node);
        let passages: Vec<String> = here.map(|one| self.passage(one.egress)).collect();
        let nodes = instances().filter_map(|one| self.0.names.node(&one.node));
        let nodes = nodes.map(|node| self.0.node_address(node));
        let leads_on = self.0.rules.leads_on(index);
        Some(format!("{} {passages:?} {leads_on} {:?}", self.path(table), Self::sorted(nodes)))
    }
}

/// What stays has its index, and what is walked differently is said to be.
fn check_changed(former: &Tables, next: &Tables) {
    let changed = next.descent.since(&former.descent).unwrap();
    for (id, index) in &next.names.ports {
        let was = former.names.port(*id);
        assert!(was.is_none_or(|was| was == *index), "port {id} has moved");
        if was.is_none() || Told(former).gate(*id) != Told(next).gate(*id) {
            assert!(changed.ports.contains(index), "port {id}");
        }
    }
    for id in next.entries.paths.keys() {
        let (was, is) = (former.positions.index_of(*id), next.positions.index_of(*id).unwrap());
        // Unless it was a slice's before.
        assert!(was.is_none_or(|was| was == is), "path {id} has moved");
        let (before, after) = (Told(former).walk(*id), Told(next).walk(*id));
        if before != after {
            assert!(changed.paths.contains(&is), "path {id}:\n{before:?}\n{after:?}");
        }
    }
    for id in former.entries.paths.keys().filter(|id| !next.entries.paths.contains_key(*id)) {
        assert!(changed.paths.contains(&former.positions.index_of(*id).unwrap()), "path {id}");
    }
}

#[test]
fn tables_that_follow_are_those_of_the_program_alone() {
    let (mut followed, mut refused) = (0, 0);
    for seed in 0..HISTORIES {
        let dice = &mut Dice(seed);
        let empty = Tables::empty(node(0));
        let mut tables = empty.clone();
        for step in 0..STEPS {
            let mut entries = tables.entries.clone();
            for _ in 0..=dice.below(4) {
                edit(&mut entries, dice);
            }
            let program = Program::new(BlueprintNumber(step as u64 + 1), entries);
            let (next, alone) = (tables.following(&program), empty.following(&program));
            let (next, alone) = match (next, alone) {
                (Ok(next), Ok(alone)) => (next, alone),
                (Err(_), Err(_)) => {
                    refused += 1;
                    continue;
                }
                (next, alone) => {
                    panic!("seed {seed}, step {step}: {:?}, alone {:?}", next.err(), alone.err())
                }
            };
            let (told, expected) = (Told(&next).all(), Told(&alone).all());
            for (what, expected) in &expected {
                assert_eq!(told.get(what), Some(expected), "seed {seed}, step {step}: {what}");
            }
            assert!(told.keys().eq(expected.keys()), "seed {seed}, step {step}");
            check_changed(&tables, &next);
            tables = next;
            followed += 1;
        }
    }
    assert!(followed > 2_000 && refused > 500, "{followed} followed, {refused} were refused");
}
