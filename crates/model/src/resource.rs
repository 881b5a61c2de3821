//! What an operator declares. Knows meaning and legal values of each attribute; refuses to know
//! how a border dialect spells them or how a path is made of them.

pub use crate::attachment::{Attachment, InterfaceRef, NamespaceRef};
use crate::classifier::FieldMatch;
pub use crate::encapsulation::{Capabilities, Encapsulation};
use crate::id::{
    ChainId, FunctionId, GraphId, InstanceId, NetworkId, NodeName, PortId, ProjectId, RuleId,
    SubnetId,
};
pub use crate::payload::Payload;
use crate::setup::Setup;
use crate::telemetry::Telemetry;
pub use crate::template::{FunctionTemplate, Runs};
use catena_wire::scalar::{MacAddr, PortRange, Vni};
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::{IpAddr, Ipv6Addr};
use utoipa::ToSchema;

/// What every resource has: who owns it and what people call it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Label {
    /// Name for people; need not be unique.
    pub name: String,
    /// Free text.
    pub description: String,
    /// Owner.
    pub project: ProjectId,
}

impl Label {
    /// What people call the resource of this identity.
    #[must_use]
    pub fn name_or(&self, id: impl Display) -> String {
        if self.name.is_empty() { id.to_string() } else { self.name.clone() }
    }
}

macro_rules! named {
    ($($resource:ident),+) => {$(
        impl $resource {
            /// What people call it: its name, else its identity.
            #[must_use]
            pub fn name(&self) -> String {
                self.label.name_or(self.id)
            }
        }
    )+};
}

named!(Network, Port, ClassificationRule, Instance, ServiceFunction, Chain, ChainGraph);

/// A tenant's layer 2 network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Network {
    /// Identity.
    pub id: NetworkId,
    /// Owner and name.
    pub label: Label,
    /// VXLAN network identifier between hosts (RFC 7348).
    pub vni: Vni,
    /// Largest IP packet of the network, in bytes.
    pub mtu: u16,
    /// Administrative state as declared.
    pub admin_state_up: bool,
}

/// An address range inside a network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subnet {
    /// Identity.
    pub id: SubnetId,
    /// Owner and name.
    pub label: Label,
    /// The network it lies in.
    pub network: NetworkId,
    /// The addresses.
    pub cidr: IpNet,
    /// The way out of the network, if it has one.
    pub gateway: Option<IpAddr>,
}

/// An address of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FixedIp {
    /// The subnet the address is from.
    pub subnet: SubnetId,
    /// The address.
    pub address: IpAddr,
}

/// An attachment of an endpoint or a function to a network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Port {
    /// Identity.
    pub id: PortId,
    /// Owner and name.
    pub label: Label,
    /// The network.
    pub network: NetworkId,
    /// Hardware address of the endpoint's own interface.
    pub mac: MacAddr,
    /// Addresses of the endpoint's own interface.
    pub fixed_ips: Vec<FixedIp>,
    /// The machine the port belongs to; an instance's two ports must agree on it.
    pub device_id: String,
    /// Who made the port, in the words of the border.
    pub device_owner: String,
    /// The node that carries it, once known.
    pub node: Option<NodeName>,
    /// How the node finds its interface, once known.
    pub attachment: Option<Attachment>,
    /// Administrative state as declared.
    pub admin_state_up: bool,
    /// What its machine may send by it where that is a function's.
    #[serde(default)]
    pub own_traffic: OwnTraffic,
}

/// What the machine of a function may send by one of its ports that no path expects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OwnTraffic {
    /// What it may have made itself: from its own addresses, discovery, ICMP errors.
    #[default]
    Own,
    /// Anything: the operator vouches that no packet of a chain is among it.
    All,
}

/// IP version of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IpFamily {
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
}

impl IpFamily {
    /// The family of an address.
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { Self::Ipv4 } else { Self::Ipv6 }
    }
}

/// Transport protocol of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// ICMP for IPv4, ICMPv6 for IPv6.
    Icmp,
}

/// Bounds of a port number as declared: an open end is not the same text as 0 or 65535, though it
/// means the same.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
pub struct PortBounds {
    /// Lowest port; none: 0.
    pub min: Option<u16>,
    /// Highest port; none: 65,535.
    pub max: Option<u16>,
}

impl PortBounds {
    /// Does the rule look at the port at all?
    #[must_use]
    pub fn is_any(self) -> bool {
        self.min.is_none() && self.max.is_none()
    }

    /// Lowest and highest port.
    #[must_use]
    pub fn closed(self) -> (u16, u16) {
        (self.min.unwrap_or(0), self.max.unwrap_or(u16::MAX))
    }
}

