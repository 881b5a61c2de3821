//! `/v1/functions`: what networking-sfc has no words for. Knows how a function fails, what
//! it leaves of frames and how its instances are to be run; refuses to know paths, and who runs them how.

use super::change::{body, declare, find};
use super::problem::Problem;
use super::view::View;
use crate::auth::Refusal;
use crate::northbound::app::App;
use crate::northbound::packing::{self, Placing};
use crate::northbound::rule_sets::{self, Refusal as Refused};
use crate::northbound::templates::{self, Checked, Turn};
use crate::reconcile::settle;
use crate::southbound::instances::InstanceBoard;
use axum::response::Response;
use catena_model::account::FunctionCounters;
use catena_model::id::{ChainId, FunctionId, PortId};
use catena_model::instance::Door;
use catena_model::limits::FUNCTION_INSTANCES_MAX;
use catena_model::resource::{
    FailurePolicy, FunctionSettings, FunctionTemplate, Instance, Runs, ServiceFunction,
};
use catena_model::rule_set::BadRuleSet;
use catena_model::status::{Condition, FunctionReport};
use catena_model::{CounterScope, NodeName};
use catena_plan::Intent;
use serde::{Deserialize, Deserializer};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::time::Instant;
use utoipa::ToSchema;

/// What `PATCH` changes of a function; what is not given stays.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FunctionChange {
    /// What becomes of packets when an instance dies.
    #[serde(default)]
    pub(super) on_failure: Option<FailurePolicy>,
    /// Do frames leave it with the source MAC that they came with?
    #[serde(default)]
    pub(super) keeps_mac: Option<bool>,
    /// How its instances are to be run; null takes it away.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<FunctionTemplate>)]
    pub(super) template: Option<Option<FunctionTemplate>>,
}

/// A value that was given, even as null.
pub(super) fn given<'de, T, D>(from: D) -> Result<Option<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    T::deserialize(from).map(Some)
}

pub(super) async fn list(view: &View) -> Result<Response, Problem> {
    let all = view.intent.functions.values();
    let sees_hosts = view.identity.sees_all();
    view.told(
        &all.map(|function| report(&view.app, &view.intent, function, sees_hosts))
            .collect::<Vec<_>>(),
    )
}

pub(super) async fn show(view: &View) -> Result<Response, Problem> {
    let id = find_function(view)?;
    let function = view.intent.functions.get(&id).ok_or_else(Problem::gone)?;
    let counters = counters(view, function).await;
    // What is stored was checked, by whichever version stored it.
    let turn = Turn::begin().await;
    let whole = function.template.as_ref().map(|template| texts(view, function, template));
    let checked = match whole.transpose() {
        Ok(whole) => templates::check(whole.as_ref(), turn).await.unwrap_or_default(),
        Err(_) => Checked::default(),
    };
    view.told(&FunctionReport {
        remarks: checked.remarks,
        counters,
        ..report(&view.app, &view.intent, function, view.identity.sees_all())
    })
}

/// What the instances of a bundled function have counted, in their order.
async fn counters(view: &View, function: &ServiceFunction) -> Vec<FunctionCounters> {
    let template = function.template.as_ref().map(|template| &template.runs);
    if !matches!(template, Some(Runs::Bundled(_))) {
        return Vec::new();
    }
    let instances = || function.instances.iter().filter_map(|id| view.intent.instances.get(id));
    let at = |one: &Instance| view.intent.ports.get(&one.ingress)?.node.clone();
    let nodes: BTreeSet<NodeName> = instances().filter_map(at).collect();
    let functions = function.instances.iter().copied().collect();
    let of = CounterScope { functions, ..CounterScope::default() };
    let counted = view.app.collector.some(nodes, false, of).await;
    let mut all: Vec<FunctionCounters> =
        counted.into_values().flat_map(|counters| counters.functions).collect();
    all.sort_by_key(|one| function.instances.iter().position(|id| *id == one.instance));
    all
}

/// Changes what is given.
pub(super) async fn patch(view: &View) -> Result<Response, Problem> {
    let FunctionChange { on_failure, keeps_mac, template } = body(&view.call)?;
    if on_failure.is_none() && keeps_mac.is_none() && template.is_none() {
        let what = "it changes nothing; give 'on_failure', 'keeps_mac' or 'template'";
        return Err(Problem::bad_body(what));
    }
    check_hosts(view, template.as_ref().and_then(Option::as_ref))?;
    let id = find_function(view)?;
    let checked = check_bundled(view, id, template.as_ref().and_then(Option::as_ref)).await?;
    let edit = move |function: ServiceFunction| {
        let conduct = match &template {
            Some(_) => checked.conduct,
            None => function.conduct.clone(),
        };
        let on_failure = on_failure.unwrap_or(function.on_failure);
        let keeps_mac = keeps_mac.unwrap_or(function.keeps_mac);
        let template = template.unwrap_or_else(|| function.template.clone());
        ServiceFunction { on_failure, keeps_mac, template, conduct, ..function }
    };
    view.told(&change(view, id, edit).await?)
}

