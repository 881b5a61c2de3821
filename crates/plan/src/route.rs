//! Ways between nodes, port by port: the shortest, of these the least loaded, of these one by a hash. Knows cables
//! and their load; refuses to know chains' rules and headers' bits.
//!
//! A switch passes on what comes by a link; a host passes on what is for its functions and no more, so a way leads
//! through switches alone.

mod detours;
mod pathlets;
mod search;

pub use detours::{RouteDetour, detours};
pub use pathlets::{Border, pathlets};
pub(crate) use search::Search;

use crate::topology::{NodeKind, Topology};
use catena_model::NodeName;
use catena_model::topology::{NodeRole, PortNumber};

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
    let no_way = || RouteError::NoWay { from: from.clone(), to: to.clone() };
    Search::towards(topology, end).legs(topology, start, tie).ok_or_else(no_way)
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
            let kind = topology.number(&leg.node).map(|number| topology.kind(number));
            borders.push(match (std::mem::take(&mut is_behind_rewriter), kind) {
                (true, _) => Border::Must,
                (false, Some(NodeKind { role: NodeRole::Host, .. })) => Border::May,
                (false, Some(NodeKind { is_edge: true, .. })) => Border::Named,
                (false, _) => Border::No,
            });
            legs.push(leg);
        }
        is_behind_rewriter = to.rewrites;
    }
    Ok((legs, borders))
}

#[cfg(test)]
mod tests;
