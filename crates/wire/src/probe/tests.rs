//! Golden, rule and damage tests of probes.

use std::vec::Vec;

use super::*;
use crate::golden::{each_bit_flip, each_truncation, hex};
use crate::ipv4::Ipv4View;
use crate::neighbour::NeighbourSolicitation;
use crate::udp::UdpView;

const US: MacAddr = MacAddr([2, 0xca, 0x7e, 0, 0, 1]);
const FUNCTION: MacAddr = MacAddr([2, 0, 0, 0, 0, 7]);
const MARK: ProbeMark = ProbeMark { number: 0x0102_0304_0506_0708, seal: 0x1112_1314_1516_1718 };

fn flow(source: &str, destination: &str, protocol: IpProtocol) -> FlowKey {
    FlowKey {
        source: source.parse().unwrap(),
        destination: destination.parse().unwrap(),
        protocol,
        source_port: 40_000,
        destination_port: 5_001,
    }
}

fn probe(flow: FlowKey, packet_bytes: usize) -> Vec<u8> {
    probe_as(flow, ProbeCarrier::beside(&flow), packet_bytes)
}

fn probe_as(flow: FlowKey, carrier: ProbeCarrier, packet_bytes: usize) -> Vec<u8> {
    let (destination, source, mark) = (FUNCTION, US, MARK);
    let varying = carrier.varying();
    let frame = ProbeFrame { destination, source, flow, carrier, varying, mark, packet_bytes };
    let mut into = [0xa5; 2_000];
    let length = frame.emit(&mut into).unwrap();
    assert!(into[length..].iter().all(|byte| *byte == 0xa5), "nothing is written behind it");
    into[..length].to_vec()
}

fn found(frame: &[u8]) -> Option<ProbeMark> {
    ProbeMark::find(&FrameView::parse(frame).ok()?, frame)
}

