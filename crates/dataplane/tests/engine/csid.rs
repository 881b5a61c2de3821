//! Segments of IPv6 whose nodes 16 bits name (NEXT-CSID, RFC 9800): what stands in front of packets, that a path is
//! read from the last identifier alone, and what is refused by name.

use crate::frames::Spec;
use crate::rig::Rig;
use crate::scene::{
    CHAINED_PORT, INTERNAL, PLAIN_PORT, packet, packet_v6, rules, three_hosts, with_chain,
};
use crate::srv6::{arrives, first};
use crate::town::node_segments;
use catena_dataplane::engine::TunnelKind;
use catena_model::DropReason;
use catena_model::program::Balance;
use catena_model::resource::{Encapsulation, FlowField};
use catena_wire::ethernet;
use catena_wire::ipv4;
use catena_wire::ipv6::{self, Ipv6Header};
use catena_wire::scalar::IpProtocol;
use catena_wire::srv6::{self, CSIDS_MAX, Sid, Srv6View};
use std::net::Ipv6Addr;

const BY: Encapsulation = Encapsulation::Srv6Csid;
/// End and End.DT46 with NEXT-CSID, as they are registered with IANA.
const END: u16 = 43;
const END_DT46: u16 = 64;
/// Where in a packet the last identifier of a routing header stands.
const LAST: usize = ipv6::HEADER_BYTES + 8;

fn sid(node: usize, function: u16, hop: u16) -> Ipv6Addr {
    Sid { locator: node_segments(node).locator, function, path: 100, hop }.address()
}

/// The address that visits these nodes, written by hand.
fn container(nodes: &[usize]) -> Ipv6Addr {
    let mut octets = [0; 16];
    octets[0] = 0x5f;
    for (place, node) in octets[4..].chunks_mut(2).zip(nodes) {
        place[1] = u8::try_from(node + 1).unwrap();
    }
    octets.into()
}

/// The destination of a packet, and the segments of its routing header, the last one first.
fn segments(packet: &[u8]) -> (Ipv6Addr, Vec<Ipv6Addr>) {
    let destination = Ipv6Header::parse(packet).unwrap().0.destination;
    let Ok(view) = Srv6View::parse(packet) else { return (destination, Vec::new()) };
    assert_eq!(usize::from(view.routing().segments_left()), view.routing().way().len());
    (destination, view.routing().way().rev().collect())
}

#[test]
fn sixteen_bits_name_each_node_but_the_last_one() {
    let mut rig = Rig::new(with_chain(BY, &[&["v2"], &["v4"], &["v1"]]));
    let mut frame = packet(&rig.town, CHAINED_PORT).frame();
    ipv4::set_traffic_class(&mut frame[ethernet::HEADER_BYTES..], 0xb9).unwrap();
    rig.send("S", &frame);
    // Behind the path, its network's own tunnel.
    assert_eq!(rig.datagrams.pop().map(|sent| sent.kind), Some(TunnelKind::Vxlan));
    let sent: Vec<_> = rig.datagrams.iter().map(|sent| segments(&sent.bytes)).collect();
    assert_eq!(
        sent,
        [
            (container(&[1, 2]), vec![sid(0, END_DT46, 0)]),
            (container(&[2]), vec![sid(0, END_DT46, 1)]),
            // Nothing is left to be said in a routing header.
            (sid(0, END_DT46, 2), vec![]),
        ]
    );
    for (number, sent) in (0..).zip(&rig.datagrams) {
        let (header, payload) = Ipv6Header::parse(&sent.bytes).unwrap();
        assert_eq!(header.source, node_segments(number).address);
        assert_eq!((header.traffic_class, usize::from(header.hop_limit)), (0xb9, 63 - number));
        assert_eq!(usize::from(header.payload_length), payload.len());
        assert_eq!(srv6::carried_protocol(&sent.bytes), Some(IpProtocol::IPV4));
        assert!(payload.ends_with(&frame[frame.len() - 20..]));
    }
    let [arrived] = &rig.take("D")[..] else { panic!("it arrives") };
    let behind = ethernet::HEADER_BYTES + ipv4::HEADER_BYTES;
    assert_eq!(arrived[behind..], frame[behind..]);
    rig.check();
}

#[test]
fn identifiers_for_which_one_address_has_no_room_go_on_in_the_next() {
    let mut town = three_hosts();
    let names = ["w0", "w1", "w2", "w3", "w4", "w5", "w6"];
    for (number, name) in names.into_iter().enumerate() {
        town.function(name, 2 - number % 2, (INTERNAL, INTERNAL));
    }
    let hops = [["v2"]].into_iter().chain(names.map(|name| [name]));
    let hops: Vec<[&str; 1]> = hops.collect();
    let hops: Vec<&[&str]> = hops.iter().map(|hop| &hop[..]).collect();
    town.chain("c", BY, &hops, &rules(CHAINED_PORT));
    let mut rig = Rig::new(town);
    let frame = packet(&rig.town, CHAINED_PORT).frame();
    rig.send("S", &frame);
    assert_eq!((CSIDS_MAX, rig.datagrams.len()), (6, 8));
    let last = |hop| sid(2, END_DT46, hop);
    let (one, two) = (container(&[1, 2, 1, 2, 1, 2]), container(&[1]));
    assert_eq!(segments(&rig.datagrams[0].bytes), (one, vec![last(0), two]));
    // The next one has room for what is left.
    let rest = container(&[2, 1, 2, 1, 2, 1]);
    assert_eq!(segments(&rig.datagrams[1].bytes), (rest, vec![last(1)]));
    assert_eq!(rig.take("D").len(), 1, "it arrives");
    rig.check();
}

