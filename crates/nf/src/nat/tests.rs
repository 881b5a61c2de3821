//! What becomes of packets, by the sections of the RFCs that ask for it.

mod errors;
mod fragments;
mod hairpin;
mod offload;
mod profile;
mod properties;
mod state;

use super::*;
use crate::carry_out;
use crate::harness::traffic::Shape;
use crate::outcome::GeneratedKind;
use crate::packet::Metadata;
use catena_wire::field::UpperChecksum;
use catena_wire::frame::FrameView;
use catena_wire::icmp::IcmpView;
use catena_wire::icmp::error_message::{ErrorMessage, FRAME_BYTES_MAX, Said};
use catena_wire::scalar::{IpProtocol, MacAddr};
use catena_wire::tcp::{TcpFlags, TcpView};
use catena_wire::udp::UdpView;
use std::net::{IpAddr, Ipv4Addr};

const INSIDE: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const OUTSIDE: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
const SYN: TcpFlags = TcpFlags::SYN;
const SYN_ACK: TcpFlags = TcpFlags::SYN.with(TcpFlags::ACK);
const ACK: TcpFlags = TcpFlags::ACK;
const NONE: TcpFlags = TcpFlags(0);
const UDP: IpProtocol = IpProtocol::UDP;
const TCP: IpProtocol = IpProtocol::TCP;
const ICMP: IpProtocol = IpProtocol::ICMP;

/// An address and a port.
type Place = (Ipv4Addr, u16);

const fn at(address: [u8; 4], port: u16) -> Place {
    let [a, b, c, d] = address;
    (Ipv4Addr::new(a, b, c, d), port)
}

const HOST: Place = at([10, 0, 1, 7], 40_000);
const OTHER_HOST: Place = at([10, 0, 1, 8], 40_000);
const SERVER: Place = at([198, 51, 100, 1], 53);
const OTHER_SERVER: Place = at([198, 51, 100, 2], 443);
const POOL: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 4);

const SIMPLE: &str = "masquerade: [10.0.1.0/24]\npool: [203.0.113.4]\n";
const ALL: &str = include_str!("../../../../conformance/nf/nat/office.yaml");

fn config(text: &str) -> NatConfig {
    catena_rules::nat::read(text, "nat.yaml").unwrap_or_else(|error| panic!("{error}"))
}

fn nat(text: &str) -> Nat {
    let options = NatOptions { flows_max: 512, seed: 7, ..NatOptions::default() };
    Nat::new(&config(text), &options).unwrap_or_else(|error| panic!("{error}"))
}

fn shape(protocol: IpProtocol, from: Place, to: Place, flags: TcpFlags) -> Shape {
    Shape {
        ends: (from.0.into(), to.0.into()),
        protocol,
        ports: (from.1, to.1),
        flags,
        options: Vec::new(),
        traffic_class: 0,
        ttl: 64,
        identification: 77,
        payload: vec![5; 40],
        vlan: None,
        is_later_fragment: false,
        macs: (OUTSIDE, INSIDE),
    }
}

fn packet(protocol: IpProtocol, from: Place, to: Place, flags: TcpFlags) -> Vec<u8> {
    shape(protocol, from, to, flags).frame().unwrap()
}

/// A message of ICMP of this type, with an identifier.
fn message(kind: u8, identifier: u16, from: Ipv4Addr, to: Ipv4Addr) -> Vec<u8> {
    let mut frame = packet(ICMP, (from, kind.into()), (to, 0), NONE);
    let view = FrameView::parse(&frame).unwrap();
    let value = (identifier.into(), u128::MAX);
    Field::IcmpIdentifier.write(&mut frame, &view, value, UpperChecksum::Closed).unwrap();
    frame
}

/// What became of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Came {
    Through(Vec<u8>),
    Back(Vec<Vec<u8>>),
    Dropped(String),
    Full,
}

/// Shows a NAT one packet, and does what it says.
fn show(nat: &mut Nat, seconds: u64, direction: Direction, frame: &[u8]) -> Came {
    let packet = Packet::read(frame).unwrap();
    show_packet(nat, Time::seconds(seconds), direction, &packet)
}

