//! Renders a chain: from declared functions, instances and rules to hops and placed rules.

use crate::error::PlanError;
use crate::intent::Intent;
use crate::inventory::Inventory;
use crate::ledger::PlacedRule;
use catena_model::id::{NetworkId, PortId};
use catena_model::program::{HopEntry, HopKind, InstanceEntry, RuleEntry, RuleMatch};
use catena_model::resource::{
    Chain, ClassificationRule, Encapsulation, IpFamily, PortBounds, ServiceFunction,
};
use catena_model::{NodeName, PathId};
use catena_wire::scalar::PortRange;
use ipnet::IpNet;

/// What a chain becomes when everything it needs is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rendering {
    pub(crate) encapsulation: Encapsulation,
    pub(crate) hops: Vec<HopEntry>,
    pub(crate) destination: NetworkId,
    /// The rules, still with the path identifier 0.
    pub(crate) rules: Vec<PlacedRule>,
}

/// Renders a chain, or says in the names people gave what is missing.
///
/// # Errors
/// The reason why the chain stays `building`.
pub(crate) fn render(
    intent: &Intent,
    inventory: &Inventory,
    chain: &Chain,
) -> Result<Rendering, String> {
    if chain.is_symmetric {
        return Err("symmetric chains are not carried by this version".into());
    }
    let hops = chain
        .functions
        .iter()
        .map(|id| {
            let function = intent.functions.get(id);
            let function = function.ok_or_else(|| format!("function {id} does not exist"))?;
            render_hop(intent, inventory, function)
        })
        .collect::<Result<Vec<_>, String>>()?;
    if chain.rules.is_empty() {
        return Err("it has no classification rule".into());
    }
    let mut rules = Vec::new();
    for id in &chain.rules {
        let rule = intent.rules.get(id);
        let rule = rule.ok_or_else(|| format!("classification rule {id} does not exist"))?;
        rules.extend(render_rule(intent, inventory, rule)?);
    }
    let destination = destination_network(intent, chain)
        .map_err(|error| error.to_string())?
        .ok_or("its last function has no egress port")?;
    Ok(Rendering { encapsulation: chain.encapsulation, hops, destination, rules })
}

/// The network in which the chain delivers: that of its rules' source ports, else that of the last
/// function's egress.
pub(crate) fn destination_network(
    intent: &Intent,
    chain: &Chain,
) -> Result<Option<NetworkId>, PlanError> {
    let mut found: Option<NetworkId> = None;
    for id in &chain.rules {
        let source = intent.rules.get(id).and_then(|rule| rule.source_port);
        let Some(network) = source.and_then(|id| intent.ports.get(&id)).map(|port| port.network)
        else {
            continue;
        };
        match found {
            Some(first) if first != network => {
                let name = |id: NetworkId| {
                    intent.networks.get(&id).map_or(id.to_string(), |n| n.label.name.clone())
                };
                return Err(PlanError::TwoSourceNetworks {
                    chain: chain_name(chain),
                    first: name(first),
                    second: name(network),
                });
            }
            _ => found = Some(network),
        }
    }
    let last_egress = || {
        let function = intent.functions.get(chain.functions.last()?)?;
        let instance = intent.instances.get(function.instances.first()?)?;
        intent.ports.get(&instance.egress).map(|port| port.network)
    };
    Ok(found.or_else(last_egress))
}

/// What people call a chain.
pub(crate) fn chain_name(chain: &Chain) -> String {
    if chain.label.name.is_empty() { chain.id.to_string() } else { chain.label.name.clone() }
}

fn render_hop(
    intent: &Intent,
    inventory: &Inventory,
    function: &ServiceFunction,
) -> Result<HopEntry, String> {
    let name = if function.label.name.is_empty() {
        function.id.to_string()
    } else {
        function.label.name.clone()
    };
    if function.is_tap {
        return Err(format!("function '{name}' is a tap: taps are not carried by this version"));
    }
    if function.instances.is_empty() {
        return Err(format!("function '{name}' has no instance"));
    }
    let mut instances = Vec::with_capacity(function.instances.len());
    for id in &function.instances {
        let instance = intent.instances.get(id);
        let instance = instance.ok_or_else(|| format!("instance {id} does not exist"))?;
        let node = bound_node(intent, inventory, instance.ingress)?;
        bound_node(intent, inventory, instance.egress)?;
        let ingress_mac = intent.ports.get(&instance.ingress).map(|port| port.mac);
        let ingress_mac = ingress_mac.ok_or("its ingress port does not exist")?;
        let name = if instance.label.name.is_empty() {
            instance.id.to_string()
        } else {
            instance.label.name.clone()
        };
        instances.push(InstanceEntry {
            id: instance.id,
            name,
            node,
            ingress: instance.ingress,
            egress: instance.egress,
            ingress_mac,
            weight: instance.weight,
            speaks: instance.speaks,
        });
    }
    Ok(HopEntry {
        function: function.id,
        name,
        kind: HopKind::Through,
        on_failure: function.on_failure,
        instances,
    })
}