/// Gives a function these settings and no others.
pub(super) async fn put(view: &View) -> Result<Response, Problem> {
    let FunctionSettings { on_failure, keeps_mac, template } = body(&view.call)?;
    check_hosts(view, template.as_ref())?;
    let id = find_function(view)?;
    let conduct = check_bundled(view, id, template.as_ref()).await?.conduct;
    let edit =
        move |function| ServiceFunction { on_failure, keeps_mac, template, conduct, ..function };
    view.told(&change(view, id, edit).await?)
}

/// The kind that does nothing but take its host's time.
const WORK: &str = "work";

/// What is the operator's to say: hosts, what runs there, and how much of them it may take.
fn check_hosts(view: &View, template: Option<&FunctionTemplate>) -> Result<(), Problem> {
    let Some(template) = template.filter(|_| !view.identity.sees_all()) else { return Ok(()) };
    let what = match template {
        FunctionTemplate { on, .. } if !on.is_empty() => "'on' names hosts",
        FunctionTemplate { runs: Runs::Command(_), .. } => "'command' runs on hosts",
        FunctionTemplate { door: Door::Apart, .. } => "'door: apart' starts processes on hosts",
        FunctionTemplate { door: Door::Beside, .. } => "'door: beside' starts processes on hosts",
        FunctionTemplate { runs: Runs::Bundled(kind), .. } if kind == WORK => {
            "'bundled: work' keeps processors of hosts busy"
        }
        FunctionTemplate { cpu_milli: Some(_), .. } => "'cpu_milli' is of hosts",
        FunctionTemplate { memory_mib: Some(_), .. } => "'memory_mib' is of hosts",
        _ => return Ok(()),
    };
    Err(operators(what))
}

pub(super) fn operators(what: &str) -> Problem {
    Refusal::Forbidden(format!("{what}, which whoever operates them says; leave it out")).into()
}

/// Can it be made, and may who asks say where hosts send its messages?
async fn check_bundled(
    view: &View,
    id: FunctionId,
    template: Option<&FunctionTemplate>,
) -> Result<Checked, Problem> {
    let function = view.intent.functions.get(&id).ok_or_else(Problem::gone)?;
    let turn = Turn::begin().await;
    let whole = template.map(|template| texts(view, function, template)).transpose();
    let checked = templates::check(whole.map_err(Refused::Missing)?.as_ref(), turn).await?;
    match checked.collector {
        Some(_) if !view.identity.sees_all() => Err(operators("'ipfix' is sent to by hosts")),
        _ => Ok(checked),
    }
}

/// A template with the text of each rule set that it names.
fn texts(
    view: &View,
    function: &ServiceFunction,
    template: &FunctionTemplate,
) -> Result<FunctionTemplate, BadRuleSet> {
    rule_sets::with_texts(&view.intent, template, &function.label.project, &view.identity)
}

async fn change(
    view: &View,
    id: FunctionId,
    edit: impl FnOnce(ServiceFunction) -> ServiceFunction + Send + 'static,
) -> Result<FunctionReport, Problem> {
    let (app, sees_hosts): (&App, bool) = (&view.app, view.identity.sees_all());
    let before = app.situation.borrow().blueprint.number;
    let (quotas, asker) = (Arc::clone(&app.quotas), view.identity.clone());
    let (placing, is_draft) = (Placing::new(app, &asker), app.is_draft);
    let made = declare(app, move |draft| {
        let function = draft.intent().functions.get(&id).cloned().ok_or_else(Problem::gone)?;
        let hosts = function.template.as_ref().map(|template| template.on.clone());
        let mut changed = edit(function.clone());
        // Who does not see hosts leaves them as they are.
        if let Some(template) = changed.template.as_mut().filter(|_| !sees_hosts) {
            template.on = hosts.unwrap_or_default();
        }
        if let Some(template) = &changed.template {
            check(template)?;
        }
        rule_sets::adopt(draft, &quotas, &changed, &asker)?;
        // In a draft hosts are chosen for all of it together, when it is looked at or applied.
        let is_asked = !is_draft && packing::needs_hosts(Some(&function), &changed);
        let former = is_asked.then(|| draft.intent().clone());
        templates::arrange(draft, &quotas, changed)?;
        if let Some(former) = former {
            packing::place(draft, &former, &placing)?;
        }
        rule_sets::release(draft, &function);
        Ok(())
    })
    .await?;
    let over = made.intent.chains.values().filter(|chain| chain.functions.contains(&id));
    let chains: Vec<ChainId> = over.map(|chain| chain.id).collect();
    let deadline = Instant::now() + app.answer_wait;
    settle::changed(app, made.revision, before, &chains, deadline).await;
    let function = made.intent.functions.get(&id).ok_or_else(Problem::gone)?;
    Ok(report(app, &made.intent, function, sees_hosts))
}

