//! Ways that are too long for a header, over switches that were marked as edges.
#![allow(clippy::unwrap_used)]

use super::fabric::{Arrival, Fabric, acknowledge_everywhere, programs, switch};
use super::oracle::assert_programs;
use super::profiles::{chain_by, row};
use super::rig::{CUSTOMER, INTERNAL, PROTOCOL, World, id, label, node, port_id};
use super::source_routes::{assert_active, carry};
use crate::NodeFacts;
use catena_model::NodeName;
use catena_model::id::{ChainId, GraphId};
use catena_model::limits::ROUTE_PORTS_MAX;
use catena_model::program::{ExitPlace, NodeProgram, Pathlet, Underlay};
use catena_model::resource::{ChainGraph, Encapsulation};
use catena_model::source_route::EDGES_SINCE_PROTOCOL;
use catena_model::status::{ChainState, PathHeader};
use catena_model::topology::PortNumber;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const SAFE: Encapsulation = Encapsulation::SourceRouteSafe9;

fn all() -> impl Iterator<Item = Encapsulation> {
    Encapsulation::ALL.into_iter().filter(|one| one.is_source_route())
}

fn mark(world: &mut World, switches: &[u32], is_edge: bool) {
    for number in switches {
        world.inventory.switches.get_mut(&switch(*number)).unwrap().is_edge = is_edge;
    }
}

fn headers(world: &World, chain: ChainId) -> Vec<PathHeader> {
    let ledger = &world.blueprint.ledger;
    let (_, path) = ledger.current(chain).next().unwrap();
    crate::path_headers(ledger, path, &world.inventory)
}

/// Who writes a header, where it ends, and how many ports are in it.
fn told(headers: &[PathHeader]) -> Vec<(String, String, usize)> {
    let end = |header: &PathHeader| match &header.edge {
        Some(edge) => edge.to_string(),
        None => header.instances.join(" "),
    };
    headers.iter().map(|one| (one.from.to_string(), end(one), one.ports)).collect()
}

/// The headers that a switch writes.
fn pathlets(program: &NodeProgram) -> Vec<(PortNumber, &Pathlet)> {
    let exits = program.exits.iter();
    let pathlets = exits.filter_map(|exit| match &exit.to {
        ExitPlace::Pathlet(pathlet) => Some((exit.number, pathlet)),
        ExitPlace::Link(_) | ExitPlace::Port(_) => None,
    });
    pathlets.collect()
}

/// Every header of a program comes out where it should.
fn assert_headers_lead(world: &World, fabric: &Fabric, by: Encapsulation) {
    let running = programs(world);
    let mut walked = 0;
    for (name, program) in &running {
        let entries = program.entries();
        for route in &program.routes {
            let header = entries.headed((&route.node, route.to), by).unwrap();
            assert_eq!(by.fault_of_route(&header.ports), None);
            let nodes_behind = header.ports.len() - 1;
            assert!(!by.needs_identities() || header.identities.len() == nodes_behind);
            let arrival = fabric.walk(&running, name, &header.ports);
            assert_eq!(arrival, Arrival::Port(route.node.clone(), route.to), "{header:?}");
            walked += 1;
        }
        for (number, pathlet) in pathlets(program) {
            // Wherever it comes by mistake, there is an end of headers.
            assert!(
                pathlet.ports.last().is_some_and(|last| *last < number),
                "{number} {pathlet:?}"
            );
            assert_eq!(by.fault_of_route(&pathlet.ports), None);
            let named = if by.needs_identities() { pathlet.ports.len() - 1 } else { 0 };
            assert_eq!(pathlet.identities.len(), named);
        }
    }
    assert!(walked > 0);
}

