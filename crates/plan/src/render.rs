//! Renders a chain: from declared functions, instances and rules to hops and placed rules.

use crate::error::PlanError;
use crate::graph::Graphs;
use crate::intent::Intent;
use crate::inventory::Inventory;
use crate::ledger::{Direction, PathRecord, PlacedRule};
use crate::place::{after_chains, answers_after_chains, answers_at_ports, at_ports};
use crate::segments::{self, MadeOf, Single};
use crate::selector::rewritten_by;
use catena_model::bundle::Member;
use catena_model::id::{ChainId, NetworkId, PortId};
use catena_model::program::{
    Balance, HopEntry, HopKind, InstanceEntry, RewriteEntry, RuleEntry, TupleField,
};
use catena_model::resource::{
    Chain, ContextHeader, Encapsulation, FlowField, Instance, ServiceFunction, TupleMapping,
    TuplePattern,
};
use catena_model::setup::Setup;
use catena_model::telemetry::Telemetry;
use catena_model::{NodeName, PathId};
use std::collections::BTreeSet;
use std::sync::Arc;

/// One way along a chain when everything it needs is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rendering {
    pub(crate) direction: Direction,
    pub(crate) encapsulation: Encapsulation,
    pub(crate) context: Vec<ContextHeader>,
    pub(crate) telemetry: Option<Telemetry>,
    pub(crate) hops: Vec<HopEntry>,
    /// Those that come with Catena.
    pub(crate) members: Vec<Member>,
    pub(crate) destination: NetworkId,
    /// The chains that packets may go on in.
    pub(crate) leads_to: Vec<ChainId>,
    /// Its rules look at fields that differ within a flow.
    pub(crate) splits_flows: bool,
    /// When the controller is asked for flows.
    pub(crate) setup: Setup,
    /// The rules where packets begin, still with the path identifier 0.
    pub(crate) rules: Vec<PlacedRule>,
    /// The rules by which packets come from other chains, without place and path.
    pub(crate) joins: Vec<RuleEntry>,
}

impl Rendering {
    /// Is this what a path carries? Its rules may differ.
    pub(crate) fn is_carried_by(&self, path: &PathRecord) -> bool {
        path.direction == self.direction
            && path.encapsulation == self.encapsulation
            && path.context == self.context
            && path.telemetry == self.telemetry
            && path.hops == self.hops
            && path.members == self.members
            && path.destination == self.destination
            && path.leads_to == self.leads_to
            && path.splits_flows == self.splits_flows
    }

