//! How long packets stay with a chain: means by formula, quantiles by formula where there is one, and else by
//! simulation. Knows queues in a row; refuses to answer where neither fits.

use super::cores::{Cores, Visit};
use super::{ChainLoad, Delay, NoQuantiles, Quantiles, SEED, Shares};
use crate::queueing::{
    ForkJoin, QueueError, Scv, Simulated, Simulation, Stage, Station, Tandem, positive,
};

/// Fewer packets tell nothing of one of a hundred.
const PACKETS_MIN: usize = 10_000;
/// Below this, services count as constant: nobody draws them so even.
const EVEN: f64 = 0.001;
/// Above this, they are not drawn.
const WILD: f64 = 1_000.0;

/// At a rate that the cores carry.
pub(super) fn of(cores: &Cores<'_>, lambda: f64, packets: usize) -> Result<Delay, QueueError> {
    let mut mean_s = 0.0;
    for stage in &cores.stages {
        mean_s += stay(cores, stage, lambda)? + handoff(stage);
    }
    // Numbers that grew beyond what can be told are no answer.
    let mean_s = positive("the mean delay", mean_s)?;
    Ok(Delay::Known { mean_s, quantiles: quantiles(cores, lambda, packets)? })
}

/// How long it takes until the threads of a stage are awake and have been heard.
fn handoff(stage: &[Visit<'_>]) -> f64 {
    stage.iter().map(|visit| visit.handoff).fold(0.0, f64::max)
}

/// Quantiles of packets that all take so much longer.
fn later(shares: Shares, by_s: f64) -> Shares {
    let Shares { p50_s, p95_s, p99_s } = shares;
    Shares { p50_s: p50_s + by_s, p95_s: p95_s + by_s, p99_s: p99_s + by_s }
}

/// How long a packet stays with a stage, in the mean.
fn stay(cores: &Cores<'_>, stage: &[Visit<'_>], lambda: f64) -> Result<f64, QueueError> {
    let mut stays = Vec::new();
    for visit in stage {
        let mut stay = visit.mean;
        for (host, share) in &visit.shares {
            stay += share * cores.wait(*host, lambda)?;
        }
        stays.push(stay);
    }
    match stays.as_slice() {
        [one] => Ok(*one),
        // Each as the exponential stay of the same mean, which it is where services are exponential.
        several => {
            let rates: Vec<f64> = several.iter().map(|stay| lambda + 1.0 / stay).collect();
            Ok(ForkJoin::new(lambda, &rates)?.mean_sojourn())
        }
    }
}

fn quantiles(cores: &Cores<'_>, lambda: f64, packets: usize) -> Result<Quantiles, QueueError> {
    if let Some(reason) = objection(cores)? {
        return Ok(Quantiles::Unknown(reason));
    }
    let handoffs = cores.stages.iter().map(|stage| handoff(stage)).sum();
    if let Some(shares) = exact(cores, lambda)? {
        return Ok(Quantiles::Exact(later(shares, handoffs)));
    }
    let packets = packets.max(PACKETS_MIN);
    let shares = later(told(&simulated(cores, lambda, packets, SEED)?)?, handoffs);
    Ok(Quantiles::Simulated { shares, packets, seed: SEED })
}

/// Why the queues are not those of a simulation.
fn objection(cores: &Cores<'_>) -> Result<Option<NoQuantiles>, QueueError> {
    if !cores.is_visited_once() {
        return Ok(Some(NoQuantiles::Revisited));
    }
    for visit in cores.stages.iter().flatten() {
        if visit.even().is_none() {
            return Ok(Some(NoQuantiles::Uneven));
        }
        if visit.scv()?.value() > WILD {
            return Ok(Some(NoQuantiles::Wild));
        }
    }
    Ok(None)
}

/// Where every service is exponential and nobody works side by side, the sum of exponential times.
fn exact(cores: &Cores<'_>, lambda: f64) -> Result<Option<Shares>, QueueError> {
    let mut queues = Vec::new();
    for stage in &cores.stages {
        let [visit] = stage.as_slice() else { return Ok(None) };
        let Some(instances) = visit.even().filter(|_| is_exponential(visit)) else {
            return Ok(None);
        };
        // As fast beside all packets as an instance beside its own.
        let elsewhere = lambda - lambda / f64::from(instances);
        queues.push((1.0 / visit.mean + elsewhere, 1));
    }
    let tandem = Tandem::new(lambda, &queues)?;
    let [p50_s, p95_s, p99_s] = [0.5, 0.95, 0.99].map(|part| tandem.sojourn_quantile(part));
    let (Some(p50_s), Some(p95_s), Some(p99_s)) = (p50_s?, p95_s?, p99_s?) else {
        return Ok(None);
    };
    Ok(Some(Shares { p50_s, p95_s, p99_s }))
}

fn is_exponential(visit: &Visit<'_>) -> bool {
    visit.scv().is_ok_and(|scv| (scv.value() - 1.0).abs() < 1e-9)
}

fn simulated(
    cores: &Cores<'_>,
    lambda: f64,
    packets: usize,
    seed: u64,
) -> Result<Simulated, QueueError> {
    let member = |visit: &Visit<'_>| {
        let scv = visit.scv()?;
        let scv = if scv.value() < EVEN { Scv::FIXED } else { scv };
        let instances = visit.even().unwrap_or(1);
        Station::with_a_queue_each(visit.mean, scv, instances)
    };
    let stage = |visits: &Vec<Visit<'_>>| -> Result<Stage, QueueError> {
        Ok(Stage { members: visits.iter().map(member).collect::<Result<_, _>>()? })
    };
    let stages = cores.stages.iter().map(stage).collect::<Result<_, _>>()?;
    Ok(Simulation::new(lambda, stages)?.run(packets, seed))
}

fn told(seen: &Simulated) -> Result<Shares, QueueError> {
    Ok(Shares {
        p50_s: seen.sojourn_quantile(0.5)?,
        p95_s: seen.sojourn_quantile(0.95)?,
        p99_s: seen.sojourn_quantile(0.99)?,
    })
}

/// What a simulation of the queues of a chain sees: the mean, in seconds, and quantiles; or why they cannot be
/// simulated. The same seed gives the same.
///
/// # Errors
/// As [`super::predict`], or when the rate is more than can be carried.
pub fn simulate(
    chain: &ChainLoad,
    lambda: f64,
    packets: usize,
    seed: u64,
) -> Result<Result<(f64, Shares), NoQuantiles>, QueueError> {
    chain.check()?;
    if chain.functions().any(|function| function.service.is_none()) {
        return Ok(Err(NoQuantiles::Untimed));
    }
    let cores = Cores::of(chain)?;
    if let Some(reason) = objection(&cores)? {
        return Ok(Err(reason));
    }
    let seen = simulated(&cores, lambda, packets.max(PACKETS_MIN), seed)?;
    let handoffs: f64 = cores.stages.iter().map(|stage| handoff(stage)).sum();
    Ok(Ok((seen.mean_sojourn() + handoffs, later(told(&seen)?, handoffs))))
}
