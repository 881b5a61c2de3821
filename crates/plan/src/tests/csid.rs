//! Chains over segments whose nodes 16 bits name: what their locators must have in common, and what their headers have
//! no room for.

use super::locators::{FUNCTION, waits, world};
use super::rig::{id, node, segments};
use crate::check::tests::check;
use crate::{IndexedIntent, compare};
use catena_model::id::FunctionId;
use catena_model::program::Locator;
use catena_model::resource::Encapsulation;
use catena_model::status::{ChainState, Comparison};
use catena_model::telemetry::Telemetry;

const BY: Encapsulation = Encapsulation::Srv6Csid;

#[test]
fn nodes_that_one_address_cannot_name_are_said_with_what_to_do() {
    let (mut world, chain) = world(BY, &[12, 13, 14]);
    let place = |number: u32, text: &str| {
        let locator: Locator = text.parse().unwrap();
        Some(catena_model::program::SegmentPlace { locator, ..segments(number) })
    };
    let give = |world: &mut super::rig::World, number: u32, text: &str| {
        world.inventory.nodes.get_mut(&node(number)).unwrap().segments = place(number, text);
        world.settle();
    };
    give(&mut world, 3, "5f00:1:3::/48");
    let both = ["5f00:0:2::/48 of node 'host2'", "5f00:1:3::/48 of node 'host3'", "first 32 bits"];
    waits(&world, chain, &both);
    give(&mut world, 3, "5f00::/48");
    waits(&world, chain, &["locator 5f00::/48 of node 'host3' has 0", "start its agent"]);
    give(&mut world, 3, "5f00:0:3::/48");
    assert_eq!(world.status(chain).state, ChainState::Active, "{}", world.status(chain).reason);
    // Nobody is led to where the chain begins, nor to who is not on its way.
    for other in [1, 5] {
        give(&mut world, other, "fd00:9::/48");
        assert_eq!(world.status(chain).state, ChainState::Active, "{}", world.status(chain).reason);
    }
    let facts = world.inventory.nodes.get_mut(&node(3)).unwrap();
    facts.protocol = BY.capabilities().since_protocol - 1;
    world.settle();
    let status = world.status(chain);
    let words = ["node 'host3' runs a version that knows no srv6/csid", "bring it up to date"];
    assert!(words.iter().all(|word| status.reason.contains(word)), "{}", status.reason);
}

#[test]
fn records_and_segments_of_others_have_no_room_there_and_chains_are_compared_without() {
    let (mut world, chain) = world(BY, &[12, 13, 14]);
    let networks: Vec<_> = world.intent.networks.keys().copied().collect();
    for network in networks {
        world.intent.networks.get_mut(&network).unwrap().mtu = 1_300;
    }
    let declared = world.intent.chains.get_mut(&chain).unwrap();
    declared.telemetry = Some(Telemetry::default());
    let refusal = check(&world.intent).unwrap_err().to_string();
    assert!(refusal.contains("srv6/csid") && refusal.contains("telemetry"), "{refusal}");
    let declared = world.intent.chains.get_mut(&chain).unwrap();
    declared.telemetry = None;
    declared.via = [(FunctionId(id(FUNCTION, 12)), vec!["fc00:0:99::e".parse().unwrap()])].into();
    let refusal = check(&world.intent).unwrap_err().to_string();
    let words = ["srv6/csid", "'via': {}", "srv6, srv6/ethernet"];
    assert!(words.iter().all(|word| refusal.contains(word)), "{refusal}");
    // A chain that has both is compared as each encapsulation would carry it.
    let declared = world.intent.chains.get_mut(&chain).unwrap();
    declared.encapsulation = Encapsulation::Srv6;
    world.settle();
    assert_eq!(world.status(chain).state, ChainState::Active, "{}", world.status(chain).reason);
    let intent = IndexedIntent::from(world.intent.clone());
    let chain = intent.chains.get(&chain).unwrap().clone();
    let all = [Encapsulation::Srv6, BY];
    let compared = compare(&world.blueprint, &intent, &world.inventory, &chain, &all);
    let bytes = |one: &Comparison| -> Vec<usize> {
        assert_eq!(one.trouble, None);
        ["v12", "v13", "v14"]
            .map(|function| one.legs.iter().find(|leg| leg.function == function).unwrap())
            .map(|leg| leg.added_bytes)
            .into()
    };
    let [whole, compressed] = &compared[..] else { panic!("{compared:?}") };
    assert_eq!(bytes(whole), [112, 80, 64]);
    assert_eq!(bytes(compressed), [64, 64, 40]);
}

#[test]
fn a_chain_over_compressed_identifiers_that_would_not_fit_says_which_mtu_would() {
    let (mut world, chain) = world(BY, &[12, 13, 14]);
    let networks: Vec<_> = world.intent.networks.keys().copied().collect();
    for (mtu, is_fit) in [(1_437, false), (1_436, true)] {
        for network in &networks {
            world.intent.networks.get_mut(network).unwrap().mtu = mtu;
        }
        world.settle();
        match is_fit {
            true => assert_eq!(world.status(chain).state, ChainState::Active),
            false => waits(&world, chain, &["a header of 3 segments", "MTU of 1436"]),
        }
    }
}
