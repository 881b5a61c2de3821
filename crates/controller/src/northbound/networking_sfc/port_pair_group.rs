//! Port pair groups: a `ServiceFunction` with its instances in the words of networking-sfc.

use super::attributes::{
    Attribute, Prepared, empty_dict, empty_list, empty_text, optional, read_only,
};
use super::errors::ApiError;
use super::{Collection, Shown, View, port_pair, shown, values};
use crate::declared::Draft;
use catena_model::id::{ChainId, FunctionId, InstanceId};
use catena_model::resource::{Encapsulation, FailurePolicy, ServiceFunction, TupleMapping};
use catena_plan::Intent;
use ipnet::IpNet;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use uuid::Uuid;

/// Header fields that an instance may be chosen by.
const LB_FIELDS: [&str; 8] =
    ["eth_src", "eth_dst", "ip_src", "ip_dst", "tcp_src", "tcp_dst", "udp_src", "udp_dst"];
const TUPLE_PREFIXES: [&str; 2] = ["source_ip_prefix", "destination_ip_prefix"];
const TUPLE_PORTS: [&str; 4] = [
    "source_port_range_min",
    "source_port_range_max",
    "destination_port_range_min",
    "destination_port_range_max",
];

const TABLE: &[Attribute] = &[
    read_only("id"),
    optional("name", empty_text, true, values::text),
    optional("description", empty_text, true, values::text),
    optional("port_pairs", empty_list, true, values::uuid_list),
    optional("tap_enabled", || json!(false), false, values::boolean),
    optional("port_pair_group_parameters", empty_dict, false, parameters),
    read_only("group_id"),
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

    fn list(&self, view: &View) -> Vec<Shown> {
        view.intent.functions.values().map(render).collect()
    }

    fn show(&self, view: &View, id: Uuid) -> Option<Shown> {
        view.intent.functions.get(&FunctionId(id)).map(render)
    }

    fn create(&self, draft: &mut Draft, given: &Prepared) -> Result<Uuid, ApiError> {
        let id = FunctionId(Uuid::new_v4());
        let is_tap = given.boolean("tap_enabled").unwrap_or(false);
        let instances = members(draft.intent(), id, is_tap, given)?.unwrap_or_default();
        draft.put(ServiceFunction {
            id,
            label: given.label(),
            instances,
            is_tap,
            on_failure: FailurePolicy::default(),
            balance: Vec::new(),
            mapping: TupleMapping::default(),
            template: None,
            number: free_number(draft.intent()),
            declared: given.value("port_pair_group_parameters").cloned().unwrap_or_default(),
        })?;
        Ok(id.0)
    }

    fn update(&self, draft: &mut Draft, id: Uuid, given: &Prepared) -> Result<(), ApiError> {
        let mut function = find(draft.intent(), id)?.clone();
        given.relabel(&mut function.label);
        if let Some(instances) = members(draft.intent(), function.id, function.is_tap, given)? {
            function.instances = instances;
        }
        draft.put(function)?;
        // The chains that use the group must still agree with its members.
        let chains = draft.intent().chains.values();
        for chain in chains.filter(|chain| chain.functions.contains(&FunctionId(id))) {
            super::port_chain::check_correlation(draft.intent(), chain)?;
        }
        Ok(())
    }

    fn delete(&self, draft: &mut Draft, id: Uuid) -> Result<(), ApiError> {
        let id = find(draft.intent(), id)?.id;
        if draft.intent().chains.values().any(|chain| chain.functions.contains(&id)) {
            let message = format!("Port Pair Group {id} in use.");
            return Err(ApiError::conflict("PortPairGroupInUse", message));
        }
        draft.remove::<ServiceFunction>(id);
        Ok(())
    }

    fn chains(&self, intent: &Intent, id: Uuid) -> Vec<ChainId> {
        chains_over(intent, |function| function.0 == id)
    }
}

/// The chains over one of these functions.
pub(super) fn chains_over(intent: &Intent, is_one: impl Fn(&FunctionId) -> bool) -> Vec<ChainId> {
    let chains = intent.chains.values().filter(|chain| chain.functions.iter().any(&is_one));
    chains.map(|chain| chain.id).collect()
}

