//! Which flows stay on a former path when its classifiers turn, and until when. Knows why a flow
//! must not move; refuses to know how a classifier remembers flows.

use crate::intent::Intent;
use crate::inventory::Inventory;
use crate::ledger::{Ledger, PathPhase, PathRecord, Pin};
use crate::render::Rendering;
use catena_model::PathId;
use catena_model::id::{ChainId, InstanceId};
use catena_model::limits::{PIN_IDLE_DRAINING_MS, PIN_IDLE_REWRITING_MS};
use catena_model::program::{HopEntry, HopKind, InstanceEntry};
use std::collections::BTreeSet;

/// What the classifiers of a new path leave on the former paths: flows of functions whose
/// packets would not tell which path they are on, and flows of instances that drain.
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
        let draining = draining(intent, path, &way.hops);
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
        let hops = old.members.iter().filter_map(|member| old.hops.get(usize::from(member.hop)));
        hops.map(|hop| hop.function).any(|function| function == hop.function)
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

/// Instances that take no new flow on the new path and still have some on the old.
fn draining(intent: &Intent, old: &PathRecord, new: &[HopEntry]) -> BTreeSet<InstanceId> {
    let drains = |(_, instance): &(&HopEntry, &InstanceEntry)| {
        instance.weight > 0
            && intent.instances.get(&instance.id).is_some_and(|declared| declared.is_draining)
            && !passed(new).any(|(_, new)| new.id == instance.id && new.weight > 0)
    };
    passed(&old.hops).filter(drains).map(|(_, instance)| instance.id).collect()
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
