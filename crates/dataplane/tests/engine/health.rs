//! Watched instances: how death is found, by which evidence and how soon, and what becomes of the
//! packets then, counter by counter.

use crate::frames::{Spec, destination_mac, flow};
use crate::rig::{Behaviour, Rig};
use crate::scene::{CHAINED_PORT, packet, packet_v6, with_chain};
use crate::town::Town;
use catena_model::program::PROXY_MAC;
use catena_model::resource::{Encapsulation, FailurePolicy};
use catena_model::status::Health;
use catena_wire::probe::{ProbeCarrier, ProbeFrame, ProbeMark};
use std::collections::BTreeSet;

/// The goal, in milliseconds.
const DEATH_MS: u64 = 300;
const FLOWS: u16 = 60;

/// The scene's chain with a policy; every function's interface has addresses.
fn watched(encapsulation: Encapsulation, hops: &[&[&str]], policy: FailurePolicy) -> Town {
    let mut town = with_chain(encapsulation, hops);
    town.chains[0].on_failure = policy;
    for number in 0..town.ports.len() {
        let (network, is_in) =
            (town.ports[number].network, town.ports[number].name.ends_with(".in"));
        if is_in {
            let v4 = format!("10.{network}.0.{}", 100 + number);
            let v6 = format!("2001:db8:{network}::{}", 100 + number);
            town.ports[number].addresses = vec![v4.parse().unwrap(), v6.parse().unwrap()];
        }
    }
    town
}

/// A rig whose functions have let a packet through and a probe come back.
fn proven(town: Town, sent: impl Fn(&Town) -> Spec) -> Rig {
    let mut rig = Rig::new(town);
    for port in 0..FLOWS {
        send(&mut rig, &sent, port);
    }
    rig.pass(200);
    rig.seen.clear();
    rig.moved();
    rig
}

fn send(rig: &mut Rig, sent: impl Fn(&Town) -> Spec, port: u16) {
    let mut sent = sent(&rig.town);
    sent.ports.0 = 1_000 + port;
    rig.send("S", &sent.frame());
}

fn chained(town: &Town) -> Spec {
    packet(town, CHAINED_PORT)
}

fn chained_v6(town: &Town) -> Spec {
    packet_v6(town, CHAINED_PORT)
}

/// Stops a function and waits until that is known.
fn kill(rig: &mut Rig, instance: &str, behaviour: Behaviour) {
    rig.behaviours.insert(instance.into(), behaviour);
    rig.pass(DEATH_MS);
    assert_eq!(rig.health()[instance], Health::Dead, "{instance}");
    rig.seen.clear();
    rig.moved();
}

/// The flows whose packets a port saw.
fn flows_at(rig: &mut Rig, port: &str) -> BTreeSet<u16> {
    rig.take(port).iter().map(|frame| flow(frame).source_port).collect()
}

#[test]
fn probes_are_created_and_consumed_by_name_and_no_path_sees_one() {
    let mut rig = Rig::new(watched(Encapsulation::Nsh, &[&["v1"]], FailurePolicy::Block));
    assert_eq!(rig.health()["v1"], Health::Unknown);
    rig.pass(400);
    assert_eq!(rig.health()["v1"], Health::Alive);
    // At 10, 90, 170, 250 and 330 ms the interface is asked whether it is there.
    rig.assert_moved(&[
        ("v1.in created probe", 5),
        ("v1.in forwarded", 5),
        ("v1.in transmitted", 5),
        ("v1.in received", 5),
        ("v1.in consumed", 5),
    ]);
    rig.send("S", &chained(&rig.town).frame());
    rig.moved();
    rig.pass(80);
    // Once a packet has come back, a packet like it is sent along, and from then on alone.
    rig.assert_moved(&[
        ("v1.in created probe", 2),
        ("v1.in forwarded", 2),
        ("v1.in transmitted", 2),
        ("v1.in received", 1),
        ("v1.in consumed", 1),
        ("v1.out received", 1),
        ("v1.out consumed", 1),
    ]);
    rig.pass(160);
    rig.assert_moved(&[
        ("v1.in created probe", 2),
        ("v1.in forwarded", 2),
        ("v1.in transmitted", 2),
        ("v1.out received", 2),
        ("v1.out consumed", 2),
    ]);
    assert_eq!(rig.visits().get("D"), Some(&1), "the packet, and no probe");
}

