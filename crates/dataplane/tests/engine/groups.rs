//! Functions with several instances: shares, stickiness, agreement between nodes.

use crate::frames;
use crate::rig::Rig;
use crate::scene::{CHAINED_PORT, CUSTOMER, INTERNAL, packet, with_chain};
use crate::town::Town;
use catena_model::resource::Encapsulation;
use catena_wire::scalar::EtherType;
use std::collections::BTreeMap;

const FLOWS: u16 = 10_000;

fn weighted(weights: &[(&str, u32)]) -> Town {
    let names: Vec<&str> = weights.iter().map(|(name, _)| *name).collect();
    let mut town = with_chain(Encapsulation::Nsh, &[&names]);
    for (name, weight) in weights {
        town.instances.iter_mut().find(|i| i.name == *name).unwrap().weight = *weight;
    }
    town
}

/// Which port each of many flows was delivered to.
fn spread(rig: &mut Rig) -> BTreeMap<u16, String> {
    let mut chosen = BTreeMap::new();
    for start in (1..=FLOWS).step_by(100) {
        let frames = (start..start + 100).map(|port| {
            let mut sent = packet(&rig.town, CHAINED_PORT);
            sent.ports.0 = port;
            (sent.frame(), Default::default())
        });
        let frames: Vec<_> = frames.collect();
        rig.send_all("S", frames);
        for (port, seen) in std::mem::take(&mut rig.seen) {
            if port.ends_with(".in") {
                let plain =
                    seen.iter().filter(|seen| frames::ethertype(&seen.bytes) != EtherType::NSH);
                let flows = plain.map(|seen| frames::flow(&seen.bytes).source_port);
                chosen.extend(flows.map(|flow| (flow, port.clone())));
            }
        }
    }
    chosen
}

#[test]
fn ten_thousand_flows_are_shared_by_weight_within_two_points() {
    let mut rig = Rig::new(weighted(&[("v1", 1), ("v2", 3), ("v4", 4)]));
    let chosen = spread(&mut rig);
    assert_eq!(chosen.len(), usize::from(FLOWS));
    for (port, wanted) in [("v1.in", 0.125), ("v2.in", 0.375), ("v4.in", 0.5)] {
        let count = chosen.values().filter(|chosen| *chosen == port).count();
        let share = count as f64 / f64::from(FLOWS);
        assert!((share - wanted).abs() < 0.02, "{port} got {share}");
    }
}

#[test]
fn a_flow_stays_with_its_instance_and_a_new_instance_only_takes() {
    let mut rig = Rig::new(weighted(&[("v1", 1), ("v2", 1), ("v4", 0)]));
    let before = spread(&mut rig);
    assert_eq!(before, spread(&mut rig), "the same flows, the same instances");
    assert!(before.values().all(|port| port != "v4.in"), "weight 0 takes nothing");
    let mut rig = Rig::new(weighted(&[("v1", 1), ("v2", 1), ("v4", 1)]));
    let after = spread(&mut rig);
    let moved: Vec<_> = after.iter().filter(|(flow, port)| before[flow] != **port).collect();
    assert!(moved.iter().all(|(_, port)| *port == "v4.in"), "no other instance gained a flow");
    let share = moved.len() as f64 / f64::from(FLOWS);
    assert!((share - 1.0 / 3.0).abs() < 0.02, "{share} moved");
}

#[test]
fn all_weights_zero_is_no_instance() {
    let mut rig = Rig::new(weighted(&[("v1", 0)]));
    rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
    rig.assert_moved(&[
        ("S received", 1),
        ("S dropped no_instance", 1),
        ("host1 path 100 entered", 1),
        ("host1 path 100 dropped no_instance", 1),
    ]);
}

/// v1 and a sibling of it on the same host that sends from v1's egress.
fn siblings() -> Town {
    let mut town = with_chain(Encapsulation::Nsh, &[&["v1"], &["v4"]]);
    town.function("w1", 0, (CUSTOMER, INTERNAL));
    let (number, egress) = (town.instance("w1").0, town.instance("v1").1.egress);
    town.instances[number].egress = egress;
    town.chains[0].hops[0].push("w1".into());
    town
}

#[test]
fn siblings_may_send_from_one_port_and_each_is_booked_for_itself() {
    for is_aware in [false, true] {
        let mut town = siblings();
        if is_aware {
            town.speaking("v1", Encapsulation::Nsh);
            town.speaking("w1", Encapsulation::Nsh);
        }
        let mut rig = Rig::new(town);
        spread(&mut rig);
        let counts = rig.moved();
        for name in ["v1", "w1"] {
            let delivered = counts[&format!("host1 path 100 to {name}")];
            assert!(delivered > u64::from(FLOWS) * 2 / 5, "{name} got {delivered}");
            assert_eq!(counts[&format!("host1 path 100 from {name}")], delivered, "{is_aware}");
        }
        assert_eq!(counts["D transmitted"], u64::from(FLOWS));
        assert!(!counts.keys().any(|name| name.contains("dropped")), "{counts:?}");
    }
}

#[test]
fn siblings_at_two_hops_of_a_path_may_not_share_an_egress() {
    let mut town = siblings();
    town.chains[0].hops = vec![vec!["v1".into()], vec!["w1".into()]];
    let mut rig = Rig::new(town);
    rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
    assert_eq!(rig.moved().get("v1.out dropped no_instance"), Some(&1));
}
