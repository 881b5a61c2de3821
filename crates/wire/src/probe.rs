//! Probes: packets that look like a tenant's and say in their payload that they are ours.
//!
//! Knows the mark in the payload, the frames that carry it, and the questions of ARP and neighbour
//! discovery that ask whether a function's interface is there. Refuses to know who sends a probe,
//! when, and what its number means.
//!
//! The mark stands at the start of the payload of a UDP datagram, an ICMP echo or a TCP segment,
//! where routers, filters and translators leave it alone; what follows it is filling.
//!
//! ```text
//! |                     Magic, 8 bytes: "CATENAPR"                |
//! |                         Number, 8 bytes                       |
//! |                          Seal, 8 bytes                        |
//! ```

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::arp::{ArpOperation, ArpPacket};
use crate::ethernet::{self, EthernetHeader};
use crate::flow::FlowKey;
use crate::frame::{Fragment, FrameView, Network};
use crate::icmp::{IcmpV4Type, IcmpV6Type, IcmpView, v6_sum};
use crate::ipv4::{self, Ipv4Header};
use crate::ipv6::{self, Ipv6Header};
use crate::scalar::{EtherType, FlowLabel, FragmentOffset, IpProtocol, MacAddr};
use crate::tcp::{self, TcpFlags, TcpHeader};
use crate::udp::{self, UdpHeader};
use crate::varying::VaryingFields;
use crate::{checksum::Sum, neighbour};

const MAGIC: [u8; 8] = *b"CATENAPR";

/// What a probe looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProbeCarrier {
    /// A UDP datagram with the flow's ports.
    Udp,
    /// An echo request between the flow's addresses.
    Echo,
    /// The first segment of a TCP connection with the flow's ports.
    Tcp,
}

impl ProbeCarrier {
    /// The harmless one for a flow: nobody takes an echo for a part of a TCP connection.
    #[must_use]
    pub const fn beside(flow: &FlowKey) -> Self {
        if flow.protocol.0 == IpProtocol::UDP.0 { Self::Udp } else { Self::Echo }
    }

    /// What it shows beside its flow, unless somebody wants otherwise.
    #[must_use]
    pub const fn varying(self) -> VaryingFields {
        let tcp_flags = match self {
            Self::Tcp => Some(TcpFlags::SYN),
            Self::Udp | Self::Echo => None,
        };
        VaryingFields { dscp: 0, tcp_flags }
    }

    const fn header_bytes(self) -> usize {
        match self {
            Self::Udp => udp::HEADER_BYTES,
            Self::Echo => IcmpView::HEADER_LEN,
            Self::Tcp => tcp::HEADER_BYTES,
        }
    }
}

mod field {
    pub(super) const NUMBER: core::ops::Range<usize> = 8..16;
    pub(super) const SEAL: core::ops::Range<usize> = 16..24;
    pub(super) const ICMP_CHECKSUM: core::ops::Range<usize> = 2..4;
    pub(super) const ICMP_IDENTIFIER: core::ops::Range<usize> = 4..6;
}

/// Time to live of a probe; what ordinary hosts send with.
const TTL: u8 = 64;

/// What a probe says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProbeMark {
    /// Which probe, or of what.
    pub number: u64,
    /// What only its sender could know.
    pub seal: u64,
}

impl ProbeMark {
    /// Bytes of the mark.
    pub const LEN: usize = 24;

    /// The mark in the payload of a whole UDP packet or ICMP message; none: it is no probe.
    #[inline]
    #[must_use]
    pub fn find(view: &FrameView, frame: &[u8]) -> Option<Self> {
        let carrier = match view.protocol? {
            IpProtocol::UDP => ProbeCarrier::Udp,
            IpProtocol::ICMP | IpProtocol::ICMPV6 => ProbeCarrier::Echo,
            IpProtocol::TCP => ProbeCarrier::Tcp,
            _ => return None,
        };
        if view.fragment != Fragment::Whole {
            return None;
        }
        let start = usize::from(view.l4_offset?).checked_add(carrier.header_bytes())?;
        Self::read(frame.get(start..)?)
    }

    /// The first mark in the bytes of a packet whose headers nobody has read yet.
    #[must_use]
    pub fn scan(bytes: &[u8]) -> Option<Self> {
        let start = bytes.windows(MAGIC.len()).position(|window| window == MAGIC)?;
        Self::read(bytes.get(start..)?)
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let mark: &[u8; Self::LEN] = bytes.first_chunk()?;
        if !mark.starts_with(&MAGIC) {
            return None;
        }
        let word = |range: core::ops::Range<usize>| {
            mark.get(range).and_then(|bytes| bytes.try_into().ok()).map(u64::from_be_bytes)
        };
        Some(Self { number: word(field::NUMBER)?, seal: word(field::SEAL)? })
    }

