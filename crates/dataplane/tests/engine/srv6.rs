//! Segments of IPv6: what stands in front of packets, what comes out of it, and what is refused by name.

use crate::frames::Spec;
use crate::rig::Rig;
use crate::scene::{CHAINED_PORT, PLAIN_PORT, packet, packet_v6, with_chain};
use crate::town::{node_segments, tunnel_end};
use catena_dataplane::engine::TunnelKind;
use catena_io::Offload;
use catena_model::DropReason;
use catena_model::limits::SEGMENT_ERRORS_BURST;
use catena_model::program::PROXY_MAC;
use catena_model::resource::Encapsulation;
use catena_wire::ethernet::{self, EthernetHeader};
use catena_wire::icmp::IcmpView;
use catena_wire::ipv4;
use catena_wire::ipv6::{self, Ipv6Header};
use catena_wire::scalar::{EtherType, IpProtocol};
use catena_wire::srv6::{self, Locator, Sid, Srv6View};
use std::net::Ipv6Addr;

const END: u16 = 1;
const END_DT46: u16 = 20;
const END_DX2: u16 = 21;
const BOTH: [Encapsulation; 2] = [Encapsulation::Srv6, Encapsulation::Srv6Ethernet];

fn sid(node: usize, function: u16, hop: u16) -> Ipv6Addr {
    Sid { locator: node_segments(node).locator, function, path: 100, hop }.address()
}

/// What S sends to the first function, on the second host, and the rig in which it did.
pub(crate) fn first(by: Encapsulation, hops: &[&[&str]]) -> (Rig, Vec<u8>) {
    let mut rig = Rig::new(with_chain(by, hops));
    let frame = packet(&rig.town, CHAINED_PORT).frame();
    rig.send("S", &frame);
    let sent = rig.datagrams.remove(0).bytes;
    rig.datagrams.clear();
    rig.seen.clear();
    rig.moved();
    (rig, sent)
}

/// What the second host does with a packet of the first one's.
pub(crate) fn arrives(rig: &mut Rig, bytes: &[u8]) {
    let kind = TunnelKind::Path(Encapsulation::Srv6);
    rig.send_datagram(1, kind, tunnel_end(0, kind), bytes);
}

/// A packet of S entered the path and ended there for this reason, and nothing else moved.
#[track_caller]
fn assert_ended(rig: &mut Rig, reason: DropReason) {
    rig.assert_moved(&[
        ("S received", 1),
        (&format!("S dropped {reason}"), 1),
        ("host1 path 100 entered", 1),
        (&format!("host1 path 100 dropped {reason}"), 1),
    ]);
}

#[test]
fn a_header_names_the_nodes_of_the_way_and_says_path_and_hop() {
    for (by, last) in BOTH.into_iter().zip([END_DT46, END_DX2]) {
        let mut rig = Rig::new(with_chain(by, &[&["v2"], &["v4"]]));
        let mut frame = packet(&rig.town, CHAINED_PORT).frame();
        ipv4::set_traffic_class(&mut frame[ethernet::HEADER_BYTES..], 0xb9).unwrap();
        rig.send("S", &frame);
        let [one, other] = &rig.datagrams[..] else { panic!("two nodes send") };
        assert_eq!(one.segment_bytes, None);
        let view = Srv6View::parse(&one.bytes).unwrap();
        let way: Vec<_> = view.routing().way().collect();
        assert_eq!(way, [sid(1, END, 0), sid(2, last, 1)]);
        let Ipv6Header { source, destination, hop_limit, traffic_class, payload_length, .. } =
            *view.header();
        assert_eq!((source, destination), (node_segments(0).address, sid(1, END, 0)));
        assert_eq!((view.routing().segments_left(), view.routing().last_entry()), (1, 1));
        assert_eq!(usize::from(payload_length), one.bytes.len() - ipv6::HEADER_BYTES);
        assert_eq!(hop_limit, 63);
        let whole = by == Encapsulation::Srv6Ethernet;
        // What comes out of a frame could tell nobody of congestion.
        assert_eq!(traffic_class, if whole { 0xb8 } else { 0xb9 });
        let (inner, before) = if whole { (143, 0) } else { (4, ethernet::HEADER_BYTES) };
        assert_eq!(view.routing().next(), IpProtocol(inner));
        assert_eq!(view.payload(), &frame[before..]);
        // The node in between writes what is left of the way.
        let next = Srv6View::parse(&other.bytes).unwrap();
        assert_eq!(next.routing().way().collect::<Vec<_>>(), [sid(2, last, 1)]);
        assert_eq!(next.header().source, node_segments(1).address);
        assert_eq!(next.header().flow_label, view.header().flow_label);
        assert_eq!(next.header().hop_limit, 62);
        let [arrived] = &rig.take("D")[..] else { panic!("it arrives") };
        // Functions have counted its time to live down.
        let behind = ethernet::HEADER_BYTES + ipv4::HEADER_BYTES;
        assert_eq!(arrived[behind..], frame[behind..]);
    }
}

