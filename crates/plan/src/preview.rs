//! What a change would do: the real planner is run over it with nodes that acknowledge at once.
//! Knows how to tell the outcome; refuses to decide anything that `next` does not.

mod words;

pub use words::is_for_operators;

use crate::blueprint::Blueprint;
use crate::index::IndexedIntent;
use crate::intent::Intent;
use crate::inventory::Inventory;
use crate::ledger::PathPhase;
use crate::next::{draining, next};
use crate::status::chain_status;
use catena_model::NodeName;
use catena_model::id::ChainId;
use catena_model::preview::{ChainChange, ChangeKind, NodeChange, Preview};
use catena_model::status::ChainState;
use std::collections::{BTreeMap, BTreeSet};

/// More steps than any change takes; the planner's properties show that it comes to rest.
const STEPS_MAX: usize = 1_000;

/// What the change from one intent to another would do to what runs.
#[must_use]
pub fn preview(
    current: &Blueprint,
    now: &IndexedIntent,
    then: &IndexedIntent,
    inventory: &Inventory,
) -> Preview {
    let mut world = World { inventory: inventory.clone(), programs: BTreeMap::new(), swapped: 0 };
    // What is on its way already is no consequence of this change.
    let settled = world.settle(current, now);
    world.programs.clear();
    world.swapped = 0;
    let outcome = world.settle(&settled, then);
    let chains = chains(now, then);
    let nodes = nodes(&settled, &outcome, &world);
    let disruption = disruption(&outcome, then, inventory, &chains, &nodes);
    Preview {
        from: current.number,
        to: outcome.number,
        chains: chains.into_values().collect(),
        nodes,
        paths_swapped: world.swapped,
        disruption,
    }
}

/// What runs once nodes have done what they are told for this intent.
pub(crate) fn settled(
    current: &Blueprint,
    intent: &IndexedIntent,
    inventory: &Inventory,
) -> (Blueprint, Inventory) {
    let mut world = World { inventory: inventory.clone(), programs: BTreeMap::new(), swapped: 0 };
    let outcome = world.settle(current, intent);
    world.obey(&outcome);
    (outcome, world.inventory)
}

/// Nodes that do at once what they are told.
struct World {
    inventory: Inventory,
    /// How many programs each node was given.
    programs: BTreeMap<NodeName, usize>,
    /// How many classified paths were replaced by others of their chain.
    swapped: usize,
}

impl World {
    /// Plans until nothing changes.
    fn settle(&mut self, from: &Blueprint, intent: &IndexedIntent) -> Blueprint {
        let mut blueprint = from.clone();
        for _ in 0..STEPS_MAX {
            self.obey(&blueprint);
            let Some(following) = next(&blueprint, intent, &self.inventory) else { break };
            self.note(&blueprint, &following);
            blueprint = following;
        }
        blueprint
    }

    fn obey(&mut self, blueprint: &Blueprint) {
        let (hosts, switches) = (&mut self.inventory.nodes, &mut self.inventory.switches);
        for facts in hosts.values_mut().chain(switches.values_mut()) {
            facts.acknowledged = blueprint.number;
        }
        self.inventory.drained = draining(blueprint).into_iter().collect();
        self.inventory.unpinned.clone_from(&self.inventory.drained);
        self.inventory.slices_drained = blueprint.slices.superseded().collect();
    }

    fn note(&mut self, from: &Blueprint, to: &Blueprint) {
        for node in to.programs.keys() {
            if from.number_of(node) != to.number_of(node) {
                *self.programs.entry(node.clone()).or_default() += 1;
            }
        }
        let changed = to.ledger.paths.since(&from.ledger.paths);
        for (id, path) in changed.filter_map(|(id, path)| Some((id, path?))) {
            let former = from.ledger.paths.get(&id);
            let was_in_use = former.is_some_and(|former| former.phase == PathPhase::Classified);
            let is_replaced = path.phase == PathPhase::Superseded
                && to.ledger.current(path.chain).next().is_some();
            self.swapped += usize::from(was_in_use && is_replaced);
        }
    }
}

fn chains(now: &Intent, then: &Intent) -> BTreeMap<ChainId, ChainChange> {
    let ids: BTreeSet<ChainId> = now.chains.keys().chain(then.chains.keys()).copied().collect();
    let mut changes = BTreeMap::new();
    for id in ids {
        let (before, after) = (now.chains.get(&id), then.chains.get(&id));
        let (kind, named) = match (before, after) {
            (None, Some(chain)) => (ChangeKind::Create, chain),
            (Some(chain), None) => (ChangeKind::Delete, chain),
            (_, Some(chain)) => (ChangeKind::Update, chain),
            (None, None) => continue,
        };
        let lines =
            words::lines(before.map(|chain| (now, chain)), after.map(|chain| (then, chain)));
        if kind != ChangeKind::Update || !lines.is_empty() {
            let name = named.name();
            changes.insert(id, ChainChange { name, kind, lines });
        }
    }
    changes
}

fn nodes(settled: &Blueprint, outcome: &Blueprint, world: &World) -> Vec<NodeChange> {
    let mut differences = outcome.programs.differences(&settled.programs);
    let change = |(node, programs): (&NodeName, &usize)| {
        let tables = differences.remove(node).unwrap_or_default();
        let table = |(name, diff): (&'static str, catena_model::entry::TableDiff)| {
            let counted = |sign, n| if n > 0 { format!(" {sign}{n}") } else { String::new() };
            format!("{name}{}{}", counted('+', diff.added), counted('−', diff.removed))
        };
        NodeChange {
            node: node.clone(),
            programs: *programs,
            tables: tables.into_iter().map(table).collect(),
        }
    };
    world.programs.iter().map(change).collect()
}

fn disruption(
    outcome: &Blueprint,
    then: &Intent,
    inventory: &Inventory,
    chains: &BTreeMap<ChainId, ChainChange>,
    nodes: &[NodeChange],
) -> Vec<String> {
    let mut sentences = Vec::new();
    for (id, change) in chains {
        let name = &change.name;
        if change.kind == ChangeKind::Delete {
            sentences.push(format!("the traffic of chain '{name}' passes no function any more"));
            continue;
        }
        let status = chain_status(outcome, then, inventory, *id);
        // Who is away is told once, below.
        let is_carried =
            outcome.ledger.current(*id).any(|(_, path)| path.phase == PathPhase::Classified);
        match status.state {
            ChainState::Degraded => sentences.push(format!(
                "chain '{name}' keeps the former path, which is broken: {}",
                status.reason
            )),
            _ if !is_carried => {
                sentences.push(format!("chain '{name}' carries nothing yet: {}", status.reason));
            }
            _ => {}
        }
    }
    for change in nodes {
        if inventory.nodes.get(&change.node).is_some_and(|facts| !facts.is_connected) {
            sentences.push(format!(
                "node '{}' is away: chains that need it keep the former path until it is back",
                change.node
            ));
        }
    }
    sentences
}
