//! Which flows stay on a former path, from when on and until when.

#![allow(clippy::unwrap_used)]

use super::rig::{CUSTOMER, World, id, node};
use crate::Blueprint;
use catena_model::PathId;
use catena_model::id::{ChainId, FunctionId, InstanceId};
use catena_model::limits::{PIN_IDLE_DRAINING_MS, PIN_IDLE_REWRITING_MS};
use catena_model::program::PinEntry;

const SHARED: InstanceId = InstanceId(id_of(11));

const fn id_of(number: u128) -> uuid::Uuid {
    uuid::Uuid::from_u128((4 << 64) | number)
}

/// Source m1 on host1; functions v11 (host1), v12 (host2), v13 (host3); a chain over v11 and v12.
fn testbed() -> (World, ChainId) {
    let mut world = World::new(3);
    world.machine(1, 1, &[CUSTOMER]);
    for (function, host) in [(11, 1), (12, 2), (13, 3)] {
        world.machine(function, host, &[CUSTOMER]);
        world.function(function, function, CUSTOMER, CUSTOMER);
    }
    let chain = world.chain(1, 1, &[11, 12]);
    world.settle();
    (world, chain)
}

fn functions(world: &mut World, chain: ChainId, functions: &[u32]) {
    let ids = functions.iter().map(|function| FunctionId(id(5, *function)));
    world.intent.chains.get_mut(&chain).unwrap().functions = ids.collect();
}

fn pins(blueprint: &Blueprint, host: u32) -> Vec<PinEntry> {
    blueprint.program(&node(host)).unwrap().pins.clone()
}

fn pin(old: u32, new: u32, idle_ms: u32) -> PinEntry {
    PinEntry { old: PathId(old), new: PathId(new), instances: vec![SHARED], idle_ms }
}

#[test]
fn flows_of_a_function_that_changes_bytes_stay_from_before_the_turn_until_they_have_ended() {
    let (mut world, chain) = testbed();
    world.inventory.rewriting.insert(SHARED);
    functions(&mut world, chain, &[11, 13]);
    let expected = [pin(1, 2, PIN_IDLE_REWRITING_MS)];
    assert_eq!(world.plan(), 1);
    assert_eq!(pins(&world.blueprint, 1), expected, "known before the rule turns");
    assert_eq!(world.classified(1), [PathId(1)]);
    world.settle_with_acknowledgements();
    assert_eq!(world.classified(1), [PathId(2)]);
    assert_eq!(pins(&world.blueprint, 1), expected);
    assert!(pins(&world.blueprint, 2).is_empty(), "who classifies nothing keeps nothing");
    // As long as flows are kept on it, no count can make it empty.
    world.drain_all();
    world.settle();
    assert_eq!(world.known(1), [PathId(1), PathId(2)]);
    world.inventory.drained.clear();
    world.inventory.unpinned.insert(PathId(1));
    assert_eq!(world.plan(), 1);
    assert!(pins(&world.blueprint, 1).is_empty());
    world.drain_all();
    world.inventory.unpinned.clear();
    assert_eq!(world.plan(), 0, "host1 may still send flows into it");
    world.settle_with_acknowledgements();
    assert_eq!(world.known(1), [PathId(2)]);
}

#[test]
fn nothing_stays_for_functions_that_keep_bytes_or_are_left_out_or_aware() {
    for prepare in [
        |_: &mut World| {},
        |world: &mut World| {
            world.inventory.rewriting.insert(InstanceId(id_of(12)));
        },
        |world: &mut World| {
            world.inventory.rewriting.insert(SHARED);
            let instance = world.intent.instances.get_mut(&SHARED).unwrap();
            instance.speaks = Some(catena_model::resource::Encapsulation::Nsh);
            world.settle();
            world.drain_all();
            world.settle();
        },
    ] {
        let (mut world, chain) = testbed();
        prepare(&mut world);
        functions(&mut world, chain, &[11, 13]);
        world.settle();
        assert!(world.history.iter().all(|blueprint| pins(blueprint, 1).is_empty()));
    }
}

#[test]
fn a_second_update_keeps_what_the_first_one_left_on_the_oldest_path() {
    let (mut world, chain) = testbed();
    world.inventory.rewriting.insert(SHARED);
    functions(&mut world, chain, &[11, 13]);
    world.settle();
    functions(&mut world, chain, &[13, 11]);
    world.plan();
    let both = [
        pin(1, 2, PIN_IDLE_REWRITING_MS),
        pin(1, 3, PIN_IDLE_REWRITING_MS),
        pin(2, 3, PIN_IDLE_REWRITING_MS),
    ];
    assert_eq!(pins(&world.blueprint, 1), both, "rules still send into the second");
    world.settle_with_acknowledgements();
    assert_eq!(pins(&world.blueprint, 1), both[1..]);
    world.intent.chains.remove(&chain);
    world.settle();
    assert!(pins(&world.blueprint, 1).is_empty(), "without a rule no flow is kept anywhere");
    world.drain_all();
    world.settle();
    assert!(world.blueprint.ledger.paths.is_empty());
}

#[test]
fn an_instance_that_drains_takes_no_new_flow_and_keeps_those_it_has() {
    let (mut world, _) = testbed();
    let sibling = InstanceId(id_of(13));
    let function = FunctionId(id(5, 11));
    world.intent.functions.get_mut(&function).unwrap().instances.push(sibling);
    world.settle();
    world.drain_all();
    world.settle();
    assert_eq!(world.classified(1), [PathId(2)]);
    let weights = |world: &World, path: u32| {
        let hops = &world.blueprint.ledger.paths[&PathId(path)].hops;
        hops[0].instances.iter().map(|instance| instance.weight).collect::<Vec<_>>()
    };
    world.intent.instances.get_mut(&SHARED).unwrap().is_draining = true;
    world.settle();
    assert_eq!((weights(&world, 2), weights(&world, 3)), (vec![1, 1], vec![0, 1]));
    assert_eq!(pins(&world.blueprint, 1), [pin(2, 3, PIN_IDLE_DRAINING_MS)]);
    // Taken back: new flows may come again, and nothing needs to stay where it was.
    world.intent.instances.get_mut(&SHARED).unwrap().is_draining = false;
    world.settle();
    assert_eq!(weights(&world, 4), [1, 1]);
    assert_eq!(pins(&world.blueprint, 1), [pin(2, 4, PIN_IDLE_DRAINING_MS)]);
}

#[test]
fn the_only_instance_of_a_function_goes_on_though_it_drains() {
    let (mut world, _) = testbed();
    world.intent.instances.get_mut(&SHARED).unwrap().is_draining = true;
    assert_eq!(world.plan(), 0);
}
