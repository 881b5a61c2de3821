//! Ports: an attachment to a network, with its addresses, and where its interface is found.

pub(super) mod made;

use super::attributes::{
    Attribute, Prepared, empty_dict, empty_text, null, operators, optional, read_only, required,
};
use super::collection::{
    CREATED_AT, Collection, REVISION_NUMBER, Shown, UPDATED_AT, shown, stamped,
};
use super::errors::ApiError;
use super::scope::{Edit, Labels, Scope, View};
use super::{addresses, network, subnet, uses, values};
use crate::northbound::quotas::PORT_PER_NODE;
use catena_model::NodeName;
use catena_model::ProjectId;
use catena_model::id::{NetworkId, PortId, SubnetId};
use catena_model::program::PROXY_MAC;
use catena_model::resource::{
    Attachment, FixedIp, InterfaceRef, NamespaceRef, OwnTraffic, Port, Subnet,
};
use catena_plan::IndexedIntent;
use catena_wire::scalar::MacAddr;
use made::check_not_made;
use serde_json::{Map, Value, json};
use std::net::IpAddr;
use uuid::Uuid;

/// First half of the hardware addresses that are made here.
const MAC_PREFIX: [u8; 3] = [0xfa, 0x16, 0x3e];
/// Longest interface name, in bytes (IFNAMSIZ without its zero).
const INTERFACE_BYTES_MAX: usize = 15;
/// Longest namespace name or path, in bytes.
const NAMESPACE_BYTES_MAX: usize = 255;
/// Addresses of one port.
const FIXED_IPS_MAX: usize = 16;
/// Who made the port of a bundled function, in the words of the border.
const MADE_OWNER: &str = "catena:function";
/// Largest process id (`PID_MAX_LIMIT` of the kernel).
const PID_MAX: u64 = 4_194_304;

const TABLE: &[Attribute] = &[
    read_only("id"),
    optional("name", empty_text, true, values::name),
    optional("description", empty_text, true, values::text),
    required("network_id", false, values::uuid),
    optional("admin_state_up", || json!(true), true, values::boolean),
    optional("mac_address", null, true, mac),
    optional("fixed_ips", null, true, fixed_ips),
    optional("device_id", empty_text, true, values::name),
    optional("device_owner", empty_text, true, values::name),
    operators(optional("binding:host_id", empty_text, true, host)),
    operators(optional("binding:profile", empty_dict, true, profile)),
    operators(read_only("binding:vif_type")),
    operators(read_only("binding:vif_details")),
    optional("binding:vnic_type", || json!("normal"), true, vnic_type),
    optional("port_security_enabled", || json!(false), true, values::boolean),
    read_only("status"),
    read_only("status_reason"),
    CREATED_AT,
    UPDATED_AT,
    REVISION_NUMBER,
];

pub(super) struct Ports;

impl Collection for Ports {
    fn singular(&self) -> &'static str {
        "port"
    }

    fn plural(&self) -> &'static str {
        "ports"
    }

    fn table(&self) -> &'static [Attribute] {
        TABLE
    }

    fn not_found(&self, id: &str) -> ApiError {
        not_found(id)
    }

    fn labels<'a>(&self, scope: Scope<'a>, name: Option<&str>) -> Labels<'a> {
        scope.labels::<Port>(name)
    }

    fn count(&self, intent: &IndexedIntent, project: &ProjectId) -> usize {
        intent.index().count_owned::<Port>(project)
    }

    fn render(&self, view: &View, id: Uuid) -> Option<Shown> {
        Some(stamped(render(view, view.scope().port(PortId(id))?), view, id))
    }

    fn create(&self, edit: &mut Edit<'_>, given: &Prepared) -> Result<Uuid, ApiError> {
        let id = PortId(Uuid::new_v4());
        let network = given.uuid("network_id").unwrap_or_default();
        let network = network::find(edit.scope(), network)?.id;
        let mut port = Port {
            id,
            label: given.label(),
            network,
            mac: free_mac(edit.draft.intent(), network),
            fixed_ips: Vec::new(),
            device_id: String::new(),
            device_owner: String::new(),
            own_traffic: OwnTraffic::Own,
            node: None,
            attachment: None,
            admin_state_up: true,
        };
        if given.value("fixed_ips").is_none_or(Value::is_null) {
            port.fixed_ips = one_of_each_family(edit.draft.intent(), network, &[])?;
        }
        apply(edit.scope(), &mut port, given)?;
        check_node(edit, &port)?;
        edit.draft.put(port)?;
        Ok(id.0)
    }

    fn update(&self, edit: &mut Edit<'_>, id: Uuid, given: &Prepared) -> Result<(), ApiError> {
        let mut port = find(edit.scope(), id)?.clone();
        let former = port.node.clone();
        check_not_made(&port, given)?;
        given.relabel(&mut port.label);
        apply(edit.scope(), &mut port, given)?;
        if port.node != former {
            check_node(edit, &port)?;
        }
        Ok(edit.draft.put(port)?)
    }

    fn delete(&self, edit: &mut Edit<'_>, id: Uuid) -> Result<(), ApiError> {
        let id = find(edit.scope(), id)?.id;
        if let Some(user) = user_of(edit.draft.intent(), id) {
            let message = format!("Port {id} is in use by {user}; delete that first.");
            return Err(ApiError::conflict("PortInUse", message));
        }
        edit.draft.remove::<Port>(id);
        Ok(())
    }
}

