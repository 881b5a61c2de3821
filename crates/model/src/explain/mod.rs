//! The words of `catena explain`: what is asked of data plane and controller, and what they answer.
//! Knows decisions by the names people gave and the texts that are made of them; refuses to know
//! how a decision is made, and what bytes mean.

mod action;
mod evidence;
mod header;
mod journey;
mod packet;
mod why_not;

pub use action::{ExplainAction, FlowShare, Place, Position, SliceUser, WrittenMacs};
pub use evidence::{Evidence, Witnesses, beside_what_was_seen};
pub use header::{FrameBytes, FrameBytesError, Header, HeaderLayer};
pub use journey::{Journey, Told};
pub use packet::{PacketDescription, PacketFilter, PacketTextError};
pub use why_not::{RuleCondition, RuleVerdict, WhyNotReport};

use crate::id::{BlueprintNumber, ChainId, NodeName, PortId};
use crate::topology::PortNumber;
use crate::tunnel::TunnelKind;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// Where a packet to explain is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExplainAt {
    /// A frame that comes in by a port of the node.
    Port(PortId),
    /// The payload of a datagram from another node.
    Tunnel {
        /// By which tunnel.
        tunnel: TunnelKind,
        /// Source address of the datagram.
        source: IpAddr,
    },
    /// A frame that comes by a link of the node.
    Link(PortNumber),
}

/// Asks a data plane what it would do with a packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainRequest {
    /// Where the packet is.
    pub at: ExplainAt,
    /// The frame from the Ethernet header on, or the payload of the datagram.
    pub frame: FrameBytes,
    /// Also say of each rule of this chain why it does not take the packet.
    pub why_not: Option<ChainId>,
}

/// One decision about the packet, or about a copy of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainStep {
    /// 0: the packet itself; else which copy of it.
    pub copy: u16,
    /// The decision, field by field.
    pub action: ExplainAction,
    /// The same for people.
    pub text: String,
}

impl ExplainStep {
    /// A step with its text.
    #[must_use]
    pub fn new(copy: u16, action: ExplainAction) -> Self {
        Self { copy, text: action.text(), action }
    }
}

/// What leaves for another node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Departure {
    /// 0: the packet itself; else which copy of it.
    pub copy: u16,
    /// How.
    pub by: DepartureBy,
    /// The payload of the datagram, or the frame on the link.
    pub payload: FrameBytes,
}

/// How something leaves for another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DepartureBy {
    /// In a datagram.
    Tunnel {
        /// Address of the other node on the data network.
        to: IpAddr,
        /// By which tunnel.
        tunnel: TunnelKind,
    },
    /// By the link of this number.
    Link(PortNumber),
}

/// A data plane's answer to an [`ExplainRequest`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainReply {
    /// The program that is running.
    pub program: BlueprintNumber,
    /// The decisions, in their order.
    pub steps: Vec<ExplainStep>,
    /// What goes on elsewhere.
    pub departures: Vec<Departure>,
    /// Why the rules of the asked chain do not take the packet; empty when nobody asked, or the
    /// packet came by a tunnel.
    pub why_not: Vec<RuleVerdict>,
}

/// Asks a data plane for the next packet at a port: the first question arms the trap, and the same
/// question again, with the same token, asks whether something is in it. A trap that nobody asks
/// for is disarmed by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CatchRequest {
    /// Tells the askers apart.
    pub token: u64,
    /// The port that the packet comes in by.
    pub port: PortId,
    /// What the packet must look like.
    pub filter: PacketFilter,
}

/// A packet as it came in by a port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaughtPacket {
    /// Its first wire packet, complete: a super-frame is cut and its checksum made as on a wire.
    pub frame: FrameBytes,
    /// How long ago it was seen, in milliseconds.
    pub ago_ms: u64,
}

/// What `POST /v1/explain` is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainQuery {
    /// Name or id of the port that the packet comes in by; none: the port with its source MAC,
    /// which takes a frame.
    #[serde(default)]
    pub from: Option<String>,
    /// The packet.
    pub packet: ExplainSubject,
    /// Name or id of a chain: also say why it does not take the packet.
    #[serde(default)]
    pub why_not: Option<String>,
}

/// The packet to explain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExplainSubject {
    /// In the words of [`PacketDescription`].
    Described(String),
    /// Its bytes from the Ethernet header on, in hexadecimal digits.
    Frame(FrameBytes),
    /// The next real packet at the port.
    Next {
        /// In the words of [`PacketFilter`]; empty: any packet.
        filter: String,
        /// How long to wait for it, in milliseconds.
        wait_ms: u64,
    },
}

/// One line of an explanation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainLine {
    /// From 1.
    pub number: usize,
    /// The node that decided.
    pub node: NodeName,
    /// Is it about a copy of the packet, not about the packet itself?
    pub is_copy: bool,
    /// What it decided.
    pub step: ExplainStep,
    /// How it is known, of a real packet; none: the packet is hypothetical.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Evidence>,
}

/// What `POST /v1/explain` answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainReport {
    /// Name of the port that the packet came in by.
    pub from: String,
    /// The packet in words.
    pub described: String,
    /// The packet that was explained.
    pub frame: FrameBytes,
    /// How long ago it was seen, in milliseconds; none: it is hypothetical.
    pub seen_ago_ms: Option<u64>,
    /// The decisions, in the order in which they are met; those about copies behind the others.
    pub lines: Vec<ExplainLine>,
    /// What became of the packet, in one line.
    pub verdict: String,
    /// Why a chain does not take it, if that was asked.
    pub why_not: Option<WhyNotReport>,
    /// What speaks against the lines, and who could not be heard; a sentence each.
    #[serde(default)]
    pub remarks: Vec<String>,
}
