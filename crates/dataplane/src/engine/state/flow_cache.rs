//! What the classifier decided for flows of endpoints: exact match of port, five-tuple and the fields beside
//! it that rules look at there, so that no rule is asked twice. Knows keys and bounds; refuses to know
//! rules. An entry counts only in the epoch of its port in which it was made, and only where the decision
//! depends on nothing else.

use crate::engine::collections::places::Places;
use crate::engine::packet::index::PortIndex;
use crate::engine::tables::descent::Entered;
use catena_io::prefetch_whole;
use catena_model::classifier::FieldWord;
use catena_model::limits::SETUP_IDLE_MS;
use catena_wire::plain::PlainFrame;
use std::fmt::{self, Debug, Formatter};

/// Places that a flow can have.
const WAYS: usize = 2;
/// One flow of other kinds for so many of untagged IPv4.
const WIDE_SHARE: usize = 4;
/// Where in a word the port is.
const PORT_BITS: u32 = 40;
/// No path: the flow is ordinary traffic.
const NO_PATH: u32 = u32::MAX;

/// By what a flow is known, and the port that it came by.
trait Words: Copy + Default + PartialEq {
    fn of(asked: FlowQuery<'_>) -> Self;

    fn port(&self) -> usize;
}

/// Of untagged IPv4: the addresses; port of the engine, protocol and ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct NarrowWords {
    addresses: u64,
    rest: u64,
}

impl Words for NarrowWords {
    #[inline]
    fn of(FlowQuery { port, frame, .. }: FlowQuery<'_>) -> Self {
        let (addresses, rest) = frame.words();
        Self { addresses, rest: u64::from(port) << PORT_BITS | rest }
    }

    #[inline]
    fn port(&self) -> usize {
        (self.rest >> PORT_BITS) as usize
    }
}

/// Of all others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct WideWords {
    flow: [u64; 5],
    port: u16,
    vlan: u16,
    fields: FieldWord,
}

impl Words for WideWords {
    fn of(FlowQuery { port, frame, fields, .. }: FlowQuery<'_>) -> Self {
        Self { flow: frame.wide_words(), port, vlan: frame.vlan(), fields }
    }

    fn port(&self) -> usize {
        self.port.into()
    }
}

/// What a flow is looked up by: the index of the engine's port that it came by, its frame, what this shows
/// of the fields that rules look at there, and the hash by which it chooses instances.
#[derive(Clone, Copy)]
pub(crate) struct FlowQuery<'f> {
    pub(crate) port: u16,
    pub(crate) frame: &'f PlainFrame,
    pub(crate) fields: FieldWord,
    pub(crate) flow_hash: u64,
}

impl FlowQuery<'_> {
    /// Do narrow words say all of it?
    #[inline(always)]
    fn is_narrow(&self) -> bool {
        self.frame.is_narrow() && self.fields == FieldWord(0)
    }
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

#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Entry<W> {
    words: W,
    epoch: u32,
    /// When the flow was last noted as one of its path, in milliseconds.
    noted_ms: u32,
    own: u32,
    shape: u32,
}

/// Of narrow words, one line of the processor's cache.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[repr(align(64))]
struct Set<W>([Entry<W>; WAYS]);

/// Since when what was decided for packets of a port holds.
#[derive(Debug)]
struct Epochs {
    /// By index of the port.
    of_port: Vec<u32>,
    /// The same for ports that are not among them.
    base: u32,
    /// The newest of all; 0: no tables were ever in force.
    newest: u32,
}

impl Epochs {
    #[inline]
    fn of(&self, port: usize) -> u32 {
        self.of_port.get(port).copied().unwrap_or(self.base)
    }

    fn forget_all(&mut self) {
        self.base = self.newest;
        self.of_port.clear();
    }
}

/// The flows of one kind.
struct Flows<W>(Places<Set<W>>);

impl<W: Words + Debug> Debug for Flows<W> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<W: Words> Flows<W> {
    fn new(flows_max: usize) -> Self {
        Self(Places::new(Set::default(), flows_max.div_ceil(WAYS).next_power_of_two()))
    }

    /// The flow's hash is at hand, and one multiplication by what nobody outside knows moves it to
    /// another place. Flows that share the hash itself share a set too: all that its sender gains is
    /// the slow path, which any new flow takes.
    #[inline]
    fn set(&self, asked: FlowQuery<'_>, seed: u64) -> usize {
        let place = u64::from(asked.fields.0) << u16::BITS | u64::from(asked.port);
        let hash = (asked.flow_hash ^ place).wrapping_mul(seed | 1);
        (hash >> 32) as usize & (self.0.len() - 1)
    }

    #[inline]
    fn prefetch(&self, asked: FlowQuery<'_>, seed: u64) {
        if let Some(set) = self.0.get(self.set(asked, seed)) {
            prefetch_whole(set);
        }
    }

