//! Headers over several functions that end at switches which are edges: how few there are, and who is told of them.
#![allow(clippy::unwrap_used)]

use super::fabric::{Fabric, acknowledge_everywhere, programs};
use super::oracle::assert_programs;
use super::profiles::chain_by;
use super::rig::{CUSTOMER, INTERNAL, World, node};
use super::source_routes::{assert_active, carry};
use catena_model::NodeProgram;
use catena_model::entry::Entries;
use catena_model::id::ChainId;
use catena_model::program::{ExitPlace, InstanceEntry};
use catena_model::resource::Encapsulation;
use catena_model::source_route::{JoinedWay, behind};
use catena_model::status::PathHeader;
use catena_model::stitch::STITCHES_SINCE_PROTOCOL;
use catena_model::topology::PortNumber;
use proptest::prelude::*;

const SAFE: Encapsulation = Encapsulation::SourceRouteSafe9;
const HOSTS: u32 = 4;
/// The functions, each the next host's.
const FUNCTIONS: std::ops::Range<u32> = 11..21;

/// A fabric of leaves and spines, in which these switches are edges.
fn world(is_edge: impl Fn(usize) -> bool) -> (World, Fabric) {
    let mut world = World::new(HOSTS);
    world.machine(1, 1, &[CUSTOMER]);
    world.machine(2, HOSTS, &[CUSTOMER]);
    for function in FUNCTIONS {
        world.machine(function, 1 + function % HOSTS, &[CUSTOMER, INTERNAL]);
        world.function(function, function, CUSTOMER, INTERNAL);
    }
    let fabric = Fabric::leaf_spine(&mut world, HOSTS);
    mark(&mut world, is_edge);
    fabric.settle(&mut world);
    (world, fabric)
}

fn mark(world: &mut World, is_edge: impl Fn(usize) -> bool) {
    for (place, facts) in world.inventory.switches.values_mut().enumerate() {
        facts.is_edge = is_edge(place);
    }
}

fn headers(world: &World, chain: ChainId) -> Vec<PathHeader> {
    let ledger = &world.blueprint.ledger;
    let (_, path) = ledger.current(chain).next().unwrap();
    crate::path_headers(ledger, path, &world.inventory)
}

/// The instances on the path of a chain each of whose functions has one.
fn met(world: &World, chain: ChainId) -> Vec<InstanceEntry> {
    let (_, path) = world.blueprint.ledger.current(chain).next().unwrap();
    path.hops.iter().map(|hop| hop.instances[0].clone()).collect()
}

fn number_of(entries: &Entries, instance: &InstanceEntry) -> Option<PortNumber> {
    let place = ExitPlace::Port(instance.ingress);
    entries.exits.values().find(|exit| exit.to == place).map(|exit| exit.number)
}

/// Does a node send a packet on by these ports, which a function of its has got it with?
fn is_taken(
    program: &NodeProgram,
    next: &InstanceEntry,
    left: &[PortNumber],
    by: Encapsulation,
) -> bool {
    let entries = program.entries();
    if next.node == program.node {
        return number_of(&entries, next) == left.first().copied();
    }
    let own = entries.headed((&next.node, next.ingress), by).unwrap();
    match own.ports.iter().zip(left).position(|(own, left)| own != left) {
        None => left.len() >= own.ports.len(),
        Some(place) => {
            let to = (&next.node, next.ingress);
            let mut stitches = entries.stitches_to(&program.node, to, by);
            place + 1 == left.len()
                && stitches
                    .any(|stitch| (usize::from(stitch.at), stitch.number) == (place, left[place]))
        }
    }
}

