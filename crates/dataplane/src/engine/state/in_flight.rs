//! The packets inside functions that two versions of a path share: which visit each is on, found
//! again by its bytes, or by the order of its flow where the bytes do not tell. Knows digests,
//! order, age and bounds; refuses to know what a visit means and how a digest is made.
//!
//! A record is one wire packet on its way through a function, and one return takes it. Of equal
//! packets of a flow the first in is the first out. A further kind of record stands for the packets
//! of a flow that went in before anybody watched: they are counted, and belong to the visit known
//! then. When the memory is full, who has most of it (`shares`) gives up his oldest record.

use super::crowded::Crowded;
use super::proxy_flows::{FLOW_IDLE_NS, FLOW_INSIDE_NS, Payer, Visit};
use crate::engine::collections::lists::Lists;
use crate::engine::collections::shares::{Holder, Shares, must_yield};
use catena_wire::flow::mix;
use std::collections::HashMap;

/// Old records that one call puts away at most, so that no packet pays for many.
const EXPIRED_PER_CALL: usize = 16;
/// Records that are looked at for one whose holder has more than who needs a place.
const LOOKED_AT: usize = 16;
/// Records of a flow that are looked at for a second visit.
const SEARCHED_FOR_OTHER: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// One packet, by the digest of its bytes.
    Known { digest: u64 },
    /// Packets whose digests nobody has taken. `is_trusted`: the function has since given back
    /// bytes of this flow as it got them.
    Untold { packets: u32, is_trusted: bool },
}

#[derive(Debug, Clone, Copy)]
struct Record {
    /// Serial of the port that it will come out of.
    egress: u32,
    flow: u64,
    what: What,
    visit: Visit,
    holder: Holder,
    pushed_ns: u64,
}

/// The visit of a returned packet, given by the order of its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ByOrder {
    pub(crate) visit: Visit,
    /// Every packet inside was known by its bytes, so this one has got others.
    pub(crate) is_rewritten: bool,
    /// Packets on more than one visit were inside.
    pub(crate) is_ambiguous: bool,
}

/// The memory of one engine.
#[derive(Debug)]
pub(crate) struct InFlight {
    records: Vec<Record>,
    records_max: usize,
    free: Vec<u32>,
    shares: Shares<Payer>,
    pub(crate) crowded: Crowded,
    /// Counts the records that were looked at.
    looked_at: u64,
    by_age: Lists,
    by_holder: Lists,
    by_flow: Lists,
    by_digest: Lists,
    /// How many will come out of each port, by serial; none: not there.
    by_egress: HashMap<u32, u32>,
    /// When a record that may still have been needed had to go.
    overrun_ns: Option<u64>,
}

