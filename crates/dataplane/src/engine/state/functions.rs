//! The bundled functions that run inside, and what they have left behind of one batch. Knows how a
//! value takes over from another of its instance, and from one of a former data plane; refuses to know packets' ways.

use super::function_messages::{FunctionMessage, FunctionMessages};
use super::function_state::{HandOut, RememberedState, StateChange};
use super::running::Running;
use crate::engine::stage::{Form, Lending, LentFunction, Met};
use crate::engine::tables::bundles::Bundles;
use crate::engine::vector::Work;
use catena_model::account::FunctionCounters;
use catena_model::id::InstanceId;
use catena_nf::outcome::Outcomes;
use catena_nf::packet::{Packet, Time};
use std::collections::BTreeMap;
use std::fmt;

/// How often time passes for functions, in nanoseconds.
const ELAPSE_NS: u64 = 100_000_000;

/// All that run, by the number of their bundle.
#[derive(Default)]
pub(crate) struct Functions {
    running: Vec<Option<Running>>,
    /// Of each instance with several values: the one that was asked last, which knows all that there is to know.
    newest: BTreeMap<InstanceId, u32>,
    /// What instances remembered in a former data plane: whoever takes it up first has it.
    remembered: RememberedState,
    hand_out: HandOut,
    elapsed_ns: u64,
    /// Time has passed since functions could ask others.
    is_turn: bool,
    /// What of functions' time was over when the engine's began.
    began_ns: u64,
    messages: FunctionMessages,
    /// Those that threads ask.
    pub(crate) stage: Lending,
    /// Packets that have come out of it, on their way into the vector.
    pub(crate) released: Vec<Work>,
    // Working memory, kept so that no batch allocates.
    outcomes: Outcomes,
    packets: Vec<Packet<'static>>,
    /// What functions have made, on its way into the vector.
    pub(crate) made: Vec<Work>,
    /// Wire packets that a super-frame is cut into.
    pub(crate) room: Vec<Work>,
}

impl fmt::Debug for Functions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.export(|_| true)).finish()
    }
}

impl Functions {
    /// None yet; so much of their time is over when the engine's begins. `keeping`: what is remembered of before,
    /// where somebody keeps what they remember.
    pub(crate) fn new(began_ns: u64, keeping: Option<RememberedState>) -> Self {
        let hand_out = HandOut::new(keeping.is_some());
        Self { began_ns, hand_out, remembered: keeping.unwrap_or_default(), ..Self::default() }
    }

    /// What time it is for them.
    pub(crate) fn time(&self, now_ns: u64) -> Time {
        Time(self.began_ns.saturating_add(now_ns))
    }

    /// What they have handed out since this was asked last.
    pub(crate) fn take_messages(&mut self) -> Vec<FunctionMessage> {
        self.messages.take()
    }

