//! The classifier's memory: which path of each chain a flow went into last, and when. Always on, so that a
//! flow that sends a packet now and then is known when its chain changes. Knows keys, age and
//! bounds; refuses to know why a path is remembered.
//!
//! A flow is known by 64 bits of its hash under a seed that nobody outside knows, and has eight
//! places in two cache lines. Where they are taken, it gets that of a flow unseen for longer than
//! any is held to a path, or of the path that most flows are remembered of (`shares`), unseen for
//! longest; to be forgotten only means to follow the rules.

use super::crowded::Crowded;
use crate::engine::collections::places::Places;
use crate::engine::collections::shares::{Shares, must_yield};
use catena_model::PathId;
use catena_model::id::ChainId;
use catena_model::limits::{PIN_IDLE_DRAINING_MS, SETUP_IDLE_MS};
use catena_wire::flow::{FlowKey, mix};

/// Places that a flow can have.
const WAYS: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq)]
struct Entry {
    flow: u64,
    /// Identifier of the path; 0, which no encapsulation uses: nothing is remembered.
    path: u32,
    /// In milliseconds; it wraps after 49 days, when its flow has long been idle.
    seen_ms: u32,
}

impl Entry {
    /// Is its flow unseen for longer than any is held to a path?
    fn is_outlived(&self, now_ms: u32) -> bool {
        now_ms.wrapping_sub(self.seen_ms) > PIN_IDLE_DRAINING_MS
    }
}

/// The memory.
#[derive(Debug)]
pub(crate) struct FlowAffinity {
    sets: Places<[Entry; WAYS]>,
    /// Of the paths.
    shares: Shares<u32>,
    pub(crate) crowded: Crowded,
    seed: u64,
}

impl FlowAffinity {
    /// Room for this many flows, at least eight.
    pub(crate) fn new(flows_max: usize, seed: u64) -> Self {
        let free = Entry { flow: 0, path: 0, seen_ms: 0 };
        let sets = Places::new([free; WAYS], flows_max.div_ceil(WAYS).max(1));
        Self { sets, shares: Shares::new(), crowded: Crowded::default(), seed }
    }

    /// What the flow is known by in a chain: the same packet may enter another behind it, and others of the
    /// flow another beside it, by what they show.
    pub(crate) fn key(&self, flow: &FlowKey, chain: ChainId) -> u64 {
        let (high, low) = chain.0.as_u64_pair();
        mix(flow.seeded_hash(self.seed) ^ mix(high ^ low.rotate_left(32)))
    }

    fn set(&self, key: u64) -> usize {
        // The low bits of the key tell the flows of a set apart no worse than the high ones.
        usize::try_from(key % self.sets.len() as u64).unwrap_or(0)
    }

    /// The path that the flow went into last, and how many milliseconds ago.
    pub(crate) fn last(&self, now_ns: u64, key: u64) -> Option<(PathId, u32)> {
        let set = &self.sets[self.set(key)];
        let entry = set.iter().find(|entry| entry.flow == key && entry.path != 0)?;
        Some((PathId(entry.path), milliseconds(now_ns).wrapping_sub(entry.seen_ms)))
    }

    /// Has the flow gone into its chain lately enough that the controller need not be asked for it again?
    pub(crate) fn is_set_up(&self, now_ns: u64, key: u64) -> bool {
        self.last(now_ns, key).is_some_and(|(_, ago_ms)| ago_ms <= SETUP_IDLE_MS)
    }

    /// Notes that the flow goes into a path now.
    pub(crate) fn note(&mut self, now_ns: u64, key: u64, path: PathId) {
        let now_ms = milliseconds(now_ns);
        let number = self.set(key);
        let set = &self.sets[number];
        let known = set.iter().position(|entry| entry.flow == key && entry.path != 0);
        let Some(place) = known.or_else(|| self.place_for_new(now_ms, set, path)) else {
            return self.crowded.note_path(path);
        };
        let entry = &mut self.sets[number][place];
        let before = std::mem::replace(entry, Entry { flow: key, path: path.0, seen_ms: now_ms });
        if before.path != 0 && before.flow != key && !before.is_outlived(now_ms) {
            self.crowded.note_path(PathId(before.path));
        }
        if before.path != path.0 {
            if before.path != 0 {
                self.shares.give_back_by(&before.path);
            }
            self.shares.take(path.0);
        }
    }

