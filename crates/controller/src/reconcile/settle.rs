//! How long the answer to a chain request waits: until the nodes have done it, or nothing is on
//! its way, or the bound has passed.

mod slices;

pub(crate) use slices::{concerned as concerned_slices, progress as slices_progress, slices};

use super::Situation;
use crate::northbound::App;
use catena_model::id::{ChainId, PathId, PortId, SliceId};
use catena_model::preview::Draining;
use catena_model::resource::{Chain, FunctionTemplate};
use catena_model::status::{ChainState, Receipt};
use catena_model::{BlueprintNumber, NodeName};
use catena_plan::{Intent, Inventory, PathPhase, PathRecord};
use catena_store::Revision;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

/// Waits until a declared chain is active, cannot become so by waiting, or the deadline is there.
/// One without rules is settled when nothing enters it any more.
pub(crate) async fn declared(
    situations: &mut watch::Receiver<Situation>,
    revision: Revision,
    chain: ChainId,
    deadline: Instant,
) {
    let takes_nothing = |now: &Situation| {
        let is_without_rules = |chain: &Chain| chain.rules.is_empty();
        now.intent.chains.get(&chain).is_some_and(is_without_rules)
            && now.intent.index().slices_of_chain(chain).next().is_none()
    };
    let is_settled = |now: &Situation| {
        now.revision >= revision
            && if takes_nothing(now) {
                is_let_go(now, chain)
            } else {
                now.chain_status(&now.intent, chain).state == ChainState::Active
                    || !is_on_its_way(now, chain)
            }
    };
    until(situations, is_settled, deadline).await;
}

/// Waits until a slice is in force as it is declared, or gone as it is not; cannot become so by
/// waiting; or the deadline is there.
pub(crate) async fn slice(
    situations: &mut watch::Receiver<Situation>,
    revision: Revision,
    slice: SliceId,
    deadline: Instant,
) {
    let is_settled = |now: &Situation| {
        let declared = now.intent.slices.get(&slice);
        now.revision >= revision
            && match declared {
                None => catena_plan::is_slice_withdrawn(&now.blueprint, &now.inventory, slice),
                Some(slice) => {
                    let is_carried =
                        || now.chain_status(&now.intent, slice.chain).state == ChainState::Active;
                    now.slice_status(slice).state == ChainState::Active
                        || (!is_carried() && !is_on_its_way(now, slice.chain))
                }
            }
    };
    until(situations, is_settled, deadline).await;
}

/// Waits until a change of chains is over: each is active as it is declared and the packets on its
/// former paths are accounted for. Answers the receipts that came in time, of those chains whose
/// paths or rules changed since blueprint `before`.
pub(crate) async fn changed(
    app: &App,
    revision: Revision,
    before: BlueprintNumber,
    chains: &[ChainId],
    deadline: Instant,
) -> Vec<Receipt> {
    let mut situations = app.situation.clone();
    for chain in chains {
        declared(&mut situations, revision, *chain, deadline).await;
    }
    let now = situations.borrow().clone();
    // What is not in force by now has no receipt in time either.
    let is_due = |(chain, turned): &(ChainId, BlueprintNumber)| {
        *turned > before && now.chain_status(&now.intent, *chain).state == ChainState::Active
    };
    let turned = chains.iter().map(|chain| (*chain, now.blueprint.ledger.turned(*chain)));
    let due: Vec<(ChainId, BlueprintNumber)> = turned.filter(is_due).collect();
    let mut receipts = app.receipts.clone();
    loop {
        let known = Arc::clone(&receipts.borrow_and_update());
        let of = |(chain, turned): &(ChainId, BlueprintNumber)| {
            known.of(*chain).filter(|receipt| receipt.blueprint >= *turned).cloned()
        };
        let told: Vec<Receipt> = due.iter().filter_map(of).collect();
        let is_waiting = told.len() < due.len();
        if !is_waiting || !matches!(timeout_at(deadline, receipts.changed()).await, Ok(Ok(()))) {
            return told;
        }
    }
}

/// Waits until all nodes have dropped the rules of a removed chain, cannot do so by waiting, or the
/// deadline is there. What remains is logged and shown by [`withdrawing`].
pub(crate) async fn withdrawn(
    situations: &mut watch::Receiver<Situation>,
    revision: Revision,
    chain: ChainId,
    deadline: Instant,
) {
    let is_settled = |now: &Situation| now.revision >= revision && is_let_go(now, chain);
    until(situations, is_settled, deadline).await;
    let now = situations.borrow().clone();
    let nodes = lagging(&now, chain);
    if !nodes.is_empty() {
        let names: Vec<&str> = nodes.iter().map(NodeName::as_str).collect();
        tracing::warn!(%chain, "deleted, but still in force on: {}", names.join(", "));
    }
}

/// Waits until nodes have forgotten the former paths of these chains, cannot do so by waiting, or
/// the deadline is there. Answers those that are left.
pub(crate) async fn drained(
    app: &App,
    revision: Revision,
    chains: &BTreeSet<ChainId>,
    deadline: Instant,
) -> Vec<Draining> {
    let mut situations = app.situation.clone();
    let is_settled = |now: &Situation| {
        now.revision >= revision && (now.trouble.is_some() || left(now, chains).next().is_none())
    };
    until(&mut situations, is_settled, deadline).await;
    let now = situations.borrow().clone();
    let draining = left(&now, chains).map(|(id, path)| Draining {
        chain: path.chain_name.clone(),
        path: id,
        reason: now
            .trouble
            .clone()
            .unwrap_or_else(|| catena_plan::drain_reason(&now.blueprint, &now.inventory, id, path)),
    });
    draining.collect()
}

