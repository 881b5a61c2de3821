//! Why a rule does not take a packet: the first condition that fails, with what it wants and what
//! the packet has. Knows texts; refuses to judge.

use crate::classifier::Field;
use crate::id::{NodeName, PathId, RuleId};
use crate::resource::{IpFamily, Transport};
use catena_wire::scalar::{PortRange, VlanId};
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::IpAddr;

/// A condition that fails, in the order in which they are looked at; or that none does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleCondition {
    /// The rule stands on another node, that of its port.
    OtherNode {
        /// The node.
        node: NodeName,
        /// Name of the port.
        port: String,
    },
    /// The path is in the node's program, its rules are not: it is being installed or drained.
    NotTurned,
    /// The rule is in no program: what its chain misses is in the state of the chain.
    NotPlanned,
    /// The packet came in by another port.
    IngressPort {
        /// Name of the port that the rule wants.
        wanted: String,
        /// Name of the port it came in by.
        found: String,
    },
    /// The rule speaks of another network.
    Network {
        /// Name of the network in which the path delivers.
        wanted: String,
        /// Name of the network of the port.
        found: String,
    },
    /// It came in by a function's port, where rules that name that port alone are asked.
    FunctionPort {
        /// Name of the port.
        port: String,
    },
    /// It takes packets at the end of a chain alone.
    AfterChain {
        /// Name of the chain.
        chain: String,
    },
    /// It carries a chain header already.
    ForeignHeader,
    /// Discovery, multicast or link-local: never classified.
    NeverClassified,
    /// It is no IP packet.
    NoIp,
    /// The frame cannot be used.
    Malformed,
    /// Another VLAN tag, or one at all.
    Vlan {
        /// The tag that the rule wants; none: an untagged packet.
        wanted: Option<VlanId>,
        /// The tag of the packet.
        found: Option<VlanId>,
    },
    /// Another IP version.
    Family {
        /// What the rule wants.
        wanted: IpFamily,
        /// What the packet is.
        found: IpFamily,
    },
    /// Another transport protocol.
    Protocol {
        /// What the rule wants.
        wanted: Transport,
        /// The packet's number of IANA.
        found: u8,
    },
    /// The source address lies outside.
    Source {
        /// What the rule wants.
        wanted: IpNet,
        /// The packet's.
        found: IpAddr,
    },
    /// The destination address lies outside.
    Destination {
        /// What the rule wants.
        wanted: IpNet,
        /// The packet's.
        found: IpAddr,
    },
    /// The source port lies outside.
    SourcePort {
        /// What the rule wants.
        wanted: PortRange,
        /// The packet's; none: it has no ports.
        found: Option<u16>,
    },
    /// The destination port lies outside.
    DestinationPort {
        /// What the rule wants.
        wanted: PortRange,
        /// The packet's; none: it has no ports.
        found: Option<u16>,
    },
    /// A field beside the flow is otherwise.
    Field {
        /// Its name.
        field: String,
        /// What the rule wants.
        wanted: String,
        /// The packet's; none: it does not have it.
        found: Option<String>,
    },
    /// Every condition holds, but an earlier rule takes the packet.
    EarlierRule {
        /// Name of that rule.
        rule: String,
        /// Its priority.
        priority: u32,
        /// Name of its chain.
        chain: String,
    },
    /// The rule takes the packet.
    Takes,
}

