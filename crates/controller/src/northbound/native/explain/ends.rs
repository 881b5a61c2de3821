//! The ends of a packet to explain, as declared: the port it comes in by, and the hardware
//! addresses its host would write. Knows names, subnets and gateways; refuses to make bytes.

use crate::northbound::native::problem::Problem;
use catena_model::NodeName;
use catena_model::id::{NetworkId, PortId};
use catena_model::program::PROXY_MAC;
use catena_model::resource::Port;
use catena_plan::Intent;
use catena_wire::frame::FrameView;
use catena_wire::scalar::MacAddr;
use std::net::IpAddr;
use uuid::Uuid;

/// What stands in front of a port's name on the command line.
const PORT_WORD: &str = "port:";

/// The port of a name or id.
pub(super) fn port<'i>(intent: &'i Intent, name: &str) -> Result<&'i Port, Problem> {
    let name = name.strip_prefix(PORT_WORD).unwrap_or(name);
    let by_id = Uuid::parse_str(name).ok().and_then(|id| intent.ports.get(&PortId(id)));
    if let Some(port) = by_id {
        return Ok(port);
    }
    let mut named = intent.ports.values().filter(|port| port.label.name == name);
    match (named.next(), named.next()) {
        (Some(port), None) => Ok(port),
        (Some(_), Some(_)) => Err(Problem::ambiguous(format!(
            "Several ports are called '{name}'; name the one that you mean by its id."
        ))),
        (None, _) => Err(Problem::not_found(format!(
            "There is no port '{name}'; 'GET /v2.0/ports' lists all, in a lab they are called \
             after their machine and network, as in 'S@customer'."
        ))),
    }
}

/// The port with the source MAC of a frame.
pub(super) fn sender<'i>(intent: &'i Intent, frame: &[u8]) -> Result<&'i Port, Problem> {
    let view = FrameView::parse(frame)
        .map_err(|error| Problem::bad_request(format!("The frame cannot be read: {error}.")))?;
    let mut same = intent.ports.values().filter(|port| port.mac == view.source);
    match (same.next(), same.next()) {
        (Some(port), None) => Ok(port),
        _ => Err(Problem::bad_request(format!(
            "Not exactly one port has the frame's source MAC {}; say by --from where it comes in.",
            view.source
        ))),
    }
}

/// The node that carries a port.
pub(super) fn node_of(port: &Port) -> Result<&NodeName, Problem> {
    port.node.as_ref().ok_or_else(|| {
        let name = port.name();
        Problem::conflict(format!(
            "Port '{name}' is on no node yet; give it binding:host_id, then ask again."
        ))
    })
}

/// The MAC to which the host behind a port would send what is for an address: the neighbour's, or
/// outside its subnets the gateway's.
pub(super) fn next_hop(intent: &Intent, port: &Port, to: IpAddr) -> Result<MacAddr, Problem> {
    let network = port.network;
    if let Some(mac) = neighbour(intent, network, to) {
        return Ok(mac);
    }
    let subnets = || intent.subnets.values().filter(|subnet| subnet.network == network);
    let is_near = subnets().any(|subnet| subnet.cidr.contains(&to));
    let mut gateways = subnets().filter_map(|subnet| subnet.gateway);
    let gateway = gateways.find(|gateway| gateway.is_ipv4() == to.is_ipv4());
    let found =
        gateway.filter(|_| !is_near).and_then(|address| neighbour(intent, network, address));
    let is_function = || {
        let mut instances = intent.instances.values();
        instances.any(|instance| instance.ingress == port.id || instance.egress == port.id)
    };
    // A function's questions for other networks are answered by the data plane itself.
    let found = found.or_else(|| (!is_near && is_function()).then_some(PROXY_MAC));
    found.ok_or_else(|| {
        let name = intent.networks.get(&network).map_or("", |network| &network.label.name);
        let way = match gateway {
            _ if is_near => String::new(),
            Some(gateway) => format!(", or that of its gateway, {gateway}"),
            None => ", and it has no gateway".to_owned(),
        };
        Problem::conflict(format!(
            "Nobody in network '{name}' has the address {to}{way}: the host of port '{}' could not \
             send this packet. Name an address of a port there, or give the frame itself \
             (--pcap).",
            port.name()
        ))
    })
}

fn neighbour(intent: &Intent, network: NetworkId, address: IpAddr) -> Option<MacAddr> {
    let mut ports = intent.ports.values().filter(|port| port.network == network);
    let found = ports.find(|port| port.fixed_ips.iter().any(|fixed| fixed.address == address));
    found.map(|port| port.mac)
}
