//! Slices: which traffic of 5G users enters which path of its own. Knows who claims a packet by
//! network, user and QoS flow, in time that does not grow with their number; refuses to read packets
//! and to know where a path leads.
//!
//! Slices of one place are sorted by which fields they give. For each such pattern that is in use
//! there is one table: users given one by one are found by a hash, ranges of them by the segments
//! that they cut (`ranges`), all others by network and QoS flow. So a packet costs one look-up for
//! each pattern of its place, of which there are twelve at most, most fields first.

mod delta;
mod ranges;
#[cfg(test)]
mod tests;

use crate::engine::collections::sharing::{Chunks, Numbers};
use crate::engine::packet::index::{NetworkIndex, PortIndex, SliceIndex};
use catena_io::prefetch;
use catena_model::program::{SliceMatch, SlicePathEntry, SlicePolicy};
use catena_model::slice::SlicePlace;
use catena_model::{PathId, SliceId};
use catena_search::{Hashed, SharedMap};
use catena_wire::flow::mix;
use catena_wire::nsh::UserContext;
use catena_wire::scalar::{Qfi, Teid, TunnelId};
use imbl::OrdMap;
use ranges::{Claim, Claimant, Ranges};
use std::sync::Arc;

/// Where packets are when slices take them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Scope(pub(crate) u32);

impl Scope {
    const INDEX_BITS: u32 = 30;

    const fn new(kind: u32, index: u32) -> Self {
        // All indexes are below 2^21.
        Self(kind << Self::INDEX_BITS | index)
    }

    /// The index of what it is a place of, if it is a port, or all ports of a network.
    pub(crate) fn index(self) -> Option<Result<PortIndex, NetworkIndex>> {
        let index = u16::try_from(self.0 & ((1 << Self::INDEX_BITS) - 1)).unwrap_or(u16::MAX);
        match self.0 >> Self::INDEX_BITS {
            0 => Some(Err(NetworkIndex(index))),
            1 => Some(Ok(PortIndex(index))),
            _ => None,
        }
    }

    pub(crate) fn network(network: NetworkIndex) -> Self {
        Self::new(0, u32::from(network.0))
    }

    pub(crate) fn port(port: PortIndex) -> Self {
        Self::new(1, u32::from(port.0))
    }

    /// The end of what has this index: of a path for rules, of a chain for slices.
    pub(crate) const fn after(ended: u32) -> Self {
        Self::new(2, ended)
    }
}

impl Hashed for Scope {
    fn hash(&self) -> u64 {
        mix(u64::from(self.0))
    }
}

/// A place with a network and a QoS flow, or none of either.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Group {
    place: Scope,
    /// Kind of the network's identifier and QoS flow, each one above its number; 0: none.
    kinds: u16,
    network: u64,
}

impl Group {
    fn new(place: Scope, tunnel_id: Option<TunnelId>, qfi: Option<Qfi>) -> Self {
        let (kind, network) = tunnel_id.map_or((0, 0), TunnelId::parts);
        let qfi = qfi.map_or(0, |qfi| u16::from(qfi.get()) + 1);
        Self { place, kinds: u16::from(kind) << 8 | qfi, network }
    }

    /// All but the network, in the lower 48 bits.
    fn rest(self) -> u64 {
        u64::from(self.kinds) << 32 | u64::from(self.place.0)
    }
}

impl Hashed for Group {
    fn hash(&self) -> u64 {
        mix(mix(self.network) ^ self.rest())
    }
}

/// A user of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OneUser {
    group: Group,
    teid: Teid,
}

impl Hashed for OneUser {
    fn hash(&self) -> u64 {
        mix(mix(self.group.network ^ u64::from(self.teid.0) << 32) ^ self.group.rest())
    }
}

/// A place as a packet asks there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot {
    place: Scope,
    /// The patterns in use, as bits.
    used: u16,
}

impl Spot {
    /// Does a slice ask there for what is not known of a packet?
    pub(crate) fn asks_beyond(&self, shown: UserContext) -> bool {
        let patterns = PATTERNS.iter().enumerate().filter(|(at, _)| self.used & 1 << at != 0);
        let mut asked = patterns.map(|(_, pattern)| pattern);
        asked.any(|pattern| {
            let asks_for_user = pattern.users != Users::All || pattern.has_qfi;
            asks_for_user && shown.teid.is_none()
                || pattern.has_network && shown.tunnel_id.is_none()
        })
    }

