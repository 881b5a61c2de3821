//! Rules beside a walk over all of them.

use super::rules::Rules;
use crate::engine::collections::sharing::Slab;
use crate::engine::encap::{Positions, Shape};
use crate::engine::packet::index::{NetworkIndex, PortIndex};
use crate::engine::tables::names::Names;
use crate::engine::tables::path::PathTable;
use catena_model::PathId;
use catena_model::classifier::FieldMatch;
use catena_model::entry::RuleKey;
use catena_model::id::{PortId, RuleId};
use catena_model::program::{RuleEntry, RuleMatch, RulePlace};
use catena_model::resource::{IpFamily, Transport};
use catena_search::GROUP;
use catena_wire::ethernet::{EthernetHeader, VlanTag};
use catena_wire::flow::FlowKey;
use catena_wire::frame::FrameView;
use catena_wire::scalar::{EtherType, IpProtocol, MacAddr, PortRange, VlanId};
use ipnet::IpNet;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use uuid::Uuid;

const PATH: PathId = PathId(100);
const OTHER: PathId = PathId(101);

fn port(number: u16) -> PortId {
    PortId(Uuid::from_u128(number.into()))
}

/// Two ports, and two paths that deliver in two networks.
struct Ground {
    names: Names,
    paths: Slab<PathTable>,
    positions: Positions,
}

impl Ground {
    fn new() -> Self {
        let (mut paths, mut positions) = (Slab::default(), Positions::default());
        for (id, network) in [(PATH, 0), (OTHER, 1)] {
            let index = positions.add_path(id, Shape::default()).unwrap();
            let destination = Some(NetworkIndex(network));
            paths.put(index, PathTable { id, destination, ..PathTable::default() });
        }
        Self { names: Names::of_ports((0..2).map(|n| (port(n), PortIndex(n)))), paths, positions }
    }

    /// Rules whose numbers are their places in a list.
    fn rules(&self, entries: &[RuleEntry]) -> Rules {
        let mut rules = Rules::default();
        for (place, entry) in (0..).zip(entries) {
            assert_eq!(self.add(&mut rules, place, entry), place);
        }
        rules
    }

    fn add(&self, rules: &mut Rules, place: u32, entry: &RuleEntry) -> u32 {
        let number = rules.add(&key(place, entry), &Arc::new(entry.clone()));
        rules.place(number, &self.names, &self.positions, &self.paths).unwrap();
        number
    }

    /// Lets the rule at a place of the list be another.
    fn replace(&self, rules: &mut Rules, place: u32, former: &RuleEntry, entry: &RuleEntry) {
        rules.unplace(place);
        rules.remove(&key(place, former));
        assert_eq!(self.add(rules, place, entry), place);
    }
}

/// The higher priority goes first, then what is first in the list.
fn key(place: u32, entry: &RuleEntry) -> RuleKey {
    RuleKey {
        priority: Reverse(entry.priority),
        order: vec![(place >> 16) as u16, (place & 0xffff) as u16],
        path: entry.path,
        rule: entry.id,
        source: entry.path,
        part: 0,
    }
}

/// Where a packet is.
#[derive(Clone, Copy, Debug)]
enum At {
    Port(u16, u16),
    End(PathId),
}

/// Does a packet meet a rule? Written down once more, by other means.
fn meets(entry: &RuleEntry, view: &FrameView, flow: &FlowKey) -> bool {
    let RuleMatch { vlan, family, transport, source, destination, .. } = entry.matches;
    let inside = |net: Option<IpNet>, address| net.is_none_or(|net| net.contains(&address));
    let shows_ports =
        [6, 17].contains(&flow.protocol.0) && (flow.source_port, flow.destination_port) != (0, 0);
    let within = |range: Option<PortRange>, port| {
        range.is_none_or(|range| shows_ports && (range.min()..=range.max()).contains(&port))
    };
    let protocol = match transport {
        None => None,
        Some(Transport::Tcp) => Some(6),
        Some(Transport::Udp) => Some(17),
        Some(Transport::Icmp) => Some(if family == IpFamily::Ipv4 { 1 } else { 58 }),
    };
    flow.source.is_ipv4() == (family == IpFamily::Ipv4)
        && view.vlan == vlan
        && protocol.is_none_or(|protocol| protocol == flow.protocol.0)
        && inside(source, flow.source)
        && inside(destination, flow.destination)
        && within(entry.matches.source_ports, flow.source_port)
        && within(entry.matches.destination_ports, flow.destination_port)
}