    /// Do these rules send into the path?
    pub(crate) fn is_entered_as(&self, id: PathId, path: &PathRecord) -> bool {
        path.rules == self.rules_into(id) && path.joins == self.joins && path.setup == self.setup
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

/// Does a rule look at what differs within a flow?
fn splits_flows(rule: &RuleEntry) -> bool {
    !rule.matches.fields.is_any()
}

/// Renders a chain, forward first, or says in the names people gave what is missing.
///
/// # Errors
/// The reason why the chain stays `building`.
pub(crate) fn render(
    intent: &Intent,
    inventory: &Inventory,
    graphs: &Graphs<'_>,
    chain: &Chain,
) -> Result<Vec<Rendering>, String> {
    let mut functions = Vec::new();
    for id in &chain.functions {
        let function = intent.functions.get(id);
        functions.push(function.ok_or_else(|| format!("function {id} does not exist"))?);
    }
    if !graphs.is_entered(chain) {
        return Err("it has no classification rule".into());
    }
    // Once for both ways: it may be large.
    let made = functions.iter().map(|function| made_of(intent, function));
    let made = made.collect::<Result<Vec<Option<MadeOf>>, String>>()?;
    let way = |direction: Direction| {
        let single = |(function, made_of): (&&ServiceFunction, &Option<MadeOf>)| {
            let hop = hop(intent, inventory, chain, function, direction)?;
            Ok((hop, made_of.clone()))
        };
        let singles =
            functions.iter().zip(&made).map(single).collect::<Result<Vec<Single>, String>>()?;
        let (hops, members) = segments::join(singles, direction);
        let (rules, joins) = entries(intent, inventory, graphs, chain, direction)?;
        let destination = match direction {
            Direction::Forward => destination_network(intent, graphs, chain),
            Direction::Reverse => source_network(intent, graphs, chain),
        };
        let destination = destination.map_err(|error| error.to_string())?;
        Ok::<Rendering, String>(Rendering {
            direction,
            encapsulation: chain.encapsulation,
            context: chain.context.clone(),
            telemetry: chain.telemetry.clone(),
            hops,
            members,
            destination: destination.ok_or("its functions have no port to deliver from")?,
            leads_to: graphs.leads_to(chain.id, direction),
            splits_flows: rules.iter().map(|placed| &placed.rule).chain(&joins).any(splits_flows),
            setup: chain.setup,
            rules,
            joins,
        })
    };
    let mut ways = vec![way(Direction::Forward)?];
    if chain.is_symmetric {
        ways.push(way(Direction::Reverse)?);
    }
    Ok(ways)
}

/// The rules of one way of a chain: where packets begin, and where they come from other chains.
fn entries(
    intent: &Intent,
    inventory: &Inventory,
    graphs: &Graphs<'_>,
    chain: &Chain,
    direction: Direction,
) -> Result<(Vec<PlacedRule>, Vec<RuleEntry>), String> {
    match direction {
        Direction::Forward if graphs.is_joined(chain.id) => {
            Ok((Vec::new(), after_chains(intent, chain)?))
        }
        Direction::Forward => Ok((at_ports(intent, inventory, chain)?, Vec::new())),
        Direction::Reverse => {
            let rules = answers_at_ports(intent, inventory, graphs, chain);
            let joins = if graphs.after(chain.id).is_empty() {
                Ok(Vec::new())
            } else {
                answers_after_chains(intent, chain)
            };
            let text = |why: crate::place::Unanswerable| why.to_string();
            Ok((rules.map_err(text)?, joins.map_err(text)?))
        }
    }
}

/// The network in which the chain delivers: that into which the last bundled function leads that leads into another,
/// else that of its rules' source ports, or of those of the chains before it, else that of the last function's egress.
pub(crate) fn destination_network(
    intent: &Intent,
    graphs: &Graphs<'_>,
    chain: &Chain,
) -> Result<Option<NetworkId>, PlanError> {
    let begin = rules_network(intent, graphs, chain)?;
    Ok(led_into(intent, graphs, chain).or(begin).or_else(|| {
        let mut passed = passed(intent, chain).rev();
        passed.next().and_then(|instance| port_network(intent, instance.egress))
    }))
}

/// The network into which bundled functions of a chain, or of those before it, lead from another.
fn led_into(intent: &Intent, graphs: &Graphs<'_>, chain: &Chain) -> Option<NetworkId> {
    let last = |chain: &Chain| {
        let crossings = crossings(intent, chain).filter(|one| one.function.is_inside());
        crossings.last().map(|crossing| crossing.into)
    };
    last(chain).or_else(|| {
        let before = graphs.all_before(chain.id);
        before.iter().find_map(|id| last(intent.chains.get(id)?))
    })
}

/// A function that leads packets from one network into another.
pub(crate) struct Crossing<'i> {
    pub(crate) function: &'i ServiceFunction,
    pub(crate) from: NetworkId,
    pub(crate) into: NetworkId,
}

/// Those of a chain, in their order.
pub(crate) fn crossings<'i>(
    intent: &'i Intent,
    chain: &'i Chain,
) -> impl Iterator<Item = Crossing<'i>> {
    let functions = chain.functions.iter().filter_map(|id| intent.functions.get(id));
    functions.filter(|function| !function.is_tap).filter_map(|function| {
        let instance = intent.instances.get(function.instances.first()?)?;
        let from = port_network(intent, instance.ingress)?;
        let into = port_network(intent, instance.egress)?;
        (from != into).then_some(Crossing { function, from, into })
    })
}

