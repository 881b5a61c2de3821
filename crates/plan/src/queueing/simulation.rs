//! A simulation of queues, event by event: for what no formula says. Knows arrivals, services and the order of packets;
//! the same seed gives the same run.
//!
//! Packets come as a Poisson process and pass stages one behind the other. At each they go to all of its members, wait
//! there in the order of their arrival for the next server that is free, and leave the stage when the last member has
//! served them.

use super::general::Scv;
use super::mmc::FULL;
use super::{QueueError, SERVERS_MAX, STAGES_MAX, count, no_less_than_zero, positive, share};
use catena_wire::flow::mix;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::ops::RangeInclusive;

/// How services may vary, unless they do not at all.
const SCVS: RangeInclusive<f64> = 0.001..=1_000.0;
/// Of all packets, the first that are not told: queues are empty at first.
const WARM_UP: f64 = 0.1;

/// A queue with its servers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Station {
    mean: f64,
    scv: Scv,
    servers: u32,
    has_queue_each: bool,
}

impl Station {
    /// One whose services take `mean`, and vary so much: not at all, as exponential times, less (a mixture of times of
    /// Erlang with one phase more or less; H. Tijms, Stochastic Models, appendix B) or more (of two exponential times
    /// by chance, with balanced means).
    ///
    /// # Errors
    /// When the time is none, they vary too little or too much, or there are no servers or too many.
    pub fn new(mean: f64, scv: Scv, servers: u32) -> Result<Self, QueueError> {
        count("servers", servers as usize, SERVERS_MAX as usize)?;
        let value = scv.value();
        if value != 0.0 && !SCVS.contains(&value) {
            let what = "the squared coefficient of variation of simulated services";
            return Err(QueueError::NotANumber { what, value, wanted: "0, or from 0.001 to 1000" });
        }
        let mean = no_less_than_zero("the mean service time", mean)?;
        Ok(Self { mean, scv, servers, has_queue_each: false })
    }

    /// The same, but each server has a queue of its own, and chance shares packets out evenly.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn with_a_queue_each(mean: f64, scv: Scv, servers: u32) -> Result<Self, QueueError> {
        Ok(Self { has_queue_each: true, ..Self::new(mean, scv, servers)? })
    }

    fn service(&self, draws: &mut Draws) -> f64 {
        let scv = self.scv.value();
        if scv == 0.0 {
            return self.mean;
        }
        if scv <= 1.0 {
            let phases = (1.0 / scv).ceil();
            let root = (phases * (1.0 + scv) - phases * phases * scv).max(0.0).sqrt();
            let fewer = ((phases * scv - root) / (1.0 + scv)).clamp(0.0, 1.0);
            let is_fewer = fewer > 0.0 && draws.uniform() <= fewer;
            let drawn = if is_fewer { phases - 1.0 } else { phases };
            let sum: f64 = (0..drawn as u32).map(|_| draws.exponential()).sum();
            return self.mean * sum / (phases - fewer);
        }
        let short = f64::midpoint(1.0, ((scv - 1.0) / (scv + 1.0)).sqrt());
        let part = if draws.uniform() < short { short } else { 1.0 - short };
        self.mean * draws.exponential() / (2.0 * part)
    }
}

/// Members to which each packet goes; one: an ordinary queue.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// They.
    pub members: Vec<Station>,
}

/// What is simulated.
#[derive(Clone, Debug, PartialEq)]
pub struct Simulation {
    lambda: f64,
    stages: Vec<Stage>,
}

/// What was seen of packets, without those of the beginning.
#[derive(Clone, Debug, PartialEq)]
pub struct Simulated {
    /// How long each stayed, the shortest first.
    times: Vec<f64>,
    waited: f64,
}

impl Simulation {
    /// `lambda` packets a second through these stages.
    ///
    /// # Errors
    /// When the rate is none, there are no stages or members, or more comes to one than it can serve.
    pub fn new(lambda: f64, stages: Vec<Stage>) -> Result<Self, QueueError> {
        let lambda = positive("the arrival rate", lambda)?;
        count("stages", stages.len(), STAGES_MAX)?;
        for stage in &stages {
            count("members", stage.members.len(), SERVERS_MAX as usize)?;
            for Station { mean, servers, .. } in &stage.members {
                let (mu, servers) = (1.0 / mean, *servers);
                let capacity = mu * f64::from(servers);
                if lambda >= capacity * FULL {
                    return Err(QueueError::Unstable { lambda, mu, servers, capacity });
                }
            }
        }
        Ok(Self { lambda, stages })
    }

