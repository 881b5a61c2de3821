//! Where functions of a chain could stand: the words that API and CLI share. Knows what is proposed and what it costs;
//! refuses to know how it is found.

use crate::id::NodeName;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What `POST /v1/plan/{draft}/placement` takes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PlacementRequest {
    /// Names or identities of the chains.
    pub chains: Vec<String>,
    /// Functions that stand somewhere and may stand elsewhere, by name. Those that stand nowhere are free anyway.
    #[serde(default)]
    pub free: Vec<String>,
    /// Functions of one chain that a host takes, at most.
    #[serde(default = "one")]
    pub per_host: usize,
}

const fn one() -> usize {
    1
}

/// Hosts for the functions of a chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Proposal {
    /// Name of the chain.
    pub chain: String,
    /// Why nothing is proposed; none: it is.
    pub trouble: Option<String>,
    /// Its functions in order, without taps.
    pub functions: Vec<PlacedFunction>,
    /// What its way costs now; none: a function stands nowhere, or no way leads to it.
    pub now: Option<WayCost>,
    /// What it would cost.
    pub proposed: Option<WayCost>,
    /// No choice of hosts has fewer racks than these.
    pub racks_least: usize,
    /// And none in so few racks has fewer ports.
    pub ports_least: usize,
    /// Has every choice of hosts been weighed? Then none is better, and what is least is what is proposed.
    pub is_proved: bool,
}

/// Where a function stands, and where it could.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PlacedFunction {
    /// Its name.
    pub function: String,
    /// The nodes of its instances now; none: it stands nowhere.
    pub now: Vec<NodeName>,
    /// The host that is proposed; none: it stays where it is.
    pub host: Option<NodeName>,
    /// The rack of that host: the switches that its links lead to.
    pub rack: Vec<NodeName>,
}

/// What the way of a chain costs, from where its packets enter to its last function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WayCost {
    /// Racks that it touches, that of its beginning among them.
    pub racks: usize,
    /// Port numbers in its headers together, one header for each function on another host than the one before it.
    pub ports: usize,
    /// Headers of ten ports that would do, if hosts between may be passed in one; none: no such header reaches from
    /// host to host.
    pub pathlets: Option<usize>,
}
