//! One node's share of a blueprint: everything its data plane decides from.
//!
//! A program is a fixed set of table kinds. A new encapsulation or function adds entries, never an
//! optional field that everybody must know. The data plane compiles it and makes no choice that is
//! not written here.

use crate::attachment::Attachment;
pub use crate::bundle::{ConfigurationEntry, MemberEntry};
use crate::classifier::FieldMatch;
use crate::discovery::DiscoveryKey;
use crate::id::{
    BlueprintNumber, ChainId, FunctionId, InstanceId, NetworkId, NodeName, PathId, PortId, RuleId,
    SliceId,
};
pub use crate::place::{
    LOCATORS_SINCE_PROTOCOL, Locator, LocatorEntry, SegmentPlace, Underlay, VIA_SINCE_PROTOCOL,
};
use crate::resource::{
    ContextHeader, Encapsulation, FailurePolicy, FlowField, IpFamily, Transport, TuplePattern,
};
pub use crate::setup::{SetupEntry, WhenAway};
use crate::slice::{Slice, SlicePlace};
pub use crate::source_route::{
    BorderEntry, DetourEntry, ExitEntry, ExitPlace, IdentityEntry, NodeIdentity, OnwardEntry,
    Pathlet, RouteEntry,
};
pub use crate::stitch::StitchEntry;
use crate::telemetry::Telemetry;
use catena_wire::scalar::{MacAddr, PortRange, Qfi, TeidRange, TunnelId, VlanId, Vni};

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv6Addr};
use utoipa::ToSchema;

/// The MAC with which the data plane answers ARP and neighbour discovery at a function's port for
/// addresses that are not on that network. Locally administered; no device may have it.
pub const PROXY_MAC: MacAddr = MacAddr([0x02, 0xca, 0x7e, 0x00, 0x00, 0x01]);

/// The first half of the MAC from which a packet comes that goes into a function that keeps MACs;
/// the other half is the VNI of its network. Locally administered; no device may have any of them.
pub const NETWORK_MAC_PREFIX: [u8; 3] = [0x06, 0xca, 0x7e];

/// Everything one data plane needs, numbered by the blueprint it belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeProgram {
    /// The node it is for; a data plane refuses a program of another.
    pub node: NodeName,
    /// The blueprint; a node refuses a number older than the last it saw.
    pub number: BlueprintNumber,
    /// The node's own place on the underlay.
    pub underlay: Underlay,
    /// What the choice among the instances of a function starts from: the same at all nodes of a
    /// domain, and a secret of theirs, so that no sender can aim at an instance.
    #[serde(default)]
    pub choice_seed: u64,
    /// By what nodes of a domain know each other at the ends of cables. A list for people never has it.
    #[serde(skip)]
    pub discovery_key: Option<DiscoveryKey>,
    /// The other nodes.
    pub tunnels: Vec<TunnelEntry>,
    /// Tenant networks present on this node, or reached by its paths.
    pub networks: Vec<NetworkEntry>,
    /// Ports that this node carries.
    pub ports: Vec<PortEntry>,
    /// Where each MAC of those networks is.
    pub macs: Vec<MacEntry>,
    /// Which MAC has each address of those networks.
    pub neighbours: Vec<NeighbourEntry>,
    /// Which packets enter which path; highest priority first, then the order of the list.
    pub rules: Vec<RuleEntry>,
    /// The paths that touch this node.
    pub paths: Vec<PathEntry>,
    /// Names of the chains that own those paths, for counters and messages.
    pub chains: Vec<ChainEntry>,
    /// Which flows stay on a path that was replaced.
    pub pins: Vec<PinEntry>,
    /// Which traffic of 5G users enters which path of a slice.
    #[serde(default)]
    pub slices: Vec<SliceEntry>,
    /// The paths of slices.
    #[serde(default)]
    pub slice_paths: Vec<SlicePathEntry>,
    /// What the port numbers of source routes stand for here.
    #[serde(default)]
    pub exits: Vec<ExitEntry>,
    /// The ways to ports of other nodes.
    #[serde(default)]
    pub routes: Vec<RouteEntry>,
    /// What the node divides numbers of ways by.
    #[serde(default)]
    pub identities: Vec<IdentityEntry>,
    /// Ways between other nodes, for headers over several functions.
    #[serde(default)]
    pub onward: Vec<OnwardEntry>,
    /// The paths whose flows the controller is asked for.
    #[serde(default)]
    pub setups: Vec<SetupEntry>,
    /// Where headers end that have no room for a whole route.
    #[serde(default)]
    pub borders: Vec<BorderEntry>,
    /// Where headers over several functions end between two of them.
    #[serde(default)]
    pub stitches: Vec<StitchEntry>,
    /// What bundled functions of this node are made of.
    #[serde(default)]
    pub configurations: Vec<ConfigurationEntry>,
    /// At which hops of paths they stand.
    #[serde(default)]
    pub members: Vec<MemberEntry>,
    /// The nodes that segments may name, itself among them.
    #[serde(default)]
    pub locators: Vec<LocatorEntry>,
}

