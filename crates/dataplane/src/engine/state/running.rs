//! A bundled function that runs inside: its value, how it takes over from another, and what it has counted. Knows that
//! a value may die; refuses to know of other functions.

use super::function_messages::{FunctionMessages, Sender};
use super::function_state::StateChange;
use super::life::Life;
use super::seat::Seat;
use crate::engine::stage::{Lending, Silence, ask_safely, bury, protects};
use crate::engine::tables::bundles::Bundle;
use crate::engine::tables::renewal::Renewal;
use crate::engine::vector::InsideVisit;
use crate::engine::vector::decision::Epoch;
use catena_model::PathId;
use catena_model::account::{FunctionCounters, MessageCounters, RuleHits};
use catena_model::id::InstanceId;
use catena_model::limits::{FUNCTION_FLOWS_MAX, FUNCTION_RULES_TOLD_MAX};
use catena_model::profile::Profile;
use catena_nf::bucket::{Bucket, ICMP_ERRORS};
use catena_nf::function::{RuleCount, StateEntry};
use catena_nf::outcome::Outcomes;
use catena_nf::packet::Time;
use catena_nf::{Function, check};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Entries that are kept for whoever takes its place, at most.
const KEPT_MAX: usize = 4 * FUNCTION_FLOWS_MAX;

/// What a value has told of what it remembers.
type Kept = BTreeMap<Vec<u8>, Vec<u8>>;

/// A function that runs.
pub(crate) struct Running {
    pub(super) bundle: Arc<Bundle>,
    /// By which number packets name it.
    pub(super) number: u32,
    pub(crate) function: Seat,
    /// ICMP errors that may still be made.
    pub(crate) errors: Bucket,
    pub(crate) errors_withheld: u64,
    pub(crate) events: u64,
    life: Life,
    messages: MessageCounters,
    /// Bytes of packets that were copied to ask it, when time passed for it last.
    copied_bytes: u64,
    /// The same of those before it that have died.
    copied_before: u64,
    /// It has not died since its value was made.
    is_alive: bool,
    /// What it has told of what it remembers, for whoever takes its place when it has died.
    kept: Arc<Kept>,
    /// The same, of a telling of everything that has not come to its end.
    partly_told: Option<Kept>,
    /// Whoever takes its place, when it is made.
    renewal: Arc<Renewal>,
    /// It has begun anew since it told anything: what was told may be more than it knows.
    is_anew: bool,
    /// It has begun anew since it followed another value of its instance.
    lags: bool,
    /// The path that packets took through it last.
    pub(crate) taken: Option<PathId>,
    /// The visit to it behind which enters what it asks others, and the tables that this was found in.
    pub(crate) way: Option<(Epoch, Option<InsideVisit>)>,
}

impl Running {
    /// One without a value begins as soon as there is one.
    pub(super) fn start(bundle: &Arc<Bundle>) -> Self {
        let value = bundle.take();
        Self {
            is_alive: value.is_some(),
            bundle: Arc::clone(bundle),
            number: 0,
            function: value.map_or_else(Seat::empty, Seat::Here),
            errors: Bucket::new(&ICMP_ERRORS),
            errors_withheld: 0,
            events: 0,
            life: Life::default(),
            messages: MessageCounters::default(),
            copied_bytes: 0,
            copied_before: 0,
            kept: Arc::default(),
            partly_told: None,
            renewal: Arc::default(),
            is_anew: false,
            lags: false,
            taken: None,
            way: None,
        }
    }

    /// Packets come to it by this path.
    pub(crate) fn note_path(&mut self, path: PathId) {
        if self.taken != Some(path) {
            (self.taken, self.way) = (Some(path), None);
        }
    }

    /// By which number packets name it.
    pub(crate) const fn number(&self) -> u32 {
        self.number
    }

    pub(crate) fn name(&self) -> &str {
        &self.bundle.name
    }

    /// What it says of itself.
    pub(crate) fn profile(&self) -> &Profile {
        &self.bundle.profile
    }

    /// It says nothing of so many packets. One that has died begins anew, at once or after a pause. True: packets pass
    /// it meanwhile, since it only looks on.
    pub(crate) fn outlive(&mut self, silence: Silence, packets: usize, now: Time) -> bool {
        if let Silence::Died(why) = silence {
            let function = self.name();
            tracing::error!(function, packets, "it has died, and begins anew: {why}");
            self.function.clear();
            self.end(now);
        }
        self.begin_anew(now);
        self.is_passed()
    }

