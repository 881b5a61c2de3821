//! What to expect of chains: asked for by `catena plan` and `catena chain show`. Knows who has times and rates, and how
//! to ask; refuses to calculate.

mod known;
#[cfg(test)]
mod tests;
mod told;

pub(crate) use told::{lines, seconds, shared};

use crate::failure::Failure;
use crate::output::progress;
use catena_client::deploy::{ChainDocument, Direction, Document};
use catena_client::{Client, ClientError, Draft};
use catena_model::status::{ChainReport, FunctionReport, InstanceReport};
use catena_plan::prediction::{
    ArrivalRate, ChainLoad, CoreLoad, Delay, FunctionLoad, FunctionThread, NoQuantiles, PACKETS,
    Prediction, RateSource, Shares, predict, simulate,
};
use clap::Args;
use known::{KnownFunction, Times, kind_inside, steering};
use std::collections::BTreeMap;
use std::time::Duration;

/// Between two readings of counters: long enough for thousands of packets, and nobody waits long.
const WATCHED: Duration = Duration::from_millis(500);
const NS: f64 = 1e-9;
/// Packets of `--simulate`.
const SIMULATED: usize = 1_000_000;

#[derive(Args)]
pub(crate) struct PredictArguments {
    /// Packets a second of each chain, both ways together, for which delay and load are predicted; without it, as many
    /// as come now.
    #[arg(long, value_name = "PPS", value_parser = rate, conflicts_with_all = ["undeploy", "place"])]
    rate: Option<f64>,
    /// Simulate a million packets at that rate, too, and tell what they met beside what is predicted.
    #[arg(long, requires = "rate")]
    simulate: bool,
    /// By which the simulation draws: the same number gives the same run.
    #[arg(long, value_name = "N", requires = "simulate", default_value_t = 1)]
    seed: u64,
}

/// Reads a rate.
pub(crate) fn rate(text: &str) -> Result<f64, String> {
    let read: Option<f64> = text.parse().ok();
    let is_rate = |rate: &f64| rate.is_finite() && *rate > 0.0;
    read.filter(is_rate).ok_or_else(|| "it is no number of packets a second above zero".into())
}

/// What is expected of a chain.
pub(crate) struct Expected {
    chain: String,
    load: ChainLoad,
    prediction: Prediction,
    simulated: Option<Run>,
    /// What the counters say of it; none: nobody has watched it.
    watched: Option<Watched>,
}

/// What counters say of a chain, and what they should.
struct Watched {
    seen: Seen,
    /// How busy its functions should be by its rate, without what the data plane takes for itself.
    functions: Vec<CoreLoad>,
}

/// A simulation.
struct Run {
    packets: usize,
    seed: u64,
    met: Result<(f64, Shares), NoQuantiles>,
}

/// What counters say of a chain, between two readings.
#[derive(Clone, Debug, Default, PartialEq)]
struct Seen {
    /// Packets that entered it a second, both ways together; none: nobody told twice.
    rate: Option<f64>,
    /// Cores that its functions kept busy, by node.
    busy: BTreeMap<String, f64>,
}

/// Of each chain of a document that goes through functions inside data planes; of the others, too, if a rate was given.
pub(crate) fn of_document(
    client: &Client,
    draft: &Draft,
    document: &Document,
    arguments: &PredictArguments,
) -> Result<Vec<Expected>, Failure> {
    if document.chains.is_empty() {
        return Ok(Vec::new());
    }
    let all = draft.client().functions()?;
    let mut asked = Asked { client: draft.client(), all: &all, known: BTreeMap::new() };
    let mut chains = Vec::new();
    for chain in &document.chains {
        let functions = asked.functions(chain)?;
        if arguments.rate.is_some() || functions.iter().any(|function| function.kind.is_some()) {
            chains.push((chain.name(), functions));
        }
    }
    let mut times = Times::default();
    let mut before = BTreeMap::new();
    for (name, functions) in &chains {
        let is_inside = functions.iter().any(|function| function.kind.is_some());
        if let Some(report) = report(client, name)?.filter(|_| is_inside) {
            times.add(&report);
            before.insert(name.clone(), report);
        }
    }
    let rates = match arguments.rate {
        None => watched(client, &before)?,
        Some(_) => BTreeMap::new(),
    };
    let expect = |(name, functions): (String, Vec<KnownFunction>)| {
        let given = arguments.rate.map(|rate| arrivals(rate, RateSource::Given));
        let rate = given.or_else(|| rates.get(&name).and_then(Seen::arrivals));
        let load = load(&functions, &times, &[]);
        expected(name, load, rate, arguments)
    };
    chains.into_iter().map(expect).collect()
}

