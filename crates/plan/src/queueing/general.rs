//! Queues whose services are not exponential, whose arrivals are no Poisson process, whose packets are not alike, or
//! whose servers have a queue each. Means alone: of their tails little is known.

use super::{Mmc, QueueError, SERVERS_MAX, count, no_less_than_zero, positive};

/// A squared coefficient of variation: the variance beside the square of the mean. 0: always the same, 1: exponential.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scv(f64);

impl Scv {
    /// That of a constant.
    pub const FIXED: Self = Self(0.0);
    /// That of exponential times, and of a Poisson process.
    pub const EXPONENTIAL: Self = Self(1.0);

    /// # Errors
    /// When it is below zero.
    pub fn new(value: f64) -> Result<Self, QueueError> {
        no_less_than_zero("a squared coefficient of variation", value).map(Self)
    }

    /// The number.
    #[must_use]
    pub const fn value(self) -> f64 {
        self.0
    }
}

/// How long packets wait in M/G/1, in the mean (Pollaczek and Khinchine).
///
/// # Errors
/// As [`Mmc::new`].
pub fn mg1_wait(lambda: f64, mean_service: f64, service: Scv) -> Result<f64, QueueError> {
    let queue = Mmc::new(lambda, 1.0 / positive("the mean service time", mean_service)?, 1)?;
    Ok(mgc_wait(&queue, Scv::EXPONENTIAL, service))
}

/// How long packets wait in G/G/c, in the mean: the approximation of Allen and Cunneen, which is exact for M/M/c and
/// M/G/1.
#[must_use]
pub fn mgc_wait(queue: &Mmc, arrivals: Scv, services: Scv) -> f64 {
    queue.mean_wait() * f64::midpoint(arrivals.0, services.0)
}

/// How long packets of each class wait in M/M/c, in the mean, where those of an earlier class go first and none is
/// interrupted (Cobham 1954; all classes have one service rate). `lambdas`: of each class, the first before all others.
///
/// # Errors
/// As [`Mmc::new`], of all classes together.
pub fn priority_waits(lambdas: &[f64], mu: f64, servers: u32) -> Result<Vec<f64>, QueueError> {
    count("classes", lambdas.len(), SERVERS_MAX as usize)?;
    for lambda in lambdas {
        no_less_than_zero("the arrival rate of a class", *lambda)?;
    }
    let all = Mmc::new(lambdas.iter().sum(), mu, servers)?;
    let capacity = mu * f64::from(servers);
    let one_goes = all.waiting_probability() / capacity;
    let mut before = 0.0;
    let waits = lambdas.iter().map(|lambda| {
        let with = before + lambda / capacity;
        let wait = one_goes / ((1.0 - before) * (1.0 - with));
        before = with;
        wait
    });
    Ok(waits.collect())
}

/// How long packets wait, in the mean, where each server has a queue of its own, and chance shares them out evenly:
/// what a card does that spreads flows (RSS), with many flows.
///
/// # Errors
/// As [`Mmc::new`].
pub fn separate_wait(lambda: f64, mu: f64, servers: u32) -> Result<f64, QueueError> {
    count("servers", servers as usize, SERVERS_MAX as usize)?;
    Ok(Mmc::new(lambda / f64::from(servers), mu, 1)?.mean_wait())
}
