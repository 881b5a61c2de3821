//! What goes to everybody in a network: each station gets it once, whatever functions repeat.

use crate::proxy::arp_request;
use crate::rig::{Behaviour, Rig};
use crate::scene::{CHAINED_PORT, CUSTOMER, rules, three_hosts};
use crate::town::Town;
use catena_model::resource::Encapsulation;

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
