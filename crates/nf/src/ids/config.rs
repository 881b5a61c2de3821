//! What an ids is told before it begins.

use catena_model::limits::{FUNCTION_FLOWS_MAX, FUNCTION_REASSEMBLY_BYTES_MAX, FUNCTION_RULES_MAX};
use std::fmt;

/// Least room for reassembly: one packet in fragments, and some streams.
const REASSEMBLY_BYTES_MIN: usize = 1 << 20;

/// The configuration of an ids, or of an ips.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdsConfig {
    /// Are `drop` and `reject` carried out, and does what finds no room end (ips)? Else they are told
    /// alone, and it passes (ids).
    pub is_preventing: bool,
    /// Flows at once.
    pub flows_max: usize,
    /// Bytes for streams (three quarters) and packets in fragments (one quarter).
    pub reassembly_bytes: usize,
    /// Packets with less time to live do not reach the hosts behind, and are not looked at.
    pub ttl_min: u8,
    /// When the times of packets start, in seconds since 1970.
    pub epoch_seconds: u64,
    /// A number that senders cannot guess.
    pub seed: u64,
}

impl Default for IdsConfig {
    fn default() -> Self {
        Self {
            is_preventing: false,
            flows_max: FUNCTION_FLOWS_MAX,
            reassembly_bytes: FUNCTION_REASSEMBLY_BYTES_MAX,
            ttl_min: 0,
            epoch_seconds: 0,
            seed: 0,
        }
    }
}

/// Why there is no ids of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdsError {
    /// So many flows.
    Flows(usize),
    /// So many bytes for reassembly.
    Reassembly(usize),
    /// So many rules.
    Rules(usize),
    /// The search for their contents cannot be made.
    Search(String),
}

impl fmt::Display for IdsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flows(flows) => {
                write!(f, "an ids looks after 1 to {FUNCTION_FLOWS_MAX} flows, not {flows}")
            }
            Self::Reassembly(bytes) => write!(
                f,
                "an ids has {REASSEMBLY_BYTES_MIN} to {FUNCTION_REASSEMBLY_BYTES_MAX} bytes to put streams and \
                 fragments together, not {bytes}"
            ),
            Self::Rules(rules) => {
                write!(
                    f,
                    "an ids has at most {FUNCTION_RULES_MAX} rules, not {rules}; split them among several"
                )
            }
            Self::Search(why) => {
                write!(f, "the contents of the rules are too many for one search: {why}")
            }
        }
    }
}

impl std::error::Error for IdsError {}

impl IdsConfig {
    pub(super) fn check(&self) -> Result<(), IdsError> {
        if !(1..=FUNCTION_FLOWS_MAX).contains(&self.flows_max) {
            return Err(IdsError::Flows(self.flows_max));
        }
        if !(REASSEMBLY_BYTES_MIN..=FUNCTION_REASSEMBLY_BYTES_MAX).contains(&self.reassembly_bytes)
        {
            return Err(IdsError::Reassembly(self.reassembly_bytes));
        }
        Ok(())
    }
}