#[test]
fn a_way_that_is_too_long_for_a_header_is_carried_over_an_edge_that_alone_knows_of_it() {
    for by in all() {
        let most = u32::try_from(by.route_ports_max()).unwrap();
        let (mut world, fabric) = row(most - 1);
        let chain = chain_by(&mut world, 1, &[12], by);
        fabric.settle(&mut world);
        let status = world.status(chain);
        assert_eq!((status.state, status.path), (ChainState::Building, None));
        let advice = format!("'catena node set switch{} --edge'", most - 1);
        assert!(status.reason.contains(&advice), "{}", status.reason);
        let before = programs(&world);
        // The advice is good.
        mark(&mut world, &[most - 1], true);
        fabric.settle(&mut world);
        assert_active(&world, chain);
        let edge = switch(most - 1);
        let after = programs(&world);
        for (name, program) in before.iter().filter(|(name, _)| name.as_str().starts_with("switch"))
        {
            assert_eq!(*name == edge, after[name] != *program, "{name}");
        }
        let [(number, pathlet)] = pathlets(&after[&edge])[..] else { panic!("{}", by.name()) };
        assert_eq!((&pathlet.node, pathlet.to), (&node(2), port_id(12, CUSTOMER)));
        assert_eq!((&pathlet.end, pathlet.ports.len()), (&node(2), 2));
        assert_eq!(number.get() % 2, 0, "as those of functions");
        assert_headers_lead(&world, &fabric, by);
        let ports = usize::try_from(most).unwrap();
        let expected =
            [("host1".into(), edge.to_string(), ports), (edge.to_string(), "i12".into(), 2)];
        assert_eq!(told(&headers(&world, chain)), expected);
        // What no header has room for is told as far as headers lead, which the other reading leaves out.
        if by.route_ports_max() < ROUTE_PORTS_MAX {
            assert_programs(&world.blueprint, &world.intent, &world.inventory);
        }
    }
}

#[test]
fn what_fits_whole_ends_at_no_edge_and_shares_them_with_what_does_not() {
    let (mut world, fabric) = row(9);
    mark(&mut world, &[3, 6, 8], true);
    let chains = [
        chain_by(&mut world, 1, &[12], Encapsulation::SourceRouteNative),
        chain_by(&mut world, 2, &[12], SAFE),
        chain_by(&mut world, 3, &[12], Encapsulation::SourceRouteClassic80),
    ];
    fabric.settle(&mut world);
    chains.iter().for_each(|chain| assert_active(&world, *chain));
    let whole = [("host1".to_owned(), "i12".to_owned(), 11)];
    assert_eq!(told(&headers(&world, chains[0])), whole);
    let cut = [("host1".into(), "switch6".into(), 7), ("switch6".into(), "i12".into(), 5)];
    for chain in &chains[1..] {
        assert_eq!(told(&headers(&world, *chain)), cut);
    }
    let running = programs(&world);
    let counts = [3, 6, 8].map(|number| pathlets(&running[&switch(number)]).len());
    assert_eq!(counts, [0, 1, 0], "one for all chains to this function");
    assert_eq!(running[&node(1)].borders.len(), 2);
    assert_headers_lead(&world, &fabric, SAFE);
    assert_programs(&world.blueprint, &world.intent, &world.inventory);
    // Another chain to the same function tells no switch anything.
    let chain = chain_by(&mut world, 4, &[12], SAFE);
    fabric.settle(&mut world);
    assert_active(&world, chain);
    let after = programs(&world);
    for number in 1..=9 {
        assert_eq!(running[&switch(number)], after[&switch(number)], "its number included");
    }
}

#[test]
fn edges_are_told_before_whoever_leads_to_them_the_last_one_first() {
    let (mut world, fabric) = row(14);
    mark(&mut world, &[6, 11], true);
    let chain = chain_by(&mut world, 1, &[12], SAFE);
    fabric.settle(&mut world);
    assert_active(&world, chain);
    carry(&mut world, chain, Encapsulation::SourceRouteNative);
    mark(&mut world, &[6, 11], false);
    fabric.settle(&mut world);
    assert_active(&world, chain);
    mark(&mut world, &[5, 10], true);
    carry(&mut world, chain, SAFE);
    // Nodes acknowledge one by one, and no program ever leads to what is not there.
    let mut steps = 0;
    for round in 0..200_u32 {
        let names: Vec<NodeName> = world.blueprint.programs.keys().cloned().collect();
        let number = |world: &World, name: &NodeName| {
            world.blueprint.programs.get(name).map(|program| program.number).unwrap()
        };
        let waiting = names.iter().filter(|name| {
            world.inventory.facts(name).unwrap().acknowledged < number(&world, name)
        });
        let waiting: Vec<NodeName> = waiting.cloned().collect();
        if world.plan() == 0 && waiting.is_empty() {
            break;
        }
        steps += 1;
        let led = |name: &NodeName| {
            let border = world.blueprint.ledger.borders.get(name).into_iter();
            let all = border.flat_map(|own| own.values()).flat_map(|ports| ports.values());
            all.flat_map(|all| all.values()).cloned().collect::<Vec<_>>()
        };
        for border in led(&node(1)) {
            let given = world.blueprint.ledger.port_numbers[&border.edge].clone();
            let given = given.pathlet_of(border.number).unwrap().clone();
            let known = world.inventory.facts(&border.edge).unwrap().acknowledged;
            assert!(known >= given.since, "{border:?} leads to what is not known");
        }
        if let Some(name) = waiting.get(round as usize % waiting.len().max(1)) {
            let acknowledged = number(&world, name);
            world.inventory.facts_mut(name).unwrap().acknowledged = acknowledged;
        }
    }
    assert!(steps > 3, "{steps}");
    assert_active(&world, chain);
    let expected = [
        ("host1".into(), "switch5".into(), 6),
        ("switch5".into(), "switch10".into(), 6),
        ("switch10".into(), "i12".into(), 6),
    ];
    assert_eq!(told(&headers(&world, chain)), expected);
    assert_headers_lead(&world, &fabric, SAFE);
}

