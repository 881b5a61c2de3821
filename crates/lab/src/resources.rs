//! Declares a wired lab to its controller through the API: networks, subnets, ports, and waits
//! until every node has them and every cable is found. Refuses to know chains.

use crate::error::{LabError, Result};
use crate::supervisor::{LabStatus, Started, status};
use crate::vocabulary::{Lab, LinkEnd};
use crate::wiring::{PortPlan, WiringPlan};
use catena_client::deploy::Deployed;
use catena_client::{Client, ClientError, Kind};
use catena_model::discovery::LinkReport;
use catena_model::limits::TENANT_MTU_BYTES;
use catena_model::status::{ChainState, ChainStatus, NodeReport};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long nodes may take to connect, to have all their ports, to find all their cables, or to lay a
/// chain.
pub(crate) const NODES_WAIT: Duration = Duration::from_secs(20);
/// Pause between two looks.
const NODES_PAUSE: Duration = Duration::from_millis(20);
/// Lines of a log that a failure shows.
const LOG_LINES: usize = 5;

struct DeclaredNetwork {
    id: Value,
    /// Prefixes with their subnets.
    subnets: Vec<(ipnet::IpNet, Value)>,
}

/// Creates the lab's networks, subnets and ports.
pub(crate) fn declare(client: &Client, lab: &Lab, plan: &WiringPlan) -> Result<()> {
    let mut networks = BTreeMap::new();
    for (name, network) in lab.networks.iter() {
        // Of a wider one the API takes what tenants may have at most.
        let mtu = network.mtu.min(TENANT_MTU_BYTES.into());
        let body = json!({"name": name, "mtu": mtu});
        let id = client.create(Kind::Network, &body)?["id"].take();
        let gateway = network.gateway.as_deref();
        let gateway =
            plan.ports.iter().find(|port| port.network == name && gateway == Some(&port.device));
        let mut subnets = Vec::new();
        for cidr in &network.cidrs {
            let is_v4 = cidr.addr().is_ipv4();
            let gateway =
                gateway.and_then(|port| port.addresses.iter().find(|a| a.is_ipv4() == is_v4));
            let version = if is_v4 { 4 } else { 6 };
            let body = json!({
                "name": format!("{name}-ipv{version}"), "network_id": id, "cidr": cidr,
                "ip_version": version, "gateway_ip": gateway, "enable_dhcp": false,
            });
            subnets.push((*cidr, client.create(Kind::Subnet, &body)?["id"].take()));
        }
        networks.insert(name, DeclaredNetwork { id, subnets });
    }
    for port in &plan.ports {
        if let Some(network) = networks.get(port.network.as_str()) {
            client.create(Kind::Port, &port_body(port, network))?;
        }
    }
    Ok(())
}

fn port_body(port: &PortPlan, network: &DeclaredNetwork) -> Value {
    let fixed_ips: Vec<Value> = port
        .addresses
        .iter()
        .filter_map(|address| {
            let (_, subnet) = network.subnets.iter().find(|(cidr, _)| cidr.contains(address))?;
            Some(json!({"subnet_id": subnet, "ip_address": address}))
        })
        .collect();
    let [a, b, c, d, e, f] = port.mac;
    json!({
        "name": port.name(),
        "network_id": network.id,
        "mac_address": format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}"),
        "fixed_ips": fixed_ips,
        "device_id": port.device,
        "device_owner": if port.is_function { "lab:function" } else { "lab:endpoint" },
        "binding:host_id": port.host,
        "binding:profile": {"netns": port.device, "interface": port.network},
    })
}

/// Waits until nothing is missing of any node.
pub(crate) fn wait_for_nodes(
    client: &Client,
    started: &Started,
    lab: &Lab,
    missing: &dyn Fn(&NodeReport) -> Option<String>,
) -> Result<()> {
    wait(started, lab, &|| Ok(first_missing(&client.nodes()?, lab, missing)))
}

/// Waits until every cable between nodes is found by both of its ends.
pub(crate) fn wait_for_cables(client: &Client, started: &Started, lab: &Lab) -> Result<()> {
    wait(started, lab, &|| Ok(first_unfound(&client.links()?, lab)))
}