impl From<PortRange> for PortBounds {
    fn from(range: PortRange) -> Self {
        Self { min: Some(range.min()), max: Some(range.max()) }
    }
}

/// Which packets enter a chain (RFC 7665 section 4.2).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassificationRule {
    /// Identity.
    pub id: RuleId,
    /// Owner and name.
    pub label: Label,
    /// IP version.
    pub family: IpFamily,
    /// Transport protocol; none: any.
    pub transport: Option<Transport>,
    /// Source port.
    pub source_ports: PortBounds,
    /// Destination port.
    pub destination_ports: PortBounds,
    /// Source addresses, host bits kept as declared; none: any.
    pub source_prefix: Option<IpNet>,
    /// Destination addresses, host bits kept as declared; none: any.
    pub destination_prefix: Option<IpNet>,
    /// The port that the packet enters the network by; none: any endpoint's port.
    pub source_port: Option<PortId>,
    /// The port that the packet would leave by.
    pub destination_port: Option<PortId>,
    /// Fields beside the flow.
    #[serde(default, skip_serializing_if = "FieldMatch::is_any")]
    pub fields: FieldMatch,
}

/// What becomes of the packets for an instance that has died. Declared by the operator; the node of
/// the instance acts on it by itself.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    ToSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum FailurePolicy {
    /// Nobody looks: packets go to it as before.
    #[default]
    Unwatched,
    /// To another instance of the function; if none is left, blocked.
    Reroute,
    /// Past the function (fail-open).
    Bypass,
    /// Dropped by name (fail-close).
    Block,
}

impl FailurePolicy {
    /// Every policy.
    pub const ALL: [Self; 4] = [Self::Unwatched, Self::Reroute, Self::Bypass, Self::Block];

    /// The name in requests and answers.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unwatched => "unwatched",
            Self::Reroute => "reroute",
            Self::Bypass => "bypass",
            Self::Block => "block",
        }
    }
}

/// A piece of metadata that a classifier writes into the path header: one NSH MD type 2 context
/// header of RFC 9263 (MD class 0x0000).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ContextHeader {
    /// Whose traffic it is (type 0x05), up to 32 bytes of text.
    Tenant(String),
    /// The node whose classifier took the packet in (type 0x06); its value is the node's name.
    IngressNode,
    /// The lower 32 bits of the flow's hash, the same in both directions (type 0x08).
    FlowId,
    /// A policy of the operator (type 0x0A).
    Policy(u32),
}

/// One running instance of a service function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instance {
    /// Identity.
    pub id: InstanceId,
    /// Owner and name.
    pub label: Label,
    /// The port that packets enter the function by.
    pub ingress: PortId,
    /// The port that they come back from; may be the same.
    pub egress: PortId,
    /// The encapsulation that the function speaks; none: it is SFC-unaware and gets a proxy.
    pub speaks: Option<Encapsulation>,
    /// Share of new flows relative to its siblings; 0: none.
    pub weight: u32,
    /// It takes no new flow; those that it has stay with it until they end.
    #[serde(default)]
    pub is_draining: bool,
    /// The parameters exactly as declared at the border.
    pub declared: serde_json::Value,
}

/// A service function: interchangeable instances.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceFunction {
    /// Identity.
    pub id: FunctionId,
    /// Owner and name.
    pub label: Label,
    /// The instances, in order of declaration.
    pub instances: Vec<InstanceId>,
    /// Passive branch: the function gets a copy and returns nothing.
    pub is_tap: bool,
    /// What becomes of packets when an instance dies; instances are probed only if it is declared.
    #[serde(default)]
    pub on_failure: FailurePolicy,
    /// The fields of a packet that choose its instance; empty: addresses, protocol and ports.
    #[serde(default)]
    pub balance: Vec<FlowField>,
    /// How it rewrites addresses and ports; empty: it does not, or nobody says so.
    #[serde(default)]
    pub mapping: TupleMapping,
    /// It works on layer 2 (a «bump in the wire»): frames leave it with the source MAC that they came
    /// with. By that their network is known again, so any networks may share it.
    #[serde(default)]
    pub keeps_mac: bool,
    /// How its instances are to be run; none: somebody else runs them.
    #[serde(default)]
    pub template: Option<FunctionTemplate>,
    /// What follows from the configuration of a bundled function; of another, nothing.
    #[serde(default)]
    pub conduct: Conduct,
    /// Small number for the border, unique in the deployment.
    pub number: u32,
    /// The parameters exactly as declared at the border.
    pub declared: serde_json::Value,
}

