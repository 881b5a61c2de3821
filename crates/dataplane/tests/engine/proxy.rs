//! Functions at their ports: unaware ones behind the proxy, aware ones, and what they send of
//! their own.

use crate::frames::Spec;
use crate::rig::{Behaviour, Rig};
use crate::scene::{CHAINED_PORT, PLAIN_PORT, packet, packet_v6, three_hosts, with_chain};
use catena_dataplane::engine::TunnelKind;
use catena_model::DropReason;
use catena_model::program::PROXY_MAC;
use catena_model::resource::Encapsulation;
use catena_wire::arp::{ArpOperation, ArpPacket};
use catena_wire::ethernet::EthernetHeader;
use catena_wire::frame::FrameView;
use catena_wire::ipv6::Ipv6Header;
use catena_wire::scalar::{EtherType, FlowLabel, IpProtocol, MacAddr};
use catena_wire::{checksum, ipv6};
use std::net::{IpAddr, Ipv6Addr};

/// An ARP request from a port.
pub(crate) fn arp_request(mac: MacAddr, sender: &str, target: &str) -> Vec<u8> {
    let packet = ArpPacket {
        operation: ArpOperation::Request,
        sender_mac: mac,
        sender_ip: sender.parse().unwrap(),
        target_mac: MacAddr([0; 6]),
        target_ip: target.parse().unwrap(),
    };
    let mut frame = vec![0; ArpPacket::FRAME_LEN];
    packet.emit_frame(&mut frame).unwrap();
    frame
}

/// A neighbour solicitation from a port (RFC 4861 section 4.3).
pub(crate) fn solicitation(mac: MacAddr, source: &str, target: &str) -> Vec<u8> {
    let (source, target): (Ipv6Addr, Ipv6Addr) = (source.parse().unwrap(), target.parse().unwrap());
    let group = Ipv6Addr::from_bits(
        0xff02_0000_0000_0000_0000_0001_ff00_0000 | target.to_bits() & 0x00ff_ffff,
    );
    let mut message = vec![135, 0, 0, 0, 0, 0, 0, 0];
    message.extend(target.octets());
    if !source.is_unspecified() {
        message.extend([1, 1]);
        message.extend(mac.0);
    }
    let length = u32::try_from(message.len()).unwrap();
    let pseudo =
        checksum::pseudo_header(IpAddr::V6(source), IpAddr::V6(group), IpProtocol::ICMPV6, length);
    let sum = pseudo.then_bytes(&message).checksum();
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let group_mac = [0x33, 0x33, 0xff, group.octets()[13], group.octets()[14], group.octets()[15]];
    let mut frame = vec![0; 14 + ipv6::HEADER_BYTES];
    let ethernet = EthernetHeader::untagged(MacAddr(group_mac), mac, EtherType::IPV6);
    ethernet.emit(&mut frame).unwrap();
    let header = Ipv6Header {
        traffic_class: 0,
        flow_label: FlowLabel::new(0).unwrap(),
        payload_length: u16::try_from(length).unwrap(),
        next_header: IpProtocol::ICMPV6,
        hop_limit: 255,
        source,
        destination: group,
    };
    header.emit(&mut frame[14..]).unwrap();
    frame.extend(message);
    frame
}

#[test]
fn a_function_is_answered_for_addresses_that_are_not_on_its_network() {
    let mut rig = Rig::new(with_chain(Encapsulation::Nsh, &[&["v1"]]));
    let mac = rig.town.mac("v1.out");
    rig.send("v1.out", &arp_request(mac, "10.1.0.9", "10.0.0.2"));
    rig.assert_moved(&[
        ("v1.out received", 1),
        ("v1.out created by function", 1),
        ("v1.out consumed", 1),
        ("v1.out created proxy_answer", 1),
        ("v1.out forwarded", 1),
        ("v1.out transmitted", 1),
    ]);
    let answer = rig.take("v1.out").remove(0);
    let arp = ArpPacket::parse(&answer[14..]).unwrap();
    assert_eq!(arp.operation, ArpOperation::Reply);
    assert_eq!((arp.sender_mac, arp.sender_ip.to_string()), (PROXY_MAC, "10.0.0.2".into()));
    assert_eq!((arp.target_mac, arp.target_ip.to_string()), (mac, "10.1.0.9".into()));

    rig.send("v1.out", &solicitation(mac, "2001:db8:1::9", "2001:db8::2"));
    rig.assert_moved(&[
        ("v1.out received", 1),
        ("v1.out created by function", 1),
        ("v1.out consumed", 1),
        ("v1.out created proxy_answer", 1),
        ("v1.out forwarded", 1),
        ("v1.out transmitted", 1),
    ]);
    let answer = rig.take("v1.out").remove(0);
    let view = FrameView::parse(&answer).unwrap();
    assert_eq!((view.icmp_type, view.source, view.destination), (Some(136), PROXY_MAC, mac));
}