    /// Lines up with new tables: a function that stays goes on; one that comes takes over what its instance
    /// knows under another configuration.
    pub(crate) fn align(&mut self, bundles: &Bundles) {
        self.take_back();
        let slots = bundles.slots();
        let mut left: Vec<(u32, Running)> = Vec::new();
        self.running.resize_with(self.running.len().max(slots.len()), || None);
        for (number, place) in (0..).zip(&mut self.running) {
            let wanted = slots.get(number as usize).and_then(Option::as_ref);
            let is_it = |running: &Running| wanted.is_some_and(|one| one.key == running.bundle.key);
            if !place.as_ref().is_some_and(is_it) {
                left.extend(place.take().map(|running| (number, running)));
            }
        }
        for (number, bundle) in slots.iter().enumerate() {
            let is_there = self.running.get(number).is_some_and(Option::is_some);
            let Some(bundle) = bundle.as_ref().filter(|_| !is_there) else { continue };
            let mut fresh = Running::start(bundle);
            let instance = bundle.key.0;
            self.hand_out.begin_anew(instance);
            let newest = self.newest.get(&instance).copied();
            let all = self.running.iter_mut().flatten();
            let mut others: Vec<&mut Running> = all.filter(|one| one.is_of(instance)).collect();
            // Of several values of an instance one is the newest; a single one is that anyway.
            let known = others.iter().position(|one| Some(one.number) == newest).unwrap_or(0);
            if known < others.len() {
                let other = others.swap_remove(known);
                // With a third, what one of them is told must not be new to nobody else.
                for one in others.into_iter().chain([&mut fresh]) {
                    one.follow(other, true);
                }
            } else {
                let gone = left.iter_mut().filter(|(_, one)| one.is_of(instance));
                // The newest of them, where there are several.
                if let Some((_, other)) = gone.max_by_key(|(number, _)| Some(*number) == newest) {
                    fresh.follow(other, true);
                } else if let Some(entries) = self.remembered.remove(&instance) {
                    let taken = fresh.take_over(&entries);
                    let (all, function) = (entries.len(), fresh.name());
                    tracing::info!(function, taken, all, "it remembers what it did before");
                }
            }
            fresh.number = u32::try_from(number).unwrap_or(u32::MAX);
            if let Some(place) = self.running.get_mut(number) {
                *place = Some(fresh);
            }
        }
        for (number, mut gone) in left {
            let instance = gone.bundle.key.0;
            if self.newest.get(&instance) == Some(&number) {
                self.newest.remove(&instance);
                self.hand_out.begin_anew(instance);
                let all = self.running.iter_mut().flatten();
                for one in all.filter(|one| one.is_of(instance)) {
                    one.follow(&mut gone, true);
                }
            }
        }
        if !self.is_empty() {
            // What the first program has not taken up belongs to nobody any more.
            self.remembered.clear();
        }
        let running = &self.running;
        self.hand_out.line_up(|id| running.iter().flatten().any(|one| one.is_of(*id)));
        self.note_siblings();
        let running = &self.running;
        let is_there = |number: u32| running.get(number as usize).is_some_and(Option::is_some);
        self.stage.line_up(is_there);
    }

    /// Values are with the engine again, as far as no thread has one.
    fn take_back(&mut self) {
        for running in self.running.iter_mut().flatten() {
            running.function.take_back();
        }
    }

    /// In which form packets that go this way are asked about.
    pub(crate) fn form(&mut self, way: &[Met]) -> Form {
        let Self { stage, running, .. } = self;
        let one = |number: u32| running.get(number as usize).and_then(Option::as_ref);
        stage.form(way, |number| one(number).map(|running| *running.profile()))
    }

    /// May functions be lent to threads? Not while several values of an instance work on one state.
    pub(crate) fn may_lend(&self) -> bool {
        self.stage.is_open() && self.newest.is_empty()
    }

    /// The function with a number as a thread reaches it.
    pub(crate) fn lend(&mut self, number: u32) -> Option<LentFunction> {
        self.running.get_mut(number as usize)?.as_mut().map(|running| running.function.lend())
    }

    /// A function, where its messages go, and what is lent.
    pub(crate) fn running(
        &mut self,
        number: u32,
    ) -> Option<(&mut Running, &mut FunctionMessages, &mut Lending)> {
        let running = self.running.get_mut(number as usize)?.as_mut()?;
        Some((running, &mut self.messages, &mut self.stage))
    }

    /// Which instances have several values, while a changed path comes and the former drains.
    fn note_siblings(&mut self) {
        let mut values: BTreeMap<InstanceId, Vec<u32>> = BTreeMap::new();
        for running in self.running.iter().flatten() {
            values.entry(running.bundle.key.0).or_default().push(running.number);
        }
        values.retain(|_, numbers| numbers.len() > 1);
        self.newest.retain(|instance, _| values.contains_key(instance));
        for (instance, numbers) in values {
            if let Some(first) = numbers.first() {
                self.newest.entry(instance).or_insert(*first);
            }
        }
    }

    /// Brings a function to what its instance knows under another configuration: both work on one state.
    fn catch_up(&mut self, number: u32) {
        let Some(instance) = self.get(number).map(|running| running.bundle.key.0) else { return };
        let Some(newest) = self.newest.get_mut(&instance).filter(|newest| **newest != number)
        else {
            return;
        };
        let former = std::mem::replace(newest, number) as usize;
        // What one of several has been told, the others have not.
        let are_several =
            self.running.iter().flatten().filter(|one| one.is_of(instance)).count() > 2;
        let number = number as usize;
        if let Ok([one, other]) = self.running.get_disjoint_mut([number, former])
            && let (Some(one), Some(other)) = (one, other)
        {
            let entries = one.follow(other, are_several);
            match are_several {
                true => self.hand_out.begin_anew(instance),
                false => self.hand_out.note(instance, entries),
            }
        }
    }