    /// Do packets pass it while it is dead, since it only looks on?
    pub(crate) fn is_passed(&self) -> bool {
        !protects(self.profile())
    }

    /// It has died, which is counted once.
    fn end(&mut self, now: Time) {
        if std::mem::take(&mut self.is_alive) {
            self.life.end(now);
            self.copied_before += std::mem::take(&mut self.copied_bytes);
        }
    }

    /// One that has died begins anew, if its pause is over.
    fn begin_anew(&mut self, now: Time) {
        if !self.function.is_empty() {
            return;
        }
        // Of something else than packets and time.
        self.end(now);
        if !self.life.may_begin(now) {
            return;
        }
        if self.renewal.was_refused() || self.life.dies_again_and_again() {
            // It may be that which it dies of: the next one begins with nothing.
            self.kept = Arc::default();
        }
        let (function, kept) = (self.name().to_owned(), Arc::clone(&self.kept));
        let prepare = move |value| remembering(&function, value, &kept);
        if let Some(fresh) = self.bundle.renew(&self.renewal, prepare) {
            self.function.replace(fresh);
            (self.is_alive, self.is_anew, self.lags) = (true, true, true);
            self.partly_told = None;
        }
    }

    /// Has it begun anew since this was asked last?
    pub(super) fn take_anew(&mut self) -> bool {
        std::mem::take(&mut self.is_anew)
    }

    /// It has told this of what it remembers; `is_end`: no more of what it was asked for is to come.
    pub(super) fn keep(&mut self, change: &StateChange, is_end: bool) {
        if change.is_whole {
            self.partly_told = Some(Kept::new());
        }
        match &mut self.partly_told {
            Some(partly) => add(partly, &change.entries),
            None => add(Arc::make_mut(&mut self.kept), &change.entries),
        }
        if is_end && let Some(whole) = self.partly_told.take() {
            // Letting go of much takes long, too.
            self.bundle.let_go(std::mem::replace(&mut self.kept, Arc::new(whole)));
        }
    }

    /// A thread has stopped that was to ask it: where that has its value, another takes its place.
    pub(crate) fn leave_behind(&mut self, now: Time) {
        if self.function.take_back() {
            return;
        }
        let function = self.name();
        tracing::error!(function, "a thread does not come back from it, and it begins anew");
        self.function = Seat::empty();
        self.end(now);
        self.begin_anew(now);
    }

    /// Time passes for it, and what that makes is checked against its profile; one that dies of it begins anew.
    pub(super) fn elapse(
        &mut self,
        now: Time,
        outcomes: &mut Outcomes,
        messages: &mut FunctionMessages,
    ) {
        self.begin_anew(now);
        let passes = |function: &mut dyn Function| {
            function.elapse(now, outcomes);
            function.copied_bytes()
        };
        match self.function.try_with(passes) {
            Ok(Some(copied)) => self.copied_bytes = copied,
            Ok(None) => return,
            Err(why) => {
                self.outlive(Silence::Died(why), 0, now);
                return;
            }
        }
        if let Err(fault) = self.checked(0, outcomes, messages) {
            tracing::error!(function = self.bundle.name, "it breaks its profile: {fault}");
        }
    }

    /// Is each packet to be as on the wire?
    pub(crate) fn cuts(&self) -> bool {
        self.profile().wants_wire_packets()
    }

    /// Is its checksum to be finished, if it is no super-frame?
    pub(crate) fn closes(&self) -> bool {
        self.profile().wants_checksums()
    }

    /// Do these outcomes of so many packets keep to the profile? Counts what they tell, and takes their messages.
    pub(crate) fn checked(
        &mut self,
        asked: usize,
        outcomes: &Outcomes,
        messages: &mut FunctionMessages,
    ) -> Result<(), check::Fault> {
        check::outcomes(self.profile(), asked, outcomes)?;
        self.tell(outcomes, messages);
        Ok(())
    }

    /// Counts what outcomes that keep to the profile tell, and takes their messages.
    pub(crate) fn tell(&mut self, outcomes: &Outcomes, messages: &mut FunctionMessages) {
        self.events += outcomes.events().len() as u64;
        let sender = Sender {
            instance: self.bundle.key.0,
            collector: self.bundle.collector.as_ref(),
            counters: &mut self.messages,
        };
        messages.take_from(outcomes, sender);
    }

    pub(super) fn is_of(&self, instance: InstanceId) -> bool {
        self.bundle.key.0 == instance
    }