/// The node of a port that has an interface there.
fn bound_node(intent: &Intent, inventory: &Inventory, id: PortId) -> Result<NodeName, String> {
    let name = intent.port_name(id);
    let port = intent.ports.get(&id).ok_or_else(|| format!("port '{name}' does not exist"))?;
    let Some(node) = &port.node else {
        return Err(format!("port '{name}' is not bound: it has no binding:host_id"));
    };
    if port.attachment.is_none() {
        return Err(format!("port '{name}' is not bound: it has no binding:profile"));
    }
    let Some(facts) = inventory.nodes.get(node) else {
        return Err(format!("node '{node}' of port '{name}' has never connected"));
    };
    if facts.bound.contains(&id) {
        return Ok(node.clone());
    }
    Err(match facts.unbound.get(&id) {
        Some(reason) => format!("port '{name}' is not bound on node '{node}': {reason}"),
        None if facts.is_connected => format!("port '{name}' is not bound on node '{node}' yet"),
        None => format!("node '{node}' of port '{name}' is not connected"),
    })
}

fn render_rule(
    intent: &Intent,
    inventory: &Inventory,
    rule: &ClassificationRule,
) -> Result<Vec<PlacedRule>, String> {
    let node = rule.source_port.map(|port| bound_node(intent, inventory, port)).transpose()?;
    let name =
        if rule.label.name.is_empty() { rule.id.to_string() } else { rule.label.name.clone() };
    let placed = |destination: Option<IpNet>| {
        let matches = RuleMatch {
            port: rule.source_port,
            vlan: None,
            family: rule.family,
            transport: rule.transport,
            source: rule.source_prefix.map(|net| net.trunc()),
            destination,
            source_ports: range(rule.source_ports),
            destination_ports: range(rule.destination_ports),
        };
        let priority = priority(&matches);
        let rule =
            RuleEntry { id: rule.id, name: name.clone(), priority, matches, path: PathId(0) };
        PlacedRule { node: node.clone(), rule }
    };
    let prefix = rule.destination_prefix.map(|net| net.trunc());
    let Some(port) = rule.destination_port else { return Ok(vec![placed(prefix)]) };
    // A logical destination port means its addresses.
    let port = intent.ports.get(&port).ok_or_else(|| format!("port {port} does not exist"))?;
    let addresses = port.fixed_ips.iter().map(|fixed| fixed.address);
    let wanted = addresses.filter(|address| IpFamily::of(*address) == rule.family);
    let inside = wanted.filter(|address| prefix.is_none_or(|net| net.contains(address)));
    let rules: Vec<PlacedRule> = inside.map(|address| placed(Some(IpNet::from(address)))).collect();
    if rules.is_empty() {
        return Err(format!(
            "destination port '{}' of classifier '{name}' has no address that the classifier allows",
            intent.port_name(port.id)
        ));
    }
    Ok(rules)
}

fn range(bounds: PortBounds) -> Option<PortRange> {
    let (min, max) = bounds.closed();
    // Bounds are checked where they are declared; an empty range matches nothing it should not.
    (!bounds.is_any()).then(|| PortRange::new(min, max).ok()).flatten()
}

/// More specific goes first: an in-port outweighs all else, then the bits that are looked at.
fn priority(matches: &RuleMatch) -> u32 {
    const IN_PORT: u32 = 1_000;
    let prefix = |net: &Option<IpNet>| net.map_or(0, |net| u32::from(net.prefix_len()));
    let ports = |range: &Option<PortRange>| {
        range.map_or(0, |range| {
            16 - u32::from(range.max() - range.min()).checked_ilog2().map_or(0, |bits| bits + 1)
        })
    };
    matches.port.map_or(0, |_| IN_PORT)
        + matches.transport.map_or(0, |_| 8)
        + prefix(&matches.source)
        + prefix(&matches.destination)
        + ports(&matches.source_ports)
        + ports(&matches.destination_ports)
}
