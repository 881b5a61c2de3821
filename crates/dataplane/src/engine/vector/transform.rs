//! What the slow path decides for a packet: a small value that says what to do, with no reference to
//! how it was found. Knows operations and exits; refuses to know rules, hops and tables.
//!
//! It is the seam for caches: a transform stays right as long as the epoch it was made in is the
//! engine's, so it can be stored per flow, here or in the kernel, and be repeated. A copy for a tap
//! is a packet of its own with a transform of its own (`tap`): a cache keeps for a flow the list of
//! the transforms that its packet gave rise to, and repeats all of them or none.

use super::Source;
use crate::engine::encap::PathPosition;
use crate::engine::packet::index::{NetworkIndex, NodeIndex, PortIndex};
use catena_model::DropReason;
use catena_wire::scalar::{MacAddr, Vni};

/// Most operations of one transform.
pub(crate) const OPERATIONS_MAX: usize = 3;

/// Which tables were in force: grows by one with each replacement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Epoch(pub(crate) u64);

/// One step of a transform, in the order of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Rewrites the destination MAC.
    SetDestination(MacAddr),
    /// Rewrites the source MAC.
    SetSource(MacAddr),
    /// Notes that the flow visits a local instance at a position, to be recalled when it comes out
    /// of this port. `local` counts the path's local instances.
    Remember { egress: PortIndex, visited: PathPosition, local: u32 },
    /// Puts the header of a path in front, for another node.
    PushPath(PathPosition),
    /// Puts an Ethernet header and the header of a path in front, for a function that reads it.
    PushPathOverEthernet { destination: MacAddr, position: PathPosition },
    /// Puts the header of a tenant network in front.
    PushNetwork(Vni),
}

/// Where the packet leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// By a port of this node.
    Port(PortIndex),
    /// To another node, by the tunnel that the pushed header belongs to.
    Node(NodeIndex),
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

/// What to do with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transform {
    operations: [Option<Operation>; OPERATIONS_MAX],
    pub(crate) exit: Exit,
    pub(crate) stage: Stage,
    pub(crate) epoch: Epoch,
}

impl Transform {
    pub(crate) fn new(exit: Exit, stage: Stage, epoch: Epoch) -> Self {
        Self { operations: [None; OPERATIONS_MAX], exit, stage, epoch }
    }

    /// Adds an operation behind the others.
    pub(crate) fn then(mut self, operation: Operation) -> Self {
        let free = self.operations.iter_mut().find(|place| place.is_none());
        debug_assert!(free.is_some(), "a transform has at most {OPERATIONS_MAX} operations");
        if let Some(place) = free {
            *place = Some(operation);
        }
        self
    }

    /// The port that the packet will come out of, if the proxy is to know it again there.
    pub(crate) fn remembered_at(self) -> Option<PortIndex> {
        self.operations().find_map(|operation| match operation {
            Operation::Remember { egress, .. } => Some(egress),
            _ => None,
        })
    }

    pub(crate) fn operations(self) -> impl Iterator<Item = Operation> {
        self.operations.into_iter().flatten()
    }
}

/// The outcome of the slow path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Transform and send.
    Forward(Transform),
    /// Send a copy to every port of the network but the source, and, unless it came from one, to
    /// every other node.
    Replicate { network: NetworkIndex, from: Source },
    /// End here, known to be for the data plane itself.
    Consume,
    /// End here.
    Drop(DropReason),
}