pub(super) fn not_found(id: &str) -> ApiError {
    ApiError::not_found("PortPairGroupNotFound", format!("Port Pair Group {id} not found."))
}

/// The function of an id.
pub(super) fn find(intent: &Intent, id: Uuid) -> Result<&ServiceFunction, ApiError> {
    intent.functions.get(&FunctionId(id)).ok_or_else(|| not_found(&id.to_string()))
}

/// The checked members; none: not given.
fn members(
    intent: &Intent,
    group: FunctionId,
    is_tap: bool,
    given: &Prepared,
) -> Result<Option<Vec<InstanceId>>, ApiError> {
    let Some(ids) = given.uuids("port_pairs") else { return Ok(None) };
    let mut spoken: BTreeSet<Option<&str>> = BTreeSet::new();
    let mut members = Vec::with_capacity(ids.len());
    for id in ids {
        let instance = port_pair::find(intent, id)?;
        let owner = |function: &&ServiceFunction| function.instances.contains(&instance.id);
        if intent.functions.values().filter(owner).any(|function| function.id != group) {
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

/// The lowest number from 1 that no group has.
fn free_number(intent: &Intent) -> u32 {
    let taken: BTreeSet<u32> = intent.functions.values().map(|f| f.number).collect();
    (1..=u32::MAX).find(|number| !taken.contains(number)).unwrap_or(u32::MAX)
}

fn render(function: &ServiceFunction) -> Shown {
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
    }))
}

fn parameters(name: &str, value: &Value) -> Result<Value, ApiError> {
    let mut given = values::dict_or_null(name, value, &["lb_fields", "ppg_n_tuple_mapping"])?;
    let fields = given.remove("lb_fields").unwrap_or_else(empty_list);
    let Some(list) = fields.as_array() else {
        let reason = format!("'{}' is not a list.", values::shown(&fields));
        return Err(ApiError::attribute(name, reason));
    };
    if let Some(bad) = list.iter().find(|f| f.as_str().is_none_or(|f| !LB_FIELDS.contains(&f))) {
        let reason = format!("'{}' is not in valid_values.", values::shown(bad));
        return Err(ApiError::attribute(name, reason));
    }
    let mapping = given.remove("ppg_n_tuple_mapping").unwrap_or_default();
    let mut mapping = values::dict_or_null(name, &mapping, &["ingress_n_tuple", "egress_n_tuple"])?;
    let ingress = tuple(name, mapping.remove("ingress_n_tuple"))?;
    let egress = tuple(name, mapping.remove("egress_n_tuple"))?;
    let mapping = json!({"ingress_n_tuple": ingress, "egress_n_tuple": egress});
    Ok(json!({"lb_fields": fields, "ppg_n_tuple_mapping": mapping}))
}

/// One side of the mapping, stored as given once its values are legal.
fn tuple(name: &str, value: Option<Value>) -> Result<Map<String, Value>, ApiError> {
    let tuple = match value {
        None | Some(Value::Null) => return Ok(Map::new()),
        Some(Value::Object(tuple)) => tuple,
        Some(other) => {
            let reason = format!("'{}' is not a dictionary.", values::shown(&other));
            return Err(ApiError::attribute(name, reason));
        }
    };
    for (key, value) in &tuple {
        let is_legal = if TUPLE_PREFIXES.contains(&key.as_str()) {
            value.as_str().is_some_and(|text| text.parse::<IpNet>().is_ok())
        } else if TUPLE_PORTS.contains(&key.as_str()) {
            values::integer(value).is_some_and(|port| u16::try_from(port).is_ok())
        } else {
            return Err(ApiError::invalid(
                "PPGParametersInvalidNTupleMappingParameter",
                format!("Port Pair Group does not support the n-tuple parameter {key}."),
            ));
        };
        if !is_legal && !value.is_null() {
            let reason = format!("'{}' is no value for '{key}'.", values::shown(value));
            return Err(ApiError::attribute(name, reason));
        }
    }
    Ok(tuple)
}
