//! Where the rules of a chain stand and what they match: at the ports where its packets begin, at
//! the end of the chains before it, and, for the way back, where the answers begin. Knows what
//! functions on the way rewrite; refuses to know hops.

use crate::graph::{Graphs, Route};
use crate::intent::Intent;
use crate::inventory::Inventory;
use crate::ledger::PlacedRule;
use crate::render::bound_node;
use crate::selector;
use catena_model::PathId;
use catena_model::classifier::FlowMatch;
use catena_model::id::{PortId, RuleId};
use catena_model::limits::CHAIN_ANSWER_RULES_MAX;
use catena_model::program::{RuleEntry, RuleMatch, RulePlace};
use catena_model::resource::{Chain, ClassificationRule, IpFamily, ServiceFunction};
use catena_wire::scalar::PortRange;
use ipnet::IpNet;

/// Why the rules of a way back cannot be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unanswerable {
    /// Something is missing, in the names people gave.
    Missing(String),
    /// There would be more than [`CHAIN_ANSWER_RULES_MAX`].
    TooMany,
    /// A rule, by name, looks at a field, and what answers show there nobody knows.
    Field(String, &'static str),
}

impl std::fmt::Display for Unanswerable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Missing(what) => f.write_str(what),
            Self::TooMany => {
                write!(f, "its answers would need more than {CHAIN_ANSWER_RULES_MAX} rules")
            }
            Self::Field(rule, title) => write!(
                f,
                "classifier '{rule}' looks at the {title}, and nobody knows the {title} of answers: \
                 make the chain not symmetric, and one of its own for the way back"
            ),
        }
    }
}

/// Packets that a rule means, or several rules together.
#[derive(Clone)]
struct Meant {
    selector: FlowMatch,
    id: RuleId,
    name: String,
    /// That of the answers to the first rule.
    priority: u32,
    /// The port at which they leave the network.
    exit: Option<PortId>,
}

/// The rules of a chain, or the name of one that does not exist.
pub(crate) fn rules_of<'i>(
    intent: &'i Intent,
    chain: &Chain,
) -> Result<Vec<&'i ClassificationRule>, String> {
    let rule = |id: &RuleId| {
        let found = intent.rules.get(id);
        found.ok_or_else(|| format!("classification rule {id} does not exist"))
    };
    chain.rules.iter().map(rule).collect()
}

/// The rules of a chain where its packets begin.
pub(crate) fn at_ports(
    intent: &Intent,
    inventory: &Inventory,
    chain: &Chain,
) -> Result<Vec<PlacedRule>, String> {
    let mut placed = Vec::new();
    for rule in rules_of(intent, chain)? {
        let node = rule.source_port.map(|port| bound_node(intent, inventory, port)).transpose()?;
        let place = rule.source_port.map_or(RulePlace::Endpoints, RulePlace::Port);
        for selector in selectors(intent, rule)? {
            let rule = entry(rule.id, rule.name(), selector.at(place), None);
            placed.push(PlacedRule { node: node.clone(), rule, order: Vec::new() });
        }
    }
    Ok(placed)
}

/// The rules by which packets at the end of another chain enter this one. Where is not said yet.
pub(crate) fn after_chains(intent: &Intent, chain: &Chain) -> Result<Vec<RuleEntry>, String> {
    let mut rules = Vec::new();
    for rule in rules_of(intent, chain)? {
        for selector in selectors(intent, rule)? {
            let matches = selector.at(RulePlace::Endpoints);
            rules.push(entry(rule.id, rule.name(), matches, None));
        }
    }
    Ok(rules)
}

/// The rules by which answers at the end of the way back of a following chain enter the way back of
/// this one. Where is not said yet.
pub(crate) fn answers_after_chains(
    intent: &Intent,
    chain: &Chain,
) -> Result<Vec<RuleEntry>, Unanswerable> {
    let meant = mapped(intent, chain, first_of_route(intent, chain)?)?;
    let rule = |meant: Meant| {
        let matches = meant.selector.reversed().at(RulePlace::Endpoints);
        entry(meant.id, meant.name, matches, None)
    };
    Ok(meant.into_iter().map(rule).collect())
}

