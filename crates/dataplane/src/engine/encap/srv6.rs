//! Paths over segments of IPv6 (RFC 8754): packets of their own between nodes, whose routing header names the nodes on
//! the way. Each identifier of a node says path and hop (RFC 8986 section 3.1): which node is active says where on its
//! path the packet is.
//!
//! Headers are made of ways and not of positions ([`SegmentsHeader`]), so `push` has none to give. A node takes the
//! header off for its functions, as the proxies of service programming do, and writes the rest of the way in front of
//! what comes back. Inside is an IP packet, whose frame is made anew and addressed to nobody, or the frame itself.

use super::records::{Fresh, LeavingRecords, TAIL};
use super::{
    Carried, Headed, Header, HeaderSide, Located, PathEncap, Peeked, Positions, TTL_INITIAL,
};
use crate::engine::packet::trim_front;
use catena_io::Buffer;
use catena_model::explain::HeaderLayer;
use catena_model::limits::SEGMENTS_MAX;
use catena_model::program::{PROXY_MAC, SegmentPlace};
use catena_model::resource::Encapsulation;
use catena_model::{DropReason, PathId, TunnelKind};
use catena_wire::ethernet::{self, EthernetHeader, HEADER_BYTES};
use catena_wire::icmp::error_message::Said;
use catena_wire::ipv6::{self, Ipv6Header};
use catena_wire::scalar::{EtherType, FlowLabel, IpProtocol};
use catena_wire::source_route;
use catena_wire::srv6::{
    self, Decapsulation, Encaps, Inner, Locator, SegmentFlags, SegmentRoutingView, Sid, Srv6Error,
    Srv6View,
};
use catena_wire::srv6_int::{self, IntEncaps, IntTag, MapInfo};
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

/// The two of them: with whole frames inside, and with packets.
pub(super) struct Srv6 {
    pub(super) keeps_frame: bool,
}

impl Srv6 {
    fn encapsulation(&self) -> Encapsulation {
        match self.keeps_frame {
            true => Encapsulation::Srv6Ethernet,
            false => Encapsulation::Srv6,
        }
    }

    fn read(&self, positions: &Positions, packet: &[u8]) -> Result<Located, DropReason> {
        let (Sid { path, hop, .. }, header_bytes, ttl) = self.says(positions, packet)?;
        let position = positions.find(PathId(path), self.encapsulation(), hop, ttl)?;
        Ok(Located { position, header_bytes })
    }

