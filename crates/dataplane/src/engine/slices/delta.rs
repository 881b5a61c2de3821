//! Changes of slices: tables in force become the next, of which all is shared that the change does
//! not touch. Knows the order of a change; refuses to know where it comes from.

use super::{Place, SliceTable, Slices};
use crate::engine::compile::CompileError;
use crate::engine::encap::PathPosition;
use crate::engine::tables::{Descent, NetworkIndex, Tables};
use catena_model::entry::{Change, Edit};
use catena_model::limits::NODE_SLICES_MAX;
use catena_model::program::{RulePlace, SliceEntry, SlicePathEntry};
use catena_model::slice::SlicePlace;
use catena_model::{BlueprintNumber, NodeProgram, PathId, SliceId};
use std::collections::BTreeSet;
use std::sync::OnceLock;

impl Tables {
    /// The tables after edits of slices and of their paths, of which none speaks of an entry of another
    /// kind; these stay as they are. It costs in proportion to the edits, not to the tables. Slices put
    /// in by hand are not in it.
    ///
    /// # Errors
    /// When an edit contradicts these tables, or another edit.
    pub fn with_slices(
        &self,
        number: BlueprintNumber,
        changes: &[Change],
    ) -> Result<Tables, CompileError> {
        let mut next = self.clone();
        next.number = number;
        next.slice_order = OnceLock::new();
        next.withdraw_injected();
        let changed = next.change(changes)?;
        next.check_slices()?;
        next.share_ports(Some(self));
        next.descent = Descent::of(&self.descent, changed);
        Ok(next)
    }

    /// Makes the edits: first the slices go, last they come, so that none is ever without its path.
    /// Answers the paths that came, went or changed, by index.
    fn change(&mut self, changes: &[Change]) -> Result<Vec<u32>, CompileError> {
        let slices = changes.iter().filter_map(|change| match change {
            Change::Slice(id, edit) => Some((*id, edit)),
            _ => None,
        });
        let paths = changes.iter().filter_map(|change| match change {
            Change::SlicePath(id, edit) => Some((*id, edit)),
            _ => None,
        });
        for (id, _) in slices.clone().filter(|(_, edit)| !matches!(edit, Edit::Add(_))) {
            if !self.remove_slice(id) {
                return Err(CompileError::Missing { what: "slice", id: id.to_string() });
            }
        }
        let mut changed = Vec::new();
        for (id, edit) in paths.clone().filter(|(_, edit)| !matches!(edit, Edit::Add(_))) {
            let former = self.destination_of(id);
            let Some(index) = self.remove_path(id) else {
                return Err(CompileError::Missing { what: "path", id: id.to_string() });
            };
            changed.push(index);
            // Slices that stay are kept by the network in which their path delivers.
            let is_like = edit.entry().is_some_and(|path| self.destination_of(path.like) == former);
            if !is_like && self.slices.uses.get(&id).is_some() {
                return Err(CompileError::SlicePathInUse { path: id });
            }
        }
        for path in paths.filter_map(|(_, edit)| edit.entry()) {
            changed.push(self.positions.add_slice_path(path)?);
            self.slices.insert_path(path);
        }
        for slice in slices.filter_map(|(_, edit)| edit.entry()) {
            self.insert_slice(slice)?;
        }
        Ok(changed)
    }

    /// Puts slices in by hand, instead of those that were, before the tables come into force.
    /// Answers those that are in: packets may enter only a path that a rule of the program sends
    /// into, because all others are counted as paths that nothing enters any more.
    pub fn inject(&mut self, entries: Vec<SliceEntry>) -> Vec<SliceEntry> {
        self.withdraw_injected();
        let rules = self.program.rules.iter();
        let entered: BTreeSet<PathId> = rules
            .filter(|rule| !matches!(rule.matches.place, RulePlace::After(_)))
            .map(|rule| rule.path)
            .collect();
        let mut are_in = entries;
        are_in.retain(|entry| {
            let is_taken = self.slices.of_id(entry.id).is_some() || self.check_slices().is_err();
            let begins = match entry.matches.place {
                SlicePlace::After(chain) => self.chain_ends.contains_key(&chain),
                SlicePlace::Endpoints | SlicePlace::Port(_) => true,
            };
            let is_entered = entered.contains(&entry.path) && begins;
            is_entered && !is_taken && self.insert_slice(entry).is_ok()
        });
        self.slices.injected = are_in.iter().map(|entry| (entry.id, entry.path)).collect();
        are_in.iter().for_each(|entry| self.slices.count_like(entry.path, |likes| likes + 1));
        self.share_ports(None);
        are_in
    }