impl NodeProgram {
    /// A program without entries.
    #[must_use]
    pub fn empty(node: NodeName, number: BlueprintNumber, underlay: Underlay) -> Self {
        Self {
            node,
            number,
            underlay,
            choice_seed: 0,
            discovery_key: None,
            tunnels: Vec::new(),
            networks: Vec::new(),
            ports: Vec::new(),
            macs: Vec::new(),
            neighbours: Vec::new(),
            rules: Vec::new(),
            paths: Vec::new(),
            chains: Vec::new(),
            pins: Vec::new(),
            slices: Vec::new(),
            slice_paths: Vec::new(),
            exits: Vec::new(),
            routes: Vec::new(),
            identities: Vec::new(),
            onward: Vec::new(),
            setups: Vec::new(),
            borders: Vec::new(),
            stitches: Vec::new(),
            configurations: Vec::new(),
            members: Vec::new(),
            locators: Vec::new(),
        }
    }
}

/// What a node is told of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeEntry {
    /// Its own place on the underlay.
    pub underlay: Underlay,
    /// As in [`NodeProgram`].
    pub choice_seed: u64,
    /// As in [`NodeProgram`].
    pub discovery_key: Option<DiscoveryKey>,
}

/// Another node and its address on the data network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TunnelEntry {
    /// The node.
    pub node: NodeName,
    /// End of the tunnels towards it.
    pub address: IpAddr,
}

/// A tenant network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkEntry {
    /// Identity.
    pub id: NetworkId,
    /// Name for people.
    pub name: String,
    /// VXLAN network identifier between hosts.
    pub vni: Vni,
    /// Its subnets: addresses inside are «on this network».
    pub prefixes: Vec<IpNet>,
    /// Ways out of it, for destinations outside its prefixes.
    pub gateways: Vec<IpAddr>,
    /// The other nodes that carry a port of it: broadcast goes there, once each.
    pub members: Vec<NodeName>,
}

/// What is behind a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PortRole {
    /// A source or destination of traffic; classification happens here.
    Endpoint,
    /// An interface of a service function.
    Function,
}

/// A port of this node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortEntry {
    /// Identity.
    pub id: PortId,
    /// Name for people.
    pub name: String,
    /// Its tenant network.
    pub network: NetworkId,
    /// MAC of the interface behind it.
    pub mac: MacAddr,
    /// What is behind it.
    pub role: PortRole,
    /// How the agent finds its interface.
    pub attachment: Attachment,
    /// It belongs to the machine of a function that paths go through: what no path expects may come
    /// from these addresses only, those of the machine. None: from any.
    #[serde(default)]
    pub own_sources: Option<Vec<IpAddr>>,
}

/// Where a MAC is reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Location {
    /// A port of this node.
    Port(PortId),
    /// Another node.
    Node(NodeName),
}

/// One line of the MAC table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MacEntry {
    /// The tenant network.
    pub network: NetworkId,
    /// The address.
    pub mac: MacAddr,
    /// Where it is.
    pub at: Location,
}

/// One line of the neighbour table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NeighbourEntry {
    /// The tenant network.
    pub network: NetworkId,
    /// The IP address.
    pub address: IpAddr,
    /// Its MAC.
    pub mac: MacAddr,
}

/// Where a rule takes packets from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RulePlace {
    /// Any port of role endpoint in the network in which the rule's path delivers.
    Endpoints,
    /// This local port.
    Port(PortId),
    /// The end of this path: what would be delivered there enters the rule's path instead. The
    /// time to live of its header goes on counting, one for the step itself.
    After(PathId),
}

impl RulePlace {
    /// The local port, if it is one.
    #[must_use]
    pub const fn port(self) -> Option<PortId> {
        match self {
            Self::Port(port) => Some(port),
            Self::Endpoints | Self::After(_) => None,
        }
    }
}

