//! Queues in numbers: how long packets wait for functions and stay with them, by the formulas of queueing theory, and
//! by simulation where there are none. Knows rates, servers and shares; refuses to know functions, hosts and clocks.
//!
//! Rates are per second and times in seconds, or both in any other unit of time. Symbols are those of the literature: λ
//! arrivals, μ services of one server, c servers, a = λ/μ offered load, ρ = a/c utilization.

mod fork_join;
mod general;
mod mmc;
mod simulation;
mod tandem;
#[cfg(test)]
mod tests;

pub use fork_join::ForkJoin;
pub use general::{Scv, mg1_wait, mgc_wait, priority_waits, separate_wait};
pub use mmc::Mmc;
pub use simulation::{Simulated, Simulation, Stage, Station};
pub use tandem::Tandem;

use thiserror::Error;

/// Servers of one queue.
pub const SERVERS_MAX: u32 = 65_536;
/// Queues behind each other: as many as functions in a chain.
pub const STAGES_MAX: usize = 62;

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum QueueError {
    /// A rate, a time or a coefficient that is none.
    #[error("{what} is {value}, which is not {wanted}")]
    NotANumber {
        /// What it is.
        what: &'static str,
        /// The value.
        value: f64,
        /// What it should be.
        wanted: &'static str,
    },
    /// A number of servers or queues that cannot be.
    #[error("{what}: there are {count}, and there may be 1 to {most}")]
    Count {
        /// Of what.
        what: &'static str,
        /// How many.
        count: usize,
        /// The most.
        most: usize,
    },
    /// More comes than can be served: the queue grows for ever.
    #[error(
        "no steady state: {lambda} a second come, and {servers} of rate {mu} serve at most {capacity}; lower the rate, \
         or add servers"
    )]
    Unstable {
        /// What comes.
        lambda: f64,
        /// What one server serves.
        mu: f64,
        /// How many servers.
        servers: u32,
        /// What all serve.
        capacity: f64,
    },
}

/// A number above zero.
pub(crate) fn positive(what: &'static str, value: f64) -> Result<f64, QueueError> {
    let is_it = value.is_finite() && value > 0.0;
    is_it.then_some(value).ok_or(QueueError::NotANumber { what, value, wanted: "above zero" })
}

/// A number that is not below zero.
pub(crate) fn no_less_than_zero(what: &'static str, value: f64) -> Result<f64, QueueError> {
    let is_it = value.is_finite() && value >= 0.0;
    is_it.then_some(value).ok_or(QueueError::NotANumber { what, value, wanted: "zero or more" })
}

/// As many as there may be, and one at least.
pub(crate) fn count(what: &'static str, count: usize, most: usize) -> Result<usize, QueueError> {
    let is_it = (1..=most).contains(&count);
    is_it.then_some(count).ok_or(QueueError::Count { what, count, most })
}

/// A share of all packets, above zero and below one.
fn share(value: f64) -> Result<f64, QueueError> {
    let is_it = value > 0.0 && value < 1.0;
    let wanted = "between zero and one";
    is_it.then_some(value).ok_or(QueueError::NotANumber {
        what: "a share of packets",
        value,
        wanted,
    })
}

/// Where a falling tail comes down to a value: `tail(t) = left`, by bisection. `guess`: above zero.
fn where_tail_is(left: f64, guess: f64, tail: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (0.0, guess);
    while tail(high) > left && high.is_finite() {
        (low, high) = (high, 2.0 * high);
    }
    for _ in 0..200 {
        let middle = f64::midpoint(low, high);
        if middle <= low || middle >= high {
            break;
        }
        if tail(middle) > left { low = middle } else { high = middle }
    }
    high
}
