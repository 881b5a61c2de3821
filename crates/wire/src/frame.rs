//! What a data plane wants to know of a frame, found in one pass.
//!
//! Knows the way from Ethernet through tags and IP to the ports. Refuses to verify checksums, to
//! look into tunnels and to judge what a frame is for.

use core::fmt;
use core::net::{IpAddr, Ipv6Addr};

use crate::ethernet::{EthernetError, EthernetView};
use crate::flow::FlowKey;
use crate::icmp::{IcmpError, IcmpV4Type, IcmpV6Type, IcmpView};
use crate::ipv4::{Ipv4Error, Ipv4View};
use crate::ipv6::{Ipv6Error, Ipv6View};
use crate::scalar::{EtherType, IpProtocol, MacAddr, VlanId};
use crate::tcp::{TcpError, TcpView};
use crate::udp::{UdpError, UdpView};
use crate::varying::VaryingFields;

/// What is wrong with an IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpError {
    /// As IPv4.
    V4(Ipv4Error),
    /// As IPv6.
    V6(Ipv6Error),
}

/// What is wrong with a transport header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransportError {
    /// As TCP.
    Tcp(TcpError),
    /// As UDP.
    Udp(UdpError),
    /// An ICMP or ICMPv6 message is too short.
    Icmp {
        /// Bytes there are.
        have: usize,
    },
    /// A first fragment does not reach beyond its ports (RFC 1858, RFC 7112).
    TinyFragment {
        /// Bytes there are.
        have: usize,
    },
}

/// Why a frame cannot be used, by layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// The Ethernet header.
    Ethernet(EthernetError),
    /// The IPv4 or IPv6 header.
    Ip(IpError),
    /// The TCP, UDP or ICMP header.
    Transport(TransportError),
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ethernet(error) => error.fmt(f),
            Self::Ip(IpError::V4(error)) => error.fmt(f),
            Self::Ip(IpError::V6(error)) => error.fmt(f),
            Self::Transport(TransportError::Tcp(error)) => error.fmt(f),
            Self::Transport(TransportError::Udp(error)) => error.fmt(f),
            Self::Transport(TransportError::Icmp { have }) => {
                write!(f, "ICMP message cut short: {have} of {} bytes", IcmpView::HEADER_LEN)
            }
            Self::Transport(TransportError::TinyFragment { have }) => {
                write!(f, "first fragment holds only {have} bytes of its transport header")
            }
        }
    }
}

impl core::error::Error for FrameError {}

/// What the Ethernet payload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Network {
    /// ARP.
    Arp,
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
    /// Anything else.
    Other,
}

/// Which part of an IP packet the frame holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fragment {
    /// All of it (or no IP packet at all).
    Whole,
    /// The first fragment: it has ports.
    First,
    /// A later fragment: it has none.
    Later,
}

/// A summary of a frame; it holds no reference to it. Offsets count bytes from the frame's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameView {
    /// Destination hardware address.
    pub destination: MacAddr,
    /// Source hardware address.
    pub source: MacAddr,
    /// Identifier of the outer VLAN tag; none for a tag that only says a priority (identifier 0,
    /// IEEE 802.1Q section 9.6).
    pub vlan: Option<VlanId>,
    /// The type behind the tags.
    pub ethertype: EtherType,
    /// Where the Ethernet payload begins.
    pub l3_offset: u16,
    /// What the Ethernet payload is.
    pub network: Network,
    /// Where the upper layer begins, extension headers passed; `None` unless IP. Of a later
    /// fragment: where its data begins.
    pub l4_offset: Option<u16>,
    /// The upper protocol; `None` unless IP.
    pub protocol: Option<IpProtocol>,
    /// Which part of the packet this is.
    pub fragment: Fragment,
    /// Where the IP packet ends and padding begins; the end of the frame unless IP.
    pub end: u32,
    /// The flow; `None` unless IP.
    pub flow: Option<FlowKey>,
    /// Type of the ICMP or ICMPv6 message.
    pub icmp_type: Option<u8>,
    /// What it shows beside its flow.
    pub varying: VaryingFields,
}

impl FrameView {
    /// Reads a frame of up to 65,550 bytes and more, tags included.
    ///
    /// # Errors
    /// When a header is cut short or contradicts the bytes; the payload of other EtherTypes than
    /// IP is not judged.
    pub fn parse(bytes: &[u8]) -> Result<Self, FrameError> {
        Self::read(bytes, false)
    }

