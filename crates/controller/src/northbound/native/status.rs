//! `/v1/status` and `/v1/nodes`: how everything stands. Refuses to know how it came to that.

use super::problem::Problem;
use super::view::View;
use super::warnings;
use crate::northbound::app::App;
use crate::reconcile::{Situation, settle};
use axum::response::Response;
use catena_model::NodeName;
use catena_model::entry::Program;
use catena_model::limits::{NODE_PATHS_MAX, NODE_PORTS_MAX, NODE_RULES_MAX, NODE_SLICES_MAX};
use catena_model::preview::NodeProgress;
use catena_model::status::{
    ChainState, NodeDetail, NodeReport, NodeStatus, TableFill, UnboundPort,
};
use catena_model::topology::NodeRole;
use catena_plan::{Intent, NodeFacts};
use serde_json::{Value, json};

pub(super) async fn status(view: &View) -> Result<Response, Problem> {
    let View { situation, intent, .. } = view;
    let nodes: Vec<&NodeFacts> = situation.inventory.all().map(|(.., facts)| facts).collect();
    let states: Vec<ChainState> =
        intent.chains.keys().map(|id| situation.chain_status(intent, *id).state).collect();
    let count = |state: ChainState| states.iter().filter(|found| **found == state).count();
    let withdrawing: Vec<Value> = settle::withdrawing(situation, intent)
        .into_values()
        .map(|(chain, nodes)| json!({"chain": chain, "nodes": nodes}))
        .collect();
    view.told(&json!({
        "version": env!("CARGO_PKG_VERSION"),
        "revision": situation.revision.0,
        "blueprint": situation.blueprint.number,
        "nodes": {
            "known": nodes.len(),
            "connected": nodes.iter().filter(|facts| facts.is_connected).count(),
        },
        "chains": {
            "building": count(ChainState::Building),
            "active": count(ChainState::Active),
            "updating": count(ChainState::Updating),
            "degraded": count(ChainState::Degraded),
        },
        "slices": slices(situation, intent),
        "withdrawing": withdrawing,
        "trouble": situation.trouble,
        "warnings": warnings::of(view),
    }))
}

/// How many slices are declared, how many the blueprint sends into paths of their own, and the nodes
/// that have not acknowledged their programs. It costs what the nodes are, not the slices.
fn slices(situation: &Situation, intent: &Intent) -> Value {
    let book = &situation.blueprint.slices;
    let behind = situation.inventory.nodes.keys().filter(|node| {
        let wanted = situation.blueprint.number_of(node);
        !book.is_empty() && !situation.inventory.has_acknowledged(node, wanted)
    });
    json!({
        "declared": intent.slices.len(),
        "classified": book.classified_count(),
        "behind": behind.collect::<Vec<&NodeName>>(),
    })
}

fn node_status(
    app: &App,
    situation: &Situation,
    (node, role, facts): (&NodeName, NodeRole, &NodeFacts),
) -> NodeStatus {
    let unbound = facts.unbound.iter();
    let book = situation.blueprint.ledger.port_numbers.get(node);
    let identities = book.map(|book| book.identities()).unwrap_or_default();
    NodeStatus {
        node: node.clone(),
        role,
        is_edge: facts.is_edge,
        is_connected: facts.is_connected,
        is_contested: app.fleet.is_contested(node),
        wanted: situation.blueprint.number_of(node),
        acknowledged: facts.acknowledged,
        bound: facts.bound.iter().copied().collect(),
        unbound: unbound
            .map(|(port, reason)| UnboundPort {
                port: *port,
                name: situation.intent.port_name(*port),
                reason: reason.clone(),
            })
            .collect(),
        identities: identities.iter().map(|identity| identity.bits()).collect(),
        capacity: facts.capacity.as_deref().cloned(),
        taken: catena_plan::taken(&situation.intent, node),
    }
}

pub(super) async fn nodes(view: &View) -> Result<Response, Problem> {
    view.told(&reports(&view.app, &view.situation).await)
}

async fn reports(app: &App, situation: &Situation) -> Vec<NodeReport> {
    let mut counters = app.collector.all(true).await;
    let mut nodes: Vec<_> = situation.inventory.all().collect();
    nodes.sort_by_key(|(node, ..)| *node);
    nodes
        .into_iter()
        .map(|node| NodeReport {
            counters: counters.remove(node.0),
            status: node_status(app, situation, node),
        })
        .collect()
}

/// There is no node of this name.
pub(super) fn no_node(name: &str) -> Problem {
    Problem::not_found(format!("There is no node '{name}'; 'catena node list' shows all."))
}

/// One node with the tables of the program that it should run.
pub(super) async fn node(view: &View) -> Result<Response, Problem> {
    node_in(view, &view.situation).await
}

/// The same as things stand in a situation.
pub(super) async fn node_in(view: &View, situation: &Situation) -> Result<Response, Problem> {
    let name = &view.call.name;
    let mut reports = reports(&view.app, situation).await.into_iter();
    let report = reports.find(|report| report.status.node.as_str() == name);
    let report = report.ok_or_else(|| no_node(name))?;
    let program = situation.blueprint.programs.get(&report.status.node);
    let tables = program.map(tables).unwrap_or_default();
    let NodeReport { status, counters } = report;
    let segments = situation.inventory.facts(&status.node).and_then(|facts| facts.segments);
    let device = situation.blueprint.ledger.device_of(&status.node);
    view.told(&NodeDetail { status, counters, tables, segments, device })
}

/// How far each node is with its program.
pub(super) fn progress(situation: &Situation) -> Vec<NodeProgress> {
    let nodes = situation.inventory.all();
    let one = |(node, _, facts): (&NodeName, NodeRole, &NodeFacts)| NodeProgress {
        node: node.clone(),
        is_connected: facts.is_connected,
        wanted: situation.blueprint.number_of(node),
        acknowledged: facts.acknowledged,
    };
    nodes.map(one).collect()
}

fn tables(program: &Program) -> Vec<TableFill> {
    let limit = |table: &str| match table {
        "ports" => Some(NODE_PORTS_MAX),
        "rules" => Some(NODE_RULES_MAX),
        "paths" => Some(NODE_PATHS_MAX),
        "slices" | "slice_paths" => Some(NODE_SLICES_MAX),
        _ => None,
    };
    let fill = |(table, entries): (&str, usize)| TableFill {
        table: table.replace('_', " "),
        entries: entries as u64,
        limit: limit(table).map(|limit| limit as u64),
    };
    let lengths = program.entries.lengths().into_iter();
    lengths.filter(|(table, _)| *table != "node").map(fill).collect()
}
