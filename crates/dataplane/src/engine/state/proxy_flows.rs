//! The proxies' memory: which flow visits which position, so that a packet that comes out of an
//! unaware function finds its path again. Knows keys, age and bounds; refuses to know what a
//! position means.
//!
//! Where two versions of a path share a function, a flow's latest visit does not tell which of its
//! packets comes out: then each packet is noted as well (`inside`).
//!
//! Two networks may have the same addresses, so flows of each are remembered on their own. A packet
//! that comes out says its network where its function keeps MACs; elsewhere it is that in which the
//! flow is known. Equal flows of two networks have their places in one set, so that both are seen.
//!
//! A flow has sixteen places, given by its hash and a seed that nobody outside knows: every access
//! costs the same, whatever keys an adversary picks. Each packet into the function renews its flow,
//! so an entry need only outlive the time a packet spends inside. Where places are short, a new
//! flow takes that of another whose packets cannot be inside any more, or that belongs to somebody
//! who has more flows here (`shares`): of his, one whose packets have all come back, if there is one.

mod timing;

use super::crowded::Crowded;
use super::in_flight::{ByOrder, InFlight};
use super::sojourns::{MarkRef, Sojourns};
use super::visits::port_hash;
pub(crate) use super::visits::{Key, Payer, Recalled, Visit, Whose};
use crate::engine::collections::shares::{Holder, Shares, must_yield};
use crate::engine::packet::index::UNTOLD_NETWORK;
use catena_io::{prefetch, prefetch_whole};
use catena_model::DropReason;
use catena_wire::plain::PlainFrame;
use std::cmp::Reverse;
use std::ops::Range;

/// How long a packet may stay inside a function and still be recognised, in nanoseconds.
pub(crate) const FLOW_IDLE_NS: u64 = 60_000_000_000;
/// How long a packet stays inside a function at most when places are short, or the order of
/// a flow has to tell, in nanoseconds.
pub(crate) const FLOW_INSIDE_NS: u64 = 1_000_000_000;
/// Places that a flow can have.
const WAYS: usize = 16;
/// Places for each flow of the limit, so that sets rarely overflow before the limit is reached.
const PLACES_PER_FLOW: usize = 2;

/// Sets that are searched for a flow to forget when the limit is reached.
const SETS_SEARCHED: usize = 16;

/// The hash of a key.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FlowHash(u64);

#[derive(Debug, Clone, Copy)]
struct Entry {
    key: Key,
    visit: Visit,
    /// Packets of the visit that went in unwatched and have not come back, as far as known.
    untold: u32,
    holder: Holder,
    /// Its packets that are timed.
    marks: MarkRef,
    seen_ns: u64,
}

/// What is known of a flow one of whose packets has come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Back {
    /// It is forgotten.
    Unknown,
    Known,
    /// The packet may be one that is timed ([`ProxyFlows::time`]).
    Timed,
}

/// A few bits of the hash of each flow of a set; 0: the place is free. One line of the processor's
/// cache says where to look, or that there is nothing to look for.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Tags([u32; WAYS]);

/// A place where a flow was found, for the moment.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Found(usize);

/// The memory.
#[derive(Debug)]
pub(crate) struct ProxyFlows {
    places: Vec<Option<Entry>>,
    tags: Vec<Tags>,
    sets: usize,
    flows: usize,
    flows_max: usize,
    /// The set whose idle flows are forgotten next.
    hand: usize,
    seed: u64,
    shares: Shares<Payer>,
    inside: InFlight,
    sojourns: Sojourns,
    crowded: Crowded,
    /// Flows whose visit is another than before; none: nobody asks.
    turned: Option<Vec<Key>>,
}

