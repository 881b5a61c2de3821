//! The native API: how things stand, in the words of `model`. Read-only; resources are declared in
//! a border dialect. Errors are problem details (RFC 9457).

mod chains;
mod check;
mod explain;
mod functions;
mod metrics;
mod plan;
mod problem;
mod watch;

use super::{App, Call, json};
use crate::reconcile::{Situation, settle};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use catena_model::id::{ChainId, InstanceId};
use catena_model::resource::Chain;
use catena_model::status::{
    ChainAtNode, ChainReport, ChainState, ChainSummary, NodeReport, NodeStatus, UnboundPort,
};
use catena_model::{BlueprintNumber, NodeName};
use catena_plan::{Intent, NodeFacts};
use problem::Problem;
use serde_json::{Value, json};
pub(crate) use watch::Watchers;

const CONTENT_TYPE: &str = "application/json";

/// Answers a call below `/v1`, and `/metrics`.
pub(super) async fn answer(app: &App, call: &Call) -> Response {
    if app.guard.identify(&call.headers).is_none() {
        return Problem::unauthorized().into_response();
    }
    route(app, call).await.unwrap_or_else(Problem::into_response)
}

/// The answer to a request that names a draft that is not there.
pub(super) fn no_draft(id: &str) -> Response {
    Problem::no_draft(id).into_response()
}

/// The answer to a request under a name that is not ours.
pub(super) fn foreign_host() -> Response {
    Problem::foreign_host().into_response()
}

async fn route(app: &App, call: &Call) -> Result<Response, Problem> {
    let path: Vec<&str> = call.path.iter().map(String::as_str).collect();
    match path.as_slice() {
        ["v1", "plan"] if call.method == Method::POST => return plan::open(app),
        ["v1", "explain"] if call.method == Method::POST => {
            let report = explain::answer(app, call).await?;
            return Ok(json(StatusCode::OK, CONTENT_TYPE, &shown(&report)?));
        }
        ["v1", "chains", name, "check"] if call.method == Method::POST => {
            let situation = app.situation.borrow().clone();
            let intent = app.declared.snapshot().intent;
            let chain = find(&intent, name)?;
            let report = check::chain(app, &situation, &intent, chain).await?;
            return Ok(json(StatusCode::OK, CONTENT_TYPE, &shown(&report)?));
        }
        ["v1", "explain"] | ["v1", "chains", _, "check"] => {
            return Err(Problem::method_not_allowed());
        }
        ["v1", "plan", id] => return plan::on_draft(app, &call.method, id),
        ["v1", "chains", name] if call.method == Method::PATCH => {
            return chains::patch(app, call, name).await;
        }
        ["v1", "functions"] => return functions::functions(app, call, None).await,
        ["v1", "functions", name] => return functions::functions(app, call, Some(name)).await,
        ["v1", "instances"] => return functions::instances(app, call, None).await,
        ["v1", "instances", name] => return functions::instances(app, call, Some(name)).await,
        _ => {}
    }
    let resource = match path.as_slice() {
        ["metrics"] => Resource::Metrics,
        ["v1", "status"] => Resource::Status,
        ["v1", "watch"] => Resource::Watch,
        ["v1", "nodes"] => Resource::Nodes,
        ["v1", "chains"] => Resource::Chains,
        ["v1", "chains", name] => Resource::Chain(name),
        ["v1", "chains", name, "receipt"] => Resource::Receipt(name),
        _ => return Err(Problem::not_found(format!("There is nothing at /{}.", path.join("/")))),
    };
    if call.method != Method::GET {
        return Err(Problem::method_not_allowed());
    }
    let situation = app.situation.borrow().clone();
    let intent = app.declared.snapshot().intent;
    let body = match resource {
        Resource::Metrics => {
            let counters = app.fleet.counters(true).await;
            return Ok(metrics::answer(&situation, &intent, &counters));
        }
        Resource::Watch => return watch::answer(app),
        Resource::Status => status(&situation, &intent),
        Resource::Nodes => {
            let mut counters = app.fleet.counters(true).await;
            let nodes = situation.inventory.nodes.iter();
            let reports: Vec<NodeReport> = nodes
                .map(|(node, facts)| NodeReport {
                    status: node_status(&situation, node, facts),
                    counters: counters.remove(node),
                })
                .collect();
            shown(&reports)?
        }
        Resource::Chains => {
            let summary = |chain: &Chain| ChainSummary {
                name: chain.label.name.clone(),
                status: situation.chain_status(&intent, chain.id),
            };
            shown(&intent.chains.values().map(summary).collect::<Vec<_>>())?
        }
        Resource::Receipt(name) => shown(&chains::receipt(app, &intent, name)?)?,
        Resource::Chain(name) => {
            let chain = find(&intent, name)?;
            shown(&report(app, &situation, &intent, chain).await)?
        }
    };
    Ok(json(StatusCode::OK, CONTENT_TYPE, &body))
}

enum Resource<'p> {
    Metrics,
    Watch,
    Status,
    Nodes,
    Chains,
    Chain(&'p str),
    Receipt(&'p str),
}

fn shown(value: &impl serde::Serialize) -> Result<Value, Problem> {
    serde_json::to_value(value).map_err(|error| Problem::internal(error.to_string()))
}

fn status(situation: &Situation, intent: &Intent) -> Value {
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

/// A chain by its id, or by its name when only one has it.
fn find<'i>(intent: &'i Intent, name: &str) -> Result<&'i Chain, Problem> {
    let by_id = uuid::Uuid::parse_str(name).ok().and_then(|id| intent.chains.get(&ChainId(id)));
    if let Some(chain) = by_id {
        return Ok(chain);
    }
    let mut named = intent.chains.values().filter(|chain| chain.label.name == name);
    match (named.next(), named.next()) {
        (Some(chain), None) => Ok(chain),
        (Some(_), Some(_)) => Err(Problem::ambiguous(format!(
            "Several chains are called '{name}'; ask for one by its id."
        ))),
        (None, _) => Err(Problem::not_found(format!(
            "There is no chain '{name}'; 'catena chain list' shows all."
        ))),
    }
}

async fn report(app: &App, situation: &Situation, intent: &Intent, chain: &Chain) -> ChainReport {
    let name = |id: &catena_model::id::FunctionId| {
        let name = intent.functions.get(id).map(|function| function.label.name.clone());
        name.filter(|name| !name.is_empty()).unwrap_or_else(|| id.to_string())
    };
    let counters = app.fleet.counters(true).await;
    let is_of_chain = |instance: &InstanceId| {
        let functions = chain.functions.iter().filter_map(|id| intent.functions.get(id));
        functions.flat_map(|function| &function.instances).any(|id| id == instance)
    };
    let mut health = Vec::new();
    let at_nodes = counters.into_iter().flat_map(|(node, counters)| {
        health.extend(counters.health.into_iter().filter(|one| is_of_chain(&one.instance)));
        let of_chain = counters.chains.into_iter().filter(|counted| counted.chain == chain.id);
        of_chain
            .map(|counters| ChainAtNode { node: node.clone(), counters })
            .collect::<Vec<ChainAtNode>>()
    });
    let nodes = at_nodes.collect();
    ChainReport {
        status: situation.chain_status(intent, chain.id),
        name: chain.label.name.clone(),
        functions: chain.functions.iter().map(name).collect(),
        encapsulation: chain.encapsulation,
        nodes,
        health,
        receipt: app.receipts.borrow().of(chain.id).cloned(),
    }
}
