//! The counters of paths: what entered each, passed on, finished and ended on it. Knows indexes and
//! serials; refuses to know why a packet ended as it did.
//!
//! A packet in the middle of its path touches one line of the processor's cache here, whatever the
//! number of paths: what is rarely written stands apart. A path of a slice has no instances of its
//! own: what goes into those that it shares is counted on the path whose hops it has. There, in a
//! line that all slices of a chain keep warm, all else is counted as well, so that the counters of
//! a chain hold those of its slices, also of slices that have gone.

use super::counters::Drops;
use super::slots::Slots;
use super::times::{SojournTimes, Times};
use crate::engine::encap::PathPosition;
use crate::engine::tables::Tables;
use crate::engine::tables::descent::Changed;
use crate::engine::tables::path::{LocalInstance, PathTable};
use crate::engine::vector::owner::{Owner, PathRef};
use catena_io::{prefer_huge_pages, prefetch};
use catena_model::account::{ChainCounters, HopCounters, Volume};
use catena_model::id::{ChainId, InstanceId};
use catena_model::{CounterScope, DropReason, PathId};
use std::collections::{BTreeSet, HashMap};

/// The serial of an index without a path.
const NO_SERIAL: u64 = 0;

/// What packets in the middle of their path write.
#[derive(Clone, Default)]
#[repr(align(64))]
struct Tally {
    serial: u64,
    tunnelled_in: Volume,
    tunnelled_out: Volume,
    finished: Volume,
    /// Made by the first drop.
    dropped: Option<Box<Drops>>,
}

/// The rest.
#[derive(Clone)]
struct Side {
    chain: ChainId,
    id: PathId,
    /// The index of the path whose instances it has.
    template: u32,
    entered: Volume,
    tapped: Volume,
    hops: Vec<HopSums>,
}

#[derive(Clone)]
pub(crate) struct HopSums {
    hop: u16,
    member: u8,
    instance: InstanceId,
    name: String,
    pub(crate) delivered: Volume,
    pub(crate) returned: Volume,
    pub(crate) bypassed: Volume,
    pub(crate) rewritten: u64,
    pub(crate) ambiguous: u64,
    pub(crate) denied: u64,
    pub(crate) generated: u64,
    pub(crate) times: Times,
    pub(crate) sojourns: SojournTimes,
    /// The port towards it, where what it gives back is expected.
    ingress: Option<Owner>,
}

impl HopSums {
    fn new(local: &LocalInstance, slots: &Slots) -> Self {
        let ingress = local.ingress.filter(|_| !local.is_tap);
        Self {
            hop: local.hop,
            member: local.member,
            instance: local.id,
            name: local.name.clone(),
            delivered: Volume::default(),
            returned: Volume::default(),
            bypassed: Volume::default(),
            rewritten: 0,
            ambiguous: 0,
            denied: 0,
            generated: 0,
            times: Times::default(),
            sojourns: SojournTimes::default(),
            ingress: ingress.map(|port| slots.owner_of_index(port)),
        }
    }

    /// What was delivered and has not come back is lost when the instance goes. What it made of its own
    /// hides as many: nothing tells them apart.
    fn lost(&self) -> Option<(Owner, u64)> {
        let lost = self.delivered.packets.saturating_sub(self.returned.packets);
        self.ingress.filter(|_| lost > 0).map(|ingress| (ingress, lost))
    }

    fn export(&self, has_shares: bool, now_ns: u64) -> HopCounters {
        HopCounters {
            hop: self.hop,
            member: self.member,
            instance: self.instance,
            name: self.name.clone(),
            delivered: self.delivered,
            returned: self.returned,
            rewritten: self.rewritten,
            ambiguous: self.ambiguous,
            bypassed: self.bypassed,
            denied: self.denied,
            generated: self.generated,
            service_time: self.times.export(has_shares),
            sojourn_time: self.sojourns.export(has_shares, now_ns),
        }
    }
}

/// The sums of one path, for whoever reports them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PathSums {
    pub(crate) entered: Volume,
    pub(crate) finished: Volume,
    pub(crate) tapped: Volume,
    pub(crate) tunnelled_out: Volume,
    pub(crate) tunnelled_in: Volume,
    pub(crate) dropped: Drops,
}

/// The counters of all paths, by index.
#[derive(Default)]
pub(crate) struct PathCounters {
    tallies: Vec<Tally>,
    sides: Vec<Side>,
    last_serial: u64,
}

impl PathCounters {
    /// Lines the counters up with new tables: those of paths that stay keep their sums. Answers what
    /// instances that go have lost. `changed`: what differs from the tables before; none: nobody knows.
    pub(crate) fn align(
        &mut self,
        tables: &Tables,
        changed: Option<&Changed>,
        slots: &Slots,
    ) -> Vec<(Owner, u64)> {
        let mut lost = Vec::new();
        match changed {
            Some(changed) => {
                for own in &changed.paths {
                    self.align_one(*own, tables, slots, &mut lost);
                }
            }
            None => self.align_all(tables, slots, &mut lost),
        }
        lost
    }

