//! Frames in a guise in which receivers see what rules do not: more VLAN tags than are read, a packet to
//! one station in a frame to all, a link-local source. None passes the functions of a chain by.

use crate::frames::Spec;
use crate::rig::{Behaviour, Rig};
use crate::scene::{CHAINED_PORT, PLAIN_PORT, packet, packet_v6, with_chain};
use catena_model::DropReason;
use catena_model::resource::Encapsulation;
use catena_wire::scalar::MacAddr;

const GROUPS: [MacAddr; 3] =
    [MacAddr::BROADCAST, MacAddr([1, 0, 0x5e, 1, 2, 3]), MacAddr([0x33, 0x33, 0, 0, 0, 1])];

/// A chain over v1 and v4, whose rules take UDP and TCP to one port; v1's machine has a port more.
fn rig() -> Rig {
    let mut town = with_chain(Encapsulation::Nsh, &[&["v1"], &["v4"]]);
    town.endpoint("v1.other", 0, 0, &["10.0.0.77"]);
    let own = ["10.0.0.77", "10.1.0.1"].map(|address| address.parse().unwrap());
    let other = town.ports.iter_mut().find(|port| port.name == "v1.other").unwrap();
    other.own_sources = Some(own.to_vec());
    Rig::new(town)
}

/// The frame behind so many priority tags, which receivers take off (IEEE 802.1Q section 9.6).
fn tagged(frame: &[u8], tag_type: u16, count: usize) -> Vec<u8> {
    let [high, low] = tag_type.to_be_bytes();
    [&frame[..12], &[high, low, 0, 0].repeat(count), &frame[12..]].concat()
}

fn chained(rig: &Rig) -> [Spec; 2] {
    [packet(&rig.town, CHAINED_PORT), packet_v6(&rig.town, CHAINED_PORT)]
}

#[test]
fn more_tags_than_are_read_hide_nothing() {
    let mut rig = rig();
    for (spec, tag_type) in
        chained(&rig).into_iter().flat_map(|spec| [0x8100, 0x88a8].map(|tag| (spec.clone(), tag)))
    {
        let frame = spec.frame();
        for count in [3, 4, 12] {
            for port in ["S", "v1.other", "v1.out"] {
                rig.moved();
                rig.send(port, &tagged(&frame, tag_type, count));
                let moved = rig.moved();
                let dropped = format!("{port} dropped vlan_not_in_network");
                assert_eq!(moved.get(&dropped), Some(&1), "{moved:?}");
                assert_eq!(rig.take("D").len() + rig.take("v4.in").len(), 0, "{port}: {count}");
            }
        }
        for count in [1, 2] {
            rig.send("S", &tagged(&frame, tag_type, count));
            assert_eq!(
                rig.take("v1.in").len(),
                1,
                "{count} tags are read, and rules see the packet"
            );
            assert_eq!(rig.take("v4.in").len(), 1);
            assert_eq!(rig.take("D").len(), 1);
        }
    }
}

#[test]
fn a_packet_to_one_station_in_a_frame_to_all_passes_no_function() {
    let mut rig = rig();
    for (spec, mac) in
        chained(&rig).into_iter().flat_map(|spec| GROUPS.map(|mac| (spec.clone(), mac)))
    {
        let frame = Spec { destination_mac: mac, ..spec }.frame();
        for (port, reason) in [
            ("S", DropReason::UnicastInGroupFrame),
            ("v1.other", DropReason::UndeclaredPort),
            ("v1.out", DropReason::UnknownReturn),
        ] {
            rig.moved();
            rig.send(port, &frame);
            rig.assert_only_dropped(port, reason);
        }
    }
    // What no rule could want goes where it went before; and so does a broadcast of the network.
    for (destination, port) in [("10.0.0.2", PLAIN_PORT), ("10.0.0.255", CHAINED_PORT)] {
        let destination = destination.parse().unwrap();
        let spec = packet(&rig.town, port);
        let frame = Spec { destination, destination_mac: MacAddr::BROADCAST, ..spec }.frame();
        rig.send("S", &frame);
        assert_eq!(rig.take("D"), [frame]);
    }
}

#[test]
fn what_a_function_makes_of_its_packets_in_frames_to_all_is_not_its_own() {
    let mut rig = rig();
    rig.behaviours.insert("v1".into(), Behaviour::Swallow);
    rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
    let mut frame = rig.take("v1.in").remove(0);
    frame[..6].copy_from_slice(&MacAddr::BROADCAST.0);
    frame[6..12].copy_from_slice(&rig.town.mac("v1.out").0);
    rig.send("v1.out", &frame);
    assert_eq!(rig.take("v4.in").len(), 1, "it is known by its flow, whomever the frame is for");
    assert_eq!(rig.take("D").len(), 1);
}

#[test]
fn a_link_local_source_keeps_no_packet_from_rules() {
    let mut rig = rig();
    let [v4, v6] = chained(&rig);
    for spec in [
        Spec { source: "169.254.7.7".parse().unwrap(), ..v4.clone() },
        Spec { source: "fe80::7".parse().unwrap(), ..v6.clone() },
    ] {
        rig.send("S", &spec.frame());
        assert_eq!((rig.take("v1.in").len(), rig.take("v4.in").len()), (1, 1));
        assert_eq!(rig.take("D").len(), 1);
    }
    for spec in [
        Spec { destination: "169.254.7.7".parse().unwrap(), ..v4 },
        Spec { destination: "fe80::7".parse().unwrap(), ..v6 },
    ] {
        rig.send("S", &spec.frame());
        assert_eq!(rig.take("v1.in").len(), 0, "what is for the link stays there");
        assert_eq!(rig.take("D").len(), 1);
    }
}
