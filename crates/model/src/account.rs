//! What happened to packets, in numbers, and the identity that must hold between them:
//! received + created = forwarded + dropped + consumed + held.
//!
//! The unit is the wire packet: a super-frame counts its segments.

use crate::bundle::ConfigurationId;
use crate::drop_reason::DropReason;
use crate::export::ExportCounters;
use crate::id::{BlueprintNumber, ChainId, InstanceId, NodeName, PathId, PortId, SliceId};
use crate::kernel::KernelCounters;
use crate::parallelism::FormChoice;
use crate::service_time::ServiceTime;
use crate::setup::SetupCounters;
use crate::slice_wait::SliceWait;
use crate::sojourn_time::SojournTime;
use crate::status::InstanceHealth;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Packets and their bytes from the Ethernet header on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Volume {
    /// Wire packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

impl Volume {
    /// Adds one super-frame or packet.
    #[inline]
    pub fn add(&mut self, packets: u64, bytes: u64) {
        self.packets = self.packets.wrapping_add(packets);
        self.bytes = self.bytes.wrapping_add(bytes);
    }

    /// Adds another volume.
    #[inline]
    pub fn merge(&mut self, other: Volume) {
        self.add(other.packets, other.bytes);
    }
}

/// Packets that the data plane made itself, by name.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Created {
    /// A further copy of a broadcast or multicast frame.
    Replica,
    /// An answer to ARP or neighbour discovery in place of the addressed.
    ProxyAnswer,
    /// A copy for a tap.
    Tap,
    /// A probe of an instance or a chain.
    Probe,
    /// Word to a sender that its packet is too big, and how large one may be.
    PacketTooBig,
    /// Word to another node that a packet of segments of its cannot go on, and why.
    SegmentError,
    /// A word to the neighbour at the other end of a link.
    Hello,
    /// What a bundled function makes of its own: an ICMP error, a reset of TCP.
    Function,
}

impl Created {
    /// Every kind, in the order of declaration.
    pub const ALL: &'static [Created] = &[
        Created::Replica,
        Created::ProxyAnswer,
        Created::Tap,
        Created::Probe,
        Created::PacketTooBig,
        Created::SegmentError,
        Created::Hello,
        Created::Function,
    ];

    /// The name in counters and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Replica => "replica",
            Self::ProxyAnswer => "proxy_answer",
            Self::Tap => "tap",
            Self::Probe => "probe",
            Self::PacketTooBig => "packet_too_big",
            Self::SegmentError => "segment_error",
            Self::Hello => "hello",
            Self::Function => "function",
        }
    }
}

/// The account of one origin of packets: a port, the tunnels, or a whole node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Account {
    /// Taken from the ring or socket.
    pub received: Volume,
    /// Made here, by name.
    pub created: BTreeMap<Created, u64>,
    /// Handed to the kernel or a tunnel.
    pub forwarded: Volume,
    /// Ended here, by reason.
    pub dropped: BTreeMap<DropReason, u64>,
    /// Taken in by the data plane itself (a question it answered).
    pub consumed: u64,
    /// Still inside.
    pub held: u64,
}

impl Account {
    /// What the identity leaves over; zero, or there is a fault.
    #[must_use]
    pub fn unaccounted(&self) -> i128 {
        let sum = |values: &mut dyn Iterator<Item = &u64>| values.map(|n| i128::from(*n)).sum();
        let created: i128 = sum(&mut self.created.values());
        let dropped: i128 = sum(&mut self.dropped.values());
        i128::from(self.received.packets) + created
            - i128::from(self.forwarded.packets)
            - dropped
            - i128::from(self.consumed)
            - i128::from(self.held)
    }

    /// All drops together.
    #[must_use]
    pub fn dropped_total(&self) -> u64 {
        wrapping_sum(self.dropped.values().copied())
    }
}

/// The counters of one port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PortCounters {
    /// The port.
    pub port: PortId,
    /// Its name for people.
    pub name: String,
    /// What became of the packets that came in by it.
    pub account: Account,
    /// What was sent out of it, wherever it came from.
    pub transmitted: Volume,
    /// Of what was received from a function: what no path expected, hence its own traffic.
    pub created_by_function: u64,
    /// Delivered to functions by this port and never come back when their path was removed;
    /// beside the identity.
    pub lost_in_function: u64,
    /// Frames that the kernel lost because the ring was full; beside the identity.
    pub ring_full: u64,
    /// What the interface behind the port counted itself.
    pub interface: Option<InterfaceCounters>,
}

/// The kernel's own counters of the interface behind a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InterfaceCounters {
    /// Into the endpoint or function.
    pub received: Volume,
    /// Out of it.
    pub transmitted: Volume,
}

