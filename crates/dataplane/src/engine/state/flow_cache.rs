//! What the classifier decided for flows of endpoints: exact match of port and five-tuple, so that
//! no rule is asked twice. Knows keys and bounds; refuses to know rules. An entry counts only in the
//! epoch of its port in which it was made, and only where the decision depends on port and five-tuple
//! alone.

use crate::engine::packet::index::PortIndex;
use crate::engine::tables::descent::Entered;
use catena_io::prefetch;
use catena_wire::plain::PlainFrame;

/// Places that a flow can have: one line of the processor's cache.
const WAYS: usize = 2;
/// Where in a word the port is.
const PORT_BITS: u32 = 40;
/// No path: the flow is ordinary traffic.
const NO_PATH: u32 = u32::MAX;

/// What a flow is known by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FlowWords {
    addresses: u64,
    /// Port of the engine, protocol and ports.
    rest: u64,
}

impl FlowWords {
    /// `port`: index of the engine's port that it came by.
    #[inline]
    pub(crate) fn of(port: u16, frame: &PlainFrame) -> Self {
        let (addresses, rest) = frame.words();
        Self { addresses, rest: u64::from(port) << PORT_BITS | rest }
    }
}

/// What a flow is looked up by: its words, and the hash by which it chooses instances.
#[derive(Clone, Copy)]
pub(crate) struct FlowQuery<'s> {
    pub(crate) words: &'s FlowWords,
    pub(crate) flow_hash: u64,
}

/// A path that flows enter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CachedPath {
    /// Index of the path.
    pub(crate) own: u32,
    /// Index of the path whose hops it has.
    pub(crate) shape: u32,
}

/// What was decided for a flow.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CachedVerdict {
    /// It is ordinary traffic.
    Ordinary,
    /// It enters a path. `is_due`: it is to be noted as one of the path again, once a millisecond.
    Enters { path: CachedPath, is_due: bool },
}

#[derive(Clone, Copy, Default)]
struct Entry {
    words: FlowWords,
    epoch: u32,
    /// When the flow was last noted as one of its path, in milliseconds.
    noted_ms: u32,
    own: u32,
    shape: u32,
}

#[derive(Clone, Copy, Default)]
#[repr(align(64))]
struct Set([Entry; WAYS]);

/// The memory.
pub(crate) struct FlowCache {
    sets: Vec<Set>,
    seed: u64,
    /// By index of the port: since when what was decided for its packets holds.
    epochs: Vec<u32>,
    /// The same for ports that are not among them.
    base: u32,
    /// The newest of all; 0: no tables were ever in force.
    epoch: u32,
}

impl Default for FlowCache {
    fn default() -> Self {
        Self::new(WAYS, 0)
    }
}

impl FlowCache {
    /// Room for this many flows, rounded up to a power of two.
    pub(crate) fn new(flows_max: usize, seed: u64) -> Self {
        let sets = flows_max.div_ceil(WAYS).next_power_of_two();
        Self { sets: vec![Set::default(); sets], seed, epochs: Vec::new(), base: 0, epoch: 0 }
    }

    /// Other tables are in force: what was decided under those before counts no more for these ports.
    pub(crate) fn forget(&mut self, ports: &Entered) {
        self.epoch = self.epoch.wrapping_add(1);
        if self.epoch == 0 {
            self.sets.fill(Set::default());
            self.epoch = 1;
            self.forget_all();
        }
        match ports {
            Entered::All => self.forget_all(),
            Entered::By(ports) => {
                for PortIndex(port) in ports {
                    let place = usize::from(*port);
                    self.epochs.resize(self.epochs.len().max(place + 1), self.base);
                    self.epochs[place] = self.epoch;
                }
            }
        }
    }

    fn forget_all(&mut self) {
        self.base = self.epoch;
        self.epochs.clear();
    }

    /// Since when what was decided for packets of the port holds.
    #[inline]
    fn epoch(&self, words: &FlowWords) -> u32 {
        let port = (words.rest >> PORT_BITS) as usize;
        self.epochs.get(port).copied().unwrap_or(self.base)
    }

    /// The flow's hash is at hand, and one multiplication by what nobody outside knows moves it to
    /// another place. Flows that share the hash itself share a set too: all that its sender gains is
    /// the slow path, which any new flow takes.
    #[inline]
    fn set(&self, asked: FlowQuery<'_>) -> usize {
        let hash = (asked.flow_hash ^ asked.words.rest >> PORT_BITS).wrapping_mul(self.seed | 1);
        (hash >> 32) as usize & (self.sets.len() - 1)
    }

    #[inline]
    pub(crate) fn prefetch(&self, asked: FlowQuery<'_>) {
        if let Some(set) = self.sets.get(self.set(asked)) {
            prefetch(set);
        }
    }

    /// What was decided; none: nothing is known.
    #[inline]
    pub(crate) fn find(&mut self, asked: FlowQuery<'_>, now_ms: u32) -> Option<CachedVerdict> {
        let (set, epoch) = (self.set(asked), self.epoch(asked.words));
        let mut entries = self.sets.get_mut(set)?.0.iter_mut();
        let entry = entries.find(|entry| entry.words == *asked.words && entry.epoch == epoch)?;
        if entry.own == NO_PATH {
            return Some(CachedVerdict::Ordinary);
        }
        let is_due = std::mem::replace(&mut entry.noted_ms, now_ms) != now_ms;
        let path = CachedPath { own: entry.own, shape: entry.shape };
        Some(CachedVerdict::Enters { path, is_due })
    }

    /// Keeps what was decided, in place of what is no longer valid or was noted longest ago.
    pub(crate) fn learn(
        &mut self,
        port: u16,
        (frame, flow_hash): (&PlainFrame, u64),
        now_ms: u32,
        entrance: Option<CachedPath>,
    ) {
        let words = FlowWords::of(port, frame);
        let asked = FlowQuery { words: &words, flow_hash };
        let (set, epoch) = (self.set(asked), self.epoch(&words));
        let Some(Set(entries)) = self.sets.get(set) else { return };
        let age = |entry: &Entry| match entry.epoch == self.epoch(&entry.words) {
            true => now_ms.wrapping_sub(entry.noted_ms),
            false => u32::MAX,
        };
        let CachedPath { own, shape } = entrance.unwrap_or(CachedPath { own: NO_PATH, shape: 0 });
        let known = entries.iter().position(|entry| entry.words == words);
        let place = known.or_else(|| (0..WAYS).max_by_key(|place| age(&entries[*place])));
        if let Some(place) = place {
            self.sets[set].0[place] = Entry { words, epoch, noted_ms: now_ms, own, shape };
        }
    }
}
