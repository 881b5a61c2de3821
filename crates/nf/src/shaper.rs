//! A shaper: packets of a class leave no faster than a bucket of tokens says (RFC 2475 section 2.3.3.3), and wait
//! until it does. When a packet leaves is known when it comes. Knows classes, buckets and queues; refuses to know what
//! links can carry.

mod schedule;
#[cfg(test)]
mod tests;

use crate::classes::Classes;
use crate::counts::Counts;
use crate::function::{Answer, Function, RuleCount, StateEntry, Waiting};
use crate::held::Held;
use crate::outcome::{DropCause, Outcomes, Verdict};
use crate::packet::{Direction, Packet, Time};
use catena_model::profile::{Meta, Profile, StateScope};
use catena_rules::qos::{QosConfig, Treatment};
use catena_wire::field::Field;
use schedule::{Fate, Schedule};

/// The first byte of the key of a class's schedule.
const SCHEDULE: u8 = b's';
/// Rules of each class: what leaves in time, what is longer than the bucket is deep, what finds the queue full.
const RULES: usize = 3;

/// A shaper.
#[derive(Clone, Debug)]
pub struct Shaper {
    profile: Profile,
    classes: Classes,
    shaped: Vec<Shaped>,
    held: Held,
    counts: Counts,
}

/// A class with its schedule.
#[derive(Clone, Debug)]
struct Shaped {
    name: String,
    schedule: Schedule,
    is_dirty: bool,
}

impl Shaper {
    /// A shaper of a configuration that was read for one, with full buckets; other classes than those that shape are
    /// left out.
    #[must_use]
    pub fn new(config: &QosConfig) -> Self {
        let mut counts = Counts::default();
        let (mut own, mut shaped) = (Vec::new(), Vec::new());
        for class in &config.classes {
            let Treatment::Shape(shaping) = class.treatment else { continue };
            own.push(class);
            let name = &class.name;
            let leaves = format!("leave at {}", shaping.rate);
            let whats = [leaves.as_str(), "longer than the burst", "queue full"];
            for (what, content) in whats.into_iter().zip(["leaves", "long", "full"]) {
                let words = format!("{}, class {name}: {what}", config.file);
                counts.add(format!("{content} {name}"), words);
            }
            let schedule = Schedule::new(shaping);
            shaped.push(Shaped { name: name.clone(), schedule, is_dirty: false });
        }
        counts.add(String::new(), format!("{}, no class: pass", config.file));
        let classes = Classes::new(own);
        let profile = Profile {
            reads: classes.reads().with(Field::Length).with_meta(Meta::ReceivedAt),
            drops: true,
            holds: true,
            effects_are_sums: false,
            state: StateScope::All,
            is_ordered: true,
            takes_super_frames: false,
            ..Profile::IDENTITY
        };
        Self { profile, classes, shaped, held: Held::default(), counts }
    }

    /// The class of a packet, what becomes of the packet, and by which rule; without a class it passes.
    fn decide(
        &self,
        now: Time,
        direction: Direction,
        packet: &Packet<'_>,
    ) -> (Option<usize>, Fate, u32) {
        let class = self.classes.find(direction, packet);
        let found = class.and_then(|class| Some((class, self.shaped.get(class)?)));
        let number = |rule: usize| u32::try_from(rule).unwrap_or(u32::MAX);
        let Some((class, shaped)) = found else {
            return (None, Fate::Leaves(now), number(self.shaped.len() * RULES));
        };
        let fate = match shaped.schedule.fate(now, packet.wire_bytes) {
            Fate::Leaves(at) if at > now && !self.held.has_room(packet) => Fate::FindsNoRoom,
            fate => fate,
        };
        let rule = match fate {
            Fate::Leaves(_) => 0,
            Fate::IsTooLong => 1,
            Fate::FindsNoRoom => 2,
        };
        (Some(class), fate, number(class * RULES + rule))
    }

    /// What a fate is for whoever carries it out.
    fn verdict(now: Time, fate: Fate, rule: u32) -> Verdict {
        match fate {
            Fate::Leaves(at) if at > now => Verdict::Hold,
            Fate::Leaves(_) => Verdict::Pass,
            Fate::IsTooLong => Verdict::Drop(DropCause::Rule(rule)),
            Fate::FindsNoRoom => Verdict::Drop(DropCause::Full),
        }
    }

    fn take_over(&mut self, entry: &StateEntry) -> Option<()> {
        let (SCHEDULE, name) = entry.key.split_first().map(|(about, rest)| (*about, rest))? else {
            return self.counts.import(entry);
        };
        let class = self.shaped.iter_mut().find(|class| class.name.as_bytes() == name)?;
        class.schedule = class.schedule.read(entry.value.as_deref()?)?;
        class.is_dirty = true;
        Some(())
    }
}

impl Function for Shaper {
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
        for (at, packet) in batch.iter().enumerate() {
            let (class, fate, rule) = self.decide(now, direction, packet);
            self.counts.count(rule, packet);
            outcomes.decide(at, Self::verdict(now, fate, rule));
            let shaped = class.and_then(|class| self.shaped.get_mut(class));
            if let (Fate::Leaves(leaves), Some(shaped)) = (fate, shaped) {
                shaped.schedule.add(now, packet.wire_bytes);
                shaped.is_dirty = true;
                if leaves > now {
                    self.held.keep(leaves, direction, packet);
                }
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

    fn ask(&self, now: Time, direction: Direction, packet: &Packet<'_>) -> Answer {
        let (_, fate, rule) = self.decide(now, direction, packet);
        Answer { verdict: Self::verdict(now, fate, rule), patches: Vec::new(), rules: vec![rule] }
    }

    /// What waits here stays here: only when it leaves is told, so that what comes to another leaves behind it.
    fn export(&mut self, all: bool, into: &mut Vec<StateEntry>) {
        for class in &mut self.shaped {
            if std::mem::take(&mut class.is_dirty) || all {
                let key = [&[SCHEDULE], class.name.as_bytes()].concat();
                into.push(StateEntry { key, value: Some(class.schedule.write()) });
            }
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
