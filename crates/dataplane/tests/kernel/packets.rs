//! Random packets of few flows, so that most of them meet a flow that is known: whole and cut, plain
//! and super-frames, and such as nobody should send.

use crate::dice::Dice;
use crate::frames::Spec;
use crate::passing::annotation;
use crate::streets::{CHAINED_PORTS, ENDPOINTS, FAR, TownKind};
use crate::town::{Town, node_address, node_segments};
use catena_dataplane::engine::TunnelKind;
use catena_fastpath::{KERNEL_TAG, OuterHeader};
use catena_io::{Offload, PartialChecksum, Segmentation, SegmentationKind};
use catena_model::limits::TUNNEL_LAYERS_MAX;
use catena_model::resource::Encapsulation;
use catena_wire::gtp_u::{GtpUHeader, GtpUMessage};
use catena_wire::mpls::SfcLabelPair;
use catena_wire::nsh::{ContextHeaders, Metadata, NshHeader, NshNextProtocol};
use catena_wire::ports;
use catena_wire::scalar::{
    FlowLabel, IpProtocol, MacAddr, MplsLabel, NshTtl, ServiceIndex, Spi, Teid, Vni,
};
use catena_wire::srv6::{Encaps, Inner, SegmentFlags, Sid};
use catena_wire::varying::VaryingFields;
use catena_wire::vxlan::VxlanHeader;
use catena_wire::vxlan_gpe::{GpeNextProtocol, VxlanGpeHeader};
use std::net::{IpAddr, Ipv6Addr};

/// A frame and what its sender left to the wire.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    /// Name of the port that it comes in by.
    pub(crate) port: String,
    pub(crate) bytes: Vec<u8>,
    pub(crate) offload: Offload,
}

/// Flows that a town has, and one that is crowded.
const FLOWS: usize = 10;
const FLOWS_CROWDED: usize = 100;
/// The code point that some rules look at (RFC 3246).
const EF: u8 = 46;
/// Contents of metadata that nodes send.
const CONTENTS: usize = 1_000;

fn flows(seed: u64) -> usize {
    if TownKind::of(seed).is_crowded { FLOWS_CROWDED } else { FLOWS }
}

/// A packet from an endpoint of the node; `seed` is that of the town.
pub(crate) fn roll(town: &Town, seed: u64, dice: &mut Dice) -> Sent {
    let number = dice.below(flows(seed)) as u64;
    let flow = &mut flow_dice(seed, number);
    let from = flow.below(ENDPOINTS.len());
    let others = [(from + 1) % ENDPOINTS.len(), (from + 2) % ENDPOINTS.len()];
    let to = if flow.once_in(6) { FAR } else { ENDPOINTS[flow.pick(&others)] };
    of_flow(town, ENDPOINTS[from], to, flow, dice)
}

/// A packet of a user whom a slice takes.
pub(crate) fn roll_user(town: &Town, seed: u64) -> Sent {
    let (from, to) = (ENDPOINTS[0], ENDPOINTS[1]);
    let mut spec = spec(town, &mut flow_dice(seed, 0), from, to);
    let packet = spec.frame().split_off(14);
    (spec.protocol, spec.ports.1) = (IpProtocol::UDP, ports::GTP_U);
    spec.payload = user(&packet, Teid(1));
    Sent { port: from.0.to_owned(), bytes: spec.frame(), offload: Offload::default() }
}

/// What makes a flow falls the same way each time.
fn flow_dice(seed: u64, number: u64) -> Dice {
    Dice(seed.wrapping_mul(FLOWS_CROWDED as u64) + number)
}

/// A packet of a flow: what does not make the flow falls anew.
fn of_flow(
    town: &Town,
    from: (&str, u8),
    to: (&str, u8),
    flow: &mut Dice,
    dice: &mut Dice,
) -> Sent {
    let mut spec = spec(town, flow, from, to);
    spec.payload.extend(vec![7; 12 + dice.below(64)]);
    let mut offload = Offload::default();
    if spec.protocol == IpProtocol::TCP && dice.once_in(4) {
        spec.payload = vec![7; 1 + dice.below(2_500)];
        offload = super_frame(&spec, dice);
    }
    oddness(&mut spec, dice);
    let in_tunnels_one_in = if town.slices.is_empty() { 15 } else { 3 };
    if dice.once_in(in_tunnels_one_in) && offload.segmentation.is_none() {
        in_tunnels(&mut spec, dice);
    }
    let mut bytes = spec.frame();
    if offload.segmentation.is_some() && spec.vlan.is_some() {
        offload = Offload::default();
    }
    if dice.once_in(25) {
        spoil(&mut bytes, dice);
    }
    if dice.once_in(100) && bytes.len() > 14 {
        // A chain header, which is no tenant's.
        bytes[12..14].copy_from_slice(&dice.pick(&[[0x89, 0x4f], [0x88, 0x47]]));
    }
    Sent { port: from.0.to_owned(), bytes, offload }
}