impl ProxyFlows {
    /// A memory of this many flows, and of this many packets that are watched one by one.
    pub(crate) fn new(flows_max: usize, inside_max: usize, seed: u64) -> Self {
        let sets = (flows_max * PLACES_PER_FLOW).div_ceil(WAYS).max(1);
        Self {
            places: vec![None; sets * WAYS],
            tags: vec![Tags([0; WAYS]); sets],
            sets,
            flows: 0,
            flows_max,
            hand: 0,
            seed,
            shares: Shares::new(),
            inside: InFlight::new(inside_max),
            sojourns: Sojourns::new(seed),
            crowded: Crowded::default(),
            turned: None,
        }
    }

    /// Flows that are known.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.flows
    }

    /// The places of the keys with a hash, and what they are tagged with.
    #[inline]
    fn set(&self, hash: u64) -> (Range<usize>, u32) {
        // The upper part of the product: as even as the remainder, and no division.
        let set = ((u128::from(hash) * self.sets as u128) >> 64) as usize;
        (set * WAYS..(set + 1) * WAYS, hash as u32 | 1)
    }

    /// The hash of a key, as lookers-up give it who ask several times.
    #[inline]
    pub(crate) fn hash(&self, egress: u32, frame: &PlainFrame, user: u64) -> FlowHash {
        FlowHash(frame.seeded_hash(self.seed) ^ port_hash(egress) ^ user)
    }

    /// Asks for the line that says where to look for a flow.
    #[inline]
    pub(crate) fn prefetch(&self, FlowHash(hash): FlowHash) {
        let (set, _) = self.set(hash);
        if let Some(tags) = self.tags.get(set.start / WAYS) {
            prefetch(tags);
        }
    }

    /// Asks for the place where a flow with this hash is, if it is remembered, and answers it: most
    /// likely it is the one.
    #[inline]
    pub(crate) fn likely_place(&self, FlowHash(hash): FlowHash) -> Found {
        let (set, tag) = self.set(hash);
        // Behind the last way, where there is none, is another flow's place, and seen to be.
        let place = set.start + self.hits(&set, tag).trailing_zeros() as usize;
        if let Some(place) = self.places.get(place) {
            prefetch_whole(place);
        }
        Found(place)
    }

    /// The ways of a set with a tag, a bit each.
    #[inline]
    fn hits(&self, set: &Range<usize>, tag: u32) -> u32 {
        let Some(Tags(tags)) = self.tags.get(set.start / WAYS) else { return 0 };
        // No branch for each tag: the compiler compares them all at once.
        (0..WAYS).fold(0_u32, |hits, way| hits | u32::from(tags[way] == tag) << way)
    }

    /// The place of a flow that is remembered, idle or not.
    #[inline]
    fn place_of(&self, key: &Key, hash: u64) -> Option<usize> {
        let (set, tag) = self.set(hash);
        let mut hits = self.hits(&set, tag);
        while hits != 0 {
            let place = set.start + hits.trailing_zeros() as usize;
            if self.places[place].as_ref().is_some_and(|found| found.key == *key) {
                return Some(place);
            }
            hits &= hits - 1;
        }
        None
    }

    fn free(&mut self, place: usize) {
        if let Some(Entry { holder, mut marks, .. }) = self.places[place].take() {
            if marks.is_some() {
                self.sojourns.forget(&mut marks);
            }
            self.tags[place / WAYS].0[place % WAYS] = 0;
            self.shares.give_back(holder);
            self.flows -= 1;
        }
    }

    /// Notes that packets of the flow visit a position now; a new flow is held by its payer.
    ///
    /// # Errors
    /// [`DropReason::FlowMemoryFull`] when every place it could have belongs to a flow that was
    /// seen within the last second, and to one who has no more flows than the payer.
    pub(crate) fn remember(
        &mut self,
        now_ns: u64,
        key: Key,
        (visit, payer): (Visit, Payer),
        packets: u64,
    ) -> Result<(), DropReason> {
        let likely = self.likely_place(FlowHash(key.hash(self.seed)));
        self.remember_at(now_ns, (key, likely), (visit, payer), packets)
    }

    /// The same for a key whose likely place is known.
    ///
    /// # Errors
    /// As [`Self::remember`].
    #[inline]
    pub(crate) fn remember_at(
        &mut self,
        now_ns: u64,
        (key, likely): (Key, Found),
        (visit, payer): (Visit, Payer),
        packets: u64,
    ) -> Result<(), DropReason> {
        let packets = u32::try_from(packets).unwrap_or(u32::MAX);
        // The commonest case: only what may have changed is written.
        if let Some(Found(place)) = self.look_up_at(now_ns, &key, likely)
            && let Some(entry) = &mut self.places[place]
            && entry.visit.is_same(&visit)
        {
            // The same hop with another time to live is another decision for who repeats it.
            let is_same = entry.visit.position == visit.position;
            (entry.visit, entry.seen_ns) = (visit, now_ns);
            entry.untold = entry.untold.saturating_add(packets);
            self.note_turn(key, is_same);
            return Ok(());
        }
        self.remember_anew(now_ns, key, (visit, payer), packets)
    }

    /// The same for a flow that is not known, or was elsewhere. Apart, so that the commonest case is short enough to
    /// be compiled into whoever asks.
    #[cold]
    fn remember_anew(
        &mut self,
        now_ns: u64,
        key: Key,
        (visit, payer): (Visit, Payer),
        packets: u32,
    ) -> Result<(), DropReason> {
        let entry = self.entry(now_ns, key, (visit, payer))?;
        let before = if entry.visit.is_same(&visit) { entry.untold } else { 0 };
        let goes_on_alike = entry.visit.goes_on_like(&visit);
        let untold = before.saturating_add(packets);
        *entry = Entry { key, visit, untold, seen_ns: now_ns, ..*entry };
        self.note_turn(key, goes_on_alike);
        Ok(())
    }

    /// Notes each of these wire packets of the flow, which visit a position now, by its digest.
    ///
    /// # Errors
    /// As [`Self::remember`].
    pub(crate) fn remember_each(
        &mut self,
        now_ns: u64,
        key: Key,
        (visit, payer): (Visit, Payer),
        digests: &[u64],
    ) -> Result<(), DropReason> {
        let flow = (key.egress, key.record(self.seed));
        let entry = self.entry(now_ns, key, (visit, payer))?;
        let before = *entry;
        *entry = Entry { key, visit, untold: 0, seen_ns: now_ns, ..before };
        self.note_turn(key, before.visit.goes_on_like(&visit));
        if before.untold > 0 {
            let Entry { visit, untold, seen_ns, .. } = before;
            self.inside.push_untold(now_ns, seen_ns, flow, (visit, payer), untold);
        }
        for digest in digests {
            self.inside.push(now_ns, flow, *digest, (visit, payer));
        }
        Ok(())
    }

    /// The entry of a flow as it was left, or a new one.
    fn entry(
        &mut self,
        now_ns: u64,
        key: Key,
        (visit, payer): (Visit, Payer),
    ) -> Result<&mut Entry, DropReason> {
        let hash = key.hash(self.seed);
        let (set, tag) = self.set(hash);
        let known = self.place_of(&key, hash);
        if let Some(place) = known.filter(|place| {
            self.places[*place].as_ref().is_some_and(|entry| is_idle(entry, now_ns))
        }) {
            self.free(place);
        }
        let known = known.filter(|place| self.places[*place].is_some());
        let place = match known {
            Some(place) => place,
            None => {
                self.forget_idle(now_ns, set.clone());
                let next = self.next_set();
                self.forget_idle(now_ns, next);
                let place = self.place_for_new(now_ns, set, payer);
                let place = place.ok_or(DropReason::FlowMemoryFull)?;
                let holder = self.shares.take(payer);
                self.tags[place / WAYS].0[place % WAYS] = tag;
                let (marks, seen_ns) = (MarkRef::NONE, now_ns);
                self.places[place] = Some(Entry { key, visit, untold: 0, holder, marks, seen_ns });
                self.flows += 1;
                place
            }
        };
        self.places[place].as_mut().ok_or(DropReason::FlowMemoryFull)
    }

    /// A place for one more flow in a set: free, maybe because a flow was forgotten for it.
    fn place_for_new(&mut self, now_ns: u64, set: Range<usize>, payer: Payer) -> Option<usize> {
        let free = set.clone().find(|place| self.places[*place].is_none());
        if self.flows < self.flows_max && free.is_some() {
            return free;
        }
        let own = self.shares.held_by(&payer);
        if let Some(given_up) = self.given_up(now_ns, set, own) {
            self.give_up(given_up);
            return Some(given_up);
        }
        // The set has room, yet the limit is reached: some other set gives a flow up.
        let free = free?;
        for _ in 0..SETS_SEARCHED.min(self.sets) {
            let other = self.next_set();
            if let Some(given_up) = self.given_up(now_ns, other, own) {
                self.give_up(given_up);
                return Some(free);
            }
        }
        None
    }

    /// Forgets a flow for another.
    fn give_up(&mut self, place: usize) {
        if let Some(Entry { holder, visit, .. }) = &self.places[place]
            && let Some(payer) = self.shares.key(*holder)
        {
            self.crowded.note(payer, visit.path);
        }
        self.free(place);
    }

    /// What was forgotten of flows, and of packets inside functions.
    pub(crate) fn crowded(&self) -> [&Crowded; 2] {
        [&self.crowded, &self.inside.crowded]
    }

    /// The same, to be aligned.
    pub(crate) fn crowded_mut(&mut self) -> [&mut Crowded; 2] {
        [&mut self.crowded, &mut self.inside.crowded]
    }

    /// The flow of a set that is forgotten first for one of somebody who has so many: of those that
    /// can have no packet inside or whose holder has more, one of who has most, rather one with
    /// nothing inside, and the one unseen for longest.
    fn given_up(&self, now_ns: u64, set: Range<usize>, own: u32) -> Option<usize> {
        let candidates = set.filter_map(|place| {
            let entry = self.places[place].as_ref()?;
            let is_outlived = now_ns.saturating_sub(entry.seen_ns) > FLOW_INSIDE_NS;
            let held = self.shares.held(entry.holder);
            let may_go = is_outlived || must_yield(held, own);
            let is_empty = || is_outlived || self.is_all_back(entry);
            may_go.then(|| ((held, is_empty(), Reverse(entry.seen_ns)), place))
        });
        candidates.max_by_key(|(rank, _)| *rank).map(|(_, place)| place)
    }

    /// Have all packets of a flow come back that went in, as far as known?
    fn is_all_back(&self, entry: &Entry) -> bool {
        entry.untold == 0 && !(self.watches() && self.knows_each(&entry.key))
    }

    fn next_set(&mut self) -> Range<usize> {
        let set = self.hand * WAYS..(self.hand + 1) * WAYS;
        self.hand = (self.hand + 1) % self.sets;
        set
    }

    /// Are any packets known one by one?
    pub(crate) fn watches(&self) -> bool {
        !self.inside.is_empty()
    }

    /// The same of those that will come out of the port with this serial.
    #[inline]
    pub(crate) fn watches_at(&self, egress: u32) -> bool {
        self.watches() && self.inside.holds_at(egress)
    }

    /// Has the flow packets inside that are known one by one?
    pub(crate) fn knows_each(&self, key: &Key) -> bool {
        self.inside.holds(key.record(self.seed))
    }

    /// Which position the flow visited; so many packets of it have come back.
    pub(crate) fn recall(&mut self, now_ns: u64, key: Key, packets: u64) -> Option<Visit> {
        let entry = self.known(now_ns, &key)?;
        entry.untold = entry.untold.saturating_sub(u32::try_from(packets).unwrap_or(u32::MAX));
        Some(entry.visit)
    }

    /// Which position the wire packet of the flow with this digest visited. `is_alive` says whether
    /// the path of a visit is still there.
    pub(crate) fn recall_one(
        &mut self,
        now_ns: u64,
        key: Key,
        digest: u64,
        is_alive: impl Fn(&Visit) -> bool,
    ) -> Option<Recalled> {
        let flow = key.record(self.seed);
        let latest = *self.known(now_ns, &key)?;
        if let Some(visit) = self.inside.take(now_ns, flow, digest) {
            // Of packets with the same bytes nobody knows which it is.
            let is_by_order = self.inside.peek_exact(flow, digest);
            return Some(Recalled { is_by_order, ..Recalled::surely(visit) });
        }
        // The order of the unwatched behind the watched is that of two changes in a row.
        if let Some(ByOrder { visit, is_rewritten, is_ambiguous }) =
            self.inside.take_oldest(now_ns, flow, is_alive)
        {
            return Some(Recalled {
                visit,
                is_rewritten: is_rewritten && latest.untold == 0,
                is_ambiguous: is_ambiguous || (latest.untold > 0 && !visit.is_same(&latest.visit)),
                is_by_order: true,
            });
        }
        let recalled = self.recall(now_ns, key, 1).map(Recalled::surely);
        recalled.map(|recalled| Recalled { is_by_order: true, ..recalled })
    }

    /// The entries of a flow in all networks that its key may mean.
    fn equal_flows(&self, now_ns: u64, key: Key) -> impl Iterator<Item = &Entry> {
        let (set, tag) = self.set(key.hash(self.seed));
        let mut hits = self.hits(&set, tag);
        let places = std::iter::from_fn(move || {
            let way = hits.trailing_zeros() as usize;
            hits &= hits.checked_sub(1)?;
            Some(set.start + way)
        });
        let entries = places.filter_map(|place| self.places[place].as_ref());
        entries.filter(move |entry| entry.key.is_meant_by(&key) && !is_idle(entry, now_ns))
    }

    /// Whose packets come back by this key, in whatever network if it says none. A network whose packets are not
    /// seen for longer than they stay inside counts only while no other has any.
    pub(crate) fn whose(&self, now_ns: u64, key: Key) -> Whose {
        let is_inside = |entry: &&Entry| now_ns.saturating_sub(entry.seen_ns) <= FLOW_INSIDE_NS;
        let (mut all, mut inside) =
            (self.equal_flows(now_ns, key), self.equal_flows(now_ns, key).filter(is_inside));
        match (inside.next(), inside.next(), all.next(), all.next()) {
            (Some(only), None, ..) | (None, _, Some(only), None) => Whose::Known(only.key),
            (None, _, None, _) => Whose::Nobodys,
            _ => Whose::Several,
        }
    }

    /// The flow of this key in each network that it is known in.
    pub(crate) fn keys_of(&self, now_ns: u64, key: Key) -> impl Iterator<Item = Key> {
        self.equal_flows(now_ns, key).map(|entry| entry.key)
    }

    /// The place of a flow that comes back, when its likely place is known and no other flow could
    /// be meant.
    #[inline]
    pub(crate) fn only_at(&self, now_ns: u64, key: &Key, Found(likely): Found) -> Option<Found> {
        if key.network != UNTOLD_NETWORK {
            return self.look_up_at(now_ns, key, Found(likely));
        }
        let entry = self.places.get(likely)?.as_ref()?;
        let first = likely / WAYS * WAYS;
        let tag = self.tags[likely / WAYS].0[likely % WAYS];
        let is_only = self.hits(&(first..first + WAYS), tag).count_ones() == 1;
        let is_it = is_only && entry.key.is_meant_by(key) && !is_idle(entry, now_ns);
        is_it.then_some(Found(likely))
    }

    /// Where a flow is remembered that is not idle.
    #[inline]
    pub(crate) fn look_up(&self, now_ns: u64, key: &Key) -> Option<Found> {
        self.look_up_at(now_ns, key, self.likely_place(FlowHash(key.hash(self.seed))))
    }

    /// The same for a key whose likely place is known: a key has one place, so what is there is right.
    #[inline]
    pub(crate) fn look_up_at(&self, now_ns: u64, key: &Key, Found(likely): Found) -> Option<Found> {
        let there = self.places.get(likely).and_then(Option::as_ref);
        let place = match there.is_some_and(|entry| entry.key == *key) {
            true => likely,
            false => self.place_of(key, key.hash(self.seed))?,
        };
        let entry = self.places[place].as_ref()?;
        (!is_idle(entry, now_ns)).then_some(Found(place))
    }

    /// The visit of a flow that was just found.
    pub(crate) fn visit(&self, Found(place): Found) -> Option<&Visit> {
        self.places.get(place)?.as_ref().map(|entry| &entry.visit)
    }

    /// One packet of a flow that was found before has come back; false: the place is another's now.
    pub(crate) fn returned(&mut self, Found(place): Found, key: &Key, now_ns: u64) -> Back {
        let entry = self.places.get_mut(place).and_then(Option::as_mut);
        let Some(entry) = entry.filter(|entry| entry.key.is_meant_by(key)) else {
            return Back::Unknown;
        };
        entry.untold = entry.untold.saturating_sub(1);
        entry.seen_ns = now_ns;
        if entry.marks.is_some() { Back::Timed } else { Back::Known }
    }

    /// The flow's entry, seen now.
    fn known(&mut self, now_ns: u64, key: &Key) -> Option<&mut Entry> {
        let Found(place) = self.look_up(now_ns, key)?;
        let entry = self.places[place].as_mut()?;
        entry.seen_ns = now_ns;
        Some(entry)
    }

    /// A flow that was at one place is at another now: who else repeats it must hear of that.
    fn note_turn(&mut self, key: Key, is_same: bool) {
        if !is_same && let Some(turned) = &mut self.turned {
            turned.push(key);
        }
    }

    /// From now on flows that turn are noted, until [`Self::take_turned`].
    pub(crate) fn note_turns(&mut self, is_wanted: bool) {
        self.turned = is_wanted.then(Vec::new);
    }

    /// The flows that have turned since the last time.
    pub(crate) fn take_turned(&mut self) -> Vec<Key> {
        self.turned.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Notes what passed elsewhere: the flow was last seen at `seen_ns`, and so many packets of it
    /// are inside more than were known, or fewer. Answers what is left over of the fewer: those
    /// whose way in nobody has told yet.
    pub(crate) fn settle(
        &mut self,
        now_ns: u64,
        key: Key,
        visit: Visit,
        inside: i64,
        seen_ns: u64,
    ) -> i64 {
        let payer = Payer::Path(visit.serial);
        let Ok(entry) = self.entry(now_ns, key, (visit, payer)) else { return inside.min(0) };
        if !entry.visit.is_same(&visit) {
            return inside.min(0);
        }
        let untold = i64::from(entry.untold).saturating_add(inside);
        entry.untold = u32::try_from(untold.max(0)).unwrap_or(u32::MAX);
        entry.seen_ns = entry.seen_ns.max(seen_ns);
        untold.min(0)
    }

    /// What [`Self::recall_one`] would find, without a trace.
    pub(crate) fn peek(
        &self,
        now_ns: u64,
        key: Key,
        digest: u64,
        is_alive: impl Fn(&Visit) -> bool,
    ) -> Option<Visit> {
        let flow = key.record(self.seed);
        let Found(place) = self.look_up(now_ns, &key)?;
        let entry = self.places[place].as_ref()?;
        Some(self.inside.peek(flow, digest, is_alive).unwrap_or(entry.visit))
    }

    fn forget_idle(&mut self, now_ns: u64, set: Range<usize>) {
        for place in set {
            if self.places[place].as_ref().is_some_and(|entry| is_idle(entry, now_ns)) {
                self.free(place);
            }
        }
    }
}

fn is_idle(entry: &Entry, now_ns: u64) -> bool {
    now_ns.saturating_sub(entry.seen_ns) > FLOW_IDLE_NS
}