    /// What instances remember that has not been handed out: a portion of it, about once a second. `is_last`: all
    /// of it, now.
    pub(crate) fn take_state(&mut self, now_ns: u64, is_last: bool) -> Vec<StateChange> {
        if self.hand_out.is_due(now_ns) {
            self.begin_hand_out(now_ns);
        }
        self.tell_portion();
        if is_last && self.hand_out.is_on() {
            while self.hand_out.is_under_way() {
                self.tell_portion();
            }
            // What has changed since its turn came.
            self.begin_hand_out(now_ns);
            while self.hand_out.is_under_way() {
                self.tell_portion();
            }
        }
        let ready = self.hand_out.take_ready();
        for (at, change) in ready.iter().enumerate() {
            let instance = change.instance;
            let is_of = |other: &StateChange| other.instance == instance;
            let is_end = !ready[at + 1..].iter().any(is_of) && !self.hand_out.is_asking(instance);
            let newest = self.newest.get(&instance);
            let mut all = self.running.iter_mut().flatten().filter(|one| one.is_of(instance));
            let newest = all.find(|one| newest.is_none_or(|newest| *newest == one.number));
            newest.into_iter().for_each(|running| running.keep(change, is_end));
        }
        ready
    }

    fn begin_hand_out(&mut self, now_ns: u64) {
        for running in self.running.iter_mut().flatten() {
            if running.take_anew() {
                self.hand_out.begin_anew(running.bundle.key.0);
            }
        }
        let instances = self.running.iter().flatten().map(|running| running.bundle.key.0);
        self.hand_out.begin(now_ns, instances.collect());
    }

    /// Does somebody wait for more of it?
    pub(crate) const fn is_handing_out(&self) -> bool {
        self.hand_out.is_under_way()
    }

    fn tell_portion(&mut self) {
        let Some(instance) = self.hand_out.next() else { return };
        let newest = self.newest.get(&instance).copied();
        let all = self.running.iter_mut().flatten().filter(|one| one.is_of(instance));
        let is_newest = |one: &&mut Running| newest.is_none_or(|newest| newest == one.number);
        let (mut values, others): (Vec<_>, Vec<_>) = all.partition(is_newest);
        let Some(running) = values.pop() else { return self.hand_out.pass_over() };
        if running.take_anew() {
            // What its value before has told of everything is not all of it.
            self.hand_out.pass_over();
            return self.hand_out.begin_anew(instance);
        }
        let mut entries = Vec::new();
        let portion = self.hand_out.portion(running.number);
        let is_more =
            running.function.with(|function| function.export_portion(portion, &mut entries));
        let Some(is_more) = is_more else {
            // Whoever has it gives it back; one that is dead has nothing to tell.
            if !self.stage.is_lending() {
                self.hand_out.pass_over();
                self.hand_out.begin_anew(instance);
            }
            return;
        };
        // What it has told is nothing that it would tell the others.
        for other in others {
            other.take_over(&entries);
        }
        self.hand_out.take(entries, is_more);
    }

    /// Everything that is remembered is to be handed out with the next.
    pub(crate) fn tell_anew(&mut self) {
        let instances = self.running.iter().flatten().map(|running| running.bundle.key.0);
        instances.for_each(|instance| self.hand_out.begin_anew(instance));
    }

    pub(crate) fn get(&self, number: u32) -> Option<&Running> {
        self.running.get(number as usize)?.as_ref()
    }

    fn is_empty(&self) -> bool {
        self.running.iter().all(Option::is_none)
    }

