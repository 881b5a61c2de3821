//! Metadata on its way: the context headers that packets carry along a path, kept while a position
//! names them. Knows bytes, age and bounds; refuses to know what they mean.
//!
//! Each content is kept once, in one of sixteen places given by its hash and a seed that nobody
//! outside knows. A position holds the place and the turn in which it was filled, so a place that
//! has been given to another content is noticed: that packet ends by name. Contents that no packet
//! brought within the last second make room for new ones, and so do those of a path that has more
//! than the newcomer's (`shares`), of it those unseen for longest first.

use super::carried_ref::CarriedRef;
use super::{PathPosition, Records};
use crate::engine::collections::shares::{Shares, must_yield};
use catena_model::limits::NSH_CONTEXT_BYTES_MAX;
use catena_model::{DropReason, PathId};
use catena_wire::flow::mix;
use std::cmp::Reverse;
use std::fmt;
use std::num::NonZeroU32;

/// How long a packet that carries a content may pause at most when places are short, in
/// nanoseconds.
const INSIDE_NS: u64 = 1_000_000_000;
/// Places that a content can have.
const WAYS: usize = 16;
/// Bytes that the hash takes at a time.
const WORD_BYTES: usize = 8;

/// The contents. Arrays of zeros, so that memory is taken only where places are used.
pub(crate) struct Carried {
    bytes: Vec<u8>,
    lens: Vec<u8>,
    /// How often each place has been filled; 0: never.
    turns: Vec<u32>,
    seen_ns: Vec<u64>,
    /// The path that brought each content first.
    paths: Vec<u32>,
    /// The tables under which a link has brought each content as what is left of a header; 0: none has.
    brought: Vec<u32>,
    /// Those in force, by a number.
    tables: u32,
    shares: Shares<u32>,
    sets: usize,
    seed: u64,
    now_ns: u64,
    pub(crate) records: Records,
}

/// Tells the places that are filled, and not what time it is.
impl fmt::Debug for Carried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without a rest: whoever adds a part decides what it is.
        let Self {
            bytes: _,
            lens: _,
            turns,
            seen_ns,
            paths,
            brought,
            tables,
            shares,
            sets,
            seed,
            now_ns: _,
            records,
        } = self;
        let filled = (0..turns.len()).filter(|place| turns[*place] > 0);
        let filled = filled.map(|place| {
            let content = (self.at(place), turns[place], seen_ns[place]);
            (place, (content, paths[place], brought[place]))
        });
        f.debug_map().entries(filled).finish()?;
        write!(f, "{shares:?} {tables} {sets} {seed} {records:?}")
    }
}

impl Carried {
    /// Room for as many contents as flows are remembered, and so many headers that take records along.
    pub(crate) fn new(contents_max: usize, records_max: usize, seed: u64) -> Self {
        let sets = contents_max.div_ceil(WAYS).max(1);
        let places = sets * WAYS;
        Self {
            bytes: vec![0; places * NSH_CONTEXT_BYTES_MAX],
            lens: vec![0; places],
            turns: vec![0; places],
            seen_ns: vec![0; places],
            paths: vec![0; places],
            brought: vec![0; places],
            tables: 1,
            shares: Shares::new(),
            sets,
            seed,
            now_ns: 0,
            records: Records::new(records_max, contents_max, seed),
        }
    }

    /// When the vector that passes now came.
    pub(crate) fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Begins a vector.
    pub(crate) fn open(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
    }

    /// Keeps a content that a packet carries along a path.
    ///
    /// # Errors
    /// [`DropReason::ContextTooLong`] beyond the limit, [`DropReason::ContextMemoryFull`] when every
    /// place it could have belongs to a content that was seen within the last second, of a path that
    /// has no more of them.
    pub(super) fn keep(&mut self, content: &[u8], path: PathId) -> Result<CarriedRef, DropReason> {
        self.keep_in(content, path, true)
    }

    /// Keeps what is left of a header that a link has brought, which can be done without: no content that is in use
    /// gives way to it. None: there is no room.
    pub(super) fn keep_beside(&mut self, content: &[u8], path: PathId) -> Option<CarriedRef> {
        let name = self.keep_in(content, path, false).ok()?;
        let place = name.place as usize;
        *self.brought.get_mut(place)? = self.tables;
        // A function of another path may have guessed it and brought it first.
        let former = std::mem::replace(self.paths.get_mut(place)?, path.0);
        if former != path.0 {
            self.shares.give_back_by(&former);
            self.shares.take(path.0);
        }
        Some(name)
    }

    /// Other tables are in force: no link has brought anything under them.
    pub(crate) fn turn_tables(&mut self) {
        self.tables = self.tables.wrapping_add(1).max(1);
    }

    /// The name of what is left of a header, if a link has brought it on this path under the tables in force.
    pub(super) fn brought(&self, content: &[u8], PathId(path): PathId) -> Option<CarriedRef> {
        let place = self.places(content).find(|place| self.at(*place) == Some(content))?;
        let turn = NonZeroU32::new(*self.turns.get(place)?)?;
        let is_brought =
            self.brought.get(place) == Some(&self.tables) && self.paths.get(place) == Some(&path);
        let place = u32::try_from(place).ok().filter(|_| is_brought)?;
        Some(CarriedRef { place, turn })
    }

