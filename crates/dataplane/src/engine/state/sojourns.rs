//! Which packets are timed while they are with functions outside, and how long each was there. Knows digests, order
//! and time; refuses to know what a flow is and who counts.
//!
//! One packet in so many into each port is marked: at random, so that nobody can aim at it, and the more seldom the
//! more there are, so that marks cost the same whatever the load. A mark stands for as many packets as it was drawn
//! from.
//!
//! A packet is found again among those of its flow that come back by its first bytes. Where packets of the flow were
//! inside before it, one with the same bytes may have been among them: then it counts only when as many have come
//! back, and no other was like it. What was rewritten, lost or cut otherwise has a mark without a time.

use super::proxy_flows::{FLOW_INSIDE_NS, Visit};
use crate::engine::account::times::Sojourn;
use catena_wire::digest;
use catena_wire::frame::FrameView;
use std::num::NonZeroU16;

/// Packets that are marked at a time.
const MARKS_MAX: usize = 4_096;
/// Ports whose marks are drawn apart; others share.
const SAMPLERS: usize = 256;
/// Marks of a port follow one another no faster in the long run, in nanoseconds,
const MARK_EVERY_NS: u64 = 2_000_000;
/// and one in so many at least is marked.
const ONE_IN_MAX: u32 = 4_096;
/// Marks that a flow has at a time.
const PER_FLOW_MAX: usize = 8;
/// Frames that are looked at for a marked one.
const LOOKS_MAX: u32 = 1_024;
/// Bytes of a packet, from its IP header on, that tell it from others of its flow.
const TELLING_BYTES: u32 = 96;
/// Marks among which an old one is looked for when there is no room.
const SEARCHED: usize = 16;

/// When the next packet into a port is marked.
#[derive(Clone, Copy, Debug)]
struct Sampler {
    left: u32,
    one_in: u32,
    marked_ns: Option<u64>,
}

/// The first of the marks of a flow; none: it has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MarkRef(Option<NonZeroU16>);

impl MarkRef {
    pub(crate) const NONE: Self = Self(None);

    #[inline]
    pub(crate) fn is_some(self) -> bool {
        self.0.is_some()
    }

    fn of(place: usize) -> Self {
        let number = u16::try_from(place + 1).ok();
        Self(number.and_then(NonZeroU16::new))
    }

    fn place(self) -> Option<usize> {
        self.0.map(|number| usize::from(number.get()) - 1)
    }
}

/// A packet that is inside.
#[derive(Clone, Copy, Debug)]
struct Mark {
    digest: u64,
    visit: Visit,
    /// Where its flow is remembered.
    flow_place: usize,
    since_ns: u64,
    found_ns: Option<u64>,
    stands_for: u32,
    /// Packets of its flow that were inside before it, as far as known.
    ahead: u32,
    seen: u32,
    looks: u32,
    next: MarkRef,
}

/// What comes of a mark when packets of its flow are back.
enum Outcome {
    Waits,
    Ended(Option<Sojourn>),
}

/// The marks of one engine.
#[derive(Debug)]
pub(crate) struct Sojourns {
    samplers: Box<[Sampler; SAMPLERS]>,
    marks: Vec<Option<Mark>>,
    free: Vec<u16>,
    hand: usize,
    random: u64,
}

impl Sojourns {
    pub(crate) fn new(seed: u64) -> Self {
        let fresh = Sampler { left: 1, one_in: 1, marked_ns: None };
        Self {
            samplers: Box::new([fresh; SAMPLERS]),
            // Of their full size at once: the engine asks for no memory while packets pass.
            marks: Vec::with_capacity(MARKS_MAX),
            free: Vec::with_capacity(MARKS_MAX),
            hand: 0,
            random: seed | 1,
        }
    }

    /// Is one of these packets into a port to be marked? `egress`: serial of the port that they will come out of.
    #[inline(always)]
    pub(crate) fn is_due(&mut self, egress: u32, packets: u32) -> bool {
        let sampler = &mut self.samplers[egress as usize % SAMPLERS];
        sampler.left = sampler.left.saturating_sub(packets);
        sampler.left == 0
    }

    /// Draws when the next packet into a port is marked. Answers for how many the one that is due stands.
    fn draw(&mut self, now_ns: u64, egress: u32) -> u32 {
        // Marsaglia's xorshift, with the shifts of his paper's 64-bit generator.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let sampler = &mut self.samplers[egress as usize % SAMPLERS];
        let stands_for = sampler.one_in;
        let last_ns = sampler.marked_ns.replace(now_ns);
        let gap_ns = last_ns.map_or(u64::MAX, |last_ns| now_ns.saturating_sub(last_ns));
        if gap_ns < MARK_EVERY_NS {
            sampler.one_in = (sampler.one_in * 2).min(ONE_IN_MAX);
        } else if gap_ns > 4 * MARK_EVERY_NS {
            sampler.one_in = (sampler.one_in / 2).max(1);
        }
        // From 1 to one less than twice as many: in the mean one in so many.
        let span = u64::from(sampler.one_in) * 2 - 1;
        sampler.left = 1 + u32::try_from(self.random % span).unwrap_or(0);
        stands_for
    }