    /// One path that came, went, or both, or has changed.
    fn align_one(
        &mut self,
        own: u32,
        tables: &Tables,
        slots: &Slots,
        lost: &mut Vec<(Owner, u64)>,
    ) {
        let positions = &tables.positions;
        let end = positions.end() as usize;
        if self.sides.len() < end {
            self.tallies.resize(end, Tally::default());
            self.sides.resize(end, Side::empty());
        }
        let shape = positions.id_of(own).zip(positions.shape_of(own));
        let named = shape.map(|(id, template)| (tables.path(template).chain, id));
        let (tally, side) = (&mut self.tallies[own as usize], &mut self.sides[own as usize]);
        if tally.serial == NO_SERIAL || named != Some((side.chain, side.id)) {
            side.align_hops(None, slots, lost);
            (*tally, *side) = (Tally::default(), Side::empty());
            if let Some((chain, id)) = named {
                self.last_serial += 1;
                tally.serial = self.last_serial;
                (side.chain, side.id) = (chain, id);
            }
        }
        if let Some((_, template)) = shape {
            side.template = template;
            side.align_hops((own == template).then(|| tables.path(template)), slots, lost);
        }
    }

    fn align_all(&mut self, tables: &Tables, slots: &Slots, lost: &mut Vec<(Owner, u64)>) {
        let sides = std::mem::take(&mut self.sides);
        let tallies = std::mem::take(&mut self.tallies);
        let old = sides.into_iter().zip(tallies).filter(|(_, tally)| tally.serial != NO_SERIAL);
        let mut old: HashMap<(ChainId, PathId), (Side, Tally)> =
            old.map(|(side, tally)| ((side.chain, side.id), (side, tally))).collect();
        let positions = &tables.positions;
        self.tallies.reserve_exact(positions.end() as usize);
        prefer_huge_pages(self.tallies.spare_capacity_mut());
        for own in 0..positions.end() {
            let found = positions.id_of(own).zip(positions.shape_of(own));
            let Some((id, template)) = found else {
                self.push(Side::empty(), Tally::default());
                continue;
            };
            let path = tables.path(template);
            let (mut side, tally) = old.remove(&(path.chain, id)).unwrap_or_else(|| {
                self.last_serial += 1;
                let tally = Tally { serial: self.last_serial, ..Tally::default() };
                (Side { chain: path.chain, id, ..Side::empty() }, tally)
            });
            side.template = template;
            side.align_hops((own == template).then_some(path), slots, lost);
            self.push(side, tally);
        }
        for (mut side, _) in old.into_values() {
            side.align_hops(None, slots, lost);
        }
    }

    fn push(&mut self, side: Side, tally: Tally) {
        self.sides.push(side);
        self.tallies.push(tally);
    }

    /// The path_ref of the path that a position of the tables in force is on.
    #[inline]
    pub(crate) fn path_ref(&self, position: PathPosition) -> PathRef {
        let (index, template) = (position.path(), position.template());
        PathRef { index, template, serial: self.tallies[index as usize].serial }
    }

    /// Asks for the tally of the path with this index, before it is needed.
    #[inline]
    pub(crate) fn prefetch(&self, own: u32) {
        if let Some(tally) = self.tallies.get(own as usize) {
            prefetch(tally);
        }
    }

    /// The same for a packet that enters the path.
    #[inline]
    pub(crate) fn prefetch_entered(&self, own: u32) {
        if let Some(side) = self.sides.get(own as usize) {
            prefetch(&side.entered);
        }
    }

    /// The serials of all paths, by index.
    pub(crate) fn serials(&self) -> impl Iterator<Item = u64> {
        self.tallies.iter().map(|tally| tally.serial)
    }

    #[inline]
    fn place(&self, path_ref: PathRef) -> Option<usize> {
        let index = path_ref.index as usize;
        match self.tallies.get(index) {
            Some(tally) if tally.serial == path_ref.serial => Some(index),
            _ => self.moved(path_ref),
        }
    }

    /// The tables have been replaced since the packet was sent.
    #[cold]
    fn moved(&self, path_ref: PathRef) -> Option<usize> {
        self.tallies.iter().position(|tally| tally.serial == path_ref.serial)
    }

    /// The places of a path and of the one whose hops it has: one place, but for the path of a slice.
    #[inline(always)]
    fn places(&self, path_ref: PathRef) -> Option<(usize, usize)> {
        let own = self.place(path_ref)?;
        let is_there = own == path_ref.index as usize;
        let template = if is_there { path_ref.template } else { self.sides.get(own)?.template };
        Some((own, template as usize))
    }

    #[inline(always)]
    fn each_tally(&mut self, path_ref: PathRef, change: impl Fn(&mut Tally)) {
        let Some((own, template)) = self.places(path_ref) else { return };
        self.tallies.get_mut(own).map(&change);
        if own != template {
            self.tallies.get_mut(template).map(&change);
        }
    }

    #[inline]
    fn each_side(&mut self, path_ref: PathRef, change: impl Fn(&mut Side)) {
        let Some((own, template)) = self.places(path_ref) else { return };
        self.sides.get_mut(own).map(&change);
        if own != template {
            self.sides.get_mut(template).map(&change);
        }
    }