/// The counters of one hop of a path at one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HopCounters {
    /// Index of the hop, from 0.
    pub hop: u16,
    /// Its place among the functions of that hop, from 0: bundled functions beside each other are one hop.
    #[serde(default)]
    pub member: u8,
    /// The instance.
    pub instance: InstanceId,
    /// Name of the instance for people.
    pub name: String,
    /// Given to the instance.
    pub delivered: Volume,
    /// Come back from it.
    pub returned: Volume,
    /// Of those come back: with other bytes than any packet given to it, while that was watched
    /// (two paths shared it).
    pub rewritten: u64,
    /// Of those come back: given their path by order alone, because their bytes did not tell.
    pub ambiguous: u64,
    /// Sent past it, because it is dead and its function is declared to be bypassed then; they
    /// stay on the path.
    #[serde(default)]
    pub bypassed: Volume,
    /// Of those come back from a bundled function: ended there by a rule of it.
    #[serde(default)]
    pub denied: u64,
    /// Made by a bundled function of its own: on their way back, or behind it on the path.
    #[serde(default)]
    pub generated: u64,
    /// How long a bundled function inside the data plane took for them.
    #[serde(default, skip_serializing_if = "ServiceTime::is_empty")]
    pub service_time: ServiceTime,
    /// How long packets were with an instance outside the data plane.
    #[serde(default, skip_serializing_if = "SojournTime::is_empty")]
    pub sojourn_time: SojournTime,
}

/// What a bundled function has counted at one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FunctionCounters {
    /// The instance.
    pub instance: InstanceId,
    /// Name of the instance for people.
    pub name: String,
    /// What it is made of.
    #[schema(value_type = String)]
    pub configuration: ConfigurationId,
    /// Its rules that packets have met, in their order.
    pub rules: Vec<RuleHits>,
    /// Such rules that are not told, for they are too many.
    pub rules_untold: u64,
    /// What it has told of packets.
    pub events: u64,
    /// What became of its messages.
    #[serde(default)]
    pub messages: MessageCounters,
    /// ICMP errors that were not made, as there were too many in a second already.
    pub errors_withheld: u64,
    /// How often it has died and begun anew.
    #[serde(default)]
    pub deaths: u64,
    /// Bytes of packets that were copied to ask it in a process of its own.
    #[serde(default)]
    pub copied_bytes: u64,
    /// How it is asked, where the node has threads for that and has timed all whom it shares packets with; none: by
    /// the worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choice: Option<FormChoice>,
}

/// What became of messages that a function has handed out, which are no packets: alerts, and flow records. All that
/// are neither kept, sent nor lost are on their way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MessageCounters {
    /// Handed out by the function.
    pub handed_out: u64,
    /// Nobody was named who wants them.
    pub unwanted: u64,
    /// There was no room on their way to the agent.
    pub lost: u64,
    /// Kept by the agent for whoever asks.
    pub kept: u64,
    /// Sent to the collector by the agent.
    pub sent: u64,
    /// Not sent to the collector, as the agent could not.
    pub unsent: u64,
    /// Why it could not, the last time; empty: it always could.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub trouble: String,
}

/// What packets have met a rule of a function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RuleHits {
    /// The rule in its writer's words.
    pub rule: String,
    /// Packets, as on the wire.
    pub packets: u64,
    /// Their bytes, IP headers included.
    pub bytes: u64,
}

/// The counters of one path of a chain at one node.
///
/// At each node the packets that came are those that went: entered + tapped + tunnelled in +
/// returned = finished + tunnelled out + delivered + dropped. `dropped`, `tunnelled_*` and
/// `delivered` count copies for taps too; `entered` and `finished` only the packets themselves. A
/// tap returns nothing, so over all nodes of the path
///
/// > entered + tapped − finished − dropped − delivered to taps = inside,
///
/// where inside is what functions and tunnels hold: exactly zero once the path has drained. Which
/// hops are taps is said by the path (`HopEntry::kind`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChainCounters {
    /// The chain.
    pub chain: ChainId,
    /// The path.
    pub path: PathId,
    /// Entered at this node's classifier.
    pub entered: Volume,
    /// Left the path at this node, after the last hop.
    pub finished: Volume,
    /// Copied for taps at this node.
    pub tapped: Volume,
    /// Flows that this node's classifier keeps on the path after it was replaced.
    pub pinned_flows: u64,
    /// Sent to another node inside the encapsulation.
    pub tunnelled_out: Volume,
    /// Come from another node inside the encapsulation.
    pub tunnelled_in: Volume,
    /// Lost on the path at this node.
    pub dropped: BTreeMap<DropReason, u64>,
    /// Each local instance.
    pub hops: Vec<HopCounters>,
    /// This data plane found the path in the program that another left on disk: what that one
    /// counted on it is gone.
    #[serde(default)]
    pub is_partial: bool,
}

