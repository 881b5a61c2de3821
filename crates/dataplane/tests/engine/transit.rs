//! Frames that links bring: they leave by the ports that they name, and the nodes between know nothing else.

use crate::frames::{labelled, numbered, source_routed, step};
use crate::rig::Rig;
use crate::scene::{CHAINED_PORT, PLAIN_PORT, packet, three_hosts, with_chain};
use crate::town::{Town, link_name};
use catena_dataplane::engine::Tables;
use catena_model::DropReason;
use catena_model::program::{ExitEntry, ExitPlace};
use catena_model::resource::Encapsulation;
use catena_model::topology::PortNumber;
use catena_wire::ethernet::EthernetHeader;
use catena_wire::scalar::{EtherType, MacAddr};
use catena_wire::source_route::classic::{ClassicHeader, Density};
use catena_wire::source_route::safe::SafeHeader;

/// Counter of `native`, and time to live of the first label of the others, behind a tag and without one.
const COUNTERS: [usize; 3] = [16, 21, 17];

/// Four switches in a row, 0:2 to 1:1, 1:2 to 2:1, 2:200 to 3:1, and at both ends a cable to where nobody is.
fn row() -> Town {
    let mut town = Town::new(4);
    let nowhere = 9;
    town.cables = vec![
        [(nowhere, 1), (0, 1)],
        [(0, 2), (1, 1)],
        [(1, 2), (2, 1)],
        [(2, 200), (3, 1)],
        [(3, 7), (nowhere, 2)],
    ];
    town
}

/// A frame of UDP that is on no source route.
fn plain() -> Vec<u8> {
    packet(&three_hosts(), PLAIN_PORT).frame()
}

/// One whose header names these ports.
fn native(way: &[u8], path: u32) -> Vec<u8> {
    source_routed(way, path, &plain())
}

fn safe(way: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; 22];
    frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    SafeHeader::new(way).unwrap().emit(&mut frame).unwrap();
    frame.extend(&plain()[14..]);
    frame
}

fn classic(way: &[u8]) -> Vec<u8> {
    let header = ClassicHeader::new(way, Density::Labels).unwrap();
    let mut frame = vec![0; header.len_bytes()];
    frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    header.emit(&mut frame).unwrap();
    frame.extend(&plain()[14..]);
    frame
}

const WAY: [u8; 4] = [2, 2, 200, 7];

fn every_profile() -> [Vec<u8>; 4] {
    [native(&WAY, 77), safe(&WAY), classic(&WAY), labelled(&WAY, 77, &plain())]
}

#[test]
fn a_frame_leaves_by_the_ports_that_it_names() {
    for engines in [1, 2] {
        let mut rig = Rig::of_engines(engines, row(), |_| {}, 512);
        rig.moved();
        for frame in every_profile() {
            rig.bring(0, 1, std::slice::from_ref(&frame));
            let (mut links, mut expected) = (Vec::new(), frame.clone());
            for (node, port) in (0..).zip(WAY) {
                let [came, left] = [1, port].map(|number| link_name(node, number));
                assert_eq!(step(&mut expected), Ok(port));
                assert_eq!(rig.take(&left), [expected.clone()], "{left}");
                links.extend([
                    came.clone() + " received",
                    came + " forwarded",
                    left + " transmitted",
                ]);
            }
            let moved: Vec<(&str, u64)> = links.iter().map(|name| (name.as_str(), 1)).collect();
            rig.assert_moved(&moved);
            // What is not the counter is as it was when it came, but for labels that came off.
            let mut came = frame;
            came.drain(14..14 + came.len() - expected.len());
            let differs = |at: &usize| came[*at] != expected[*at];
            let places: Vec<usize> = (0..came.len()).filter(differs).collect();
            assert!(places.len() == 1 && COUNTERS.contains(&places[0]), "{places:?}");
        }
    }
}

#[test]
fn a_frame_leaves_by_the_ports_that_its_number_leaves() {
    for engines in [1, 2] {
        let mut rig = Rig::of_engines(engines, row(), |_| {}, 512);
        rig.moved();
        let way = WAY.map(usize::from).into_iter().enumerate();
        let way: Vec<(usize, u8)> = way.map(|(node, port)| (node, port as u8)).collect();
        let mut expected = numbered(&way, 4, 77, &plain());
        rig.bring(0, 1, std::slice::from_ref(&expected));
        let mut links = Vec::new();
        for (node, port) in way {
            let [came, left] = [1, port].map(|number| link_name(node, number));
            expected[16] -= 1;
            assert_eq!(rig.take(&left), [expected.clone()], "{left}");
            let names = [came.clone() + " received", came + " forwarded", left + " transmitted"];
            links.extend(names);
        }
        let moved: Vec<(&str, u64)> = links.iter().map(|name| (name.as_str(), 1)).collect();
        rig.assert_moved(&moved);
    }
}

