//! What is told of telemetry in segment routing, by elements of our own.
//!
//! Knows records of hops and of delays, and the templates of all that is told of segment routing. Refuses to know who
//! counts, and when an interval ends.
//!
//! The enterprise number is 32473, which RFC 5612 sets aside for documentation: nobody has given us one.
//!
//! ```text
//! 1 place on the way, 1     4 device, 2                   7 queue, 1                   10 function, 1; 255: all
//! 2 valid fields, 1         5 arrival, ns mod 2^40, 8     8 packets in it, 2           11 least delay, ns, 8
//! 3 O 4, F 2, T 1, 1        6 latency, ns, 4              9 packets of the flow, 4     12 mean, 13 most, 14 sum, 8
//! 15 packet, 4              16 path, 4                    17 flow, 8                   18 why it is told of, 1
//! ```
//!
//! Valid fields are the bits of MapInfo: what a node does not know is zero and not valid.

use core::net::Ipv6Addr;

use super::headers::HEADER;
use super::packets::PACKETS;
use super::read::Reader;
use super::{
    HEADER_BYTES, IpfixError, MessageHeader, SET_HEADER_BYTES, TEMPLATE_BASIC_LIST,
    TEMPLATE_HEADER, TEMPLATE_LIST_SECTION, TEMPLATE_PACKETS, TEMPLATE_SET, Writer, element,
};
use crate::scalar::{FlowCounter, FlowLabel, FunctionIndex, QueueId, QueueLength};
use crate::srv6_int::{ArrivalTime, FunctionLatency, IntMetadata, MapInfo, Queue};

/// The enterprise that our elements are of (RFC 5612).
pub const ENTERPRISE: u32 = 32_473;
/// The template of hops.
pub const TEMPLATE_HOPS: u16 = 261;
/// The template of delays.
pub const TEMPLATE_DELAYS: u16 = 262;

/// Elements of ours.
pub(super) mod own {
    pub(super) const PLACE: u16 = 1;
    pub(super) const VALID: u16 = 2;
    pub(super) const MARKS: u16 = 3;
    pub(super) const DEVICE: u16 = 4;
    pub(super) const ARRIVAL: u16 = 5;
    pub(super) const LATENCY: u16 = 6;
    pub(super) const QUEUE: u16 = 7;
    pub(super) const QUEUE_LENGTH: u16 = 8;
    pub(super) const COUNTER: u16 = 9;
    pub(super) const FUNCTION: u16 = 10;
    pub(super) const DELAY_LEAST: u16 = 11;
    pub(super) const DELAY_MEAN: u16 = 12;
    pub(super) const DELAY_MOST: u16 = 13;
    pub(super) const DELAY_SUM: u16 = 14;
    pub(in super::super) const PACKET: u16 = 15;
    pub(in super::super) const PATH: u16 = 16;
    pub(in super::super) const FLOW: u16 = 17;
    pub(in super::super) const REASON: u16 = 18;
}

/// Marks of a record.
mod mark {
    pub(super) const SATURATED: u8 = 4;
    pub(super) const OF_FUNCTION: u8 = 2;
    pub(super) const SYNCHRONISED: u8 = 1;
}

/// Of an element of an enterprise.
const ENTERPRISE_BIT: u16 = 0x8000;
/// Its length is in the record (RFC 7011 section 7).
const VARIABLE: u16 = 0xffff;
/// The number of no function.
const ALL_FUNCTIONS: u8 = 255;

/// An element of a template.
#[derive(Clone, Copy)]
pub(super) struct Field {
    element: u16,
    bytes: u16,
}

pub(super) const fn iana(element: u16, bytes: u16) -> Field {
    Field { element, bytes }
}

pub(super) const fn ours(element: u16, bytes: u16) -> Field {
    Field { element: element | ENTERPRISE_BIT, bytes }
}

