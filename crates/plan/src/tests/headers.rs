//! Headers over several functions: how few there are, what they hold, and who is told of the ways in them.
#![allow(clippy::unwrap_used)]

use super::fabric::{acknowledge_everywhere, programs};
use super::oracle::assert_programs;
use super::rig::{CUSTOMER, World, id, node, port_id};
use super::source_routes::{assert_active, carry, routed_chain, world};
use crate::route::{Border, pathlets};
use catena_model::id::{ChainId, FunctionId};
use catena_model::program::DetourEntry;
use catena_model::resource::Encapsulation;
use catena_model::source_route::{JoinedWay, Leg, PASSES_SINCE_PROTOCOL, RESTS_SINCE_PROTOCOL};
use catena_model::status::PathHeader;
use catena_model::topology::PortNumber;
use proptest::collection::vec;
use proptest::prelude::*;

const JOINING: [Encapsulation; 4] = [
    Encapsulation::SourceRouteNative,
    Encapsulation::SourceRouteSafe9,
    Encapsulation::SourceRouteClassic80,
    Encapsulation::SourceRouteSrMpls,
];

type Way = (Vec<PortNumber>, Vec<DetourEntry>);

/// Ways to functions, whose port numbers are even as the planner gives them: the ports before, and which of their
/// cables has a detour.
fn any_ways(most: usize) -> impl Strategy<Value = Vec<Way>> {
    let port = |number: u8| PortNumber::new(number).unwrap();
    let cable = (1..=255_u8, proptest::bool::weighted(0.3));
    let way = (vec(cable, 0..=4), 1..=127_u8).prop_map(move |(cables, function)| {
        let ports = cables.iter().map(|(number, _)| *number).chain([2 * function]).map(port);
        let detour = |(at, _): (u8, _)| DetourEntry {
            at,
            rejoin: at + 1,
            ports: std::vec::from_elem(port(9), usize::from(at) + 1),
        };
        let detoured = (0..).zip(&cables).filter(|(_, (_, has_detour))| *has_detour);
        (ports.collect(), detoured.map(detour).collect())
    });
    vec(way, 1..=most)
}

fn joined(ways: &[Way], encapsulation: Encapsulation) -> Option<JoinedWay> {
    let ((ports, detours), others) = ways.split_first()?;
    let first = JoinedWay::new(Leg { ports, detours, identities: &[] });
    others.iter().try_fold(first, |way, (ports, detours)| {
        way.and(Leg { ports, detours, identities: &[] }, encapsulation)
    })
}

/// How few headers lead along these ways, of all that there could be.
fn fewest(ways: &[Way], encapsulation: Encapsulation) -> usize {
    let mut fewest = vec![0];
    for end in 1..=ways.len() {
        let starts = (0..end).filter(|start| joined(&ways[*start..end], encapsulation).is_some());
        fewest.push(starts.map(|start| fewest[start] + 1).min().unwrap());
    }
    fewest[ways.len()]
}

/// How many headers there are where each goes on as long as it has room.
fn joined_greedily(ways: &[Way], encapsulation: Encapsulation) -> usize {
    let (mut left, mut headers) = (ways, 0);
    while !left.is_empty() {
        let fits = |end: &usize| joined(&left[..*end], encapsulation).is_some();
        left = &left[(1..=left.len()).take_while(fits).last().unwrap()..];
        headers += 1;
    }
    headers
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn joining_as_long_as_there_is_room_makes_as_few_headers_as_any_other_choice(
        ways in any_ways(20),
        by in proptest::sample::select(&JOINING[..]),
    ) {
        prop_assert_eq!(joined_greedily(&ways, by), fewest(&ways, by));
    }

    /// A header of `safe-9`, which has room for no detours, is a pathlet of seven ports between functions.
    #[test]
    fn ports_alone_are_cut_as_the_borders_and_the_room_allow(ways in any_ways(9)) {
        let by = Encapsulation::SourceRouteSafe9;
        let borders = ways.iter().flat_map(|(ports, _)| {
            std::iter::once(Border::May).chain(std::vec::from_elem(Border::No, ports.len() - 1))
        });
        let cut = pathlets(&borders.collect::<Vec<_>>(), by.route_ports_max()).unwrap();
        prop_assert_eq!(cut.len(), joined_greedily(&ways, by));
    }
}

