//! All positions of the tables: which path an identifier names, whose hops it has and where on it a
//! header says that its packet is. Knows identifiers and indexes; refuses to know what is at a hop.
//!
//! A path of the program has a shape of its own: its hops, encapsulation and network. A path of a
//! slice has the shape of another path, and its own identifier and counters: a hundred thousand slices
//! of two chains are as many small entries and two lists of hops. A header's identifier is an index
//! into the entries, so one step leads from (SPI, SI) to hop and counters, however many paths there are.

use super::{PathPosition, TTL_INITIAL};
use crate::engine::collections::pages::Pages;
use crate::engine::collections::sharing::Numbers;
use crate::engine::error::CompileError;
use catena_io::prefetch;
use catena_model::limits::NODE_SLICES_MAX;
use catena_model::program::{SegmentPlace, SlicePathEntry};
use catena_model::resource::Encapsulation;
use catena_model::telemetry::DeviceId;
use catena_model::{DropReason, PathId};
use catena_wire::scalar::Vni;
use catena_wire::source_route::native::TagKey;

/// Which hop of which path a position stands for; behind the last hop: the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HopRef {
    /// Index of the path in the tables that has its hops: another's, for the path of a slice.
    pub(crate) path: u32,
    /// Index of the hop; the number of hops: the end of the path.
    pub(crate) hop: u16,
}

/// What all paths of one shape have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) encapsulation: Encapsulation,
    pub(crate) hops: u16,
    /// Of the network in which they deliver; none: it is not here.
    pub(crate) vni: Option<Vni>,
}

/// What an identifier leads to: one step from header to hop, hence all of it in one place.
#[derive(Clone, Copy, Debug)]
#[repr(align(16))]
struct Entry {
    /// Index of the path's own counters; [`NOBODY`]: no path has the identifier.
    own: u32,
    /// Index of the path whose hops it has.
    shape: u32,
    hops: u16,
    encapsulation: Encapsulation,
    /// Its packets carry whose they are.
    tells_users: bool,
}

const NOBODY: u32 = u32::MAX;

impl Default for Entry {
    fn default() -> Self {
        Self {
            own: NOBODY,
            shape: 0,
            hops: 0,
            encapsulation: Encapsulation::default(),
            tells_users: false,
        }
    }
}

/// What a position's header says.
pub(super) struct HeaderFields {
    pub(super) id: PathId,
    pub(super) hop: u16,
    pub(super) vni: Option<Vni>,
}

/// All positions of the tables. A copy shares what it has in common, and a change of one path costs
/// the pages that it is on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Positions {
    /// By index, of the paths of the program.
    shapes: Pages<Shape>,
    by_id: Pages<Entry>,
    /// The identifier of each path, by index; 0, which no path has: nobody.
    ids: Pages<u32>,
    indexes: Numbers,
    slices: usize,
    tag_key: OwnTagKey,
    segments: Option<SegmentPlace>,
    device: Option<DeviceId>,
}

/// By what headers with a tag are sealed. Without a key of the domain all nodes have the same, and keep nobody out.
#[derive(Clone, Copy, Debug)]
struct OwnTagKey(TagKey);

impl Default for OwnTagKey {
    fn default() -> Self {
        Self(TagKey::of_domain(&[0; 16]))
    }
}

impl Positions {
    /// The node's domain has this key, or none.
    pub(crate) fn seal_by(&mut self, domain: Option<&[u8; 16]>) {
        self.tag_key =
            domain.map_or_else(OwnTagKey::default, |key| OwnTagKey(TagKey::of_domain(key)));
    }

    /// The node has this place in the IPv6 underlay, and this number in telemetry, or none.
    pub(crate) fn stand_at(&mut self, segments: Option<SegmentPlace>, device: Option<DeviceId>) {
        (self.segments, self.device) = (segments, device);
    }

    /// The node's number in telemetry, if it has one.
    pub(crate) fn own_device(&self) -> Option<DeviceId> {
        self.device
    }

    /// The node's place in the IPv6 underlay, if it has one.
    pub(crate) fn own_segments(&self) -> Option<SegmentPlace> {
        self.segments
    }