    fn withdraw_injected(&mut self) {
        for (id, path) in std::mem::take(&mut self.slices.injected) {
            self.remove_slice(id);
            self.slices.count_like(path, |likes| likes.saturating_sub(1));
        }
    }

    /// Fills the tables with the slices of their program; the paths have their positions.
    pub(in crate::engine) fn fill_slices(
        &mut self,
        program: &NodeProgram,
    ) -> Result<(), CompileError> {
        for entry in &program.slice_paths {
            self.slices.insert_path(entry);
        }
        for entry in &program.slices {
            self.insert_slice(entry)?;
        }
        self.share_ports(None);
        self.check_slices()
    }

    fn check_slices(&self) -> Result<(), CompileError> {
        let (have, max) = (self.slices.len(), NODE_SLICES_MAX);
        if have > max {
            return Err(CompileError::TooMany { what: "slices", have, max });
        }
        Ok(())
    }

    /// Takes the path of a slice out, and answers the index that it had.
    fn remove_path(&mut self, id: PathId) -> Option<u32> {
        self.slices.take_path(id);
        self.positions.remove_slice_path(id)
    }

    /// Finds the ports out of which users come on paths with the hops of several; not again where
    /// slices share the same hops as in the tables before.
    fn share_ports(&mut self, former: Option<&Tables>) {
        let is_same = |path: &PathId| {
            former.is_some_and(|former| former.takes_users_by(*path) == self.takes_users_by(*path))
        };
        let mut bare = self.ports.iter().flat_map(|port| &port.bare);
        if bare.all(is_same) {
            return;
        }
        let is_shared = |bare: &[PathId]| {
            bare.iter().filter(|path| self.takes_users_by(**path)).nth(1).is_some()
        };
        let shared = self.ports.iter().map(|port| is_shared(&port.bare)).collect();
        self.slices.shared_ports = shared;
    }

    /// Do users who may be on other paths later, or were before, pass the hops of this path?
    fn takes_users_by(&self, path: PathId) -> bool {
        let start = self.positions.start(path);
        self.slices.likes.get(&path).is_some()
            || start.is_some_and(|start| self.slices.take_from(self.end_of(start).as_slice()))
    }

    /// Where slices take packets at the end of a path, if any takes anything.
    #[inline]
    pub(in crate::engine) fn end_of(&self, ended: PathPosition) -> Option<Place> {
        if self.slices.is_empty() {
            return None;
        }
        self.path(self.positions.place(ended).path).chain_end.map(Place::after)
    }

    /// The network in which a path delivers, if it is here and so is the network.
    fn destination_of(&self, path: PathId) -> Option<NetworkIndex> {
        self.path(self.positions.place(self.positions.start(path)?).path).destination
    }

    /// Takes a slice out; false: there is none.
    fn remove_slice(&mut self, id: SliceId) -> bool {
        let Some(slice) = self.slices.remove(id) else { return false };
        self.slices.count_use(slice.path, |uses| uses.saturating_sub(1));
        true
    }

    fn insert_slice(&mut self, entry: &SliceEntry) -> Result<(), CompileError> {
        let (slice, path) = (entry.id, entry.path);
        if self.slices.of_id(slice).is_some() {
            return Err(CompileError::Twice { what: "slice", id: slice.to_string() });
        }
        let start = self.positions.start(path);
        start.ok_or(CompileError::SliceWithoutPath { slice, path })?;
        let place = match entry.matches.place {
            SlicePlace::Endpoints => self.destination_of(path).map(Place::network),
            SlicePlace::Port(port) => self.port_indexes.get(&port).map(|port| Place::port(*port)),
            SlicePlace::After(chain) => self.chain_ends.get(&chain).map(|end| Place::after(*end)),
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
    pub(in crate::engine) fn has_slices(&self) -> bool {
        !self.slices.is_empty() || !self.slices.paths.is_empty()
    }

    /// Sorts the paths of slices by their slices, unless that is done: takes time in proportion to
    /// their number, so it is done before the worker asks.
    pub fn order_slices(&self) {
        let _ = self.slices_in_order();
    }

    pub(in crate::engine) fn slices_in_order(&self) -> &[(SliceId, PathId)] {
        self.slice_order.get_or_init(|| {
            let paths = self.slices.paths.values();
            let mut order: Vec<_> = paths.map(|path| (path.slice, path.id)).collect();
            order.sort_unstable();
            order.into()
        })
    }
}

impl Slices {
    fn insert_path(&mut self, entry: &SlicePathEntry) {
        self.take_path(entry.id);
        self.paths.insert(entry.id, *entry);
        self.count_like(entry.like, |likes| likes + 1);
    }

    fn take_path(&mut self, id: PathId) {
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