/// Takes all ports of the way.
fn advance_all(frame: &mut Vec<u8>) {
    for port in WAY {
        assert_eq!(step(frame), Ok(port));
    }
}

#[test]
fn rows_of_frames_keep_their_order_and_the_ends_their_sums() {
    let mut rig = Rig::new(row());
    rig.moved();
    let frames: Vec<Vec<u8>> = (0..300).map(|number| native(&WAY, number)).collect();
    rig.bring(0, 1, &frames);
    let mut left = frames;
    for frame in &mut left {
        advance_all(frame);
    }
    assert_eq!(rig.take(&link_name(3, 7)), left);
    let moved = rig.moved();
    assert_eq!(moved[&(link_name(2, 200) + " transmitted")], 300);
    assert_eq!(moved[&(link_name(3, 1) + " forwarded")], 300);
}

/// Frames that end at the first switch, and by which name.
fn refused() -> Vec<(Vec<u8>, DropReason)> {
    let with = |at: usize, octet: u8| {
        let mut frame = native(&WAY, 77);
        frame[at] = octet;
        frame
    };
    let ended = |mut frame: Vec<u8>| {
        advance_all(&mut frame);
        frame
    };
    let mut unended = classic(&WAY);
    // No label of the stack is the last, and it leads to the end of the frame.
    unended.truncate(22);
    unended[20] &= !1;
    let counted = |at: usize, octet: u8| {
        let mut frame = numbered(&[(0, 2)], 1, 77, &plain());
        frame[at] = octet;
        frame
    };
    let stack = |at: usize, octet: u8| {
        let mut frame = labelled(&WAY, 77, &plain());
        frame[at] = octet;
        frame
    };
    vec![
        (plain(), DropReason::NoSourceRoute),
        (vec![0; 11], DropReason::NoSourceRoute),
        (native(&[3, 2], 77), DropReason::UnknownExit),
        (native(&[0x11, 2], 77), DropReason::UnknownExit),
        (ended(native(&WAY, 77)), DropReason::RouteEnded),
        (ended(safe(&WAY)), DropReason::RouteEnded),
        (ended(classic(&WAY)), DropReason::RouteEnded),
        (ended(labelled(&WAY, 77, &plain())), DropReason::RouteEnded),
        (labelled(&[3, 2], 77, &plain()), DropReason::UnknownExit),
        // No port has this number, or what is left of another node's.
        (numbered(&[(0, 3)], 1, 77, &plain()), DropReason::UnknownExit),
        (numbered(&[(1, 2), (2, 1)], 2, 77, &plain()), DropReason::UnknownExit),
        (numbered(&[(0, 2)], 0, 77, &plain()), DropReason::TtlExpired),
        // Another version, a pass and a degree that are not this node's, flags, a length that lies.
        (counted(14, 0x20), DropReason::MalformedSourceRoute),
        (counted(14, 0x12), DropReason::MalformedSourceRoute),
        (counted(15, 8), DropReason::MalformedSourceRoute),
        (counted(17, 0x84), DropReason::MalformedSourceRoute),
        (counted(18, 1), DropReason::MalformedSourceRoute),
        (counted(18, 0), DropReason::MalformedSourceRoute),
        (counted(18, 255), DropReason::MalformedSourceRoute),
        (counted(14, 0x10)[..20].to_vec(), DropReason::MalformedSourceRoute),
        // Labels of another block, the last of them a port's, and a time to live that ends here.
        (stack(15, 0xe0), DropReason::MalformedSourceRoute),
        (stack(16, 0x21), DropReason::MalformedSourceRoute),
        (labelled(&WAY, 77, &plain())[..18].to_vec(), DropReason::MalformedSourceRoute),
        (stack(17, 1), DropReason::TtlExpired),
        (stack(17, 0), DropReason::TtlExpired),
        // An unknown version, a width that is none, a flag that nobody knows.
        (with(14, 0x28), DropReason::MalformedSourceRoute),
        (with(14, 0x15), DropReason::MalformedSourceRoute),
        (with(17, 0x84), DropReason::MalformedSourceRoute),
        // More ports to be taken than there are, and a way without ports.
        (with(16, 5), DropReason::MalformedSourceRoute),
        (with(15, 0), DropReason::MalformedSourceRoute),
        // A length that lies.
        (with(15, 255), DropReason::MalformedSourceRoute),
        (native(&WAY, 77)[..20].to_vec(), DropReason::MalformedSourceRoute),
        (unended, DropReason::MalformedSourceRoute),
    ]
}