/// The network in which the answers of a symmetric chain are delivered: where its packets begin.
pub(crate) fn source_network(
    intent: &Intent,
    graphs: &Graphs<'_>,
    chain: &Chain,
) -> Result<Option<NetworkId>, PlanError> {
    Ok(rules_network(intent, graphs, chain)?.or_else(|| {
        passed(intent, chain).next().and_then(|instance| port_network(intent, instance.ingress))
    }))
}

/// The one network of the source ports of a chain's rules and of those before it.
fn rules_network(
    intent: &Intent,
    graphs: &Graphs<'_>,
    chain: &Chain,
) -> Result<Option<NetworkId>, PlanError> {
    let mut found: Option<NetworkId> = None;
    let mut seen = BTreeSet::from([chain.id]);
    let mut open = vec![chain.id];
    while let Some(id) = open.pop() {
        let rules = intent.chains.get(&id).into_iter().flat_map(|chain| &chain.rules);
        // A rule behind another chain has no port of its own.
        let rules = rules.filter(|_| !graphs.is_joined(id));
        for rule in rules.filter_map(|id| intent.rules.get(id)) {
            let network = rule.source_port.and_then(|id| port_network(intent, id));
            let Some(network) = network else { continue };
            match found {
                Some(first) if first != network => {
                    return Err(two_networks(intent, chain, first, network));
                }
                _ => found = Some(network),
            }
        }
        open.extend(graphs.before(id).iter().filter(|before| seen.insert(**before)));
    }
    Ok(found)
}

fn two_networks(intent: &Intent, chain: &Chain, one: NetworkId, other: NetworkId) -> PlanError {
    PlanError::TwoSourceNetworks {
        chain: chain.name(),
        first: intent.network_name(one),
        second: intent.network_name(other),
    }
}

pub(crate) fn port_network(intent: &Intent, id: PortId) -> Option<NetworkId> {
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

fn hop(
    intent: &Intent,
    inventory: &Inventory,
    chain: &Chain,
    function: &ServiceFunction,
    direction: Direction,
) -> Result<HopEntry, String> {
    let name = function.name();
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
        balance: balance(function, chain.is_symmetric, direction),
        rewrites: rewrites(function, direction).filter(|_| !function.is_tap),
        keeps_mac: function.keeps_mac && !function.is_tap,
        via: match direction {
            Direction::Forward => chain.via.get(&function.id).cloned().unwrap_or_default(),
            Direction::Reverse => Vec::new(),
        },
        instances,
    })
}

/// What a function is made of, where data planes ask it.
fn made_of(intent: &Intent, function: &ServiceFunction) -> Result<Option<MadeOf>, String> {
    let inside = function.template.as_ref().filter(|template| template.door.is_inside());
    let Some(template) = inside else { return Ok(None) };
    let whole = intent.with_texts(template, &function.label.project);
    let whole = whole.map_err(|why| format!("function '{}': {why}", function.name()))?;
    let made_of = whole.configuration().map(|made_of| (made_of.id(), Arc::new(made_of)));
    Ok(made_of)
}

/// What chooses the instance. Where there is a way back, only what packets of both ways show at the
/// function: no MAC, since every function and proxy sets others, and nothing that it rewrites.
fn balance(function: &ServiceFunction, is_symmetric: bool, direction: Direction) -> Balance {
    let changed = rewritten_by(function);
    let mut fields: BTreeSet<FlowField> = function.balance.iter().copied().collect();
    if fields.is_empty() {
        if !is_symmetric || changed.is_empty() {
            return Balance::Flow;
        }
        fields.extend(FLOW_FIELDS);
    }
    if is_symmetric {
        fields.retain(|field| tuple_field(*field).is_some_and(|field| !changed.contains(&field)));
    }
    let turned = |field| match direction {
        Direction::Forward => field,
        Direction::Reverse => opposite(field),
    };
    Balance::Fields(fields.into_iter().map(turned).collect())
}