const HOPS: [Field; 14] = [
    iana(element::SOURCE_IPV6_ADDRESS, 16),
    iana(element::DESTINATION_IPV6_ADDRESS, 16),
    iana(element::FLOW_LABEL_IPV6, 4),
    iana(element::SRH_TAG, 2),
    ours(own::PLACE, 1),
    ours(own::VALID, 1),
    ours(own::MARKS, 1),
    ours(own::DEVICE, 2),
    ours(own::ARRIVAL, 8),
    ours(own::LATENCY, 4),
    ours(own::QUEUE, 1),
    ours(own::QUEUE_LENGTH, 2),
    ours(own::COUNTER, 4),
    ours(own::PACKET, 4),
];
const DELAYS: [Field; 10] = [
    iana(element::SRH_ACTIVE_SEGMENT, 16),
    ours(own::DEVICE, 2),
    ours(own::FUNCTION, 1),
    iana(element::FLOW_START_MILLISECONDS, 8),
    iana(element::FLOW_END_MILLISECONDS, 8),
    iana(element::PACKET_DELTA_COUNT, 8),
    ours(own::DELAY_LEAST, 8),
    ours(own::DELAY_MEAN, 8),
    ours(own::DELAY_MOST, 8),
    ours(own::DELAY_SUM, 8),
];

/// Each template, its fixed elements, and the one of variable length at its end.
const TEMPLATES: [(u16, &[Field], Option<u16>); 6] = [
    (TEMPLATE_HEADER, &HEADER, Some(element::SRH_SECTION)),
    (TEMPLATE_LIST_SECTION, &HEADER, Some(element::SRH_LIST_SECTION)),
    (TEMPLATE_BASIC_LIST, &HEADER, Some(element::SRH_BASIC_LIST)),
    (TEMPLATE_HOPS, &HOPS, None),
    (TEMPLATE_DELAYS, &DELAYS, None),
    (TEMPLATE_PACKETS, &PACKETS, Some(element::SRH_SECTION)),
];

/// Bytes of a record of a hop.
pub const HOP_BYTES: usize = record_bytes(&HOPS);
/// Bytes of a record of delays.
pub const DELAY_BYTES: usize = record_bytes(&DELAYS);

pub(super) const fn record_bytes(fields: &[Field]) -> usize {
    match fields {
        [first, rest @ ..] => first.bytes as usize + record_bytes(rest),
        [] => 0,
    }
}

/// Bytes by which a template tells of elements.
const fn told_bytes(fields: &[Field]) -> usize {
    match fields {
        [first, rest @ ..] if first.element & ENTERPRISE_BIT != 0 => 8 + told_bytes(rest),
        [_, rest @ ..] => 4 + told_bytes(rest),
        [] => 0,
    }
}

/// Bytes of a message that tells of these templates.
pub const TELEMETRY_TEMPLATES_BYTES: usize = HEADER_BYTES
    + SET_HEADER_BYTES
    + 3 * (4 + told_bytes(&HEADER) + 4)
    + (4 + told_bytes(&HOPS))
    + (4 + told_bytes(&DELAYS))
    + (4 + told_bytes(&PACKETS) + 4);

/// What a node wrote into a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HopRecord {
    /// Source address of the packet.
    pub source: Ipv6Addr,
    /// Its destination address.
    pub destination: Ipv6Addr,
    /// Its flow label.
    pub flow_label: FlowLabel,
    /// Its tag.
    pub tag: u16,
    /// Which node of the way, from 0 on.
    pub place: u8,
    /// What it wrote.
    pub record: IntMetadata,
    /// The number of the packet among all that are told of, modulo 2^32.
    pub packet: u32,
}