fn headers(world: &World, chain: ChainId) -> Vec<PathHeader> {
    let ledger = &world.blueprint.ledger;
    let (_, path) = ledger.current(chain).next().unwrap();
    crate::path_headers(ledger, path, &world.inventory)
}

fn told(headers: &[PathHeader]) -> Vec<(String, Vec<String>, usize)> {
    let one =
        |header: &PathHeader| (header.from.to_string(), header.instances.clone(), header.ports);
    headers.iter().map(one).collect()
}

#[test]
fn one_header_leads_to_as_many_functions_as_it_has_room_for() {
    let (mut world, fabric) = world();
    let chain = routed_chain(&mut world, 1, &[11, 12, 13, 14]);
    for (by, expected) in [
        (Encapsulation::SourceRouteNative, &[("host1", &[12, 13, 14][..], 15)][..]),
        (Encapsulation::SourceRouteSrMpls, &[("host1", &[12, 13, 14], 15)]),
        (
            Encapsulation::SourceRouteSafe9,
            &[("host1", &[12], 5), ("host2", &[13], 5), ("host3", &[14], 5)],
        ),
        (Encapsulation::SourceRoutePolka, &[("host1", &[12, 13], 10), ("host3", &[14], 5)]),
    ] {
        carry(&mut world, chain, by);
        fabric.settle(&mut world);
        assert_active(&world, chain);
        world.drain_all();
        fabric.settle(&mut world);
        let name = |function: &u32| format!("i{function}");
        let expected: Vec<_> = expected
            .iter()
            .map(|(from, functions, ports)| {
                ((*from).to_owned(), functions.iter().map(name).collect::<Vec<_>>(), *ports)
            })
            .collect();
        assert_eq!(told(&headers(&world, chain)), expected, "{}", by.name());
    }
}

#[test]
fn functions_of_one_host_are_in_one_header_by_their_numbers() {
    let (mut world, fabric) = world();
    world.machine(15, 2, &[CUSTOMER, super::rig::INTERNAL]);
    world.function(15, 15, CUSTOMER, super::rig::INTERNAL);
    let chain = routed_chain(&mut world, 1, &[12, 15]);
    fabric.settle(&mut world);
    assert_active(&world, chain);
    let expected = vec![("host1".to_owned(), vec!["i12".to_owned(), "i15".to_owned()], 6)];
    assert_eq!(told(&headers(&world, chain)), expected);
    let number = world.blueprint.ledger.port_numbers[&node(2)].of_port(port_id(15, CUSTOMER));
    assert!(number.is_some(), "nobody else sends to it over links");
    let onward = &programs(&world)[&node(1)].onward;
    assert_eq!(onward.len(), 1);
    assert_eq!((&onward[0].from, &onward[0].node), (&node(2), &node(2)));
    assert_eq!(onward[0].ports, [number.unwrap()]);
}

#[test]
fn behind_a_function_that_rewrites_its_own_node_writes_the_next_header() {
    let (mut world, fabric) = world();
    let chain = routed_chain(&mut world, 1, &[12, 13]);
    let function = world.intent.functions.get_mut(&FunctionId(id(5, 12))).unwrap();
    function.mapping.egress.source_prefix = Some("10.9.0.0/24".parse().unwrap());
    fabric.settle(&mut world);
    assert_active(&world, chain);
    let told = told(&headers(&world, chain));
    assert_eq!(told.iter().map(|(from, ..)| from.as_str()).collect::<Vec<_>>(), ["host1", "host2"]);
    assert!(programs(&world).values().all(|program| program.onward.is_empty()));
}

#[test]
fn a_chain_that_begins_anywhere_has_its_long_header_written_by_its_first_functions_node() {
    let (mut world, fabric) = world();
    let chain = routed_chain(&mut world, 1, &[12, 13, 14]);
    let rule = world.intent.chains[&chain].rules[0];
    world.intent.rules.get_mut(&rule).unwrap().source_port = None;
    fabric.settle(&mut world);
    assert_active(&world, chain);
    let told = told(&headers(&world, chain));
    let of = |from: &str| told.iter().filter(|(by, ..)| by == from).cloned().collect::<Vec<_>>();
    let names = |numbers: &[u32]| numbers.iter().map(|n| format!("i{n}")).collect::<Vec<_>>();
    assert_eq!(of("host1"), [("host1".to_owned(), names(&[12]), 5)]);
    assert_eq!(of("host2"), [("host2".to_owned(), names(&[13, 14]), 10)]);
    assert!(programs(&world)[&node(1)].onward.is_empty());
}

