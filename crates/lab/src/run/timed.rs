//! Datagrams of our own that leave as if by chance, and how long each takes. Knows draws and clocks; refuses to know
//! sockets.

use super::users::Delays;
use crate::vocabulary::Traffic;
use serde::Serialize;
use std::time::{Duration, Instant};

/// Where a datagram carries when it left: nanoseconds of the traffic, behind what tells it from others.
const STAMP_AT: usize = super::datagrams::IDENTITY_BYTES;
const STAMP_BYTES: usize = 8;
/// The first part of a traffic, whose datagrams meet queues that are not filled as they will be: they are not timed.
const WARM_UP: f64 = 0.1;

/// How long datagrams took from their sender's system call to that of their receiver, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TimedDatagrams {
    /// How many were timed.
    pub packets: usize,
    /// Datagrams a second that left while they were timed.
    pub packets_per_second: f64,
    /// In the mean.
    pub mean_ns: f64,
    /// Half of them took no longer.
    pub p50_ns: u64,
    /// 99 of 100 took no longer.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// The clock of one traffic, for both of its ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    start: Instant,
    seconds: f64,
}

impl Clock {
    pub(super) fn start(traffic: &Traffic) -> Self {
        Self { start: Instant::now(), seconds: traffic.seconds.0 }
    }

    fn ns(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Writes into a datagram when it leaves.
    pub(super) fn stamp(&self, payload: &mut [u8]) {
        if let Some(into) = payload.get_mut(STAMP_AT..STAMP_AT + STAMP_BYTES) {
            into.copy_from_slice(&self.ns().to_be_bytes());
        }
    }

    /// How long a datagram took that has come now; none: it left too early to be timed, or says nothing of it.
    fn took(&self, payload: &[u8]) -> Option<Taken> {
        let stamp = payload.get(STAMP_AT..STAMP_AT + STAMP_BYTES)?;
        let left_ns = u64::from_be_bytes(stamp.try_into().ok()?);
        let is_warm = left_ns as f64 >= WARM_UP * self.seconds * 1e9;
        is_warm.then(|| Taken { left_ns, took_ns: self.ns().saturating_sub(left_ns) })
    }
}

#[derive(Clone, Copy)]
struct Taken {
    left_ns: u64,
    took_ns: u64,
}

/// What the receiver of a traffic has timed.
pub(super) struct Timed {
    clock: Clock,
    taken: Vec<Taken>,
}

impl Timed {
    pub(super) const fn new(clock: Clock) -> Self {
        Self { clock, taken: Vec::new() }
    }

    /// A datagram has come.
    pub(super) fn take(&mut self, payload: &[u8]) {
        self.taken.extend(self.clock.took(payload));
    }

    /// None: none was timed.
    pub(super) fn told(self) -> Option<TimedDatagrams> {
        let first_ns = self.taken.iter().map(|one| one.left_ns).min()?;
        let last_ns = self.taken.iter().map(|one| one.left_ns).max()?;
        let seconds = Duration::from_nanos(last_ns - first_ns).as_secs_f64();
        let packets = self.taken.len();
        let packets_per_second = (packets - 1) as f64 / seconds;
        let mut took: Vec<u64> = self.taken.into_iter().map(|one| one.took_ns).collect();
        let Delays { mean_ns, p50_ns, p99_ns, max_ns, .. } = Delays::of(&mut took, &[], (0, 0));
        packets_per_second.is_finite().then_some(TimedDatagrams {
            packets,
            packets_per_second,
            mean_ns,
            p50_ns,
            p99_ns,
            max_ns,
        })
    }
}

/// When datagrams leave, and of which flow each is: as many Poisson processes as there are flows, all of one rate.
pub(super) struct Chance {
    draws: fastrand::Rng,
    per_second: f64,
    flows: u32,
    due: f64,
}

impl Chance {
    /// `seed`: another one for each run of a traffic.
    pub(super) fn new(seed: u64, per_second: u32, flows: u32) -> Self {
        let draws = fastrand::Rng::with_seed(seed);
        Self { draws, per_second: f64::from(per_second), flows, due: 0.0 }
    }

    /// The next datagram: when, after the beginning, and of which flow.
    pub(super) fn next(&mut self) -> (Duration, u32) {
        // Never the logarithm of nothing.
        self.due -= (1.0 - self.draws.f64()).ln() / self.per_second;
        (Duration::from_secs_f64(self.due), self.draws.u32(0..self.flows.max(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a Poisson process the gaps have the rate as their mean and as their deviation, and flows are as frequent.
    #[test]
    fn datagrams_leave_as_poisson_processes_of_one_rate() {
        let mut chance = Chance::new(7, 1_000, 5);
        let drawn: Vec<(Duration, u32)> = (0..100_000).map(|_| chance.next()).collect();
        let times: Vec<f64> = drawn.iter().map(|(due, _)| due.as_secs_f64()).collect();
        let gaps: Vec<f64> = times.windows(2).map(|two| two[1] - two[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let square = gaps.iter().map(|gap| gap * gap).sum::<f64>() / gaps.len() as f64;
        assert!((mean * 1_000.0 - 1.0).abs() < 0.02, "{mean}");
        assert!((square / (mean * mean) - 2.0).abs() < 0.05, "{square}");
        for flow in 0..5 {
            let count = drawn.iter().filter(|(_, of)| *of == flow).count();
            assert!((19_000..21_000).contains(&count), "{count}");
        }
        let again = Chance::new(7, 1_000, 5).next();
        assert_eq!(again, drawn[0]);
    }

    #[test]
    fn what_left_early_or_says_nothing_is_not_timed() {
        let start = Instant::now();
        let clock =
            Clock { start: start.checked_sub(Duration::from_secs(2)).unwrap(), seconds: 10.0 };
        let at = |seconds: f64| {
            let mut payload = [0; 64];
            let ns = (seconds * 1e9) as u64;
            payload[STAMP_AT..STAMP_AT + STAMP_BYTES].copy_from_slice(&ns.to_be_bytes());
            payload
        };
        let mut timed = Timed::new(clock);
        timed.take(&at(0.9));
        timed.take(b"short");
        assert!(timed.taken.is_empty());
        timed.take(&at(1.5));
        timed.take(&at(1.6));
        let told = timed.told().unwrap();
        assert_eq!(told.packets, 2);
        assert!((told.packets_per_second - 10.0).abs() < 1e-6);
        assert!(told.mean_ns >= 450e6 && told.max_ns >= 500_000_000, "{told:?}");
    }
}
