//! The words of `catena chain check`: what a data plane is asked while probes travel a chain, what
//! it has seen of them, and what the controller finds. Knows findings and their texts; refuses to
//! know how a probe is made and how a finding is reached.

use crate::explain::{ExplainAction, FrameBytes, PacketFilter};
use crate::id::PortId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Asks a data plane about the probes of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckQuestion {
    /// Look out for the probes with this seal, until nobody asks for a while.
    Arm {
        /// Seal of the probes.
        seal: u64,
    },
    /// Take these frames as if they had come in by a port.
    Inject {
        /// Seal of the probes.
        seal: u64,
        /// The port.
        port: PortId,
        /// The probes as frames.
        frames: Vec<FrameBytes>,
    },
    /// What was seen since the check was armed.
    Sightings {
        /// Seal of the probes.
        seal: u64,
    },
    /// Look at the real packets that fit a filter, until nobody asks for a while: they go on as if
    /// nobody looked, and those that came last are remembered. With a digest: what was seen of the
    /// packet that has it; from then on only that packet is looked for.
    Follow {
        /// Tells those who ask apart.
        seal: u64,
        /// What the packet must look like.
        filter: PacketFilter,
        /// Its digest ([`catena_wire::digest::kept`]).
        digest: Option<u64>,
    },
}

/// A decision of a data plane about a probe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sighting {
    /// Number of the probe, or the digest of the packet that is followed.
    pub probe: u64,
    /// When it was decided, of a probe; none: the node cannot tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<ClockTime>,
    /// The decision.
    pub action: ExplainAction,
}

/// A moment by a clock. Two moments can be compared if their clocks are one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ClockTime {
    /// Which clock: another on each machine, and another after each of its starts.
    pub clock: u64,
    /// Nanoseconds since that began.
    pub ns: u64,
}

/// Tells the monotonic clock of a machine from those of others, of other starts of it, and of time namespaces
/// (`time_namespaces(7)`); none: it cannot be known.
///
/// `boot_id` is what the kernel's file of that name says, `namespace` where `ns/time` of a process leads.
#[must_use]
pub fn clock_identity(boot_id: &str, namespace: Option<&str>) -> Option<u64> {
    let digits: String = boot_id.chars().filter(char::is_ascii_hexdigit).collect();
    let (high, low) = digits.split_at_checked(16)?;
    let number = |digits| u64::from_str_radix(digits, 16).ok();
    let namespace: String = match namespace {
        Some(link) => link.chars().filter(char::is_ascii_digit).collect(),
        None => "0".into(),
    };
    Some(number(high)? ^ number(low)? ^ namespace.parse::<u64>().ok()?)
}

impl ClockTime {
    /// How long after another moment it is, in nanoseconds; none: their clocks are not one, or it is not after.
    #[must_use]
    pub fn since(self, earlier: Self) -> Option<u64> {
        (self.clock == earlier.clock).then(|| self.ns.checked_sub(earlier.ns))?
    }
}

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CheckReport {
    /// Name of the chain.
    pub chain: String,
    /// The findings, in order.
    pub findings: Vec<CheckFinding>,
    /// How long small probes took from their first node to the end of their path, in nanoseconds, the shortest
    /// first; those that passed as they should, and whose ends have one clock.
    #[serde(default)]
    pub delays_ns: Vec<u64>,
}

/// One line of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CheckFinding {
    /// Is it as it should be?
    pub is_ok: bool,
    /// What was found, for people.
    pub text: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

impl CheckReport {
    /// Is everything as it should be?
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.findings.iter().all(|finding| finding.is_ok)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_of_two_clocks_are_not_compared() {
        let at = |clock, ns| ClockTime { clock, ns };
        assert_eq!(at(1, 9).since(at(1, 4)), Some(5));
        assert_eq!(at(1, 4).since(at(1, 9)), None);
        assert_eq!(at(2, 9).since(at(1, 4)), None);
    }
}
