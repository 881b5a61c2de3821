//! Chains over source routes whose headers hold fewer ports, or little else.
#![allow(clippy::unwrap_used)]

use super::fabric::{Fabric, programs, switch};
use super::rig::{CUSTOMER, INTERNAL, PROTOCOL, World, id, node, port_id};
use super::source_routes::{assert_active, carry};
use crate::NodeFacts;
use crate::check::tests::check;
use catena_model::id::{ChainId, FunctionId, InstanceId};
use catena_model::program::{ExitPlace, Underlay};
use catena_model::resource::{Encapsulation, FlowField};
use catena_model::source_route::GIVES_SINCE_PROTOCOL;
use catena_model::status::ChainState;
use catena_model::topology::PortNumber;
use catena_model::{NodeName, PathId};
use catena_wire::source_route::polka::residues::{Reducer, identify};

const MARKED: [Encapsulation; 2] =
    [Encapsulation::SourceRouteSafe9, Encapsulation::SourceRouteClassic80];
const LABELLED: Encapsulation = Encapsulation::SourceRouteSrMpls;
const NUMBERED: Encapsulation = Encapsulation::SourceRoutePolka;
const OTHERS: [Encapsulation; 4] = [MARKED[0], MARKED[1], LABELLED, NUMBERED];

/// Three hosts at two leaves and two spines, each with a function.
fn world() -> (World, Fabric) {
    let mut world = World::new(3);
    world.machine(1, 1, &[CUSTOMER]);
    world.machine(2, 3, &[CUSTOMER]);
    for (on, function) in (1..).zip([11, 12, 13]) {
        world.machine(function, on, &[CUSTOMER, INTERNAL]);
        world.function(function, function, CUSTOMER, INTERNAL);
    }
    let fabric = Fabric::leaf_spine(&mut world, 3);
    fabric.settle(&mut world);
    (world, fabric)
}

pub(super) fn chain_by(
    world: &mut World,
    number: u32,
    functions: &[u32],
    by: Encapsulation,
) -> ChainId {
    let chain = world.chain(number, 1, functions);
    carry(world, chain, by);
    chain
}

#[test]
fn chains_that_go_the_same_way_have_headers_of_their_own() {
    for by in OTHERS {
        let (mut world, fabric) = world();
        let chains = [1, 2].map(|number| chain_by(&mut world, number, &[12, 13], by));
        fabric.settle(&mut world);
        let paths = chains.map(|chain| {
            assert_active(&world, chain);
            world.status(chain).path.unwrap()
        });
        // The identifier is the mark, or the last label, and the way is one entry for both.
        assert_ne!(paths[0], paths[1]);
        assert!(paths.iter().all(|path| by.identifiers().contains(&path.0)));
        assert_eq!(programs(&world)[&node(1)].routes.len(), 1);
    }
}

#[test]
fn a_chain_moves_through_all_profiles_under_another_identifier_each_time() {
    let (mut world, fabric) = world();
    let chain = world.chain(1, 1, &[12, 13]);
    fabric.settle(&mut world);
    let mut before: Vec<PathId> = Vec::new();
    for by in Encapsulation::ALL.into_iter().chain(Encapsulation::ALL) {
        carry(&mut world, chain, by);
        fabric.settle(&mut world);
        assert_active(&world, chain);
        let path = world.status(chain).path.unwrap();
        let lately = before.iter().rev().take(2);
        assert!(!lately.copied().any(|id| id == path), "{path} again as {}", by.name());
        before.push(path);
        world.drain_all();
        fabric.settle(&mut world);
    }
}

/// A row of so many switches between the first host and the second.
pub(super) fn row(switches: u32) -> (World, Fabric) {
    let mut world = World::new(2);
    world.machine(1, 1, &[CUSTOMER]);
    world.machine(12, 2, &[CUSTOMER, INTERNAL]);
    world.function(12, 12, CUSTOMER, INTERNAL);
    let mut fabric = Fabric::default();
    let mut last = node(1);
    for number in 1..=switches {
        let address = [192, 0, 2, u8::try_from(100 + number).unwrap()].into();
        let mut facts = NodeFacts::new(Underlay { address, mtu: 1_500 });
        (facts.is_connected, facts.protocol) = (true, PROTOCOL);
        world.inventory.switches.insert(switch(number), facts);
        fabric.plug(&last, &switch(number));
        last = switch(number);
    }
    fabric.plug(&last, &node(2));
    fabric.settle(&mut world);
    (world, fabric)
}

