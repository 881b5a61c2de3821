//! The cores of a chain, and what its packets take of each. Knows sums; refuses to know how long anybody waits.

use super::{Ceiling, ChainLoad, CoreLoad, FunctionLoad};
use crate::queueing::{QueueError, Scv, mg1_wait, positive};
use catena_model::NodeName;
use std::collections::BTreeMap;

/// Of a core's time, as much as may be asked for, as of queues.
const FULL: f64 = 1.0 - 1e-12;

/// A core: whose, if that is known, and which of its threads that ask functions, if it is not its worker.
type Core<'c> = (Option<&'c NodeName>, Option<u16>);

/// Functions that are asked one after the other when a packet comes to a core.
pub(super) struct Visit<'c> {
    functions: Vec<&'c FunctionLoad>,
    /// The share of packets that comes to each core; their sum is one.
    pub(super) shares: BTreeMap<Core<'c>, f64>,
    /// Seconds until who is asked is awake and has been heard, of several the most.
    pub(super) handoff: f64,
    /// Seconds of a packet, in the mean.
    pub(super) mean: f64,
    variance: f64,
}

impl<'c> Visit<'c> {
    fn of(function: &'c FunctionLoad) -> Self {
        let all: f64 = function.cores.iter().map(|core| core.share).sum();
        let mut shares: BTreeMap<Core<'c>, f64> = BTreeMap::new();
        for core in function.cores.iter().filter(|core| core.share > 0.0) {
            let thread = core.thread.map(|thread| thread.number);
            *shares.entry((core.node.as_ref(), thread)).or_default() += core.share / all;
        }
        let threads = function.cores.iter().filter_map(|core| core.thread.as_ref());
        let handoff = threads.map(|thread| thread.handoff_s).fold(0.0, f64::max);
        let mut visit = Self { functions: Vec::new(), shares, handoff, mean: 0.0, variance: 0.0 };
        visit.ask(function);
        visit
    }

    fn ask(&mut self, function: &'c FunctionLoad) {
        self.functions.push(function);
        if let Some(service) = &function.service {
            self.add(service.mean_s, service.scv);
        }
    }

    fn add(&mut self, mean: f64, scv: Scv) {
        self.mean += mean;
        self.variance += mean * mean * scv.value();
    }

    /// Does a worker ask, which steers packets, too? Threads are handed what was steered.
    fn is_of_worker(&self) -> bool {
        self.shares.keys().any(|(_, thread)| thread.is_none())
    }

    /// The second moment of a packet's time.
    fn square(&self) -> f64 {
        self.variance + self.mean * self.mean
    }

    pub(super) fn scv(&self) -> Result<Scv, QueueError> {
        Scv::new(self.variance / (self.mean * self.mean))
    }

    /// Do all cores get the same share? How many there are.
    pub(super) fn even(&self) -> Option<u32> {
        let part = 1.0 / self.shares.len() as f64;
        let is_even = self.shares.values().all(|share| (share - part).abs() < 1e-9);
        u32::try_from(self.shares.len()).ok().filter(|_| is_even)
    }
}

/// What the packets of a chain take of a core; each sum is over visits, by their shares.
#[derive(Clone, Copy, Default)]
struct Taken {
    visits: f64,
    seconds: f64,
    squares: f64,
}

/// All visits of a chain, and their cores.
pub(super) struct Cores<'c> {
    /// Stages, one behind the other; visits of one are side by side.
    pub(super) stages: Vec<Vec<Visit<'c>>>,
    taken: BTreeMap<Core<'c>, Taken>,
}

