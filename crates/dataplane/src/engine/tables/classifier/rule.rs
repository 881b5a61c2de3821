//! One rule: the conditions that a packet must meet. Knows values; refuses to know other rules.

use catena_model::classifier::{FieldMatch, FieldWord};
use catena_model::program::RuleMatch;
use catena_model::resource::{IpFamily, Transport};
use catena_wire::flow::FlowKey;
use catena_wire::frame::FrameView;
use catena_wire::scalar::{IpProtocol, PortRange, VlanId};
use ipnet::IpNet;
use std::net::IpAddr;

/// Addresses that agree with `base` in all bits but the last `free` ones. Of one family, and kept
/// small: rules lie in the hash tables themselves, and what a look-up costs is lines of memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prefix {
    pub(super) base: u128,
    /// Bits that are given.
    pub(super) bits: u8,
    free: u8,
}

impl Prefix {
    fn new(net: Option<IpNet>, family: IpFamily) -> Self {
        let width = if family == IpFamily::Ipv4 { 32 } else { 128 };
        let (base, bits) = match net {
            None => (0, 0),
            Some(net) if IpFamily::of(net.addr()) == family => {
                (number(net.network()), net.prefix_len())
            }
            // Of the other family: no packet's address, and none of IPv4 at all.
            Some(_) => (u128::MAX, width),
        };
        Self { base, bits, free: width - bits }
    }

    /// An address as the base of its network with so many bits has it.
    pub(super) fn masked(address: u128, family: IpFamily, bits: u8) -> u128 {
        let width: u8 = if family == IpFamily::Ipv4 { 32 } else { 128 };
        let free = u32::from(width.saturating_sub(bits));
        address.checked_shr(free).and_then(|kept| kept.checked_shl(free)).unwrap_or(0)
    }

    #[inline]
    fn contains(self, address: u128) -> bool {
        (address ^ self.base).checked_shr(self.free.into()).unwrap_or(0) == 0
    }
}

#[inline]
pub(super) fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(v4.to_bits()),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

/// The conditions of a rule.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rule {
    pub(super) family: IpFamily,
    pub(super) vlan: Option<VlanId>,
    pub(super) protocol: Option<IpProtocol>,
    pub(super) source: Prefix,
    pub(super) destination: Prefix,
    pub(super) source_ports: Option<PortRange>,
    pub(super) destination_ports: Option<PortRange>,
    pub(super) fields: FieldMatch,
}

/// A condition of a rule that a packet does not meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failing {
    Family,
    Vlan,
    Protocol,
    Source,
    Destination,
    SourcePorts,
    DestinationPorts,
    Fields,
}

impl Rule {
    pub(super) fn compile(matches: &RuleMatch) -> Self {
        let protocol = matches.transport.map(|transport| match (transport, matches.family) {
            (Transport::Tcp, _) => IpProtocol::TCP,
            (Transport::Udp, _) => IpProtocol::UDP,
            (Transport::Icmp, IpFamily::Ipv4) => IpProtocol::ICMP,
            (Transport::Icmp, IpFamily::Ipv6) => IpProtocol::ICMPV6,
        });
        Self {
            family: matches.family,
            vlan: matches.vlan,
            protocol,
            source: Prefix::new(matches.source, matches.family),
            destination: Prefix::new(matches.destination, matches.family),
            source_ports: matches.source_ports,
            destination_ports: matches.destination_ports,
            fields: matches.fields,
        }
    }

    /// The first condition that the packet does not meet; none: the rule matches.
    #[inline]
    pub(super) fn failing(&self, view: &FrameView, flow: &FlowKey) -> Option<Failing> {
        if self.family != IpFamily::of(flow.source) {
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
        } else if !self.fields.is_any() && !self.fields.takes(FieldWord::of(&view.varying)) {
            Some(Failing::Fields)
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
pub(crate) fn has_ports(flow: &FlowKey) -> bool {
    matches!(flow.protocol, IpProtocol::TCP | IpProtocol::UDP)
        && (flow.source_port, flow.destination_port) != (0, 0)
}
