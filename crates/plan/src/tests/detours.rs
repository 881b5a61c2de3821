//! Detours around cables: what headers bring with them, and that they stay while their cables are there.
#![allow(clippy::unwrap_used)]

use super::fabric::{Arrival, programs, switch, ways};
use super::rig::{World, node};
use super::source_routes::{routed_chain, world};
use catena_model::limits::ROUTE_DETOUR_BYTES_MAX;
use catena_model::program::RouteEntry;
use catena_model::status::ChainState;
use catena_model::topology::PortNumber;

/// The ports of a route with each of its detours taken.
pub(super) fn detoured(route: &RouteEntry) -> impl Iterator<Item = Vec<PortNumber>> {
    route.detours.iter().map(|detour| {
        let before = &route.ports[..detour.at.into()];
        [before, &detour.ports, &route.ports[detour.rejoin.into()..]].concat()
    })
}

#[test]
fn a_header_brings_a_way_round_each_cable_that_has_one() {
    let (mut world, mut fabric) = world();
    routed_chain(&mut world, 1, &[12]);
    fabric.settle(&mut world);
    let running = programs(&world);
    let route = &running[&node(1)].routes[0];
    // Host to leaf, leaf to spine, spine to leaf, leaf to host: hosts hang by one cable.
    assert_eq!(route.ports.len(), 5);
    let places: Vec<_> = route.detours.iter().map(|one| (one.at, one.rejoin)).collect();
    assert_eq!(places, [(1, 3), (2, 3)]);
    let bytes: usize = route.detours.iter().map(|detour| 3 + detour.ports.len()).sum();
    assert!(bytes < ROUTE_DETOUR_BYTES_MAX, "one octet says how many there are");
    let expected = Arrival::Port(route.node.clone(), route.to);
    let whole = fabric.clone();
    for (detour, ports) in route.detours.iter().zip(detoured(route)) {
        // The very cable is dead.
        let end = (1..=detour.at).map(usize::from).fold(node(1), |at, place| {
            whole.far_node(&running, &at, route.ports[place - 1]).unwrap()
        });
        fabric = whole.clone();
        fabric.cut(&running, &end, route.ports[usize::from(detour.at)]);
        assert_eq!(fabric.walk(&running, &node(1), &route.ports), Arrival::Lost);
        assert_eq!(fabric.walk(&running, &node(1), &ports), expected, "{detour:?}");
    }
}

#[test]
fn ways_round_are_looked_for_anew_only_where_a_cable_of_theirs_has_gone() {
    let (mut world, mut fabric) = world();
    for number in 1..=6 {
        routed_chain(&mut world, number, &[11 + number % 3, 12 + number % 3]);
    }
    fabric.settle(&mut world);
    let before = world.blueprint.ledger.detours.clone();
    assert!(
        before.values().flat_map(|detours| detours.values()).any(|one| !one.detours.is_empty())
    );
    world.restart();
    world.plan();
    assert_eq!(world.blueprint.ledger.detours, before, "another controller turns none");
    let is_dead = |ends: &[(catena_model::NodeName, String); 2]| {
        ends.iter().all(|(node, _)| *node == switch(1) || *node == switch(3))
    };
    fabric.wires.iter_mut().filter(|wire| is_dead(&wire.ends)).for_each(|wire| wire.is_up = false);
    fabric.settle(&mut world);
    let after = &world.blueprint.ledger.detours;
    for (from, detours) in &before {
        for (to, former) in detours.iter() {
            let nodes = former.over.iter().chain(former.detours.iter().flat_map(|one| &one.ends));
            let nodes: Vec<_> = nodes.map(|end| end.node.clone()).collect();
            if !(nodes.contains(&switch(1)) && nodes.contains(&switch(3))) {
                assert_eq!(after[from][to], *former, "{from} to {to}");
            }
        }
    }
    assert_ne!(*after, before);
}

#[test]
fn a_doubted_cable_is_left_out_while_another_way_is_there_and_taken_where_none_is() {
    let (mut world, mut fabric) = world();
    let chain = routed_chain(&mut world, 1, &[12]);
    fabric.settle(&mut world);
    let ends = ("host1".to_owned(), "host2".to_owned());
    let spine = |world: &World| ways(&world.blueprint.ledger.ways)[&ends][2].clone();
    let former = spine(&world);
    fabric.doubted.insert((switch(1), format!("{former}.0")));
    fabric.settle(&mut world);
    let other = spine(&world);
    assert_ne!(other, former);
    let route = |world: &World| programs(world)[&node(1)].routes.clone();
    let before = route(&world);
    // Now both, and the only cable of a host: silence is no proof, and there is no other way.
    fabric.doubted.insert((switch(1), format!("{other}.0")));
    fabric.doubted.insert((node(1), "switch1.0".into()));
    fabric.settle(&mut world);
    assert_eq!(world.status(chain).state, ChainState::Active);
    let after = route(&world);
    assert_eq!((after.len(), after[0].ports.len()), (before.len(), before[0].ports.len()));
    assert!(after[0].detours.is_empty(), "none leads over what is doubted");
    // One that carries nothing is no way.
    fabric.wires.iter_mut().filter(|wire| wire.ends[0].0 == node(1)).for_each(|w| w.is_up = false);
    fabric.settle(&mut world);
    assert!(route(&world).is_empty());
    fabric.wires.iter_mut().for_each(|wire| wire.is_up = true);
    fabric.doubted.clear();
    fabric.settle(&mut world);
    assert_eq!((world.status(chain).state, route(&world).len()), (ChainState::Active, 1));
    assert_eq!(route(&world)[0].detours.len(), 2);
}