    /// Where a content can be.
    fn places(&self, content: &[u8]) -> std::ops::Range<usize> {
        let set = usize::try_from(self.hash(content) % self.sets as u64).unwrap_or(0);
        set * WAYS..(set + 1) * WAYS
    }

    fn keep_in(
        &mut self,
        content: &[u8],
        PathId(path): PathId,
        must_fit: bool,
    ) -> Result<CarriedRef, DropReason> {
        let len = u8::try_from(content.len()).ok();
        let len = len.filter(|len| usize::from(*len) <= NSH_CONTEXT_BYTES_MAX);
        let len = len.ok_or(DropReason::ContextTooLong)?;
        let places = self.places(content);
        let known = places.clone().find(|place| self.at(*place) == Some(content));
        let place = match known {
            Some(place) => place,
            None => {
                let place = self.given_up(places, path, must_fit);
                let place = place.ok_or(DropReason::ContextMemoryFull)?;
                if self.turns[place] > 0 {
                    self.shares.give_back_by(&self.paths[place]);
                }
                self.paths[place] = path;
                self.brought[place] = 0;
                self.shares.take(path);
                let start = place * NSH_CONTEXT_BYTES_MAX;
                self.bytes[start..start + content.len()].copy_from_slice(content);
                self.lens[place] = len;
                self.turns[place] = self.turns[place].wrapping_add(1).max(1);
                place
            }
        };
        self.seen_ns[place] = self.now_ns;
        let turn = NonZeroU32::new(self.turns[place]).ok_or(DropReason::ContextMemoryFull)?;
        let place = u32::try_from(place).map_err(|_| DropReason::ContextMemoryFull)?;
        Ok(CarriedRef { place, turn })
    }

    /// Is a content still there?
    #[inline]
    pub(crate) fn holds(&self, name: CarriedRef) -> bool {
        self.turns.get(name.place as usize) == Some(&name.turn.get())
    }

    /// A content that was kept; none when its place has been given away.
    pub(super) fn get(&self, name: CarriedRef) -> Option<&[u8]> {
        self.at(name.place as usize).filter(|_| self.holds(name))
    }

    /// The position with its content kept here, where another store has it.
    pub(crate) fn adopt(&mut self, from: &Self, position: PathPosition) -> PathPosition {
        // Records are those of the packet itself.
        if position.records().is_some() {
            return position.without_metadata();
        }
        let content = position.carried.and_then(|name| {
            let place = name.place as usize;
            let is_brought = from.brought.get(place) == Some(&from.tables);
            Some((from.get(name)?, PathId(*from.paths.get(place)?), is_brought))
        });
        let carried = match content {
            // Another store's name means nothing here, and what is left can be done without.
            Some((content, path, true)) => self.keep_beside(content, path),
            Some((content, path, false)) => self.keep(content, path).ok().or(position.carried),
            None => position.carried,
        };
        PathPosition { carried, ..position }
    }

    fn at(&self, place: usize) -> Option<&[u8]> {
        let is_filled = self.turns.get(place).is_some_and(|turn| *turn > 0);
        let start = place * NSH_CONTEXT_BYTES_MAX;
        let len = usize::from(*self.lens.get(place)?);
        self.bytes.get(start..start + len).filter(|_| is_filled)
    }

    /// A place never used, or one whose content nobody will miss, or must give way.
    fn given_up(
        &self,
        mut places: std::ops::Range<usize>,
        path: u32,
        must_fit: bool,
    ) -> Option<usize> {
        if let Some(free) = places.clone().find(|place| self.turns[*place] == 0) {
            return Some(free);
        }
        let oldest = places.clone().min_by_key(|place| self.seen_ns[*place])?;
        if self.now_ns.saturating_sub(self.seen_ns[oldest]) > INSIDE_NS {
            return Some(oldest);
        }
        if !must_fit {
            return None;
        }
        let own = self.shares.held_by(&path);
        let rank = |place: &usize| {
            (self.shares.held_by(&self.paths[*place]), Reverse(self.seen_ns[*place]))
        };
        let most = places.by_ref().max_by_key(rank)?;
        must_yield(rank(&most).0, own).then_some(most)
    }