/// The rule that the docstring of the program says: highest priority, then the order of the list.
fn reference(entries: &[RuleEntry], at: At, view: &FrameView, flow: &FlowKey) -> Option<u32> {
    let network = |path: PathId| if path == PATH { 0 } else { 1 };
    let is_here = |entry: &RuleEntry| match (entry.matches.place, at) {
        (RulePlace::Endpoints, At::Port(_, own)) => network(entry.path) == own,
        (RulePlace::Port(named), At::Port(own, _)) => named == port(own),
        (RulePlace::After(ended), At::End(own)) => ended == own,
        _ => false,
    };
    let matching =
        (0..).zip(entries).filter(|(_, entry)| is_here(entry) && meets(entry, view, flow));
    matching.min_by_key(|(number, entry)| (u32::MAX - entry.priority, *number)).map(|(n, _)| n)
}

fn found(rules: &Rules, ground: &Ground, at: At, view: &FrameView, flow: &FlowKey) -> Option<u32> {
    let found = match at {
        At::Port(port, network) => {
            rules.find(PortIndex(port), Some(NetworkIndex(network)), view, flow)
        }
        At::End(path) => {
            let ended = ground.positions.start(path).unwrap().path();
            rules.find_after(ended, view, flow)
        }
    };
    found.map(|(number, _)| number)
}

/// What is found for packets that are asked for together, some of which are on their way already.
fn found_each(rules: &Rules, at: At, packets: &[(FrameView, FlowKey)]) -> Vec<Option<u32>> {
    let At::Port(port, network) = at else { return Vec::new() };
    let at = (PortIndex(port), NetworkIndex(network));
    let groups = packets.chunks(GROUP).flat_map(|group| {
        let asked = group.iter().enumerate().map(|(number, (view, flow))| {
            (number % 3 > 0).then_some((at.0, Some(at.1), view, flow))
        });
        let found = rules.find_each(asked);
        found.into_iter().take(group.len()).map(|found| found.map(|(number, _)| number))
    });
    groups.collect()
}

fn net(is_v4: bool) -> impl Strategy<Value = Option<IpNet>> {
    // Whole addresses are what most rules give.
    let bits = prop_oneof![2 => 0u8..=32, 1 => Just(32)];
    let few = (any::<u8>(), any::<u8>(), bits);
    proptest::option::of(few.prop_map(move |(high, low, bits)| {
        let address = address(is_v4, high % 4, low % 8);
        let bits = if is_v4 { bits } else { bits * 4 };
        IpNet::new(address, bits).unwrap()
    }))
}

fn address(is_v4: bool, high: u8, low: u8) -> IpAddr {
    match is_v4 {
        true => Ipv4Addr::new(10, high, 0, low).into(),
        false => Ipv6Addr::new(0x2001, 0xdb8, high.into(), 0, 0, 0, 0, low.into()).into(),
    }
}

fn ports() -> impl Strategy<Value = Option<PortRange>> {
    proptest::option::of(
        (0u16..12, prop_oneof![Just(0u16), 0u16..8, Just(65_000)])
            .prop_map(|(first, width)| PortRange::new(first, first.saturating_add(width)).unwrap()),
    )
}

fn entry() -> impl Strategy<Value = RuleEntry> {
    let place = prop_oneof![
        Just(RulePlace::Endpoints),
        Just(RulePlace::Port(port(0))),
        Just(RulePlace::Port(port(7))),
        Just(RulePlace::After(PATH)),
    ];
    let transport = proptest::option::of(prop_oneof![
        Just(Transport::Tcp),
        Just(Transport::Udp),
        Just(Transport::Icmp)
    ]);
    let vlan = proptest::option::weighted(0.2, 1u32..3);
    let fields = (transport, vlan, any::<bool>(), 0u32..6, any::<bool>());
    (place, fields, any::<bool>()).prop_flat_map(|(place, fields, is_v4)| {
        (net(is_v4), net(is_v4), ports(), ports()).prop_map(
            move |(source, destination, source_ports, destination_ports)| {
                let (transport, vlan, _, priority, is_other) = fields;
                RuleEntry {
                    id: RuleId(Uuid::nil()),
                    name: String::new(),
                    priority,
                    matches: RuleMatch {
                        place,
                        vlan: vlan.map(|id| VlanId::new(id).unwrap()),
                        family: if is_v4 { IpFamily::Ipv4 } else { IpFamily::Ipv6 },
                        transport,
                        source,
                        destination,
                        source_ports,
                        destination_ports,
                        fields: FieldMatch::default(),
                    },
                    path: if is_other { OTHER } else { PATH },
                }
            },
        )
    })
}