#[test]
fn a_header_ends_at_a_node_of_a_version_that_would_not_keep_what_is_left() {
    let (mut world, fabric) = world();
    let chain = routed_chain(&mut world, 1, &[12, 13, 14]);
    world.inventory.facts_mut(&node(3)).unwrap().protocol = RESTS_SINCE_PROTOCOL - 1;
    fabric.settle(&mut world);
    assert_active(&world, chain);
    let path = world.status(chain).path;
    let lengths = |world: &World| {
        headers(world, chain).iter().map(|header| header.instances.len()).collect::<Vec<_>>()
    };
    assert_eq!(lengths(&world), [2, 1]);
    assert_programs(&world.blueprint, &world.intent, &world.inventory);
    world.inventory.facts_mut(&node(3)).unwrap().protocol = RESTS_SINCE_PROTOCOL;
    fabric.settle(&mut world);
    assert_eq!((lengths(&world), world.status(chain).path), (vec![3], path));
    assert_programs(&world.blueprint, &world.intent, &world.inventory);
}

#[test]
fn a_number_leads_on_from_no_node_of_a_version_that_does_not_begin_passes() {
    let (mut world, fabric) = world();
    let chain = routed_chain(&mut world, 1, &[12, 13]);
    carry(&mut world, chain, Encapsulation::SourceRoutePolka);
    world.inventory.facts_mut(&node(2)).unwrap().protocol = PASSES_SINCE_PROTOCOL - 1;
    fabric.settle(&mut world);
    assert_active(&world, chain);
    let lengths = |world: &World| {
        headers(world, chain).iter().map(|header| header.instances.len()).collect::<Vec<_>>()
    };
    assert_eq!(lengths(&world), [1, 1]);
    assert_programs(&world.blueprint, &world.intent, &world.inventory);
    world.inventory.facts_mut(&node(2)).unwrap().protocol = PASSES_SINCE_PROTOCOL;
    fabric.settle(&mut world);
    assert_eq!(lengths(&world), [2]);
    assert_programs(&world.blueprint, &world.intent, &world.inventory);
}

#[test]
fn headers_give_way_to_what_cannot_do_without_a_number() {
    let (mut world, mut fabric) = world();
    world.machine(15, 2, &[CUSTOMER, super::rig::INTERNAL]);
    world.function(15, 15, CUSTOMER, super::rig::INTERNAL);
    // So many links that half of all numbers are given.
    fabric.spares.extend((0..130).map(|number| (node(2), format!("spare{number}"))));
    let chain = routed_chain(&mut world, 1, &[12, 15, 13]);
    fabric.settle(&mut world);
    assert_active(&world, chain);
    let book = &world.blueprint.ledger.port_numbers[&node(2)];
    assert_eq!(book.of_port(port_id(15, CUSTOMER)), None);
    let told = told(&headers(&world, chain));
    let froms: Vec<&str> = told.iter().map(|(from, ..)| from.as_str()).collect();
    assert_eq!(froms, ["host1", "host2"], "the second function is reached without a number");
}

#[test]
fn whoever_holds_a_way_that_went_is_waited_for_before_its_number_is_anothers() {
    let (mut world, mut fabric) = world();
    let chain = routed_chain(&mut world, 1, &[12, 13]);
    fabric.settle(&mut world);
    assert_active(&world, chain);
    let running = programs(&world);
    let way = running[&node(1)].onward.iter().find(|way| way.node == node(3)).unwrap().clone();
    // The cable of host 2 is gone, whose number headers of host 1 name behind the first function.
    fabric.cut(&running, &node(2), way.ports[0]);
    let link = running[&node(2)].exits.iter().find(|exit| exit.number == way.ports[0]).unwrap();
    fabric.absent.insert((node(2), link.link().unwrap().to_owned()));
    let names: Vec<_> = world.inventory.all().map(|(name, ..)| name.clone()).collect();
    names.iter().for_each(|name| fabric.tell(&mut world, name, &running));
    world.plan();
    let resting = &world.blueprint.ledger.port_numbers[&node(2)].resting()[&way.ports[0]];
    assert!(resting.senders.contains_key(&node(1)), "{resting:?}");
    acknowledge_everywhere(&mut world);
}
