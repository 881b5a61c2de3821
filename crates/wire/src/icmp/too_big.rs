//! The answer to a packet that is too big for what lies ahead: ICMP «fragmentation needed» (RFC 792
//! with the size of RFC 1191 section 4), ICMPv6 «packet too big» (RFC 4443 section 3.2).
//!
//! Knows which packets may be answered and what the answer says. Refuses to know where it goes and
//! how often it is given.
//!
//! ```text
//! |     Type      |     Code      |           Checksum            |
//! |   Unused, and the size in its last two bytes; IPv6: the size  |
//! |   As much of the packet as fits ...
//! ```

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{CHECKSUM_OFFSET, IcmpV4Type, IcmpV6Type, IcmpView, v6_sum};
use crate::checksum::Sum;
use crate::ethernet;
use crate::frame::{Fragment, FrameView};
use crate::ipv4::{self, Ipv4Header, Ipv4View};
use crate::ipv6::{self, Ipv6Header};
use crate::scalar::{FlowLabel, FragmentOffset, IpProtocol, MacAddr};

/// Longest frame that [`TooBig::emit`] writes, in bytes.
pub const FRAME_BYTES_MAX: usize =
    ethernet::HEADER_BYTES + ethernet::TAGS_MAX * ethernet::TAG_BYTES + IPV6_MTU_MIN as usize;

/// Longest answer over IPv4 (RFC 1812 section 4.3.2.3).
const IPV4_ANSWER_BYTES_MAX: usize = 576;
/// What every link of IPv4 takes (RFC 791 section 3.2).
const IPV4_MTU_MIN: u16 = 68;
/// What every link of IPv6 takes; nobody makes smaller packets (RFC 8200 section 5), and no answer
/// is longer (RFC 4443 section 2.4 c).
const IPV6_MTU_MIN: u16 = 1_280;
const FRAGMENTATION_NEEDED: u8 = 4;
const HOP_LIMIT: u8 = 64;
/// Internetwork control (RFC 1812 section 4.3.2.5).
const TRAFFIC_CLASS: u8 = 0xc0;
/// Both addresses of an Ethernet header.
const ADDRESSES_BYTES: usize = 12;

/// A packet that may be answered, and the size that would fit.
#[derive(Clone, Copy, Debug)]
pub struct TooBig<'f> {
    frame: &'f [u8],
    view: FrameView,
    mtu: u16,
}

