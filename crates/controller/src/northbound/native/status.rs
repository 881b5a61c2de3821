//! `/v1/status` and `/v1/nodes`: how everything stands. Refuses to know how it came to that.

use crate::northbound::App;
use crate::reconcile::{Situation, settle};
use catena_model::status::{ChainState, NodeReport, NodeStatus, UnboundPort};
use catena_model::{BlueprintNumber, NodeName};
use catena_plan::{Intent, NodeFacts};
use serde_json::{Value, json};

pub(super) fn status(situation: &Situation, intent: &Intent) -> Value {
    let nodes = &situation.inventory.nodes;
    let states: Vec<ChainState> =
        intent.chains.keys().map(|id| situation.chain_status(intent, *id).state).collect();
    let count = |state: ChainState| states.iter().filter(|found| **found == state).count();
    let withdrawing: Vec<Value> = settle::withdrawing(situation, intent)
        .into_iter()
        .map(|(chain, nodes)| json!({"chain": chain, "nodes": nodes}))
        .collect();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "revision": situation.revision.0,
        "blueprint": situation.blueprint.number,
        "nodes": {
            "known": nodes.len(),
            "connected": nodes.values().filter(|facts| facts.is_connected).count(),
        },
        "chains": {
            "building": count(ChainState::Building),
            "active": count(ChainState::Active),
            "updating": count(ChainState::Updating),
            "degraded": count(ChainState::Degraded),
        },
        "withdrawing": withdrawing,
        "trouble": situation.trouble,
    })
}

fn node_status(situation: &Situation, node: &NodeName, facts: &NodeFacts) -> NodeStatus {
    let program = situation.blueprint.programs.get(node);
    let unbound = facts.unbound.iter();
    NodeStatus {
        node: node.clone(),
        is_connected: facts.is_connected,
        wanted: program.map_or(BlueprintNumber::default(), |program| program.number),
        acknowledged: facts.acknowledged,
        bound: facts.bound.iter().copied().collect(),
        unbound: unbound
            .map(|(port, reason)| UnboundPort { port: *port, reason: reason.clone() })
            .collect(),
    }
}

pub(super) async fn nodes(app: &App, situation: &Situation) -> Vec<NodeReport> {
    let mut counters = app.fleet.counters(true).await;
    let nodes = situation.inventory.nodes.iter();
    nodes
        .map(|(node, facts)| NodeReport {
            status: node_status(situation, node, facts),
            counters: counters.remove(node),
        })
        .collect()
}
