//! Subnets: an address range of a network and its way out.

use super::attributes::{Attribute, Prepared, empty_text, null, optional, read_only, required};
use super::collection::{
    CREATED_AT, Collection, REVISION_NUMBER, Shown, UPDATED_AT, shown, stamped,
};
use super::errors::ApiError;
use super::scope::{Edit, Labels, Scope, View};
use super::{addresses, network, uses, values};
use catena_model::ProjectId;
use catena_model::id::{NetworkId, SubnetId};
use catena_model::program::Locator;
use catena_model::resource::{Port, Subnet};
use catena_plan::IndexedIntent;
use ipnet::{IpNet, Ipv6Net};
use serde_json::{Value, json};
use std::net::IpAddr;
use uuid::Uuid;

/// Stands for «not given», which differs from null: no gateway.
const DEFAULT_GATEWAY: &str = "default";

const TABLE: &[Attribute] = &[
    read_only("id"),
    optional("name", empty_text, true, values::name),
    optional("description", empty_text, true, values::text),
    required("network_id", false, values::uuid),
    required("cidr", false, cidr),
    optional("ip_version", null, false, ip_version),
    optional("gateway_ip", || json!(DEFAULT_GATEWAY), true, gateway),
    optional("enable_dhcp", || json!(false), true, no_dhcp),
    read_only("allocation_pools"),
    CREATED_AT,
    UPDATED_AT,
    REVISION_NUMBER,
];

pub(super) struct Subnets;

impl Collection for Subnets {
    fn singular(&self) -> &'static str {
        "subnet"
    }

    fn plural(&self) -> &'static str {
        "subnets"
    }

    fn table(&self) -> &'static [Attribute] {
        TABLE
    }

    fn not_found(&self, id: &str) -> ApiError {
        not_found(id)
    }

    fn labels<'a>(&self, scope: Scope<'a>, name: Option<&str>) -> Labels<'a> {
        scope.labels::<Subnet>(name)
    }

    fn count(&self, intent: &IndexedIntent, project: &ProjectId) -> usize {
        intent.index().count_owned::<Subnet>(project)
    }

    fn render(&self, view: &View, id: Uuid) -> Option<Shown> {
        Some(stamped(render(view.scope().subnet(SubnetId(id))?), view, id))
    }

    fn create(&self, edit: &mut Edit<'_>, given: &Prepared) -> Result<Uuid, ApiError> {
        let network = given.uuid("network_id").unwrap_or_default();
        let network = network::find(edit.scope(), network)?.id;
        let cidr: IpNet = given
            .text("cidr")
            .and_then(|text| text.parse().ok())
            .ok_or_else(|| ApiError::attribute("cidr", "it is not a valid IP subnet."))?;
        let version = given.number("ip_version").unwrap_or_else(|| version_of(cidr));
        if version != version_of(cidr) {
            let message = format!("{cidr} does not match the ip_version {version}.");
            return Err(ApiError::conversion(message));
        }
        check_siblings(edit.draft.intent(), network, cidr)?;
        check_segments(edit, cidr)?;
        let gateway = match given.text("gateway_ip").as_deref() {
            Some(DEFAULT_GATEWAY) => addresses::first_host(cidr),
            other => other.and_then(|text| text.parse().ok()),
        };
        check_gateway(cidr, gateway)?;
        let id = Uuid::new_v4();
        let label = given.label();
        edit.draft.put(Subnet { id: SubnetId(id), label, network, cidr, gateway })?;
        Ok(id)
    }

    fn update(&self, edit: &mut Edit<'_>, id: Uuid, given: &Prepared) -> Result<(), ApiError> {
        let mut subnet = find(edit.scope(), id)?.clone();
        given.relabel(&mut subnet.label);
        if given.value("gateway_ip").is_some() {
            let gateway = given.text("gateway_ip").and_then(|text| text.parse().ok());
            check_gateway(subnet.cidr, gateway)?;
            subnet.gateway = gateway;
        }
        Ok(edit.draft.put(subnet)?)
    }

    fn delete(&self, edit: &mut Edit<'_>, id: Uuid) -> Result<(), ApiError> {
        let Subnet { id, network, .. } = *find(edit.scope(), id)?;
        let mut ports = uses::ports_in(edit.draft.intent(), network);
        let is_user = |port: &Port| port.fixed_ips.iter().any(|fixed| fixed.subnet == id);
        if ports.any(is_user) {
            let message = format!(
                "Unable to complete operation on subnet {id}: One or more ports have an IP \
                 allocation from this subnet; delete them first."
            );
            return Err(ApiError::conflict("SubnetInUse", message));
        }
        drop(ports);
        edit.draft.remove::<Subnet>(id);
        Ok(())
    }
}

