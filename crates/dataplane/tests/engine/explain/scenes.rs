//! The scenes: each a text that is kept, and the packet sent.

use super::live::explain_and_send;
use crate::edges::{SWITCH, star, star_of};
use crate::frames::Spec;
use crate::rig::{Behaviour, Rig};
use crate::scene::{CHAINED_PORT, PLAIN_PORT, packet, packet_v6, rules, three_hosts, with_chain};
use catena_model::DropReason;
use catena_model::explain::{ExplainAction, HeaderLayer};
use catena_model::program::PROXY_MAC;
use catena_model::resource::Encapsulation;
use catena_model::topology::PortNumber;
use catena_wire::scalar::{IpProtocol, MacAddr};
use std::net::Ipv6Addr;

const FOUR: &[&[&str]] = &[&["v1"], &["v2"], &["v3"], &["v4"]];

fn chained(name: &str, encapsulation: Encapsulation, hops: &[&[&str]], is_v6: bool) {
    let mut rig = Rig::new(with_chain(encapsulation, hops));
    let spec = if is_v6 { packet_v6 } else { packet }(&rig.town, CHAINED_PORT);
    let told = explain_and_send(name, &mut rig, "S", &spec.frame());
    assert!(told.verdict.starts_with("delivered by port D of host3"), "{}", told.verdict);
}

#[test]
fn a_chain_over_three_hosts_by_nsh() {
    chained("nsh-three-hosts", Encapsulation::Nsh, FOUR, false);
    chained("nsh-three-hosts-ipv6", Encapsulation::Nsh, FOUR, true);
}

#[test]
fn a_chain_over_three_hosts_by_mpls() {
    chained("mpls-three-hosts", Encapsulation::Mpls, FOUR, false);
    chained("mpls-three-hosts-ipv6", Encapsulation::Mpls, FOUR, true);
}

#[test]
fn a_chain_on_one_host_and_delivery_on_another() {
    chained("nsh-one-host", Encapsulation::Nsh, &[&["v1"]], false);
    chained("mpls-one-host-ipv6", Encapsulation::Mpls, &[&["v1"]], true);
}

#[test]
fn functions_that_read_their_header() {
    for (name, encapsulation) in
        [("nsh-aware", Encapsulation::Nsh), ("mpls-aware", Encapsulation::Mpls)]
    {
        let mut town = with_chain(encapsulation, &[&["v1"], &["v2"]]);
        town.speaking("v1", encapsulation);
        town.speaking("v2", encapsulation);
        let mut rig = Rig::new(town);
        let frame = packet(&rig.town, CHAINED_PORT).frame();
        explain_and_send(name, &mut rig, "S", &frame);
    }
}

#[test]
fn functions_that_read_what_is_left_of_a_source_route() {
    let mut town = star(&[&["v1"], &["v2"], &["v3"], &["v4"]]);
    ["v1", "v2", "v4"]
        .iter()
        .for_each(|name| town.speaking(name, Encapsulation::SourceRouteNative));
    let mut rig = Rig::new(town);
    for name in ["v1", "v2", "v4"] {
        rig.behaviours.insert(name.into(), Behaviour::Echo);
    }
    let frame = packet(&rig.town, CHAINED_PORT).frame();
    let told = explain_and_send("source-route-aware", &mut rig, "S", &frame);
    assert!(told.verdict.starts_with("delivered by port D of host3"), "{}", told.verdict);
}