    #[inline]
    fn find(
        &mut self,
        asked: FlowQuery<'_>,
        (seed, epochs): (u64, &Epochs),
        now_ms: u32,
    ) -> Option<CachedVerdict> {
        let (set, words) = (self.set(asked, seed), W::of(asked));
        let epoch = epochs.of(asked.port.into());
        let mut entries = self.0.get_mut(set)?.0.iter_mut();
        let entry = entries.find(|entry| entry.words == words && entry.epoch == epoch)?;
        if entry.own == NO_PATH {
            return Some(CachedVerdict::Ordinary);
        }
        // Whether the controller has to be asked for a flow that paused, the rules' way knows.
        if now_ms.wrapping_sub(entry.noted_ms) > SETUP_IDLE_MS {
            return None;
        }
        let is_due = std::mem::replace(&mut entry.noted_ms, now_ms) != now_ms;
        let path = CachedPath { own: entry.own, shape: entry.shape };
        Some(CachedVerdict::Enters { path, is_due })
    }

    fn learn(
        &mut self,
        asked: FlowQuery<'_>,
        (seed, epochs): (u64, &Epochs),
        now_ms: u32,
        entrance: Option<CachedPath>,
    ) {
        let (set, words) = (self.set(asked, seed), W::of(asked));
        let Some(Set(entries)) = self.0.get_mut(set) else { return };
        let age = |entry: &Entry<W>| match entry.epoch == epochs.of(entry.words.port()) {
            true => now_ms.wrapping_sub(entry.noted_ms),
            false => u32::MAX,
        };
        let CachedPath { own, shape } = entrance.unwrap_or(CachedPath { own: NO_PATH, shape: 0 });
        let known = entries.iter().position(|entry| entry.words == words);
        let place = known.or_else(|| (0..WAYS).max_by_key(|place| age(&entries[*place])));
        if let Some(place) = place {
            let epoch = epochs.of(asked.port.into());
            entries[place] = Entry { words, epoch, noted_ms: now_ms, own, shape };
        }
    }
}

/// The memory.
#[derive(Debug)]
pub(crate) struct FlowCache {
    narrow: Flows<NarrowWords>,
    wide: Flows<WideWords>,
    seed: u64,
    epochs: Epochs,
}

impl Default for FlowCache {
    fn default() -> Self {
        Self::new(WAYS, 0)
    }
}

impl FlowCache {
    /// Room for this many flows of untagged IPv4, and for a quarter as many others, which take twice the
    /// memory, each rounded up to a power of two.
    pub(crate) fn new(flows_max: usize, seed: u64) -> Self {
        let epochs = Epochs { of_port: Vec::new(), base: 0, newest: 0 };
        Self {
            narrow: Flows::new(flows_max),
            wide: Flows::new(flows_max.div_ceil(WIDE_SHARE)),
            seed,
            epochs,
        }
    }

    /// Other tables are in force: what was decided under those before counts no more for these ports.
    pub(crate) fn forget(&mut self, ports: &Entered) {
        let epochs = &mut self.epochs;
        epochs.newest = epochs.newest.wrapping_add(1);
        if epochs.newest == 0 {
            self.narrow.0.fill(Set::default());
            self.wide.0.fill(Set::default());
            epochs.newest = 1;
            epochs.forget_all();
        }
        match ports {
            Entered::All => epochs.forget_all(),
            Entered::By(ports) => {
                for PortIndex(port) in ports {
                    let place = usize::from(*port);
                    let of_port = &mut epochs.of_port;
                    of_port.resize(of_port.len().max(place + 1), epochs.base);
                    of_port[place] = epochs.newest;
                }
            }
        }
    }

    #[inline(always)]
    pub(crate) fn prefetch(&self, asked: FlowQuery<'_>) {
        if asked.is_narrow() {
            self.narrow.prefetch(asked, self.seed);
        } else {
            self.wide.prefetch(asked, self.seed);
        }
    }

    /// What was decided; none: nothing is known.
    #[inline(always)]
    pub(crate) fn find(&mut self, asked: FlowQuery<'_>, now_ms: u32) -> Option<CachedVerdict> {
        let with = (self.seed, &self.epochs);
        if asked.is_narrow() {
            self.narrow.find(asked, with, now_ms)
        } else {
            self.wide.find(asked, with, now_ms)
        }
    }

    /// Keeps what was decided, in place of what is no longer valid or was noted longest ago.
    pub(crate) fn learn(
        &mut self,
        asked: FlowQuery<'_>,
        now_ms: u32,
        entrance: Option<CachedPath>,
    ) {
        let with = (self.seed, &self.epochs);
        if asked.is_narrow() {
            self.narrow.learn(asked, with, now_ms, entrance);
        } else {
            self.wide.learn(asked, with, now_ms, entrance);
        }
    }
}
