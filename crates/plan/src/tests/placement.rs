//! Hosts for functions: what is declared and found, as a question, and the answer in the names people gave.
#![allow(clippy::unwrap_used)]

use super::rig::{CUSTOMER, INTERNAL, World, node, port_id};
use super::source_routes::world;
use catena_model::id::ChainId;
use catena_model::instance::Door;
use catena_model::placement::{PlacementRequest, Proposal, WayCost};
use catena_model::resource::{Encapsulation, FunctionTemplate, Runs};
use std::collections::BTreeMap;

/// Nobody has bound the ports of a machine.
fn unplug(world: &mut World, machine: u32) {
    for network in [CUSTOMER, INTERNAL] {
        let port = world.intent.ports.get_mut(&port_id(machine, network)).unwrap();
        (port.node, port.attachment) = (None, None);
    }
}

fn propose(world: &World, chain: ChainId, free: &[&str], per_host: usize) -> Proposal {
    let chain = &world.intent.chains[&chain];
    let free = free.iter().map(|&name| name.to_owned()).collect();
    let request = PlacementRequest { chains: Vec::new(), free, per_host };
    let (blueprint, inventory) = (&world.blueprint, &world.inventory);
    crate::placements(blueprint, &world.intent, inventory, &[chain], &request).remove(0)
}

fn hosts(proposal: &Proposal) -> Vec<Option<String>> {
    let functions = proposal.functions.iter();
    functions.map(|function| function.host.as_ref().map(ToString::to_string)).collect()
}

fn cost(racks: usize, ports: usize, pathlets: usize) -> Option<WayCost> {
    Some(WayCost { racks, ports, pathlets: Some(pathlets) })
}

/// Hosts 1 and 3 are at one leaf, 2 and 4 at the other; packets begin at host 1.
#[test]
fn a_function_that_stands_nowhere_is_proposed_a_host_between_those_that_stand() {
    let (mut world, fabric) = world();
    let chain = world.chain(1, 1, &[11, 12, 13]);
    fabric.settle(&mut world);
    let standing = propose(&world, chain, &[], 1);
    assert_eq!(hosts(&standing), [None, None, None]);
    assert_eq!((standing.now, standing.proposed), (cost(2, 10, 1), cost(2, 10, 1)));

    unplug(&mut world, 12);
    let proposal = propose(&world, chain, &[], 1);
    assert_eq!((&proposal.trouble, proposal.now), (&None, None));
    // Hosts 1 and 3 have a function each.
    assert_eq!(hosts(&proposal), [None, Some("host2".into()), None]);
    assert_eq!((proposal.proposed, proposal.is_proved), (cost(2, 10, 1), true));
    let rack: Vec<String> = proposal.functions[1].rack.iter().map(ToString::to_string).collect();
    assert_eq!(rack, ["switch2"]);
    // With one before or behind it on its host it costs nothing.
    let beside = propose(&world, chain, &[], 2);
    assert_eq!((hosts(&beside)[1].as_deref(), beside.proposed), (Some("host1"), cost(1, 3, 1)));
    assert_eq!(beside, propose(&world, chain, &[], 2), "another time another host");

    // What may move, does.
    let names: Vec<String> = proposal.functions.iter().map(|one| one.function.clone()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let moved = propose(&world, chain, &names, 1);
    assert_eq!((hosts(&moved)[0].as_deref(), moved.proposed), (Some("host1"), cost(2, 8, 1)));

    // Where it is to be run, it stands.
    let function = world.intent.chains[&chain].functions[1];
    let template = FunctionTemplate {
        config: Default::default(),
        networks: Vec::new(),
        runs: Runs::Image("ids".into()),
        door: Door::default(),
        cpu_milli: None,
        memory_mib: None,
        priority: None,
        bandwidth_mbit: None,
        delay_us: None,
        instances: 1,
        labels: BTreeMap::new(),
        on: [node(2)].into(),
    };
    world.intent.functions.get_mut(&function).unwrap().template = Some(template);
    let wanted = propose(&world, chain, &[], 1);
    assert_eq!((hosts(&wanted), wanted.now), (vec![None; 3], cost(2, 10, 1)));
    assert_eq!(wanted.functions[1].now, [node(2)]);
    world.intent.functions.get_mut(&function).unwrap().template = None;

    // Who is away takes nobody in.
    for away in [2, 4] {
        world.inventory.nodes.get_mut(&node(away)).unwrap().is_connected = false;
    }
    let why = propose(&world, chain, &[], 1).trouble.unwrap();
    assert!(why.contains("no hosts that have room"), "{why}");
    let why = propose(&world, chain, &names, 1).trouble.unwrap();
    assert!(
        why.contains("3 functions are to be placed, and 2 hosts are there that take 1 each"),
        "{why}"
    );
}

#[test]
fn what_headers_do_not_reach_is_no_host_and_nodes_that_nobody_knows_are_named() {
    let (mut world, mut fabric) = world();
    let chain = world.chain(1, 1, &[11, 12]);
    world.intent.chains.get_mut(&chain).unwrap().encapsulation = Encapsulation::SourceRouteSafe9;
    unplug(&mut world, 12);
    fabric.settle(&mut world);
    let free = hosts(&propose(&world, chain, &[], 1));
    assert_eq!(free[1].as_deref(), Some("host3"));
    // Host 3 loses its cable.
    let is_own =
        |ends: &[(catena_model::NodeName, String); 2]| ends.iter().any(|end| end.0 == node(3));
    fabric.wires.iter_mut().filter(|wire| is_own(&wire.ends)).for_each(|wire| wire.is_up = false);
    fabric.settle(&mut world);
    let cut = propose(&world, chain, &[], 1);
    assert_eq!((hosts(&cut)[1].as_deref(), cut.proposed), (Some("host2"), cost(2, 5, 1)));
    // All others do.
    fabric.wires.iter_mut().for_each(|wire| wire.is_up = false);
    fabric.settle(&mut world);
    let why = propose(&world, chain, &[], 1).trouble.unwrap();
    assert!(why.contains("joined by cables"), "{why}");

    let stranger = "host9".parse().unwrap();
    world.intent.ports.get_mut(&port_id(11, CUSTOMER)).unwrap().node = Some(stranger);
    let why = propose(&world, chain, &[], 1).trouble.unwrap();
    assert_eq!(why, "node 'host9' is no host that has ever connected");
}