    #[inline(always)]
    pub(crate) fn entered(&mut self, path_ref: PathRef, volume: Volume) {
        self.each_side(path_ref, |side| side.entered.merge(volume));
    }

    pub(crate) fn tapped(&mut self, path_ref: PathRef, volume: Volume) {
        self.each_side(path_ref, |side| side.tapped.merge(volume));
    }

    #[inline(always)]
    pub(crate) fn finished(&mut self, path_ref: PathRef, volume: Volume) {
        self.each_tally(path_ref, |tally| tally.finished.merge(volume));
    }

    #[inline(always)]
    pub(crate) fn tunnelled_in(&mut self, path_ref: PathRef, volume: Volume) {
        self.each_tally(path_ref, |tally| tally.tunnelled_in.merge(volume));
    }

    #[inline(always)]
    pub(crate) fn tunnelled_out(&mut self, path_ref: PathRef, volume: Volume) {
        self.each_tally(path_ref, |tally| tally.tunnelled_out.merge(volume));
    }

    pub(crate) fn dropped(&mut self, path_ref: PathRef, reason: DropReason, packets: u64) {
        self.each_tally(path_ref, |tally| {
            tally.dropped.get_or_insert_default().add(reason, packets);
        });
    }

    /// The counters of a local instance of a path, by its number there.
    #[inline]
    pub(crate) fn hop(&mut self, path_ref: PathRef, local: u32) -> Option<&mut HopSums> {
        let place = self.place(path_ref)?;
        // The path_ref says it as long as the tables do, which spares a line.
        let is_there = place == path_ref.index as usize;
        let template = if is_there { path_ref.template } else { self.sides.get(place)?.template };
        self.sides.get_mut(template as usize)?.hops.get_mut(local as usize)
    }

    /// What happened on the path with this index; none: there is none.
    pub(crate) fn sums(&self, own: u32) -> Option<PathSums> {
        let (tally, side) = (self.tallies.get(own as usize)?, self.sides.get(own as usize)?);
        (tally.serial != NO_SERIAL).then(|| PathSums {
            entered: side.entered,
            finished: tally.finished,
            tapped: side.tapped,
            tunnelled_out: tally.tunnelled_out,
            tunnelled_in: tally.tunnelled_in,
            dropped: tally.dropped.as_deref().cloned().unwrap_or_default(),
        })
    }

    /// The counters of the paths of the program, with those of the slices that have their hops; each
    /// of these alone is told by `sums`. None: of all chains.
    pub(crate) fn export(
        &self,
        now_ns: u64,
        tables: &Tables,
        of: Option<&CounterScope>,
    ) -> Vec<ChainCounters> {
        let asked: BTreeSet<PathId> = match of {
            Some(of) => of.chains.iter().flat_map(|chain| tables.names.paths(*chain)).collect(),
            None => tables.entries.paths.keys().copied().collect(),
        };
        let paths = asked.into_iter().filter_map(|path| tables.positions.index_of(path));
        let sides = paths.filter_map(|own| Some((own, self.sides.get(own as usize)?)));
        let lines = sides.filter_map(|(own, side)| Some((side, self.sums(own)?)));
        let line = |(side, sums): (&Side, PathSums)| ChainCounters {
            chain: side.chain,
            path: side.id,
            entered: sums.entered,
            finished: sums.finished,
            tapped: sums.tapped,
            pinned_flows: 0,
            tunnelled_out: sums.tunnelled_out,
            tunnelled_in: sums.tunnelled_in,
            dropped: sums.dropped.export(),
            // Of all chains together they would be too long for a message.
            hops: side.hops.iter().map(|hop| hop.export(of.is_some(), now_ns)).collect(),
            is_partial: false,
        };
        lines.map(line).collect()
    }
}

impl Side {
    fn empty() -> Self {
        Self {
            chain: ChainId(uuid::Uuid::nil()),
            id: PathId(0),
            template: 0,
            entered: Volume::default(),
            tapped: Volume::default(),
            hops: Vec::new(),
        }
    }

    /// Lines the counters of the instances up with those of the path; none: it has none of its own.
    fn align_hops(
        &mut self,
        path: Option<&PathTable>,
        slots: &Slots,
        lost: &mut Vec<(Owner, u64)>,
    ) {
        let mut old = std::mem::take(&mut self.hops);
        for local in path.into_iter().flat_map(|path| &path.local_instances) {
            let at = (local.hop, local.member, local.id);
            let same = |sums: &HopSums| (sums.hop, sums.member, sums.instance) == at;
            let found = old.iter().position(same).map(|at| old.swap_remove(at));
            let fresh = HopSums::new(local, slots);
            self.hops.push(match found {
                // The name may have changed, and the port may be gone or there again.
                Some(old) => {
                    HopSums { name: fresh.name, ingress: fresh.ingress.or(old.ingress), ..old }
                }
                None => fresh,
            });
        }
        lost.extend(old.iter().filter_map(HopSums::lost));
    }
}