/// Carries a packet along its chain by what programs say alone. Answers how many headers it has had.
fn carried(world: &World, fabric: &Fabric, chain: ChainId, by: Encapsulation) -> usize {
    let (running, met) = (programs(world), met(world, chain));
    let (_, path) = world.blueprint.ledger.current(chain).next().unwrap();
    let (mut at, mut place, mut headers) = (node(1), 0, 0);
    while let Some(next) = met.get(place) {
        if next.node == at {
            place += 1;
            continue;
        }
        let entries = running[&at].entries();
        let ahead = std::iter::once(place).chain(behind(&path.hops, place));
        let number = |port| {
            entries
                .exits
                .values()
                .find(|exit| exit.to == ExitPlace::Port(port))
                .map(|exit| exit.number)
        };
        let way = JoinedWay::along((&at, &entries), ahead.map(|place| &met[place]), by, number);
        let mut left = way.unwrap().0.ports;
        assert_eq!(by.fault_of_route(&left), None);
        headers += 1;
        while !left.is_empty() {
            let number = left.remove(0);
            let mut exits = running[&at].exits.iter();
            match &exits.find(|exit| exit.number == number).unwrap().to {
                ExitPlace::Link(_) => at = fabric.far_node(&running, &at, number).unwrap(),
                ExitPlace::Port(port) => {
                    assert_eq!((&at, *port), (&met[place].node, met[place].ingress));
                    place += 1;
                    if !left.is_empty() {
                        assert!(is_taken(&running[&at], &met[place], &left, by), "{at} {left:?}");
                    }
                }
                ExitPlace::Pathlet(next) => {
                    assert!(left.is_empty() && next.ports.last().unwrap() < &number);
                    assert_eq!(by.fault_of_route(&next.ports), None);
                    left.clone_from(&next.ports);
                    headers += 1;
                }
            }
        }
    }
    headers
}

/// The fewest headers of all choices of borders on the way of a chain: functions, and switches that are edges.
fn fewest(world: &World, chain: ChainId, by: Encapsulation) -> usize {
    #[derive(Clone, Copy, PartialEq)]
    enum Before {
        Nothing,
        Function,
        Edge,
    }
    let (mut at, mut before, mut local) = (node(1), Vec::new(), Vec::new());
    for instance in met(world, chain) {
        let is_local = instance.node == at;
        let cables = match is_local {
            true => &[][..],
            false => &world.blueprint.ledger.ways[&at][&instance.node],
        };
        for cable in cables {
            let is_edge = world.inventory.switches.get(&cable.node).is_some_and(|one| one.is_edge);
            before.push(match is_edge {
                _ if cable.node == at => Before::Function,
                true => Before::Edge,
                false => Before::Nothing,
            });
        }
        before.push(if is_local { Before::Function } else { Before::Nothing });
        local.resize(before.len() - 1, false);
        local.push(is_local);
        at = instance.node;
    }
    before.push(Before::Function);
    let mut fewest = vec![usize::MAX; before.len()];
    fewest[0] = 0;
    for start in 0..local.len() {
        if fewest[start] == usize::MAX {
            continue;
        }
        if local[start] && before[start] == Before::Function {
            fewest[start + 1] = fewest[start + 1].min(fewest[start]);
        }
        for end in start + 1..before.len() {
            let beside = usize::from(before[end] == Before::Edge);
            if before[end] != Before::Nothing && end - start + beside <= by.route_ports_max() {
                fewest[end] = fewest[end].min(fewest[start] + 1);
            }
        }
    }
    *fewest.last().unwrap()
}

#[test]
fn a_header_leads_over_a_function_and_ends_at_an_edge_whose_header_leads_over_the_next() {
    let (mut world, fabric) = world(|_| true);
    let chain = chain_by(&mut world, 1, &[13, 14, 15], SAFE);
    fabric.settle(&mut world);
    assert_active(&world, chain);
    assert_programs(&world.blueprint, &world.intent, &world.inventory);
    let told = headers(&world, chain);
    let instances: Vec<_> = told.iter().map(|one| one.instances.join(" ")).collect();
    assert_eq!(instances, ["i13", "i14", "i15"]);
    assert_eq!(told.iter().map(|one| one.ports).collect::<Vec<_>>(), [7, 7, 3]);
    let writers: Vec<_> = told.iter().map(|one| Some(one.from.clone())).collect();
    let edges: Vec<_> = told.iter().map(|one| one.edge.clone()).collect();
    assert_eq!(edges[..2], writers[1..]);
    assert_eq!(edges[2], None);
    assert_eq!(carried(&world, &fabric, chain, SAFE), 3);
    // The first host, and the nodes of the functions in the midst.
    let running = programs(&world);
    let known: Vec<usize> = (1..=HOSTS).map(|host| running[&node(host)].stitches.len()).collect();
    assert_eq!(known.iter().sum::<usize>(), 3, "{known:?}");
}

