//! Paths over segments of IPv6 (RFC 8754): packets of their own between nodes, whose routing header names the nodes on
//! the way. Each identifier of a node says path and hop (RFC 8986 section 3.1): which node is active says where on its
//! path the packet is. Where 16 bits name each node but the last one (NEXT-CSID, RFC 9800), the last identifier says
//! it.
//!
//! Headers are made of ways and not of positions ([`SegmentsHeader`]), so `push` has none to give. A node takes the
//! header off for its functions, as the proxies of service programming do, and writes the rest of the way in front of
//! what comes back. Inside is an IP packet, whose frame is made anew and addressed to nobody, or the frame itself.

mod ways;

pub(crate) use ways::{Marking, Segment, SegmentsHeader, SegmentsWay};

use super::{
    Carried, Headed, Header, HeaderSide, Located, PathEncap, Peeked, Positions, TTL_INITIAL,
};
use crate::engine::packet::trim_front;
use catena_io::Buffer;
use catena_model::explain::HeaderLayer;
use catena_model::limits::SEGMENTS_MAX;
use catena_model::program::PROXY_MAC;
use catena_model::resource::Encapsulation;
use catena_model::{DropReason, PathId, TunnelKind};
use catena_wire::ethernet::{EthernetHeader, HEADER_BYTES};
use catena_wire::icmp::error_message::Said;
use catena_wire::ipv6::{self, Ipv6Header};
use catena_wire::scalar::{EtherType, FlowLabel, IpProtocol};
use catena_wire::source_route;
use catena_wire::srv6::{
    self, Decapsulation, Inner, Locator, SegmentRoutingView, Sid, Srv6Error, Srv6View,
};
use catena_wire::srv6_int;
use std::net::Ipv6Addr;

/// Bytes of the longest header: IPv6, and a routing header full of segments that takes records along.
const BYTES_MAX: usize = srv6_int::encapsulation_bytes(SEGMENTS_MAX);
const _: () = assert!(BYTES_MAX <= super::HEADER_BYTES_MAX, "segments fit no header");

/// The bits of ECN in a traffic class (RFC 3168 section 5).
const ECN: u8 = 3;
/// What of a flow's hash its label holds (RFC 6437).
const FLOW_LABEL_MAX: u64 = FlowLabel::MAX as u64;

/// The tunnel of packets of IPv6, whatever is inside of them.
pub(crate) const SEGMENTED: TunnelKind = TunnelKind::Path(Encapsulation::Srv6);

/// All of them: with packets inside, with whole frames, and with compressed identifiers.
pub(super) struct Srv6(pub(super) Encapsulation);

impl Srv6 {
    #[inline]
    fn keeps_frame(&self) -> bool {
        self.0.capabilities().keeps_frame
    }

    fn read(&self, positions: &Positions, packet: &[u8]) -> Result<Located, DropReason> {
        let (Sid { path, hop, .. }, header_bytes, ttl) = self.says(positions, packet)?;
        let position = positions.find(PathId(path), self.0, hop, ttl)?;
        Ok(Located { position, header_bytes })
    }

    /// Which of this node's identifiers is active, or the last one where that says path and hop, the bytes before the
    /// frame, and the time to live.
    fn says(&self, positions: &Positions, packet: &[u8]) -> Result<(Sid, usize, u8), DropReason> {
        let outer = Outer::read(packet)?;
        let own = positions.own_segments().ok_or(DropReason::NoSegments)?;
        let sid = self.sid(&outer, own.locator).ok_or(DropReason::ForeignSegment)?;
        let version = packet.get(outer.bytes).map(|first| first >> 4);
        let header_bytes = match (outer.inner, self.keeps_frame(), version) {
            (IpProtocol::ETHERNET, true, _) => outer.bytes,
            // The frame begins before the packet.
            (IpProtocol::IPV4, false, Some(4)) | (IpProtocol::IPV6, false, Some(6)) => {
                outer.bytes - HEADER_BYTES
            }
            (IpProtocol::IPV4 | IpProtocol::IPV6, false, _) => {
                return Err(DropReason::MalformedSrv6);
            }
            _ => return Err(DropReason::UnsupportedNextProtocol),
        };
        let ttl = match outer.header.hop_limit {
            0 | 1 => return Err(DropReason::TtlExpired),
            more => (more - 1).min(TTL_INITIAL),
        };
        Ok((sid, header_bytes, ttl))
    }