    /// Takes over what another value of the instance knows: all of it, or what has changed since it did so last, which
    /// is answered.
    pub(super) fn follow(&mut self, other: &mut Self, all: bool) -> Vec<StateEntry> {
        let mut entries: Vec<StateEntry> = Vec::new();
        let all = all || std::mem::take(&mut self.lags) || std::mem::take(&mut other.lags);
        if other.function.with(|function| function.export(all, &mut entries)).is_none() {
            // Of one that is dead it is known what it had told.
            entries = in_entries(&other.kept);
        }
        match all {
            true => self.kept = Arc::clone(&other.kept),
            // It goes with the newest, which alone tells.
            false => std::mem::swap(&mut self.kept, &mut other.kept),
        }
        self.take_over(&entries);
        self.errors = other.errors.clone();
        self.errors_withheld = other.errors_withheld;
        self.events = other.events;
        self.life.follow(other.life);
        self.copied_before = other.copied_before + other.copied_bytes;
        self.messages = other.messages.clone();
        entries
    }

    /// Takes over what others know, which is then nothing to be told again. Answers how much of it.
    pub(super) fn take_over(&mut self, entries: &[StateEntry]) -> usize {
        if self.function.is_empty() {
            // It begins with that.
            add(Arc::make_mut(&mut self.kept), entries);
            return entries.len();
        }
        let taken = self.function.with(|function| {
            let taken = function.import(entries);
            function.export(false, &mut Vec::new());
            taken
        });
        taken.unwrap_or_default()
    }

    pub(super) fn export(&self, stage: &Lending) -> FunctionCounters {
        let mut counts = Vec::new();
        self.function.look(|function| function.report(&mut counts));
        let hits = (0..).zip(counts).filter(|(_, count)| count.packets > 0);
        let hits: Vec<(u32, RuleCount)> = hits.collect();
        let told = hits.len().min(FUNCTION_RULES_TOLD_MAX);
        let rules_untold = hits.len() - told;
        let hits = hits.into_iter().take(told);
        let rules: Vec<RuleHits> = hits
            .map(|(number, count)| RuleHits {
                rule: self.rule(number),
                packets: count.packets,
                bytes: count.bytes,
            })
            .collect();
        FunctionCounters {
            instance: self.bundle.key.0,
            name: self.bundle.name.clone(),
            configuration: self.bundle.key.1,
            rules,
            rules_untold: rules_untold as u64,
            events: self.events,
            messages: self.messages.clone(),
            errors_withheld: self.errors_withheld,
            deaths: self.life.deaths,
            copied_bytes: self.copied_bytes + self.copied_before,
            choice: stage.choice(self.number),
        }
    }

    /// How often it has died.
    pub(super) const fn deaths(&self) -> u64 {
        self.life.deaths
    }

    /// A rule in its writer's words.
    pub(crate) fn rule(&self, number: u32) -> String {
        let words = self.function.look(|function| function.rule_in_words(number)).flatten();
        words.unwrap_or_else(|| format!("rule {number}"))
    }
}

/// A value that has taken over what was kept; none: it has died of that.
fn remembering(
    function: &str,
    mut value: Box<dyn Function>,
    kept: &Kept,
) -> Option<Box<dyn Function>> {
    if kept.is_empty() {
        return Some(value);
    }
    let (entries, mut taken) = (in_entries(kept), 0);
    let died = ask_safely(|| {
        taken = value.import(&entries);
        // It is nothing that it would tell again.
        value.export(false, &mut Vec::new());
    });
    let Some(why) = died else {
        let all = entries.len();
        tracing::info!(function, taken, all, "it remembers what it had told before it died");
        return Some(value);
    };
    tracing::error!(function, "it has died of what it was to remember: {why}");
    bury(Some(value));
    None
}

/// As a value takes it over.
fn in_entries(kept: &Kept) -> Vec<StateEntry> {
    let entry = |(key, value): (&Vec<u8>, &Vec<u8>)| {
        let (key, value) = (key.clone(), Some(value.clone()));
        StateEntry { key, value }
    };
    kept.iter().map(entry).collect()
}

fn add(kept: &mut Kept, entries: &[StateEntry]) {
    for StateEntry { key, value } in entries {
        match value {
            Some(value) if kept.len() < KEPT_MAX || kept.contains_key(key) => {
                kept.insert(key.clone(), value.clone());
            }
            Some(_) => {}
            None => drop(kept.remove(key)),
        }
    }
}
