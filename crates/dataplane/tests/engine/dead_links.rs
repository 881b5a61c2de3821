//! Cables that die under traffic: who is silent is noticed by the data planes alone, frames go round by what they
//! bring with them, and nothing goes by a link at whose other end nobody is known.

use crate::frames::source_routed;
use crate::rig::Rig;
use crate::scene::{CHAINED_PORT, packet, with_chain};
use crate::town::{Town, function_number, link_name};
use catena_dataplane::engine::Tables;
use catena_model::DropReason;
use catena_model::discovery::DiscoveryKey;
use catena_model::explain::{DepartureBy, ExplainAt, ExplainRequest, FrameBytes};
use catena_model::resource::Encapsulation;
use catena_model::topology::PortNumber;
use catena_wire::source_route::hello::{Hello, HelloKey};
use catena_wire::source_route::native::NativeView;
use std::collections::BTreeMap;

pub(crate) const KEY: [u8; 16] = *b"sixteen octets!!";
/// Switches: those of the two hosts, and one by which frames go round.
pub(crate) const NEAR: usize = 3;
const FAR: usize = 4;
const ROUND: usize = 5;
/// What three periods without a word take at most, in milliseconds, and a look more.
const SILENCE_MS: u64 = 4 * 75 + 10;

/// A chain from a function of host1 to one of host2, over NEAR and FAR, or round by ROUND.
fn triangle() -> Town {
    triangle_of(Encapsulation::SourceRouteNative)
}

/// The same over an encapsulation that brings ways round.
pub(crate) fn triangle_of(encapsulation: Encapsulation) -> Town {
    let mut town = with_chain(encapsulation, &[&["v1"], &["v2"]]);
    town.nodes = 6;
    town.cables = vec![
        [(0, 7), (NEAR, 1)],
        [(1, 7), (FAR, 1)],
        [(NEAR, 2), (FAR, 2)],
        [(NEAR, 3), (ROUND, 1)],
        [(ROUND, 2), (FAR, 3)],
    ];
    for (from, to) in [(0, 1), (1, 0)] {
        town.ways.insert((from, to), vec![7, 2, 1]);
    }
    town.detours.insert((0, 1), vec![(1, 2, vec![3, 2])]);
    town.discovery_key = Some(DiscoveryKey::new(KEY));
    town
}

/// One in which all ends of cables have heard each other.
pub(crate) fn greeted(engines: usize, town: Town) -> Rig {
    let mut rig = Rig::of_engines(engines, town, |_| {}, 512);
    rig.pass(200);
    rig.moved();
    rig
}

pub(crate) fn send(rig: &mut Rig, packets: usize) {
    let frame = packet(&rig.town, CHAINED_PORT).frame();
    (0..packets).for_each(|_| rig.send("S", &frame));
}

/// What moved, without the words between data planes.
fn moved(rig: &mut Rig) -> BTreeMap<String, u64> {
    let mut moved = rig.moved();
    moved.retain(|name, _| !name.ends_with("consumed") && !name.ends_with("created hello"));
    moved
}

fn life(rig: &Rig, node: usize, number: u8) -> (bool, bool, u64, u64) {
    let id = PortNumber::new(number).unwrap().link_id();
    let lives = rig.counters()[node].link_lives.clone();
    let life = lives.into_iter().find(|life| life.port == id).unwrap();
    (life.is_known, life.is_silent, life.silences, life.detoured)
}

fn routed(rig: &mut Rig, link: &str) -> usize {
    rig.take(link).iter().filter(|frame| !Hello::is_one(frame)).count()
}

#[test]
fn nothing_goes_by_a_link_before_its_ends_know_each_other() {
    let mut rig = Rig::new(triangle());
    rig.moved();
    let v2 = function_number(rig.town.ports.iter().position(|port| port.name == "v2.in").unwrap());
    let frame = source_routed(&[2, 1, v2], 100, &packet(&rig.town, CHAINED_PORT).frame());
    rig.bring(NEAR, 1, std::slice::from_ref(&frame));
    rig.assert_only_dropped(&link_name(NEAR, 1), DropReason::UnknownNeighbour);
    send(&mut rig, 1);
    assert_eq!(moved(&mut rig).get("v1.out dropped link_dead"), Some(&1));
    rig.pass(200);
    assert_eq!(life(&rig, NEAR, 1), (true, false, 0, 0));
    rig.moved();
    rig.take("v2.in");
    rig.bring(NEAR, 1, &[frame]);
    assert_eq!(rig.take("v2.in").len(), 1);
    // Without a key of the domain nobody can be known, and links are taken as they are.
    let mut open = Rig::new(Town { discovery_key: None, ..triangle() });
    send(&mut open, 1);
    assert_eq!(open.take("v2.in").len(), 1);
    open.pass(1_000);
    assert_eq!(open.take(&link_name(0, 7)).len(), 1, "no word is said");
}