    /// Marks a packet that is due. `before`: the marks of its flow; answers those that it has now, none: there is no
    /// room. `ahead`: how many of its flow are inside before it.
    pub(crate) fn mark(
        &mut self,
        now_ns: u64,
        (egress, flow_place, visit): (u32, usize, Visit),
        (digest, ahead): (u64, u32),
        before: MarkRef,
    ) -> Option<MarkRef> {
        let stands_for = self.draw(now_ns, egress);
        if self.count(before) >= PER_FLOW_MAX {
            // Else those behind packets that are inside for long would be marked more seldom than others.
            let sampler = &mut self.samplers[egress as usize % SAMPLERS];
            sampler.one_in = (sampler.one_in * 2).min(ONE_IN_MAX);
            return None;
        }
        let place = match self.free.pop() {
            Some(place) => usize::from(place),
            None if self.marks.len() < MARKS_MAX => {
                self.marks.push(None);
                self.marks.len() - 1
            }
            None => return None,
        };
        self.marks[place] = Some(Mark {
            digest,
            visit,
            flow_place,
            since_ns: now_ns,
            found_ns: None,
            stands_for,
            ahead,
            seen: 0,
            looks: 0,
            next: before,
        });
        Some(MarkRef::of(place))
    }

    fn count(&self, first: MarkRef) -> usize {
        let next = |at: &MarkRef| Some(self.marks.get(at.place()?)?.as_ref()?.next);
        std::iter::successors(Some(first).filter(|at| at.is_some()), |at| {
            next(at).filter(|at| at.is_some())
        })
        .count()
    }

    /// The place of a flow that gives its marks up where no more can be made: one with an old one, else any, so that
    /// who has most of them loses most.
    pub(crate) fn who_gives_way(&mut self, now_ns: u64) -> Option<usize> {
        if !self.free.is_empty() || self.marks.len() < MARKS_MAX {
            return None;
        }
        let from = self.hand;
        self.hand = (from + SEARCHED) % MARKS_MAX;
        let places = (from..from + SEARCHED).map(|place| place % MARKS_MAX);
        let mut marks = places.filter_map(|place| self.marks[place].as_ref());
        let first = marks.next()?;
        let old = [first].into_iter().chain(marks).find(|mark| is_old(mark, now_ns));
        Some(old.unwrap_or(first).flow_place)
    }

    /// A frame of a flow is back from a visit, with so many packets. Tells of each mark how long its packet was
    /// inside of which that is known now; `marks` are the flow's, and are left as they are then.
    pub(crate) fn come_back(
        &mut self,
        now_ns: u64,
        marks: &mut MarkRef,
        visit: &Visit,
        (digest, packets): (u64, u64),
        mut tell: impl FnMut(Sojourn),
    ) {
        let packets = u32::try_from(packets).unwrap_or(u32::MAX);
        let ask = |mark: &mut Mark| match mark.visit.is_same(visit) {
            true => look(mark, now_ns, digest, packets),
            false if is_old(mark, now_ns) => Outcome::Ended(None),
            false => Outcome::Waits,
        };
        self.retain(marks, ask, &mut tell);
    }

    /// Forgets the marks of a flow.
    pub(crate) fn forget(&mut self, marks: &mut MarkRef) {
        self.retain(marks, |_| Outcome::Ended(None), &mut |_| {});
    }

    /// Asks about each mark of a flow, and takes out of its list those that have ended.
    fn retain(
        &mut self,
        first: &mut MarkRef,
        mut ask: impl FnMut(&mut Mark) -> Outcome,
        tell: &mut impl FnMut(Sojourn),
    ) {
        let (mut at, mut kept): (MarkRef, Option<usize>) = (*first, None);
        while let Some(place) = at.place() {
            let Some(mark) = self.marks.get_mut(place).and_then(Option::as_mut) else { break };
            let next = mark.next;
            match ask(mark) {
                Outcome::Waits => kept = Some(place),
                Outcome::Ended(sojourn) => {
                    self.marks[place] = None;
                    self.free.extend(u16::try_from(place).ok());
                    match kept.and_then(|kept| self.marks[kept].as_mut()) {
                        Some(kept) => kept.next = next,
                        None => *first = next,
                    }
                    sojourn.into_iter().for_each(&mut *tell);
                }
            }
            at = next;
        }
    }
}

fn is_old(mark: &Mark, now_ns: u64) -> bool {
    now_ns.saturating_sub(mark.since_ns) > FLOW_INSIDE_NS
}

/// Looks whether a frame that is back, with so many packets, is the marked one.
fn look(mark: &mut Mark, now_ns: u64, digest: u64, packets: u32) -> Outcome {
    mark.seen = mark.seen.saturating_add(packets);
    mark.looks += 1;
    if digest == mark.digest && mark.found_ns.replace(now_ns).is_some() {
        // A second one with its bytes: nobody knows which it is.
        return Outcome::Ended(None);
    }
    let is_over = mark.looks >= LOOKS_MAX || is_old(mark, now_ns);
    match mark.found_ns {
        Some(found_ns) if mark.seen > mark.ahead || is_over => {
            let ns = found_ns.saturating_sub(mark.since_ns);
            Outcome::Ended(Some(Sojourn { ns, stands_for: mark.stands_for.into() }))
        }
        None if is_over => Outcome::Ended(None),
        _ => Outcome::Waits,
    }
}

/// What tells a frame from others of its flow, by its first bytes.
pub(crate) fn telling(view: &FrameView, bytes: &[u8]) -> u64 {
    let end = view.end.min(u32::from(view.l3_offset) + TELLING_BYTES);
    digest::kept(&FrameView { end, ..*view }, bytes)
}

#[cfg(test)]
mod tests;
