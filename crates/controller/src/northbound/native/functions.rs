//! `/v1/functions`: what networking-sfc has no words for. Knows how a function fails, what
//! it leaves of frames and how its instances are to be run; refuses to know paths, and runs nothing.

use super::change::{body, declare, find};
use super::openapi::FunctionChange;
use super::problem::Problem;
use crate::northbound::app::App;
use crate::northbound::call::Call;
use crate::reconcile::settle;
use catena_model::id::{ChainId, FunctionId, PortId};
use catena_model::limits::FUNCTION_INSTANCES_MAX;
use catena_model::resource::{FunctionSettings, FunctionTemplate, Instance, Runs, ServiceFunction};
use catena_model::status::{Condition, FunctionReport};
use catena_plan::Intent;
use tokio::time::Instant;

pub(super) fn list(intent: &Intent) -> Vec<FunctionReport> {
    intent.functions.values().map(|function| report(intent, function)).collect()
}

pub(super) fn show(intent: &Intent, name: &str) -> Result<FunctionReport, Problem> {
    let id = find_function(intent, name)?;
    let function = intent.functions.get(&id).ok_or_else(Problem::gone)?;
    Ok(report(intent, function))
}

/// Changes what is given.
pub(super) async fn patch(
    app: &App,
    call: &Call,
    intent: &Intent,
    name: &str,
) -> Result<FunctionReport, Problem> {
    let FunctionChange { on_failure, keeps_mac, template } = body(call)?;
    if on_failure.is_none() && keeps_mac.is_none() && template.is_none() {
        let what = "it changes nothing; give 'on_failure', 'keeps_mac' or 'template'";
        return Err(Problem::bad_body(what));
    }
    change(app, find_function(intent, name)?, move |function| {
        let on_failure = on_failure.unwrap_or(function.on_failure);
        let keeps_mac = keeps_mac.unwrap_or(function.keeps_mac);
        let template = template.unwrap_or_else(|| function.template.clone());
        ServiceFunction { on_failure, keeps_mac, template, ..function }
    })
    .await
}

/// Gives a function these settings and no others.
pub(super) async fn put(
    app: &App,
    call: &Call,
    intent: &Intent,
    name: &str,
) -> Result<FunctionReport, Problem> {
    let FunctionSettings { on_failure, keeps_mac, template } = body(call)?;
    let edit = move |function| ServiceFunction { on_failure, keeps_mac, template, ..function };
    change(app, find_function(intent, name)?, edit).await
}

async fn change(
    app: &App,
    id: FunctionId,
    edit: impl FnOnce(ServiceFunction) -> ServiceFunction + Send + 'static,
) -> Result<FunctionReport, Problem> {
    let before = app.situation.borrow().blueprint.number;
    let made = declare(app, move |draft| {
        let function = draft.intent().functions.get(&id).cloned().ok_or_else(Problem::gone)?;
        let changed = edit(function);
        if let Some(template) = &changed.template {
            check(template)?;
        }
        draft.put(changed)?;
        Ok(())
    })
    .await?;
    let over = made.intent.chains.values().filter(|chain| chain.functions.contains(&id));
    let chains: Vec<ChainId> = over.map(|chain| chain.id).collect();
    let deadline = Instant::now() + app.answer_wait;
    settle::changed(app, made.revision, before, &chains, deadline).await;
    show(&made.intent, &id.to_string())
}

fn check(template: &FunctionTemplate) -> Result<(), Problem> {
    let is_empty = match &template.runs {
        Runs::Image(name) | Runs::External(name) => name.trim().is_empty(),
        Runs::Command(words) => words.first().is_none_or(|program| program.trim().is_empty()),
    };
    if is_empty {
        return Err(Problem::bad_body("'runs' names nothing; give an image, a command or a name"));
    }
    if template.instances as usize > FUNCTION_INSTANCES_MAX {
        return Err(Problem::bad_body(&format!(
            "'instances' is {}; a function has at most {FUNCTION_INSTANCES_MAX}",
            template.instances
        )));
    }
    Ok(())
}

fn find_function(intent: &Intent, name: &str) -> Result<FunctionId, Problem> {
    let all = intent.functions.values().map(|function| (function.id.0, &function.label));
    find("function", all, name).map(FunctionId)
}

fn report(intent: &Intent, function: &ServiceFunction) -> FunctionReport {
    let instances = function.instances.iter().filter_map(|id| intent.instances.get(id));
    FunctionReport {
        id: function.id,
        name: function.name(),
        is_tap: function.is_tap,
        on_failure: function.on_failure,
        keeps_mac: function.keeps_mac,
        instances: instances.map(Instance::name).collect(),
        template: function.template.clone(),
        conditions: conditions(intent, function),
    }
}

/// What should hold of a function: as many instances as its template wants have their ports at a
/// node. Whoever runs them makes it so; nobody here does.
fn conditions(intent: &Intent, function: &ServiceFunction) -> Vec<Condition> {
    let Some(template) = &function.template else { return Vec::new() };
    let is_placed = |port: &PortId| {
        intent.ports.get(port).is_some_and(|port| port.node.is_some() && port.attachment.is_some())
    };
    let instances = function.instances.iter().filter_map(|id| intent.instances.get(id));
    let ready = instances.filter(|i| is_placed(&i.ingress) && is_placed(&i.egress)).count();
    let text = format!("{ready} of {} instances have their ports at a node", template.instances);
    let holds = ready >= template.instances as usize;
    vec![Condition { name: "InstancesReady".into(), holds, text }]
}
