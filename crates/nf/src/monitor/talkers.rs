//! Who talks most. Knows the records that ended last, as many as there is room for.

use super::flow::{Key, Record};
use crate::packet::{Direction, Time};
use catena_wire::flow::FlowKey;
use catena_wire::ipfix::EndReason;
use catena_wire::tcp::TcpFlags;
use std::cmp::Reverse;

/// Records that have ended and are remembered.
const RECENT_MAX: usize = 1_024;

/// A record, open or ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Talker {
    /// Its flow; of ICMP and ICMPv6 the ports are 0 and type and code.
    pub flow: FlowKey,
    /// The way that its packets go.
    pub direction: Direction,
    /// Its packets.
    pub packets: u64,
    /// Its bytes, IP headers included.
    pub bytes: u64,
    /// Flags of TCP that any of them had.
    pub tcp_flags: TcpFlags,
    /// When the first came.
    pub first: Time,
    /// When the last came.
    pub last: Time,
    /// Why it ended; none: it is open.
    pub end: Option<EndReason>,
}

impl Talker {
    pub(super) fn of(key: &Key, record: &Record, end: Option<EndReason>) -> Self {
        Self {
            flow: key.flow,
            direction: key.direction,
            packets: record.packets,
            bytes: record.bytes,
            tcp_flags: record.flags,
            first: record.first,
            last: record.last,
            end,
        }
    }
}

/// Those with most bytes.
pub(super) fn top(mut talkers: Vec<Talker>, wanted: usize) -> Vec<Talker> {
    let order = |talker: &Talker| {
        (Reverse(talker.bytes), talker.flow, talker.direction, talker.first, talker.last)
    };
    if wanted < talkers.len() {
        talkers.select_nth_unstable_by_key(wanted, order);
        talkers.truncate(wanted);
    }
    talkers.sort_unstable_by_key(order);
    talkers
}

/// The records that ended last.
#[derive(Clone, Debug)]
pub(super) struct Recent {
    ended: Vec<Talker>,
    next: usize,
}

impl Recent {
    pub(super) fn new() -> Self {
        Self { ended: Vec::with_capacity(RECENT_MAX), next: 0 }
    }

    /// Remembers one, in the place of the oldest.
    pub(super) fn put(&mut self, talker: Talker) {
        match self.ended.get_mut(self.next) {
            Some(place) => *place = talker,
            None => self.ended.push(talker),
        }
        self.next = (self.next + 1) % RECENT_MAX;
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Talker> {
        self.ended.iter()
    }
}