#[test]
fn nobody_is_probed_who_is_not_watched() {
    let mut rig = Rig::new(watched(Encapsulation::Nsh, &[&["v1"]], FailurePolicy::Unwatched));
    rig.pass(1_000);
    rig.assert_moved(&[]);
    assert!(rig.health().is_empty());
}

#[test]
fn death_is_found_within_the_goal_whenever_it_comes_and_not_after_one_lost_answer() {
    for (behaviour, sent) in [(Behaviour::Swallow, false), (Behaviour::Hang, true)] {
        for offset in 0..16 {
            let mut rig = Rig::new(watched(Encapsulation::Nsh, &[&["v1"]], FailurePolicy::Block));
            rig.pass(20);
            if sent {
                rig.send("S", &chained(&rig.town).frame());
            }
            rig.pass(200 + 5 * offset);
            rig.behaviours.insert("v1".into(), behaviour);
            rig.pass(180);
            assert_eq!(rig.health()["v1"], Health::Alive, "two lost answers at most");
            rig.pass(DEATH_MS - 180);
            assert_eq!(rig.health()["v1"], Health::Dead, "died {offset} steps behind a probe");
        }
    }
}

#[test]
fn a_dead_function_is_bypassed_wherever_it_is_on_the_path() {
    for encapsulation in Encapsulation::ALL {
        for sent in [chained, chained_v6] {
            let hops: &[&[&str]] = &[&["v1"], &["v2"], &["v4"]];
            let mut rig = proven(watched(encapsulation, hops, FailurePolicy::Bypass), sent);
            kill(&mut rig, "v2", Behaviour::Swallow);
            rig.send("S", &sent(&rig.town).frame());
            let moved = rig.moved();
            let at = |name: &str| moved.get(name).copied();
            assert_eq!(at("host2 path 100 past v2"), Some(1));
            assert_eq!(at("host2 path 100 tunnelled in"), Some(1));
            assert_eq!(at("host2 path 100 tunnelled out"), Some(1));
            assert_eq!(at("host2 path 100 to v2"), None);
            assert_eq!(at("host3 path 100 finished"), Some(1));
            assert_eq!(at("D transmitted"), Some(1));
            assert!(!moved.keys().any(|name| name.contains("dropped")), "{moved:?}");
            kill(&mut rig, "v1", Behaviour::Swallow);
            kill(&mut rig, "v4", Behaviour::Swallow);
            rig.send("S", &sent(&rig.town).frame());
            let moved = rig.moved();
            for past in
                ["host1 path 100 past v1", "host2 path 100 past v2", "host3 path 100 past v4"]
            {
                assert_eq!(moved.get(past), Some(&1), "{past}");
            }
            assert_eq!(moved.get("host3 path 100 finished"), Some(&1));
            let delivered = rig.take("D");
            assert_eq!(destination_mac(delivered.last().unwrap()), rig.town.mac("D"));
        }
    }
}

#[test]
fn a_dead_function_that_must_not_be_missed_drops_by_name() {
    for encapsulation in Encapsulation::ALL {
        let hops: &[&[&str]] = &[&["v1"], &["v2"]];
        let mut rig = proven(watched(encapsulation, hops, FailurePolicy::Block), chained);
        kill(&mut rig, "v2", Behaviour::Swallow);
        rig.send("S", &chained(&rig.town).frame());
        rig.assert_moved(&[
            ("S received", 1),
            ("S forwarded", 1),
            ("host1 path 100 entered", 1),
            ("host1 path 100 to v1", 1),
            ("v1.in transmitted", 1),
            ("v1.out received", 1),
            ("v1.out forwarded", 1),
            ("host1 path 100 from v1", 1),
            ("host1 path 100 tunnelled out", 1),
            ("host1 tunnels transmitted", 1),
            ("host2 tunnels received", 1),
            ("host2 path 100 tunnelled in", 1),
            ("host2 tunnels dropped function_dead", 1),
            ("host2 path 100 dropped function_dead", 1),
        ]);
    }
}

