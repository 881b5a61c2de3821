//! Whole frames, and damage of every kind.

use std::vec::Vec;

use super::*;
use crate::scalar::FragmentOffset;
use crate::segment::coalesce::Segment;
use crate::segment::{SegmentKind, SuperFrame};
use crate::tcp::TcpFlags;
use crate::{golden, ipv4, ipv6};

macro_rules! goldens {
    ($($name:ident $path:literal)*) => {
        $(fn $name() -> Vec<u8> {
            golden::hex(include_str!(concat!("../../../../conformance/", $path, ".hex")))
        })*

        /// Every golden that is a whole frame.
        fn frames() -> Vec<Vec<u8>> {
            std::vec![$($name()),*]
        }
    };
}

goldens! {
    arp_request "frame/arp_request"
    first_fragment "frame/first_fragment"
    icmp_echo_request "frame/icmp_echo_request"
    icmpv6_echo_reply "frame/icmpv6_echo_reply"
    last_fragment "frame/last_fragment"
    neighbour_solicitation "frame/neighbour_solicitation"
    spanning_tree "frame/spanning_tree"
    tcp_ipv4_padded "frame/tcp_ipv4_padded"
    udp_ipv6_vlan "frame/udp_ipv6_vlan"
    untagged "ethernet/untagged"
    tcp_super_frame "segment/tcp_super_frame"
    tcp_segment "segment/tcp_segment_0"
    udp_super_frame "segment/udp_super_frame"
    udp_segment "segment/udp_segment_0"
}

/// Every golden that is a packet or a part of one.
fn packets() -> Vec<Vec<u8>> {
    [
        include_str!("../../../../conformance/ipv4/udp.hex"),
        include_str!("../../../../conformance/ipv4/fragment_with_options.hex"),
        include_str!("../../../../conformance/ipv6/plain.hex"),
        include_str!("../../../../conformance/ipv6/extension_headers.hex"),
        include_str!("../../../../conformance/ipv6/later_fragment.hex"),
        include_str!("../../../../conformance/udp/v4.hex"),
        include_str!("../../../../conformance/udp/v6.hex"),
        include_str!("../../../../conformance/tcp/with_options.hex"),
        include_str!("../../../../conformance/tcp/urgent.hex"),
    ]
    .map(golden::hex)
    .to_vec()
}

fn flow(source: &str, destination: &str, protocol: IpProtocol, ports: (u16, u16)) -> FlowKey {
    FlowKey {
        source: source.parse().unwrap(),
        destination: destination.parse().unwrap(),
        protocol,
        source_port: ports.0,
        destination_port: ports.1,
    }
}

#[test]
fn a_padded_frame_ends_where_its_packet_ends() {
    let frame = FrameView::parse(&tcp_ipv4_padded()).unwrap();
    let expected = FrameView {
        destination: MacAddr([2, 0, 0, 0, 0, 2]),
        source: MacAddr([2, 0, 0, 0, 0, 1]),
        vlan: None,
        ethertype: EtherType::IPV4,
        l3_offset: 14,
        network: Network::Ipv4,
        l4_offset: Some(34),
        protocol: Some(IpProtocol::TCP),
        fragment: Fragment::Whole,
        end: 54,
        flow: Some(flow("192.0.2.1", "198.51.100.2", IpProtocol::TCP, (443, 40_000))),
        icmp_type: None,
        varying: VaryingFields { dscp: 0, tcp_flags: Some(TcpFlags::SYN.with(TcpFlags::ACK)) },
    };
    assert_eq!(frame, expected);
    assert!(!frame.is_multicast_or_link_local() && !frame.is_neighbour_discovery());
}

#[test]
fn a_tag_moves_every_offset() {
    let bytes = udp_ipv6_vlan();
    let frame = FrameView::parse(&bytes).unwrap();
    assert_eq!(frame.vlan, Some(VlanId::new(7).unwrap()));
    assert_eq!((frame.l3_offset, frame.l4_offset), (18, Some(58)));
    assert_eq!((frame.network, frame.ethertype), (Network::Ipv6, EtherType::IPV6));
    assert_eq!(frame.end as usize, bytes.len());
    let expected = flow("2001:db8::1", "2001:db8:1::2", IpProtocol::UDP, (1111, 2222));
    assert_eq!(frame.flow, Some(expected));
}

#[test]
fn an_echo_is_a_flow_of_its_identifier() {
    let request = FrameView::parse(&icmp_echo_request()).unwrap();
    assert_eq!(request.icmp_type, Some(8));
    let expected = flow("192.0.2.1", "198.51.100.2", IpProtocol::ICMP, (1234, 0));
    assert_eq!(request.flow, Some(expected));
    let reply = FrameView::parse(&icmpv6_echo_reply()).unwrap();
    assert_eq!(reply.icmp_type, Some(129));
    let expected = flow("2001:db8:1::2", "2001:db8::1", IpProtocol::ICMPV6, (1234, 0));
    assert_eq!(reply.flow, Some(expected));
    assert!(!reply.is_neighbour_discovery());
}