#[test]
fn what_an_edge_does_not_know_no_header_leads_to_and_the_chain_is_carried_without() {
    let (mut world, fabric) = world(|_| false);
    let chain = chain_by(&mut world, 1, &[13, 14, 15], SAFE);
    fabric.settle(&mut world);
    let before = headers(&world, chain);
    mark(&mut world, |_| true);
    world.inventory.switches.values_mut().for_each(|facts| facts.is_connected = false);
    // Hosts acknowledge alone.
    world.settle();
    assert_active(&world, chain);
    assert_eq!(headers(&world, chain), before);
    assert_eq!(carried(&world, &fabric, chain, SAFE), 3);
    assert!(programs(&world).values().all(|program| program.stitches.is_empty()));
    world.inventory.switches.values_mut().for_each(|facts| facts.is_connected = true);
    acknowledge_everywhere(&mut world);
    fabric.settle(&mut world);
    assert!(headers(&world, chain).iter().any(|header| header.edge.is_some()));
    carried(&world, &fabric, chain, SAFE);
    // A node of a version that knows of none is told of none.
    for facts in world.inventory.nodes.values_mut() {
        facts.protocol = STITCHES_SINCE_PROTOCOL - 1;
    }
    fabric.settle(&mut world);
    assert_active(&world, chain);
    assert!(programs(&world).values().all(|program| program.stitches.is_empty()));
    assert_eq!(headers(&world, chain), before);
}

#[test]
fn whoever_holds_a_header_that_went_is_waited_for_before_its_number_is_anothers() {
    let (mut world, fabric) = world(|_| true);
    let chain = chain_by(&mut world, 1, &[13, 14, 15], SAFE);
    fabric.settle(&mut world);
    let stitches = world.blueprint.ledger.stitches[&node(1)].clone();
    let edges: Vec<_> = stitches.iter().flat_map(|stitch| stitch.edges.clone()).collect();
    assert_eq!(edges.len(), 2);
    carry(&mut world, chain, Encapsulation::Nsh);
    fabric.settle(&mut world);
    world.drain_all();
    fabric.settle(&mut world);
    assert!(world.blueprint.ledger.stitches.is_empty());
    for (edge, number) in edges {
        let resting = &world.blueprint.ledger.port_numbers[&edge].resting()[&number];
        assert!(resting.senders.contains_key(&node(1)), "{resting:?}");
    }
    assert!(programs(&world).values().all(|program| program.stitches.is_empty()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_chain_over_edges_has_as_few_headers_as_any_other_choice_of_borders(
        functions in proptest::sample::subsequence(FUNCTIONS.collect::<Vec<_>>(), 1..=10).prop_shuffle(),
        marked in proptest::collection::vec(proptest::bool::ANY, 12),
        by in proptest::sample::select(vec![SAFE, Encapsulation::SourceRouteClassic80]),
    ) {
        let (mut world, fabric) = world(|place| marked[place % marked.len()]);
        let chain = chain_by(&mut world, 1, &functions, by);
        fabric.settle(&mut world);
        assert_active(&world, chain);
        assert_programs(&world.blueprint, &world.intent, &world.inventory);
        let headers_told = headers(&world, chain).len();
        let had = carried(&world, &fabric, chain, by);
        prop_assert_eq!(had, fewest(&world, chain, by));
        prop_assert_eq!(had, headers_told);
    }
}
