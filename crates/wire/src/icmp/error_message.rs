//! Error messages about a packet, RFC 792 and RFC 4443, as if the packet's destination sent them, or from a router.
//!
//! Knows which packets nobody may answer with an error, and how much of a packet is quoted. Refuses to
//! know what went wrong, where the message goes and how often one is sent.
//!
//! ```text
//! |     Type      |     Code      |           Checksum            |
//! |            What the type puts there, else zeros               |
//! |   As much of the packet as fits ...
//! ```

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{CHECKSUM_OFFSET, IcmpV4Type, IcmpV6Type, IcmpView, v6_sum};
use crate::checksum::Sum;
use crate::ethernet;
use crate::frame::{Fragment, FrameView};
use crate::ipv4::{self, Ipv4Header};
use crate::ipv6::{self, Ipv6Header};
use crate::scalar::{FlowLabel, FragmentOffset, IpProtocol, MacAddr};

/// Longest frame that [`ErrorMessage::emit`] writes, in bytes.
pub const FRAME_BYTES_MAX: usize =
    ethernet::HEADER_BYTES + ethernet::TAGS_MAX * ethernet::TAG_BYTES + IPV6_MTU_MIN as usize;

/// Longest message over IPv4 (RFC 1812 section 4.3.2.3).
pub(super) const IPV4_MESSAGE_BYTES_MAX: usize = 576;
/// What every link of IPv6 takes; nobody makes smaller packets (RFC 8200 section 5), and no message
/// is longer (RFC 4443 section 2.4 c).
pub(super) const IPV6_MTU_MIN: u16 = 1_280;
const HOP_LIMIT: u8 = 64;
/// Internetwork control (RFC 1812 section 4.3.2.5).
const TRAFFIC_CLASS: u8 = 0xc0;
/// Both addresses of an Ethernet header.
const ADDRESSES_BYTES: usize = 12;

/// What a message says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Said {
    /// Type of the message, in the version of the packet.
    pub kind: u8,
    /// Its code.
    pub code: u8,
    /// What stands behind the checksum.
    pub rest: u32,
    /// Longest IP packet that the message may be, bytes; what the RFCs allow is less or equal.
    pub longest: usize,
}

impl Said {
    /// Destination unreachable over IPv4 (RFC 792), by this code.
    #[must_use]
    pub const fn unreachable_v4(code: u8) -> Self {
        let kind = IcmpV4Type::DESTINATION_UNREACHABLE.0;
        Self { kind, code, rest: 0, longest: IPV4_MESSAGE_BYTES_MAX }
    }

    /// Time to live exceeded in transit over IPv4 (RFC 792).
    #[must_use]
    pub const fn time_exceeded_v4() -> Self {
        let kind = IcmpV4Type::TIME_EXCEEDED.0;
        Self { kind, code: 0, rest: 0, longest: IPV4_MESSAGE_BYTES_MAX }
    }

    /// Hop limit exceeded in transit over IPv6 (RFC 4443 section 3.3).
    #[must_use]
    pub const fn time_exceeded_v6() -> Self {
        let kind = IcmpV6Type::TIME_EXCEEDED.0;
        Self { kind, code: 0, rest: 0, longest: IPV6_MTU_MIN as usize }
    }

    /// Parameter problem over IPv6 (RFC 4443 section 3.4), by this code, at this octet of the packet.
    #[must_use]
    pub const fn parameter_problem_v6(code: u8, pointer: u32) -> Self {
        let kind = IcmpV6Type::PARAMETER_PROBLEM.0;
        Self { kind, code, rest: pointer, longest: IPV6_MTU_MIN as usize }
    }

    /// Destination unreachable over IPv6 (RFC 4443 section 3.1), by this code.
    #[must_use]
    pub const fn unreachable_v6(code: u8) -> Self {
        let kind = IcmpV6Type::DESTINATION_UNREACHABLE.0;
        Self { kind, code, rest: 0, longest: IPV6_MTU_MIN as usize }
    }
}

/// A packet whose sender may be told what became of it.
#[derive(Clone, Copy, Debug)]
pub struct ErrorMessage<'f> {
    frame: &'f [u8],
    view: FrameView,
}

