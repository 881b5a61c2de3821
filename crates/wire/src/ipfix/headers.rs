//! What is told of segment routing headers, RFC 9487: the elements 492 to 502.
//!
//! Knows their records, with the list in any of its three forms (lists of elements are those of RFC 6313). Refuses to
//! know who counts, and how a node came to know its segments.

use core::net::Ipv6Addr;

use super::read::Reader;
use super::telemetry::{Field, iana, record_bytes};
use super::{HEADER_BYTES, IpfixError, MessageHeader, SET_HEADER_BYTES, Writer, element};
use crate::scalar::FlowLabel;
use crate::srv6::{SEGMENT_BYTES, SegmentFlags};

/// The template of headers as a whole.
pub const TEMPLATE_HEADER: u16 = 258;
/// The template of headers by the octets of their list.
pub const TEMPLATE_LIST_SECTION: u16 = 259;
/// The template of headers by their list, segment by segment.
pub const TEMPLATE_BASIC_LIST: u16 = 260;
/// Lengths from this one on take three octets in place of one.
const LONG: usize = 255;
/// The elements stand in the order that they have (RFC 6313 section 4.4).
const ORDERED: u8 = 4;
/// Octets in front of a list: how it is to be understood, the element, and its bytes.
const LIST_HEAD: usize = 5;
/// What a header is told by, but for its list.
pub(super) const HEADER: [Field; 14] = [
    iana(element::SOURCE_IPV6_ADDRESS, 16),
    iana(element::DESTINATION_IPV6_ADDRESS, 16),
    iana(element::FLOW_LABEL_IPV6, 4),
    iana(element::SRH_FLAGS, 1),
    iana(element::SRH_TAG, 2),
    iana(element::SRH_SEGMENTS_LEFT, 1),
    iana(element::SRH_ACTIVE_SEGMENT, 16),
    iana(element::SRH_ACTIVE_SEGMENT_TYPE, 1),
    iana(element::SRH_LOCATOR_LENGTH, 1),
    iana(element::SRH_ENDPOINT_BEHAVIOR, 2),
    iana(element::OCTET_DELTA_COUNT, 8),
    iana(element::PACKET_DELTA_COUNT, 8),
    iana(element::FLOW_START_MILLISECONDS, 8),
    iana(element::FLOW_END_MILLISECONDS, 8),
];
/// Bytes of a record of a header without its list.
const HEADER_RECORD_BYTES: usize = record_bytes(&HEADER);