/// The frame inside VLAN 7.
fn tagged(mut frame: Vec<u8>) -> Vec<u8> {
    frame.splice(12..12, [0x81, 0, 0, 7]);
    frame
}

#[test]
fn nobody_else_and_nothing_else_is_answered() {
    let mut rig = Rig::new(with_chain(Encapsulation::Nsh, &[&["v1"]]));
    let (function, endpoint) = (rig.town.mac("v1.out"), rig.town.mac("S"));
    let asked = [
        ("v1.out", arp_request(function, "10.1.0.9", "10.1.0.77")),
        ("v1.out", arp_request(function, "10.0.0.2", "10.0.0.2")),
        ("v1.out", arp_request(function, "0.0.0.0", "10.0.0.2")),
        ("v1.out", arp_request(function, "10.1.0.9", "169.254.1.1")),
        ("v1.out", arp_request(function, "10.1.0.9", "0.0.0.0")),
        ("v1.out", arp_request(function, "10.1.0.9", "127.0.0.1")),
        ("v1.out", arp_request(function, "10.1.0.9", "224.0.0.5")),
        ("v1.out", arp_request(function, "10.1.0.9", "255.255.255.255")),
        ("v1.out", solicitation(function, "2001:db8:1::9", "::1")),
        ("v1.out", tagged(arp_request(function, "10.1.0.9", "10.0.0.2"))),
        ("v3.out", arp_request(function, "10.1.0.9", "10.0.0.2")),
        ("v1.out", solicitation(function, "2001:db8:1::9", "2001:db8:1::77")),
        ("v1.out", solicitation(function, "::", "2001:db8::2")),
        ("v1.out", solicitation(function, "2001:db8:1::9", "fe80::77")),
        ("S", arp_request(endpoint, "10.0.0.1", "10.7.0.1")),
        ("S", solicitation(endpoint, "2001:db8::1", "2001:db8:7::1")),
    ];
    for (port, question) in asked {
        rig.seen.clear();
        rig.send(port, &question);
        let moved = rig.moved();
        assert!(!moved.contains_key(&format!("{port} consumed")), "{moved:?}");
        assert_eq!(moved.get(&format!("{port} dropped unknown_mac")), None);
        assert_eq!(rig.take(port), Vec::<Vec<u8>>::new(), "no answer, and no echo either");
    }
}

#[test]
fn discovery_and_groups_are_never_classified() {
    let mut town = three_hosts();
    let any = |family| catena_model::program::RuleMatch {
        transport: None,
        destination_ports: None,
        ..crate::town::rule(family, catena_model::resource::Transport::Udp, 1)
    };
    use catena_model::resource::IpFamily::{Ipv4, Ipv6};
    town.chain("all", Encapsulation::Nsh, &[&["v1"]], &[any(Ipv4), any(Ipv6)]);
    let mut rig = Rig::new(town);
    let mac = rig.town.mac("S");
    let group = |address: &str, mac| Spec {
        destination: address.parse().unwrap(),
        destination_mac: mac,
        ..packet(&rig.town, PLAIN_PORT)
    };
    let group_v6 = |address: &str, mac| Spec {
        destination: address.parse().unwrap(),
        destination_mac: mac,
        ..packet_v6(&rig.town, PLAIN_PORT)
    };
    let sent = [
        arp_request(mac, "10.0.0.1", "10.0.0.2"),
        solicitation(mac, "2001:db8::1", "2001:db8::2"),
        group("10.0.0.255", MacAddr::BROADCAST).frame(),
        group("224.0.0.251", MacAddr([1, 0, 0x5e, 0, 0, 0xfb])).frame(),
        group("169.254.7.7", rig.town.mac("D")).frame(),
        group_v6("ff02::fb", MacAddr([0x33, 0x33, 0, 0, 0, 0xfb])).frame(),
        group_v6("fe80::1", rig.town.mac("D")).frame(),
    ];
    for frame in sent {
        rig.send("S", &frame);
        let entered = rig.moved().into_iter().find(|(name, _)| name.contains("entered"));
        assert_eq!(entered, None, "{:?}", FrameView::parse(&frame));
        assert_eq!(rig.take("D"), [frame]);
    }
    rig.send("S", &packet(&rig.town, PLAIN_PORT).frame());
    assert!(rig.moved().contains_key("host1 path 100 entered"), "ordinary unicast is");
}

