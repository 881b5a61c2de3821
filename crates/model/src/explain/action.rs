//! What a data plane can decide about a packet, in the user's names, and the line made of it.

use super::header::Header;
use crate::DropReason;
use crate::id::{NodeName, PathId};
use crate::setup::WhenAway;
use crate::topology::PortNumber;
use catena_wire::scalar::{MacAddr, Qfi, Teid, TunnelId};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A place on a path as its headers write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// The path.
    pub path: PathId,
    /// The service index: 255 at the first function.
    pub index: u8,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.path, self.index)
    }
}

/// Where an instance is, seen from the node that chose it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// Behind this port of the node.
    Port(String),
    /// On another node.
    Node(NodeName),
    /// It cannot be reached: why is the drop's name.
    Unreachable,
}

/// Why a flow meets one of several instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowShare {
    /// Hash of the flow, the same on every node.
    pub flow_hash: u64,
    /// How many instances the function has.
    pub instances: usize,
    /// Weight of the chosen one.
    pub weight: u32,
    /// All weights together.
    pub weights: u64,
}

/// What is written over the MACs of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenMacs {
    /// To whom it is addressed; none: that stays.
    pub destination: Option<MacAddr>,
    /// Who sends it; none: that stays.
    pub source: Option<MacAddr>,
}

impl fmt::Display for WrittenMacs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.destination, self.source) {
            (None, None) => Ok(()),
            (Some(to), None) => write!(f, ", addressed to {to}"),
            (None, Some(from)) => write!(f, ", sent by {from}"),
            (Some(to), Some(from)) => write!(f, ", addressed to {to}, sent by {from}"),
        }
    }
}

/// Whose packet it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SliceUser {
    /// The tenant's network.
    #[serde(flatten)]
    pub tunnel_id: Option<TunnelId>,
    /// The user's tunnel.
    pub teid: Option<Teid>,
    /// The QoS flow.
    pub qfi: Option<Qfi>,
}

impl fmt::Display for SliceUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = [
            self.tunnel_id.map(|id| id.to_string()),
            self.teid.map(|teid| format!("TEID {teid}")),
            self.qfi.map(|qfi| format!("QFI {qfi}")),
        ];
        let words: Vec<String> = words.into_iter().flatten().collect();
        if words.is_empty() { f.write_str("no tunnel") } else { f.write_str(&words.join(", ")) }
    }
}

