//! What goes to everybody in a network: each station gets it once, whatever functions repeat.

use crate::explain::tell;
use crate::frames::Spec;
use crate::proxy::arp_request;
use crate::rig::{Behaviour, Rig};
use crate::scene::{CHAINED_PORT, CUSTOMER, PLAIN_PORT, packet, rules, three_hosts};
use crate::town::Town;
use catena_model::DropReason;
use catena_model::limits::PORT_FLOOD_FRAMES_PER_SECOND;
use catena_model::resource::Encapsulation;
use catena_wire::scalar::MacAddr;

/// Functions with both ports in the network of the endpoints, on two hosts, in a chain.
fn bumps() -> Town {
    let mut town = three_hosts();
    town.endpoint("T", 0, CUSTOMER, &["10.0.0.3"]);
    for (name, node) in [("b1", 0), ("b2", 0), ("b3", 1)] {
        town.function(name, node, (CUSTOMER, CUSTOMER));
    }
    town.chain("c", Encapsulation::Nsh, &[&["b1"], &["b2"], &["b3"]], &rules(CHAINED_PORT));
    town
}

const ENDPOINTS: [&str; 2] = ["T", "D"];
/// A virtual router's (RFC 5798 section 7.3), and that of no port.
const NO_STATION: MacAddr = MacAddr([0, 0, 0x5e, 0, 1, 9]);
/// To a group, from no station.
fn from_no_station(rig: &Rig) -> Spec {
    let destination_mac = MacAddr([1, 0, 0x5e, 0, 0, 99]);
    let destination = "224.0.0.99".parse().unwrap();
    let packet = packet(&rig.town, PLAIN_PORT);
    Spec { source_mac: NO_STATION, destination_mac, destination, ..packet }
}

/// What a function's port sends is dropped as another's, and nothing else happens.
#[track_caller]
fn assert_is_echo(rig: &mut Rig, port: &str, frame: &[u8]) {
    rig.send(port, frame);
    let [received, own, dropped] = ["received", "created by function", "dropped flood_repeated"]
        .map(|what| format!("{port} {what}"));
    rig.assert_moved(&[(&received, 1), (&own, 1), (&dropped, 1)]);
}

const BUMPS: [&str; 6] = ["b1.in", "b1.out", "b2.in", "b2.out", "b3.in", "b3.out"];

#[test]
fn functions_that_repeat_every_broadcast_at_both_ports_make_no_storm() {
    let mut rig = Rig::new(bumps());
    for name in ["b1", "b2", "b3"] {
        rig.behaviours.insert(name.into(), Behaviour::Repeat);
    }
    let question = arp_request(rig.town.mac("S"), "10.0.0.1", "10.0.0.2");
    rig.send("S", &question);
    for port in ENDPOINTS.iter().chain(&BUMPS) {
        assert_eq!(rig.take(port), std::slice::from_ref(&question), "{port}");
    }
    assert_eq!(rig.take("S").len(), 0);
    // Each gave back by either port what it had heard by the other.
    let moved = rig.moved();
    for port in BUMPS {
        assert_eq!(moved[&format!("{port} dropped flood_repeated")], 1, "{port}");
    }
    assert!(moved.keys().filter(|name| name.contains("dropped")).count() == BUMPS.len());
}

#[test]
fn functions_that_repeat_what_comes_from_no_station_make_no_storm() {
    for engines in [1, 3] {
        let mut rig = Rig::of_engines(engines, bumps(), |_| {}, 512);
        for name in ["b1", "b2", "b3"] {
            rig.behaviours.insert(name.into(), Behaviour::Repeat);
        }
        for frame in
            [from_no_station(&rig).frame(), arp_request(NO_STATION, "10.0.0.8", "10.0.0.2")]
        {
            rig.send("S", &frame);
            for port in ENDPOINTS.iter().chain(&BUMPS) {
                assert_eq!(rig.take(port), std::slice::from_ref(&frame), "{port}");
            }
            assert_eq!(rig.take("S").len(), 0);
            let moved = rig.moved();
            for port in BUMPS {
                assert_eq!(moved[&format!("{port} dropped flood_repeated")], 1, "{port}");
            }
        }
    }
}

#[test]
fn what_a_function_repeats_one_hop_on_is_still_an_echo_also_when_asked_about() {
    let mut rig = Rig::new(bumps());
    let spec = from_no_station(&rig);
    rig.send("S", &spec.frame());
    rig.moved();
    let echo = Spec { ttl: spec.ttl - 1, ..spec }.frame();
    let told = tell(&rig, "b1.out", &echo, None);
    assert!(told.verdict.starts_with("dropped at host1: flood_repeated"), "{}", told.verdict);
    assert_is_echo(&mut rig, "b1.out", &echo);
}

