//! Later fragments whose first has not come, until it does. Knows for how long, how many and how
//! many bytes of each place; refuses to know what the first will say.
//!
//! All wait equally long, so the oldest is always at the front. Where all places are taken, the
//! place that has most gives one up for a place that has fewer.

use super::{FragmentName, FragmentScope};
use crate::engine::encap::PathPosition;
use crate::engine::vector::Work;
use crate::engine::vector::decision::Epoch;
use catena_model::DropReason;
use catena_model::PathId;
use catena_model::limits::{
    FRAGMENT_WAIT_MS, NODE_FRAGMENTS_WAITING_MAX, PORT_FRAGMENT_BYTES_WAITING_MAX,
    PORT_FRAGMENTS_WAITING_MAX,
};
use std::collections::VecDeque;

const WAIT_NS: u64 = FRAGMENT_WAIT_MS * 1_000_000;

/// A position on a path, and what it takes to find it in later tables.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Standing {
    pub(crate) position: PathPosition,
    pub(crate) path: PathId,
    pub(crate) serial: u64,
    pub(crate) hop: u16,
    pub(crate) epoch: Epoch,
}

/// A fragment that waits.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) work: Work,
    /// Where on a path it is; none: it stands before its port's first stage.
    pub(crate) standing: Option<Standing>,
    name: FragmentName,
    since_ns: u64,
}

/// What waits of one place.
#[derive(Debug)]
struct Share {
    scope: FragmentScope,
    packets: usize,
    bytes: usize,
}

/// All that wait.
#[derive(Debug)]
pub(super) struct Waitlist {
    held: VecDeque<Held>,
    /// Of each of them the hash of its name, so that looking for one reads little.
    hashes: VecDeque<u64>,
    shares: Vec<Share>,
}

impl Waitlist {
    pub(super) fn new() -> Self {
        Self {
            held: VecDeque::with_capacity(NODE_FRAGMENTS_WAITING_MAX),
            hashes: VecDeque::with_capacity(NODE_FRAGMENTS_WAITING_MAX),
            shares: Vec::with_capacity(NODE_FRAGMENTS_WAITING_MAX),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.held.len()
    }

    /// When the oldest has waited long enough.
    pub(super) fn next_end_ns(&self) -> Option<u64> {
        self.held.front().map(|held| held.since_ns + WAIT_NS)
    }

    /// Lets a fragment wait, or answers which one finds no room, this or another.
    pub(super) fn hold(
        &mut self,
        now_ns: u64,
        name: FragmentName,
        work: Work,
        standing: Option<Standing>,
    ) -> Option<(Work, DropReason)> {
        let bytes = work.buffer.len();
        let own = self.shares.iter().find(|share| share.scope == name.scope);
        let (packets_before, bytes_before) = own.map_or((0, 0), |own| (own.packets, own.bytes));
        if packets_before >= PORT_FRAGMENTS_WAITING_MAX
            || bytes_before + bytes > PORT_FRAGMENT_BYTES_WAITING_MAX
        {
            return Some((work, DropReason::FragmentsWaitingFull));
        }
        let mut given_up = None;
        if self.held.len() >= NODE_FRAGMENTS_WAITING_MAX {
            let most = self.shares.iter().max_by_key(|share| share.packets);
            let from = most.filter(|most| most.packets > packets_before + 1);
            let from = from.map(|most| most.scope);
            let place = self.held.iter().position(|held| Some(held.name.scope) == from);
            let Some(place) = place else {
                return Some((work, DropReason::FragmentsWaitingFull));
            };
            given_up = self.take(place).map(|held| (held.work, DropReason::FragmentsWaitingFull));
        }
        self.hashes.push_back(name.hash);
        match self.shares.iter_mut().find(|share| share.scope == name.scope) {
            Some(share) => {
                share.packets += 1;
                share.bytes += bytes;
            }
            None => self.shares.push(Share { scope: name.scope, packets: 1, bytes }),
        }
        self.held.push_back(Held { work, standing, name, since_ns: now_ns });
        given_up
    }

    /// The next fragment of a packet whose first has come, in the order in which they came.
    pub(super) fn next_of(&mut self, name: &FragmentName) -> Option<Held> {
        if self.held.is_empty() {
            return None;
        }
        let alike = self.hashes.iter().enumerate().filter(|(_, hash)| **hash == name.hash);
        let place = alike
            .map(|(place, _)| place)
            .find(|place| self.held.get(*place).is_some_and(|held| held.name == *name))?;
        self.take(place)
    }

    /// The next that has waited for too long.
    pub(super) fn next_ended(&mut self, now_ns: u64) -> Option<Work> {
        let is_over = self.next_end_ns().is_some_and(|end| end <= now_ns);
        is_over.then(|| self.take(0))?.map(|held| held.work)
    }

    fn take(&mut self, place: usize) -> Option<Held> {
        self.hashes.remove(place);
        let held = self.held.remove(place)?;
        let at = self.shares.iter().position(|share| share.scope == held.name.scope)?;
        let share = &mut self.shares[at];
        share.packets -= 1;
        share.bytes -= held.work.buffer.len();
        if share.packets == 0 {
            self.shares.swap_remove(at);
        }
        Some(held)
    }
}