/// May the project of a port have this one, too, at the node where it is?
fn check_node(edit: &Edit<'_>, port: &Port) -> Result<(), ApiError> {
    let Some(node) = &port.node else { return Ok(()) };
    let (project, intent) = (&port.label.project, edit.draft.intent());
    let is_there = |former: &Port| former.node == port.node && former.label.project == *project;
    let is_counted = intent.ports.get(&port.id).is_some_and(is_there);
    let others = intent.index().ports_at(node, project).saturating_sub(usize::from(is_counted));
    edit.check_quota(PORT_PER_NODE, project, others)
}

fn not_found(id: &str) -> ApiError {
    ApiError::not_found("PortNotFound", format!("Port {id} could not be found."))
}

fn find(scope: Scope<'_>, id: Uuid) -> Result<&Port, ApiError> {
    scope.port(PortId(id)).ok_or_else(|| not_found(&id.to_string()))
}

/// Who cannot do without the port.
fn user_of(intent: &IndexedIntent, id: PortId) -> Option<String> {
    let pair = uses::instance_at(intent, id).map(|pair| format!("port pair {}", pair.id));
    pair.or_else(|| user_beside_pairs(intent, id))
}

/// The same, port pairs apart.
pub(in crate::northbound) fn user_beside_pairs(
    intent: &IndexedIntent,
    id: PortId,
) -> Option<String> {
    let rule = uses::rule_at(intent, id).map(|rule| format!("flow classifier {}", rule.id));
    rule.or_else(|| uses::slice_at(intent, id).map(|slice| format!("slice {}", slice.id)))
}

/// Brings a port to what was given.
fn apply(scope: Scope<'_>, port: &mut Port, given: &Prepared) -> Result<(), ApiError> {
    let intent = scope.intent;
    if let Some(mac) = given.text("mac_address").and_then(|text| text.parse::<MacAddr>().ok()) {
        if intent.index().ports_of_mac(port.network, mac).any(|other| other != port.id) {
            return Err(ApiError::conflict(
                "MacAddressInUse",
                format!(
                    "Unable to complete operation for network {}. The mac address {mac} is in use.",
                    port.network
                ),
            ));
        }
        port.mac = mac;
    }
    if let Some(list) = given.value("fixed_ips").and_then(Value::as_array) {
        port.fixed_ips = allocate(scope, port, list)?;
    }
    if let Some(device_id) = given.text("device_id") {
        port.device_id = device_id;
    }
    if let Some(device_owner) = given.text("device_owner") {
        port.device_owner = device_owner;
    }
    port.admin_state_up = given.boolean("admin_state_up").unwrap_or(port.admin_state_up);
    let (node, profile) = (given.text("binding:host_id"), given.value("binding:profile"));
    if node.is_none() && profile.is_none() {
        return Ok(());
    }
    if let Some(node) = node {
        port.node = NodeName::new(node).ok();
    }
    if let Some(profile) = profile.and_then(Value::as_object) {
        port.attachment = attachment(profile);
        let is_all = profile.get("own_traffic").is_some_and(|own| *own == "all");
        port.own_traffic = if is_all { OwnTraffic::All } else { OwnTraffic::Own };
    }
    check_interface(intent, port)
}

