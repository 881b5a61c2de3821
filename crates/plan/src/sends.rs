//! Who sends packets of paths on source routes to which port of which node. Knows hops and classifiers; refuses to
//! know ways and numbers.

use crate::counts::{Counts, Edit, edit_within};
use crate::intent::{Table, differences};
use crate::ledger::{PathRecord, PlacedRule};
use crate::onward::{Onward, Onwards, onward};
use catena_model::NodeName;
use catena_model::id::PortId;
use catena_model::program::{HopEntry, HopKind};
use catena_model::resource::FailurePolicy;
use std::collections::BTreeSet;

/// Packets go from one node to another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Sending {
    /// Where they come from; none: any host.
    pub(crate) from: Option<NodeName>,
    pub(crate) to: NodeName,
}

impl Sending {
    /// Does it begin at this node?
    pub(crate) fn is_from(&self, node: &NodeName) -> bool {
        self.from.as_ref().map_or(self.to != *node, |from| from == node)
    }

    /// Every node that it begins at.
    pub(crate) fn origins<'s>(
        &'s self,
        everybody: impl Iterator<Item = &'s NodeName>,
    ) -> Vec<&'s NodeName> {
        match &self.from {
            Some(from) => vec![from],
            None => everybody.filter(|node| **node != self.to).collect(),
        }
    }
}

/// Where packets enter a path.
#[derive(Debug, Default)]
pub(crate) struct Starts<'s> {
    nodes: BTreeSet<&'s NodeName>,
    is_everywhere: bool,
}

impl<'s> Starts<'s> {
    /// Where rules stand.
    pub(crate) fn of_rules(rules: &'s [PlacedRule]) -> Self {
        Self {
            nodes: rules.iter().filter_map(|placed| placed.node.as_ref()).collect(),
            is_everywhere: rules.iter().any(|placed| placed.node.is_none()),
        }
    }

    fn of_path(path: &'s PathRecord) -> Self {
        let mut starts = Self::of_rules(&path.rules);
        starts.nodes.extend(path.entrances.iter().chain(&path.slices.nodes).chain(&path.holders));
        starts.is_everywhere |= path.slices.is_everywhere;
        starts
    }
}

impl PathRecord {
    /// Who sends its packets where, by the port that they come out of there.
    pub(crate) fn steps(&self) -> BTreeSet<(PortId, Sending)> {
        sends(&self.hops, &Starts::of_path(self))
    }

    /// The same of those that are in source routes.
    pub(crate) fn sends(&self) -> BTreeSet<(PortId, Sending)> {
        match self.encapsulation.is_source_route() {
            true => self.steps(),
            false => BTreeSet::new(),
        }
    }

    /// The nodes at which packets enter it.
    pub(crate) fn starts<'s>(
        &'s self,
        hosts: impl Iterator<Item = &'s NodeName>,
    ) -> BTreeSet<&'s NodeName> {
        let starts = Starts::of_path(self);
        let everywhere = hosts.filter(|_| starts.is_everywhere);
        everywhere.chain(starts.nodes.iter().copied()).collect()
    }

    /// The ways that headers of its packets hold behind the one to the first function that they lead to.
    pub(crate) fn onward(&self) -> BTreeSet<Onward> {
        if self.encapsulation.route_functions_max() < 2 {
            return BTreeSet::new();
        }
        let starts = Starts::of_path(self);
        let ways = |place| onward(&self.hops, place, &writers(&self.hops, place, &starts));
        (0..self.hops.len()).flat_map(ways).collect()
    }
}

/// Who sends packets where that pass these hops.
pub(crate) fn sends(hops: &[HopEntry], starts: &Starts<'_>) -> BTreeSet<(PortId, Sending)> {
    let mut sends = BTreeSet::new();
    for (place, hop) in hops.iter().enumerate() {
        let origins = origins(hops, place, starts);
        for instance in &hop.instances {
            let to = &instance.node;
            let from = origins.iter().filter(|from| **from != Some(to));
            sends.extend(
                from.map(|from| {
                    (instance.ingress, Sending { from: from.cloned(), to: to.clone() })
                }),
            );
        }
    }
    sends
}

/// The nodes at which packets may be before a hop; none among them: at every host.
fn origins<'s>(
    hops: &'s [HopEntry],
    place: usize,
    starts: &Starts<'s>,
) -> BTreeSet<Option<&'s NodeName>> {
    let mut origins = writers(hops, place, starts);
    let hop = &hops[place];
    if hop.on_failure != FailurePolicy::Unwatched && hop.instances.len() > 1 {
        // The node of a dead instance sends on to another of the same hop.
        origins.extend(nodes(hop));
    }
    origins
}

fn nodes(hop: &HopEntry) -> impl Iterator<Item = Option<&NodeName>> {
    hop.instances.iter().map(|instance| Some(&instance.node))
}