    fn emit(self, into: &mut [u8]) {
        if let Some(mark) = into.first_chunk_mut::<{ Self::LEN }>() {
            mark[..MAGIC.len()].copy_from_slice(&MAGIC);
            mark[field::NUMBER].copy_from_slice(&self.number.to_be_bytes());
            mark[field::SEAL].copy_from_slice(&self.seal.to_be_bytes());
        }
    }
}

/// A probe as a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeFrame {
    /// Destination hardware address.
    pub destination: MacAddr,
    /// Source hardware address.
    pub source: MacAddr,
    /// The flow whose way it takes; both addresses are of one IP version.
    pub flow: FlowKey,
    /// What it looks like.
    pub carrier: ProbeCarrier,
    /// What it shows beside its flow.
    pub varying: VaryingFields,
    /// Its mark.
    pub mark: ProbeMark,
    /// Bytes of the IP packet; at least those of the headers and the mark.
    pub packet_bytes: usize,
}

impl ProbeFrame {
    /// Bytes of the smallest probe between these addresses, from the IP header on.
    #[must_use]
    pub const fn least_packet_bytes(carrier: ProbeCarrier, is_v4: bool) -> usize {
        let header = if is_v4 { ipv4::HEADER_BYTES } else { ipv6::HEADER_BYTES };
        header + carrier.header_bytes() + ProbeMark::LEN
    }

    /// Writes the frame at the start of `into` and answers its length; none: it does not fit, or
    /// the addresses are of two IP versions.
    #[must_use]
    pub fn emit(&self, into: &mut [u8]) -> Option<usize> {
        let is_v4 = self.flow.source.is_ipv4();
        let packet_bytes = self.packet_bytes.max(Self::least_packet_bytes(self.carrier, is_v4));
        let length = ethernet::HEADER_BYTES.checked_add(packet_bytes)?;
        let frame = into.get_mut(..length)?;
        frame.fill(0);
        let (ethernet_into, packet) = frame.split_at_mut(ethernet::HEADER_BYTES);
        let ethertype = if is_v4 { EtherType::IPV4 } else { EtherType::IPV6 };
        EthernetHeader::untagged(self.destination, self.source, ethertype)
            .emit(ethernet_into)
            .ok()?;
        match (self.flow.source, self.flow.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                self.emit_v4(source, destination, packet)?;
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                self.emit_v6(source, destination, packet)?;
            }
            _ => return None,
        }
        Some(length)
    }

    fn emit_v4(&self, source: Ipv4Addr, destination: Ipv4Addr, packet: &mut [u8]) -> Option<()> {
        let (header_into, message) = packet.split_at_mut_checked(ipv4::HEADER_BYTES)?;
        let header = Ipv4Header {
            traffic_class: self.varying.traffic_class(),
            payload_bytes: message.len(),
            identification: 0,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: FragmentOffset::new(0).ok()?,
            ttl: TTL,
            protocol: self.protocol(IpProtocol::ICMP),
            source,
            destination,
        };
        header.emit(header_into).ok()?;
        self.mark.emit(message.get_mut(self.carrier.header_bytes()..)?);
        match self.carrier {
            ProbeCarrier::Udp => return self.emit_udp(message),
            ProbeCarrier::Tcp => return self.emit_tcp(message),
            ProbeCarrier::Echo => {}
        }
        self.emit_echo(IcmpV4Type::ECHO_REQUEST.0, message)?;
        let checksum = Sum::of(message).checksum();
        message.get_mut(field::ICMP_CHECKSUM)?.copy_from_slice(&checksum.to_be_bytes());
        Some(())
    }

    fn emit_v6(&self, source: Ipv6Addr, destination: Ipv6Addr, packet: &mut [u8]) -> Option<()> {
        let (header_into, message) = packet.split_at_mut_checked(ipv6::HEADER_BYTES)?;
        let header = Ipv6Header {
            traffic_class: self.varying.traffic_class(),
            flow_label: FlowLabel::from_low_bits(0),
            payload_length: u16::try_from(message.len()).ok()?,
            next_header: self.protocol(IpProtocol::ICMPV6),
            hop_limit: TTL,
            source,
            destination,
        };
        header.emit(header_into).ok()?;
        self.mark.emit(message.get_mut(self.carrier.header_bytes()..)?);
        match self.carrier {
            ProbeCarrier::Udp => return self.emit_udp(message),
            ProbeCarrier::Tcp => return self.emit_tcp(message),
            ProbeCarrier::Echo => {}
        }
        self.emit_echo(IcmpV6Type::ECHO_REQUEST.0, message)?;
        let checksum = v6_sum(message, source, destination).checksum();
        message.get_mut(field::ICMP_CHECKSUM)?.copy_from_slice(&checksum.to_be_bytes());
        Some(())
    }

    fn protocol(&self, icmp: IpProtocol) -> IpProtocol {
        match self.carrier {
            ProbeCarrier::Udp => IpProtocol::UDP,
            ProbeCarrier::Tcp => IpProtocol::TCP,
            ProbeCarrier::Echo => icmp,
        }
    }

    /// A connection's first segment may carry data (RFC 9293 section 3.10.7.4), and filters that
    /// follow connections let it through where they let the connection through.
    fn emit_tcp(&self, message: &mut [u8]) -> Option<()> {
        let header = TcpHeader {
            source_port: self.flow.source_port,
            destination_port: self.flow.destination_port,
            sequence: 0,
            acknowledgment: 0,
            flags: self.varying.tcp_flags.unwrap_or(TcpFlags::SYN),
            window: u16::MAX,
            urgent_pointer: 0,
        };
        header.emit(message).ok()?;
        tcp::refresh_checksum(message, self.flow.source, self.flow.destination).ok()
    }

    fn emit_udp(&self, message: &mut [u8]) -> Option<()> {
        let header = UdpHeader {
            source_port: self.flow.source_port,
            destination_port: self.flow.destination_port,
            length: u16::try_from(message.len()).ok()?,
            checksum: 0,
        };
        header.emit(message).ok()?;
        udp::refresh_checksum(message, self.flow.source, self.flow.destination).ok()
    }

    fn emit_echo(&self, kind: u8, message: &mut [u8]) -> Option<()> {
        *message.first_mut()? = kind;
        // The identifier is the low half of the number: translators keep echoes apart by it.
        let identifier = (self.mark.number as u16).to_be_bytes();
        message.get_mut(field::ICMP_IDENTIFIER)?.copy_from_slice(&identifier);
        Some(())
    }
}

