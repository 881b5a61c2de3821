//! How long the answer to a chain request waits: until the nodes have done it, or nothing is on
//! its way, or the bound has passed.

use super::Situation;
use catena_model::NodeName;
use catena_model::id::{ChainId, PortId};
use catena_model::status::ChainState;
use catena_plan::{Intent, Inventory, PathPhase};
use catena_store::Revision;
use std::collections::BTreeSet;
use tokio::sync::watch;
use tokio::time::Instant;

/// Waits until a declared chain is active, cannot become so by waiting, or the deadline is there.
pub(crate) async fn declared(
    situations: &mut watch::Receiver<Situation>,
    revision: Revision,
    chain: ChainId,
    deadline: Instant,
) {
    let is_settled = |now: &Situation| {
        now.revision >= revision
            && (now.chain_status(&now.intent, chain).state == ChainState::Active
                || !is_on_its_way(now, chain))
    };
    until(situations, is_settled, deadline).await;
}

/// Waits until all nodes have dropped the rules of a removed chain, or the deadline is there.
pub(crate) async fn withdrawn(
    situations: &mut watch::Receiver<Situation>,
    revision: Revision,
    chain: ChainId,
    deadline: Instant,
) {
    let is_settled = |now: &Situation| {
        now.revision >= revision && catena_plan::is_withdrawn(&now.blueprint, &now.inventory, chain)
    };
    until(situations, is_settled, deadline).await;
}

async fn until(
    situations: &mut watch::Receiver<Situation>,
    is_settled: impl Fn(&Situation) -> bool,
    deadline: Instant,
) {
    while !is_settled(&situations.borrow_and_update().clone()) {
        match tokio::time::timeout_at(deadline, situations.changed()).await {
            Ok(Ok(())) => {}
            _ => return,
        }
    }
}

/// May the chain become active without anybody changing something?
fn is_on_its_way(now: &Situation, chain: ChainId) -> bool {
    if now.trouble.is_some() {
        return false;
    }
    let ports = ports_of(&now.intent, chain);
    let prospects: Vec<Prospect> =
        ports.iter().map(|port| prospect(&now.intent, &now.inventory, *port)).collect();
    if prospects.contains(&Prospect::Hopeless) {
        return false;
    }
    let mut waits_for: BTreeSet<&NodeName> = BTreeSet::new();
    for path in now.blueprint.ledger.paths.values().filter(|path| path.chain == chain) {
        if path.phase != PathPhase::Superseded {
            waits_for.extend(lagging(now, path));
        }
    }
    let refuses = |node: &&NodeName| {
        now.inventory.nodes.get(*node).is_some_and(|facts| facts.refusal.is_some())
    };
    if waits_for.iter().any(refuses) {
        return false;
    }
    !waits_for.is_empty() || prospects.contains(&Prospect::Undecided)
}

/// The nodes of a path that do not yet run the blueprint that brought it to its phase.
pub(super) fn lagging<'s>(
    now: &'s Situation,
    path: &'s catena_plan::PathRecord,
) -> BTreeSet<&'s NodeName> {
    let mut nodes: BTreeSet<&NodeName> =
        path.hops.iter().flat_map(|hop| &hop.instances).map(|instance| &instance.node).collect();
    for placed in &path.rules {
        match &placed.node {
            Some(node) => nodes.extend([node]),
            None => nodes.extend(now.inventory.nodes.keys()),
        }
    }
    nodes.retain(|node| {
        let program = now.blueprint.ledger.programs.get(*node);
        let number = program.map_or(path.since, |number| path.since.min(*number));
        now.inventory.nodes.get(*node).is_none_or(|facts| facts.acknowledged < number)
    });
    nodes
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Prospect {
    Bound,
    /// Its node has not said yet.
    Undecided,
    /// It stays unbound until somebody does something.
    Hopeless,
}

fn prospect(intent: &Intent, inventory: &Inventory, id: PortId) -> Prospect {
    let facts = intent
        .ports
        .get(&id)
        .filter(|port| port.attachment.is_some())
        .and_then(|port| inventory.nodes.get(port.node.as_ref()?));
    match facts {
        None => Prospect::Hopeless,
        Some(facts) if facts.bound.contains(&id) => Prospect::Bound,
        Some(facts) if facts.unbound.contains_key(&id) => Prospect::Hopeless,
        Some(_) => Prospect::Undecided,
    }
}

/// The ports that a chain cannot do without.
fn ports_of(intent: &Intent, chain: ChainId) -> BTreeSet<PortId> {
    let Some(chain) = intent.chains.get(&chain) else { return BTreeSet::new() };
    let functions = chain.functions.iter().filter_map(|id| intent.functions.get(id));
    let instances = functions.flat_map(|f| &f.instances).filter_map(|id| intent.instances.get(id));
    let mut ports: BTreeSet<PortId> =
        instances.flat_map(|instance| [instance.ingress, instance.egress]).collect();
    let rules = chain.rules.iter().filter_map(|id| intent.rules.get(id));
    ports.extend(rules.filter_map(|rule| rule.source_port));
    ports
}
