//! When superseded paths of slices are empty: no network and no function keeps a packet longer than
//! the bound. They are not counted one by one; those that were turned away from in one step are
//! timed together. Pure: time is an argument, of whatever kind its caller counts in.

use super::book::SlicePhase;
use crate::blueprint::Blueprint;
use crate::drain::DRAIN_WAIT_MAX;
use crate::inventory::Inventory;
use catena_model::BlueprintNumber;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Add;
use std::time::Duration;

/// Since when nothing enters the paths that a blueprint turned away from.
#[derive(Debug)]
pub struct SliceDrainWatch<T> {
    turned: BTreeMap<BlueprintNumber, T>,
}

impl<T> Default for SliceDrainWatch<T> {
    fn default() -> Self {
        Self { turned: BTreeMap::new() }
    }
}

impl<T: Copy + Ord + Add<Duration, Output = T>> SliceDrainWatch<T> {
    /// Takes how things stand. Is there a path whose time runs?
    pub fn observe(&mut self, blueprint: &Blueprint, inventory: &Inventory, now: T) -> bool {
        let mut turned = BTreeSet::new();
        let mut turning = BTreeSet::new();
        for ((phase, since, _, at), _) in blueprint.slices.cohorts() {
            if *phase != SlicePhase::Superseded || inventory.slices_drained.contains(since) {
                continue;
            }
            let has_turned = match at {
                Some(node) => inventory.has_let_go(node, *since),
                None => {
                    let mut nodes = blueprint.slices.tables.keys();
                    nodes.all(|node| inventory.has_let_go(node, *since))
                }
            };
            if has_turned {
                turned.insert(*since);
            } else {
                turning.insert(*since);
            }
        }
        turned.retain(|since| !turning.contains(since));
        self.turned.retain(|since, _| turned.contains(since));
        for since in turned {
            self.turned.entry(since).or_insert(now);
        }
        !self.turned.is_empty()
    }

    /// The blueprints that turned away from paths which are empty by now.
    pub fn drained(&self, now: T) -> Vec<BlueprintNumber> {
        let over = self.turned.iter().filter(|(_, since)| **since + DRAIN_WAIT_MAX <= now);
        over.map(|(number, _)| *number).collect()
    }
}
