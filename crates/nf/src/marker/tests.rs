//! Code points of packets, bit by bit, and the profile, held against the code.

use super::*;
use crate::carry_out;
use crate::harness::traffic;
use crate::harness::verify;
use crate::packet::Metadata;
use catena_rules::qos::{QosKind, read};
use catena_wire::frame::FrameView;
use std::net::IpAddr;

const OFFICE: &str = include_str!("../../../../conformance/nf/marker/office.yaml");
const ALL: &str = include_str!("../../../../conformance/nf/marker/all.json");
/// Of each kind of condition some that the harness's traffic meets, and some that it does not.
const BUSY: &str = "classes:\n\
    - {name: names, match: {protocol: udp, destination_port: 53}, mark: ef}\n\
    - {name: six, match: {version: 6, source: '2001:db8:1::/48'}, mark: af11}\n\
    - {name: web, match: [{destination: 10.0.2.0/24, protocol: tcp, source_port: [80, 443, 8000-8090]},\n\
      {source: 10.0.1.0/25, dscp: [ef, 10]}], mark: cs5}\n\
    - {name: nobody, match: {source: 192.0.2.0/24}, mark: le}\n\
    - {name: back, match: {direction: backward, protocol: [icmp, gre]}, mark: 63}\n";

fn marker(text: &str) -> Marker {
    Marker::new(&read(text, "edge.yaml", QosKind::Marker).unwrap_or_else(|wrong| panic!("{wrong}")))
}

#[test]
fn the_profile_is_true() {
    let inputs = traffic::draw(21, 12_000);
    for (text, patches) in [(BUSY, 1_500), (OFFICE, 200), (ALL, 12_000)] {
        let proof = verify(|| marker(text), &inputs, 5).unwrap_or_else(|wrong| panic!("{wrong}"));
        println!("{proof:?}");
        assert!(proof.patches >= patches && proof.dropped == 0, "{proof:?}");
    }
}

#[test]
fn each_packet_gets_the_code_point_of_its_first_class_and_keeps_everything_else() {
    let mut marker = marker(BUSY);
    let mut outcomes = Outcomes::default();
    let (mut counted, mut bytes) = ([0; 6], 0);
    for input in traffic::draw(22, 10_000) {
        let packet = Packet::read(&input.frame).unwrap();
        marker.process(input.at, input.direction, &[packet], &mut outcomes);
        let (rule, mark) = class_of(&packet, input.direction);
        counted[rule] += 1;
        bytes += u64::from(packet.view.end) - u64::from(packet.view.l3_offset);
        let class = mark.unwrap_or(packet.view.varying.dscp) << 2 | ecn_of(&packet);
        let mut frame = input.frame.clone();
        let parts = (&mut frame[..], &packet.view);
        carry_out::apply(outcomes.patches_of(0), parts, packet.upper, &mut Metadata::default())
            .unwrap();
        assert_eq!(frame, with_class(&input.frame, &packet.view, class));
    }
    let mut counts = Vec::new();
    marker.report(&mut counts);
    assert_eq!(counts.iter().map(|count| count.packets).collect::<Vec<_>>(), counted);
    assert_eq!(counts.iter().map(|count| count.bytes).sum::<u64>(), bytes);
    assert!(
        counted[3] == 0 && counted.iter().filter(|count| **count > 50).count() == 5,
        "{counted:?}"
    );
    assert_eq!(marker.rule_in_words(1).unwrap(), "edge.yaml, class six: mark af11");
    assert_eq!(marker.rule_in_words(5).unwrap(), "edge.yaml, no class: as it is");
    assert_eq!(marker.rule_in_words(6), None);
}

/// The class of a packet and its mark, by a look at the packet alone.
fn class_of(packet: &Packet<'_>, direction: Direction) -> (usize, Option<u8>) {
    let (view, flow) = (&packet.view, packet.view.flow.unwrap());
    let has_ports = view.fragment != catena_wire::frame::Fragment::Later;
    let (protocol, dscp) = (flow.protocol.0, view.varying.dscp);
    let octets = |address: IpAddr| match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    };
    let (source, destination) = (octets(flow.source), octets(flow.destination));
    let is_web_port = |port: u16| port == 80 || port == 443 || (8_000..=8_090).contains(&port);
    if protocol == 17 && has_ports && flow.destination_port == 53 {
        (0, Some(46))
    } else if source.len() == 16 && source[..6] == [0x20, 1, 0x0d, 0xb8, 0, 1] {
        (1, Some(10))
    } else if destination.starts_with(&[10, 0, 2])
        && protocol == 6
        && has_ports
        && is_web_port(flow.source_port)
        || source.starts_with(&[10, 0, 1]) && source[3] < 128 && [46, 10].contains(&dscp)
    {
        (2, Some(40))
    } else if direction == Direction::Backward && [1, 47].contains(&protocol) {
        (4, Some(63))
    } else {
        (5, None)
    }
}

fn ecn_of(packet: &Packet<'_>) -> u8 {
    let class = packet.frame[usize::from(packet.view.l3_offset) + 1];
    let is_v6 = packet.view.flow.unwrap().source.is_ipv6();
    if is_v6 { class >> 4 & 3 } else { class & 3 }
}

/// A frame with another traffic class, its IPv4 checksum summed anew.
fn with_class(frame: &[u8], view: &FrameView, class: u8) -> Vec<u8> {
    let mut frame = frame.to_vec();
    let at = usize::from(view.l3_offset);
    if frame[at] >> 4 == 6 {
        frame[at] = 0x60 | class >> 4;
        frame[at + 1] = class << 4 | frame[at + 1] & 0x0f;
        return frame;
    }
    frame[at + 1] = class;
    frame[at + 10..at + 12].fill(0);
    let words = frame[at..at + 20].chunks(2);
    let sum: u32 = words.map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    frame[at + 10..at + 12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    frame
}
