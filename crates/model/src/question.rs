//! What the controller asks the data plane of a node, and what it hears. Knows the words of
//! questions and answers; refuses to know how they travel and who answers.

use crate::account::NodeCounters;
use crate::check::{CheckQuestion, Sighting};
use crate::explain::{CatchRequest, CaughtPacket, ExplainReply, ExplainRequest};
use serde::{Deserialize, Serialize};

/// A question to one data plane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Question {
    /// All counters at this moment.
    Counters {
        /// Also what the interfaces behind the ports counted themselves, which costs the agent a
        /// question to the kernel for each port.
        with_interfaces: bool,
    },
    /// What it would do with a packet.
    Explain(ExplainRequest),
    /// The next packet at a port.
    CatchNext(CatchRequest),
    /// About the probes of a check.
    Check(CheckQuestion),
}

/// The answer to a [`Question`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The counters.
    Counters(Box<NodeCounters>),
    /// Its decisions.
    Explained(Box<ExplainReply>),
    /// The packet, once one has come.
    Caught(Option<CaughtPacket>),
    /// What was seen of the probes of a check.
    Sighted(Vec<Sighting>),
    /// The node cannot answer.
    Refused {
        /// Why, for people.
        reason: String,
    },
}