#[test]
fn what_a_machine_behind_a_function_sends_of_no_stations_mac_is_heard_by_all_but_it() {
    let mut rig = Rig::new(bumps());
    for name in ["b2", "b3"] {
        rig.behaviours.insert(name.into(), Behaviour::Repeat);
    }
    let others = ["S", "T", "D", "b2.in", "b2.out", "b3.in", "b3.out"];
    let own = arp_request(NO_STATION, "10.0.0.9", "10.0.0.9");
    for _ in 0..10 {
        for port in ["b1.in", "b1.out"] {
            rig.send(port, &own);
            for port in others {
                assert_eq!(rig.take(port), std::slice::from_ref(&own), "{port}");
            }
        }
        rig.now_ns += 1_000_000_000;
    }
    assert_eq!(rig.take("b1.in").len() + rig.take("b1.out").len(), 0);
}

#[test]
fn a_virtual_mac_moves_from_one_function_to_another() {
    let mut rig = Rig::new(bumps());
    let told = |address| arp_request(NO_STATION, address, address);
    let heard = |rig: &mut Rig, port: &str, frame: &[u8]| {
        rig.send(port, frame);
        rig.take("D").len()
    };
    assert_eq!(heard(&mut rig, "b1.out", &told("10.0.0.9")), 1);
    // What the other says of its own is another frame.
    assert_eq!(heard(&mut rig, "b2.out", &told("10.0.0.8")), 1);
    assert_eq!(heard(&mut rig, "b2.out", &told("10.0.0.9")), 0);
    // The same frame is its own when no bridge would still hold that of the first.
    rig.now_ns += 4_000_000_001;
    assert_eq!(heard(&mut rig, "b2.out", &told("10.0.0.9")), 1);
    assert_eq!(heard(&mut rig, "b1.out", &told("10.0.0.9")), 0);
}

#[test]
fn what_a_port_may_not_send_to_everybody_pushes_nothing_out_of_memory() {
    let mut rig = Rig::new(bumps());
    let first = arp_request(NO_STATION, "10.0.0.8", "10.0.0.2");
    rig.send("T", &first);
    for number in 0..20_000_u32 {
        let [.., a, b] = number.to_be_bytes();
        let source = MacAddr([0x0a, 0, 0, 0, a, b]);
        rig.send("S", &arp_request(source, "10.0.0.1", "10.0.0.2"));
    }
    rig.moved();
    assert_is_echo(&mut rig, "b1.out", &first);
}

#[test]
fn what_a_function_asks_of_its_own_is_heard_by_all_but_itself() {
    let mut rig = Rig::new(bumps());
    let question = arp_request(rig.town.mac("b1.out"), "10.0.0.9", "10.0.0.2");
    rig.send("b1.out", &question);
    for port in ["S", "T", "D", "b2.in", "b2.out", "b3.in", "b3.out"] {
        assert_eq!(rig.take(port), std::slice::from_ref(&question), "{port}");
    }
    for port in ["b1.in", "b1.out"] {
        assert_eq!(rig.take(port).len(), 0, "{port}");
    }
}

#[test]
fn a_function_that_answers_each_broadcast_with_one_of_its_own_does_not_hear_itself() {
    let mut rig = Rig::new(bumps());
    rig.behaviours.insert("b1".into(), Behaviour::Reflect);
    rig.send("S", &arp_request(rig.town.mac("S"), "10.0.0.1", "10.0.0.2"));
    // That of S, and one by each port of the function.
    for port in ENDPOINTS {
        assert_eq!(rig.take(port).len(), 3, "{port}");
    }
    for port in ["b1.in", "b1.out"] {
        assert_eq!(rig.take(port).len(), 1, "{port}");
    }
}

#[test]
fn a_port_floods_at_its_rate_and_others_feel_nothing() {
    const MORE: u32 = 200;
    let mut rig = Rig::new(bumps());
    let question = arp_request(rig.town.mac("S"), "10.0.0.1", "10.0.0.2");
    let flood = |rig: &mut Rig, frames: u32| {
        for _ in 0..frames {
            rig.send("S", &question);
        }
        rig.take("D").len()
    };
    assert_eq!(flood(&mut rig, PORT_FLOOD_FRAMES_PER_SECOND), 1_000);
    rig.moved();
    assert_eq!(flood(&mut rig, MORE), 0);
    let (received, limited) = ("S received", "S dropped flood_limited");
    rig.assert_moved(&[(received, MORE.into()), (limited, MORE.into())]);
    // Another port has a rate of its own, and what is for one station none.
    rig.send("T", &arp_request(rig.town.mac("T"), "10.0.0.3", "10.0.0.2"));
    assert_eq!(rig.take("D").len(), 1);
    rig.send("S", &packet(&rig.town, PLAIN_PORT).frame());
    assert_eq!(rig.take("D").len(), 1);
    rig.now_ns += 100_000_000;
    assert_eq!(flood(&mut rig, MORE), 100, "a tenth of a second later");
    assert_eq!(rig.moved()["S dropped flood_limited"], 100);
    let reason = DropReason::FloodLimited;
    assert!(
        rig.counters()[0]
            .ports
            .iter()
            .all(|port| { port.name == "S" || !port.account.dropped.contains_key(&reason) })
    );
}
