//! Slices that come and go, and those put in by hand. Knows what a slice depends on; refuses to know where
//! a change comes from.

use super::{Scope, SliceTable, Slices};
use crate::engine::encap::PathPosition;
use crate::engine::error::CompileError;
use crate::engine::packet::index::NetworkIndex;
use crate::engine::tables::Tables;
use crate::engine::tables::descent::{Changed, Descent};
use catena_model::limits::NODE_SLICES_MAX;
use catena_model::program::{RulePlace, SliceEntry, SlicePathEntry};
use catena_model::slice::SlicePlace;
use catena_model::{PathId, SliceId};
use std::collections::BTreeSet;
use std::sync::OnceLock;

impl Tables {
    /// The same without slices that were put in by hand.
    #[must_use]
    pub fn without_injected(&self) -> Self {
        let mut next = self.clone();
        // What is put in next may take anything.
        let changed = Changed::entered_anew();
        next.descent = Descent::of(&self.descent, changed);
        next.slice_order = OnceLock::new();
        next.withdraw_injected();
        next
    }

    /// Puts slices in by hand, instead of those that were, before the tables come into force.
    /// Answers those that are in: packets may enter only a path that a rule of the program sends
    /// into, because all others are counted as paths that nothing enters any more.
    pub fn inject(&mut self, entries: Vec<SliceEntry>) -> Vec<SliceEntry> {
        self.withdraw_injected();
        let rules = self.entries.rules.values();
        let entered: BTreeSet<PathId> = rules
            .filter(|rule| !matches!(rule.matches.place, RulePlace::After(_)))
            .map(|rule| rule.path)
            .collect();
        let mut are_in = entries;
        are_in.retain(|entry| {
            let is_taken =
                self.slices.of_id(entry.id).is_some() || self.slices.len() >= NODE_SLICES_MAX;
            let begins = match entry.matches.place {
                SlicePlace::After(chain) => self.names.end(chain).is_some(),
                SlicePlace::Endpoints | SlicePlace::Port(_) => true,
            };
            let is_entered = entered.contains(&entry.path) && begins;
            is_entered && !is_taken && self.insert_slice(entry).is_ok()
        });
        self.slices.injected = are_in.iter().map(|entry| (entry.id, entry.path)).collect();
        are_in.iter().for_each(|entry| self.slices.count_like(entry.path, |likes| likes + 1));
        let paths: Vec<PathId> =
            are_in.iter().flat_map(|entry| self.passed(entry.path, entry.matches.place)).collect();
        self.retake(paths.into_iter());
        are_in
    }

    fn withdraw_injected(&mut self) {
        let mut paths = Vec::new();
        for (id, path) in std::mem::take(&mut self.slices.injected) {
            if let Some(slice) = self.remove_slice(id) {
                paths.extend(self.passed(path, slice.matches.place));
            }
            self.slices.count_like(path, |likes| likes.saturating_sub(1));
        }
        self.retake(paths.into_iter());
    }

    /// The paths whose users it may turn: that which it has the hops of, and those that it is behind.
    pub(crate) fn passed(&self, like: PathId, place: SlicePlace) -> Vec<PathId> {
        let before = match place {
            SlicePlace::After(chain) => self.names.forward(chain).collect(),
            SlicePlace::Endpoints | SlicePlace::Port(_) => Vec::new(),
        };
        before.into_iter().chain([like]).collect()
    }

    /// Do users who may be on other paths later, or were before, pass the hops of this path?
    pub(crate) fn takes_users_by(&self, path: PathId) -> bool {
        let start = self.positions.start(path);
        self.slices.likes.get(&path).is_some()
            || start.is_some_and(|start| self.slices.take_from(self.end_of(start).as_slice()))
    }

    /// Where slices take packets at the end of a path, if any takes anything.
    #[inline]
    pub(crate) fn end_of(&self, ended: PathPosition) -> Option<Scope> {
        if self.slices.is_empty() {
            return None;
        }
        self.path(self.positions.place(ended).path).chain_end.map(Scope::after)
    }