/// The list of a header, in one of the forms that RFC 9487 has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToldSegments<'p> {
    /// With all of the header, TLVs too (element 499).
    Header(&'p [u8]),
    /// As octets (element 497).
    Section(&'p [[u8; SEGMENT_BYTES]]),
    /// As a list of segments (element 496, of elements 494).
    List(&'p [[u8; SEGMENT_BYTES]]),
}

impl<'p> ToldSegments<'p> {
    const fn template(&self) -> u16 {
        match self {
            Self::Header(_) => TEMPLATE_HEADER,
            Self::Section(_) => TEMPLATE_LIST_SECTION,
            Self::List(_) => TEMPLATE_BASIC_LIST,
        }
    }

    const fn content(&self) -> &'p [u8] {
        match self {
            Self::Header(bytes) => bytes,
            Self::Section(list) | Self::List(list) => list.as_flattened(),
        }
    }

    /// Bytes of its value.
    const fn value_bytes(&self) -> usize {
        let head = if matches!(self, Self::List(_)) { LIST_HEAD } else { 0 };
        head + self.content().len()
    }

    pub(super) const fn len_bytes(&self) -> usize {
        let length = self.value_bytes();
        length + if length < LONG { 1 } else { 3 }
    }

    pub(super) fn emit(&self, writer: &mut Writer<'_>) {
        let length = self.value_bytes();
        match u8::try_from(length) {
            Ok(octet) if length < LONG => writer.put(&[octet]),
            _ => {
                writer.put(&[LONG as u8]);
                writer.numbers(&[length as u16]);
            }
        }
        if let Self::List(_) = self {
            writer.put(&[ORDERED]);
            writer.numbers(&[element::SRH_SEGMENT, SEGMENT_BYTES as u16]);
        }
        writer.put(self.content());
    }

    /// A header as a whole.
    pub(super) fn read_header(bytes: &mut Reader<'p>) -> Option<&'p [u8]> {
        Some(Self::value(bytes)?.rest())
    }

    fn value(bytes: &mut Reader<'p>) -> Option<Reader<'p>> {
        let [short] = bytes.take()?;
        let length = match usize::from(short) {
            LONG => u16::from_be_bytes(bytes.take()?).into(),
            short => short,
        };
        bytes.split(length)
    }

    fn read(template: u16, bytes: &mut Reader<'p>) -> Option<Self> {
        if template == TEMPLATE_HEADER {
            return Self::read_header(bytes).map(Self::Header);
        }
        let mut value = Self::value(bytes)?;
        if template == TEMPLATE_BASIC_LIST {
            let head = [
                ORDERED,
                (element::SRH_SEGMENT >> 8) as u8,
                element::SRH_SEGMENT as u8,
                0,
                SEGMENT_BYTES as u8,
            ];
            value.take::<LIST_HEAD>().filter(|read| *read == head)?;
        }
        let (list, rest) = value.rest().as_chunks();
        let told =
            if template == TEMPLATE_BASIC_LIST { Self::List(list) } else { Self::Section(list) };
        rest.is_empty().then_some(told)
    }
}

/// What a packet says of itself, but for its list: with this each record of a header begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToldFields {
    /// Source address.
    pub source: Ipv6Addr,
    /// Destination address.
    pub destination: Ipv6Addr,
    /// Flow label.
    pub flow_label: FlowLabel,
    /// The flags.
    pub flags: SegmentFlags,
    /// The tag.
    pub tag: u16,
    /// Index of the active segment.
    pub segments_left: u8,
    /// The active segment.
    pub active: Ipv6Addr,
}

impl ToldFields {
    pub(super) fn emit(&self, writer: &mut Writer<'_>) {
        writer.put(&self.source.octets());
        writer.put(&self.destination.octets());
        writer.put(&self.flow_label.get().to_be_bytes());
        writer.put(&[self.flags.0]);
        writer.numbers(&[self.tag]);
        writer.put(&[self.segments_left]);
        writer.put(&self.active.octets());
    }

    pub(super) fn read(bytes: &mut Reader<'_>) -> Option<Self> {
        Some(Self {
            source: bytes.take::<16>()?.into(),
            destination: bytes.take::<16>()?.into(),
            flow_label: FlowLabel::new(u32::from_be_bytes(bytes.take()?)).ok()?,
            flags: SegmentFlags(bytes.octet()?),
            tag: u16::from_be_bytes(bytes.take()?),
            segments_left: bytes.octet()?,
            active: bytes.take::<16>()?.into(),
        })
    }
}

/// What is told of packets with one header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderRecord<'p> {
    /// What they say of themselves.
    pub fields: ToldFields,
    /// How its node came to know it: the number at IANA («IPFIX IPv6 SRH Segment Type»).
    pub known_by: u8,
    /// Bits of its locator.
    pub locator_bits: u8,
    /// What it does: the number at IANA («SRv6 Endpoint Behaviors»).
    pub behaviour: u16,
    /// Bytes of the packets.
    pub bytes: u64,
    /// The packets.
    pub packets: u64,
    /// When the first came, milliseconds since 1970.
    pub first_ms: u64,
    /// When the last came.
    pub last_ms: u64,
    /// The list.
    pub segments: ToldSegments<'p>,
}

impl<'p> HeaderRecord<'p> {
    /// Its bytes.
    #[must_use]
    pub const fn len_bytes(&self) -> usize {
        HEADER_RECORD_BYTES + self.segments.len_bytes()
    }

    fn emit(&self, writer: &mut Writer<'_>) {
        self.fields.emit(writer);
        writer.put(&[self.known_by, self.locator_bits]);
        writer.numbers(&[self.behaviour]);
        for count in [self.bytes, self.packets, self.first_ms, self.last_ms] {
            writer.put(&count.to_be_bytes());
        }
        self.segments.emit(writer);
    }

    pub(super) fn read(template: u16, bytes: &mut Reader<'p>) -> Option<Self> {
        Some(Self {
            fields: ToldFields::read(bytes)?,
            known_by: bytes.octet()?,
            locator_bits: bytes.octet()?,
            behaviour: u16::from_be_bytes(bytes.take()?),
            bytes: bytes.long()?,
            packets: bytes.long()?,
            first_ms: bytes.long()?,
            last_ms: bytes.long()?,
            segments: ToldSegments::read(template, bytes)?,
        })
    }
}

/// Writes a message of these headers, in a set for each form of their lists, and answers its length.
///
/// # Errors
/// When there is not room for it, or it would be too long.
pub fn emit_headers(
    header: MessageHeader,
    records: &[HeaderRecord<'_>],
    into: &mut [u8],
) -> Result<usize, IpfixError> {
    let of = |id: u16| records.iter().filter(move |record| record.segments.template() == id);
    let bytes = |id: u16| of(id).map(HeaderRecord::len_bytes).sum::<usize>();
    let ids = [TEMPLATE_HEADER, TEMPLATE_LIST_SECTION, TEMPLATE_BASIC_LIST];
    let sets = ids.map(bytes);
    let need: usize =
        sets.iter().filter(|bytes| **bytes > 0).map(|bytes| SET_HEADER_BYTES + bytes).sum();
    let mut writer = Writer::begin(into, header, HEADER_BYTES + need)?;
    for (id, bytes) in ids.into_iter().zip(sets).filter(|(_, bytes)| *bytes > 0) {
        writer.numbers(&[id, (SET_HEADER_BYTES + bytes) as u16]);
        of(id).for_each(|record| record.emit(&mut writer));
    }
    Ok(writer.at)
}
