//! A function that does nothing but work, for experiments: packets wait for drawn times, one after the other, or the
//! processor is kept busy for drawn numbers of iterations. Knows how to draw; refuses to look at a packet, and to
//! sleep.

mod draws;
#[cfg(test)]
mod tests;

use crate::counts::Counts;
use crate::function::{Answer, Function, RuleCount, StateEntry, Waiting};
use crate::held::Held;
use crate::outcome::{DropCause, Outcomes, Verdict};
use crate::packet::{Direction, Packet, Time};
use crate::tracking::carry::Bytes;
use catena_model::limits::FUNCTION_HELD_PACKETS_MAX;
use catena_model::profile::{FieldSet, Meta, Profile, StateScope};
use catena_rules::work::{Work as Kind, WorkConfig};
use draws::Draws;
use std::collections::VecDeque;
use std::hint::black_box;

/// The key of what was drawn and when the work is done.
const STATE: &[u8] = b"w";
/// The only rule.
const WORK: u32 = 0;

/// A function that works.
#[derive(Clone, Debug)]
pub struct Work {
    profile: Profile,
    kind: Kind,
    draws: Draws,
    /// When the packets leave that are there, in their order.
    leaving: VecDeque<Time>,
    held: Held,
    counts: Counts,
    is_dirty: bool,
}

impl Work {
    /// A function that has worked on nothing.
    #[must_use]
    pub fn new(config: &WorkConfig) -> Self {
        let mut counts = Counts::default();
        let (words, draw, holds) = match config.work {
            Kind::Waits { draw, .. } => ("work: waits", draw, true),
            Kind::Computes { draw } => ("work: computes", draw, false),
        };
        counts.add(words.to_owned(), words.to_owned());
        let reads = FieldSet::EMPTY;
        let profile = Profile {
            reads: if holds { reads.with_meta(Meta::ReceivedAt) } else { reads },
            drops: holds,
            holds,
            effects_are_sums: false,
            state: StateScope::All,
            is_ordered: true,
            takes_super_frames: false,
            ..Profile::IDENTITY
        };
        Self {
            profile,
            kind: config.work,
            draws: Draws::new(draw, config.seed),
            leaving: VecDeque::new(),
            held: Held::default(),
            counts,
            is_dirty: false,
        }
    }

    /// When a packet that comes now leaves: nobody is worked on before the one before it is done. None: too many
    /// are there.
    fn leaves(&self, now: Time, packet: &Packet<'_>) -> Option<Time> {
        let Kind::Waits { queue, .. } = self.kind else { return Some(now) };
        let there = self.leaving.len() - self.leaving.partition_point(|leaves| *leaves <= now);
        let first = self.leaving.back().map_or(now, |last| now.max(*last));
        let has_room = there < queue && self.held.has_room(packet);
        has_room.then(|| Time(first.0.saturating_add(self.draws.peek())))
    }

    fn verdict(now: Time, leaves: Option<Time>) -> Verdict {
        match leaves {
            None => Verdict::Drop(DropCause::Full),
            Some(leaves) if leaves > now => Verdict::Hold,
            Some(_) => Verdict::Pass,
        }
    }

    fn write(&self) -> Vec<u8> {
        let leaving = self.leaving.iter().map(|leaves| leaves.0);
        [self.draws.state()].into_iter().chain(leaving).flat_map(u64::to_be_bytes).collect()
    }

    fn take_over(&mut self, entry: &StateEntry) -> Option<()> {
        if entry.key != STATE {
            return self.counts.import(entry);
        }
        let mut bytes = Bytes(entry.value.as_deref()?);
        let draws = self.draws.going_on_at(bytes.long()?);
        let mut leaving = VecDeque::new();
        while let Some(leaves) = bytes.long().map(Time) {
            let is_in_order = leaving.back().is_none_or(|last| *last <= leaves);
            if !is_in_order || leaving.len() == FUNCTION_HELD_PACKETS_MAX {
                return None;
            }
            leaving.push_back(leaves);
        }
        (self.draws, self.leaving, self.is_dirty) = (draws, leaving, true);
        Some(())
    }
}

/// Keeps the processor busy for so many iterations.
fn compute(iterations: u64) {
    let mut word = iterations;
    for _ in 0..iterations {
        word = black_box(word.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1));
    }
    black_box(word);
}

impl Function for Work {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn process(
        &mut self,
        now: Time,
        direction: Direction,
        batch: &[Packet<'_>],
        outcomes: &mut Outcomes,
    ) {
        outcomes.begin(batch.len());
        self.held.release(now, outcomes);
        while self.leaving.len() > 1 && self.leaving.front().is_some_and(|leaves| *leaves <= now) {
            self.leaving.pop_front();
        }
        for (at, packet) in batch.iter().enumerate() {
            self.counts.count(WORK, packet);
            let leaves = self.leaves(now, packet);
            let verdict = Self::verdict(now, leaves);
            outcomes.decide(at, verdict);
            let Some(leaves) = leaves else { continue };
            self.is_dirty = true;
            let drawn = self.draws.take();
            match self.kind {
                Kind::Computes { .. } => compute(drawn),
                Kind::Waits { .. } => self.leaving.push_back(leaves),
            }
            if verdict == Verdict::Hold {
                self.held.keep(leaves, direction, packet);
            }
        }
    }

    fn elapse(&mut self, now: Time, outcomes: &mut Outcomes) {
        outcomes.begin(0);
        self.held.release(now, outcomes);
    }

    fn waiting(&self) -> Waiting {
        self.held.waiting()
    }

    fn ask(&self, now: Time, _direction: Direction, packet: &Packet<'_>) -> Answer {
        let verdict = Self::verdict(now, self.leaves(now, packet));
        Answer { verdict, patches: Vec::new(), rules: vec![WORK] }
    }

    /// What waits here stays here: only when it leaves is told.
    fn export(&mut self, all: bool, into: &mut Vec<StateEntry>) {
        if std::mem::take(&mut self.is_dirty) || all {
            into.push(StateEntry { key: STATE.to_vec(), value: Some(self.write()) });
        }
        self.counts.export(all, into);
    }

    fn import(&mut self, entries: &[StateEntry]) -> usize {
        entries.iter().filter(|entry| self.take_over(entry).is_some()).count()
    }

    fn report(&self, into: &mut Vec<RuleCount>) {
        self.counts.report(into);
    }

    fn rule_in_words(&self, rule: u32) -> Option<String> {
        self.counts.words(rule)
    }
}
