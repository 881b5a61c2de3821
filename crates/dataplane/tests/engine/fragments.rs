//! Fragments: all of a datagram meet the instances that its first fragment met.

use crate::frames::{self, Spec};
use crate::rig::Rig;
use crate::scene::{CHAINED_PORT, CUSTOMER, INTERNAL, packet, rules, with_chain};
use catena_model::resource::Encapsulation;
use std::collections::BTreeMap;

const DATAGRAMS: u16 = 60;

/// The first and the last fragment of a datagram.
fn pieces(whole: &Spec) -> [Spec; 2] {
    let first = Spec { fragment: (0, true), payload: vec![1; 24], ..whole.clone() };
    [first.clone(), Spec { fragment: (4, false), payload: vec![2; 9], ..first }]
}

#[test]
fn behind_an_aware_function_too() {
    let mut town = with_chain(Encapsulation::Nsh, &[&["v1"], &["v2", "v4"]]);
    town.speaking("v1", Encapsulation::Nsh);
    let mut rig = Rig::new(town);
    for number in 1..=DATAGRAMS {
        let whole = packet(&rig.town, CHAINED_PORT);
        let whole = Spec { ports: (number, CHAINED_PORT), identification: number, ..whole };
        for piece in pieces(&whole) {
            rig.send("S", &piece.frame());
        }
    }
    let mut seen: BTreeMap<Vec<u8>, Vec<&str>> = BTreeMap::new();
    for port in ["v2.in", "v4.in"] {
        for frame in rig.take(port) {
            seen.entry(frame[18..20].to_vec()).or_default().push(port);
        }
    }
    assert_eq!(seen.len(), usize::from(DATAGRAMS));
    assert!(seen.values().all(|ports| ports.len() == 2 && ports[0] == ports[1]), "{seen:?}");
    assert!(seen.values().any(|ports| ports[0] == "v2.in"));
    assert!(seen.values().any(|ports| ports[0] == "v4.in"));
}

#[test]
fn two_tenants_with_equal_addresses_do_not_mix_them() {
    let mut town = with_chain(Encapsulation::Nsh, &[&["v2", "v4"]]);
    let other = town.network(300, &["10.0.0.0/24"]);
    town.endpoint("S'", 0, other, &["10.0.0.1"]);
    town.endpoint("D'", 2, other, &["10.0.0.2"]);
    town.function("w2", 1, (CUSTOMER, INTERNAL));
    town.function("w4", 2, (CUSTOMER, INTERNAL));
    town.chain("c'", Encapsulation::Nsh, &[&["w2", "w4"]], &rules(CHAINED_PORT)).destination =
        other;
    let mut rig = Rig::new(town);
    for number in 1..=DATAGRAMS {
        let ours = Spec {
            ports: (number, CHAINED_PORT),
            identification: number,
            ..packet(&rig.town, CHAINED_PORT)
        };
        let theirs = Spec {
            source_mac: rig.town.mac("S'"),
            destination_mac: rig.town.mac("D'"),
            ports: (30_000 - number, CHAINED_PORT),
            ..ours.clone()
        };
        for (ours, theirs) in pieces(&ours).into_iter().zip(pieces(&theirs)) {
            rig.send("S", &ours.frame());
            rig.send("S'", &theirs.frame());
        }
    }
    let moved = rig.moved();
    assert!(!moved.keys().any(|name| name.contains("dropped")), "{moved:?}");
    for port in ["D", "D'"] {
        let frames = rig.take(port);
        assert_eq!(frames.len(), 2 * usize::from(DATAGRAMS), "{port}");
        assert!(frames.iter().all(|frame| frames::destination_mac(frame) == rig.town.mac(port)));
    }
}