fn show_packet(nat: &mut Nat, now: Time, direction: Direction, packet: &Packet<'_>) -> Came {
    let mut outcomes = Outcomes::default();
    nat.process(now, direction, &[*packet], &mut outcomes);
    crate::check::outcomes(nat.profile(), 1, &outcomes).unwrap();
    if !outcomes.generated().is_empty() {
        let made = outcomes.generated().iter().map(|(_, made)| {
            assert_eq!((made.kind, made.direction), (GeneratedKind::Hairpin, direction.reversed()));
            outcomes.bytes(made.frame.clone()).to_vec()
        });
        return Came::Back(made.collect());
    }
    match outcomes.verdicts() {
        [Verdict::Drop(DropCause::Rule(rule))] => Came::Dropped(nat.rule_in_words(*rule).unwrap()),
        [Verdict::Drop(DropCause::Full)] => Came::Full,
        _ => {
            if let [(_, place)] = outcomes.replaced() {
                return Came::Through(outcomes.bytes(place.clone()).to_vec());
            }
            let mut frame = packet.frame.to_vec();
            let view = packet.view;
            let parts = (&mut frame[..], &view);
            let patches = outcomes.patches_of(0);
            carry_out::apply(patches, parts, packet.upper, &mut Metadata::default()).unwrap();
            Came::Through(frame)
        }
    }
}

/// Who sends a frame to whom; of a query, the identifier is on both sides.
fn ends(frame: &[u8]) -> (Place, Place) {
    let view = FrameView::parse(frame).unwrap();
    assert!(is_sound(frame), "its checksums are right");
    let (flow, v4) = (view.flow.unwrap(), |address| match address {
        IpAddr::V4(v4) => v4,
        IpAddr::V6(_) => panic!("IPv6"),
    });
    let id = Field::IcmpIdentifier.read(frame, &view).map(|id| u16::try_from(id).unwrap());
    let ports = id.map_or((flow.source_port, flow.destination_port), |id| (id, id));
    ((v4(flow.source), ports.0), (v4(flow.destination), ports.1))
}

/// Are the checksums of a whole packet right?
fn is_sound(frame: &[u8]) -> bool {
    let view = FrameView::parse(frame).unwrap();
    let flow = view.flow.unwrap();
    let l3 = usize::from(view.l3_offset);
    let l4 = usize::from(view.l4_offset.unwrap());
    let upper = &frame[l4..view.end as usize];
    let header = catena_wire::checksum::Sum::of(&frame[l3..l4]).is_correct();
    header
        && match view.protocol.unwrap() {
            _ if view.fragment != catena_wire::frame::Fragment::Whole => true,
            TCP => {
                TcpView::parse(upper).unwrap().is_checksum_correct(flow.source, flow.destination)
            }
            UDP => {
                UdpView::parse(upper).unwrap().is_checksum_correct(flow.source, flow.destination)
            }
            ICMP => IcmpView::parse(upper).unwrap().is_v4_checksum_correct(),
            _ => true,
        }
}

fn through(came: Came) -> Vec<u8> {
    match came {
        Came::Through(frame) => frame,
        other => panic!("it goes on: {other:?}"),
    }
}

fn out(nat: &mut Nat, seconds: u64, frame: &[u8]) -> Vec<u8> {
    through(show(nat, seconds, Direction::Forward, frame))
}

fn back(nat: &mut Nat, seconds: u64, frame: &[u8]) -> Vec<u8> {
    through(show(nat, seconds, Direction::Backward, frame))
}

fn dropped(words: &str) -> Came {
    Came::Dropped(words.to_owned())
}

/// An error of some router about a frame.
fn error_about(frame: &[u8], from: Ipv4Addr) -> Vec<u8> {
    let mut error = vec![0; FRAME_BYTES_MAX];
    let length = ErrorMessage::judge(frame)
        .unwrap()
        .emit(Said::unreachable_v4(1), (OUTSIDE, INSIDE), &mut error)
        .unwrap();
    error.truncate(length);
    let view = FrameView::parse(&error).unwrap();
    let value = (from.to_bits().into(), u128::MAX);
    Field::Source.write(&mut error, &view, value, UpperChecksum::Closed).unwrap();
    error
}

/// The packet that an error quotes.
fn quoted(frame: &[u8]) -> &[u8] {
    let view = FrameView::parse(frame).unwrap();
    &frame[usize::from(view.l4_offset.unwrap()) + 8..view.end as usize]
}

/// The front of a frame's packet.
fn front(frame: &[u8], bytes: usize) -> &[u8] {
    let start = usize::from(FrameView::parse(frame).unwrap().l3_offset);
    &frame[start..start + bytes]
}

const ROUTER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

