//! The proxies' memory: how long flows are known, and what happens when there are too many.

use crate::rig::{Behaviour, Rig, route};
use crate::scene::{CHAINED_PORT, packet, with_chain};
use catena_model::DropReason;
use catena_model::program::PROXY_MAC;
use catena_model::resource::Encapsulation;

const SECOND_NS: u64 = 1_000_000_000;

/// A packet of the flow with this source port.
fn from(rig: &Rig, port: u16) -> Vec<u8> {
    let mut sent = packet(&rig.town, CHAINED_PORT);
    sent.ports.0 = port;
    sent.frame()
}

fn small_memory(flows_max: usize) -> Rig {
    let town = with_chain(Encapsulation::Nsh, &[&["v1"]]);
    Rig::with(town, |config| config.flows_max = flows_max, 64)
}

#[test]
fn a_flow_is_forgotten_when_it_has_been_idle_for_a_minute() {
    let mut rig = Rig::new(with_chain(Encapsulation::Nsh, &[&["v1"], &["v4"]]));
    rig.behaviours.insert("v1".into(), Behaviour::Swallow);
    rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
    let mut late = rig.take("v1.in").remove(0);
    assert!(route(&mut late, PROXY_MAC, rig.town.mac("v1.out")));
    rig.now_ns += 60_000_000_000;
    rig.send("v1.out", &late);
    assert_eq!(rig.take("v4.in").len(), 1);
    rig.now_ns += 60_000_000_001;
    rig.moved();
    rig.send("v1.out", &late);
    rig.assert_only_dropped("v1.out", DropReason::UnknownReturn);
}

#[test]
fn a_full_memory_refuses_new_flows_by_name_and_keeps_the_old() {
    let mut rig = small_memory(4);
    for port in 1..=4 {
        rig.send("S", &from(&rig, port));
    }
    assert_eq!(rig.take("D").len(), 4);
    rig.moved();
    rig.send("S", &from(&rig, 5));
    rig.assert_moved(&[
        ("S received", 1),
        ("S dropped flow_memory_full", 1),
        ("host1 path 100 entered", 1),
        ("host1 path 100 dropped flow_memory_full", 1),
    ]);
    rig.send("S", &from(&rig, 4));
    assert_eq!(rig.take("D").len(), 1);
    rig.now_ns += 61_000_000_000;
    rig.send("S", &from(&rig, 5));
    assert_eq!(rig.take("D").len(), 1, "the idle ones have made room");
}

#[test]
fn a_new_flow_takes_the_place_of_the_one_unseen_for_longest() {
    let mut rig = small_memory(4);
    rig.behaviours.insert("v1".into(), Behaviour::Swallow);
    for port in 1..=4 {
        rig.now_ns += 1;
        rig.send("S", &from(&rig, port));
    }
    rig.now_ns += SECOND_NS;
    rig.send("S", &from(&rig, 1));
    let mut inside = rig.take("v1.in");
    rig.send("S", &from(&rig, 5));
    rig.now_ns += SECOND_NS / 2;
    rig.moved();
    for (number, frame) in inside.iter_mut().take(4).enumerate() {
        assert!(route(frame, PROXY_MAC, rig.town.mac("v1.out")));
        rig.send("v1.out", frame);
        let returned = rig.moved().contains_key("host1 path 100 from v1");
        assert_eq!(returned, number != 1, "flow {} of 1 to 4", number + 1);
    }
}

#[test]
fn short_flows_without_end_fit_into_a_small_memory() {
    const FLOWS_MAX: usize = 64;
    let mut rig = small_memory(FLOWS_MAX);
    for port in 1..=5_000 {
        // Twenty within a second, hence never all sixteen of one set.
        rig.now_ns += SECOND_NS / 20;
        rig.send("S", &from(&rig, port));
    }
    let moved = rig.moved();
    assert_eq!(moved["D transmitted"], 5_000, "{moved:?}");
}