impl<'f> ErrorMessage<'f> {
    /// Judges a frame as it would be on the wire, padding allowed. None: its sender must not be told
    /// (RFC 1812 section 4.3.2.7, RFC 4443 section 2.4 e).
    #[must_use]
    pub fn judge(frame: &'f [u8]) -> Option<Self> {
        let view = FrameView::parse(frame).ok()?;
        let flow = view.flow?;
        let is_of_one = !view.source.is_multicast() && !view.destination.is_multicast();
        if !is_of_one || view.fragment == Fragment::Later {
            return None;
        }
        let frame = frame.get(..view.end as usize)?;
        let is_answered = match (flow.source, flow.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let is_error = |kind: u8| IcmpV4Type(kind).is_error();
                let is_error =
                    view.protocol == Some(IpProtocol::ICMP) && view.icmp_type.is_none_or(is_error);
                is_host_v4(source) && is_host_v4(destination) && !is_error
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let is_error = |kind: u8| {
                    IcmpV6Type(kind).is_error() || IcmpV6Type(kind) == IcmpV6Type::REDIRECT
                };
                let is_error = view.protocol == Some(IpProtocol::ICMPV6)
                    && view.icmp_type.is_none_or(is_error);
                is_host_v6(source) && is_host_v6(destination) && !is_error
            }
            _ => false,
        };
        is_answered.then_some(Self { frame, view })
    }

    /// The packet, from its IP header to its end.
    #[must_use]
    pub fn packet(&self) -> &'f [u8] {
        self.frame.get(usize::from(self.view.l3_offset)..).unwrap_or_default()
    }

    /// The packet's sender.
    #[must_use]
    pub fn sender(&self) -> Option<IpAddr> {
        self.view.flow.map(|flow| flow.source)
    }

    /// The addresses of the frame: whoever sent it, and to whom.
    #[must_use]
    pub fn macs(&self) -> (MacAddr, MacAddr) {
        (self.view.source, self.view.destination)
    }

    /// Writes the message, from one MAC to another and with the tags of the frame, as if the packet's
    /// destination sent it; answers its length.
    ///
    /// None: `into` has less than [`FRAME_BYTES_MAX`] bytes.
    #[must_use]
    pub fn emit(&self, said: Said, macs: (MacAddr, MacAddr), into: &mut [u8]) -> Option<usize> {
        self.emit_from(self.view.flow?.destination, said, macs, into)
    }

    /// The same, from an address of whoever says it (RFC 1812 section 4.3.2.4, RFC 4443 section 2.2).
    ///
    /// None: the address is of the other version of IP, or `into` has less than [`FRAME_BYTES_MAX`] bytes.
    #[must_use]
    pub fn emit_from(
        &self,
        address: IpAddr,
        said: Said,
        (from, to): (MacAddr, MacAddr),
        into: &mut [u8],
    ) -> Option<usize> {
        let link_bytes = usize::from(self.view.l3_offset);
        let link = into.get_mut(..link_bytes)?;
        link.copy_from_slice(self.frame.get(..link_bytes)?);
        link.get_mut(..ADDRESSES_BYTES / 2)?.copy_from_slice(&to.0);
        link.get_mut(ADDRESSES_BYTES / 2..ADDRESSES_BYTES)?.copy_from_slice(&from.0);
        let message = into.get_mut(link_bytes..)?;
        let length = match (address, self.view.flow?.source) {
            (IpAddr::V4(address), IpAddr::V4(sender)) => {
                self.emit_v4(said, (address, sender), message)?
            }
            (IpAddr::V6(address), IpAddr::V6(sender)) => {
                self.emit_v6(said, (address, sender), message)?
            }
            _ => return None,
        };
        Some(link_bytes + length)
    }

    fn quoted(&self, said: Said, most: usize, header_bytes: usize) -> Option<&'f [u8]> {
        quoted(self.packet(), said, most, header_bytes)
    }

    fn emit_v4(
        &self,
        said: Said,
        (source, destination): (Ipv4Addr, Ipv4Addr),
        into: &mut [u8],
    ) -> Option<usize> {
        let quoted = self.quoted(said, IPV4_MESSAGE_BYTES_MAX, ipv4::HEADER_BYTES)?;
        let header = Ipv4Header {
            traffic_class: TRAFFIC_CLASS,
            payload_bytes: IcmpView::HEADER_LEN + quoted.len(),
            identification: 0,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: FragmentOffset::new(0).ok()?,
            ttl: HOP_LIMIT,
            protocol: IpProtocol::ICMP,
            source,
            destination,
        };
        let start = header.emit(into).ok()?;
        let message = into.get_mut(start..start + header.payload_bytes)?;
        write(message, said, quoted)?;
        set_checksum(message, Sum::of(message).checksum())?;
        Some(start + header.payload_bytes)
    }

    fn emit_v6(
        &self,
        said: Said,
        (source, destination): (Ipv6Addr, Ipv6Addr),
        into: &mut [u8],
    ) -> Option<usize> {
        emit_v6(self.packet(), said, (source, destination), into)
    }
}

