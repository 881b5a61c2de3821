//! What a planner must remember of slices over a restart: a document for paths whose identifiers lie
//! beside one another, so that a change writes what it changes and thousands at once write few. How a
//! slice looks is not remembered, because it is declared.

use super::book::{SliceBook, SlicePath, SlicePhase};
use crate::intent::differences;
use catena_model::id::{ChainId, SliceId};
use catena_model::{BlueprintNumber, NodeName, PathId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Identifiers of one document.
const BLOCK_IDS: u32 = 64;

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

/// What there is of some identifiers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SliceBlock {
    /// The blueprint that changed it last.
    pub number: BlueprintNumber,
    groups: Vec<Group>,
    /// Those that were given back, and the first blueprint that may use them again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    resting: Vec<(PathId, BlueprintNumber)>,
    /// Those that were given back by this blueprint, as it was written up to commit 979b884: a
    /// document told then what one step had changed.
    #[serde(default, skip_serializing)]
    removed: Vec<PathId>,
}

impl SliceBlock {
    /// Is nothing in it that counts after this blueprint?
    #[must_use]
    pub fn is_over(&self, newest: BlueprintNumber) -> bool {
        let is_free = |(_, until): &(PathId, BlueprintNumber)| *until <= newest;
        self.groups.is_empty() && self.number < newest && self.resting.iter().all(is_free)
    }
}

impl SliceBook {
    /// The blocks that differ from those of a former book, by number.
    pub fn blocks_since(
        &self,
        former: &Self,
        number: BlueprintNumber,
    ) -> impl Iterator<Item = (u32, SliceBlock)> {
        let changed = differences(&former.paths, &self.paths).map(|(id, ..)| id);
        let rested = differences(&former.resting, &self.resting).map(|(id, ..)| id);
        let places: BTreeSet<u32> = changed.chain(rested).map(|id| id.0 / BLOCK_IDS).collect();
        places.into_iter().map(move |place| (place, self.block(place, number)))
    }

    fn block(&self, place: u32, number: BlueprintNumber) -> SliceBlock {
        let from = place.saturating_mul(BLOCK_IDS);
        let ids = PathId(from)..=PathId(from.saturating_add(BLOCK_IDS - 1));
        let mut groups: BTreeMap<_, Vec<(PathId, SliceId)>> = BTreeMap::new();
        for (id, path) in self.paths.range(ids.clone()) {
            let SlicePath { slice, chain, like, at, carries_metadata, phase, since } = path;
            let key = (*chain, *like, at.clone(), *carries_metadata, *phase, *since);
            groups.entry(key).or_default().push((*id, *slice));
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
        let resting = self.resting.range(ids).filter(|(_, until)| number < **until);
        SliceBlock {
            number,
            groups: groups.into_iter().map(group).collect(),
            resting: resting.map(|(id, until)| (*id, *until)).collect(),
            removed: Vec::new(),
        }
    }

    /// Goes on from what was written down: documents of steps, oldest first, or of identifiers.
    #[must_use]
    pub fn resume(blocks: impl IntoIterator<Item = SliceBlock>) -> Self {
        let mut book = Self::default();
        for SliceBlock { number, groups, resting, removed } in blocks {
            for id in removed {
                book.release(id, number);
                // Its document may be gone already, with all that came before a whole one.
                book.rest(id, number);
            }
            book.resting.extend(resting);
            for Group { chain, like, at, carries_metadata, phase, since, paths } in groups {
                for (id, slice) in paths {
                    let at = at.clone();
                    let path = SlicePath { slice, chain, like, at, carries_metadata, phase, since };
                    book.put(id, path);
                }
            }
        }
        book
    }
}