    /// Do no slices take packets there?
    pub(crate) fn is_empty(&self) -> bool {
        self.used == 0
    }
}

/// Which fields a slice gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pattern {
    has_network: bool,
    has_qfi: bool,
    users: Users,
}

/// How a slice names its users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Users {
    All,
    Range,
    One,
}

/// The patterns in the order in which a packet asks: most fields first.
const PATTERNS: [Pattern; 12] = {
    const fn pattern(has_network: bool, has_qfi: bool, users: Users) -> Pattern {
        Pattern { has_network, has_qfi, users }
    }
    [
        pattern(true, true, Users::One),
        pattern(true, true, Users::Range),
        pattern(true, false, Users::One),
        pattern(true, false, Users::Range),
        pattern(false, true, Users::One),
        pattern(false, true, Users::Range),
        pattern(true, true, Users::All),
        pattern(false, false, Users::One),
        pattern(false, false, Users::Range),
        pattern(true, false, Users::All),
        pattern(false, true, Users::All),
        pattern(false, false, Users::All),
    ]
};

/// Patterns with equally many fields, as bits of their places in [`PATTERNS`]; those with most
/// first.
const LEVELS: [u16; 4] = [0b11, 0b111_1100, 0b111_1000_0000, 0b1000_0000_0000];

impl Pattern {
    fn of(matches: &SliceMatch) -> Self {
        let users = match matches.teids {
            None => Users::All,
            Some(range) if range.first() == range.last() => Users::One,
            Some(_) => Users::Range,
        };
        Self { has_network: matches.tunnel_id.is_some(), has_qfi: matches.qfi.is_some(), users }
    }

    /// Where slices of this pattern are that take a packet which shows this.
    fn group(&self, place: Scope, shown: UserContext) -> Group {
        let network = shown.tunnel_id.filter(|_| self.has_network);
        let qfi = shown.qfi.filter(|_| self.has_qfi);
        Group::new(place, network, qfi)
    }

    fn place(self) -> usize {
        PATTERNS.iter().position(|pattern| *pattern == self).unwrap_or(0)
    }
}

/// How many slices of a place have each pattern.
#[derive(Clone, Copy, Debug, Default)]
struct PatternCounts {
    /// The patterns in use, as bits.
    used: u16,
    counts: [u32; PATTERNS.len()],
}

/// A slice.
#[derive(Clone, Debug)]
pub(crate) struct SliceTable {
    pub(crate) path: PathId,
    pub(crate) id: SliceId,
    pub(crate) policy: SlicePolicy,
    pub(crate) matches: SliceMatch,
    /// None: where it takes from is not here, so no packet comes.
    place: Option<Scope>,
    pub(crate) name: Arc<str>,
    pub(crate) is_injected: bool,
}

impl SliceTable {
    /// Users it claims, less one; all: as many as there are.
    fn width(&self) -> u32 {
        self.matches.teids.map_or(u32::MAX, |range| range.last().0 - range.first().0)
    }
}

/// All slices of a program.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slices {
    /// Place 0 is never used.
    entries: Chunks<Option<SliceTable>>,
    /// By the same places, of those without a policy the paths: a packet needs no more of a slice, and
    /// eight of these are in one line of the processor's cache.
    direct: Chunks<Option<PathId>>,
    /// Each is one below its place.
    numbers: Numbers,
    of_id: SharedMap<SliceId, SliceIndex>,
    /// How many have a rate or a delay class.
    held_back: u32,
    places: SharedMap<Scope, PatternCounts>,
    users: SharedMap<OneUser, Claim>,
    ranges: SharedMap<Group, Arc<Ranges>>,
    groups: SharedMap<Group, Claim>,
    paths: SharedMap<PathId, SlicePathEntry>,
    /// How many slices speak of each path, if any.
    uses: SharedMap<PathId, u32>,
    /// Those that were put in by hand.
    injected: Vec<(SliceId, PathId)>,
    /// How many slices are sent into the hops of each path, if any are.
    likes: SharedMap<PathId, u32>,
    /// How many take packets at each port or behind each chain, whether that is here or not.
    at: OrdMap<SlicePlace, u32>,
}

impl Slices {
    pub(crate) fn is_empty(&self) -> bool {
        self.of_id.is_empty()
    }

    pub(crate) fn get(&self, index: SliceIndex) -> Option<&SliceTable> {
        self.entries.get(index.0.get() as usize)?.as_ref()
    }

