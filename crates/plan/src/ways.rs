//! The ways between nodes that send to one another, as they are remembered: one that leads over cables that are there
//! stays what it is, whatever else comes or goes. Knows cables and pairs of nodes; refuses to know chains.

use crate::cables::{Cables, far_ends, loads};
use crate::inventory::Inventory;
use crate::route::{Leg, RouteError, way};
use crate::topology::{NodeKind, Topology, mark};
use catena_model::NodeName;
use catena_model::topology::{Cable, CableEnd, NodeRole, PortNumber};
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
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
    topology: OnceCell<Topology>,
}

impl<'r> Roads<'r> {
    pub(crate) fn new(cables: &'r Cables, inventory: &'r Inventory, seed: u64) -> Self {
        Self { cables, inventory, seed, topology: OnceCell::new() }
    }

    pub(crate) fn cables(&self) -> &'r Cables {
        self.cables
    }

    /// What chooses between ways from a node to another that are alike.
    pub(crate) fn tie(&self, from: &NodeName, to: &NodeName) -> u64 {
        self.seed ^ mark(from) ^ mark(to).rotate_left(1)
    }

    pub(crate) fn topology(&self) -> &Topology {
        self.topology.get_or_init(|| {
            let kind = |role| NodeKind { role, is_edge: false };
            let nodes = self.inventory.all().map(|(node, role, _)| (node.clone(), kind(role)));
            let loads = loads(&self.inventory.told);
            let load = |end: &CableEnd| loads.get(&(&end.node, end.port)).copied();
            let cables = self.cables.iter().map(|ends| Cable {
                load_permille: ends.iter().filter_map(load).max().unwrap_or_default(),
                ends: ends.clone(),
                is_up: true,
            });
            Topology::new(&nodes.collect(), &cables.collect::<Vec<_>>()).0
        })
    }

    /// The way from a node to another.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn way(&self, from: &NodeName, to: &NodeName) -> Result<Vec<CableEnd>, RouteError> {
        let end = |Leg { node, port, .. }| CableEnd { node, port };
        Ok(way(self.topology(), from, to, self.tie(from, to))?.into_iter().map(end).collect())
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

/// Brings the ways to those that are needed. A former one stays while its cables are there, unless a cable that came
/// makes a shorter one; has one come (`has_grown`)? Answers how many were looked for.
pub(crate) fn follow(
    books: &mut WayBooks,
    pairs: &BTreeSet<(&NodeName, &NodeName)>,
    roads: &Roads<'_>,
    has_grown: bool,
) -> usize {
    let far_ends = far_ends(roads.cables);
    let mut found: BTreeMap<&NodeName, NodeWays> = BTreeMap::new();
    let mut searches = 0;
    for (from, to) in pairs {
        let former = books.get(*from).and_then(|ways| ways.get(*to));
        let former = former.filter(|legs| roads.carries(&far_ends, (from, to), legs));
        let stays = former.filter(|_| !has_grown).cloned();
        let legs = stays.or_else(|| {
            searches += 1;
            let best = roads.way(from, to).ok();
            let is_as_short =
                |legs: &&Vec<CableEnd>| best.as_ref().is_none_or(|best| best.len() >= legs.len());
            former.filter(is_as_short).cloned().or(best)
        });
        if let Some(legs) = legs {
            found.entry(*from).or_default().insert((*to).clone(), legs);
        }
    }
    books.retain(|node, _| found.contains_key(node));
    for (node, ways) in found {
        if books.get(node).is_none_or(|known| **known != ways) {
            books.insert(node.clone(), Arc::new(ways));
        }
    }
    searches
}