#[test]
fn words_are_said_by_time_and_accounted_for() {
    for engines in [1, 2] {
        let mut rig = greeted(engines, triangle());
        rig.pass(7_500);
        let moved = rig.moved();
        for (node, port) in [(0, 7), (NEAR, 1), (NEAR, 2), (ROUND, 2), (FAR, 3)] {
            let name = link_name(node, port);
            let words = moved[&format!("{name} created hello")];
            // A look each ten milliseconds sees a period of 75 late by up to 9.
            assert!((88..=101).contains(&words), "{name}: {words} words");
            for verb in ["transmitted", "forwarded", "consumed", "received"] {
                let count = moved[&format!("{name} {verb}")];
                assert!(count.abs_diff(words) <= 12, "{name} {verb}: {count} of {words}");
            }
            assert_eq!(life(&rig, node, port), (true, false, 0, 0));
        }
    }
}

#[test]
fn a_silent_cable_is_gone_round_by_what_frames_bring_with_them() {
    for engines in [1, 2] {
        let mut rig = greeted(engines, triangle());
        send(&mut rig, 10);
        assert_eq!((rig.take("v2.in").len(), routed(&mut rig, &link_name(NEAR, 2))), (10, 10));
        rig.town.cut = [(NEAR, 2), (FAR, 2)].into();
        rig.pass(SILENCE_MS);
        assert_eq!(life(&rig, NEAR, 2), (true, true, 1, 0));
        assert_eq!(life(&rig, FAR, 2), (true, true, 1, 0));
        moved(&mut rig);
        send(&mut rig, 10);
        let seen = rig.take(&link_name(NEAR, 3));
        let round: Vec<_> = seen.iter().filter(|frame| !Hello::is_one(frame)).collect();
        let view = NativeView::parse(round[0]).unwrap();
        assert_eq!((round.len(), view.counter(), view.detours().count()), (10, 3, 0));
        assert_eq!((rig.take("v2.in").len(), rig.take("D").len()), (10, 20));
        let moved = moved(&mut rig);
        for (name, count) in [("host4-3 transmitted", 10), ("host5-3 received", 10)] {
            assert_eq!(moved.get(name), Some(&count), "{moved:?}");
        }
        assert!(!moved.keys().any(|name| name.contains("dropped")), "{moved:?}");
        assert_eq!(life(&rig, NEAR, 2), (true, true, 1, 10));
        // It carries again.
        rig.town.cut.clear();
        rig.pass(200);
        send(&mut rig, 1);
        assert_eq!(routed(&mut rig, &link_name(NEAR, 2)), 1);
        assert_eq!(life(&rig, NEAR, 2), (true, false, 1, 10));
    }
}

#[test]
fn what_comes_back_goes_on_where_there_is_no_way_round() {
    let mut rig = greeted(1, triangle());
    // A false alarm: words are lost, and nothing else.
    let lost = |rig: &mut Rig| {
        for _ in 0..40 {
            rig.town.cut = [(NEAR, 2), (FAR, 2), (NEAR, 1), (0, 7)].into();
            rig.pass(10);
            rig.town.cut.clear();
        }
    };
    lost(&mut rig);
    assert!(life(&rig, 0, 7).1 && life(&rig, NEAR, 2).1);
    send(&mut rig, 20);
    assert_eq!(rig.take("v2.in").len(), 20, "a false alarm costs no packet");
    let moved = moved(&mut rig);
    assert!(!moved.keys().any(|name| name.contains("dropped")), "{moved:?}");
    rig.pass(200);
    assert_eq!(life(&rig, 0, 7), (true, false, 1, 0));
}