/// The counters of one slice at one node: those of its own path. A slice that sends into a path of
/// others has none.
///
/// The counters of the chain whose hops it shares hold these too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SliceCounters {
    /// The slice.
    pub slice: SliceId,
    /// Its name for people.
    pub name: String,
    /// The path that its packets go into.
    pub path: PathId,
    /// Entered at this node's classifier.
    pub entered: Volume,
    /// Left the path at this node, after the last hop.
    pub finished: Volume,
    /// Sent to another node inside the encapsulation.
    pub tunnelled_out: Volume,
    /// Come from another node inside the encapsulation.
    pub tunnelled_in: Volume,
    /// Lost on the path at this node.
    pub dropped: BTreeMap<DropReason, u64>,
    /// How its packets waited; none: it has no delay class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<SliceWait>,
    /// Put in at the node by hand: no blueprint names it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_injected: bool,
}

/// The data plane that counted, and those before it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DataplaneLife {
    /// Its process number on the node.
    pub process: u32,
    /// How long it has been running, in milliseconds.
    pub up_ms: u64,
    /// What keeps it from doing all that its program says, for people; empty: nothing.
    pub troubles: Vec<String>,
    /// How often the node was without one.
    pub absences: Absences,
    /// What the kernel does for it; none: every packet is the engine's.
    #[serde(default)]
    pub kernel: Option<Box<KernelCounters>>,
}

/// When a node had no data plane, as its agent saw it since the agent's own start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Absences {
    /// Data planes that ended and were replaced while the agent watched.
    pub seen: u64,
    /// Data planes that had ended when the agent came: nobody knows when, or counted what came.
    pub unseen: u64,
    /// How long the last seen one took, from the end of the old data plane to the ports of the
    /// new, in milliseconds.
    pub last_ms: u64,
    /// All that were seen together, in milliseconds.
    pub total_ms: u64,
    /// Packets that the interfaces of the ports delivered while nobody took them. What the data
    /// plane that ended held at that moment is not among them: nobody counts that any more.
    pub missed_at_ports: u64,
    /// Datagrams from other hosts that found no open tunnel socket.
    pub missed_at_tunnels: u64,
}

/// What the memories of a node's engine forgot because they were full: flows, and packets that were
/// known one by one. What of them comes later is decided anew.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CrowdedCounters {
    /// By the port whose flows they were.
    pub ports: BTreeMap<PortId, u64>,
    /// By the path whose flows they were: that of a slice, or behind a tunnel or another function.
    pub paths: BTreeMap<PathId, u64>,
}

/// What a data plane knows of one of its links.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LinkLife {
    /// The link, by the identity that it has among ports.
    pub port: PortId,
    /// A neighbour of this domain is at its other end.
    pub is_known: bool,
    /// He has not said anything for three periods.
    pub is_silent: bool,
    /// How often he fell silent. Where the cable was whole, each is a false alarm.
    pub silences: u64,
    /// Frames that went round it, because it was dead or silent.
    pub detoured: u64,
    /// Packets that left by it although their former way was not flushed yet, as too many waited for that: they may
    /// have overtaken others.
    #[serde(default)]
    pub unflushed: u64,
}

/// All counters of a node at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeCounters {
    /// The node.
    pub node: NodeName,
    /// The program that is running.
    pub program: BlueprintNumber,
    /// Each port.
    pub ports: Vec<PortCounters>,
    /// Each link, by the identity that it has among ports and under the name of its interface. Between links bytes
    /// are those of frames as they are there; of what an edge sends by one, and of what comes out at one, they are
    /// those of the packet without its source route.
    #[serde(default)]
    pub links: Vec<PortCounters>,
    /// What is known of each of them.
    #[serde(default)]
    pub link_lives: Vec<LinkLife>,
    /// What came in from other nodes.
    pub tunnels: Account,
    /// What was sent to other nodes, in wire packets of the tenant.
    pub tunnels_transmitted: Volume,
    /// Datagrams that the kernel lost because a tunnel socket was full; beside the identity.
    pub tunnels_ring_full: u64,
    /// Each path.
    pub chains: Vec<ChainCounters>,
    /// Each instance of the node that is watched.
    #[serde(default)]
    pub health: Vec<InstanceHealth>,
    /// Bundled functions of the node that somebody has asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<FunctionCounters>,
    /// How often bundled functions of the node have died of what they were asked, of those that have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub deaths: BTreeMap<InstanceId, u64>,
    /// What was forgotten for want of room.
    #[serde(default)]
    pub crowded: CrowdedCounters,
    /// Flows that the controller was asked for.
    #[serde(default, skip_serializing_if = "SetupCounters::is_none")]
    pub setups: SetupCounters,
    /// What the agent tells collectors of others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exports: Vec<ExportCounters>,
    /// Who counted.
    #[serde(default)]
    pub dataplane: DataplaneLife,
}