/// A path that goes on where its header ends is one whose last identifier leads on.
#[test]
fn a_header_that_ends_before_its_path_says_so() {
    let mut town = with_chain(BY, &[&["v2"], &["v4", "v1"]]);
    town.chains[0].balance = Balance::Fields(vec![FlowField::IpDst]);
    let mut rig = Rig::new(town);
    let frame = packet(&rig.town, CHAINED_PORT).frame();
    rig.send("S", &frame);
    assert_eq!(segments(&rig.datagrams[0].bytes), (sid(1, END, 0), vec![]));
    assert_eq!(rig.take("D").len(), 1, "it arrives");
    rig.check();
}

/// What the active identifier would say by itself, were it one of another encapsulation, is not asked.
#[test]
fn the_path_is_read_from_the_last_identifier_alone() {
    let mut town = with_chain(BY, &[&["v2"], &["v4"]]);
    town.chain("whole", Encapsulation::Srv6, &[&["v3"], &["v1"]], &rules(PLAIN_PORT));
    let mut rig = Rig::new(town);
    let frame = packet(&rig.town, CHAINED_PORT).frame();
    rig.send("S", &frame);
    let mut sent = rig.datagrams.remove(0).bytes;
    rig.seen.clear();
    // As an identifier of the other path: its first function, on this node, too.
    let whole = Sid { locator: node_segments(1).locator, function: 1, path: 101, hop: 0 };
    ipv6::set_destination(&mut sent, whole.address()).unwrap();
    arrives(&mut rig, &sent);
    assert_eq!((rig.take("v2.in").len(), rig.take("v3.in").len()), (1, 0));
    rig.check();
}

#[test]
fn what_no_identifier_of_the_node_asks_for_is_refused_by_name() {
    type Spoil = fn(&mut [u8]);
    let spoils: [(Spoil, DropReason); 6] = [
        // No segment is left, and the active one is not the last.
        (|sent| sent[ipv6::HEADER_BYTES + 3] = 0, DropReason::ForeignSegment),
        // For another node.
        (|sent| sent[24 + 5] = 9, DropReason::ForeignSegment),
        // The last one is of a path that is not, or of one whose nodes have names in full.
        (|sent| sent[LAST + 11] = 99, DropReason::NoPath),
        (|sent| sent[LAST + 7] = 20, DropReason::ForeignSegment),
        // Behind the end of its path.
        (|sent| sent[LAST + 13] = 9, DropReason::IndexExhausted),
        (|sent| sent[LAST + 15] = 1, DropReason::ForeignSegment),
    ];
    for (number, (spoil, reason)) in spoils.into_iter().enumerate() {
        let (mut rig, mut sent) = first(BY, &[&["v2"], &["v4"]]);
        spoil(&mut sent);
        arrives(&mut rig, &sent);
        rig.assert_only_dropped("host2 tunnels", reason);
        assert!(rig.seen.is_empty(), "{number}");
    }
}

#[test]
fn nodes_in_two_blocks_or_without_an_identifier_are_led_to_by_no_header() {
    for octets in [[0x5f, 0, 0, 1, 0, 2], [0x5f, 0, 0, 0, 0, 0]] {
        let town = with_chain(BY, &[&["v2"], &["v4"], &["v1"]]);
        let mut rig = Rig::new(town);
        let mut program = rig.town.program(0);
        let entry = program.locators.iter_mut().find(|entry| entry.node.as_str() == "host2");
        entry.unwrap().place.locator = srv6::Locator::new(octets).unwrap();
        rig.apply_program(0, &program);
        let frame = packet(&rig.town, CHAINED_PORT).frame();
        rig.moved();
        rig.send("S", &frame);
        let moved = rig.moved();
        assert_eq!(moved.get("S dropped segments_unfit"), Some(&1), "{moved:?}");
        assert!(rig.datagrams.is_empty());
    }
}

#[test]
fn all_plain_traffic_takes_the_fast_path_over_compressed_identifiers() {
    let mut rig = Rig::new(with_chain(BY, &[&["v1"], &["v2"], &["v4"]]));
    let specs: [Spec; 2] = [packet(&rig.town, CHAINED_PORT), packet_v6(&rig.town, CHAINED_PORT)];
    for spec in specs {
        let frame = spec.frame();
        let passes = |rig: &mut Rig| {
            let before = rig.by_fast_path();
            rig.datagrams.clear();
            rig.send("S", &frame);
            let [seen] = &rig.take("D")[..] else { panic!("it arrives") };
            let sent: Vec<_> = rig.datagrams.iter().map(|one| one.bytes.clone()).collect();
            (seen.clone(), sent, rig.by_fast_path() - before)
        };
        let (seen, sent, _) = passes(&mut rig);
        assert_eq!(passes(&mut rig), (seen, sent, 6));
    }
    rig.check();
}
