//! The graph of cables and what was found in it, kept as long as cables, nodes and loads are what they were. Knows who
//! was looked for; refuses to know who needs a way.

use crate::route::{Leg, RouteError, Search};
use crate::topology::{NodeNumber, Topology};
use catena_model::NodeName;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Searches that are kept; one has a number for each node.
const SEARCHES_MAX: usize = 1_024;

/// A copy shares what was found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Atlas(Arc<Found>);

#[derive(Debug, Default)]
struct Found {
    topology: OnceLock<Topology>,
    /// By the node where ways end.
    searches: Mutex<BTreeMap<NodeNumber, Arc<Search>>>,
}

impl PartialEq for Atlas {
    /// It follows from what is beside it.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Atlas {
    /// The graph; `make` makes it where nobody has yet.
    pub(crate) fn topology(&self, make: impl FnOnce() -> Topology) -> &Topology {
        self.0.topology.get_or_init(make)
    }

    /// The way between two nodes of the graph; `tie` chooses between ways that are alike.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn way(
        &self,
        topology: &Topology,
        (from, to): (&NodeName, &NodeName),
        tie: u64,
    ) -> Result<Vec<Leg>, RouteError> {
        let (start, search) = self.towards(topology, from, to)?;
        let no_way = || RouteError::NoWay { from: from.clone(), to: to.clone() };
        search.legs(topology, start, tie).ok_or_else(no_way)
    }

    /// How many cables the shortest way between two nodes has; none: there is no way.
    pub(crate) fn cables(
        &self,
        topology: &Topology,
        from: &NodeName,
        to: &NodeName,
    ) -> Option<usize> {
        let (start, search) = self.towards(topology, from, to).ok()?;
        search.cables(start)
    }

    /// One search for all that ask for ways to a node.
    fn towards(
        &self,
        topology: &Topology,
        from: &NodeName,
        to: &NodeName,
    ) -> Result<(NodeNumber, Arc<Search>), RouteError> {
        let number = |node: &NodeName| {
            topology.number(node).ok_or_else(|| RouteError::Unknown(node.clone()))
        };
        let (start, end) = (number(from)?, number(to)?);
        let mut searches = self.0.searches.lock().unwrap_or_else(PoisonError::into_inner);
        if searches.len() == SEARCHES_MAX && !searches.contains_key(&end) {
            searches.clear();
        }
        let search =
            searches.entry(end).or_insert_with(|| Arc::new(Search::towards(topology, end)));
        Ok((start, Arc::clone(search)))
    }
}