    pub(crate) fn of_id(&self, id: SliceId) -> Option<&SliceTable> {
        self.get(*self.of_id.get(&id)?)
    }

    /// Does a slice take packets from one of these places?
    #[inline]
    pub(crate) fn take_from(&self, places: &[Scope]) -> bool {
        !self.places.is_empty() && places.iter().any(|place| self.places.get(place).is_some())
    }

    /// What there is to be asked at a place.
    #[inline]
    pub(crate) fn spot(&self, place: Scope) -> Spot {
        let used = match self.places.is_empty() {
            true => 0,
            false => self.places.get(&place).map_or(0, |counts| counts.used),
        };
        Spot { place, used }
    }

    /// Asks the processor for where the slice of a packet with a user of its own is found.
    #[inline]
    pub(crate) fn prefetch(&self, spots: &[Spot], shown: UserContext) {
        let Some(teid) = shown.teid else { return };
        for Spot { place, used } in spots {
            let first = PATTERNS.get(used.trailing_zeros() as usize);
            if let Some(pattern) = first.filter(|pattern| pattern.users == Users::One) {
                self.users.prefetch(&OneUser { group: pattern.group(*place, shown), teid });
            }
        }
    }

    /// The same for the path of a slice.
    #[inline]
    pub(crate) fn prefetch_direct(&self, index: SliceIndex) {
        if let Some(path) = self.direct.get(index.0.get() as usize) {
            prefetch(path);
        }
    }

    /// The path of a slice that holds no packets back.
    #[inline]
    pub(crate) fn direct(&self, index: SliceIndex) -> Option<PathId> {
        *self.direct.get(index.0.get() as usize)?
    }

    /// The slice that takes a packet at these places that shows this.
    pub(crate) fn find(&self, spots: &[Spot], shown: UserContext) -> Option<SliceIndex> {
        let shows = |pattern: &Pattern| {
            (!pattern.has_network || shown.tunnel_id.is_some())
                && (!pattern.has_qfi || shown.qfi.is_some())
                && (pattern.users == Users::All || shown.teid.is_some())
        };
        for level in LEVELS {
            let mut best: Option<Claimant> = None;
            for Spot { place, used } in spots {
                let mut asked = used & level;
                while asked != 0 {
                    let pattern = &PATTERNS[asked.trailing_zeros() as usize];
                    asked &= asked - 1;
                    if !shows(pattern) {
                        continue;
                    }
                    let Some(found) = self.claimant(*place, pattern, shown) else { continue };
                    if best.is_none_or(|best| self.goes_before(found, best)) {
                        best = Some(found);
                    }
                }
            }
            if let Some(best) = best {
                return Some(SliceIndex(best));
            }
        }
        None
    }

    fn claimant(&self, place: Scope, pattern: &Pattern, shown: UserContext) -> Option<Claimant> {
        let group = pattern.group(place, shown);
        match (pattern.users, shown.teid) {
            (Users::All, _) => self.groups.get(&group).map(Claim::first),
            (Users::One, Some(teid)) => self.users.get(&OneUser { group, teid }).map(Claim::first),
            (Users::Range, Some(teid)) => self.ranges.get(&group)?.get(teid),
            (Users::One | Users::Range, None) => None,
        }
    }

    /// Of two slices with equally many fields, does the one go first? Fewer users, then the lower
    /// identifier.
    fn goes_before(&self, one: Claimant, other: Claimant) -> bool {
        let rank = |claimant: Claimant| {
            self.get(SliceIndex(claimant)).map(|slice| (slice.width(), slice.id))
        };
        rank(one) < rank(other)
    }

    /// Puts a slice in; one with its identity was taken out before.
    fn insert(&mut self, slice: SliceTable) {
        let place = self.numbers.take() + 1;
        let Some(claimant) = Claimant::new(place) else { return };
        self.held_back += u32::from(!slice.policy.is_none());
        *self.direct.entry(place as usize) = slice.policy.is_none().then_some(slice.path);
        self.of_id.insert(slice.id, SliceIndex(claimant));
        let (at, matches) = (slice.place, slice.matches);
        self.count_at(matches.place, |count| count + 1);
        *self.entries.entry(place as usize) = Some(slice);
        if let Some(at) = at {
            self.index(at, &matches, claimant);
        }
    }