    /// The same for the frame at the front of what a tunnel carries. `is_cut`: the bytes may end
    /// before the packet does.
    #[inline]
    pub(crate) fn read(bytes: &[u8], is_cut: bool) -> Result<Self, FrameError> {
        let ethernet = EthernetView::parse(bytes).map_err(FrameError::Ethernet)?;
        let mut frame = Self {
            destination: ethernet.destination(),
            source: ethernet.source(),
            vlan: ethernet.vlan().map(|tag| tag.id).filter(|id| id.get() != 0),
            ethertype: ethernet.ethertype(),
            l3_offset: ethernet.header_len() as u16,
            network: Network::Other,
            l4_offset: None,
            protocol: None,
            fragment: Fragment::Whole,
            end: u32::try_from(bytes.len()).unwrap_or(u32::MAX),
            flow: None,
            icmp_type: None,
            varying: VaryingFields::default(),
        };
        match frame.ethertype {
            EtherType::IPV4 => frame.read_ipv4(ethernet.payload(), is_cut)?,
            EtherType::IPV6 => frame.read_ipv6(ethernet.payload(), is_cut)?,
            EtherType::ARP => frame.network = Network::Arp,
            _ => {}
        }
        Ok(frame)
    }

    /// Reads an IP packet that has lost its Ethernet header: its addresses are unknown.
    ///
    /// # Errors
    /// As [`FrameView::parse`] says.
    pub fn parse_packet(bytes: &[u8], ethertype: EtherType) -> Result<Self, FrameError> {
        Self::read_packet(bytes, ethertype, false)
    }

    /// The same for the front of a packet that an error message quotes: the bytes may end before the packet
    /// does, but not before the ports.
    ///
    /// # Errors
    /// As [`FrameView::parse`] says.
    pub fn parse_quoted(bytes: &[u8], ethertype: EtherType) -> Result<Self, FrameError> {
        Self::read_packet(bytes, ethertype, true)
    }

    /// An IP packet without a frame, as tunnels of packets carry it.
    #[inline]
    pub(crate) fn read_packet(
        bytes: &[u8],
        ethertype: EtherType,
        is_cut: bool,
    ) -> Result<Self, FrameError> {
        let mut frame = Self {
            destination: MacAddr::default(),
            source: MacAddr::default(),
            vlan: None,
            ethertype,
            l3_offset: 0,
            network: Network::Other,
            l4_offset: None,
            protocol: None,
            fragment: Fragment::Whole,
            end: u32::try_from(bytes.len()).unwrap_or(u32::MAX),
            flow: None,
            icmp_type: None,
            varying: VaryingFields::default(),
        };
        match ethertype {
            EtherType::IPV4 => frame.read_ipv4(bytes, is_cut)?,
            EtherType::IPV6 => frame.read_ipv6(bytes, is_cut)?,
            _ => {}
        }
        Ok(frame)
    }

    fn read_ipv4(&mut self, packet: &[u8], is_cut: bool) -> Result<(), FrameError> {
        let ip = if is_cut { Ipv4View::parse_cut(packet) } else { Ipv4View::parse(packet) };
        let ip = ip.map_err(|error| FrameError::Ip(IpError::V4(error)))?;
        self.network = Network::Ipv4;
        let packet_bytes = ip.header_len() + ip.payload().len();
        self.end = u32::from(self.l3_offset) + packet_bytes as u32;
        self.fragment = match (ip.fragment_offset().get(), ip.more_fragments()) {
            (0, false) => Fragment::Whole,
            (0, true) => Fragment::First,
            _ => Fragment::Later,
        };
        let ends = (IpAddr::V4(ip.source()), IpAddr::V4(ip.destination()));
        let class = ip.traffic_class();
        self.read_upper((ends, class), ip.protocol(), ip.header_len(), ip.payload(), is_cut)
    }

    fn read_ipv6(&mut self, packet: &[u8], is_cut: bool) -> Result<(), FrameError> {
        let ip = if is_cut { Ipv6View::parse_cut(packet) } else { Ipv6View::parse(packet) };
        let ip = ip.map_err(|error| FrameError::Ip(IpError::V6(error)))?;
        self.network = Network::Ipv6;
        let packet_bytes = crate::ipv6::HEADER_BYTES + ip.payload().len();
        self.end = u32::from(self.l3_offset) + packet_bytes as u32;
        self.fragment = match ip.fragment() {
            Some(fragment) if fragment.offset.get() != 0 => Fragment::Later,
            Some(fragment) if !fragment.is_atomic() => Fragment::First,
            _ => Fragment::Whole,
        };
        let ends = (IpAddr::V6(ip.source()), IpAddr::V6(ip.destination()));
        let (protocol, class) = (ip.upper_protocol(), ip.traffic_class());
        self.read_upper((ends, class), protocol, ip.upper_offset(), ip.upper(), is_cut)
    }

