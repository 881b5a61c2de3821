//! A NAT inside, between two networks: what leaves it is delivered by its new address, answers come back through it and
//! not past it, and its addresses are answered for.

use crate::frames::Spec;
use crate::proxy::{arp_request, solicitation};
use crate::rig::Rig;
use crate::scene::{CHAINED_PORT, PLAIN_PORT};
use crate::town::{Town, rule};
use catena_model::DropReason;
use catena_model::bundle::Configuration;
use catena_model::program::{RuleMatch, RulePlace};
use catena_model::resource::{Encapsulation, IpFamily, Transport};
use catena_wire::arp::{ArpOperation, ArpPacket};
use catena_wire::ethernet::EthernetHeader;
use catena_wire::frame::FrameView;
use catena_wire::icmp::error_message::{ErrorMessage, Said};
use catena_wire::icmp::{IcmpV4Type, emit_echo_request};
use catena_wire::ipv4::{self, Ipv4Header};
use catena_wire::neighbour::advertised;
use catena_wire::scalar::{EtherType, FragmentOffset, IpProtocol, MacAddr, PortRange};
use catena_wire::varying::VaryingFields;
use std::net::Ipv4Addr;

const INNER: usize = 0;
const OUTER: usize = 1;
const CLIENT: &str = "10.0.0.1";
const GATEWAY: &str = "10.0.0.254";
const POOL: &str = "203.0.113.4";
const SERVER: &str = "203.0.113.9";

/// A client at host1, a NAT at host2, a server at host3, and functions between, on both sides of the NAT.
pub(crate) fn two_networks(encapsulation: Encapsulation, hops: &[&[&str]]) -> Town {
    let mut town = Town::new(3);
    town.network(100, &["10.0.0.0/24", "2001:db8::/64"]);
    town.network(200, &["203.0.113.0/24", "2001:db8:1::/64"]);
    town.endpoint("S", 0, INNER, &[CLIENT, "2001:db8::1"]);
    town.endpoint("D", 2, OUTER, &[SERVER, "2001:db8:1::9"]);
    town.function("nat", 1, (INNER, OUTER));
    town.function("v1", 0, (INNER, INNER));
    town.function("v4", 2, (OUTER, OUTER));
    for (port, addresses) in
        [("nat.in", &[GATEWAY, "2001:db8::fe"][..]), ("nat.out", &[POOL, "2001:db8:1::fe"])]
    {
        let port = town.ports.iter_mut().find(|one| one.name == port).unwrap();
        port.addresses = addresses.iter().map(|one| one.parse().unwrap()).collect();
    }
    let back: Vec<&[&str]> = hops.iter().rev().copied().collect();
    town.chain("out", encapsulation, hops, &rules("S", &town.clone(), false)).destination = OUTER;
    let reverse = rules("D", &town, true);
    let way_back = town.chain("back", encapsulation, &back, &reverse);
    (way_back.is_reverse, way_back.destination) = (true, INNER);
    let config = serde_json::json!({"masquerade": ["10.0.0.0/24"], "pool": [POOL]});
    let nat = Configuration::new("nat", config.to_string());
    town.bundled.insert(("nat".into(), String::new()), nat);
    town
}

/// What the planner makes of a chain through a NAT: what the client sends, and what comes to the pool, errors included.
fn rules(port: &str, town: &Town, is_back: bool) -> Vec<RuleMatch> {
    let place = RulePlace::Port(town.port_named(port).id);
    let pool = Some(format!("{POOL}/32").parse().unwrap());
    let ports = PortRange::new(CHAINED_PORT, CHAINED_PORT).unwrap();
    let of = |transport| {
        let forward = RuleMatch { place, ..rule(IpFamily::Ipv4, transport, CHAINED_PORT) };
        match is_back {
            false => forward,
            true => RuleMatch {
                source_ports: (transport != Transport::Icmp).then_some(ports),
                destination_ports: None,
                destination: pool,
                ..forward
            },
        }
    };
    let transports = [Transport::Tcp, Transport::Udp, Transport::Icmp];
    let taken = if is_back { &transports[..] } else { &transports[..2] };
    taken.iter().copied().map(of).collect()
}

