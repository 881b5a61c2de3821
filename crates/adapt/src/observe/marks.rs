//! Counters and stamps of a flow as its last packet had them, and the next packet held against them. Knows what a node
//! may have counted since; refuses to know whose flow it is, and what becomes of the differences.
//!
//! Counters are modulo 2^20. What is lost between two nodes is the difference of what both have counted since the same
//! earlier packet, so reports that are lost lose nothing of it. It is exact while fewer than 2^19 are lost between
//! two reports and packets keep their order; where some overtake others it is off by no more than these, and not for
//! long. So a counter may go back a little at some hops, but not at all of them: such a packet is older than the last.

use super::limits::{FLOW_QUIET_MAX_NS, OVERTAKEN_MAX, WAIT_MAX_NS};
use super::refusal::Refusal;
use super::way::{Seen, Way};
use catena_model::telemetry::{ArrivalTime, DeviceId, FlowCounter};

/// Half of what counters count.
const COUNTER_HALF: u32 = 1 << 19;
const COUNTER_BITS: u32 = 20;
const STAMP_BITS: u32 = 40;

/// Which report a mark is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct At {
    pub(super) now_ns: u64,
    pub(super) reporter: DeviceId,
    pub(super) connection: u64,
    pub(super) sequence: u64,
}

impl At {
    /// Is nothing known that would still hold?
    fn is_stale(&self, now: &Self) -> bool {
        now.now_ns.saturating_sub(self.now_ns) > FLOW_QUIET_MAX_NS
    }

    /// Were so few samples told since, whosever they were, that counters cannot have come round? Only a path that lost
    /// 2^19 packets of the flow since could have hidden it.
    fn is_near(&self, now: &Self, one_in: u32) -> bool {
        let is_same = (self.reporter, self.connection) == (now.reporter, now.connection);
        let told = now.sequence.saturating_sub(self.sequence);
        is_same && told.saturating_mul(u64::from(one_in)) < u64::from(COUNTER_HALF)
    }
}

#[derive(Clone, Copy, Debug)]
struct HopMark {
    at: At,
    device: DeviceId,
    counter: Option<FlowCounter>,
    time: Option<ArrivalTime>,
}

#[derive(Clone, Copy, Debug)]
struct LegMark {
    at: At,
    from: (DeviceId, FlowCounter),
    to: (DeviceId, FlowCounter),
}

/// What happened at a hop since the last packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Advance {
    /// Packets that came, and by its clock in how many nanoseconds; below zero where the packet was overtaken.
    pub(super) passed: Option<(i32, Option<i64>)>,
    /// Packets that did not come to the next hop, less those that came late.
    pub(super) lost: Option<i32>,
}

/// Counters and stamps by hop.
#[derive(Clone, Debug)]
pub(super) struct Marks {
    hops: Box<[Option<HopMark>]>,
    legs: Box<[Option<LegMark>]>,
}

impl Marks {
    pub(super) fn new(hops: usize) -> Self {
        Self { hops: vec![None; hops].into(), legs: vec![None; hops].into() }
    }

    pub(super) fn clear(&mut self) {
        self.hops.fill(None);
        self.legs.fill(None);
    }

    /// The packet is the last one now.
    pub(super) fn set(&mut self, seen: &[Seen], at: At, way: &Way) {
        for (hop, mark) in self.hops.iter_mut().enumerate() {
            if let Some(new) = hop_mark(hop, seen, at, way) {
                *mark = Some(new);
            }
        }
        for (hop, mark) in self.legs.iter_mut().enumerate() {
            if let Some(new) = leg_mark(hop, seen, at, way) {
                *mark = Some(new);
            }
        }
    }

    /// Could the packet have come behind the last one?
    pub(super) fn check(&self, seen: &[Seen], at: At, way: &Way) -> Result<(), Refusal> {
        let one_in = way.planned.one_in.get();
        let (mut is_known, mut is_later, mut is_earlier) = (false, false, false);
        for (hop, mark) in self.hops.iter().enumerate() {
            let Some((mark, new)) = (*mark).zip(hop_mark(hop, seen, at, way)) else { continue };
            if mark.device != new.device || mark.at.is_stale(&at) {
                continue;
            }
            mark.check_time(&new)?;
            let Some(passed) = mark.passed(&new, one_in) else { continue };
            if passed < -(OVERTAKEN_MAX as i32) {
                return Err(Refusal::CounterBackwards);
            }
            (is_known, is_later) = (true, is_later || passed > 0);
            is_earlier |= passed < 0;
        }
        if is_known && !is_later {
            let refusal = if is_earlier { Refusal::CounterBackwards } else { Refusal::Repeated };
            return Err(refusal);
        }
        for (hop, mark) in self.legs.iter().enumerate() {
            let Some((mark, new)) = (*mark).zip(leg_mark(hop, seen, at, way)) else { continue };
            if mark.is_before(&new) {
                mark.check(&new, one_in)?;
            }
        }
        Ok(())
    }

