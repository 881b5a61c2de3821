//! What is told of a change before it is made, against what the change then does.

#![allow(clippy::unwrap_used)]

use super::rig::{CUSTOMER, INTERNAL, World, id, node};
use crate::{IndexedIntent, Intent, preview};
use catena_model::id::{ChainId, FunctionId, InstanceId};
use catena_model::preview::{ChainChange, ChangeKind, Preview};
use catena_model::resource::Encapsulation;

/// Functions v11 to v13 on host1 to host3, and chain c1 through v11 and v12.
fn testbed() -> (World, ChainId) {
    let mut world = World::new(4);
    world.machine(1, 1, &[CUSTOMER]);
    world.machine(2, 4, &[CUSTOMER]);
    for (function, host) in [(11, 1), (12, 2), (13, 3)] {
        world.machine(function, host, &[CUSTOMER, INTERNAL]);
        world.function(function, function, CUSTOMER, INTERNAL);
    }
    let chain = world.chain(1, 1, &[11, 12]);
    world.settle();
    (world, chain)
}

fn told(world: &World, edit: impl FnOnce(&mut Intent)) -> Preview {
    let mut then = world.intent.clone();
    edit(&mut then);
    let [now, then] = [world.intent.clone(), then].map(IndexedIntent::from);
    preview(world.history.last().unwrap(), &now, &then, &world.inventory)
}

/// Every chain with its lines.
fn lines(preview: &Preview) -> Vec<(&str, ChangeKind, Vec<&str>)> {
    preview
        .chains
        .iter()
        .map(|change: &ChainChange| {
            let lines = change.lines.iter().map(String::as_str).collect();
            (change.name.as_str(), change.kind, lines)
        })
        .collect()
}

fn touched(preview: &Preview) -> Vec<(String, usize)> {
    preview.nodes.iter().map(|change| (change.node.to_string(), change.programs)).collect()
}

#[test]
fn no_change_is_told_as_none() {
    let (world, _) = testbed();
    let preview = told(&world, |_| {});
    assert!(preview.is_empty(), "{preview:#?}");
    assert_eq!((preview.from, preview.to), (preview.from, preview.from));
    assert_eq!(preview.disruption, [""; 0]);
}

#[test]
fn a_reordered_chain_swaps_one_path_on_its_nodes_and_interrupts_nothing() {
    let (world, chain) = testbed();
    let preview = told(&world, |then| then.chains.get_mut(&chain).unwrap().functions.reverse());
    assert_eq!(
        lines(&preview),
        [("c1", ChangeKind::Update, vec!["~ v12 ─► v11   was: v11 ─► v12"])]
    );
    assert_eq!(preview.paths_swapped, 1);
    assert_eq!(preview.disruption, [""; 0]);
    // host1 learns the path, turns to it and forgets the old one; host2 has no rule to turn.
    assert_eq!(touched(&preview), [("host1".into(), 3), ("host2".into(), 2)]);
    assert_eq!(preview.nodes[0].tables, ["paths +1 −1", "rules +1 −1"]);
}

#[test]
fn what_is_told_is_what_then_happens() {
    let (mut world, chain) = testbed();
    let preview = told(&world, |then| then.chains.get_mut(&chain).unwrap().functions.reverse());
    world.intent.chains.get_mut(&chain).unwrap().functions.reverse();
    world.settle();
    world.drain_all();
    world.settle();
    assert_eq!(world.history.last().unwrap().number, preview.to);
}

#[test]
fn a_new_chain_a_removed_one_and_changed_attributes_are_told_in_words() {
    let (world, chain) = testbed();
    let preview = told(&world, |then| {
        let mut copy = then.chains[&chain].clone();
        copy.id = ChainId(id(7, 2));
        copy.label.name = "c2".into();
        copy.functions = vec![FunctionId(id(5, 13))];
        copy.encapsulation = Encapsulation::Mpls;
        then.chains.insert(copy.id, copy);
        then.chains.remove(&chain);
    });
    let expected = [
        ("c1", ChangeKind::Delete, vec!["- v11 ─► v12", "- classifier r1"]),
        ("c2", ChangeKind::Create, vec!["+ v13", "+ classifier r1"]),
    ];
    assert_eq!(lines(&preview), expected);
    assert_eq!(preview.paths_swapped, 0);
    assert_eq!(preview.disruption, ["the traffic of chain 'c1' passes no function any more"]);
    let preview = told(&world, |then| {
        let chain = then.chains.get_mut(&chain).unwrap();
        chain.encapsulation = Encapsulation::Mpls;
        chain.is_symmetric = false;
        then.instances.get_mut(&InstanceId(id(4, 11))).unwrap().weight = 3;
    });
    let expected =
        vec!["~ function v11   instances 1 → 1: i11 weight 1 → 3", "~ encapsulation   nsh → mpls"];
    assert_eq!(lines(&preview), [("c1", ChangeKind::Update, expected)]);
    assert_eq!(preview.paths_swapped, 1);
}

#[test]
fn what_cannot_be_done_yet_is_told_with_its_reason() {
    let (mut world, chain) = testbed();
    let unbound = world.intent.instances[&InstanceId(id(4, 13))].ingress;
    world.inventory.nodes.get_mut(&node(3)).unwrap().bound.remove(&unbound);
    world.inventory.nodes.get_mut(&node(1)).unwrap().is_connected = false;
    let preview = told(&world, |then| {
        then.chains.get_mut(&chain).unwrap().functions.push(FunctionId(id(5, 13)));
    });
    assert_eq!(preview.paths_swapped, 0);
    let text = preview.disruption.join("; ");
    assert!(text.contains("keeps the former path"), "{text}");
    assert!(text.contains("is not bound on node 'host3'"), "{text}");
    let preview = told(&world, |then| then.chains.get_mut(&chain).unwrap().functions.reverse());
    let text = preview.disruption.join("; ");
    assert!(text.contains("node 'host1' is away"), "{text}");
}