/// RFC 4787 REQ-1 and REQ-3, section 4.2.1: a port is kept, and is the same for all.
#[test]
fn a_mapping_is_independent_of_endpoints() {
    let mut nat = nat(SIMPLE);
    let first = out(&mut nat, 0, &packet(UDP, HOST, SERVER, NONE));
    assert_eq!(ends(&first), ((POOL, 40_000), SERVER));
    let second = out(&mut nat, 1, &packet(UDP, HOST, OTHER_SERVER, NONE));
    assert_eq!(ends(&second), ((POOL, 40_000), OTHER_SERVER));
    let other = ends(&out(&mut nat, 1, &packet(UDP, OTHER_HOST, SERVER, NONE))).0;
    assert!(other.0 == POOL && other.1 != 40_000 && other.1.is_multiple_of(2), "{other:?}");
    let answer = back(&mut nat, 2, &packet(UDP, SERVER, other, NONE));
    assert_eq!(ends(&answer), (SERVER, OTHER_HOST));
    // Nothing else is written: the same packet comes back as it was.
    let sent = packet(UDP, SERVER, (POOL, 40_000), NONE);
    assert_eq!(back(&mut nat, 2, &sent), packet(UDP, SERVER, HOST, NONE));
}

#[test]
fn what_no_rule_speaks_of_passes_and_what_nobody_asked_for_does_not() {
    let mut nat = nat(SIMPLE);
    let strange = packet(UDP, at([192, 168, 0, 1], 5), SERVER, NONE);
    assert_eq!(out(&mut nat, 0, &strange), strange);
    let other = packet(UDP, SERVER, at([192, 168, 0, 1], 5), NONE);
    assert_eq!(back(&mut nat, 0, &other), other);
    let unasked = [(POOL, 40_000), HOST];
    for to in unasked {
        let came = show(&mut nat, 0, Direction::Backward, &packet(UDP, SERVER, to, NONE));
        assert_eq!(came, dropped("no mapping"));
    }
    let gre = packet(IpProtocol::GRE, HOST, SERVER, NONE);
    let came = show(&mut nat, 0, Direction::Forward, &gre);
    assert_eq!(came, dropped("a protocol without ports"));
    let mut counts = Vec::new();
    nat.report(&mut counts);
    let of = |words: &str| {
        let at = (0..).find(|rule| nat.rule_in_words(*rule).unwrap() == words).unwrap();
        counts[at as usize].packets
    };
    assert_eq!((of("no mapping"), of("a protocol without ports")), (2, 1));
    // Only what asks for a connection begins one.
    let came = show(&mut nat, 0, Direction::Forward, &packet(TCP, HOST, SERVER, ACK));
    assert_eq!(came, dropped("no mapping"));
}

#[test]
fn ipv6_passes_or_is_blocked() {
    let v6 = |last| IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, last]);
    let shape = Shape { ends: (v6(1), v6(2)), ..shape(UDP, HOST, SERVER, NONE) };
    let frame = shape.frame().unwrap();
    assert_eq!(out(&mut nat(SIMPLE), 0, &frame), frame);
    let mut blocking = nat(&format!("{SIMPLE}ipv6: block\n"));
    for direction in [Direction::Forward, Direction::Backward] {
        assert_eq!(show(&mut blocking, 0, direction, &frame), dropped("ipv6: block"));
    }
}

/// RFC 5508 section 3.
#[test]
fn queries_have_identifiers_in_place_of_ports() {
    let mut nat = nat(SIMPLE);
    let id = |frame: &[u8]| ends(frame).0.1;
    let first = out(&mut nat, 0, &message(8, 9_000, HOST.0, SERVER.0));
    assert_eq!(ends(&first), ((POOL, 9_000), (SERVER.0, 9_000)));
    let second = out(&mut nat, 0, &message(8, 9_000, OTHER_HOST.0, SERVER.0));
    assert_ne!(id(&second), 9_000);
    let answer = back(&mut nat, 1, &message(0, id(&second), SERVER.0, POOL));
    assert_eq!(ends(&answer), ((SERVER.0, 9_000), (OTHER_HOST.0, 9_000)));
    // Timestamps have identifiers, too; who asks from outside is not answered.
    let stamp = out(&mut nat, 1, &message(13, 9_001, HOST.0, SERVER.0));
    assert_eq!(ends(&stamp).0, (POOL, 9_001));
    for kind in [8, 13] {
        let asks = message(kind, 9_000, SERVER.0, POOL);
        assert_eq!(show(&mut nat, 1, Direction::Backward, &asks), dropped("no mapping"));
    }
    let late = message(0, 9_000, SERVER.0, POOL);
    assert_eq!(show(&mut nat, 60, Direction::Backward, &late), dropped("no mapping"));
}

