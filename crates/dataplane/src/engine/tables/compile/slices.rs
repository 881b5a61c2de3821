//! Slices and their paths. They go before the paths of the program and come behind them, so that none is
//! ever without its path.

use super::{Following, edits};
use crate::engine::error::CompileError;
use catena_model::entry::Entries;
use catena_model::program::SliceEntry;
use catena_model::slice::SlicePlace;
use catena_model::{PathId, SliceId};
use std::collections::BTreeSet;

impl Following<'_> {
    pub(super) fn take_slices_out(&mut self) {
        let Entries { slices, slice_paths, .. } = &self.former.entries;
        for (id, old, _) in edits(slices, &self.entries.slices) {
            if old.is_some() {
                self.take_slice_out(id);
            }
        }
        for (id, old, _) in edits(slice_paths, &self.entries.slice_paths) {
            let Some(old) = old else { continue };
            self.turned.taken.insert(old.like);
            self.next.slices.take_path(id);
            self.changed.paths.extend(self.next.positions.remove_slice_path(id));
            self.turned.moved.insert(id);
        }
    }

    fn take_slice_out(&mut self, id: SliceId) {
        if let Some(slice) = self.next.remove_slice(id) {
            self.turned.taken.extend(self.next.passed(slice.path, slice.matches.place));
        }
    }

    pub(super) fn put_slices_in(&mut self) -> Result<(), CompileError> {
        let former = &self.former.entries;
        let paths = edits(&former.slice_paths, &self.entries.slice_paths);
        for path in paths.into_iter().filter_map(|(_, _, now)| now) {
            self.changed.paths.insert(self.next.positions.add_slice_path(path)?);
            self.next.slices.insert_path(path);
            self.turned.taken.insert(path.like);
        }
        let turned = self.turned_slices();
        for id in &turned {
            self.take_slice_out(*id);
        }
        let edited = edits(&former.slices, &self.entries.slices);
        let edited: Vec<SliceId> =
            edited.into_iter().filter(|(_, _, now)| now.is_some()).map(|(id, ..)| id).collect();
        for id in turned.iter().chain(&edited) {
            let Some(slice) = self.entries.slices.get(id) else { continue };
            self.put_slice_in(slice)?;
        }
        Ok(())
    }

    fn put_slice_in(&mut self, slice: &SliceEntry) -> Result<(), CompileError> {
        self.next.insert_slice(slice)?;
        self.turned.taken.extend(self.next.passed(slice.path, slice.matches.place));
        Ok(())
    }

    /// Slices that stay, and take packets from where something came or went, or whose path has: they are
    /// kept by the network in which it delivers. Rare enough to look through all of them then.
    fn turned_slices(&self) -> Vec<SliceId> {
        let slices = &self.next.slices;
        let ports = self.turned.slice_ports.iter().map(|port| SlicePlace::Port(*port));
        let chains = self.turned.chains.iter().map(|chain| SlicePlace::After(*chain));
        let places = ports.chain(chains).filter(|place| slices.name(*place));
        let places: BTreeSet<SlicePlace> = places.collect();
        let mut moved: BTreeSet<PathId> = BTreeSet::new();
        for path in &self.turned.moved {
            let likes = slices.paths_like(*path).into_iter();
            moved.extend(likes.chain([*path]).filter(|path| slices.speak_of(*path)));
        }
        if places.is_empty() && moved.is_empty() {
            return Vec::new();
        }
        let is_turned =
            |place: SlicePlace, path: PathId| places.contains(&place) || moved.contains(&path);
        let turned = slices.all().filter(|slice| is_turned(slice.matches.place, slice.path));
        turned.map(|slice| slice.id).collect()
    }
}
