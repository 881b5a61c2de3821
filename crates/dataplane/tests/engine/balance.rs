//! Which fields of a packet choose its instance, and how functions that rewrite them are followed.

use crate::explain::{tell, text};
use crate::frames::{self, Spec};
use crate::rig::Rig;
use crate::scene::{CHAINED_PORT, packet, packet_v6, rules, three_hosts};
use crate::town::Town;
use catena_model::program::{Balance, RewriteEntry, RuleMatch, RulePlace, TupleField};
use catena_model::resource::{Encapsulation, FlowField, TuplePattern};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

const GROUP: &[&str] = &["v1", "v2", "v4"];
const FLOWS: u16 = 10_000;

fn town(encapsulation: Encapsulation, fields: &[FlowField]) -> Town {
    let mut town = three_hosts();
    let chain = town.chain("c", encapsulation, &[GROUP], &rules(CHAINED_PORT));
    chain.balance = Balance::Fields(fields.to_vec());
    town
}

/// The instance that each packet met, where it came bare.
fn met(rig: &mut Rig, sent: &[Spec]) -> Vec<String> {
    let mut met = Vec::new();
    for sent in sent {
        rig.seen.clear();
        rig.send("S", &sent.frame());
        let visits = rig.seen.keys().filter_map(|port| port.strip_suffix(".in"));
        let visits: Vec<_> = visits.map(str::to_owned).collect();
        assert_eq!(visits.len(), 1, "{visits:?}");
        met.extend(visits);
    }
    met
}

#[test]
fn flows_that_agree_in_the_named_fields_meet_one_instance() {
    let any = |n: u16| -> [Spec; 2] {
        let town = three_hosts();
        let low = u8::try_from(n % 200 + 3).unwrap();
        let v4 = Spec {
            source: IpAddr::from([10, 0, 0, low]),
            ports: (1_000 + n, CHAINED_PORT),
            ..packet(&town, CHAINED_PORT)
        };
        let v6 = Spec {
            source: format!("2001:db8::{low:x}").parse().unwrap(),
            ports: (1_000 + n, CHAINED_PORT),
            ..packet_v6(&town, CHAINED_PORT)
        };
        [v4, v6]
    };
    for encapsulation in Encapsulation::ALL {
        for family in [0, 1] {
            let sent: Vec<Spec> = (0..60).map(|n| any(n)[family].clone()).collect();
            for (field, is_constant) in [
                (FlowField::IpDst, true),
                (FlowField::UdpDst, true),
                (FlowField::EthSrc, true),
                (FlowField::TcpSrc, true),
                (FlowField::IpSrc, false),
                (FlowField::UdpSrc, false),
            ] {
                let mut rig = Rig::new(town(encapsulation, &[field]));
                let instances = met(&mut rig, &sent);
                let distinct = instances.iter().collect::<BTreeSet<_>>().len();
                assert_eq!(distinct == 1, is_constant, "{field:?} {family}: {distinct}");
                assert!(is_constant || distinct == GROUP.len(), "{field:?}: {distinct}");
                // The same again, from other ports: only the named field counts.
                let other = sent.iter().map(|sent| Spec { sequence: 1, ..sent.clone() });
                assert_eq!(met(&mut rig, &other.collect::<Vec<_>>()), instances);
            }
        }
    }
}

#[test]
fn shares_by_a_named_field_meet_the_weights_within_two_points() {
    let mut town = town(Encapsulation::Nsh, &[FlowField::UdpSrc]);
    for (name, weight) in [("v1", 1), ("v2", 3), ("v4", 4)] {
        town.instances.iter_mut().find(|i| i.name == name).unwrap().weight = weight;
    }
    let mut rig = Rig::new(town);
    let mut shares: BTreeMap<String, usize> = BTreeMap::new();
    for start in (0..FLOWS).step_by(100) {
        rig.seen.clear();
        let frames = (start..start + 100).map(|n| {
            let sent = Spec { ports: (1_000 + n, CHAINED_PORT), ..packet(&rig.town, CHAINED_PORT) };
            (sent.frame(), Default::default())
        });
        let frames: Vec<_> = frames.collect();
        rig.send_all("S", frames);
        for (port, seen) in &rig.seen {
            if let Some(name) = port.strip_suffix(".in") {
                *shares.entry(name.to_owned()).or_default() += seen.len();
            }
        }
    }
    assert_eq!(shares.values().sum::<usize>(), usize::from(FLOWS));
    for (name, wanted) in [("v1", 0.125), ("v2", 0.375), ("v4", 0.5)] {
        let share = shares[name] as f64 / f64::from(FLOWS);
        assert!((share - wanted).abs() < 0.02, "{name} got {share}");
    }
}