/// Two ports on one interface would each take every packet of it. Another project's is not named:
/// whoever is told of the conflict need not know of it.
fn check_interface(intent: &IndexedIntent, port: &Port) -> Result<(), ApiError> {
    let interface = port.attachment.as_ref().and_then(Attachment::interface);
    let (Some(node), Some(interface)) = (&port.node, interface) else { return Ok(()) };
    let mut others = intent.index().ports_of_interface(node, interface);
    let Some(other) = others.find(|other| *other != port.id) else { return Ok(()) };
    let is_own = |other: &Port| other.label.project == port.label.project;
    let other = match intent.ports.get(&other).filter(|other| is_own(other)) {
        Some(own) => format!("port {}", own.id),
        None => "a port of another project".to_owned(),
    };
    let message = format!(
        "The interface '{}' of node '{node}' already belongs to {other}; choose another one.",
        interface.interface
    );
    Err(ApiError::conflict("InterfaceInUse", message))
}

fn free_mac(intent: &IndexedIntent, network: NetworkId) -> MacAddr {
    let [a, b, c] = MAC_PREFIX;
    loop {
        let [d, e, f, ..] = *Uuid::new_v4().as_bytes();
        let mac = MacAddr([a, b, c, d, e, f]);
        if intent.index().ports_of_mac(network, mac).next().is_none() {
            return mac;
        }
    }
}

fn exhausted(subnets: &[&Subnet]) -> ApiError {
    let cidrs: Vec<String> = subnets.iter().map(|subnet| subnet.cidr.to_string()).collect();
    let message = format!("No more IP addresses available on {}.", cidrs.join(", "));
    ApiError::conflict("IpAddressGenerationFailure", message)
}

/// An address of each family that the network has, and none of `beside`.
fn one_of_each_family(
    intent: &IndexedIntent,
    network: NetworkId,
    beside: &[IpAddr],
) -> Result<Vec<FixedIp>, ApiError> {
    let lowest_from = |mut from| loop {
        let free = intent.index().lowest_free_address(network, from)?;
        if !beside.contains(&free) {
            return Some(free);
        }
        from = addresses::next(free)?;
    };
    let mut fixed = Vec::new();
    for is_ipv4 in [true, false] {
        let subnets: Vec<&Subnet> = uses::subnets_in(intent, network)
            .filter(|subnet| subnet.cidr.addr().is_ipv4() == is_ipv4)
            .collect();
        if subnets.is_empty() {
            continue;
        }
        let free = subnets.iter().find_map(|subnet| {
            let address = addresses::lowest_free_from(subnet, lowest_from)?;
            Some(FixedIp { subnet: subnet.id, address })
        });
        fixed.push(free.ok_or_else(|| exhausted(&subnets))?);
    }
    Ok(fixed)
}

/// Does another port of its network have the address, or this one among those that it is given now?
fn is_taken(intent: &IndexedIntent, port: &Port, given: &[FixedIp], address: IpAddr) -> bool {
    let mut owners = intent.index().ports_of_address(port.network, address);
    given.iter().any(|fixed| fixed.address == address) || owners.any(|owner| owner != port.id)
}

/// The lowest address from one on that a port may have besides those that it is given now: nobody's, or
/// one that it has already.
fn lowest_free(
    intent: &IndexedIntent,
    port: &Port,
    given: &[FixedIp],
    from: IpAddr,
) -> Option<IpAddr> {
    let own = intent.ports.get(&port.id).into_iter().flat_map(|port| &port.fixed_ips);
    let own: Vec<IpAddr> = own.map(|fixed| fixed.address).collect();
    let mut from = from;
    loop {
        let nobodys = intent.index().lowest_free_address(port.network, from);
        let is_near = |ip: &IpAddr| ip.is_ipv4() == from.is_ipv4() && *ip >= from;
        let lowest = own.iter().copied().filter(is_near).chain(nobodys).min()?;
        if !is_taken(intent, port, given, lowest) {
            return Some(lowest);
        }
        from = addresses::next(lowest)?;
    }
}

