//! What a monitor is told before it begins.

use super::scans::ScanLimit;
use crate::packet::Time;
use catena_model::limits::FUNCTION_FLOWS_MAX;
use std::fmt;

/// The configuration of a monitor. Those that take over from one another have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MonitorConfig {
    /// Seconds from which on a record ends though packets come.
    pub active_seconds: u32,
    /// Seconds without a packet behind which a record ends.
    pub idle_seconds: u32,
    /// Records that are open at once.
    pub flows_max: usize,
    /// The observation domain of the messages.
    pub domain: u32,
    /// When the times of packets start, in seconds since 1970.
    pub epoch_seconds: u64,
    /// What is a scan; none: none is looked for.
    pub scans: Option<ScanLimit>,
    /// A number that senders cannot guess: with it they could choose flows that hide from one another.
    pub seed: u64,
}

impl Default for MonitorConfig {
    fn default() -> Self {
        Self {
            active_seconds: 60,
            idle_seconds: 15,
            flows_max: FUNCTION_FLOWS_MAX,
            domain: 0,
            epoch_seconds: 0,
            scans: Some(ScanLimit::default()),
            seed: 0,
        }
    }
}

/// A number that is out of its bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MonitorError {
    /// A time of 0 s.
    Timeout,
    /// So many records.
    Flows(usize),
    /// So many pairs of address and port.
    Pairs(u32),
}

impl fmt::Display for MonitorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Timeout => f.write_str("times of a monitor are 1 s at least"),
            Self::Flows(flows) => {
                write!(f, "a monitor looks after 1 to {FUNCTION_FLOWS_MAX} flows, not {flows}")
            }
            Self::Pairs(pairs) => {
                let max = ScanLimit::PAIRS_MAX;
                write!(f, "scans are told from those of 1 to {max} places, not {pairs}")
            }
        }
    }
}

impl std::error::Error for MonitorError {}

impl MonitorConfig {
    pub(super) fn check(&self) -> Result<(), MonitorError> {
        let scans = self.scans.unwrap_or_default();
        if [self.active_seconds, self.idle_seconds, scans.seconds].contains(&0) {
            return Err(MonitorError::Timeout);
        }
        if !(1..=FUNCTION_FLOWS_MAX).contains(&self.flows_max) {
            return Err(MonitorError::Flows(self.flows_max));
        }
        if !(1..=ScanLimit::PAIRS_MAX).contains(&scans.pairs) {
            return Err(MonitorError::Pairs(scans.pairs));
        }
        Ok(())
    }

    pub(super) const fn idle(&self) -> Time {
        Time::seconds(self.idle_seconds as u64)
    }

    pub(super) const fn active(&self) -> Time {
        Time::seconds(self.active_seconds as u64)
    }

    pub(super) const fn epoch_ms(&self) -> u64 {
        self.epoch_seconds.saturating_mul(1_000)
    }
}