/// Subnets of one network have no address in common.
fn check_siblings(intent: &IndexedIntent, network: NetworkId, cidr: IpNet) -> Result<(), ApiError> {
    let overlapping = |other: &&Subnet| overlap(other.cidr, cidr);
    let Some(other) = uses::subnets_in(intent, network).find(overlapping) else { return Ok(()) };
    Err(ApiError::conversion(format!(
        "Requested subnet with cidr: {cidr} for network: {network} overlaps with another subnet: {}.",
        other.cidr
    )))
}

/// No address of it is below a node's locator: what a port sends there is dropped where it comes in. Only who sees
/// nodes learns which locator it is.
fn check_segments(edit: &Edit<'_>, cidr: IpNet) -> Result<(), ApiError> {
    let nodes = edit.inventory.all();
    let mut locators = nodes.filter_map(|(.., facts)| {
        Ipv6Net::new(facts.segments?.locator.address(), Locator::BITS).ok()
    });
    let overlapping = |locator: &Ipv6Net| overlap((*locator).into(), cidr);
    let Some(locator) = locators.find(overlapping) else { return Ok(()) };
    let what = match edit.identity.sees_all() {
        true => format!("the locator {locator} of a node"),
        false => "segments of the data network".into(),
    };
    Err(ApiError::conversion(format!(
        "Requested subnet with cidr: {cidr} overlaps with {what}, and packets of ports to these are dropped. \
         Choose another cidr."
    )))
}

/// Have two ranges an address in common?
fn overlap(one: IpNet, other: IpNet) -> bool {
    one.contains(&other) || other.contains(&one)
}

fn not_found(id: &str) -> ApiError {
    ApiError::not_found("SubnetNotFound", format!("Subnet {id} could not be found."))
}

/// The subnet of an id.
pub(super) fn find(scope: Scope<'_>, id: Uuid) -> Result<&Subnet, ApiError> {
    scope.subnet(SubnetId(id)).ok_or_else(|| not_found(&id.to_string()))
}

fn render(subnet: &Subnet) -> Shown {
    let pools = addresses::pools(subnet);
    let pools: Vec<Value> =
        pools.iter().map(|(start, end)| json!({"start": start, "end": end})).collect();
    shown(json!({
        "id": subnet.id,
        "name": subnet.label.name,
        "project_id": subnet.label.project,
        "network_id": subnet.network,
        "ip_version": version_of(subnet.cidr),
        "subnetpool_id": null,
        "enable_dhcp": false,
        "ipv6_ra_mode": null,
        "ipv6_address_mode": null,
        "gateway_ip": subnet.gateway,
        "cidr": subnet.cidr.to_string(),
        "allocation_pools": pools,
        "host_routes": [],
        "dns_nameservers": [],
        "description": subnet.label.description,
        "router:external": false,
        "service_types": [],
        "tags": [],
        "tenant_id": subnet.label.project,
    }))
}

fn version_of(cidr: IpNet) -> u64 {
    if cidr.addr().is_ipv4() { 4 } else { 6 }
}

fn check_gateway(cidr: IpNet, gateway: Option<IpAddr>) -> Result<(), ApiError> {
    match gateway {
        Some(gateway) if !addresses::is_host(cidr, gateway) => Err(ApiError::conversion(format!(
            "Gateway {gateway} is not a host address of the subnet {cidr}."
        ))),
        _ => Ok(()),
    }
}

fn cidr(_: &str, value: &Value) -> Result<Value, ApiError> {
    match values::prefix(value) {
        Some(cidr) => Ok(json!(cidr.trunc().to_string())),
        None => {
            let reason = format!("'{}' is not a valid IP subnet.", values::shown(value));
            Err(ApiError::conversion(reason))
        }
    }
}

fn ip_version(name: &str, value: &Value) -> Result<Value, ApiError> {
    match values::integer(value) {
        Some(version @ (4 | 6)) => Ok(json!(version)),
        None if value.is_null() => Ok(Value::Null),
        _ => {
            let reason = format!("'{}' is not in [4, 6].", values::shown(value));
            Err(ApiError::attribute(name, reason))
        }
    }
}

fn gateway(name: &str, value: &Value) -> Result<Value, ApiError> {
    let is_address = |text: &str| text == DEFAULT_GATEWAY || text.parse::<IpAddr>().is_ok();
    if value.is_null() || value.as_str().is_some_and(is_address) {
        return Ok(value.clone());
    }
    let reason = format!("'{}' is not a valid IP address.", values::shown(value));
    Err(ApiError::attribute(name, reason))
}

fn no_dhcp(name: &str, value: &Value) -> Result<Value, ApiError> {
    let value = values::boolean(name, value)?;
    if value == json!(true) {
        return Err(ApiError::attribute(name, "there is no DHCP service here."));
    }
    Ok(value)
}