#[test]
fn answers_meet_the_instance_that_the_opposite_fields_choose() {
    for encapsulation in Encapsulation::ALL {
        let mut town = town(encapsulation, &[FlowField::IpSrc, FlowField::UdpSrc]);
        let (s, d) = (town.port_named("S").id, town.port_named("D").id);
        for (_, matches) in &mut town.chains[0].rules {
            matches.place = RulePlace::Port(s);
        }
        let back: Vec<RuleMatch> = rules(CHAINED_PORT)
            .into_iter()
            .map(|rule| RuleMatch {
                place: RulePlace::Port(d),
                source_ports: rule.destination_ports,
                destination_ports: None,
                ..rule
            })
            .collect();
        let chain = town.chain("back", encapsulation, &[GROUP], &back);
        chain.is_reverse = true;
        chain.balance = Balance::Fields(vec![FlowField::IpDst, FlowField::UdpDst]);
        let mut rig = Rig::new(town);
        rig.is_two_way = true;
        let mut all = BTreeSet::new();
        for flow in 0..40 {
            let sent =
                Spec { ports: (2_000 + flow, CHAINED_PORT), ..packet(&rig.town, CHAINED_PORT) };
            rig.seen.clear();
            rig.send("S", &sent.frame());
            let forth = rig.seen.keys().find_map(|port| port.strip_suffix(".in"));
            let forth = forth.unwrap().to_owned();
            rig.seen.clear();
            rig.send("D", &sent.answer().frame());
            let back = rig.seen.keys().find_map(|port| port.strip_suffix(".out"));
            assert_eq!(back, Some(forth.as_str()));
            all.insert(forth);
        }
        assert_eq!(all.len(), GROUP.len());
    }
}

const OUTSIDE: [&str; 2] = ["192.0.2.7", "2001:db8:7::7"];

/// S and v1, which rewrites sources, and v4 behind it; two chains share v1 and differ in the
/// destination port.
fn nat(encapsulation: Encapsulation) -> Rig {
    let mut town = three_hosts();
    let pattern = |net: &str| TuplePattern {
        source_prefix: Some(net.parse().unwrap()),
        ..TuplePattern::default()
    };
    for (name, port, behind, net) in [
        ("first", CHAINED_PORT, &["v4"], "192.0.2.7/32"),
        ("second", CHAINED_PORT + 1, &["v2"], "192.0.2.7/32"),
        ("third", CHAINED_PORT + 2, &["v3"], "2001:db8:7::7/128"),
    ] {
        let entry = RewriteEntry { fields: vec![TupleField::Source], leaves: pattern(net) };
        let chain = town.chain(name, encapsulation, &[&["v1"], behind], &rules(port));
        chain.rewrites.insert(0, entry);
    }
    let mut rig = Rig::new(town);
    rig.behaviours.insert("v1".into(), crate::rig::Behaviour::Swallow);
    rig
}

#[test]
fn what_a_declared_nat_made_goes_on_where_its_packet_would_have() {
    for encapsulation in Encapsulation::ALL {
        let mut rig = nat(encapsulation);
        for flow in 0..20 {
            // Both chains have packets inside before any comes back.
            let make = |n: u16, rig: &Rig| Spec {
                source: IpAddr::from([10, 0, 0, u8::try_from(100 + flow).unwrap()]),
                ports: (3_000 + flow, CHAINED_PORT + n),
                ..packet(&rig.town, CHAINED_PORT)
            };
            let sent = [make(0, &rig), make(1, &rig)];
            sent.iter().for_each(|sent| rig.send("S", &sent.frame()));
            rig.seen.clear();
            for (sent, behind) in sent.iter().zip(["v4.in", "v2.in"]) {
                let source: IpAddr = OUTSIDE[0].parse().unwrap();
                let mac = rig.town.mac("v1.out");
                let made = Spec { source, source_mac: mac, ..sent.clone() };
                rig.send("v1.out", &made.frame());
                assert_eq!(rig.take(behind).len(), 1, "{behind}");
                let delivered = rig.take("D");
                assert_eq!(delivered.len(), 1);
                assert_eq!(frames::flow(&delivered[0]).source, source);
            }
        }
        assert!(rig.moved().keys().all(|line| !line.contains("dropped")));
    }
}

#[test]
fn what_the_mapping_does_not_make_is_still_not_known() {
    let mut rig = nat(Encapsulation::Nsh);
    let sent = packet(&rig.town, CHAINED_PORT);
    rig.send("S", &sent.frame());
    rig.moved();
    let (source, mac) = ("192.0.2.8".parse().unwrap(), rig.town.mac("v1.out"));
    let foreign = Spec { source, source_mac: mac, ..sent.clone() };
    rig.send("v1.out", &foreign.frame());
    rig.assert_only_dropped("v1.out", catena_model::DropReason::UnknownReturn);
    let elsewhere = Spec {
        source: OUTSIDE[0].parse().unwrap(),
        source_mac: mac,
        ports: (sent.ports.0, 77),
        ..sent
    };
    rig.send("v1.out", &elsewhere.frame());
    rig.assert_only_dropped("v1.out", catena_model::DropReason::UnknownReturn);
}

