//! What the links on the ways of a path lost while it drained. No node between knows a path, so it is told by links,
//! and whoever's packets they were; packets of the path itself are counted at its ends alone.

use super::{Asked, Counted};
use crate::blueprint::Blueprint;
use crate::inventory::Inventory;
use crate::ledger::{Ledger, PathRecord};
use catena_model::account::PortCounters;
use catena_model::losses::{LinkLoss, LinkLosses};
use catena_model::topology::PortNumber;
use catena_model::{BlueprintNumber, DropReason, NodeCounters, NodeName};
use std::collections::{BTreeMap, BTreeSet};

/// What one link had lost, by name, and for want of room in its ring.
#[derive(Clone, Debug, Default)]
struct Lost {
    dropped: BTreeMap<DropReason, u64>,
    ring_full: u64,
}

/// What the links of a node had lost when it was asked first.
#[derive(Clone, Debug)]
struct Before {
    links: BTreeMap<PortNumber, Lost>,
    /// How long its data plane had been running: one that began anew counts from nothing.
    up_ms: u64,
}

/// The nodes that the packets of one path may have passed.
#[derive(Clone, Debug, Default)]
pub(super) struct Between {
    /// Those that the ways of these blueprints lead over: while a path drains they may turn.
    nodes: BTreeSet<NodeName>,
    links: BTreeMap<NodeName, BTreeSet<PortNumber>>,
    of: Option<BlueprintNumber>,
    /// What those had lost that have been asked once; none: they did not answer.
    before: BTreeMap<NodeName, Option<Before>>,
}

impl Between {
    /// Takes the ways as they are now.
    pub(super) fn observe(
        &mut self,
        blueprint: &Blueprint,
        inventory: &Inventory,
        path: &PathRecord,
    ) {
        let ledger = &blueprint.ledger;
        if !path.encapsulation.is_source_route()
            || self.of.replace(ledger.number) == Some(ledger.number)
        {
            return;
        }
        self.nodes.extend(nodes_on_ways(ledger, inventory, path));
        for node in &self.nodes {
            let numbers = ledger.port_numbers.get(node).into_iter();
            let links = numbers.flat_map(|book| book.links().map(|(_, number)| number));
            self.links.entry(node.clone()).or_default().extend(links);
        }
    }

    /// Does the path go by no links at all?
    pub(super) fn is_nobody(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Has any of them never been asked?
    pub(super) fn has_new(&self) -> bool {
        self.nodes.iter().any(|node| !self.before.contains_key(node))
    }

    pub(super) fn ask(&self, asked: &mut Asked) {
        asked.nodes.extend(self.nodes.iter().cloned());
        asked.links.extend(self.links.values().flatten().copied());
    }

    /// Remembers what each node had lost when it was asked first. The counters must have been asked for by
    /// [`Between::ask`].
    pub(super) fn begin(&mut self, counters: &Counted) {
        for node in &self.nodes {
            self.before.entry(node.clone()).or_insert_with(|| told(counters, node).map(before));
        }
    }

    /// What was lost since; none: the path goes by no links.
    pub(super) fn losses(&self, counters: &Counted) -> Option<LinkLosses> {
        let mut losses = LinkLosses::default();
        for node in &self.nodes {
            let former = self.before.get(node).and_then(Option::as_ref);
            let known = told(counters, node)
                .zip(former)
                .filter(|(answer, before)| answer.dataplane.up_ms >= before.up_ms);
            let Some((answer, before)) = known else {
                losses.unknown_at.insert(node.clone());
                continue;
            };
            let lost = answer.links.iter().filter_map(|link| {
                let former =
                    PortNumber::of_link(link.port).and_then(|number| before.links.get(&number));
                loss(node, link, former)
            });
            losses.links.extend(lost);
        }
        (!self.is_nobody()).then_some(losses)
    }
}

/// What a node says of its links: whoever is on a way has some, and who says nothing of them was not asked.
fn told<'c>(counters: &'c Counted, node: &NodeName) -> Option<&'c NodeCounters> {
    counters.get(node).filter(|answer| !answer.links.is_empty())
}

fn before(answer: &NodeCounters) -> Before {
    Before { links: links(answer).collect(), up_ms: answer.dataplane.up_ms }
}

fn links(answer: &NodeCounters) -> impl Iterator<Item = (PortNumber, Lost)> + '_ {
    answer.links.iter().filter_map(|link| {
        let lost = Lost { dropped: link.account.dropped.clone(), ring_full: link.ring_full };
        Some((PortNumber::of_link(link.port)?, lost))
    })
}

/// What a link lost since, if anything.
fn loss(node: &NodeName, link: &PortCounters, former: Option<&Lost>) -> Option<LinkLoss> {
    let since = link.account.dropped.iter().map(|(reason, count)| {
        let before = former.and_then(|former| former.dropped.get(reason)).copied();
        (*reason, count.saturating_sub(before.unwrap_or_default()))
    });
    let dropped: BTreeMap<DropReason, u64> = since.filter(|(_, count)| *count > 0).collect();
    let ring_full = link.ring_full.saturating_sub(former.map_or(0, |former| former.ring_full));
    let has_any = !dropped.is_empty() || ring_full > 0;
    let (node, link) = (node.clone(), link.name.clone());
    has_any.then_some(LinkLoss { node, link, dropped, ring_full })
}

/// The nodes on the ways of a path's packets, and on the detours around their cables.
fn nodes_on_ways(ledger: &Ledger, inventory: &Inventory, path: &PathRecord) -> BTreeSet<NodeName> {
    let mut nodes = BTreeSet::new();
    for (_, send) in path.sends() {
        for from in send.origins(inventory.nodes.keys()) {
            let legs = ledger.ways.get(from).and_then(|ways| ways.get(&send.to));
            let around = ledger.detours.get(from).and_then(|ways| ways.get(&send.to));
            let around = around.into_iter().flat_map(|way| &way.detours);
            let ends = legs.into_iter().flatten().chain(around.flat_map(|detour| &detour.ends));
            nodes.extend(ends.map(|end| end.node.clone()));
            nodes.insert(send.to.clone());
        }
    }
    nodes
}