impl HopRecord {
    fn emit(&self, writer: &mut Writer<'_>) {
        let record = &self.record;
        let flag = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
        let is_saturated = record.latency.is_some_and(FunctionLatency::is_saturated);
        let marks = flag(is_saturated, mark::SATURATED)
            | flag(record.is_of_function, mark::OF_FUNCTION)
            | flag(record.is_synchronised, mark::SYNCHRONISED);
        writer.put(&self.source.octets());
        writer.put(&self.destination.octets());
        writer.put(&self.flow_label.get().to_be_bytes());
        writer.numbers(&[self.tag]);
        writer.put(&[self.place, record.valid().bits(), marks]);
        writer.numbers(&[record.device.unwrap_or_default()]);
        writer.put(&record.arrival.map_or(0, ArrivalTime::ns).to_be_bytes());
        // At most 2.147 s.
        writer.put(&(record.latency.map_or(0, FunctionLatency::ns) as u32).to_be_bytes());
        writer.put(&[record.queue.map_or(0, |queue| queue.id.get())]);
        writer.numbers(&[record.queue.map_or(0, |queue| queue.length.get())]);
        writer.put(&record.counter.map_or(0, FlowCounter::get).to_be_bytes());
        writer.put(&self.packet.to_be_bytes());
    }

    /// None: it contradicts itself.
    pub(super) fn read(record: &[u8; HOP_BYTES]) -> Option<Self> {
        let mut bytes = Reader(record);
        let (source, destination) = (bytes.take::<16>()?.into(), bytes.take::<16>()?.into());
        let flow_label = FlowLabel::new(u32::from_be_bytes(bytes.take()?)).ok()?;
        let tag = u16::from_be_bytes(bytes.take()?);
        let [place, valid, marks] = bytes.take()?;
        let map = MapInfo::new(valid.into()).ok()?;
        let device = u16::from_be_bytes(bytes.take()?);
        let arrival = ArrivalTime::from_ns(bytes.long()?);
        let latency = match u32::from_be_bytes(bytes.take()?) {
            _ if marks & mark::SATURATED != 0 => FunctionLatency::from_ns(u64::MAX),
            ns => FunctionLatency::from_ns(ns.into()),
        };
        let id = QueueId::new(bytes.octet()?.into()).ok()?;
        let length = QueueLength::new(u16::from_be_bytes(bytes.take()?).into()).ok()?;
        let counter = FlowCounter::new(u32::from_be_bytes(bytes.take()?)).ok()?;
        let packet = u32::from_be_bytes(bytes.take()?);
        let whole = IntMetadata {
            device: Some(device),
            arrival: Some(arrival),
            latency: Some(latency),
            queue: Some(Queue { id, length }),
            counter: Some(counter),
            is_of_function: marks & mark::OF_FUNCTION != 0,
            is_synchronised: marks & mark::SYNCHRONISED != 0,
        };
        let limited = whole.limited_to(map);
        let read = Self { source, destination, flow_label, tag, place, record: limited, packet };
        is_written_so(record, |writer| read.emit(writer)).then_some(read)
    }
}

/// How long packets of an interval took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelayRecord {
    /// The segment that brought them to the node.
    pub segment: Ipv6Addr,
    /// The node.
    pub device: u16,
    /// Which of its functions; none: all of them together.
    pub function: Option<FunctionIndex>,
    /// When the interval began, milliseconds since 1970.
    pub first_ms: u64,
    /// When it ended.
    pub last_ms: u64,
    /// Packets that were measured.
    pub packets: u64,
    /// What the fastest took, ns.
    pub least_ns: u64,
    /// What the slowest took, ns.
    pub most_ns: u64,
    /// What all took together, ns.
    pub sum_ns: u64,
}

impl DelayRecord {
    /// What they took in the mean, rounded down, ns; 0 where none was measured.
    #[must_use]
    pub const fn mean_ns(&self) -> u64 {
        match self.packets {
            0 => 0,
            packets => self.sum_ns / packets,
        }
    }

    fn emit(&self, writer: &mut Writer<'_>) {
        writer.put(&self.segment.octets());
        writer.numbers(&[self.device]);
        writer.put(&[self.function.map_or(ALL_FUNCTIONS, FunctionIndex::get)]);
        let delays = [self.least_ns, self.mean_ns(), self.most_ns, self.sum_ns];
        for count in [self.first_ms, self.last_ms, self.packets].into_iter().chain(delays) {
            writer.put(&count.to_be_bytes());
        }
    }

