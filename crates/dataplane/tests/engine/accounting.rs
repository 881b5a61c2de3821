//! The identity over random programs and random, mutated packets: whatever comes, every packet is
//! accounted for on every node, no buffer is lost and nothing goes round for ever.

use crate::frames::Spec;
use crate::rig::{Behaviour, Rig};
use crate::scene::{packet, packet_v6, rules, three_hosts};
use crate::slices::{claims, frame, path, slice, user, users, with_port};
use crate::town::{Town, condition, tunnel_end};
use catena_dataplane::engine::TunnelKind;
use catena_io::{Offload, PartialChecksum, Segmentation, SegmentationKind};
use catena_model::PathId;
use catena_model::classifier::FieldMatch;
use catena_model::program::{PROXY_MAC, RuleMatch, RulePlace, SliceMatch, SlicePathEntry};
use catena_model::resource::Encapsulation;
use catena_model::slice::SlicePlace;
use catena_wire::scalar::{IpProtocol, MacAddr, VlanId};
use catena_wire::tcp::TcpFlags;
use catena_wire::varying::VaryingFields;
use proptest::prelude::*;
use proptest::sample::{Index, select};

const FUNCTIONS: [&str; 4] = ["v1", "v2", "v3", "v4"];

/// One of them more often: functions and chains that speak it meet.
fn encapsulations() -> impl Strategy<Value = Encapsulation> {
    let all = Encapsulation::ALL.into_iter();
    select(all.chain([Encapsulation::SourceRouteNative; 2]).collect::<Vec<_>>())
}

prop_compose! {
    fn chains()(
        encapsulation in encapsulations(),
        hops in prop::collection::vec(
            prop::collection::vec(select(&FUNCTIONS[..]), 1..3), 0..5),
    ) -> (Encapsulation, Vec<Vec<&'static str>>) {
        (encapsulation, hops)
    }
}

/// Conditions on fields beside the flow.
fn conditions() -> impl Strategy<Value = FieldMatch> {
    let said = vec![
        ("dscp", "ef"),
        ("dscp", "cs0"),
        ("tcp_flags", "syn"),
        ("tcp_flags", "psh,!syn"),
        ("tcp_flags", "!fin"),
    ];
    select(said).prop_map(|(name, words)| condition(name, words))
}

prop_compose! {
    pub(crate) fn towns()(
        chains in prop::collection::vec(chains(), 1..4),
        weights in prop::collection::vec(0u32..3, 4),
        speaks in prop::collection::vec(prop::option::weighted(0.25, encapsulations()), 4),
        taps in prop::collection::vec(prop::bool::weighted(0.25), 4),
        tagged in prop::collection::vec(prop::bool::weighted(0.4), 4),
        has_users in prop::bool::weighted(0.3),
        networks_meet in prop::bool::weighted(0.3),
        carries_metadata in any::<bool>(),
        keeping in prop::collection::vec(prop::bool::weighted(0.5), 4),
        fields in prop::collection::vec(prop::option::weighted(0.05, conditions()), 4),
    ) -> Town {
        let mut town = three_hosts();
        let keeping = town.instances.iter().zip(&keeping).filter(|(_, keeps)| **keeps);
        town.keeping = keeping.map(|(instance, _)| instance.name.clone()).collect();
        town.choice_seed = u64::from(weights.iter().sum::<u32>() % 3) * 0x1234_5678_9abc_def1;
        let source = town.port_named("S").id;
        for (instance, (weight, speaks)) in town.instances.iter_mut().zip(weights.iter().zip(&speaks)) {
            instance.weight = *weight;
            instance.speaks = *speaks;
        }
        for (number, (encapsulation, hops)) in chains.iter().enumerate() {
            let hops: Vec<&[&str]> = hops.iter().map(Vec::as_slice).collect();
            let port = 5_001 + u16::try_from(number).unwrap();
            let chain = town.chain(&format!("c{number}"), *encapsulation, &hops, &rules(port));
            if tagged[number] {
                let mut of_vlan = chain.rules.clone();
                of_vlan.iter_mut().for_each(|(_, matches)| matches.vlan = VlanId::new(TAG.into()).ok());
                chain.rules.extend(of_vlan);
            }
            if let Some(fields) = fields[number] {
                // Of the flows of the first chain, too, those packets that show it.
                let split = rules(5_001).into_iter().map(|matches| RuleMatch { fields, ..matches });
                chain.rules.extend(split.map(|matches| (11, matches)));
            }
            if taps[number] && hops.len() > 1 {
                chain.taps = vec![0];
            }
        }
        // One address of S alone is of this network.
        let foreign = town.network(300, &["10.0.0.1/32"]);
        if networks_meet && let Some(last) = town.chains.last_mut() {
            last.destination = foreign;
            let place = RulePlace::Port(source);
            last.rules.iter_mut().for_each(|(_, matches)| matches.place = place);
        }
        if has_users {
            let first = SlicePlace::After(town.chain_id(&town.chains[0]));
            let behind = SliceMatch { place: first, ..claims(None, users(2, 2)) };
            let all = claims(Some(USERS_VNI), users(1, USERS_LAST));
            town.slices = vec![slice(1, all)];
            town.slice_paths = vec![SlicePathEntry { carries_metadata, ..path(1, FIRST_PATH) }];
            // A tap that gives its copy back as if it were a function of the chain before would do
            // so for ever.
            if town.chains.iter().all(|chain| chain.taps.is_empty()) {
                town.slices.push(slice(2, behind));
                town.slice_paths.push(path(2, FIRST_PATH));
            }
            users_follow(&mut town);
        }
        town
    }
}