/// A packet as its view; the frame itself is not asked.
fn packet() -> impl Strategy<Value = (FrameView, FlowKey)> {
    let ends = (0u8..4, 0u8..8, 0u8..4, 0u8..8);
    let vlan = proptest::option::weighted(0.2, 1u32..3);
    let protocol = prop_oneof![Just(6u8), Just(17), Just(1), Just(58), Just(47)];
    (any::<bool>(), ends, vlan, protocol, 0u16..16, 0u16..16).prop_map(
        |(is_v4, (a, b, c, d), vlan, protocol, source_port, destination_port)| {
            let tag = vlan.map(|id| VlanTag {
                tag_type: EtherType::VLAN,
                priority: 0,
                is_drop_eligible: false,
                id: VlanId::new(id).unwrap(),
            });
            let header = EthernetHeader {
                destination: MacAddr([2; 6]),
                source: MacAddr([4; 6]),
                tags: [tag, None],
                ethertype: EtherType(0x88b5),
            };
            let mut bytes = vec![0; header.len_bytes()];
            header.emit(&mut bytes).unwrap();
            let has_ports = matches!(protocol, 6 | 17);
            let flow = FlowKey {
                source: address(is_v4, a, b),
                destination: address(is_v4, c, d),
                protocol: IpProtocol(protocol),
                source_port: if has_ports { source_port } else { 0 },
                destination_port: if has_ports { destination_port } else { 0 },
            };
            let view = FrameView::parse(&bytes).unwrap();
            (FrameView { flow: Some(flow), ..view }, flow)
        },
    )
}

/// Is there a packet that both match? Written down once more, by other means.
fn share(one: &RuleMatch, other: &RuleMatch) -> bool {
    let nets = |one: Option<IpNet>, other: Option<IpNet>| match (one, other) {
        (Some(one), Some(other)) => one.contains(&other) || other.contains(&one),
        _ => true,
    };
    let ports = |one: Option<PortRange>, other: Option<PortRange>| match (one, other) {
        (Some(one), Some(other)) => (one.min()..=one.max()).any(|port| other.contains(port)),
        _ => true,
    };
    let transports = [one.transport, other.transport];
    (one.family, one.vlan) == (other.family, other.vlan)
        && (transports.contains(&None) || transports[0] == transports[1])
        && nets(one.source, other.source)
        && nets(one.destination, other.destination)
        && ports(one.source_ports, other.source_ports)
        && ports(one.destination_ports, other.destination_ports)
}

/// Of every rule the others that share packets with it are found, at each place, and no others.
fn assert_met(rules: &Rules, entries: &[RuleEntry]) {
    let places: Vec<_> = (0..).zip(entries).map(|(rule, _)| rules.place_of(rule)).collect();
    for place in places.iter().flatten().collect::<BTreeSet<_>>() {
        for one in entries {
            let found: BTreeSet<u32> = rules.meeting(*place, one).into_iter().collect();
            let others =
                (0..).zip(entries).filter(|(other, _)| places[*other as usize] == Some(*place));
            let met = others.filter(|(_, other)| share(&one.matches, &other.matches));
            assert_eq!(found, met.map(|(other, _)| other).collect(), "{one:?} at {place:?}");
        }
    }
}

const PLACES: [At; 6] =
    [At::Port(0, 0), At::Port(0, 1), At::Port(1, 0), At::Port(1, 1), At::End(PATH), At::End(OTHER)];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn rules_are_found_as_by_a_walk_over_all_of_them(
        mut entries in proptest::collection::vec(entry(), 1..60),
        packets in proptest::collection::vec(packet(), 1..40),
        changes in proptest::collection::vec((any::<u16>(), entry()), 0..30),
    ) {
        let ground = Ground::new();
        let mut rules = ground.rules(&entries);
        let agree = |rules: &Rules, entries: &[RuleEntry]| {
            for at in PLACES {
                let together = found_each(rules, at, &packets);
                for (number, (view, flow)) in packets.iter().enumerate() {
                    let expected = reference(entries, at, view, flow);
                    assert_eq!(found(rules, &ground, at, view, flow), expected, "{at:?} {flow:?}");
                    let Some(found) = together.get(number) else { continue };
                    let expected = expected.filter(|_| !(number % GROUP).is_multiple_of(3));
                    assert_eq!(*found, expected, "together: {at:?} {flow:?}");
                }
            }
        };
        agree(&rules, &entries);
        assert_met(&rules, &entries);
        let (before, first) = (rules.clone(), entries.clone());
        for (place, entry) in changes {
            let place = usize::from(place) % entries.len();
            ground.replace(&mut rules, place as u32, &entries[place], &entry);
            entries[place] = entry;
            agree(&rules, &entries);
            assert_met(&rules, &entries);
        }
        agree(&before, &first);
    }
}

