//! The account of each change of a chain, from the first blueprint that knows of it to the last
//! packet on the former paths. Pure: sees blueprints pass, time is an argument.

use crate::blueprint::Blueprint;
use crate::inventory::Inventory;
use crate::ledger::{PathPhase, PathRecord};
use crate::paths::Paths;
use catena_model::id::ChainId;
use catena_model::status::{DrainedPath, Receipt};
use catena_model::{BlueprintNumber, PathId};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Sub;
use std::time::Duration;

/// The paths that a chain's rules send into, each with the blueprint that brought it there.
type InUse = BTreeSet<(PathId, BlueprintNumber)>;

/// A change that is not over.
#[derive(Debug)]
struct Change<T> {
    begun: T,
    name: String,
    /// The newest blueprint that had a part in it.
    newest: BlueprintNumber,
    /// Former paths, and what became of them as far as it is known.
    old: BTreeMap<PathId, Option<DrainedPath>>,
}

/// All chains, as far as their changes are concerned.
#[derive(Debug)]
pub struct Changes<T> {
    /// The paths that were observed last; none: nothing was yet.
    seen: Option<Paths>,
    settled: BTreeMap<ChainId, InUse>,
    open: BTreeMap<ChainId, Change<T>>,
}

impl<T> Default for Changes<T> {
    fn default() -> Self {
        Self { seen: None, settled: BTreeMap::new(), open: BTreeMap::new() }
    }
}

impl<T: Copy + Sub<T, Output = Duration>> Changes<T> {
    /// Notes what became of a former path.
    pub fn note(&mut self, drained: &DrainedPath) {
        for change in self.open.values_mut() {
            if let Some(known) = change.old.get_mut(&drained.path) {
                *known = Some(drained.clone());
            }
        }
    }

    /// Takes how things stand; answers the changes that are over. What was settled at the first
    /// call is no change. Costs what differs since the last, and what is not over.
    pub fn observe(
        &mut self,
        blueprint: &Blueprint,
        inventory: &Inventory,
        now: T,
    ) -> Vec<Receipt> {
        let now_there = &blueprint.ledger.paths;
        let is_first = self.seen.is_none();
        let seen = self.seen.replace(now_there.clone()).unwrap_or_default();
        let of_path = |id: PathId| {
            let paths = [now_there.get(&id), seen.get(&id)];
            paths.into_iter().flatten().map(|path| path.chain)
        };
        let changed = now_there.since(&seen).flat_map(|(id, _)| of_path(id));
        let chains: BTreeSet<ChainId> = changed.chain(self.open.keys().copied()).collect();
        let mut over = Vec::new();
        for chain in chains {
            let paths: Vec<(PathId, &PathRecord)> = now_there.of_chain(chain).collect();
            let used = in_use(&paths);
            let is_quiet = paths.iter().all(is_in_use);
            if is_first && is_quiet {
                self.settled.insert(chain, used);
                continue;
            }
            let known = self.settled.get(&chain).cloned().unwrap_or_default();
            if is_quiet && known == used && !self.open.contains_key(&chain) {
                continue;
            }
            let change = self.open.entry(chain).or_insert_with(|| Change::new(now));
            change.see(&paths);
            let is_running = |(_, path): &(PathId, &PathRecord)| {
                blueprint.lagging_nodes(inventory, path).is_empty()
            };
            if !is_quiet || !paths.iter().all(is_running) {
                continue;
            }
            if let Some(change) = self.open.remove(&chain)
                && (known != used || !change.old.is_empty())
            {
                over.push(change.receipt(chain, &used, now));
            }
            if used.is_empty() {
                self.settled.remove(&chain);
            } else {
                self.settled.insert(chain, used);
            }
        }
        over
    }
}

impl<T: Copy + Sub<T, Output = Duration>> Change<T> {
    fn new(now: T) -> Self {
        let newest = BlueprintNumber::default();
        Self { begun: now, name: String::new(), newest, old: BTreeMap::new() }
    }

    fn see(&mut self, paths: &[(PathId, &PathRecord)]) {
        for (id, path) in paths {
            self.name.clone_from(&path.chain_name);
            self.newest = self.newest.max(path.since);
            if path.phase == PathPhase::Superseded {
                self.old.entry(*id).or_default();
            }
        }
    }

    fn receipt(self, chain: ChainId, used: &InUse, now: T) -> Receipt {
        let turned = used.iter().map(|(_, since)| *since).max();
        Receipt {
            chain,
            name: self.name,
            blueprint: turned.unwrap_or(self.newest),
            paths: used.iter().map(|(id, _)| *id).collect(),
            drained: self.old.into_values().flatten().collect(),
            took_ms: u64::try_from((now - self.begun).as_millis()).unwrap_or(u64::MAX),
        }
    }
}

fn is_in_use((_, path): &(PathId, &PathRecord)) -> bool {
    path.phase == PathPhase::Classified
}

fn in_use(paths: &[(PathId, &PathRecord)]) -> InUse {
    let used = paths.iter().filter(|path| is_in_use(path));
    used.map(|(id, path)| (*id, path.since)).collect()
}