impl InFlight {
    /// Room for this many records, at least one.
    pub(crate) fn new(records_max: usize) -> Self {
        let records_max = records_max.max(1);
        Self {
            records: Vec::with_capacity(records_max),
            records_max,
            free: Vec::with_capacity(records_max),
            shares: Shares::new(),
            crowded: Crowded::default(),
            looked_at: 0,
            by_age: Lists::new(1, records_max),
            by_holder: Lists::new(records_max, records_max),
            by_flow: Lists::new(records_max, records_max),
            by_digest: Lists::new(records_max, records_max),
            by_egress: HashMap::new(),
            overrun_ns: None,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.free.len() == self.records.len()
    }

    /// Will anything that is inside come out of the port with this serial?
    pub(crate) fn holds_at(&self, egress: u32) -> bool {
        self.by_egress.contains_key(&egress)
    }

    /// Is anything of the flow inside?
    pub(crate) fn holds(&self, flow: u64) -> bool {
        self.of_flow(flow).next().is_some()
    }

    /// How many packets of the flow are inside, as far as that many records tell.
    pub(crate) fn count(&self, flow: u64) -> u32 {
        let places = self.of_flow(flow).take(SEARCHED_FOR_OTHER);
        places.fold(0, |count, place| match self.records[place as usize].what {
            What::Known { .. } => count + 1,
            What::Untold { packets, .. } => packets.saturating_add(count),
        })
    }

    /// Notes that a packet goes in, for a payer. `egress`: serial of the port that it will come out of.
    pub(crate) fn push(
        &mut self,
        now_ns: u64,
        (egress, flow): (u32, u64),
        digest: u64,
        (visit, payer): (Visit, Payer),
    ) {
        let what = What::Known { digest };
        let holder = self.make_room(now_ns, payer);
        let place = self.add(Record { egress, flow, what, visit, holder, pushed_ns: now_ns });
        self.by_flow.append(self.by_flow.of_hash(flow), place);
        self.by_digest.append(self.by_digest.of_hash(digest_hash(flow, digest)), place);
    }

    /// Notes packets that went in before digests were taken, the last of them at `pushed_ns`. They
    /// stand before all that is known of their flow.
    pub(crate) fn push_untold(
        &mut self,
        now_ns: u64,
        pushed_ns: u64,
        (egress, flow): (u32, u64),
        (visit, payer): (Visit, Payer),
        packets: u32,
    ) {
        let what = What::Untold { packets, is_trusted: false };
        let holder = self.make_room(now_ns, payer);
        let place = self.add(Record { egress, flow, what, visit, holder, pushed_ns });
        self.by_flow.prepend(self.by_flow.of_hash(flow), place);
    }

    /// The visit of the packet with these bytes, which is out now.
    pub(crate) fn take(&mut self, now_ns: u64, flow: u64, digest: u64) -> Option<Visit> {
        self.expire(now_ns);
        let place = self.find(flow, digest)?;
        let visit = self.records[place as usize].visit;
        self.remove(place);
        let oldest = self.of_flow(flow).next();
        if let Some(oldest) = oldest
            && let What::Untold { is_trusted, .. } = &mut self.records[oldest as usize].what
        {
            *is_trusted = true;
        }
        Some(visit)
    }

    /// The visit of the packet with these bytes, or else of those of its flow the oldest.
    pub(crate) fn peek(
        &self,
        flow: u64,
        digest: u64,
        is_alive: impl Fn(&Visit) -> bool,
    ) -> Option<Visit> {
        let visit = |place: u32| self.records[place as usize].visit;
        let exact = self.find(flow, digest).map(visit);
        exact.or_else(|| self.of_flow(flow).map(visit).find(is_alive))
    }

    /// Is a packet of the flow with these bytes inside?
    pub(crate) fn peek_exact(&self, flow: u64, digest: u64) -> bool {
        self.find(flow, digest).is_some()
    }

    fn find(&self, flow: u64, digest: u64) -> Option<u32> {
        let wanted = What::Known { digest };
        let list = self.by_digest.of_hash(digest_hash(flow, digest));
        self.by_digest.forward(list).find(|place| {
            let record = &self.records[*place as usize];
            record.flow == flow && record.what == wanted
        })
    }

    /// The visit that has had packets of the flow inside for longest, one of which is out now.
    /// Visits of paths that are gone do not count, nor what should have come back long ago as long
    /// as there is something younger.
    pub(crate) fn take_oldest(
        &mut self,
        now_ns: u64,
        flow: u64,
        is_alive: impl Fn(&Visit) -> bool,
    ) -> Option<ByOrder> {
        self.expire(now_ns);
        loop {
            let place = self.of_flow(flow).next()?;
            let record = self.records[place as usize];
            let is_last = self.of_flow(flow).nth(1).is_none();
            if !is_alive(&record.visit) || (!is_last && is_overdue(&record, now_ns)) {
                self.remove(place);
                continue;
            }
            let is_told = matches!(record.what, What::Known { .. });
            let has_overrun =
                self.overrun_ns.is_some_and(|at| now_ns.saturating_sub(at) <= FLOW_INSIDE_NS);
            let found = ByOrder {
                visit: record.visit,
                is_rewritten: is_told && !has_overrun,
                is_ambiguous: self.has_other(flow, &record.visit),
            };
            match &mut self.records[place as usize].what {
                What::Untold { packets, .. } if *packets > 1 => *packets -= 1,
                _ => self.remove(place),
            }
            return Some(found);
        }
    }

    fn has_other(&self, flow: u64, visit: &Visit) -> bool {
        let is_other = |place: u32| !self.records[place as usize].visit.is_same(visit);
        self.last_of_flow(flow).is_some_and(is_other)
            || self.of_flow(flow).take(SEARCHED_FOR_OTHER).any(is_other)
    }

    fn of_flow(&self, flow: u64) -> impl Iterator<Item = u32> + '_ {
        let places = self.by_flow.forward(self.by_flow.of_hash(flow));
        places.filter(move |place| self.records[*place as usize].flow == flow)
    }

