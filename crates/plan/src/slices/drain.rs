//! When superseded paths of slices are empty. Their packets are counted on the path whose hops they
//! share: once nothing enters that one any more, it is empty when as much has left it as came. While
//! others still use it nothing is proved by that, and those that were turned away from in one step
//! are timed together: no network and no function keeps a packet longer than the bound. Pure: time
//! is an argument, of whatever kind its caller counts in.

use super::book::SlicePhase;
use crate::blueprint::Blueprint;
use crate::drain::{Asked, Counted, Counting, DRAIN_WAIT_MAX};
use crate::inventory::Inventory;
use crate::ledger::PathPhase;
use catena_model::{BlueprintNumber, NodeName, PathId};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Add;

/// Paths that were turned away from in one step.
#[derive(Debug)]
struct Turned<T> {
    /// Since when nothing enters them.
    since: T,
    /// The paths whose hops they share; none: others still enter one of these.
    counted: Option<Vec<Counting>>,
}

/// Since when nothing enters the paths that a blueprint turned away from.
#[derive(Debug)]
pub struct SliceDrainWatch<T> {
    turned: BTreeMap<BlueprintNumber, Turned<T>>,
}

impl<T> Default for SliceDrainWatch<T> {
    fn default() -> Self {
        Self { turned: BTreeMap::new() }
    }
}

/// The superseded paths of slices, by what they wait for.
#[derive(Default)]
struct Superseded {
    /// By the blueprint that turned away: the paths whose hops they share.
    turned: BTreeMap<BlueprintNumber, BTreeSet<PathId>>,
    turning: BTreeSet<BlueprintNumber>,
    /// How many paths with the hops of a path nothing enters any more.
    idle: BTreeMap<PathId, usize>,
    /// The nodes that entered them.
    entrances: BTreeMap<PathId, BTreeSet<NodeName>>,
}

impl Superseded {
    fn of(blueprint: &Blueprint, inventory: &Inventory) -> Self {
        let mut found = Self::default();
        for ((phase, since, like, at), paths) in blueprint.slices.cohorts() {
            let is_forgotten = *phase == SlicePhase::Forgotten;
            if *phase != SlicePhase::Superseded && !is_forgotten {
                continue;
            }
            let mut nodes: BTreeSet<NodeName> = match at {
                Some(node) => BTreeSet::from([node.clone()]),
                None => blueprint.slices.nodes.iter().cloned().collect(),
            };
            nodes.retain(|node| inventory.knows(node));
            let has_turned = nodes.iter().all(|node| inventory.has_let_go(node, *since));
            if has_turned || is_forgotten {
                *found.idle.entry(*like).or_default() += paths.len();
                found.entrances.entry(*like).or_default().extend(nodes);
            }
            if is_forgotten || inventory.slices_drained.contains(since) {
                continue;
            }
            if has_turned {
                found.turned.entry(*since).or_default().insert(*like);
            } else {
                found.turning.insert(*since);
            }
        }
        let turning = std::mem::take(&mut found.turning);
        found.turned.retain(|since, _| !turning.contains(since));
        found
    }

    /// How paths are counted; none: something may still enter one of them.
    fn count(
        &self,
        paths: &BTreeSet<PathId>,
        blueprint: &Blueprint,
        inventory: &Inventory,
    ) -> Option<Vec<Counting>> {
        let count = |id: &PathId| {
            let path = blueprint.ledger.paths.get(id)?;
            let is_left = path.phase == PathPhase::Superseded
                && !blueprint.ledger.is_pinned(*id)
                && blueprint.lagging_nodes(inventory, path).is_empty()
                && self.idle.get(id).copied() == Some(blueprint.slices.users_count(*id));
            let entrances = self.entrances.get(id).filter(|_| is_left)?;
            Some(Counting::of(*id, path, entrances, inventory))
        };
        paths.iter().map(count).collect()
    }
}

impl<T: Copy + Ord + Add<std::time::Duration, Output = T>> SliceDrainWatch<T> {
    /// Takes how things stand. Is there a path whose time runs?
    pub fn observe(&mut self, blueprint: &Blueprint, inventory: &Inventory, now: T) -> bool {
        let superseded = Superseded::of(blueprint, inventory);
        let mut former = std::mem::take(&mut self.turned);
        for (number, likes) in &superseded.turned {
            let since = former.remove(number).map_or(now, |turned| turned.since);
            let counted = superseded.count(likes, blueprint, inventory);
            self.turned.insert(*number, Turned { since, counted });
        }
        !self.turned.is_empty()
    }

    /// Adds whom to ask for the counters that would prove some of them empty. Where others still use
    /// the hops, paths are timed: nobody is asked for their sake.
    pub fn ask(&self, asked: &mut Asked) {
        let counted = self.turned.values().filter_map(|turned| turned.counted.as_ref());
        counted.flatten().for_each(|path| path.ask(asked));
    }

    /// The blueprints that turned away from paths which are empty by now.
    ///
    /// The counters must have been asked for after the last [`SliceDrainWatch::observe`].
    pub fn drained(&self, counters: &Counted, now: T) -> Vec<BlueprintNumber> {
        let is_over = |turned: &Turned<T>| {
            let counted = turned.counted.as_deref();
            let is_empty =
                counted.is_some_and(|paths| paths.iter().all(|path| path.is_empty(counters)));
            is_empty || turned.since + DRAIN_WAIT_MAX <= now
        };
        let over = self.turned.iter().filter(|(_, turned)| is_over(turned));
        over.map(|(number, _)| *number).collect()
    }
}