/// RFC 5382 REQ-5, RFC 4787 REQ-5 and REQ-6.
#[test]
fn mappings_are_kept_as_long_as_the_rfcs_say() {
    let mut nat = nat(SIMPLE);
    let no_mapping = dropped("no mapping");
    let ask = |nat: &mut Nat, seconds, protocol, flags| {
        show(nat, seconds, Direction::Backward, &packet(protocol, SERVER, (POOL, 40_000), flags))
    };
    out(&mut nat, 0, &packet(UDP, HOST, SERVER, NONE));
    // Answers do not keep it.
    through(ask(&mut nat, 299, UDP, NONE));
    assert_eq!(ask(&mut nat, 300, UDP, NONE), no_mapping);
    // TCP that is not answered, and that is.
    out(&mut nat, 1_000, &packet(TCP, HOST, SERVER, SYN));
    assert_eq!(ask(&mut nat, 1_240, TCP, SYN_ACK), no_mapping);
    out(&mut nat, 2_000, &packet(TCP, HOST, SERVER, SYN));
    through(ask(&mut nat, 2_001, TCP, SYN_ACK));
    out(&mut nat, 2_002, &packet(TCP, HOST, SERVER, ACK));
    through(ask(&mut nat, 2_002 + 7_439, TCP, ACK));
    // An end of both sides leaves four minutes.
    let fin = TcpFlags::FIN.with(TcpFlags::ACK);
    out(&mut nat, 10_000, &packet(TCP, HOST, SERVER, fin));
    through(ask(&mut nat, 10_000, TCP, fin));
    through(ask(&mut nat, 10_239, TCP, ACK));
    assert_eq!(ask(&mut nat, 10_480, TCP, ACK), no_mapping);
}

/// RFC 4787 section 5.
#[test]
fn filtering_is_as_declared() {
    let filtered = dropped("filtered: its sender was not sent to");
    for (filtering, lets_in) in [
        ("endpoint-independent", [true, true, true]),
        ("address-dependent", [true, true, false]),
        ("address-and-port-dependent", [true, false, false]),
    ] {
        for protocol in [UDP, TCP] {
            let mut nat = nat(&format!("{SIMPLE}filtering: {filtering}\n"));
            out(&mut nat, 0, &packet(protocol, HOST, SERVER, SYN));
            let senders = [SERVER, (SERVER.0, 999), OTHER_SERVER];
            for (sender, is_in) in senders.into_iter().zip(lets_in) {
                let frame = packet(protocol, sender, (POOL, 40_000), SYN);
                let came = show(&mut nat, 1, Direction::Backward, &frame);
                assert_eq!(came == filtered, !is_in, "{filtering} {sender:?}");
                if is_in {
                    assert_eq!(ends(&through(came)), (sender, HOST));
                }
            }
        }
    }
}

#[test]
fn forwarded_ports_and_hosts_with_an_address_are_open() {
    let mut nat = nat(ALL);
    let web = at([203, 0, 113, 4], 8_080);
    let inward = back(&mut nat, 0, &packet(TCP, SERVER, web, SYN));
    assert_eq!(ends(&inward), (SERVER, at([10, 0, 1, 7], 80)));
    let answer = out(&mut nat, 0, &packet(TCP, at([10, 0, 1, 7], 80), SERVER, SYN_ACK));
    assert_eq!(ends(&answer), (web, SERVER));
    let ranged = back(&mut nat, 0, &packet(UDP, SERVER, at([203, 0, 113, 5], 6_004), NONE));
    assert_eq!(ends(&ranged), (SERVER, at([10, 0, 1, 8], 7_004)));
    for protocol in [UDP, TCP, IpProtocol::GRE] {
        let own = packet(protocol, at([10, 0, 3, 9], 25), SERVER, ACK);
        let seen = out(&mut nat, 0, &own);
        assert_eq!(ends(&seen).0.0, Ipv4Addr::new(203, 0, 113, 9));
        let inward = back(&mut nat, 0, &packet(protocol, SERVER, ends(&seen).0, SYN));
        assert_eq!(ends(&inward).1, ends(&own).0);
    }
    let ping = back(&mut nat, 0, &message(8, 3, SERVER.0, Ipv4Addr::new(203, 0, 113, 9)));
    assert_eq!(ends(&ping).1, (Ipv4Addr::new(10, 0, 3, 9), 3));
    // Of nested prefixes the longest counts.
    let snat = out(&mut nat, 0, &packet(UDP, at([10, 0, 2, 4], 5_000), SERVER, NONE));
    assert_eq!(ends(&snat).0.0, Ipv4Addr::new(203, 0, 113, 20));
    for around in [[10, 0, 0, 255], [10, 0, 3, 0], [10, 0, 255, 255]] {
        let shared = out(&mut nat, 0, &packet(UDP, at(around, 5_000), SERVER, NONE));
        assert!((4..=6).contains(&ends(&shared).0.0.octets()[3]), "{around:?}");
    }
}