#[test]
fn only_the_first_fragment_has_ports() {
    let first = FrameView::parse(&first_fragment()).unwrap();
    assert_eq!(first.fragment, Fragment::First);
    assert_eq!(first.flow.map(|flow| (flow.source_port, flow.destination_port)), Some((7, 9)));
    let last = FrameView::parse(&last_fragment()).unwrap();
    assert_eq!(last.fragment, Fragment::Later);
    assert_eq!(last.flow.map(|flow| (flow.source_port, flow.destination_port)), Some((0, 0)));
    assert_eq!((last.protocol, last.l4_offset), (Some(IpProtocol::UDP), Some(34)));
}

#[test]
fn a_first_fragment_without_its_ports_is_refused() {
    let mut bytes = first_fragment();
    ipv4::set_total_length(&mut bytes[14..], 20 + 7).unwrap();
    let error = TransportError::TinyFragment { have: 7 };
    assert_eq!(FrameView::parse(&bytes), Err(FrameError::Transport(error)));
}

#[test]
fn an_ipv6_fragment_header_is_seen_through() {
    let mut bytes = [0; 14].to_vec();
    bytes[12..].copy_from_slice(&[0x86, 0xdd]);
    let [atomic, later] = [3, 4].map(|i| [bytes.clone(), packets()[i].clone()].concat());
    let atomic = FrameView::parse(&atomic).unwrap();
    assert_eq!((atomic.fragment, atomic.l4_offset), (Fragment::Whole, Some(134)));
    assert_eq!(atomic.flow.map(|flow| flow.destination_port), Some(2000));
    let mut first = later.clone();
    assert_eq!(FrameView::parse(&later).unwrap().fragment, Fragment::Later);
    first[14 + ipv6::HEADER_BYTES + 2..][..2].copy_from_slice(&[0, 1]);
    let first = FrameView::parse(&first).unwrap();
    assert_eq!(first.fragment, Fragment::First);
    assert_eq!(first.flow.map(|flow| flow.source_port), Some(0x5a5a));
}

#[test]
fn what_stays_on_its_link_is_known() {
    let frame = FrameView::parse(&neighbour_solicitation()).unwrap();
    assert!(frame.is_neighbour_discovery() && frame.is_multicast_or_link_local());
    for (bytes, network) in [(arp_request(), Network::Arp), (spanning_tree(), Network::Other)] {
        let frame = FrameView::parse(&bytes).unwrap();
        assert_eq!((frame.network, frame.flow, frame.protocol), (network, None, None));
        assert_eq!(frame.end as usize, bytes.len());
        assert!(frame.is_multicast_or_link_local());
    }
    let base = FrameView::parse(&tcp_ipv4_padded()).unwrap();
    let between = |source, destination| {
        FrameView { flow: Some(flow(source, destination, IpProtocol::TCP, (1, 2))), ..base }
            .is_multicast_or_link_local()
    };
    assert!(between("169.254.0.1", "10.0.0.1") && between("10.0.0.1", "169.254.255.1"));
    assert!(between("10.0.0.1", "224.0.0.251") && between("10.0.0.1", "255.255.255.255"));
    assert!(between("fe80::1", "2001:db8::1") && between("2001:db8::1", "febf::1"));
    assert!(between("2001:db8::1", "ff02::1"));
    assert!(!between("10.0.0.1", "223.255.255.255") && !between("2001:db8::1", "fec0::1"));
}

#[test]
fn only_types_133_to_137_discover_neighbours() {
    let mut bytes = neighbour_solicitation();
    let kind = 14 + ipv6::HEADER_BYTES;
    for value in 0..=u8::MAX {
        bytes[kind] = value;
        let frame = FrameView::parse(&bytes).unwrap();
        assert_eq!(frame.icmp_type, Some(value));
        assert_eq!(frame.is_neighbour_discovery(), (133..=137).contains(&value));
    }
}

#[test]
fn an_error_names_its_layer() {
    golden::each_truncation(&tcp_ipv4_padded()[..54], |cut| {
        let error = FrameView::parse(cut).unwrap_err();
        assert_eq!(matches!(error, FrameError::Ethernet(_)), cut.len() < 14);
        assert_eq!(matches!(error, FrameError::Ip(IpError::V4(_))), cut.len() >= 14);
    });
    let mut bytes = icmp_echo_request();
    ipv4::set_total_length(&mut bytes[14..], 27).unwrap();
    let error = TransportError::Icmp { have: 7 };
    assert_eq!(FrameView::parse(&bytes), Err(FrameError::Transport(error)));
    let mut bytes = udp_ipv6_vlan();
    bytes[58 + 5] = 7;
    let error = TransportError::Udp(UdpError::Length { field: 7, have: 9 });
    assert_eq!(FrameView::parse(&bytes), Err(FrameError::Transport(error)));
    let mut bytes = tcp_ipv4_padded();
    bytes[34 + 12] = 0x60;
    let error = TransportError::Tcp(TcpError::Truncated { need: 24, have: 20 });
    assert_eq!(FrameView::parse(&bytes), Err(FrameError::Transport(error)));
}

