//! One step forward for slices: what differs from what is declared is taken up, and what every node
//! concerned has acknowledged goes on.

use super::book::{SliceBook, SlicePath, SlicePhase};
use crate::blueprint::Blueprint;
use crate::index::IndexedIntent;
use crate::intent::Intent;
use crate::inventory::Inventory;
use crate::ledger::{Direction, PathPhase, PathRecord};
use crate::programs::Programs;
use crate::render::bound_node;
use crate::routing::is_routed;
use catena_model::id::{ChainId, SliceId};
use catena_model::program::{SliceEntry, SlicePathEntry};
use catena_model::slice::{Slice, SlicePlace};
use catena_model::{BlueprintNumber, NodeName, PathId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The blueprint that should follow for the sake of slices, or none.
pub(crate) fn next_slices(
    previous: &Blueprint,
    intent: &IndexedIntent,
    inventory: &Inventory,
) -> Option<Blueprint> {
    let programs = match previous.looked_among(inventory) {
        Some(_) => previous.programs.clone(),
        None => previous.following_programs(&previous.ledger, intent, inventory),
    };
    let number = previous.number.next();
    let step = step(previous, programs, intent, inventory);
    let has_changed = step.has_changed;
    let (slices, programs) = step.end();
    has_changed.then(|| Blueprint {
        number,
        parent: previous.number,
        slices,
        programs,
        ..previous.clone()
    })
}

/// The book and the programs of a blueprint that nothing follows: what was found out in looking is
/// kept.
pub(crate) fn settled(
    previous: &Blueprint,
    programs: Programs,
    intent: &IndexedIntent,
    inventory: &Inventory,
) -> (SliceBook, Programs) {
    step(previous, programs, intent, inventory).end()
}

/// The book and the programs of the blueprint that follows for the sake of chains, with what every node
/// should know of slices.
pub(crate) fn with_all_nodes(
    previous: &Blueprint,
    book: SliceBook,
    programs: Programs,
    intent: &IndexedIntent,
    inventory: &Inventory,
) -> (SliceBook, Programs) {
    let mut step = Step::new(previous, book, programs, intent, inventory);
    step.meet_nodes();
    step.end()
}

fn step<'s>(
    previous: &'s Blueprint,
    programs: Programs,
    intent: &'s IndexedIntent,
    inventory: &'s Inventory,
) -> Step<'s> {
    let mut book = previous.slices.clone();
    book.wanted.look(intent);
    let mut step = Step::new(previous, book, programs, intent, inventory);
    step.meet_nodes();
    if step.book.is_empty() {
        return step;
    }
    step.aim();
    for slice in step.book.wanted.todo.clone() {
        step.take_up(slice);
    }
    step.advance();
    step
}

/// The node that classifies where a slice begins; none: every node does.
pub(crate) fn classifier_of(
    intent: &Intent,
    inventory: &Inventory,
    place: SlicePlace,
) -> Result<Option<NodeName>, String> {
    match place {
        SlicePlace::Port(port) => bound_node(intent, inventory, port).map(Some),
        // A chain may end at other nodes tomorrow: where its slices go on is known everywhere.
        SlicePlace::Endpoints | SlicePlace::After(_) => Ok(None),
    }
}

struct Step<'s> {
    previous: &'s Blueprint,
    intent: &'s IndexedIntent,
    inventory: &'s Inventory,
    number: BlueprintNumber,
    book: SliceBook,
    /// The nodes of the hops of paths that were asked for.
    lines: BTreeMap<PathId, Arc<BTreeSet<NodeName>>>,
    programs: Programs,
    /// The nodes whose acknowledgement of this step is waited for.
    told: BTreeSet<NodeName>,
    has_changed: bool,
}

impl<'s> Step<'s> {
    fn new(
        previous: &'s Blueprint,
        book: SliceBook,
        programs: Programs,
        intent: &'s IndexedIntent,
        inventory: &'s Inventory,
    ) -> Self {
        Self {
            previous,
            intent,
            inventory,
            number: previous.number.next(),
            book,
            lines: BTreeMap::new(),
            programs,
            told: BTreeSet::new(),
            has_changed: false,
        }
    }

    fn end(self) -> (SliceBook, Programs) {
        let programs = self.programs.numbered(&self.previous.programs, self.number, &self.told);
        (self.book, programs)
    }

    /// A node that was not there before learns all that is its own; so do all after a restart, who may
    /// know it already.
    fn meet_nodes(&mut self) {
        let unknown = self.inventory.nodes.keys().filter(|node| !self.book.nodes.contains(*node));
        let unknown: BTreeSet<NodeName> = unknown.cloned().collect();
        if unknown.is_empty() {
            return;
        }
        self.book.nodes.extend(unknown.iter().cloned());
        let paths = self.book.paths.clone();
        for (id, path) in &paths {
            if path.phase == SlicePhase::Classified
                && !self.book.entries.contains_key(&path.slice)
                && let Some(slice) = self.intent.slices.get(&path.slice)
            {
                self.book.entries.insert(path.slice, Arc::new(SliceEntry::of(slice, *id)));
            }
            let nodes = match path.phase {
                SlicePhase::Installed => BTreeSet::clone(&self.hops(path.like)),
                _ => self.nodes_of(path),
            };
            self.tell(*id, path, nodes.intersection(&unknown));
        }
        // Whom it is new to gets it because it differs from what that node was told before.
        self.told.clear();
    }

