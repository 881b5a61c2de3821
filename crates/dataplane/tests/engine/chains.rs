//! Packets on paths: order, encapsulations, several hosts, changes of the program.

use crate::frames::{self, Spec};
use crate::rig::{Behaviour, Rig};
use crate::scene::{CHAINED_PORT, PLAIN_PORT, packet, packet_v6, rules, three_hosts, with_chain};
use crate::town::rule;
use catena_dataplane::engine::TunnelKind;
use catena_model::DropReason;
use catena_model::classifier::FieldMatch;
use catena_model::program::{PROXY_MAC, RuleMatch, RulePlace};
use catena_model::resource::{Encapsulation, IpFamily, Transport};
use catena_wire::scalar::{IpProtocol, PortRange, VlanId};

const ALL_FOUR: &[&[&str]] = &[&["v1"], &["v2"], &["v3"], &["v4"]];

#[test]
fn a_packet_meets_every_function_in_order_on_three_hosts() {
    for encapsulation in Encapsulation::ALL {
        let mut rig = Rig::new(with_chain(encapsulation, ALL_FOUR));
        let sent = packet(&rig.town, CHAINED_PORT);
        rig.send("S", &sent.frame());
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
            ("host2 tunnels forwarded", 1),
            ("host2 path 100 tunnelled in", 1),
            ("host2 path 100 to v2", 1),
            ("v2.in transmitted", 1),
            ("v2.out received", 1),
            ("v2.out forwarded", 1),
            ("host2 path 100 from v2", 1),
            ("host2 path 100 to v3", 1),
            ("v3.in transmitted", 1),
            ("v3.out received", 1),
            ("v3.out forwarded", 1),
            ("host2 path 100 from v3", 1),
            ("host2 path 100 tunnelled out", 1),
            ("host2 tunnels transmitted", 1),
            ("host3 tunnels received", 1),
            ("host3 tunnels forwarded", 1),
            ("host3 path 100 tunnelled in", 1),
            ("host3 path 100 to v4", 1),
            ("v4.in transmitted", 1),
            ("v4.out received", 1),
            ("v4.out forwarded", 1),
            ("host3 path 100 from v4", 1),
            ("host3 path 100 finished", 1),
            ("D transmitted", 1),
        ]);
        let arrived = rig.take("D");
        let expected = Spec {
            source_mac: rig.town.mac("v4.out"),
            destination_mac: rig.town.mac("D"),
            ttl: 60,
            ..sent
        };
        assert_eq!(arrived, [expected.frame()], "four routers lowered the TTL, nothing else");
    }
}

#[test]
fn every_function_sees_its_own_mac_and_the_untouched_packet() {
    for encapsulation in Encapsulation::ALL {
        let mut rig = Rig::new(with_chain(encapsulation, ALL_FOUR));
        let sent = packet(&rig.town, CHAINED_PORT).frame();
        rig.send("S", &sent);
        for (port, ttl) in [("v1.in", 64), ("v2.in", 63), ("v3.in", 62), ("v4.in", 61)] {
            let seen = rig.take(port);
            assert_eq!(frames::destination_mac(&seen[0]), rig.town.mac(port));
            let expected = Spec { ttl, ..packet(&rig.town, CHAINED_PORT) }.frame();
            assert_eq!(seen[0][14..], expected[14..], "{port}");
        }
    }
}

#[test]
fn ipv6_takes_the_same_path() {
    for encapsulation in Encapsulation::ALL {
        let mut rig = Rig::new(with_chain(encapsulation, ALL_FOUR));
        rig.send("S", &packet_v6(&rig.town, CHAINED_PORT).frame());
        for port in ["v1.in", "v2.in", "v3.in", "v4.in", "D"] {
            assert_eq!(rig.take(port).len(), 1, "{port}");
        }
    }
}

#[test]
fn each_encapsulation_travels_by_its_own_tunnel() {
    for (encapsulation, kind) in [
        (Encapsulation::Nsh, TunnelKind::Path(Encapsulation::Nsh)),
        (Encapsulation::Mpls, TunnelKind::Path(Encapsulation::Mpls)),
    ] {
        let mut rig = Rig::new(with_chain(encapsulation, &[&["v2"], &["v4"]]));
        rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
        let kinds: Vec<_> = rig.datagrams.iter().map(|datagram| datagram.kind).collect();
        assert_eq!(kinds, [kind, kind]);
    }
}

