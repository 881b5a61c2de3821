//! Chains whose packets visit segments of others: what nodes are told, what it takes of headers, and what is refused.

use super::locators::{BOTH, FUNCTION, waits, world};
use super::rig::{CUSTOMER, World, id, node, segments};
use crate::check::tests::check;
use catena_model::id::{ChainId, FunctionId};
use catena_model::program::VIA_SINCE_PROTOCOL;
use catena_model::resource::{Encapsulation, FailurePolicy};
use catena_model::status::ChainState;
use std::net::Ipv6Addr;

const ROUTER: &str = "fc00:0:99::e";

fn lead(world: &mut World, chain: ChainId, function: u32, segments: &[&str]) {
    let segments = segments.iter().map(|text| text.parse().unwrap()).collect();
    let chain = world.intent.chains.get_mut(&chain).unwrap();
    chain.via.insert(FunctionId(id(FUNCTION, function)), segments);
}

/// A world whose packets leave room for many segments.
fn roomy(by: Encapsulation, functions: &[u32]) -> (World, ChainId) {
    let (mut world, chain) = world(by, functions);
    let networks: Vec<_> = world.intent.networks.keys().copied().collect();
    for network in networks {
        world.intent.networks.get_mut(&network).unwrap().mtu = 1_300;
    }
    (world, chain)
}

fn is_active(world: &World, chain: ChainId) {
    let status = world.status(chain);
    assert_eq!((status.state, status.reason.as_str()), (ChainState::Active, ""));
}

/// The segments on the way to each hop, by the direction.
fn told(world: &World, chain: ChainId) -> Vec<Vec<Vec<Ipv6Addr>>> {
    let ways = world.blueprint.ledger.current(chain);
    ways.map(|(_, path)| path.hops.iter().map(|hop| hop.via.clone()).collect()).collect()
}

#[test]
fn nodes_are_told_of_segments_on_the_way_there_and_of_none_on_the_way_back() {
    for by in BOTH {
        let (mut world, chain) = roomy(by, &[12, 13]);
        lead(&mut world, chain, 13, &[ROUTER]);
        world.settle();
        is_active(&world, chain);
        let router: Ipv6Addr = ROUTER.parse().unwrap();
        assert_eq!(told(&world, chain), [[vec![], vec![router]]]);
        // Other segments are another path.
        let former = world.status(chain).path;
        lead(&mut world, chain, 13, &["fc00:0:98::e", ROUTER]);
        world.settle();
        world.drain_all();
        world.settle();
        is_active(&world, chain);
        assert_ne!(world.status(chain).path, former);
        world.intent.chains.get_mut(&chain).unwrap().via.clear();
        world.settle();
        world.drain_all();
        world.settle();
        assert_eq!(told(&world, chain), [[Vec::<Ipv6Addr>::new(), vec![]]]);
    }
}