#[test]
fn a_chain_waits_for_an_edge_that_does_not_know_its_header_and_names_it() {
    let (mut world, fabric) = row(7);
    mark(&mut world, &[6], true);
    world.plan();
    let chain = chain_by(&mut world, 1, &[12], SAFE);
    world.inventory.switches.get_mut(&switch(6)).unwrap().is_connected = false;
    // Hosts acknowledge alone.
    world.settle();
    let status = world.status(chain);
    assert_eq!((status.state, status.path), (ChainState::Building, None));
    for part in ["node 'switch6' is not connected", "which header it shall write"] {
        assert!(status.reason.contains(part), "{}", status.reason);
    }
    assert_eq!(programs(&world)[&node(1)].borders, []);
    world.inventory.switches.get_mut(&switch(6)).unwrap().is_connected = true;
    acknowledge_everywhere(&mut world);
    world.settle();
    assert_active(&world, chain);
    // One that is started anew with nothing is told the same, and nothing turns meanwhile.
    let before = programs(&world);
    world.inventory.switches.get_mut(&switch(6)).unwrap().acknowledged = Default::default();
    assert_eq!(world.plan(), 0);
    assert_eq!(programs(&world), before);
    fabric.settle(&mut world);
}

#[test]
fn a_graph_turns_when_edges_know_how_a_path_in_use_is_reached_from_where_another_ends() {
    let (mut world, mut fabric) = row(7);
    let underlay = Underlay { address: [192, 0, 2, 3].into(), mtu: 1_500 };
    let facts = NodeFacts { is_connected: true, protocol: PROTOCOL, ..NodeFacts::new(underlay) };
    world.inventory.nodes.insert(node(3), facts);
    world.machine(13, 3, &[CUSTOMER, INTERNAL]);
    world.function(13, 13, CUSTOMER, INTERNAL);
    fabric.plug(&switch(1), &node(3));
    mark(&mut world, &[2], true);
    // Both begin at host 1, near host 3; the first ends at host 2.
    let (first, next) = (world.chain(1, 1, &[12]), chain_by(&mut world, 2, &[13], SAFE));
    fabric.settle(&mut world);
    [first, next].iter().for_each(|chain| assert_active(&world, *chain));
    let in_use = |world: &World| world.blueprint.ledger.classified(first)[0].0;
    let borders = |world: &World| programs(world)[&node(2)].borders.len();
    let former = in_use(&world);
    world.inventory.switches.get_mut(&switch(2)).unwrap().is_connected = false;
    let graph = GraphId(id(8, 1));
    let branches = [(first, vec![next])].into();
    world.intent.graphs.insert(graph, ChainGraph { id: graph, label: label("g"), branches });
    world.settle();
    assert_eq!((in_use(&world), borders(&world)), (former, 0), "the edge is away");
    world.inventory.switches.get_mut(&switch(2)).unwrap().is_connected = true;
    acknowledge_everywhere(&mut world);
    world.plan();
    assert_eq!((in_use(&world), borders(&world)), (former, 1), "host 2 may not know the way yet");
    world.settle_with_acknowledgements();
    assert_ne!(in_use(&world), former);
    [first, next].iter().for_each(|chain| assert_active(&world, *chain));
}