    /// The function with a number, knowing all that its instance does, with room for what it is asked and answers.
    pub(crate) fn parts(&mut self, number: u32) -> Option<(&mut Running, Asking<'_>)> {
        if !self.newest.is_empty() {
            self.catch_up(number);
        }
        let running = self.running.get_mut(number as usize)?.as_mut()?;
        let Self { outcomes, packets, messages, stage, .. } = self;
        Some((running, Asking { outcomes, packets, messages, stage }))
    }

    /// Will time pass for functions at this moment?
    pub(crate) fn is_elapse_due(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.elapsed_ns) >= ELAPSE_NS
    }

    /// Lets time pass, and answers when it wants to be called again; none: there are no functions.
    pub(crate) fn elapse(&mut self, now_ns: u64) -> Option<u64> {
        if self.is_empty() {
            return None;
        }
        if self.is_elapse_due(now_ns) {
            self.elapsed_ns = now_ns;
            self.is_turn = true;
            let now = self.time(now_ns);
            for running in self.running.iter_mut().flatten() {
                running.elapse(now, &mut self.outcomes, &mut self.messages);
            }
            if !self.stage.is_lending() {
                self.take_back();
                self.stage.look(now_ns);
            }
        }
        Some(self.elapsed_ns + ELAPSE_NS)
    }

    /// Lets functions ask others, as often as time passes for them: `send` gets what each asks.
    pub(crate) fn inquire(&mut self, now_ns: u64, mut send: impl FnMut(&mut Running, &Outcomes)) {
        if !std::mem::take(&mut self.is_turn) {
            return;
        }
        let now = self.time(now_ns);
        let Self { running, outcomes, messages, newest, .. } = self;
        // Of several values of an instance, the one that packets come to.
        let asks = |running: &&mut Running| {
            let newest = newest.get(&running.bundle.key.0);
            let is_newest = newest.is_none_or(|newest| *newest == running.number);
            is_newest && running.profile().generates
        };
        for running in running.iter_mut().flatten().filter(asks) {
            if running.function.with(|function| function.inquire(now, outcomes)).is_none() {
                continue;
            }
            match running.checked(0, outcomes, messages) {
                Ok(()) => send(running, outcomes),
                Err(fault) => {
                    tracing::error!(function = running.name(), "it breaks its profile: {fault}");
                }
            }
        }
    }

    /// Of each instance the value that packets come to.
    fn newest(&self) -> impl Iterator<Item = &Running> {
        let is_newest = |running: &&Running| {
            let newest = self.newest.get(&running.bundle.key.0);
            newest.is_none_or(|newest| *newest == running.number)
        };
        self.running.iter().flatten().filter(is_newest)
    }

    /// How often instances have died, of those that have.
    pub(crate) fn deaths(&self) -> BTreeMap<InstanceId, u64> {
        let mut deaths: BTreeMap<InstanceId, u64> = BTreeMap::new();
        for running in self.running.iter().flatten().filter(|running| running.deaths() > 0) {
            let most = deaths.entry(running.bundle.key.0).or_default();
            *most = running.deaths().max(*most);
        }
        deaths
    }

    /// What those that are asked for have counted; of an instance with several values the newest.
    pub(crate) fn export(&self, is_asked: impl Fn(&InstanceId) -> bool) -> Vec<FunctionCounters> {
        let told = self.newest().filter(|running| is_asked(&running.bundle.key.0));
        told.map(|running| running.export(&self.stage)).collect()
    }
}

/// Room for one batch.
pub(crate) struct Asking<'f> {
    pub(crate) outcomes: &'f mut Outcomes,
    packets: &'f mut Vec<Packet<'static>>,
    pub(crate) messages: &'f mut FunctionMessages,
    pub(crate) stage: &'f mut Lending,
}

impl Asking<'_> {
    /// Asks a function about packets.
    pub(crate) fn ask<'p>(
        &mut self,
        packets: impl Iterator<Item = Packet<'p>>,
        ask: impl FnOnce(&[Packet<'_>], &mut Outcomes),
    ) {
        let mut batch: Vec<Packet<'p>> = std::mem::take(self.packets);
        batch.extend(packets);
        ask(&batch, self.outcomes);
        batch.clear();
        // The room stays, without any packet in it.
        *self.packets = batch.into_iter().map(|_| unreachable!("it is empty")).collect();
    }
}