/// A decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExplainAction {
    /// A datagram of another node brought it.
    Received {
        /// The node; none: no node has the source address.
        from: Option<NodeName>,
        /// The header, as far as it could be read; it was taken off.
        header: Option<Header>,
    },
    /// A source route leads on: its header, as it goes into the next cable.
    PassedOn {
        /// The number of the port that it leaves by.
        by: PortNumber,
        /// The header; none: its profile is not spoken by edges.
        header: Option<Header>,
        /// The header was written here, in the place of one that was at its end: the node at which it is so itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        written_to: Option<NodeName>,
    },
    /// A source route is at its end.
    CameOut {
        /// Name of the port that it comes out of.
        port: String,
        /// The header; it was taken out.
        header: Option<Header>,
    },
    /// A rule took it into a path.
    Classified {
        /// Name of the rule.
        rule: String,
        /// Its priority.
        priority: u32,
        /// Name of the port it came in by.
        port: String,
        /// Name of the chain.
        chain: String,
        /// The path.
        path: PathId,
        /// Where the rule sends, if a pin keeps the flow elsewhere: on the path that it is on.
        pinned_from: Option<PathId>,
    },
    /// A slice took it into a path, before any rule was asked.
    Sliced {
        /// Name of the slice.
        slice: String,
        /// Name of the port it came in by; none: it was at the end of a path.
        port: Option<String>,
        /// Whose it is, as its tunnels or its metadata tell.
        user: SliceUser,
        /// Name of the chain whose hops the path has.
        chain: String,
        /// The path.
        path: PathId,
        /// The slice was put in at the node by hand.
        is_injected: bool,
    },
    /// At the end of its path a rule took it into a path of the next chain.
    Branched {
        /// Name of the chain that it has left.
        after: String,
        /// Name of the rule.
        rule: String,
        /// Name of the chain.
        chain: String,
        /// The path.
        path: PathId,
        /// Where the rule sends, if a pin keeps the flow elsewhere: on the path that it is on.
        pinned_from: Option<PathId>,
    },
    /// No rule took it: ordinary traffic.
    Unclassified {
        /// Name of the port it came in by.
        port: String,
        /// No rule was asked: discovery, multicast or link-local.
        is_never: bool,
    },
    /// Its flow is not set up: the controller is asked for it first.
    Asked {
        /// Name of the port it came in by.
        port: String,
        /// Name of the chain.
        chain: String,
        /// The path.
        path: PathId,
        /// What becomes of it while nobody answers.
        away: WhenAway,
    },
    /// The forwarder chose an instance.
    Forwarded {
        /// Where on its path the packet is.
        position: Position,
        /// Name of the function; of functions that are one hop, their names.
        function: String,
        /// Name of the instance; likewise.
        instance: String,
        /// Where the instance is.
        place: Place,
        /// Why this one.
        share: FlowShare,
        /// The function is a tap: the copy is for it, and goes no further.
        is_tap: bool,
    },
    /// The instance that its flow belongs to is dead, and the function is passed by.
    Bypassed {
        /// Where on its path the packet is.
        position: Position,
        /// Name of the function.
        function: String,
        /// Name of the instance.
        instance: String,
    },
    /// A function that runs inside the data plane was asked.
    Judged {
        /// Where on its path the packet is.
        position: Position,
        /// Name of the function.
        function: String,
        /// Name of the instance.
        instance: String,
        /// The rules that it met, in their writer's words; of a packet that has really passed, the one that ends it
        /// alone.
        rules: Vec<String>,
        /// By which name it ends there; none: it passes.
        ends: Option<DropReason>,
        /// Its ends, where the function has given it others.
        becomes: Option<String>,
    },
    /// It goes to another node.
    Encapsulated {
        /// The node.
        to: NodeName,
        /// The header in front.
        header: Header,
        /// Bytes that the packet grows by, outer Ethernet, IP and UDP included.
        added_bytes: usize,
        /// What is written over the MACs of the frame behind the header.
        #[serde(default)]
        macs: WrittenMacs,
        /// The header is what is left of the one that the packet came with.
        #[serde(default)]
        goes_on: bool,
    },
    /// It is given to a function.
    Visited {
        /// Name of the instance.
        instance: String,
        /// Name of the port.
        port: String,
        /// The chain header that the function reads; none: it gets the bare packet.
        header: Option<Header>,
        /// What is written over the MACs of its frame.
        #[serde(default)]
        macs: WrittenMacs,
    },
    /// What a function does is not known: it is assumed.
    Assumed {
        /// Name of the instance.
        instance: String,
        /// Name of the port by which it comes back.
        port: String,
        /// The service index that a function writes which moves the chain header on itself.
        index: Option<u8>,
    },
    /// The path of what came out of a function was found again.
    Recalled {
        /// Name of the port.
        port: String,
        /// Where on the path it goes on.
        position: Position,
        /// It said so itself in its chain header.
        is_by_header: bool,
    },
    /// No path expects it: the function's own traffic.
    OwnTraffic {
        /// Name of the port.
        port: String,
    },
    /// The data plane answered the question in place of the addressed.
    Answered {
        /// Name of the port.
        port: String,
    },
    /// Its path has ended.
    Finished {
        /// The path.
        path: PathId,
        /// Name of the network it is delivered in.
        network: String,
        /// The MAC of its destination; none: it was addressed already.
        mac: Option<MacAddr>,
    },
    /// The switch looked for a MAC.
    Switched {
        /// Name of the network.
        network: String,
        /// The MAC.
        mac: MacAddr,
    },
    /// It leaves by a port.
    Delivered {
        /// Name of the port.
        port: String,
        /// What is written over the MACs of its frame.
        #[serde(default)]
        macs: WrittenMacs,
    },
    /// It ends here.
    Dropped {
        /// Why.
        reason: DropReason,
    },
    /// The explanation ends before the packet does.
    Stopped {
        /// Why, for people.
        why: String,
    },
}

