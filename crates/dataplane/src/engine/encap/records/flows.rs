//! How many packets of each flow a node has seen. Bounded: a flow that comes when its places are others' takes that of
//! the one unseen for longest, and a flow that was forgotten begins with 1 again, which shows.

use catena_model::PathId;
use catena_wire::flow::mix;
use std::fmt;

/// Places that a flow can have.
const WAYS: usize = 4;

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// Hash of path and flow; 0: nobody's.
    key: u64,
    packets: u32,
    /// When it was seen, by the number of all that were.
    seen: u32,
}

/// The counters: their memory is taken when the first flow is counted.
pub(super) struct FlowCounters {
    sets: Vec<[Entry; WAYS]>,
    sets_max: usize,
    seed: u64,
    seen: u32,
}

/// Tells the flows that are known.
impl fmt::Debug for FlowCounters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sets, sets_max: _, seed: _, seen: _ } = self;
        let known = sets.iter().flatten().filter(|entry| entry.key != 0);
        f.debug_list().entries(known).finish()
    }
}

impl FlowCounters {
    /// Of so many flows at a time.
    pub(super) fn new(flows_max: usize, seed: u64) -> Self {
        Self { sets: Vec::new(), sets_max: flows_max.div_ceil(WAYS).max(1), seed, seen: 0 }
    }

    /// Which of the packets of a flow is a sample first: nobody outside can know it.
    pub(super) fn phase(&self, (PathId(path), flow): (PathId, u64)) -> u64 {
        mix(self.key(path, flow))
    }

    fn key(&self, path: u32, flow: u64) -> u64 {
        mix(self.seed ^ mix(u64::from(path)) ^ flow).max(1)
    }

    /// Counts packets of a flow, and answers which number the first of them has, from 1.
    pub(super) fn count(&mut self, (PathId(path), flow): (PathId, u64), packets: u32) -> u32 {
        if self.sets.is_empty() {
            self.sets = vec![<[Entry; WAYS]>::default(); self.sets_max];
        }
        let key = self.key(path, flow);
        // The upper part of the product: as even as the remainder, and no division.
        let set = ((u128::from(key) * self.sets.len() as u128) >> 64) as usize;
        self.seen = self.seen.wrapping_add(1);
        let Some(set) = self.sets.get_mut(set) else { return 1 };
        let known = set.iter().position(|entry| entry.key == key);
        let oldest = || (0..WAYS).max_by_key(|way| age(&set[*way], self.seen));
        let Some(way) = known.or_else(oldest) else { return 1 };
        let entry = &mut set[way];
        if entry.key != key {
            *entry = Entry { key, ..Entry::default() };
        }
        let first = entry.packets.wrapping_add(1);
        entry.packets = entry.packets.wrapping_add(packets);
        entry.seen = self.seen;
        first
    }
}

fn age(entry: &Entry, seen: u32) -> u32 {
    if entry.key == 0 { u32::MAX } else { seen.wrapping_sub(entry.seen) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: PathId = PathId(7);

    #[test]
    fn each_flow_of_each_path_is_counted_for_itself() {
        let mut flows = FlowCounters::new(64, 9);
        assert_eq!([1, 1, 3].map(|more| flows.count((PATH, 5), more)), [1, 2, 3]);
        assert_eq!(flows.count((PATH, 5), 1), 6, "behind all of a frame that was cut");
        assert_eq!(flows.count((PATH, 6), 1), 1);
        assert_eq!(flows.count((PathId(8), 5), 1), 1);
        assert_eq!(flows.count((PATH, 5), 1), 7);
    }

    #[test]
    fn memory_is_bounded_and_who_was_forgotten_begins_anew() {
        let mut flows = FlowCounters::new(WAYS, 9);
        for flow in 0..WAYS as u64 {
            assert_eq!(flows.count((PATH, flow), 1), 1);
        }
        assert_eq!(flows.count((PATH, 0), 1), 2, "seen again");
        assert_eq!(flows.count((PATH, 99), 1), 1, "in the place of the oldest");
        assert_eq!(flows.count((PATH, 0), 1), 3);
        assert_eq!(flows.count((PATH, 1), 1), 1, "forgotten");
        assert_eq!(flows.sets.len(), 1);
    }
}
