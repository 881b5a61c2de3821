//! Chains over segments of IPv6: what their nodes are told, and what is missing where they wait.

use super::rig::{CUSTOMER, INTERNAL, World, id, node, segments};
use crate::check::tests::check;
use catena_model::id::{ChainId, FunctionId};
use catena_model::program::LocatorEntry;
use catena_model::resource::{Encapsulation, FlowField};
use catena_model::status::ChainState;
use catena_model::telemetry::{DeviceId, TELEMETRY_SINCE_PROTOCOL};

/// The kind of a function's identity in the world.
pub(super) const FUNCTION: u128 = 5;

pub(super) const BOTH: [Encapsulation; 2] = [Encapsulation::Srv6, Encapsulation::Srv6Ethernet];

/// A chain from the first host over functions on the second, third and fourth, and the fifth beside.
pub(super) fn world(by: Encapsulation, functions: &[u32]) -> (World, ChainId) {
    let mut world = World::new(5);
    world.machine(1, 1, &[CUSTOMER]);
    for (machine, on) in [(12, 2), (13, 3), (14, 4)] {
        world.machine(machine, on, &[CUSTOMER, INTERNAL]);
        world.function(machine, machine, CUSTOMER, CUSTOMER);
    }
    let chain = world.chain(1, 1, functions);
    world.intent.chains.get_mut(&chain).unwrap().encapsulation = by;
    (world, chain)
}

pub(super) fn waits(world: &World, chain: ChainId, parts: &[&str]) {
    let status = world.status(chain);
    assert_eq!(status.state, ChainState::Building, "{}", status.reason);
    for part in parts {
        assert!(status.reason.contains(part), "no '{part}' in '{}'", status.reason);
    }
}

#[test]
fn a_chain_over_segments_waits_and_says_for_which_node() {
    for by in BOTH {
        let (mut world, chain) = world(by, &[12, 13]);
        for missing in [1, 2, 3] {
            world.inventory.nodes.get_mut(&node(missing)).unwrap().segments = None;
            world.settle();
            let name = format!("node 'host{missing}'");
            waits(&world, chain, &[&name, "--underlay6", "--locator"]);
            world.inventory.nodes.get_mut(&node(missing)).unwrap().segments =
                Some(segments(missing));
        }
        // Of a node that is not on its way nothing is asked.
        world.inventory.nodes.get_mut(&node(5)).unwrap().segments = None;
        world.settle();
        assert_eq!(world.status(chain).state, ChainState::Active, "{}", world.status(chain).reason);
        let facts = world.inventory.nodes.get_mut(&node(3)).unwrap();
        facts.protocol = by.capabilities().since_protocol - 1;
        world.settle();
        let status = world.status(chain);
        assert!(status.reason.contains("node 'host3'"), "{}", status.reason);
        assert!(status.reason.contains("bring it up to date"), "{}", status.reason);
    }
}

#[test]
fn a_chain_over_segments_that_would_not_fit_says_which_mtu_would() {
    // 48 bytes, 16 for each segment, and 14 of a frame that is carried whole.
    for (by, functions, fits) in [
        (Encapsulation::Srv6, &[12, 13, 14][..], 1_404),
        (Encapsulation::Srv6Ethernet, &[12, 13, 14], 1_390),
        (Encapsulation::Srv6Ethernet, &[12, 13], 1_406),
        // Back to a node is a segment of its own.
        (Encapsulation::Srv6, &[12, 13, 12, 13], 1_388),
    ] {
        let (mut world, chain) = world(by, functions);
        world.settle();
        if fits >= 1_400 {
            assert_eq!(world.status(chain).state, ChainState::Active, "{functions:?}");
            continue;
        }
        let (mtu, underlay) = (format!("MTU of {fits}"), format!("one of {}", 2_900 - fits));
        waits(&world, chain, &["network 'customer'", &mtu, &underlay]);
        let networks: Vec<_> = world.intent.networks.keys().copied().collect();
        for network in networks {
            world.intent.networks.get_mut(&network).unwrap().mtu = fits;
        }
        world.settle();
        assert_eq!(world.status(chain).state, ChainState::Active);
    }
}

