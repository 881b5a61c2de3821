//! Chains whose packets take telemetry along: what they wait for, which paths they have, and by which numbers their
//! nodes are known.
#![allow(clippy::unwrap_used)]

use super::locators::{BOTH, FUNCTION, waits, world};
use super::rig::{CUSTOMER, INTERNAL, World, id, node, segments};
use crate::{IndexedIntent, compare};
use catena_model::PathId;
use catena_model::id::{ChainId, FunctionId, InstanceId};
use catena_model::resource::{Encapsulation, FlowField, PortBounds, TupleMapping, TuplePattern};
use catena_model::status::ChainState;
use catena_model::telemetry::{DeviceId, TELEMETRY_SINCE_PROTOCOL, Telemetry, TelemetryField};
use std::num::NonZeroU32;
use std::sync::Arc;

/// The same with telemetry.
fn measured(by: Encapsulation, functions: &[u32]) -> (World, ChainId) {
    let (mut world, chain) = world(by, functions);
    world.intent.chains.get_mut(&chain).unwrap().telemetry = Some(Telemetry::default());
    (world, chain)
}

fn is_active(world: &World, chain: ChainId) {
    let status = world.status(chain);
    assert_eq!(status.state, ChainState::Active, "{}", status.reason);
}

fn set_mtu(world: &mut World, mtu: u16) {
    let networks: Vec<_> = world.intent.networks.keys().copied().collect();
    for network in networks {
        world.intent.networks.get_mut(&network).unwrap().mtu = mtu;
    }
}

/// What a node is told a path's packets take along.
fn told(world: &World, number: u32, path: PathId) -> Option<Telemetry> {
    let program = world.blueprint.program(&node(number)).unwrap();
    program.paths.iter().find(|known| known.id == path).unwrap().telemetry.clone()
}

#[test]
fn another_telemetry_is_another_path_and_every_node_of_it_is_told() {
    let (mut world, chain) = world(Encapsulation::Srv6, &[12, 13]);
    world.settle();
    let some = Telemetry {
        fields: [TelemetryField::Latency].into(),
        mirror: NonZeroU32::MIN,
        ..Telemetry::default()
    };
    let changes = [Some(Telemetry::default()), Some(some), None];
    for (telemetry, path) in changes.into_iter().zip(2..) {
        world.intent.chains.get_mut(&chain).unwrap().telemetry.clone_from(&telemetry);
        world.plan();
        assert_eq!(world.classified(1), [PathId(path - 1)], "before everybody knows the other one");
        world.settle_with_acknowledgements();
        assert_eq!(world.classified(1), [PathId(path)]);
        for number in [1, 2, 3] {
            assert_eq!(told(&world, number, PathId(path)), telemetry, "host{number}");
        }
    }
    world.restart();
    world.settle();
    assert_eq!(world.classified(1), [PathId(4)]);
}

#[test]
fn a_chain_with_telemetry_waits_for_nodes_that_know_none() {
    for by in BOTH {
        let (mut world, chain) = measured(by, &[12, 13]);
        set_mtu(&mut world, 1_390);
        for old in [1, 2, 3] {
            world.inventory.nodes.get_mut(&node(old)).unwrap().protocol =
                TELEMETRY_SINCE_PROTOCOL - 1;
            world.settle();
            let name = format!("node 'host{old}'");
            waits(&world, chain, &[&name, "knows no telemetry", "bring it up to date"]);
            world.inventory.nodes.get_mut(&node(old)).unwrap().protocol = TELEMETRY_SINCE_PROTOCOL;
        }
        // Of a node that is not on its way nothing is asked, and without telemetry of none.
        world.inventory.nodes.get_mut(&node(5)).unwrap().protocol = TELEMETRY_SINCE_PROTOCOL - 1;
        world.settle();
        is_active(&world, chain);
        let facts = world.inventory.nodes.get_mut(&node(3)).unwrap();
        facts.protocol = TELEMETRY_SINCE_PROTOCOL - 1;
        world.intent.chains.get_mut(&chain).unwrap().telemetry = None;
        world.settle();
        world.drain_all();
        world.settle();
        is_active(&world, chain);
    }
}

