//! The slices of the program in force, as they came: what a restart and a program that keeps them
//! need. Knows identities; refuses to know what a slice does.

use catena_model::id::SliceId;
use catena_model::limits::{NODE_SLICES_MAX, SLICE_DELTA_ENTRIES_MAX};
use catena_model::program::{SliceDelta, SliceEntry, SlicePathEntry};
use catena_model::{BlueprintNumber, NodeName, NodeProgram, PathId};
use std::collections::BTreeMap;

/// Slices and paths of slices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SliceBook {
    slices: BTreeMap<SliceId, SliceEntry>,
    paths: BTreeMap<PathId, SlicePathEntry>,
}

impl SliceBook {
    pub(super) fn is_empty(&self) -> bool {
        self.slices.is_empty() && self.paths.is_empty()
    }

    /// Makes a change: what goes first, then what comes.
    ///
    /// # Errors
    /// When there would be more than a node takes; the book is not to be used then.
    pub(super) fn change(&mut self, delta: &SliceDelta) -> Result<(), String> {
        for slice in &delta.removed {
            self.slices.remove(slice);
        }
        for path in &delta.removed_paths {
            self.paths.remove(path);
        }
        self.paths.extend(delta.paths.iter().map(|path| (path.id, *path)));
        self.slices.extend(delta.slices.iter().map(|slice| (slice.id, slice.clone())));
        let count = self.slices.len().max(self.paths.len());
        if count > NODE_SLICES_MAX {
            return Err(format!("there would be {count} slices, more than {NODE_SLICES_MAX}"));
        }
        Ok(())
    }

    /// Puts all of it into a program that has none.
    pub(super) fn fill(&self, program: &mut NodeProgram) {
        program.slices = self.slices.values().cloned().collect();
        program.slice_paths = self.paths.values().copied().collect();
    }

    /// The changes that make this of nothing, at least one: paths first.
    pub(super) fn deltas(&self, node: &NodeName, number: BlueprintNumber) -> Vec<SliceDelta> {
        let empty = || SliceDelta {
            node: node.clone(),
            base: number,
            number,
            removed: Vec::new(),
            removed_paths: Vec::new(),
            paths: Vec::new(),
            slices: Vec::new(),
        };
        let mut deltas = Vec::new();
        let mut paths = self.paths.values().copied().peekable();
        while paths.peek().is_some() {
            let paths = paths.by_ref().take(SLICE_DELTA_ENTRIES_MAX).collect();
            deltas.push(SliceDelta { paths, ..empty() });
        }
        let mut slices = self.slices.values().cloned().peekable();
        while slices.peek().is_some() {
            let slices = slices.by_ref().take(SLICE_DELTA_ENTRIES_MAX).collect();
            deltas.push(SliceDelta { slices, ..empty() });
        }
        if deltas.is_empty() {
            deltas.push(empty());
        }
        deltas
    }
}
