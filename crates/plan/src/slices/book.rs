//! What has been decided of slices: their paths, how far each has come, what each node knows of them.

use super::wanted::{Places, Wanted};
use crate::counts::{Counts, Edit};
use crate::intent::Table;
use catena_model::id::{ChainId, SliceId};
use catena_model::limits::PATH_ID_QUARANTINE_BLUEPRINTS;
use catena_model::program::SliceEntry;
use catena_model::resource::Encapsulation;
use catena_model::{BlueprintNumber, NodeName, PathId};
use imbl::OrdSet;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;

/// How far the path of a slice has come. It only moves forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SlicePhase {
    /// The nodes of its hops are learning it; nothing is sent into it.
    Installed,
    /// The slice is sent into it.
    Classified,
    /// Classifiers have turned away; what is inside still gets through.
    Superseded,
    /// Its nodes are forgetting it.
    Forgotten,
}

/// The path of a slice and what has happened to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlicePath {
    /// The slice.
    pub slice: SliceId,
    /// Its chain.
    pub chain: ChainId,
    /// The path whose hops it shares.
    pub like: PathId,
    /// The node that classifies; none: every node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<NodeName>,
    /// Its packets carry tenant and user.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub carries_metadata: bool,
    /// How far it has come.
    pub phase: SlicePhase,
    /// The blueprint that brought it there, or changed its slice.
    pub since: BlueprintNumber,
}

/// Paths that were brought to a phase together and wait for the same nodes.
pub(crate) type Cohort = (SlicePhase, BlueprintNumber, PathId, Option<NodeName>);

/// The nodes (none: every node) that classify into paths with the hops of a path, and how many such
/// paths there are.
pub(crate) type Users = Counts<(PathId, Option<NodeName>)>;

/// The paths of one slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ways {
    pub(crate) installed: Option<PathId>,
    pub(crate) classified: Option<PathId>,
}

/// Everything about slices that outlives one step of the planner. A copy costs nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SliceBook {
    /// All paths that any node may still know.
    pub(crate) paths: Table<PathId, SlicePath>,
    /// Each slice that is classified, as nodes have it.
    pub(crate) entries: Table<SliceId, Arc<SliceEntry>>,
    ways: Table<SliceId, Ways>,
    cohorts: Table<Cohort, OrdSet<PathId>>,
    /// How many paths share the hops of a path and are classified there.
    uses: Users,
    /// Identifiers that were given back, and the first blueprint that may use them again.
    pub(super) resting: Table<PathId, BlueprintNumber>,
    /// Where the search for a free identifier goes on, by encapsulation: MPLS has its own.
    cursors: [u32; Encapsulation::ALL.len()],
    /// The nodes whose programs have all that they should know of slices.
    pub(crate) nodes: BTreeSet<NodeName>,
    pub(crate) wanted: Wanted,
}

impl SliceBook {
    /// Strikes out what a node was told.
    pub(crate) fn forget_node(&mut self, node: &NodeName) {
        self.nodes.remove(node);
    }

    /// The paths of slices that any node may still know.
    pub fn paths(&self) -> impl ExactSizeIterator<Item = (PathId, &SlicePath)> {
        self.paths.iter().map(|(id, path)| (*id, path))
    }

