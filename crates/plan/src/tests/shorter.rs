//! Ways on which headers end at edges, when a cable comes back that makes them shorter.
#![allow(clippy::unwrap_used)]

use super::fabric::{Fabric, acknowledge_everywhere, programs, switch};
use super::oracle::assert_programs;
use super::profiles::{chain_by, row};
use super::rig::{PROTOCOL, World, node};
use super::source_routes::assert_active;
use crate::NodeFacts;
use catena_model::id::ChainId;
use catena_model::program::Underlay;
use catena_model::resource::Encapsulation;

const SAFE: Encapsulation = Encapsulation::SourceRouteSafe9;
/// Which wire is between switches 8 and 9 of a row.
const WIRE: usize = 8;

/// Ten switches in a row, with one more beside the cable between the eighth and the ninth, which is cut; a chain over
/// it, whose headers end at these edges.
fn beside_a_cut(edges: &[u32]) -> (World, Fabric, ChainId) {
    let (mut world, mut fabric) = row(10);
    let mut facts = NodeFacts::new(Underlay { address: [192, 0, 2, 121].into(), mtu: 1_500 });
    (facts.is_connected, facts.protocol) = (true, PROTOCOL);
    world.inventory.switches.insert(switch(21), facts);
    fabric.plug(&switch(8), &switch(21));
    fabric.plug(&switch(21), &switch(9));
    assert!(fabric.wires[WIRE].ends.iter().all(|(node, _)| [switch(8), switch(9)].contains(node)));
    fabric.wires[WIRE].is_up = false;
    for edge in edges {
        world.inventory.switches.get_mut(&switch(*edge)).unwrap().is_edge = true;
    }
    fabric.settle(&mut world);
    let chain = chain_by(&mut world, 1, &[12], SAFE);
    fabric.settle(&mut world);
    assert_active(&world, chain);
    assert!(goes_round(&world));
    (world, fabric, chain)
}

fn goes_round(world: &World) -> bool {
    let ways = &world.blueprint.ledger.ways[&node(1)];
    ways[&node(2)].iter().any(|leg| leg.node == switch(21))
}

/// Everybody tells what is plugged in, and plans.
fn heal(world: &mut World, fabric: &mut Fabric) {
    fabric.wires[WIRE].is_up = true;
    let running = programs(world);
    for number in 8..=9 {
        fabric.tell(world, &switch(number), &running);
    }
    world.plan();
}

#[test]
fn a_cut_way_turns_to_a_shorter_one_when_its_edges_know_what_to_write() {
    let (mut world, mut fabric, chain) = beside_a_cut(&[6]);
    let before = programs(&world);
    heal(&mut world, &mut fabric);
    assert!(goes_round(&world), "switch6 does not know the other header");
    assert_eq!(programs(&world)[&node(1)].borders, before[&node(1)].borders);
    let told = |world: &World| programs(world)[&switch(6)].exits.len();
    assert_eq!(told(&world), before[&switch(6)].exits.len() + 1);
    assert_active(&world, chain);
    // The others know nothing that would help.
    for number in [1, 2] {
        world.acknowledge(number);
    }
    world.plan();
    assert!(goes_round(&world));
    acknowledge_everywhere(&mut world);
    world.plan();
    assert!(!goes_round(&world));
    let border = programs(&world)[&node(1)].borders[0].clone();
    assert_ne!(border.number, before[&node(1)].borders[0].number);
    fabric.settle(&mut world);
    assert_active(&world, chain);
    assert_programs(&world.blueprint, &world.intent, &world.inventory);
    // It stays so, and the edge forgets what nobody leads to any more.
    assert!(!goes_round(&world));
}

#[test]
fn a_cut_way_stays_where_no_header_ends_on_a_shorter_one() {
    // The second edge is the switch that the shorter way does not pass.
    let (mut world, mut fabric, chain) = beside_a_cut(&[3, 21]);
    let before = programs(&world);
    heal(&mut world, &mut fabric);
    fabric.settle(&mut world);
    assert!(goes_round(&world));
    assert_active(&world, chain);
    assert_eq!(programs(&world)[&node(1)].borders, before[&node(1)].borders);
    // Another edge ends it there.
    world.inventory.switches.get_mut(&switch(8)).unwrap().is_edge = true;
    fabric.settle(&mut world);
    assert!(!goes_round(&world));
    assert_active(&world, chain);
}
