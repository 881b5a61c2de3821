//! What the program sees in a frame: the key of its flow and its measure. The same as `bpf/parse.h`,
//! written with the formats of `wire`: the differential test holds both against each other, and who
//! installs a flow finds its key here. Knows what has a key; refuses to know what is done with it.

use crate::transform::{
    FlowKey, KERNEL_TAG, OUTER_BYTES_MIN, Origin, SEGMENTS_BYTES_MIN, TEMPLATE_BYTES_MAX,
};
use catena_model::TunnelKind;
use catena_model::account::Volume;
use catena_wire::ethernet::{self, EthernetHeader, EthernetView};
use catena_wire::flow;
use catena_wire::frame::{Fragment, FrameView};
use catena_wire::icmp::{IcmpV4Type, IcmpV6Type};
use catena_wire::ipv4::{self, Ipv4View};
use catena_wire::ipv6::{self, Ipv6Header};
use catena_wire::mpls::LabelStackEntry;
use catena_wire::nsh::{Metadata, NshNextProtocol, NshView};
use catena_wire::ports;
use catena_wire::scalar::{EtherType, IpProtocol, MacAddr};
use catena_wire::segment::{SegmentKind, SuperFrame};
use catena_wire::srv6::{Locator, Sid, Srv6View};
use catena_wire::udp::{UdpHeader, UdpView};
use catena_wire::vxlan::VxlanHeader;
use catena_wire::vxlan_gpe::{GpeNextProtocol, VxlanGpeHeader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A frame as the program sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sight {
    /// What its flow is known by.
    pub key: FlowKey,
    /// Wire packets, and bytes as the engine counts them: of the inner frame, if it came by a
    /// tunnel.
    pub volume: Volume,
    /// Of a super-frame the length of its longest wire packet with the tunnel's headers and without
    /// a VLAN tag, in bytes.
    pub segment_bytes: Option<u32>,
    /// Bytes before the inner Ethernet header: 0 at a port.
    pub inner_offset: usize,
}

impl Sight {
    /// A frame that came in by the port with this number, with the VLAN tag it may have;
    /// `segment_bytes` is that of a super-frame. `None`: it has no key.
    #[must_use]
    pub fn at_port(number: u16, frame: &[u8], segment_bytes: Option<u16>) -> Option<Self> {
        let mut sight = inner(frame, segment_bytes)?;
        sight.key.origin = Origin::Port as u8;
        sight.key.door = u32::from(number);
        Some(sight)
    }

    /// A frame that came in by the underlay, tunnel headers included, made by a kernel's path.
    /// Who has sent it is not asked here.
    #[must_use]
    pub fn at_underlay(own: Ipv4Addr, frame: &[u8], segment_bytes: Option<u16>) -> Option<Self> {
        let shim_at = ethernet::HEADER_BYTES + OUTER_BYTES_MIN;
        let tunnel = outer(own, frame, segment_bytes.is_some())?;
        let mut sight = Self::in_tunnel(tunnel, frame.get(shim_at..)?, segment_bytes)?;
        sight.inner_offset += shim_at;
        sight.segment_bytes = sight.segment_bytes.map(|bytes| bytes + shim_at as u32);
        Some(sight)
    }

    /// The same of a frame that segments have led to the own locator.
    #[must_use]
    pub fn at_locator(own: Locator, frame: &[u8], segment_bytes: Option<u16>) -> Option<Self> {
        let view = EthernetView::parse(frame).ok()?;
        if view.ethertype() != EtherType::IPV6 || view.vlan().is_some() {
            return None;
        }
        let packet = view.payload();
        let said = packet.get(4..6).map(|octets| u16::from_be_bytes([octets[0], octets[1]]))?;
        let destination = Ipv6Addr::from(*packet.get(24..40)?.first_chunk::<16>()?);
        if usize::from(said) + ipv6::HEADER_BYTES != packet.len()
            || Sid::read(destination).ok()?.locator != own
        {
            return None;
        }
        let mut sight = Self::in_segments(packet, segment_bytes)?;
        let before = ethernet::HEADER_BYTES;
        sight.inner_offset += before;
        sight.segment_bytes = sight.segment_bytes.map(|bytes| bytes + before as u32);
        Some(sight)
    }

    /// The same of a packet that segments have led here, and that a kernel's path has sent. The frame that is made
    /// of what is inside begins before that; the measures begin with the packet. To whose locator, and how long it
    /// says to be, is not asked here.
    #[must_use]
    pub fn in_segments(packet: &[u8], segment_bytes: Option<u16>) -> Option<Self> {
        let (bytes, next, header, routing_tag) = segments(packet)?;
        let sid = Sid::read(header.destination).ok()?;
        let (inner_class, ether_type) = match (next, packet.get(bytes..bytes + 2)?) {
            (IpProtocol::IPV4, [_, class]) => (*class, EtherType::IPV4),
            (IpProtocol::IPV6, [first, second]) => (first << 4 | second >> 4, EtherType::IPV6),
            _ => return None,
        };
        let is_keyed = routing_tag == KERNEL_TAG
            && sid.is_ours()
            && (header.traffic_class ^ inner_class) & CONGESTION_BITS == 0;
        let mut frame = vec![0; ethernet::HEADER_BYTES];
        let made = EthernetHeader::untagged(MacAddr::default(), MacAddr::default(), ether_type);
        made.emit(&mut frame).ok()?;
        frame.extend_from_slice(packet.get(bytes..)?);
        let mut sight = inner(&frame, segment_bytes).filter(|_| is_keyed)?;
        if segment_bytes.is_some() {
            let end = FrameView::parse(&frame).ok()?.end;
            (end as usize == frame.len()).then_some(())?;
        }
        sight.inner_offset = bytes - ethernet::HEADER_BYTES;
        sight.segment_bytes = sight.segment_bytes.map(|bytes| bytes + sight.inner_offset as u32);
        let units = (bytes / 8) as u32;
        let position = u32::from(sid.hop) << 16 | units << 8 | u32::from(header.hop_limit);
        let (origin, door) = (Origin::Segments as u8, sid.path);
        sight.key = FlowKey { origin, door, position, ..sight.key };
        Some(sight)
    }

    /// The same of a packet that the node with this number has sent.
    #[must_use]
    pub fn sent_by(mut self, node: u16) -> Self {
        self.key.sender = node;
        self
    }

    /// The payload of a tunnel packet whose outer headers are good; its measures begin with the
    /// payload.
    #[must_use]
    pub fn in_tunnel(udp_port: u16, payload: &[u8], segment_bytes: Option<u16>) -> Option<Self> {
        let (origin, door, position, rest) = shim(udp_port, payload)?;
        let view = EthernetView::parse(rest).ok()?;
        let mut sight = inner(rest, segment_bytes).filter(|_| view.vlan().is_none())?;
        if segment_bytes.is_some() {
            let end = FrameView::parse(rest).ok()?.end;
            // Else a row of datagrams, which only the tunnel's socket takes apart.
            (end as usize == rest.len()).then_some(())?;
        }
        sight.inner_offset = payload.len() - rest.len();
        sight.segment_bytes = sight.segment_bytes.map(|bytes| bytes + sight.inner_offset as u32);
        sight.key = FlowKey { origin: origin as u8, door, position, ..sight.key };
        Some(sight)
    }
}

/// The bits of ECN in a traffic class (RFC 3168 section 5).
const CONGESTION_BITS: u8 = 3;

/// What stands before a packet that segments have led here, if a kernel could have written it: its bytes, what
/// is inside, the IPv6 header, and the tag.
fn segments(packet: &[u8]) -> Option<(usize, IpProtocol, Ipv6Header, u16)> {
    let (fixed, routing) = packet.split_at_checked(ipv6::HEADER_BYTES)?;
    let bytes = SEGMENTS_BYTES_MIN - 16 + usize::from(*routing.get(1)?) * 8;
    // For who reads it, it ends where the headers do.
    let mut headers = [fixed, routing.get(..bytes.checked_sub(ipv6::HEADER_BYTES)?)?].concat();
    let payload = u16::try_from(bytes - ipv6::HEADER_BYTES).ok()?;
    ipv6::set_payload_length(&mut headers, payload).ok()?;
    let view = Srv6View::parse(&headers).ok()?;
    let routing = view.routing();
    let is_plain = (SEGMENTS_BYTES_MIN..=TEMPLATE_BYTES_MAX).contains(&bytes)
        && routing.flags().0 == 0
        && bytes == SEGMENTS_BYTES_MIN + usize::from(routing.last_entry()) * 16;
    is_plain.then(|| (bytes, routing.next(), *view.header(), routing.tag()))
}

/// A packet of another kernel's path that went up with all its headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TunnelFrame {
    /// Address of the node that has sent it.
    pub source: IpAddr,
    /// What has brought it.
    pub kind: TunnelKind,
    /// Where begins, in bytes, what a socket would have given: the UDP payload, or the IPv6 header.
    pub payload: usize,
    /// Where it ends; behind that is padding.
    pub end: usize,
}