#[test]
fn weighted_instances_and_why_this_one() {
    let mut town = with_chain(Encapsulation::Nsh, &[&["v1", "v2", "v3"]]);
    for (name, weight) in [("v1", 1), ("v2", 3), ("v3", 0)] {
        town.instances.iter_mut().find(|instance| instance.name == name).unwrap().weight = weight;
    }
    let mut rig = Rig::new(town);
    let mut met = std::collections::BTreeSet::new();
    for flow in 0..12 {
        let mut spec = packet(&rig.town, CHAINED_PORT);
        spec.ports.0 += flow;
        let name = format!("weighted-{flow}");
        if flow < 2 {
            explain_and_send(&name, &mut rig, "S", &spec.frame());
        } else {
            let told = super::tell(&rig, "S", &spec.frame(), None);
            super::live::send_and_compare(&mut rig, "S", &spec.frame(), &told);
        }
        met.extend(rig.visits().keys().map(ToString::to_string));
        rig.seen.clear();
    }
    assert!(met.contains("v1.in") && met.contains("v2.in") && !met.contains("v3.in"), "{met:?}");
}

#[test]
fn ordinary_traffic_by_the_switch() {
    let mut town = with_chain(Encapsulation::Nsh, FOUR);
    town.endpoint("E", 0, 0, &["10.0.0.3"]);
    let mut rig = Rig::new(town);
    let elsewhere = packet(&rig.town, PLAIN_PORT);
    explain_and_send("ordinary-elsewhere", &mut rig, "S", &elsewhere.frame());
    let here = Spec { destination_mac: rig.town.mac("E"), ..elsewhere.clone() };
    explain_and_send("ordinary-here", &mut rig, "S", &here.frame());
    let all = Spec {
        destination: "10.0.0.255".parse().unwrap(),
        destination_mac: MacAddr::BROADCAST,
        ..elsewhere
    };
    explain_and_send("broadcast", &mut rig, "S", &all.frame());
}

#[test]
fn drops_have_their_names() {
    let mut rig = Rig::new(with_chain(Encapsulation::Nsh, FOUR));
    let plain = packet(&rig.town, PLAIN_PORT);
    let unknown = Spec { destination_mac: MacAddr([2, 9, 9, 9, 9, 9]), ..plain.clone() };
    explain_and_send("drop-unknown-mac", &mut rig, "S", &unknown.frame());
    let tagged = Spec { vlan: Some(7), ..plain.clone() };
    explain_and_send("drop-vlan", &mut rig, "S", &tagged.frame());
    let to_itself = Spec { destination_mac: rig.town.mac("S"), ..plain.clone() };
    explain_and_send("drop-hairpin", &mut rig, "S", &to_itself.frame());
    let large = Spec { payload: vec![0; 1_430], ..packet(&rig.town, CHAINED_PORT) };
    // Without DF nobody is told: an answer is no part of what becomes of the packet.
    let mut large = large.frame();
    large[20] = 0;
    catena_wire::ipv4::refresh_checksum(&mut large[14..]).unwrap();
    explain_and_send("drop-mtu", &mut rig, "S", &large);
    let mut cut = plain.frame();
    cut.truncate(20);
    explain_and_send("drop-malformed-ip", &mut rig, "S", &cut);
    rig.refusals.insert("v1.in".into(), DropReason::PortUnbound);
    let chained = packet(&rig.town, CHAINED_PORT);
    explain_and_send("drop-port-unbound", &mut rig, "S", &chained.frame());
}

#[test]
fn drops_on_a_path_have_their_names() {
    let mut town = with_chain(Encapsulation::Nsh, &[&["v1", "v2"]]);
    town.instances.iter_mut().for_each(|instance| instance.weight = 0);
    let mut rig = Rig::new(town);
    let frame = packet(&rig.town, CHAINED_PORT).frame();
    explain_and_send("drop-no-instance", &mut rig, "S", &frame);

    let mut rig = Rig::new(with_chain(Encapsulation::Mpls, &[&["v1"], &["v2"]]));
    let stranger = Spec { destination: "203.0.113.9".parse().unwrap(), ..packet(&rig.town, 5_001) };
    explain_and_send("drop-no-neighbour", &mut rig, "S", &stranger.frame());

    // The second host has not heard of the path.
    let mut rig = Rig::new(with_chain(Encapsulation::Nsh, &[&["v1"], &["v2"]]));
    let mut program = rig.town.program(1);
    program.paths.clear();
    program.rules.clear();
    rig.apply_program(1, &program);
    explain_and_send("drop-no-path", &mut rig, "S", &frame);
}

