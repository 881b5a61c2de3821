//! Networks: a tenant's layer 2 domain, with a VXLAN identifier of its own.

use super::attributes::{Attribute, Prepared, empty_text, operators, optional, read_only};
use super::collection::{
    CREATED_AT, Collection, REVISION_NUMBER, Shown, UPDATED_AT, shown, stamped,
};
use super::errors::ApiError;
use super::scope::{Edit, Labels, Scope, View};
use super::{uses, values};
use catena_model::ProjectId;
use catena_model::id::NetworkId;
use catena_model::limits::TENANT_MTU_BYTES;
use catena_model::resource::{Network, Subnet};
use catena_plan::IndexedIntent;
use catena_wire::scalar::Vni;
use serde_json::{Value, json};
use uuid::Uuid;

/// Smallest MTU of a network, in bytes: what IPv4 must carry at least (RFC 791).
const MTU_BYTES_MIN: i64 = 68;

const TABLE: &[Attribute] = &[
    read_only("id"),
    optional("name", empty_text, true, values::name),
    optional("description", empty_text, true, values::text),
    optional("admin_state_up", || json!(true), true, values::boolean),
    optional("mtu", || json!(TENANT_MTU_BYTES), true, mtu),
    optional("shared", || json!(false), false, unshared),
    optional("port_security_enabled", || json!(false), true, values::boolean),
    read_only("status"),
    read_only("subnets"),
    // The identifiers are given out in turn: they count the networks of all projects.
    operators(read_only("provider:network_type")),
    operators(read_only("provider:physical_network")),
    operators(read_only("provider:segmentation_id")),
    CREATED_AT,
    UPDATED_AT,
    REVISION_NUMBER,
];

pub(super) struct Networks;

impl Collection for Networks {
    fn singular(&self) -> &'static str {
        "network"
    }

    fn plural(&self) -> &'static str {
        "networks"
    }

    fn table(&self) -> &'static [Attribute] {
        TABLE
    }

    fn not_found(&self, id: &str) -> ApiError {
        not_found(id)
    }

    fn labels<'a>(&self, scope: Scope<'a>, name: Option<&str>) -> Labels<'a> {
        scope.labels::<Network>(name)
    }

    fn count(&self, intent: &IndexedIntent, project: &ProjectId) -> usize {
        intent.index().count_owned::<Network>(project)
    }

    fn render(&self, view: &View, id: Uuid) -> Option<Shown> {
        let network = render(&view.intent, view.scope().network(NetworkId(id))?);
        Some(stamped(network, view, id))
    }

    fn create(&self, edit: &mut Edit<'_>, given: &Prepared) -> Result<Uuid, ApiError> {
        let id = Uuid::new_v4();
        edit.draft.put(Network {
            id: NetworkId(id),
            label: given.label(),
            vni: free_vni(edit.draft.intent())?,
            mtu: given_mtu(given).unwrap_or(TENANT_MTU_BYTES),
            admin_state_up: given.boolean("admin_state_up").unwrap_or(true),
        })?;
        Ok(id)
    }

    fn update(&self, edit: &mut Edit<'_>, id: Uuid, given: &Prepared) -> Result<(), ApiError> {
        let mut network = find(edit.scope(), id)?.clone();
        given.relabel(&mut network.label);
        network.mtu = given_mtu(given).unwrap_or(network.mtu);
        network.admin_state_up = given.boolean("admin_state_up").unwrap_or(network.admin_state_up);
        Ok(edit.draft.put(network)?)
    }

    fn delete(&self, edit: &mut Edit<'_>, id: Uuid) -> Result<(), ApiError> {
        let id = find(edit.scope(), id)?.id;
        if uses::ports_in(edit.draft.intent(), id).next().is_some() {
            let message = format!(
                "Unable to complete operation on network {id}. There are one or more ports still \
                 in use on the network; delete them first."
            );
            return Err(ApiError::conflict("NetworkInUse", message));
        }
        let subnets = uses::subnets_in(edit.draft.intent(), id);
        let subnets: Vec<_> = subnets.map(|subnet| subnet.id).collect();
        for subnet in subnets {
            edit.draft.remove::<Subnet>(subnet);
        }
        edit.draft.remove::<Network>(id);
        Ok(())
    }
}

pub(super) fn not_found(id: &str) -> ApiError {
    ApiError::not_found("NetworkNotFound", format!("Network {id} could not be found."))
}

/// The network of an id.
pub(super) fn find(scope: Scope<'_>, id: Uuid) -> Result<&Network, ApiError> {
    scope.network(NetworkId(id)).ok_or_else(|| not_found(&id.to_string()))
}

fn render(intent: &IndexedIntent, network: &Network) -> Shown {
    let subnets: Vec<_> = uses::subnets_in(intent, network.id).map(|subnet| subnet.id).collect();
    let project = &network.label.project;
    shown(json!({
        "id": network.id,
        "name": network.label.name,
        "tenant_id": project,
        "project_id": project,
        "admin_state_up": network.admin_state_up,
        "mtu": network.mtu,
        "status": "ACTIVE",
        "subnets": subnets,
        "shared": false,
        "port_security_enabled": false,
        "router:external": false,
        "provider:network_type": "vxlan",
        "provider:physical_network": null,
        "provider:segmentation_id": network.vni,
        "availability_zone_hints": [],
        "availability_zones": [],
        "ipv4_address_scope": null,
        "ipv6_address_scope": null,
        "description": network.label.description,
        "tags": [],
    }))
}

/// The lowest identifier that no network has.
fn free_vni(intent: &IndexedIntent) -> Result<Vni, ApiError> {
    let free = intent.index().lowest_free_vni();
    free.and_then(|free| Vni::new(free).ok()).ok_or_else(|| {
        let message =
            "Unable to create the network. No VXLAN identifier is free; delete a network.";
        ApiError::conflict("NoNetworkAvailable", message)
    })
}

fn given_mtu(given: &Prepared) -> Option<u16> {
    u16::try_from(given.number("mtu")?).ok()
}

fn mtu(name: &str, value: &Value) -> Result<Value, ApiError> {
    let max = i64::from(TENANT_MTU_BYTES);
    let mtu = values::integer_or_error(value)?;
    if (MTU_BYTES_MIN..=max).contains(&mtu) {
        return Ok(json!(mtu));
    }
    Err(ApiError::attribute(name, format!("'{mtu}' is not in {MTU_BYTES_MIN}..{max}.")))
}

fn unshared(name: &str, value: &Value) -> Result<Value, ApiError> {
    let value = values::boolean(name, value)?;
    if value == json!(true) {
        return Err(ApiError::attribute(name, "networks shared by projects do not exist here."));
    }
    Ok(value)
}
