//! Renders a chain: from declared functions, instances and rules to hops and placed rules.

use crate::error::PlanError;
use crate::intent::Intent;
use crate::inventory::Inventory;
use crate::ledger::{Direction, PathRecord, PlacedRule};
use catena_model::id::{NetworkId, PortId};
use catena_model::program::{
    Balance, HopEntry, HopKind, InstanceEntry, RuleEntry, RuleMatch, RulePlace,
};
use catena_model::resource::{
    Chain, ClassificationRule, ContextHeader, Encapsulation, Instance, IpFamily, PortBounds,
    ServiceFunction,
};
use catena_model::{NodeName, PathId};
use catena_wire::scalar::PortRange;
use ipnet::IpNet;

/// One way along a chain when everything it needs is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rendering {
    pub(crate) direction: Direction,
    pub(crate) encapsulation: Encapsulation,
    pub(crate) context: Vec<ContextHeader>,
    pub(crate) hops: Vec<HopEntry>,
    pub(crate) destination: NetworkId,
    /// The rules, still with the path identifier 0.
    pub(crate) rules: Vec<PlacedRule>,
}

impl Rendering {
    /// Is this what a path carries? Its rules may differ.
    pub(crate) fn is_carried_by(&self, path: &PathRecord) -> bool {
        path.direction == self.direction
            && path.encapsulation == self.encapsulation
            && path.context == self.context
            && path.hops == self.hops
            && path.destination == self.destination
    }

    /// The rules that send into a path.
    pub(crate) fn rules_into(&self, id: PathId) -> Vec<PlacedRule> {
        let mut rules = self.rules.clone();
        for placed in &mut rules {
            placed.rule.path = id;
        }
        rules
    }
}

/// Renders a chain, forward first, or says in the names people gave what is missing.
///
/// # Errors
/// The reason why the chain stays `building`.
pub(crate) fn render(
    intent: &Intent,
    inventory: &Inventory,
    chain: &Chain,
) -> Result<Vec<Rendering>, String> {
    let mut functions = Vec::new();
    for id in &chain.functions {
        let function = intent.functions.get(id);
        functions.push(function.ok_or_else(|| format!("function {id} does not exist"))?);
    }
    if chain.rules.is_empty() {
        return Err("it has no classification rule".into());
    }
    let mut rules = Vec::new();
    for id in &chain.rules {
        let rule = intent.rules.get(id);
        rules.push(rule.ok_or_else(|| format!("classification rule {id} does not exist"))?);
    }
    let way = |direction: Direction| {
        let hop = |function: &&ServiceFunction| hop(intent, inventory, function, direction);
        let hops = match direction {
            Direction::Forward => functions.iter().map(hop).collect::<Result<_, String>>()?,
            Direction::Reverse => functions.iter().rev().map(hop).collect::<Result<_, String>>()?,
        };
        let placed = rules.iter().map(|rule| place(intent, inventory, rule, direction));
        let placed: Vec<Vec<PlacedRule>> = placed.collect::<Result<_, String>>()?;
        let destination = match direction {
            Direction::Forward => destination_network(intent, chain),
            Direction::Reverse => source_network(intent, chain),
        };
        let destination = destination.map_err(|error| error.to_string())?;
        Ok::<Rendering, String>(Rendering {
            direction,
            encapsulation: chain.encapsulation,
            context: chain.context.clone(),
            hops,
            destination: destination.ok_or("its functions have no port to deliver from")?,
            rules: placed.concat(),
        })
    };
    let mut ways = vec![way(Direction::Forward)?];
    if chain.is_symmetric {
        ways.push(way(Direction::Reverse)?);
    }
    Ok(ways)
}

/// The network in which the chain delivers: that of its rules' source ports, else that of the last
/// function's egress.
pub(crate) fn destination_network(
    intent: &Intent,
    chain: &Chain,
) -> Result<Option<NetworkId>, PlanError> {
    Ok(rules_network(intent, chain)?.or_else(|| {
        let mut passed = passed(intent, chain).rev();
        passed.next().and_then(|instance| port_network(intent, instance.egress))
    }))
}

