//! What ways take, as nodes tell of their links.
#![allow(clippy::unwrap_used)]

use super::fabric::{Fabric, Plug, programs, switch};
use super::oracle::assert_programs;
use super::rig::{World, node};
use super::source_routes::{assert_active, routed_chain, world};
use catena_model::NodeName;

/// What a node's program says that its way to another takes; none: nothing.
fn told(world: &World, from: u32, to: u32) -> Option<u16> {
    let program = &programs(world)[&node(from)];
    program.routes.iter().find(|route| route.node == node(to)).unwrap().mtu
}

/// Both ends of the first cable between two nodes.
fn ends(fabric: &Fabric, one: &NodeName, other: &NodeName) -> [Plug; 2] {
    let is_it =
        |ends: &[Plug; 2]| [one, other].iter().all(|node| ends.iter().any(|end| end.0 == **node));
    fabric.wires.iter().find(|wire| is_it(&wire.ends)).unwrap().ends.clone()
}

#[test]
fn a_way_takes_what_the_narrowest_of_its_links_and_of_its_detours_takes() {
    let (mut world, mut fabric) = world();
    let chain = routed_chain(&mut world, 1, &[12]);
    fabric.settle(&mut world);
    assert_active(&world, chain);
    assert_eq!(told(&world, 1, 2), None, "nobody has told of any link");
    let plugs: Vec<Plug> = fabric.wires.iter().flat_map(|wire| wire.ends.clone()).collect();
    let before = world.blueprint.number;
    fabric.mtus.extend(plugs.iter().map(|plug| (plug.clone(), 9_000)));
    fabric.settle(&mut world);
    assert_eq!(told(&world, 1, 2), Some(9_000));
    assert!(world.blueprint.number > before);
    assert_programs(&world.blueprint, &world.intent, &world.inventory);
    // The far end of its own link is narrower; then one that only a detour leads over, too.
    let [_, far] = ends(&fabric, &node(1), &switch(1));
    fabric.mtus.insert(far, 4_000);
    fabric.settle(&mut world);
    assert_eq!(told(&world, 1, 2), Some(4_000));
    let way: Vec<_> = world.blueprint.ledger.ways[&node(1)][&node(2)].clone();
    let beside = if way.iter().any(|leg| leg.node == switch(3)) { switch(4) } else { switch(3) };
    let [one, _] = ends(&fabric, &switch(1), &beside);
    fabric.mtus.insert(one.clone(), 2_000);
    fabric.settle(&mut world);
    assert_eq!(told(&world, 1, 2), Some(2_000));
    assert_active(&world, chain);
    assert_programs(&world.blueprint, &world.intent, &world.inventory);
    // Whoever does not tell has said it; nothing changes where nothing is told anew.
    fabric.mtus.remove(&one);
    let before = world.blueprint.number;
    fabric.settle(&mut world);
    assert_eq!((told(&world, 1, 2), world.blueprint.number), (Some(2_000), before));
}
