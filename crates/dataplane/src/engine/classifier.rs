//! The classifier: which packets of endpoints enter which path (RFC 7665 section 4.2). Knows rules
//! and their order; refuses to know what a path does.
//!
//! Never classified: ARP, neighbour and router discovery, whatever is link-local or sent to a
//! group. A later fragment has the ports of the first fragment of its datagram when that was seen
//! (`fragments`); otherwise only rules without ports can match it.

use super::compile::CompileError;
use super::context::Context;
use super::encap::{self, PathPosition, Positions};
use super::flow_paths::FlowPaths;
use super::tables::{HopTable, NetworkIndex, PathTable, PortIndex, Tables};
use super::trace::Note;
use super::vector::{Step, Work};
use catena_model::DropReason;
use catena_model::id::PortId;
use catena_model::program::{RuleEntry, RulePlace};
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

/// A condition of a rule that a packet does not meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failing {
    Family,
    Vlan,
    Protocol,
    Source,
    Destination,
    SourcePorts,
    DestinationPorts,
}

impl Rule {
    /// The first condition that the packet does not meet; none: the rule matches.
    #[inline]
    fn failing(&self, view: &FrameView, flow: &FlowKey, family: IpFamily) -> Option<Failing> {
        if self.family != family {
            Some(Failing::Family)
        } else if self.vlan != view.vlan {
            Some(Failing::Vlan)
        } else if self.protocol.is_some_and(|protocol| protocol != flow.protocol) {
            Some(Failing::Protocol)
        } else if !self.source.contains(number(flow.source)) {
            Some(Failing::Source)
        } else if !self.destination.contains(number(flow.destination)) {
            Some(Failing::Destination)
        } else if !matches_port(self.source_ports, flow, flow.source_port) {
            Some(Failing::SourcePorts)
        } else if !matches_port(self.destination_ports, flow, flow.destination_port) {
            Some(Failing::DestinationPorts)
        } else {
            None
        }
    }
}

/// A range matches only what has ports. Port 0 is reserved, so 0 to 0 is a later fragment of a
/// datagram whose first was not seen.
fn matches_port(range: Option<PortRange>, flow: &FlowKey, port: u16) -> bool {
    range.is_none_or(|range| range.contains(port) && has_ports(flow))
}

/// Does the packet show the ports of its flow?
pub(super) fn has_ports(flow: &FlowKey) -> bool {
    matches!(flow.protocol, IpProtocol::TCP | IpProtocol::UDP)
        && (flow.source_port, flow.destination_port) != (0, 0)
}

/// All rules, the first match decides; for each port the numbers of those that name it, and for
/// each network of those that name none: addresses mean nothing outside their network, so such a
/// rule speaks of the network in which its path delivers. Rules at the end of a path stand apart.
#[derive(Default)]
pub(super) struct Rules {
    rules: Vec<Rule>,
    /// For each rule, which entry of the program it is: for names.
    entries: Vec<usize>,
    of_network: Vec<Vec<u32>>,
    of_port: Vec<Vec<u32>>,
    /// For each path those that take packets at its end.
    of_end: Vec<Vec<u32>>,
}

impl Rules {
    pub(super) fn compile(
        entries: &[RuleEntry],
        ports: &HashMap<PortId, PortIndex>,
        networks: usize,
        paths: &[PathTable],
        positions: &Positions,
    ) -> Result<Self, CompileError> {
        let mut ordered: Vec<(usize, &RuleEntry)> = entries.iter().enumerate().collect();
        ordered.sort_by_key(|(_, entry)| std::cmp::Reverse(entry.priority));
        let mut rules = Self {
            rules: Vec::with_capacity(ordered.len()),
            entries: Vec::with_capacity(ordered.len()),
            of_network: vec![Vec::new(); networks],
            of_port: vec![Vec::new(); ports.len()],
            of_end: vec![Vec::new(); paths.len()],
        };
        for (place, entry) in ordered {
            let start = positions.start(entry.path).ok_or_else(|| {
                CompileError::RuleWithoutPath { rule: entry.name.clone(), path: entry.path }
            })?;
            // The program's limit keeps rules below 2^16.
            let number = u32::try_from(rules.rules.len()).unwrap_or(u32::MAX);
            let path_of = |start| positions.place(start).path as usize;
            let asked = match entry.matches.place {
                RulePlace::Endpoints => {
                    let network = paths[path_of(start)].destination;
                    network.map(|network| &mut rules.of_network[usize::from(network.0)])
                }
                RulePlace::Port(port) => {
                    ports.get(&port).map(|port| &mut rules.of_port[usize::from(port.0)])
                }
                RulePlace::After(ended) => {
                    positions.start(ended).map(|ended| &mut rules.of_end[path_of(ended)])
                }
            };
            // No packet comes from where the node has nothing, or has nothing any more.
            let Some(asked) = asked else { continue };
            asked.push(number);
            rules.rules.push(compile_rule(entry, start));
            rules.entries.push(place);
        }
        Ok(rules)
    }