/// Functions of a hop that threads ask in the worker's place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HopThreads {
    /// The hop.
    pub(crate) hop: u16,
    /// Stages, one behind the other; those of one are asked side by side, each by a thread of its own.
    pub(crate) stages: Vec<Vec<String>>,
    /// What it takes to ask a thread, in nanoseconds.
    pub(crate) handoff_ns: u64,
    /// Threads there; functions beyond them share these.
    pub(crate) threads: u16,
}

/// Of a chain in force, if one of its functions was timed: at a rate, or at that which is counted now, for which the
/// counters are read once more.
pub(crate) fn of_report(
    client: &Client,
    report: &ChainReport,
    threads: &[HopThreads],
    rate: Option<f64>,
) -> Result<Option<Expected>, Failure> {
    let mut times = Times::default();
    times.add(report);
    if times.is_empty() {
        if rate.is_some() {
            progress(format_args!(
                "nothing is expected of {}: none of its functions was timed; send packets through it first",
                report.name
            ));
        }
        return Ok(None);
    }
    let load = load(&known::of_report(report, &client.functions()?), &times, threads);
    if load.stages.is_empty() {
        return Ok(None);
    }
    let name = report.name.clone();
    if let Some(rate) = rate {
        let prediction = predict(&load, Some(arrivals(rate, RateSource::Given)), PACKETS)?;
        return Ok(Some(Expected {
            chain: name,
            load,
            prediction,
            simulated: None,
            watched: None,
        }));
    }
    let before = BTreeMap::from([(name.clone(), report.clone())]);
    let seen = watched(client, &before)?.remove(&name).unwrap_or_default();
    beside(name, load, seen).map(Some)
}

/// What is expected of a chain, beside what was seen of it.
fn beside(chain: String, load: ChainLoad, seen: Seen) -> Result<Expected, Failure> {
    let prediction = predict(&load, seen.arrivals(), PACKETS)?;
    let alone = ChainLoad { steering: None, ..load.clone() };
    let functions = predict(&alone, seen.arrivals(), 0)?.nodes;
    let watched = Some(Watched { seen, functions });
    Ok(Expected { chain, load, prediction, simulated: None, watched })
}

fn load(functions: &[KnownFunction], times: &Times, threads: &[HopThreads]) -> ChainLoad {
    // Who gets copies elsewhere holds nobody up.
    let counted = functions.iter().filter(|function| !function.is_tap || function.kind.is_some());
    let counted: Vec<&KnownFunction> = counted.collect();
    let (mut stages, mut asked_before) = (Vec::new(), 0_u16);
    for hop in counted.chunk_by(|one, other| one.hop.is_some() && one.hop == other.hop) {
        let asked = threads.iter().find(|threads| hop.iter().all(|it| it.hop == Some(threads.hop)));
        match asked {
            Some(threads) => stages.extend(threads.load(hop, times, &mut asked_before)),
            None => stages.extend(hop.iter().map(|function| vec![function.load(times, None)])),
        }
    }
    let is_inside = functions.iter().any(|function| function.kind.is_some());
    ChainLoad { stages, steering: is_inside.then(steering) }
}

impl HopThreads {
    /// The functions of this hop, each on a thread of its own while there are any; `before`: functions that threads ask
    /// at other hops.
    fn load(
        &self,
        hop: &[&KnownFunction],
        times: &Times,
        before: &mut u16,
    ) -> Vec<Vec<FunctionLoad>> {
        let mut thread = || {
            let number = *before % self.threads.max(1);
            *before = before.wrapping_add(1);
            Some(FunctionThread { number, handoff_s: self.handoff_ns as f64 * NS })
        };
        let mut stages: Vec<Vec<FunctionLoad>> = Vec::new();
        for names in &self.stages {
            let there = hop.iter().filter(|function| names.contains(&function.name));
            stages.push(there.map(|function| function.load(times, thread())).collect());
        }
        stages.retain(|stage| !stage.is_empty());
        stages
    }
}