/// Waits until a chain that the controller is still laying is there, or cannot be; answers how it is then.
pub(crate) fn wait_for_chain(
    client: &Client,
    started: &Started,
    lab: &Lab,
    deployed: &Deployed,
) -> Result<ChainStatus> {
    let building = |status: ChainStatus| {
        let is_building = status.state == ChainState::Building;
        is_building.then(|| format!("chain '{}' is being built: {}", deployed.name, status.reason))
    };
    wait(started, lab, &|| Ok(building(client.chain(&deployed.chain)?.status)))?;
    Ok(client.chain(&deployed.chain)?.status)
}

/// Waits until nothing is missing; what it is, is said when it takes too long.
fn wait(
    started: &Started,
    lab: &Lab,
    missing: &dyn Fn() -> std::result::Result<Option<String>, ClientError>,
) -> Result<()> {
    let start = Instant::now();
    loop {
        complain_of_the_dead(started, &status(started.name())?)?;
        let reason = match missing() {
            Ok(None) => return Ok(()),
            Ok(Some(reason)) | Err(ClientError::Unreachable { reason, .. }) => reason,
            Err(error) => return Err(error.into()),
        };
        if start.elapsed() > NODES_WAIT {
            return Err(LabError::DidNotComeUp { lab: lab.name.clone(), reason });
        }
        std::thread::sleep(NODES_PAUSE);
    }
}

fn first_missing(
    nodes: &[NodeReport],
    lab: &Lab,
    missing: &dyn Fn(&NodeReport) -> Option<String>,
) -> Option<String> {
    lab.nodes().find_map(|node| {
        match nodes.iter().find(|report| report.status.node.as_str() == node) {
            None => Some(format!("{node} has not connected to the controller")),
            Some(report) => missing(report).map(|what| format!("{node}: {what}")),
        }
    })
}

/// The first cable of the file that discovery has not found, with what each of its ends says.
fn first_unfound(links: &[LinkReport], lab: &Lab) -> Option<String> {
    lab.cables.iter().find_map(|cable| {
        let [left, right] = &cable.ends;
        let faults = [(left, right), (right, left)];
        let faults =
            faults.map(|(near, far)| Some(format!("{near} {}", not_joined(links, near, far)?)));
        let faults: Vec<String> = faults.into_iter().flatten().collect();
        let is_unfound = !faults.is_empty();
        is_unfound.then(|| format!("cable {cable} is not found: {}", faults.join("; ")))
    })
}

/// Why a link does not lead to the far end; none: it does.
fn not_joined(links: &[LinkReport], near: &LinkEnd, far: &LinkEnd) -> Option<String> {
    let is_it =
        |link: &&LinkReport| link.node.as_str() == near.node && link.interface == near.interface;
    let Some(link) = links.iter().find(is_it) else {
        return Some("is not told of by its agent".to_owned());
    };
    match &link.cable {
        Some(end) if end.node.as_str() == far.node && end.interface == far.interface => None,
        Some(end) => Some(format!("leads to {end}")),
        None => {
            let state = || format!("is {} and hears nothing", link.state.word());
            Some(link.trouble.as_ref().map_or_else(state, |trouble| format!("says: {trouble}")))
        }
    }
}

/// Is the node's agent there?
pub(crate) fn not_connected(report: &NodeReport) -> Option<String> {
    (!report.status.is_connected).then(|| "its agent is not connected".to_owned())
}

/// Does the node run the newest program, with all its ports? Of a port that was declared a moment ago
/// neither it nor the controller may have said anything yet.
pub(crate) fn not_settled(report: &NodeReport, plan: &WiringPlan) -> Option<String> {
    let status = &report.status;
    if let Some(port) = status.unbound.first() {
        return Some(format!("port {}: {}", port.port, port.reason));
    }
    let own = plan.ports.iter().filter(|port| port.host == status.node.as_str()).count();
    let bound = status.bound.len();
    if bound < own {
        return Some(format!("{bound} of its {own} ports have their interfaces"));
    }
    let (wanted, has) = (status.wanted, status.acknowledged);
    (wanted != has).then(|| format!("wants program {wanted}, acknowledged {has}"))
}