/// The network in which the answers of a symmetric chain are delivered: where its packets begin.
fn source_network(intent: &Intent, chain: &Chain) -> Result<Option<NetworkId>, PlanError> {
    Ok(rules_network(intent, chain)?.or_else(|| {
        passed(intent, chain).next().and_then(|instance| port_network(intent, instance.ingress))
    }))
}

/// The one network of the source ports of a chain's rules.
fn rules_network(intent: &Intent, chain: &Chain) -> Result<Option<NetworkId>, PlanError> {
    let mut found: Option<NetworkId> = None;
    for id in &chain.rules {
        let source = intent.rules.get(id).and_then(|rule| rule.source_port);
        let Some(network) = source.and_then(|id| port_network(intent, id)) else { continue };
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
    Ok(found)
}

fn port_network(intent: &Intent, id: PortId) -> Option<NetworkId> {
    intent.ports.get(&id).map(|port| port.network)
}

/// The first instance of each function that packets pass through; a tap passes nothing on, and
/// counts only where there is nothing else.
fn passed<'i>(
    intent: &'i Intent,
    chain: &'i Chain,
) -> impl DoubleEndedIterator<Item = &'i Instance> {
    let functions = || chain.functions.iter().filter_map(|id| intent.functions.get(id));
    let are_taps = functions().all(|function| function.is_tap);
    let passed = functions().filter(move |function| are_taps || !function.is_tap);
    passed.filter_map(|function| intent.instances.get(function.instances.first()?))
}

/// What people call a chain.
pub(crate) fn chain_name(chain: &Chain) -> String {
    if chain.label.name.is_empty() { chain.id.to_string() } else { chain.label.name.clone() }
}

/// What people call a function.
pub(crate) fn function_name(function: &ServiceFunction) -> String {
    let name = &function.label.name;
    if name.is_empty() { function.id.to_string() } else { name.clone() }
}

/// What people call an instance.
pub(crate) fn instance_name(instance: &Instance) -> String {
    let name = &instance.label.name;
    if name.is_empty() { instance.id.to_string() } else { name.clone() }
}

fn hop(
    intent: &Intent,
    inventory: &Inventory,
    function: &ServiceFunction,
    direction: Direction,
) -> Result<HopEntry, String> {
    let name = function_name(function);
    if function.instances.is_empty() {
        return Err(format!("function '{name}' has no instance"));
    }
    let mut members = Vec::with_capacity(function.instances.len());
    for id in &function.instances {
        let instance = intent.instances.get(id);
        members.push(instance.ok_or_else(|| format!("instance {id} does not exist"))?);
    }
    // Where nobody else takes new flows, the one that drains goes on taking them.
    let can_drain = members.iter().any(|instance| !instance.is_draining && instance.weight > 0);
    let mut instances = Vec::with_capacity(members.len());
    for instance in members {
        let mut entry = instance_entry(intent, inventory, instance, function.is_tap, direction)?;
        if instance.is_draining && can_drain {
            entry.weight = 0;
        }
        instances.push(entry);
    }
    let kind = if function.is_tap { HopKind::Tap } else { HopKind::Through };
    Ok(HopEntry {
        function: function.id,
        name,
        kind,
        on_failure: function.on_failure,
        balance: Balance::Flow,
        rewrites: None,
        instances,
    })
}