impl TunnelFrame {
    /// Reads the outer headers; `None` if the lengths in them lie. Those of a super-frame in a tunnel
    /// (`segment_bytes` is there) may be too large to be said, so it ends where the frame does.
    #[must_use]
    pub fn parse(frame: &[u8], segment_bytes: Option<u16>) -> Option<Self> {
        if ethernet::outer_type(frame) == Some(EtherType::IPV6) {
            return Self::of_segments(frame);
        }
        Self::of_tunnel(frame, segment_bytes)
    }

    fn of_segments(frame: &[u8]) -> Option<Self> {
        let payload = ethernet::HEADER_BYTES;
        let packet = frame.get(payload..)?;
        let source = Ipv6Addr::from(*packet.get(8..24)?.first_chunk::<16>()?);
        let end = payload + ipv6::HEADER_BYTES + Ipv6Header::parse(packet).ok()?.1.len();
        Some(Self { source: source.into(), kind: TunnelKind::SEGMENTS, payload, end })
    }

    fn of_tunnel(frame: &[u8], segment_bytes: Option<u16>) -> Option<Self> {
        const PAYLOAD: usize = ethernet::HEADER_BYTES + OUTER_BYTES_MIN;
        let source = frame.get(SOURCE_AT..SOURCE_AT + 4)?.first_chunk::<4>()?;
        let datagram = frame.get(ethernet::HEADER_BYTES + ipv4::HEADER_BYTES..)?;
        let udp = UdpHeader::read(datagram).ok()?;
        let payload = match segment_bytes {
            Some(_) => frame.len().checked_sub(PAYLOAD)?,
            None => {
                let ip = Ipv4View::parse(frame.get(ethernet::HEADER_BYTES..)?).ok()?;
                UdpView::parse(ip.payload()).ok()?.payload().len()
            }
        };
        Some(Self {
            source: Ipv4Addr::from(*source).into(),
            kind: TunnelKind::of_udp_port(udp.destination_port)?,
            payload: PAYLOAD,
            end: PAYLOAD + payload,
        })
    }
}