#[test]
fn a_source_route_through_a_switch() {
    let mut rig = Rig::new(star(&[&["v1"], &["v2"], &["v4"]]));
    let frame = packet(&rig.town, CHAINED_PORT).frame();
    explain_and_send("source-route", &mut rig, "S", &frame);
    for (name, encapsulation) in [
        ("source-route-safe-9", Encapsulation::SourceRouteSafe9),
        ("source-route-classic-80", Encapsulation::SourceRouteClassic80),
        ("source-route-sr-mpls", Encapsulation::SourceRouteSrMpls),
        ("source-route-polka", Encapsulation::SourceRoutePolka),
    ] {
        let mut rig = Rig::new(star_of(encapsulation, &[&["v1"], &["v2"], &["v4"]]));
        explain_and_send(name, &mut rig, "S", &frame);
    }

    let mut rig = Rig::new(star(&[&["v1"], &["v2"], &["v4"]]));
    let mut program = rig.town.program(SWITCH);
    program.exits.retain(|exit| exit.number.get() != 2);
    program.routes.clear();
    rig.apply_program(SWITCH, &program);
    explain_and_send("drop-unknown-exit", &mut rig, "S", &frame);
}

/// The planner compares encapsulations by what it knows of their headers.
#[test]
fn packets_grow_by_what_is_said_of_their_encapsulation() {
    for encapsulation in Encapsulation::ALL {
        let rig = Rig::new(with_chain(encapsulation, FOUR));
        let told = super::tell(&rig, "S", &packet(&rig.town, CHAINED_PORT).frame(), None);
        let mut compared = 0;
        for line in &told.lines {
            let ExplainAction::Encapsulated { header, added_bytes, .. } = &line.step.action else {
                continue;
            };
            let ports = match header.layers.as_slice() {
                [HeaderLayer::Vxlan { .. }] => continue,
                [HeaderLayer::Segments { way, .. }] => {
                    let containers = way.split_last().filter(|_| encapsulation.is_compressed());
                    let named = |address: &Ipv6Addr| {
                        address.segments()[2..].iter().filter(|csid| **csid != 0).count()
                    };
                    let segments = containers.map_or(way.len(), |(_, containers)| {
                        1 + containers.iter().map(named).sum::<usize>()
                    });
                    let grown = encapsulation.segmented_bytes(segments);
                    assert_eq!(*added_bytes, grown, "{}", line.step.text);
                    compared += 1;
                    continue;
                }
                // The label of the first port has been taken off.
                [HeaderLayer::SourceRoute { ports, left, .. }]
                    if ports.len() == usize::from(*left) =>
                {
                    [&[7], &ports[..]].concat()
                }
                [HeaderLayer::SourceRoute { ports, .. }] => ports.clone(),
                // Four digits for each port but the first.
                [HeaderLayer::ResidueRoute { number, .. }] => vec![7; 1 + number.len() / 4],
                _ => Vec::new(),
            };
            let ports: Vec<PortNumber> = ports.into_iter().filter_map(PortNumber::new).collect();
            assert_eq!(
                *added_bytes,
                encapsulation.added_bytes(&ports, false),
                "{}",
                line.step.text
            );
            compared += 1;
        }
        assert!(compared >= 2, "{told:?}");
    }
}

