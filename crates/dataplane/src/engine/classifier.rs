//! The classifier: which packets of endpoints enter which path (RFC 7665 section 4.2). Knows rules
//! and their order; refuses to know what a path does.
//!
//! Never classified: ARP, neighbour and router discovery, whatever is link-local or sent to a
//! group. A later fragment has the ports of the first fragment of its datagram when that was seen
//! (`fragments`); otherwise only rules without ports can match it.

use super::compile::CompileError;
use super::context::Context;
use super::encap::{self, PathPosition, Positions};
use super::tables::{NetworkIndex, PathTable, PortIndex};
use super::trace::Note;
use super::vector::{Step, Work};
use catena_model::DropReason;
use catena_model::id::PortId;
use catena_model::program::RuleEntry;
use catena_model::resource::{IpFamily, Transport};
use catena_wire::flow::FlowKey;
use catena_wire::frame::{FrameView, Network};
use catena_wire::scalar::{IpProtocol, PortRange, VlanId};
use ipnet::IpNet;
use std::collections::HashMap;
use std::net::IpAddr;

/// Addresses that agree with `base` in the bits of `mask`; of one family, so no length is kept.
#[derive(Clone, Copy)]
struct Prefix {
    base: u128,
    mask: u128,
}

impl Prefix {
    const ANY: Self = Self { base: 0, mask: 0 };

    fn new(net: IpNet) -> Self {
        let (base, mask) = (number(net.network()), number(net.netmask()));
        Self { base: base & mask, mask }
    }

