//! One step forward: from the blueprint that is, to the one that should follow, if any should.

use crate::advance::Step;
use crate::blueprint::Blueprint;
use crate::graph::{Graphs, groups};
use crate::intent::Intent;
use crate::inventory::Inventory;
use crate::ledger::{Direction, Ledger, PathPhase, PathRecord, SliceReach};
use crate::link::link;
use crate::pins::{release_pins, turn_again};
use crate::program::programs;
use crate::rest::ChainsAtRest;
use crate::slices::{SliceBook, classifier_of, next_slices, with_all_nodes};
use catena_model::id::ChainId;
use catena_model::{BlueprintNumber, NodeName, NodeProgram, PathId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The blueprint that should follow, or none when nothing is to be changed now.
///
/// Call it after every change of intent or inventory until it answers none. Each step that waits
/// for acknowledgements answers none until they have come.
#[must_use]
pub fn next(previous: &Blueprint, intent: &Intent, inventory: &Inventory) -> Option<Blueprint> {
    // Slices share the hops of chains: those are decided first.
    let of_chains = next_chains(previous, intent, inventory);
    of_chains.or_else(|| next_slices(previous, intent, inventory))
}

/// The same, where chains have come to rest before: they are left out while they would again.
pub(crate) fn next_beside(
    rest: Option<&ChainsAtRest>,
    previous: &Blueprint,
    intent: &Intent,
    inventory: &Inventory,
) -> Option<Blueprint> {
    let Some(rest) = rest else { return next(previous, intent, inventory) };
    let mut looked = previous.clone();
    looked.slices.wanted.look(intent);
    if rest.is_same(&looked, intent, inventory) {
        return next_slices(&looked, intent, inventory);
    }
    next(&looked, intent, inventory)
}

fn next_chains(previous: &Blueprint, intent: &Intent, inventory: &Inventory) -> Option<Blueprint> {
    let number = previous.number.next();
    let mut slices = previous.slices.clone();
    slices.wanted.look(intent);
    let mut ledger = Ledger::clone(&previous.ledger);
    ledger.number = number;
    ledger.release_forgotten(inventory);
    release_pins(&mut ledger, inventory);
    let graphs = Graphs::with_slices(intent, slices.places());
    let groups = groups(&ledger, &graphs);
    supersede_unwanted(&mut ledger, intent, &graphs);
    let mut step = Step { previous, ledger: &mut ledger, intent, inventory, graphs: &graphs };
    let is_turning = |group: &&Vec<ChainId>| !step.is_shaped(group);
    let turning: BTreeSet<ChainId> = groups.iter().filter(is_turning).flatten().copied().collect();
    // A path that would lead elsewhere now is not yet known, whatever its nodes acknowledged.
    link(step.ledger, inventory, &turning);
    for group in &groups {
        step.advance(group);
    }
    remove_drained(previous, &mut ledger, inventory);
    link(&mut ledger, inventory, &turning);
    reach(&mut ledger, &slices, intent, inventory);

    let mut programs = programs(&ledger, intent, inventory);
    let mut has_changed = programs.len() != previous.programs.len();
    for (node, program) in &mut programs {
        if let Some(former) = previous.programs.get(node) {
            program.number = former.number;
            if program == former {
                continue;
            }
        }
        program.number = number;
        has_changed = true;
    }
    has_changed |= ledger.paths != previous.ledger.paths;
    if !has_changed {
        return None;
    }
    ledger.end_quarantines();
    note_needs(&mut ledger, &programs, inventory);
    note_removed(previous, &mut ledger, &programs, inventory);
    ledger.programs =
        programs.iter().map(|(node, program)| (node.clone(), program.number)).collect();
    let slices = with_all_nodes(previous, slices, intent, inventory);
    let (programs, ledger) = (Arc::new(programs), Arc::new(ledger));
    Some(Blueprint { number, parent: previous.number, programs, ledger, slices })
}

/// Paths are known where slices with their hops are classified, and where they shall be.
fn reach(ledger: &mut Ledger, slices: &SliceBook, intent: &Intent, inventory: &Inventory) {
    let number = ledger.number;
    let mut changed = Vec::new();
    for (id, path) in ledger.paths.iter() {
        let mut reach = SliceReach::default();
        slices.users(*id).for_each(|at| reach.add(at.clone()));
        if path.phase != PathPhase::Superseded && path.direction == Direction::Forward {
            for place in slices.places().of(path.chain) {
                if let Ok(node) = classifier_of(intent, inventory, place) {
                    reach.add(node);
                }
            }
        }
        if reach != path.slices {
            changed.push((*id, reach));
        }
    }
    for (id, reach) in changed {
        ledger.paths.update(id, |path| {
            path.holders = path.nodes(inventory.nodes.keys());
            path.slices = reach;
            if path.phase == PathPhase::Classified {
                path.since = number;
                path.is_update = true;
            }
        });
    }
}

/// A path that changed its phase is in force where this blueprint's programs are; a program that
/// the blueprint did not change keeps its older number, and that is enough.
fn note_needs(
    ledger: &mut Ledger,
    programs: &BTreeMap<NodeName, NodeProgram>,
    inventory: &Inventory,
) {
    let number = ledger.number;
    let needed = |node: NodeName| {
        let program = programs.get(&node).map_or(number, |program| program.number);
        (node, program)
    };
    ledger.paths.update_where(
        |_, path| path.since == number,
        |path| path.needs = path.nodes(inventory.nodes.keys()).into_iter().map(needed).collect(),
    );
}

/// A node that is away goes on with a program that has the path: no other path may get its
/// identifier until that node runs a program without it.
fn note_removed(
    previous: &Blueprint,
    ledger: &mut Ledger,
    programs: &BTreeMap<NodeName, NodeProgram>,
    inventory: &Inventory,
) {
    let number = ledger.number;
    let went = ledger.paths.since(&previous.ledger.paths).filter(|(_, path)| path.is_none());
    let went: Vec<PathId> = went.map(|(id, _)| id).collect();
    for (id, path) in went.iter().filter_map(|id| Some((*id, previous.ledger.paths.get(id)?))) {
        let forgets = |node: NodeName| {
            let program = programs.get(&node).map_or(number, |program| program.number);
            (node, program)
        };
        let nodes = path.nodes(inventory.nodes.keys()).into_iter().map(forgets).collect();
        ledger.remember(id, nodes);
    }
}

/// Superseded paths that still may hold packets: their counters decide when they are drained.
#[must_use]
pub fn draining(blueprint: &Blueprint) -> Vec<PathId> {
    let is_superseded = |(id, path): &(&PathId, &PathRecord)| {
        // While slices share its hops, packets come and go.
        path.phase == PathPhase::Superseded && !blueprint.slices.uses_path(**id)
    };
    blueprint.ledger.paths.iter().filter(is_superseded).map(|(id, _)| *id).collect()
}

pub(crate) fn supersede(path: &mut PathRecord, number: BlueprintNumber) {
    path.phase = PathPhase::Superseded;
    path.since = number;
}

/// Turns the classifiers away from chains that are gone, and from those that lost their last rule:
/// what takes nothing has no packets to keep on a path of before.
fn supersede_unwanted(ledger: &mut Ledger, intent: &Intent, graphs: &Graphs<'_>) {
    let number = ledger.number;
    let is_unwanted =
        |path: &PathRecord| intent.chains.get(&path.chain).is_none_or(|c| !graphs.is_entered(c));
    let never_used: Vec<PathId> = ledger
        .paths
        .iter()
        .filter(|(_, path)| is_unwanted(path) && path.phase == PathPhase::Installed)
        .map(|(id, _)| *id)
        .collect();
    for id in never_used {
        ledger.remove(id);
    }
    let mut let_go = BTreeSet::new();
    let is_left = |path: &&PathRecord| is_unwanted(path) && path.phase == PathPhase::Classified;
    for path in ledger.paths.values().filter(is_left) {
        let_go.extend(path.pins.iter().map(|pin| pin.old));
    }
    ledger.paths.update_where(
        |_, path| is_left(&path),
        |path| {
            supersede(path, number);
            path.pins.clear();
        },
    );
    turn_again(ledger, &let_go);
}

fn remove_drained(previous: &Blueprint, ledger: &mut Ledger, inventory: &Inventory) {
    // What was heard before the classifiers turned away says nothing about what is inside now.
    let had_turned = |id: &PathId| {
        let former = previous.ledger.paths.get(id);
        former.is_some_and(|path| path.phase == PathPhase::Superseded)
    };
    let is_over = |id: &PathId, path: &PathRecord| {
        path.phase == PathPhase::Superseded
            && had_turned(id)
            && inventory.drained.contains(id)
            && !ledger.is_pinned(*id)
            && !previous.slices.uses_path(*id)
            && previous.is_running(inventory, path)
    };
    let over: Vec<PathId> =
        ledger.paths.iter().filter(|(id, path)| is_over(id, path)).map(|(id, _)| *id).collect();
    for id in over {
        ledger.remove(id);
    }
}