    /// None: it contradicts itself.
    pub(super) fn read(record: &[u8; DELAY_BYTES]) -> Option<Self> {
        let mut bytes = Reader(record);
        let segment = bytes.take::<16>()?.into();
        let device = u16::from_be_bytes(bytes.take()?);
        let function = match bytes.octet()? {
            ALL_FUNCTIONS => None,
            index => Some(FunctionIndex::new(index.into()).ok()?),
        };
        let (first_ms, last_ms, packets) = (bytes.long()?, bytes.long()?, bytes.long()?);
        let (least_ns, mean_ns, most_ns) = (bytes.long()?, bytes.long()?, bytes.long()?);
        let sum_ns = bytes.long()?;
        let read = Self {
            segment,
            device,
            function,
            first_ms,
            last_ms,
            packets,
            least_ns,
            most_ns,
            sum_ns,
        };
        let is_between = packets == 0 || (least_ns..=most_ns).contains(&mean_ns);
        (read.mean_ns() == mean_ns && is_between).then_some(read)
    }
}

/// Are these the bytes that the writer writes?
fn is_written_so(bytes: &[u8], write: impl FnOnce(&mut Writer<'_>)) -> bool {
    let mut again = [0; HOP_BYTES];
    write(&mut Writer { into: &mut again, at: 0 });
    again == bytes
}

/// Writes the message that tells of the templates of telemetry, and answers its length, [`TELEMETRY_TEMPLATES_BYTES`].
///
/// # Errors
/// When there is not room for it.
pub fn emit_telemetry_templates(
    header: MessageHeader,
    into: &mut [u8],
) -> Result<usize, IpfixError> {
    let mut writer = Writer::begin(into, header, TELEMETRY_TEMPLATES_BYTES)?;
    writer.numbers(&[TEMPLATE_SET, (TELEMETRY_TEMPLATES_BYTES - HEADER_BYTES) as u16]);
    for (id, fields, last) in TEMPLATES {
        let last = last.map(|element| iana(element, VARIABLE));
        writer.numbers(&[id, fields.len() as u16 + u16::from(last.is_some())]);
        for Field { element, bytes } in fields.iter().copied().chain(last) {
            writer.numbers(&[element, bytes]);
            if element & ENTERPRISE_BIT != 0 {
                writer.put(&ENTERPRISE.to_be_bytes());
            }
        }
    }
    Ok(writer.at)
}

/// Writes a message of these hops, of [`HOP_BYTES`] each, and answers its length.
///
/// # Errors
/// As [`emit_headers`].
pub fn emit_hops(
    header: MessageHeader,
    records: &[HopRecord],
    into: &mut [u8],
) -> Result<usize, IpfixError> {
    emit_set(header, (TEMPLATE_HOPS, HOP_BYTES), records, HopRecord::emit, into)
}

/// Writes a message of these delays, of [`DELAY_BYTES`] each, and answers its length.
///
/// # Errors
/// As [`emit_headers`].
pub fn emit_delays(
    header: MessageHeader,
    records: &[DelayRecord],
    into: &mut [u8],
) -> Result<usize, IpfixError> {
    emit_set(header, (TEMPLATE_DELAYS, DELAY_BYTES), records, DelayRecord::emit, into)
}

fn emit_set<T>(
    header: MessageHeader,
    (id, record_bytes): (u16, usize),
    records: &[T],
    emit: impl Fn(&T, &mut Writer<'_>),
    into: &mut [u8],
) -> Result<usize, IpfixError> {
    let set = SET_HEADER_BYTES + records.len() * record_bytes;
    let need = if records.is_empty() { 0 } else { set };
    let mut writer = Writer::begin(into, header, HEADER_BYTES + need)?;
    if !records.is_empty() {
        writer.numbers(&[id, set as u16]);
    }
    records.iter().for_each(|record| emit(record, &mut writer));
    Ok(writer.at)
}
