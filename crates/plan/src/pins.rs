//! Which flows stay on a former path when its classifiers turn, and until when. Knows why a flow
//! must not move; refuses to know how a classifier remembers flows.

use crate::intent::Intent;
use crate::inventory::Inventory;
use crate::ledger::{Ledger, PathPhase, PathRecord, Pin};
use crate::render::Rendering;
use crate::segments::{FunctionAt, InstanceAt, functions};
use catena_model::PathId;
use catena_model::id::{ChainId, InstanceId};
use catena_model::limits::{PIN_IDLE_DRAINING_MS, PIN_IDLE_REWRITING_MS};
use catena_model::program::{HopEntry, HopKind, InstanceEntry};
use std::collections::{BTreeMap, BTreeSet};

/// What the classifiers of a new path leave on the former paths: flows of functions whose
/// packets would not tell which path they are on, flows of instances that drain, and those that would meet others where
/// functions become a segment or part.
pub(crate) fn pins(
    ledger: &Ledger,
    intent: &Intent,
    inventory: &Inventory,
    chain: ChainId,
    way: &Rendering,
) -> Vec<Pin> {
    let mut pins = Vec::new();
    let before = ledger.classified(chain).into_iter();
    for (old, path) in before.filter(|(_, path)| path.direction == way.direction) {
        // What stays on still older paths does so whatever the newest is.
        pins.extend(path.pins.iter().cloned());
        let rewriting = rewriting(inventory, path, &way.hops);
        let mut draining = draining(intent, path, way);
        draining.append(&mut regrouped(path, way));
        let idle_ms =
            if draining.is_empty() { PIN_IDLE_REWRITING_MS } else { PIN_IDLE_DRAINING_MS };
        let instances: Vec<InstanceId> = rewriting.union(&draining).copied().collect();
        if !instances.is_empty() {
            pins.push(Pin { old, instances, idle_ms });
        }
    }
    pins
}

/// Unaware instances of both paths that are known or declared to change bytes: a packet that comes back from
/// one says neither by what it carries nor by how it looks which path it is on.
fn rewriting(inventory: &Inventory, old: &PathRecord, new: &[HopEntry]) -> BTreeSet<InstanceId> {
    let rewrites = |hop: &HopEntry, instance: &InstanceEntry| {
        hop.rewrites.is_some() || inventory.rewriting.contains(&instance.id)
    };
    // What is asked in place says by where it is asked, and has one state for both.
    let is_inside = |hop: &HopEntry| {
        let mut hops =
            old.members.iter().filter_map(|member| old.hops.get(usize::from(member.hop)));
        hops.any(|inside| inside.function == hop.function)
    };
    let shared = |(hop, instance): &(&HopEntry, &InstanceEntry)| {
        instance.speaks.is_none()
            && rewrites(hop, instance)
            && !is_inside(hop)
            && passed(new)
                .any(|(_, new)| new.id == instance.id && new.weight > 0 && new.speaks.is_none())
    };
    passed(&old.hops).filter(shared).map(|(_, instance)| instance.id).collect()
}

/// Instances that take no new flow on the new path and still have some on the old, as hops of the old choose them.
fn draining(intent: &Intent, old: &PathRecord, new: &Rendering) -> BTreeSet<InstanceId> {
    let through = |function: &FunctionAt<'_>| function.kind == HopKind::Through;
    let taken = functions(&new.hops, &new.members).filter(through);
    let taken = taken.flat_map(|function| function.instances).filter(|one| one.weight > 0);
    let taken: BTreeSet<InstanceId> = taken.map(|one| one.id).collect();
    let drains = |one: &InstanceAt<'_>| {
        one.weight > 0
            && intent.instances.get(&one.id).is_some_and(|declared| declared.is_draining)
            && !taken.contains(&one.id)
    };
    let all = old.functions().filter(through).flat_map(|function| function.instances);
    all.filter(drains).map(|one| one.chosen_as).collect()
}

/// Where instances are chosen together otherwise than on the old path, a flow would meet others there, though nobody
/// has touched its own: those of the old path that are all still there, as hops of the old choose them.
fn regrouped(old: &PathRecord, new: &Rendering) -> BTreeSet<InstanceId> {
    let there = functions(&new.hops, &new.members).flat_map(|function| function.instances);
    let there: BTreeMap<InstanceId, InstanceId> =
        there.map(|one| (one.id, one.chosen_as)).collect();
    let mut kept = BTreeSet::new();
    for (number, hop) in (0..).zip(&old.hops).filter(|(_, hop)| hop.instances.len() > 1) {
        let functions = || old.functions().filter(move |function| function.hop == number);
        let instances = || functions().flat_map(|function| function.instances);
        let is_turned = |one: &InstanceAt<'_>| {
            there.get(&one.id).is_some_and(|chosen_as| *chosen_as != one.chosen_as)
        };
        if hop.kind == HopKind::Through && instances().any(|one| is_turned(&one)) {
            let gone: BTreeSet<InstanceId> = instances()
                .filter(|one| !there.contains_key(&one.id))
                .map(|one| one.chosen_as)
                .collect();
            let all = hop.instances.iter().filter(|one| one.weight > 0).map(|one| one.id);
            kept.extend(all.filter(|id| !gone.contains(id)));
        }
    }
    kept
}

/// The instances that packets pass through, each with its hop.
fn passed(hops: &[HopEntry]) -> impl Iterator<Item = (&HopEntry, &InstanceEntry)> {
    let through = hops.iter().filter(|hop| hop.kind == HopKind::Through);
    through.flat_map(|hop| hop.instances.iter().map(move |instance| (hop, instance)))
}

/// Flows that have ended, or whose bound has passed, are no longer kept: the old path is turned
/// away from once more, now for good.
pub(crate) fn release_pins(ledger: &mut Ledger, inventory: &Inventory) {
    let is_over = |pin: &Pin| inventory.unpinned.contains(&pin.old);
    let over = inventory.unpinned.iter().filter(|old| ledger.is_pinned(**old));
    let let_go: BTreeSet<PathId> = over.copied().collect();
    if let_go.is_empty() {
        return;
    }
    for id in ledger.paths.pinning().collect::<Vec<PathId>>() {
        if ledger.paths.get(&id).is_some_and(|path| path.pins.iter().any(is_over)) {
            ledger.paths.update(id, |path| path.pins.retain(|pin| !is_over(pin)));
        }
    }
    turn_again(ledger, &let_go);
}

/// Superseded paths that flows stayed on until now: what they hold counts from here.
pub(crate) fn turn_again(ledger: &mut Ledger, paths: &BTreeSet<PathId>) {
    let number = ledger.number;
    for id in paths {
        if ledger.paths.get(id).is_some_and(|path| path.phase == PathPhase::Superseded) {
            ledger.paths.update(*id, |path| {
                path.since = number;
                // What its nodes acknowledged before was not this.
                path.needs.clear();
            });
        }
    }
}
