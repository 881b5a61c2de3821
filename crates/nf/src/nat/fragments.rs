//! What became of first fragments, for those behind them (RFC 4787 REQ-14). Knows packets by addresses, protocol and
//! identification; refuses to hold fragments that come before their first.

use crate::monitor::table::{Keyed, Table};
use crate::packet::{Direction, Time};
use catena_model::limits::{NAT_FRAGMENT_S, NAT_FRAGMENTS_MAX};
use catena_wire::flow::mix;
use catena_wire::scalar::IpProtocol;
use std::net::Ipv4Addr;

/// What the fragments of a packet have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Whole {
    pub(super) direction: Direction,
    pub(super) source: Ipv4Addr,
    pub(super) destination: Ipv4Addr,
    pub(super) protocol: IpProtocol,
    pub(super) identification: u16,
}

impl Keyed for Whole {
    fn hash(&self, seed: u64) -> u64 {
        let ends = u64::from(self.source.to_bits()) << 32 | u64::from(self.destination.to_bits());
        let rest = (self.direction as u64) << 24
            | u64::from(self.protocol.0) << 16
            | u64::from(self.identification);
        mix(mix(mix(seed) ^ ends) ^ rest)
    }
}

/// What became of its first fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct First {
    pub(super) source: Option<Ipv4Addr>,
    pub(super) destination: Option<Ipv4Addr>,
    /// Did it go back inside?
    pub(super) returns: bool,
    /// The rule that translated it.
    pub(super) rule: Option<u32>,
}

/// The same, with when it came.
#[derive(Clone, Copy, Debug)]
pub(super) struct Noted {
    pub(super) first: First,
    pub(super) at: Time,
    /// Its place among all that were noted.
    pub(super) number: u64,
    is_dirty: bool,
}

/// First fragments that were seen.
#[derive(Clone, Debug)]
pub(super) struct Fragments {
    table: Table<Whole, Noted>,
    noted: u64,
}

impl Fragments {
    pub(super) fn new(seed: u64) -> Self {
        Self { table: Table::new(NAT_FRAGMENTS_MAX, seed), noted: 0 }
    }

    /// What became of the first fragment of a packet; none: it was not seen, or too long ago.
    pub(super) fn find(&self, now: Time, whole: &Whole) -> Option<First> {
        let (_, noted) = self.table.get(self.table.find(whole)?)?;
        (now.since(noted.at) < Time::seconds(NAT_FRAGMENT_S).0).then_some(noted.first)
    }

    /// Notes what becomes of a first fragment. Where there is no room, it takes that of the one that was seen
    /// longest ago.
    pub(super) fn note(&mut self, now: Time, whole: Whole, first: First) {
        self.put(whole, Noted { first, at: now, number: self.noted, is_dirty: true });
    }

    pub(super) fn put(&mut self, whole: Whole, noted: Noted) {
        self.noted = self.noted.max(noted.number.saturating_add(1));
        if let Some(slot) = self.table.find(&whole) {
            self.table.remove(slot);
        }
        if self.table.len() >= NAT_FRAGMENTS_MAX
            && let Some(oldest) = self.table.oldest()
        {
            self.table.remove(oldest);
        }
        self.table.insert(whole, noted);
    }

    pub(super) fn read(first: First, at: Time, number: u64) -> Noted {
        Noted { first, at, number, is_dirty: true }
    }

    pub(super) fn sort(&mut self) {
        self.table.sort_by_key(|noted| noted.number);
    }

    /// Tells what was noted since the last time, or all.
    pub(super) fn export(&mut self, all: bool, mut tell: impl FnMut(&Whole, &Noted)) {
        for (whole, noted) in self.table.iter_mut() {
            if std::mem::take(&mut noted.is_dirty) || all {
                tell(whole, noted);
            }
        }
    }
}