#[test]
fn functions_of_one_node_that_follow_one_another_are_one_segment() {
    for (by, last) in BOTH.into_iter().zip([END_DT46, END_DX2]) {
        let (rig, sent) = first(by, &[&["v2"], &["v3"], &["v4"], &["v1"]]);
        let way: Vec<_> = Srv6View::parse(&sent).unwrap().routing().way().collect();
        assert_eq!(way, [sid(1, END, 0), sid(2, END, 2), sid(0, last, 3)]);
        drop(rig);
    }
}

#[test]
fn segments_of_others_stand_before_the_node_that_they_lead_to() {
    let others = ["fc00:0:99::e", "fc00:0:98::e", "fc00:0:97::e"].map(|text| text.parse().unwrap());
    for (by, last) in BOTH.into_iter().zip([END_DT46, END_DX2]) {
        let mut town = with_chain(by, &[&["v2"], &["v3"], &["v4"]]);
        let [one, two, three]: [Ipv6Addr; 3] = others;
        // Where a packet is on the node already, none leads there.
        town.chains[0].via = [(0, vec![one, two]), (1, vec![one]), (2, vec![three])].into();
        let mut rig = Rig::new(town);
        let frame = packet(&rig.town, CHAINED_PORT).frame();
        rig.send("S", &frame);
        let ways = rig.datagrams.iter().map(|sent| {
            let view = Srv6View::parse(&sent.bytes).unwrap();
            let way: Vec<_> = view.routing().way().collect();
            assert_eq!(view.header().destination, way[0]);
            way
        });
        let ways: Vec<_> = ways.collect();
        let first = vec![one, two, sid(1, END, 0), three, sid(2, last, 2)];
        assert_eq!(ways, [first, vec![three, sid(2, last, 2)]]);
        let [arrived] = &rig.take("D")[..] else { panic!("it arrives") };
        let behind = ethernet::HEADER_BYTES + ipv4::HEADER_BYTES;
        assert_eq!(arrived[behind..], frame[behind..]);
    }
}

#[test]
fn each_wire_packet_of_a_super_frame_says_its_own_length() {
    for by in [Encapsulation::Srv6, Encapsulation::Srv6Ethernet, Encapsulation::Srv6Csid] {
        let mut rig = Rig::new(with_chain(by, &[&["v2"]]));
        let spec = Spec { protocol: IpProtocol::TCP, ..packet_v6(&rig.town, CHAINED_PORT) };
        let (frame, offload) =
            crate::super_frames::super_frame(&Spec { payload: vec![7; 5_000], ..spec });
        rig.send_all("S", [(frame, offload)]);
        let sent = rig.datagrams.remove(0);
        let size = usize::from(sent.segment_bytes.expect("a row"));
        let rows: Vec<_> = sent.bytes.chunks(size).collect();
        assert!(rows.len() > 2);
        for row in rows {
            let (header, _) = Ipv6Header::parse(row).unwrap();
            assert_eq!(usize::from(header.payload_length), row.len() - ipv6::HEADER_BYTES);
        }
    }
}

/// A packet of the first host's ended at the second, which told it why: by this type, code and what stands behind.
#[track_caller]
fn assert_told(rig: &mut Rig, packet: &[u8], reason: DropReason, said: (u8, u8, u32)) {
    rig.assert_moved(&[
        ("host2 tunnels received", 1),
        (&format!("host2 tunnels dropped {reason}"), 1),
        ("host2 tunnels created segment_error", 1),
        ("host2 tunnels forwarded", 1),
        ("host2 tunnels transmitted", 1),
    ]);
    let [message] = &std::mem::take(&mut rig.datagrams)[..] else { panic!("one message") };
    let (header, payload) = Ipv6Header::parse(&message.bytes).unwrap();
    let [here, there] = [1, 0].map(|node| node_segments(node).address);
    assert_eq!((header.source, header.destination), (here, there));
    assert_eq!(header.next_header, IpProtocol::ICMPV6);
    let view = IcmpView::parse(payload).unwrap();
    assert!(view.is_v6_checksum_correct(here, there));
    let rest = u32::from_be_bytes(payload[4..8].try_into().unwrap());
    assert_eq!((view.v6_type().0, view.code(), rest), said);
    assert_eq!(view.body(), packet, "what it is about");
}

