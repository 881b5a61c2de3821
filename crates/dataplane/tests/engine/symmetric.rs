//! Symmetric chains: what comes back meets the same instances in reverse order, each by the port it
//! leaves by on the way out.

use crate::frames::Spec;
use crate::proxy::{arp_request, solicitation};
use crate::rig::{Behaviour, Rig};
use crate::scene::{CHAINED_PORT, CUSTOMER, INTERNAL, packet, packet_v6, rules, three_hosts};
use crate::town::{Town, rule};
use catena_model::program::{PROXY_MAC, RuleMatch, RulePlace};
use catena_model::resource::{Encapsulation, IpFamily, Transport};
use catena_wire::scalar::IpProtocol;
use std::collections::BTreeSet;

const GROUP: &[&str] = &["v2", "v5", "v6"];
const FLOWS: u16 = 60;

/// A chain over v1 and one of three instances on three hosts, and the way back.
fn town(encapsulation: Encapsulation, rules: &[RuleMatch]) -> Town {
    let mut town = three_hosts();
    town.function("v5", 0, (CUSTOMER, INTERNAL));
    town.function("v6", 2, (CUSTOMER, INTERNAL));
    town.chain("out", encapsulation, &[&["v1"], GROUP], rules);
    let back: Vec<RuleMatch> = rules.iter().map(reversed).collect();
    town.chain("back", encapsulation, &[GROUP, &["v1"]], &back).is_reverse = true;
    let (s, d) = (town.port_named("S").id, town.port_named("D").id);
    for (chain, port) in [(0, s), (1, d)] {
        for (_, matches) in &mut town.chains[chain].rules {
            matches.place = RulePlace::Port(port);
        }
    }
    town
}

fn reversed(rule: &RuleMatch) -> RuleMatch {
    RuleMatch {
        source: rule.destination,
        destination: rule.source,
        source_ports: rule.destination_ports,
        destination_ports: rule.source_ports,
        ..rule.clone()
    }
}

/// The instance of the group that saw one frame at this side, and forgets all.
fn met(rig: &mut Rig, side: &str) -> &'static str {
    let seen: Vec<&str> = GROUP
        .iter()
        .copied()
        .filter(|name| rig.take(&format!("{name}.{side}")).len() == 1)
        .collect();
    rig.seen.clear();
    assert_eq!(seen.len(), 1, "{seen:?}");
    seen[0]
}

#[test]
fn every_answer_meets_the_instance_that_the_question_met() {
    for (encapsulation, choice_seed) in Encapsulation::ALL.into_iter().zip([0, 0x5eed, 7, 8]) {
        for make in [packet, packet_v6] {
            let town = town(encapsulation, &rules(CHAINED_PORT));
            let mut rig = Rig::new(Town { choice_seed, ..town });
            rig.is_two_way = true;
            let mut all = BTreeSet::new();
            for flow in 0..FLOWS {
                for protocol in [IpProtocol::UDP, IpProtocol::TCP] {
                    let ports = (30_000 + flow, CHAINED_PORT);
                    let sent = Spec { protocol, ports, ..make(&rig.town, CHAINED_PORT) };
                    rig.send("S", &sent.frame());
                    let there = met(&mut rig, "in");
                    rig.send("D", &sent.answer().frame());
                    assert_eq!(rig.take("v1.out").len(), 1);
                    assert_eq!(rig.take("S").len(), 1);
                    assert_eq!(met(&mut rig, "out"), there, "flow {flow}");
                    all.insert(there);
                }
            }
            assert_eq!(all.len(), GROUP.len(), "all took part: {all:?}");
        }
    }
}

#[test]
fn both_directions_are_counted_on_their_own_path() {
    let mut town = three_hosts();
    let rules = rules(CHAINED_PORT);
    town.chain("out", Encapsulation::Nsh, &[&["v1"]], &rules);
    let back: Vec<RuleMatch> = rules.iter().map(reversed).collect();
    town.chain("back", Encapsulation::Nsh, &[&["v1"]], &back).is_reverse = true;
    let mut rig = Rig::new(town);
    rig.is_two_way = true;
    let sent = packet(&rig.town, CHAINED_PORT);
    rig.send("S", &sent.frame());
    rig.moved();
    rig.send("D", &sent.answer().frame());
    rig.assert_moved(&[
        ("D received", 1),
        ("D forwarded", 1),
        ("host3 path 101 entered", 1),
        ("host3 path 101 tunnelled out", 1),
        ("host3 tunnels transmitted", 1),
        ("host1 tunnels received", 1),
        ("host1 tunnels forwarded", 1),
        ("host1 path 101 tunnelled in", 1),
        ("host1 path 101 to v1", 1),
        ("v1.out transmitted", 1),
        ("v1.in received", 1),
        ("v1.in forwarded", 1),
        ("host1 path 101 from v1", 1),
        ("host1 path 101 finished", 1),
        ("S transmitted", 1),
    ]);
    let back = sent.answer();
    let expected = Spec { source_mac: rig.town.mac("v1.in"), ttl: back.ttl - 1, ..back };
    assert_eq!(rig.take("S"), [expected.frame()]);
}