/// What a packet must look like; every field that is given must hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleMatch {
    /// Where it is taken from.
    pub place: RulePlace,
    /// VLAN tag it must carry; none: it must be untagged.
    pub vlan: Option<VlanId>,
    /// IP version.
    pub family: IpFamily,
    /// Transport protocol; none: any.
    pub transport: Option<Transport>,
    /// Source address; none: any.
    pub source: Option<IpNet>,
    /// Destination address; none: any.
    pub destination: Option<IpNet>,
    /// Source port; none: not looked at.
    pub source_ports: Option<PortRange>,
    /// Destination port; none: not looked at.
    pub destination_ports: Option<PortRange>,
    /// Fields beside the flow.
    #[serde(default)]
    pub fields: FieldMatch,
}

/// Sends matching packets into a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleEntry {
    /// Identity.
    pub id: RuleId,
    /// Name for people.
    pub name: String,
    /// Higher goes first.
    pub priority: u32,
    /// The condition.
    pub matches: RuleMatch,
    /// The path.
    pub path: PathId,
}

/// A rendered service path: the hops, each with the instances to choose from.
///
/// Position 0 is the first hop; the position after the last hop is the end of the path. How a
/// position is written into a packet is the encapsulation's own affair.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathEntry {
    /// Identity, unique in the domain and never used for another path while packets may carry it.
    pub id: PathId,
    /// The chain that it renders.
    pub chain: ChainId,
    /// How it is carried between hosts.
    pub encapsulation: Encapsulation,
    /// Metadata that its classifier writes, for encapsulations that carry any (NSH MD type 2);
    /// empty: none.
    pub context: Vec<ContextHeader>,
    /// The functions in order.
    pub hops: Vec<HopEntry>,
    /// The network in which packets are delivered after the last hop.
    pub destination: NetworkId,
    /// It carries the answers of a symmetric chain: no slice takes packets at its end.
    #[serde(default)]
    pub is_way_back: bool,
    /// Rules send packets into it by fields that differ within a flow: others of the flow may be on
    /// another path at the same time.
    #[serde(default)]
    pub splits_flows: bool,
    /// What its packets take along; none: nothing is written of them.
    #[serde(default)]
    pub telemetry: Option<Telemetry>,
}

/// What a function does to the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HopKind {
    /// Packets pass through it.
    Through,
    /// It gets a copy; the packet itself goes on. A packet that a tunnel brings at the position of
    /// a tap is such a copy: it is for a local instance, and goes no further.
    Tap,
}

/// What of a packet chooses its instance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Balance {
    /// Addresses, protocol and ports, the same in both directions.
    #[default]
    Flow,
    /// These fields as far as the packet has them, each by its place in the list: where the list of
    /// a path's way back names the opposite field at each place, both ways choose alike.
    Fields(Vec<FlowField>),
}

/// A field by which packets of a flow are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TupleField {
    /// Source address.
    Source,
    /// Destination address.
    Destination,
    /// Source port.
    SourcePort,
    /// Destination port.
    DestinationPort,
}

/// How packets come back from a function that rewrites addresses or ports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RewriteEntry {
    /// The fields that may be others than those of the packet that went in.
    pub fields: Vec<TupleField>,
    /// What a packet with other fields looks like.
    pub leaves: TuplePattern,
}

/// One step of a path: a function, or a segment: bundled functions that are asked one behind the other
/// ([`MemberEntry`]).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HopEntry {
    /// The function; of a segment, the one that its chain lists first.
    pub function: FunctionId,
    /// Its name for people; of a segment, those of its functions.
    pub name: String,
    /// What it does to the path.
    pub kind: HopKind,
    /// What becomes of packets for an instance that has died.
    pub on_failure: FailurePolicy,
    /// What of a packet chooses among the instances.
    #[serde(default)]
    pub balance: Balance,
    /// How its packets come back changed; none: with the addresses and ports that they had.
    #[serde(default)]
    pub rewrites: Option<RewriteEntry>,
    /// Its packets come back with the MACs that they went in with: what goes in bare comes from the
    /// MAC of its network ([`NETWORK_MAC_PREFIX`]), by which it is known again.
    #[serde(default)]
    pub keeps_mac: bool,
    /// Segments of others that packets from another node visit on their way here, in this order.
    #[serde(default)]
    pub via: Vec<Ipv6Addr>,
    /// Its instances; the choice among them is a function of the packet and this list alone, hence
    /// the same on every node.
    pub instances: Vec<InstanceEntry>,
}

/// An instance as a hop sees it; at a segment, one of each of its functions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceEntry {
    /// The instance, by which it is chosen; at a segment, that of the function that its chain lists first, so that both
    /// ways choose alike.
    pub id: InstanceId,
    /// Its name for people; at a segment, those of its instances.
    pub name: String,
    /// The node that carries it.
    pub node: NodeName,
    /// The port towards it.
    pub ingress: PortId,
    /// The port it sends from; at a segment, that of the last on the way.
    pub egress: PortId,
    /// MAC that frames towards it must carry.
    pub ingress_mac: MacAddr,
    /// Share of the flows; 0: none.
    pub weight: u32,
    /// The encapsulation it speaks; none: a proxy removes and restores the path.
    pub speaks: Option<Encapsulation>,
}