fn check(template: &FunctionTemplate) -> Result<(), Problem> {
    let is_empty = match &template.runs {
        Runs::Image(name) | Runs::External(name) | Runs::Bundled(name) => name.trim().is_empty(),
        Runs::Command(words) => words.first().is_none_or(|program| program.trim().is_empty()),
    };
    if is_empty {
        return Err(Problem::bad_body(
            "'runs' names nothing; give an image, a command, a name or a bundled kind",
        ));
    }
    if template.instances as usize > FUNCTION_INSTANCES_MAX {
        return Err(Problem::bad_body(&format!(
            "'instances' is {}; a function has at most {FUNCTION_INSTANCES_MAX}",
            template.instances
        )));
    }
    Ok(())
}

/// Why an instance does not run, by what its node says; none: it does.
fn why_not_running(
    board: &InstanceBoard,
    intent: &Intent,
    instance: &Instance,
    sees_hosts: bool,
) -> Option<String> {
    let name = instance.name();
    let node = intent.ports.get(&instance.ingress).and_then(|port| port.node.as_ref());
    let Some(node) = node else { return Some(format!("{name}: it has no host")) };
    let at = if sees_hosts { format!("{name} at {node}") } else { name };
    match board.state(node, instance.id) {
        None => Some(format!("{at}: its node says nothing")),
        Some(state) if state.is_running => None,
        Some(state) if !sees_hosts => {
            Some(format!("{at}: it has ended {} times", state.restarts + 1))
        }
        Some(state) => {
            let again = match state.restarts {
                0 => String::new(),
                times => format!(" (started anew {times} times)"),
            };
            Some(format!("{at}: {}{again}", state.last_exit))
        }
    }
}

pub(super) fn find_function(view: &View) -> Result<FunctionId, Problem> {
    let all = view.intent.functions.values().map(|function| (function.id.0, &function.label));
    find("function", all, &view.call.name).map(FunctionId)
}

fn report(
    app: &App,
    intent: &Intent,
    function: &ServiceFunction,
    sees_hosts: bool,
) -> FunctionReport {
    let mut template = function.template.clone();
    if let Some(template) = template.as_mut().filter(|_| !sees_hosts) {
        template.on.clear();
    }
    let instances = function.instances.iter().filter_map(|id| intent.instances.get(id));
    FunctionReport {
        id: function.id,
        name: function.name(),
        is_tap: function.is_tap,
        on_failure: function.on_failure,
        keeps_mac: function.keeps_mac,
        instances: instances.map(Instance::name).collect(),
        template,
        hosts: if sees_hosts { hosts(intent, function) } else { BTreeMap::new() },
        conditions: conditions(&app.fleet.instances, intent, function, sees_hosts),
        remarks: Vec::new(),
        counters: Vec::new(),
    }
}

/// Where its instances are that are placed.
fn hosts(intent: &Intent, function: &ServiceFunction) -> BTreeMap<String, NodeName> {
    let instances = function.instances.iter().filter(|_| packing::is_placed(function));
    let host = |id| {
        let instance: &Instance = intent.instances.get(id)?;
        Some((instance.name(), intent.ports.get(&instance.ingress)?.node.clone()?))
    };
    instances.filter_map(host).collect()
}

/// What should hold of a function: as many instances as its template wants have their ports at a
/// node, and run, where it is a node that runs them.
fn conditions(
    board: &InstanceBoard,
    intent: &Intent,
    function: &ServiceFunction,
    sees_hosts: bool,
) -> Vec<Condition> {
    let Some(template) = &function.template else { return Vec::new() };
    let is_placed = |port: &PortId| {
        intent.ports.get(port).is_some_and(|port| port.node.is_some() && port.attachment.is_some())
    };
    let instances = || function.instances.iter().filter_map(|id| intent.instances.get(id));
    let wanted = match template.runs {
        // They are made here: one at least.
        _ if template.makes_instances() => template.instances.max(1),
        _ => template.instances,
    };
    let (ready, text) = if template.is_run_by_nodes() {
        let why: Vec<String> =
            instances().filter_map(|one| why_not_running(board, intent, one, sees_hosts)).collect();
        let running = function.instances.len() - why.len();
        (running, [vec![format!("{running} of {wanted} instances run")], why].concat().join("; "))
    } else {
        let ready = instances().filter(|i| is_placed(&i.ingress) && is_placed(&i.egress)).count();
        (ready, format!("{ready} of {wanted} instances have their ports at a node"))
    };
    let holds = ready >= wanted as usize;
    vec![Condition { name: "InstancesReady".into(), holds, text }]
}
