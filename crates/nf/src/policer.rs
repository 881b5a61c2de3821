//! A policer: packets are metered by the three color markers of RFC 2697 and RFC 2698, and pass, get another code
//! point, or end by their colours. Knows classes and buckets; refuses to let a packet wait.

mod meter;
#[cfg(test)]
mod tests;

use crate::classes::Classes;
use crate::counts::Counts;
use crate::function::{Answer, Function, RuleCount, StateEntry};
use crate::outcome::{DropCause, Outcomes, Patch, Verdict};
use crate::packet::{Direction, Packet, Time};
use catena_model::profile::{FieldSet, Meta, Profile, StateScope};
use catena_rules::qos::{ColourAction, Policing, QosConfig, Treatment};
use catena_wire::field::Field;
use meter::{Buckets, Colour};

/// The first byte of the key of a class's buckets.
const BUCKETS: u8 = b'b';

/// A policer.
#[derive(Clone, Debug)]
pub struct Policer {
    profile: Profile,
    classes: Classes,
    policed: Vec<Policed>,
    counts: Counts,
}

/// A class with its buckets.
#[derive(Clone, Debug)]
struct Policed {
    name: String,
    policing: Policing,
    buckets: Buckets,
    is_dirty: bool,
}

/// What becomes of a packet.
struct Decision {
    rule: u32,
    action: ColourAction,
    /// The class that it falls into, with its buckets behind it.
    then: Option<(usize, Buckets)>,
}

impl Decision {
    fn verdict(&self) -> Verdict {
        match self.action {
            ColourAction::Pass | ColourAction::Mark(_) => Verdict::Pass,
            ColourAction::Drop => Verdict::Drop(DropCause::Rule(self.rule)),
        }
    }

    fn patch(&self) -> Option<Patch> {
        match self.action {
            ColourAction::Mark(dscp) => Some(Patch::of(Field::Dscp, dscp.get().into())),
            ColourAction::Pass | ColourAction::Drop => None,
        }
    }
}

impl Policer {
    /// A policer of a configuration that was read for one, with full buckets; other classes than those that police
    /// are left out.
    #[must_use]
    pub fn new(config: &QosConfig) -> Self {
        let mut counts = Counts::default();
        let (mut own, mut policed) = (Vec::new(), Vec::new());
        for class in &config.classes {
            let Treatment::Police(policing) = &class.treatment else { continue };
            own.push(class);
            let name = &class.name;
            for (colour, action) in Colour::ALL.iter().zip(policing.actions) {
                let colour = colour.name();
                let words = format!("{}, class {name}, {colour}: {action}", config.file);
                counts.add(format!("{colour} {name}"), words);
            }
            policed.push(Policed {
                name: name.clone(),
                buckets: Buckets::full(&policing.meter),
                policing: policing.clone(),
                is_dirty: false,
            });
        }
        counts.add(String::new(), format!("{}, no class: pass", config.file));
        let classes = Classes::new(own);
        let profile = profile(&classes, &policed);
        Self { profile, classes, policed, counts }
    }

    fn decide(&self, now: Time, direction: Direction, packet: &Packet<'_>) -> Decision {
        let class = self.classes.find(direction, packet);
        let found = class.and_then(|class| Some((class, self.policed.get(class)?)));
        let Some((class, policed)) = found else {
            let rule = u32::try_from(self.policed.len() * Colour::ALL.len()).unwrap_or(u32::MAX);
            return Decision { rule, action: ColourAction::Pass, then: None };
        };
        let Policing { meter, aware, actions } = &policed.policing;
        let came = aware.as_ref().map_or(Colour::Green, |aware| Colour::of(aware, packet));
        let mut buckets = policed.buckets;
        let colour = buckets.meter(meter, now, (packet.wire_bytes, came));
        let rule = class * Colour::ALL.len() + colour as usize;
        Decision {
            rule: u32::try_from(rule).unwrap_or(u32::MAX),
            action: actions[colour as usize],
            then: Some((class, buckets)),
        }
    }

    fn take_over(&mut self, entry: &StateEntry) -> Option<()> {
        let (BUCKETS, name) = entry.key.split_first().map(|(about, rest)| (*about, rest))? else {
            return self.counts.import(entry);
        };
        let class = self.policed.iter_mut().find(|class| class.name.as_bytes() == name)?;
        class.buckets = Buckets::read(entry.value.as_deref()?, &class.policing.meter)?;
        class.is_dirty = true;
        Some(())
    }
}

/// What a policer says of itself. All packets of a class share its buckets, in the order in which they come.
fn profile(classes: &Classes, policed: &[Policed]) -> Profile {
    let mut reads = classes.reads().with(Field::Length).with_meta(Meta::ReceivedAt);
    if policed.iter().any(|class| class.policing.aware.is_some()) {
        reads = reads.with(Field::Dscp);
    }
    let does = |is_it: fn(&ColourAction) -> bool| {
        policed.iter().flat_map(|class| &class.policing.actions).any(is_it)
    };
    let marks = does(|action| matches!(action, ColourAction::Mark(_)));
    Profile {
        reads,
        writes: if marks { FieldSet::EMPTY.with(Field::Dscp) } else { FieldSet::EMPTY },
        drops: does(|action| *action == ColourAction::Drop),
        has_effects: true,
        effects_are_sums: false,
        state: StateScope::All,
        is_ordered: true,
        takes_super_frames: false,
        ..Profile::IDENTITY
    }
}

impl Function for Policer {
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
        for (at, packet) in batch.iter().enumerate() {
            let decision = self.decide(now, direction, packet);
            self.counts.count(decision.rule, packet);
            if let Verdict::Drop(cause) = decision.verdict() {
                outcomes.drop_packet(at, cause);
            }
            if let Some(patch) = decision.patch() {
                outcomes.patch(at, patch);
            }
            if let Some((class, buckets)) = decision.then
                && let Some(class) = self.policed.get_mut(class)
            {
                (class.buckets, class.is_dirty) = (buckets, true);
            }
        }
    }

    fn elapse(&mut self, _now: Time, outcomes: &mut Outcomes) {
        outcomes.begin(0);
    }

    fn ask(&self, now: Time, direction: Direction, packet: &Packet<'_>) -> Answer {
        let decision = self.decide(now, direction, packet);
        Answer {
            verdict: decision.verdict(),
            patches: decision.patch().into_iter().collect(),
            rules: vec![decision.rule],
        }
    }

    fn export(&mut self, all: bool, into: &mut Vec<StateEntry>) {
        for class in &mut self.policed {
            if std::mem::take(&mut class.is_dirty) || all {
                let key = [&[BUCKETS], class.name.as_bytes()].concat();
                into.push(StateEntry { key, value: Some(class.buckets.write()) });
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