#[test]
fn a_way_that_turns_over_an_edge_that_is_away_leaves_the_chain_degraded_with_its_name() {
    let (mut world, mut fabric) = row(7);
    fabric.plug(&node(1), &switch(7));
    mark(&mut world, &[6], true);
    fabric.settle(&mut world);
    let chain = chain_by(&mut world, 1, &[12], SAFE);
    fabric.settle(&mut world);
    assert_active(&world, chain);
    assert_eq!(told(&headers(&world, chain)).len(), 1);
    fabric.wires.last_mut().unwrap().is_up = false;
    let running = programs(&world);
    let nodes: Vec<NodeName> = running.keys().cloned().collect();
    nodes.iter().for_each(|node| fabric.tell(&mut world, node, &running));
    world.inventory.switches.get_mut(&switch(6)).unwrap().is_connected = false;
    // Hosts acknowledge alone.
    world.settle();
    let status = world.status(chain);
    assert_eq!(status.state, ChainState::Degraded);
    assert!(status.reason.contains("node 'switch6' is not connected"), "{}", status.reason);
    world.inventory.switches.get_mut(&switch(6)).unwrap().is_connected = true;
    acknowledge_everywhere(&mut world);
    world.settle();
    assert_active(&world, chain);
    assert_eq!(told(&headers(&world, chain)).len(), 2);
    assert_headers_lead(&world, &fabric, SAFE);
}

#[test]
fn a_chain_whose_last_edge_is_taken_back_is_degraded_and_says_why() {
    let (mut world, fabric) = row(7);
    mark(&mut world, &[6], true);
    let chain = chain_by(&mut world, 1, &[12], SAFE);
    fabric.settle(&mut world);
    assert_active(&world, chain);
    let running = programs(&world);
    let number = pathlets(&running[&switch(6)])[0].0;
    mark(&mut world, &[6], false);
    fabric.settle(&mut world);
    let status = world.status(chain);
    assert_eq!(status.state, ChainState::Degraded);
    for part in ["has 8 cables", "'catena node set switch6 --edge'"] {
        assert!(status.reason.contains(part), "{}", status.reason);
    }
    // Frames may still be on their way there.
    let running = programs(&world);
    assert_eq!(running[&node(1)].borders, []);
    assert_eq!(pathlets(&running[&switch(6)])[0].0, number);
    mark(&mut world, &[6], true);
    fabric.settle(&mut world);
    assert_active(&world, chain);
    assert_eq!(pathlets(&programs(&world)[&switch(6)])[0].0, number, "it has its number again");
    // An edge of a version that writes no headers is none.
    world.inventory.facts_mut(&switch(6)).unwrap().protocol = EDGES_SINCE_PROTOCOL - 1;
    fabric.settle(&mut world);
    let status = world.status(chain);
    assert_eq!(status.state, ChainState::Degraded);
    assert!(status.reason.contains("bring it up to date"), "{}", status.reason);
}

#[test]
fn numbers_of_headers_rest_and_go_and_leave_nothing() {
    let (mut world, fabric) = row(7);
    let before = programs(&world);
    mark(&mut world, &[6], true);
    let chain = chain_by(&mut world, 1, &[12], SAFE);
    fabric.settle(&mut world);
    let number = pathlets(&programs(&world)[&switch(6)])[0].0;
    carry(&mut world, chain, Encapsulation::Nsh);
    fabric.settle(&mut world);
    world.drain_all();
    fabric.settle(&mut world);
    assert!(world.blueprint.ledger.borders.is_empty());
    let book = &world.blueprint.ledger.port_numbers[&switch(6)];
    assert_eq!(book.resting().keys().collect::<Vec<_>>(), [&number]);
    assert!(book.resting()[&number].senders.contains_key(&node(1)));
    // Blueprints follow.
    for _ in 0..10 {
        for by in [Encapsulation::Mpls, Encapsulation::Nsh] {
            carry(&mut world, chain, by);
            fabric.settle(&mut world);
            world.drain_all();
            fabric.settle(&mut world);
        }
    }
    assert!(world.blueprint.ledger.port_numbers[&switch(6)].resting().is_empty());
    let exits = |running: &BTreeMap<NodeName, NodeProgram>| running[&switch(6)].exits.clone();
    assert_eq!(exits(&programs(&world)), exits(&before));
}

