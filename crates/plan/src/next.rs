//! One step forward: from the blueprint that is, to the one that should follow, if any should.

use crate::blueprint::Blueprint;
use crate::intent::Intent;
use crate::inventory::Inventory;
use crate::ledger::{Ledger, PathPhase, PathRecord, PlacedPort};
use crate::pins::{pins, release_pins, turn_again};
use crate::program::{port_entry, programs};
use crate::render::{Rendering, chain_name, render};
use catena_model::id::ChainId;
use catena_model::program::PortRole;
use catena_model::resource::Chain;
use catena_model::{BlueprintNumber, NodeName, NodeProgram, PathId};
use std::collections::{BTreeMap, BTreeSet};

/// The blueprint that should follow, or none when nothing is to be changed now.
///
/// Call it after every change of intent or inventory until it answers none. Each step that waits
/// for acknowledgements answers none until they have come.
#[must_use]
pub fn next(previous: &Blueprint, intent: &Intent, inventory: &Inventory) -> Option<Blueprint> {
    let number = previous.ledger.number.next();
    let mut ledger = previous.ledger.clone();
    ledger.number = number;
    ledger.release_forgotten(inventory);
    release_pins(&mut ledger, inventory);
    for chain in intent.chains.values() {
        advance_chain(previous, &mut ledger, intent, inventory, chain);
    }
    supersede_unwanted(&mut ledger, intent);
    remove_drained(previous, &mut ledger, inventory);

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
    Some(Blueprint { number, parent: previous.number, programs, ledger })
}

/// A path that changed its phase is in force where this blueprint's programs are; a program that
/// the blueprint did not change keeps its older number, and that is enough.
fn note_needs(
    ledger: &mut Ledger,
    programs: &BTreeMap<NodeName, NodeProgram>,
    inventory: &Inventory,
) {
    let number = ledger.number;
    for path in ledger.paths.values_mut().filter(|path| path.since == number) {
        let needed = |node: NodeName| {
            let program = programs.get(&node).map_or(number, |program| program.number);
            (node, program)
        };
        path.needs = path.nodes(inventory.nodes.keys()).into_iter().map(needed).collect();
    }
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
    for (id, path) in &previous.ledger.paths {
        if !ledger.paths.contains_key(id) {
            let forgets = |node: NodeName| {
                let program = programs.get(&node).map_or(number, |program| program.number);
                (node, program)
            };
            let nodes = path.nodes(inventory.nodes.keys()).into_iter().map(forgets).collect();
            ledger.remember(*id, nodes);
        }
    }
}

/// Superseded paths that still may hold packets: their counters decide when they are drained.
#[must_use]
pub fn draining(blueprint: &Blueprint) -> Vec<PathId> {
    let superseded = |path: &PathRecord| path.phase == PathPhase::Superseded;
    blueprint.ledger.paths.iter().filter(|(_, path)| superseded(path)).map(|(id, _)| *id).collect()
}

fn advance_chain(
    previous: &Blueprint,
    ledger: &mut Ledger,
    intent: &Intent,
    inventory: &Inventory,
    chain: &Chain,
) {
    // Whatever is missing, the paths of before stay: an update is whole or has not happened.
    let Ok(ways) = render(intent, inventory, chain) else { return };
    let classified = ledger.classified(chain.id);
    let is_update = !classified.is_empty();
    if classified.len() == ways.len()
        && classified.iter().zip(&ways).all(|((_, path), way)| way.is_carried_by(path))
    {
        let in_use: Vec<PathId> = classified.iter().map(|(id, _)| *id).collect();
        drop_installs(ledger, chain.id, &in_use);
        for (id, way) in in_use.into_iter().zip(&ways) {
            release_holders(previous, ledger, inventory, id);
            reclassify(ledger, inventory, id, way);
        }
        return;
    }
    let mut known = Vec::new();
    let mut missing = Vec::new();
    for way in &ways {
        match installed(ledger, chain.id, way) {
            Some(id) => known.push(id),
            None => missing.push(way),
        }
    }
    // A path that was never classified and is no longer wanted holds no packet.
    drop_installs(ledger, chain.id, &known);
    for way in &missing {
        install(ledger, intent, inventory, chain, way, is_update);
    }
    // All ways turn at once, when every node of each knows it.
    let is_known =
        |id: &PathId| ledger.paths.get(id).is_some_and(|path| previous.is_running(inventory, path));
    if missing.is_empty() && known.iter().all(is_known) {
        classify(ledger, chain.id, &known);
    }
}

