//! The ways between nodes that send to one another, as they are remembered: one that leads over cables that are there
//! stays what it is, whatever else comes or goes. Knows cables and pairs of nodes; refuses to know chains.

mod follow;

use crate::atlas::Atlas;
use crate::cables::{Cables, loads};
use crate::inventory::Inventory;
use crate::route::{Leg, RouteError, way};
use crate::topology::{NodeKind, Topology, mark};
use catena_model::NodeName;
use catena_model::topology::{Cable, CableEnd, NodeRole, PortNumber};
pub(crate) use follow::{Followed, Former, follow, put};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The ways from one node, by where they end: the ports by which a frame leaves the nodes on them, in order.
pub type NodeWays = BTreeMap<NodeName, Vec<CableEnd>>;

/// Those from every node that sends. A copy costs as much as there are nodes.
pub type WayBooks = BTreeMap<NodeName, Arc<NodeWays>>;

/// The nodes with a way that leaves a node by a port.
pub(crate) fn nodes_over<'w>(
    books: &'w WayBooks,
    end: &'w CableEnd,
) -> impl Iterator<Item = &'w NodeName> {
    let leads_over = move |ways: &NodeWays| ways.values().flatten().any(|leg| leg == end);
    books.iter().filter(move |(_, ways)| leads_over(ways)).map(|(node, _)| node)
}

/// The port numbers of a way.
pub(crate) fn numbers<'w>(
    books: &'w WayBooks,
    from: &NodeName,
    to: &NodeName,
) -> Option<impl Iterator<Item = PortNumber> + 'w> {
    let legs = books.get(from)?.get(to)?;
    Some(legs.iter().map(|leg| leg.port))
}

/// What ways are made of.
pub(crate) struct Roads<'r> {
    cables: &'r Cables,
    inventory: &'r Inventory,
    /// Chooses between ways that are alike.
    seed: u64,
    atlas: Atlas,
    /// Where these lead nowhere: some that are doubted are among them.
    others: Option<&'r Cables>,
}

impl<'r> Roads<'r> {
    /// The atlas must be of these cables and this inventory, or new.
    pub(crate) fn new(
        cables: &'r Cables,
        inventory: &'r Inventory,
        seed: u64,
        atlas: Atlas,
    ) -> Self {
        Self { cables, inventory, seed, atlas, others: None }
    }

    /// Where no way leads over its own cables, one over these is better than none.
    pub(crate) fn or_by(self, others: &'r Cables) -> Self {
        Self { others: Some(others).filter(|others| others.len() > self.cables.len()), ..self }
    }

    pub(crate) fn cables(&self) -> &'r Cables {
        self.cables
    }

    /// What chooses between ways from a node to another that are alike.
    pub(crate) fn tie(&self, from: &NodeName, to: &NodeName) -> u64 {
        self.seed ^ mark(from) ^ mark(to).rotate_left(1)
    }

    pub(crate) fn topology(&self) -> &Topology {
        self.atlas.topology(|| self.topology_of(self.cables))
    }

    fn topology_of(&self, cables: &Cables) -> Topology {
        let kind = |role| NodeKind { role, is_edge: false };
        let nodes = self.inventory.all().map(|(node, role, _)| (node.clone(), kind(role)));
        let loads = loads(&self.inventory.told);
        let load = |end: &CableEnd| loads.get(&(&end.node, end.port)).copied();
        let cables = cables.iter().map(|ends| Cable {
            load_permille: ends.iter().filter_map(load).max().unwrap_or_default(),
            ends: ends.clone(),
            is_up: true,
        });
        Topology::new(&nodes.collect(), &cables.collect::<Vec<_>>()).0
    }

    /// The way from a node to another.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn way(&self, from: &NodeName, to: &NodeName) -> Result<Vec<CableEnd>, RouteError> {
        let end = |Leg { node, port, .. }| CableEnd { node, port };
        let tie = self.tie(from, to);
        let found = self.atlas.way(self.topology(), (from, to), tie);
        let legs = match (found, self.others) {
            (Err(RouteError::NoWay { .. }), Some(others)) => {
                way(&self.topology_of(others), from, to, tie)
            }
            (found, _) => found,
        }?;
        Ok(legs.into_iter().map(end).collect())
    }

    /// Is there a way of fewer cables than these?
    pub(crate) fn has_shorter(&self, from: &NodeName, to: &NodeName, legs: &[CableEnd]) -> bool {
        let cables = self.atlas.cables(self.topology(), from, to);
        cables.is_some_and(|cables| cables < legs.len())
    }

    /// Is each cable of a way there, and each node between a switch?
    fn carries(
        &self,
        far_ends: &BTreeMap<&CableEnd, &CableEnd>,
        (from, to): (&NodeName, &NodeName),
        legs: &[CableEnd],
    ) -> bool {
        let mut at = from;
        for leg in legs {
            let passes = at == from || self.inventory.role(at) == Some(NodeRole::Switch);
            match far_ends.get(leg).filter(|_| leg.node == *at && passes) {
                Some(far) => at = &far.node,
                None => return false,
            }
        }
        at == to
    }
}
