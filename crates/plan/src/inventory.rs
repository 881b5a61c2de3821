//! What is known about the nodes at the moment of planning.

use crate::cables::ToldLinks;
use catena_model::capacity::Capacity;
use catena_model::id::{InstanceId, PortId};
use catena_model::program::{
    LOCATORS_SINCE_PROTOCOL, LocatorEntry, SegmentPlace, Underlay, VIA_SINCE_PROTOCOL,
};
use catena_model::source_route::{
    EDGES_SINCE_PROTOCOL, GIVES_SINCE_PROTOCOL, PASSES_SINCE_PROTOCOL, RESTS_SINCE_PROTOCOL,
};
use catena_model::telemetry::{DeviceId, TELEMETRY_SINCE_PROTOCOL};
use catena_model::topology::{NodePlace, NodeRole};
use catena_model::{BlueprintNumber, NodeName, PathId};
use imbl::OrdSet;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// One node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFacts {
    /// Its place on the data network.
    pub underlay: Underlay,
    /// Its place in the IPv6 underlay, if it has one.
    pub segments: Option<SegmentPlace>,
    /// The version of the protocol that it spoke last; 0: nobody has written it down.
    pub protocol: u32,
    /// Was it marked as an edge? Of switches alone.
    pub is_edge: bool,
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
    /// What it has for instances; none: it has not said since the controller is there.
    pub capacity: Option<Arc<Capacity>>,
}

impl NodeFacts {
    /// A node that has just been met.
    #[must_use]
    pub fn new(underlay: Underlay) -> Self {
        Self {
            underlay,
            segments: None,
            protocol: 0,
            is_edge: false,
            is_connected: false,
            acknowledged: BlueprintNumber::default(),
            bound: OrdSet::new(),
            unbound: BTreeMap::new(),
            refusal: None,
            links: None,
            capacity: None,
        }
    }

    /// Does the node keep what is left of a header while a function of its has the packet?
    #[must_use]
    pub const fn keeps_rests(&self) -> bool {
        self.protocol >= RESTS_SINCE_PROTOCOL
    }

    /// Does the node give functions that read source routes their header?
    #[must_use]
    pub const fn gives_headers(&self) -> bool {
        self.protocol >= GIVES_SINCE_PROTOCOL
    }

    /// Does the node begin the next pass with what is left of a number of a way?
    #[must_use]
    pub const fn begins_passes(&self) -> bool {
        self.protocol >= PASSES_SINCE_PROTOCOL
    }

    /// May headers end at the switch, which writes the next ones?
    #[must_use]
    pub const fn writes_headers(&self) -> bool {
        self.is_edge && self.protocol >= EDGES_SINCE_PROTOCOL
    }

    /// What nodes are told of its place in the IPv6 underlay, if they and it know of such places, and of its number in
    /// telemetry, if it writes any.
    pub(crate) fn locator(
        &self,
        node: &NodeName,
        device: Option<DeviceId>,
    ) -> Option<LocatorEntry> {
        let place = self.segments.filter(|_| self.knows_locators())?;
        let device = device.filter(|_| self.knows_telemetry());
        Some(LocatorEntry { node: node.clone(), place, device })
    }

    /// Does the node know where segments lead?
    pub(crate) const fn knows_locators(&self) -> bool {
        self.protocol >= LOCATORS_SINCE_PROTOCOL
    }

    /// Does the node lead packets over segments of others?
    pub(crate) const fn knows_via(&self) -> bool {
        self.protocol >= VIA_SINCE_PROTOCOL
    }

    /// Does the node write of packets, and carry on what others wrote?
    pub(crate) const fn knows_telemetry(&self) -> bool {
        self.protocol >= TELEMETRY_SINCE_PROTOCOL
    }

    /// What must be known of the node while it is away.
    #[must_use]
    pub const fn place(&self, role: NodeRole) -> NodePlace {
        let Self { underlay, segments, protocol, is_edge, .. } = *self;
        NodePlace { underlay, segments, role, protocol, is_edge }
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
            inventory.place(node.clone(), place);
            inventory.mark(&node, place.is_edge);
        }
        inventory
    }

    /// Puts a node where it is now: whether it is an edge, it does not know. Answers whether it was elsewhere, or
    /// nowhere, or spoke otherwise.
    pub(crate) fn place(
        &mut self,
        node: NodeName,
        NodePlace { underlay, segments, role, protocol, .. }: NodePlace,
    ) -> bool {
        let (own, other) = match role {
            NodeRole::Host => (&mut self.nodes, &mut self.switches),
            NodeRole::Switch => (&mut self.switches, &mut self.nodes),
        };
        other.remove(&node);
        let facts = own.entry(node);
        let is_known = matches!(facts, Entry::Occupied(_));
        let facts = facts.or_insert_with(|| NodeFacts::new(underlay));
        let now = (underlay, segments, protocol);
        let is_new = !is_known || (facts.underlay, facts.segments, facts.protocol) != now;
        (facts.underlay, facts.segments, facts.protocol) = now;
        is_new
    }

    /// Marks a switch as an edge, or takes the mark off. Answers the switch if that is new.
    pub(crate) fn mark(&mut self, node: &NodeName, is_edge: bool) -> Option<&NodeFacts> {
        let facts = self.switches.get_mut(node).filter(|facts| facts.is_edge != is_edge)?;
        facts.is_edge = is_edge;
        Some(facts)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_speaks_otherwise_than_before_is_to_be_written_down_anew() {
        let name = NodeName::new("leaf1").unwrap();
        let place = |role, protocol| NodePlace {
            underlay: Underlay::default(),
            role,
            protocol,
            is_edge: false,
            segments: None,
        };
        let mut inventory = Inventory::default();
        let marked = NodePlace { is_edge: true, ..place(NodeRole::Switch, 8) };
        let resumed = Inventory::of([(name.clone(), marked)]);
        assert!(resumed.facts(&name).unwrap().is_edge && !resumed.switches[&name].writes_headers());
        let mut is_new = |place| inventory.place(name.clone(), place);
        assert!(is_new(place(NodeRole::Switch, 8)) && !is_new(place(NodeRole::Switch, 8)));
        assert!(is_new(place(NodeRole::Switch, 9)) && is_new(place(NodeRole::Host, 9)));
        assert_eq!(inventory.facts(&name).unwrap().place(NodeRole::Host), place(NodeRole::Host, 9));
        // As it was written down before anybody told.
        let stored = serde_json::to_value(place(NodeRole::Host, 0)).unwrap();
        let mut former = stored.clone();
        former.as_object_mut().unwrap().remove("protocol");
        assert_ne!(former, stored);
        assert_eq!(serde_json::from_value::<NodePlace>(former).unwrap().protocol, 0);
    }
}
