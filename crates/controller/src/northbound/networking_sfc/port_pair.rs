//! Port pairs: an `Instance` of a service function in the words of networking-sfc.

use super::attributes::{
    Attribute, Prepared, empty_dict, empty_text, optional, read_only, required,
};
use super::collection::{Collection, Shown, shown};
use super::errors::ApiError;
use super::port::made::is_made;
use super::scope::{Edit, Labels, Scope, View};
use super::{uses, values};
use catena_model::ProjectId;
use catena_model::id::{ChainId, InstanceId, PortId};
use catena_model::resource::{Encapsulation, Instance};
use catena_plan::IndexedIntent;
use serde_json::{Value, json};
use uuid::Uuid;

/// Share of an instance that states none.
const WEIGHT_DEFAULT: u32 = 1;

const TABLE: &[Attribute] = &[
    read_only("id"),
    optional("name", empty_text, true, values::name),
    optional("description", empty_text, true, values::text),
    required("ingress", false, values::uuid),
    required("egress", false, values::uuid),
    optional("service_function_parameters", empty_dict, false, parameters),
    read_only("speaks"),
    read_only("status"),
];

pub(super) struct PortPairs;

impl Collection for PortPairs {
    fn singular(&self) -> &'static str {
        "port_pair"
    }

    fn plural(&self) -> &'static str {
        "port_pairs"
    }

    fn table(&self) -> &'static [Attribute] {
        TABLE
    }

    fn not_found(&self, id: &str) -> ApiError {
        not_found(id)
    }

    fn labels<'a>(&self, scope: Scope<'a>, name: Option<&str>) -> Labels<'a> {
        scope.labels::<Instance>(name)
    }

    fn count(&self, intent: &IndexedIntent, project: &ProjectId) -> usize {
        intent.index().count_owned::<Instance>(project)
    }

    fn render(&self, view: &View, id: Uuid) -> Option<Shown> {
        Some(render(view, view.scope().instance(InstanceId(id))?))
    }

    fn create(&self, edit: &mut Edit<'_>, given: &Prepared) -> Result<Uuid, ApiError> {
        let ingress = PortId(given.uuid("ingress").unwrap_or_default());
        let egress = PortId(given.uuid("egress").unwrap_or_default());
        check_ports(edit.scope(), ingress, egress)?;
        let declared = given.value("service_function_parameters").cloned().unwrap_or_default();
        let id = Uuid::new_v4();
        edit.draft.put(Instance {
            id: InstanceId(id),
            label: given.label(),
            ingress,
            egress,
            speaks: encapsulation(declared.get("correlation")),
            weight: declared
                .get("weight")
                .and_then(Value::as_u64)
                .and_then(|weight| u32::try_from(weight).ok())
                .unwrap_or(WEIGHT_DEFAULT),
            is_draining: false,
            declared,
        })?;
        Ok(id)
    }

    fn update(&self, edit: &mut Edit<'_>, id: Uuid, given: &Prepared) -> Result<(), ApiError> {
        let mut instance = find(edit.scope(), id)?.clone();
        given.relabel(&mut instance.label);
        Ok(edit.draft.put(instance)?)
    }

    fn delete(&self, edit: &mut Edit<'_>, id: Uuid) -> Result<(), ApiError> {
        let id = find(edit.scope(), id)?.id;
        if uses::function_of(edit.draft.intent(), id).is_some() {
            return Err(in_use(id));
        }
        edit.draft.remove::<Instance>(id);
        Ok(())
    }

    fn chains(&self, intent: &IndexedIntent, id: Uuid) -> Vec<ChainId> {
        let function = uses::function_of(intent, InstanceId(id));
        let chains = function.map(|function| uses::chains_over(intent, function.id));
        chains.into_iter().flatten().map(|chain| chain.id).collect()
    }
}

pub(super) fn not_found(id: &str) -> ApiError {
    ApiError::not_found("PortPairNotFound", format!("Port Pair {id} not found."))
}

pub(super) fn in_use(id: InstanceId) -> ApiError {
    ApiError::conflict("PortPairInUse", format!("Port Pair {id} in use."))
}