pub(crate) fn sent(town: &Town, port: u16) -> Spec {
    Spec {
        source_mac: town.mac("S"),
        destination_mac: town.mac("nat.in"),
        source: CLIENT.parse().unwrap(),
        destination: SERVER.parse().unwrap(),
        protocol: IpProtocol::UDP,
        ports: (40_000, port),
        vlan: None,
        ttl: 64,
        sequence: 0,
        identification: 7,
        fragment: (0, false),
        payload: b"catena".to_vec(),
        varying: VaryingFields::default(),
    }
}

/// The one frame that a port has seen.
fn only(rig: &mut Rig, port: &str) -> Vec<u8> {
    let mut seen = rig.take(port);
    assert_eq!(seen.len(), 1, "{port} sees {seen:?}");
    seen.remove(0)
}

#[test]
fn what_a_nat_sends_out_is_delivered_by_its_address_and_answers_come_back_through_it() {
    for encapsulation in [Encapsulation::Nsh, Encapsulation::Mpls] {
        let mut rig = Rig::new(two_networks(encapsulation, &[&["nat"]]));
        let question = sent(&rig.town, CHAINED_PORT);
        rig.send("S", &question.frame());
        rig.assert_moved(&[
            ("S received", 1),
            ("S forwarded", 1),
            ("host1 path 100 entered", 1),
            ("host1 path 100 tunnelled out", 1),
            ("host1 tunnels transmitted", 1),
            ("host2 tunnels received", 1),
            ("host2 tunnels forwarded", 1),
            ("host2 path 100 tunnelled in", 1),
            ("host2 path 100 to nat", 1),
            ("host2 path 100 from nat", 1),
            ("host2 path 100 finished", 1),
            ("host2 tunnels transmitted", 1),
            ("host3 tunnels received", 1),
            ("host3 tunnels forwarded", 1),
            ("D transmitted", 1),
        ]);
        let seen = only(&mut rig, "D");
        let became = FrameView::parse(&seen).unwrap();
        let flow = became.flow.unwrap();
        assert_eq!((flow.source.to_string(), flow.source_port), (POOL.into(), 40_000));
        assert_eq!(became.destination, rig.town.mac("D"));
        rig.send("D", &answer(&rig.town, &question).frame());
        rig.assert_moved(&[
            ("D received", 1),
            ("D forwarded", 1),
            ("host3 path 101 entered", 1),
            ("host3 path 101 tunnelled out", 1),
            ("host3 tunnels transmitted", 1),
            ("host2 tunnels received", 1),
            ("host2 tunnels forwarded", 1),
            ("host2 path 101 tunnelled in", 1),
            ("host2 path 101 to nat", 1),
            ("host2 path 101 from nat", 1),
            ("host2 path 101 finished", 1),
            ("host2 tunnels transmitted", 1),
            ("host1 tunnels received", 1),
            ("host1 tunnels forwarded", 1),
            ("S transmitted", 1),
        ]);
        let seen = FrameView::parse(&only(&mut rig, "S")).unwrap();
        let flow = seen.flow.unwrap();
        assert_eq!((flow.destination.to_string(), flow.destination_port), (CLIENT.into(), 40_000));
        assert_eq!(seen.destination, rig.town.mac("S"));
    }
}

