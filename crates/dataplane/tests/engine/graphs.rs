//! Service graphs: at the end of a path packets go on in another, without a moment on none.

use crate::explain::{golden, tell, text};
use crate::frames::Spec;
use crate::rig::{Behaviour, Rig};
use crate::scene::{CHAINED_PORT, packet, packet_v6, rules, three_hosts};
use crate::town::{Town, rule};
use catena_model::program::{PROXY_MAC, RuleMatch, RulePlace};
use catena_model::resource::{Encapsulation, IpFamily, Transport};
use catena_model::{DropReason, PathId};

/// The paths of the graph below.
const ROOT: PathId = PathId(100);
const DELIVERED: u16 = CHAINED_PORT + 2;

/// Rules of every family and transport at the end of a path, for a destination port.
fn after(path: PathId, port: u16) -> Vec<RuleMatch> {
    let place = RulePlace::After(path);
    rules(port).into_iter().map(|matches| RuleMatch { place, ..matches }).collect()
}

/// Root v1, v2 branches into left (v3) for one port and right (v4) for the next, and delivers all
/// else.
fn graph(encapsulation: Encapsulation) -> Town {
    let mut town = three_hosts();
    let s = RulePlace::Port(town.port_named("S").id);
    let all = [IpFamily::Ipv4, IpFamily::Ipv6].map(|family| RuleMatch {
        place: s,
        destination_ports: None,
        ..rule(family, Transport::Udp, 0)
    });
    town.chain("root", encapsulation, &[&["v1"], &["v2"]], &all);
    town.chain("left", encapsulation, &[&["v3"]], &after(ROOT, CHAINED_PORT));
    town.chain("right", encapsulation, &[&["v4"]], &after(ROOT, CHAINED_PORT + 1));
    town
}

fn visited(rig: &mut Rig) -> Vec<&'static str> {
    let all = ["v1", "v2", "v3", "v4"];
    let met = all.into_iter().filter(|name| !rig.take(&format!("{name}.in")).is_empty());
    met.collect()
}

#[test]
fn a_packet_goes_on_in_the_chain_whose_rules_it_matches_or_is_delivered() {
    for encapsulation in Encapsulation::ALL {
        for make in [packet as fn(&Town, u16) -> Spec, packet_v6] {
            for behaviour in [Behaviour::Route(PROXY_MAC), Behaviour::Bridge] {
                let mut rig = Rig::new(graph(encapsulation));
                for name in ["v1", "v2", "v3", "v4"] {
                    rig.behaviours.insert(name.into(), behaviour);
                }
                for (port, met) in [
                    (CHAINED_PORT, &["v1", "v2", "v3"][..]),
                    (CHAINED_PORT + 1, &["v1", "v2", "v4"]),
                    (DELIVERED, &["v1", "v2"]),
                ] {
                    let sent = make(&rig.town, port);
                    rig.send("S", &sent.frame());
                    assert_eq!(rig.take("D").len(), 1, "{encapsulation:?} {port}");
                    assert_eq!(visited(&mut rig), met, "{encapsulation:?} {port}");
                }
            }
        }
    }
}

#[test]
fn a_packet_is_counted_out_of_one_chain_and_into_the_next_in_one_step() {
    let mut rig = Rig::new(graph(Encapsulation::Nsh));
    let sent = packet(&rig.town, CHAINED_PORT);
    rig.send("S", &sent.frame());
    let moved = rig.moved();
    for (line, count) in [
        ("host1 path 100 entered", 1),
        ("host2 path 100 finished", 1),
        ("host2 path 101 entered", 1),
        ("host2 path 101 to v3", 1),
        ("host2 path 101 finished", 1),
        ("D transmitted", 1),
    ] {
        assert_eq!(moved.get(line), Some(&count), "{line} {moved:#?}");
    }
    assert!(moved.keys().all(|line| !line.contains("dropped")), "{moved:#?}");
}

