//! Bundled functions beside each other: which of them are one hop, and what of it each way knows.

#![allow(clippy::unwrap_used)]

use super::bundled::bundle;
use super::rig::{CUSTOMER, INTERNAL, World, id, node, port_id};
use crate::ledger::PathRecord;
use catena_model::PathId;
use catena_model::id::{FunctionId, InstanceId};
use catena_model::program::{HopEntry, NodeProgram};
use catena_model::resource::FailurePolicy;
use std::sync::Arc;

/// Source m1 on host1, destination m2 on host3; functions v11 on host1, v12 to v15 on host2, of which v12 to v14 come
/// with Catena.
fn testbed() -> World {
    let mut world = World::new(3);
    world.machine(1, 1, &[CUSTOMER]);
    world.machine(2, 3, &[CUSTOMER]);
    for (function, host) in [(11, 1), (12, 2), (13, 2), (14, 2), (15, 2)] {
        world.machine(function, host, &[CUSTOMER, INTERNAL]);
        world.function(function, function, CUSTOMER, INTERNAL);
    }
    for function in 12..15 {
        bundle(&mut world, function, function);
    }
    world.settle();
    world
}

fn function(world: &mut World, number: u32) -> &mut catena_model::resource::ServiceFunction {
    world.intent.functions.get_mut(&FunctionId(id(5, number))).unwrap()
}

/// One more instance of a function, on a machine of its own.
fn instance(world: &mut World, of: u32, number: u32, host: u32, weight: u32) {
    world.machine(number, host, &[CUSTOMER, INTERNAL]);
    world.function(number, number, CUSTOMER, INTERNAL);
    let spare = world.intent.functions.remove(&FunctionId(id(5, number))).unwrap();
    let instance = spare.instances[0];
    world.intent.instances.get_mut(&instance).unwrap().weight = weight;
    function(world, of).instances.push(instance);
}

fn path(world: &World, number: u32) -> &PathRecord {
    &world.blueprint.ledger.paths[&PathId(number)]
}

fn names(path: &PathRecord) -> Vec<&str> {
    path.hops.iter().map(|hop| hop.name.as_str()).collect()
}

fn program(world: &World, host: u32) -> NodeProgram {
    world.blueprint.program(&node(host)).unwrap()
}

#[test]
fn functions_beside_each_other_are_one_hop_whichever_way_it_leads() {
    let mut world = testbed();
    let chain = world.chain(1, 1, &[11, 12, 13, 14, 15]);
    let rule = world.intent.chains[&chain].rules[0];
    world.intent.rules.get_mut(&rule).unwrap().destination_port = Some(port_id(2, CUSTOMER));
    world.intent.chains.get_mut(&chain).unwrap().is_symmetric = true;
    world.settle();
    assert_eq!(names(path(&world, 1)), ["v11", "v12, v13, v14", "v15"]);
    assert_eq!(names(path(&world, 2)), ["v15", "v14, v13, v12", "v11"]);
    let ends = |hop: &HopEntry| {
        let one = &hop.instances[0];
        (one.id, one.name.clone(), one.ingress, one.egress)
    };
    // The same instance is chosen both ways, in by the first on the way and out by the last.
    let chosen = InstanceId(id(4, 12));
    let forth = (chosen, "i12, i13, i14".into(), port_id(12, CUSTOMER), port_id(14, INTERNAL));
    let back = (chosen, "i14, i13, i12".into(), port_id(14, INTERNAL), port_id(12, CUSTOMER));
    assert_eq!(ends(&path(&world, 1).hops[1]), forth);
    assert_eq!(ends(&path(&world, 2).hops[1]), back);
    let known: Vec<_> = program(&world, 2)
        .members
        .into_iter()
        .map(|one| (one.path.0, one.hop, one.member, one.function, one.instances[0].ingress))
        .collect();
    let member = |path, member, number: u32, network| {
        (path, 1, member, format!("v{number}"), port_id(number, network))
    };
    let forth = (0..3).zip(12..15).map(|(place, number)| member(1, place, number, CUSTOMER));
    let back = (0..3).zip([14, 13, 12]).map(|(place, number)| member(2, place, number, INTERNAL));
    assert_eq!(known, forth.chain(back).collect::<Vec<_>>());
    // The ports of all of them are there.
    let ports = program(&world, 2).ports;
    for number in 12..16 {
        for network in [CUSTOMER, INTERNAL] {
            assert!(ports.iter().any(|port| port.id == port_id(number, network)), "{number}");
        }
    }
    let told: Vec<(u16, u8, String)> = path(&world, 1)
        .functions()
        .map(|one| (one.hop, one.member, format!("{} {}", one.name, one.instances[0].name)))
        .collect();
    let at = |hop, member, number: u32| (hop, member, format!("v{number} i{number}"));
    assert_eq!(told, [at(0, 0, 11), at(1, 0, 12), at(1, 1, 13), at(1, 2, 14), at(2, 0, 15)]);
}