#[test]
fn what_no_rule_takes_is_ordinary() {
    let mut rig = Rig::new(with_chain(Encapsulation::Nsh, ALL_FOUR));
    let sent = packet(&rig.town, PLAIN_PORT).frame();
    rig.send("S", &sent);
    rig.assert_moved(&[
        ("S received", 1),
        ("S forwarded", 1),
        ("host1 tunnels transmitted", 1),
        ("host3 tunnels received", 1),
        ("host3 tunnels forwarded", 1),
        ("D transmitted", 1),
    ]);
    assert_eq!(rig.take("D"), [sent]);
    assert_eq!(rig.datagrams[0].kind, TunnelKind::Vxlan);
}

#[test]
fn two_chains_share_a_function_and_part_again() {
    let mut town = three_hosts();
    town.chain("a", Encapsulation::Nsh, &[&["v1"], &["v3"], &["v4"]], &rules(5_001));
    town.chain("b", Encapsulation::Mpls, &[&["v2"], &["v3"]], &rules(5_002));
    let mut rig = Rig::new(town);
    for port in [5_001, 5_002, 5_001] {
        rig.send("S", &packet(&rig.town, port).frame());
    }
    let visits = rig.visits();
    let seen: Vec<_> =
        ["v1.in", "v2.in", "v3.in", "v4.in", "D"].map(|port| visits.get(port).copied()).into();
    assert_eq!(seen, [Some(2), Some(1), Some(3), Some(2), Some(3)]);
}

#[test]
fn the_highest_priority_decides_and_then_the_order_of_the_list() {
    let mut town = three_hosts();
    town.chain("first", Encapsulation::Nsh, &[&["v1"]], &rules(5_001));
    town.chain("second", Encapsulation::Nsh, &[&["v2"]], &rules(5_001));
    let udp = |rig: &Rig| packet(&rig.town, 5_001).frame();
    let mut rig = Rig::new(town.clone());
    rig.send("S", &udp(&rig));
    assert_eq!((rig.take("v1.in").len(), rig.take("v2.in").len()), (1, 0));
    for rule in &mut town.chains[1].rules {
        rule.0 = 11;
    }
    let mut rig = Rig::new(town);
    rig.send("S", &udp(&rig));
    assert_eq!((rig.take("v1.in").len(), rig.take("v2.in").len()), (0, 1));
}

/// Does a packet of the scene enter a chain with this rule alone?
fn is_taken(matches: RuleMatch, change: impl Fn(&mut Spec)) -> bool {
    let mut town = three_hosts();
    town.chain("c", Encapsulation::Nsh, &[&["v1"]], &[matches]);
    let mut rig = Rig::new(town);
    let mut sent = packet(&rig.town, CHAINED_PORT);
    change(&mut sent);
    rig.send("S", &sent.frame());
    !rig.take("v1.in").is_empty()
}

