//! How things stand, in the words that API, CLI and tests share.

mod functions;

use crate::account::{ChainCounters, NodeCounters, PortCounters};
use crate::capacity::{Capacity, Room};
use crate::drop_reason::DropReason;
use crate::id::{BlueprintNumber, ChainId, GraphId, InstanceId, NodeName, PathId, PortId};
use crate::losses::LinkLosses;
use crate::place::SegmentPlace;
use crate::resource::Encapsulation;
use crate::setup::{ChainSetups, Setup};
pub use crate::source_route::PathHeader;
use crate::telemetry::{DeviceId, Telemetry};
use crate::topology::{CableEnd, NodeRole};
pub use functions::{AlertReport, Condition, FunctionAlert, FunctionReport};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use utoipa::ToSchema;

/// Whether a chain carries traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ChainState {
    /// Not every node has what the chain needs: its traffic is not steered, none of it.
    Building,
    /// Every node has acknowledged; the next packet takes the chain.
    Active,
    /// An update is on its way: the traffic takes the former path, whole.
    Updating,
    /// It was active and something it needs is gone: packets that miss it are dropped by name
    /// rather than let past a function, or treated as declared for a dead instance.
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
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

/// What is known of an instance's health.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InstanceHealth {
    /// The instance.
    pub instance: InstanceId,
    /// Its name for people.
    pub name: String,
    /// How it is.
    pub health: Health,
}

impl Health {
    /// The name in answers.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Alive => "alive",
            Self::Dead => "dead",
        }
    }
}

/// How an instance is, by in-band probes of its node's data plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Health {
    /// It has not answered a probe yet: it is used.
    Unknown,
    /// It answers, or packets come back from it.
    Alive,
    /// It answered once and does not any more.
    Dead,
}

/// How it was found that no packet is left on a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DrainProof {
    /// Entered − finished − dropped by name reached zero over all its nodes.
    Counted,
    /// It did not within the bound, or a node did not answer: what is missing is lost.
    Bound {
        /// The bound, in milliseconds.
        after_ms: u64,
    },
}

/// A path that an update took out of use, and what became of the packets on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DrainedPath {
    /// The former path.
    pub path: PathId,
    /// How it was found empty.
    pub proof: DrainProof,
    /// Packets on it when its classifiers had turned.
    pub in_flight: u64,
    /// Flows that stayed on it after its classifiers had turned.
    pub pinned_flows: u64,
    /// Of those: moved before they ended, because their bound had passed.
    #[serde(default)]
    pub moved_flows: u64,
    /// Packets that functions kept beyond the bound.
    pub lost_in_function: u64,
    /// Packets that were sent between nodes and not received within the bound.
    pub lost_between_nodes: u64,
    /// Dropped on it since its classifiers had turned, by name.
    pub dropped: BTreeMap<DropReason, u64>,
    /// Packets whose path was told by their order alone.
    pub ambiguous: u64,
    /// What links on its ways lost meanwhile. None: it goes by tunnels, it was found empty by count, or nodes are not
    /// for the reader to know.
    #[serde(default)]
    pub at_links: Option<LinkLosses>,
}

/// The account of one change of a chain, once it is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Receipt {
    /// The chain.
    pub chain: ChainId,
    /// Its name for people.
    pub name: String,
    /// The blueprint that turned the classifiers.
    pub blueprint: BlueprintNumber,
    /// The paths in use since; none when the chain was deleted.
    pub paths: Vec<PathId>,
    /// The former paths; none when the chain is new or only its rules changed.
    pub drained: Vec<DrainedPath>,
    /// From the first blueprint of the change to the last packet on the former path, in milliseconds.
    pub took_ms: u64,
}

/// One node as the controller sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeStatus {
    /// The node.
    pub node: NodeName,
    /// What it is for.
    #[serde(default)]
    pub role: NodeRole,
    /// Is it a switch that was marked as an edge: headers may end there, and it writes the next ones?
    #[serde(default)]
    pub is_edge: bool,
    /// Is its agent connected?
    pub is_connected: bool,
    /// Have two agents that run taken the session of the node from each other in the last minute?
    /// What is told of the node is then of the one or the other.
    #[serde(default)]
    pub is_contested: bool,
    /// The program it should run.
    pub wanted: BlueprintNumber,
    /// The program it acknowledged last.
    pub acknowledged: BlueprintNumber,
    /// Ports of its program that have an interface.
    pub bound: Vec<PortId>,
    /// Why the others have none, in the agent's words.
    pub unbound: Vec<UnboundPort>,
    /// What it divides numbers of ways by in `source-route/polka`, by pass: polynomials over GF(2) as bits.
    #[serde(default)]
    pub identities: Vec<u32>,
    /// What it has for instances; none: it has not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Capacity>,
    /// What the instances take of that which nodes run there.
    #[serde(default, skip_serializing_if = "Room::is_none")]
    pub taken: Room,
}