#[test]
fn what_cannot_go_on_ends_under_its_name() {
    let mut rig = Rig::new(row());
    rig.moved();
    for (frame, reason) in refused() {
        rig.bring(0, 1, std::slice::from_ref(&frame));
        rig.assert_only_dropped(&link_name(0, 1), reason);
    }
}

#[test]
fn no_port_sends_what_links_bring() {
    let town = with_chain(Encapsulation::Nsh, &[&["v1"]]);
    let mut rig = Rig::new(Town { cables: vec![[(0, 2), (9, 1)]], ..town });
    rig.moved();
    let forged = |ether_type| {
        let mut frame = vec![0; 80];
        let header = EthernetHeader::untagged(MacAddr([2; 6]), MacAddr([4; 6]), ether_type);
        header.emit(&mut frame).unwrap();
        frame
    };
    let mut frames = every_profile().to_vec();
    // Tags that say a priority alone, of a customer and of a provider.
    for tags in [&[0x81, 0][..], &[0x88, 0xa8, 0, 0, 0x81, 0]] {
        let mut tagged = forged(EtherType::MPLS);
        tagged.splice(12..12, tags.iter().copied().chain([0, 0]));
        frames.push(tagged);
    }
    frames.extend([EtherType::SOURCE_ROUTE, EtherType::RESIDUE_ROUTE].map(forged));
    for port in ["S", "v1.out"] {
        for frame in &frames {
            rig.send(port, frame);
            rig.assert_only_dropped(port, DropReason::ForeignChainHeader);
        }
        assert!(rig.take(&link_name(0, 2)).is_empty());
    }
    // An address says nothing of that, whatever it looks like: profiles keep ports there.
    let mut spec = packet(&rig.town, CHAINED_PORT);
    spec.source_mac = MacAddr([0xfa, 0x16, 0x3e, 0, 0, 1]);
    rig.send("S", &spec.frame());
    assert!(rig.moved().contains_key("host1 path 100 entered"));
}

#[test]
fn links_come_and_go_and_chains_stay() {
    let town = with_chain(Encapsulation::Nsh, &[&["v1"]]);
    let mut rig = Rig::new(Town { cables: vec![[(0, 1), (9, 1)], [(0, 2), (9, 2)]], ..town });
    rig.moved();
    let frame = native(&[2], 77);
    rig.bring(0, 1, std::slice::from_ref(&frame));
    assert_eq!(rig.take(&link_name(0, 2)).len(), 1);
    let sums = rig.counters()[0].total();
    let (slot, gone) = (rig.link_slot(0, 1).unwrap(), rig.town.cables.pop().unwrap());
    rig.apply();
    assert_eq!((rig.link_slot(0, 1), rig.link_slot(0, 2)), (Some(slot), None));
    assert_eq!(rig.counters()[0].total(), sums);
    rig.moved();
    rig.bring(0, 1, std::slice::from_ref(&frame));
    rig.assert_only_dropped(&link_name(0, 1), DropReason::UnknownExit);
    rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
    assert!(rig.moved().contains_key("host1 path 100 entered"));
    rig.town.cables.push(gone);
    rig.apply();
    rig.moved();
    rig.bring(0, 1, std::slice::from_ref(&frame));
    assert_eq!(rig.take(&link_name(0, 2)).len(), 1);
}

#[test]
fn a_port_number_is_one_links_or_one_ports() {
    let mut program = row().program(1);
    let exit = |number, to| ExitEntry { number: PortNumber::new(number).unwrap(), to };
    let refusal = |program| Tables::compile(&program).map(drop).unwrap_err().to_string();
    program.exits.push(exit(9, ExitPlace::Link(link_name(1, 2))));
    assert_eq!(refusal(program.clone()), "link host2-2 is in the program twice");
    program.exits.pop();
    program.exits.push(exit(2, ExitPlace::Link("other".into())));
    assert_eq!(refusal(program.clone()), "port number 2 is in the program twice");
    program.exits.pop();
    let port = with_chain(Encapsulation::Nsh, &[&["v1"]]).port_named("S").id;
    program.exits.push(exit(3, ExitPlace::Port(port)));
    let words = format!("port number 3 leads to port {port}, which is not in the program");
    assert_eq!(refusal(program), words);
}