    /// By what headers with a tag are sealed.
    pub(crate) fn tag_key(&self) -> &TagKey {
        &self.tag_key.0
    }

    /// Gives an identifier to a new path of the program, and answers the path's index.
    ///
    /// # Errors
    /// When the identifier is taken.
    pub(crate) fn add_path(&mut self, id: PathId, shape: Shape) -> Result<u32, CompileError> {
        let own = self.open(id)?;
        *self.shapes.entry(own) = shape;
        self.show(id, own, own, false);
        Ok(own)
    }

    /// Lets a path of the program have another shape. `likes`: the paths of slices that have its hops.
    pub(crate) fn reshape(
        &mut self,
        id: PathId,
        shape: Shape,
        likes: impl FnOnce() -> Vec<PathId>,
    ) {
        let Some(own) = self.index_of(id) else { return };
        if self.shapes.get(own) == Some(&shape) {
            return;
        }
        *self.shapes.entry(own) = shape;
        for path in std::iter::once(id).chain(likes()) {
            let Some(Entry { own, shape, tells_users, .. }) = self.known(path).copied() else {
                continue;
            };
            self.show(path, own, shape, tells_users);
        }
    }

    /// Takes a path of the program away; its index may be another's then.
    pub(crate) fn remove_path(&mut self, id: PathId) {
        if let Some(own) = self.index_of(id) {
            *self.shapes.entry(own) = Shape::default();
            self.close(id, own);
        }
    }

    /// The encapsulation of the path that a position is on.
    #[inline]
    pub(crate) fn encapsulation(&self, position: PathPosition) -> Encapsulation {
        self.shapes.get(position.shape).copied().unwrap_or_default().encapsulation
    }

    /// The index of a path of the program.
    pub(crate) fn index_of(&self, id: PathId) -> Option<u32> {
        self.known(id).filter(|entry| entry.own == entry.shape).map(|entry| entry.own)
    }

    /// An index for an identifier that is free.
    fn open(&mut self, id: PathId) -> Result<u32, CompileError> {
        if self.known(id).is_some() {
            return Err(CompileError::Twice { what: "path", id: id.to_string() });
        }
        let own = self.indexes.take();
        *self.ids.entry(own) = id.0;
        Ok(own)
    }

    fn show(&mut self, id: PathId, own: u32, shape: u32, tells_users: bool) {
        let Shape { encapsulation, hops, .. } = self.shape(shape);
        *self.by_id.entry(id.0) = Entry { own, shape, hops, encapsulation, tells_users };
    }

    fn close(&mut self, id: PathId, own: u32) {
        *self.by_id.entry(id.0) = Entry::default();
        *self.ids.entry(own) = 0;
        self.indexes.give_back(own);
    }

    #[inline]
    fn shape(&self, shape: u32) -> Shape {
        self.shapes.get(shape).copied().unwrap_or_default()
    }

    /// Adds the path of a slice, and answers its index.
    ///
    /// # Errors
    /// When there are too many, the identifier is taken or outside its pool, or the path that it
    /// shall be like is not one of the program.
    pub(crate) fn add_slice_path(&mut self, entry: &SlicePathEntry) -> Result<u32, CompileError> {
        if self.slices == NODE_SLICES_MAX {
            let (what, max) = ("paths of slices", NODE_SLICES_MAX);
            return Err(CompileError::TooMany { what, have: max + 1, max });
        }
        let shape = self.index_of(entry.like);
        let shape =
            shape.ok_or(CompileError::SliceWithoutPath { slice: entry.slice, path: entry.like })?;
        let encapsulation = self.shape(shape).encapsulation;
        if !encapsulation.identifiers().contains(&entry.id.0) {
            return Err(CompileError::PathIdentifier { path: entry.id, encapsulation });
        }
        let own = self.open(entry.id)?;
        self.show(entry.id, own, shape, entry.carries_metadata);
        self.slices += 1;
        Ok(own)
    }

    /// Takes the path of a slice away, and answers the index that it had; none: no slice has it.
    pub(crate) fn remove_slice_path(&mut self, id: PathId) -> Option<u32> {
        let Entry { own, .. } = *self.known(id).filter(|entry| entry.own != entry.shape)?;
        self.close(id, own);
        self.slices -= 1;
        Some(own)
    }

