//! The blueprints of one chain's life, as text that one can read and review. To accept a change:
//! `CATENA_UPDATE_GOLDENS=1 cargo test --release -p catena-plan --test golden`.

#![allow(clippy::unwrap_used)]

use super::rig::{CUSTOMER, INTERNAL, World, node};
use crate::Blueprint;
use std::fmt::Write as _;
use std::path::Path;

pub(super) fn assert_golden(name: &str, text: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/plan").join(name);
    if std::env::var_os("CATENA_UPDATE_GOLDENS").is_some() {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, text).unwrap();
    }
    let golden = std::fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(golden, text, "{} differs", file.display());
}

/// Two functions on two hosts between endpoints on a first and a third.
fn world() -> World {
    let mut world = World::new(3);
    world.machine(1, 1, &[CUSTOMER]);
    world.machine(2, 3, &[CUSTOMER]);
    world.machine(11, 1, &[CUSTOMER, INTERNAL]);
    world.machine(12, 2, &[CUSTOMER, INTERNAL]);
    world.function(11, 11, CUSTOMER, INTERNAL);
    world.function(12, 12, INTERNAL, CUSTOMER);
    world.settle();
    world
}

#[test]
fn the_program_of_the_classifying_node_reads_as_recorded() {
    let mut world = world();
    world.chain(1, 1, &[11, 12]);
    world.settle();
    let program =
        serde_json::to_string_pretty(&world.blueprint.program(&node(1)).unwrap()).unwrap();
    assert_golden("classifying-node.json", &(program + "\n"));
}

#[test]
fn the_life_of_a_chain_is_these_blueprints() {
    let mut world = world();
    let mut story = String::new();
    let chain = world.chain(1, 1, &[11, 12]);
    tell(&mut world, &mut story, "declared");
    world.intent.chains.get_mut(&chain).unwrap().functions.pop();
    tell(&mut world, &mut story, "second function removed");
    world.drain_all();
    tell(&mut world, &mut story, "old path drained");
    world.intent.chains.remove(&chain);
    tell(&mut world, &mut story, "deleted");
    world.drain_all();
    tell(&mut world, &mut story, "drained");
    assert_golden("life-of-a-chain.txt", &story);
}

fn tell(world: &mut World, story: &mut String, event: &str) {
    let _ = writeln!(story, "# {event}");
    let mut before: Blueprint = world.blueprint.clone();
    let known = world.history.len();
    world.settle();
    for blueprint in &world.history[known..] {
        let _ = writeln!(story, "blueprint {} from {}", blueprint.number, before.number);
        for (node, tables) in &blueprint.programs.differences(&before.programs) {
            let numbers = [&before, blueprint].map(|blueprint| blueprint.number_of(node));
            let _ = write!(story, "  {node} {} → {}:", numbers[0], numbers[1]);
            for (table, entries) in tables {
                let _ = write!(story, " {table} +{} −{}", entries.added, entries.removed);
            }
            story.push('\n');
        }
        before = blueprint.clone();
    }
}
