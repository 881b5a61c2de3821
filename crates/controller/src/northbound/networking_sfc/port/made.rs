//! Ports of functions whose instances are made from a template: made and changed with their function alone. Knows
//! addresses; refuses to know what functions do with them.

use super::{MADE_OWNER, free_mac, one_of_each_family};
use crate::northbound::networking_sfc::attributes::Prepared;
use crate::northbound::networking_sfc::errors::ApiError;
use crate::northbound::networking_sfc::uses;
use crate::northbound::quotas::{PORT_PER_NODE, Quotas};
use catena_model::NodeName;
use catena_model::id::{NetworkId, PortId};
use catena_model::instance::NAMESPACE_PREFIX;
use catena_model::resource::{
    Attachment, FixedIp, InterfaceRef, Label, NamespaceRef, OwnTraffic, Port, Subnet,
};
use catena_plan::IndexedIntent;
use std::net::IpAddr;
use uuid::Uuid;

/// A port of a function, as it is to be made.
pub(in crate::northbound) struct MadePort {
    pub(in crate::northbound) network: NetworkId,
    pub(in crate::northbound) label: Label,
    /// The name of its instance.
    pub(in crate::northbound) machine: String,
    /// The node that runs it, once that is known.
    pub(in crate::northbound) node: Option<NodeName>,
    /// How it is reached there.
    pub(in crate::northbound) attachment: Attachment,
    /// Addresses that it must not be given, as they are to be the function's for another reason.
    pub(in crate::northbound) beside: Vec<IpAddr>,
}

/// Why it cannot be made.
pub(in crate::northbound) enum PortRefusal {
    /// The project has as many of this kind as it may.
    Quota(&'static str),
    /// For people.
    Addresses(String),
}

/// Was the port made for a function of a template?
pub(in crate::northbound) fn is_made(port: &Port) -> bool {
    match &port.attachment {
        Some(Attachment::Inside) => true,
        // Only operators say where a port's interface is; whose it is, anybody may.
        Some(Attachment::Interface(InterfaceRef {
            namespace: Some(NamespaceRef::Netns(name)),
            ..
        })) => port.device_owner == MADE_OWNER && name.starts_with(NAMESPACE_PREFIX),
        _ => false,
    }
}

/// Makes a port with an address of each family of its network.
pub(in crate::northbound) fn made_port(
    intent: &IndexedIntent,
    quotas: &Quotas,
    asked: MadePort,
) -> Result<Port, PortRefusal> {
    let MadePort { network, label, machine, node, attachment, beside } = asked;
    let own = intent.index().count_owned::<Port>(&label.project);
    let at_node = node.as_ref().map(|node| intent.index().ports_at(node, &label.project));
    for (kind, own) in [("port", Some(own)), (PORT_PER_NODE, at_node)] {
        let limit = quotas.limit(&label.project, kind);
        if limit.zip(own).is_some_and(|(limit, own)| own >= limit) {
            return Err(PortRefusal::Quota(kind));
        }
    }
    let fixed_ips = one_of_each_family(intent, network, &beside);
    Ok(Port {
        id: PortId(Uuid::new_v4()),
        label,
        network,
        mac: free_mac(intent, network),
        fixed_ips: fixed_ips.map_err(|error| PortRefusal::Addresses(error.message))?,
        device_id: machine,
        device_owner: MADE_OWNER.to_owned(),
        own_traffic: OwnTraffic::Own,
        node,
        attachment: Some(attachment),
        admin_state_up: true,
    })
}

/// Addresses that a port is to have because its function's configuration names them, as far as they are of its network:
/// others may lead there by a route of whoever sends to them.
pub(in crate::northbound) fn named_addresses(
    intent: &IndexedIntent,
    port: &Port,
    named: &[IpAddr],
) -> Result<Vec<FixedIp>, PortRefusal> {
    let subnets: Vec<&Subnet> = uses::subnets_in(intent, port.network).collect();
    let subnet_of = |address: &IpAddr| subnets.iter().find(|one| one.cidr.contains(address));
    let mut fixed = Vec::new();
    for (address, subnet) in named.iter().filter_map(|one| Some((*one, subnet_of(one)?))) {
        if let Some(owner) =
            intent.index().ports_of_address(port.network, address).find(|one| *one != port.id)
        {
            return Err(PortRefusal::Addresses(format!(
                "{address} is to be an address of the function '{}', and is one of port {owner} already; name \
                 another in its configuration, or take it from that port",
                port.device_id
            )));
        }
        fixed.push(FixedIp { subnet: subnet.id, address });
    }
    Ok(fixed)
}

/// A port that a template has made is its function's: where it is, the template says.
pub(super) fn check_not_made(port: &Port, given: &Prepared) -> Result<(), ApiError> {
    let places = ["binding:host_id", "binding:profile", "mac_address", "device_id", "device_owner"];
    let changed = places.into_iter().find(|key| given.value(key).is_some());
    match changed.filter(|_| is_made(port)) {
        None => Ok(()),
        Some(key) => Err(ApiError::conflict(
            "PortInUse",
            format!(
                "Port {} was made for a function, whose template says its {key}; change the template.",
                port.id
            ),
        )),
    }
}