/// A port without an interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UnboundPort {
    /// The port.
    pub port: PortId,
    /// Its name for people; empty: it has none.
    #[serde(default)]
    pub name: String,
    /// What is missing.
    pub reason: String,
}

impl UnboundPort {
    /// What people call it.
    #[must_use]
    pub fn words(&self) -> String {
        match self.name.as_str() {
            "" => self.port.to_string(),
            name => format!("'{name}'"),
        }
    }
}

/// Everything `catena chain show` prints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChainReport {
    /// State and reason.
    pub status: ChainStatus,
    /// Name of the chain.
    pub name: String,
    /// Names of the functions in order.
    pub functions: Vec<String>,
    /// How the path is carried between hosts.
    pub encapsulation: Encapsulation,
    /// When the controller is asked for its flows.
    #[serde(default)]
    pub setup: Setup,
    /// Its flows that the controller was asked for, over all nodes that tell counters; none: for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setups: Option<ChainSetups>,
    /// What its packets take along; none: nothing is written of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub telemetry: Option<Telemetry>,
    /// Segments of others that its packets visit on their way to a function, by the function's name; told to operators
    /// alone.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, Vec<String>>)]
    pub via: BTreeMap<String, Vec<Ipv6Addr>>,
    /// Its paths that nodes know: both directions of a symmetric chain, and what is on its way or
    /// former.
    #[serde(default)]
    pub paths: Vec<PathReport>,
    /// Counters of each node that the chain touches.
    pub nodes: Vec<ChainAtNode>,
    /// Nodes of its paths that told no counters: what they counted is missing.
    #[serde(default)]
    pub silent: Vec<SilentNode>,
    /// How its watched instances are.
    #[serde(default)]
    pub health: Vec<InstanceHealth>,
    /// The account of its last change since this controller started, if that is over; in the answer
    /// to a change, of that one.
    pub receipt: Option<Receipt>,
}

/// A chain's counters at one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChainAtNode {
    /// The node; none: it is not told to whoever asks.
    pub node: Option<NodeName>,
    /// For how long its data plane has counted, in milliseconds: since its start.
    #[serde(default)]
    pub counting_ms: u64,
    /// The counters.
    pub counters: ChainCounters,
    /// What its functions sent and the node lost before it knew the path: no chain's account has it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost_on_return: Vec<LostOnReturn>,
    /// Frames that the kernel path of the node lost, from whichever port; empty for whoever is told
    /// no node.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub lost_in_kernel: BTreeMap<DropReason, u64>,
}

/// What was lost at the port by which a function sends back, on its way to the engine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LostOnReturn {
    /// The function's instance.
    pub instance: InstanceId,
    /// By reason. It is of all paths that the instance is on: nobody looked into it.
    pub dropped: BTreeMap<DropReason, u64>,
    /// Lost by the kernel because the ring of the port was full.
    pub ring_full: u64,
}

impl LostOnReturn {
    /// What the counters of the port say.
    #[must_use]
    pub fn at(instance: InstanceId, port: &PortCounters) -> Self {
        let dropped = port.account.dropped.iter();
        let unseen = dropped.filter(|(reason, count)| reason.is_unseen() && **count > 0);
        let dropped = unseen.map(|(reason, count)| (*reason, *count)).collect();
        Self { instance, dropped, ring_full: port.ring_full }
    }

    /// All of it.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.dropped.values().copied().fold(self.ring_full, u64::saturating_add)
    }
}

/// A node that told no counters in time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SilentNode {
    /// The node; none: it is not told to whoever asks.
    pub node: Option<NodeName>,
}

/// What `GET /v1/nodes` answers for each node: its status and, if it answered, its counters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeReport {
    /// Status.
    pub status: NodeStatus,
    /// Counters, when the node answered in time.
    pub counters: Option<NodeCounters>,
}

