//! Stages one behind the other. Behind a stage M/M/c packets are a Poisson process again (Burke 1956), so each is
//! such a queue for itself and means add up; where each stage has one server, times in them are independent too
//! (Reich 1957), and all of them together are a sum of exponential times.

use super::{Mmc, QueueError, STAGES_MAX, count, share, where_tail_is};

/// Stages.
#[derive(Clone, Debug, PartialEq)]
pub struct Tandem {
    stages: Vec<Mmc>,
}

impl Tandem {
    /// Those through which `lambda` a second pass; of each stage the service rate and the servers.
    ///
    /// # Errors
    /// When there is no stage, or one is no queue ([`Mmc::new`]).
    pub fn new(lambda: f64, stages: &[(f64, u32)]) -> Result<Self, QueueError> {
        count("stages", stages.len(), STAGES_MAX)?;
        let stages = stages.iter().map(|(mu, servers)| Mmc::new(lambda, *mu, *servers));
        Ok(Self { stages: stages.collect::<Result<_, _>>()? })
    }

    /// The stages, in their order.
    #[must_use]
    pub fn stages(&self) -> &[Mmc] {
        &self.stages
    }

    /// W: how long a packet stays, in the mean.
    #[must_use]
    pub fn mean_sojourn(&self) -> f64 {
        self.stages.iter().map(Mmc::mean_sojourn).sum()
    }

    /// So large a share of packets stays no longer; none: a stage has several servers, and nothing is known of the sum.
    ///
    /// # Errors
    /// When the share is not between zero and one.
    pub fn sojourn_quantile(&self, part: f64) -> Result<Option<f64>, QueueError> {
        let left = 1.0 - share(part)?;
        if self.stages.iter().any(|stage| stage.servers() != 1) {
            return Ok(None);
        }
        let rates: Vec<f64> =
            self.stages.iter().map(|stage| stage.service_rate() - stage.arrival_rate()).collect();
        let mean = self.mean_sojourn();
        Ok(Some(where_tail_is(left, mean, |time| sum_tail(&rates, time))))
    }
}

/// The share of sums of exponential times with these rates that are longer.
///
/// The matrix exponential of the chain of phases, by scaling and squaring: all numbers on the way are shares, so
/// nothing cancels, however close rates are to each other.
fn sum_tail(rates: &[f64], time: f64) -> f64 {
    let fastest = rates.iter().copied().fold(0.0, f64::max);
    let halvings = (fastest * time).log2().ceil().clamp(0.0, 60.0) as i32;
    let step = time / 2.0_f64.powi(halvings);
    let mut within = short_step(rates, fastest, step);
    for _ in 0..halvings {
        within = product(&within, &within);
    }
    within.first().map_or(0.0, |row| row.iter().sum())
}

/// The shares that are in each phase after a step in which the fastest ends at most once in the mean.
fn short_step(rates: &[f64], fastest: f64, step: f64) -> Vec<Vec<f64>> {
    let phases = rates.len();
    let mut jump = vec![vec![0.0; phases]; phases];
    for (phase, (row, rate)) in jump.iter_mut().zip(rates).enumerate() {
        row[phase] = 1.0 - rate / fastest;
        if let Some(next) = row.get_mut(phase + 1) {
            *next = rate / fastest;
        }
    }
    let mut weight = (-fastest * step).exp();
    let mut power: Vec<Vec<f64>> = (0..phases)
        .map(|row| (0..phases).map(|column| f64::from(u8::from(row == column))).collect())
        .collect();
    let mut sum = vec![vec![0.0; phases]; phases];
    // Poisson weights of a mean of at most one: the rest behind 30 is below 1e-33.
    for number in 1..=30 {
        for (row, powers) in sum.iter_mut().zip(&power) {
            row.iter_mut().zip(powers).for_each(|(sum, power)| *sum += weight * power);
        }
        power = product(&power, &jump);
        weight *= fastest * step / f64::from(number);
    }
    sum
}

fn product(left: &[Vec<f64>], right: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let columns = right.len();
    let row = |row: &Vec<f64>| {
        let mut out = vec![0.0; columns];
        for (factor, other) in row.iter().zip(right) {
            out.iter_mut().zip(other).for_each(|(sum, one)| *sum += factor * one);
        }
        out
    };
    left.iter().map(row).collect()
}
