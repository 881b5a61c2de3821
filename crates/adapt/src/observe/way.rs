//! A path as planned, and a packet held against it. Knows who should have served which hop; refuses to know what was
//! measured there.

use super::limits::{AGE_MAX_NS, CLOCKS_APART_MAX_NS, DELAY_MAX_NS};
use super::refusal::Refusal;
use catena_model::telemetry::{
    ArrivalTime, DeviceId, HopRecord, HopReport, PlannedHop, PlannedPath, Stamp,
};
use std::collections::BTreeMap;

/// Stamps count nanoseconds modulo this.
const STAMP_MODULUS_NS: u64 = 1 << 40;

/// What a packet says of a planned hop.
#[derive(Clone, Copy, Debug)]
pub(super) enum Seen {
    /// Nothing, not even that it was there.
    Missing,
    /// That somebody was there.
    Silent,
    /// Nothing sure: one of several was there and wrote nothing, and others were not.
    Unsure,
    /// What the node wrote.
    Recorded(Visit),
}

/// A node and what it wrote.
#[derive(Clone, Copy, Debug)]
pub(super) struct Visit {
    /// Which of those planned; none: it does not say, and could be several.
    pub(super) place: Option<(usize, DeviceId)>,
    pub(super) record: HopRecord,
}

impl Seen {
    /// Who was there, if that is known, and what he wrote.
    pub(super) fn named(&self) -> Option<(usize, DeviceId, &HopRecord)> {
        let Self::Recorded(visit) = self else { return None };
        visit.place.map(|(place, device)| (place, device, &visit.record))
    }

    fn stamp(&self) -> Option<(DeviceId, Stamp)> {
        let (_, device, record) = self.named()?;
        Some((device, record.arrival?))
    }
}

/// From one stamp to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Between {
    /// Not both are there, or nobody says that their clocks agree.
    Unknown,
    /// So many nanoseconds.
    Ns(u64),
    /// The clocks say that they agree, and do not.
    Apart,
    /// Neither a delay nor the error of a clock.
    OutsideBounds,
}

/// Which clock nodes stamp packets by, as far as they said.
pub(super) type Clocks = BTreeMap<DeviceId, u64>;

/// A path as planned.
#[derive(Clone, Debug)]
pub(super) struct Way {
    pub(super) planned: PlannedPath,
    /// Of each hop the next one that writes records, if it writes any itself.
    pub(super) next: Vec<Option<usize>>,
    /// Is each hop's counter of this hop alone? That of a node that serves several counts a packet at each.
    pub(super) counts_alone: Vec<bool>,
    /// The first and the last hop that write records.
    ends: Option<(usize, usize)>,
}

impl Way {
    pub(super) fn new(planned: PlannedPath) -> Self {
        let writes = |hop: &PlannedHop| !hop.visits.is_empty();
        let hops = &planned.hops;
        let next = (0..hops.len()).map(|at| {
            let behind = || hops.iter().skip(at + 1).position(writes).map(|more| at + 1 + more);
            hops.get(at).filter(|hop| writes(hop)).and_then(|_| behind())
        });
        let is_at = |device: DeviceId, hop: &PlannedHop| {
            hop.visits.iter().any(|visit| visit.device == device)
        };
        let is_alone = |hop: &PlannedHop| {
            let times = |device| hops.iter().filter(|hop| is_at(device, hop)).count();
            hop.visits.iter().all(|visit| times(visit.device) == 1)
        };
        let ends = hops.iter().position(writes).zip(hops.iter().rposition(writes));
        Self {
            next: next.collect(),
            counts_alone: hops.iter().map(is_alone).collect(),
            ends: ends.filter(|(first, last)| first < last),
            planned,
        }
    }

    /// Does the node serve this hop? Answers which of the planned.
    pub(super) fn place_of(&self, hop: usize, device: DeviceId) -> Option<usize> {
        let hop = self.planned.hops.get(hop)?;
        hop.visits.iter().position(|visit| visit.device == device)
    }

    /// Does the node serve the end, and so report?
    pub(super) fn ends_at(&self, device: DeviceId) -> bool {
        let last = self.planned.hops.len().checked_sub(1);
        last.is_some_and(|last| self.place_of(last, device).is_some())
    }

    /// Does the node serve the first hop that writes records?
    pub(super) fn begins_at(&self, device: DeviceId) -> bool {
        let first = self.planned.hops.iter().position(|hop| !hop.visits.is_empty());
        first.is_some_and(|first| self.place_of(first, device).is_some())
    }

    /// Lays what a packet says beside what was planned, into as many places as there are hops.
    pub(super) fn align(&self, hops: &[HopReport], seen: &mut [Seen]) -> Result<(), Refusal> {
        seen.fill(Seen::Missing);
        if hops.len() > seen.len() {
            return Err(Refusal::UnplannedHop);
        }
        let is_whole = hops.len() == seen.len();
        let mut next = 0;
        for (entry, hop) in hops.iter().enumerate() {
            let (at, what) = match hop {
                HopReport::Malformed => return Err(Refusal::Malformed),
                HopReport::Silent if is_whole => (next, Seen::Silent),
                HopReport::Silent => {
                    let rest = hops.get(entry..).unwrap_or_default();
                    let Some(at) = self.place_of_silent(next, rest, seen) else { continue };
                    (at, Seen::Silent)
                }
                HopReport::Recorded(record) => {
                    let (at, place) = self.place(next, is_whole, record)?;
                    (at, Seen::Recorded(Visit { place, record: *record }))
                }
            };
            *seen.get_mut(at).ok_or(Refusal::UnplannedHop)? = what;
            next = at + 1;
        }
        Ok(())
    }