/// A rule of the first port between two networks of IPv4.
fn between(source: IpNet, destination: IpNet, priority: u32) -> RuleEntry {
    RuleEntry {
        id: RuleId(Uuid::nil()),
        name: String::new(),
        priority,
        matches: RuleMatch {
            place: RulePlace::Port(port(0)),
            vlan: None,
            family: IpFamily::Ipv4,
            transport: None,
            source: Some(source),
            destination: Some(destination),
            source_ports: None,
            destination_ports: None,
            fields: FieldMatch::default(),
        },
        path: PATH,
    }
}

/// Numbers without pattern, below a bound.
fn numbers() -> impl FnMut(u32) -> u32 {
    let mut word = 1_u64;
    move |bound| {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (word >> 33) as u32 % bound
    }
}

#[test]
fn a_hundred_thousand_rules_of_all_lengths_lie_in_few_tables() {
    let ground = Ground::new();
    let mut next = numbers();
    let mut net = || {
        let bits = [0, 8, 13, 16, 20, 24, 27, 32][next(8) as usize];
        let address = Ipv4Addr::from_bits(10 << 24 | next(1 << 24));
        IpNet::new(address.into(), bits).unwrap()
    };
    let entries: Vec<RuleEntry> = (0..100_000).map(|_| between(net(), net(), 1)).collect();
    let rules = ground.rules(&entries);
    assert!(rules.tables() <= 64, "{}", rules.tables());
}

/// Buckets overflow into tables that ask for more, again and again.
#[test]
fn rules_that_crowd_in_few_networks_are_found_too() {
    let ground = Ground::new();
    let mut next = numbers();
    // Wide sources, and single destinations in two small networks.
    let mut entries: Vec<RuleEntry> = (0..4_000)
        .map(|_| {
            let source = Ipv4Addr::from_bits(10 << 24 | next(1 << 20));
            let source = IpNet::new(source.into(), 8 + next(25) as u8).unwrap();
            let destination = Ipv4Addr::new(10, 0, next(2) as u8, next(256) as u8);
            let bits = if next(2) == 0 { 32 } else { 22 + next(10) as u8 };
            let destination = IpNet::new(destination.into(), bits).unwrap();
            let specific = source.prefix_len() + destination.prefix_len();
            between(source, destination, specific.into())
        })
        .collect();
    let rules = ground.rules(&entries);
    assert!(rules.tables() > 64, "{}: they do not crowd", rules.tables());

    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (view, flow) = packet().new_tree(&mut runner).unwrap().current();
    let packets: Vec<(FrameView, FlowKey)> = (0..800)
        .map(|_| {
            let source = Ipv4Addr::from_bits(10 << 24 | next(1 << 20)).into();
            let destination = Ipv4Addr::new(10, 0, next(8) as u8, next(256) as u8).into();
            let flow = FlowKey { source, destination, ..flow };
            (FrameView { flow: Some(flow), vlan: None, ..view }, flow)
        })
        .collect();
    let agree = |entries: &[RuleEntry], rules: &Rules| {
        let at = At::Port(0, 0);
        let together = found_each(rules, at, &packets);
        let mut all = Vec::new();
        for (number, (view, flow)) in packets.iter().enumerate() {
            let expected = reference(entries, at, view, flow);
            assert_eq!(found(rules, &ground, at, view, flow), expected, "{flow:?}");
            let is_asked = !(number % GROUP).is_multiple_of(3);
            assert_eq!(together[number], expected.filter(|_| is_asked), "{flow:?}");
            all.push(expected);
        }
        all
    };
    let before = agree(&entries, &rules);
    let hits = before.iter().flatten().count();
    assert!((200..800).contains(&hits), "{hits}");

    // Most of them go elsewhere.
    let mut changed = rules.clone();
    for number in (0..entries.len()).filter(|number| !number.is_multiple_of(8)) {
        let former = entries[number].clone();
        entries[number].matches.place = RulePlace::Port(port(1));
        ground.replace(&mut changed, number as u32, &former, &entries[number]);
    }
    let after = agree(&entries, &changed);
    let differ = before.iter().zip(&after).filter(|(before, after)| before != after);
    assert!(differ.count() > hits / 2);
}

#[test]
fn a_prefix_of_the_other_family_is_met_by_nothing() {
    let ground = Ground::new();
    let any_v4: IpNet = "0.0.0.0/0".parse().unwrap();
    let entries = [between("::/0".parse().unwrap(), any_v4, 1)];
    let rules = ground.rules(&entries);
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for _ in 0..64 {
        let (view, flow) = packet().new_tree(&mut runner).unwrap().current();
        assert_eq!(found(&rules, &ground, At::Port(0, 0), &view, &flow), None);
    }
}
