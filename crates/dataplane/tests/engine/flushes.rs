//! Ways that turn under traffic: what is to leave by the new one waits until nothing is on the former one any more, so
//! that flows keep their order; what cannot wait goes in order, and is counted.

use crate::edges::{SWITCH, star, star_of};
use crate::frames::Spec;
use crate::rig::{Behaviour, Rig};
use crate::scene::{CHAINED_PORT, CUSTOMER, packet};
use crate::setups::{arrived, numbered};
use crate::town::{Town, link_name};
use catena_io::Offload;
use catena_model::discovery::DiscoveryKey;
use catena_model::limits::{WAY_FLUSH_MS, WAY_FLUSH_PACKETS_MAX};
use catena_model::resource::Encapsulation;
use catena_model::topology::PortNumber;
use std::collections::BTreeMap;

const MS_NS: u64 = 1_000_000;
const PROFILES: [Encapsulation; 6] = [
    Encapsulation::SourceRouteNative,
    Encapsulation::SourceRouteSafe9,
    Encapsulation::SourceRouteClassic80,
    Encapsulation::SourceRouteSrMpls,
    Encapsulation::SourceRoutePolka,
    Encapsulation::SourceRouteNativeTagged,
];

/// A host with two cables more, all as good as the one that its way to the second host leads by.
fn three_cables(mut town: Town) -> Town {
    town.cables.extend([[(0, 8), (SWITCH, 9)], [(0, 9), (SWITCH, 10)]]);
    town
}

/// The way from the first host to the second leads by this link from now on.
fn turn(rig: &mut Rig, link: u8) {
    rig.town.ways.insert((0, 1), vec![link, 2]);
    rig.town.number += 1;
    rig.apply();
}

fn send(rig: &mut Rig, numbers: std::ops::Range<u8>) {
    for number in numbers {
        rig.send("S", &numbered(rig, 7, number));
    }
}

/// Frames that left the first host by a link.
fn left(rig: &mut Rig, link: u8) -> usize {
    rig.take(&link_name(0, link)).len()
}

fn unflushed(rig: &Rig) -> u64 {
    let nodes = rig.counters();
    nodes.iter().flat_map(|node| &node.link_lives).map(|life| life.unflushed).sum()
}

#[track_caller]
fn assert_none_dropped(rig: &mut Rig) {
    let moved = rig.moved();
    assert!(!moved.keys().any(|name| name.contains("dropped")), "{moved:?}");
}

#[test]
fn what_leaves_by_a_shorter_new_way_arrives_behind_what_is_still_on_the_former() {
    for by in PROFILES {
        let mut rig = Rig::new(three_cables(star_of(by, &[&["v2"]])));
        rig.town.slow.insert((0, 7), 1);
        send(&mut rig, 0..3);
        turn(&mut rig, 8);
        send(&mut rig, 3..6);
        assert_eq!((left(&mut rig, 8), rig.counters()[0].total().held), (0, 3), "{}", by.name());
        rig.sleep(1);
        assert_eq!(arrived(&mut rig), [0, 1, 2], "what was on its way");
        send(&mut rig, 6..7);
        // One that comes when the time is over, before anybody has looked.
        let last = numbered(&rig, 7, 7);
        rig.queue("S", &last, Offload::default());
        rig.now_ns += (WAY_FLUSH_MS - 1) * MS_NS;
        rig.run();
        assert_eq!(arrived(&mut rig), [3, 4, 5, 6, 7], "{}", by.name());
        assert_eq!((left(&mut rig, 7), left(&mut rig, 8), unflushed(&rig)), (3, 5, 0));
        assert_none_dropped(&mut rig);
    }
}

#[test]
fn an_idle_engine_asks_to_be_woken_for_what_waits_and_flushes_nothing_that_it_has_not_sent() {
    let mut rig = Rig::new(three_cables(star(&[&["v2"]])));
    send(&mut rig, 0..1);
    turn(&mut rig, 8);
    let wakes = |rig: &Rig| rig.nodes[0].engines[0].next_release_ns(rig.now_ns);
    if rig.nodes[0].engines.len() == 1 {
        assert_eq!(wakes(&rig), None, "nothing waits");
        let until_ns = rig.now_ns + WAY_FLUSH_MS * MS_NS;
        send(&mut rig, 1..3);
        assert_eq!(wakes(&rig), Some(until_ns));
    }
    rig.sleep(WAY_FLUSH_MS);
    assert_eq!((arrived(&mut rig).len(), wakes(&rig)), (3, None));
    // It has sent nothing for a long time, and nobody has told it of that.
    rig.now_ns += 1_000 * MS_NS;
    turn(&mut rig, 9);
    send(&mut rig, 3..4);
    assert_eq!((left(&mut rig, 9), arrived(&mut rig)), (1, vec![3]));
}