#[test]
fn a_function_with_one_port_takes_both_directions_by_it() {
    for encapsulation in Encapsulation::ALL {
        for behaviour in [Behaviour::Route(PROXY_MAC), Behaviour::Bridge] {
            let mut town = town(encapsulation, &rules(CHAINED_PORT));
            for instance in &mut town.instances {
                instance.egress = instance.ingress;
            }
            let mut rig = Rig::new(town);
            for instance in rig.town.instances.clone() {
                rig.behaviours.insert(instance.name, behaviour);
            }
            for flow in 0..FLOWS {
                let ports = (30_000 + flow, CHAINED_PORT);
                let sent = Spec { ports, ..packet(&rig.town, CHAINED_PORT) };
                rig.send("S", &sent.frame());
                assert_eq!((rig.take("v1.in").len(), rig.take("D").len()), (1, 1));
                let there = met(&mut rig, "in");
                rig.send("D", &sent.answer().frame());
                assert_eq!((rig.take("v1.in").len(), rig.take("S").len()), (1, 1));
                assert_eq!(met(&mut rig, "in"), there);
            }
        }
    }
}

#[test]
fn an_echo_and_its_reply_meet_the_same_instances() {
    let any_port = |family| RuleMatch {
        destination_ports: None,
        ..rule(family, Transport::Icmp, CHAINED_PORT)
    };
    let rules = [any_port(IpFamily::Ipv4), any_port(IpFamily::Ipv6)];
    for encapsulation in Encapsulation::ALL {
        let mut rig = Rig::new(town(encapsulation, &rules));
        rig.is_two_way = true;
        let mut all = BTreeSet::new();
        for identifier in 0..40 {
            for (make, protocol, kinds) in [
                (packet as fn(&Town, u16) -> Spec, IpProtocol::ICMP, [8, 0]),
                (packet_v6, IpProtocol::ICMPV6, [128, 129]),
            ] {
                let echo = |kind| vec![kind, 0, 0, 0, 0, identifier, 0, 1];
                let sent = Spec { protocol, payload: echo(kinds[0]), ..make(&rig.town, 0) };
                rig.send("S", &sent.frame());
                assert_eq!(rig.take("D").len(), 1);
                let there = met(&mut rig, "in");
                let reply = Spec { payload: echo(kinds[1]), ..sent.answer() };
                rig.send("D", &reply.frame());
                assert_eq!(rig.take("S").len(), 1);
                assert_eq!(met(&mut rig, "out"), there, "identifier {identifier}");
                all.insert(there);
            }
        }
        assert_eq!(all.len(), GROUP.len());
    }
}

#[test]
fn an_aware_function_moves_the_header_of_both_directions() {
    for encapsulation in Encapsulation::SPOKEN {
        let mut town = town(encapsulation, &rules(CHAINED_PORT));
        for instance in &mut town.instances {
            instance.speaks = Some(encapsulation);
        }
        let mut rig = Rig::new(town);
        rig.is_two_way = true;
        let sent = packet(&rig.town, CHAINED_PORT);
        rig.send("S", &sent.frame());
        let there = met(&mut rig, "in");
        rig.send("D", &sent.answer().frame());
        let back = rig.take("S");
        // Under a source route functions write addresses and hop limit of the frame itself.
        let hops = if encapsulation.is_source_route() { 2 } else { 0 };
        let answer = Spec { ttl: 64 - hops, ..sent.answer() }.frame();
        assert_eq!((back.len(), &back[0][14..]), (1, &answer[14..]));
        assert_eq!(back[0] == answer, !encapsulation.is_source_route());
        assert_eq!(met(&mut rig, "out"), there);
    }
}

#[test]
fn both_ports_of_a_function_are_answered_for_what_lies_behind_the_other() {
    let mut rig = Rig::new(town(Encapsulation::Nsh, &rules(CHAINED_PORT)));
    for (port, sender, target, sender_v6, target_v6) in [
        ("v1.in", "10.0.0.9", "10.1.0.2", "2001:db8::9", "2001:db8:1::2"),
        ("v1.out", "10.1.0.9", "10.0.0.2", "2001:db8:1::9", "2001:db8::2"),
    ] {
        let mac = rig.town.mac(port);
        rig.send(port, &arp_request(mac, sender, target));
        rig.send(port, &solicitation(mac, sender_v6, target_v6));
        assert_eq!(rig.moved().get(&format!("{port} created proxy_answer")), Some(&2));
    }
    // What a function only routed is not taken for its own at either port.
    for port in ["v1.in", "v1.out"] {
        let mut foreign = packet(&rig.town, CHAINED_PORT);
        foreign.source_mac = rig.town.mac(port);
        foreign.destination_mac = PROXY_MAC;
        rig.send(port, &foreign.frame());
        rig.assert_only_dropped(port, catena_model::DropReason::UnknownReturn);
    }
}
