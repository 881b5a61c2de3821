//! Headers over segments: what stands in them, and how they come in front of packets. Knows ways; refuses to know which
//! a packet takes, and what headers of others say.

use super::super::records::{Fresh, LeavingRecords, TAIL};
use super::{BYTES_MAX, ECN, FLOW_LABEL_MAX, Header};
use catena_io::Buffer;
use catena_model::limits::SEGMENTS_MAX;
use catena_model::program::SegmentPlace;
use catena_model::resource::Encapsulation;
use catena_model::{DropReason, PathId};
use catena_wire::ethernet::{self, HEADER_BYTES};
use catena_wire::ipv6;
use catena_wire::scalar::{EtherType, FlowLabel, IpProtocol};
use catena_wire::source_route;
use catena_wire::srv6::{self, CSIDS_MAX, Encaps, Inner, Locator, SegmentFlags, Sid};
use catena_wire::srv6_int::{IntEncaps, IntTag, MapInfo};
use std::net::Ipv6Addr;

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
        let function = match (is_last, self.encapsulation) {
            (false, Encapsulation::Srv6Csid) => Sid::END_NEXT_CSID,
            (true, Encapsulation::Srv6Csid) => Sid::END_DT46_NEXT_CSID,
            (true, Encapsulation::Srv6Ethernet) => Sid::END_DX2,
            (false, _) => Sid::END,
            (true, _) => Sid::END_DT46,
        };
        Sid { locator, function, path: self.path.0, hop }.address()
    }

    /// The addresses that a header over these segments has, in the order in which they are visited.
    fn addresses<'a>(
        &self,
        segments: &[Segment],
        into: &'a mut [Ipv6Addr; SEGMENTS_MAX],
    ) -> Result<&'a [Ipv6Addr], DropReason> {
        let unfit = DropReason::SegmentsUnfit;
        if self.encapsulation.is_compressed() {
            return self.compressed(segments, into).ok_or(unfit);
        }
        let way = into.get_mut(..segments.len()).ok_or(unfit)?;
        for (place, segment) in way.iter_mut().zip(segments) {
            *place = self.address(segment);
        }
        Ok(way)
    }

    /// The same with containers for all nodes but the last one. None: there are too many, or they are in no one block.
    ///
    /// The last says on which path the packet is, and where it is there when it comes to the first: whoever sends it on
    /// from there writes a header of its own.
    fn compressed<'a>(
        &self,
        segments: &[Segment],
        into: &'a mut [Ipv6Addr; SEGMENTS_MAX],
    ) -> Option<&'a [Ipv6Addr]> {
        let mut named = [([0; srv6::BLOCK_BYTES], 0); SEGMENTS_MAX];
        let named = named.get_mut(..segments.len())?;
        for (place, segment) in named.iter_mut().zip(segments) {
            let Segment::Node { locator, .. } = segment else { return None };
            *place = locator.compressed();
        }
        let (Segment::Node { hop, .. }, Segment::Node { locator, is_last, .. }) =
            (*segments.first()?, *segments.last()?)
        else {
            return None;
        };
        let (_, before) = named.split_last()?;
        let mut len = 0;
        for chunk in before.chunks(CSIDS_MAX) {
            let (block, _) = *chunk.first()?;
            let mut csids = [0; CSIDS_MAX];
            for (csid, (own, number)) in csids.iter_mut().zip(chunk) {
                *csid = Some(*number).filter(|_| *own == block)?;
            }
            *into.get_mut(len)? = srv6::container(block, csids.get(..chunk.len())?).ok()?;
            len += 1;
        }
        *into.get_mut(len)? = self.address(&Segment::Node { locator, hop, is_last });
        into.get(..=len)
    }

    /// The header over these segments.
    fn emit(
        &self,
        segments: &[Segment],
        marking: Option<Marking>,
    ) -> Result<Box<[u8]>, DropReason> {
        let unfit = DropReason::SegmentsUnfit;
        let mut way = [Ipv6Addr::UNSPECIFIED; SEGMENTS_MAX];
        let way = self.addresses(segments, &mut way)?;
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
                    is_reduced: self.encapsulation.is_compressed(),
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