#[test]
fn identities_wait_for_edges_that_hold_them_in_headers() {
    let (mut world, fabric) = row(70);
    mark(&mut world, &[60], true);
    let chain = chain_by(&mut world, 1, &[12], Encapsulation::SourceRoutePolka);
    fabric.settle(&mut world);
    assert_active(&world, chain);
    assert_eq!(pathlets(&programs(&world)[&switch(60)]).len(), 1);
    let gone = switch(65);
    world.inventory.switches.get_mut(&gone).unwrap().links = Some(Arc::default());
    world.plan();
    let book = serde_json::to_value(&world.blueprint.ledger.port_numbers[&gone]).unwrap();
    let senders = book["identities"]["rest"]["senders"].as_object().unwrap();
    let names: BTreeSet<&str> = senders.keys().map(String::as_str).collect();
    assert!(names.contains("switch60") && names.contains("host1"), "{names:?}");
    assert!(!names.contains("switch61"), "what holds none of them is not waited for: {names:?}");
}

/// An edge that is away goes on to write the header that it knows.
#[test]
fn numbers_wait_for_edges_that_hold_them_in_headers() {
    let (mut world, fabric) = row(9);
    mark(&mut world, &[6], true);
    let chain = chain_by(&mut world, 1, &[12], SAFE);
    fabric.settle(&mut world);
    assert_active(&world, chain);
    let gone = switch(8);
    world.inventory.switches.get_mut(&gone).unwrap().links = Some(Arc::default());
    world.plan();
    let book = serde_json::to_value(&world.blueprint.ledger.port_numbers[&gone]).unwrap();
    let resting = book["resting"].as_object().unwrap();
    assert_eq!(resting.len(), 2);
    let waits = |rest: &serde_json::Value, name| rest["senders"].get(name).is_some();
    assert!(resting.values().any(|rest| waits(rest, "switch6")), "{book}");
    assert!(!resting.values().any(|rest| waits(rest, "switch3")), "{book}");
}

#[test]
fn a_planned_change_of_edges_leaves_headers_where_they_led_until_the_new_one_knows() {
    let (mut world, fabric) = row(7);
    mark(&mut world, &[5], true);
    let chain = chain_by(&mut world, 1, &[12], SAFE);
    fabric.settle(&mut world);
    assert_active(&world, chain);
    let before = programs(&world)[&node(1)].borders.clone();
    // A farther one: the headers change when that knows what to write, and not before.
    mark(&mut world, &[6], true);
    world.settle();
    assert_eq!(programs(&world)[&node(1)].borders, before);
    assert_active(&world, chain);
    mark(&mut world, &[5], false);
    world.settle();
    assert_eq!(
        programs(&world)[&node(1)].borders,
        before,
        "also where the former is none any more"
    );
    acknowledge_everywhere(&mut world);
    fabric.settle(&mut world);
    assert_active(&world, chain);
    assert_ne!(programs(&world)[&node(1)].borders, before);
    assert_eq!(told(&headers(&world, chain))[0].1, "switch6");
    assert_headers_lead(&world, &fabric, SAFE);
}

/// The fewest headers on a row of so many switches, by trying all.
fn fewest(switches: u32, edges: &BTreeSet<u32>, most: usize) -> Option<usize> {
    let ports = switches as usize + 2;
    let mut best: Vec<Option<usize>> = vec![None; ports + 1];
    best[0] = Some(0);
    for end in 1..=ports {
        let is_last = end == ports;
        if !is_last && !edges.contains(&(end as u32)) {
            continue;
        }
        let room = most - usize::from(!is_last);
        let before = (end.saturating_sub(room)..end).filter_map(|from| best[from]);
        best[end] = before.min().map(|headers| headers + 1);
    }
    best[ports]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn no_other_edges_make_fewer_headers(
        switches in 1..22_u32,
        edges in proptest::collection::btree_set(1..22_u32, 0..14),
    ) {
        let edges: BTreeSet<u32> = edges.into_iter().filter(|edge| *edge <= switches).collect();
        let (mut world, fabric) = row(switches);
        let numbers: Vec<u32> = edges.iter().copied().collect();
        mark(&mut world, &numbers, true);
        let chain = chain_by(&mut world, 1, &[12], SAFE);
        fabric.settle(&mut world);
        match fewest(switches, &edges, SAFE.route_ports_max()) {
            Some(count) => {
                prop_assert_eq!(world.status(chain).state, ChainState::Active);
                prop_assert_eq!(headers(&world, chain).len(), count);
                assert_headers_lead(&world, &fabric, SAFE);
            }
            None => prop_assert_eq!(world.status(chain).path, None),
        }
    }
}