    /// Asks for what an identifier leads to, before it is needed.
    #[inline]
    pub(crate) fn prefetch(&self, id: u32) {
        if let Some(entry) = self.by_id.get(id) {
            prefetch(entry);
        }
    }

    #[inline]
    fn known(&self, id: PathId) -> Option<&Entry> {
        self.by_id.get(id.0).filter(|entry| entry.own != NOBODY)
    }

    /// Paths are numbered below, those of the program and of slices alike, with gaps.
    pub(crate) fn end(&self) -> u32 {
        self.indexes.end()
    }

    /// The identifier of the path with this index; none: there is none.
    pub(crate) fn id_of(&self, own: u32) -> Option<PathId> {
        self.ids.get(own).filter(|id| **id != 0).map(|id| PathId(*id))
    }

    /// The index of the path whose hops the path with this index has.
    pub(crate) fn shape_of(&self, own: u32) -> Option<u32> {
        self.known(self.id_of(own)?).map(|entry| entry.shape)
    }

    /// The identifier of the path that a position is on.
    #[inline]
    pub(crate) fn id(&self, position: PathPosition) -> PathId {
        PathId(self.ids.get(position.own).copied().unwrap_or_default())
    }

    /// Do the packets of a path carry whose they are?
    pub(crate) fn tells_users(&self, path: PathId) -> bool {
        self.known(path).is_some_and(|entry| entry.tells_users)
    }

    /// The start of a path, with a fresh time to live.
    pub(crate) fn start(&self, path: PathId) -> Option<PathPosition> {
        let Entry { own, shape, .. } = *self.known(path)?;
        Some(PathPosition { own, shape, hop: 0, ttl: TTL_INITIAL, carried: None })
    }

    /// The start of a path whose packets do not carry whose they are.
    #[inline]
    pub(crate) fn start_bare(&self, path: PathId) -> Option<PathPosition> {
        let entry = self.known(path).filter(|entry| !entry.tells_users)?;
        Some(self.entered(entry.own, entry.shape))
    }

    /// The start of the path with this index and shape, with a fresh time to live.
    #[inline]
    pub(crate) fn entered(&self, own: u32, shape: u32) -> PathPosition {
        PathPosition { own, shape, hop: 0, ttl: TTL_INITIAL, carried: None }
    }

    /// The position behind one that was visited.
    #[inline]
    pub(crate) fn behind(&self, mut visited: PathPosition) -> PathPosition {
        self.step(&mut visited);
        visited
    }

    /// What a position stands for.
    #[inline]
    pub(crate) fn place(&self, position: PathPosition) -> HopRef {
        HopRef { path: position.shape, hop: position.hop }
    }

    /// A position that was visited under earlier tables, in these; none when the path, or that
    /// hop of it, has gone.
    pub(crate) fn renew(
        &self,
        visited: PathPosition,
        path: PathId,
        hop: u16,
    ) -> Option<PathPosition> {
        let Entry { own, shape, hops, .. } = *self.known(path)?;
        (hop < hops).then_some(PathPosition { own, shape, hop, ..visited })
    }

    /// The same under other tables than those that it was visited under: what was left of its source route is theirs.
    pub(crate) fn renew_later(
        &self,
        visited: PathPosition,
        path: PathId,
        hop: u16,
    ) -> Option<PathPosition> {
        self.renew(visited, path, hop).map(|position| self.without_rest(position))
    }

    /// The position without what is left of its packet's source route: whoever sends it on writes a header.
    pub(crate) fn without_rest(&self, position: PathPosition) -> PathPosition {
        match self.encapsulation(position).is_source_route() {
            true => position.without_metadata(),
            false => position,
        }
    }

    /// The position of a copy, whose original goes on with what is left of its source route, or takes records along.
    pub(crate) fn of_copy(&self, position: PathPosition) -> PathPosition {
        match position.records() {
            Some(_) => position.without_metadata(),
            None => self.without_rest(position),
        }
    }

