//! Taps and symmetric chains: which way packets go, and what each end of it must know.

#![allow(clippy::unwrap_used)]

use super::rig::{CUSTOMER, INTERNAL, World, id, node, port_id};
use crate::check::tests::check;
use crate::{PathPhase, PlanError};
use catena_model::PathId;
use catena_model::id::{ChainId, FunctionId, InstanceId, RuleId};
use catena_model::program::{HopKind, PathEntry, RuleEntry, RulePlace};
use catena_model::resource::{ContextHeader, Encapsulation};
use catena_model::status::ChainState;

/// Source m1 on host1, destination m2 on host4; functions v11 (host1) into the internal network,
/// v12 (host2) out of it, v13 (host3) inside the customers'.
fn testbed() -> World {
    let mut world = World::new(4);
    world.machine(1, 1, &[CUSTOMER]);
    world.machine(2, 4, &[CUSTOMER]);
    for (function, host) in [(11, 1), (12, 2), (13, 3)] {
        world.machine(function, host, &[CUSTOMER, INTERNAL]);
    }
    world.function(11, 11, CUSTOMER, INTERNAL);
    world.function(12, 12, INTERNAL, CUSTOMER);
    world.function(13, 13, CUSTOMER, CUSTOMER);
    world.settle();
    world
}

fn symmetric(world: &mut World, functions: &[u32]) -> ChainId {
    let chain = world.chain(1, 1, functions);
    world.intent.chains.get_mut(&chain).unwrap().is_symmetric = true;
    let rule = world.intent.rules.get_mut(&RuleId(id(6, 1))).unwrap();
    rule.destination_port = Some(port_id(2, CUSTOMER));
    chain
}

fn path(world: &World, host: u32, id: PathId) -> PathEntry {
    let paths = &world.blueprint.program(&node(host)).unwrap().paths;
    paths.iter().find(|path| path.id == id).unwrap().clone()
}

fn rules(world: &World, host: u32) -> Vec<RuleEntry> {
    world.blueprint.program(&node(host)).unwrap().rules.clone()
}

#[test]
fn a_symmetric_chain_has_a_way_back_through_the_same_instances_in_reverse() {
    let mut world = testbed();
    let chain = symmetric(&mut world, &[11, 12]);
    assert_eq!(check(&world.intent), Ok(()));
    world.settle();
    let status = world.status(chain);
    assert_eq!((status.state, status.path), (ChainState::Active, Some(PathId(1))));

    let back = path(&world, 4, PathId(2));
    let hops: Vec<_> = back
        .hops
        .iter()
        .flat_map(|hop| &hop.instances)
        .map(|hop| (hop.name.as_str(), hop.ingress, hop.egress, hop.ingress_mac))
        .collect();
    let mac = |port| world.intent.ports[&port].mac;
    let (v11, v12) = (port_id(11, INTERNAL), port_id(12, CUSTOMER));
    assert_eq!(
        hops,
        [
            ("i12", v12, port_id(12, INTERNAL), mac(v12)),
            ("i11", v11, port_id(11, CUSTOMER), mac(v11)),
        ]
    );
    assert_eq!(back.destination, world.intent.ports[&port_id(1, CUSTOMER)].network);

    // The rule begins where the answers do, with source and destination exchanged.
    let forth = rules(&world, 1);
    let answers = rules(&world, 4);
    assert_eq!((forth.len(), answers.len()), (1, 1));
    assert_eq!((forth[0].path, answers[0].path), (PathId(1), PathId(2)));
    let (forth, answers) = (&forth[0].matches, &answers[0].matches);
    assert_eq!(answers.place, RulePlace::Port(port_id(2, CUSTOMER)));
    assert_eq!(answers.source, Some("10.10.0.2/32".parse().unwrap()));
    assert_eq!(answers.destination, Some("10.10.0.1/32".parse().unwrap()));
    assert_eq!(answers.source_ports, forth.destination_ports);
    assert_eq!(answers.destination_ports, None);
}

#[test]
fn answers_from_an_unknown_end_are_taken_at_every_endpoint() {
    let mut world = testbed();
    symmetric(&mut world, &[11, 12]);
    let rule = world.intent.rules.get_mut(&RuleId(id(6, 1))).unwrap();
    rule.destination_port = None;
    rule.source_prefix = Some("10.10.0.0/25".parse().unwrap());
    rule.destination_prefix = Some("10.10.0.128/25".parse().unwrap());
    world.settle();
    for host in 1..=4 {
        let answers = rules(&world, host);
        let answers: Vec<_> = answers.iter().filter(|rule| rule.path == PathId(2)).collect();
        assert_eq!(answers.len(), 1, "host{host}");
        assert_eq!(answers[0].matches.place, RulePlace::Endpoints);
        assert_eq!(answers[0].matches.source, Some("10.10.0.128/25".parse().unwrap()));
        assert_eq!(answers[0].matches.destination, Some("10.10.0.0/25".parse().unwrap()));
    }
}