impl ExplainAction {
    /// The word in front of the line.
    #[must_use]
    pub const fn verb(&self) -> &'static str {
        match self {
            Self::Received { .. } | Self::CameOut { .. } => "receive",
            Self::PassedOn { .. } => "pass on",
            Self::Classified { .. } | Self::Sliced { .. } | Self::Unclassified { .. } => "classify",
            Self::Branched { .. } => "branch",
            Self::Asked { .. } => "ask",
            Self::Forwarded { is_tap: true, .. } => "tap",
            Self::Forwarded { .. } => "forward",
            Self::Bypassed { .. } => "bypass",
            Self::Judged { .. } => "judge",
            Self::Encapsulated { goes_on: true, .. } => "go on",
            Self::Encapsulated { .. } => "encapsulate",
            Self::Visited { .. } => "function",
            Self::Assumed { .. } => "assume",
            Self::Recalled { .. } | Self::OwnTraffic { .. } => "recall",
            Self::Answered { .. } => "answer",
            Self::Finished { .. } => "finish",
            Self::Switched { .. } => "switch",
            Self::Delivered { .. } => "deliver",
            Self::Dropped { .. } => "drop",
            Self::Stopped { .. } => "stop",
        }
    }

    /// The line for people.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Received { from, header } => received(from.as_ref(), header.as_ref()),
            Self::PassedOn { by, header, written_to } => {
                let edge = written_to.as_ref();
                let edge = edge.map(|end| format!("as an edge writes the next header, to {end}: "));
                let edge = edge.unwrap_or_default();
                match header {
                    Some(header) => format!("{edge}{header} by port {by}  {}", header.bytes),
                    None => format!("{edge}a source route by port {by}"),
                }
            }
            Self::CameOut { port, header: Some(header) } => {
                format!("{header} comes out at port {port}")
            }
            Self::CameOut { port, header: None } => {
                format!("a source route comes out at port {port}")
            }
            Self::Classified { rule, priority, port, chain, path, pinned_from } => {
                let pin = pin(*pinned_from);
                format!(
                    "rule '{rule}' (priority {priority}) at port {port} → chain '{chain}', path \
                     {path}{pin}"
                )
            }
            Self::Sliced { slice, port, user, chain, path, is_injected } => {
                let from = match port {
                    Some(port) => format!("port {port}"),
                    None => "end of its path".to_owned(),
                };
                let by_hand = if *is_injected { " (put in by hand)" } else { "" };
                format!("{from}: {user} → slice '{slice}'{by_hand} → chain '{chain}', path {path}")
            }
            Self::Branched { after, rule, chain, path, pinned_from } => {
                let pin = pin(*pinned_from);
                format!("after chain '{after}', rule '{rule}' → chain '{chain}', path {path}{pin}")
            }
            Self::Unclassified { port, is_never: true } => format!(
                "port {port}: discovery, multicast or link-local is never classified → ordinary \
                 traffic"
            ),
            Self::Unclassified { port, is_never: false } => {
                format!("port {port}: no rule takes it → ordinary traffic")
            }
            Self::Asked { port, chain, path, away } => {
                let away = match away {
                    WhenAway::Drop => "dropped",
                    WhenAway::Ordinary => "ordinary traffic",
                };
                format!(
                    "port {port}: the controller is asked for its flow, which is new to chain '{chain}', path {path}; \
                     without an answer it is {away}, with one it goes on"
                )
            }
            Self::Forwarded { position, function, instance, place, share, .. } => {
                forwarded(*position, function, instance, place, share)
            }
            Self::Bypassed { position, function, instance } => {
                format!("{position} → past '{function}': its instance '{instance}' is dead")
            }
            Self::Judged { function, rules, ends, becomes, .. } => {
                judged(function, rules, *ends, becomes.as_deref())
            }
            Self::Encapsulated { to, header, added_bytes, macs, .. } => {
                format!("{header} to {to}{macs}  +{added_bytes} B  {}", header.bytes)
            }
            Self::Visited { instance, port, header: None, macs } => {
                format!("'{instance}' gets the bare packet by port {port}{macs}")
            }
            Self::Visited { instance, port, header: Some(header), macs } => {
                format!("'{instance}' gets {header} by port {port}{macs}  {}", header.bytes)
            }
            Self::Assumed { instance, port, index: None } => {
                format!("'{instance}' gives it back unchanged by port {port} (assumed)")
            }
            Self::Assumed { instance, port, index: Some(index) } => {
                format!("'{instance}' sets si {index} and gives it back by port {port} (assumed)")
            }
            Self::Recalled { port, position, is_by_header } => {
                let how = if *is_by_header { "its header says" } else { "the proxy remembers" };
                format!("port {port}: {how} {position}")
            }
            Self::OwnTraffic { port } => {
                format!("port {port}: no path expects it → the function's own traffic")
            }
            Self::Answered { port } => {
                format!("port {port}: the proxy answers in place of the addressed")
            }
            Self::Finished { path, network, mac: Some(mac) } => {
                format!("end of path {path} → network '{network}', destination MAC {mac}")
            }
            Self::Finished { path, network, mac: None } => {
                format!("end of path {path} → network '{network}', where the function addressed it")
            }
            Self::Switched { network, mac } => format!("network '{network}': MAC {mac}"),
            Self::Delivered { port, macs } => format!("out of port {port}{macs}"),
            Self::Dropped { reason } => format!("{}: {}", reason.name(), reason.sentence()),
            Self::Stopped { why } => why.clone(),
        }
    }
}