fn expected(
    chain: String,
    load: ChainLoad,
    rate: Option<ArrivalRate>,
    arguments: &PredictArguments,
) -> Result<Expected, Failure> {
    let prediction = predict(&load, rate, PACKETS)?;
    let mut simulated = None;
    let is_known = matches!(prediction.delay, Delay::Known { .. });
    if let Some(rate) = rate.filter(|_| arguments.simulate && is_known) {
        let (packets, seed) = (SIMULATED, arguments.seed);
        progress(format_args!("chain {chain}: {packets} packets are simulated"));
        let met = simulate(&load, rate.per_second, packets, seed)?;
        simulated = Some(Run { packets, seed, met });
    }
    Ok(Expected { chain, load, prediction, simulated, watched: None })
}

const fn arrivals(per_second: f64, source: RateSource) -> ArrivalRate {
    ArrivalRate { per_second, source }
}

impl Seen {
    fn arrivals(&self) -> Option<ArrivalRate> {
        let rate = self.rate.filter(|rate| *rate > 0.0);
        rate.map(|rate| arrivals(rate, RateSource::Measured))
    }
}

/// What came to chains that were read before, until now.
fn watched(
    client: &Client,
    before: &BTreeMap<String, ChainReport>,
) -> Result<BTreeMap<String, Seen>, Failure> {
    let is_timed = |report: &ChainReport| {
        let mut times = Times::default();
        times.add(report);
        !times.is_empty()
    };
    let mut seen = BTreeMap::new();
    let timed: Vec<_> = before.iter().filter(|(_, report)| is_timed(report)).collect();
    if timed.is_empty() {
        return Ok(seen);
    }
    std::thread::sleep(WATCHED);
    for (name, first) in timed {
        if let Some(second) = report(client, name)? {
            seen.insert(name.clone(), known::between(first, &second));
        }
    }
    Ok(seen)
}

/// A chain in force; none: there is no such chain yet.
fn report(client: &Client, name: &str) -> Result<Option<ChainReport>, Failure> {
    const NOT_FOUND: u16 = 404;
    match client.chain(name) {
        Ok(report) => Ok(Some(report)),
        Err(ClientError::Refused { status: NOT_FOUND, .. } | ClientError::NotFound { .. }) => {
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// Functions of a document as they will be, each asked for once.
struct Asked<'c> {
    client: &'c Client,
    all: &'c [FunctionReport],
    known: BTreeMap<String, KnownFunction>,
}

impl Asked<'_> {
    fn functions(&mut self, chain: &ChainDocument) -> Result<Vec<KnownFunction>, Failure> {
        let mut functions = Vec::new();
        for step in &chain.chain {
            let function = match self.known.get(&step.name) {
                Some(known) => known.clone(),
                None => self.function(&step.name)?,
            };
            functions.push(KnownFunction { is_tap: step.direction == Direction::Tap, ..function });
        }
        Ok(functions)
    }

    fn function(&mut self, name: &str) -> Result<KnownFunction, Failure> {
        let found = self.all.iter().find(|function| function.name == name);
        let kind = found.and_then(kind_inside);
        let mut instances = Vec::new();
        for instance in found.filter(|_| kind.is_some()).into_iter().flat_map(|it| &it.instances) {
            instances.push(match self.client.instance(instance) {
                Ok(InstanceReport { node, weight, .. }) => (node, weight),
                // Another has the same name: where this one stands is not known then.
                Err(ClientError::Refused { .. } | ClientError::NotFound { .. }) => (None, 1),
                Err(error) => return Err(error.into()),
            });
        }
        let function =
            KnownFunction { name: name.into(), kind, instances, is_tap: false, hop: None };
        self.known.insert(name.into(), function.clone());
        Ok(function)
    }
}
