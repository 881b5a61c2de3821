//! What the controller asks the data plane of a node, and what it hears. Knows the words of
//! questions and answers; refuses to know how they travel and who answers.

use crate::account::{NodeCounters, SliceCounters};
use crate::check::{CheckQuestion, Sighting};
use crate::dump::StateDump;
use crate::explain::{CatchRequest, CaughtPacket, ExplainReply, ExplainRequest};
use crate::id::{ChainId, InstanceId, PortId, SliceId};
use crate::program::SliceEntry;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Whose counters are asked for. What a node counts once for all (its tunnels, the health of
/// instances, what it forgot) is told whatever is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CounterScope {
    /// The paths of these chains.
    pub chains: BTreeSet<ChainId>,
    /// These ports.
    pub ports: BTreeSet<PortId>,
    /// The bundled functions that these instances are: nobody is told of them who does not ask for them.
    #[serde(default)]
    pub functions: BTreeSet<InstanceId>,
}

impl CounterScope {
    /// Asks for what another asks for, too.
    pub fn extend(&mut self, other: Self) {
        self.chains.extend(other.chains);
        self.ports.extend(other.ports);
        self.functions.extend(other.functions);
    }
}

/// A question to one data plane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Question {
    /// All counters at this moment.
    Counters {
        /// Also what the interfaces behind the ports counted themselves, which costs the agent a
        /// question to the kernel for each port.
        with_interfaces: bool,
        /// Of these chains and ports alone; none: of all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        of: Option<CounterScope>,
    },
    /// The counters of slices in the order of their identifiers, a part at a time: they are too
    /// many for one answer.
    Slices {
        /// Those behind this one; none: from the first on.
        after: Option<SliceId>,
        /// Paths of slices in one answer; at most
        /// [`SLICE_COUNTERS_MAX`](crate::limits::SLICE_COUNTERS_MAX).
        limit: u32,
    },
    /// Puts slices in by hand instead of those that were, into paths that the node sends into by a
    /// rule of its program. They are gone when no rule does any more, and when the data plane ends.
    Inject(Vec<SliceEntry>),
    /// The slices that were put in by hand.
    Injected,
    /// What it would do with a packet.
    Explain(ExplainRequest),
    /// The next packet at a port.
    CatchNext(CatchRequest),
    /// About the probes of a check.
    Check(CheckQuestion),
    /// What it holds, but for what it counts.
    Dump,
    /// Alerts of bundled functions, in the order in which they came; the agent answers, which keeps them.
    Alerts(AlertQuestion),
}

/// Which alerts are asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlertQuestion {
    /// Of these instances, each behind this mark; none: from the oldest on that is kept.
    pub of: BTreeMap<InstanceId, Option<AlertMark>>,
    /// How many of each at most; at most [`FUNCTION_ALERTS_TOLD_MAX`](crate::limits::FUNCTION_ALERTS_TOLD_MAX).
    pub limit: u32,
}

/// A place in the row of an instance's alerts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AlertMark {
    /// Of which row: an agent that starts begins another one.
    pub row: u64,
    /// How many alerts are before it.
    pub number: u64,
}

/// Alerts of one instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceAlerts {
    /// The instance.
    pub instance: InstanceId,
    /// Each as Suricata writes it (EVE): one line of JSON without its line feed, the oldest first.
    pub lines: Vec<String>,
    /// Alerts behind the mark that was asked for that are kept no longer.
    pub lost: u64,
    /// Where what was told ends.
    pub end: AlertMark,
}

/// The answer to a [`Question`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The counters.
    Counters(Box<NodeCounters>),
    /// The counters of slices; fewer than were asked for: these were the last.
    Slices(Vec<SliceCounters>),
    /// The slices that are in by hand.
    Injected(Vec<SliceEntry>),
    /// Its decisions.
    Explained(Box<ExplainReply>),
    /// The packet, once one has come.
    Caught(Option<CaughtPacket>),
    /// What was seen of the probes of a check.
    Sighted(Vec<Sighting>),
    /// What it holds.
    Dumped(StateDump),
    /// The alerts of those instances that have any.
    Alerts(Vec<InstanceAlerts>),
    /// The node cannot answer.
    Refused {
        /// Why, for people.
        reason: String,
    },
}