/// Keeps flows on a path after its classifiers have turned to another.
///
/// While the entry is in the program, the node's classifier sends a packet that matches a rule into
/// `new` on into `old` as long as its flow went into `old` within `idle_ms` before. Classifiers
/// remember the path of every flow, also without pins, so the entry may come with the turn of the
/// rules. An entry whose paths are not both in the program holds nobody. `pinned_flows` of `old`
/// counts the flows that went into it within `idle_ms`: those that stay, and for a pin with
/// instances also those that have not sent since the rules turned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PinEntry {
    /// The former path.
    pub old: PathId,
    /// The path that the rules send into.
    pub new: PathId,
    /// Only flows that met one of these on the old path stay; empty: all flows.
    pub instances: Vec<InstanceId>,
    /// A flow that pauses for longer than this has ended, in milliseconds.
    pub idle_ms: u32,
}

/// The name of a chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainEntry {
    /// Identity.
    pub id: ChainId,
    /// Name for people.
    pub name: String,
}

/// What a packet of a slice looks like; every field that is given must hold.
///
/// Network and user are those of the outermost header that names one, wherever in the frame it is:
/// GTP-U in VXLAN shows both. Behind the end of a path they are those of the metadata that the
/// packet carries, if it carries any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SliceMatch {
    /// Where it is taken from.
    pub place: SlicePlace,
    /// The tenant's network; none: any, or none.
    #[serde(default)]
    pub tunnel_id: Option<TunnelId>,
    /// The users: identifiers of GTP-U tunnels; none: any, or none.
    #[serde(default)]
    pub teids: Option<TeidRange>,
    /// The QoS flow; none: any, or none.
    #[serde(default)]
    pub qfi: Option<Qfi>,
}

/// How much a slice may send, and how long its packets may wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlicePolicy {
    /// Token bucket; none: as much as it likes.
    #[serde(default)]
    pub rate: Option<SliceRate>,
    /// Among the slices that share an exit.
    #[serde(default)]
    pub class: DelayClass,
}

impl SlicePolicy {
    /// Does it ask for nothing?
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// A token bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SliceRate {
    /// Bits per second, Ethernet headers included.
    pub bits_per_second: u64,
    /// Bytes that may come at once.
    pub burst_bytes: u32,
}

/// Whose packet goes first.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum DelayClass {
    /// Before all others, by strict priority.
    Urgent,
    /// Shares what is left with other slices in proportion to its quantum, by deficit round robin.
    Shared {
        /// Bytes of each round.
        quantum_bytes: u32,
    },
    /// Not scheduled at all: sent as it comes.
    #[default]
    Unscheduled,
}

impl DelayClass {
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Sends the traffic of a slice into its path.
///
/// Slices go before rules. Of those that match, the one with most fields given takes the packet,
/// a narrower range of users before a wider, then the lower identifier.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SliceEntry {
    /// Identity.
    pub id: SliceId,
    /// Name for people.
    pub name: String,
    /// The condition.
    pub matches: SliceMatch,
    /// Its own path, one of `slice_paths`, or a path of the program.
    pub path: PathId,
    /// Rate and delay at the node that classifies.
    #[serde(default)]
    pub policy: SlicePolicy,
    /// Put in at the node by hand (`--inject`): no blueprint names it.
    #[serde(default)]
    pub is_injected: bool,
}

impl SliceEntry {
    /// A declared slice as nodes have it, in this path.
    #[must_use]
    pub fn of(slice: &Slice, path: PathId) -> Self {
        Self {
            id: slice.id,
            name: slice.name(),
            matches: SliceMatch {
                place: slice.place(),
                tunnel_id: slice.tunnel_id,
                teids: slice.teids,
                qfi: slice.qfi,
            },
            path,
            policy: slice.policy,
            is_injected: false,
        }
    }
}

/// A path of a slice: its own identifier and counters, the hops of another path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlicePathEntry {
    /// Identity, from the same pool as that of the other path.
    pub id: PathId,
    /// The slice.
    pub slice: SliceId,
    /// The path of the program whose encapsulation, hops and destination it shares.
    pub like: PathId,
    /// Its packets carry tenant and user as metadata (NSH MD type 2).
    #[serde(default)]
    pub carries_metadata: bool,
}