    /// What says path and hop, if the packet is for one of this node's identifiers.
    fn sid(&self, outer: &Outer, own: Locator) -> Option<Sid> {
        let active = outer.header.destination;
        if !self.0.is_compressed() {
            let sid = Sid::read(active).ok()?;
            return (sid.locator == own && sid.is_ours()).then_some(sid);
        }
        let is_own = own.contains(active) && (outer.leads_on || active == outer.last);
        let sid = Sid::read(outer.last).ok().filter(|_| is_own)?;
        sid.ends_compressed().then_some(sid)
    }

    /// Makes the frame whole that is under a header, and lets it tell of congestion.
    fn restore(&self, buffer: &mut Buffer, header_bytes: usize) -> Result<(), DropReason> {
        let malformed = DropReason::MalformedSrv6;
        let packet = buffer.bytes_mut();
        let (_, payload) = Ipv6Header::parse(packet).map_err(|_| malformed)?;
        let end = ipv6::HEADER_BYTES + payload.len();
        if !self.keeps_frame() {
            let start = header_bytes + HEADER_BYTES;
            let (inner, ether_type) = match packet.get(start).map(|first| first >> 4) {
                Some(4) => (Inner::Ipv4, EtherType::IPV4),
                Some(6) => (Inner::Ipv6, EtherType::IPV6),
                _ => return Err(malformed),
            };
            let inherited = Decapsulation { inner, range: start..end }.inherit_ecn(packet);
            inherited.map_err(|error| match error {
                Srv6Error::Congestion => DropReason::CongestionUntold,
                _ => malformed,
            })?;
            let frame = EthernetHeader::untagged(PROXY_MAC, PROXY_MAC, ether_type);
            let place = packet.get_mut(header_bytes..).ok_or(malformed)?;
            frame.emit(place).map_err(|_| malformed)?;
        }
        buffer.truncate(end);
        if trim_front(buffer, header_bytes) { Ok(()) } else { Err(malformed) }
    }
}

impl PathEncap for Srv6 {
    fn locate(
        &self,
        positions: &Positions,
        _carried: &mut Carried,
        _side: HeaderSide,
        frames: &mut dyn Iterator<Item = Headed<'_>>,
    ) {
        for frame in frames {
            *frame.located = self.read(positions, frame.buffer.bytes());
        }
    }

    /// Those that take records along: functions do not see them.
    fn keep(
        &self,
        positions: &Positions,
        carried: &mut Carried,
        frames: &mut dyn Iterator<Item = Headed<'_>>,
    ) {
        for frame in frames {
            let packet = frame.buffer.bytes();
            if let Ok(located) = frame.located
                && srv6_int::takes_records(packet)
            {
                let before = if self.keeps_frame() { 0 } else { HEADER_BYTES };
                let header = packet.get(..located.header_bytes + before).unwrap_or_default();
                let (now_ns, path) = (carried.now_ns(), positions.id(located.position));
                let name = carried.records.keep(now_ns, path, header);
                located.position = located.position.with_records(name);
            }
        }
    }

    fn pop(&self, _side: HeaderSide, frames: &mut dyn Iterator<Item = Headed<'_>>) {
        for frame in frames {
            if let Ok(located) = *frame.located
                && let Err(reason) = self.restore(frame.buffer, located.header_bytes)
            {
                *frame.located = Err(reason);
            }
        }
    }

    /// A packet inside reads as no frame.
    fn header_bytes(&self, _side: HeaderSide, bytes: &[u8]) -> Option<usize> {
        let outer = Outer::read(bytes).ok()?;
        self.keeps_frame().then_some(outer.bytes)
    }

    fn describe(&self, _side: HeaderSide, bytes: &[u8]) -> Option<(Vec<HeaderLayer>, usize)> {
        let mut own = bytes.to_vec();
        // Who asks may have the header alone, of a packet that is longer.
        if Ipv6Header::parse(bytes).is_err() {
            let payload = u16::try_from(bytes.len().checked_sub(ipv6::HEADER_BYTES)?).ok()?;
            ipv6::set_payload_length(&mut own, payload).ok()?;
        }
        let outer = Outer::read(&own).ok()?;
        let Ipv6Header { destination, hop_limit, .. } = outer.header;
        let view = Srv6View::parse(&own).ok();
        let routing = view.as_ref().map(Srv6View::routing);
        let says = Sid::read(outer.last).ok().filter(Sid::ends_compressed);
        let sid = says.or_else(|| Sid::read(destination).ok());
        let layer = HeaderLayer::Segments {
            destination,
            way: routing.map_or_else(|| vec![destination], |routing| way(destination, routing)),
            left: routing.map_or(0, SegmentRoutingView::segments_left),
            hop_limit,
            path: sid.map(|sid| sid.path),
            hop: sid.map(|sid| sid.hop),
        };
        Some((vec![layer], outer.bytes))
    }
}