impl NodeCounters {
    /// Those of a node on which nothing has happened yet.
    #[must_use]
    pub fn none(node: NodeName, program: BlueprintNumber) -> Self {
        Self {
            node,
            program,
            ports: Vec::new(),
            links: Vec::new(),
            link_lives: Vec::new(),
            tunnels: Account::default(),
            tunnels_transmitted: Volume::default(),
            tunnels_ring_full: 0,
            chains: Vec::new(),
            health: Vec::new(),
            functions: Vec::new(),
            deaths: BTreeMap::new(),
            crowded: CrowdedCounters::default(),
            setups: SetupCounters::default(),
            exports: Vec::new(),
            dataplane: DataplaneLife::default(),
        }
    }

    /// The account of the whole node: of its tunnels, its ports and links, and what was lost in the kernel's
    /// program and between it and the engine.
    #[must_use]
    pub fn total(&self) -> Account {
        let mut total = self.tunnels.clone();
        if let Some(kernel) = &self.dataplane.kernel {
            total.merge(&kernel.lost_in_kernel());
        }
        for port in self.ports.iter().chain(&self.links) {
            total.merge(&port.account);
        }
        total
    }

    /// Frames lost before they were received, over all rings and sockets.
    #[must_use]
    pub fn ring_full(&self) -> u64 {
        let rings = self.ports.iter().chain(&self.links).map(|port| port.ring_full);
        let ports = wrapping_sum(rings);
        let punted = self.dataplane.kernel.as_ref().map_or(0, |kernel| kernel.ring_full);
        ports.wrapping_add(self.tunnels_ring_full).wrapping_add(punted)
    }
}

/// The numbers may be foreign: whatever they are, nobody stops over their sum.
fn wrapping_sum(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(0, u64::wrapping_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_identity_leaves_exactly_what_is_missing() {
        let mut account = Account::default();
        account.received.add(10, 1_000);
        account.created.insert(Created::Replica, 2);
        account.forwarded.add(7, 700);
        account.dropped.insert(DropReason::UnknownMac, 3);
        account.consumed = 1;
        assert_eq!(account.unaccounted(), 1);
        account.held = 1;
        assert_eq!(account.unaccounted(), 0);
        account.held = 3;
        assert_eq!(account.unaccounted(), -2);
    }

    #[test]
    fn numbers_that_no_node_could_count_are_summed_without_a_fault() {
        let mut port = PortCounters {
            port: PortId(uuid::Uuid::nil()),
            name: String::new(),
            account: Account { consumed: u64::MAX, held: u64::MAX, ..Account::default() },
            transmitted: Volume::default(),
            created_by_function: 0,
            lost_in_function: 0,
            ring_full: u64::MAX,
            interface: None,
        };
        port.account.created.insert(Created::Replica, u64::MAX);
        port.account.dropped.insert(DropReason::NoPath, u64::MAX);
        port.account.dropped.insert(DropReason::UnknownMac, 2);
        let node = NodeCounters {
            ports: vec![port.clone(), port.clone()],
            tunnels: port.account.clone(),
            tunnels_ring_full: 1,
            ..NodeCounters::none(NodeName::new("host1").unwrap(), BlueprintNumber(1))
        };
        assert_eq!(port.account.dropped_total(), 1, "counters wrap, as those of volumes do");
        assert_eq!(node.ring_full(), u64::MAX);
        assert_eq!(node.total().consumed, u64::MAX - 2);
    }

    #[test]
    fn a_frame_lost_between_kernel_and_engine_is_received_and_dropped_by_name() {
        let kernel = KernelCounters { ring_full: 3, refused: 2, ..KernelCounters::default() };
        let node = NodeCounters {
            dataplane: DataplaneLife { kernel: Some(Box::new(kernel)), ..Default::default() },
            ..NodeCounters::none(NodeName::new("host1").unwrap(), BlueprintNumber(1))
        };
        let total = node.total();
        assert_eq!(total.received.packets, 5);
        let lost = [(DropReason::PuntRingFull, 3), (DropReason::KernelRefused, 2)];
        assert_eq!(total.dropped, BTreeMap::from(lost));
        assert_eq!((total.unaccounted(), node.ring_full()), (0, 3));
    }

    #[test]
    fn the_account_of_a_sum_is_the_sum_of_the_accounts() {
        let mut left = Account::default();
        left.received.add(4, 400);
        left.dropped.insert(DropReason::NoPath, 4);
        let mut right = left.clone();
        right.dropped.insert(DropReason::UnknownMac, 0);
        right.created.insert(Created::ProxyAnswer, 1);
        right.forwarded.add(1, 60);
        left.merge(&right);
        assert_eq!(left.received, Volume { packets: 8, bytes: 800 });
        assert_eq!(left.dropped_total(), 8);
        assert_eq!(left.unaccounted(), 0);
    }
}
