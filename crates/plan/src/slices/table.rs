//! What one node knows of slices, and the changes that bring it from one state to another.

use crate::intent::Table;
use catena_model::id::SliceId;
use catena_model::limits::SLICE_DELTA_ENTRIES_MAX;
use catena_model::program::{SliceDelta, SliceEntry, SlicePathEntry};
use catena_model::{BlueprintNumber, NodeName, PathId};
use imbl::ordmap::DiffItem;
use std::sync::Arc;

/// One node's slices and their paths. A copy costs nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SliceTable {
    /// The blueprint that changed it last.
    pub number: BlueprintNumber,
    /// The slices that the node classifies.
    pub slices: Table<SliceId, Arc<SliceEntry>>,
    /// The paths of slices that it knows.
    pub paths: Table<PathId, SlicePathEntry>,
}

/// What comes and goes, part by part.
#[derive(Default)]
struct Parts {
    removed: Vec<SliceId>,
    removed_paths: Vec<PathId>,
    paths: Vec<SlicePathEntry>,
    slices: Vec<SliceEntry>,
}

impl SliceTable {
    /// Does the node know no slice?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slices.is_empty() && self.paths.is_empty()
    }

    /// Is it the same but for its number? Costs nothing where nothing has changed.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.slices.diff(&other.slices).next().is_none()
            && self.paths.diff(&other.paths).next().is_none()
    }

    /// The changes that make this of `base`, in order: one if it fits one, else first what goes and
    /// the paths that come, then slices, then paths that no slice uses any more. Costs what differs.
    ///
    /// All but the last make program `from` of itself, the last makes `to`. There is at least one.
    #[must_use]
    pub fn deltas(
        &self,
        base: &Self,
        node: &NodeName,
        from: BlueprintNumber,
        to: BlueprintNumber,
    ) -> Vec<SliceDelta> {
        let empty = || SliceDelta {
            node: node.clone(),
            base: from,
            number: from,
            removed: Vec::new(),
            removed_paths: Vec::new(),
            paths: Vec::new(),
            slices: Vec::new(),
        };
        let Parts { removed, removed_paths, paths, slices } = self.parts(base);
        let entries = removed.len() + removed_paths.len() + paths.len() + slices.len();
        // A path may go only when no slice is sent into it any more.
        let is_one = slices.is_empty() || removed_paths.is_empty();
        if is_one && entries <= SLICE_DELTA_ENTRIES_MAX {
            return vec![SliceDelta {
                number: to,
                removed,
                removed_paths,
                paths,
                slices,
                ..empty()
            }];
        }
        let mut deltas = Vec::new();
        for removed in removed.chunks(SLICE_DELTA_ENTRIES_MAX) {
            deltas.push(SliceDelta { removed: removed.to_vec(), ..empty() });
        }
        for paths in paths.chunks(SLICE_DELTA_ENTRIES_MAX) {
            deltas.push(SliceDelta { paths: paths.to_vec(), ..empty() });
        }
        for slices in slices.chunks(SLICE_DELTA_ENTRIES_MAX) {
            deltas.push(SliceDelta { slices: slices.to_vec(), ..empty() });
        }
        for removed in removed_paths.chunks(SLICE_DELTA_ENTRIES_MAX) {
            deltas.push(SliceDelta { removed_paths: removed.to_vec(), ..empty() });
        }
        if let Some(last) = deltas.last_mut() {
            last.number = to;
        }
        deltas
    }

    fn parts(&self, base: &Self) -> Parts {
        let mut parts = Parts::default();
        for item in base.slices.diff(&self.slices) {
            match item {
                DiffItem::Add(_, entry) | DiffItem::Update { new: (_, entry), .. } => {
                    parts.slices.push(SliceEntry::clone(entry));
                }
                DiffItem::Remove(id, _) => parts.removed.push(*id),
            }
        }
        for item in base.paths.diff(&self.paths) {
            match item {
                DiffItem::Add(_, entry) | DiffItem::Update { new: (_, entry), .. } => {
                    parts.paths.push(*entry);
                }
                DiffItem::Remove(id, _) => parts.removed_paths.push(*id),
            }
        }
        parts
    }
}