#[test]
fn a_chain_that_nobody_has_planned_yet_is_not_said_to_lack_cables_that_are_there() {
    let (mut world, _) = row(3);
    assert!(world.blueprint.ledger.paths.sends().is_empty(), "no chain has had ways followed");
    let chain = chain_by(&mut world, 1, &[12], MARKED[0]);
    let reason = world.status(chain).reason;
    assert!(reason.contains("the planner has not run yet"), "{reason}");
}

#[test]
fn a_way_that_is_too_long_for_a_header_is_refused_with_what_to_do() {
    for by in OTHERS {
        // A cable more than switches, and the port of the function.
        let most = by.route_ports_max();
        let switches = u32::try_from(most - 2).unwrap();
        let (mut world, fabric) = row(switches);
        let chain = chain_by(&mut world, 1, &[12], by);
        fabric.settle(&mut world);
        assert_active(&world, chain);
        let (mut world, fabric) = row(switches + 1);
        let chain = chain_by(&mut world, 1, &[12], by);
        fabric.settle(&mut world);
        let status = world.status(chain);
        assert_eq!((status.state, status.path), (ChainState::Building, None));
        let (cables, ports) = (format!("has {most} cables"), format!("holds {most} ports"));
        let farthest = format!("'catena node set switch{} --edge'", most - 1);
        let todo = ["another encapsulation", &farthest, "a node that is nearer"];
        for part in ["function 'v12'", &cables, by.name(), &ports].into_iter().chain(todo) {
            assert!(status.reason.contains(part), "{}", status.reason);
        }
        carry(&mut world, chain, Encapsulation::SourceRouteNative);
        fabric.settle(&mut world);
        assert_active(&world, chain);
    }
}

#[test]
fn a_chain_whose_way_became_too_long_is_degraded_and_says_why() {
    let (mut world, mut fabric) = row(6);
    fabric.plug(&node(1), &switch(6));
    fabric.settle(&mut world);
    let chain = chain_by(&mut world, 1, &[12], MARKED[0]);
    fabric.settle(&mut world);
    assert_active(&world, chain);
    fabric.wires.last_mut().unwrap().is_up = false;
    fabric.settle(&mut world);
    let status = world.status(chain);
    assert_eq!(status.state, ChainState::Degraded);
    assert!(status.reason.contains("has 7 cables"), "{}", status.reason);
    fabric.wires.last_mut().unwrap().is_up = true;
    fabric.settle(&mut world);
    assert_active(&world, chain);
}

/// The number of a function's port.
fn number_of(world: &World, host: u32, machine: u32) -> Option<PortNumber> {
    world.blueprint.ledger.port_numbers[&node(host)].of_port(port_id(machine, CUSTOMER))
}

#[test]
fn the_ports_of_functions_have_even_numbers_as_long_as_there_are_any() {
    let (mut world, mut fabric) = world();
    fabric.spares.push((node(2), "spare".into()));
    fabric.settle(&mut world);
    let chain = chain_by(&mut world, 1, &[12, 13], Encapsulation::SourceRouteNative);
    fabric.settle(&mut world);
    assert_active(&world, chain);
    // Two links have 1 and 2.
    assert_eq!(number_of(&world, 2, 12), PortNumber::new(4));
    assert_eq!(number_of(&world, 3, 13), PortNumber::new(2));
}

#[test]
fn a_header_that_others_take_for_something_else_is_refused_by_the_case() {
    let (mut world, mut fabric) = world();
    // All even numbers of host 2 are links'.
    fabric.spares.extend((0..253).map(|number| (node(2), format!("spare{number}"))));
    fabric.settle(&mut world);
    let books = &world.blueprint.ledger.port_numbers[&node(2)];
    let odd = books.places().find(|(number, place)| {
        number.get() % 2 == 1 && matches!(place, ExitPlace::Link(link) if link.starts_with("spare"))
    });
    let Some((_, ExitPlace::Link(odd))) = odd else { panic!("there is an odd one") };
    fabric.spares.retain(|(_, link)| *link != odd);
    fabric.settle(&mut world);
    let chain = chain_by(&mut world, 1, &[12], MARKED[1]);
    for _ in 0..40 {
        // Blueprints are what the number of the link rests in.
        let other = ChainId(id(7, 2));
        match world.intent.chains.contains_key(&other) {
            true => drop(world.intent.chains.remove(&other)),
            false => drop(world.chain(2, 1, &[13])),
        }
        fabric.settle(&mut world);
    }
    let number = number_of(&world, 2, 12).map(PortNumber::get);
    assert!(number.is_some_and(|number| number % 2 == 1), "{number:?}");
    let status = world.status(chain);
    assert_eq!(status.state, ChainState::Building);
    for part in ["source-route/classic-80", "its last port is odd", "group", "source-route/safe-9"]
    {
        assert!(status.reason.contains(part), "{}", status.reason);
    }
    carry(&mut world, chain, MARKED[0]);
    fabric.settle(&mut world);
    assert_active(&world, chain);
}