/// The fields of a flow.
const FLOW_FIELDS: [FlowField; 6] = [
    FlowField::IpSrc,
    FlowField::IpDst,
    FlowField::TcpSrc,
    FlowField::TcpDst,
    FlowField::UdpSrc,
    FlowField::UdpDst,
];

const fn opposite(field: FlowField) -> FlowField {
    match field {
        FlowField::EthSrc => FlowField::EthDst,
        FlowField::EthDst => FlowField::EthSrc,
        FlowField::IpSrc => FlowField::IpDst,
        FlowField::IpDst => FlowField::IpSrc,
        FlowField::TcpSrc => FlowField::TcpDst,
        FlowField::TcpDst => FlowField::TcpSrc,
        FlowField::UdpSrc => FlowField::UdpDst,
        FlowField::UdpDst => FlowField::UdpSrc,
    }
}

const fn tuple_field(field: FlowField) -> Option<TupleField> {
    match field {
        FlowField::EthSrc | FlowField::EthDst => None,
        FlowField::IpSrc => Some(TupleField::Source),
        FlowField::IpDst => Some(TupleField::Destination),
        FlowField::TcpSrc | FlowField::UdpSrc => Some(TupleField::SourcePort),
        FlowField::TcpDst | FlowField::UdpDst => Some(TupleField::DestinationPort),
    }
}

/// How packets come back from a function: on the way back it undoes what it does forward.
fn rewrites(function: &ServiceFunction, direction: Direction) -> Option<RewriteEntry> {
    let fields = rewritten_by(function);
    if fields.is_empty() {
        return None;
    }
    // Of a function that is asked in place, nobody waits for what it leaves.
    let mapping = if function.is_inside() { &TupleMapping::default() } else { &function.mapping };
    Some(match direction {
        Direction::Forward => RewriteEntry { fields, leaves: mapping.egress.clone() },
        Direction::Reverse => {
            let turned = |field| match field {
                TupleField::Source => TupleField::Destination,
                TupleField::Destination => TupleField::Source,
                TupleField::SourcePort => TupleField::DestinationPort,
                TupleField::DestinationPort => TupleField::SourcePort,
            };
            let pattern = mapping.ingress.clone();
            RewriteEntry {
                fields: fields.into_iter().map(turned).collect(),
                leaves: TuplePattern {
                    source_prefix: pattern.destination_prefix,
                    destination_prefix: pattern.source_prefix,
                    source_ports: pattern.destination_ports,
                    destination_ports: pattern.source_ports,
                },
            }
        }
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
        name: instance.name(),
        node,
        ingress,
        egress,
        ingress_mac: ingress_mac.ok_or("its ingress port does not exist")?,
        weight: instance.weight,
        speaks: instance.speaks,
    })
}

/// Why a port has no interface; none: it has one.
#[must_use]
pub fn why_unbound(intent: &Intent, inventory: &Inventory, id: PortId) -> Option<String> {
    bound_node(intent, inventory, id).err()
}

/// The node of a port that has an interface there.
pub(crate) fn bound_node(
    intent: &Intent,
    inventory: &Inventory,
    id: PortId,
) -> Result<NodeName, String> {
    let name = intent.port_name(id);
    let port = intent.ports.get(&id).ok_or_else(|| format!("port '{name}' does not exist"))?;
    let Some(node) = &port.node else {
        return Err(format!("port '{name}' is not bound: it has no binding:host_id"));
    };
    if port.attachment.is_none() {
        return Err(format!("port '{name}' is not bound: it has no binding:profile"));
    }
    let Some(facts) = inventory.nodes.get(node) else {
        return Err(match inventory.role(node) {
            Some(_) => format!(
                "node '{node}' of port '{name}' is a switch, which has no ports of tenants: bind it \
                 to a host"
            ),
            None => format!("node '{node}' of port '{name}' has never connected"),
        });
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