/// A field that may choose among the instances of a function, by the packet as it goes forward; on
/// the reverse path of a symmetric chain source and destination change places.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FlowField {
    /// Source MAC.
    EthSrc,
    /// Destination MAC.
    EthDst,
    /// Source address.
    IpSrc,
    /// Destination address.
    IpDst,
    /// Source port, of TCP.
    TcpSrc,
    /// Destination port, of TCP.
    TcpDst,
    /// Source port, of UDP.
    UdpSrc,
    /// Destination port, of UDP.
    UdpDst,
}

/// What a function that rewrites addresses or ports makes of them, on the way forward: a field that
/// both sides name leaves as the egress side says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TupleMapping {
    /// The packets that it rewrites, as they enter.
    pub ingress: TuplePattern,
    /// The same packets as they leave.
    pub egress: TuplePattern,
}

impl ServiceFunction {
    /// How the instances are called that are made of its template: as the function where there is one of them.
    #[must_use]
    pub fn instance_names(&self, template: &FunctionTemplate) -> Vec<String> {
        let name = self.name();
        match template.instances.max(1) {
            1 => vec![name],
            several => (1..=several).map(|number| format!("{name}-{number}")).collect(),
        }
    }

    /// Does it come with Catena, and do data planes ask it in place?
    #[must_use]
    pub fn is_inside(&self) -> bool {
        let is_inside = |template: &FunctionTemplate| {
            matches!(template.runs, Runs::Bundled(_)) && template.door.is_inside()
        };
        self.template.as_ref().is_some_and(is_inside)
    }
}

/// What chains must know of a bundled function, read from its configuration when that is declared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conduct {
    /// Does it understand a flow by both of its directions alone?
    pub needs_both_directions: bool,
    /// What it makes of addresses and ports, on the way forward; each as of a function that declares it.
    pub translations: Vec<TupleMapping>,
    /// What it asks others by TCP of its own accord, on the way forward; they answer as others do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inquiries: Vec<TuplePattern>,
}

/// Addresses and ports of packets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TuplePattern {
    /// Source addresses; none: any.
    pub source_prefix: Option<IpNet>,
    /// Destination addresses; none: any.
    pub destination_prefix: Option<IpNet>,
    /// Source ports.
    pub source_ports: PortBounds,
    /// Destination ports.
    pub destination_ports: PortBounds,
}

/// What `PUT /v1/functions/{function}` sets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FunctionSettings {
    /// What becomes of packets when an instance dies.
    pub on_failure: FailurePolicy,
    /// Do frames leave it with the source MAC that they came with?
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub keeps_mac: bool,
    /// How its instances are to be run; none: somebody else runs them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<FunctionTemplate>,
}

/// An ordered list of functions and the rules that send packets through it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chain {
    /// Identity.
    pub id: ChainId,
    /// Owner and name.
    pub label: Label,
    /// The functions, in order.
    pub functions: Vec<FunctionId>,
    /// The rules.
    pub rules: Vec<RuleId>,
    /// How the path is carried between hosts.
    pub encapsulation: Encapsulation,
    /// The `correlation` that was declared at the border, where the chain has been moved to another
    /// encapsulation since: there it is fixed. None: it is the encapsulation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declared_correlation: Option<Encapsulation>,
    /// Does a reverse path belong to it?
    pub is_symmetric: bool,
    /// Metadata that travels with its packets (NSH MD type 2); empty: none.
    #[serde(default)]
    pub context: Vec<ContextHeader>,
    /// When the controller is asked for its flows.
    #[serde(default, skip_serializing_if = "Setup::is_proactive")]
    pub setup: Setup,
    /// What its packets take along; none: nothing is written of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub telemetry: Option<Telemetry>,
    /// Segments of others, plain routers among them, that packets visit on their way to a function, in this order; the
    /// way back takes none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub via: BTreeMap<FunctionId, Vec<Ipv6Addr>>,
    /// Small number for the border (`chain_id`), unique in the deployment; never the path id.
    pub number: u32,
}

impl Chain {
    /// Its encapsulation as it was declared at the border.
    #[must_use]
    pub fn correlation(&self) -> Encapsulation {
        self.declared_correlation.unwrap_or(self.encapsulation)
    }

    /// The same chain, carried by another encapsulation.
    #[must_use]
    pub fn moved_to(self, encapsulation: Encapsulation) -> Self {
        let declared = self.correlation();
        let declared_correlation = (declared != encapsulation).then_some(declared);
        Self { encapsulation, declared_correlation, ..self }
    }
}

/// Chains that go on in others: a packet at the end of a chain enters the first of those that the
/// chain branches into whose rules it matches; if it matches none, it is delivered. A chain that
/// others branch into takes packets from them alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainGraph {
    /// Identity.
    pub id: GraphId,
    /// Owner and name.
    pub label: Label,
    /// The chains that each chain branches into. No cycle; a chain is in one graph at most.
    pub branches: BTreeMap<ChainId, Vec<ChainId>>,
}
