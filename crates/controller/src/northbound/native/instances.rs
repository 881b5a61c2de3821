//! `/v1/instances`: how instances are used, and how they leave without breaking a flow. Refuses to
//! know paths beyond whether one needs an instance.

use super::change::{body, declare, find};
use super::problem::Problem;
use super::view::View;
use crate::northbound::app::App;
use crate::reconcile::Situation;
use axum::response::Response;
use catena_model::CounterScope;
use catena_model::id::{InstanceId, PortId};
use catena_model::resource::{Encapsulation, Instance, ServiceFunction};
use catena_model::status::{InstanceReport, InstanceUse};
use catena_plan::{Counted, Intent, PathRecord};
use serde::Deserialize;
use utoipa::ToSchema;

/// What `PATCH` changes of an instance; what is not given stays.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct InstanceChange {
    /// Shall it take no new flow?
    #[serde(default)]
    pub(super) is_draining: Option<bool>,
    /// What it speaks, by name; an empty name: nothing, so that it gets a proxy. Only while no packets go through it.
    #[serde(default)]
    pub(super) speaks: Option<String>,
}

pub(super) async fn list(view: &View) -> Result<Response, Problem> {
    let View { app, intent, .. } = view;
    let counters = app.collector.all(false).await;
    let situation = app.situation.borrow().clone();
    let all = intent.instances.values();
    let reports = all.map(|instance| report(intent, &situation, &counters, instance));
    view.told(&reports.collect::<Vec<InstanceReport>>())
}

pub(super) async fn show(view: &View) -> Result<Response, Problem> {
    view.told(&one(&view.app, &view.intent, find_instance(view)?).await?)
}

async fn one(app: &App, intent: &Intent, id: InstanceId) -> Result<InstanceReport, Problem> {
    let situation = app.situation.borrow().clone();
    let paths = situation.blueprint.ledger.paths.values().filter(|path| needs(path, id));
    let known = || situation.inventory.nodes.keys();
    let nodes = paths.clone().flat_map(|path| path.nodes(known())).collect();
    let chains = paths.map(|path| path.chain).collect();
    let of = CounterScope { chains, ..CounterScope::default() };
    let counters = app.collector.some(nodes, false, of).await;
    let instance = intent.instances.get(&id).ok_or_else(Problem::gone)?;
    Ok(report(intent, &situation, &counters, instance))
}

pub(super) async fn patch(view: &View) -> Result<Response, Problem> {
    let change: InstanceChange = body(&view.call)?;
    let speaks = change.speaks.as_deref().map(spoken).transpose()?;
    if change.is_draining.is_none() && speaks.is_none() {
        return Err(Problem::bad_request(
            "Nothing is changed: give 'is_draining' or 'speaks'.".into(),
        ));
    }
    let id = find_instance(view)?;
    let situation = view.app.situation.borrow().clone();
    let made = declare(&view.app, move |draft| {
        if change.is_draining == Some(true) {
            can_drain(draft.intent(), id)?;
        }
        let instance = draft.intent().instances.get(&id).cloned();
        let instance = instance.ok_or_else(Problem::gone)?;
        let is_draining = change.is_draining.unwrap_or(instance.is_draining);
        let speaks = speaks.unwrap_or(instance.speaks);
        if speaks != instance.speaks {
            can_speak_otherwise(&situation, &instance)?;
        }
        draft.put(Instance { is_draining, speaks, ..instance })?;
        Ok(())
    })
    .await?;
    view.told(&one(&view.app, &made.intent, id).await?)
}

/// What an instance is said to speak.
fn spoken(name: &str) -> Result<Option<Encapsulation>, Problem> {
    if name.is_empty() {
        return Ok(None);
    }
    let mut known = Encapsulation::SPOKEN.into_iter();
    known.find(|one| one.name() == name).map(Some).ok_or_else(|| {
        let known = Encapsulation::SPOKEN.map(Encapsulation::name).join(", ");
        Problem::bad_request(format!(
            "No function speaks '{name}'; use one of {known}, or an empty name."
        ))
    })
}

/// What packets are inside of stays what it is, or they would come back as nobody expects.
fn can_speak_otherwise(situation: &Situation, instance: &Instance) -> Result<(), Problem> {
    let ledger = &situation.blueprint.ledger;
    let through = ledger.paths.values().find(|path| needs(path, instance.id));
    through.map_or(Ok(()), |_| {
        Err(Problem::conflict(format!(
            "Packets go through instance '{}'; take its function out of its chains first, or let another instance that \
             speaks otherwise take its place.",
            instance.name()
        )))
    })
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
                function.name()
            )));
        }
    }
    Ok(())
}

fn find_instance(view: &View) -> Result<InstanceId, Problem> {
    let all = view.intent.instances.values().map(|instance| (instance.id.0, &instance.label));
    find("instance", all, &view.call.name).map(InstanceId)
}

fn report(
    intent: &Intent,
    situation: &Situation,
    counters: &Counted,
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
        name: instance.name(),
        function: function.map(ServiceFunction::name),
        node: node(instance.ingress),
        weight: instance.weight,
        speaks: instance.speaks,
        is_draining: instance.is_draining,
        used,
        // The numbers are the nodes' own: whatever they are, nobody stops over their sum.
        flows_left: kept.fold(0, |sum, counted| counted.pinned_flows.saturating_add(sum)),
    }
}

/// May packets on the path be for the instance?
fn needs(path: &PathRecord, instance: InstanceId) -> bool {
    let mut all = path.functions().flat_map(|function| function.instances);
    all.any(|one| one.id == instance && one.weight > 0)
}