/// A flood of them makes no flood of messages, and whoever is no node of the domain hears nothing.
#[test]
fn what_is_told_of_packets_of_segments_is_bounded() {
    let (mut rig, mut sent) = first(Encapsulation::Srv6, &[&["v2"]]);
    ipv6::set_hop_limit(&mut sent, 1).unwrap();
    let stranger = "2001:db8:9::9".parse().unwrap();
    let kind = TunnelKind::Path(Encapsulation::Srv6);
    rig.send_datagram(1, kind, stranger, &sent);
    rig.assert_only_dropped("host2 tunnels", DropReason::UnknownTunnelSource);
    let packets = 3 * u64::from(SEGMENT_ERRORS_BURST);
    for _ in 0..packets {
        arrives(&mut rig, &sent);
    }
    let told = u64::from(SEGMENT_ERRORS_BURST);
    rig.assert_moved(&[
        ("host2 tunnels received", packets),
        ("host2 tunnels dropped ttl_expired", packets),
        ("host2 tunnels created segment_error", told),
        ("host2 tunnels forwarded", told),
        ("host2 tunnels transmitted", told),
    ]);
    assert_eq!(rig.datagrams.len() as u64, told);
    rig.check();
}

#[test]
fn what_no_segment_of_the_node_asks_for_is_refused_by_name() {
    let (mut rig, good) = first(Encapsulation::Srv6, &[&["v2"], &["v4"]]);
    let to = |address: Ipv6Addr| {
        let mut bytes = good.clone();
        ipv6::set_destination(&mut bytes, address).unwrap();
        bytes
    };
    let with = |at: usize, octet: u8| {
        let mut bytes = good.clone();
        bytes[at] = octet;
        bytes
    };
    let foreign = Locator::new([0x5f, 0, 0, 0, 0, 9]).unwrap();
    let own = node_segments(1).locator;
    let sid = |locator, function, path, hop| Sid { locator, function, path, hop }.address();
    let mut argument = sid(own, END, 100, 0).octets();
    argument[15] = 1;
    let routing = ipv6::HEADER_BYTES;
    let out_of_time = Some((3, 0, 0));
    let problem = |code, at: usize| Some((4, code, at as u32));
    let behind = Srv6View::parse(&good).unwrap().payload_offset();
    for (bytes, reason, told) in [
        (to(sid(foreign, END, 100, 0)), DropReason::ForeignSegment, None),
        (to(sid(own, 5, 100, 0)), DropReason::ForeignSegment, None),
        (to(argument.into()), DropReason::ForeignSegment, None),
        (to(sid(own, END, 101, 0)), DropReason::NoPath, None),
        (to(sid(own, END, 100, 7)), DropReason::IndexExhausted, None),
        (with(7, 1), DropReason::TtlExpired, out_of_time),
        (with(7, 0), DropReason::TtlExpired, out_of_time),
        // The next header of the routing header, its length, its type, and segments left.
        (with(routing, 17), DropReason::UnsupportedNextProtocol, problem(4, behind)),
        // Nobody answers what may be an error itself.
        (with(routing, 58), DropReason::UnsupportedNextProtocol, None),
        (with(routing, 41), DropReason::MalformedSrv6, None),
        (with(routing, 143), DropReason::NoPath, None),
        (with(routing + 1, 255), DropReason::MalformedSrv6, None),
        (with(routing + 2, 0), DropReason::MalformedSrv6, problem(0, routing + 2)),
        (with(routing + 3, 9), DropReason::MalformedSrv6, problem(0, routing + 3)),
        (with(routing + 4, 9), DropReason::MalformedSrv6, problem(0, routing + 3)),
        (good[..routing + 20].to_vec(), DropReason::MalformedSrv6, None),
        (good[..20].to_vec(), DropReason::MalformedSrv6, None),
    ] {
        arrives(&mut rig, &bytes);
        match told {
            None => rig.assert_only_dropped("host2 tunnels", reason),
            Some(told) => assert_told(&mut rig, &bytes, reason, told),
        }
        assert!(rig.take("v2.in").is_empty() && rig.datagrams.is_empty(), "{reason}");
    }
    arrives(&mut rig, &good);
    assert_eq!(rig.take("v2.in").len(), 1);
}