    /// Tells nodes what they should know of a path.
    fn tell<'n>(
        &mut self,
        id: PathId,
        path: &SlicePath,
        nodes: impl IntoIterator<Item = &'n NodeName>,
    ) {
        let entry = self.book.entries.get(&path.slice);
        let entry = entry.filter(|_| path.phase == SlicePhase::Classified);
        let path_entry = Arc::new(path_entry(id, path));
        for node in nodes {
            self.told.insert(node.clone());
            let Some(entries) = self.programs.entries_mut(node) else { continue };
            entries.slice_paths.insert(id, Arc::clone(&path_entry));
            let classifies = path.at.as_ref().is_none_or(|at| at == node);
            if let Some(entry) = entry.filter(|_| classifies) {
                entries.slices.insert(path.slice, Arc::clone(entry));
            }
        }
    }

    /// The path whose hops slices of each chain share: the one that its classifiers use. The ledger
    /// is gone through only when it is another, not for a change of slices.
    fn aim(&mut self) {
        if !self.book.wanted.must_aim(self.previous.ledger.number) {
            return;
        }
        let ledger = &self.previous.ledger;
        let chains: Vec<ChainId> = self.book.wanted.places.chains().collect();
        for chain in chains {
            let in_use = ledger.path_in(chain, Direction::Forward, PathPhase::Classified);
            self.book.wanted.aim(chain, in_use.map(|(id, _)| id), self.intent);
        }
    }

    /// Brings a slice to what is declared, as far as it can be now; else it is looked at again.
    fn take_up(&mut self, id: SliceId) {
        let Some(slice) = self.intent.slices.get(&id) else {
            self.withdraw(id);
            self.book.wanted.todo.remove(&id);
            return;
        };
        let Some(path) = self.wish(slice) else { return };
        self.book.wanted.todo.remove(&id);
        let ways = self.book.ways(id);
        let has = |way: Option<PathId>| {
            let known = way.and_then(|id| self.book.paths.get(&id));
            known.is_some_and(|known| {
                (known.chain, known.like, known.carries_metadata)
                    == (path.chain, path.like, path.carries_metadata)
                    && known.at == path.at
            })
        };
        let (is_classified, is_installed) = (has(ways.classified), has(ways.installed));
        if let Some(installed) = ways.installed.filter(|_| is_classified || !is_installed) {
            self.forget(installed);
        }
        match ways.classified.filter(|_| is_classified) {
            Some(classified) => self.change(classified, slice),
            None if is_installed => {}
            None => self.install(path),
        }
    }

    /// The path that a slice should have; none: something that it needs is not there yet.
    fn wish(&self, slice: &Slice) -> Option<SlicePath> {
        let like = *self.book.wanted.targets.get(&slice.chain)?;
        let at = classifier_of(self.intent, self.inventory, slice.place()).ok()?;
        let record = self.previous.ledger.paths.get(&like)?;
        let is_known = record.takes_slices_at(at.as_ref());
        let is_routed = is_routed(&self.previous.ledger, self.inventory, record);
        if !is_known || !is_routed || !self.previous.is_running(self.inventory, record) {
            return None;
        }
        Some(SlicePath {
            slice: slice.id,
            chain: slice.chain,
            like,
            at,
            carries_metadata: slice.carries_metadata,
            phase: SlicePhase::Installed,
            since: self.number,
        })
    }

    /// The hops learn a new path. Where there is but one node, or none, nobody has to wait.
    fn install(&mut self, path: SlicePath) {
        let record = self.previous.ledger.paths.get(&path.like);
        let Some(encapsulation) = record.map(|record| record.encapsulation) else { return };
        let Some(id) = self.book.free_id(encapsulation, self.number) else {
            self.book.wanted.todo.insert(path.slice);
            return;
        };
        let hops = self.hops(path.like);
        let is_alone = hops.is_empty() || self.nodes_of(&path).len() <= 1;
        self.tell(id, &path, hops.iter());
        self.put(id, path);
        if is_alone {
            self.classify(id);
        }
    }

    /// Classifiers turn to a path, and in the same step away from the one before.
    fn classify(&mut self, id: PathId) {
        let Some(path) = self.book.paths.get(&id).cloned() else { return };
        let Some(slice) = self.intent.slices.get(&path.slice) else { return };
        let former = self.book.ways(path.slice).classified;
        if let Some(former) = former.filter(|former| *former != id) {
            self.supersede(former);
        }
        self.enter(id, path, slice);
    }

    /// The slice of a classified path as it is declared now.
    fn change(&mut self, id: PathId, slice: &Slice) {
        let known = self.book.entries.get(&slice.id);
        if known.is_some_and(|known| **known == SliceEntry::of(slice, id)) {
            return;
        }
        if let Some(path) = self.book.paths.get(&id).cloned() {
            self.enter(id, path, slice);
        }
    }

    /// Classifiers learn what is sent into a path.
    fn enter(&mut self, id: PathId, path: SlicePath, slice: &Slice) {
        self.book.entries.insert(slice.id, Arc::new(SliceEntry::of(slice, id)));
        let path = SlicePath { phase: SlicePhase::Classified, ..path };
        let places = self.places(path.at.as_ref());
        self.tell(id, &path, &places);
        self.put(id, path);
    }

    /// Nothing is sent into a path any more.
    fn supersede(&mut self, id: PathId) {
        let Some(path) = self.book.paths.get(&id).cloned() else { return };
        for node in self.places(path.at.as_ref()) {
            if let Some(entries) = self.programs.entries_mut(&node) {
                entries.slices.remove(&path.slice);
            }
            self.told.insert(node);
        }
        self.book.entries.remove(&path.slice);
        self.put(id, SlicePath { phase: SlicePhase::Superseded, ..path });
    }

    /// The nodes forget a path.
    fn forget(&mut self, id: PathId) {
        let Some(path) = self.book.paths.get(&id).cloned() else { return };
        for node in self.nodes_of(&path) {
            if let Some(entries) = self.programs.entries_mut(&node) {
                entries.slice_paths.remove(&id);
            }
            // Also where it was not known: all of them are waited for.
            self.told.insert(node);
        }
        self.put(id, SlicePath { phase: SlicePhase::Forgotten, ..path });
    }

    /// This step has brought a path to where it is.
    fn put(&mut self, id: PathId, path: SlicePath) {
        self.book.put(id, SlicePath { since: self.number, ..path });
        self.has_changed = true;
    }

    /// A slice that is no longer declared.
    fn withdraw(&mut self, slice: SliceId) {
        let ways = self.book.ways(slice);
        if let Some(installed) = ways.installed {
            self.forget(installed);
        }
        if let Some(classified) = ways.classified {
            self.supersede(classified);
        }
    }

    /// Paths whose nodes have acknowledged the last step go on, those of one step together.
    fn advance(&mut self) {
        let cohorts = self.book.cohorts().filter(|((_, since, ..), _)| *since < self.number);
        let cohorts: Vec<_> = cohorts.map(|(key, paths)| (key.clone(), paths.clone())).collect();
        for ((phase, since, like, at), paths) in cohorts {
            let mut waits_for = BTreeSet::new();
            if phase != SlicePhase::Superseded {
                waits_for.extend(self.hops(like).iter().cloned());
            }
            if phase != SlicePhase::Installed {
                waits_for.extend(self.places(at.as_ref()));
            }
            let is_done = waits_for.iter().all(|node| match phase {
                SlicePhase::Installed => self.inventory.has_acknowledged(node, since),
                _ => self.inventory.has_let_go(node, since),
            });
            if !is_done {
                continue;
            }
            for id in paths {
                match phase {
                    SlicePhase::Installed => self.classify(id),
                    SlicePhase::Superseded if self.inventory.slices_drained.contains(&since) => {
                        self.forget(id);
                    }
                    SlicePhase::Forgotten => {
                        self.book.release(id, self.number);
                        self.has_changed = true;
                    }
                    SlicePhase::Superseded | SlicePhase::Classified => {}
                }
            }
        }
    }

    /// The nodes of a path's hops.
    fn hops(&mut self, like: PathId) -> Arc<BTreeSet<NodeName>> {
        let record = self.previous.ledger.paths.get(&like);
        let nodes = || Arc::new(record.map(PathRecord::hop_nodes).unwrap_or_default());
        Arc::clone(self.lines.entry(like).or_insert_with(nodes))
    }

    /// The nodes that classify.
    fn places(&self, at: Option<&NodeName>) -> Vec<NodeName> {
        match at {
            Some(node) => vec![node.clone()],
            None => self.book.nodes.iter().cloned().collect(),
        }
    }

    /// The nodes that a path is for, as far as it has come.
    fn nodes_of(&mut self, path: &SlicePath) -> BTreeSet<NodeName> {
        if path.phase == SlicePhase::Forgotten {
            return BTreeSet::new();
        }
        let mut nodes = BTreeSet::clone(&self.hops(path.like));
        nodes.extend(self.places(path.at.as_ref()));
        nodes
    }
}

fn path_entry(id: PathId, path: &SlicePath) -> SlicePathEntry {
    SlicePathEntry {
        id,
        slice: path.slice,
        like: path.like,
        carries_metadata: path.carries_metadata,
    }
}