    fn hash(&self, content: &[u8]) -> u64 {
        let start = mix(self.seed ^ content.len() as u64);
        content.chunks(WORD_BYTES).fold(start, |state, chunk| {
            let mut word = [0; WORD_BYTES];
            word[..chunk.len()].copy_from_slice(chunk);
            mix(state ^ u64::from_le_bytes(word))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(number: u16) -> Vec<u8> {
        [&[0, 0, 8, 4, 0, 0][..], &number.to_be_bytes()].concat()
    }

    const A: PathId = PathId(100);
    const B: PathId = PathId(101);

    #[test]
    fn a_path_with_many_contents_gives_way_to_one_with_few_and_never_the_other_way_round() {
        let mut carried = Carried::new(1, 1, 7);
        let names: Vec<CarriedRef> =
            (0..16).map(|n| carried.keep(&content(n), A).unwrap()).collect();
        let own: Vec<CarriedRef> =
            (16..20).map(|n| carried.keep(&content(n), B).unwrap()).collect();
        let lost = names.iter().filter(|name| carried.get(**name).is_none());
        assert_eq!(lost.count(), own.len());
        for number in 20..40 {
            let refused = carried.keep(&content(number), A);
            assert_eq!(refused, Err(DropReason::ContextMemoryFull));
        }
        assert!(own.iter().all(|name| carried.get(*name).is_some()));
    }

    #[test]
    fn what_can_be_done_without_takes_nobodys_place() {
        let mut carried = Carried::new(1, 1, 7);
        let names: Vec<CarriedRef> =
            (0..16).map(|n| carried.keep(&content(n), A).unwrap()).collect();
        assert_eq!(carried.keep_beside(&content(16), B), None);
        assert!(names.iter().all(|name| carried.get(*name).is_some()));
        assert_eq!(carried.keep_beside(&content(0), A), Some(names[0]), "it is there");
        carried.open(INSIDE_NS + 1);
        assert!(carried.keep_beside(&content(16), B).is_some(), "nobody misses those");
    }

    #[test]
    fn a_content_is_kept_once_and_found_again() {
        let mut carried = Carried::new(64, 64, 7);
        let (one, empty) = (carried.keep(&content(1), A).unwrap(), carried.keep(&[], A).unwrap());
        assert_eq!(carried.keep(&content(1), A), Ok(one));
        assert_eq!(carried.get(one), Some(&content(1)[..]));
        assert_eq!(carried.get(empty), Some(&[][..]));
        let most = [7; NSH_CONTEXT_BYTES_MAX];
        let kept = carried.keep(&most, A).unwrap();
        assert_eq!(carried.get(kept), Some(&most[..]));
        let more = [7; NSH_CONTEXT_BYTES_MAX + 1];
        assert_eq!(carried.keep(&more, A), Err(DropReason::ContextTooLong));
        assert_eq!(carried.keep(&[7; 300], A), Err(DropReason::ContextTooLong));
    }

    #[test]
    fn a_place_that_was_given_away_is_noticed() {
        let mut carried = Carried::new(1, 1, 7);
        let names: Vec<CarriedRef> =
            (0..16).map(|n| carried.keep(&content(n), A).unwrap()).collect();
        assert_eq!(carried.keep(&content(16), A), Err(DropReason::ContextMemoryFull));
        carried.open(INSIDE_NS);
        assert_eq!(carried.keep(&content(0), A), Ok(names[0]), "seen again");
        carried.open(INSIDE_NS + 1);
        let new = carried.keep(&content(16), A).unwrap();
        assert_eq!(carried.get(new), Some(&content(16)[..]));
        assert_eq!(carried.get(names[0]), Some(&content(0)[..]));
        let lost = names.iter().filter(|name| carried.get(**name).is_none());
        assert_eq!(lost.count(), 1);
    }

    #[test]
    fn only_what_a_link_brought_under_these_tables_counts_as_that() {
        let mut carried = Carried::new(64, 64, 7);
        carried.keep(&content(1), A).unwrap();
        assert_eq!(carried.brought(&content(1), A), None, "metadata say nothing of ways");
        let rest = carried.keep_beside(&content(2), A);
        assert_eq!((rest.is_some(), carried.brought(&content(2), A)), (true, rest));
        assert_eq!(carried.brought(&content(3), A), None);
        assert_eq!(carried.brought(&content(2), B), None, "on another path");
        // Guessed by a function of another path before.
        carried.keep(&content(4), B).unwrap();
        let rest = carried.keep_beside(&content(4), A);
        assert_eq!((rest.is_some(), carried.brought(&content(4), A)), (true, rest));
        let rest = carried.keep_beside(&content(2), A);
        carried.turn_tables();
        assert_eq!(carried.brought(&content(2), A), None);
        assert_eq!(carried.keep_beside(&content(2), A), rest);
        assert_eq!(carried.brought(&content(2), A), rest);
        // Its place is another's.
        let mut full = Carried::new(1, 1, 7);
        full.keep_beside(&content(0), A).unwrap();
        full.open(INSIDE_NS + 1);
        (1..=16).for_each(|number| _ = full.keep(&content(number), A).unwrap());
        assert_eq!(full.brought(&content(0), A), None);
        assert!((1..=16).all(|number| full.brought(&content(number), A).is_none()));
    }

    #[test]
    fn a_lent_position_names_the_same_content() {
        let (mut one, mut other) = (Carried::new(64, 64, 7), Carried::new(64, 64, 8));
        other.keep(&content(9), A).unwrap();
        let name = one.keep(&content(1), A).unwrap();
        let position = PathPosition { own: 3, shape: 3, hop: 0, ttl: 5, carried: Some(name) };
        let lent = other.adopt(&one, position);
        assert_eq!((lent.own, lent.ttl), (3, 5));
        assert_eq!(other.get(lent.carried.unwrap()), Some(&content(1)[..]));
    }
}
