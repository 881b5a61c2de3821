//! What is known about the nodes at the moment of planning.

use crate::cables::ToldLinks;
use catena_model::id::{InstanceId, PortId};
use catena_model::program::Underlay;
use catena_model::topology::{NodePlace, NodeRole};
use catena_model::{BlueprintNumber, NodeName, PathId};
use imbl::OrdSet;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

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
    /// Its interfaces that are links between nodes; none: it has not said yet.
    pub links: Option<Arc<BTreeSet<String>>>,
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
            links: None,
        }
    }
}

/// All nodes that have ever connected, and what is known of paths. What is said of nodes in general is said of
/// hosts: a switch has no port of a tenant, so no path, no network and no slice is at one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    /// The hosts.
    pub nodes: BTreeMap<NodeName, NodeFacts>,
    /// The switches.
    pub switches: BTreeMap<NodeName, NodeFacts>,
    /// Superseded paths that hold no packet any more.
    pub drained: BTreeSet<PathId>,
    /// Superseded paths on which no classifier shall keep flows any more: they have ended, or their
    /// bound has passed.
    pub unpinned: BTreeSet<PathId>,
    /// Instances that were seen to change bytes by which their packets could be told apart.
    pub rewriting: BTreeSet<InstanceId>,
    /// Blueprints that turned away from paths of slices which hold no packet any more.
    pub slices_drained: BTreeSet<BlueprintNumber>,
    /// What nodes told of their links last.
    pub told: ToldLinks,
}

impl Inventory {
    /// With these nodes, none of which is connected.
    pub(crate) fn of(places: impl IntoIterator<Item = (NodeName, NodePlace)>) -> Self {
        let mut inventory = Self::default();
        for (node, place) in places {
            inventory.place(node, place);
        }
        inventory
    }

    /// Puts a node where it is now. Answers whether it was elsewhere, or nowhere.
    pub(crate) fn place(
        &mut self,
        node: NodeName,
        NodePlace { underlay, role }: NodePlace,
    ) -> bool {
        let (own, other) = match role {
            NodeRole::Host => (&mut self.nodes, &mut self.switches),
            NodeRole::Switch => (&mut self.switches, &mut self.nodes),
        };
        other.remove(&node);
        match own.get_mut(&node) {
            Some(facts) if facts.underlay == underlay => return false,
            Some(facts) => facts.underlay = underlay,
            None => {
                own.insert(node, NodeFacts::new(underlay));
            }
        }
        true
    }

    /// What is known of a node, whatever it is for.
    #[must_use]
    pub fn facts(&self, node: &NodeName) -> Option<&NodeFacts> {
        self.nodes.get(node).or_else(|| self.switches.get(node))
    }

    /// What a node is for; none: nobody knows it.
    #[must_use]
    pub fn role(&self, node: &NodeName) -> Option<NodeRole> {
        let is_switch = || self.switches.contains_key(node).then_some(NodeRole::Switch);
        self.nodes.contains_key(node).then_some(NodeRole::Host).or_else(is_switch)
    }

    pub(crate) fn facts_mut(&mut self, node: &NodeName) -> Option<&mut NodeFacts> {
        self.nodes.get_mut(node).or_else(|| self.switches.get_mut(node))
    }

    /// Every node with what it is for, hosts first.
    pub fn all(&self) -> impl Iterator<Item = (&NodeName, NodeRole, &NodeFacts)> {
        let hosts = self.nodes.iter().map(|(node, facts)| (node, NodeRole::Host, facts));
        let switches = self.switches.iter().map(|(node, facts)| (node, NodeRole::Switch, facts));
        hosts.chain(switches)
    }

    pub(crate) fn remove(&mut self, node: &NodeName) {
        self.nodes.remove(node);
        self.switches.remove(node);
        self.told.remove(node);
    }

    /// Has the node ever connected, whatever for, and not been forgotten since?
    pub(crate) fn knows(&self, node: &NodeName) -> bool {
        self.facts(node).is_some()
    }

    /// Has the node turned away by this blueprint, or is it none that could send?
    pub(crate) fn has_let_go(&self, node: &NodeName, number: BlueprintNumber) -> bool {
        !self.knows(node) || self.has_acknowledged(node, number)
    }

    /// Has the node acknowledged this blueprint or a later one? Of a host that has become a switch, one that
    /// tells it of no path.
    pub fn has_acknowledged(&self, node: &NodeName, number: BlueprintNumber) -> bool {
        self.facts(node).is_some_and(|facts| facts.acknowledged >= number)
    }
}
