//! What a planner must remember of slices over a restart, as what each step changed: it costs what
//! the step does. How a slice looks is not remembered, because it is declared.

use super::book::{SliceBook, SlicePath, SlicePhase};
use catena_model::id::{ChainId, SliceId};
use catena_model::{BlueprintNumber, NodeName, PathId};
use imbl::ordmap::DiffItem;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Paths that one record tells at most.
const RECORD_PATHS_MAX: usize = 16_384;

/// Paths of slices that share everything but who they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Group {
    chain: ChainId,
    like: PathId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    at: Option<NodeName>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    carries_metadata: bool,
    phase: SlicePhase,
    since: BlueprintNumber,
    paths: Vec<(PathId, SliceId)>,
}

/// What one step changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SliceJournal {
    /// The blueprint that it led to.
    pub number: BlueprintNumber,
    removed: Vec<PathId>,
    groups: Vec<Group>,
}

impl SliceJournal {
    /// How many paths it tells of.
    #[must_use]
    pub fn len(&self) -> usize {
        self.removed.len() + self.groups.iter().map(|group| group.paths.len()).sum::<usize>()
    }

    /// Does it tell nothing?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The same as several records, each of bounded size.
    #[must_use]
    pub fn split(self) -> Vec<Self> {
        let Self { number, removed, groups } = self;
        let empty = || Self { number, ..Self::default() };
        let mut records = Vec::new();
        for removed in removed.chunks(RECORD_PATHS_MAX) {
            records.push(Self { removed: removed.to_vec(), ..empty() });
        }
        for group in groups {
            for paths in group.paths.chunks(RECORD_PATHS_MAX) {
                let group = Group { paths: paths.to_vec(), ..group.clone() };
                let has_room = |last: &&mut Self| last.len() + paths.len() <= RECORD_PATHS_MAX;
                match records.last_mut().filter(has_room) {
                    Some(last) => last.groups.push(group),
                    None => records.push(Self { groups: vec![group], ..empty() }),
                }
            }
        }
        records
    }
}

impl SliceBook {
    /// What changed since a former book.
    #[must_use]
    pub fn journal_since(&self, former: &Self, number: BlueprintNumber) -> SliceJournal {
        let mut journal = SliceJournal { number, ..SliceJournal::default() };
        let mut groups: BTreeMap<_, Vec<(PathId, SliceId)>> = BTreeMap::new();
        for item in former.paths.diff(&self.paths) {
            match item {
                DiffItem::Remove(id, _) => journal.removed.push(*id),
                DiffItem::Add(id, path) | DiffItem::Update { new: (id, path), .. } => {
                    let SlicePath { slice, chain, like, at, carries_metadata, phase, since } = path;
                    let key = (*chain, *like, at.clone(), *carries_metadata, *phase, *since);
                    groups.entry(key).or_default().push((*id, *slice));
                }
            }
        }
        let group = |((chain, like, at, carries_metadata, phase, since), paths)| Group {
            chain,
            like,
            at,
            carries_metadata,
            phase,
            since,
            paths,
        };
        journal.groups = groups.into_iter().map(group).collect();
        journal
    }

    /// Everything, as one change of nothing.
    #[must_use]
    pub fn journal(&self, number: BlueprintNumber) -> SliceJournal {
        self.journal_since(&Self::default(), number)
    }

    /// Goes on from what was written down, oldest first.
    #[must_use]
    pub fn resume(journals: impl IntoIterator<Item = SliceJournal>) -> Self {
        let mut book = Self::default();
        for SliceJournal { number, removed, groups } in journals {
            for id in removed {
                book.release(id, number);
                // Its record may be gone already, with all that came before a whole journal.
                book.rest(id, number);
            }
            for Group { chain, like, at, carries_metadata, phase, since, paths } in groups {
                for (id, slice) in paths {
                    let at = at.clone();
                    book.put(
                        id,
                        SlicePath { slice, chain, like, at, carries_metadata, phase, since },
                    );
                }
            }
        }
        book
    }
}
