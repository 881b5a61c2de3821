//! Functions of a hop that are asked by threads, side by side where nobody can tell: which ways through hops there
//! are, in which form they are taken, and what is lent meanwhile.
//!
//! Knows numbers of functions and what they say of themselves; refuses to know what becomes of packets.

mod choice;
mod handoffs;
mod join;
mod lanes;
mod lent;

pub use catena_model::parallelism::Form;
pub(crate) use handoffs::Errand;
pub(crate) use join::{Merging, Question};
pub use lanes::{Call, Lanes, Reply};
pub(crate) use lanes::{Heard, LentFunction, Silence, ask_safely, bury};
pub(crate) use lent::{Lent, packet, upper};

use catena_model::parallelism::{FormChoice, StageMember, Stages};
use catena_model::profile::Profile;
use catena_nf::outcome::Outcomes;
use catena_nf::packet::Direction;
use choice::{Price, Threads, choose};
use handoffs::Handoffs;
use join::{Join, Route};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Packets that are lent at one time, at most: whoever brings more waits for answers first.
pub(crate) const LENT_PACKETS_MAX: usize = 1_024;
/// How long an answer is waited for at one time, in nanoseconds.
pub(crate) const WAIT_NS: u64 = 10_000_000;
/// Looks, [`WAIT_NS`] apart at least, between which a lane that owes answers has put no question: then it has stopped.
/// A moment that the whole process has missed is one look.
const LOOKS_MAX: u32 = 100;
/// What functions may take for packets that they are asked about together, in nanoseconds: against this, asking is
/// cheap.
const TURN_NS: f64 = 200_000.0;
/// What a packet counts as that its function was never asked about, in nanoseconds.
const UNPRICED_NS: f64 = 10_000.0;
/// How much of a newer price goes into the mean.
const NEWER: f64 = 0.125;

/// A function as a way through a hop meets it: its number, and whether against the order of its ports.
pub(crate) type Met = (u32, bool);

/// A way through a hop.
#[derive(Debug)]
struct Way {
    /// Who may be asked side by side, as places in the way.
    stages: Vec<Range<usize>>,
    form: Form,
    route: Arc<Route>,
    /// Packets that came together, since forms were looked at last.
    entered: u64,
}

/// All ways that packets have taken since the functions were lined up.
#[derive(Default)]
pub(crate) struct Lending {
    lanes: Option<Box<dyn Lanes>>,
    /// Lanes that have stopped are asked no more.
    dead: Vec<usize>,
    /// Of each lane, the questions that it had put when it was looked at last, and looks since it has put one.
    silent: BTreeMap<usize, (u64, u32)>,
    lanes_looked_ns: u64,
    pub(crate) join: Join<Lent, Heard>,
    ways: BTreeMap<Vec<Met>, Way>,
    /// What each function costs for packets that come together, in nanoseconds.
    costs_ns: BTreeMap<u32, f64>,
    /// The same for each of these packets.
    packet_costs_ns: BTreeMap<u32, f64>,
    /// What was chosen for each function when forms were looked at last.
    choices: BTreeMap<u32, FormChoice>,
    handoffs: Handoffs,
    /// The lane of each function.
    homes: BTreeMap<u32, usize>,
    /// The form that all ways take, whatever they cost: for tests.
    forced: Option<Form>,
    looked_ns: u64,
    /// Packets that are lent, as on the wire.
    pub(crate) packets: u64,
    /// The same, as they are held in memory.
    pub(crate) buffers: usize,
    /// Room for answers.
    room: Vec<Outcomes>,
    /// What functions have said of tokens in [`Self::join`], to be told when these leave.
    pub(crate) told: BTreeMap<u64, Vec<(u32, Outcomes)>>,
}

impl Lending {
    /// Functions are asked by these threads from now on; `forced`: in this form, whatever it costs. With one thread
    /// there is nothing to choose.
    pub(crate) fn lend_to(&mut self, lanes: Box<dyn Lanes>, forced: Option<Form>) {
        self.lanes = Some(lanes).filter(|lanes| lanes.count() >= 2 || forced.is_some());
        self.forced = forced;
    }

