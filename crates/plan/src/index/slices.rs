//! What slices say to the index: whose chain they are of, where they begin, what they take.

use super::Index;
use super::resource::{Resource, of_table};
use crate::intent::{Intent, Table};
use catena_model::ProjectId;
use catena_model::id::{ChainId, PortId, SliceId};
use catena_model::slice::{Slice, SliceFields};

/// What two slices may not share: what their packets look like, at the port that they enter by.
/// Slices that begin at any port share it with those of their own project alone.
pub(crate) type SliceKey = (Option<PortId>, Option<ProjectId>, SliceFields);

/// The key of a slice.
pub(crate) fn key(slice: &Slice) -> SliceKey {
    let project = slice.source_port.is_none().then(|| slice.label.project.clone());
    (slice.source_port, project, (slice.vni, slice.teids, slice.qfi))
}

impl Resource for Slice {
    of_table!(SliceId slices);

    fn means(&self, newer: &Self) -> bool {
        Self { label: newer.label.clone(), ..self.clone() } == *newer
            && self.label.project == newer.label.project
    }

    fn enter(&self, _: &Intent, index: &mut Index) {
        index.chain_slices.insert(self.chain, self.id);
        index.slice_places.insert((self.chain, self.source_port), self.id);
        index.slice_matches.insert(key(self), self.id);
        if let Some(port) = self.source_port {
            index.port_slices.insert(port, self.id);
        }
        index.unchecked.slices.insert(self.id);
    }

    fn leave(&self, _: &Intent, index: &mut Index) {
        index.chain_slices.remove(&self.chain, self.id);
        index.slice_places.remove(&(self.chain, self.source_port), self.id);
        index.slice_matches.remove(&key(self), self.id);
        if let Some(port) = self.source_port {
            index.port_slices.remove(&port, self.id);
        }
    }
}

impl Index {
    /// The slices of a chain.
    pub fn slices_of_chain(&self, chain: ChainId) -> impl Iterator<Item = SliceId> + '_ {
        self.chain_slices.of(chain)
    }

    /// The slices that begin at a port.
    pub fn slices_of_port(&self, port: PortId) -> impl Iterator<Item = SliceId> + '_ {
        self.port_slices.of(port)
    }

    /// Another slice that takes the same packets at the same place.
    #[must_use]
    pub fn rival_of_slice(&self, slice: &Slice) -> Option<SliceId> {
        let mut same = self.slice_matches.of(key(slice));
        same.find(|id| *id != slice.id)
    }
}
