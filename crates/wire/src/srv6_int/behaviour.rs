//! The steps that write records: H.Encaps.INT, End.T.INT, plain and for functions, and End.DT.INT.
//!
//! Knows what each of them writes where: inside the segment routing header, and beside it the destination and the hop
//! limit alone. Refuses to know tables, clocks and queues: records come as arguments. No step changes a length.

use core::net::Ipv6Addr;

use super::{
    ArrivalTime, DetectionResult, FLAG, FunctionLatency, IntError, IntMetadata, IntTag, IntView,
    MAP_BYTES, MapInfo, Marks, PAPER_TLV, RESULT_BYTES, TLV, Tail, encapsulation_bytes,
};
use crate::ipv6::{self, Ipv6Header};
use crate::scalar::{FlowCounter, FlowLabel, IpProtocol};
use crate::srv6::{
    Advance, Decapsulation, Encaps, HmacTlv, Inner, SEGMENT_BYTES, SegmentFlags, Srv6Error,
    Srv6View, TAG_RANGE, Tlv, entry_range, hop, of_view,
};

/// Where Segments Left is, bytes from the start of the routing header (RFC 8754 section 2).
const SEGMENTS_LEFT_AT: usize = 3;
/// Where the flags are.
const FLAGS_AT: usize = 5;

/// H.Encaps.INT: what goes in front of a packet or frame that takes records along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntEncaps<'p> {
    /// Source address.
    pub source: Ipv6Addr,
    /// The segments in the order in which they are visited.
    pub way: &'p [Ipv6Addr],
    /// DSCP and ECN in one octet, those of the packet inside.
    pub traffic_class: u8,
    /// Flow label.
    pub flow_label: FlowLabel,
    /// What is inside.
    pub inner: Inner,
    /// What records are to hold.
    pub map: MapInfo,
    /// The tag at the beginning.
    pub tag: IntTag,
    /// How the header ends.
    pub tail: Tail,
    /// Number of the key by which the header is to be signed.
    pub key_id: Option<u32>,
}

impl IntEncaps<'_> {
    /// Bytes by which a packet grows.
    #[must_use]
    pub const fn len_bytes(&self) -> usize {
        let hmac = if self.key_id.is_some() { HmacTlv::LEN } else { 0 };
        encapsulation_bytes(self.way.len()) + hmac
    }

    /// Writes the headers of a packet or frame of so many bytes at the start of `into`, and answers their length.
    ///
    /// # Errors
    /// As [`Encaps::emit`], or when what cannot be signed is to be.
    pub fn emit(&self, inner_bytes: usize, into: &mut [u8]) -> Result<usize, IntError> {
        if self.tail == Tail::Paper && self.key_id.is_some() {
            return Err(IntError::PaperSigned);
        }
        let value = [0, self.map.bits(), 0, 0, 0, 0];
        let tlv = match self.tail {
            Tail::Tlv => Tlv { kind: TLV, value: &value },
            Tail::Paper => Tlv { kind: PAPER_TLV, value: value.split_at(MAP_BYTES).0 },
        };
        let signed = self.key_id.map_or(SegmentFlags::default(), |_| SegmentFlags::HMAC);
        let encapsulation = Encaps {
            source: self.source,
            way: self.way,
            traffic_class: self.traffic_class,
            flow_label: self.flow_label,
            hop_limit: Encaps::HOP_LIMIT,
            inner: self.inner,
            is_reduced: false,
            flags: FLAG.with(signed),
            tag: self.tag.bits(),
            tlvs: &[tlv],
            key_id: self.key_id,
        };
        let length = encapsulation.emit(inner_bytes, into).map_err(IntError::Srv6)?;
        if self.tail == Tail::Paper {
            // A bare word of zeros, where a header of TLVs alone is padded.
            put(into, length - RESULT_BYTES, &[0; RESULT_BYTES]);
        }
        Ok(length)
    }
}

/// What the active segment is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visit {
    /// The packet passes through the node alone.
    Passing,
    /// It goes into functions of the node, the first of which measured this of an earlier packet, if anything.
    Function(Option<DetectionResult>),
}

/// A step to the next segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The next segment, for the table that the packet goes on by.
    pub next: Ipv6Addr,
    /// Was the record written? The packet takes none along, or has no room for it.
    pub is_recorded: bool,
}