    /// Functions have come or gone; nothing is lent.
    pub(crate) fn line_up(&mut self, is_there: impl Fn(u32) -> bool) {
        self.ways.clear();
        self.costs_ns.retain(|number, _| is_there(*number));
        self.packet_costs_ns.retain(|number, _| is_there(*number));
        self.choices.retain(|number, _| is_there(*number));
        self.homes.retain(|number, _| is_there(*number));
    }

    /// May anything be lent at all?
    pub(crate) fn is_open(&self) -> bool {
        self.lanes.is_some()
    }

    /// Is anything lent?
    pub(crate) fn is_lending(&self) -> bool {
        !self.join.is_empty()
    }

    /// How packets that take this way are asked about now. `profiles`: what the functions say of themselves.
    pub(crate) fn form(&mut self, way: &[Met], profiles: impl Fn(u32) -> Option<Profile>) -> Form {
        if !self.is_open() {
            return Form::Fuse;
        }
        if !self.ways.contains_key(way) {
            let stages = side_by_side(way, profiles);
            // It joins those whose functions it shares: a function is with threads or with the engine.
            let form = self.forced.unwrap_or_else(|| self.form_of_sharers(way));
            let route = route(way, &stages, form);
            self.ways.insert(way.to_vec(), Way { stages, form, route, entered: 0 });
            self.unite();
        }
        self.ways.get_mut(way).map_or(Form::Fuse, |known| {
            known.entered += 1;
            known.form
        })
    }

    fn form_of_sharers(&self, way: &[Met]) -> Form {
        let shares = |other: &[Met]| other.iter().any(|(number, _)| has(way, *number));
        let sharers = self.ways.iter().filter(|(other, _)| shares(other.as_slice()));
        sharers.map(|(_, known)| known.form).max().unwrap_or_default()
    }

    /// Ways that share functions take one form, directly or over others.
    fn unite(&mut self) {
        if self.forced.is_some() {
            return;
        }
        for group in self.groups() {
            let form = group.iter().filter_map(|way| self.ways.get(way)).map(|known| known.form);
            let form = form.max().unwrap_or_default();
            self.take_form(&group, form);
        }
    }

    fn take_form(&mut self, group: &[Vec<Met>], form: Form) {
        for way in group {
            let Some(known) = self.ways.get_mut(way).filter(|known| known.form != form) else {
                continue;
            };
            (known.form, known.route) = (form, route(way, &known.stages, form));
            if form == Form::Fuse {
                self.homes.retain(|number, _| !has(way, *number));
            }
        }
    }

    /// Ways that share functions, directly or over others.
    fn groups(&self) -> Vec<Vec<Vec<Met>>> {
        let mut groups: Vec<Vec<Vec<Met>>> = Vec::new();
        for way in self.ways.keys() {
            let shares = |group: &mut Vec<Vec<Met>>| {
                group.iter().flatten().any(|(number, _)| has(way, *number))
            };
            let mut joined: Vec<Vec<Met>> = groups.extract_if(.., shares).flatten().collect();
            joined.push(way.clone());
            groups.push(joined);
        }
        groups
    }

    /// The route of a way.
    pub(crate) fn route(&self, way: &[Met]) -> Option<Arc<Route>> {
        self.ways.get(way).map(|known| Arc::clone(&known.route))
    }

    /// A function has taken so long for so many packets that came together.
    pub(crate) fn note_cost(&mut self, number: u32, packets: usize, took_ns: u64) {
        if !self.is_open() || packets == 0 {
            return;
        }
        let took_ns = took_ns as f64;
        let note = |costs: &mut BTreeMap<u32, f64>, ns: f64| {
            let mean = costs.entry(number).or_insert(ns);
            *mean += NEWER * (ns - *mean);
        };
        note(&mut self.costs_ns, took_ns);
        note(&mut self.packet_costs_ns, took_ns / packets as f64);
    }