#[test]
fn no_slice_is_carried_where_there_is_no_room_for_its_path() {
    for by in OTHERS {
        let (mut world, _) = world();
        let chain = chain_by(&mut world, 1, &[12], by);
        world.slice(1, chain, Some(1));
        let refused = check(&world.intent).unwrap_err().to_string();
        for part in [by.name(), "no room for the paths of slices", "nsh, mpls, source-route/native"]
        {
            assert!(refused.contains(part), "{refused}");
        }
        carry(&mut world, chain, Encapsulation::SourceRouteNative);
        assert_eq!(check(&world.intent), Ok(()));
    }
}

#[test]
fn nobody_chooses_instances_by_what_is_not_kept() {
    let (mut world, _) = world();
    let chain = chain_by(&mut world, 1, &[12], MARKED[0]);
    let second = world.intent.functions[&FunctionId(id(5, 13))].instances[0];
    let function = world.intent.functions.get_mut(&FunctionId(id(5, 12))).unwrap();
    function.balance = vec![FlowField::EthDst];
    assert_eq!(check(&world.intent), Ok(()), "there is no choice");
    let function = world.intent.functions.get_mut(&FunctionId(id(5, 12))).unwrap();
    function.instances.push(second);
    let refused = check(&world.intent).unwrap_err().to_string();
    for part in ["'c1'", "source-route/safe-9", "eth_dst", "'v12'"] {
        assert!(refused.contains(part), "{refused}");
    }
    world.intent.chains.get_mut(&chain).unwrap().is_symmetric = true;
    assert_eq!(check(&world.intent), Ok(()), "where answers come back, MACs choose nothing");
    world.intent.chains.get_mut(&chain).unwrap().is_symmetric = false;
    carry(&mut world, chain, Encapsulation::SourceRouteNative);
    assert_eq!(check(&world.intent), Ok(()));
}

#[test]
fn the_number_of_each_way_leaves_every_node_on_it_its_port() {
    let (mut world, fabric) = world();
    let before = [1, 2, 3, 4].map(|number| world.blueprint.programs.get(&switch(number)).cloned());
    let chain = chain_by(&mut world, 1, &[12, 13], NUMBERED);
    fabric.settle(&mut world);
    assert_active(&world, chain);
    let after = [1, 2, 3, 4].map(|number| world.blueprint.programs.get(&switch(number)).cloned());
    assert_eq!(before, after, "nothing of any chain is told to switches");
    let running = programs(&world);
    let routes = running
        .iter()
        .flat_map(|(from, program)| program.routes.iter().map(move |route| (from, route)));
    let mut walked = 0;
    for (from, route) in routes {
        let identities = route.identities.iter().map(|one| one.polynomial().unwrap());
        let ports = route.ports[1..].iter().map(|port| u16::from(port.get()));
        let residues: Vec<_> = identities.zip(ports).collect();
        assert_eq!(residues.len(), route.ports.len() - 1);
        let mut number = vec![0; 2 * residues.len()];
        identify(&residues, &mut number).unwrap();
        let mut at = from.clone();
        for pair in route.ports.windows(2) {
            at = fabric.far_node(&running, &at, pair[0]).unwrap();
            let own = running[&at].identities[0].identity.polynomial().unwrap();
            assert_eq!(Reducer::new(own).residue(&number), u16::from(pair[1].get()), "{at}");
        }
        assert_eq!(at, route.node);
        walked += 1;
    }
    assert!(walked >= 2, "{walked}");
}