/// An instance of a hop. On the way back packets enter where they leave on the way forth; a tap
/// gets its copies by its ingress either way, and nothing is expected back from it.
fn instance_entry(
    intent: &Intent,
    inventory: &Inventory,
    instance: &Instance,
    is_tap: bool,
    direction: Direction,
) -> Result<InstanceEntry, String> {
    let (ingress, egress) = match (is_tap, direction) {
        (true, _) => (instance.ingress, instance.ingress),
        (false, Direction::Forward) => (instance.ingress, instance.egress),
        (false, Direction::Reverse) => (instance.egress, instance.ingress),
    };
    let node = bound_node(intent, inventory, ingress)?;
    bound_node(intent, inventory, egress)?;
    let ingress_mac = intent.ports.get(&ingress).map(|port| port.mac);
    Ok(InstanceEntry {
        id: instance.id,
        name: instance_name(instance),
        node,
        ingress,
        egress,
        ingress_mac: ingress_mac.ok_or("its ingress port does not exist")?,
        weight: instance.weight,
        speaks: instance.speaks,
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

/// A rule where its packets begin; on the way back, where the answers do.
fn place(
    intent: &Intent,
    inventory: &Inventory,
    rule: &ClassificationRule,
    direction: Direction,
) -> Result<Vec<PlacedRule>, String> {
    let port = match direction {
        Direction::Forward => rule.source_port,
        Direction::Reverse => rule.destination_port,
    };
    let node = port.map(|port| bound_node(intent, inventory, port)).transpose()?;
    let name =
        if rule.label.name.is_empty() { rule.id.to_string() } else { rule.label.name.clone() };
    let ends = match direction {
        Direction::Forward => forward_ends(intent, rule, &name)?,
        Direction::Reverse => reverse_ends(intent, rule, &name)?,
    };
    let (source_ports, destination_ports) = match direction {
        Direction::Forward => (rule.source_ports, rule.destination_ports),
        Direction::Reverse => (rule.destination_ports, rule.source_ports),
    };
    let placed = |(source, destination): (Option<IpNet>, Option<IpNet>)| {
        let matches = RuleMatch {
            place: port.map_or(RulePlace::Endpoints, RulePlace::Port),
            vlan: None,
            family: rule.family,
            transport: rule.transport,
            source,
            destination,
            source_ports: range(source_ports),
            destination_ports: range(destination_ports),
        };
        let priority = priority(&matches);
        let rule =
            RuleEntry { id: rule.id, name: name.clone(), priority, matches, path: PathId(0) };
        PlacedRule { node: node.clone(), rule }
    };
    Ok(ends.into_iter().map(placed).collect())
}

type Ends = Vec<(Option<IpNet>, Option<IpNet>)>;

/// Source and destination addresses of a rule. A logical destination port means its addresses.
fn forward_ends(intent: &Intent, rule: &ClassificationRule, name: &str) -> Result<Ends, String> {
    let source = rule.source_prefix.map(|net| net.trunc());
    let prefix = rule.destination_prefix.map(|net| net.trunc());
    let Some(port) = rule.destination_port else { return Ok(vec![(source, prefix)]) };
    let inside = addresses(intent, rule, port)?;
    let inside = inside.into_iter().filter(|ip| prefix.is_none_or(|net| net.contains(&ip.addr())));
    let ends: Ends = inside.map(|address| (source, Some(address))).collect();
    if ends.is_empty() {
        return Err(format!(
            "destination port '{}' of classifier '{name}' has no address that the classifier allows",
            intent.port_name(port)
        ));
    }
    Ok(ends)
}

/// The same the other way round. Answers go to the declared source addresses; where none are
/// declared, to those of the logical source port.
fn reverse_ends(intent: &Intent, rule: &ClassificationRule, name: &str) -> Result<Ends, String> {
    let declared = rule.source_prefix.map(|net| net.trunc());
    let mut destinations: Vec<Option<IpNet>> = vec![declared];
    if let (None, Some(port)) = (declared, rule.source_port) {
        let own = addresses(intent, rule, port)?;
        if !own.is_empty() {
            destinations = own.into_iter().map(Some).collect();
        }
    }
    let forward = forward_ends(intent, rule, name)?;
    let answers = forward.into_iter().flat_map(|(_, source)| {
        destinations.iter().map(move |destination| (source, *destination)).collect::<Ends>()
    });
    Ok(answers.collect())
}

/// The addresses of a port that a rule's family has.
fn addresses(
    intent: &Intent,
    rule: &ClassificationRule,
    port: PortId,
) -> Result<Vec<IpNet>, String> {
    let port = intent.ports.get(&port).ok_or_else(|| format!("port {port} does not exist"))?;
    let addresses = port.fixed_ips.iter().map(|fixed| fixed.address);
    let wanted = addresses.filter(|address| IpFamily::of(*address) == rule.family);
    Ok(wanted.map(IpNet::from).collect())
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
    matches.place.port().map_or(0, |_| IN_PORT)
        + matches.transport.map_or(0, |_| 8)
        + prefix(&matches.source)
        + prefix(&matches.destination)
        + ports(&matches.source_ports)
        + ports(&matches.destination_ports)
}
