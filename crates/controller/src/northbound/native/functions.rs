//! `/v1/functions` and `/v1/instances`: what networking-sfc has no words for. Knows how a function
//! fails and how an instance drains; refuses to know paths beyond whether one needs an instance.

use super::problem::Problem;
use super::{App, Call, shown};
use crate::declared::{Draft, Snapshot};
use crate::northbound::json;
use crate::reconcile::{Situation, settle};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use catena_model::id::{ChainId, FunctionId, InstanceId, PortId};
use catena_model::resource::{FailurePolicy, Instance, Label, ServiceFunction};
use catena_model::status::{FunctionReport, InstanceReport, InstanceUse};
use catena_model::{NodeCounters, NodeName};
use catena_plan::{Intent, PathRecord};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::time::Instant;
use uuid::Uuid;

/// What may be changed of a function here.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FunctionChange {
    on_failure: FailurePolicy,
}

/// What may be changed of an instance here.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InstanceChange {
    is_draining: bool,
}

pub(super) async fn functions(
    app: &App,
    call: &Call,
    name: Option<&str>,
) -> Result<Response, Problem> {
    let intent = app.declared.snapshot().intent;
    let report = match (&call.method, name) {
        (&Method::GET, None) => {
            let all = intent.functions.values().map(|function| function_report(&intent, function));
            shown(&all.collect::<Vec<_>>())?
        }
        (&Method::GET, Some(name)) => {
            let id = find_function(&intent, name)?;
            shown(&intent.functions.get(&id).map(|function| function_report(&intent, function)))?
        }
        (&Method::PATCH, Some(name)) => {
            let change: FunctionChange = body(call)?;
            let id = find_function(&intent, name)?;
            let before = app.situation.borrow().blueprint.number;
            let made = declare(app, move |draft| {
                let function = draft.intent().functions.get(&id).cloned();
                let function = function.ok_or_else(Problem::gone)?;
                draft.put(ServiceFunction { on_failure: change.on_failure, ..function })?;
                Ok(())
            })
            .await?;
            let over = made.intent.chains.values().filter(|chain| chain.functions.contains(&id));
            let chains: Vec<ChainId> = over.map(|chain| chain.id).collect();
            let deadline = Instant::now() + app.answer_wait;
            settle::changed(app, made.revision, before, &chains, deadline).await;
            let function = made.intent.functions.get(&id);
            shown(&function.map(|function| function_report(&made.intent, function)))?
        }
        _ => return Err(Problem::method_not_allowed()),
    };
    Ok(json(StatusCode::OK, super::CONTENT_TYPE, &report))
}

pub(super) async fn instances(
    app: &App,
    call: &Call,
    name: Option<&str>,
) -> Result<Response, Problem> {
    let mut intent = app.declared.snapshot().intent;
    let wanted = name.map(|name| find_instance(&intent, name)).transpose()?;
    match (&call.method, wanted) {
        (&Method::GET, _) => {}
        (&Method::PATCH, Some(id)) => {
            let change: InstanceChange = body(call)?;
            let made = declare(app, move |draft| {
                if change.is_draining {
                    can_drain(draft.intent(), id)?;
                }
                let instance = draft.intent().instances.get(&id).cloned();
                let instance = instance.ok_or_else(Problem::gone)?;
                draft.put(Instance { is_draining: change.is_draining, ..instance })?;
                Ok(())
            })
            .await?;
            intent = made.intent;
        }
        _ => return Err(Problem::method_not_allowed()),
    }
    let counters = app.fleet.counters(false).await;
    let situation = app.situation.borrow().clone();
    let report = |instance| instance_report(&intent, &situation, &counters, instance);
    let answer = match wanted {
        None => shown(&intent.instances.values().map(report).collect::<Vec<_>>())?,
        Some(id) => shown(&intent.instances.get(&id).map(report))?,
    };
    Ok(json(StatusCode::OK, super::CONTENT_TYPE, &answer))
}

/// The body of a call.
pub(super) fn body<T: DeserializeOwned>(call: &Call) -> Result<T, Problem> {
    let bytes = call.body.as_ref().ok_or_else(Problem::too_large)?;
    if !call.has_json() {
        return Err(Problem::not_json());
    }
    serde_json::from_slice(bytes).map_err(|error| Problem::bad_body(&error.to_string()))
}