/// RFC 8754 section 5.1: from outside, nothing reaches a segment of the domain.
#[test]
fn what_a_port_sends_to_a_segment_of_the_domain_ends_there() {
    let (mut rig, good) = first(Encapsulation::Srv6, &[&["v2"], &["v4"]]);
    let routed = good[ipv6::HEADER_BYTES..].to_vec();
    let plain = packet_v6(&rig.town, CHAINED_PORT);
    let to = |destination: Ipv6Addr| Spec { destination: destination.into(), ..plain.clone() };
    for spec in [
        to(sid(1, END, 0)),
        to(sid(0, 77, 3)),
        // An address that says nothing, of a node that the path never meets, and a header of segments behind it.
        to(node_segments(2).locator.address()),
        Spec { protocol: IpProtocol(43), payload: routed, ..to(sid(2, END_DT46, 1)) },
    ] {
        // Twice: the second time its flow would be known.
        for _ in 0..2 {
            rig.send("S", &spec.frame());
            rig.assert_only_dropped("S", DropReason::SegmentFromPort);
        }
        assert!(rig.datagrams.is_empty());
    }
    // A function's own machine may no more.
    rig.send("v1.out", &to(sid(1, END, 0)).frame());
    rig.assert_moved(&[
        ("v1.out received", 1),
        ("v1.out created by function", 1),
        ("v1.out dropped segment_from_port", 1),
    ]);
    // One bit beside the last locator is anybody's.
    let mut beside = sid(2, END, 0).octets();
    beside[5] ^= 0x40;
    let unchained = packet_v6(&rig.town, PLAIN_PORT);
    let beside = Spec { destination: Ipv6Addr::from(beside).into(), ..unchained };
    rig.send("S", &beside.frame());
    assert_eq!(rig.take("D").len(), 1);
}

#[test]
fn a_header_that_came_off_before_the_last_segment_is_not_missed() {
    for by in BOTH {
        let (mut rig, mut sent) = first(by, &[&["v2"]]);
        let header = srv6::pop(&mut sent).unwrap();
        arrives(&mut rig, &sent[header..]);
        assert_eq!(rig.take("v2.in").len(), 1, "{by:?}");
    }
}

#[test]
fn what_a_link_pads_a_packet_with_goes_no_further() {
    let (mut rig, mut sent) = first(Encapsulation::Srv6, &[&["v2"]]);
    sent.extend([0xee; 9]);
    arrives(&mut rig, &sent);
    let [seen] = &rig.take("v2.in")[..] else { panic!("it arrives") };
    assert_eq!(seen.len(), packet(&rig.town, CHAINED_PORT).frame().len());
}

#[test]
fn a_packet_tells_of_congestion_on_its_way_if_it_can() {
    let (mut rig, sent) = first(Encapsulation::Srv6, &[&["v2"]]);
    let inner = Srv6View::parse(&sent).unwrap().payload_offset();
    for (own, told) in [(0, None), (1, Some(3)), (2, Some(3)), (3, Some(3))] {
        let mut bytes = sent.clone();
        ipv4::set_traffic_class(&mut bytes[inner..], own).unwrap();
        ipv6::set_traffic_class(&mut bytes, 3).unwrap();
        arrives(&mut rig, &bytes);
        match told {
            None => rig.assert_only_dropped("host2 tunnels", DropReason::CongestionUntold),
            Some(class) => {
                let [seen] = &rig.take("v2.in")[..] else { panic!("it arrives") };
                assert_eq!(seen[ethernet::HEADER_BYTES + 1], class);
                rig.moved();
            }
        }
    }
}

#[test]
fn frames_without_a_plain_packet_need_to_be_carried_whole() {
    // A priority alone, of no VLAN.
    let tagged = |rig: &Rig| {
        let frame = packet(&rig.town, CHAINED_PORT).frame();
        [&frame[..12], &[0x81, 0, 0x20, 0], &frame[12..]].concat()
    };
    let mut rig = Rig::new(with_chain(Encapsulation::Srv6, &[&["v2"]]));
    let frame = tagged(&rig);
    rig.send_all("S", [(frame, Offload::default())]);
    assert_ended(&mut rig, DropReason::NotPlainIp);
    let mut rig = Rig::new(with_chain(Encapsulation::Srv6Ethernet, &[&["v2"]]));
    let frame = tagged(&rig);
    rig.send_all("S", [(frame.clone(), Offload::default())]);
    let [seen] = &rig.take("v2.in")[..] else { panic!("it arrives") };
    assert_eq!(seen[12..], frame[12..]);
}

