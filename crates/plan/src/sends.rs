//! Who sends packets of paths on source routes to which port of which node. Knows hops and classifiers; refuses to
//! know ways and numbers.

use crate::counts::{Counts, Edit};
use crate::intent::{Table, differences};
use crate::ledger::{PathRecord, PlacedRule};
use catena_model::NodeName;
use catena_model::id::PortId;
use catena_model::program::{HopEntry, HopKind};
use catena_model::resource::FailurePolicy;
use std::collections::{BTreeMap, BTreeSet};

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
    let nodes = |hop: &'s HopEntry| hop.instances.iter().map(|instance| Some(&instance.node));
    let mut origins = BTreeSet::new();
    let hop = &hops[place];
    if hop.on_failure != FailurePolicy::Unwatched && hop.instances.len() > 1 {
        // The node of a dead instance sends on to another of the same hop.
        origins.extend(nodes(hop));
    }
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

/// The sends of all paths, by port. A copy costs nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Sends(Table<PortId, Counts<Sending>>);

impl Sends {
    pub(crate) fn edit(&mut self, edit: Edit, path: &PathRecord) {
        for (port, send) in path.sends() {
            let of_port = self.0.entry(port).or_default();
            of_port.edit(edit, send);
            if of_port.is_empty() {
                self.0.remove(&port);
            }
        }
    }

    /// Those to a port.
    pub(crate) fn of(&self, port: PortId) -> impl Iterator<Item = &Sending> {
        self.0.get(&port).into_iter().flat_map(Counts::iter).map(|(send, _)| send)
    }

    /// All, with the ports that they lead to.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (PortId, &Sending)> {
        self.0.iter().flat_map(|(port, sends)| sends.iter().map(|(send, _)| (*port, send)))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The ports that differ. Costs what differs.
    pub(crate) fn changed_ports(&self, other: &Self) -> BTreeSet<PortId> {
        differences(&self.0, &other.0).map(|(port, ..)| *port).collect()
    }

    /// The ports that packets come out of at each node.
    pub(crate) fn ports_by_node(&self) -> BTreeMap<&NodeName, BTreeSet<PortId>> {
        let mut found: BTreeMap<_, BTreeSet<PortId>> = BTreeMap::new();
        for (port, send) in self.iter() {
            found.entry(&send.to).or_default().insert(port);
        }
        found
    }

    /// Each pair of nodes of which one sends to the other, with these hosts.
    pub(crate) fn pairs<'s>(
        &'s self,
        everybody: &[&'s NodeName],
    ) -> BTreeSet<(&'s NodeName, &'s NodeName)> {
        let sends: BTreeSet<&Sending> = self.iter().map(|(_, send)| send).collect();
        let pairs = sends.into_iter().flat_map(|send| {
            let origins = send.origins(everybody.iter().copied());
            origins.into_iter().map(|from| (from, &send.to)).collect::<Vec<_>>()
        });
        pairs.collect()
    }
}