/// The rules by which answers enter the way back of a chain where they begin: those to packets that
/// took any of the routes to its end, as they look there.
pub(crate) fn answers_at_ports(
    intent: &Intent,
    inventory: &Inventory,
    graphs: &Graphs<'_>,
    chain: &Chain,
) -> Result<Vec<PlacedRule>, Unanswerable> {
    let mut placed = Vec::new();
    for (meant, order) in answers(intent, graphs, chain)? {
        let node = meant.exit.map(|port| bound_node(intent, inventory, port)).transpose();
        let node = node.map_err(Unanswerable::Missing)?;
        let place = meant.exit.map_or(RulePlace::Endpoints, RulePlace::Port);
        let matches = meant.selector.reversed().at(place);
        let rule = entry(meant.id, meant.name, matches, Some(meant.priority));
        placed.push(PlacedRule { node, rule, order });
    }
    Ok(placed)
}

/// Why the answers of a chain can never have rules, as far as everything that they need is declared; none:
/// they can.
pub(crate) fn never_answered(
    intent: &Intent,
    graphs: &Graphs<'_>,
    chain: &Chain,
) -> Option<Unanswerable> {
    let why = answers(intent, graphs, chain).err();
    why.filter(|why| !matches!(why, Unanswerable::Missing(_)))
}

/// What packets at the end of a chain look like, with the order of their route.
fn answers(
    intent: &Intent,
    graphs: &Graphs<'_>,
    chain: &Chain,
) -> Result<Vec<(Meant, Vec<u16>)>, Unanswerable> {
    let routes = graphs.routes_to(chain.id, CHAIN_ANSWER_RULES_MAX);
    let routes = routes.ok_or(Unanswerable::TooMany)?;
    let mut found = Vec::new();
    for route in &routes {
        let at_end = at_end_of(intent, route)?;
        found.extend(at_end.into_iter().map(|meant| (meant, route.order.clone())));
        if routes.len() > 1 && found.len() > CHAIN_ANSWER_RULES_MAX {
            return Err(Unanswerable::TooMany);
        }
    }
    Ok(found)
}

/// What packets look like that have taken a route to its end.
fn at_end_of(intent: &Intent, route: &Route) -> Result<Vec<Meant>, Unanswerable> {
    let mut meant: Option<Vec<Meant>> = None;
    for id in &route.chains {
        let chain = intent.chains.get(id);
        let missing = || Unanswerable::Missing(format!("chain {id} does not exist"));
        let chain = chain.ok_or_else(missing)?;
        let entered = match meant {
            None => first_of_route(intent, chain)?,
            Some(before) => both(intent, &before, chain)?,
        };
        meant = Some(mapped(intent, chain, entered)?);
    }
    Ok(meant.unwrap_or_default())
}

/// The rules of a chain, all of them such that it is known what answers look like.
fn answered_rules<'i>(
    intent: &'i Intent,
    chain: &Chain,
) -> Result<Vec<&'i ClassificationRule>, Unanswerable> {
    let rules = rules_of(intent, chain).map_err(Unanswerable::Missing)?;
    for rule in &rules {
        if let Some((field, _)) = rule.fields.words().next() {
            return Err(Unanswerable::Field(rule.name(), field.title()));
        }
    }
    Ok(rules)
}

/// The packets of a chain's rules, as they are answered: where no source addresses are declared,
/// answers go to those of the logical source port.
fn first_of_route(intent: &Intent, chain: &Chain) -> Result<Vec<Meant>, Unanswerable> {
    let mut meant = Vec::new();
    for rule in answered_rules(intent, chain)? {
        let sources = answered(intent, rule).map_err(Unanswerable::Missing)?;
        for selector in selectors(intent, rule).map_err(Unanswerable::Missing)? {
            for source in &sources {
                let selector = FlowMatch { source: *source, ..selector.clone() };
                let exit = rule.destination_port;
                let place = exit.map_or(RulePlace::Endpoints, RulePlace::Port);
                let priority = priority(&selector.clone().reversed().at(place));
                meant.push(Meant { selector, id: rule.id, name: rule.name(), priority, exit });
            }
        }
    }
    Ok(meant)
}