fn complain_of_the_dead(started: &Started, status: &LabStatus) -> Result<()> {
    let Some(dead) = status.processes.iter().find(|process| process.state != "running") else {
        return Ok(());
    };
    let path = started.log_directory().join(format!("{}.log", dead.name));
    let log = std::fs::read_to_string(path).unwrap_or_default();
    let mut last: Vec<&str> = log.lines().rev().take(LOG_LINES).collect();
    last.reverse();
    let reason = format!("{} ended ({}): {}", dead.name, dead.state, last.join(" | "));
    Err(LabError::DidNotComeUp { lab: status.name.clone(), reason })
}

#[cfg(test)]
mod tests {
    use super::*;
    use catena_model::BlueprintNumber;
    use catena_model::id::PortId;
    use catena_model::status::NodeStatus;

    #[test]
    fn a_node_that_has_said_nothing_of_a_port_yet_does_not_have_it() {
        let port = |host: &str| PortPlan {
            device: "a".into(),
            network: "n".into(),
            host: host.into(),
            mac: [2, 0, 0, 0, 0, 1],
            addresses: Vec::new(),
            is_function: false,
        };
        let plan = WiringPlan {
            ports: [port("host1"), port("host1"), port("host2")].into(),
            ..WiringPlan::default()
        };
        let with = |bound| NodeReport {
            status: NodeStatus {
                role: catena_model::topology::NodeRole::Host,
                is_edge: false,
                node: "host1".parse().unwrap(),
                is_connected: true,
                is_contested: false,
                wanted: BlueprintNumber(3),
                acknowledged: BlueprintNumber(3),
                bound: vec![PortId::MIN; bound],
                unbound: Vec::new(),
                identities: Vec::new(),
                capacity: None,
                taken: Default::default(),
            },
            counters: None,
        };
        for (bound, told) in [(0, "0 of its 2 ports"), (1, "1 of its 2 ports")] {
            let missing = not_settled(&with(bound), &plan).unwrap();
            assert!(missing.starts_with(told), "{missing}");
        }
        assert_eq!(not_settled(&with(2), &plan), None);
    }

    #[test]
    fn a_cable_that_is_not_found_is_named_with_what_its_ends_say() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../labs/tests/triangle.yaml");
        let lab = Lab::read(file.as_ref(), false).unwrap();
        let link = |near: &LinkEnd, far: &LinkEnd| {
            let report = json!({
                "node": near.node, "interface": near.interface, "number": 1, "state": "up",
                "cable": {"node": far.node, "number": 1, "interface": far.interface},
                "flooded": 0, "refused": 0, "neighbours": [],
            });
            serde_json::from_value::<LinkReport>(report).unwrap()
        };
        let ends = lab.cables.iter().map(|cable| &cable.ends);
        let links: Vec<LinkReport> =
            ends.flat_map(|[left, right]| [link(left, right), link(right, left)]).collect();
        assert_eq!(first_unfound(&links, &lab), None);
        let told = |change: fn(&mut Vec<LinkReport>)| {
            let mut links = links.clone();
            change(&mut links);
            first_unfound(&links, &lab).unwrap()
        };
        let begins = "cable h1:l-a1 -- a1:l-h1 is not found: ";
        let elsewhere = told(|links| links[0].cable = links[2].cable.clone());
        assert_eq!(elsewhere, format!("{begins}h1:l-a1 leads to a2:1 (l-h2)"));
        let silent = told(|links| links[0].cable = None);
        assert_eq!(silent, format!("{begins}h1:l-a1 is up and hears nothing"));
        let troubled = told(|links| {
            links[0].cable = None;
            links[0].trouble = Some("it carries nothing".into());
            drop(links.remove(1));
        });
        assert_eq!(
            troubled,
            format!(
                "{begins}h1:l-a1 says: it carries nothing; a1:l-h1 is not told of by its agent"
            )
        );
    }
}
