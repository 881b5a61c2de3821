//! What a change of one chain does to the flows of others in the kernel, which is nothing, and what a
//! port that leaves does to its own.

use crate::differential::with_interfaces;
use crate::packets::Sent;
use crate::scene::{packet, rules, three_hosts};
use crate::twin::{Report, Twin};
use catena_io::Offload;
use catena_model::program::PortRole;
use catena_model::resource::Encapsulation::{Mpls, Nsh};

const PORTS: usize = 10;
/// Packets after which a flow is the kernel's.
const TIMES: usize = 4;
/// The destination ports of the chain that changes, of another, and of one that comes.
const CHANGED: u16 = 5_001;
const OTHER: u16 = 5_002;
const NEW: u16 = 5_003;
/// Flows that choose between two instances.
const FLOWS: u16 = 16;

/// What became of each frame of the flow to a port, at its source and behind its functions.
fn outcomes(twin: &mut Twin, port: u16) -> Vec<String> {
    let bytes = packet(&twin.town, port).frame();
    twin.follow(Sent { port: "S".to_owned(), bytes, offload: Offload::default() }).1
}

fn is_carried(outcomes: &[String]) -> bool {
    !outcomes.is_empty() && outcomes.iter().all(|what| what == "carried")
}

fn check(interfaces: &[u32]) {
    let mut town = three_hosts();
    town.chain("changed", Nsh, &[&["v1"]], &rules(CHANGED));
    town.chain("other", Mpls, &[&["v1"], &["v2"]], &rules(OTHER));
    let mut twin = Twin::new(town, 0, interfaces, Report::default());
    for port in [CHANGED, OTHER] {
        let last = (0..TIMES).map(|_| outcomes(&mut twin, port)).last().unwrap();
        assert!(is_carried(&last), "{port}: {last:?}");
    }

    // Another path through other functions.
    twin.town.number += 1;
    twin.town.chains[0].path = 300;
    twin.town.chains[0].hops = vec![vec!["v2".to_owned()]];
    twin.apply();
    assert!(is_carried(&outcomes(&mut twin, OTHER)), "a change of another chain ended its flow");
    assert!(!is_carried(&outcomes(&mut twin, CHANGED)), "it goes on by the former path");

    // A chain more, which takes nothing of it.
    twin.town.number += 1;
    twin.town.chain("new", Nsh, &[&["v1"]], &rules(NEW)).path = 301;
    twin.apply();
    assert!(is_carried(&outcomes(&mut twin, OTHER)), "a new chain ended its flow");

    // One less.
    twin.town.number += 1;
    twin.town.chains.pop();
    twin.apply();
    assert!(is_carried(&outcomes(&mut twin, OTHER)), "the end of another chain ended its flow");
    twin.compare_counters();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_one_chain_ends_no_flow_of_another() {
    let name = "a_change_of_one_chain_ends_no_flow_of_another";
    with_interfaces(name, PORTS, check).await;
}

fn begin_anew(interfaces: &[u32]) {
    let mut town = three_hosts();
    town.chain("c", Nsh, &[&["v1", "v2"]], &rules(CHANGED));
    let mut twin = Twin::new(town, 0, interfaces, Report::default());
    let send = |twin: &mut Twin, flow| {
        let mut spec = packet(&twin.town, CHANGED);
        spec.ports.0 = flow;
        let sent = Sent { port: "S".to_owned(), bytes: spec.frame(), offload: Offload::default() };
        twin.follow(sent).1
    };
    for flow in 1..=FLOWS {
        let last = (0..TIMES).map(|_| send(&mut twin, flow)).last().unwrap();
        assert!(is_carried(&last), "{last:?}");
    }
    // What leaves is compared with what the engine alone decides: other instances for some.
    twin.town.number += 1;
    twin.town.choice_seed = 0x5eed;
    twin.apply();
    for flow in 1..=FLOWS {
        assert!(!is_carried(&send(&mut twin, flow)));
    }
    twin.compare_counters();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_chosen_by_another_seed_is_not_repeated() {
    with_interfaces("what_was_chosen_by_another_seed_is_not_repeated", PORTS, begin_anew).await;
}

/// A chain whose flow is the kernel's.
fn with_one_carried(interfaces: &[u32]) -> Twin {
    let mut town = three_hosts();
    town.chain("changed", Nsh, &[&["v1"]], &rules(CHANGED));
    let mut twin = Twin::new(town, 0, interfaces, Report::default());
    let last = (0..TIMES).map(|_| outcomes(&mut twin, CHANGED)).last().unwrap();
    assert!(is_carried(&last), "{last:?}");
    twin
}

fn leave(interfaces: &[u32]) {
    let mut twin = with_one_carried(interfaces);
    // Nobody has taken the kernel's program from its interface yet.
    twin.town.number += 1;
    twin.town.absent.insert("S".to_owned());
    twin.apply();
    assert_eq!(outcomes(&mut twin, CHANGED), ["miss"], "it has no port to send from");
    twin.compare_counters();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_that_leaves_the_program_sends_no_more_by_the_kernel() {
    let name = "a_port_that_leaves_the_program_sends_no_more_by_the_kernel";
    with_interfaces(name, PORTS, leave).await;
}

fn turn(interfaces: &[u32]) {
    let mut twin = with_one_carried(interfaces);
    // Rules take packets of endpoints.
    twin.town.number += 1;
    let source = twin.town.ports.iter_mut().find(|port| port.name == "S");
    source.unwrap().role = PortRole::Function;
    twin.apply();
    assert!(!is_carried(&outcomes(&mut twin, CHANGED)), "a function's traffic enters the chain");
    twin.compare_counters();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_came_from_an_endpoint_goes_not_on_when_its_port_is_a_functions() {
    let name = "what_came_from_an_endpoint_goes_not_on_when_its_port_is_a_functions";
    with_interfaces(name, PORTS, turn).await;
}