#[test]
fn a_frame_that_is_made_anew_is_from_the_proxy() {
    let (mut rig, sent) = first(Encapsulation::Srv6, &[&["v2"]]);
    arrives(&mut rig, &sent);
    let [seen] = &rig.take("v2.in")[..] else { panic!("it arrives") };
    let expected = EthernetHeader::untagged(rig.town.mac("v2.in"), PROXY_MAC, EtherType::IPV4);
    let mut header = [0; ethernet::HEADER_BYTES];
    expected.emit(&mut header).unwrap();
    assert_eq!(seen[..ethernet::HEADER_BYTES], header);
}

#[test]
fn a_node_without_a_place_sends_and_takes_no_packet_of_segments() {
    for unplaced in [0, 1] {
        let mut rig = Rig::new(with_chain(Encapsulation::Srv6, &[&["v2"]]));
        rig.town.unplaced.insert(unplaced);
        rig.apply();
        rig.moved();
        let frame = packet(&rig.town, CHAINED_PORT).frame();
        rig.send("S", &frame);
        assert_ended(&mut rig, DropReason::NoSegments);
    }
    let (mut rig, sent) = first(Encapsulation::Srv6, &[&["v2"]]);
    rig.town.unplaced.insert(1);
    rig.apply();
    rig.moved();
    arrives(&mut rig, &sent);
    rig.assert_only_dropped("host2 tunnels", DropReason::NoSegments);
    rig.town.unplaced.clear();
    rig.apply();
    rig.moved();
    arrives(&mut rig, &sent);
    assert_eq!(rig.take("v2.in").len(), 1);
}

/// Its header is the one that the slow path wrote for the first packet of its flow.
#[test]
fn all_plain_traffic_takes_the_fast_path_over_segments() {
    for by in BOTH {
        let mut rig = Rig::new(with_chain(by, &[&["v1"], &["v4"]]));
        let plain = [packet(&rig.town, CHAINED_PORT), packet_v6(&rig.town, CHAINED_PORT)];
        let tagged = plain.clone().map(|spec| Spec { vlan: Some(0), ..spec });
        let [mut frames, tagged] = [plain, tagged].map(|specs| specs.map(|spec| spec.frame()));
        ipv4::set_traffic_class(&mut frames[0][ethernet::HEADER_BYTES..], 0xba).unwrap();
        // A tag is none of a packet's, and goes along with a frame.
        let tagged = tagged.into_iter().filter(|_| by == Encapsulation::Srv6Ethernet);
        for frame in frames.into_iter().chain(tagged) {
            let passes = |rig: &mut Rig| {
                let before = rig.by_fast_path();
                rig.datagrams.clear();
                rig.send("S", &frame);
                let [seen] = &rig.take("D")[..] else { panic!("it arrives") };
                let sent: Vec<_> = rig.datagrams.iter().map(|one| one.bytes.clone()).collect();
                (seen.clone(), sent, rig.by_fast_path() - before)
            };
            let (seen, sent, _) = passes(&mut rig);
            assert_eq!(passes(&mut rig), (seen, sent, 4), "{by:?}");
        }
        rig.check();
    }
}

/// Each arrives as a plain one does, or ends as it would without a fast path.
#[test]
fn what_a_header_over_segments_brings_with_it_is_the_slow_paths() {
    type Spoil = fn(&mut Vec<u8>);
    let spoils: [(Spoil, bool); 5] = [
        (|_| {}, true),
        // Congestion, which what is inside could not tell.
        (|sent| ipv6::set_traffic_class(sent, 3).unwrap(), false),
        // Octets of a link.
        (|sent| sent.extend([0; 4]), false),
        (|sent| ipv6::set_hop_limit(sent, 1).unwrap(), false),
        // A record's flag without a record.
        (|sent| sent[ipv6::HEADER_BYTES + 5] |= 1, false),
    ];
    for by in BOTH {
        for (spoil, is_fast) in spoils {
            let (mut rig, mut sent) = first(by, &[&["v2"]]);
            spoil(&mut sent);
            let before = rig.by_fast_path();
            arrives(&mut rig, &sent);
            let by_fast_path = rig.by_fast_path() - before;
            assert_eq!(by_fast_path > 0, is_fast, "{by:?}");
            rig.check();
        }
    }
}

/// Where no path is behind it, a frame that is no plain packet ends by the same name as the first of its flow.
#[test]
fn a_tagged_frame_ends_on_the_fast_path_as_it_does_on_the_slow_one() {
    let mut rig = Rig::new(with_chain(Encapsulation::Srv6, &[&["v2"]]));
    let frame = Spec { vlan: Some(0), ..packet(&rig.town, CHAINED_PORT) }.frame();
    for _ in 0..2 {
        rig.moved();
        rig.send("S", &frame);
        assert_ended(&mut rig, DropReason::NotPlainIp);
    }
    rig.check();
}