/// The addresses that were asked for, each by address, by subnet, or by both.
fn allocate(scope: Scope<'_>, port: &Port, list: &[Value]) -> Result<Vec<FixedIp>, ApiError> {
    let mut fixed = Vec::with_capacity(list.len());
    for wanted in list {
        let text = |key: &str| wanted.get(key).and_then(Value::as_str);
        let address: Option<IpAddr> = text("ip_address").and_then(|text| text.parse().ok());
        let subnet = match text("subnet_id").and_then(|id| Uuid::parse_str(id).ok()) {
            Some(id) => Some(subnet::find(scope, id)?),
            None => uses::subnets_in(scope.intent, port.network)
                .find(|subnet| address.is_some_and(|a| subnet.cidr.contains(&a))),
        };
        let invalid = |reason: String| ApiError::invalid("InvalidIpForNetwork", reason);
        let Some(subnet) = subnet.filter(|subnet| subnet.network == port.network) else {
            return Err(invalid(format!(
                "{wanted} is not an address of a subnet of network {}.",
                port.network
            )));
        };
        let address = match address {
            None => {
                let lowest_from = |from| lowest_free(scope.intent, port, &fixed, from);
                let free = addresses::lowest_free_from(subnet, lowest_from);
                free.ok_or_else(|| exhausted(&[subnet]))?
            }
            Some(address) if !addresses::is_host(subnet.cidr, address) => {
                let message = format!("{address} is not a host address of {}.", subnet.cidr);
                return Err(ApiError::invalid("InvalidIpForSubnet", message));
            }
            Some(address) => address,
        };
        if is_taken(scope.intent, port, &fixed, address) {
            return Err(ApiError::conflict(
                "IpAddressAlreadyAllocated",
                format!("IP address {address} already allocated in subnet {}.", subnet.id),
            ));
        }
        fixed.push(FixedIp { subnet: SubnetId(subnet.id.0), address });
    }
    Ok(fixed)
}

/// The meaning of a checked profile.
fn attachment(profile: &Map<String, Value>) -> Option<Attachment> {
    let interface = profile.get("interface")?.as_str()?.to_owned();
    let netns = profile.get("netns").and_then(Value::as_str);
    let pid = profile.get("pid").and_then(Value::as_u64).and_then(|pid| u32::try_from(pid).ok());
    let namespace = netns
        .map(|name| NamespaceRef::Netns(name.to_owned()))
        .or_else(|| pid.map(NamespaceRef::Pid));
    Some(Attachment::Interface(InterfaceRef { namespace, interface }))
}

fn render(view: &View, port: &Port) -> Shown {
    let reason = view.why_unbound(port);
    let is_placed = port.node.is_some() && port.attachment.is_some();
    let fixed_ips: Vec<Value> = port
        .fixed_ips
        .iter()
        .map(|fixed| json!({"subnet_id": fixed.subnet, "ip_address": fixed.address}))
        .collect();
    let profile = port.attachment.as_ref().map_or_else(Map::new, |attachment| {
        let mut profile = Map::new();
        match attachment {
            Attachment::Interface(InterfaceRef { namespace, interface }) => {
                match namespace {
                    Some(NamespaceRef::Netns(name)) => profile.insert("netns".into(), json!(name)),
                    Some(NamespaceRef::Pid(pid)) => profile.insert("pid".into(), json!(pid)),
                    None => None,
                };
                profile.insert("interface".into(), json!(interface));
            }
            Attachment::Inside => {
                profile.insert("door".into(), json!("inside"));
            }
        }
        if port.own_traffic == OwnTraffic::All {
            profile.insert("own_traffic".into(), json!(port.own_traffic));
        }
        profile
    });
    shown(json!({
        "id": port.id,
        "name": port.label.name,
        "network_id": port.network,
        "project_id": port.label.project,
        "mac_address": port.mac,
        "admin_state_up": port.admin_state_up,
        "status": if reason.is_none() { "ACTIVE" } else { "DOWN" },
        "status_reason": reason.unwrap_or_default(),
        "device_id": port.device_id,
        "device_owner": port.device_owner,
        "fixed_ips": fixed_ips,
        "tenant_id": port.label.project,
        "port_security_enabled": false,
        "binding:vnic_type": "normal",
        "binding:profile": profile,
        "binding:host_id": port.node.as_ref().map(NodeName::as_str).unwrap_or_default(),
        "binding:vif_type": if is_placed { "other" } else { "unbound" },
        "binding:vif_details": {},
        "extra_dhcp_opts": [],
        "description": port.label.description,
        "tags": [],
    }))
}

