//! The proxies' memory: which flow visits which position, so that a packet that comes out of an
//! unaware function finds its path again. Knows keys, age and bounds; refuses to know what a
//! position means.
//!
//! Where two versions of a path share a function, a flow's latest visit does not tell which of its
//! packets comes out: then each packet is noted as well (`inside`).
//!
//! A flow has sixteen places, given by its hash and a seed that nobody outside knows: every access
//! costs the same, whatever keys an adversary picks. Each packet into the function renews its flow,
//! so an entry need only outlive the time a packet spends inside. Where places are short, a new
//! flow takes that of the flow unseen for longest, if no packet of it can be inside any more.

use super::encap::PathPosition;
use super::inside::{ByOrder, Inside};
use super::transform::Epoch;
use catena_model::id::InstanceId;
use catena_model::{DropReason, PathId};
use catena_wire::flow::FlowKey;
use std::ops::Range;

/// How long a packet may stay inside a function and still be recognised, in nanoseconds.
pub(super) const FLOW_IDLE_NS: u64 = 60_000_000_000;
/// How long a packet stays inside a function at most when places are short, or the order of
/// a flow has to tell, in nanoseconds.
pub(super) const FLOW_INSIDE_NS: u64 = 1_000_000_000;
/// Places that a flow can have.
const WAYS: usize = 16;
/// Places for each flow of the limit, so that sets rarely overflow before the limit is reached.
const PLACES_PER_FLOW: usize = 2;

/// Sets that are searched for a flow to forget when the limit is reached.
const SETS_SEARCHED: usize = 16;

/// What a flow is known by: the port it will come out of and its five-tuple.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    /// Serial of the port.
    pub(super) egress: u32,
    pub(super) flow: FlowKey,
}

impl Key {
    fn hash(&self, seed: u64) -> u64 {
        // The odd constant spreads small serials over the whole word.
        self.flow.seeded_hash(seed) ^ u64::from(self.egress).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

/// What is remembered: the position, and what it takes to find it in later tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Visit {
    pub(super) position: PathPosition,
    pub(super) path: PathId,
    /// Tells the path from a later one with its identifier.
    pub(super) serial: u64,
    pub(super) hop: u16,
    /// The instance visited: siblings may send from one port.
    pub(super) instance: InstanceId,
    pub(super) epoch: Epoch,
}

impl Visit {
    /// Is it the same hop of the same path at the same instance?
    pub(super) fn is_same(&self, other: &Visit) -> bool {
        (self.serial, self.hop, self.instance) == (other.serial, other.hop, other.instance)
    }
}

/// What is known of a packet that came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Recalled {
    pub(super) visit: Visit,
    /// Its bytes are those of no packet that went in, though all inside were known.
    pub(super) is_rewritten: bool,
    /// It was given its visit by order, and others had packets inside.
    pub(super) is_ambiguous: bool,
}

impl Recalled {
    pub(super) fn surely(visit: Visit) -> Self {
        Self { visit, is_rewritten: false, is_ambiguous: false }
    }
}

#[derive(Clone, Copy)]
struct Entry {
    key: Key,
    visit: Visit,
    /// Packets of the visit that went in unwatched and have not come back, as far as known.
    untold: u32,
    seen_ns: u64,
}

/// The memory.
pub(super) struct FlowMemory {
    places: Vec<Option<Entry>>,
    sets: usize,
    flows: usize,
    flows_max: usize,
    /// The set whose idle flows are forgotten next.
    hand: usize,
    seed: u64,
    inside: Inside,
}

impl FlowMemory {
    /// A memory of this many flows, and of this many packets that are watched one by one.
    pub(super) fn new(flows_max: usize, inside_max: usize, seed: u64) -> Self {
        let sets = (flows_max * PLACES_PER_FLOW).div_ceil(WAYS).max(1);
        Self {
            places: vec![None; sets * WAYS],
            sets,
            flows: 0,
            flows_max,
            hand: 0,
            seed,
            inside: Inside::new(inside_max),
        }
    }

    fn set(&self, key: &Key) -> Range<usize> {
        let set = usize::try_from(key.hash(self.seed) % self.sets as u64).unwrap_or(0);
        set * WAYS..(set + 1) * WAYS
    }

    /// Notes that packets of the flow visit a position now.
    ///
    /// # Errors
    /// [`DropReason::FlowMemoryFull`] when every place it could have belongs to a flow that was
    /// seen within the last second.
    pub(super) fn remember(
        &mut self,
        now_ns: u64,
        key: Key,
        visit: Visit,
        packets: u64,
    ) -> Result<(), DropReason> {
        let packets = u32::try_from(packets).unwrap_or(u32::MAX);
        let entry = self.entry(now_ns, key, visit)?;
        let before = if entry.visit.is_same(&visit) { entry.untold } else { 0 };
        *entry = Entry { key, visit, untold: before.saturating_add(packets), seen_ns: now_ns };
        Ok(())
    }

    /// Notes each of these wire packets of the flow, which visit a position now, by its digest.
    ///
    /// # Errors
    /// As [`Self::remember`].
    pub(super) fn remember_each(
        &mut self,
        now_ns: u64,
        key: Key,
        visit: Visit,
        digests: &[u64],
    ) -> Result<(), DropReason> {
        let flow = key.hash(self.seed);
        let entry = self.entry(now_ns, key, visit)?;
        let before = *entry;
        *entry = Entry { key, visit, untold: 0, seen_ns: now_ns };
        if before.untold > 0 {
            let Entry { visit, untold, seen_ns, .. } = before;
            self.inside.push_untold(now_ns, seen_ns, flow, visit, untold);
        }
        for digest in digests {
            self.inside.push(now_ns, flow, *digest, visit);
        }
        Ok(())
    }

