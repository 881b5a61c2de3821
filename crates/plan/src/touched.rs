//! Which chains a step has to look at: those that what was declared or learned since the last look can
//! matter to, and those that wait. Looks at what differs alone: tables share what they have in common.

use crate::atlas::Atlas;
use crate::blueprint::Blueprint;
use crate::cables::ToldLinks;
use crate::index::IndexedIntent;
use crate::intent::{Table, differences};
use crate::inventory::{Inventory, NodeFacts};
use crate::ledger::Ledger;
use crate::slices::{Places, SliceBook, Users};
use catena_model::NodeName;
use catena_model::id::{ChainId, NetworkId, PortId};
use catena_model::resource::Encapsulation;
use imbl::ordset::DiffItem;
use std::collections::{BTreeMap, BTreeSet};

/// What a step of the planner has looked at.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Looked {
    pub(crate) intent: IndexedIntent,
    pub(crate) nodes: BTreeMap<NodeName, NodeFacts>,
    pub(crate) switches: BTreeMap<NodeName, NodeFacts>,
    pub(crate) told: ToldLinks,
    /// Of the cables that it left.
    pub(crate) atlas: Atlas,
    places: Places,
    users: Users,
}

impl Looked {
    pub(crate) fn new(
        intent: &IndexedIntent,
        inventory: &Inventory,
        slices: &SliceBook,
        atlas: Atlas,
    ) -> Self {
        Self {
            intent: intent.clone(),
            nodes: inventory.nodes.clone(),
            switches: inventory.switches.clone(),
            told: inventory.told.clone(),
            atlas,
            places: slices.places().clone(),
            users: slices.all_users().clone(),
        }
    }

    /// Are these nodes the same, in the same places?
    pub(crate) fn is_among(&self, inventory: &Inventory) -> bool {
        let are_same = |one: &BTreeMap<NodeName, NodeFacts>, other: &BTreeMap<_, NodeFacts>| {
            let place = |(node, facts): (&NodeName, &NodeFacts)| {
                let knows = (facts.knows_locators(), facts.knows_telemetry());
                (node.clone(), facts.underlay, facts.segments, knows)
            };
            one.iter().map(place).eq(other.iter().map(place))
        };
        are_same(&self.nodes, &inventory.nodes) && are_same(&self.switches, &inventory.switches)
    }

    /// Does any of these nodes speak another version of the protocol now, have another place for segments, or write
    /// headers that it did not, or not any more?
    fn does_otherwise(&self, inventory: &Inventory) -> bool {
        let versions = |hosts: &BTreeMap<NodeName, NodeFacts>,
                        switches: &BTreeMap<_, NodeFacts>| {
            let all = hosts.values().chain(switches.values());
            let what = |facts: &NodeFacts| {
                (facts.protocol, facts.is_edge, facts.segments, facts.underlay.mtu)
            };
            all.map(what).collect::<Vec<_>>()
        };
        versions(&self.nodes, &self.switches) != versions(&inventory.nodes, &inventory.switches)
    }
}

/// All chains: nothing is known of what was looked at before.
pub(crate) fn all(ledger: &Ledger, intent: &IndexedIntent) -> BTreeSet<ChainId> {
    let carried = ledger.paths.values().map(|path| path.chain);
    carried.chain(intent.chains.keys().copied()).collect()
}

/// The chains that go by source routes or segments, or shall.
fn by_ways(ledger: &Ledger, intent: &IndexedIntent) -> BTreeSet<ChainId> {
    let goes = |by: Encapsulation| !by.is_tunnelled();
    let paths = ledger.paths.values().filter(|path| goes(path.encapsulation));
    let declared = intent.chains.values().filter(|chain| goes(chain.encapsulation));
    paths.map(|path| path.chain).chain(declared.map(|chain| chain.id)).collect()
}

/// The chains that go by source routes, or shall.
pub(crate) fn by_source_routes(ledger: &Ledger, intent: &IndexedIntent) -> BTreeSet<ChainId> {
    let paths = ledger.paths.values().filter(|path| path.encapsulation.is_source_route());
    let declared = intent.chains.values().filter(|chain| chain.encapsulation.is_source_route());
    paths.map(|path| path.chain).chain(declared.map(|chain| chain.id)).collect()
}