/// The VLAN that rules may ask for.
const TAG: u16 = 2;

/// Users of a slice, on a path like that of the first chain; user 2 goes on in the last, which may be
/// the first again.
pub(crate) const USERS_VNI: u32 = 5;
pub(crate) const USERS_LAST: u32 = 3;
const FIRST_PATH: PathId = PathId(100);

/// Their paths are like those of the first and the last chain, whatever these are.
fn users_follow(town: &mut Town) {
    let ends = [town.chains.first(), town.chains.last()];
    for (path, chain) in town.slice_paths.iter_mut().zip(ends) {
        path.like = chain.map_or(FIRST_PATH, |chain| PathId(chain.path));
    }
}

/// What is sent, and by which way in.
#[derive(Clone, Debug)]
pub(crate) enum Shot {
    Port {
        port: Index,
        what: Content,
        flips: Vec<(Index, u8)>,
        cut: Option<Index>,
    },
    Datagram {
        node: usize,
        kind: usize,
        from: usize,
        what: Content,
        flips: Vec<(Index, u8)>,
    },
    Replay {
        kind: usize,
        node: usize,
        which: Index,
        flips: Vec<(Index, u8)>,
        cut: Option<Index>,
    },
    /// By a user inside a tunnel, who may be in a slice.
    Subscriber {
        teid: u32,
        port: u16,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct Content {
    pub(crate) is_v6: bool,
    pub(crate) is_tcp: bool,
    pub(crate) port: u16,
    pub(crate) vlan: Option<u16>,
    pub(crate) bytes: usize,
    pub(crate) to: Index,
    pub(crate) segment_bytes: Option<u16>,
    pub(crate) is_partial: bool,
    pub(crate) varying: VaryingFields,
}

/// What packets show beside their flow.
pub(crate) fn varying() -> impl Strategy<Value = VaryingFields> {
    let flags = [
        TcpFlags::ACK,
        TcpFlags::SYN,
        TcpFlags::ACK.with(TcpFlags::PSH),
        TcpFlags::ACK.with(TcpFlags::FIN).with(TcpFlags::CWR),
    ];
    (select(&[0u8, 0, 46, 10][..]), select(flags.to_vec()))
        .prop_map(|(dscp, flags)| VaryingFields { dscp, tcp_flags: Some(flags) })
}

prop_compose! {
    fn contents()(
        is_v6 in any::<bool>(),
        is_tcp in any::<bool>(),
        port in 5_000u16..5_005,
        vlan in prop::option::weighted(0.1, 1u16..4),
        bytes in prop_oneof![0usize..200, 1_300usize..1_500, 2_000usize..20_000],
        to in any::<Index>(),
        segment_bytes in prop::option::weighted(0.3, 100u16..1_500),
        is_partial in any::<bool>(),
        varying in varying(),
    ) -> Content {
        Content { is_v6, is_tcp, port, vlan, bytes, to, segment_bytes, is_partial, varying }
    }
}

fn flips() -> impl Strategy<Value = Vec<(Index, u8)>> {
    prop_oneof![
        3 => Just(Vec::new()),
        2 => prop::collection::vec((any::<Index>(), 0u8..8), 1..4),
    ]
}

pub(crate) fn shots() -> impl Strategy<Value = Shot> {
    let cut = || prop::option::weighted(0.1, any::<Index>());
    prop_oneof![
        6 => (any::<Index>(), contents(), flips(), cut())
            .prop_map(|(port, what, flips, cut)| Shot::Port { port, what, flips, cut }),
        1 => (0usize..3, 0usize..3, 0usize..4, contents(), flips()).prop_map(
            |(node, kind, from, what, flips)| Shot::Datagram { node, kind, from, what, flips }
        ),
        2 => (0usize..3, 0usize..3, any::<Index>(), flips(), cut()).prop_map(
            |(kind, node, which, flips, cut)| Shot::Replay { kind, node, which, flips, cut }
        ),
        1 => users_shots(),
    ]
}

/// What users send, one of whom no slice takes.
fn users_shots() -> impl Strategy<Value = Shot> {
    (0..USERS_LAST + 2, 1_000u16..1_004).prop_map(|(teid, port)| Shot::Subscriber { teid, port })
}

impl Content {
    pub(crate) fn make(&self, town: &Town) -> (Vec<u8>, Offload) {
        let spec = if self.is_v6 { packet_v6(town, self.port) } else { packet(town, self.port) };
        let macs: Vec<MacAddr> = town
            .ports
            .iter()
            .map(|port| port.mac)
            .chain([PROXY_MAC, MacAddr::BROADCAST, MacAddr([2; 6]), MacAddr([1, 0, 0x5e, 0, 0, 1])])
            .collect();
        // Every second frame is for D, or no chain would be walked to its end.
        let towards = self.to.index(macs.len() * 2);
        let spec = Spec {
            destination_mac: macs.get(towards).copied().unwrap_or(spec.destination_mac),
            protocol: if self.is_tcp { IpProtocol::TCP } else { IpProtocol::UDP },
            vlan: self.vlan,
            payload: vec![0x5a; self.bytes],
            varying: self.varying,
            ..spec
        };
        let frame = spec.frame();
        let start = if self.is_v6 { 54 } else { 34 } + if self.vlan.is_some() { 4 } else { 0 };
        let kind = match (self.is_tcp, self.is_v6) {
            (true, false) => SegmentationKind::TcpV4,
            (true, true) => SegmentationKind::TcpV6,
            (false, _) => SegmentationKind::UdpL4,
        };
        let offload = Offload {
            checksum: self
                .is_partial
                .then_some(PartialChecksum { start, offset: if self.is_tcp { 16 } else { 6 } }),
            segmentation: self.segment_bytes.map(|segment_bytes| Segmentation {
                kind,
                ecn: false,
                segment_bytes,
                header_bytes: 0,
            }),
        };
        (frame, offload)
    }
}

fn damage(bytes: &mut Vec<u8>, flips: &[(Index, u8)], cut: Option<&Index>) {
    for (place, bit) in flips {
        if !bytes.is_empty() {
            let place = place.index(bytes.len());
            bytes[place] ^= 1 << bit;
        }
    }
    if let Some(cut) = cut {
        bytes.truncate(cut.index(bytes.len() + 1));
    }
}

pub(crate) fn shoot(rig: &mut Rig, shot: &Shot) {
    match shot {
        Shot::Port { port, what, flips, cut } => {
            let (mut bytes, offload) = what.make(&rig.town);
            damage(&mut bytes, flips, cut.as_ref());
            let name = rig.town.ports[port.index(rig.town.ports.len())].name.clone();
            rig.queue(&name, &bytes, offload);
        }
        Shot::Datagram { node, kind, from, what, flips } => {
            let (mut bytes, _) = what.make(&rig.town);
            let mut datagram = vec![8, 0, 0, 0, 0, 0, 100, 0];
            datagram.append(&mut bytes);
            damage(&mut datagram, flips, None);
            let kind = TunnelKind::ALL[*kind];
            rig.queue_datagram(*node, kind, tunnel_end(*from, kind), &datagram);
        }
        Shot::Replay { kind, node, which, flips, cut } => {
            if rig.datagrams.is_empty() {
                return;
            }
            let seen = rig.datagrams[which.index(rig.datagrams.len())].clone();
            let size = seen.segment_bytes.map_or(seen.bytes.len(), usize::from);
            let mut bytes = seen.bytes[..size.min(seen.bytes.len())].to_vec();
            damage(&mut bytes, flips, cut.as_ref());
            let kind = if flips.len() == 2 { TunnelKind::ALL[*kind] } else { seen.kind };
            rig.queue_datagram(*node, kind, tunnel_end((node + 1) % 3, kind), &bytes);
        }
        Shot::Subscriber { teid, port } => {
            let bytes = frame(&rig.town, with_port(user(USERS_VNI, *teid), *port));
            rig.queue("S", &bytes, Offload::default());
        }
    }
}

/// Lets the functions of the town do what their numbers say.
pub(crate) fn behave(rig: &mut Rig, first: &Town, behaviours: &[usize]) {
    let mut may_bridge = true;
    for (name, behaviour) in FUNCTIONS.iter().zip(behaviours) {
        let instance = first.instance(name).1;
        let other = match (behaviour, instance.speaks) {
            (0, _) => Some(Behaviour::Swallow),
            (1, _) => Some(Behaviour::Echo),
            // Between two networks, and one of them alone, or ordinary traffic would be bridged in a circle.
            (3, None) if matches!(*name, "v1" | "v2") && std::mem::take(&mut may_bridge) => {
                Some(Behaviour::Bridge)
            }
            (2, None) => Some(Behaviour::Route(first.mac("D"))),
            _ => None,
        };
        if let Some(other) = other {
            rig.behaviours.insert((*name).to_owned(), other);
        }
    }
}

/// Puts the chains of another town in place of those that are there.
pub(crate) fn chains_of(rig: &mut Rig, second: &Town, shift: u32) {
    rig.town.chains.clone_from(&second.chains);
    rig.town.keeping.clone_from(&second.keeping);
    // Identifiers that other chains had, or that are new.
    for (number, chain) in (0..).zip(&mut rig.town.chains) {
        chain.path = 100 + (number + shift) % 4;
    }
    rig.town.slices.clone_from(&second.slices);
    rig.town.slice_paths.clone_from(&second.slice_paths);
    users_follow(&mut rig.town);
    rig.apply();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn every_packet_is_accounted_for(
        first in towns(),
        second in towns(),
        behaviours in prop::collection::vec(0usize..6, 4),
        shots in prop::collection::vec(prop::collection::vec(shots(), 1..12), 1..6),
        shift in 1u32..4,
        flows_max in select(vec![1usize, 4, 65_536 / 64]),
        is_coalescing in any::<bool>(),
    ) {
        let change = |config: &mut catena_dataplane::engine::EngineConfig| {
            config.flows_max = flows_max;
            config.is_coalescing = is_coalescing;
        };
        let mut rig = Rig::with(first.clone(), change, 384);
        behave(&mut rig, &first, &behaviours);
        let half = shots.len() / 2;
        for (round, volley) in shots.iter().enumerate() {
            if round == half {
                chains_of(&mut rig, &second, shift);
            }
            for shot in volley {
                shoot(&mut rig, shot);
            }
            rig.run();
        }
        rig.check();
    }
}