    /// Which hop was silent, from `next` on, where some are missing. Rather a plain router than a node that should have
    /// written, and rather none than one of several: where more or fewer routers than silent hops come before the next
    /// record, those that could have been there are unsure.
    fn place_of_silent(&self, next: usize, rest: &[HopReport], seen: &mut [Seen]) -> Option<usize> {
        let hops = &self.planned.hops;
        let device = |hop: &HopReport| match hop {
            HopReport::Recorded(record) => record.device,
            _ => None,
        };
        let before = rest.iter().take_while(|hop| device(hop).is_none()).count();
        let following = rest.get(before).and_then(device);
        let end = following
            .and_then(|device| (next..hops.len()).find(|at| self.place_of(*at, device).is_some()))
            .unwrap_or(hops.len());
        if before >= end.saturating_sub(next) {
            return Some(next);
        }
        let is_silent = |hop: &&HopReport| matches!(hop, HopReport::Silent);
        let silent = rest.iter().take(before).filter(is_silent).count();
        let is_router = |at: &usize| hops.get(*at).is_some_and(|hop| hop.visits.is_empty());
        let routers = (next..end).filter(is_router).count();
        if routers == silent {
            return (next..end).find(is_router);
        }
        for at in (next..end).filter(|at| routers < silent || is_router(at)) {
            if let Some(seen) = seen.get_mut(at) {
                *seen = Seen::Unsure;
            }
        }
        None
    }

    /// Which hop a record is of, from `next` on, and by whom.
    #[allow(clippy::type_complexity)]
    fn place(
        &self,
        next: usize,
        is_whole: bool,
        record: &HopRecord,
    ) -> Result<(usize, Option<(usize, DeviceId)>), Refusal> {
        let Some(device) = record.device else {
            let visits = self.planned.hops.get(next).map_or(&[][..], |hop| &hop.visits[..]);
            return match visits {
                [] => Err(Refusal::ForeignDevice),
                [only] if is_whole => Ok((next, Some((0, only.device)))),
                _ => Ok((next, None)),
            };
        };
        // Where no hop is missing, it can only be this one.
        let last = if is_whole { next + 1 } else { self.planned.hops.len() };
        let found = (next..last).find_map(|at| Some((at, self.place_of(at, device)?)));
        if let Some((at, place)) = found {
            return Ok((at, Some((place, device))));
        }
        let is_ours = (0..self.planned.hops.len()).any(|at| self.place_of(at, device).is_some());
        Err(if is_ours { Refusal::OtherOrder } else { Refusal::ForeignDevice })
    }

    /// From a hop to the next one.
    pub(super) fn leg(&self, hop: usize, seen: &[Seen], clocks: &Clocks) -> Between {
        let next = self.next.get(hop).copied().flatten();
        next.map_or(Between::Unknown, |next| between(seen.get(hop), seen.get(next), clocks))
    }

    /// From the first hop to the last.
    pub(super) fn chain(&self, seen: &[Seen], clocks: &Clocks) -> Between {
        let Some((first, last)) = self.ends else { return Between::Unknown };
        between(seen.get(first), seen.get(last), clocks)
    }

    /// Could the packet have come then?
    pub(super) fn check_times(
        &self,
        seen: &[Seen],
        wall: Option<ArrivalTime>,
        clocks: &Clocks,
    ) -> Result<(), Refusal> {
        let stamps = seen.iter().filter_map(Seen::stamp).filter(|(_, stamp)| stamp.is_synchronised);
        let is_strange = |(_, stamp): (DeviceId, Stamp)| {
            wall.is_some_and(|wall| {
                let age_ns = wall.since(stamp.time);
                age_ns > AGE_MAX_NS && STAMP_MODULUS_NS - age_ns > CLOCKS_APART_MAX_NS
            })
        };
        let legs = (0..seen.len()).map(|hop| self.leg(hop, seen, clocks));
        let mut legs = legs.chain([self.chain(seen, clocks)]);
        if stamps.into_iter().any(is_strange) || legs.any(|leg| leg == Between::OutsideBounds) {
            return Err(Refusal::TimeOutsideBounds);
        }
        Ok(())
    }
}

fn between(from: Option<&Seen>, to: Option<&Seen>, clocks: &Clocks) -> Between {
    let stamps = from.and_then(Seen::stamp).zip(to.and_then(Seen::stamp));
    let Some(((from, start), (to, end))) = stamps else { return Between::Unknown };
    let is_one_clock = from == to;
    let is_shared = || clocks.get(&from).is_some_and(|clock| clocks.get(&to) == Some(clock));
    if !(is_one_clock || start.is_synchronised && end.is_synchronised || is_shared()) {
        return Between::Unknown;
    }
    match end.time.since(start.time) {
        ns @ ..=DELAY_MAX_NS => Between::Ns(ns),
        ns if !is_one_clock && STAMP_MODULUS_NS - ns <= CLOCKS_APART_MAX_NS => Between::Apart,
        _ => Between::OutsideBounds,
    }
}