#[test]
fn functions_on_both_sides_of_a_nat_see_their_sides_addresses() {
    let mut rig = Rig::new(two_networks(Encapsulation::Nsh, &[&["v1"], &["nat"], &["v4"]]));
    rig.is_two_way = true;
    let question = sent(&rig.town, CHAINED_PORT);
    rig.send("S", &question.frame());
    let source = |frame: &[u8]| FrameView::parse(frame).unwrap().flow.unwrap().source.to_string();
    assert_eq!(source(&only(&mut rig, "v1.in")), CLIENT);
    assert_eq!(source(&only(&mut rig, "v4.in")), POOL);
    assert_eq!(source(&only(&mut rig, "D")), POOL);
    rig.send("D", &answer(&rig.town, &question).frame());
    let to = |frame: &[u8]| FrameView::parse(frame).unwrap().flow.unwrap().destination.to_string();
    assert_eq!(to(&only(&mut rig, "v4.out")), POOL);
    assert_eq!(to(&only(&mut rig, "v1.out")), CLIENT);
    assert_eq!(to(&only(&mut rig, "S")), CLIENT);
    assert_eq!(rig.inside(), 0);
}

#[test]
fn its_addresses_are_answered_for_at_its_node_and_at_others() {
    let mut rig = Rig::new(two_networks(Encapsulation::Nsh, &[&["nat"]]));
    for (asker, own, target, port) in
        [("S", CLIENT, GATEWAY, "nat.in"), ("D", SERVER, POOL, "nat.out")]
    {
        let mac = rig.town.mac(asker);
        rig.send(asker, &arp_request(mac, own, target));
        let moved = rig.moved();
        assert_eq!(moved["host2 tunnels consumed"], 1, "{moved:?}");
        assert_eq!(moved["host2 tunnels created proxy_answer"], 1, "{moved:?}");
        let answer = ArpPacket::parse(&only(&mut rig, asker)[14..]).unwrap();
        assert_eq!(answer.operation, ArpOperation::Reply);
        assert_eq!(
            (answer.sender_mac, answer.sender_ip.to_string()),
            (rig.town.mac(port), target.into())
        );
        assert_eq!((answer.target_mac, answer.target_ip.to_string()), (mac, own.into()));
    }
    let mac = rig.town.mac("S");
    rig.send("S", &solicitation(mac, "2001:db8::1", "2001:db8::fe"));
    let answer = only(&mut rig, "S");
    assert_eq!(advertised(&answer[54..]).unwrap().to_string(), "2001:db8::fe");
    // An announcement of the asker's own address is nothing to answer, and nor is an address of nobody.
    for target in [CLIENT, "10.0.0.77"] {
        rig.send("S", &arp_request(mac, CLIENT, target));
        assert!(rig.take("S").is_empty(), "{target}");
    }
}

/// An echo request, with its checksums.
fn echo_request(macs: (MacAddr, MacAddr), source: Ipv4Addr, destination: Ipv4Addr) -> Vec<u8> {
    let mut message = vec![0x5a; 32];
    emit_echo_request(&mut message, (source.into(), destination.into()), 9, 1).unwrap();
    let mut frame = vec![0; 14 + ipv4::HEADER_BYTES];
    EthernetHeader::untagged(macs.1, macs.0, EtherType::IPV4).emit(&mut frame).unwrap();
    let header = Ipv4Header {
        traffic_class: 0,
        payload_bytes: message.len(),
        identification: 1,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: FragmentOffset::new(0).unwrap(),
        ttl: 9,
        protocol: IpProtocol::ICMP,
        source,
        destination,
    };
    header.emit(&mut frame[14..]).unwrap();
    frame.extend(message);
    frame
}

#[test]
fn its_addresses_answer_pings_where_no_chain_takes_them() {
    let mut rig = Rig::new(two_networks(Encapsulation::Nsh, &[&["nat"]]));
    let macs = (rig.town.mac("S"), rig.town.mac("nat.in"));
    let frame = echo_request(macs, CLIENT.parse().unwrap(), GATEWAY.parse().unwrap());
    rig.send("S", &frame);
    rig.assert_moved(&[
        ("S received", 1),
        ("S forwarded", 1),
        ("host1 tunnels transmitted", 1),
        ("host2 tunnels received", 1),
        ("host2 tunnels consumed", 1),
        ("host2 tunnels created proxy_answer", 1),
        ("host2 tunnels forwarded", 1),
        ("host2 tunnels transmitted", 1),
        ("host1 tunnels received", 1),
        ("host1 tunnels forwarded", 1),
        ("S transmitted", 1),
    ]);
    let answer = only(&mut rig, "S");
    let view = FrameView::parse(&answer).unwrap();
    assert_eq!(view.icmp_type, Some(IcmpV4Type::ECHO_REPLY.0));
    assert_eq!((view.source, view.destination), (macs.1, macs.0));
    let icmp = catena_wire::icmp::IcmpView::parse(&answer[34..]).unwrap();
    assert!(icmp.is_v4_checksum_correct());
    assert_eq!(&answer[38..], &frame[38..], "identifier, number and data come back");
}