    /// Packets that functions of a way are asked about together, at most: what is asked about together is answered
    /// together, and of packets that take long the first would wait for the last.
    pub(crate) fn room_of(&self, way: &[Met]) -> usize {
        let costs = way.iter().map(|(number, _)| self.packet_costs_ns.get(number).copied());
        let dearest = costs.map(|cost| cost.unwrap_or(UNPRICED_NS)).fold(1.0, f64::max);
        ((TURN_NS / dearest) as usize).clamp(1, LENT_PACKETS_MAX)
    }

    /// Looks at what everything costs, while nothing is lent, and changes forms where that is worth it and none is
    /// forced.
    pub(crate) fn look(&mut self, now_ns: u64) {
        let passed_ns = now_ns.saturating_sub(std::mem::replace(&mut self.looked_ns, now_ns));
        let Some(lanes) = self.lanes.as_ref().filter(|_| passed_ns > 0) else { return };
        // Of more threads than cores some would wait for each other, and no price would say so.
        let count = lanes.count().saturating_sub(self.dead.len()).min(lanes.at_once());
        let handoff_ns = self.handoffs.look(lanes.handoff_ns() as f64);
        let threads = Threads { count, handoff_ns };
        for group in self.groups() {
            let known = || group.iter().filter_map(|way| Some((way, self.ways.get(way)?)));
            let now = known().map(|(_, known)| known.form).max().unwrap_or_default();
            let is_known = |(number, _): &Met| self.costs_ns.contains_key(number);
            if count > 0 && !group.iter().flatten().all(is_known) {
                continue;
            }
            let cost = |(number, _): &Met| self.costs_ns.get(number).copied().unwrap_or_default();
            let price = |(way, known): (&Vec<Met>, &Way)| Price {
                members_ns: way.iter().map(cost).collect(),
                stages: known.stages.clone(),
                rate: known.entered as f64 / passed_ns as f64,
            };
            let prices: Vec<Price> = known().map(price).collect();
            let mut choice = choose(&prices, threads, now);
            choice.form = self.forced.unwrap_or(choice.form);
            let form = choice.form;
            let functions = group.iter().flatten().map(|(number, _)| *number);
            self.choices.extend(functions.map(|number| (number, choice)));
            if form != now {
                let (from, to) = (now.name(), form.name());
                tracing::info!(from, to, ?prices, "functions change form");
            }
            self.take_form(&group, form);
        }
        self.ways.values_mut().for_each(|known| known.entered = 0);
    }

    /// What was chosen for a function; none: nothing yet, or there is nothing to choose.
    pub(crate) fn choice(&self, number: u32) -> Option<FormChoice> {
        self.choices.get(&number).copied()
    }

    /// Hands a question over; given back: nobody is there to ask.
    pub(crate) fn hand(&mut self, number: u32, mut call: Box<Call>) -> Result<(), Box<Call>> {
        let Self { lanes, homes, dead, ways, .. } = self;
        let Some(lanes) = lanes else { return Err(call) };
        let home = homes.get(&number).copied().filter(|home| !dead.contains(home));
        let home = home.or_else(|| {
            // Where nobody is who may be asked with it, and few others, beginning where this worker begins.
            let count = lanes.count();
            let is_met = |other: &u32| ways.keys().any(|way| has(way, number) && has(way, *other));
            let at = |lane: usize| homes.iter().filter(move |(_, home)| **home == lane);
            let taken = |lane: &usize| {
                let met = at(*lane).filter(|(other, _)| is_met(other)).count();
                (met, at(*lane).count(), (lane + count - lanes.first() % count) % count)
            };
            (0..count).filter(|lane| !dead.contains(lane)).min_by_key(taken)
        });
        let Some(home) = home else { return Err(call) };
        homes.insert(number, home);
        call.errand.handed_ns = call.meter.map(|meter| meter());
        lanes.hand(home, call)
    }