    /// So many packets, the first tenth of which is not told.
    #[must_use]
    pub fn run(&self, packets: usize, seed: u64) -> Simulated {
        let mut draws = Draws { seed, drawn: 0 };
        let mut now = 0.0;
        let arrivals: Vec<f64> = (0..packets)
            .map(|_| {
                now += draws.exponential() / self.lambda;
                now
            })
            .collect();
        let mut at = arrivals.clone();
        let mut waited = vec![0.0; packets];
        for stage in &self.stages {
            stage.pass(&mut at, &mut waited, &mut draws);
        }
        let told = (packets as f64 * WARM_UP) as usize;
        let mut times: Vec<f64> =
            at.iter().zip(&arrivals).skip(told).map(|(left, came)| left - came).collect();
        times.sort_by(f64::total_cmp);
        let waited = waited.iter().skip(told).sum::<f64>() / times.len().max(1) as f64;
        Simulated { times, waited }
    }
}

impl Stage {
    /// Takes packets through: `at` is when each comes, and then when each leaves. Of several members it counts as
    /// waiting what the last one to end has waited.
    fn pass(&self, at: &mut [f64], waited: &mut [f64], draws: &mut Draws) {
        let mut order: Vec<usize> = (0..at.len()).collect();
        order.sort_by(|one, other| at[*one].total_cmp(&at[*other]));
        let mut left = vec![(0.0_f64, 0.0_f64); at.len()];
        for member in &self.members {
            let mut servers = Servers::of(member);
            for packet in &order {
                let (begins, ends) = servers.serve(member, at[*packet], draws);
                if ends > left[*packet].0 {
                    left[*packet] = (ends, begins - at[*packet]);
                }
            }
        }
        for ((at, waited), (ends, wait)) in at.iter_mut().zip(waited).zip(left) {
            *at = ends;
            *waited += wait;
        }
    }
}

impl Simulated {
    /// How long a packet stayed, in the mean.
    #[must_use]
    pub fn mean_sojourn(&self) -> f64 {
        self.times.iter().sum::<f64>() / self.times.len().max(1) as f64
    }

    /// How long it waited, in the mean.
    #[must_use]
    pub const fn mean_wait(&self) -> f64 {
        self.waited
    }

    /// So large a share of packets stayed no longer.
    ///
    /// # Errors
    /// When the share is not between zero and one.
    pub fn sojourn_quantile(&self, part: f64) -> Result<f64, QueueError> {
        let place = (self.times.len() as f64 * share(part)?) as usize;
        Ok(self.times.get(place).copied().unwrap_or(0.0))
    }
}

/// When the servers of a station are free.
enum Servers {
    /// Behind one queue.
    Together(BinaryHeap<Free>),
    /// With a queue each.
    Apart(Vec<f64>),
}

impl Servers {
    fn of(station: &Station) -> Self {
        let free = 0..station.servers;
        match station.has_queue_each {
            true => Self::Apart(free.map(|_| 0.0).collect()),
            false => Self::Together(free.map(|_| Free(0.0)).collect()),
        }
    }

    /// When a packet that comes now begins to be served, and when it has been.
    fn serve(&mut self, station: &Station, comes: f64, draws: &mut Draws) -> (f64, f64) {
        match self {
            Self::Together(free) => {
                let begins = free.pop().map_or(comes, |Free(since)| since.max(comes));
                let ends = begins + station.service(draws);
                free.push(Free(ends));
                (begins, ends)
            }
            Self::Apart(free) => {
                let place = draws.below(free.len());
                let begins = free.get(place).map_or(comes, |since| since.max(comes));
                let ends = begins + station.service(draws);
                if let Some(since) = free.get_mut(place) {
                    *since = ends;
                }
                (begins, ends)
            }
        }
    }
}

/// When a server is free; the first of a heap is the earliest.
struct Free(f64);

impl PartialEq for Free {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Free {}

impl PartialOrd for Free {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Free {
    fn cmp(&self, other: &Self) -> Ordering {
        other.0.total_cmp(&self.0)
    }
}

/// Numbers by chance.
struct Draws {
    seed: u64,
    drawn: u64,
}

impl Draws {
    /// Above zero, and at most one.
    fn uniform(&mut self) -> f64 {
        self.drawn += 1;
        let bits = mix(self.seed ^ mix(self.drawn)) >> 11;
        (bits + 1) as f64 / (1_u64 << 53) as f64
    }

    /// One of so many places; of one, the first without a draw.
    fn below(&mut self, places: usize) -> usize {
        match places {
            0 | 1 => 0,
            _ => ((self.uniform() * places as f64) as usize).min(places - 1),
        }
    }

    /// An exponential time whose mean is one.
    fn exponential(&mut self) -> f64 {
        -self.uniform().ln()
    }
}
