//! Chains with reactive set-up: who is told, what stays as it is, and what the answer for a flow is.
#![allow(clippy::unwrap_used)]

use super::fabric::{Fabric, programs, switch};
use super::oracle::assert_programs;
use super::rig::{CUSTOMER, World, id, node, port_id, versions};
use super::source_routes::{assert_active, carry, routed_chain, world};
use crate::{IndexedIntent, answer_flow};
use catena_model::PathId;
use catena_model::id::{ChainId, FunctionId};
use catena_model::program::{SetupEntry, WhenAway};
use catena_model::resource::Encapsulation;
use catena_model::setup::{FlowAsked, FlowKey, IpProtocol, Setup};

fn set_up(world: &mut World, chain: ChainId, setup: Setup) {
    world.intent.chains.get_mut(&chain).unwrap().setup = setup;
}

fn settle(world: &mut World, fabric: &Fabric) {
    fabric.settle(world);
    let intent = IndexedIntent::from(world.intent.clone());
    assert_programs(&world.blueprint, &intent, &world.inventory);
}

fn setups(world: &World, number: u32) -> Vec<SetupEntry> {
    programs(world)[&node(number)].setups.clone()
}

#[test]
fn a_chain_that_turns_reactive_keeps_its_path_and_its_classifiers_alone_are_told() {
    let (mut world, fabric) = world();
    let chain = routed_chain(&mut world, 1, &[12, 13]);
    settle(&mut world, &fabric);
    let path = world.status(chain).path.unwrap();
    for (setup, away) in [
        (Setup::Reactive, Some(WhenAway::Drop)),
        (Setup::ReactiveOrOrdinary, Some(WhenAway::Ordinary)),
        (Setup::Proactive, None),
    ] {
        let (before, told) = (programs(&world), versions(&world.blueprint));
        set_up(&mut world, chain, setup);
        settle(&mut world, &fabric);
        assert_active(&world, chain);
        assert_eq!(world.status(chain).path, Some(path), "{setup:?}");
        let expected: Vec<SetupEntry> =
            away.into_iter().map(|away| SetupEntry { path, away }).collect();
        assert_eq!(setups(&world, 1), expected);
        let (mut now, mut then) = (programs(&world)[&node(1)].clone(), before[&node(1)].clone());
        (now.setups, then.setups, now.number) = (Vec::new(), Vec::new(), then.number);
        assert_eq!(now, then, "nothing else is another");
        let now = versions(&world.blueprint);
        for other in [node(2), node(3), node(4)] {
            // Nodes of the path acknowledge the turn, as of other rules.
            assert_eq!(now[&other].digest, told[&other].digest, "{other}");
        }
        for other in (1..=4).map(switch) {
            assert_eq!(now[&other], told[&other], "{other}");
        }
    }
}

#[test]
fn a_reactive_chain_that_goes_on_over_another_path_is_asked_for_there() {
    let (mut world, fabric) = world();
    let chain = routed_chain(&mut world, 1, &[12, 13]);
    set_up(&mut world, chain, Setup::Reactive);
    settle(&mut world, &fabric);
    let first = world.status(chain).path.unwrap();
    assert_eq!(setups(&world, 1).len(), 1);
    world.intent.chains.get_mut(&chain).unwrap().functions = vec![FunctionId(id(5, 14))];
    settle(&mut world, &fabric);
    let second = world.status(chain).path.unwrap();
    assert_ne!(first, second);
    assert_eq!(setups(&world, 1), [SetupEntry { path: second, away: WhenAway::Drop }]);
    carry(&mut world, chain, Encapsulation::Nsh);
    settle(&mut world, &fabric);
    let third = world.status(chain).path.unwrap();
    assert_eq!(setups(&world, 1), [SetupEntry { path: third, away: WhenAway::Drop }]);
    world.intent.chains.remove(&chain);
    settle(&mut world, &fabric);
    assert_eq!(setups(&world, 1), []);
}

#[test]
fn the_answer_for_a_flow_is_the_header_of_its_program_and_none_for_what_is_not_let_go() {
    let (mut world, fabric) = world();
    let chain = routed_chain(&mut world, 1, &[12, 13]);
    let plain = routed_chain(&mut world, 2, &[13]);
    set_up(&mut world, chain, Setup::Reactive);
    settle(&mut world, &fabric);
    let (path, other) = (world.status(chain).path.unwrap(), world.status(plain).path.unwrap());
    let flow = FlowKey {
        source: [10, 10, 0, 1].into(),
        destination: [10, 10, 0, 2].into(),
        protocol: IpProtocol::UDP,
        source_port: 7,
        destination_port: 5_001,
    };
    let asked = FlowAsked { sequence: 9, port: port_id(1, CUSTOMER), path, flow };
    let program = world.blueprint.programs.get(&node(1)).unwrap();
    let answer = answer_flow(&program.entries, &asked).unwrap();
    let [leg] = answer.legs.as_slice() else { panic!("{answer:?}") };
    let route = &programs(&world)[&node(1)].routes;
    let route = route.iter().find(|route| route.to == port_id(12, CUSTOMER)).unwrap();
    assert_eq!((&leg.node, leg.to, &leg.ports), (&node(2), route.to, &route.ports));
    assert_eq!((answer.sequence, answer.path), (9, path));
    for wrong in [
        FlowAsked { path: other, ..asked },
        FlowAsked { path: PathId(7_777), ..asked },
        FlowAsked { port: port_id(2, CUSTOMER), ..asked },
    ] {
        assert_eq!(answer_flow(&program.entries, &wrong), None, "{wrong:?}");
    }
    let elsewhere = world.blueprint.programs.get(&node(2)).unwrap();
    assert_eq!(answer_flow(&elsewhere.entries, &asked), None, "another node does not classify");
}