/// The node that packets enter at is a hop where it serves the first function.
#[test]
fn a_first_function_beside_the_source_takes_its_segment_with_telemetry() {
    let mut world = World::new(5);
    world.machine(1, 1, &[CUSTOMER]);
    for (machine, on) in [(11, 1), (12, 2), (13, 3)] {
        world.machine(machine, on, &[CUSTOMER, INTERNAL]);
        world.function(machine, machine, CUSTOMER, CUSTOMER);
    }
    let chain = world.chain(1, 1, &[11, 12, 13]);
    let declared = world.intent.chains.get_mut(&chain).unwrap();
    declared.encapsulation = Encapsulation::Srv6;
    declared.telemetry = Some(Telemetry::default());
    world.settle();
    waits(&world, chain, &["a header of 3 segments", "MTU of 1396"]);
    set_mtu(&mut world, 1_396);
    world.settle();
    is_active(&world, chain);
}

#[test]
fn a_chain_with_telemetry_that_would_not_fit_says_which_mtu_would() {
    // 56 bytes, 16 for each segment, and 14 of a frame that is carried whole: without telemetry both would fit.
    for (by, functions, fits) in [
        (Encapsulation::Srv6, &[12, 13, 12][..], 1_396),
        (Encapsulation::Srv6Ethernet, &[12, 13], 1_398),
    ] {
        let (mut world, chain) = measured(by, functions);
        world.settle();
        let (mtu, underlay) = (format!("MTU of {fits}"), format!("one of {}", 2_900 - fits));
        waits(&world, chain, &["network 'customer'", &mtu, &underlay]);
        set_mtu(&mut world, fits);
        world.settle();
        is_active(&world, chain);
        set_mtu(&mut world, 1_400);
        world.intent.chains.get_mut(&chain).unwrap().telemetry = None;
        world.settle();
        is_active(&world, chain);
    }
}

/// Gives a function a second instance, on the fifth host.
fn widen(world: &mut World, function: u32) {
    world.machine(15, 5, &[CUSTOMER]);
    world.function(15, 15, CUSTOMER, CUSTOMER);
    let function = FunctionId(id(FUNCTION, function));
    let second = InstanceId(id(4, 15));
    world.intent.functions.get_mut(&function).unwrap().instances.push(second);
}

#[test]
fn a_chain_with_telemetry_waits_where_one_header_does_not_lead_to_the_end() {
    let function = |number| FunctionId(id(FUNCTION, number));
    let (mut world, chain) = measured(Encapsulation::Srv6, &[12, 13]);
    widen(&mut world, 13);
    world.intent.functions.get_mut(&function(13)).unwrap().balance = vec![FlowField::IpSrc];
    world.settle();
    waits(&world, chain, &["function 'v13'", "one header", "choose by flows", "'telemetry': null"]);
    world.intent.functions.get_mut(&function(13)).unwrap().balance = Vec::new();
    world.settle();
    is_active(&world, chain);

    let (mut world, chain) = measured(Encapsulation::Srv6, &[12, 13]);
    let rewrites = TupleMapping {
        egress: TuplePattern {
            source_ports: PortBounds { min: Some(7), max: Some(7) },
            ..TuplePattern::default()
        },
        ..TupleMapping::default()
    };
    world.intent.functions.get_mut(&function(12)).unwrap().mapping = rewrites;
    world.settle();
    waits(&world, chain, &["function 'v12' rewrites", "let it be the last", "'telemetry': null"]);
    // The last one may.
    world.intent.chains.get_mut(&chain).unwrap().functions.reverse();
    world.settle();
    is_active(&world, chain);
}

#[test]
fn a_chain_with_telemetry_whose_packets_pass_no_function_says_so() {
    let (mut world, chain) = measured(Encapsulation::Srv6, &[12]);
    let function = FunctionId(id(FUNCTION, 12));
    world.intent.functions.get_mut(&function).unwrap().is_tap = true;
    world.settle();
    waits(&world, chain, &["packets pass no function"]);
}