    /// The network in which a path delivers, if it is here and so is the network.
    pub(crate) fn destination_of(&self, path: PathId) -> Option<NetworkIndex> {
        self.path(self.positions.place(self.positions.start(path)?).path).destination
    }

    /// Takes a slice out, and answers it.
    pub(crate) fn remove_slice(&mut self, id: SliceId) -> Option<SliceTable> {
        let slice = self.slices.remove(id)?;
        self.slices.count_use(slice.path, |uses| uses.saturating_sub(1));
        Some(slice)
    }

    /// A slice, or the path of one, that speaks of this path.
    pub(crate) fn slice_like(&self, path: PathId) -> Option<SliceId> {
        if self.slices.likes.get(&path).is_none() && self.slices.uses.get(&path).is_none() {
            return None;
        }
        let mut likes = self.slices.paths.values().filter(|entry| entry.like == path);
        let mut uses = self.slices.all().filter(|slice| slice.path == path);
        likes.next().map(|entry| entry.slice).or_else(|| uses.next().map(|slice| slice.id))
    }

    pub(crate) fn insert_slice(&mut self, entry: &SliceEntry) -> Result<(), CompileError> {
        let (slice, path) = (entry.id, entry.path);
        if self.slices.of_id(slice).is_some() {
            return Err(CompileError::Twice { what: "slice", id: slice.to_string() });
        }
        let start = self.positions.start(path);
        start.ok_or(CompileError::SliceWithoutPath { slice, path })?;
        let place = match entry.matches.place {
            SlicePlace::Endpoints => self.destination_of(path).map(Scope::network),
            SlicePlace::Port(port) => self.names.port(port).map(Scope::port),
            SlicePlace::After(chain) => self.names.end(chain).map(Scope::after),
        };
        self.slices.count_use(path, |uses| uses + 1);
        self.slices.insert(SliceTable {
            path: entry.path,
            id: entry.id,
            policy: entry.policy,
            matches: entry.matches,
            place,
            name: entry.name.as_str().into(),
            is_injected: entry.is_injected,
        });
        Ok(())
    }

    /// Are slices on this node, or paths of them?
    pub(crate) fn has_slices(&self) -> bool {
        !self.slices.is_empty() || !self.slices.paths.is_empty()
    }

    /// Sorts the paths of slices by their slices, unless that is done: takes time in proportion to
    /// their number, so it is done before the worker asks.
    pub fn order_slices(&self) {
        let _ = self.slices_in_order();
    }

    pub(crate) fn slices_in_order(&self) -> &[(SliceId, PathId)] {
        self.slice_order.get_or_init(|| {
            let paths = self.slices.paths.values();
            let mut order: Vec<_> = paths.map(|path| (path.slice, path.id)).collect();
            order.sort_unstable();
            order.into()
        })
    }
}

impl Slices {
    pub(crate) fn insert_path(&mut self, entry: &SlicePathEntry) {
        self.paths.insert(entry.id, *entry);
        self.count_like(entry.like, |likes| likes + 1);
    }

    /// The paths that have the hops of this one.
    pub(crate) fn paths_like(&self, path: PathId) -> Vec<PathId> {
        if self.likes.get(&path).is_none() {
            return Vec::new();
        }
        self.paths.values().filter(|entry| entry.like == path).map(|entry| entry.id).collect()
    }

    /// Do slices speak of this path?
    pub(crate) fn speak_of(&self, path: PathId) -> bool {
        self.uses.get(&path).is_some()
    }

    pub(crate) fn take_path(&mut self, id: PathId) {
        let Some(SlicePathEntry { like, .. }) = self.paths.remove(&id) else { return };
        self.count_like(like, |likes| likes.saturating_sub(1));
    }

    fn count_like(&mut self, like: PathId, change: impl Fn(u32) -> u32) {
        match change(self.likes.get(&like).copied().unwrap_or(0)) {
            0 => self.likes.remove(&like),
            likes => self.likes.insert(like, likes),
        };
    }

    fn count_use(&mut self, path: PathId, change: impl Fn(u32) -> u32) {
        match change(self.uses.get(&path).copied().unwrap_or(0)) {
            0 => self.uses.remove(&path),
            uses => self.uses.insert(path, uses),
        };
    }
}