#[test]
fn every_host_that_knows_places_is_told_of_all_and_others_of_none() {
    let (mut world, _) = world(Encapsulation::Nsh, &[12]);
    let device = |number: u32| u16::try_from(number).ok().map(DeviceId);
    let entry = |number| LocatorEntry {
        node: node(number),
        place: segments(number),
        device: device(number),
    };
    world.inventory.nodes.get_mut(&node(4)).unwrap().protocol = 16;
    world.inventory.nodes.get_mut(&node(5)).unwrap().segments = None;
    world.settle();
    let told = |world: &World, number| -> Vec<LocatorEntry> {
        super::fabric::programs(world)[&node(number)].locators.clone()
    };
    for number in [1, 2, 3, 5] {
        assert_eq!(told(&world, number), [1, 2, 3].map(entry), "host{number}");
    }
    assert_eq!(told(&world, 4), []);
    // One that moves, and one that goes.
    world.inventory.nodes.get_mut(&node(2)).unwrap().segments = Some(segments(7));
    world.inventory.nodes.get_mut(&node(3)).unwrap().segments = None;
    world.settle();
    let moved = LocatorEntry { node: node(2), place: segments(7), device: device(2) };
    assert_eq!(told(&world, 1), [entry(1), moved]);
    // One that writes no telemetry is nobody's number.
    world.inventory.nodes.get_mut(&node(2)).unwrap().protocol = TELEMETRY_SINCE_PROTOCOL - 1;
    world.settle();
    let silent = LocatorEntry { node: node(2), place: segments(7), device: None };
    assert_eq!(told(&world, 1), [entry(1), silent]);
}

#[test]
fn a_chain_gets_off_a_node_without_a_place() {
    for by in BOTH {
        let (mut world, chain) = world(Encapsulation::Nsh, &[12, 13]);
        world.settle();
        assert_eq!(world.status(chain).state, ChainState::Active);
        world.inventory.nodes.get_mut(&node(3)).unwrap().segments = None;
        world.intent.chains.get_mut(&chain).unwrap().encapsulation = by;
        world.settle();
        let status = world.status(chain);
        assert!(status.reason.contains("node 'host3'"), "{}", status.reason);
        let functions = [12, 14].map(|number| FunctionId(id(FUNCTION, number)));
        world.intent.chains.get_mut(&chain).unwrap().functions = functions.to_vec();
        world.settle();
        world.drain_all();
        world.settle();
        let status = world.status(chain);
        assert_eq!((status.state, status.reason.as_str()), (ChainState::Active, ""));
    }
}

/// A header is left out whole where packets are carried, and not where frames are.
#[test]
fn a_chain_that_chooses_by_a_mac_is_refused_where_that_is_not_kept() {
    for (by, field, name) in [
        (Encapsulation::Srv6, FlowField::EthSrc, Some("eth_src")),
        (Encapsulation::Srv6, FlowField::EthDst, Some("eth_dst")),
        (Encapsulation::SourceRouteSafe9, FlowField::EthSrc, None),
        (Encapsulation::Srv6Ethernet, FlowField::EthSrc, None),
        (Encapsulation::Srv6Ethernet, FlowField::EthDst, None),
    ] {
        let (mut world, _) = world(by, &[12]);
        let other = world.intent.functions[&FunctionId(id(FUNCTION, 13))].instances[0];
        let function = world.intent.functions.get_mut(&FunctionId(id(FUNCTION, 12))).unwrap();
        function.instances.push(other);
        function.balance = vec![field];
        let refused = check(&world.intent).err().map(|error| error.to_string());
        match name {
            None => assert_eq!(refused, None, "{by:?}"),
            Some(name) => assert!(refused.is_some_and(|why| why.contains(name)), "{by:?}"),
        }
    }
}