#[test]
fn a_cable_that_is_unplugged_is_gone_round_at_once_or_ends_frames_by_name() {
    let mut rig = greeted(1, triangle());
    let port = |number| PortNumber::new(number).unwrap();
    rig.nodes[NEAR].links.set_dark(&[port(2)]);
    send(&mut rig, 3);
    assert_eq!((rig.take("v2.in").len(), routed(&mut rig, &link_name(NEAR, 3))), (3, 3));
    assert_eq!(life(&rig, NEAR, 2), (false, false, 0, 3));
    moved(&mut rig);
    // The way round is dead too.
    rig.nodes[NEAR].links.set_dark(&[port(2), port(3)]);
    send(&mut rig, 3);
    assert_eq!(moved(&mut rig).get("host4-1 dropped link_dead"), Some(&3));
    // Plugged in again, it must be known before anything goes by it.
    rig.nodes[NEAR].links.set_dark(&[]);
    send(&mut rig, 1);
    assert_eq!(moved(&mut rig).get("host4-1 dropped link_dead"), Some(&1));
    rig.pass(200);
    send(&mut rig, 1);
    assert_eq!(routed(&mut rig, &link_name(NEAR, 2)), 1);
}

#[test]
fn a_host_with_two_cables_goes_round_by_itself() {
    let mut town = triangle();
    town.cables.push([(0, 8), (ROUND, 3)]);
    town.detours.insert((0, 1), vec![(0, 2, vec![8, 2]), (1, 2, vec![3, 2])]);
    let mut rig = greeted(1, town);
    rig.nodes[0].links.set_dark(&[PortNumber::new(7).unwrap()]);
    send(&mut rig, 3);
    assert_eq!((rig.take("v2.in").len(), routed(&mut rig, &link_name(0, 8))), (3, 3));
    let moved = moved(&mut rig);
    assert_eq!(moved.get("host1 path 100 tunnelled out"), Some(&3));
    assert_eq!(moved.get("host1-8 transmitted"), Some(&3), "{moved:?}");
    assert_eq!(life(&rig, 0, 7).3, 3);
}

#[test]
fn who_was_not_running_holds_nobody_for_silent() {
    let mut rig = greeted(1, triangle());
    for _ in 0..10 {
        rig.sleep(1_000);
    }
    for (node, port) in [(0, 7), (NEAR, 2), (FAR, 3)] {
        assert_eq!(life(&rig, node, port), (true, false, 0, 0));
    }
}

#[test]
fn a_cable_that_carries_one_way_only_is_silent_at_both_ends() {
    let mut rig = greeted(1, triangle());
    rig.town.cut = [(NEAR, 2)].into();
    rig.pass(2 * SILENCE_MS);
    assert!(life(&rig, NEAR, 2).1 && life(&rig, FAR, 2).1);
    rig.town.cut.clear();
    rig.pass(200);
    assert!(!life(&rig, NEAR, 2).1 && !life(&rig, FAR, 2).1);
}

#[test]
fn nobody_else_speaks_for_a_neighbour() {
    let mut rig = greeted(1, triangle());
    let words: Vec<_> =
        rig.take(&link_name(FAR, 2)).into_iter().filter(|frame| Hello::is_one(frame)).collect();
    rig.town.cut = [(NEAR, 2), (FAR, 2)].into();
    rig.moved();
    let key = HelloKey::of_domain(&KEY);
    let newest = Hello::parse(words.last().unwrap(), &key).unwrap();
    let more = Hello { sequence: newest.sequence + 1_000, ..newest };
    let other = HelloKey::of_domain(&[1; 16]);
    let mut changed = more.emit(&key);
    changed[17] ^= 1;
    let own = rig.take(&link_name(NEAR, 2)).into_iter().rfind(|frame| Hello::is_one(frame));
    // Of another domain, changed on its way, said before, thrown back.
    let forged = [more.emit(&other).to_vec(), changed.to_vec(), words[0].clone(), own.unwrap()];
    for word in forged.iter().chain(&words) {
        rig.bring(NEAR, 2, std::slice::from_ref(word));
        rig.assert_only_dropped(&link_name(NEAR, 2), DropReason::UnknownNeighbour);
    }
    for _ in 0..SILENCE_MS / 10 {
        rig.bring(NEAR, 2, &forged);
        rig.pass(10);
    }
    assert!(life(&rig, NEAR, 2).1, "they keep no dead cable alive");
    rig.pass(4_000);
    assert_eq!(life(&rig, NEAR, 2), (false, false, 1, 0), "nor do they make a neighbour");
    // All that was ever said there is said again, once its neighbour is forgotten.
    for word in &words {
        rig.bring(NEAR, 2, std::slice::from_ref(word));
    }
    rig.pass(200);
    assert_eq!(life(&rig, NEAR, 2), (false, false, 1, 0));
}