/// The chains that a step after the last look has to look at. The slices have been held against this
/// intent.
pub(crate) fn since(
    looked: &Looked,
    previous: &Blueprint,
    slices: &SliceBook,
    intent: &IndexedIntent,
    inventory: &Inventory,
) -> BTreeSet<ChainId> {
    let ledger = &previous.ledger;
    let mut chains: BTreeSet<ChainId> = ledger.paths.waiting().collect();
    chains.extend(&ledger.unserved);
    if looked.does_otherwise(inventory) {
        chains.extend(by_ways(ledger, intent));
    }
    // Networks say how long packets are.
    let is_longer = |network: &NetworkId| {
        let [former, now] = [&looked.intent, intent].map(|all| all.networks.get(network));
        former.zip(now).is_some_and(|(former, now)| former.mtu != now.mtu)
    };
    if keys(&looked.intent.networks, &intent.networks).iter().any(is_longer) {
        let segmented = intent.chains.values().filter(|chain| chain.encapsulation.is_segmented());
        chains.extend(segmented.map(|chain| chain.id));
    }
    let mut ports = keys(&looked.intent.ports, &intent.ports);
    ports.extend(bound(looked, inventory));
    for (one, other) in [(&looked.intent, intent), (intent, &looked.intent)] {
        add_declared(one, other, &ports, &mut chains);
    }
    chains.extend(looked.places.changes(slices.places()));
    let users = looked.users.changed_keys(slices.all_users());
    chains.extend(users.filter_map(|(path, _)| Some(ledger.paths.get(path)?.chain)));
    let is_in_graph = |chain: &ChainId| {
        let indexes = [looked.intent.index(), intent.index()];
        indexes.iter().any(|index| index.graphs_of_chain(*chain).next().is_some())
            || ledger.paths.of_chain(*chain).any(|(_, path)| path.is_linked())
    };
    if chains.iter().any(is_in_graph) {
        // Where they go on in one another, each may wait for any.
        let graphs = [&looked.intent, intent].into_iter().flat_map(|intent| intent.graphs.values());
        let branches = graphs.flat_map(|graph| &graph.branches);
        chains.extend(branches.flat_map(|(source, next)| next.iter().chain([source])));
        chains.extend(ledger.paths.linked().map(|(_, path)| path.chain));
    }
    chains
}

/// The chains that what differs between two intents belongs to in one of them.
fn add_declared(
    intent: &IndexedIntent,
    other: &IndexedIntent,
    ports: &BTreeSet<PortId>,
    chains: &mut BTreeSet<ChainId>,
) {
    let index = intent.index();
    chains.extend(keys(&intent.chains, &other.chains));
    for rule in keys(&intent.rules, &other.rules) {
        chains.extend(index.chains_of_rule(rule));
    }
    for function in keys(&intent.functions, &other.functions) {
        chains.extend(index.chains_of_function(function));
    }
    for instance in keys(&intent.instances, &other.instances) {
        chains.extend(index.chains_of_instance(instance));
    }
    for port in ports {
        chains.extend(index.instances_of_port(*port).flat_map(|id| index.chains_of_instance(id)));
        chains.extend(index.rules_of_port(*port).flat_map(|id| index.chains_of_rule(id)));
        let slices = index.slices_of_port(*port).filter_map(|id| intent.slices.get(&id));
        chains.extend(slices.map(|slice| slice.chain));
    }
    for graph in keys(&intent.graphs, &other.graphs) {
        let branches = intent.graphs.get(&graph).into_iter().flat_map(|graph| &graph.branches);
        chains.extend(branches.flat_map(|(source, next)| next.iter().chain([source])));
    }
}

/// The keys of what differs.
fn keys<K: Ord + Copy, V: PartialEq>(one: &Table<K, V>, other: &Table<K, V>) -> BTreeSet<K> {
    differences(one, other).map(|(key, ..)| *key).collect()
}

/// The ports that have got an interface since, or lost it.
fn bound(looked: &Looked, now: &Inventory) -> BTreeSet<PortId> {
    let facts = looked.nodes.values().zip(now.nodes.values());
    let changed = facts.flat_map(|(before, now)| before.bound.diff(&now.bound));
    changed
        .map(|item| match item {
            DiffItem::Add(port) | DiffItem::Remove(port) => *port,
        })
        .collect()
}
