//! The queue M/M/c: Poisson arrivals, exponential services, c servers behind one queue in the order of arrival.
//! Formulas: Erlang 1917; L. Kleinrock, Queueing Systems, volume 1, section 3.5.

use super::{QueueError, SERVERS_MAX, count, positive, share, where_tail_is};

/// Of what servers can do, as much as arrivals may ask for: beyond, numbers tell nothing any more.
pub(super) const FULL: f64 = 1.0 - 1e-12;

/// Such a queue in its steady state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mmc {
    lambda: f64,
    mu: f64,
    servers: u32,
    /// Erlang's C: the share of packets that wait.
    waiting: f64,
}

impl Mmc {
    /// One to which `lambda` a second come, and of whose `servers` each serves `mu` a second.
    ///
    /// # Errors
    /// When a rate is none, there are no servers or too many, or more comes than can be served.
    pub fn new(lambda: f64, mu: f64, servers: u32) -> Result<Self, QueueError> {
        let (lambda, mu) =
            (positive("the arrival rate", lambda)?, positive("the service rate", mu)?);
        count("servers", servers as usize, SERVERS_MAX as usize)?;
        let capacity = mu * f64::from(servers);
        if lambda >= capacity * FULL {
            return Err(QueueError::Unstable { lambda, mu, servers, capacity });
        }
        let (offered, load) = (lambda / mu, lambda / capacity);
        let blocked = erlang_b(offered, servers);
        Ok(Self { lambda, mu, servers, waiting: blocked / (1.0 - load * (1.0 - blocked)) })
    }

    /// λ.
    #[must_use]
    pub const fn arrival_rate(&self) -> f64 {
        self.lambda
    }

    /// μ.
    #[must_use]
    pub const fn service_rate(&self) -> f64 {
        self.mu
    }

    /// c.
    #[must_use]
    pub const fn servers(&self) -> u32 {
        self.servers
    }

    /// a: the servers that work in the mean.
    #[must_use]
    pub fn offered_load(&self) -> f64 {
        self.lambda / self.mu
    }

    /// ρ: the share of its time that a server works.
    #[must_use]
    pub fn utilization(&self) -> f64 {
        self.offered_load() / f64::from(self.servers)
    }

    /// C: the share of packets that wait.
    #[must_use]
    pub const fn waiting_probability(&self) -> f64 {
        self.waiting
    }

    /// What is left of the servers' rate.
    fn spare(&self) -> f64 {
        f64::from(self.servers) * self.mu - self.lambda
    }

    /// Lq: packets that wait, in the mean.
    #[must_use]
    pub fn mean_waiting(&self) -> f64 {
        let load = self.utilization();
        self.waiting * load / (1.0 - load)
    }

    /// L: packets that wait or are served, in the mean.
    #[must_use]
    pub fn mean_number(&self) -> f64 {
        self.lambda * self.mean_sojourn()
    }

    /// Wq: how long a packet waits, in the mean.
    #[must_use]
    pub fn mean_wait(&self) -> f64 {
        self.waiting / self.spare()
    }

    /// W: how long a packet stays, in the mean.
    #[must_use]
    pub fn mean_sojourn(&self) -> f64 {
        self.mean_wait() + 1.0 / self.mu
    }

    /// p₀: the share of time in which there is nobody.
    #[must_use]
    pub fn empty_probability(&self) -> f64 {
        self.state_probability(0)
    }

    /// The share of time in which so many packets wait or are served.
    #[must_use]
    pub fn state_probability(&self, packets: u64) -> f64 {
        let (offered, servers) = (self.offered_load(), u64::from(self.servers));
        // In logarithms: a^n / n! overflows at some hundred servers.
        let mut log_term = 0.0_f64;
        let mut logs = vec![0.0];
        for number in 1..=servers {
            log_term += (offered / number as f64).ln();
            logs.push(log_term);
        }
        let all_wait = log_term - (1.0 - self.utilization()).ln();
        let most = logs.iter().copied().fold(all_wait, f64::max);
        let below = logs.iter().take(self.servers as usize);
        let sum: f64 = below.map(|log| (log - most).exp()).sum::<f64>() + (all_wait - most).exp();
        let log_all = most + sum.ln();
        let log = match usize::try_from(packets).ok().and_then(|number| logs.get(number)) {
            Some(log) => *log,
            None => log_term + (packets - servers) as f64 * self.utilization().ln(),
        };
        (log - log_all).exp()
    }

    /// The share of packets that wait longer.
    #[must_use]
    pub fn wait_tail(&self, time: f64) -> f64 {
        self.waiting * (-self.spare() * time).exp()
    }

    /// So large a share of packets waits no longer.
    ///
    /// # Errors
    /// When the share is not between zero and one.
    pub fn wait_quantile(&self, part: f64) -> Result<f64, QueueError> {
        let left = 1.0 - share(part)?;
        Ok(if self.waiting <= left { 0.0 } else { (self.waiting / left).ln() / self.spare() })
    }

    /// The share of packets that stay longer.
    #[must_use]
    pub fn sojourn_tail(&self, time: f64) -> f64 {
        let served = (-self.mu * time).exp();
        let beyond = f64::from(self.servers) - 1.0 - self.offered_load();
        // e^(-μt) (1 - e^(-μtd)) / d: where d is small, both differences would lose their digits; where it is far below
        // zero, the one factor overflows as the other vanishes.
        let x = self.mu * time * beyond;
        let waited = match x.abs() {
            small if small < 1e-12 => served * self.mu * time,
            below if below < 1.0 => served * -(-x).exp_m1() / beyond,
            _ => (served - (-self.spare() * time).exp()) / beyond,
        };
        served + self.waiting * waited
    }

    /// So large a share of packets stays no longer.
    ///
    /// # Errors
    /// When the share is not between zero and one.
    pub fn sojourn_quantile(&self, part: f64) -> Result<f64, QueueError> {
        let left = 1.0 - share(part)?;
        Ok(where_tail_is(left, self.mean_sojourn(), |time| self.sojourn_tail(time)))
    }
}

/// Erlang's B by its recursion, which is stable for thousands of servers.
fn erlang_b(offered: f64, servers: u32) -> f64 {
    (1..=servers).fold(1.0, |blocked, number| {
        let both = offered * blocked;
        both / (f64::from(number) + both)
    })
}