#[test]
fn who_does_not_pair_up_is_a_hop_of_its_own() {
    let hops = |world: &mut World| {
        world.chain(1, 1, &[12, 13]);
        world.settle();
        path(world, 1).hops.len()
    };
    assert_eq!(hops(&mut testbed()), 1);
    let mut apart = testbed();
    function(&mut apart, 13).on_failure = FailurePolicy::Bypass;
    assert_eq!(hops(&mut apart), 2, "it fails in another way");
    let mut unaware = testbed();
    function(&mut unaware, 13).template = None;
    assert_eq!(hops(&mut unaware), 2, "it is asked by its ports");
    let mut tap = testbed();
    function(&mut tap, 13).is_tap = true;
    assert_eq!(hops(&mut tap), 2, "it gets copies");
    let mut elsewhere = testbed();
    instance(&mut elsewhere, 12, 22, 2, 1);
    instance(&mut elsewhere, 13, 23, 1, 1);
    assert_eq!(hops(&mut elsewhere), 2, "one of its instances is on another node");
    let mut weighed = testbed();
    instance(&mut weighed, 12, 22, 2, 1);
    instance(&mut weighed, 13, 23, 2, 2);
    assert_eq!(hops(&mut weighed), 2, "one of its instances has another share");
    let mut pairs = testbed();
    instance(&mut pairs, 12, 22, 1, 3);
    instance(&mut pairs, 13, 23, 1, 3);
    // The order of declaration says nothing.
    function(&mut pairs, 13).instances.reverse();
    assert_eq!(hops(&mut pairs), 1);
    let nodes = |host| -> Vec<Vec<String>> {
        let members = program(&pairs, host).members.into_iter();
        members.map(|one| one.instances.iter().map(|one| one.name.clone()).collect()).collect()
    };
    let both: Vec<Vec<String>> =
        vec![vec!["i12".into(), "i22".into()], vec!["i13".into(), "i23".into()]];
    assert_eq!([nodes(1), nodes(2)], [both.clone(), both]);
}

#[test]
fn flows_of_a_member_that_drains_stay_with_its_partner() {
    let mut world = testbed();
    instance(&mut world, 12, 22, 2, 1);
    instance(&mut world, 13, 23, 2, 1);
    world.chain(1, 1, &[12, 13]);
    world.settle();
    assert_eq!(path(&world, 1).hops.len(), 1);
    let drained = InstanceId(id(4, 23));
    world.intent.instances.get_mut(&drained).unwrap().is_draining = true;
    world.settle();
    // Its partner takes new flows on: they are no pair any more.
    assert_eq!(names(path(&world, 2)), ["v12", "v13"]);
    let pins = &path(&world, 2).pins;
    assert_eq!((pins.len(), pins[0].old), (1, PathId(1)));
    let both = [12, 22].map(|number| InstanceId(id(4, number)));
    assert_eq!(pins[0].instances, both, "the hop chooses each by its partner");
}

/// Chains over v12 and v13 with three instances each, before and after a change; the instances whose flows stay.
fn stay(change: impl Fn(&mut World)) -> (usize, usize, Vec<u32>) {
    let mut world = testbed();
    for (of, number) in [(12, 22), (12, 32), (13, 23), (13, 33)] {
        instance(&mut world, of, number, 2, 1);
    }
    world.chain(1, 1, &[12, 13]);
    world.settle();
    change(&mut world);
    world.settle();
    let new = path(&world, 2);
    let named =
        |one: &InstanceId| (0..99).find(|number| *one == InstanceId(id(4, *number))).unwrap();
    let stay = new.pins.iter().flat_map(|pin| &pin.instances).map(named).collect();
    (path(&world, 1).hops.len(), new.hops.len(), stay)
}

#[test]
fn flows_stay_where_they_would_meet_others_though_nobody_touched_theirs() {
    let drain = |world: &mut World| {
        let drained = InstanceId(id(4, 33));
        world.intent.instances.get_mut(&drained).unwrap().is_draining = true;
    };
    assert_eq!(stay(drain), (1, 2, vec![12, 22, 32]));
    let remove = |world: &mut World| {
        function(world, 13).instances.pop();
    };
    assert_eq!(stay(remove), (1, 2, vec![12, 22]), "what met the one that is gone must go");
    let fail_otherwise = |world: &mut World| function(world, 13).on_failure = FailurePolicy::Bypass;
    assert_eq!(stay(fail_otherwise), (1, 2, vec![12, 22, 32]));
    let turn = |world: &mut World| function(world, 13).instances.reverse();
    assert_eq!(stay(turn), (1, 1, vec![12, 22, 32]), "others stand together");
    let configure = |world: &mut World| bundle(world, 13, 77);
    assert_eq!(stay(configure), (1, 1, vec![]), "each meets its own");
}

#[test]
fn one_configuration_is_kept_once_whatever_paths_name_it() {
    let mut world = testbed();
    world.chain(1, 1, &[12]);
    world.chain(2, 1, &[11, 12]);
    world.settle();
    let [one, other] =
        [1, 2].map(|number| Arc::clone(&path(&world, number).members[0].configuration));
    assert!(Arc::ptr_eq(&one, &other));
}

#[test]
fn a_record_of_before_is_that_of_today() {
    let mut world = testbed();
    world.chain(1, 1, &[11, 12]);
    world.settle();
    let today = path(&world, 1);
    let mut before = serde_json::to_value(today).unwrap();
    for member in before["members"].as_array_mut().unwrap() {
        for field in ["member", "function", "instances"] {
            member.as_object_mut().unwrap().remove(field).unwrap();
        }
    }
    let read: PathRecord = serde_json::from_value(before).unwrap();
    assert_ne!(&read, today);
    assert_eq!(&read.renewed(), today);
}