#[test]
fn every_field_of_a_rule_counts() {
    let any = RuleMatch {
        place: RulePlace::Endpoints,
        vlan: None,
        family: IpFamily::Ipv4,
        transport: None,
        source: None,
        destination: None,
        source_ports: None,
        destination_ports: None,
        fields: FieldMatch::default(),
    };
    let udp = rule(IpFamily::Ipv4, Transport::Udp, CHAINED_PORT);
    let range = |min, max| Some(PortRange::new(min, max).unwrap());
    let town = three_hosts();
    let (s, d) = (town.port_named("S").id, town.port_named("D").id);
    let vlan = Some(VlanId::new(7).unwrap());
    let cases = [
        (any.clone(), true),
        (udp.clone(), true),
        (RuleMatch { family: IpFamily::Ipv6, ..any.clone() }, false),
        (RuleMatch { transport: Some(Transport::Tcp), ..any.clone() }, false),
        (RuleMatch { transport: Some(Transport::Icmp), ..any.clone() }, false),
        (RuleMatch { place: RulePlace::Port(s), ..any.clone() }, true),
        (RuleMatch { place: RulePlace::Port(d), ..any.clone() }, false),
        (RuleMatch { source: Some("10.0.0.0/30".parse().unwrap()), ..any.clone() }, true),
        (RuleMatch { source: Some("10.0.0.2/32".parse().unwrap()), ..any.clone() }, false),
        (RuleMatch { destination: Some("10.0.0.2/32".parse().unwrap()), ..any.clone() }, true),
        (RuleMatch { destination: Some("10.0.0.0/31".parse().unwrap()), ..any.clone() }, false),
        (RuleMatch { destination: Some("0.0.0.0/0".parse().unwrap()), ..any.clone() }, true),
        (RuleMatch { source_ports: range(39_000, 40_000), ..any.clone() }, true),
        (RuleMatch { source_ports: range(40_001, 50_000), ..any.clone() }, false),
        (RuleMatch { destination_ports: range(5_001, 6_000), ..any.clone() }, true),
        (RuleMatch { destination_ports: range(0, 5_000), ..any.clone() }, false),
        (RuleMatch { vlan, ..any.clone() }, false),
    ];
    for (matches, expected) in cases {
        assert_eq!(is_taken(matches.clone(), |_| {}), expected, "{matches:?}");
    }
    let tagged = |spec: &mut Spec| spec.vlan = Some(7);
    assert!(is_taken(RuleMatch { vlan, ..any.clone() }, tagged));
    assert!(!is_taken(any.clone(), tagged), "without a tag in the rule the packet must have none");
    let icmp = |spec: &mut Spec| {
        spec.protocol = IpProtocol::ICMP;
        spec.payload = vec![8, 0, 0, 0, 0, 1, 0, 1];
    };
    assert!(is_taken(RuleMatch { transport: Some(Transport::Icmp), ..any.clone() }, icmp));
    assert!(!is_taken(RuleMatch { destination_ports: range(0, 65_535), ..any }, icmp));
}

#[test]
fn a_rule_without_port_takes_nothing_of_another_network() {
    let mut town = with_chain(Encapsulation::Nsh, &[&["v1"]]);
    let other = town.network(300, &["10.0.0.0/24", "2001:db8::/64"]);
    town.endpoint("S'", 0, other, &["10.0.0.1", "2001:db8::1"]);
    town.endpoint("D'", 2, other, &["10.0.0.2", "2001:db8::2"]);
    let mut rig = Rig::new(town);
    for make in [packet, packet_v6] {
        let sent = Spec {
            source_mac: rig.town.mac("S'"),
            destination_mac: rig.town.mac("D'"),
            ..make(&rig.town, CHAINED_PORT)
        };
        rig.send("S'", &sent.frame());
        assert_eq!(rig.take("D'"), [sent.frame()], "another tenant's packet is ordinary");
        rig.send("S", &make(&rig.town, CHAINED_PORT).frame());
        assert_eq!(rig.take("v1.in").len(), 1);
    }
}

#[test]
fn a_tagged_packet_keeps_its_tag_on_the_path_and_behind_it() {
    let mut town = three_hosts();
    let vlan = Some(VlanId::new(7).unwrap());
    let matches = RuleMatch { vlan, ..rule(IpFamily::Ipv4, Transport::Udp, CHAINED_PORT) };
    town.chain("c", Encapsulation::Nsh, &[&["v1"], &["v2"]], &[matches]);
    let mut rig = Rig::new(town);
    let sent = Spec { vlan: Some(7), ..packet(&rig.town, CHAINED_PORT) };
    rig.send("S", &sent.frame());
    let town = &rig.town;
    let expected = Spec { ttl: 62, source_mac: town.mac("v2.out"), ..sent }.frame();
    assert_eq!(rig.take("D"), [expected]);
}

#[test]
fn later_fragments_follow_the_first() {
    let mut rig = Rig::new(with_chain(Encapsulation::Nsh, ALL_FOUR));
    let first = Spec { fragment: (0, true), payload: vec![1; 24], ..packet(&rig.town, 5_001) };
    let later = Spec { fragment: (4, false), payload: vec![2; 9], ..packet(&rig.town, 5_001) };
    let unknown = Spec { identification: 8, ..later.clone() };
    for sent in [&first, &later, &unknown] {
        rig.send("S", &sent.frame());
    }
    for port in ["v1.in", "v2.in", "v3.in", "v4.in"] {
        assert_eq!(rig.take(port).len(), 2, "{port}");
    }
    assert_eq!(rig.take("D").len(), 2, "a fragment whose first was not seen is not let past");
}