/// The former paths of these chains.
fn left<'s>(
    now: &'s Situation,
    chains: &'s BTreeSet<ChainId>,
) -> impl Iterator<Item = (PathId, &'s PathRecord)> {
    let paths = chains.iter().flat_map(|chain| now.blueprint.ledger.paths.of_chain(*chain));
    paths.filter(|(_, path)| path.phase == PathPhase::Superseded)
}

/// Has every node dropped the rules of a chain, or can no waiting bring it to that?
fn is_let_go(now: &Situation, chain: ChainId) -> bool {
    catena_plan::is_withdrawn(&now.blueprint, &now.inventory, chain)
        || now.trouble.is_some()
        || lagging(now, chain).iter().any(|node| refuses(&now.inventory, node))
}

/// The nodes that may still send into the paths of a chain.
fn lagging(now: &Situation, chain: ChainId) -> BTreeSet<NodeName> {
    let paths = now.blueprint.ledger.paths.of_chain(chain);
    paths.flat_map(|(_, path)| now.blueprint.lagging_nodes(&now.inventory, path)).collect()
}

async fn until(
    situations: &mut watch::Receiver<Situation>,
    is_settled: impl Fn(&Situation) -> bool,
    deadline: Instant,
) {
    while !is_settled(&situations.borrow_and_update().clone()) {
        match timeout_at(deadline, situations.changed()).await {
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
    let prospects: Vec<Prospect> = ports
        .iter()
        .map(|(port, maker)| prospect(&now.intent, &now.inventory, *port, *maker))
        .collect();
    if prospects.contains(&Prospect::Hopeless) {
        return false;
    }
    let mut waits_for: BTreeSet<NodeName> = BTreeSet::new();
    for (_, path) in now.blueprint.ledger.paths.of_chain(chain) {
        if path.phase != PathPhase::Superseded {
            waits_for.extend(now.blueprint.lagging_nodes(&now.inventory, path));
        }
    }
    if waits_for.iter().any(|node| refuses(&now.inventory, node)) {
        return false;
    }
    !waits_for.is_empty() || prospects.contains(&Prospect::Undecided) || is_being_laid(now, chain)
}

/// Is the next step of a chain the planner's own: a path that has no identifier yet, or one that every
/// node knows and whose classifiers are about to turn?
fn is_being_laid(now: &Situation, chain: ChainId) -> bool {
    let (blueprint, intent, inventory) = (&now.blueprint, &now.intent, &now.inventory);
    let status = catena_plan::chain_status(blueprint, intent, inventory, chain);
    matches!(status.state, ChainState::Building | ChainState::Updating)
        && catena_plan::can_be_laid(blueprint, intent, inventory, chain)
}

/// Each chain that is no longer declared and whose packets nodes may still send: the name that it
/// had, and the nodes.
pub(crate) fn withdrawing(
    now: &Situation,
    intent: &Intent,
) -> BTreeMap<ChainId, (String, BTreeSet<NodeName>)> {
    let mut waits_for: BTreeMap<ChainId, (String, BTreeSet<NodeName>)> = BTreeMap::new();
    let paths = now.blueprint.ledger.paths.values();
    for path in paths.filter(|path| !intent.chains.contains_key(&path.chain)) {
        let lagging = now.blueprint.lagging_nodes(&now.inventory, path);
        if !lagging.is_empty() {
            let name = || (path.chain_name.clone(), BTreeSet::new());
            waits_for.entry(path.chain).or_insert_with(name).1.extend(lagging);
        }
    }
    waits_for
}

fn refuses(inventory: &Inventory, node: &NodeName) -> bool {
    inventory.facts(node).is_some_and(|facts| facts.refusal.is_some())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Prospect {
    Bound,
    /// Its node has not said yet.
    Undecided,
    /// It stays unbound until somebody does something.
    Hopeless,
}

/// Who makes the interface of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Maker {
    Somebody,
    /// The agent of its node, with the instance.
    Agent,
}

fn prospect(intent: &Intent, inventory: &Inventory, id: PortId, maker: Maker) -> Prospect {
    let facts = intent
        .ports
        .get(&id)
        .filter(|port| port.attachment.is_some())
        .and_then(|port| inventory.nodes.get(port.node.as_ref()?));
    match facts {
        None => Prospect::Hopeless,
        Some(facts) if facts.bound.contains(&id) => Prospect::Bound,
        Some(facts) if facts.unbound.contains_key(&id) && maker == Maker::Somebody => {
            Prospect::Hopeless
        }
        Some(_) => Prospect::Undecided,
    }
}

/// The ports that a chain cannot do without.
fn ports_of(intent: &Intent, chain: ChainId) -> BTreeMap<PortId, Maker> {
    let Some(chain) = intent.chains.get(&chain) else { return BTreeMap::new() };
    let mut ports = BTreeMap::new();
    for function in chain.functions.iter().filter_map(|id| intent.functions.get(id)) {
        for instance in function.instances.iter().filter_map(|id| intent.instances.get(id)) {
            let template = function.template.as_ref();
            let is_run = template.is_some_and(FunctionTemplate::is_run_by_nodes);
            let maker = if is_run { Maker::Agent } else { Maker::Somebody };
            ports.insert(instance.ingress, maker);
            // Nothing is expected back from a tap.
            ports.extend((!function.is_tap).then_some((instance.egress, maker)));
        }
    }
    for rule in chain.rules.iter().filter_map(|id| intent.rules.get(id)) {
        let ends = rule.source_port.into_iter();
        let ends = ends.chain(rule.destination_port.filter(|_| chain.is_symmetric));
        ports.extend(ends.map(|port| (port, Maker::Somebody)));
    }
    ports
}