/// The packets that a chain's rules take of those that come to it.
fn both(intent: &Intent, before: &[Meant], chain: &Chain) -> Result<Vec<Meant>, Unanswerable> {
    let mut found = Vec::new();
    for rule in answered_rules(intent, chain)? {
        for selector in selectors(intent, rule).map_err(Unanswerable::Missing)? {
            for one in before {
                let exit = match (one.exit, rule.destination_port) {
                    (Some(first), Some(second)) if first != second => continue,
                    (first, second) => first.or(second),
                };
                let Some(selector) = one.selector.intersection(&selector) else { continue };
                let name = format!("{} and {}", one.name, rule.name());
                found.push(Meant { selector, id: rule.id, name, priority: one.priority, exit });
                if found.len() > CHAIN_ANSWER_RULES_MAX {
                    return Err(Unanswerable::TooMany);
                }
            }
        }
    }
    Ok(found)
}

/// The packets as the functions of a chain give them back, one after the other.
fn mapped(
    intent: &Intent,
    chain: &Chain,
    mut meant: Vec<Meant>,
) -> Result<Vec<Meant>, Unanswerable> {
    for function in chain.functions.iter().filter_map(|id| intent.functions.get(id)) {
        if function.is_tap {
            continue;
        }
        let images = |meant: Meant| {
            let packets = &meant.selector;
            let mut images = selector::mapped(packets.clone(), selector::mappings(function));
            // What somebody else's function makes of errors, nobody knows.
            let errors = images.iter().filter(|_| function.is_inside());
            let errors: Vec<FlowMatch> =
                errors.filter_map(|image| selector::errors_of(image, packets)).collect();
            for errors in errors {
                if !images.contains(&errors) {
                    images.push(errors);
                }
            }
            images.into_iter().map(move |selector| Meant { selector, ..meant.clone() })
        };
        let inquiries = inquired(function, &meant);
        let before = meant.len();
        meant = meant.into_iter().flat_map(images).chain(inquiries).collect();
        if meant.len() > before && meant.len() > CHAIN_ANSWER_RULES_MAX {
            return Err(Unanswerable::TooMany);
        }
    }
    Ok(meant)
}

/// What a function asks of its own accord, and is to be answered: on the way of the packets that come to it.
fn inquired(function: &ServiceFunction, meant: &[Meant]) -> Vec<Meant> {
    let beside = |selector: FlowMatch| {
        let first = meant.iter().find(|one| one.selector.family == selector.family)?;
        Some(Meant { selector, ..first.clone() })
    };
    selector::inquiries(function).filter_map(beside).collect()
}

fn entry(id: RuleId, name: String, matches: RuleMatch, of_first: Option<u32>) -> RuleEntry {
    let priority = of_first.unwrap_or_else(|| priority(&matches));
    RuleEntry { id, name, priority, matches, path: PathId(0) }
}

/// The packets of a rule. A logical destination port means its addresses.
fn selectors(intent: &Intent, rule: &ClassificationRule) -> Result<Vec<FlowMatch>, String> {
    let whole = rule.flow();
    let Some(port) = rule.destination_port else { return Ok(vec![whole]) };
    let allowed = |ip: &IpNet| whole.destination.is_none_or(|net| net.contains(&ip.addr()));
    let inside = addresses(intent, rule, port)?.into_iter().filter(allowed);
    let at = |address| FlowMatch { destination: Some(address), ..whole.clone() };
    let selectors: Vec<FlowMatch> = inside.map(at).collect();
    if selectors.is_empty() {
        return Err(format!(
            "destination port '{}' of classifier '{}' has no address that the classifier allows",
            intent.port_name(port),
            rule.name()
        ));
    }
    Ok(selectors)
}

/// To whom the answers go.
fn answered(intent: &Intent, rule: &ClassificationRule) -> Result<Vec<Option<IpNet>>, String> {
    let declared = rule.source_prefix.map(|net| net.trunc());
    if let (None, Some(port)) = (declared, rule.source_port) {
        let own = addresses(intent, rule, port)?;
        if !own.is_empty() {
            return Ok(own.into_iter().map(Some).collect());
        }
    }
    Ok(vec![declared])
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
        + matches.fields.bits()
}
