//! Routes of endpoints into networks behind bundled functions. Knows the ports of such functions and `ip`; refuses to
//! know what they make of packets.

use crate::error::{LabError, Result};
use crate::up::RunningLab;
use crate::vocabulary::LabChain;
use catena_client::Kind;
use ipnet::IpNet;
use serde_json::Value;
use std::net::IpAddr;
use std::process::Command;

/// Lays the routes over the bundled functions of a chain, whose addresses are known once it stands.
pub(crate) fn lay(running: &RunningLab, chain: &LabChain) -> Result<()> {
    let steps = &chain.document.chain;
    for (name, endpoint) in running.lab.endpoints.iter() {
        for (network, by) in endpoint.routes.iter() {
            if !steps.iter().any(|step| step.name == *by) {
                continue;
            }
            let gateways = gateways(running, by, &cidrs_of(running, &endpoint.networks))?;
            for cidr in cidrs_of(running, &[network.to_owned()]) {
                let is_alike = |one: &&IpAddr| one.is_ipv4() == cidr.addr().is_ipv4();
                if let Some(gateway) = gateways.iter().find(is_alike) {
                    let (cidr, gateway) = (cidr.to_string(), gateway.to_string());
                    ip(running, name, &["route", "replace", &cidr, "via", &gateway])?;
                }
            }
        }
    }
    Ok(())
}

/// Addresses of a function in these prefixes.
fn gateways(running: &RunningLab, function: &str, within: &[IpNet]) -> Result<Vec<IpAddr>> {
    let ports = running.client.list(Kind::Port, &[("name", function)])?;
    let addresses =
        ports.iter().flat_map(|port| port["fixed_ips"].as_array().into_iter().flatten());
    let addresses =
        addresses.filter_map(|fixed: &Value| fixed["ip_address"].as_str()?.parse().ok());
    Ok(addresses
        .filter(|address: &IpAddr| within.iter().any(|cidr| cidr.contains(address)))
        .collect())
}

fn cidrs_of(running: &RunningLab, networks: &[String]) -> Vec<IpNet> {
    let of = |name: &String| running.lab.networks.get(name).map(|network| network.cidrs.clone());
    networks.iter().filter_map(of).flatten().collect()
}

/// Runs `ip` in a node.
///
/// # Errors
/// It cannot be started, or refuses.
pub(crate) fn ip(running: &RunningLab, node: &str, words: &[&str]) -> Result<()> {
    let mut command = Command::new("ip");
    command.args(words);
    let output = running.doorway(node)?.inside(|| command.output())?;
    let output = output.map_err(|error| LabError::io("start", "ip", error))?;
    if output.status.success() {
        return Ok(());
    }
    Err(LabError::Tool {
        tool: format!("ip {}", words.join(" ")),
        problem: format!("in {node}: {}", String::from_utf8_lossy(&output.stderr).trim()),
        advice: "look at its interfaces: catena lab shell".into(),
    })
}