/// Where the source address of an IPv4 packet without VLAN tag stands in its frame.
const SOURCE_AT: usize = ethernet::HEADER_BYTES + 12;

/// The UDP port of the tunnel, if the outer headers are those of a tunnel to this node.
fn outer(own: Ipv4Addr, frame: &[u8], is_super_frame: bool) -> Option<u16> {
    let view = EthernetView::parse(frame).ok()?;
    if view.ethertype() != EtherType::IPV4 || view.vlan().is_some() {
        return None;
    }
    let packet = view.payload();
    let header = packet.first_chunk::<OUTER_BYTES_MIN>()?;
    // Of a super-frame the length may not fit its field: it is judged without it.
    let mut whole = *header;
    let (ip_bytes, udp_bytes) = whole.split_at_mut_checked(ipv4::HEADER_BYTES)?;
    let said = ipv4_length(ip_bytes)?;
    ipv4::set_total_length(ip_bytes, ipv4::HEADER_BYTES as u16).ok()?;
    let ip = Ipv4View::parse(ip_bytes).ok()?;
    let is_whole = ip.fragment_offset().get() == 0 && !ip.more_fragments();
    let is_ours = ip.destination() == own && ip.protocol() == IpProtocol::UDP;
    let udp = UdpHeader::read(udp_bytes).ok()?;
    let fits = is_super_frame
        || (usize::from(said) == packet.len()
            && usize::from(udp.length) + ipv4::HEADER_BYTES == packet.len()
            && UdpView::parse(packet.get(ipv4::HEADER_BYTES..)?).is_ok());
    (is_whole && is_ours && ip.options().is_empty() && fits && udp.checksum == 0)
        .then_some(udp.destination_port)
}