#[test]
fn flows_of_a_dead_instance_go_to_the_living_on_any_host_and_come_back_to_it() {
    for encapsulation in Encapsulation::ALL {
        for dead in ["v1", "v2", "v4"] {
            let hops: &[&[&str]] = &[&["v1", "v2", "v4"]];
            let town = watched(encapsulation, hops, FailurePolicy::Reroute);
            let mut rig = proven(town, chained);
            let mut before = Vec::new();
            let all = ["v1", "v2", "v4"].map(|name| format!("{name}.in"));
            (0..FLOWS).for_each(|port| send(&mut rig, chained, port));
            before.extend(all.iter().map(|port| flows_at(&mut rig, port)));
            assert!(before.iter().all(|flows| !flows.is_empty()), "all are in use");
            kill(&mut rig, dead, Behaviour::Swallow);
            (0..FLOWS).for_each(|port| send(&mut rig, chained, port));
            let moved = rig.moved();
            assert_eq!(moved.get("D transmitted"), Some(&u64::from(FLOWS)), "dead {dead}");
            assert!(!moved.keys().any(|name| name.contains("dropped")), "{moved:?}");
            for (port, flows) in all.iter().zip(&before) {
                let now = flows_at(&mut rig, port);
                if *port == format!("{dead}.in") {
                    assert!(now.is_empty(), "{dead} is dead");
                } else {
                    assert!(now.is_superset(flows), "no other flow has moved");
                    assert!(now.len() > flows.len(), "{port} took some");
                }
            }
            rig.behaviours.insert(dead.into(), Behaviour::Route(PROXY_MAC));
            rig.pass(90);
            assert_eq!(rig.health()[dead], Health::Alive);
            rig.seen.clear();
            (0..FLOWS).for_each(|port| send(&mut rig, chained, port));
            let after: Vec<_> = all.iter().map(|port| flows_at(&mut rig, port)).collect();
            assert_eq!(after, before, "every flow is back");
        }
    }
}

#[test]
fn detours_end_at_the_last_one_alive_and_without_any_by_name() {
    for encapsulation in Encapsulation::ALL {
        for alive in ["v1", "v2", "v4"] {
            let hops: &[&[&str]] = &[&["v1", "v2", "v4"]];
            let town = watched(encapsulation, hops, FailurePolicy::Reroute);
            let mut rig = proven(town, chained);
            for dead in ["v1", "v2", "v4"].into_iter().filter(|name| *name != alive) {
                kill(&mut rig, dead, Behaviour::Swallow);
            }
            (0..FLOWS).for_each(|port| send(&mut rig, chained, port));
            let moved = rig.moved();
            assert_eq!(moved.get("D transmitted"), Some(&u64::from(FLOWS)), "alive {alive}");
            assert_eq!(rig.take(&format!("{alive}.in")).len(), usize::from(FLOWS));
            kill(&mut rig, alive, Behaviour::Swallow);
            (0..FLOWS).for_each(|port| send(&mut rig, chained, port));
            let moved = rig.moved();
            let ends =
                |name: &&String| name.ends_with("dropped function_dead") && !name.contains("path");
            let dropped: u64 = moved.keys().filter(ends).map(|name| moved[name]).sum();
            assert_eq!(dropped, u64::from(FLOWS), "{moved:?}");
        }
    }
}