/// The bytes by hand, from RFC 791, RFC 768 and the layout in the head of the module.
#[test]
fn a_probe_of_a_udp_flow_is_these_bytes() {
    let frame = probe(flow("10.0.0.1", "10.0.0.2", IpProtocol::UDP), 0);
    let expected = hex("020000000007 02ca7e000001 0800
        4500 0034 0000 4000 40 11 26b7 0a000001 0a000002
        9c40 1389 0020 ffff
        434154454e415052 0102030405060708 1112131415161718");
    assert_eq!(frame[..38], expected[..38]);
    assert_eq!(frame[42..], expected[42..]);
    let packet = Ipv4View::parse(&frame[14..]).unwrap();
    assert!(packet.is_checksum_correct());
    let udp = UdpView::parse(packet.payload()).unwrap();
    assert!(udp.is_checksum_correct("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap()));
}

#[test]
fn probes_of_every_kind_are_sound_carry_their_mark_and_have_the_size_wanted() {
    for (source, destination) in [("10.0.0.1", "10.9.0.2"), ("2001:db8::1", "2001:db8:9::2")] {
        for protocol in [IpProtocol::UDP, IpProtocol::TCP, IpProtocol::ICMP] {
            let flow = flow(source, destination, protocol);
            for bytes in [0, 100, 1_400] {
                let frame = probe(flow, bytes);
                let carrier = ProbeCarrier::beside(&flow);
                let least = ProbeFrame::least_packet_bytes(carrier, source.contains('.'));
                assert_eq!(frame.len(), 14 + bytes.max(least));
                assert_eq!(found(&frame), Some(MARK));
                let view = FrameView::parse(&frame).unwrap();
                let seen = view.flow.unwrap();
                assert_eq!((seen.source, seen.destination), (flow.source, flow.destination));
                assert_eq!(seen == flow, protocol == IpProtocol::UDP);
                let message = &frame[usize::from(view.l4_offset.unwrap())..];
                match (flow.source, flow.destination) {
                    _ if protocol == IpProtocol::UDP => {
                        let udp = UdpView::parse(message).unwrap();
                        assert!(udp.is_checksum_correct(flow.source, flow.destination));
                    }
                    (IpAddr::V6(from), IpAddr::V6(to)) => {
                        assert!(v6_sum(message, from, to).is_correct());
                    }
                    _ => assert!(Sum::of(message).is_correct()),
                }
            }
        }
    }
}

#[test]
fn what_is_cut_or_changed_in_its_magic_is_no_probe() {
    let frame = probe(flow("10.0.0.1", "10.0.0.2", IpProtocol::UDP), 0);
    each_truncation(&frame, |cut| assert_eq!(found(cut), None));
    each_bit_flip(&frame, |flipped| {
        if flipped[42..50] != frame[42..50] {
            assert_eq!(found(flipped), None);
        }
    });
    let mut into = [0; 60];
    let flow = flow("10.0.0.1", "10.0.0.2", IpProtocol::UDP);
    let frame = ProbeFrame {
        destination: FUNCTION,
        source: US,
        flow,
        carrier: ProbeCarrier::Udp,
        varying: ProbeCarrier::Udp.varying(),
        mark: MARK,
        packet_bytes: 52,
    };
    assert_eq!(frame.emit(&mut into), None, "it does not fit");
    let mixed = FlowKey { destination: "::1".parse().unwrap(), ..flow };
    assert_eq!(ProbeFrame { flow: mixed, ..frame }.emit(&mut [0; 200]), None);
}

#[test]
fn questions_are_sound_and_known_again_with_their_answers() {
    let mut into = [0; QUESTION_BYTES_MAX];
    let v4: IpAddr = "10.0.0.7".parse().unwrap();
    let length = emit_question(US, FUNCTION, v4, &mut into).unwrap();
    let view = FrameView::parse(&into[..length]).unwrap();
    assert_eq!(view.destination, FUNCTION, "it goes to one interface");
    assert!(is_question_of(US, &view, &into[..length]));
    let asked = ArpPacket::parse(&into[14..length]).unwrap();
    assert_eq!((asked.sender_ip, asked.target_ip), (Ipv4Addr::UNSPECIFIED, [10, 0, 0, 7].into()));
    let length = asked.reply(FUNCTION).emit_frame(&mut into).unwrap();
    let view = FrameView::parse(&into[..length]).unwrap();
    assert_eq!(find_answer(US, &view, &into[..length]), Some(v4));
    assert_eq!(find_answer(FUNCTION, &view, &into[..length]), None, "an answer to another");
    assert!(!is_question_of(US, &view, &into[..length]));

    let v6: IpAddr = "2001:db8::7".parse().unwrap();
    let length = emit_question(US, FUNCTION, v6, &mut into).unwrap();
    let view = FrameView::parse(&into[..length]).unwrap();
    assert!(is_question_of(US, &view, &into[..length]));
    let flow = view.flow.unwrap();
    let (IpAddr::V6(from), IpAddr::V6(to)) = (flow.source, flow.destination) else { panic!() };
    assert_eq!(from, "fe80::ca:7eff:fe00:1".parse::<Ipv6Addr>().unwrap());
    let asked = NeighbourSolicitation::parse(&into[54..length], from, to, 255).unwrap();
    assert_eq!(asked.source_link_layer, Some(US));
    let length = neighbour::emit_neighbour_advertisement(&asked, US, FUNCTION, &mut into).unwrap();
    let view = FrameView::parse(&into[..length]).unwrap();
    assert_eq!(find_answer(US, &view, &into[..length]), Some(v6));
    assert_eq!(find_answer(FUNCTION, &view, &into[..length]), None);
}

#[test]
fn a_tcp_probe_opens_a_connection_and_any_probe_is_found_behind_any_header() {
    for (source, destination) in [("10.0.0.1", "10.9.0.2"), ("2001:db8::1", "2001:db8:9::2")] {
        let flow = flow(source, destination, IpProtocol::TCP);
        let frame = probe_as(flow, ProbeCarrier::Tcp, 200);
        let view = FrameView::parse(&frame).unwrap();
        assert_eq!((view.flow, found(&frame)), (Some(flow), Some(MARK)));
        let segment = &frame[usize::from(view.l4_offset.unwrap())..];
        let tcp = crate::tcp::TcpView::parse(segment).unwrap();
        assert_eq!(tcp.header().flags, TcpFlags::SYN);
        assert!(tcp.is_checksum_correct(flow.source, flow.destination));
        let headed = [&[0x43; 40][..], &frame].concat();
        assert_eq!(ProbeMark::scan(&headed), Some(MARK));
        assert_eq!(ProbeMark::scan(&headed[..100]), None);
    }
}
