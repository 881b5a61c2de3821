//! What the slow path decides for a packet: which action it meets, and what of that is its own. Knows
//! references; refuses to know what an action does, and how it was found.
//!
//! A decision stays right as long as the epoch that it was made in is the engine's. A copy for a tap is a
//! packet of its own with a decision of its own (`tap`): a cache keeps for a flow all decisions that
//! its packet gave rise to, and repeats all of them or none.

use super::Source;
use crate::engine::encap::PathPosition;
use crate::engine::packet::index::{NetworkIndex, NodeIndex, PortIndex};
use catena_model::DropReason;
use catena_model::topology::PortNumber;
use catena_wire::scalar::MacAddr;

/// Which tables were in force: grows by one with each replacement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Epoch(pub(crate) u64);

/// Where a packet leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// By a port of this node.
    Port(PortIndex),
    /// To another node.
    Node(NodeIndex),
    /// To another node, by the link of this number.
    Link(NodeIndex, PortNumber),
}

/// How the path's counters see the exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// On no path, or behind its end.
    Ordinary,
    /// On the way to the node of its next function.
    Between,
    /// Into the local instance with this index.
    Into(u32),
}

/// Which action a packet meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ActionRef {
    /// At a hop: the compiled one with this number.
    Hop(u32),
    /// Out of a port as it is.
    Port(PortIndex),
    /// To another node inside its tenant network.
    Network(NetworkIndex, NodeIndex),
}

/// What to do with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) action: ActionRef,
    /// Where on its path it is, if it is on any.
    pub(crate) position: PathPosition,
    /// The MAC that it is addressed to first; none: its own, or what the action says.
    pub(crate) destination: Option<MacAddr>,
    pub(crate) epoch: Epoch,
}

impl Decision {
    /// On no path.
    pub(crate) fn ordinary(action: ActionRef, epoch: Epoch) -> Self {
        Self { action, position: PathPosition::default(), destination: None, epoch }
    }

    /// Addressed to one station, if that is another.
    pub(crate) fn addressed_to(self, destination: Option<MacAddr>) -> Self {
        Self { destination, ..self }
    }

    /// Does it leave its path, or has never been on one?
    pub(crate) fn is_ordinary(&self) -> bool {
        !matches!(self.action, ActionRef::Hop(_))
    }
}

/// The outcome of the slow path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Act and send.
    Forward(Decision),
    /// Send a copy to every port of the network but the source, and, unless it came from one, to
    /// every other node.
    Replicate { network: NetworkIndex, from: Source },
    /// Send it, a packet of IPv6 behind an Ethernet header, to another node itself.
    Tell(NodeIndex),
    /// End here, known to be for the data plane itself.
    Consume,
    /// End here.
    Drop(DropReason),
}