#[test]
fn both_ways_turn_in_one_blueprint_and_are_superseded_in_one() {
    let mut world = testbed();
    let chain = symmetric(&mut world, &[11, 12]);
    world.plan();
    for host in [1, 2] {
        world.acknowledge(host);
    }
    assert_eq!(world.plan(), 0, "host4 does not know the way back yet");
    assert!(world.classified(1).is_empty(), "no packet goes forth before its answer has a way");
    world.acknowledge(4);
    assert_eq!(world.plan(), 1);
    assert_eq!((world.classified(1), world.classified(4)), (vec![PathId(1)], vec![PathId(2)]));
    world.acknowledge_all();
    let functions = [11, 12, 13].map(|function| FunctionId(id(5, function)));
    world.intent.chains.get_mut(&chain).unwrap().functions = functions.to_vec();
    world.settle();
    assert_eq!((world.classified(1), world.classified(4)), (vec![PathId(3)], vec![PathId(4)]));
    for blueprint in &world.history {
        let of = |phase| {
            let paths = blueprint.ledger.paths.values();
            paths.filter(|path| path.phase == phase).count()
        };
        assert!([0, 2].contains(&of(PathPhase::Classified)), "one way without the other");
        assert!([0, 2].contains(&of(PathPhase::Superseded)));
    }
    world.drain_all();
    world.settle();
    assert_eq!(world.blueprint.ledger.paths.len(), 2);
    assert_eq!(world.status(chain).state, ChainState::Active);
}

#[test]
fn a_symmetric_chain_over_aware_instances_is_carried_both_ways() {
    let mut world = testbed();
    let chain = symmetric(&mut world, &[13]);
    let instance = world.intent.instances.get_mut(&InstanceId(id(4, 13))).unwrap();
    instance.speaks = Some(Encapsulation::Nsh);
    world.settle();
    assert_eq!(world.status(chain).state, ChainState::Active);
    assert_eq!(path(&world, 3, PathId(2)).hops[0].instances[0].speaks, Some(Encapsulation::Nsh));
}

#[test]
fn a_way_back_that_leaves_one_port_twice_or_starts_at_a_function_is_refused() {
    let mut world = testbed();
    // Both come in by the customers' port of machine 11: forth they leave by different ports.
    world.function(60, 11, INTERNAL, INTERNAL);
    symmetric(&mut world, &[11, 60]);
    assert!(matches!(check(&world.intent), Err(PlanError::AmbiguousReturn { .. })));

    let mut world = testbed();
    symmetric(&mut world, &[11]);
    let rule = world.intent.rules.get_mut(&RuleId(id(6, 1))).unwrap();
    rule.destination_port = Some(port_id(11, CUSTOMER));
    assert!(matches!(check(&world.intent), Err(PlanError::SourceIsFunction { .. })));

    // Back, machine 11 would have two ways out for one way in.
    let mut world = testbed();
    world.function(61, 11, INTERNAL, INTERNAL);
    symmetric(&mut world, &[11]);
    assert_eq!(check(&world.intent), Ok(()));
    world.chain(2, 1, &[61]);
    assert!(matches!(check(&world.intent), Err(PlanError::TwoEgresses { .. })));
}

#[test]
fn a_tap_gets_copies_by_its_ingress_both_ways_and_needs_no_way_out() {
    let mut world = testbed();
    let chain = symmetric(&mut world, &[11, 13, 12]);
    let tap = FunctionId(id(5, 13));
    world.intent.functions.get_mut(&tap).unwrap().is_tap = true;
    let instance = world.intent.instances.get_mut(&InstanceId(id(4, 13))).unwrap();
    instance.egress = port_id(13, INTERNAL);
    world.inventory.nodes.get_mut(&node(3)).unwrap().bound.remove(&port_id(13, INTERNAL));
    assert_eq!(check(&world.intent), Ok(()));
    world.settle();
    assert_eq!(world.status(chain).state, ChainState::Active, "{}", world.status(chain).reason);
    for (way, host) in [(PathId(1), 1), (PathId(2), 4)] {
        let hops = path(&world, host, way).hops;
        let kinds: Vec<HopKind> = hops.iter().map(|hop| hop.kind).collect();
        assert_eq!(kinds, [HopKind::Through, HopKind::Tap, HopKind::Through]);
        assert_eq!(hops[1].instances[0].ingress, port_id(13, CUSTOMER));
    }
    assert_eq!(
        world.known(3),
        [PathId(1), PathId(2)],
        "the tap's node knows what it is copied from"
    );
}

#[test]
fn two_taps_in_a_row_may_share_a_port_and_a_chain_of_taps_delivers_where_it_began() {
    let mut world = testbed();
    world.function(60, 13, CUSTOMER, CUSTOMER);
    for tap in [13, 60] {
        world.intent.functions.get_mut(&FunctionId(id(5, tap))).unwrap().is_tap = true;
    }
    let chain = world.chain(1, 1, &[13, 60]);
    world.intent.rules.get_mut(&RuleId(id(6, 1))).unwrap().source_port = None;
    assert_eq!(check(&world.intent), Ok(()));
    world.settle();
    assert_eq!(world.status(chain).state, ChainState::Active);
    let delivered = path(&world, 3, PathId(1)).destination;
    assert_eq!(delivered, world.intent.ports[&port_id(13, CUSTOMER)].network);
}

#[test]
fn another_context_is_another_path() {
    let mut world = testbed();
    let chain = world.chain(1, 1, &[11]);
    world.settle();
    let context = vec![ContextHeader::Tenant("red".into()), ContextHeader::FlowId];
    world.intent.chains.get_mut(&chain).unwrap().context.clone_from(&context);
    world.settle();
    assert_eq!(world.classified(1), [PathId(2)]);
    assert_eq!(path(&world, 1, PathId(2)).context, context);
    assert!(path(&world, 1, PathId(1)).context.is_empty());
}