    fn contains(self, address: u128) -> bool {
        address & self.mask == self.base
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(v4.to_bits()),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

struct Rule {
    family: IpFamily,
    vlan: Option<VlanId>,
    protocol: Option<IpProtocol>,
    source: Prefix,
    destination: Prefix,
    source_ports: Option<PortRange>,
    destination_ports: Option<PortRange>,
    start: PathPosition,
}

impl Rule {
    fn matches(&self, view: &FrameView, flow: &FlowKey, family: IpFamily) -> bool {
        self.family == family
            && self.vlan == view.vlan
            && self.protocol.is_none_or(|protocol| protocol == flow.protocol)
            && self.source.contains(number(flow.source))
            && self.destination.contains(number(flow.destination))
            && matches_port(self.source_ports, flow, flow.source_port)
            && matches_port(self.destination_ports, flow, flow.destination_port)
    }
}

/// A range matches only what has ports. Port 0 is reserved, so 0 to 0 is a later fragment of a
/// datagram whose first was not seen.
fn matches_port(range: Option<PortRange>, flow: &FlowKey, port: u16) -> bool {
    let has_ports = || {
        matches!(flow.protocol, IpProtocol::TCP | IpProtocol::UDP)
            && (flow.source_port, flow.destination_port) != (0, 0)
    };
    range.is_none_or(|range| range.contains(port) && has_ports())
}

/// All rules, the first match decides; for each port the numbers of those that name it, and for
/// each network of those that name none: addresses mean nothing outside their network, so such a
/// rule speaks of the network in which its path delivers.
#[derive(Default)]
pub(super) struct Rules {
    rules: Vec<Rule>,
    of_network: Vec<Vec<u32>>,
    of_port: Vec<Vec<u32>>,
}

impl Rules {
    pub(super) fn compile(
        entries: &[RuleEntry],
        ports: &HashMap<PortId, PortIndex>,
        networks: usize,
        paths: &[PathTable],
        positions: &Positions,
    ) -> Result<Self, CompileError> {
        let mut ordered: Vec<&RuleEntry> = entries.iter().collect();
        ordered.sort_by_key(|entry| std::cmp::Reverse(entry.priority));
        let mut rules = Self {
            rules: Vec::with_capacity(ordered.len()),
            of_network: vec![Vec::new(); networks],
            of_port: vec![Vec::new(); ports.len()],
        };
        for entry in ordered {
            let start = positions.start(entry.path).ok_or_else(|| {
                CompileError::RuleWithoutPath { rule: entry.name.clone(), path: entry.path }
            })?;
            // The program's limit keeps rules below 2^16.
            let number = u32::try_from(rules.rules.len()).unwrap_or(u32::MAX);
            match entry.matches.port.map(|port| ports.get(&port)) {
                None => match paths[positions.place(start).path as usize].destination {
                    Some(network) => rules.of_network[usize::from(network.0)].push(number),
                    // No port of this node is in it.
                    None => continue,
                },
                Some(Some(port)) => rules.of_port[usize::from(port.0)].push(number),
                // The port is being taken away, so nothing comes in by it.
                Some(None) => continue,
            }
            rules.rules.push(compile_rule(entry, start));
        }
        Ok(rules)
    }

    /// The number of the rule that takes a packet that came in by a port of a network, and where
    /// the packet enters its path.
    fn find(
        &self,
        port: PortIndex,
        network: NetworkIndex,
        view: &FrameView,
        flow: &FlowKey,
    ) -> Option<(u32, PathPosition)> {
        let family = IpFamily::of(flow.source);
        let of_network = self.of_network.get(usize::from(network.0))?;
        let mut of_port = self.of_port.get(usize::from(port.0))?.iter().copied().peekable();
        let mut of_network = of_network.iter().copied().peekable();
        loop {
            let next = match (of_port.peek(), of_network.peek()) {
                (Some(one), Some(other)) if one < other => of_port.next()?,
                (Some(_), None) => of_port.next()?,
                _ => of_network.next()?,
            };
            let rule = &self.rules[next as usize];
            if rule.matches(view, flow, family) {
                return Some((next, rule.start));
            }
        }
    }
}

fn compile_rule(entry: &RuleEntry, start: PathPosition) -> Rule {
    let matches = &entry.matches;
    let protocol = matches.transport.map(|transport| match (transport, matches.family) {
        (Transport::Tcp, _) => IpProtocol::TCP,
        (Transport::Udp, _) => IpProtocol::UDP,
        (Transport::Icmp, IpFamily::Ipv4) => IpProtocol::ICMP,
        (Transport::Icmp, IpFamily::Ipv6) => IpProtocol::ICMPV6,
    });
    Rule {
        family: matches.family,
        vlan: matches.vlan,
        protocol,
        source: matches.source.map_or(Prefix::ANY, Prefix::new),
        destination: matches.destination.map_or(Prefix::ANY, Prefix::new),
        source_ports: matches.source_ports,
        destination_ports: matches.destination_ports,
        start,
    }
}

/// Sends each packet of an endpoint into its path, or on as ordinary traffic.
pub(super) fn classify(vector: &mut [Work], context: &mut Context<'_>) {
    let tables = context.tables;
    for work in vector {
        let Step::FromEndpoint(port) = work.step else { continue };
        let network = tables.port(port).network;
        if encap::by_ether_type(work.view.ethertype).is_some() {
            work.drop(DropReason::ForeignChainHeader);
            continue;
        }
        let never = is_never_classified(&work.view);
        let flow = work.view.flow.filter(|_| !never);
        let found = flow.and_then(|flow| tables.rules.find(port, network, &work.view, &flow));
        let Some((rule, position)) = found else {
            context.trace.note(work.copy, || Note::Unclassified { port, never });
            work.switch_from_port(network, port);
            continue;
        };
        context.trace.note(work.copy, || Note::Classified { port, rule, start: position });
        let seat = context.books.seat(tables, position);
        context.books.entered(seat, work.volume);
        work.path = Some(seat);
        work.step = Step::OnPath { position, network: Some(network) };
    }
}

/// Is it discovery, or does it stay on its link?
pub(super) fn is_never_classified(view: &FrameView) -> bool {
    view.network == Network::Arp
        || view.is_neighbour_discovery()
        || view.is_multicast_or_link_local()
}