#[test]
fn words_of_a_data_plane_that_is_gone_are_nobodys() {
    let mut rig = greeted(1, triangle());
    let words: Vec<_> =
        rig.take(&link_name(FAR, 2)).into_iter().filter(|frame| Hello::is_one(frame)).collect();
    let key = HelloKey::of_domain(&KEY);
    let last = Hello::parse(words.last().unwrap(), &key).unwrap();
    // Another start of the same neighbour, and then the former one again, with more than it ever said.
    let next = Hello { speaker: 77, sequence: 1, ..last };
    rig.bring(NEAR, 2, &[next.emit(&key).to_vec()]);
    rig.moved();
    let kept = Hello { sequence: last.sequence + 50, ..last };
    rig.bring(NEAR, 2, &[kept.emit(&key).to_vec()]);
    rig.assert_only_dropped(&link_name(NEAR, 2), DropReason::UnknownNeighbour);
}

#[test]
fn a_link_that_brings_frames_is_not_held_for_silent_unless_its_neighbour_says_so() {
    let mut rig = greeted(1, triangle());
    let v2 = function_number(rig.town.ports.iter().position(|port| port.name == "v2.in").unwrap());
    let frame = source_routed(&[2, 1, v2], 100, &packet(&rig.town, CHAINED_PORT).frame());
    // Words find no room, other frames do.
    rig.town.cut = [(0, 7), (NEAR, 1)].into();
    for _ in 0..50 {
        rig.bring(NEAR, 1, std::slice::from_ref(&frame));
        rig.pass(20);
    }
    assert_eq!(life(&rig, NEAR, 1), (true, false, 0, 0));
    // The other end, to which nothing comes, is deaf, and says so as soon as it is heard again.
    rig.town.cut = [(NEAR, 1)].into();
    for _ in 0..20 {
        rig.bring(NEAR, 1, std::slice::from_ref(&frame));
        rig.pass(20);
    }
    assert!(life(&rig, NEAR, 1).1);
}

#[test]
fn who_is_heard_is_plugged_in_though_no_agent_says_so() {
    let mut rig = greeted(1, triangle());
    rig.nodes[NEAR].links.set_dark(&[PortNumber::new(2).unwrap()]);
    assert!(!life(&rig, NEAR, 2).0);
    rig.pass(SILENCE_MS);
    assert_eq!((life(&rig, NEAR, 2).0, life(&rig, NEAR, 2).1), (true, false));
}

#[test]
fn frames_with_a_way_round_take_it_whatever_is_before_them() {
    let mut rig = greeted(1, triangle());
    send(&mut rig, 1);
    let round = rig.take(&link_name(0, 7)).into_iter().rfind(|frame| !Hello::is_one(frame));
    let v2 = function_number(rig.town.ports.iter().position(|port| port.name == "v2.in").unwrap());
    let none = source_routed(&[2, 1, v2], 100, &packet(&rig.town, CHAINED_PORT).frame());
    rig.town.cut = [(NEAR, 2), (FAR, 2)].into();
    rig.pass(SILENCE_MS);
    rig.take(&link_name(NEAR, 3));
    let round = round.unwrap();
    rig.bring(NEAR, 1, &[none.clone(), round.clone(), none, round]);
    assert_eq!(routed(&mut rig, &link_name(NEAR, 3)), 2);
}

#[test]
fn whoever_asks_is_told_of_the_way_round() {
    let mut rig = greeted(1, triangle());
    send(&mut rig, 1);
    let at_near = rig.take(&link_name(0, 7)).into_iter().rfind(|frame| !Hello::is_one(frame));
    let request = ExplainRequest {
        at: ExplainAt::Link(PortNumber::new(1).unwrap()),
        frame: FrameBytes(at_near.unwrap()),
        why_not: Default::default(),
    };
    for (dark, by) in [(None, 2), (PortNumber::new(2), 3)] {
        rig.nodes[NEAR].links.set_dark(dark.as_slice());
        let reply = rig.explain(NEAR, request.clone()).unwrap();
        assert_eq!(reply.departures.len(), 1);
        assert_eq!(reply.departures[0].by, DepartureBy::Link(PortNumber::new(by).unwrap()));
    }
    assert_eq!(life(&rig, NEAR, 2).3, 0, "an explanation detours nothing");
}

#[test]
fn a_detour_that_leads_back_is_refused() {
    let mut town = triangle();
    for (at, rejoin, ports) in [(1, 1, vec![3]), (2, 1, vec![3]), (1, 4, vec![3]), (1, 2, vec![])] {
        town.detours.insert((0, 1), vec![(at, rejoin, ports)]);
        let refusal = Tables::compile(&town.program(0)).map(drop).unwrap_err().to_string();
        assert!(refusal.contains("has a detour from its port"), "{refusal}");
    }
}