#[test]
fn nodes_with_a_place_have_numbers_that_outlive_a_restart() {
    let (mut world, chain) = measured(Encapsulation::Srv6, &[12, 13]);
    world.inventory.nodes.get_mut(&node(2)).unwrap().segments = None;
    world.settle();
    let numbers = |world: &World| {
        [1, 2, 3, 4, 5]
            .map(|number| world.blueprint.ledger.device_of(&node(number)).map(|device| device.0))
    };
    assert_eq!(numbers(&world), [Some(1), None, Some(2), Some(3), Some(4)]);
    world.inventory.nodes.get_mut(&node(2)).unwrap().segments = Some(segments(2));
    world.inventory.nodes.get_mut(&node(4)).unwrap().segments = None;
    world.settle();
    let expected = [Some(1), Some(5), Some(2), None, Some(4)];
    assert_eq!(numbers(&world), expected);
    world.restart();
    world.settle();
    assert_eq!(numbers(&world), expected);
    is_active(&world, chain);
    // What host4 had is still its own.
    world.inventory.nodes.get_mut(&node(4)).unwrap().segments = Some(segments(4));
    world.settle();
    assert_eq!(numbers(&world), [1, 5, 2, 3, 4].map(Some));
    let locators = super::fabric::programs(&world)[&node(1)].locators.clone();
    let told: Vec<_> = locators.into_iter().map(|one| (one.node, one.device)).collect();
    let all = [(1, 1), (2, 5), (3, 2), (4, 3), (5, 4)];
    assert_eq!(told, all.map(|(host, device)| (node(host), Some(DeviceId(device)))));
}

#[test]
fn two_nodes_of_one_number_carry_no_telemetry_together() {
    let (mut world, chain) = measured(Encapsulation::Srv6, &[12, 13]);
    let given = serde_json::json!({"given": {
        "host1": 1, "host2": 7, "host3": 7, "host4": 7, "host5": 5,
    }});
    let ledger = Arc::make_mut(&mut world.blueprint.ledger);
    ledger.devices = Arc::new(serde_json::from_value(given).unwrap());
    world.settle();
    waits(&world, chain, &["'host2'", "'host3'", "one number in telemetry, 7", "--locator"]);
    // As it says: one of them goes and comes back.
    world.inventory.nodes.get_mut(&node(3)).unwrap().segments = None;
    world.settle();
    world.inventory.nodes.get_mut(&node(3)).unwrap().segments = Some(segments(3));
    world.settle();
    is_active(&world, chain);
}

#[test]
fn a_chain_with_telemetry_is_compared_with_it_where_there_is_room_and_without_elsewhere() {
    let (mut world, chain) = measured(Encapsulation::Srv6, &[12, 13]);
    set_mtu(&mut world, 1_390);
    world.settle();
    let all = [Encapsulation::Nsh, Encapsulation::Srv6, Encapsulation::Srv6Ethernet];
    let to = |world: &World, function: &str| {
        let intent = IndexedIntent::from(world.intent.clone());
        let chain = intent.chains.get(&chain).unwrap().clone();
        let compared = compare(&world.blueprint, &intent, &world.inventory, &chain, &all);
        let first = compared.iter().map(|one| {
            let legs = one.legs.iter().find(|leg| leg.function == function);
            legs.map_or_else(|| panic!("{one:?}"), |leg| leg.added_bytes)
        });
        first.collect::<Vec<usize>>()
    };
    // With records a header keeps its length, without them it gets shorter.
    assert_eq!(to(&world, "v12")[1..], [88, 102]);
    assert_eq!(to(&world, "v13")[1..], [88, 102]);
    let nsh = to(&world, "v12")[0];
    world.intent.chains.get_mut(&chain).unwrap().telemetry = None;
    world.settle();
    assert_eq!(to(&world, "v12"), [nsh, 80, 94]);
    assert_eq!(to(&world, "v13"), [nsh, 64, 78]);
}