/// RFC 7422: which ports a host has follows from its address; a worker keeps to its share.
#[test]
fn blocks_and_shares_of_ports_are_kept() {
    let text = "masquerade: [10.0.1.0/29]\npool: [203.0.113.4/31]\nports: 2000-2063\nblock: 8\n";
    let share =
        NatOptions { ports: Some(PortRange::new(2_032, 2_063).unwrap()), flows_max: 100, seed: 1 };
    let mut nat = Nat::new(&config(text), &share).unwrap();
    for host in 0..8_u8 {
        let mut ports = Vec::new();
        for port in 0..9 {
            let from = at([10, 0, 1, host], 100 + port);
            let came = show(&mut nat, 0, Direction::Forward, &packet(UDP, from, SERVER, NONE));
            if port == 8 {
                assert_eq!(came, dropped("no port is free"));
                continue;
            }
            let (address, port) = ends(&through(came)).0;
            assert_eq!(address, Ipv4Addr::new(203, 0, 113, 4 + host / 4));
            ports.push(port);
        }
        ports.sort_unstable();
        let first = 2_032 + u16::from(host % 4) * 8;
        assert_eq!(ports, (first..first + 8).collect::<Vec<_>>());
    }
    // Of several prefixes, each host has its own.
    let text =
        "masquerade: [10.0.1.0/31, 10.0.5.0/31]\npool: [203.0.113.4]\nports: 2000-2031\nblock: 8\n";
    let mut several = self::nat(text);
    let hosts = [[10, 0, 1, 0], [10, 0, 1, 1], [10, 0, 5, 0], [10, 0, 5, 1]];
    for (first, host) in (2_000..).step_by(8).zip(hosts) {
        let port = ends(&out(&mut several, 0, &packet(UDP, at(host, 9), SERVER, NONE))).0.1;
        assert!((first..first + 8).contains(&port), "{port}");
    }
    let small = NatOptions { ports: Some(PortRange::new(2_000, 2_007).unwrap()), ..share };
    assert!(matches!(Nat::new(&config(text), &small), Err(NatError::Config(_))));
    let foreign = NatOptions { ports: Some(PortRange::new(2_060, 2_064).unwrap()), ..share };
    let error = Nat::new(&config(text), &foreign).unwrap_err();
    assert!(error.to_string().contains("2060 to 2064"), "{error}");
}

#[test]
fn what_finds_no_room_is_dropped_by_name() {
    let options = NatOptions { flows_max: 3, ..NatOptions::default() };
    let mut nat = Nat::new(&config(SIMPLE), &options).unwrap();
    let from = |port| packet(UDP, (HOST.0, port), SERVER, NONE);
    for port in 0..3 {
        out(&mut nat, port.into(), &from(port + 1));
    }
    assert_eq!(show(&mut nat, 3, Direction::Forward, &from(9)), Came::Full);
    // As soon as one is forgotten, there is room for one.
    out(&mut nat, 300, &from(9));
    assert_eq!(show(&mut nat, 300, Direction::Forward, &from(10)), Came::Full);
    let mut limited = self::nat(&format!("{SIMPLE}flows_per_host: 2\n"));
    out(&mut limited, 0, &from(1));
    out(&mut limited, 0, &from(2));
    let came = show(&mut limited, 0, Direction::Forward, &from(3));
    assert_eq!(came, dropped("flows_per_host: the host has as many flows as it may"));
    out(&mut limited, 0, &packet(UDP, OTHER_HOST, SERVER, NONE));
    out(&mut limited, 300, &from(3));
}