#[test]
fn the_largest_frame_is_read() {
    let header = ipv4::Ipv4Header {
        traffic_class: 0,
        payload_bytes: 65_515,
        identification: 0,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: FragmentOffset::from_low_bits(0),
        ttl: 64,
        protocol: IpProtocol(132),
        source: [10, 0, 0, 1].into(),
        destination: [10, 0, 0, 2].into(),
    };
    let mut bytes = std::vec![0; 65_549];
    bytes[12] = 8;
    header.emit(&mut bytes[14..]).unwrap();
    let frame = FrameView::parse(&bytes).unwrap();
    assert_eq!(frame.end, 65_549);
    assert_eq!(frame.flow, Some(flow("10.0.0.1", "10.0.0.2", IpProtocol(132), (0, 0))));
}

/// Shows bytes to every parser here; what they say does not matter, only that they say it.
fn show(bytes: &[u8]) {
    let _ = Ipv4View::parse(bytes).map(|view| (view.header(), view.is_checksum_correct()));
    let _ = Ipv6View::parse(bytes).map(|view| (view.header(), view.upper().len()));
    let _ = TcpView::parse(bytes).map(|view| (view.options(), view.payload(), view.header()));
    let _ = UdpView::parse(bytes).map(|view| view.payload().len());
    let _ = EthernetView::parse(bytes).map(|view| view.header());
    let mut room = [0; 256];
    for kind in [SegmentKind::Tcp, SegmentKind::Udp] {
        for segment_bytes in [0, 1, 7, u16::MAX] {
            let Ok(cut) = SuperFrame::parse(bytes, kind, segment_bytes) else { continue };
            for i in 0..=cut.count() {
                let written = cut.write_segment(bytes, i, &mut room);
                assert_eq!(written, cut.segment_len(i));
                assert_eq!(written == 0, i == cut.count());
            }
        }
    }
    if let Ok(frame) = FrameView::parse(bytes) {
        assert!(frame.end as usize <= bytes.len());
        assert!(frame.l4_offset.is_none_or(|offset| u32::from(offset) <= frame.end));
        assert!(u32::from(frame.l3_offset) <= frame.end);
        if let Some(segment) = Segment::read(&frame, bytes) {
            assert_eq!(segment.payload().end, frame.end as usize);
        }
    }
}

#[test]
fn no_golden_cut_or_flipped_makes_a_parser_panic() {
    for bytes in frames().into_iter().chain(packets()) {
        show(&bytes);
        golden::each_truncation(&bytes, show);
        golden::each_bit_flip(&bytes, show);
        golden::each_truncation(&bytes, |cut| {
            // Cut anywhere and damaged in the first 20 bytes.
            golden::each_bit_flip(&cut[..cut.len().min(20)], show);
        });
    }
}

proptest::proptest! {
    #[test]
    fn no_bytes_make_a_parser_panic(
        bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200),
        ethertype in proptest::sample::select(&[0x0800_u16, 0x86dd, 0x8100, 0x0806][..]),
        version in proptest::sample::select(&[0x45_u8, 0x46, 0x60][..]),
    ) {
        show(&bytes);
        let mut bytes = bytes;
        if bytes.len() > 14 {
            bytes[12..14].copy_from_slice(&ethertype.to_be_bytes());
            bytes[14] = version;
        }
        show(&bytes);
    }
}

#[test]
fn a_quoted_packet_may_end_behind_its_ports() {
    for frame in [tcp_ipv4_padded(), udp_ipv6_vlan(), icmp_echo_request()] {
        let whole = FrameView::parse(&frame).unwrap();
        let packet = &frame[usize::from(whole.l3_offset)..whole.end as usize];
        let upper = usize::from(whole.l4_offset.unwrap() - whole.l3_offset);
        for have in upper + 8..=packet.len() {
            let quoted = FrameView::parse_quoted(&packet[..have], whole.ethertype).unwrap();
            assert_eq!((quoted.flow, quoted.end as usize), (whole.flow, have));
        }
        assert!(FrameView::parse_quoted(&packet[..upper + 7], whole.ethertype).is_err());
        assert!(FrameView::parse_quoted(&packet[..10], whole.ethertype).is_err());
    }
}
