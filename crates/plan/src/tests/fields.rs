//! Classifiers that look at fields beside the flow: one flow on several paths, and no answers.

#![allow(clippy::unwrap_used)]

use super::rig::{CUSTOMER, INTERNAL, World, id, node, port_id};
use crate::check::tests::check;
use crate::{PlanError, overlap};
use catena_model::PathId;
use catena_model::classifier::{Field, FieldMatch};
use catena_model::id::RuleId;

fn condition(words: &str) -> FieldMatch {
    let mut condition = FieldMatch::default();
    condition.set(Field::named("dscp").unwrap(), words).unwrap();
    condition
}

/// Two chains over one function, for the same packets.
fn world() -> World {
    let mut world = World::new(2);
    world.machine(1, 1, &[CUSTOMER]);
    world.machine(2, 2, &[CUSTOMER]);
    world.machine(11, 1, &[CUSTOMER, INTERNAL]);
    world.function(11, 11, CUSTOMER, CUSTOMER);
    for chain in [1, 2] {
        world.chain(chain, 1, &[11]);
    }
    let ports = world.intent.rules[&RuleId(id(6, 1))].destination_ports;
    world.intent.rules.get_mut(&RuleId(id(6, 2))).unwrap().destination_ports = ports;
    world
}

fn look(world: &mut World, chain: u32, words: Option<&str>) {
    let fields = words.map(condition).unwrap_or_default();
    world.intent.rules.get_mut(&RuleId(id(6, chain))).unwrap().fields = fields;
}

/// The paths on a host, and whether they split flows.
fn paths(world: &World) -> Vec<(PathId, bool)> {
    let paths = &world.blueprint.program(&node(1)).unwrap().paths;
    paths.iter().map(|path| (path.id, path.splits_flows)).collect()
}

#[test]
fn the_path_of_a_classifier_that_looks_at_a_field_says_so_and_its_rule_goes_first() {
    let mut world = world();
    look(&mut world, 2, Some("ef"));
    world.settle();
    assert_eq!(paths(&world), [(PathId(1), false), (PathId(2), true)]);
    let rules = &world.blueprint.program(&node(1)).unwrap().rules;
    let of = |path: u32| rules.iter().find(|rule| rule.path == PathId(path)).unwrap();
    assert_eq!(of(2).matches.fields, condition("ef"));
    assert!(of(1).matches.fields.is_any());
    assert_eq!(of(2).priority, of(1).priority + 6, "it looks at six bits more");
}

#[test]
fn a_chain_that_begins_or_ends_to_look_at_fields_gets_a_new_path() {
    let mut world = world();
    world.settle();
    for (words, expected) in [(Some("ef"), true), (None, false)] {
        look(&mut world, 2, words);
        let before = paths(&world);
        world.settle();
        world.drain_all();
        world.settle();
        let after = paths(&world);
        let new: Vec<_> = after.iter().filter(|path| !before.contains(path)).collect();
        assert_eq!((new.len(), new[0].1), (1, expected), "{before:?} {after:?}");
        assert!(before.iter().all(|(path, _)| *path != new[0].0));
    }
    // Another value of the same field is only another rule.
    look(&mut world, 2, Some("ef"));
    world.settle();
    world.drain_all();
    world.settle();
    let before = paths(&world);
    look(&mut world, 2, Some("af11"));
    world.settle();
    assert_eq!(paths(&world), before);
}

#[test]
fn rules_that_want_different_values_share_no_packet() {
    let mut world = world();
    let rule = |world: &World, chain| world.intent.rules[&RuleId(id(6, chain))].clone();
    assert!(overlap(&rule(&world, 1), &rule(&world, 2)));
    look(&mut world, 1, Some("ef"));
    assert!(overlap(&rule(&world, 1), &rule(&world, 2)));
    look(&mut world, 2, Some("af11"));
    assert!(!overlap(&rule(&world, 1), &rule(&world, 2)));
}

#[test]
fn a_symmetric_chain_cannot_look_at_what_nobody_knows_of_answers() {
    let mut world = world();
    let chain = world.chain(3, 1, &[11]);
    world.intent.chains.get_mut(&chain).unwrap().is_symmetric = true;
    let rule = world.intent.rules.get_mut(&RuleId(id(6, 3))).unwrap();
    rule.destination_port = Some(port_id(2, CUSTOMER));
    assert_eq!(check(&world.intent), Ok(()));
    look(&mut world, 3, Some("ef"));
    let refused = check(&world.intent).unwrap_err();
    assert!(matches!(refused, PlanError::UnknownAnswers { .. }), "{refused:?}");
    let said = refused.to_string();
    assert!(said.contains("'r3' looks at the DSCP") && said.contains("'c3' one-way"), "{said}");
}
