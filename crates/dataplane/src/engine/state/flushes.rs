//! Ways that have just turned: what would leave by one waits until the former way is flushed, so that it overtakes
//! nothing that is still on it. Knows how long, how many of whom may wait and in which order; refuses to know ways, and
//! what becomes of packets.
//!
//! The time is no proof: it is longer than what the queues of a way ordinarily hold. An owner for whose packets there
//! is no room has them go at once, in their order, and those of others go on waiting.

use crate::engine::collections::shares::{Shares, leaves_room};
use crate::engine::vector::Work;
use crate::engine::vector::decision::Decision;
use crate::engine::vector::owner::Owner;
use catena_model::PathId;
use catena_model::id::{InstanceId, PortId};
use catena_model::limits::{WAY_FLUSH_MS, WAY_FLUSH_PACKETS_MAX};
use std::collections::{BTreeMap, VecDeque};

const FLUSH_NS: u64 = WAY_FLUSH_MS * 1_000_000;

/// A packet that waits, with what it goes on by under whatever tables are in force then.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) work: Work,
    pub(crate) decision: Decision,
    /// The path that it is on, and its serial.
    pub(crate) path: (PathId, u64),
    /// The instance that it is for.
    pub(crate) instance: InstanceId,
}

/// There is no room for a packet: it goes at once, behind those of its owner that have waited for the same way.
#[derive(Debug)]
pub(crate) struct NoRoom {
    pub(crate) before: VecDeque<Waiting>,
    pub(crate) own: Waiting,
}

/// A way that has turned.
#[derive(Debug)]
struct Flush {
    until_ns: u64,
    /// In the order in which they came.
    works: VecDeque<Waiting>,
    /// Whose packets go at once, as there was no room for them.
    hurried: Vec<Owner>,
}

/// All of them.
#[derive(Debug)]
pub(crate) struct Flushes {
    /// By the port that they lead to.
    ways: BTreeMap<PortId, Flush>,
    /// Wire packets that wait.
    packets: usize,
    packets_of: Shares<Owner>,
}

impl Flushes {
    /// No way has turned.
    pub(crate) fn new() -> Self {
        Self { ways: BTreeMap::new(), packets: 0, packets_of: Shares::new() }
    }

    /// Has no way turned lately?
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.ways.is_empty()
    }

    /// Packets and super-frames that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.ways.values().map(|flush| flush.works.len()).sum()
    }

    /// The way to this port is another from now on. Where nothing has left since it turned before, the way of then is
    /// still the one that is flushed.
    pub(crate) fn begin(&mut self, now_ns: u64, to: PortId) {
        let until_ns = now_ns.saturating_add(FLUSH_NS);
        let new = || Flush { until_ns, works: VecDeque::new(), hurried: Vec::new() };
        let flush = self.ways.entry(to).or_insert_with(new);
        if !flush.hurried.is_empty() {
            flush.hurried.clear();
            flush.until_ns = until_ns;
        }
    }

    /// Has the way to this port turned lately?
    pub(crate) fn is_flushing(&self, to: PortId) -> bool {
        self.ways.contains_key(&to)
    }

    /// Lets a packet wait. `buffers`: those that are free.
    ///
    /// # Errors
    /// Those that go at once.
    pub(crate) fn hold(
        &mut self,
        to: PortId,
        waiting: Waiting,
        buffers: usize,
    ) -> Result<(), Box<NoRoom>> {
        let owner = waiting.work.owner;
        // A buffer is needed for each wire packet that leaves, too.
        let free = WAY_FLUSH_PACKETS_MAX.saturating_sub(self.packets).min(buffers / 2);
        let has_room = leaves_room(self.packets_of.held_by(&owner), free);
        let Some(flush) = self.ways.get_mut(&to) else {
            return Err(Box::new(NoRoom { before: VecDeque::new(), own: waiting }));
        };
        let is_hurried = flush.hurried.contains(&owner);
        if has_room && !is_hurried {
            self.packets += packets(&waiting);
            (0..packets(&waiting)).for_each(|_| _ = self.packets_of.take(owner));
            flush.works.push_back(waiting);
            return Ok(());
        }
        let mut before = VecDeque::new();
        if !is_hurried {
            flush.hurried.push(owner);
            let all = std::mem::take(&mut flush.works).into_iter();
            let (own, others) = all.partition(|one| one.work.owner == owner);
            (before, flush.works) = (own, others);
            before.iter().for_each(|one| self.give_back(one));
        }
        Err(Box::new(NoRoom { before, own: waiting }))
    }

    /// The packets of the next way whose time is over, in their order: they go.
    pub(crate) fn next_over(&mut self, now_ns: u64) -> Option<VecDeque<Waiting>> {
        let mut ways = self.ways.iter();
        let (to, _) = ways.find(|(_, flush)| flush.until_ns <= now_ns)?;
        let to = *to;
        let works = self.ways.remove(&to)?.works;
        works.iter().for_each(|one| self.give_back(one));
        Some(works)
    }

    /// When packets are to go; none: none waits.
    pub(crate) fn next_over_ns(&self) -> Option<u64> {
        let ways = self.ways.values().filter(|flush| !flush.works.is_empty());
        ways.map(|flush| flush.until_ns).min()
    }

    fn give_back(&mut self, one: &Waiting) {
        self.packets = self.packets.saturating_sub(packets(one));
        (0..packets(one)).for_each(|_| self.packets_of.give_back_by(&one.work.owner));
    }
}

/// Wire packets of what waits.
fn packets(waiting: &Waiting) -> usize {
    usize::try_from(waiting.work.volume.packets).unwrap_or(usize::MAX)
}
