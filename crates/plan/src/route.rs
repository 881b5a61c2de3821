//! Ways between nodes, port by port: the shortest, of these the least loaded, of these one by a hash. Knows cables
//! and their load; refuses to know chains' rules and headers' bits.
//!
//! A switch passes on what comes by a link; a host passes on what is for its functions and no more, so a way leads
//! through switches alone.

mod detours;
mod pathlets;

pub use detours::{RouteDetour, detours};
pub use pathlets::{Border, pathlets};

use crate::topology::{NodeNumber, Topology};
use catena_model::NodeName;
use catena_model::topology::{NodeRole, PortNumber};
use std::collections::VecDeque;

/// A node and the port by which a frame leaves it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Leg {
    /// The node.
    pub node: NodeName,
    /// The port.
    pub port: PortNumber,
    /// It is that of a function, and no cable is plugged in.
    pub is_function: bool,
}

/// Where a chain stops on its way: at a node, and there at the port of a function, if it is for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stop {
    /// The node.
    pub node: NodeName,
    /// The port towards the function; none: the way begins or ends here.
    pub function: Option<PortNumber>,
    /// The function changes what instances are chosen by, so no header goes through it.
    pub rewrites: bool,
}

/// Why there is no way.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// Nobody knows the node.
    #[error("no node is called '{0}'")]
    Unknown(NodeName),
    /// No cables lead there.
    #[error(
        "no way leads from node '{from}' to node '{to}': no cable, or none that is up, joins them"
    )]
    NoWay {
        /// Where it would begin.
        from: NodeName,
        /// Where it would end.
        to: NodeName,
    },
}

/// The legs of a way between two nodes; none between a node and itself. `tie`: chooses between ways that are
/// alike.
///
/// # Errors
/// There is none.
pub fn way(
    topology: &Topology,
    from: &NodeName,
    to: &NodeName,
    tie: u64,
) -> Result<Vec<Leg>, RouteError> {
    let number =
        |node: &NodeName| topology.number(node).ok_or_else(|| RouteError::Unknown(node.clone()));
    let (start, end) = (number(from)?, number(to)?);
    let best = Best::towards(topology, end, start, tie);
    let no_way = || RouteError::NoWay { from: from.clone(), to: to.clone() };
    best.legs(topology, start).ok_or_else(no_way)
}

/// The legs of a chain over its stops, and where headers may begin.
///
/// # Errors
/// Two stops that follow one another have no way between them.
pub fn legs(
    topology: &Topology,
    stops: &[Stop],
    tie: u64,
) -> Result<(Vec<Leg>, Vec<Border>), RouteError> {
    let (mut legs, mut borders) = (Vec::new(), Vec::new());
    let mut is_behind_rewriter = false;
    for (from, to) in stops.iter().zip(stops.iter().skip(1)) {
        let between = way(topology, &from.node, &to.node, tie)?;
        let function =
            to.function.map(|port| Leg { node: to.node.clone(), port, is_function: true });
        for leg in between.into_iter().chain(function) {
            let is_edge = topology.number(&leg.node).is_some_and(|number| {
                let kind = topology.kind(number);
                kind.role == NodeRole::Host || kind.is_edge
            });
            borders.push(match (std::mem::take(&mut is_behind_rewriter), is_edge) {
                (true, _) => Border::Must,
                (false, true) => Border::May,
                (false, false) => Border::No,
            });
            legs.push(leg);
        }
        is_behind_rewriter = to.rewrites;
    }
    Ok((legs, borders))
}

/// What is best to reach one node from all others: by how many cables, with which load, and by which edge first.
struct Best {
    of: Vec<Option<Reach>>,
    end: NodeNumber,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Reach {
    cables: u32,
    load: u64,
    tie: u64,
    /// Place among the node's edges.
    edge: usize,
}

impl Best {
    /// The best of all nodes that are no further from the end than `start`.
    fn towards(topology: &Topology, end: NodeNumber, start: NodeNumber, tie: u64) -> Self {
        let mut best = Self { of: vec![None; topology.len()], end };
        let mut cables = vec![u32::MAX; topology.len()];
        cables[end as usize] = 0;
        let mut queue = VecDeque::from([end]);
        while let Some(node) = queue.pop_front() {
            if node != end {
                // All that are nearer have been seen.
                best.of[node as usize] = best.choose(topology, node, &cables, tie);
            }
            if node == start {
                break;
            }
            // Only a switch passes on.
            if node != end && topology.kind(node).role != NodeRole::Switch {
                continue;
            }
            for edge in topology.edges(node) {
                if cables[edge.to as usize] == u32::MAX {
                    cables[edge.to as usize] = cables[node as usize] + 1;
                    queue.push_back(edge.to);
                }
            }
        }
        best
    }

    fn choose(
        &self,
        topology: &Topology,
        node: NodeNumber,
        cables: &[u32],
        tie: u64,
    ) -> Option<Reach> {
        let own = cables[node as usize];
        let reaches = topology.edges(node).iter().enumerate().filter_map(|(place, edge)| {
            if cables[edge.to as usize] >= own || !self.passes(topology, edge.to) {
                return None;
            }
            let behind = self.of[edge.to as usize].map_or(0, |reach| reach.load);
            Some(Reach {
                cables: own,
                load: behind + u64::from(edge.load_permille),
                tie: topology.tie(node, edge.port, tie),
                edge: place,
            })
        });
        reaches.min()
    }

    fn passes(&self, topology: &Topology, node: NodeNumber) -> bool {
        node == self.end || topology.kind(node).role == NodeRole::Switch
    }

    fn legs(&self, topology: &Topology, start: NodeNumber) -> Option<Vec<Leg>> {
        let (mut node, mut legs) = (start, Vec::new());
        while node != self.end {
            let edge = topology.edges(node).get(self.of[node as usize]?.edge)?;
            let node_name = topology.name(node).clone();
            legs.push(Leg { node: node_name, port: edge.port, is_function: false });
            node = edge.to;
        }
        Some(legs)
    }
}

#[cfg(test)]
mod tests;