/// The path that waits to carry a way. It is on the nodes of its rules too: other rules, other
/// nodes.
fn installed(ledger: &Ledger, chain: ChainId, way: &Rendering) -> Option<PathId> {
    let is_it = |id: &PathId, path: &PathRecord| {
        path.phase == PathPhase::Installed
            && way.is_carried_by(path)
            && path.rules == way.rules_into(*id)
    };
    ledger.current(chain).find(|(id, path)| is_it(id, path)).map(|(id, _)| id)
}

fn drop_installs(ledger: &mut Ledger, chain: ChainId, kept: &[PathId]) {
    let outdated: Vec<PathId> = ledger
        .current(chain)
        .filter(|(id, path)| path.phase == PathPhase::Installed && !kept.contains(id))
        .map(|(id, _)| id)
        .collect();
    for id in outdated {
        ledger.remove(id);
    }
}

fn ports_of(intent: &Intent, rendering: &Rendering) -> Vec<PlacedPort> {
    let instances = rendering.hops.iter().flat_map(|hop| &hop.instances);
    let mut ports: Vec<PlacedPort> = Vec::new();
    for instance in instances {
        for id in [instance.ingress, instance.egress] {
            let is_known = ports.iter().any(|placed| placed.port.id == id);
            let entry = || port_entry(intent, intent.ports.get(&id)?, PortRole::Function);
            if let (false, Some(port)) = (is_known, entry()) {
                ports.push(PlacedPort { node: instance.node.clone(), port });
            }
        }
    }
    ports
}

fn install(
    ledger: &mut Ledger,
    intent: &Intent,
    inventory: &Inventory,
    chain: &Chain,
    way: &Rendering,
    is_update: bool,
) {
    let Some(id) = ledger.free_path_id(way.encapsulation) else { return };
    let record = PathRecord {
        chain: chain.id,
        chain_name: chain_name(chain),
        direction: way.direction,
        encapsulation: way.encapsulation,
        context: way.context.clone(),
        hops: way.hops.clone(),
        destination: way.destination,
        rules: way.rules_into(id),
        ports: ports_of(intent, way),
        holders: BTreeSet::new(),
        needs: BTreeMap::new(),
        phase: PathPhase::Installed,
        since: ledger.number,
        is_update,
        pins: pins(ledger, intent, inventory, chain.id, way),
    };
    ledger.paths.insert(id, record);
}

/// The classifiers turn to the new paths; in the same blueprint they turn away from the old. Flows
/// that they keep on a path of before are named by the new paths alone from now on.
fn classify(ledger: &mut Ledger, chain: ChainId, ids: &[PathId]) {
    let number = ledger.number;
    for (id, path) in &mut ledger.paths {
        if ids.contains(id) {
            path.phase = PathPhase::Classified;
            path.since = number;
        } else if path.chain == chain && path.phase == PathPhase::Classified {
            supersede(path, number);
            path.pins.clear();
        }
    }
}

/// The same path with other rules: only classifiers change. A node that loses its rule holds the
/// path until it has acknowledged that.
fn reclassify(ledger: &mut Ledger, inventory: &Inventory, id: PathId, way: &Rendering) {
    let number = ledger.number;
    let rules = way.rules_into(id);
    let Some(path) = ledger.paths.get_mut(&id) else { return };
    if path.rules != rules {
        path.holders = path.nodes(inventory.nodes.keys());
        path.rules = rules;
        path.since = number;
        path.is_update = true;
    }
}

fn release_holders(previous: &Blueprint, ledger: &mut Ledger, inventory: &Inventory, id: PathId) {
    let Some(path) = ledger.paths.get_mut(&id) else { return };
    if !path.holders.is_empty() && previous.is_running(inventory, path) {
        path.holders.clear();
    }
}

fn supersede(path: &mut PathRecord, number: BlueprintNumber) {
    path.phase = PathPhase::Superseded;
    path.since = number;
}

/// Turns the classifiers away from chains that are gone, and from those that lost their last rule:
/// what takes nothing has no packets to keep on a path of before.
fn supersede_unwanted(ledger: &mut Ledger, intent: &Intent) {
    let number = ledger.number;
    let is_unwanted =
        |path: &PathRecord| intent.chains.get(&path.chain).is_none_or(|c| c.rules.is_empty());
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
    for path in ledger.paths.values_mut() {
        if is_unwanted(path) && path.phase == PathPhase::Classified {
            supersede(path, number);
            let_go.extend(path.pins.drain(..).map(|pin| pin.old));
        }
    }
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
            && previous.is_running(inventory, path)
    };
    let over: Vec<PathId> =
        ledger.paths.iter().filter(|(id, path)| is_over(id, path)).map(|(id, _)| *id).collect();
    for id in over {
        ledger.remove(id);
    }
}