impl<'c> Cores<'c> {
    /// Those of a chain that was checked, without functions of which nobody knows how long they take.
    pub(super) fn of(chain: &'c ChainLoad) -> Result<Self, QueueError> {
        let mut stages: Vec<Vec<Visit<'c>>> = Vec::new();
        for stage in &chain.stages {
            let timed = stage.iter().filter(|function| function.service.is_some());
            let mut visits: Vec<Visit<'c>> = Vec::new();
            for function in timed {
                join(&mut visits, function);
            }
            let is_one = |stage: &[Visit<'_>]| matches!(stage, [_]);
            match stages.last_mut() {
                _ if visits.is_empty() => {}
                Some(last)
                    if is_one(last) && is_one(&visits) && last[0].shares == visits[0].shares =>
                {
                    let functions = visits.into_iter().flat_map(|visit| visit.functions);
                    functions.for_each(|function| last[0].ask(function));
                }
                _ => stages.push(visits),
            }
        }
        let mut taken: BTreeMap<Core<'c>, Taken> = BTreeMap::new();
        for visit in stages.iter_mut().flatten() {
            if let Some(steering) = chain.steering.as_ref().filter(|_| visit.is_of_worker()) {
                visit.add(steering.mean_s, steering.scv);
            }
            for (host, share) in &visit.shares {
                let sums = taken.entry(*host).or_default();
                sums.visits += share;
                sums.seconds += share * visit.mean;
                sums.squares += share * visit.square();
            }
        }
        for sums in taken.values() {
            positive("the time of a core for a packet", sums.seconds)?;
            positive("the rate of a core", 1.0 / sums.seconds)?;
        }
        Ok(Self { stages, taken })
    }

    /// The core that is busy first.
    fn first(&self) -> Option<(Core<'c>, Taken)> {
        let taken = self.taken.iter().map(|(host, sums)| (*host, *sums));
        taken.max_by(|(_, one), (_, other)| one.seconds.total_cmp(&other.seconds))
    }

    /// Has each core a pause now and then at this rate?
    pub(super) fn carries(&self, lambda: f64) -> bool {
        self.first().is_none_or(|(_, sums)| lambda * sums.seconds < FULL)
    }

    pub(super) fn ceiling(&self) -> Option<Ceiling> {
        let (host, sums) = self.first()?;
        let mut by_function: Vec<(&FunctionLoad, f64)> = Vec::new();
        for visit in self.stages.iter().flatten() {
            let share = visit.shares.get(&host).copied().unwrap_or(0.0);
            let seconds = |function: &FunctionLoad| {
                function.service.map_or(0.0, |service| share * service.mean_s)
            };
            by_function.extend(visit.functions.iter().map(|one| (*one, seconds(one))));
        }
        // Of equal ones the first of the chain.
        let most =
            by_function.into_iter().rev().max_by(|(_, one), (_, other)| one.total_cmp(other));
        most.map(|(function, function_s)| Ceiling {
            per_second: 1.0 / sums.seconds,
            node: host.0.cloned(),
            thread: host.1,
            seconds: sums.seconds,
            function: function.name.clone(),
            function_s,
        })
    }

    /// Each node with its cores, at a rate that all of them carry, if there is one.
    pub(super) fn loads(&self, lambda: Option<f64>) -> Vec<CoreLoad> {
        let mut nodes: BTreeMap<Option<&NodeName>, f64> = BTreeMap::new();
        for ((node, _), sums) in &self.taken {
            *nodes.entry(*node).or_default() += sums.seconds;
        }
        let load = |(node, seconds): (Option<&NodeName>, f64)| CoreLoad {
            node: node.cloned(),
            seconds_per_packet: seconds,
            busy_cores: lambda.map(|lambda| lambda * seconds),
        };
        nodes.into_iter().map(load).collect()
    }

    /// How long a packet waits at a core of this host, in the mean: Pollaczek and Khinchine, over all visits to it.
    pub(super) fn wait(&self, host: Core<'_>, lambda: f64) -> Result<f64, QueueError> {
        let Some(sums) = self.taken.get(&host) else { return Ok(0.0) };
        let mean = sums.seconds / sums.visits;
        // Rounding may leave a constant a little below nothing.
        let scv = (sums.squares / sums.visits / (mean * mean) - 1.0).max(0.0);
        mg1_wait(lambda * sums.visits, mean, Scv::new(scv)?)
    }

    /// Does a packet come to each core once at most?
    pub(super) fn is_visited_once(&self) -> bool {
        let hosts = || self.stages.iter().flatten().flat_map(|visit| visit.shares.keys());
        hosts().count() == self.taken.len()
    }
}

/// Beside the visits of a stage: on the same cores, one function waits for the other.
fn join<'c>(visits: &mut Vec<Visit<'c>>, function: &'c FunctionLoad) {
    let visit = Visit::of(function);
    match visits.iter_mut().find(|other| other.shares == visit.shares) {
        Some(same) => same.ask(function),
        None => visits.push(visit),
    }
}
