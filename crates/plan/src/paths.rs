//! All paths that any node may still know, by identifier and by chain. A copy costs nothing, and what
//! two of them differ in is found without looking at what both share. Refuses to know what moves a path.

use crate::counts::{Counts, Edit};
use crate::index::{Member, Numbers, Relation};
use crate::intent::{Table, differences};
use crate::ledger::{PathPhase, PathRecord};
use crate::sends::Sends;
use catena_model::PathId;
use catena_model::id::ChainId;
use imbl::OrdSet;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::ops::Index;
use std::sync::Arc;

impl Member for PathId {
    const MIN: Self = Self(0);
}

/// Records of paths.
#[derive(Clone, Debug, Default)]
pub struct Paths {
    records: Table<PathId, Arc<PathRecord>>,
    chains: Relation<ChainId, PathId>,
    /// The former paths that others leave flows on.
    pinned: Counts<PathId>,
    /// Those that leave flows on others.
    pinning: OrdSet<PathId>,
    /// Those that lead into others, or that others lead into.
    linked: OrdSet<PathId>,
    superseded: OrdSet<PathId>,
    /// The chains of those that wait for news.
    waiting: Counts<ChainId>,
    taken: Numbers<(), PathId>,
    /// Who sends packets where that are on source routes.
    sends: Sends,
}

impl PartialEq for Paths {
    /// The rest follows from the records.
    fn eq(&self, other: &Self) -> bool {
        self.since(other).next().is_none()
    }
}

impl Eq for Paths {}

impl Paths {
    /// The record of a path.
    #[must_use]
    pub fn get(&self, id: &PathId) -> Option<&PathRecord> {
        self.records.get(id).map(AsRef::as_ref)
    }

    /// Is there a path with this identifier?
    #[must_use]
    pub fn contains_key(&self, id: &PathId) -> bool {
        self.records.contains_key(id)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Is there none?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// All, in the order of their identifiers.
    pub fn iter(&self) -> impl Iterator<Item = (&PathId, &PathRecord)> + Clone {
        self.records.iter().map(|(id, record)| (id, record.as_ref()))
    }

    /// The identifiers, in order.
    pub fn keys(&self) -> impl Iterator<Item = &PathId> {
        self.records.keys()
    }

    /// The records, in the order of their identifiers.
    pub fn values(&self) -> impl Iterator<Item = &PathRecord> + Clone {
        self.iter().map(|(_, record)| record)
    }

    /// The paths of a chain, in the order of their identifiers.
    pub fn of_chain(&self, chain: ChainId) -> impl Iterator<Item = (PathId, &PathRecord)> {
        self.chains.of(chain).filter_map(|id| Some((id, self.get(&id)?)))
    }

    /// Do flows stay on this path that its classifiers have turned away from?
    #[must_use]
    pub fn is_pinned(&self, id: PathId) -> bool {
        self.pinned.of(&id) > 0
    }

    /// The paths that leave flows on others, in order.
    pub(crate) fn pinning(&self) -> impl Iterator<Item = PathId> + '_ {
        self.pinning.iter().copied()
    }

    /// The paths that lead into others or that others lead into, in order.
    pub(crate) fn linked(&self) -> impl Iterator<Item = (PathId, &PathRecord)> + Clone {
        self.linked.iter().filter_map(|id| Some((*id, self.get(id)?)))
    }

    /// The paths that nothing is sent into any more, in order.
    pub(crate) fn superseded(&self) -> impl Iterator<Item = PathId> + '_ {
        self.superseded.iter().copied()
    }

    /// Who sends packets where that are on source routes.
    pub(crate) fn sends(&self) -> &Sends {
        &self.sends
    }

    /// The chains with a path that waits for news.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = ChainId> + '_ {
        self.waiting.iter().map(|(chain, _)| *chain)
    }

    /// The lowest identifier that is no path's, from this one on.
    pub(crate) fn free_from(&self, from: u32) -> Option<u32> {
        self.taken.lowest_free(&(), from.into()).and_then(|free| u32::try_from(free).ok())
    }

    /// What came or changed since others, and what went. Costs what differs.
    pub fn since<'p>(
        &'p self,
        former: &'p Self,
    ) -> impl Iterator<Item = (PathId, Option<&'p PathRecord>)> {
        let changed = differences(&former.records, &self.records);
        changed.map(|(id, _, record)| (*id, record.map(AsRef::as_ref)))
    }

    pub(crate) fn insert(&mut self, id: PathId, record: PathRecord) {
        self.remove(&id);
        self.refer(Edit::Add, id, &record);
        self.records.insert(id, Arc::new(record));
    }

    pub(crate) fn remove(&mut self, id: &PathId) {
        if let Some(former) = self.records.remove(id) {
            self.refer(Edit::Remove, *id, &former);
        }
    }

    /// All that a record is found by.
    fn refer(&mut self, edit: Edit, id: PathId, record: &PathRecord) {
        self.chains.edit(edit, record.chain, id);
        record.pins.iter().for_each(|pin| self.pinned.edit(edit, pin.old));
        for (set, is_member) in [
            (&mut self.pinning, !record.pins.is_empty()),
            (&mut self.linked, record.is_linked()),
            (&mut self.superseded, record.phase == PathPhase::Superseded),
        ] {
            if is_member {
                edit.apply(set, id);
            }
        }
        if record.is_waiting() {
            self.waiting.edit(edit, record.chain);
        }
        self.taken.edit(edit, &(), id.0.into(), id);
        self.sends.edit(edit, record);
    }

    /// Changes a path, if there is one with this identifier.
    pub(crate) fn update(&mut self, id: PathId, change: impl FnOnce(&mut PathRecord)) {
        if let Some(former) = self.get(&id) {
            let mut record = former.clone();
            change(&mut record);
            self.insert(id, record);
        }
    }
}

impl FromIterator<(PathId, PathRecord)> for Paths {
    fn from_iter<I: IntoIterator<Item = (PathId, PathRecord)>>(records: I) -> Self {
        let mut paths = Self::default();
        records.into_iter().for_each(|(id, record)| paths.insert(id, record));
        paths
    }
}

impl PathRecord {
    /// Does it lead into others, or do others lead into it?
    pub(crate) fn is_linked(&self) -> bool {
        !self.leads_to.is_empty() || !self.entrances.is_empty()
    }

    /// May it go on though nothing is declared? Whoever is classified, and kept by nobody, stays.
    fn is_waiting(&self) -> bool {
        self.phase != PathPhase::Classified || !self.holders.is_empty() || !self.pins.is_empty()
    }
}

impl Index<&PathId> for Paths {
    type Output = PathRecord;

    fn index(&self, id: &PathId) -> &PathRecord {
        &self.records[id]
    }
}

/// Once they were written as a part of the ledger.
impl<'de> Deserialize<'de> for Paths {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let records: BTreeMap<PathId, PathRecord> = BTreeMap::deserialize(deserializer)?;
        Ok(records.into_iter().collect())
    }
}