    /// The number of the rule that takes a packet that came in by a port of a network, and where
    /// the packet enters its path.
    pub(super) fn find(
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
            if rule.failing(view, flow, family).is_none() {
                return Some((next, rule.start));
            }
        }
    }
}

impl Rules {
    /// The same for a packet at the end of the path with this index.
    pub(super) fn find_after(
        &self,
        ended: u32,
        view: &FrameView,
        flow: &FlowKey,
    ) -> Option<(u32, PathPosition)> {
        let asked = self.of_end.get(ended as usize)?;
        let family = IpFamily::of(flow.source);
        let mut rules = asked.iter().map(|number| (*number, &self.rules[*number as usize]));
        let found = rules.find(|(_, rule)| rule.failing(view, flow, family).is_none());
        found.map(|(number, rule)| (number, rule.start))
    }

    /// Where packets go on that are at the end of a path.
    pub(super) fn starts_after(&self) -> impl Iterator<Item = PathPosition> + Clone + '_ {
        self.of_end.iter().flatten().map(|number| self.rules[*number as usize].start)
    }

    /// The entry of the program that a rule was made of.
    pub(super) fn entry<'p>(&self, rule: u32, entries: &'p [RuleEntry]) -> Option<&'p RuleEntry> {
        entries.get(*self.entries.get(rule as usize)?)
    }

    /// The number of the rule that was made of an entry; none: its port or network is not here.
    pub(super) fn number_of(&self, entry: usize) -> Option<u32> {
        u32::try_from(self.entries.iter().position(|place| *place == entry)?).ok()
    }

    /// The first condition of a rule that a packet does not meet.
    pub(super) fn failing(&self, rule: u32, view: &FrameView, flow: &FlowKey) -> Option<Failing> {
        self.rules[rule as usize].failing(view, flow, IpFamily::of(flow.source))
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

/// Sends each packet of an endpoint into its path, or on as ordinary traffic. A flow that a pin
/// holds goes on into the path that it went into before.
pub(super) fn classify(vector: &mut [Work], flow_paths: &mut FlowPaths, context: &mut Context<'_>) {
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
        let Some(((rule, position), flow)) = found.zip(flow) else {
            context.trace.note(work.copy, || Note::Unclassified { port, never });
            work.switch_from_port(network, port);
            continue;
        };
        let key = flow_paths.key(&flow);
        let position = enter(position, key, work, flow_paths, context);
        context.trace.note(work.copy, || Note::Classified { port, rule, start: position });
        let seat = context.books.seat(tables, position);
        context.books.entered(seat, work.volume);
        work.path = Some(seat);
        match encap::enter(tables, position, work.flow_hash, context.carried) {
            Ok(position) => work.step = Step::OnPath { position, network: Some(network) },
            Err(reason) => work.drop(reason),
        }
    }
}

/// Where a flow enters that the rules send to a position. `key`: what it is remembered by here.
pub(super) fn enter(
    position: PathPosition,
    key: u64,
    work: &Work,
    flow_paths: &mut FlowPaths,
    context: &Context<'_>,
) -> PathPosition {
    let Tables { pins, paths, positions, .. } = context.tables;
    let new = positions.place(position).path;
    let before = flow_paths.last(context.now_ns, key);
    let kept = before.and_then(|before| {
        let choose = |hop: &HopTable| hop.choose_index(hop.hash(&work.view, work.flow_hash));
        pins.keep(new, before, choose, paths, positions)
    });
    let position = kept.unwrap_or(position);
    let path = paths[positions.place(position).path as usize].id;
    flow_paths.note(context.now_ns, key, path);
    position
}

/// Is it discovery, or does it stay on its link?
pub(super) fn is_never_classified(view: &FrameView) -> bool {
    view.network == Network::Arp
        || view.is_neighbour_discovery()
        || view.is_multicast_or_link_local()
}