    /// What the header of a position says.
    pub(super) fn spot(&self, position: PathPosition) -> HeaderFields {
        let vni = self.shape(position.shape).vni;
        HeaderFields { id: self.id(position), hop: position.hop, vni }
    }

    /// Turns a position into the one behind it.
    #[inline]
    pub(super) fn step(&self, position: &mut PathPosition) {
        let hops = self.shape(position.shape).hops;
        debug_assert!(position.hop < hops, "a function was visited behind the end of its path");
        if position.hop < hops {
            position.hop += 1;
        }
    }

    /// The position of a hop counted from the start of a path that a header names.
    #[inline]
    pub(crate) fn find(
        &self,
        path: PathId,
        encapsulation: Encapsulation,
        hop: u16,
        ttl: u8,
    ) -> Result<PathPosition, DropReason> {
        let entry = self.known(path).ok_or(DropReason::NoPath)?;
        if entry.encapsulation != encapsulation {
            return Err(DropReason::NoPath);
        }
        if hop > entry.hops {
            return Err(DropReason::IndexExhausted);
        }
        Ok(PathPosition { own: entry.own, shape: entry.shape, hop, ttl, carried: None })
    }

    /// Some position, for tests that only carry it.
    #[cfg(test)]
    pub(crate) fn for_tests() -> PathPosition {
        PathPosition { own: 0, shape: 0, hop: 0, ttl: TTL_INITIAL, carried: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use catena_model::id::SliceId;
    use std::collections::HashMap;
    use uuid::Uuid;

    /// Two paths of a program, 100 and 101.
    fn positions() -> Positions {
        let mut positions = Positions::default();
        for id in [100, 101] {
            positions.add_path(PathId(id), Shape::default()).unwrap();
        }
        positions
    }

    fn slice(id: u32, like: u32) -> SlicePathEntry {
        SlicePathEntry {
            id: PathId(id),
            slice: SliceId(Uuid::from_u128(id.into())),
            like: PathId(like),
            carries_metadata: tells(id, like),
        }
    }

    /// Some paths tell whose their packets are, and not each time that they come.
    fn tells(id: u32, like: u32) -> bool {
        (id ^ like).is_multiple_of(3)
    }

    #[test]
    fn positions_agree_with_a_map_through_any_order_of_changes() {
        let mut positions = positions();
        let mut reference: HashMap<u32, u32> = HashMap::from([(100, 0), (101, 1)]);
        let mut word = 1_u64;
        for _ in 0..20_000 {
            word = word
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let id = 100 + (word >> 40) as u32 % 9_000;
            let like = 100 + (word >> 33) as u32 % 2;
            if word >> 62 == 0 {
                let is_slice = id > 101 && reference.contains_key(&id);
                assert_eq!(positions.remove_slice_path(PathId(id)).is_some(), is_slice);
                if is_slice {
                    reference.remove(&id);
                }
            } else {
                let is_added = positions.add_slice_path(&slice(id, like)).is_ok();
                assert_eq!(is_added, !reference.contains_key(&id));
                if is_added {
                    reference.insert(id, like - 100);
                }
            }
        }
        for id in 0..12_000 {
            let found = positions.start(PathId(id));
            let shape = found.map(|position| positions.place(position).path);
            assert_eq!(shape, reference.get(&id).copied());
            assert_eq!(found.map(|position| positions.id(position)), shape.map(|_| PathId(id)));
            let tells = shape.is_some_and(|shape| id > 101 && tells(id, shape + 100));
            assert_eq!(positions.tells_users(PathId(id)), tells);
            assert_eq!(positions.start_bare(PathId(id)), found.filter(|_| !tells));
        }
    }

    #[test]
    fn a_slice_is_like_no_other_slice_and_like_no_path_that_is_not_there() {
        let mut positions = positions();
        positions.add_slice_path(&slice(200, 100)).unwrap();
        assert!(positions.add_slice_path(&slice(201, 200)).is_err());
        assert!(positions.add_slice_path(&slice(201, 300)).is_err());
        assert!(positions.add_slice_path(&slice(200, 100)).is_err());
        assert_eq!(positions.remove_slice_path(PathId(100)), None);
    }
}