fn pin(pinned_from: Option<PathId>) -> String {
    pinned_from.map_or_else(String::new, |new| {
        format!(", where its flow is kept (the rule sends into path {new})")
    })
}

fn received(from: Option<&NodeName>, header: Option<&Header>) -> String {
    let what = header.map_or_else(|| "a datagram".to_owned(), ToString::to_string);
    match from {
        Some(node) => format!("{what} from {node}"),
        None => format!("{what} from an unknown address"),
    }
}

/// What a bundled function says, in the words of its rules.
fn judged(
    function: &str,
    rules: &[String],
    ends: Option<DropReason>,
    becomes: Option<&str>,
) -> String {
    let verdict = match ends {
        None => match becomes {
            None => format!("'{function}' lets it pass"),
            Some(becomes) => format!("'{function}' makes it {becomes}"),
        },
        Some(DropReason::FunctionDenied) => format!("'{function}' drops it"),
        Some(reason) => format!("'{function}' ends it: {}", reason.sentence()),
    };
    match rules {
        [] => verdict,
        rules => format!("{verdict}: {}", rules.join(" · ")),
    }
}

fn forwarded(
    position: Position,
    function: &str,
    instance: &str,
    place: &Place,
    share: &FlowShare,
) -> String {
    let FlowShare { flow_hash, instances, weight, weights } = share;
    let place = match place {
        Place::Port(_) => String::new(),
        Place::Node(node) => format!(" on {node}"),
        Place::Unreachable => ", which cannot be reached".to_owned(),
    };
    format!(
        "{position} → '{function}', instance '{instance}' of {instances}{place} (flow hash \
         {flow_hash:#018x}, weight {weight} of {weights})"
    )
}
