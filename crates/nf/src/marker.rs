//! A marker: packets get the code point of their class (RFC 2474, RFC 2475 section 2.3.1). Knows classes and code
//! points; refuses to meter, and leaves the two bits of ECN (RFC 3168) as they are.

#[cfg(test)]
mod tests;

use crate::classes::Classes;
use crate::counts::Counts;
use crate::function::{Answer, Function, RuleCount, StateEntry};
use crate::outcome::{Outcomes, Patch, Verdict};
use crate::packet::{Direction, Packet, Time};
use catena_model::profile::{FieldSet, Profile};
use catena_rules::Dscp;
use catena_rules::qos::{QosClass, QosConfig, Treatment};
use catena_wire::field::Field;

/// A marker.
#[derive(Clone, Debug)]
pub struct Marker {
    profile: Profile,
    classes: Classes,
    marks: Vec<Dscp>,
    counts: Counts,
}

impl Marker {
    /// A marker of a configuration that was read for one; other classes than those that mark are left out.
    #[must_use]
    pub fn new(config: &QosConfig) -> Self {
        let mut counts = Counts::default();
        let marking = config.classes.iter().filter_map(|class| match class.treatment {
            Treatment::Mark(dscp) => Some((class, dscp)),
            Treatment::Police(_) | Treatment::Shape(_) => None,
        });
        let (own, marks): (Vec<&QosClass>, Vec<Dscp>) = marking.unzip();
        for (class, dscp) in own.iter().zip(&marks) {
            let name = &class.name;
            counts.add(name.clone(), format!("{}, class {name}: mark {dscp}", config.file));
        }
        let classes = Classes::new(own);
        counts.add(String::new(), format!("{}, no class: as it is", config.file));
        let profile = Profile {
            reads: classes.reads(),
            writes: FieldSet::EMPTY.with(Field::Dscp),
            // It counts by classes.
            has_effects: true,
            ..Profile::IDENTITY
        };
        Self { profile, classes, marks, counts }
    }

    /// The rule that a packet meets, and its mark.
    fn decide(&self, direction: Direction, packet: &Packet<'_>) -> (u32, Option<Patch>) {
        let class = self.classes.find(direction, packet);
        let mark = class.and_then(|class| self.marks.get(class));
        let rule = class.unwrap_or(self.marks.len());
        let patch = mark.map(|dscp| Patch::of(Field::Dscp, dscp.get().into()));
        (u32::try_from(rule).unwrap_or(u32::MAX), patch)
    }
}

impl Function for Marker {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn process(
        &mut self,
        _now: Time,
        direction: Direction,
        batch: &[Packet<'_>],
        outcomes: &mut Outcomes,
    ) {
        outcomes.begin(batch.len());
        for (at, packet) in batch.iter().enumerate() {
            let (rule, patch) = self.decide(direction, packet);
            self.counts.count(rule, packet);
            if let Some(patch) = patch {
                outcomes.patch(at, patch);
            }
        }
    }

    fn elapse(&mut self, _now: Time, outcomes: &mut Outcomes) {
        outcomes.begin(0);
    }

    fn ask(&self, _now: Time, direction: Direction, packet: &Packet<'_>) -> Answer {
        let (rule, patch) = self.decide(direction, packet);
        Answer { verdict: Verdict::Pass, patches: patch.into_iter().collect(), rules: vec![rule] }
    }

    fn export(&mut self, all: bool, into: &mut Vec<StateEntry>) {
        self.counts.export(all, into);
    }

    fn import(&mut self, entries: &[StateEntry]) -> usize {
        entries.iter().filter(|entry| self.counts.import(entry).is_some()).count()
    }

    fn report(&self, into: &mut Vec<RuleCount>) {
        self.counts.report(into);
    }

    fn rule_in_words(&self, rule: u32) -> Option<String> {
        self.counts.words(rule)
    }
}