#[test]
fn a_number_that_leads_on_leaves_every_node_its_port_in_each_pass() {
    let (mut world, fabric) = world();
    let chain = chain_by(&mut world, 1, &[12, 13], NUMBERED);
    fabric.settle(&mut world);
    assert_active(&world, chain);
    let running = programs(&world);
    let mut walked = 0;
    for (from, program) in &running {
        let pairs = program.routes.iter().flat_map(|route| {
            let behind = program.onward.iter().filter(|onward| onward.from == route.node);
            behind.map(move |onward| (route, onward))
        });
        for (route, onward) in pairs {
            let ports: Vec<_> = route.ports[1..].iter().chain(&onward.ports).collect();
            let by = route.identities.iter().chain(&onward.identities);
            let residues: Vec<_> = by
                .map(|one| one.polynomial().unwrap())
                .zip(ports.iter().map(|port| u16::from(port.get())))
                .collect();
            assert_eq!(residues.len(), ports.len());
            let mut number = vec![0; 2 * residues.len()];
            identify(&residues, &mut number).unwrap();
            let read = |at: &NodeName, pass: usize| {
                let own = running[at].identities[pass].identity.polynomial().unwrap();
                PortNumber::new(Reducer::new(own).residue(&number) as u8).unwrap()
            };
            let (mut at, mut port) = (from.clone(), route.ports[0]);
            for pass in [0, 1] {
                if pass == 1 {
                    assert_eq!(at, route.node);
                    port = read(&at, pass);
                }
                while let Some(next) = fabric.far_node(&running, &at, port) {
                    (at, port) = (next.clone(), read(&next, pass));
                }
            }
            let out = running[&at].exits.iter().find(|exit| exit.number == port).unwrap();
            assert_eq!((&at, &out.to), (&onward.node, &ExitPlace::Port(onward.to)));
            walked += 1;
        }
    }
    assert!(walked >= 1, "{walked}");
}

#[test]
fn a_way_over_a_node_without_an_identity_is_refused_with_the_node() {
    let (mut world, fabric) = world();
    let chain = chain_by(&mut world, 1, &[12], NUMBERED);
    fabric.settle(&mut world);
    assert_active(&world, chain);
    let ledger = &world.blueprint.ledger;
    let named = |numbers: &crate::NumberBooks| {
        crate::routing::identities((&ledger.ways, numbers), &node(1), &node(2), 0)
    };
    let found = named(&ledger.port_numbers).unwrap();
    assert_eq!(found.len(), ledger.ways[&node(1)][&node(2)].len());
    let mut numbers = ledger.port_numbers.clone();
    numbers.remove(&switch(2));
    let refused = named(&numbers).unwrap_err();
    assert!(refused.contains("node 'switch2'") && refused.contains("2040 nodes"), "{refused}");
    // The end of a way with the book of a switch on it.
    let book = numbers[&node(2)].clone();
    numbers.insert(switch(2), book);
    let refused = named(&numbers).unwrap_err();
    assert!(refused.contains("comes by node 'host2' twice"), "{refused}");
}

#[test]
fn a_chain_does_not_turn_over_a_node_of_an_older_version_and_names_it() {
    for by in [LABELLED, NUMBERED, Encapsulation::SourceRouteNativeTagged] {
        let since = by.capabilities().since_protocol;
        for stranger in [switch(2), node(2)] {
            let (mut world, fabric) = world();
            let chain = world.chain(1, 1, &[12]);
            fabric.settle(&mut world);
            let former = world.status(chain).path;
            // It speaks what the controller spoke before, goes on as it did, and is away.
            let facts = world.inventory.facts_mut(&stranger).unwrap();
            (facts.protocol, facts.is_connected) = (since - 1, false);
            carry(&mut world, chain, by);
            fabric.settle(&mut world);
            let status = world.status(chain);
            assert_eq!((status.state, status.path), (ChainState::Degraded, former));
            for part in [stranger.as_str(), by.name(), "bring it up to date", "function 'v12'"] {
                assert!(status.reason.contains(part), "{}", status.reason);
            }
            // What every version knows is carried.
            carry(&mut world, chain, MARKED[0]);
            fabric.settle(&mut world);
            assert_ne!(world.status(chain).path, former);
            carry(&mut world, chain, by);
            let facts = world.inventory.facts_mut(&stranger).unwrap();
            (facts.protocol, facts.is_connected) = (since, true);
            fabric.settle(&mut world);
            assert_active(&world, chain);
            // What carries packets goes on, and its state says what may become of them.
            let path = world.status(chain).path;
            world.inventory.facts_mut(&stranger).unwrap().protocol = since - 1;
            fabric.settle(&mut world);
            let status = world.status(chain);
            assert_eq!((status.state, status.path), (ChainState::Degraded, path));
        }
    }
}

