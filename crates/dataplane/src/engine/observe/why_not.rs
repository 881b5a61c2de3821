//! Why the rules of a chain do not take a packet at a port. Knows which rules the classifier asks
//! there and in which order; refuses to judge a condition itself: that is the classifier's.

use super::render::chain_name;
use crate::engine::encap;
use crate::engine::packet::index::PortIndex;
use crate::engine::packet::parse;
use crate::engine::tables::Tables;
use catena_model::entry::RuleKey;
use catena_model::explain::{RuleCondition, RuleVerdict};
use catena_model::id::{ChainId, NetworkId};
use catena_model::program::{RuleEntry, RulePlace};
use catena_model::resource::{IpFamily, Transport};
use catena_search::{Failing, has_ports};
use catena_wire::flow::FlowKey;
use catena_wire::frame::FrameView;

/// A verdict on each rule of the chain in this node's program; on each of its paths that has none,
/// that it has none.
pub(crate) fn of_chain(
    tables: &Tables,
    chain: ChainId,
    port: PortIndex,
    frame: &[u8],
) -> Vec<RuleVerdict> {
    let program = &tables.entries;
    let mut verdicts = Vec::new();
    for path in program.paths.values().filter(|path| path.chain == chain) {
        let rules = program.rules.iter().filter(|(_, rule)| rule.path == path.id);
        let before = verdicts.len();
        verdicts.extend(rules.map(|(key, rule)| {
            let condition = judge(tables, (key, rule), port, frame);
            RuleVerdict::new(Some(rule.id), rule.name.clone(), Some(path.id), condition)
        }));
        if verdicts.len() == before {
            let condition = RuleCondition::NotTurned;
            verdicts.push(RuleVerdict::new(None, "", Some(path.id), condition));
        }
    }
    verdicts
}

fn judge(
    tables: &Tables,
    (key, rule): (&RuleKey, &RuleEntry),
    port: PortIndex,
    frame: &[u8],
) -> RuleCondition {
    let came_by = tables.port(port);
    let name = || came_by.entry.name.clone();
    // Of what a function sends, only its own traffic is asked about, and only rules of its port.
    if came_by.is_function() && rule.matches.place.port() != Some(came_by.entry.id) {
        return RuleCondition::FunctionPort { port: name() };
    }
    if let RulePlace::After(ended) = rule.matches.place {
        let before = tables.entries.paths.get(&ended);
        let chain = before.map_or_else(String::new, |path| chain_name(tables, path.chain));
        return RuleCondition::AfterChain { chain };
    }
    let wanted = rule.matches.place.port();
    if let Some(wanted) = wanted.filter(|wanted| *wanted != came_by.entry.id) {
        let known = tables.entries.ports.get(&wanted);
        let wanted = known.map_or_else(|| wanted.to_string(), |entry| entry.name.clone());
        return RuleCondition::IngressPort { wanted, found: name() };
    }
    let path = tables.entries.paths.get(&rule.path);
    if wanted.is_none()
        && let Some(path) = path.filter(|path| path.destination != came_by.entry.network)
    {
        let named = |id: NetworkId| {
            let network = tables.entries.networks.get(&id);
            network.map_or_else(|| id.to_string(), |network| network.name.clone())
        };
        let (wanted, found) = (named(path.destination), named(came_by.entry.network));
        return RuleCondition::Network { wanted, found };
    }
    let Ok(view) = parse::parse_frame(frame) else { return RuleCondition::Malformed };
    if encap::by_ether_type(view.ethertype).is_some() {
        return RuleCondition::ForeignHeader;
    }
    if parse::is_never_classified(&view) || view.destination.is_multicast() {
        return RuleCondition::NeverClassified;
    }
    let Some(flow) = view.flow else { return RuleCondition::NoIp };
    let number = tables.rules.number(key);
    let placed = number.filter(|number| tables.rules.place_of(*number).is_some());
    let Some(number) = placed else { return RuleCondition::NotTurned };
    match tables.rules.failing(number, &view, &flow) {
        Some(failing) => condition(failing, rule, &view, &flow),
        None => winner(tables, number, port, &view, &flow),
    }
}

/// The rule holds: it takes the packet, or an earlier one does.
fn winner(
    tables: &Tables,
    number: u32,
    port: PortIndex,
    view: &FrameView,
    flow: &FlowKey,
) -> RuleCondition {
    let came_by = tables.port(port);
    let network = Some(came_by.network).filter(|_| !came_by.is_function());
    let found = tables.rules.find(port, network, view, flow);
    let earlier = found.filter(|(winner, _)| *winner != number);
    let Some((winner, start)) = earlier else { return RuleCondition::Takes };
    let chain = tables.path(tables.positions.place(start).path).chain;
    let entry = tables.rules.entry(winner);
    RuleCondition::EarlierRule {
        rule: entry.map_or_else(String::new, |entry| entry.name.clone()),
        priority: entry.map_or(0, |entry| entry.priority),
        chain: chain_name(tables, chain),
    }
}

/// What a rule wants and what the packet has.
fn condition(
    failing: Failing,
    rule: &RuleEntry,
    view: &FrameView,
    flow: &FlowKey,
) -> RuleCondition {
    let wants = &rule.matches;
    let ports = has_ports(flow);
    let unread = RuleCondition::Malformed;
    match failing {
        Failing::Family => {
            RuleCondition::Family { wanted: wants.family, found: IpFamily::of(flow.source) }
        }
        Failing::Vlan => RuleCondition::Vlan { wanted: wants.vlan, found: view.vlan },
        Failing::Protocol => RuleCondition::Protocol {
            wanted: wants.transport.unwrap_or(Transport::Icmp),
            found: flow.protocol.0,
        },
        Failing::Source => wants
            .source
            .map_or(unread, |wanted| RuleCondition::Source { wanted, found: flow.source }),
        Failing::Destination => wants.destination.map_or(unread, |wanted| {
            RuleCondition::Destination { wanted, found: flow.destination }
        }),
        Failing::SourcePorts => wants.source_ports.map_or(unread, |wanted| {
            RuleCondition::SourcePort { wanted, found: ports.then_some(flow.source_port) }
        }),
        Failing::DestinationPorts => wants.destination_ports.map_or(unread, |wanted| {
            RuleCondition::DestinationPort { wanted, found: ports.then_some(flow.destination_port) }
        }),
        Failing::Fields => {
            wants.fields.failing(&view.varying).map_or(unread, |(field, wanted, found)| {
                RuleCondition::Field { field: field.name.to_owned(), wanted, found }
            })
        }
    }
}