#[test]
fn what_a_function_sends_of_its_own_is_ordinary() {
    let mut rig = Rig::new(with_chain(Encapsulation::Nsh, &[&["v1"], &["v4"]]));
    rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
    rig.moved();
    // Time exceeded from v1 to S: another flow than the one that v1 got.
    let own = Spec {
        source_mac: rig.town.mac("v1.in"),
        destination_mac: rig.town.mac("S"),
        source: "10.0.0.11".parse().unwrap(),
        destination: "10.0.0.1".parse().unwrap(),
        protocol: IpProtocol::ICMP,
        payload: vec![11, 0, 0, 0, 0, 0, 0, 0],
        ..packet(&rig.town, 0)
    };
    rig.send("v1.in", &own.frame());
    rig.assert_moved(&[
        ("v1.in received", 1),
        ("v1.in created by function", 1),
        ("v1.in forwarded", 1),
        ("S transmitted", 1),
    ]);
    assert_eq!(rig.take("S"), [own.frame()]);

    // Through the egress the proxy has attracted it; it goes where the function's paths deliver.
    let attracted = Spec {
        source_mac: rig.town.mac("v1.out"),
        destination_mac: PROXY_MAC,
        source: "10.1.0.11".parse().unwrap(),
        ..own.clone()
    };
    rig.send("v1.out", &attracted.frame());
    rig.assert_moved(&[
        ("v1.out received", 1),
        ("v1.out created by function", 1),
        ("v1.out forwarded", 1),
        ("S transmitted", 1),
    ]);
    let delivered = Spec { destination_mac: rig.town.mac("S"), ..attracted };
    assert_eq!(rig.take("S"), [delivered.frame()]);
}

#[test]
fn a_function_that_has_resolved_the_destination_is_believed() {
    let mut town = with_chain(Encapsulation::Nsh, &[&["v1"]]);
    town.instances[0].egress = town.instances[0].ingress;
    let mut rig = Rig::new(town);
    rig.behaviours.insert("v1".into(), Behaviour::Route(rig.town.mac("S")));
    rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
    assert_eq!(rig.take("S").len(), 1, "the last function addressed S, so S gets it");
    rig.behaviours.insert("v1".into(), Behaviour::Route(PROXY_MAC));
    rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
    assert_eq!(rig.take("D").len(), 1);
}

#[test]
fn a_bridging_function_may_end_a_path() {
    for both_ways in [false, true] {
        let mut town = with_chain(Encapsulation::Nsh, &[&["v2"], &["v1"]]);
        if both_ways {
            town.instances[0].egress = town.instances[0].ingress;
        } else {
            let egress = town.instances[0].egress;
            town.ports[egress].network = crate::scene::CUSTOMER;
        }
        let mut rig = Rig::new(town);
        rig.behaviours.insert("v1".into(), Behaviour::Bridge);
        rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
        assert_eq!((rig.take("v1.in").len(), rig.take("D").len()), (1, 1));
    }
}

#[test]
fn beyond_the_prefixes_the_gateway_of_the_destination_takes_it() {
    let mut town = with_chain(Encapsulation::Nsh, &[&["v1"]]);
    town.endpoint("gateway", 1, 0, &["10.0.0.254"]);
    town.networks[0].gateways.push("10.0.0.254".into());
    let mut rig = Rig::new(town);
    let mut sent = packet(&rig.town, CHAINED_PORT);
    sent.destination = "198.51.100.1".parse().unwrap();
    rig.send("S", &sent.frame());
    assert_eq!(rig.take("gateway").len(), 1);
    sent.destination = "10.0.0.99".parse().unwrap();
    rig.moved();
    rig.send("S", &sent.frame());
    let moved = rig.moved();
    assert_eq!(moved.get("v1.out dropped no_neighbour"), Some(&1), "on the network, yet unknown");
    assert_eq!(moved.get("host1 path 100 dropped no_neighbour"), Some(&1));
}