#[test]
fn segments_on_the_way_take_room_in_headers() {
    let (mut world, chain) = world(Encapsulation::Srv6, &[12, 13]);
    // 48 bytes and 16 of each segment leave 1,388 of 1,500.
    lead(&mut world, chain, 12, &[ROUTER]);
    lead(&mut world, chain, 13, &["fc00:0:98::e"]);
    world.settle();
    waits(&world, chain, &["4 segments", "MTU of 1388", "one of 1512"]);
    let many: Vec<String> = (0..15).map(|number| format!("fc00:0:{number:x}::e")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    lead(&mut world, chain, 12, &many);
    world.settle();
    waits(&world, chain, &["a header of 18 segments", "room for 16", "'via'"]);
}

#[test]
fn packets_that_would_come_past_their_segments_are_not_let_in() {
    for (function, functions, host) in [
        // The function before, and the endpoint, on the same host.
        (15, &[12, 15][..], "host2"),
        (16, &[16], "host1"),
    ] {
        let (mut world, chain) = world(Encapsulation::Srv6, functions);
        for (machine, on) in [(15, 2), (16, 1)] {
            world.machine(machine, on, &[CUSTOMER]);
            world.function(machine, machine, CUSTOMER, CUSTOMER);
        }
        world.settle();
        is_active(&world, chain);
        lead(&mut world, chain, function, &[ROUTER]);
        world.settle();
        let status = world.status(chain);
        for part in [host, "without leaving", "'via'"] {
            assert!(status.reason.contains(part), "no '{part}' in '{}'", status.reason);
        }
    }
    // Whoever passes a function by that has died comes from the one before.
    let (mut world, chain) = roomy(Encapsulation::Srv6, &[12, 13, 15]);
    world.machine(15, 2, &[CUSTOMER]);
    world.function(15, 15, CUSTOMER, CUSTOMER);
    lead(&mut world, chain, 15, &[ROUTER]);
    world.settle();
    is_active(&world, chain);
    let passed = FunctionId(id(FUNCTION, 13));
    world.intent.functions.get_mut(&passed).unwrap().on_failure = FailurePolicy::Bypass;
    world.settle();
    let status = world.status(chain);
    assert!(status.reason.contains("node 'host2'"), "{}", status.reason);
}

#[test]
fn nodes_that_know_none_and_segments_that_are_theirs_are_named() {
    let (mut world, chain) = world(Encapsulation::Srv6, &[12, 13]);
    lead(&mut world, chain, 13, &[ROUTER]);
    for number in [2, 3] {
        let facts = world.inventory.nodes.get_mut(&node(number)).unwrap();
        let protocol = std::mem::replace(&mut facts.protocol, VIA_SINCE_PROTOCOL - 1);
        world.settle();
        waits(&world, chain, &[&format!("node 'host{number}'"), "bring it up to date"]);
        world.inventory.nodes.get_mut(&node(number)).unwrap().protocol = protocol;
    }
    let below = Ipv6Addr::from(u128::from(segments(5).locator.address()) | 0xe);
    for own in [below, segments(5).address] {
        lead(&mut world, chain, 13, &[ROUTER, &own.to_string()]);
        world.settle();
        waits(&world, chain, &[&format!("segment '{own}'"), "node 'host5'", "somebody else"]);
    }
}

#[test]
fn what_nobody_could_visit_is_refused_by_name() {
    let refused = |by, segments: &[&str], words: &[&str]| {
        let (mut world, chain) = world(by, &[12, 13]);
        lead(&mut world, chain, 13, segments);
        let refusal = check(&world.intent).unwrap_err().to_string();
        for word in words {
            assert!(refusal.contains(word), "no '{word}' in '{refusal}'");
        }
    };
    for by in Encapsulation::ALL.into_iter().filter(|by| !by.capabilities().visits_others) {
        refused(by, &[ROUTER], &[by.name(), "'via': {}", "srv6, srv6/ethernet"]);
    }
    let by = Encapsulation::Srv6;
    refused(by, &[], &["names none"]);
    for address in ["::", "::1", "ff02::1", "fe80::1", "::ffff:10.0.0.1", "1fb3:2:123::1"] {
        refused(by, &[ROUTER, address], &[&format!("{address} is of no router")]);
    }
    refused(by, &[ROUTER; 16], &["they are 16", "room for 16"]);
    let (mut world, chain) = world(by, &[12, 13]);
    lead(&mut world, chain, 14, &[ROUTER]);
    let refusal = check(&world.intent).unwrap_err().to_string();
    assert!(refusal.contains("no function of the chain"), "{refusal}");
    world.intent.chains.get_mut(&chain).unwrap().via.clear();
    lead(&mut world, chain, 13, &[ROUTER]);
    world.intent.functions.get_mut(&FunctionId(id(FUNCTION, 13))).unwrap().is_tap = true;
    let refusal = check(&world.intent).unwrap_err().to_string();
    assert!(refusal.contains("it gets copies"), "{refusal}");
}
