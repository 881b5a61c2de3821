//! What is told of single packets with a segment routing header: the header as it was at the end of the way, and which
//! path, which flow and which packet it was.
//!
//! Knows their records. Refuses to know which packets are told of, and what is in their headers.

use super::headers::{ToldFields, ToldSegments};
use super::read::Reader;
use super::telemetry::{Field, iana, ours, own, record_bytes};
use super::{HEADER_BYTES, IpfixError, MessageHeader, SET_HEADER_BYTES, Writer, element};

/// The template of packets.
pub const TEMPLATE_PACKETS: u16 = 263;
/// What a packet is told by, but for its header as a whole.
pub(super) const PACKETS: [Field; 12] = [
    iana(element::SOURCE_IPV6_ADDRESS, 16),
    iana(element::DESTINATION_IPV6_ADDRESS, 16),
    iana(element::FLOW_LABEL_IPV6, 4),
    iana(element::SRH_FLAGS, 1),
    iana(element::SRH_TAG, 2),
    iana(element::SRH_SEGMENTS_LEFT, 1),
    iana(element::SRH_ACTIVE_SEGMENT, 16),
    iana(element::PACKET_DELTA_COUNT, 8),
    ours(own::PACKET, 4),
    ours(own::PATH, 4),
    ours(own::FLOW, 8),
    ours(own::REASON, 1),
];
/// Each record is of one.
const ONE: u64 = 1;

/// A packet that is told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketRecord<'p> {
    /// What it says of itself.
    pub fields: ToldFields,
    /// Its number among all that are told of, modulo 2^32: records of its hops have the same.
    pub packet: u32,
    /// Its path.
    pub path: u32,
    /// Its flow on the path, by a hash.
    pub flow: u64,
    /// Why it is told of: 1 as a sample, 2 as a node could not write, 3 as functions took longer than a record says,
    /// 4 for a queue, 5 for a latency.
    pub reason: u8,
    /// The segment routing header, with its list and TLVs.
    pub section: &'p [u8],
}

impl<'p> PacketRecord<'p> {
    /// Its bytes.
    #[must_use]
    pub const fn len_bytes(&self) -> usize {
        record_bytes(&PACKETS) + ToldSegments::Header(self.section).len_bytes()
    }

    fn emit(&self, writer: &mut Writer<'_>) {
        self.fields.emit(writer);
        writer.put(&ONE.to_be_bytes());
        writer.put(&self.packet.to_be_bytes());
        writer.put(&self.path.to_be_bytes());
        writer.put(&self.flow.to_be_bytes());
        writer.put(&[self.reason]);
        ToldSegments::Header(self.section).emit(writer);
    }

    /// None: it contradicts itself.
    pub(super) fn read(bytes: &mut Reader<'p>) -> Option<Self> {
        let fields = ToldFields::read(bytes)?;
        bytes.long().filter(|packets| *packets == ONE)?;
        Some(Self {
            fields,
            packet: u32::from_be_bytes(bytes.take()?),
            path: u32::from_be_bytes(bytes.take()?),
            flow: bytes.long()?,
            reason: bytes.octet()?,
            section: ToldSegments::read_header(bytes)?,
        })
    }
}

/// Writes a message of these packets, of [`PacketRecord::len_bytes`] each, and answers its length.
///
/// # Errors
/// When there is not room for it, or it would be too long.
pub fn emit_packets(
    header: MessageHeader,
    records: &[PacketRecord<'_>],
    into: &mut [u8],
) -> Result<usize, IpfixError> {
    let set = SET_HEADER_BYTES + records.iter().map(PacketRecord::len_bytes).sum::<usize>();
    let need = if records.is_empty() { 0 } else { set };
    let mut writer = Writer::begin(into, header, HEADER_BYTES + need)?;
    if !records.is_empty() {
        writer.numbers(&[TEMPLATE_PACKETS, set as u16]);
    }
    records.iter().for_each(|record| record.emit(&mut writer));
    Ok(writer.at)
}