    fn last_of_flow(&self, flow: u64) -> Option<u32> {
        let mut places = self.by_flow.backward(self.by_flow.of_hash(flow));
        places.find(|place| self.records[*place as usize].flow == flow)
    }

    /// A share for one record more, and room for it.
    fn make_room(&mut self, now_ns: u64, payer: Payer) -> Holder {
        self.expire(now_ns);
        if self.free.is_empty()
            && self.records.len() == self.records_max
            && let Some(given_up) = self.given_up(&payer)
        {
            let Record { holder, visit, pushed_ns, .. } = self.records[given_up as usize];
            if let Some(payer) = self.shares.key(holder) {
                self.crowded.note(payer, visit.path);
            }
            if now_ns.saturating_sub(pushed_ns) <= FLOW_INSIDE_NS {
                self.overrun_ns = Some(now_ns);
            }
            self.remove(given_up);
        }
        self.shares.take(payer)
    }

    /// The record that makes room for one of a payer: of who has most, as far as some records tell,
    /// the oldest; else of the payer himself.
    fn given_up(&mut self, payer: &Payer) -> Option<u32> {
        let own = self.shares.holder(payer);
        let held = self.shares.held_by(payer);
        let from = self.looked_at;
        self.looked_at += LOOKED_AT as u64;
        let holder = |number| self.records[place_of(mix(number), self.records.len())].holder;
        let others = (from..self.looked_at).map(holder);
        let crowding = others.filter(|other| must_yield(self.shares.held(*other), held));
        let most = crowding.max_by_key(|other| self.shares.held(*other)).or(own);
        most.map_or_else(|| self.by_age.first(0), |most| self.by_holder.first(most.number()))
    }

    fn add(&mut self, record: Record) -> u32 {
        let place = self.free.pop().unwrap_or_else(|| {
            self.records.push(record);
            // The limit is far below 2^32.
            u32::try_from(self.records.len() - 1).unwrap_or(u32::MAX)
        });
        self.records[place as usize] = record;
        *self.by_egress.entry(record.egress).or_default() += 1;
        self.by_age.append(0, place);
        self.by_holder.append(record.holder.number(), place);
        place
    }

    fn remove(&mut self, place: u32) {
        let Record { egress, flow, what, holder, .. } = self.records[place as usize];
        match self.by_egress.get_mut(&egress) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(self.by_egress.remove(&egress)),
        }
        self.by_age.remove(0, place);
        self.by_holder.remove(holder.number(), place);
        self.shares.give_back(holder);
        self.by_flow.remove(self.by_flow.of_hash(flow), place);
        if let What::Known { digest } = what {
            self.by_digest.remove(self.by_digest.of_hash(digest_hash(flow, digest)), place);
        }
        self.free.push(place);
    }

    /// Puts away what nobody would recognise any more.
    fn expire(&mut self, now_ns: u64) {
        for _ in 0..EXPIRED_PER_CALL {
            let oldest = self.by_age.first(0);
            let is_old = |place: &u32| {
                now_ns.saturating_sub(self.records[*place as usize].pushed_ns) > FLOW_IDLE_NS
            };
            let Some(oldest) = oldest.filter(is_old) else { return };
            self.remove(oldest);
        }
    }
}

/// Should the packet have come back long ago? What a function that keeps bytes has not given back
/// was held, not lost: there its own bytes will tell each packet that was seen going in.
fn is_overdue(record: &Record, now_ns: u64) -> bool {
    let is_trusted = matches!(record.what, What::Untold { is_trusted: true, .. });
    !is_trusted && now_ns.saturating_sub(record.pushed_ns) > FLOW_INSIDE_NS
}

fn place_of(hash: u64, places: usize) -> usize {
    usize::try_from(hash % places.max(1) as u64).unwrap_or(0)
}

fn digest_hash(flow: u64, digest: u64) -> u64 {
    (flow ^ digest.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16
}

#[cfg(test)]
mod tests;
