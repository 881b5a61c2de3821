//! Bundled functions that translate addresses: where their chains deliver, what their answers look like, and what
//! chains must be for them.

#![allow(clippy::unwrap_used)]

use super::rig::{CUSTOMER, INTERNAL, World, id, node, port_id};
use crate::check::tests::check;
use crate::error::PlanError;
use crate::ledger::{Direction, PathRecord};
use catena_model::id::{ChainId, FunctionId, NetworkId};
use catena_model::instance::Door;
use catena_model::program::{RulePlace, TupleField};
use catena_model::resource::{
    Conduct, FunctionTemplate, PortBounds, Runs, Transport, TupleMapping, TuplePattern,
};
use catena_wire::scalar::PortRange;
use serde_json::Map;

/// Source m1 on host1 in the one network, destination m2 on host3 in both; v13 on host2 between them.
fn testbed() -> (World, ChainId) {
    let mut world = World::new(3);
    world.machine(1, 1, &[CUSTOMER]);
    world.machine(2, 3, &[CUSTOMER, INTERNAL]);
    world.machine(13, 2, &[CUSTOMER, INTERNAL]);
    world.function(13, 13, CUSTOMER, INTERNAL);
    let source = |net: &str| TuplePattern {
        source_prefix: Some(net.parse().unwrap()),
        ..TuplePattern::default()
    };
    let mut outside = source("10.20.0.4/32");
    outside.source_ports = PortBounds { min: Some(1_024), max: None };
    let mapping = TupleMapping { ingress: source("10.10.0.0/24"), egress: outside };
    let function = world.intent.functions.get_mut(&FunctionId(id(5, 13))).unwrap();
    function.template = Some(FunctionTemplate {
        runs: Runs::Bundled("nat".into()),
        door: Door::default(),
        config: Map::new(),
        networks: Vec::new(),
        cpu_milli: None,
        memory_mib: None,
        priority: None,
        bandwidth_mbit: None,
        delay_us: None,
        instances: 1,
        labels: Default::default(),
        on: Default::default(),
    });
    function.conduct =
        Conduct { needs_both_directions: true, translations: vec![mapping], ..Conduct::default() };
    let chain = world.chain(1, 1, &[13]);
    ends_at(&mut world, INTERNAL);
    world.intent.chains.get_mut(&chain).unwrap().is_symmetric = true;
    (world, chain)
}

fn ends_at(world: &mut World, network: u32) {
    let rule = world.intent.rules.values().next().unwrap().id;
    world.intent.rules.get_mut(&rule).unwrap().destination_port = Some(port_id(2, network));
}

fn path(world: &World, direction: Direction) -> &PathRecord {
    world.blueprint.ledger.paths.values().find(|path| path.direction == direction).unwrap()
}

#[test]
fn a_chain_through_a_nat_delivers_in_the_network_that_it_leads_into_and_its_answers_where_it_began()
{
    let (mut world, _) = testbed();
    assert_eq!(check(&world.intent), Ok(()));
    world.settle();
    let network = |number| NetworkId(id(1, number));
    assert_eq!(path(&world, Direction::Forward).destination, network(INTERNAL));
    assert_eq!(path(&world, Direction::Reverse).destination, network(CUSTOMER));
    let hop = &path(&world, Direction::Forward).hops[0];
    let fields = &hop.rewrites.as_ref().unwrap().fields;
    assert_eq!(fields[..], [TupleField::Source, TupleField::SourcePort]);
}

#[test]
fn answers_are_told_by_the_outside_address_and_so_are_errors_of_whoever() {
    let (mut world, _) = testbed();
    world.settle();
    let back = path(&world, Direction::Reverse);
    let rules: Vec<_> = back.rules.iter().map(|placed| &placed.rule.matches).collect();
    let seen: Vec<_> =
        rules.iter().map(|rule| (rule.transport, rule.source, rule.destination)).collect();
    let pool = Some("10.20.0.4/32".parse().unwrap());
    let server = Some("10.20.0.2/32".parse().unwrap());
    assert_eq!(seen, [(Some(Transport::Udp), server, pool), (Some(Transport::Icmp), None, pool)]);
    let place = RulePlace::Port(port_id(2, INTERNAL));
    assert!(rules.iter().all(|rule| rule.place == place));
    assert_eq!(rules[0].destination_ports.map(PortRange::min), Some(1_024));
    assert_eq!((rules[1].source_ports, rules[1].destination_ports), (None, None));
    assert!(world.blueprint.program(&node(3)).unwrap().rules.len() >= 2);
}

#[test]
fn what_a_function_asks_by_itself_is_answered_on_the_way_back_through_it() {
    let (mut world, _) = testbed();
    let address = |net: &str| Some(net.parse().unwrap());
    let function = world.intent.functions.get_mut(&FunctionId(id(5, 13))).unwrap();
    function.conduct.inquiries = vec![TuplePattern {
        source_prefix: address("10.20.0.99/32"),
        destination_prefix: address("10.20.0.7/32"),
        destination_ports: PortBounds { min: Some(80), max: Some(80) },
        ..TuplePattern::default()
    }];
    world.settle();
    let back = path(&world, Direction::Reverse);
    let rule = &back.rules.last().unwrap().rule;
    let matches = &rule.matches;
    assert_eq!(matches.transport, Some(Transport::Tcp));
    assert_eq!(
        (matches.source, matches.destination),
        (address("10.20.0.7/32"), address("10.20.0.99/32"))
    );
    let ports = (matches.source_ports.map(|one| (one.min(), one.max())), matches.destination_ports);
    assert_eq!(ports, (Some((80, 80)), None));
    assert_eq!(matches.place, RulePlace::Port(port_id(2, INTERNAL)));
    // The way forward begins at the function: no rule leads there.
    assert_eq!(path(&world, Direction::Forward).rules.len(), 1);
}

#[test]
fn flows_do_not_stay_on_a_former_path_for_a_function_that_has_one_state_for_both() {
    let (mut world, chain) = testbed();
    world.settle();
    let function = world.intent.functions.get_mut(&FunctionId(id(5, 13))).unwrap();
    function.template.as_mut().unwrap().config.insert("block".into(), 64.into());
    world.settle();
    assert!(world.blueprint.ledger.paths.values().all(|path| path.pins.is_empty()));
    assert_eq!(world.status(chain).state, catena_model::status::ChainState::Active);
}

#[test]
fn what_needs_both_directions_is_in_no_chain_of_one() {
    let (mut world, chain) = testbed();
    world.intent.chains.get_mut(&chain).unwrap().is_symmetric = false;
    let refused = check(&world.intent).unwrap_err();
    assert!(matches!(refused, PlanError::OneDirection { .. }));
    let told = refused.to_string();
    assert!(told.contains("'v13'") && told.contains("`symmetric: true`"), "{told}");
}

#[test]
fn a_chain_that_crosses_networks_says_where_both_of_its_ways_begin() {
    let (mut world, _) = testbed();
    let rule = world.intent.rules.values().next().unwrap().id;
    world.intent.rules.get_mut(&rule).unwrap().destination_port = None;
    let told = check(&world.intent).unwrap_err().to_string();
    assert!(told.contains("does not say where packets and their answers begin"), "{told}");
    let (mut world, _) = testbed();
    // The other way round.
    world.function(13, 13, INTERNAL, CUSTOMER);
    let bundled = testbed().0.intent.functions[&FunctionId(id(5, 13))].clone();
    world.intent.functions.insert(bundled.id, bundled);
    let told = check(&world.intent).unwrap_err().to_string();
    assert!(
        told.contains("come by network 'customer', and the function takes them from 'internal'"),
        "{told}"
    );
}