#[test]
fn what_no_session_knows_ends_by_name_and_is_never_flooded() {
    let mut rig = Rig::new(two_networks(Encapsulation::Nsh, &[&["nat"]]));
    let question = sent(&rig.town, CHAINED_PORT);
    let stranger = answer(&rig.town, &question);
    rig.send("D", &stranger.frame());
    let moved = rig.moved();
    assert_eq!(moved["host2 path 101 dropped function_denied"], 1, "{moved:?}");
    // What no rule takes comes to the function's port, where nobody is.
    let plain = Spec { ports: (PLAIN_PORT, 40_000), ..stranger };
    rig.send("D", &plain.frame());
    rig.assert_moved(&[
        ("D received", 1),
        ("D forwarded", 1),
        ("host3 tunnels transmitted", 1),
        ("host2 tunnels received", 1),
        ("host2 tunnels dropped function_unasked", 1),
    ]);
    assert!(rig.take("S").is_empty());
    assert_eq!(DropReason::FunctionUnasked.name(), "function_unasked");
}

/// What the server sends to the pool in answer to a packet.
fn answer(town: &Town, question: &Spec) -> Spec {
    Spec {
        source_mac: town.mac("D"),
        destination_mac: town.mac("nat.out"),
        destination: POOL.parse().unwrap(),
        ..question.answer()
    }
}

fn destination(frame: &[u8]) -> String {
    FrameView::parse(frame).unwrap().flow.unwrap().destination.to_string()
}

#[test]
fn an_error_about_what_was_translated_comes_back_through_the_nat() {
    let mut rig = Rig::new(two_networks(Encapsulation::Nsh, &[&["nat"]]));
    rig.send("S", &sent(&rig.town, CHAINED_PORT).frame());
    let seen = only(&mut rig, "D");
    let mut error = vec![0; 2_000];
    let macs = (rig.town.mac("D"), rig.town.mac("nat.out"));
    let message = ErrorMessage::judge(&seen).unwrap();
    let length = message.emit(Said::unreachable_v4(3), macs, &mut error).unwrap();
    error.truncate(length);
    rig.send("D", &error);
    let told = only(&mut rig, "S");
    let view = FrameView::parse(&told).unwrap();
    assert!(view.is_icmp_error() && view.destination == rig.town.mac("S"), "{view:?}");
    assert_eq!(destination(&told), CLIENT);
    let quoted = 14 + ipv4::HEADER_BYTES + 8;
    let sender: Ipv4Addr = CLIENT.parse().unwrap();
    assert_eq!(told[quoted + 12..quoted + 16], sender.octets(), "it quotes what its receiver sent");
}

#[test]
fn fragments_of_an_answer_follow_their_first_one_through_the_nat() {
    let mut rig = Rig::new(two_networks(Encapsulation::Nsh, &[&["nat"]]));
    let question = sent(&rig.town, CHAINED_PORT);
    rig.send("S", &question.frame());
    only(&mut rig, "D");
    let first = Spec {
        fragment: (0, true),
        identification: 77,
        payload: vec![1; 16],
        ..answer(&rig.town, &question)
    };
    let later = Spec { fragment: (3, false), payload: vec![2; 8], ..first.clone() };
    rig.send("D", &first.frame());
    rig.send("D", &later.frame());
    let seen = rig.take("S");
    assert_eq!(seen.iter().map(|one| destination(one)).collect::<Vec<_>>(), [CLIENT, CLIENT]);
    // Of a packet that was never begun, nothing is let in.
    let orphan = Spec { identification: 78, ..later };
    rig.send("D", &orphan.frame());
    assert!(rig.take("S").is_empty());
}