/// Room for any question.
pub const QUESTION_BYTES_MAX: usize = neighbour::SOLICITATION_FRAME_LEN;

/// Writes the frame that asks the interface with this MAC whether it has the address. The asker
/// needs no address on the network and leaves nothing wrong behind: the ARP request is the probe
/// of RFC 5227, the solicitation comes from the link-local address of `asker`.
#[must_use]
pub fn emit_question(
    asker: MacAddr,
    asked: MacAddr,
    address: IpAddr,
    into: &mut [u8],
) -> Option<usize> {
    match address {
        IpAddr::V4(target_ip) => {
            let request = ArpPacket {
                operation: ArpOperation::Request,
                sender_mac: asker,
                sender_ip: Ipv4Addr::UNSPECIFIED,
                target_mac: MacAddr([0; 6]),
                target_ip,
            };
            let length = request.emit_frame(into).ok()?;
            ethernet::set_destination(into, asked).ok()?;
            Some(length)
        }
        IpAddr::V6(target) => {
            neighbour::emit_neighbour_solicitation(asker, asked, target, into).ok()
        }
    }
}

/// The address whose presence a frame confirms as an answer to [`emit_question`] of `asker`.
#[must_use]
pub fn find_answer(asker: MacAddr, view: &FrameView, frame: &[u8]) -> Option<IpAddr> {
    match view.network {
        Network::Arp => {
            let arp = ArpPacket::parse(frame.get(usize::from(view.l3_offset)..)?).ok()?;
            let is_ours = arp.operation == ArpOperation::Reply
                && arp.target_mac == asker
                && arp.target_ip.is_unspecified();
            is_ours.then_some(IpAddr::V4(arp.sender_ip))
        }
        Network::Ipv6 if view.icmp_type == Some(IcmpV6Type::NEIGHBOUR_ADVERTISEMENT.0) => {
            let flow = view.flow.filter(|_| view.is_neighbour_discovery())?;
            if flow.destination != IpAddr::V6(neighbour::link_local(asker)) {
                return None;
            }
            let message = frame.get(usize::from(view.l4_offset?)..view.end as usize)?;
            neighbour::advertised(message).map(IpAddr::V6)
        }
        _ => None,
    }
}

/// Is the frame a question of `asker` itself, come back unanswered?
#[must_use]
pub fn is_question_of(asker: MacAddr, view: &FrameView, frame: &[u8]) -> bool {
    match view.network {
        Network::Arp => {
            let body = frame.get(usize::from(view.l3_offset)..).unwrap_or_default();
            ArpPacket::parse(body).is_ok_and(|arp| {
                arp.operation == ArpOperation::Request
                    && arp.sender_mac == asker
                    && arp.sender_ip.is_unspecified()
            })
        }
        Network::Ipv6 => {
            view.icmp_type == Some(IcmpV6Type::NEIGHBOUR_SOLICITATION.0)
                && view
                    .flow
                    .is_some_and(|flow| flow.source == IpAddr::V6(neighbour::link_local(asker)))
        }
        Network::Ipv4 | Network::Other => false,
    }
}

#[cfg(test)]
mod tests;