/// Writes the message about a packet of IPv6 whose headers behind the first one may say anything, as a packet of IPv6
/// from an address of whoever says it; answers its length.
///
/// None: its sender must not be told (RFC 4443 section 2.4 e), the packet is none of IPv6, or `into` has less than
/// 1,280 bytes. Of what is behind a routing header that cannot be read, only its first octet is asked for.
#[must_use]
pub fn emit_about_v6(packet: &[u8], from: Ipv6Addr, said: Said, into: &mut [u8]) -> Option<usize> {
    let (header, payload) = Ipv6Header::parse(packet).ok()?;
    let next = match (header.next_header, payload) {
        (IpProtocol::ROUTING, [next, ..]) => IpProtocol(*next),
        (next, _) => next,
    };
    let is_of_one = is_host_v6(header.source) && is_host_v6(header.destination);
    if !is_of_one || next == IpProtocol::ICMPV6 {
        return None;
    }
    let packet = packet.get(..ipv6::HEADER_BYTES + payload.len())?;
    emit_v6(packet, said, (from, header.source), into)
}

fn quoted(packet: &[u8], said: Said, most: usize, header_bytes: usize) -> Option<&[u8]> {
    let room = said.longest.min(most).checked_sub(header_bytes + IcmpView::HEADER_LEN)?;
    packet.get(..room.min(packet.len()))
}

fn emit_v6(
    packet: &[u8],
    said: Said,
    (source, destination): (Ipv6Addr, Ipv6Addr),
    into: &mut [u8],
) -> Option<usize> {
    let quoted = quoted(packet, said, IPV6_MTU_MIN.into(), ipv6::HEADER_BYTES)?;
    let payload_bytes = IcmpView::HEADER_LEN + quoted.len();
    let header = Ipv6Header {
        traffic_class: TRAFFIC_CLASS,
        flow_label: FlowLabel::new(0).ok()?,
        payload_length: u16::try_from(payload_bytes).ok()?,
        next_header: IpProtocol::ICMPV6,
        hop_limit: HOP_LIMIT,
        source,
        destination,
    };
    let start = header.emit(into).ok()?;
    let message = into.get_mut(start..start + payload_bytes)?;
    write(message, said, quoted)?;
    set_checksum(message, v6_sum(message, source, destination).checksum())?;
    Some(start + payload_bytes)
}

fn write(message: &mut [u8], said: Said, quoted: &[u8]) -> Option<()> {
    let (fixed, body) = message.split_first_chunk_mut::<{ IcmpView::HEADER_LEN }>()?;
    let [a, b, c, d] = said.rest.to_be_bytes();
    *fixed = [said.kind, said.code, 0, 0, a, b, c, d];
    body.get_mut(..quoted.len())?.copy_from_slice(quoted);
    Some(())
}

fn set_checksum(message: &mut [u8], checksum: u16) -> Option<()> {
    let field = message.get_mut(CHECKSUM_OFFSET..CHECKSUM_OFFSET + 2)?;
    field.copy_from_slice(&checksum.to_be_bytes());
    Some(())
}

/// Can it be the address of a single host elsewhere?
const fn is_host_v4(address: Ipv4Addr) -> bool {
    !(address.is_unspecified()
        || address.is_loopback()
        || address.is_multicast()
        || address.is_broadcast())
}

const fn is_host_v6(address: Ipv6Addr) -> bool {
    !(address.is_unspecified() || address.is_loopback() || address.is_multicast())
}