/// A path that nodes know: `GET /v1/paths`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PathReport {
    /// Its identifier on the wire.
    pub path: PathId,
    /// The chain that it renders.
    pub chain: ChainId,
    /// The name that the chain has or had.
    pub chain_name: String,
    /// `forward`, or `reverse` for the answers of a symmetric chain.
    pub direction: String,
    /// How it is carried between hosts.
    pub encapsulation: Encapsulation,
    /// `installed`: the nodes are learning it; `classified`: traffic takes it; `superseded`: what
    /// is inside still gets through.
    pub phase: String,
    /// The blueprint that brought it there.
    pub since: BlueprintNumber,
    /// The functions in order.
    pub hops: Vec<PathHop>,
    /// The ways of its packets, if it goes by source routes; told to whoever sees all nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<PathRoute>,
    /// The headers that are made of those.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<PathHeader>,
}

/// A way to a function by source routes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PathRoute {
    /// Where it begins.
    pub from: NodeName,
    /// Name of the function; of functions that are one hop, their names.
    pub function: String,
    /// Name of the instance.
    pub instance: String,
    /// Each node that a packet comes by and the number of the port by which it leaves, that of the function last.
    /// Empty: there is none, and packets end as `no_route`.
    pub ports: Vec<CableEnd>,
}

/// What a chain would cost under an encapsulation: `GET /v1/chains/{chain}/comparison`. The planner alone says so:
/// nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Comparison {
    /// The encapsulation.
    pub encapsulation: Encapsulation,
    /// Why it cannot carry the chain; none: it can.
    pub trouble: Option<String>,
    /// What its packets bear on their way to each function on another node, in the order of functions.
    pub legs: Vec<ComparedLeg>,
    /// What the program of each node would hold for the chain.
    pub entries: Vec<NodeEntries>,
}

/// A header that leads from one node to a function on another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ComparedLeg {
    /// Where it begins.
    pub from: NodeName,
    /// Where it ends.
    pub to: NodeName,
    /// Name of the function; of functions that are one hop, their names.
    pub function: String,
    /// Bytes by which a packet without metadata grows, outer Ethernet, IP and UDP included.
    pub added_bytes: usize,
    /// Port numbers in it; none: it is in a tunnel.
    pub ports: Option<usize>,
    /// Where it begins, its header is written; else what is left of one before leads on.
    pub is_written: bool,
}

/// What the program of a node holds for a chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeEntries {
    /// The node.
    pub node: NodeName,
    /// What it is for.
    pub role: NodeRole,
    /// Paths.
    pub paths: usize,
    /// Rules of classifiers.
    pub rules: usize,
    /// Ways to functions on other nodes; chains may share one.
    pub routes: usize,
    /// Port numbers of functions; chains may share one.
    pub exits: usize,
    /// Ways between other nodes, for headers over several functions; chains may share one.
    pub onward: usize,
}

/// A function on a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PathHop {
    /// Index of the hop, from 0.
    #[serde(default)]
    pub hop: u16,
    /// Its place among the functions of that hop, from 0: bundled functions beside each other are one hop.
    #[serde(default)]
    pub member: u8,
    /// Name of the function.
    pub function: String,
    /// Does it get copies alone?
    pub is_tap: bool,
    /// Its instances there.
    pub instances: Vec<PathInstance>,
}

/// An instance on a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PathInstance {
    /// Its name.
    pub name: String,
    /// Its node; none: it is not told to whoever asks.
    pub node: Option<NodeName>,
    /// Its share of new flows; 0: none.
    pub weight: u32,
}

/// Chains that branch into others: `GET /v1/graphs`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GraphReport {
    /// The graph.
    pub id: GraphId,
    /// Its name.
    pub name: String,
    /// The names of the chains that each chain branches into.
    pub branches: BTreeMap<String, Vec<String>>,
    /// Each of its chains.
    pub chains: Vec<ChainSummary>,
}

/// One table of a node: how full it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TableFill {
    /// Its name.
    pub table: String,
    /// Entries in it.
    pub entries: u64,
    /// Entries that it can hold; none: the program's size bounds it.
    pub limit: Option<u64>,
}

