//! Joins paths at their ends: which rules stand there, and which nodes must know them. Done anew for
//! every blueprint, because either end may have turned.

use crate::inventory::Inventory;
use crate::ledger::{Direction, Ledger, PathPhase, PathRecord};
use catena_model::id::ChainId;
use catena_model::program::{RuleEntry, RulePlace};
use catena_model::{NodeName, PathId};
use std::collections::{BTreeMap, BTreeSet};

/// Between the priorities of rules into one chain and into the next in order: no rule's own comes
/// to it.
const NEXT_CHAIN: u32 = 2_000;

/// What turns together.
pub(crate) struct Turning {
    pub(crate) chains: BTreeSet<ChainId>,
    /// How other paths will lead into those of them that are in use, and stay so.
    pub(crate) joins: BTreeMap<PathId, Vec<RuleEntry>>,
}

/// Places the rules at the ends of all paths. A path that is not in use yet leads into paths that
/// are, but for chains that turn together with its own: those lead into what will be in use then, as
/// it will be entered.
pub(crate) fn link(ledger: &mut Ledger, inventory: &Inventory, turning: &Turning) {
    let leading = ledger.paths.linked().filter(|(_, path)| !path.leads_to.is_empty());
    let branches: Vec<(PathId, Vec<RuleEntry>)> =
        leading.map(|(id, path)| (id, branches(ledger, id, path, turning))).collect();
    let number = ledger.number;
    for (id, branches) in branches {
        if ledger.paths.get(&id).is_some_and(|path| path.branches != branches) {
            ledger.paths.update(id, |path| {
                path.branches = branches;
                if path.phase == PathPhase::Installed {
                    // What its nodes have learned before was not this.
                    path.since = number;
                    path.needs.clear();
                }
            });
        }
    }
    let mut entrances = entrances(ledger, inventory);
    let mut changed = Vec::new();
    let linked: BTreeSet<PathId> = ledger.paths.linked().map(|(id, _)| id).collect();
    let reached: BTreeSet<PathId> = entrances.keys().copied().chain(linked).collect();
    for (id, path) in reached.into_iter().filter_map(|id| Some((id, ledger.paths.get(&id)?))) {
        let mut found = entrances.remove(&id).unwrap_or_default();
        if path.phase == PathPhase::Superseded {
            // It is counted at all its nodes until it is empty.
            found.extend(path.entrances.iter().cloned());
        }
        if found != path.entrances {
            changed.push((id, found));
        }
    }
    for (id, found) in changed {
        ledger.paths.update(id, |path| {
            let before = path.nodes(inventory.nodes.keys());
            path.entrances = found;
            path.is_partly_counted |= !before.is_subset(&path.nodes(inventory.nodes.keys()));
        });
    }
}

/// The rules at the end of a path.
fn branches(ledger: &Ledger, id: PathId, path: &PathRecord, turning: &Turning) -> Vec<RuleEntry> {
    if path.phase == PathPhase::Superseded {
        return path.branches.iter().filter_map(|rule| redirected(ledger, rule)).collect();
    }
    let in_use = |chain| ledger.path_in(chain, path.direction, PathPhase::Classified);
    let waits = path.phase == PathPhase::Installed;
    let next = |chain: ChainId| {
        let is_together = waits && turning.chains.contains(&chain);
        let installed = ledger.path_in(chain, path.direction, PathPhase::Installed);
        installed.filter(|_| is_together).or_else(|| in_use(chain))
    };
    let mut rules = Vec::new();
    for (before, chain) in (0..).zip(path.leads_to.iter().rev()) {
        let Some((target, next)) = next(*chain) else { continue };
        // The way back has no first among several: the more specific decides.
        let is_ordered = path.direction == Direction::Forward;
        let rank = if is_ordered { NEXT_CHAIN.saturating_mul(before) } else { 0 };
        let joins = turning.joins.get(&target).filter(|_| waits).unwrap_or(&next.joins);
        rules.extend(joins.iter().map(|rule| {
            let mut rule = rule.clone();
            rule.matches.place = RulePlace::After(id);
            rule.path = target;
            rule.priority = rule.priority.saturating_add(rank);
            rule
        }));
    }
    rules
}

/// The rule of a path that nothing enters any more: what is inside meets the same chains as before,
/// as they are now.
fn redirected(ledger: &Ledger, rule: &RuleEntry) -> Option<RuleEntry> {
    let target = ledger.paths.get(&rule.path)?;
    if target.phase == PathPhase::Classified {
        return Some(rule.clone());
    }
    let (path, _) = ledger.path_in(target.chain, target.direction, PathPhase::Classified)?;
    Some(RuleEntry { path, ..rule.clone() })
}

/// For each path the nodes at which others end that lead into it. Of a path without functions these
/// are its own ends too, so that one may bring another's.
fn entrances(ledger: &Ledger, inventory: &Inventory) -> BTreeMap<PathId, BTreeSet<NodeName>> {
    let mut entrances: BTreeMap<PathId, BTreeSet<NodeName>> = BTreeMap::new();
    let mut has_grown = true;
    while has_grown {
        has_grown = false;
        for (id, path) in ledger.paths.linked().filter(|(_, path)| !path.branches.is_empty()) {
            let mut found = entrances.get(&id).cloned().unwrap_or_default();
            if path.phase == PathPhase::Superseded {
                found.extend(path.entrances.iter().cloned());
            }
            let ends = path.ends(&found, inventory.nodes.keys());
            for rule in &path.branches {
                let known = entrances.entry(rule.path).or_default();
                let before = known.len();
                known.extend(ends.iter().cloned());
                has_grown |= known.len() > before;
            }
        }
    }
    entrances
}