    /// What happened at a hop since the last packet.
    pub(super) fn advance(&self, hop: usize, seen: &[Seen], at: At, way: &Way) -> Advance {
        let one_in = way.planned.one_in.get();
        let mark = self.hops.get(hop).copied().flatten();
        let passed = mark.zip(hop_mark(hop, seen, at, way)).and_then(|(mark, new)| {
            let is_known = mark.device == new.device && !mark.at.is_stale(&at);
            let passed = mark.passed(&new, one_in).filter(|_| is_known)?;
            let over = mark.time.zip(new.time).map(|(before, now)| time_step(before, now));
            Some((passed, over))
        });
        let mark = self.legs.get(hop).copied().flatten();
        let lost = mark.zip(leg_mark(hop, seen, at, way));
        let lost = lost.filter(|(mark, new)| mark.is_before(new));
        Advance { passed, lost: lost.map(|(mark, new)| mark.lost(&new)) }
    }
}

impl HopMark {
    /// Packets since; none: it is not known.
    fn passed(&self, new: &Self, one_in: u32) -> Option<i32> {
        let (before, now) = self.counter.zip(new.counter)?;
        let is_near = self.at.is_near(&new.at, one_in);
        is_near.then(|| signed(u64::from(now.since(before)), COUNTER_BITS) as i32)
    }

    fn check_time(&self, new: &Self) -> Result<(), Refusal> {
        let Some((before, now)) = self.time.zip(new.time) else { return Ok(()) };
        // At most FLOW_QUIET_MAX_NS.
        let heard_ns = new.at.now_ns.saturating_sub(self.at.now_ns);
        let heard_ns = i64::try_from(heard_ns).unwrap_or(i64::MAX);
        let is_near = time_step(before, now).abs_diff(heard_ns) <= WAIT_MAX_NS;
        if is_near { Ok(()) } else { Err(Refusal::TimeOutsideBounds) }
    }
}

impl LegMark {
    /// Are both of the same two nodes, and not long from each other?
    fn is_before(&self, new: &Self) -> bool {
        let devices = |mark: &Self| (mark.from.0, mark.to.0);
        devices(self) == devices(new) && !self.at.is_stale(&new.at)
    }

    fn lost(&self, new: &Self) -> i32 {
        let [came, went] = self.counted(new);
        signed(u64::from(came).wrapping_sub(u64::from(went)), COUNTER_BITS) as i32
    }

    fn counted(&self, new: &Self) -> [u32; 2] {
        [new.from.1.since(self.from.1), new.to.1.since(self.to.1)]
    }

    fn check(&self, new: &Self, one_in: u32) -> Result<(), Refusal> {
        let lost = self.lost(new);
        let has_more = lost.is_negative() && lost.unsigned_abs() > OVERTAKEN_MAX;
        // A counter that stands no higher than what its neighbour has seen since has begun anew rather than lost all
        // that.
        let [_, went] = self.counted(new);
        let is_new = new.from.1.get() <= went + OVERTAKEN_MAX && self.at.is_near(&new.at, one_in);
        let began_anew = lost > OVERTAKEN_MAX as i32 && is_new;
        if has_more || began_anew { Err(Refusal::CounterContradiction) } else { Ok(()) }
    }
}

fn hop_mark(hop: usize, seen: &[Seen], at: At, way: &Way) -> Option<HopMark> {
    let (_, device, record) = seen.get(hop)?.named()?;
    let counts = way.counts_alone.get(hop).copied().unwrap_or(false);
    let counter = record.counter.filter(|_| counts);
    Some(HopMark { at, device, counter, time: record.arrival.map(|stamp| stamp.time) })
}

fn leg_mark(hop: usize, seen: &[Seen], at: At, way: &Way) -> Option<LegMark> {
    let next = way.next.get(hop).copied().flatten()?;
    let end = |hop| {
        let mark = hop_mark(hop, seen, at, way)?;
        Some((mark.device, mark.counter?))
    };
    Some(LegMark { at, from: end(hop)?, to: end(next)? })
}

/// Nanoseconds from one stamp to the next of a clock, also back.
fn time_step(before: ArrivalTime, now: ArrivalTime) -> i64 {
    signed(now.since(before), STAMP_BITS)
}

/// The low bits as a number with a sign.
fn signed(value: u64, bits: u32) -> i64 {
    let unused = u64::BITS - bits;
    (value << unused).cast_signed() >> unused
}