    fn read_upper(
        &mut self,
        ((source, destination), traffic_class): ((IpAddr, IpAddr), u8),
        protocol: IpProtocol,
        offset: usize,
        upper: &[u8],
        is_cut: bool,
    ) -> Result<(), FrameError> {
        self.protocol = Some(protocol);
        // Eight extension headers of 2,048 bytes at most, and an Ethernet header.
        self.l4_offset = Some(self.l3_offset + offset as u16);
        let (source_port, destination_port) = match self.fragment {
            Fragment::Later => (0, 0),
            _ => self.read_ports(protocol, upper, is_cut).map_err(FrameError::Transport)?,
        };
        self.flow = Some(FlowKey { source, destination, protocol, source_port, destination_port });
        let shown = if self.fragment == Fragment::Later { &[] } else { upper };
        self.varying = VaryingFields::of(traffic_class, protocol, shown);
        Ok(())
    }

    fn read_ports(
        &mut self,
        protocol: IpProtocol,
        upper: &[u8],
        is_cut: bool,
    ) -> Result<(u16, u16), TransportError> {
        let have = upper.len();
        let extent = if is_cut { Fragment::First } else { self.fragment };
        match (protocol, extent) {
            (IpProtocol::TCP, Fragment::Whole) => {
                let tcp = TcpView::parse(upper).map_err(TransportError::Tcp)?;
                Ok((tcp.source_port(), tcp.destination_port()))
            }
            (IpProtocol::UDP, Fragment::Whole) => {
                let udp = UdpView::parse(upper).map_err(TransportError::Udp)?;
                Ok((udp.source_port(), udp.destination_port()))
            }
            (IpProtocol::TCP | IpProtocol::UDP, _) => match *upper {
                [a, b, c, d, _, _, _, _, ..] => {
                    Ok((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
                }
                _ => Err(TransportError::TinyFragment { have }),
            },
            (IpProtocol::ICMP, _) if self.network == Network::Ipv4 => {
                let message = self.read_icmp(upper)?;
                Ok((message.v4_identifier().unwrap_or(0), 0))
            }
            (IpProtocol::ICMPV6, _) if self.network == Network::Ipv6 => {
                let message = self.read_icmp(upper)?;
                Ok((message.v6_identifier().unwrap_or(0), 0))
            }
            _ => Ok((0, 0)),
        }
    }

    fn read_icmp<'p>(&mut self, message: &'p [u8]) -> Result<IcmpView<'p>, TransportError> {
        let message = IcmpView::parse(message)
            .map_err(|IcmpError::Truncated { have, .. }| TransportError::Icmp { have })?;
        self.icmp_type = Some(message.v4_type().0);
        Ok(message)
    }

    /// Is it router or neighbour discovery or a redirect (RFC 4861, ICMPv6 types 133 to 137)?
    #[must_use]
    pub fn is_neighbour_discovery(&self) -> bool {
        self.network == Network::Ipv6
            && self.icmp_type.is_some_and(|kind| IcmpV6Type(kind).is_neighbour_discovery())
    }

    /// Is it an ICMP or ICMPv6 error message?
    #[must_use]
    pub fn is_icmp_error(&self) -> bool {
        self.icmp_type.is_some_and(|kind| match self.network {
            Network::Ipv6 => IcmpV6Type(kind).is_error(),
            _ => IcmpV4Type(kind).is_error(),
        })
    }

    /// Is what it carries meant for its link: a packet to a group or to a link-local address, broadcast
    /// included, or no IP packet in a frame to a group? Who it is from, or that all stations get the
    /// frame of a packet to one, does not matter: receivers take both (RFC 1122 section 3.3.6 asks
    /// hosts not to take the latter; Linux does).
    #[must_use]
    pub fn is_meant_for_link(&self) -> bool {
        self.flow.map_or(self.destination.is_multicast(), |flow| {
            is_link_local(flow.destination) || is_group(flow.destination)
        })
    }

    /// Is it a packet from a link-local address?
    #[must_use]
    pub fn is_from_link_local(&self) -> bool {
        self.flow.is_some_and(|flow| is_link_local(flow.source))
    }

    /// Is it a packet to one station in a frame to a group of them?
    #[must_use]
    pub fn is_unicast_in_group_frame(&self) -> bool {
        self.destination.is_multicast() && !self.is_meant_for_link()
    }

    /// Does it stay on its link, or may it: sent to a group (Ethernet or IP, broadcast included), or
    /// from or to a link-local address (RFC 3927, RFC 4291 section 2.5.6)?
    #[must_use]
    pub fn is_multicast_or_link_local(&self) -> bool {
        self.destination.is_multicast()
            || self.flow.is_some_and(|flow| {
                is_link_local(flow.source)
                    || is_link_local(flow.destination)
                    || is_group(flow.destination)
            })
    }
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => Ipv6Addr::is_unicast_link_local(&v6),
    }
}

fn is_group(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_multicast() || v4.is_broadcast(),
        IpAddr::V6(v6) => v6.is_multicast(),
    }
}

#[cfg(test)]
mod tests;