/// End.T.INT: the next segment becomes the destination, with a hop less, and the record takes the place of the one
/// that is done with; F is by the visit. A packet that takes no records along goes on as by [`crate::srv6::end`].
///
/// # Errors
/// When the packet is none of segment routing, is at its last segment, or has no hops left. It is left as it was.
pub fn end_t_int(
    packet: &mut [u8],
    record: &IntMetadata,
    visit: Visit,
    tail: Tail,
) -> Result<Step, Srv6Error> {
    let view = tail.read(packet)?;
    let advance = Advance::of(&view)?;
    let judged = judge(&view, tail);
    advance.write(packet)?;
    let is_of_function = matches!(visit, Visit::Function(_));
    let record = IntMetadata { is_of_function, ..*record };
    let is_recorded = put_own(packet, advance.segments_left + 1, &record, judged);
    if let (Visit::Function(sample), Ok(marks)) = (visit, judged) {
        put_tag(packet, IntTag { is_pending: true, ..IntTag::of_bits(marks.tag) });
        put_result(packet, marks.result_offset, sample);
    }
    Ok(Step { next: advance.next, is_recorded })
}

/// End.T.INT of a node that keeps the header while functions have the packet (as the proxies End.AS and End.AD do): the
/// step to the next segment and that back from functions in one, with a record that has both. F is by the record.
///
/// # Errors
/// As [`end_t_int`].
pub fn end_t_int_kept(
    packet: &mut [u8],
    record: &IntMetadata,
    tail: Tail,
) -> Result<Step, Srv6Error> {
    let view = tail.read(packet)?;
    let advance = Advance::of(&view)?;
    let judged = judge(&view, tail);
    advance.write(packet)?;
    let is_recorded = put_own(packet, advance.segments_left + 1, record, judged);
    Ok(Step { next: advance.next, is_recorded })
}

/// A packet that came back from functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Return {
    /// The segment that it goes on to.
    pub next: Ipv6Addr,
    /// How long it was away; none: the record is not there, is another node's, or has no arrival.
    pub latency: Option<FunctionLatency>,
}

/// End.T.INT of a packet that comes back from functions: writes how long it was away into the record of this node, if
/// such is to be recorded, and takes a hop. The destination is the next segment already. Where that cannot be written,
/// the packet says so from here on.
///
/// # Errors
/// When the packet takes no records along, does not come from a function, has not come to any segment, or has no hops
/// left. It is left as it was.
pub fn end_t_int_return(
    packet: &mut [u8],
    device: u16,
    now: ArrivalTime,
    tail: Tail,
) -> Result<Return, IntError> {
    let view = IntView::parse(packet, tail)?;
    let (tag, Marks { map, result_offset, .. }) = (view.tag(), view.marks);
    if !tag.is_pending {
        return Err(IntError::NotPending);
    }
    let header = *view.packet.header();
    let hop_limit = hop(&header).map_err(IntError::Srv6)?;
    let (segments_left, last_entry) =
        (view.packet.routing().segments_left(), view.packet.routing().last_entry());
    let at = usize::from(segments_left) + 1;
    let error = IntError::Srv6(Srv6Error::SegmentsLeft { segments_left, last_entry });
    let entry = view.packet.routing().list().get(at).ok_or(error)?;
    let number = Some(device).filter(|_| map.contains(MapInfo::DEVICE));
    let own = IntMetadata::read(entry).ok().filter(|record| record.device == number);
    let arrival = own.and_then(|record| record.arrival);
    let latency = arrival.map(|arrival| FunctionLatency::from_ns(now.since(arrival)));
    let is_wanted = map.contains(MapInfo::LATENCY);
    let is_incomplete = tag.is_incomplete || own.is_none() || is_wanted && latency.is_none();
    if let Some(record) = own {
        let record = IntMetadata { latency, is_of_function: true, ..record };
        put_record(packet, segments_left + 1, &record.bytes_within(map));
    }
    put_tag(packet, IntTag { is_pending: false, is_incomplete, ..tag });
    put_result(packet, result_offset, None);
    ipv6::set_hop_limit(packet, hop_limit).map_err(|error| IntError::Srv6(Srv6Error::Ip(error)))?;
    Ok(Return { next: header.destination, latency })
}

/// A packet at its last segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Egress {
    /// What comes out of it.
    pub inside: Decapsulation,
    /// Was the record written? The packet takes none along, or has no room for it.
    pub is_recorded: bool,
}

