//! The ways between other nodes that headers over several functions lead along: who needs them, by the hops of paths.
//! Knows hops; refuses to know ways, numbers and what a header holds.

use crate::counts::{Counts, Edit, edit_within};
use crate::intent::{Table, differences};
use catena_model::NodeName;
use catena_model::id::PortId;
use catena_model::program::HopEntry;
use catena_model::source_route::behind;
use std::collections::BTreeSet;

/// A way that a node's headers may hold behind another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Onward {
    /// Who writes the headers.
    pub(crate) holder: NodeName,
    /// Where it begins.
    pub(crate) from: NodeName,
    pub(crate) to: NodeName,
    /// That frames come out of there.
    pub(crate) port: PortId,
}

/// The ways that headers hold behind the one to a hop, which these write. Where any host does, none of them is told of
/// all ways of such chains: their headers lead to the first function, whose node knows on.
pub(crate) fn onward(
    hops: &[HopEntry],
    place: usize,
    writers: &BTreeSet<Option<&NodeName>>,
) -> BTreeSet<Onward> {
    let mut ways = BTreeSet::new();
    let mut last = &hops[place];
    for next in behind(hops, place) {
        let hop = &hops[next];
        for (from, to) in
            last.instances.iter().flat_map(|one| hop.instances.iter().map(move |to| (one, to)))
        {
            let writers = writers.iter().flatten().filter(|writer| **writer != &from.node);
            ways.extend(writers.map(|writer| Onward {
                holder: (*writer).clone(),
                from: from.node.clone(),
                to: to.node.clone(),
                port: to.ingress,
            }));
        }
        last = hop;
    }
    ways
}

/// Those of all paths. A copy costs nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Onwards {
    by_port: Table<PortId, Counts<Onward>>,
    by_start: Table<NodeName, Counts<Onward>>,
}

impl Onwards {
    pub(crate) fn edit(&mut self, edit: Edit, way: Onward) {
        let (from, port) = (way.from.clone(), way.port);
        edit_within(&mut self.by_start, edit, &from, way.clone());
        edit_within(&mut self.by_port, edit, &port, way);
    }

    /// Is it one of them?
    pub(crate) fn has(&self, way: &Onward) -> bool {
        self.by_port.get(&way.port).is_some_and(|ways| ways.of(way) > 0)
    }

    /// Those to a port.
    pub(crate) fn to(&self, port: PortId) -> impl Iterator<Item = &Onward> {
        self.by_port.get(&port).into_iter().flat_map(Counts::iter).map(|(way, _)| way)
    }

    /// Those that begin at a node.
    pub(crate) fn from(&self, node: &NodeName) -> impl Iterator<Item = &Onward> {
        self.by_start.get(node).into_iter().flat_map(Counts::iter).map(|(way, _)| way)
    }

    /// The ports that differ. Costs what differs.
    pub(crate) fn changed_ports(&self, other: &Self) -> BTreeSet<PortId> {
        differences(&self.by_port, &other.by_port).map(|(port, ..)| *port).collect()
    }
}
