//! How things stand, in the words that API, CLI and tests share.

use crate::account::{ChainCounters, NodeCounters};
use crate::id::{BlueprintNumber, ChainId, NodeName, PathId, PortId};
use serde::{Deserialize, Serialize};

/// Whether a chain carries traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChainState {
    /// Not every node has what the chain needs: its traffic is not steered, none of it.
    Building,
    /// Every node has acknowledged; the next packet takes the chain.
    Active,
    /// An update is on its way: the traffic takes the path of before, whole.
    Updating,
    /// It was active and something it needs is gone: packets that miss it are dropped by name
    /// rather than let past a function.
    Degraded,
}

impl ChainState {
    /// The name in answers.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Building => "building",
            Self::Active => "active",
            Self::Updating => "updating",
            Self::Degraded => "degraded",
        }
    }
}

/// State of a chain with the reason, when it is not active.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainStatus {
    /// The chain.
    pub chain: ChainId,
    /// The state.
    pub state: ChainState,
    /// Names what is missing or away; empty when all is well.
    pub reason: String,
    /// The path in use.
    pub path: Option<PathId>,
}

/// One node as the controller sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeStatus {
    /// The node.
    pub node: NodeName,
    /// Is its agent connected?
    pub is_connected: bool,
    /// The program it should run.
    pub wanted: BlueprintNumber,
    /// The program it acknowledged last.
    pub acknowledged: BlueprintNumber,
    /// Ports of its program that have an interface.
    pub bound: Vec<PortId>,
    /// Why the others have none, in the agent's words.
    pub unbound: Vec<UnboundPort>,
}

/// A port without an interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnboundPort {
    /// The port.
    pub port: PortId,
    /// What is missing.
    pub reason: String,
}

/// Everything `catena chain show` prints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainReport {
    /// State and reason.
    pub status: ChainStatus,
    /// Name of the chain.
    pub name: String,
    /// Names of the functions in order.
    pub functions: Vec<String>,
    /// How the path is carried between hosts.
    pub encapsulation: crate::resource::Encapsulation,
    /// Counters of each node that the chain touches.
    pub nodes: Vec<ChainAtNode>,
}

/// A chain's counters at one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainAtNode {
    /// The node.
    pub node: NodeName,
    /// The counters.
    pub counters: ChainCounters,
}

/// What `GET /v1/nodes` answers for each node: its status and, if it answered, its counters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeReport {
    /// Status.
    pub status: NodeStatus,
    /// Counters, when the node answered in time.
    pub counters: Option<NodeCounters>,
}

/// One line of the list of chains: `GET /v1/chains`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainSummary {
    /// Name of the chain.
    pub name: String,
    /// State and reason.
    #[serde(flatten)]
    pub status: ChainStatus,
}
