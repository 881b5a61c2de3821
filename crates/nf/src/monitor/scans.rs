//! Sources that look for what answers. Knows how many places a source has asked of late, nearly.
//!
//! Of each source that asks for a connection of TCP, a window of time is looked at, from its first SYN on:
//! each pair of address and port that it asks sets one of 1,024 bits, a SYN/ACK of the pair clears it. When
//! the window ends, more bits than so many pairs set by chance (1,024 (1 - e^(-n / 1,024))) are a scan.
//! So the count is off where pairs share bits: of 100 pairs by two, most often. What is
//! still on its way when a window ends counts as not answered. A scan across two windows is found when one
//! of them has enough of it. Of 1,024 sources at once each is looked at; one more ends the window of the
//! oldest. A source is told once, and again only behind a window that was no scan.

use super::table::{Keyed, Table};
use crate::packet::Time;
use catena_wire::flow::FlowKey;
use catena_wire::scalar::IpProtocol;
use std::net::IpAddr;

/// Sources that are looked at.
const SOURCES_MAX: usize = 1_024;
const WORDS: usize = 16;
const BITS: u32 = 64 * WORDS as u32;

/// What is a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanLimit {
    /// Pairs of address and port that a source may ask in vain, from 1 to 512.
    pub pairs: u32,
    /// Within so many seconds, from 1 on.
    pub seconds: u32,
}

impl ScanLimit {
    /// The most that [`Self::pairs`] may be: beyond it bits say little.
    pub const PAIRS_MAX: u32 = BITS / 2;

    /// Bits that so many pairs set, most likely.
    fn bits(self) -> u32 {
        let share = f64::from(self.pairs) / f64::from(BITS);
        (f64::from(BITS) * -(-share).exp_m1()).round() as u32
    }
}

impl Default for ScanLimit {
    fn default() -> Self {
        Self { pairs: 100, seconds: 10 }
    }
}

/// What is known of a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Source {
    pub(super) began: Time,
    /// The order of windows that began at one moment.
    pub(super) window: u64,
    pub(super) pairs: [u64; WORDS],
    pub(super) was_told: bool,
    pub(super) is_dirty: bool,
}

impl Keyed for IpAddr {
    fn hash(&self, seed: u64) -> u64 {
        pair_hash(*self, 0, seed)
    }
}

fn pair_hash(address: IpAddr, port: u16, seed: u64) -> u64 {
    let (source_port, destination_port) = (0, port);
    let (source, destination, protocol) = (address, address, IpProtocol::TCP);
    FlowKey { source, destination, protocol, source_port, destination_port }.seeded_hash(seed)
}

/// Which bit of which word a pair has.
fn place((address, port): (IpAddr, u16), seed: u64) -> (usize, u64) {
    let hash = pair_hash(address, port, seed) >> 32;
    (hash as usize % WORDS, 1 << (hash >> 16 & 63))
}

/// What ends a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Judged {
    pub(super) source: IpAddr,
    /// It is to be told.
    pub(super) is_found: bool,
    /// It is looked at no longer.
    pub(super) is_gone: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Scans {
    limit: ScanLimit,
    bits_max: u32,
    seed: u64,
    /// Windows that began.
    windows: u64,
    pub(super) sources: Table<IpAddr, Source>,
}

impl Scans {
    pub(super) fn new(limit: ScanLimit, seed: u64) -> Self {
        let sources = Table::new(SOURCES_MAX, seed);
        Self { limit, bits_max: limit.bits(), seed, windows: 0, sources }
    }

    /// Nanoseconds of a window.
    fn window(&self) -> u64 {
        Time::seconds(self.limit.seconds.into()).0
    }

    /// A source asks for a connection with a pair. Answers false where [`Self::judge_oldest`] must make
    /// room before.
    pub(super) fn asked(&mut self, source: IpAddr, pair: (IpAddr, u16), now: Time) -> bool {
        let found = self.sources.find(&source);
        self.windows = self.windows.wrapping_add(found.is_none().into());
        let begun = Source { began: now, window: self.windows, ..Source::default() };
        let Some(at) = found.or_else(|| self.sources.insert(source, begun)) else { return false };
        self.mark(at, pair, |word, bit| *word |= bit);
        true
    }

    /// Gives sources that were taken over their order.
    pub(super) fn sort(&mut self) {
        let windows = self.sources.iter().map(|(_, source)| source.window);
        self.windows = windows.fold(self.windows, u64::max);
        self.sources.sort_by_key(|source| (source.began, source.window));
    }

    /// A pair answers a source.
    pub(super) fn answered(&mut self, source: IpAddr, pair: (IpAddr, u16)) {
        if let Some(at) = self.sources.find(&source) {
            self.mark(at, pair, |word, bit| *word &= !bit);
        }
    }

    fn mark(&mut self, at: u32, pair: (IpAddr, u16), how: impl Fn(&mut u64, u64)) {
        let (word, bit) = place(pair, self.seed);
        if let Some(source) = self.sources.get_mut(at) {
            source.pairs.get_mut(word).into_iter().for_each(|word| how(word, bit));
            source.is_dirty = true;
        }
    }

    /// Ends the window that began first, if its time is over; none: there is none.
    #[inline]
    pub(super) fn judge(&mut self, now: Time) -> Option<Judged> {
        let (_, source) = self.sources.get(self.sources.oldest()?)?;
        let is_over = now.since(source.began) >= self.window();
        if is_over { self.judge_oldest(now, false) } else { None }
    }

    /// Ends the window that began first. `is_last`: the source is looked at no longer in any case.
    pub(super) fn judge_oldest(&mut self, now: Time, is_last: bool) -> Option<Judged> {
        let at = self.sources.oldest()?;
        let (source, known) = *self.sources.get(at)?;
        let is_scan = known.pairs.iter().map(|word| word.count_ones()).sum::<u32>() > self.bits_max;
        // Nobody looked while a whole window without any passed.
        let is_over = now.since(known.began) >= 2 * self.window();
        let is_gone = is_last || is_over || !is_scan;
        if is_gone {
            self.sources.remove(at);
        } else {
            self.windows = self.windows.wrapping_add(1);
            let (window, pairs) = (self.windows, [0; WORDS]);
            let began = Source { began: now, window, pairs, was_told: true, is_dirty: true };
            *self.sources.get_mut(at)? = began;
            self.sources.touch(at);
        }
        Some(Judged { source, is_found: is_scan && !known.was_told, is_gone })
    }
}
