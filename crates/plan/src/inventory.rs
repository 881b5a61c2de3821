//! What is known about the nodes at the moment of planning.

use catena_model::id::{InstanceId, PortId};
use catena_model::program::Underlay;
use catena_model::{BlueprintNumber, NodeName, PathId};
use imbl::OrdSet;
use std::collections::{BTreeMap, BTreeSet};

/// One node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFacts {
    /// Its place on the data network.
    pub underlay: Underlay,
    /// Is its agent connected now?
    pub is_connected: bool,
    /// The newest program it acknowledged.
    pub acknowledged: BlueprintNumber,
    /// Ports that have an interface there.
    pub bound: OrdSet<PortId>,
    /// Why other ports have none, in the agent's words.
    pub unbound: BTreeMap<PortId, String>,
    /// Why it refused its last program, if it did.
    pub refusal: Option<String>,
}

impl NodeFacts {
    /// A node that has just been met.
    #[must_use]
    pub fn new(underlay: Underlay) -> Self {
        Self {
            underlay,
            is_connected: false,
            acknowledged: BlueprintNumber::default(),
            bound: OrdSet::new(),
            unbound: BTreeMap::new(),
            refusal: None,
        }
    }
}

/// All nodes that have ever connected, and what is known of paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    /// The nodes.
    pub nodes: BTreeMap<NodeName, NodeFacts>,
    /// Superseded paths that hold no packet any more.
    pub drained: BTreeSet<PathId>,
    /// Superseded paths on which no classifier shall keep flows any more: they have ended, or their
    /// bound has passed.
    pub unpinned: BTreeSet<PathId>,
    /// Instances that were seen to change bytes by which their packets could be told apart.
    pub rewriting: BTreeSet<InstanceId>,
    /// Blueprints that turned away from paths of slices which hold no packet any more.
    pub slices_drained: BTreeSet<BlueprintNumber>,
}

impl Inventory {
    /// Has the node ever connected, and not been forgotten since?
    pub(crate) fn knows(&self, node: &NodeName) -> bool {
        self.nodes.contains_key(node)
    }

    /// Has the node turned away by this blueprint, or is it none that could send?
    pub(crate) fn has_let_go(&self, node: &NodeName, number: BlueprintNumber) -> bool {
        !self.knows(node) || self.has_acknowledged(node, number)
    }

    /// Has the node acknowledged this blueprint or a later one?
    pub fn has_acknowledged(&self, node: &NodeName, number: BlueprintNumber) -> bool {
        self.nodes.get(node).is_some_and(|facts| facts.acknowledged >= number)
    }
}