#[test]
fn whoever_has_no_room_to_wait_goes_at_once_in_order_and_counted_and_others_go_on_waiting() {
    for buffers in [2_048, 96] {
        let mut town = three_cables(star(&[&["v2"]]));
        town.endpoint("H", 0, CUSTOMER, &["10.0.0.3"]);
        let mut rig = Rig::with(town, |_| {}, buffers);
        rig.moved();
        turn(&mut rig, 8);
        let of = packet(&rig.town, CHAINED_PORT);
        let (source, source_mac) = ("10.0.0.3".parse().unwrap(), rig.town.mac("H"));
        rig.send("H", &Spec { source, source_mac, payload: vec![200; 20], ..of }.frame());
        let mut sent = 0;
        while unflushed(&rig) == 0 {
            assert!(sent <= WAY_FLUSH_PACKETS_MAX, "nobody holds more");
            assert_eq!(rig.take("D").len(), 0, "before there is no room");
            rig.send("S", &numbered(&rig, 7, sent as u8));
            sent += 1;
        }
        let in_order = |from: usize, to: usize| (from..to).map(|n| n as u8).collect::<Vec<_>>();
        assert_eq!(arrived(&mut rig), in_order(0, sent), "all of his, and nobody else's");
        assert_eq!(unflushed(&rig), sent as u64);
        assert!(sent > if buffers > 1_000 { 400 } else { 16 }, "{sent}");
        for number in sent..sent + 10 {
            rig.send("S", &numbered(&rig, 7, number as u8));
        }
        assert_eq!(arrived(&mut rig), in_order(sent, sent + 10), "he waits no more");
        assert_eq!((unflushed(&rig), rig.counters()[0].total().held), (sent as u64 + 10, 1));
        // Another turn, and there is room again.
        turn(&mut rig, 9);
        rig.send("S", &numbered(&rig, 7, 1));
        assert_eq!((rig.take("D").len(), rig.counters()[0].total().held), (0, 2));
        rig.sleep(WAY_FLUSH_MS);
        let mut last = arrived(&mut rig);
        last.sort_unstable();
        assert_eq!((last, left(&mut rig, 9)), (vec![1, 200], 2));
        assert_eq!(unflushed(&rig), sent as u64 + 10);
        assert_none_dropped(&mut rig);
    }
}

#[test]
fn nobody_waits_for_a_way_whose_cable_is_dead_here() {
    let port = |number| PortNumber::new(number).unwrap();
    let mut town = three_cables(star(&[&["v2"]]));
    let mut rig = Rig::new(town.clone());
    send(&mut rig, 0..1);
    rig.nodes[0].links.set_dark(&[port(7)]);
    turn(&mut rig, 8);
    send(&mut rig, 1..3);
    assert_eq!((left(&mut rig, 8), unflushed(&rig)), (2, 0), "nothing is plugged in");
    // The link is not this node's any more.
    rig.sleep(WAY_FLUSH_MS);
    rig.town.cables.retain(|cable| cable[0] != (0, 8));
    turn(&mut rig, 9);
    send(&mut rig, 3..4);
    assert_eq!((left(&mut rig, 9), arrived(&mut rig)), (1, vec![0, 1, 2, 3]));
    // Its other end is silent.
    town.discovery_key = Some(DiscoveryKey::new(*b"sixteen octets!!"));
    let mut rig = Rig::new(town);
    rig.pass(200);
    rig.town.cut = [(0, 7), (SWITCH, 1)].into();
    rig.pass(400);
    rig.seen.clear();
    turn(&mut rig, 8);
    send(&mut rig, 0..2);
    assert_eq!(arrived(&mut rig), [0, 1]);
    assert_eq!(rig.counters()[0].total().held, 0);
}

#[test]
fn a_way_that_turns_again_meanwhile_delays_nobody_longer() {
    let mut rig = Rig::new(three_cables(star(&[&["v2"]])));
    for (last, taken) in [(9, [1, 0, 3]), (7, [4, 0, 0])] {
        rig.town.slow.insert((0, 7), 1);
        turn(&mut rig, 7);
        rig.pass(10);
        send(&mut rig, 0..1);
        turn(&mut rig, 8);
        send(&mut rig, 1..3);
        rig.sleep(1);
        turn(&mut rig, last);
        send(&mut rig, 3..4);
        assert_eq!(arrived(&mut rig), [0]);
        rig.town.slow.clear();
        rig.sleep(WAY_FLUSH_MS - 1);
        assert_eq!(arrived(&mut rig), [1, 2, 3]);
        assert_eq!([7, 8, 9].map(|link| left(&mut rig, link)), taken);
    }
    assert_none_dropped(&mut rig);
}