impl<'f> TooBig<'f> {
    /// Judges a frame as it would be on the wire, padding allowed. `mtu`: the longest IP packet that
    /// fits, in bytes. None: its sender must not be told (RFC 1812 section 4.3.2.7, RFC 4443 section
    /// 2.4 e), or knowing would not help it, as when IPv4 may be fragmented or IPv6 is as short as it
    /// gets.
    #[must_use]
    pub fn judge(frame: &'f [u8], mtu: u16) -> Option<Self> {
        let view = FrameView::parse(frame).ok()?;
        let flow = view.flow?;
        let is_of_one = !view.source.is_multicast() && !view.destination.is_multicast();
        if !is_of_one || view.fragment == Fragment::Later {
            return None;
        }
        let frame = frame.get(..view.end as usize)?;
        let packet = frame.get(usize::from(view.l3_offset)..)?;
        let is_answered = match (flow.source, flow.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let ip = Ipv4View::parse(packet).ok()?;
                let is_error = |kind: u8| IcmpV4Type(kind).is_error();
                let is_error =
                    view.protocol == Some(IpProtocol::ICMP) && view.icmp_type.is_none_or(is_error);
                mtu >= IPV4_MTU_MIN
                    && ip.dont_fragment()
                    && is_host_v4(source)
                    && is_host_v4(destination)
                    && !is_error
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let is_error = |kind: u8| {
                    IcmpV6Type(kind).is_error() || IcmpV6Type(kind) == IcmpV6Type::REDIRECT
                };
                let is_error = view.protocol == Some(IpProtocol::ICMPV6)
                    && view.icmp_type.is_none_or(is_error);
                packet.len() > usize::from(IPV6_MTU_MIN)
                    && is_host_v6(source)
                    && is_host_v6(destination)
                    && !is_error
            }
            _ => false,
        };
        is_answered.then_some(Self { frame, view, mtu })
    }

    /// The packet's sender.
    #[must_use]
    pub fn sender(&self) -> Option<IpAddr> {
        self.view.flow.map(|flow| flow.source)
    }

    /// Writes the answer, from one MAC to another and with the tags of the frame, as if the packet's
    /// destination gave it; answers its length.
    ///
    /// None: `into` has less than [`FRAME_BYTES_MAX`] bytes.
    #[must_use]
    pub fn emit(&self, from: MacAddr, to: MacAddr, into: &mut [u8]) -> Option<usize> {
        let link_bytes = usize::from(self.view.l3_offset);
        let packet = self.frame.get(link_bytes..)?;
        let link = into.get_mut(..link_bytes)?;
        link.copy_from_slice(self.frame.get(..link_bytes)?);
        link.get_mut(..ADDRESSES_BYTES / 2)?.copy_from_slice(&to.0);
        link.get_mut(ADDRESSES_BYTES / 2..ADDRESSES_BYTES)?.copy_from_slice(&from.0);
        let answer = into.get_mut(link_bytes..)?;
        let flow = self.view.flow?;
        let length = match (flow.source, flow.destination) {
            (IpAddr::V4(sender), IpAddr::V4(destination)) => {
                self.emit_v4(packet, (destination, sender), answer)?
            }
            (IpAddr::V6(sender), IpAddr::V6(destination)) => {
                self.emit_v6(packet, (destination, sender), answer)?
            }
            _ => return None,
        };
        Some(link_bytes + length)
    }

    fn emit_v4(
        &self,
        packet: &[u8],
        (source, destination): (Ipv4Addr, Ipv4Addr),
        into: &mut [u8],
    ) -> Option<usize> {
        // Where the packet did not fit, its answer shall.
        let longest = IPV4_ANSWER_BYTES_MAX.min(usize::from(self.mtu));
        let quoted = longest.checked_sub(ipv4::HEADER_BYTES + IcmpView::HEADER_LEN)?;
        let quoted = packet.get(..quoted.min(packet.len()))?;
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
        let [high, low] = self.mtu.to_be_bytes();
        let kind = IcmpV4Type::DESTINATION_UNREACHABLE.0;
        write(message, [kind, FRAGMENTATION_NEEDED, 0, 0, 0, 0, high, low], quoted)?;
        set_checksum(message, Sum::of(message).checksum())?;
        Some(start + header.payload_bytes)
    }

    fn emit_v6(
        &self,
        packet: &[u8],
        (source, destination): (Ipv6Addr, Ipv6Addr),
        into: &mut [u8],
    ) -> Option<usize> {
        // A sender that is told less makes no smaller packets (RFC 8201 section 4).
        let mtu = self.mtu.max(IPV6_MTU_MIN);
        let quoted = usize::from(IPV6_MTU_MIN) - ipv6::HEADER_BYTES - IcmpView::HEADER_LEN;
        let quoted = packet.get(..quoted.min(packet.len()))?;
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
        let [high, low] = mtu.to_be_bytes();
        write(message, [IcmpV6Type::PACKET_TOO_BIG.0, 0, 0, 0, 0, 0, high, low], quoted)?;
        set_checksum(message, v6_sum(message, source, destination).checksum())?;
        Some(start + payload_bytes)
    }

    /// The addresses of the frame: whoever sent it, and to whom.
    #[must_use]
    pub fn macs(&self) -> (MacAddr, MacAddr) {
        (self.view.source, self.view.destination)
    }
}

fn write(message: &mut [u8], head: [u8; IcmpView::HEADER_LEN], quoted: &[u8]) -> Option<()> {
    let (fixed, body) = message.split_first_chunk_mut()?;
    *fixed = head;
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