#[test]
fn a_rewritten_ipv6_packet_is_known_again_too() {
    let mut rig = nat(Encapsulation::Mpls);
    let sent = packet_v6(&rig.town, CHAINED_PORT + 2);
    rig.send("S", &sent.frame());
    let made = Spec {
        source: OUTSIDE[1].parse().unwrap(),
        source_mac: rig.town.mac("v1.out"),
        ..sent.clone()
    };
    rig.send("v1.out", &made.frame());
    assert_eq!(rig.take("v3.in").len(), 1);
    assert_eq!(rig.take("D").len(), 1);
}

#[test]
fn where_two_versions_of_a_chain_are_inside_a_nat_the_first_in_is_the_first_out() {
    let mut rig = nat(Encapsulation::Nsh);
    let sent = packet(&rig.town, CHAINED_PORT);
    let made = |n: u8, rig: &Rig| {
        let mut made = Spec {
            source: OUTSIDE[0].parse().unwrap(),
            source_mac: rig.town.mac("v1.out"),
            ..sent.clone()
        };
        made.payload.push(n);
        made.frame()
    };
    let went = |n: u8| {
        let mut went = sent.clone();
        went.payload.push(n);
        went.frame()
    };
    rig.send("S", &went(0));
    // The new version goes by v3 in place of v4, in the same chain.
    let mut next = rig.town.chains[0].clone();
    next.path = 150;
    next.hops[1] = vec!["v3".into()];
    let rules = std::mem::take(&mut rig.town.chains[0].rules);
    rig.town.chains.push(next);
    rig.town.chains[3].rules = rules;
    rig.apply();
    rig.send("S", &went(1));
    for (n, behind) in [(0, "v4.in"), (1, "v3.in")] {
        rig.seen.clear();
        let frame = made(n, &rig);
        rig.send("v1.out", &frame);
        assert_eq!(rig.take(behind).len(), 1, "{n} {behind}");
        assert_eq!(rig.take("D").len(), 1);
    }
}

/// Instances by which a domain with this seed takes flows of one sender.
fn picks(choice_seed: u64, fields: Option<FlowField>, make: fn(&Town, u16) -> Spec) -> Vec<String> {
    let mut town = three_hosts();
    let chain = town.chain("c", Encapsulation::Nsh, &[GROUP], &rules(CHAINED_PORT));
    if let Some(field) = fields {
        chain.balance = Balance::Fields(vec![field]);
    }
    town.choice_seed = choice_seed;
    let flow = |port| Spec { ports: (port, CHAINED_PORT), ..make(&town, CHAINED_PORT) };
    let sent: Vec<Spec> = (1_000..1_060).map(flow).collect();
    met(&mut Rig::new(town), &sent)
}

#[test]
fn the_seed_of_a_domain_decides_which_instance_a_flow_meets() {
    for fields in [None, Some(FlowField::UdpSrc)] {
        for make in [packet, packet_v6] {
            let [one, again, other] = [5, 5, 6].map(|seed| picks(seed, fields, make));
            assert_eq!(one, again);
            let same = one.iter().zip(&other).filter(|(one, other)| one == other).count();
            assert!((8..32).contains(&same), "a third by chance: {same} of {}", one.len());
            for domain in [one, other] {
                assert_eq!(domain.into_iter().collect::<BTreeSet<_>>().len(), GROUP.len());
            }
        }
    }
}

#[test]
fn a_domain_without_a_seed_takes_flows_as_before_there_was_any() {
    let before =
        |flows: &[String]| flows.iter().take(24).map(|name| &name[1..]).collect::<String>();
    let taken = [
        before(&picks(0, None, packet)),
        before(&picks(0, None, packet_v6)),
        before(&picks(0, Some(FlowField::UdpSrc), packet)),
    ];
    assert_eq!(
        taken,
        ["422241124144111211211444", "112144241114112221212214", "114442414122242424222424"]
    );
}

#[test]
fn an_explanation_names_the_instance_and_nothing_by_which_the_seed_could_be_known() {
    let mut town = three_hosts();
    town.chain("c", Encapsulation::Nsh, &[GROUP], &rules(CHAINED_PORT));
    town.choice_seed = 0x5eed;
    let mut rig = Rig::new(town);
    for port in 1_000..1_020 {
        let sent = Spec { ports: (port, CHAINED_PORT), ..packet(&rig.town, CHAINED_PORT) };
        let told = text(&tell(&rig, "S", &sent.frame(), None));
        let met = met(&mut rig, std::slice::from_ref(&sent)).remove(0);
        assert!(told.contains(&format!(" {met} ")) || told.contains(&met), "{met}: {told}");
        let open = frames::flow(&sent.frame()).symmetric_hash(0);
        assert!(told.contains(&format!("{open:#018x}")), "{told}");
    }
}