#[test]
fn what_waits_goes_by_what_its_node_knows_then_or_ends_by_the_name_of_what_has_gone() {
    for (gone, expected) in [
        ("nothing", None),
        ("port", None),
        ("way", Some("S dropped no_route")),
        ("chain", Some("S dropped path_removed")),
    ] {
        let mut rig = Rig::new(three_cables(star(&[&["v2"]])));
        send(&mut rig, 0..1);
        turn(&mut rig, 8);
        send(&mut rig, 1..4);
        rig.moved();
        match gone {
            "nothing" => {
                let other = crate::scene::rules(6_000);
                rig.town.chain("other", Encapsulation::Nsh, &[&["v3"]], &other);
            }
            "port" => drop(rig.town.absent.insert("S".into())),
            "way" => drop(rig.town.ways.remove(&(0, 1))),
            _ => rig.town.chains.clear(),
        }
        rig.town.number += 1;
        rig.apply();
        assert_eq!(rig.counters()[0].total().held, 3, "{gone}");
        rig.sleep(WAY_FLUSH_MS);
        assert_eq!(rig.counters()[0].total().held, 0, "{gone}");
        let moved = rig.moved();
        match expected {
            None => assert_eq!((arrived(&mut rig), left(&mut rig, 8)), (vec![0, 1, 2, 3], 3)),
            Some(name) => assert_eq!(moved.get(name), Some(&3), "{moved:?}"),
        }
    }
}

#[test]
fn flows_of_several_workers_keep_their_order_each() {
    let mut rig = Rig::of_engines(3, three_cables(star(&[&["v2"]])), |_| {}, 1_024);
    rig.town.slow.insert((0, 7), 1);
    let round = |rig: &mut Rig, number| {
        for port in 0..30 {
            rig.send("S", &numbered(rig, 100 + port, number));
        }
    };
    round(&mut rig, 0);
    turn(&mut rig, 8);
    round(&mut rig, 1);
    rig.sleep(1);
    round(&mut rig, 2);
    rig.sleep(1);
    round(&mut rig, 3);
    let mut last: BTreeMap<[u8; 2], u8> = BTreeMap::new();
    let frames = rig.take("D");
    assert_eq!(frames.len(), 120);
    for frame in frames {
        let (port, number) = ([frame[34], frame[35]], *frame.last().unwrap());
        let before = last.insert(port, number);
        assert_eq!(before.map_or(0, |before| before + 1), number, "in order");
    }
    assert_none_dropped(&mut rig);
}

#[test]
fn the_node_of_a_function_flushes_its_own_way_whoever_wrote_the_header() {
    for by in PROFILES {
        let mut rig = Rig::new(star_of(by, &[&["v2"], &["v4"]]));
        rig.town.cables.push([(1, 8), (SWITCH, 9)]);
        rig.town.slow.insert((1, 7), 1);
        rig.apply();
        send(&mut rig, 0..3);
        rig.town.ways.insert((1, 2), vec![8, 3]);
        rig.town.number += 1;
        rig.apply();
        send(&mut rig, 3..6);
        assert_eq!(rig.take("v2.in").len(), 6, "the way to it has not turned");
        assert_eq!(rig.counters()[1].total().held, 3, "{}", by.name());
        rig.sleep(1);
        rig.sleep(WAY_FLUSH_MS - 1);
        assert_eq!(arrived(&mut rig), [0, 1, 2, 3, 4, 5], "{}", by.name());
        assert_eq!([7, 8].map(|link| rig.take(&link_name(1, link)).len()), [3, 3]);
        assert_none_dropped(&mut rig);
    }
}

#[test]
fn a_copy_for_a_tap_waits_for_its_own_way_and_the_packet_for_none() {
    let mut town = three_cables(star(&[&["v2"], &["v4"]]));
    town.chains[0].taps = vec![0];
    let mut rig = Rig::new(town);
    rig.behaviours.insert("v2".into(), Behaviour::Swallow);
    send(&mut rig, 0..1);
    turn(&mut rig, 8);
    send(&mut rig, 1..3);
    assert_eq!((rig.take("v2.in").len(), rig.take("v4.in").len()), (1, 3));
    rig.sleep(WAY_FLUSH_MS);
    assert_eq!((rig.take("v2.in").len(), rig.take("v4.in").len()), (2, 0));
    assert_none_dropped(&mut rig);
}

#[test]
fn other_tables_with_the_same_ways_let_nobody_wait() {
    let mut rig = Rig::new(three_cables(star(&[&["v2"]])));
    send(&mut rig, 0..1);
    rig.town.detours.insert((0, 1), vec![(0, 1, vec![8])]);
    rig.town.ways.insert((0, 2), vec![9, 3]);
    rig.town.chain("other", Encapsulation::Nsh, &[&["v3"]], &crate::scene::rules(6_000));
    rig.town.number += 1;
    rig.apply();
    send(&mut rig, 1..3);
    assert_eq!((arrived(&mut rig), left(&mut rig, 7)), (vec![0, 1, 2], 3));
}