#[test]
fn two_chains_go_on_in_a_common_one() {
    for encapsulation in Encapsulation::ALL {
        let mut town = three_hosts();
        let udp = |port| rule(IpFamily::Ipv4, Transport::Udp, port);
        town.chain("one", encapsulation, &[&["v1"]], &[udp(CHAINED_PORT)]);
        town.chain("two", encapsulation, &[&["v2"]], &[udp(CHAINED_PORT + 1)]);
        let any = |path| RuleMatch {
            place: RulePlace::After(PathId(path)),
            destination_ports: None,
            ..udp(0)
        };
        town.chain("common", encapsulation, &[&["v4"]], &[any(100), any(101)]);
        let mut rig = Rig::new(town);
        for (port, met) in [(CHAINED_PORT, ["v1", "v4"]), (CHAINED_PORT + 1, ["v2", "v4"])] {
            let sent = packet(&rig.town, port);
            rig.send("S", &sent.frame());
            assert_eq!(rig.take("D").len(), 1);
            assert_eq!(visited(&mut rig), met);
        }
    }
}

#[test]
fn the_first_rule_by_priority_decides_where_a_packet_goes_on() {
    let mut town = graph(Encapsulation::Nsh);
    let both = after(ROOT, CHAINED_PORT);
    town.chains[2].rules = both.into_iter().map(|matches| (11, matches)).collect();
    let mut rig = Rig::new(town);
    let sent = packet(&rig.town, CHAINED_PORT);
    rig.send("S", &sent.frame());
    assert_eq!(visited(&mut rig), ["v1", "v2", "v4"]);
}

#[test]
fn a_packet_does_not_go_round_in_paths_that_lead_into_one_another() {
    for encapsulation in Encapsulation::ALL {
        for hops in [&[&["v2"][..]][..], &[]] {
            let mut town = three_hosts();
            let udp = rule(IpFamily::Ipv4, Transport::Udp, CHAINED_PORT);
            let again = RuleMatch { place: RulePlace::After(PathId(100)), ..udp.clone() };
            town.chain("round", encapsulation, hops, &[udp, again]);
            let mut rig = Rig::new(town);
            let sent = packet(&rig.town, CHAINED_PORT);
            rig.send("S", &sent.frame());
            assert!(rig.take("D").is_empty());
            let dropped = rig.moved().into_iter().filter(|(line, _)| line.contains("dropped"));
            let dropped: Vec<_> = dropped.filter(|(line, _)| line.contains("path")).collect();
            assert_eq!(dropped.len(), 1, "{dropped:?}");
            assert!(dropped[0].0.contains(DropReason::TtlExpired.name()), "{dropped:?}");
        }
    }
}

#[test]
fn a_function_that_both_chains_meet_gives_each_visit_its_own_path() {
    for encapsulation in Encapsulation::ALL {
        let mut town = graph(encapsulation);
        town.chains[1].hops = vec![vec!["v2".into()], vec!["v3".into()]];
        let mut rig = Rig::new(town);
        let frames: Vec<_> = (0..8u32)
            .map(|sequence| Spec { sequence, ..packet(&rig.town, CHAINED_PORT) })
            .map(|mut sent| {
                sent.payload.push(u8::try_from(sent.sequence).unwrap());
                (sent.frame(), Default::default())
            })
            .collect();
        rig.send_all("S", frames);
        assert_eq!(rig.take("D").len(), 8);
        assert_eq!(rig.take("v2.in").len(), 16);
        assert_eq!(rig.take("v3.in").len(), 8);
    }
}

#[test]
fn the_branch_is_told_of() {
    for (name, encapsulation) in
        [("graph-nsh", Encapsulation::ALL[0]), ("graph-mpls", Encapsulation::ALL[1])]
    {
        let rig = Rig::new(graph(encapsulation));
        let told = tell(&rig, "S", &packet(&rig.town, CHAINED_PORT).frame(), None);
        golden(name, &text(&told));
    }
    let rig = Rig::new(graph(Encapsulation::Nsh));
    let left = rig.town.program(0).chains[1].id;
    let told = tell(&rig, "S", &packet(&rig.town, CHAINED_PORT).frame(), Some(left));
    assert_eq!(told.why_not[0].text, "it takes packets at the end of chain 'root' alone");
}