    /// Which of this node's identifiers is active, the bytes before the frame, and the time to live.
    fn says(&self, positions: &Positions, packet: &[u8]) -> Result<(Sid, usize, u8), DropReason> {
        let outer = Outer::read(packet)?;
        let own = positions.own_segments().ok_or(DropReason::NoSegments)?;
        let sid = Sid::read(outer.header.destination).ok();
        let is_own = |sid: &Sid| sid.locator == own.locator && sid.is_ours();
        let sid = sid.filter(is_own).ok_or(DropReason::ForeignSegment)?;
        let version = packet.get(outer.bytes).map(|first| first >> 4);
        let header_bytes = match (outer.inner, self.keeps_frame, version) {
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

    /// Makes the frame whole that is under a header, and lets it tell of congestion.
    fn restore(&self, buffer: &mut Buffer, header_bytes: usize) -> Result<(), DropReason> {
        let malformed = DropReason::MalformedSrv6;
        let packet = buffer.bytes_mut();
        let (_, payload) = Ipv6Header::parse(packet).map_err(|_| malformed)?;
        let end = ipv6::HEADER_BYTES + payload.len();
        if !self.keeps_frame {
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
                let before = if self.keeps_frame { 0 } else { HEADER_BYTES };
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
        self.keeps_frame.then_some(outer.bytes)
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
        let sid = Sid::read(destination).ok();
        let layer = HeaderLayer::Segments {
            destination,
            way: routing.map_or_else(|| vec![destination], |routing| routing.way().collect()),
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
}

impl Outer {
    fn read(packet: &[u8]) -> Result<Self, DropReason> {
        let malformed = DropReason::MalformedSrv6;
        let (header, _) = Ipv6Header::parse(packet).map_err(|_| malformed)?;
        if header.next_header != IpProtocol::ROUTING {
            return Ok(Self { header, inner: header.next_header, bytes: ipv6::HEADER_BYTES });
        }
        let view = Srv6View::parse(packet).map_err(|_| malformed)?;
        Ok(Self { header, inner: view.routing().next(), bytes: view.payload_offset() })
    }
}

/// The encapsulation of a packet that a tunnel of this one has brought: where segments have led it here, what is inside
/// says which.
#[inline]
pub(crate) fn carrier(by: Encapsulation, packet: &[u8]) -> Encapsulation {
    if !by.is_segmented() {
        return by;
    }
    match srv6::carried_protocol(packet) {
        Some(IpProtocol::ETHERNET) => Encapsulation::Srv6Ethernet,
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
    let carrier = Srv6 { keeps_frame: encapsulation.capabilities().keeps_frame };
    let (Sid { path, hop, .. }, header_bytes, ttl) = carrier.says(positions, packet).ok()?;
    Some(Peeked { path, hop, ttl, header_bytes: u8::try_from(header_bytes).ok()? })
}

/// The packet under a header, whose frame is not carried, and its type. For who only looks.
pub(super) fn packet_under(bytes: &[u8]) -> Option<(&[u8], EtherType)> {
    let outer = Outer::read(bytes).ok()?;
    let packet = bytes.get(outer.bytes..)?;
    Some((packet, source_route::ip_ether_type(packet).ok()?))
}

/// One that packets visit on a way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Segment {
    /// A node, and where on its path a packet is there.
    Node {
        locator: Locator,
        hop: u16,
        /// Does the node deliver what comes out?
        is_last: bool,
    },
    /// Of somebody else, who leads packets on.
    Other(Ipv6Addr),
}

/// The way to the next nodes, ready to be written in front of packets.
#[derive(Clone, Debug)]
pub(crate) struct SegmentsHeader {
    way: SegmentsWay,
    bytes: Box<[u8]>,
    recorded: Option<Recorded>,
}

/// What a header says of the frame that it is in front of.
#[derive(Clone, Copy, Debug)]
struct Inside {
    protocol: IpProtocol,
    class: u8,
}

/// What headers of a way are made of.
#[derive(Clone, Debug)]
pub(crate) struct SegmentsWay {
    pub(crate) encapsulation: Encapsulation,
    pub(crate) path: PathId,
    pub(crate) source: SegmentPlace,
    pub(crate) segments: Box<[Segment]>,
    /// What packets take along; none: nothing.
    pub(crate) marking: Option<Marking>,
}

/// What headers say that take records along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Marking {
    pub(crate) map: MapInfo,
    pub(crate) colour: u8,
}

/// Headers that take records along, with none in them.
#[derive(Clone, Debug)]
struct Recorded {
    /// From the next node on.
    onward: Box<[u8]>,
    /// From this one on, which has served functions; empty: with it there are too many.
    from_here: Box<[u8]>,
}

impl SegmentsWay {
    fn keeps_frame(&self) -> bool {
        self.encapsulation.capabilities().keeps_frame
    }

    fn address(&self, segment: &Segment) -> Ipv6Addr {
        let (locator, hop, is_last) = match *segment {
            Segment::Node { locator, hop, is_last } => (locator, hop, is_last),
            Segment::Other(address) => return address,
        };
        let function = match (is_last, self.keeps_frame()) {
            (false, _) => Sid::END,
            (true, false) => Sid::END_DT46,
            (true, true) => Sid::END_DX2,
        };
        Sid { locator, function, path: self.path.0, hop }.address()
    }

    /// The header over these segments.
    fn emit(
        &self,
        segments: &[Segment],
        marking: Option<Marking>,
    ) -> Result<Box<[u8]>, DropReason> {
        let unfit = DropReason::SegmentsUnfit;
        let mut way = [Ipv6Addr::UNSPECIFIED; SEGMENTS_MAX];
        let way = way.get_mut(..segments.len()).ok_or(unfit)?;
        for (place, segment) in way.iter_mut().zip(segments) {
            *place = self.address(segment);
        }
        let (source, inner) = (self.source.address, Inner::Ethernet);
        let flow_label = FlowLabel::new(0).map_err(|_| unfit)?;
        let mut bytes = [0; BYTES_MAX];
        let len = match marking {
            Some(Marking { map, colour }) => {
                let tag = IntTag { is_for_functions: true, colour, ..IntTag::default() };
                let (traffic_class, key_id, tail) = (0, None, TAIL);
                let encaps = IntEncaps {
                    source,
                    way,
                    traffic_class,
                    flow_label,
                    inner,
                    map,
                    tag,
                    tail,
                    key_id,
                };
                encaps.emit(0, &mut bytes).map_err(|_| unfit)?
            }
            None => {
                let encaps = Encaps {
                    source,
                    way,
                    traffic_class: 0,
                    flow_label,
                    hop_limit: 0,
                    inner,
                    is_reduced: false,
                    flags: SegmentFlags::default(),
                    tag: 0,
                    tlvs: &[],
                    key_id: None,
                };
                encaps.emit(0, &mut bytes).map_err(|_| unfit)?
            }
        };
        bytes.get(..len).map(Box::from).ok_or(unfit)
    }

    /// Those that take records along, if packets do. This node is a hop of its own where it has served functions.
    fn recorded(&self) -> Result<Option<Recorded>, DropReason> {
        if self.marking.is_none() {
            return Ok(None);
        }
        let own = Segment::Node { locator: self.source.locator, hop: 0, is_last: false };
        let all: Vec<Segment> = std::iter::once(own).chain(self.segments.iter().copied()).collect();
        Ok(Some(Recorded {
            onward: self.emit(&self.segments, self.marking)?,
            from_here: self.emit(&all, self.marking).unwrap_or_default(),
        }))
    }
}

impl SegmentsHeader {
    /// That of a way.
    ///
    /// # Errors
    /// [`DropReason::SegmentsUnfit`]: there are none, or too many.
    pub(crate) fn new(way: SegmentsWay) -> Result<Self, DropReason> {
        let (bytes, recorded) = (way.emit(&way.segments, None)?, way.recorded()?);
        Ok(Self { way, bytes, recorded })
    }

    /// What stands in front of a frame on this path, or in the place of its Ethernet header. Its length is known where
    /// it is put. `leaving`: what the packet takes along.
    ///
    /// # Errors
    /// The frame is no plain IP packet, and is not carried whole.
    pub(crate) fn write(
        &self,
        frame: &[u8],
        (path, ttl): (PathId, u8),
        flow_hash: u64,
        leaving: Option<LeavingRecords<'_>>,
    ) -> Result<Header, DropReason> {
        // That of a slice, which has the hops of another.
        if path != self.way.path {
            let own = Self::new(SegmentsWay { path, ..self.way.clone() })?;
            return own.write(frame, (path, ttl), flow_hash, leaving);
        }
        let inside = self.inside(frame)?;
        let mut header = Header { is_counted: true, ..Header::EMPTY };
        if !self.record(&mut header, leaving) {
            header.copy(&self.bytes);
        }
        header.replaces = self.replaces();
        self.complete(header.bytes_mut(), inside, ttl, flow_hash)?;
        Ok(header)
    }

    /// The same in front of a frame where it lies, on the path of the way, without records: there is room for it.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub(crate) fn put_before(
        &self,
        buffer: &mut Buffer,
        ttl: u8,
        flow_hash: u64,
    ) -> Result<(), DropReason> {
        let malformed = DropReason::MalformedSrv6;
        let inside = self.inside(buffer.bytes())?;
        buffer.prepend(self.added_bytes()).ok_or(malformed)?;
        let packet = buffer.bytes_mut();
        let payload = packet.len().checked_sub(ipv6::HEADER_BYTES);
        let payload = payload.and_then(|bytes| u16::try_from(bytes).ok()).ok_or(malformed)?;
        let header = packet.get_mut(..self.bytes.len()).ok_or(malformed)?;
        header.copy_from_slice(&self.bytes);
        self.complete(header, inside, ttl, flow_hash)?;
        ipv6::set_payload_length(packet, payload).map_err(|_| malformed)
    }

    /// Is it of this path, and the same for all packets but for what is inside? Slices have paths of their own.
    pub(crate) fn is_of(&self, path: PathId) -> bool {
        self.way.path == path && self.recorded.is_none()
    }

    /// Bytes by which a frame is longer with it, if it takes no records along.
    pub(crate) fn added_bytes(&self) -> usize {
        self.bytes.len().saturating_sub(self.replaces())
    }

    /// Bytes at the start of a frame in whose place it stands.
    fn replaces(&self) -> usize {
        if self.way.keeps_frame() { 0 } else { HEADER_BYTES }
    }

    /// What it says of a frame.
    fn inside(&self, frame: &[u8]) -> Result<Inside, DropReason> {
        match (packet_in(frame), self.way.keeps_frame()) {
            // What comes out as a frame could not tell of congestion (RFC 6040 section 4.1).
            (packet, true) => {
                let class = packet.map_or(0, |(_, class)| class & !ECN);
                Ok(Inside { protocol: IpProtocol::ETHERNET, class })
            }
            (packet, false) => packet.map(|(protocol, class)| Inside { protocol, class }),
        }
    }

    /// Writes into the header what differs among packets, but for their length.
    fn complete(
        &self,
        header: &mut [u8],
        Inside { protocol, class }: Inside,
        ttl: u8,
        flow_hash: u64,
    ) -> Result<(), DropReason> {
        let malformed = DropReason::MalformedSrv6;
        let label = FlowLabel::new((flow_hash & FLOW_LABEL_MAX) as u32).map_err(|_| malformed)?;
        srv6::set_carried_protocol(header, protocol).map_err(|_| malformed)?;
        // Whoever gets it asks who has sent it, also where another began it.
        ipv6::set_source(header, self.way.source.address).map_err(|_| malformed)?;
        ipv6::set_traffic_class(header, class).map_err(|_| malformed)?;
        ipv6::set_flow_label(header, label).map_err(|_| malformed)?;
        ipv6::set_hop_limit(header, ttl).map_err(|_| malformed)
    }

    /// Writes the header that takes records along; false: the packet takes none, or not along this way.
    fn record(&self, header: &mut Header, leaving: Option<LeavingRecords<'_>>) -> bool {
        let written = leaving.zip(self.recorded.as_ref()).and_then(|(leaving, recorded)| {
            let next = self.way.address(self.way.segments.first()?);
            let Recorded { onward, from_here } = recorded;
            leaving.write(Fresh { onward, from_here }, next, &mut header.bytes)
        });
        let Some((len, numbered)) = written else { return false };
        (header.len, header.numbered) = (len, numbered);
        true
    }
}

/// The protocol of the packet in a frame, and its traffic class.
fn packet_in(frame: &[u8]) -> Result<(IpProtocol, u8), DropReason> {
    let ether_type = ethernet::outer_type(frame).ok_or(DropReason::MalformedEthernet)?;
    let packet = frame.get(HEADER_BYTES..).unwrap_or_default();
    if source_route::ip_ether_type(packet) != Ok(ether_type) {
        return Err(DropReason::NotPlainIp);
    }
    match (ether_type, packet) {
        (EtherType::IPV4, [_, class, ..]) => Ok((IpProtocol::IPV4, *class)),
        (EtherType::IPV6, [first, second, ..]) => Ok((IpProtocol::IPV6, first << 4 | second >> 4)),
        _ => Err(DropReason::NotPlainIp),
    }
}