fn spec(town: &Town, dice: &mut Dice, from: (&str, u8), to: (&str, u8)) -> Spec {
    let address = |last: u8, is_v6: bool| match is_v6 {
        true => format!("2001:db8::{last}").parse().unwrap(),
        false => format!("10.0.0.{last}").parse().unwrap(),
    };
    let is_v6 = dice.once_in(3);
    let protocol = match dice.below(8) {
        0 if is_v6 => IpProtocol::ICMPV6,
        0 => IpProtocol::ICMP,
        1..=4 => IpProtocol::TCP,
        _ => IpProtocol::UDP,
    };
    let payload = match protocol {
        IpProtocol::ICMP => vec![8, 0, 0, 0, 0, 7, 0, 1],
        IpProtocol::ICMPV6 => vec![128, 0, 0, 0, 0, 7, 0, 1],
        _ => Vec::new(),
    };
    let destination_port = if dice.once_in(5) { 9 } else { dice.pick(&CHAINED_PORTS) };
    Spec {
        source_mac: town.mac(from.0),
        destination_mac: town.mac(to.0),
        source: address(from.1, is_v6),
        destination: address(to.1, is_v6),
        protocol,
        ports: (40_000 + dice.below(2) as u16, destination_port),
        vlan: None,
        ttl: 64,
        sequence: dice.word() as u32,
        identification: 7,
        fragment: (0, false),
        payload,
        varying: VaryingFields { dscp: if dice.once_in(6) { EF } else { 0 }, tcp_flags: None },
    }
}

/// What some senders do, each rarely.
fn oddness(spec: &mut Spec, dice: &mut Dice) {
    match dice.below(60) {
        0 => spec.vlan = Some(7),
        1 => spec.fragment = (0, true),
        2 => spec.fragment = (3, false),
        3 => spec.destination_mac = MacAddr([2, 9, 9, 9, 9, 9]),
        4 => spec.destination_mac = spec.source_mac,
        5 => spec.destination_mac = MacAddr::BROADCAST,
        6 => spec.ttl = 1,
        7 => spec.protocol = IpProtocol(132),
        8 | 9 => spec.payload = vec![7; 1_420],
        _ => {}
    }
}

/// Makes a packet one of a tunnel: a user's, one whose header lies, or too many in one another.
fn in_tunnels(spec: &mut Spec, dice: &mut Dice) {
    let inner = spec.frame().split_off(if spec.vlan.is_some() { 18 } else { 14 });
    spec.protocol = IpProtocol::UDP;
    match dice.below(3) {
        0 => {
            let teid = dice.below(1_500) as u32;
            spec.ports.1 = ports::GTP_U;
            spec.payload = user(&inner, Teid(teid));
        }
        1 => {
            spec.ports.1 = ports::GTP_U;
            // A length beyond what is there.
            spec.payload = user(&[], Teid(7));
            spec.payload[2] = 0x7f;
        }
        _ => {
            spec.ports.1 = ports::VXLAN;
            for _ in 0..=TUNNEL_LAYERS_MAX {
                let mut header = [0; VxlanHeader::LEN];
                VxlanHeader { vni: Vni::new(5).unwrap() }.emit(&mut header).unwrap();
                spec.payload = [&header[..], &spec.frame()].concat();
            }
        }
    }
}

/// A packet of a user behind its GTP-U header.
fn user(packet: &[u8], teid: Teid) -> Vec<u8> {
    let header = GtpUHeader {
        message: GtpUMessage::G_PDU,
        teid,
        sequence: None,
        pdu_session: None,
        payload_bytes: packet.len() as u16,
    };
    let mut bytes = vec![0; header.len_bytes()];
    header.emit(&mut bytes).unwrap();
    bytes.extend(packet);
    bytes
}

/// A question for an address whose end is missing.
pub(crate) fn cut_arp(source: &[u8], dice: &mut Dice) -> Vec<u8> {
    let mut bytes = MacAddr::BROADCAST.0.to_vec();
    bytes.extend(source);
    bytes.extend([0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 1]);
    bytes.extend(vec![1; dice.below(19)]);
    bytes
}

fn super_frame(spec: &Spec, dice: &mut Dice) -> Offload {
    let is_v6 = spec.source.is_ipv6();
    let start = 14 + if is_v6 { 40 } else { 20 };
    Offload {
        checksum: Some(PartialChecksum { start, offset: 16 }),
        segmentation: Some(Segmentation {
            kind: if is_v6 { SegmentationKind::TcpV6 } else { SegmentationKind::TcpV4 },
            ecn: false,
            segment_bytes: 100 + dice.below(1_200) as u16,
            header_bytes: start + 20,
        }),
    }
}