/// The instance of an id.
pub(super) fn find(scope: Scope<'_>, id: Uuid) -> Result<&Instance, ApiError> {
    scope.instance(InstanceId(id)).ok_or_else(|| not_found(&id.to_string()))
}

/// The encapsulation of a checked `correlation`.
pub(super) fn encapsulation(correlation: Option<&Value>) -> Option<Encapsulation> {
    Encapsulation::of_name(correlation?.as_str()?)
}

fn check_ports(scope: Scope<'_>, ingress: PortId, egress: PortId) -> Result<(), ApiError> {
    let device = |port: PortId| {
        let port = scope.port(port).ok_or_else(|| {
            let message = format!("Port Pair port {port} not found.");
            ApiError::not_found("PortPairPortNotFound", message)
        })?;
        if is_made(port) {
            let message = format!(
                "Port {} was made for a function, whose port pair is made of its template; use that, or \
                 its Port Pair Group.",
                port.id
            );
            return Err(ApiError::conflict("PortInUse", message));
        }
        Ok::<_, ApiError>(port.device_id.as_str())
    };
    let (ingress_device, egress_device) = (device(ingress)?, device(egress)?);
    let no_host = |kind: &'static str, way: &str, port: PortId| {
        let message = format!("Port Pair {way} port {port} has no device_id; set it on the port.");
        Err(ApiError::invalid(kind, message))
    };
    if ingress_device.is_empty() {
        return no_host("PortPairIngressNoHost", "ingress", ingress);
    }
    if egress_device.is_empty() {
        return no_host("PortPairEgressNoHost", "egress", egress);
    }
    if ingress_device != egress_device {
        let message = format!(
            "Port Pair ingress port {ingress} and egress port {egress} are not on the same device."
        );
        return Err(ApiError::invalid("PortPairIngressEgressDifferentHost", message));
    }
    if let Some(pair) = uses::instance_between(scope.intent, ingress, egress) {
        let message = format!(
            "Port Pair with ingress port {ingress} and egress port {egress} is already used by \
             another Port Pair {}.",
            pair.id
        );
        return Err(ApiError::invalid("PortPairIngressEgressInUse", message));
    }
    Ok(())
}

/// Whether an instance takes packets, as far as its node has told.
pub(super) fn status(view: &View, instance: &Instance) -> &'static str {
    let is_bound = |port: PortId| {
        view.intent.ports.get(&port).is_some_and(|port| view.why_unbound(port).is_none())
    };
    if view.situation.found.dead.contains(&instance.id) {
        "dead"
    } else if is_bound(instance.ingress) && is_bound(instance.egress) {
        "active"
    } else {
        "down"
    }
}

fn render(view: &View, instance: &Instance) -> Shown {
    shown(json!({
        "id": instance.id,
        "name": instance.label.name,
        "description": instance.label.description,
        "project_id": instance.label.project,
        "ingress": instance.ingress,
        "egress": instance.egress,
        "service_function_parameters": instance.declared,
        "speaks": instance.speaks,
        "tenant_id": instance.label.project,
        "status": status(view, instance),
    }))
}

/// Missing keys are filled in: the original stores partial dictionaries and then stumbles on them.
fn parameters(name: &str, value: &Value) -> Result<Value, ApiError> {
    let mut given = values::dict_or_empty(name, value, &["correlation", "weight"])?;
    let correlation = given.remove("correlation").unwrap_or_default();
    let correlation = values::one_of_or_null(name, &correlation, &["mpls", "nsh"])?;
    let weight = given.remove("weight").unwrap_or_else(|| json!(WEIGHT_DEFAULT));
    let weight = match values::integer_or_error(&weight)? {
        number if number < 0 => {
            let reason = format!("'{number}' should be non-negative.");
            return Err(ApiError::attribute(name, reason));
        }
        number => u32::try_from(number)
            .map_err(|_| ApiError::attribute(name, format!("'{number}' is above {}.", u32::MAX)))?,
    };
    Ok(json!({"correlation": correlation, "weight": weight}))
}
