//! What to expect of a chain before its packets come: the rate that it carries at most and what holds it there, how
//! busy it keeps the cores of each node, and how long packets stay with its functions.
//!
//! Knows how long functions take for packets and which of them share a core. Refuses to know who has timed them, and to
//! tell a figure where there is none: of a rate that nobody carries, and of a function that nobody has timed.
//!
//! The model. Packets come as a Poisson process. What stands inside the data plane of a node shares the core of its
//! worker, which takes packets in the order in which they come: a queue M/G/1. Functions beside each other there are
//! one visit, whose time is the sum of theirs and of what the data plane takes for itself; a worker that is visited
//! twice is one queue with two kinds of packets, whose visits count as independent. An instance gets its share of
//! packets by chance. Of stages one behind the other, times add up; of functions side by side on different cores, the
//! last one counts. A thread that asks a function in the worker's place has a core of its own, and what it takes to
//! hand packets to it and back is a delay that nobody else waits for. Nothing else uses the cores.

mod cores;
mod delay;
#[cfg(test)]
mod tests;

pub use delay::simulate;

use crate::queueing::{QueueError, STAGES_MAX, Scv, count, no_less_than_zero, positive};
use catena_model::NodeName;
use catena_model::service_time::ServiceTime;
use cores::Cores;

/// Packets of the simulation that quantiles are taken from where no formula gives them.
pub const PACKETS: usize = 200_000;
/// Its seed.
pub const SEED: u64 = 1;

const NS: f64 = 1e-9;

/// How long something takes for a packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ServiceEstimate {
    /// In the mean, in seconds.
    pub mean_s: f64,
    /// How that varies.
    pub scv: Scv,
    /// How it is known.
    pub source: EstimateSource,
}

/// How a time is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EstimateSource {
    /// The data plane has timed so many packets.
    Measured {
        /// They, as on the wire.
        packets: u64,
    },
    /// By a figure that was measured elsewhere, as long as nobody has timed any here.
    Default,
}

impl ServiceEstimate {
    /// As packets were timed; none: none was, or they took no time that a clock shows.
    ///
    /// The mean is that of all packets; the variance is of classes by their longest times, beside their own mean, so
    /// that the breadth of classes cancels. Times are shares of calls about several packets: how packets of one call
    /// differ is in no figure.
    #[must_use]
    pub fn measured(time: &ServiceTime) -> Option<Self> {
        let mean_s = time.ns as f64 / time.packets as f64 * NS;
        let sum = |power: i32| -> f64 {
            let counts = time.counts.iter();
            counts.map(|(ns, count)| *count as f64 * (*ns as f64).powi(power)).sum()
        };
        let mean = sum(1) / sum(0);
        let scv = sum(2) / sum(0) / (mean * mean) - 1.0;
        // Rounding may leave a constant a little below nothing.
        let scv = Scv::new(if scv < 0.0 { 0.0 } else { scv }).ok()?;
        let source = EstimateSource::Measured { packets: time.packets };
        (mean_s > 0.0 && mean_s.is_finite()).then_some(Self { mean_s, scv, source })
    }
}

/// A thread that asks functions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FunctionThread {
    /// Which of its node.
    pub number: u16,
    /// What it takes until it is awake and has been heard, in seconds.
    pub handoff_s: f64,
}

/// An instance of a function, as packets come to it.
#[derive(Clone, Debug, PartialEq)]
pub struct CoreShare {
    /// The node whose worker asks it; all that are not known count as one, which is the worst that may be.
    pub node: Option<NodeName>,
    /// The thread of that node that asks it in the worker's place; none: its worker does.
    pub thread: Option<FunctionThread>,
    /// Its share of packets, beside those of the others.
    pub share: f64,
}

/// A function of a chain.
#[derive(Clone, Debug, PartialEq)]
pub struct FunctionLoad {
    /// Its name.
    pub name: String,
    /// What it takes for a packet; none: nobody knows.
    pub service: Option<ServiceEstimate>,
    /// Its instances.
    pub cores: Vec<CoreShare>,
}

/// A chain, as its packets meet it.
#[derive(Clone, Debug, PartialEq)]
pub struct ChainLoad {
    /// Stages, one behind the other; the functions of one work side by side where they stand on different cores.
    pub stages: Vec<Vec<FunctionLoad>>,
    /// What a data plane takes for a packet each time that it comes to a core, functions apart; none: nothing.
    pub steering: Option<ServiceEstimate>,
}

impl ChainLoad {
    /// Functions one after the other, as workers ask them.
    #[must_use]
    pub fn in_order(functions: Vec<FunctionLoad>, steering: Option<ServiceEstimate>) -> Self {
        Self { stages: functions.into_iter().map(|function| vec![function]).collect(), steering }
    }

    fn functions(&self) -> impl Iterator<Item = &FunctionLoad> {
        self.stages.iter().flatten()
    }

    /// Is it a chain, and has each number a meaning?
    fn check(&self) -> Result<(), QueueError> {
        count("stages of the chain", self.stages.len(), STAGES_MAX)?;
        count("functions of the chain", self.functions().count(), STAGES_MAX)?;
        for stage in &self.stages {
            count("functions of a stage", stage.len(), STAGES_MAX)?;
        }
        for function in self.functions() {
            for thread in function.cores.iter().filter_map(|core| core.thread.as_ref()) {
                no_less_than_zero("the time to ask a thread", thread.handoff_s)?;
            }
            let shares = function.cores.iter().map(|core| core.share);
            for share in shares.clone() {
                no_less_than_zero("the share of an instance", share)?;
            }
            positive("the sum of the shares of instances", shares.sum())?;
        }
        let services = self.functions().filter_map(|function| function.service.as_ref());
        for service in services.chain(&self.steering) {
            positive("the mean service time", service.mean_s)?;
            positive("the service rate", 1.0 / service.mean_s)?;
        }
        Ok(())
    }
}