    /// The entry of a flow as it was left, or a new one.
    fn entry(&mut self, now_ns: u64, key: Key, visit: Visit) -> Result<&mut Entry, DropReason> {
        let set = self.set(&key);
        let mut places = set.clone();
        let known = places.find(|place| self.places[*place].is_some_and(|found| found.key == key));
        let place = match known {
            Some(place) => place,
            None => {
                self.forget_idle(now_ns, set.clone());
                let next = self.next_set();
                self.forget_idle(now_ns, next);
                self.place_for_new(now_ns, set).ok_or(DropReason::FlowMemoryFull)?
            }
        };
        let known = self.places[place].filter(|entry| entry.key == key && !is_idle(entry, now_ns));
        let entry = known.unwrap_or(Entry { key, visit, untold: 0, seen_ns: now_ns });
        Ok(self.places[place].insert(entry))
    }

    /// A place for one more flow in a set, free or of a flow that is forgotten for it.
    fn place_for_new(&mut self, now_ns: u64, set: Range<usize>) -> Option<usize> {
        let free = set.clone().find(|place| self.places[*place].is_none());
        if self.flows < self.flows_max && free.is_some() {
            self.flows += 1;
            return free;
        }
        if let Some(outlived) = self.outlived(now_ns, set) {
            return Some(outlived);
        }
        // The set has room, yet the limit is reached: some other set gives a flow up.
        let free = free?;
        for _ in 0..SETS_SEARCHED.min(self.sets) {
            let other = self.next_set();
            if let Some(outlived) = self.outlived(now_ns, other) {
                self.places[outlived] = None;
                return Some(free);
            }
        }
        None
    }

    /// Of the flows of a set that have no packet inside, the one unseen for longest.
    fn outlived(&self, now_ns: u64, set: Range<usize>) -> Option<usize> {
        let seen_ns = |place: &usize| self.places[*place].map(|entry| entry.seen_ns);
        let used = set.filter(|place| self.places[*place].is_some());
        used.min_by_key(seen_ns).filter(|place| {
            seen_ns(place).is_some_and(|seen| now_ns.saturating_sub(seen) > FLOW_INSIDE_NS)
        })
    }

    fn next_set(&mut self) -> Range<usize> {
        let set = self.hand * WAYS..(self.hand + 1) * WAYS;
        self.hand = (self.hand + 1) % self.sets;
        set
    }

    /// Are any packets known one by one?
    pub(super) fn watches(&self) -> bool {
        !self.inside.is_empty()
    }

    /// Has the flow packets inside that are known one by one?
    pub(super) fn knows_each(&self, key: &Key) -> bool {
        self.inside.holds(key.hash(self.seed))
    }

    /// Which position the flow visited; so many packets of it have come back.
    pub(super) fn recall(&mut self, now_ns: u64, key: Key, packets: u64) -> Option<Visit> {
        let entry = self.known(now_ns, &key)?;
        entry.untold = entry.untold.saturating_sub(u32::try_from(packets).unwrap_or(u32::MAX));
        Some(entry.visit)
    }

    /// Which position the wire packet of the flow with this digest visited. `is_alive` says whether
    /// the path of a visit is still there.
    pub(super) fn recall_one(
        &mut self,
        now_ns: u64,
        key: Key,
        digest: u64,
        is_alive: impl Fn(&Visit) -> bool,
    ) -> Option<Recalled> {
        let flow = key.hash(self.seed);
        let latest = *self.known(now_ns, &key)?;
        if let Some(visit) = self.inside.take(now_ns, flow, digest) {
            return Some(Recalled::surely(visit));
        }
        // The order of the unwatched behind the watched is that of two changes in a row.
        if let Some(ByOrder { visit, is_rewritten, is_ambiguous }) =
            self.inside.take_oldest(now_ns, flow, is_alive)
        {
            return Some(Recalled {
                visit,
                is_rewritten: is_rewritten && latest.untold == 0,
                is_ambiguous: is_ambiguous || (latest.untold > 0 && !visit.is_same(&latest.visit)),
            });
        }
        self.recall(now_ns, key, 1).map(Recalled::surely)
    }

    /// The flow's entry, seen now.
    fn known(&mut self, now_ns: u64, key: &Key) -> Option<&mut Entry> {
        let set = self.set(key);
        let mut found = self.places[set].iter_mut().flatten();
        let entry = found.find(|entry| entry.key == *key)?;
        if is_idle(entry, now_ns) {
            return None;
        }
        entry.seen_ns = now_ns;
        Some(entry)
    }

    /// What [`Self::recall_one`] would find, without a trace.
    pub(super) fn peek(
        &self,
        now_ns: u64,
        key: Key,
        digest: u64,
        is_alive: impl Fn(&Visit) -> bool,
    ) -> Option<Visit> {
        let flow = key.hash(self.seed);
        let mut found = self.places[self.set(&key)].iter().flatten();
        let entry = found.find(|entry| entry.key == key && !is_idle(entry, now_ns))?;
        Some(self.inside.peek(flow, digest, is_alive).unwrap_or(entry.visit))
    }

    fn forget_idle(&mut self, now_ns: u64, set: Range<usize>) {
        for place in &mut self.places[set] {
            if place.is_some_and(|entry| is_idle(&entry, now_ns)) {
                *place = None;
                self.flows -= 1;
            }
        }
    }
}

fn is_idle(entry: &Entry, now_ns: u64) -> bool {
    now_ns.saturating_sub(entry.seen_ns) > FLOW_IDLE_NS
}