#[test]
fn no_chain_turns_to_numbers_that_a_node_on_the_way_does_not_divide_yet() {
    let (mut world, fabric) = world();
    let chain = world.chain(1, 1, &[12]);
    fabric.settle(&mut world);
    let former = world.status(chain).path;
    // The controller was started anew, and has not heard of this switch since.
    let facts = world.inventory.facts_mut(&switch(2)).unwrap();
    let known = std::mem::take(&mut facts.acknowledged);
    facts.is_connected = false;
    carry(&mut world, chain, NUMBERED);
    world.settle();
    let status = world.status(chain);
    assert_eq!((status.state, status.path), (ChainState::Updating, former));
    assert!(status.reason.contains("node 'switch2' is not connected"), "{}", status.reason);
    assert!(status.reason.contains("divides numbers of ways by"), "{}", status.reason);
    let facts = world.inventory.facts_mut(&switch(2)).unwrap();
    (facts.acknowledged, facts.is_connected) = (known, true);
    fabric.settle(&mut world);
    assert_active(&world, chain);
    // What it divides by is given anew with its links, and known when it runs that program.
    let mut unplugged = fabric.clone();
    let ends = unplugged.wires.iter().flat_map(|wire| wire.ends.clone());
    unplugged.absent = ends.filter(|(node, _)| *node == switch(2)).collect();
    unplugged.settle(&mut world);
    let given = |world: &World| world.blueprint.ledger.port_numbers[&switch(2)].identities_since();
    let before = given(&world);
    fabric.settle(&mut world);
    assert!(given(&world) > before);
    assert_active(&world, chain);
}

#[test]
fn functions_that_read_source_routes_are_on_chains_that_give_them_their_header() {
    let reads = |world: &mut World, function: u32| {
        let instance = world.intent.instances.get_mut(&InstanceId(id(4, function))).unwrap();
        instance.speaks = Some(Encapsulation::SourceRouteNative);
    };
    for by in [Encapsulation::SourceRouteNative, Encapsulation::SourceRouteNativeTagged] {
        let (mut world, fabric) = world();
        let chain = chain_by(&mut world, 1, &[12, 13], by);
        reads(&mut world, 12);
        assert_eq!(check(&world.intent), Ok(()));
        // One of a version that would not give it.
        world.inventory.facts_mut(&node(2)).unwrap().protocol = GIVES_SINCE_PROTOCOL - 1;
        fabric.settle(&mut world);
        let status = world.status(chain);
        assert_eq!(status.state, ChainState::Building);
        for part in ["'i12'", "'v12'", "node 'host2'", "bring it up to date"] {
            assert!(status.reason.contains(part), "{}", status.reason);
        }
        world.inventory.facts_mut(&node(2)).unwrap().protocol = GIVES_SINCE_PROTOCOL;
        fabric.settle(&mut world);
        assert_active(&world, chain);
        let program = &programs(&world)[&node(2)];
        let spoken = program.paths.iter().flat_map(|path| &path.hops[0].instances);
        assert!(spoken.into_iter().all(|one| one.speaks == Some(Encapsulation::SourceRouteNative)));
    }
    let tunnelled = Encapsulation::TUNNELLED.into_iter();
    for by in OTHERS.into_iter().chain(tunnelled) {
        let (mut world, _) = world();
        chain_by(&mut world, 1, &[12], by);
        reads(&mut world, 12);
        let refused = check(&world.intent).unwrap_err().to_string();
        for part in [
            by.name(),
            "'i12' speaks source-route/native",
            "carry the chain by source-route/native",
        ] {
            assert!(refused.contains(part), "{refused}");
        }
    }
}

/// The header tells the path alone, and the port where on it a packet is.
#[test]
fn a_function_that_reads_source_routes_gives_back_by_a_port_of_its_own() {
    let (mut world, _) = world();
    world.function(60, 12, INTERNAL, INTERNAL);
    let chain = chain_by(&mut world, 1, &[12, 60], Encapsulation::SourceRouteNative);
    for function in [12, 60] {
        let instance = world.intent.instances.get_mut(&InstanceId(id(4, function))).unwrap();
        instance.speaks = Some(Encapsulation::SourceRouteNative);
    }
    let refused = check(&world.intent).unwrap_err();
    assert!(matches!(refused, crate::PlanError::AmbiguousReturn { .. }), "{refused}");
    // By NSH each says it itself.
    carry(&mut world, chain, Encapsulation::Nsh);
    for function in [12, 60] {
        let instance = world.intent.instances.get_mut(&InstanceId(id(4, function))).unwrap();
        instance.speaks = Some(Encapsulation::Nsh);
    }
    assert_eq!(check(&world.intent), Ok(()));
}