/// One node with its tables: `GET /v1/nodes/{node}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeDetail {
    /// Status.
    pub status: NodeStatus,
    /// Counters, when the node answered in time. No part of a flattened report: what is flattened
    /// cannot be read back where a map has numbers for keys.
    pub counters: Option<NodeCounters>,
    /// The tables of the program that it should run.
    pub tables: Vec<TableFill>,
    /// Its place in the IPv6 underlay; none: it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub segments: Option<SegmentPlace>,
    /// Its number in telemetry; none: it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u16>)]
    pub device: Option<DeviceId>,
}

/// How far an instance is from being safe to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum InstanceUse {
    /// No path goes through it.
    Unused,
    /// It takes new flows.
    Taking,
    /// It takes no new flow and still has some, or their paths.
    Draining,
    /// It takes no new flow and no path holds packets for it: it can be stopped.
    Drained,
}

impl InstanceUse {
    /// The name in answers.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unused => "unused",
            Self::Taking => "taking",
            Self::Draining => "draining",
            Self::Drained => "drained",
        }
    }
}

/// An instance of a service function: `GET /v1/instances`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InstanceReport {
    /// The instance.
    pub id: InstanceId,
    /// Its name.
    pub name: String,
    /// Name of its function, if it has one.
    pub function: Option<String>,
    /// The node of its ingress port; none: it has none, or it is not told to whoever asks.
    pub node: Option<NodeName>,
    /// Its share of new flows.
    pub weight: u32,
    /// The encapsulation whose headers it reads; none: it gets bare packets.
    #[serde(default)]
    pub speaks: Option<Encapsulation>,
    /// Has it been told to drain?
    pub is_draining: bool,
    /// How it is used.
    pub used: InstanceUse,
    /// Flows that classifiers still keep on former paths because of it.
    pub flows_left: u64,
}

/// One line of the list of chains: `GET /v1/chains`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChainSummary {
    /// Name of the chain.
    pub name: String,
    /// State and reason.
    #[serde(flatten)]
    pub status: ChainStatus,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::{Created, DataplaneLife};
    use crate::id::NetworkId;
    use crate::kernel::{Declined, KernelCounters};

    #[test]
    fn a_node_in_full_is_read_as_it_was_written() {
        let node: NodeName = "host1".parse().unwrap();
        let port = PortId(uuid::Uuid::from_u128(7));
        let network = NetworkId(uuid::Uuid::from_u128(8));
        let kernel = KernelCounters {
            stale_paths: BTreeMap::from([(PathId(16), 1)]),
            stale_networks: BTreeMap::from([(network, 2)]),
            crowded_ports: BTreeMap::from([(port, 3)]),
            crowded_paths: BTreeMap::from([(PathId(17), 4)]),
            crowded_networks: BTreeMap::from([(network, 5)]),
            declined: BTreeMap::from([(Declined::Full, 6)]),
            ..KernelCounters::default()
        };
        let mut counters = NodeCounters::none(node.clone(), BlueprintNumber(9));
        counters.tunnels.created.insert(Created::Replica, 1);
        counters.tunnels.dropped.insert(DropReason::NoPath, 2);
        counters.crowded.ports.insert(port, 7);
        counters.crowded.paths.insert(PathId(18), 8);
        counters.dataplane =
            DataplaneLife { kernel: Some(Box::new(kernel)), ..DataplaneLife::default() };
        let unbound = UnboundPort { port, name: "p".into(), reason: "no interface".into() };
        let detail = NodeDetail {
            status: NodeStatus {
                role: NodeRole::Host,
                is_edge: false,
                node,
                is_connected: true,
                is_contested: false,
                wanted: BlueprintNumber(9),
                acknowledged: BlueprintNumber(8),
                bound: vec![port],
                unbound: vec![unbound],
                identities: vec![0x1_002b, 0x1_002d],
                capacity: None,
                taken: Room::default(),
            },
            counters: Some(counters),
            tables: vec![TableFill { table: "ports".into(), entries: 1, limit: None }],
            segments: Some(SegmentPlace {
                address: "2001:db8::1".parse().unwrap(),
                locator: "5f00:0:1::/48".parse().unwrap(),
            }),
            device: Some(DeviceId(7)),
        };
        let written = serde_json::to_string(&detail).unwrap();
        assert_eq!(serde_json::from_str::<NodeDetail>(&written).unwrap(), detail);
    }
}