    fn index(&mut self, at: Scope, matches: &SliceMatch, claimant: Claimant) {
        let pattern = Pattern::of(matches);
        let mut counts = self.places.get(&at).copied().unwrap_or_default();
        counts.counts[pattern.place()] += 1;
        counts.used |= 1 << pattern.place();
        self.places.insert(at, counts);
        let group = Group::new(at, matches.tunnel_id, matches.qfi);
        let entries = &self.entries;
        let rank = |claimant: Claimant| {
            let slice = entries.get(claimant.get() as usize)?.as_ref()?;
            Some((slice.width(), slice.id))
        };
        let goes_before = |one, other| rank(one) < rank(other);
        let joined = |claim: Option<&Claim>| match claim.cloned() {
            Some(mut claim) => {
                claim.add(claimant, &goes_before);
                claim
            }
            None => Claim::new(claimant),
        };
        match (pattern.users, matches.teids) {
            (Users::One, Some(range)) => {
                let user = OneUser { group, teid: range.first() };
                let claim = joined(self.users.get(&user));
                self.users.insert(user, claim);
            }
            (Users::Range, Some(range)) => {
                let mut ranges = self.ranges.remove(&group).unwrap_or_default();
                Arc::make_mut(&mut ranges).add(range, claimant, &goes_before);
                self.ranges.insert(group, ranges);
            }
            _ => {
                let claim = joined(self.groups.get(&group));
                self.groups.insert(group, claim);
            }
        }
    }

    /// Takes a slice out, and answers it.
    fn remove(&mut self, id: SliceId) -> Option<SliceTable> {
        let SliceIndex(claimant) = self.of_id.remove(&id)?;
        let slice = self.entries.entry(claimant.get() as usize).take()?;
        *self.direct.entry(claimant.get() as usize) = None;
        self.held_back -= u32::from(!slice.policy.is_none());
        self.numbers.give_back(claimant.get() - 1);
        self.count_at(slice.matches.place, |count| count.saturating_sub(1));
        if let Some(at) = slice.place {
            self.unindex(at, &slice.matches, claimant);
        }
        Some(slice)
    }

    fn unindex(&mut self, at: Scope, matches: &SliceMatch, claimant: Claimant) {
        let pattern = Pattern::of(matches);
        let mut counts = self.places.get(&at).copied().unwrap_or_default();
        let count = &mut counts.counts[pattern.place()];
        *count = count.saturating_sub(1);
        if *count == 0 {
            counts.used &= !(1 << pattern.place());
        }
        if counts.used == 0 {
            self.places.remove(&at);
        } else {
            self.places.insert(at, counts);
        }
        let group = Group::new(at, matches.tunnel_id, matches.qfi);
        match (pattern.users, matches.teids) {
            (Users::One, Some(range)) => {
                let user = OneUser { group, teid: range.first() };
                let left = self.users.remove(&user).and_then(|claim| without(claim, claimant));
                if let Some(left) = left {
                    self.users.insert(user, left);
                }
            }
            (Users::Range, Some(range)) => {
                let Some(mut ranges) = self.ranges.remove(&group) else { return };
                Arc::make_mut(&mut ranges).remove(range, claimant);
                if !ranges.is_empty() {
                    self.ranges.insert(group, ranges);
                }
            }
            _ => {
                let left = self.groups.remove(&group).and_then(|claim| without(claim, claimant));
                if let Some(left) = left {
                    self.groups.insert(group, left);
                }
            }
        }
    }

    /// Does a slice take packets there, whether that is here or not?
    pub(crate) fn name(&self, place: SlicePlace) -> bool {
        self.at.contains_key(&place)
    }

    fn count_at(&mut self, place: SlicePlace, change: impl Fn(u32) -> u32) {
        if place == SlicePlace::Endpoints {
            return;
        }
        match change(self.at.get(&place).copied().unwrap_or(0)) {
            0 => self.at.remove(&place),
            count => self.at.insert(place, count),
        };
    }

    /// All slices, in no order.
    pub(crate) fn all(&self) -> impl Iterator<Item = &SliceTable> {
        self.entries.iter().flatten()
    }

    /// Has any slice a rate or a delay class?
    pub(crate) fn hold_back(&self) -> bool {
        self.held_back > 0
    }

    /// Slices there are.
    pub(crate) fn len(&self) -> usize {
        self.of_id.len()
    }
}

fn without(mut claim: Claim, claimant: Claimant) -> Option<Claim> {
    claim.remove(claimant).then_some(claim)
}