fn ipv4_length(header: &[u8]) -> Option<u16> {
    header.get(2..4).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
}

/// What stands between UDP and the inner frame, and the inner frame.
fn shim(tunnel: u16, bytes: &[u8]) -> Option<(Origin, u32, u32, &[u8])> {
    match tunnel {
        ports::VXLAN => {
            let (header, rest) = VxlanHeader::parse(bytes).ok()?;
            Some((Origin::NetworkTunnel, header.vni.get(), 0, rest))
        }
        ports::MPLS_UDP => {
            let (context, after) = LabelStackEntry::parse(bytes).ok()?;
            let (function, rest) = LabelStackEntry::parse(after).ok()?;
            // That the labels stand for a position is the engine's to say: others are never known.
            let position = u32::from_be_bytes(function.to_bytes());
            let is_pair = !context.is_bottom && function.is_bottom;
            is_pair.then_some((Origin::MplsTunnel, context.label.get(), position, rest))
        }
        ports::VXLAN_GPE => {
            let (gpe, rest) = VxlanGpeHeader::parse(bytes).ok()?;
            let (nsh, rest) = NshView::parse(rest).ok()?;
            let is_plain = gpe.next == GpeNextProtocol::NSH
                && !gpe.is_oam
                && !nsh.is_oam()
                && nsh.next() == NshNextProtocol::ETHERNET
                && matches!(nsh.metadata(), Metadata::Type1(_));
            let position = u32::from(nsh.si().0) << 8 | u32::from(nsh.ttl().get());
            is_plain.then_some((Origin::NshTunnel, nsh.spi().get(), position, rest))
        }
        _ => None,
    }
}

/// The key of a frame but for where it came in, and its measure.
fn inner(bytes: &[u8], segment_bytes: Option<u16>) -> Option<Sight> {
    let ethernet = EthernetView::parse(bytes).ok()?;
    let view = FrameView::parse(bytes).ok()?;
    let flow = view.flow?;
    let header_bytes = usize::from(view.l4_offset?) - usize::from(view.l3_offset);
    let (family, has_no_options) = match flow.source {
        IpAddr::V4(_) => (4, header_bytes == ipv4::HEADER_BYTES),
        IpAddr::V6(_) => (6, header_bytes == ipv6::HEADER_BYTES),
    };
    let has_key = ethernet.header_len() <= ethernet::HEADER_BYTES + ethernet::TAG_BYTES
        && view.fragment == Fragment::Whole
        && has_no_options
        && !view.is_multicast_or_link_local()
        && is_keyed_upper(&view, flow.protocol);
    if !has_key {
        return None;
    }
    let vlan = ethernet.vlan().map_or(0, |tag| {
        u16::from(tag.priority) << 13 | u16::from(tag.is_drop_eligible) << 12 | tag.id.get()
    });
    let key = FlowKey {
        family,
        protocol: flow.protocol.0,
        vlan,
        source: octets(flow.source),
        destination: octets(flow.destination),
        source_port: flow.source_port.to_be(),
        destination_port: flow.destination_port.to_be(),
        destination_mac: view.destination.0,
        source_mac: view.source.0,
        ..FlowKey::default()
    };
    let (volume, segment_bytes) = measure(bytes, &view, &flow, segment_bytes)?;
    Some(Sight { key, volume, segment_bytes, inner_offset: 0 })
}