#[test]
fn what_functions_send_of_their_own() {
    let mut rig = Rig::new(with_chain(Encapsulation::Nsh, &[&["v1"]]));
    let routed = Spec {
        source_mac: rig.town.mac("v1.out"),
        destination_mac: PROXY_MAC,
        ..packet(&rig.town, CHAINED_PORT)
    };
    explain_and_send("drop-unknown-return", &mut rig, "v1.out", &routed.frame());
    // An ICMP error is the function's own, and goes where its paths deliver.
    let error = Spec {
        source: "10.0.0.9".parse().unwrap(),
        destination: "10.0.0.1".parse().unwrap(),
        protocol: IpProtocol::ICMP,
        payload: [vec![11, 0, 0, 0, 0, 0, 0, 0], vec![0x45; 28]].concat(),
        ..routed
    };
    explain_and_send("function-own-traffic", &mut rig, "v1.out", &error.frame());
}

#[test]
fn a_rule_that_other_traffic_of_the_host_does_not_meet() {
    let mut town = three_hosts();
    let any = crate::town::rule(
        catena_model::resource::IpFamily::Ipv4,
        catena_model::resource::Transport::Udp,
        CHAINED_PORT,
    );
    let wide = catena_model::program::RuleMatch { destination_ports: None, ..any };
    town.chain("wide", Encapsulation::Mpls, &[&["v2"]], &[wide]).rules[0].0 = 5;
    town.chain("narrow", Encapsulation::Nsh, &[&["v1"]], &rules(CHAINED_PORT));
    let mut rig = Rig::new(town);
    let frame = packet(&rig.town, CHAINED_PORT).frame();
    explain_and_send("the-higher-priority-goes-first", &mut rig, "S", &frame);
    let other = packet(&rig.town, PLAIN_PORT).frame();
    explain_and_send("the-wider-rule-takes-the-rest", &mut rig, "S", &other);
}

#[test]
fn copies_for_taps_are_told_of_behind_the_packet() {
    for (name, encapsulation, taps) in [
        ("tap-here", Encapsulation::Nsh, &[0][..]),
        ("taps-elsewhere", Encapsulation::Mpls, &[1, 2]),
    ] {
        let mut town = with_chain(encapsulation, FOUR);
        town.chains[0].taps = taps.to_vec();
        let mut rig = Rig::new(town);
        for tap in taps {
            rig.behaviours.insert(FOUR[*tap][0].into(), Behaviour::Swallow);
        }
        let frame = packet(&rig.town, CHAINED_PORT).frame();
        let told = explain_and_send(name, &mut rig, "S", &frame);
        assert!(told.verdict.contains(&format!("{} tap", taps.len())), "{}", told.verdict);
    }
}

#[test]
fn what_comes_back_meets_the_same_instances_in_reverse_order() {
    let group: &[&str] = &["v2", "v4"];
    let mut town = three_hosts();
    town.chain("out", Encapsulation::Nsh, &[&["v1"], group], &rules(CHAINED_PORT));
    let back = rules(CHAINED_PORT).into_iter().map(|rule| catena_model::program::RuleMatch {
        source_ports: rule.destination_ports,
        destination_ports: None,
        ..rule
    });
    let back: Vec<_> = back.collect();
    town.chain("back", Encapsulation::Nsh, &[group, &["v1"]], &back).is_reverse = true;
    let mut rig = Rig::new(town);
    rig.is_two_way = true;
    let out = packet(&rig.town, CHAINED_PORT);
    let back = Spec {
        source_mac: out.destination_mac,
        destination_mac: out.source_mac,
        source: out.destination,
        destination: out.source,
        ports: (out.ports.1, out.ports.0),
        ..out.clone()
    };
    let out = explain_and_send("symmetric-out", &mut rig, "S", &out.frame());
    let back = explain_and_send("symmetric-back", &mut rig, "D", &back.frame());
    let met = |told: &catena_model::explain::Told| -> Vec<String> {
        let visits = told.lines.iter().filter_map(|line| match &line.step.action {
            catena_model::explain::ExplainAction::Visited { instance, .. } => {
                Some(instance.clone())
            }
            _ => None,
        });
        visits.collect()
    };
    let mut reversed = met(&back);
    reversed.reverse();
    assert_eq!(met(&out), reversed);
}