fn spoil(bytes: &mut Vec<u8>, dice: &mut Dice) {
    match dice.below(4) {
        0 | 1 => {
            let bit = dice.below(bytes.len().min(60) * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        2 => {
            let bound = if dice.once_in(2) { 14.min(bytes.len()) } else { bytes.len() };
            bytes.truncate(dice.below(bound));
        }
        _ => bytes.extend(vec![0; 1 + dice.below(30)]),
    }
}

/// A datagram from a node.
#[derive(Clone, Debug)]
pub(crate) struct SentByTunnel {
    pub(crate) kind: TunnelKind,
    pub(crate) source: IpAddr,
    pub(crate) bytes: Vec<u8>,
}

impl SentByTunnel {
    /// With the headers that it has on the underlay, as a kernel writes them.
    pub(crate) fn on_the_wire(&self, to: IpAddr) -> Vec<u8> {
        // To the interface that it comes in by, the loopback.
        let mut frame = [0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 2].to_vec();
        if self.kind.is_segmented() {
            frame.extend([0x86, 0xdd]);
            frame.extend(&self.bytes);
            return frame;
        }
        let (IpAddr::V4(source), IpAddr::V4(destination)) = (self.source, to) else {
            panic!("the town's tunnels are of IPv4");
        };
        let destination_port = self.kind.udp_port();
        let outer = OuterHeader { source, destination, source_port: 50_000, destination_port };
        frame.extend([8, 0]);
        frame.extend(outer.with(&self.bytes).unwrap());
        let total = (frame.len() - 14) as u16;
        catena_wire::ipv4::set_total_length(&mut frame[14..], total).unwrap();
        catena_wire::udp::set_length(&mut frame[34..], total - 20).unwrap();
        frame
    }
}

/// What segments have led here from another node's kernel, and now and then from its engine.
fn roll_over_segments(town: &Town, seed: u64, dice: &mut Dice) -> SentByTunnel {
    let number = dice.below(flows(seed));
    let flow = &mut flow_dice(seed, 1_000 + number as u64);
    let known = town.chains.get(number % town.chains.len().max(1)).map(|chain| chain.path);
    let path = known.filter(|_| !dice.once_in(5)).unwrap_or(90_000);
    let hop = dice.pick(&[0, 0, 0, 0, 1, 1, 2, 3]);
    let own = match dice.once_in(20) {
        true => node_segments(1),
        false => node_segments(0),
    };
    let to = ENDPOINTS[flow.below(ENDPOINTS.len())];
    let inner = of_flow(town, FAR, to, flow, dice);
    let packet = inner.bytes.get(14..).unwrap_or_default();
    let kept =
        if inner.offload.segmentation.is_some() { packet.len().min(66) } else { packet.len() };
    let inside = match inner.bytes.get(12..14) {
        Some([0x86, 0xdd]) => Inner::Ipv6,
        _ if dice.once_in(40) => Inner::Ethernet,
        _ => Inner::Ipv4,
    };
    let class = match (inside, packet) {
        (Inner::Ipv6, [first, second, ..]) => first << 4 | second >> 4,
        (_, [_, class, ..]) => *class,
        _ => 0,
    };
    let function = dice.pick(&[1, 20, 21]);
    let first = Sid { locator: own.locator, function, path, hop }.address();
    let next = node_segments(1).address;
    let way: Vec<Ipv6Addr> = [first].into_iter().chain(vec![next; flow.below(3)]).collect();
    let encaps = Encaps {
        source: node_segments(1).address,
        way: &way,
        traffic_class: if dice.once_in(12) { class ^ dice.below(4) as u8 } else { class },
        flow_label: FlowLabel::new(7).unwrap(),
        hop_limit: if dice.once_in(8) { 1 } else { 2 + dice.below(2) as u8 },
        inner: inside,
        is_reduced: false,
        flags: SegmentFlags::default(),
        tag: if dice.once_in(8) { 0 } else { KERNEL_TAG },
        tlvs: &[],
        key_id: None,
    };
    let mut bytes = vec![0; encaps.len_bytes()];
    encaps.emit(kept, &mut bytes).unwrap();
    let length = bytes.len();
    bytes.extend(&packet[..kept]);
    match dice.below(15) {
        0 => spoil(&mut bytes, dice),
        1 => bytes.truncate(40.max(dice.below(length))),
        2 => bytes[dice.below(length)] ^= 1 << dice.below(8),
        _ => {}
    }
    bytes.resize(bytes.len().max(60), 0);
    let source = Ipv6Addr::from(*bytes[8..24].first_chunk::<16>().unwrap());
    SentByTunnel { kind: TunnelKind::SEGMENTS, source: source.into(), bytes }
}

/// A datagram of another node, or of who pretends to be one.
pub(crate) fn roll_datagram(town: &Town, seed: u64, dice: &mut Dice) -> SentByTunnel {
    if TownKind::of(seed).is_segmented && dice.once_in(2) {
        return roll_over_segments(town, seed, dice);
    }
    let is_crowded = TownKind::of(seed).is_crowded;
    // Contents of metadata crowd a memory too.
    let carries_metadata = is_crowded && dice.once_in(2);
    let kind = if carries_metadata {
        TunnelKind::Path(Encapsulation::Nsh)
    } else {
        dice.pick(&TunnelKind::ALL)
    };
    let source = if dice.once_in(12) { "192.0.2.77".parse().unwrap() } else { node_address(1) };
    let number = dice.below(flows(seed));
    let flow = &mut flow_dice(seed, 1_000 + number as u64);
    // A flow is on one path until chains change.
    let of_users = town.slice_paths.first().filter(|_| number == 0).map(|path| path.id.0);
    let of_chain = town.chains.get(number % town.chains.len().max(1)).map(|chain| chain.path);
    let known = of_users.or(of_chain);
    let path = known.filter(|_| !dice.once_in(5)).unwrap_or(90_000);
    // To later functions others send.
    let hop = dice.pick(&[0, 0, 0, 0, 1, 1, 2, 3]);
    let (index, ttl) = (ServiceIndex(255 - hop), 1 + dice.below(3) as u8);
    let mut bytes = vec![0; 64];
    let length = match kind {
        TunnelKind::Vxlan => {
            let vni = Vni::new(dice.pick(&[100, 100, 100, 200, 999])).unwrap();
            VxlanHeader { vni }.emit(&mut bytes).unwrap()
        }
        TunnelKind::Path(
            Encapsulation::SourceRouteNative
            | Encapsulation::SourceRouteSafe9
            | Encapsulation::SourceRouteClassic80
            | Encapsulation::SourceRouteSrMpls
            | Encapsulation::SourceRoutePolka
            | Encapsulation::SourceRouteNativeTagged
            | Encapsulation::Srv6
            | Encapsulation::Srv6Ethernet
            | Encapsulation::Srv6Csid,
        ) => 0,
        TunnelKind::Path(Encapsulation::Mpls) => {
            let label = MplsLabel::ordinary(path).unwrap();
            SfcLabelPair::new(label, index, ttl).unwrap().emit(&mut bytes).unwrap()
        }
        TunnelKind::Path(Encapsulation::Nsh) => {
            let vni = Vni::new(100).unwrap();
            let next = if dice.once_in(20) { 2 } else { GpeNextProtocol::NSH.0 };
            let gpe = VxlanGpeHeader { vni, next: GpeNextProtocol(next), is_oam: false };
            let first = gpe.emit(&mut bytes).unwrap();
            let context = context(is_crowded, dice);
            bytes.resize(first + NshHeader::LEN_MAX, 0);
            let nsh = NshHeader {
                spi: Spi::new(path).unwrap(),
                si: index,
                ttl: NshTtl::new(u32::from(ttl)).unwrap(),
                metadata: match context.is_empty() {
                    true => Metadata::ZERO,
                    false => Metadata::Type2(ContextHeaders::parse(&context).unwrap()),
                },
                next: NshNextProtocol::ETHERNET,
                is_oam: false,
            };
            first + nsh.emit(&mut bytes[first..]).unwrap()
        }
    };
    bytes.truncate(length);
    let to = ENDPOINTS[flow.below(ENDPOINTS.len())];
    let inner = of_flow(town, FAR, to, flow, dice);
    let end = if inner.offload.segmentation.is_some() { 80 } else { inner.bytes.len() };
    bytes.extend(&inner.bytes[..end.min(inner.bytes.len())]);
    match dice.below(15) {
        0 => spoil(&mut bytes, dice),
        1..=2 => bytes.truncate(dice.below(length)),
        3..=4 => bytes[dice.below(length)] ^= 1 << dice.below(8),
        _ => {}
    }
    SentByTunnel { kind, source, bytes }
}

/// Metadata that a node sends: none, such as there is, or more than is passed on, as one header of
/// RFC 8300 holds it.
fn context(is_crowded: bool, dice: &mut Dice) -> Vec<u8> {
    match dice.below(8) {
        0 => [annotation(116), annotation(120)].concat(),
        number if number < 3 || is_crowded => {
            let mut context = annotation(4);
            let content = dice.below(CONTENTS) as u32;
            context[4..].copy_from_slice(&content.to_be_bytes());
            context
        }
        _ => Vec::new(),
    }
}