/// The nodes from which packets come to a hop; none among them: any host.
pub(crate) fn writers<'s>(
    hops: &'s [HopEntry],
    place: usize,
    starts: &Starts<'s>,
) -> BTreeSet<Option<&'s NodeName>> {
    let mut origins = BTreeSet::new();
    for before in hops[..place].iter().rev().filter(|before| before.kind == HopKind::Through) {
        origins.extend(nodes(before));
        if before.on_failure != FailurePolicy::Bypass {
            return origins;
        }
    }
    origins.extend(starts.nodes.iter().map(|node| Some(*node)));
    origins.extend(starts.is_everywhere.then_some(None));
    origins
}

/// The sends of all paths. A copy costs nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Sends {
    by_port: Table<PortId, Counts<Sending>>,
    /// How many of them each is.
    pairs: Counts<Sending>,
    /// The ports that packets come out of at each node.
    ports: Table<NodeName, Counts<PortId>>,
    /// Those that headers over several functions lead to.
    joined_ports: Table<NodeName, Counts<PortId>>,
    /// What each node sends to; none: every host.
    by_origin: Table<Option<NodeName>, Counts<(NodeName, PortId)>>,
    onward: Onwards,
}

impl Sends {
    pub(crate) fn edit(&mut self, edit: Edit, path: &PathRecord) {
        for (port, send) in path.sends() {
            let Sending { from, to } = send.clone();
            edit_within(&mut self.ports, edit, &to, port);
            edit_within(&mut self.by_origin, edit, &from, (to, port));
            self.pairs.edit(edit, send.clone());
            edit_within(&mut self.by_port, edit, &port, send);
        }
        for way in path.onward() {
            edit_within(&mut self.joined_ports, edit, &way.to, way.port);
            self.onward.edit(edit, way);
        }
    }

    /// Those that headers hold behind others.
    pub(crate) fn onward(&self) -> &Onwards {
        &self.onward
    }

    /// Those to a port.
    pub(crate) fn of(&self, port: PortId) -> impl Iterator<Item = &Sending> {
        self.by_port.get(&port).into_iter().flat_map(Counts::iter).map(|(send, _)| send)
    }

    /// What a node sends to, if it is a host whatever every host sends to as well.
    pub(crate) fn from<'s>(
        &'s self,
        node: &'s NodeName,
        is_host: bool,
    ) -> impl Iterator<Item = (&'s NodeName, PortId)> {
        let everywhere = self.by_origin.get(&None).filter(|_| is_host);
        let own = self.by_origin.get(&Some(node.clone()));
        let all = own.into_iter().chain(everywhere).flat_map(Counts::iter);
        all.map(|((to, port), _)| (to, *port)).filter(move |(to, _)| *to != node)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_port.is_empty()
    }

    /// Does anything go from the one to the other?
    pub(crate) fn has(&self, send: &Sending) -> bool {
        self.pairs.of(send) > 0
    }

    /// The ports that differ. Costs what differs.
    pub(crate) fn changed_ports(&self, other: &Self) -> BTreeSet<PortId> {
        differences(&self.by_port, &other.by_port).map(|(port, ..)| *port).collect()
    }

    /// Whoever sends to a node that did not before, or did before. Costs what differs.
    pub(crate) fn changed_pairs<'s>(
        &'s self,
        other: &'s Self,
    ) -> impl Iterator<Item = &'s Sending> {
        self.pairs.changed_keys(&other.pairs)
    }

    /// The nodes at which other ports than before have packets come out. Costs what differs.
    pub(crate) fn changed_nodes<'s>(&'s self, other: &'s Self) -> BTreeSet<&'s NodeName> {
        let joined = differences(&self.joined_ports, &other.joined_ports).map(|(node, ..)| node);
        differences(&self.ports, &other.ports).map(|(node, ..)| node).chain(joined).collect()
    }

    /// The ports of a node that only headers over several functions lead to, from functions beside.
    pub(crate) fn ports_beside(&self, node: &NodeName) -> BTreeSet<PortId> {
        let joined = self.joined_ports.get(node).into_iter().flat_map(Counts::iter);
        let needed = self.ports_at(node);
        joined.map(|(port, _)| *port).filter(|port| !needed.contains(port)).collect()
    }

    /// The ports that packets come out of at a node.
    pub(crate) fn ports_at(&self, node: &NodeName) -> BTreeSet<PortId> {
        self.ports.get(node).into_iter().flat_map(Counts::iter).map(|(port, _)| *port).collect()
    }

    /// Each pair of nodes of which one sends to the other, with these hosts.
    pub(crate) fn pairs<'s>(
        &'s self,
        everybody: &[&'s NodeName],
    ) -> BTreeSet<(&'s NodeName, &'s NodeName)> {
        let pairs = self.pairs.iter().flat_map(|(send, _)| {
            let origins = send.origins(everybody.iter().copied());
            origins.into_iter().map(|from| (from, &send.to)).collect::<Vec<_>>()
        });
        pairs.collect()
    }
}