fn mac(name: &str, value: &Value) -> Result<Value, ApiError> {
    if value.is_null() {
        return Ok(Value::Null);
    }
    match value.as_str().and_then(|text| text.parse::<MacAddr>().ok()) {
        Some(PROXY_MAC) => {
            let reason = format!("'{PROXY_MAC}' is the data plane's own address.");
            Err(ApiError::attribute(name, reason))
        }
        Some(mac) if !mac.is_multicast() && mac != MacAddr::default() => Ok(json!(mac)),
        _ => {
            let reason = format!("'{}' is not a valid MAC address.", values::shown(value));
            Err(ApiError::attribute(name, reason))
        }
    }
}

fn fixed_ips(name: &str, value: &Value) -> Result<Value, ApiError> {
    let Value::Array(list) = value else {
        if value.is_null() {
            return Ok(Value::Null);
        }
        let reason = format!("'{}' is not a list.", values::shown(value));
        return Err(ApiError::attribute(name, reason));
    };
    if list.len() > FIXED_IPS_MAX {
        let reason = format!("a port has at most {FIXED_IPS_MAX} addresses.");
        return Err(ApiError::attribute(name, reason));
    }
    for item in list {
        let item = values::dict(name, item, &["subnet_id", "ip_address"])?;
        let address = item.get("ip_address");
        let is_address = |v: &Value| v.as_str().is_some_and(|t| t.parse::<IpAddr>().is_ok());
        if address.is_some_and(|address| !is_address(address)) {
            let reason = format!("'{}' is not a valid IP address.", values::shown(&json!(address)));
            return Err(ApiError::attribute(name, reason));
        }
        match item.get("subnet_id") {
            Some(id) => drop(values::uuid(name, id)?),
            None if address.is_some() => {}
            None => return Err(ApiError::attribute(name, "it names no address and no subnet.")),
        }
    }
    Ok(value.clone())
}

fn host(name: &str, value: &Value) -> Result<Value, ApiError> {
    match value.as_str() {
        Some("") => Ok(value.clone()),
        None if value.is_null() => Ok(json!("")),
        Some(text) => match NodeName::new(text) {
            Ok(_) => Ok(value.clone()),
            Err(error) => Err(ApiError::attribute(name, format!("{error}."))),
        },
        None => values::text(name, value),
    }
}

fn profile(name: &str, value: &Value) -> Result<Value, ApiError> {
    let profile =
        values::dict_or_empty(name, value, &["netns", "pid", "interface", "own_traffic"])?;
    let wrong = |reason: &str| Err(ApiError::attribute(name, reason));
    let is_name = |value: &Value, bytes_max: usize| {
        value.as_str().is_some_and(|text| {
            !text.is_empty() && text.len() <= bytes_max && !text.contains(['\0', '\n'])
        })
    };
    if profile.is_empty() {
        return Ok(Value::Object(profile));
    }
    match profile.get("interface") {
        None => {
            return wrong("'interface' is missing: the name of the interface in its namespace.");
        }
        Some(interface) if !is_name(interface, INTERFACE_BYTES_MAX) => {
            return wrong("'interface' is not an interface name of 1 to 15 bytes.");
        }
        Some(_) => {}
    }
    if profile.get("own_traffic").is_some_and(|own| *own != "own" && *own != "all") {
        return wrong("'own_traffic' is neither 'own' nor 'all'.");
    }
    match (profile.get("netns"), profile.get("pid")) {
        (Some(_), Some(_)) => wrong("'netns' and 'pid' exclude each other."),
        (Some(netns), None) if !is_name(netns, NAMESPACE_BYTES_MAX) || is_relative(netns) => {
            wrong("'netns' is neither a name below /run/netns nor an absolute path.")
        }
        (None, Some(pid)) if pid.as_u64().is_none_or(|pid| pid == 0 || pid > PID_MAX) => {
            wrong("'pid' is not a process id.")
        }
        _ => Ok(Value::Object(profile)),
    }
}

/// A path that is not absolute, or a name that climbs.
fn is_relative(netns: &Value) -> bool {
    netns.as_str().is_some_and(|text| {
        (text.contains('/') && !text.starts_with('/')) || text == "." || text == ".."
    })
}

fn vnic_type(name: &str, value: &Value) -> Result<Value, ApiError> {
    values::one_of_or_null(name, value, &["normal"])
}
