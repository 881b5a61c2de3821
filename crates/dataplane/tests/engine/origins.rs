//! A chain begins at the port of another chain's function: what the function sends of its own enters
//! it, what the function gives back stays on its path.

use crate::frames::Spec;
use crate::rig::Rig;
use crate::scene::{CHAINED_PORT, INTERNAL, PLAIN_PORT, packet, rules, three_hosts};
use catena_model::DropReason;
use catena_model::program::{RuleMatch, RulePlace};
use catena_model::resource::Encapsulation;

/// Chain `c` leads S's packets through v1 and v4; chain `own` begins at v1's way out, takes every
/// packet of either port, and leads it through v3 to E.
fn rig(encapsulation: Encapsulation, is_on_path: bool) -> Rig {
    let mut town = three_hosts();
    town.endpoint("E", 2, INTERNAL, &["10.1.0.9"]);
    for (name, address) in [("v1.in", "10.0.0.77"), ("v1.out", "10.1.0.77")] {
        let port = town.ports.iter_mut().find(|port| port.name == name).unwrap();
        port.addresses = vec![address.parse().unwrap()];
    }
    let place = RulePlace::Port(town.port_named("v1.out").id);
    let both = [rules(CHAINED_PORT), rules(PLAIN_PORT)].concat();
    let own: Vec<_> = both.into_iter().map(|rule| RuleMatch { place, ..rule }).collect();
    if is_on_path {
        town.chain("c", encapsulation, &[&["v1"], &["v4"]], &rules(CHAINED_PORT));
    }
    town.chain("own", encapsulation, &[&["v3"]], &own).destination = INTERNAL;
    Rig::new(town)
}

/// What v1 sends from an address by its way out.
fn from(rig: &Rig, source: &str) -> Spec {
    Spec {
        source_mac: rig.town.mac("v1.out"),
        destination_mac: rig.town.mac("E"),
        source: source.parse().unwrap(),
        destination: "10.1.0.9".parse().unwrap(),
        ..packet(&rig.town, PLAIN_PORT)
    }
}

#[test]
fn what_a_function_sends_of_its_own_enters_the_chain_that_begins_at_its_port() {
    for encapsulation in Encapsulation::ALL {
        let mut rig = rig(encapsulation, true);
        // By an address of either of its ports.
        for source in ["10.1.0.77", "10.0.0.77"] {
            let frame = from(&rig, source).frame();
            rig.send("v1.out", &frame);
            let met = (rig.take("v3.in").len(), rig.take("v4.in").len(), rig.take("E").len());
            assert_eq!(met, (1, 0, 1), "{source} by {encapsulation:?}");
        }
        // What no path expects and the function cannot have made begins nowhere.
        rig.moved();
        let forged = from(&rig, "10.0.0.1").frame();
        rig.send("v1.out", &forged);
        rig.assert_only_dropped("v1.out", DropReason::UnknownReturn);
        // An ICMP error of somebody else passes as before, and begins nowhere either.
        let error = Spec {
            protocol: catena_wire::scalar::IpProtocol::ICMP,
            payload: vec![11, 0, 0, 0, 0, 0, 0, 0],
            ..from(&rig, "10.0.0.1")
        };
        rig.send("v1.out", &error.frame());
        assert_eq!((rig.take("v3.in").len(), rig.take("E").len()), (0, 1));
    }
}

#[test]
fn what_a_function_gives_back_goes_on_in_its_path_though_a_chain_begins_there() {
    let mut rig = rig(Encapsulation::Nsh, true);
    for _ in 0..3 {
        let frame = packet(&rig.town, CHAINED_PORT).frame();
        rig.send("S", &frame);
        let met = (rig.take("v1.in").len(), rig.take("v3.in").len(), rig.take("v4.in").len());
        assert_eq!((met, rig.take("D").len()), ((1, 0, 1), 1));
    }
}

#[test]
fn a_chain_begins_at_a_function_that_no_path_goes_through_yet() {
    let mut rig = rig(Encapsulation::Nsh, false);
    let frame = from(&rig, "10.1.0.77").frame();
    rig.send("v1.out", &frame);
    assert_eq!((rig.take("v3.in").len(), rig.take("E").len()), (1, 1));
}

#[test]
fn fragments_of_a_functions_own_enter_together_whatever_their_order() {
    for is_on_path in [true, false] {
        let mut rig = rig(Encapsulation::Nsh, is_on_path);
        let of = |fragment, payload: &[u8]| Spec {
            fragment,
            payload: payload.to_vec(),
            ..from(&rig, "10.1.0.77")
        };
        let (first, later) = (of((0, true), &[1; 16]).frame(), of((3, false), b"later").frame());
        rig.send("v1.out", &later);
        assert_eq!(rig.take("E").len(), 0, "it waits");
        rig.send("v1.out", &first);
        assert_eq!((rig.take("v3.in").len(), rig.take("E").len()), (2, 2), "{is_on_path}");
    }
}