/// End.DT.INT: the record takes the place of the last segment. [`IntView::hops`] has all of them then, and what is
/// inside may come out.
///
/// # Errors
/// When the packet is none of segment routing, more segments follow, or what is inside is neither IP nor Ethernet. It
/// is left as it was.
pub fn end_dt_int(
    packet: &mut [u8],
    record: &IntMetadata,
    tail: Tail,
) -> Result<Egress, Srv6Error> {
    let view = tail.read(packet)?;
    let inside = of_view(&view)?;
    let judged = judge(&view, tail);
    let is_recorded = put_own(packet, 0, record, judged);
    Ok(Egress { inside, is_recorded })
}

/// Does the packet at the front of the bytes say that it takes records along?
#[must_use]
pub fn takes_records(packet: &[u8]) -> bool {
    let routing = packet.get(ipv6::HEADER_BYTES..).unwrap_or_default();
    let protocol = Ipv6Header::parse(packet).ok().map(|(header, _)| header.next_header);
    let flags = routing.get(FLAGS_AT).copied().map(SegmentFlags);
    protocol == Some(IpProtocol::ROUTING) && flags.is_some_and(|flags| flags.contains(FLAG))
}

/// Says in the tag of a packet that takes records along what `change` makes of it; another is left alone.
fn retag(packet: &mut [u8], change: impl FnOnce(IntTag) -> IntTag) {
    let at = ipv6::HEADER_BYTES + TAG_RANGE.start;
    let tag = packet.get(at..).and_then(|rest| rest.first_chunk()).copied();
    if let Some(Ok(tag)) = tag.map(|tag| IntTag::read(u16::from_be_bytes(tag)))
        && takes_records(packet)
    {
        put_tag(packet, change(tag));
    }
}

/// E: some node could not write its record.
pub fn mark_incomplete(packet: &mut [u8]) {
    retag(packet, |tag| IntTag { is_incomplete: true, ..tag });
}

/// M: the packet is to be told of at the end.
pub fn mark_mirrored(packet: &mut [u8]) {
    retag(packet, |tag| IntTag { is_mirrored: true, ..tag });
}

/// Adds to the packets of the flow that the latest record counts, if it does: copies of one header that go in front of
/// the packets of a flow one after the other have one number more each.
pub fn count_on(packet: &mut [u8], more: u32) {
    let Some(left) = packet.get(ipv6::HEADER_BYTES + SEGMENTS_LEFT_AT) else { return };
    let entry = left.saturating_add(1);
    let at = ipv6::HEADER_BYTES + entry_range(entry).start;
    let record = packet.get(at..).and_then(|rest| rest.first_chunk()).map(IntMetadata::read);
    if let Some(Ok(record @ IntMetadata { counter: Some(counter), .. })) = record {
        let counter = Some(FlowCounter::of(u64::from(counter.get()) + u64::from(more)));
        put_record(packet, entry, &IntMetadata { counter, ..record }.bytes());
    }
}

/// What a step may write of telemetry; else the tag of a packet that should take a record along and cannot.
fn judge(packet: &Srv6View<'_>, tail: Tail) -> Result<Marks, Option<IntTag>> {
    Marks::of(packet, tail).map_err(|_| {
        let routing = packet.routing();
        IntTag::read(routing.tag()).ok().filter(|_| routing.flags().contains(FLAG))
    })
}

/// Writes the record over an entry, or that there was no room for it.
fn put_own(
    packet: &mut [u8],
    entry: u8,
    record: &IntMetadata,
    judged: Result<Marks, Option<IntTag>>,
) -> bool {
    match judged {
        Ok(marks) => put_record(packet, entry, &record.bytes_within(marks.map)),
        Err(Some(tag)) => put_tag(packet, IntTag { is_incomplete: true, ..tag }),
        Err(None) => {}
    }
    judged.is_ok()
}

fn put_record(packet: &mut [u8], entry: u8, record: &[u8; SEGMENT_BYTES]) {
    put(packet, ipv6::HEADER_BYTES + entry_range(entry).start, record);
}

fn put_tag(packet: &mut [u8], tag: IntTag) {
    put(packet, ipv6::HEADER_BYTES + TAG_RANGE.start, &tag.bits().to_be_bytes());
}

fn put_result(packet: &mut [u8], at: usize, result: Option<DetectionResult>) {
    put(packet, at, &result.map_or(0, DetectionResult::bits).to_be_bytes());
}

/// Writes octets where a packet that was read has them.
fn put(packet: &mut [u8], at: usize, octets: &[u8]) {
    if let Some(place) = packet.get_mut(at..at + octets.len()) {
        place.copy_from_slice(octets);
    }
}