impl fmt::Display for RuleCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherNode { node, port } => {
                write!(f, "it stands on node {node}, where its port {port} is")
            }
            Self::NotTurned => f.write_str(
                "its path is in the program, but no rule sends into it: it is being installed or \
                 drained",
            ),
            Self::NotPlanned => f.write_str("it is in no program; the chain's state says why"),
            Self::IngressPort { wanted, found } => {
                write!(f, "it wants port {wanted}, the packet comes in by {found}")
            }
            Self::Network { wanted, found } => {
                write!(f, "it speaks of network '{wanted}', the port is in '{found}'")
            }
            Self::FunctionPort { port } => {
                write!(
                    f,
                    "port {port} is a function's: only rules that begin there take packets of it"
                )
            }
            Self::AfterChain { chain } => {
                write!(f, "it takes packets at the end of chain '{chain}' alone")
            }
            Self::ForeignHeader => f.write_str("the frame carries a chain header already"),
            Self::NeverClassified => {
                f.write_str("discovery, multicast and link-local are never classified")
            }
            Self::NoIp => f.write_str("the frame is no IP packet"),
            Self::Malformed => f.write_str("the frame cannot be used"),
            Self::Vlan { wanted, found } => {
                write!(f, "it wants {}, the packet has {}", tag(*wanted), tag(*found))
            }
            Self::Family { wanted, found } => {
                write!(f, "it wants {}, the packet is {}", version(*wanted), version(*found))
            }
            Self::Protocol { wanted, found } => {
                write!(f, "it wants {}, the packet is {}", name(*wanted), protocol(*found))
            }
            Self::Source { wanted, found } => {
                write!(f, "it wants a source in {wanted}, the packet's is {found}")
            }
            Self::Destination { wanted, found } => {
                write!(f, "it wants a destination in {wanted}, the packet's is {found}")
            }
            Self::SourcePort { wanted, found } => {
                write!(f, "it wants source port {}, the packet {}", range(*wanted), port(*found))
            }
            Self::DestinationPort { wanted, found } => {
                let wanted = range(*wanted);
                write!(f, "it wants destination port {wanted}, the packet {}", port(*found))
            }
            Self::Field { field, wanted, found } => {
                let title = Field::named(field).map_or(field.as_str(), |field| field.title());
                let found = found.as_deref().unwrap_or("none");
                write!(f, "it wants {title} {wanted}, the packet has {found}")
            }
            Self::EarlierRule { rule, priority, chain } => write!(
                f,
                "all of it holds, but rule '{rule}' (priority {priority}) of chain '{chain}' goes \
                 first"
            ),
            Self::Takes => f.write_str("it takes the packet"),
        }
    }
}

fn tag(vlan: Option<VlanId>) -> String {
    vlan.map_or_else(|| "no VLAN tag".to_owned(), |id| format!("VLAN {}", id.get()))
}

const fn version(family: IpFamily) -> &'static str {
    match family {
        IpFamily::Ipv4 => "IPv4",
        IpFamily::Ipv6 => "IPv6",
    }
}

const fn name(transport: Transport) -> &'static str {
    match transport {
        Transport::Tcp => "TCP",
        Transport::Udp => "UDP",
        Transport::Icmp => "ICMP",
    }
}

fn protocol(number: u8) -> String {
    match number {
        1 | 58 => "ICMP".to_owned(),
        6 => "TCP".to_owned(),
        17 => "UDP".to_owned(),
        other => format!("protocol {other}"),
    }
}

fn range(range: PortRange) -> String {
    if range.min() == range.max() {
        range.min().to_string()
    } else {
        format!("{} to {}", range.min(), range.max())
    }
}

fn port(port: Option<u16>) -> String {
    port.map_or_else(|| "has none".to_owned(), |port| format!("has {port}"))
}

/// What became of one rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleVerdict {
    /// The rule; none: about a path without rules.
    pub id: Option<RuleId>,
    /// Name of the rule.
    pub rule: String,
    /// Where it sends.
    pub path: Option<PathId>,
    /// The first condition that fails.
    pub condition: RuleCondition,
    /// The same for people.
    pub text: String,
}

impl RuleVerdict {
    /// A verdict with its text.
    #[must_use]
    pub fn new(
        id: Option<RuleId>,
        rule: impl Into<String>,
        path: Option<PathId>,
        condition: RuleCondition,
    ) -> Self {
        Self { id, rule: rule.into(), path, text: condition.to_string(), condition }
    }
}

/// Why a chain does not take a packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WhyNotReport {
    /// Name of the chain.
    pub chain: String,
    /// Does it take the packet after all?
    pub is_taken: bool,
    /// Its state, when it is not active, with the reason.
    pub state: Option<String>,
    /// Its rules.
    pub rules: Vec<RuleVerdict>,
}