/// Makes a change where the disk may be waited for; answers what is declared then.
pub(super) async fn declare(
    app: &App,
    edit: impl FnOnce(&mut Draft) -> Result<(), Problem> + Send + 'static,
) -> Result<Snapshot, Problem> {
    let declared = Arc::clone(&app.declared);
    let made = tokio::task::spawn_blocking(move || declared.change(edit)).await;
    let ((), snapshot) = made.map_err(|error| Problem::internal(error.to_string()))??;
    Ok(snapshot)
}

/// An instance can only drain where others of its function take what is new.
fn can_drain(intent: &Intent, id: InstanceId) -> Result<(), Problem> {
    for function in intent.functions.values().filter(|f| f.instances.contains(&id)) {
        let others = function.instances.iter().filter(|other| **other != id);
        let mut others = others.filter_map(|other| intent.instances.get(other));
        if !others.any(|other| other.weight > 0 && !other.is_draining) {
            return Err(Problem::conflict(format!(
                "No other instance of function '{}' takes flows; add one first, or remove the \
                 function from its chains.",
                name_of(&function.label, function.id.0)
            )));
        }
    }
    Ok(())
}

fn find_function(intent: &Intent, name: &str) -> Result<FunctionId, Problem> {
    let all = intent.functions.values().map(|function| (function.id.0, &function.label));
    find("function", all, name).map(FunctionId)
}

fn find_instance(intent: &Intent, name: &str) -> Result<InstanceId, Problem> {
    let all = intent.instances.values().map(|instance| (instance.id.0, &instance.label));
    find("instance", all, name).map(InstanceId)
}

/// The one that has this identity, or alone this name.
fn find<'l>(
    kind: &str,
    all: impl Iterator<Item = (Uuid, &'l Label)>,
    name: &str,
) -> Result<Uuid, Problem> {
    let wanted = Uuid::parse_str(name).ok();
    let mut named = Vec::new();
    for (id, label) in all {
        if wanted == Some(id) {
            return Ok(id);
        }
        if label.name == name {
            named.push(id);
        }
    }
    match named.as_slice() {
        [one] => Ok(*one),
        [] => Err(Problem::not_found(format!(
            "There is no {kind} '{name}'; 'catena {kind} list' shows all."
        ))),
        _ => Err(Problem::ambiguous(format!(
            "Several {kind}s are called '{name}'; ask for one by its id."
        ))),
    }
}

fn name_of(label: &Label, id: Uuid) -> String {
    if label.name.is_empty() { id.to_string() } else { label.name.clone() }
}

fn function_report(intent: &Intent, function: &ServiceFunction) -> FunctionReport {
    let instances = function.instances.iter().filter_map(|id| intent.instances.get(id));
    FunctionReport {
        id: function.id,
        name: name_of(&function.label, function.id.0),
        is_tap: function.is_tap,
        on_failure: function.on_failure,
        instances: instances.map(|instance| name_of(&instance.label, instance.id.0)).collect(),
    }
}

fn instance_report(
    intent: &Intent,
    situation: &Situation,
    counters: &BTreeMap<NodeName, NodeCounters>,
    instance: &Instance,
) -> InstanceReport {
    let function = intent.functions.values().find(|f| f.instances.contains(&instance.id));
    let node = |port: PortId| intent.ports.get(&port).and_then(|port| port.node.clone());
    let paths = || {
        let all = situation.blueprint.ledger.paths.iter();
        all.filter(|(_, path)| needs(path, instance.id))
    };
    let used = match (paths().next(), instance.is_draining) {
        (Some(_), true) => InstanceUse::Draining,
        (None, true) => InstanceUse::Drained,
        (Some(_), false) => InstanceUse::Taking,
        (None, false) => InstanceUse::Unused,
    };
    let at_nodes = counters.values().flat_map(|node| &node.chains);
    let kept = at_nodes.filter(|counted| paths().any(|(id, _)| *id == counted.path));
    InstanceReport {
        id: instance.id,
        name: name_of(&instance.label, instance.id.0),
        function: function.map(|function| name_of(&function.label, function.id.0)),
        node: node(instance.ingress),
        weight: instance.weight,
        is_draining: instance.is_draining,
        used,
        flows_left: kept.map(|counted| counted.pinned_flows).sum(),
    }
}

/// May packets on the path be for the instance?
fn needs(path: &PathRecord, instance: InstanceId) -> bool {
    let entries = path.hops.iter().flat_map(|hop| &hop.instances);
    entries.into_iter().any(|entry| entry.id == instance && entry.weight > 0)
}