fn is_keyed_upper(view: &FrameView, protocol: IpProtocol) -> bool {
    let kind = view.icmp_type;
    match protocol {
        IpProtocol::TCP | IpProtocol::UDP => true,
        IpProtocol::ICMP => kind.is_some_and(|kind| IcmpV4Type(kind).is_echo()),
        IpProtocol::ICMPV6 => kind.is_some_and(|kind| IcmpV6Type(kind).is_echo()),
        _ => false,
    }
}

/// As the engine's: a super-frame stands for its wire packets.
fn measure(
    bytes: &[u8],
    view: &FrameView,
    flow: &flow::FlowKey,
    segment_bytes: Option<u16>,
) -> Option<(Volume, Option<u32>)> {
    let Some(segment_bytes) = segment_bytes else {
        return Some((Volume { packets: 1, bytes: bytes.len() as u64 }, None));
    };
    let kind = match flow.protocol {
        IpProtocol::TCP => SegmentKind::Tcp,
        IpProtocol::UDP => SegmentKind::Udp,
        _ => return None,
    };
    let cut = SuperFrame::parse(bytes, kind, segment_bytes).ok()?;
    let (packets, header_bytes) = (u64::from(cut.count()), cut.header_bytes() as u64);
    let total = u64::from(view.end) + (packets - 1) * header_bytes;
    let tag_bytes = usize::from(view.l3_offset) - ethernet::HEADER_BYTES;
    let longest = (cut.header_bytes() - tag_bytes) as u32 + u32::from(segment_bytes);
    Some((Volume { packets, bytes: total }, Some(longest)))
}

fn octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => {
            let [a, b, c, d] = v4.octets();
            let mut octets = [0; 16];
            octets[..4].copy_from_slice(&[a, b, c, d]);
            octets
        }
        IpAddr::V6(v6) => Ipv6Addr::octets(&v6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OuterHeader;

    #[test]
    fn the_payload_of_a_tunnel_ends_where_its_lengths_say() {
        let outer = OuterHeader {
            source: Ipv4Addr::new(192, 0, 2, 7),
            destination: Ipv4Addr::new(192, 0, 2, 1),
            source_port: 50_000,
            destination_port: ports::VXLAN,
        };
        let mut frame = vec![0; 12];
        frame.extend([8, 0]);
        frame.extend(outer.with(&[0; 8]).unwrap());
        ipv4::set_total_length(&mut frame[14..], 36).unwrap();
        catena_wire::udp::set_length(&mut frame[34..], 16).unwrap();
        // Padding, as of a short Ethernet frame.
        frame.extend([0; 10]);
        let seen = TunnelFrame::parse(&frame, None).unwrap();
        let (source, kind) = (Ipv4Addr::new(192, 0, 2, 7).into(), seen.kind);
        assert_eq!(kind.udp_port(), ports::VXLAN);
        assert_eq!(seen, TunnelFrame { source, kind, payload: 42, end: 50 });
        let whole = TunnelFrame::parse(&frame, Some(1_000)).unwrap();
        assert_eq!(whole.end, 60, "a super-frame ends with the frame");
        catena_wire::udp::set_length(&mut frame[34..], 17).unwrap();
        assert_eq!(TunnelFrame::parse(&frame, None), None, "longer than its packet");
        assert_eq!(TunnelFrame::parse(&frame[..41], None), None);
    }
}