    /// The slices that are sent into a path.
    pub fn classified(&self) -> impl Iterator<Item = SliceId> + '_ {
        self.ways.iter().filter(|(_, ways)| ways.classified.is_some()).map(|(slice, _)| *slice)
    }

    /// How many slices are sent into a path.
    #[must_use]
    pub fn classified_count(&self) -> usize {
        self.entries.len()
    }

    /// The path of an identifier.
    #[must_use]
    pub fn path(&self, id: PathId) -> Option<&SlicePath> {
        self.paths.get(&id)
    }

    /// The blueprints that turned away from paths that may still hold packets.
    pub fn superseded(&self) -> impl Iterator<Item = BlueprintNumber> + '_ {
        let superseded = self.cohorts.keys().filter(|key| key.0 == SlicePhase::Superseded);
        superseded.map(|(_, since, ..)| *since)
    }

    /// Is nothing planned and nothing to be planned?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty() && self.wanted.is_empty()
    }

    /// Does a slice share the hops of this path?
    pub(crate) fn uses_path(&self, like: PathId) -> bool {
        self.users(like).next().is_some()
    }

    /// How many paths share the hops of this one, as far as they have come.
    pub(crate) fn users_count(&self, like: PathId) -> usize {
        let count = |at: &Option<NodeName>| self.uses.of(&(like, at.clone())) as usize;
        self.users(like).map(count).sum()
    }

    pub(crate) fn all_users(&self) -> &Users {
        &self.uses
    }

    /// The nodes (none: every node) that classify into paths with the hops of this one.
    pub(crate) fn users(&self, like: PathId) -> impl Iterator<Item = &Option<NodeName>> {
        let users = self.uses.keys_from((like, None));
        users.take_while(move |(found, _)| *found == like).map(|(_, at)| at)
    }

    /// Where slices of chains begin, as declared.
    pub(crate) fn places(&self) -> &Places {
        &self.wanted.places
    }

    pub(crate) fn ways(&self, slice: SliceId) -> Ways {
        self.ways.get(&slice).copied().unwrap_or_default()
    }

    pub(crate) fn cohorts(&self) -> impl Iterator<Item = (&Cohort, &OrdSet<PathId>)> {
        self.cohorts.iter()
    }

    /// Puts down a path, new or changed.
    pub(crate) fn put(&mut self, id: PathId, path: SlicePath) {
        self.unlink(id);
        self.uses.edit(Edit::Add, (path.like, path.at.clone()));
        let mut ways = self.ways(path.slice);
        match path.phase {
            SlicePhase::Installed => ways.installed = Some(id),
            SlicePhase::Classified => ways.classified = Some(id),
            SlicePhase::Superseded | SlicePhase::Forgotten => {}
        }
        if ways != Ways::default() {
            self.ways.insert(path.slice, ways);
        }
        if path.phase != SlicePhase::Classified {
            self.cohorts.entry(cohort(&path)).or_default().insert(id);
        }
        self.paths.insert(id, path);
    }

    /// Nobody knows the path any more: its identifier rests.
    pub(crate) fn release(&mut self, id: PathId, number: BlueprintNumber) {
        self.unlink(id);
        if self.paths.remove(&id).is_some() {
            self.rest(id, number);
        }
    }

    /// An identifier that was given back by this blueprint.
    pub(crate) fn rest(&mut self, id: PathId, number: BlueprintNumber) {
        let until = BlueprintNumber(number.0.saturating_add(PATH_ID_QUARANTINE_BLUEPRINTS));
        self.resting.insert(id, until);
    }

    /// Takes a path out of everything that leads to it.
    fn unlink(&mut self, id: PathId) {
        let Some(path) = self.paths.get(&id) else { return };
        let (key, place, slice) = (cohort(path), (path.like, path.at.clone()), path.slice);
        if let Some(paths) = self.cohorts.get_mut(&key) {
            paths.remove(&id);
            if paths.is_empty() {
                self.cohorts.remove(&key);
            }
        }
        self.uses.edit(Edit::Remove, place);
        let mut ways = self.ways(slice);
        ways.installed = ways.installed.filter(|installed| *installed != id);
        ways.classified = ways.classified.filter(|classified| *classified != id);
        if ways == Ways::default() {
            self.ways.remove(&slice);
        } else {
            self.ways.insert(slice, ways);
        }
    }

    /// An identifier that nobody uses, from where the last search stopped: one that was given back
    /// is not found again before all others have been.
    pub(crate) fn free_id(
        &mut self,
        encapsulation: Encapsulation,
        number: BlueprintNumber,
    ) -> Option<PathId> {
        let pool = &encapsulation.capabilities().slice_path_ids;
        let cursor = encapsulation as usize;
        let from = self.cursors.get(cursor).copied().unwrap_or_default().max(*pool.start());
        let is_free = |id: &u32| {
            let id = PathId(*id);
            let rests = self.resting.get(&id).is_some_and(|until| number < *until);
            !rests && !self.paths.contains_key(&id)
        };
        let found = (from..=*pool.end()).chain(*pool.start()..from).find(is_free)?;
        if let Some(cursor) = self.cursors.get_mut(cursor) {
            *cursor = found.saturating_add(1);
        }
        self.resting.remove(&PathId(found));
        Some(PathId(found))
    }
}

fn cohort(path: &SlicePath) -> Cohort {
    (path.phase, path.since, path.like, path.at.clone())
}