#[test]
fn an_aware_function_gets_and_moves_the_header_itself() {
    for encapsulation in Encapsulation::TUNNELLED {
        let mut town = with_chain(encapsulation, &[&["v1"], &["v2"], &["v4"]]);
        town.speaking("v1", encapsulation);
        town.speaking("v2", encapsulation);
        let mut rig = Rig::new(town);
        let sent = packet(&rig.town, CHAINED_PORT);
        rig.send("S", &sent.frame());
        let seen = rig.take("v2.in").remove(0);
        let header = EthernetHeader::untagged(
            rig.town.mac("v2.in"),
            PROXY_MAC,
            encapsulation.capabilities().ether_type.unwrap(),
        );
        let mut expected = vec![0; 14];
        header.emit(&mut expected).unwrap();
        assert_eq!(seen[..14], expected);
        assert!(seen.ends_with(&sent.frame()), "the inner frame is untouched");
        assert_eq!((rig.take("v4.in").len(), rig.take("D").len()), (1, 1));
        let moved = rig.moved();
        assert_eq!(moved.get("host1 path 100 from v1"), Some(&1));
        assert_eq!(moved.get("host2 path 100 from v2"), Some(&1));
        assert_eq!(moved.get("v1.out created by function"), None);
    }
}

/// What an aware function was given at one hop and sends back looks like its answer to the hop
/// before, if it may serve that too.
#[test]
fn a_packet_that_an_aware_function_never_moves_on_ages() {
    for encapsulation in Encapsulation::TUNNELLED {
        let mut town = with_chain(encapsulation, &[&["v1", "v3"], &["v1"]]);
        town.speaking("v1", encapsulation);
        let mut rig = Rig::new(town);
        rig.behaviours.insert("v1".into(), Behaviour::Echo);
        let sent = packet(&rig.town, CHAINED_PORT);
        for number in 0..16 {
            let ports = (sent.ports.0 + number, sent.ports.1);
            rig.send("S", &Spec { ports, ..sent.clone() }.frame());
        }
        assert!(rig.take("D").is_empty());
        let moved = rig.moved();
        let dropped = |reason: DropReason| {
            let lines = moved.iter().filter(|(line, _)| line.starts_with("v1.out dropped"));
            lines.filter(|(line, _)| line.ends_with(reason.name())).map(|(_, n)| *n).sum::<u64>()
        };
        let (old, foreign) =
            (dropped(DropReason::TtlExpired), dropped(DropReason::ForeignChainHeader));
        assert!(old > 0, "{moved:?}");
        assert_eq!(old + foreign, 16, "{moved:?}");
    }
}

#[test]
fn only_tunnels_count_the_time_to_live_down() {
    for encapsulation in Encapsulation::TUNNELLED {
        let names: Vec<String> = (0..31).flat_map(|n| [format!("a{n}"), format!("b{n}")]).collect();
        let mut town = three_hosts();
        for (number, name) in names.iter().enumerate() {
            town.function(name, 1 + number % 2, (crate::scene::CUSTOMER, crate::scene::INTERNAL));
            town.speaking(name, encapsulation);
        }
        let hops: Vec<[&str; 1]> = names.iter().map(|name| [name.as_str()]).collect();
        let hops: Vec<&[&str]> = hops.iter().map(<[&str; 1]>::as_slice).collect();
        town.chain("long", encapsulation, &hops, &crate::scene::rules(CHAINED_PORT));
        let mut rig = Rig::new(town);
        rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
        assert_eq!(rig.take("D").len(), 1, "62 functions, each behind a tunnel");
    }
}

#[test]
fn the_time_to_live_survives_the_proxy() {
    // Both tunnels of the path count down: host1 sends 63, host2 goes on with 62.
    let mut rig = Rig::new(with_chain(Encapsulation::Mpls, &[&["v2"], &["v4"]]));
    rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
    let ttls: Vec<u8> = rig
        .datagrams
        .iter()
        .filter(|datagram| datagram.kind == TunnelKind::Path(Encapsulation::Mpls))
        .map(|datagram| catena_wire::mpls::SfcLabelPair::parse(&datagram.bytes).unwrap().0)
        .map(|pair| pair.function_ttl)
        .collect();
    assert_eq!(ttls, [63, 62]);
}

#[test]
fn a_function_that_answers_with_another_foreign_header_is_refused() {
    let mut town = with_chain(Encapsulation::Nsh, &[&["v1"]]);
    town.speaking("v1", Encapsulation::Nsh);
    let mut rig = Rig::new(town);
    let mut frame = vec![0; 14];
    EthernetHeader::untagged(PROXY_MAC, rig.town.mac("v1.out"), EtherType::MPLS)
        .emit(&mut frame)
        .unwrap();
    rig.send("v1.out", &frame);
    rig.assert_only_dropped("v1.out", DropReason::UnsupportedEncapsulation);
}