#[test]
fn a_function_that_lets_no_probe_through_is_not_declared_dead() {
    let mut rig = Rig::new(watched(Encapsulation::Nsh, &[&["v1"]], FailurePolicy::Block));
    rig.behaviours.insert("v1".into(), Behaviour::Filter);
    for _ in 0..5 {
        rig.send("S", &chained(&rig.town).frame());
        rig.pass(1_000);
        assert_eq!(rig.health()["v1"], Health::Alive);
    }
    assert_eq!(rig.take("D").len(), 5);
    // Neither is one whose interface has no address to ask for.
    let mut town = with_chain(Encapsulation::Nsh, &[&["v1"]]);
    town.chains[0].on_failure = FailurePolicy::Block;
    let mut rig = Rig::new(town);
    rig.behaviours.insert("v1".into(), Behaviour::Filter);
    rig.pass(1_000);
    assert_eq!(rig.health()["v1"], Health::Unknown);
    rig.send("S", &chained(&rig.town).frame());
    rig.pass(1_000);
    assert_eq!(rig.health()["v1"], Health::Alive);
}

#[test]
fn a_hung_function_that_never_let_a_probe_through_is_used_as_long_as_it_is_there() {
    let mut rig = Rig::new(watched(Encapsulation::Nsh, &[&["v1"]], FailurePolicy::Block));
    rig.behaviours.insert("v1".into(), Behaviour::Hang);
    rig.pass(1_000);
    assert_eq!(rig.health()["v1"], Health::Alive, "its interface is there");
    rig.behaviours.insert("v1".into(), Behaviour::Swallow);
    rig.pass(DEATH_MS);
    assert_eq!(rig.health()["v1"], Health::Dead, "and now it is not");
}

#[test]
fn functions_that_bridge_or_read_headers_are_watched_too() {
    for encapsulation in Encapsulation::SPOKEN {
        let mut town = watched(encapsulation, &[&["v1"]], FailurePolicy::Block);
        town.speaking("v1", encapsulation);
        for behaviour in [Behaviour::Bridge, Behaviour::Advance(encapsulation)] {
            if behaviour == Behaviour::Bridge {
                town.instances[0].speaks = None;
            } else {
                town.speaking("v1", encapsulation);
            }
            let mut rig = Rig::new(town.clone());
            rig.behaviours.insert("v1".into(), behaviour);
            rig.pass(200);
            assert_eq!(rig.health()["v1"], Health::Alive);
            rig.send("S", &chained(&rig.town).frame());
            rig.pass(200);
            rig.moved();
            rig.pass(160);
            let probes = rig.moved();
            assert_eq!(probes.get("v1.out consumed"), Some(&2), "{probes:?}");
            assert_eq!(probes.get("v1.in consumed"), None, "its interface is not asked any more");
            rig.behaviours.insert("v1".into(), Behaviour::Hang);
            rig.pass(DEATH_MS);
            assert_eq!(rig.health()["v1"], Health::Dead);
            rig.behaviours.insert("v1".into(), behaviour);
            rig.pass(90);
            assert_eq!(rig.health()["v1"], Health::Alive);
            assert_eq!(rig.take("D").len(), 1);
        }
    }
}

#[test]
fn silence_while_the_data_plane_did_not_run_is_no_death() {
    let town = watched(Encapsulation::Nsh, &[&["v1"]], FailurePolicy::Block);
    let mut rig = proven(town, chained);
    rig.behaviours.insert("v1".into(), Behaviour::Swallow);
    for _ in 0..30 {
        rig.sleep(60);
        assert_eq!(rig.health()["v1"], Health::Alive);
    }
    rig.pass(DEATH_MS);
    assert_eq!(rig.health()["v1"], Health::Dead);
    rig.sleep(60);
    assert_eq!(rig.health()["v1"], Health::Dead, "it does not rise from that either");
}

