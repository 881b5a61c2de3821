//! Port pair groups: a `ServiceFunction` with its instances in the words of networking-sfc.

use super::attributes::{
    Attribute, Prepared, empty_dict, empty_list, empty_text, optional, read_only,
};
use super::collection::{Collection, Shown, shown};
use super::errors::ApiError;
use super::scope::{Edit, Labels, Scope, View};
use super::{group_parameters, port_chain, port_pair, uses, values};
use crate::northbound::{rule_sets, templates};
use catena_model::ProjectId;
use catena_model::id::{ChainId, FunctionId, InstanceId};
use catena_model::resource::{
    Conduct, Encapsulation, FailurePolicy, FunctionTemplate, Instance, ServiceFunction,
};
use catena_plan::IndexedIntent;
use serde_json::json;
use std::collections::BTreeSet;
use uuid::Uuid;

const TABLE: &[Attribute] = &[
    read_only("id"),
    optional("name", empty_text, true, values::name),
    optional("description", empty_text, true, values::text),
    optional("port_pairs", empty_list, true, values::uuid_list),
    optional("tap_enabled", || json!(false), false, values::boolean),
    optional("port_pair_group_parameters", empty_dict, false, group_parameters::convert),
    read_only("group_id"),
    read_only("status"),
];

pub(super) struct PortPairGroups;

impl Collection for PortPairGroups {
    fn singular(&self) -> &'static str {
        "port_pair_group"
    }

    fn plural(&self) -> &'static str {
        "port_pair_groups"
    }

    fn table(&self) -> &'static [Attribute] {
        TABLE
    }

    fn not_found(&self, id: &str) -> ApiError {
        not_found(id)
    }

    fn labels<'a>(&self, scope: Scope<'a>, name: Option<&str>) -> Labels<'a> {
        scope.labels::<ServiceFunction>(name)
    }

    fn count(&self, intent: &IndexedIntent, project: &ProjectId) -> usize {
        intent.index().count_owned::<ServiceFunction>(project)
    }

    fn render(&self, view: &View, id: Uuid) -> Option<Shown> {
        Some(render(view, view.scope().function(FunctionId(id))?))
    }

    fn create(&self, edit: &mut Edit<'_>, given: &Prepared) -> Result<Uuid, ApiError> {
        let id = FunctionId(Uuid::new_v4());
        let is_tap = given.boolean("tap_enabled").unwrap_or(false);
        let instances = members(edit.scope(), id, is_tap, given)?.unwrap_or_default();
        let declared = given.value("port_pair_group_parameters").cloned().unwrap_or_default();
        edit.draft.put(ServiceFunction {
            id,
            label: given.label(),
            instances,
            is_tap,
            on_failure: FailurePolicy::default(),
            balance: group_parameters::balance(&declared),
            mapping: group_parameters::mapping(&declared),
            keeps_mac: false,
            template: None,
            conduct: Conduct::default(),
            number: uses::free_function_number(edit.draft.intent()),
            declared,
        })?;
        Ok(id.0)
    }

    fn update(&self, edit: &mut Edit<'_>, id: Uuid, given: &Prepared) -> Result<(), ApiError> {
        let mut function = find(edit.scope(), id)?.clone();
        given.relabel(&mut function.label);
        if let Some(instances) = members(edit.scope(), function.id, function.is_tap, given)? {
            let template = function.template.as_ref();
            if template.is_some_and(FunctionTemplate::makes_instances)
                && instances != function.instances
            {
                let message = format!(
                    "The port pairs of Port Pair Group {id} are made from the template of its function."
                );
                return Err(ApiError::conflict("PortPairGroupInUse", message));
            }
            function.instances = instances;
        }
        edit.draft.put(function)?;
        // The chains that use the group must still agree with its members.
        let intent = edit.draft.intent();
        for chain in uses::chains_over(intent, FunctionId(id)) {
            port_chain::check_correlation(intent, chain)?;
        }
        Ok(())
    }

    fn delete(&self, edit: &mut Edit<'_>, id: Uuid) -> Result<(), ApiError> {
        let id = find(edit.scope(), id)?.id;
        if uses::chains_over(edit.draft.intent(), id).next().is_some() {
            let message = format!("Port Pair Group {id} in use.");
            return Err(ApiError::conflict("PortPairGroupInUse", message));
        }
        let Some(function) = edit.draft.intent().functions.get(&id).cloned() else {
            return Ok(());
        };
        templates::remove_all(edit.draft, &function)
            .map_err(|why| ApiError::conflict("PortInUse", why))?;
        edit.draft.remove::<ServiceFunction>(id);
        rule_sets::release(edit.draft, &function);
        Ok(())
    }

    fn chains(&self, intent: &IndexedIntent, id: Uuid) -> Vec<ChainId> {
        uses::chains_over(intent, FunctionId(id)).map(|chain| chain.id).collect()
    }
}

pub(super) fn not_found(id: &str) -> ApiError {
    ApiError::not_found("PortPairGroupNotFound", format!("Port Pair Group {id} not found."))
}

/// The function of an id.
pub(super) fn find(scope: Scope<'_>, id: Uuid) -> Result<&ServiceFunction, ApiError> {
    scope.function(FunctionId(id)).ok_or_else(|| not_found(&id.to_string()))
}

/// The checked members; none: not given.
fn members(
    scope: Scope<'_>,
    group: FunctionId,
    is_tap: bool,
    given: &Prepared,
) -> Result<Option<Vec<InstanceId>>, ApiError> {
    let Some(ids) = given.uuids("port_pairs") else { return Ok(None) };
    let mut spoken: BTreeSet<Option<&str>> = BTreeSet::new();
    let mut members = Vec::with_capacity(ids.len());
    for id in ids {
        let instance = port_pair::find(scope, id)?;
        let owner = uses::function_of(scope.intent, instance.id);
        if owner.is_some_and(|function| function.id != group) {
            return Err(port_pair::in_use(instance.id));
        }
        spoken.insert(instance.speaks.map(Encapsulation::name));
        members.push(instance.id);
    }
    if spoken.len() > 1 {
        let message = "Port Pairs of one Port Pair Group must have the same correlation.";
        return Err(ApiError::invalid("InconsistentCorrelations", message));
    }
    if is_tap && members.len() > 1 {
        let message = "A Port Pair Group with tap_enabled takes only one Port Pair.";
        return Err(ApiError::invalid("MultiplePortPairsInTapPPGNotSupported", message));
    }
    Ok(Some(members))
}

/// Whether all, some or none of a function's instances take packets.
fn status(view: &View, function: &ServiceFunction) -> &'static str {
    let instances = function.instances.iter().filter_map(|id| view.intent.instances.get(id));
    let is_active = |instance: &&Instance| port_pair::status(view, instance) == "active";
    match instances.filter(is_active).count() {
        0 => "down",
        count if count == function.instances.len() => "active",
        _ => "degraded",
    }
}

fn render(view: &View, function: &ServiceFunction) -> Shown {
    shown(json!({
        "id": function.id,
        "name": function.label.name,
        "description": function.label.description,
        "project_id": function.label.project,
        "port_pairs": function.instances,
        "tap_enabled": function.is_tap,
        "port_pair_group_parameters": function.declared,
        "group_id": function.number,
        "tenant_id": function.label.project,
        "status": status(view, function),
    }))
}
