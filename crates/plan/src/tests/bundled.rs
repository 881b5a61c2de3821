//! Bundled functions on paths: where they stand, what they are made of, and what a change of that is.

#![allow(clippy::unwrap_used)]

use super::rig::{CUSTOMER, INTERNAL, World, id, node};
use catena_model::PathId;
use catena_model::bundle::Configuration;
use catena_model::id::FunctionId;
use catena_model::instance::Door;
use catena_model::limits::NODE_FUNCTIONS_MAX;
use catena_model::resource::{FunctionTemplate, Runs};
use catena_model::status::ChainState;
use serde_json::{Map, Value, json};

/// Source m1 on host1, destination m2 on host3; functions v11 (host1) and v12 (host2).
fn testbed() -> World {
    let mut world = World::new(3);
    world.machine(1, 1, &[CUSTOMER]);
    world.machine(2, 3, &[CUSTOMER]);
    for (function, host) in [(11, 1), (12, 2)] {
        world.machine(function, host, &[CUSTOMER, INTERNAL]);
        world.function(function, function, CUSTOMER, INTERNAL);
    }
    world.settle();
    world
}

/// Makes a function a monitor of this domain.
pub(super) fn bundle(world: &mut World, function: u32, domain: u32) {
    let Value::Object(config) = json!({"domain": domain}) else { unreachable!() };
    let template = FunctionTemplate {
        runs: Runs::Bundled("monitor".into()),
        door: Door::default(),
        config,
        networks: Vec::new(),
        cpu_milli: None,
        memory_mib: None,
        priority: None,
        bandwidth_mbit: None,
        delay_us: None,
        instances: 1,
        labels: Default::default(),
        on: Default::default(),
    };
    let function = FunctionId(id(5, function));
    world.intent.functions.get_mut(&function).unwrap().template = Some(template);
}

/// The members that a node knows: path, hop, direction, and the domain of each monitor.
fn members(world: &World, host: u32) -> Vec<(PathId, u16, bool, u64)> {
    let program = world.blueprint.program(&node(host)).unwrap();
    let domain = |configuration: &Configuration| {
        assert_eq!(configuration.kind, "monitor");
        let config: Map<String, Value> = serde_json::from_str(&configuration.config).unwrap();
        config["domain"].as_u64().unwrap()
    };
    let known = program.members.iter().map(|member| {
        let is_it = |id| id == member.configuration;
        let mut all = program.configurations.iter();
        let entry = all.find(|entry| is_it(entry.configuration.id())).unwrap();
        (member.path, member.hop, member.is_backward, domain(&entry.configuration))
    });
    let known = known.collect();
    let named = |id| program.members.iter().any(|member| member.configuration == id);
    assert!(program.configurations.iter().all(|entry| named(entry.configuration.id())));
    known
}

#[test]
fn the_nodes_that_run_a_bundled_function_know_what_it_is_made_of() {
    let mut world = testbed();
    bundle(&mut world, 12, 7);
    let chain = world.chain(1, 1, &[11, 12]);
    world.settle();
    assert_eq!(members(&world, 2), [(PathId(1), 1, false, 7)]);
    assert!(members(&world, 1).is_empty() && members(&world, 3).is_empty());
    world.intent.chains.remove(&chain);
    world.settle();
    world.drain_all();
    world.settle();
    assert!(members(&world, 2).is_empty(), "nobody needs it any more");
}

#[test]
fn the_way_back_leads_through_it_backward() {
    let mut world = testbed();
    bundle(&mut world, 12, 7);
    let chain = world.chain(1, 1, &[11, 12]);
    let rule = world.intent.chains[&chain].rules[0];
    let destination = super::rig::port_id(2, CUSTOMER);
    world.intent.rules.get_mut(&rule).unwrap().destination_port = Some(destination);
    world.intent.chains.get_mut(&chain).unwrap().is_symmetric = true;
    world.settle();
    assert_eq!(members(&world, 2), [(PathId(1), 1, false, 7), (PathId(2), 0, true, 7)]);
}

#[test]
fn another_configuration_is_another_path_and_both_stand_until_the_former_has_drained() {
    let mut world = testbed();
    bundle(&mut world, 12, 7);
    let chain = world.chain(1, 1, &[12]);
    world.settle();
    bundle(&mut world, 12, 8);
    world.settle();
    assert_eq!(members(&world, 2), [(PathId(1), 0, false, 7), (PathId(2), 0, false, 8)]);
    assert_eq!(world.classified(1), [PathId(2)]);
    assert_eq!(world.status(chain).path, Some(PathId(2)));
    world.drain_all();
    world.settle();
    assert_eq!(members(&world, 2), [(PathId(2), 0, false, 8)]);
    // The same again is no change.
    bundle(&mut world, 12, 8);
    assert_eq!(world.plan(), 0);
    let stored = super::stored::stored(&world.blueprint.ledger);
    assert_eq!(stored.paths[&PathId(2)].members, world.blueprint.ledger.paths[&PathId(2)].members);
}

#[test]
fn chains_with_the_same_configuration_share_it() {
    let mut world = testbed();
    bundle(&mut world, 12, 7);
    let one = world.chain(1, 1, &[12]);
    world.chain(2, 1, &[11, 12]);
    world.settle();
    assert_eq!(members(&world, 2), [(PathId(1), 0, false, 7), (PathId(2), 1, false, 7)]);
    assert_eq!(world.blueprint.program(&node(2)).unwrap().configurations.len(), 1);
    world.intent.chains.remove(&one);
    world.settle();
    world.drain_all();
    world.settle();
    assert_eq!(members(&world, 2), [(PathId(2), 1, false, 7)]);
}

#[test]
fn a_node_that_runs_as_many_as_it_can_waits_for_former_paths_to_drain() {
    let mut world = testbed();
    bundle(&mut world, 12, 0);
    let chain = world.chain(1, 1, &[12]);
    world.settle();
    // Nothing drains: each change leaves a path behind.
    for domain in 1..NODE_FUNCTIONS_MAX as u64 + 3 {
        bundle(&mut world, 12, u32::try_from(domain).unwrap());
        world.settle();
    }
    assert_eq!(members(&world, 2).len(), NODE_FUNCTIONS_MAX);
    let newest = members(&world, 2).last().unwrap().3;
    assert_eq!(newest, NODE_FUNCTIONS_MAX as u64 - 1, "the last one that there was room for");
    assert_eq!(world.classified(1).len(), 1, "whose path goes on meanwhile");
    world.drain_all();
    world.settle();
    let left = members(&world, 2);
    assert!(left.iter().any(|member| member.3 == NODE_FUNCTIONS_MAX as u64 + 2), "{left:?}");
    assert_eq!(world.status(chain).state, ChainState::Active);
}