    /// Which of a set's places a new flow of a path gets; none: all others have fewer.
    fn place_for_new(&self, now_ms: u32, set: &[Entry; WAYS], path: PathId) -> Option<usize> {
        if let Some(free) = set.iter().position(|entry| entry.path == 0) {
            return Some(free);
        }
        let own = self.shares.held_by(&path.0);
        let candidates = set.iter().enumerate().filter_map(|(place, entry)| {
            let age = now_ms.wrapping_sub(entry.seen_ms);
            let held = if entry.path == path.0 { own } else { self.shares.held_by(&entry.path) };
            let is_outlived = entry.is_outlived(now_ms);
            let may_go = is_outlived || entry.path == path.0 || must_yield(held, own);
            may_go.then_some(((is_outlived, held, age), place))
        });
        candidates.max_by_key(|(rank, _)| *rank).map(|(_, place)| place)
    }

    /// How many flows went into the path last, within so many milliseconds. Looks at all flows.
    pub(crate) fn count(&self, now_ns: u64, path: PathId, within_ms: u32) -> u64 {
        let now_ms = milliseconds(now_ns);
        let is_it = |entry: &&Entry| {
            entry.path == path.0 && now_ms.wrapping_sub(entry.seen_ms) <= within_ms
        };
        self.sets.iter().flatten().filter(is_it).count() as u64
    }
}

fn milliseconds(now_ns: u64) -> u32 {
    (now_ns / 1_000_000) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_flow_is_known_with_its_last_path_and_age() {
        let mut memory = FlowAffinity::new(64, 1);
        assert_eq!(memory.last(0, 5), None);
        memory.note(3 * MS, 5, PathId(100));
        memory.note(7 * MS, 5, PathId(101));
        assert_eq!(memory.last(17 * MS, 5), Some((PathId(101), 10)));
        assert_eq!(memory.count(17 * MS, PathId(101), 10), 1);
        assert_eq!(memory.count(18 * MS, PathId(101), 10), 0);
        assert_eq!(memory.count(7 * MS, PathId(100), 10), 0);
    }

    #[test]
    fn a_ninth_flow_of_a_set_takes_the_place_of_the_one_unseen_for_longest() {
        let mut memory = FlowAffinity::new(WAYS, 1);
        for flow in 0..8 {
            memory.note((10 + flow) * MS, flow, PathId(100));
        }
        memory.note(30 * MS, 0, PathId(100));
        memory.note(31 * MS, 8, PathId(100));
        assert_eq!(memory.last(31 * MS, 1), None);
        assert_eq!(memory.last(31 * MS, 0), Some((PathId(100), 1)));
        assert_eq!(memory.count(31 * MS, PathId(100), 100), 8);
    }

    #[test]
    fn a_flow_takes_no_place_of_a_path_with_fewer_and_of_an_outlived_one_any() {
        let mut memory = FlowAffinity::new(WAYS, 1);
        memory.note(MS, 100, PathId(7));
        for flow in 0..20 {
            memory.note((2 + flow) * MS, flow, PathId(100));
        }
        assert_eq!(memory.last(30 * MS, 100), Some((PathId(7), 29)));
        assert_eq!(memory.count(30 * MS, PathId(100), 100), 7);
        for flow in 101..104 {
            memory.note(30 * MS, flow, PathId(7));
        }
        assert_eq!(memory.count(30 * MS, PathId(7), 100), 4, "the others have four, too");
        memory.note(31 * MS, 104, PathId(7));
        assert_eq!(memory.count(31 * MS, PathId(100), 100), 4);
        let later_ns = (u64::from(PIN_IDLE_DRAINING_MS) + 40) * MS;
        memory.note(later_ns, 200, PathId(100));
        assert_eq!(memory.count(later_ns, PathId(100), 1), 1);
        assert_eq!(memory.shares.held_by(&7) + memory.shares.held_by(&100), WAYS as u32);
    }

    #[test]
    fn the_clock_may_wrap() {
        let mut memory = FlowAffinity::new(WAYS, 1);
        let wrap = (1 << 32) * MS;
        memory.note(wrap - 2 * MS, 5, PathId(100));
        assert_eq!(memory.last(wrap + 3 * MS, 5), Some((PathId(100), 5)));
    }
}