/// What stands before the packet or frame that is carried. A routing header may have come off before the last segment
/// (PSP, RFC 8986 section 4.16.1).
struct Outer {
    header: Ipv6Header,
    /// What is inside.
    inner: IpProtocol,
    /// Bytes before that.
    bytes: usize,
    /// The segment at which its way ends.
    last: Ipv6Addr,
    /// Are there segments behind the active one?
    leads_on: bool,
}

impl Outer {
    fn read(packet: &[u8]) -> Result<Self, DropReason> {
        let malformed = DropReason::MalformedSrv6;
        let (header, _) = Ipv6Header::parse(packet).map_err(|_| malformed)?;
        if header.next_header != IpProtocol::ROUTING {
            let (inner, last) = (header.next_header, header.destination);
            return Ok(Self { header, inner, bytes: ipv6::HEADER_BYTES, last, leads_on: false });
        }
        let view = Srv6View::parse(packet).map_err(|_| malformed)?;
        let routing = view.routing();
        Ok(Self {
            header,
            inner: routing.next(),
            bytes: view.payload_offset(),
            last: routing.segment(0).ok_or(malformed)?,
            leads_on: routing.segments_left() > 0,
        })
    }
}

/// All segments of a way: the first may be left out of the header (H.Encaps.Red, RFC 8986 section 5.2).
fn way(destination: Ipv6Addr, routing: &SegmentRoutingView<'_>) -> Vec<Ipv6Addr> {
    let is_reduced = routing.segments_left() > routing.last_entry();
    is_reduced.then_some(destination).into_iter().chain(routing.way()).collect()
}

/// The encapsulation of a packet that a tunnel of this one has brought: where segments have led it here, what is inside
/// says which, or the last of them.
#[inline]
pub(crate) fn carrier(by: Encapsulation, packet: &[u8]) -> Encapsulation {
    if !by.is_segmented() {
        return by;
    }
    match srv6::carried_protocol(packet) {
        Some(IpProtocol::ETHERNET) => Encapsulation::Srv6Ethernet,
        _ if srv6::is_compressed(packet) => Encapsulation::Srv6Csid,
        _ => Encapsulation::Srv6,
    }
}

/// What the sender of a packet that ended for this reason is told (RFC 8754 section 4.3.1.1, RFC 8986 section 4.1.1);
/// none: nothing.
pub(crate) fn error_of(by: Encapsulation, packet: &[u8], reason: DropReason) -> Option<Said> {
    if !by.is_segmented() {
        return None;
    }
    let (code, pointer) = match reason {
        DropReason::TtlExpired => return Some(Said::time_exceeded_v6()),
        DropReason::MalformedSrv6 => Srv6View::parse(packet).err()?.parameter_problem()?,
        DropReason::UnsupportedNextProtocol => {
            let Outer { inner: protocol, bytes: offset, .. } = Outer::read(packet).ok()?;
            Srv6Error::Inner { protocol, offset }.parameter_problem()?
        }
        _ => return None,
    };
    Some(Said::parameter_problem_v6(code, pointer))
}

/// A packet as it comes to a node, once others on the way have led it on by their segments, as each is taken to do.
pub(crate) fn led_on(mut packet: Vec<u8>, to: Locator) -> Vec<u8> {
    let is_there = |packet: &[u8]| {
        let header = Ipv6Header::parse(packet).ok().map(|(header, _)| header);
        header.is_none_or(|header| Locator::of(header.destination) == Ok(to))
    };
    while !is_there(&packet) && srv6::end(&mut packet).is_ok() {}
    packet
}

/// What a header over segments says that brings nothing special with it: no records, no congestion, and no octets that
/// it does not count.
#[inline]
pub(crate) fn peek_segments(
    positions: &Positions,
    encapsulation: Encapsulation,
    packet: &[u8],
) -> Option<Peeked> {
    let (header, payload) = Ipv6Header::parse(packet).ok()?;
    let is_special = srv6_int::takes_records(packet)
        || header.traffic_class & ECN == ECN
        || ipv6::HEADER_BYTES + payload.len() != packet.len();
    if is_special {
        return None;
    }
    let said = Srv6(encapsulation).says(positions, packet).ok()?;
    let (Sid { path, hop, .. }, header_bytes, ttl) = said;
    Some(Peeked { path, hop, ttl, header_bytes: u8::try_from(header_bytes).ok()? })
}

/// The packet under a header, whose frame is not carried, and its type. For who only looks.
pub(super) fn packet_under(bytes: &[u8]) -> Option<(&[u8], EtherType)> {
    let outer = Outer::read(bytes).ok()?;
    let packet = bytes.get(outer.bytes..)?;
    Some((packet, source_route::ip_ether_type(packet).ok()?))
}