/// How many packets come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ArrivalRate {
    /// A second.
    pub per_second: f64,
    /// How that is known.
    pub source: RateSource,
}

/// How a rate is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateSource {
    /// Somebody has said it.
    Given,
    /// It was counted.
    Measured,
}

/// What to expect.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// The rate that it is for; none: nobody knows one.
    pub rate: Option<ArrivalRate>,
    /// Packets a second below which there is a steady state; none: no function has a known time. Functions without
    /// one may hold it lower.
    pub ceiling: Option<Ceiling>,
    /// Each node, by its name.
    pub nodes: Vec<CoreLoad>,
    /// Functions of which nobody knows how long they take, in the order of the chain.
    pub untimed: Vec<String>,
    /// How long packets stay.
    pub delay: Delay,
}

/// What a chain carries.
#[derive(Clone, Debug, PartialEq)]
pub struct Ceiling {
    /// Packets a second at which a core is busy without a pause.
    pub per_second: f64,
    /// Whose core that is.
    pub node: Option<NodeName>,
    /// Of its threads that ask functions, which; none: its worker.
    pub thread: Option<u16>,
    /// What a packet of the chain takes of it, in the mean, in seconds.
    pub seconds: f64,
    /// The function that takes the most of that.
    pub function: String,
    /// How much, in seconds.
    pub function_s: f64,
}

/// How busy a node is with a chain, its worker and the threads that ask functions together.
#[derive(Clone, Debug, PartialEq)]
pub struct CoreLoad {
    /// The node.
    pub node: Option<NodeName>,
    /// What a packet of the chain takes of its cores, in the mean, in seconds.
    pub seconds_per_packet: f64,
    /// Cores that are busy at the rate; none: there is no rate, or no steady state.
    pub busy_cores: Option<f64>,
}

/// How long packets stay with the functions of a chain and wait for them.
#[derive(Clone, Debug, PartialEq)]
pub enum Delay {
    /// So long.
    Known {
        /// In the mean, in seconds.
        mean_s: f64,
        /// What shares of packets do not exceed.
        quantiles: Quantiles,
    },
    /// Nobody has said a rate, and none was counted.
    NoRate,
    /// There is no steady state: packets come faster than they can be served.
    Unstable,
    /// Of a function nobody knows how long it takes.
    Untimed,
}

/// What half of all packets, 95 and 99 of 100 do not exceed, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shares {
    /// Half.
    pub p50_s: f64,
    /// 95 of 100.
    pub p95_s: f64,
    /// 99 of 100.
    pub p99_s: f64,
}

/// Quantiles, and how they are known.
#[derive(Clone, Debug, PartialEq)]
pub enum Quantiles {
    /// By formula: every service is exponential.
    Exact(Shares),
    /// There is no closed formula: by simulation of the same queues.
    Simulated {
        /// They.
        shares: Shares,
        /// Packets that were simulated.
        packets: usize,
        /// By which it drew.
        seed: u64,
    },
    /// Nothing is known of them.
    Unknown(NoQuantiles),
}

/// Why nothing is known of quantiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoQuantiles {
    /// Packets come to a core more than once.
    Revisited,
    /// Instances get unequal shares of packets.
    Uneven,
    /// Services vary too much to be drawn.
    Wild,
    /// Of a function nobody knows how long it takes.
    Untimed,
}

impl NoQuantiles {
    /// In words.
    #[must_use]
    pub const fn in_words(self) -> &'static str {
        match self {
            Self::Revisited => "packets come to a core more than once",
            Self::Uneven => "instances get unequal shares of packets",
            Self::Wild => "services vary too much to be simulated",
            Self::Untimed => "nobody has timed one of the functions",
        }
    }
}

/// What to expect of a chain at a rate. Where quantiles have no formula, `packets` are simulated ([`PACKETS`]).
///
/// # Errors
/// When the chain has no functions or too many, a rate, a time or a share is none, or numbers grow beyond what can be
/// told. More than can be carried is no error: there is no delay then, and the ceiling says why.
pub fn predict(
    chain: &ChainLoad,
    rate: Option<ArrivalRate>,
    packets: usize,
) -> Result<Prediction, QueueError> {
    chain.check()?;
    let lambda = rate.map(|rate| positive("the arrival rate", rate.per_second)).transpose()?;
    let cores = Cores::of(chain)?;
    let untimed: Vec<String> = chain
        .functions()
        .filter(|function| function.service.is_none())
        .map(|function| function.name.clone())
        .collect();
    let delay = match lambda {
        _ if !untimed.is_empty() => Delay::Untimed,
        None => Delay::NoRate,
        Some(lambda) if !cores.carries(lambda) => Delay::Unstable,
        Some(lambda) => match delay::of(&cores, lambda, packets) {
            // So near the ceiling that no digits are left between.
            Err(QueueError::Unstable { .. }) => Delay::Unstable,
            delay => delay?,
        },
    };
    let nodes = cores.loads(lambda.filter(|lambda| cores.carries(*lambda)));
    Ok(Prediction { rate, ceiling: cores.ceiling(), nodes, untimed, delay })
}
