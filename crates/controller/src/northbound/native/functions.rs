//! `/v1/functions`: what networking-sfc has no words for. Knows how a function fails; refuses to know
//! paths.

use super::change::{body, declare, find, name_of};
use super::problem::Problem;
use super::{App, Call};
use crate::reconcile::settle;
use catena_model::id::{ChainId, FunctionId};
use catena_model::resource::{FailurePolicy, ServiceFunction};
use catena_model::status::FunctionReport;
use catena_plan::Intent;
use serde::Deserialize;
use tokio::time::Instant;

/// What may be changed of a function here.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FunctionChange {
    on_failure: FailurePolicy,
}

pub(super) fn list(intent: &Intent) -> Vec<FunctionReport> {
    intent.functions.values().map(|function| report(intent, function)).collect()
}

pub(super) fn show(intent: &Intent, name: &str) -> Result<FunctionReport, Problem> {
    let id = find_function(intent, name)?;
    let function = intent.functions.get(&id).ok_or_else(Problem::gone)?;
    Ok(report(intent, function))
}

pub(super) async fn patch(
    app: &App,
    call: &Call,
    intent: &Intent,
    name: &str,
) -> Result<FunctionReport, Problem> {
    let change: FunctionChange = body(call)?;
    let id = find_function(intent, name)?;
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
    show(&made.intent, &id.to_string())
}

fn find_function(intent: &Intent, name: &str) -> Result<FunctionId, Problem> {
    let all = intent.functions.values().map(|function| (function.id.0, &function.label));
    find("function", all, name).map(FunctionId)
}

fn report(intent: &Intent, function: &ServiceFunction) -> FunctionReport {
    let instances = function.instances.iter().filter_map(|id| intent.instances.get(id));
    FunctionReport {
        id: function.id,
        name: name_of(&function.label, function.id.0),
        is_tap: function.is_tap,
        on_failure: function.on_failure,
        instances: instances.map(|instance| name_of(&instance.label, instance.id.0)).collect(),
    }
}