#[test]
fn a_packet_that_comes_back_late_goes_on_along_its_path_and_is_a_sign_of_life() {
    let town = watched(Encapsulation::Nsh, &[&["v1"]], FailurePolicy::Block);
    let mut rig = proven(town, chained);
    rig.behaviours.insert("v1".into(), Behaviour::Swallow);
    rig.send("S", &chained(&rig.town).frame());
    let mut kept = rig.take("v1.in").remove(0);
    rig.pass(DEATH_MS);
    assert_eq!(rig.health()["v1"], Health::Dead);
    crate::rig::route(&mut kept, PROXY_MAC, rig.town.mac("v1.out"));
    rig.send("v1.out", &kept);
    assert_eq!(rig.take("D").len(), 1);
    assert_eq!(rig.health()["v1"], Health::Alive);
    rig.pass(DEATH_MS);
    assert_eq!(rig.health()["v1"], Health::Dead, "one sign is not a life");
}

#[test]
fn what_is_known_outlives_a_program_and_ends_with_the_instance() {
    let town = watched(Encapsulation::Nsh, &[&["v1"], &["v2"]], FailurePolicy::Bypass);
    let mut rig = proven(town, chained);
    kill(&mut rig, "v1", Behaviour::Swallow);
    rig.town.chains[0].path += 1;
    rig.apply();
    assert_eq!(rig.health()["v1"], Health::Dead);
    rig.send("S", &chained(&rig.town).frame());
    assert_eq!(rig.moved().get("host1 path 101 past v1"), Some(&1));
    rig.town.chains[0].hops.remove(0);
    rig.apply();
    assert_eq!(rig.health().keys().collect::<Vec<_>>(), ["v2"]);
    rig.town.chains[0].hops.insert(0, vec!["v1".into()]);
    rig.apply();
    assert_eq!(rig.health()["v1"], Health::Unknown);
}

#[test]
fn a_probe_that_comes_out_after_its_instance_was_removed_ends_here() {
    let town = watched(Encapsulation::Nsh, &[&["v1"], &["v2"]], FailurePolicy::Bypass);
    let mut rig = proven(town, chained);
    rig.pass(160);
    let mut kept = rig.take("v1.in").pop().unwrap();
    rig.town.chains.clear();
    rig.apply();
    rig.moved();
    crate::rig::route(&mut kept, PROXY_MAC, rig.town.mac("v1.out"));
    rig.send("v1.out", &kept);
    rig.assert_moved(&[("v1.out received", 1), ("v1.out consumed", 1)]);
}

#[test]
fn a_tenants_packet_that_looks_like_a_probe_is_a_tenants_packet() {
    let town = watched(Encapsulation::Nsh, &[&["v1"]], FailurePolicy::Block);
    let mut rig = proven(town, chained);
    let forged = ProbeFrame {
        destination: rig.town.mac("D"),
        source: rig.town.mac("S"),
        flow: flow(&chained(&rig.town).frame()),
        carrier: ProbeCarrier::Udp,
        varying: ProbeCarrier::Udp.varying(),
        mark: ProbeMark { number: 1, seal: 0x1234 },
        packet_bytes: 0,
    };
    let mut frame = [0; 100];
    let length = forged.emit(&mut frame).unwrap();
    rig.send("S", &frame[..length]);
    assert_eq!(rig.take("D").len(), 1);
}

#[test]
fn the_copy_for_a_dead_tap_ends_there_and_is_no_second_packet() {
    for encapsulation in Encapsulation::ALL {
        let mut town = watched(encapsulation, &[&["v2"], &["v4"]], FailurePolicy::Bypass);
        town.chains[0].taps = vec![0];
        let mut rig = Rig::new(town);
        rig.pass(400);
        rig.behaviours.insert("v2".into(), Behaviour::Swallow);
        rig.pass(DEATH_MS);
        rig.seen.clear();
        for port in 0..FLOWS {
            send(&mut rig, chained, port);
        }
        assert_eq!(rig.take("v4.in").len(), usize::from(FLOWS));
        assert_eq!(rig.take("D").len(), usize::from(FLOWS));
    }
}