#[test]
fn a_fragment_is_not_taken_for_one_of_an_old_datagram() {
    let mut rig = Rig::new(with_chain(Encapsulation::Nsh, &[&["v1"]]));
    let first = Spec { fragment: (0, true), payload: vec![1; 24], ..packet(&rig.town, 5_001) };
    rig.send("S", &first.frame());
    rig.now_ns += 61_000_000_000;
    rig.send("S", &Spec { fragment: (4, false), ..first }.frame());
    assert_eq!(rig.take("v1.in").len(), 1);
}

#[test]
fn an_empty_path_delivers_at_once() {
    let mut rig = Rig::new(with_chain(Encapsulation::Nsh, &[]));
    rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
    rig.assert_moved(&[
        ("S received", 1),
        ("S forwarded", 1),
        ("host1 path 100 entered", 1),
        ("host1 path 100 finished", 1),
        ("host1 tunnels transmitted", 1),
        ("host3 tunnels received", 1),
        ("host3 tunnels forwarded", 1),
        ("D transmitted", 1),
    ]);
}

#[test]
fn a_new_path_takes_over_without_loss_and_the_old_one_ends_by_name() {
    let mut town = with_chain(Encapsulation::Nsh, &[&["v1"], &["v3"]]);
    let mut rig = Rig::new(town.clone());
    let sent = packet(&rig.town, CHAINED_PORT).frame();
    rig.send("S", &sent);
    assert_eq!(rig.take("D").len(), 1);

    // Make before break: both paths are known, only the new one has rules.
    let mut renewed = town.chains[0].clone();
    town.chains[0].rules.clear();
    renewed.path = 101;
    renewed.encapsulation = Encapsulation::Mpls;
    renewed.hops[1] = vec!["v4".into()];
    town.chains.push(renewed);
    rig.behaviours.insert("v1".into(), Behaviour::Swallow);
    rig.send("S", &sent);
    let slow = rig.seen["v1.in"].last().unwrap().clone();
    let mut slow = slow.bytes;
    assert!(crate::rig::route(&mut slow, PROXY_MAC, rig.town.mac("v1.out")));
    rig.town = town.clone();
    rig.apply();
    rig.moved();
    rig.send("v1.out", &slow);
    assert_eq!(rig.take("D").len(), 1, "what was inside the function gets through");
    assert_eq!(rig.take("v3.in").len(), 2, "on the path it was on");

    rig.behaviours.insert("v1".into(), Behaviour::Route(PROXY_MAC));
    rig.send("S", &sent);
    assert_eq!((rig.take("v4.in").len(), rig.take("D").len()), (1, 1));

    // The next program has neither; what was remembered for a path that is gone says so.
    rig.town.chains.clear();
    rig.apply();
    rig.moved();
    rig.send("v1.out", &slow);
    rig.assert_only_dropped("v1.out", DropReason::PathRemoved);
    rig.send("S", &sent);
    assert_eq!(rig.take("D").len(), 1, "without a rule the traffic is ordinary");
}

#[test]
fn counters_of_ports_and_paths_outlive_a_program() {
    let mut rig = Rig::new(with_chain(Encapsulation::Nsh, ALL_FOUR));
    let sent = packet(&rig.town, CHAINED_PORT).frame();
    rig.send("S", &sent);
    let before = rig.counters();
    let slot = rig.slot("S");
    rig.town.number = 2;
    rig.town.chain("other", Encapsulation::Mpls, &[&["v2"]], &rules(6_000));
    rig.apply();
    assert_eq!(rig.slot("S"), slot);
    for (before, after) in before.iter().zip(rig.counters()) {
        assert_eq!(before.ports, after.ports);
        assert_eq!(before.chains[..], after.chains[..1]);
        assert_eq!(after.program.0, 2);
    }
}