    /// An answer is heard.
    pub(crate) fn note_handoff(&mut self, errand: Errand, took_ns: Option<u64>, now_ns: u64) {
        self.handoffs.back(errand, took_ns, now_ns);
    }

    /// The next answer; `most_ns`: waits for it as long.
    pub(crate) fn hear(&mut self, most_ns: Option<u64>) -> Option<Reply> {
        let lanes = self.lanes.as_mut()?;
        match most_ns {
            Some(most_ns) => lanes.wait(most_ns),
            None => lanes.answer(),
        }
    }

    /// Is it time to look at the lanes again?
    pub(crate) const fn is_look_due(&mut self, now_ns: u64) -> bool {
        let is_due = now_ns.saturating_sub(self.lanes_looked_ns) >= WAIT_NS;
        if is_due {
            self.lanes_looked_ns = now_ns;
        }
        is_due
    }

    /// Looks at the lanes that owe answers; one that has stopped is asked no more, and it is answered who was asked
    /// by it. None: nobody has stopped.
    pub(crate) fn stopped(&mut self) -> Option<Vec<u32>> {
        let Self { lanes, homes, silent, join, dead, .. } = self;
        let lanes = lanes.as_ref()?;
        let mut stopped = None;
        for lane in (0..lanes.count()).filter(|lane| !dead.contains(lane)) {
            let is_its = |number| homes.get(&number) == Some(&lane);
            let put = lanes.put(lane);
            let owes = join.overdue(u64::MAX, is_its).is_some();
            match silent.get_mut(&lane) {
                Some((before, looks)) if owes && *before == put => {
                    *looks += 1;
                    if *looks >= LOOKS_MAX {
                        stopped = Some(lane);
                    }
                }
                _ => drop(silent.insert(lane, (put, 0))),
            }
        }
        let stopped = stopped?;
        dead.push(stopped);
        let of_it = homes.iter().filter(|(_, lane)| **lane == stopped);
        let of_it: Vec<u32> = of_it.map(|(number, _)| *number).collect();
        homes.retain(|_, lane| *lane != stopped);
        if lanes.count() <= dead.len() {
            tracing::error!("no thread is left that asks functions: the worker does");
            self.lanes = None;
        }
        Some(of_it)
    }

    /// Room for an answer.
    pub(crate) fn room(&mut self) -> Outcomes {
        self.room.pop().unwrap_or_default()
    }

    /// Takes such room back.
    pub(crate) fn give_room(&mut self, outcomes: Outcomes) {
        if self.room.len() < LENT_PACKETS_MAX {
            self.room.push(outcomes);
        }
    }
}

fn has(way: &[Met], number: u32) -> bool {
    way.iter().any(|(other, _)| *other == number)
}

fn route(way: &[Met], stages: &[Range<usize>], form: Form) -> Arc<Route> {
    let members = way.iter().map(|(number, _)| *number).collect();
    let stages = match form {
        Form::Fork => stages.to_vec(),
        Form::Fuse | Form::Pipeline => (0..way.len()).map(|at| at..at + 1).collect(),
    };
    Arc::new(Route { members, stages })
}

/// Who may be asked side by side. Nobody's effects are held here until another's verdict is known, so who would need
/// that waits for it.
fn side_by_side(way: &[Met], profiles: impl Fn(u32) -> Option<Profile>) -> Vec<Range<usize>> {
    let member = |(number, _): &Met| StageMember {
        name: String::new(),
        profile: profiles(*number).unwrap_or_else(Profile::unknown),
    };
    let members: Vec<StageMember> = way.iter().map(member).collect();
    Stages::of(&members).without_holding()
}

/// Does it protect, so that nothing shall pass while it is dead? Who only looks on is passed.
pub(crate) fn protects(profile: &Profile) -> bool {
    profile.drops || profile.replaces || !profile.writes.is_empty()
}

/// Which way packets go through a function.
pub(crate) const fn direction(is_backward: bool) -> Direction {
    if is_backward { Direction::Backward } else { Direction::Forward }
}
