//! The places on the way up to the engine: each port has its share, and the flood of one leaves room
//! for the others.

use crate::corners::{flow, in_namespace};
use crate::frames::{self, Dice};
use crate::needs_privilege;
use catena_fastpath::{
    Event, Hook, Kind, Operation, Port, Program, PuntedFrom, Settings, Sight, Tables, Transform,
    UNDERLAY_SHARES, Verdict,
};
use std::net::Ipv4Addr;

const LOOPBACK: u32 = 1;
const PLACES: u32 = 12;
const FLOOD: u32 = 100;

/// So many frames of new flows come in at the port with this number; how many go up?
fn flood(program: &Program, tables: &Tables, number: u16) -> u64 {
    tables.set_port(LOOPBACK, Port { number: number.into(), is_watched: 0, link: 0 }).unwrap();
    let before = tables.queues().of(number);
    let mut up = 0;
    for one in 0..FLOOD {
        let run = program.rehearse(Hook::Port, LOOPBACK, &flow(one), None, 1).unwrap();
        match run.verdict {
            Verdict::Punt(..) => up += 1,
            other => assert_eq!(other, Verdict::End),
        }
    }
    let after = tables.queues().of(number);
    let refused = u64::from(FLOOD) - up;
    assert_eq!(after.refused_packets - before.refused_packets, refused, "counted at its port");
    let bytes = refused * flow(1).len() as u64;
    assert_eq!(after.refused_bytes - before.refused_bytes, bytes);
    up
}

#[test]
fn a_port_has_as_many_frames_on_their_way_up_as_are_free_for_others() {
    needs_privilege!("a_port_has_as_many_frames_on_their_way_up_as_are_free_for_others");
    in_namespace(|program, tables| {
        let queues = tables.queues();
        assert_eq!(flood(program, tables, 1), u64::from(FLOOD), "no limit was told");
        queues.limit(PLACES);
        assert_eq!(flood(program, tables, 1), 6, "one alone has half");
        assert_eq!(flood(program, tables, 1), 0);
        assert_eq!(flood(program, tables, 2), 3, "there is room beside it");
        assert_eq!(flood(program, tables, 3), 2);
        // What comes is another's place, too.
        (0..6).for_each(|_| queues.serve(1));
        assert_eq!((flood(program, tables, 2), flood(program, tables, 3)), (2, 2));
        assert_eq!(flood(program, tables, 1), 2);
        queues.weigh(4, 8);
        assert_eq!(flood(program, tables, 4), 1, "no weight makes more places than there are");
        // What was lost on its way takes no place for ever.
        for number in [0, 1, 2, 3, 4] {
            queues.settle(number, u64::MAX);
        }
        assert_eq!(flood(program, tables, 2), 6);
        // More than were sent never come back.
        (0..50).for_each(|_| queues.serve(2));
        assert_eq!(flood(program, tables, 2), 6);
        queues.limit(PLACES);
        assert_eq!(flood(program, tables, 4), 11, "eight times as many as are left");
        queues.limit(0);
        assert_eq!(flood(program, tables, 2), u64::from(FLOOD));
    });
}

#[test]
fn a_node_that_floods_by_its_tunnels_leaves_places_for_those_of_others() {
    needs_privilege!("a_node_that_floods_by_its_tunnels_leaves_places_for_those_of_others");
    in_namespace(|program, tables| {
        let underlay_address = u32::from_ne_bytes(frames::OWN.octets());
        tables.set_settings(Settings { underlay_address, ..tables.settings() });
        tables.queues().limit(PLACES);
        let flood = |last: u8, is_node: bool| {
            let mut source = frames::OTHER.octets();
            source[3] = last;
            let node = Ipv4Addr::from(source).into();
            if is_node {
                tables.add_source(node, last.into()).unwrap();
            }
            let frame = |one| {
                let mut frame = frames::in_tunnel(frames::Way::Nsh, &mut Dice(1), &flow(one));
                frame[26..30].copy_from_slice(&source);
                frame
            };
            let run = |one| program.rehearse(Hook::Underlay, LOOPBACK, &frame(one), None, 1);
            let is_up = |one: &u32| matches!(run(*one).unwrap().verdict, Verdict::Punt(..));
            let from = if is_node { PuntedFrom::node(node) } else { PuntedFrom::STRANGERS };
            let before = tables.queues().of(from.number()).refused_packets;
            let up = (0..FLOOD).filter(is_up).count() as u32;
            let refused = tables.queues().of(from.number()).refused_packets - before;
            assert_eq!(refused, u64::from(FLOOD - up));
            up
        };
        // Whoever is no node has one share, whatever sources he makes up.
        assert_eq!((flood(77, false), flood(78, false), flood(79, false)), (6, 0, 0));
        assert_eq!((flood(7, true), flood(8, true)), (3, 2));
        let alike = 7 + UNDERLAY_SHARES as u8;
        assert_eq!(flood(alike, true), 0, "with the same last bits, the same share");
        assert_eq!(flood(10, true), 1);
    });
}

#[test]
fn what_has_no_place_is_not_waited_for_and_a_flow_of_the_kernels_needs_none() {
    needs_privilege!("what_has_no_place_is_not_waited_for_and_a_flow_of_the_kernels_needs_none");
    in_namespace(|program, tables| {
        let frame = flow(1);
        let run = || program.rehearse(Hook::Port, LOOPBACK, &frame, None, 1).unwrap().verdict;
        tables.set_port(LOOPBACK, Port { number: 1, is_watched: 0, link: 0 }).unwrap();
        let list = Transform::default().then(Operation::transmit(LOOPBACK)).unwrap();
        let key = Sight::at_port(1, &frame, None).unwrap().key;
        tables.queues().limit(PLACES);
        tables.install(&key, &list, Some(1)).unwrap();
        let ups = (0..FLOOD).filter(|_| matches!(run(), Verdict::Punt(..))).count() as u64;
        assert_eq!((ups, tables.gate(1).unwrap().count()), (6, 6));
        assert_eq!(tables.events(Event::Waiting), 6);
        assert!(tables.gate(1).unwrap().open_after(6));
        (0..FLOOD).for_each(|_| assert_eq!(run(), Verdict::Leave(Kind::Transmit, LOOPBACK)));
    });
}