#[test]
fn a_packet_for_another_host_inside_goes_to_that_host() {
    let mut town = two_networks(Encapsulation::Nsh, &[&["nat"]]);
    town.endpoint("T", 0, INNER, &["10.0.0.7"]);
    let of_other: Vec<_> = rules("T", &town, false).into_iter().map(|rule| (10, rule)).collect();
    town.chains[0].rules.extend(of_other);
    let mut rig = Rig::new(town);
    let question = sent(&rig.town, CHAINED_PORT);
    let other = Spec {
        source_mac: rig.town.mac("T"),
        source: "10.0.0.7".parse().unwrap(),
        ports: (CHAINED_PORT, CHAINED_PORT),
        ..question.clone()
    };
    rig.send("T", &other.frame());
    only(&mut rig, "D");
    rig.send("S", &Spec { destination: POOL.parse().unwrap(), ..question }.frame());
    let seen = only(&mut rig, "T");
    let view = FrameView::parse(&seen).unwrap();
    let flow = view.flow.unwrap();
    assert_eq!((flow.source.to_string(), destination(&seen)), (POOL.into(), "10.0.0.7".into()));
    assert_eq!(view.destination, rig.town.mac("T"));
    assert!(rig.take("S").is_empty());
}

#[test]
fn a_balancer_gives_packets_to_its_server_and_answers_come_from_the_virtual_address() {
    const VIRTUAL: &str = "10.0.0.80";
    let mut town = two_networks(Encapsulation::Nsh, &[&["nat"], &["v4"]]);
    let config = serde_json::json!({"services": [{
        "name": "web", "address": VIRTUAL, "protocol": "udp", "port": CHAINED_PORT,
        "backends": [{"address": SERVER, "port": CHAINED_PORT + 1}],
    }]});
    let balancer = Configuration::new("balancer", config.to_string());
    town.bundled.insert(("nat".into(), String::new()), balancer);
    let port = town.ports.iter_mut().find(|one| one.name == "nat.in").unwrap();
    port.addresses.push(VIRTUAL.parse().unwrap());
    for (_, rule) in &mut town.chains[1].rules {
        rule.destination = Some(format!("{CLIENT}/32").parse().unwrap());
        rule.source_ports =
            rule.source_ports.map(|_| PortRange::new(CHAINED_PORT + 1, CHAINED_PORT + 1).unwrap());
    }
    let mut rig = Rig::new(town);
    rig.is_two_way = true;
    let mac = rig.town.mac("S");
    rig.send("S", &arp_request(mac, CLIENT, VIRTUAL));
    let told = ArpPacket::parse(&only(&mut rig, "S")[14..]).unwrap();
    assert_eq!(told.sender_mac, rig.town.mac("nat.in"));
    let question = Spec { destination: VIRTUAL.parse().unwrap(), ..sent(&rig.town, CHAINED_PORT) };
    rig.send("S", &question.frame());
    let seen = only(&mut rig, "D");
    let flow = FrameView::parse(&seen).unwrap().flow.unwrap();
    assert_eq!((destination(&seen), flow.destination_port), (SERVER.into(), CHAINED_PORT + 1));
    assert_eq!(flow.source.to_string(), CLIENT);
    let back = Spec {
        source_mac: rig.town.mac("D"),
        destination_mac: rig.town.mac("nat.out"),
        source: SERVER.parse().unwrap(),
        ports: (CHAINED_PORT + 1, 40_000),
        ..question.answer()
    };
    rig.send("D", &back.frame());
    let flow = FrameView::parse(&only(&mut rig, "S")).unwrap().flow.unwrap();
    assert_eq!((flow.source.to_string(), flow.source_port), (VIRTUAL.into(), CHAINED_PORT));
}
