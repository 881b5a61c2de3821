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
pub struct Prefix {
    base: u128,
    /// Bits that are given.
    bits: u8,
    free: u8,
}

impl Prefix {
    /// The addresses of a network; none given: all of the family. Of a network of the other family it
    /// has none that a packet comes from or goes to.
    #[inline]
    #[must_use]
    pub fn new(net: Option<IpNet>, family: IpFamily) -> Self {
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

    /// The first of its addresses, as [`number`] has it.
    #[inline]
    #[must_use]
    pub fn base(self) -> u128 {
        self.base
    }

    /// Bits of an address that it gives, the first ones.
    #[inline]
    #[must_use]
    pub fn bits(self) -> u8 {
        self.bits
    }

    /// An address as the base of its network with so many bits has it.
    #[inline]
    #[must_use]
    pub fn masked(address: u128, family: IpFamily, bits: u8) -> u128 {
        let width: u8 = if family == IpFamily::Ipv4 { 32 } else { 128 };
        let free = u32::from(width.saturating_sub(bits));
        address.checked_shr(free).and_then(|kept| kept.checked_shl(free)).unwrap_or(0)
    }

    #[inline]
    fn contains(self, address: u128) -> bool {
        (address ^ self.base).checked_shr(self.free.into()).unwrap_or(0) == 0
    }
}

/// An address as a number; of IPv4, less than 2^32.
#[inline]
#[must_use]
pub fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(v4.to_bits()),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

/// The conditions of a rule.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// IP version.
    pub family: IpFamily,
    /// VLAN tag that a packet must carry; none: it must be untagged.
    pub vlan: Option<VlanId>,
    /// Upper protocol; none: any.
    pub protocol: Option<IpProtocol>,
    /// Source addresses, of this family.
    pub source: Prefix,
    /// Destination addresses, of this family.
    pub destination: Prefix,
    /// Source ports; none: not looked at.
    pub source_ports: Option<PortRange>,
    /// Destination ports; none: not looked at.
    pub destination_ports: Option<PortRange>,
    /// Fields beside the flow.
    pub fields: FieldMatch,
}

/// A condition of a rule that a packet does not meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failing {
    /// It is of the other IP version.
    Family,
    /// It carries another VLAN tag, or none, or one where none is wanted.
    Vlan,
    /// Its upper protocol is another.
    Protocol,
    /// Its source address is not in the prefix.
    Source,
    /// Its destination address is not in the prefix.
    Destination,
    /// Its source port is not in the range, or not shown.
    SourcePorts,
    /// Its destination port is not in the range, or not shown.
    DestinationPorts,
    /// Its fields beside the flow are others.
    Fields,
}

impl Rule {
    /// The conditions that a program tells, but for the place.
    #[inline]
    #[must_use]
    pub fn compile(matches: &RuleMatch) -> Self {
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
    #[must_use]
    pub fn failing(&self, view: &FrameView, flow: &FlowKey) -> Option<Failing> {
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
#[inline]
fn matches_port(range: Option<PortRange>, flow: &FlowKey, port: u16) -> bool {
    range.is_none_or(|range| range.contains(port) && has_ports(flow))
}

/// Does the packet show the ports of its flow?
#[inline]
#[must_use]
pub fn has_ports(flow: &FlowKey) -> bool {
    matches!(flow.protocol, IpProtocol::TCP | IpProtocol::UDP)
        && (flow.source_port, flow.destination_port) != (0, 0)
}
