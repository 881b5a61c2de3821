//! What slices say to the index: whose chain they are of, where they begin, what they take.

use super::Index;
use super::resource::{Resource, of_table};
use crate::counts::Edit;
use crate::intent::{Intent, Table};
use catena_model::ProjectId;
use catena_model::id::{ChainId, PortId, SliceId};
use catena_model::slice::{Slice, SliceFields, SlicePlace};

/// What two slices may not share: what their packets look like, where they are taken. Slices that
/// begin at any port share it with those of their own project alone.
pub(crate) type SliceKey = (SlicePlace, Option<ProjectId>, SliceFields);

/// The key of a slice.
pub(crate) fn key(slice: &Slice) -> SliceKey {
    let place = slice.place();
    let project = (place == SlicePlace::Endpoints).then(|| slice.label.project.clone());
    (place, project, (slice.tunnel_id, slice.teids, slice.qfi))
}

impl Resource for Slice {
    of_table!(SliceId slices);

    fn means(&self, newer: &Self) -> bool {
        Self { label: newer.label.clone(), ..self.clone() } == *newer
            && self.label.project == newer.label.project
    }

    fn edit(&self, edit: Edit, _: &Intent, index: &mut Index) {
        index.chain_slices.edit(edit, self.chain, self.id);
        index.slice_matches.edit(edit, key(self), self.id);
        if let Some(port) = self.source_port {
            index.port_slices.edit(edit, port, self.id);
        }
        if let Some(before) = self.after {
            index.followers.edit(edit, before, self.id);
            index.slice_links.edit(edit, (before, self.chain));
        }
        if edit == Edit::Add {
            index.unchecked.slices.insert(self.id);
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

    /// The slices at the end of a chain.
    pub fn slices_after_chain(&self, chain: ChainId) -> impl Iterator<Item = SliceId> + '_ {
        self.followers.of(chain)
    }

    /// Do slices go on from the one chain in the other?
    pub(crate) fn has_slice_link(&self, before: ChainId, chain: ChainId) -> bool {
        self.slice_links.of(&(before, chain)) > 0
    }

    /// The chains that slices go on from, each with one that they go on in; but for one slice.
    pub(crate) fn slice_links(
        &self,
        without: Option<&Slice>,
    ) -> impl Iterator<Item = (ChainId, ChainId)> + '_ {
        let without = without.and_then(|slice| Some((slice.after?, slice.chain)));
        let links = self.slice_links.iter();
        let others = links.filter(move |(link, count)| *count > 1 || Some(**link) != without);
        others.map(|(link, _)| *link)
    }

    /// Another slice that takes the same packets at the same place.
    #[must_use]
    pub fn rival_of_slice(&self, slice: &Slice) -> Option<SliceId> {
        let mut same = self.slice_matches.of(key(slice));
        same.find(|id| *id != slice.id)
    }
}
