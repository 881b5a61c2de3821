//! IP Flow Information Export, RFC 7011: messages that tell a collector of flows.
//!
//! Knows the header, the template and data sets of two templates, one for each version of IP, and the
//! information elements (RFC 7012, RFC 5103) in them; and those of segment routing and its telemetry. Refuses to know
//! when a flow ends and who collects.
//!
//! ```text
//! | version 2 = 10 | length 2 | export time 4, s | sequence 4 | observation domain 4 | set*
//! set: | id 2: 2 templates, from 256 data | length 2 | records
//! template: | id 2 | fields 2 | (element 2, bytes 2)*
//! ```

mod headers;
mod packets;
mod read;
mod telemetry;

pub use headers::{
    HeaderRecord, TEMPLATE_BASIC_LIST, TEMPLATE_HEADER, TEMPLATE_LIST_SECTION, ToldFields,
    ToldSegments, emit_headers,
};
pub use packets::{PacketRecord, TEMPLATE_PACKETS, emit_packets};
pub use read::{Message, Records, Set, Sets};
pub use telemetry::{
    DELAY_BYTES, DelayRecord, ENTERPRISE, HOP_BYTES, HopRecord, TELEMETRY_TEMPLATES_BYTES,
    TEMPLATE_DELAYS, TEMPLATE_HOPS, emit_delays, emit_hops, emit_telemetry_templates,
};

use crate::flow::FlowKey;
use crate::scalar::IpProtocol;
use crate::tcp::TcpFlags;
use core::fmt;
use core::net::IpAddr;

/// The UDP port that collectors listen at (RFC 7011 section 10.3.4).
pub const PORT: u16 = 4_739;
/// Bytes of the header of a message.
pub const HEADER_BYTES: usize = 16;
/// Bytes of the header of a set.
pub const SET_HEADER_BYTES: usize = 4;
/// The template of flows of IPv4.
pub const TEMPLATE_V4: u16 = 256;
/// The template of flows of IPv6.
pub const TEMPLATE_V6: u16 = 257;
/// Bytes of a message that tells of the templates.
pub const TEMPLATES_BYTES: usize = HEADER_BYTES + SET_HEADER_BYTES + 2 * (4 + 4 * FIELDS_V4.len());

const VERSION: u16 = 10;
const TEMPLATE_SET: u16 = 2;

/// Information elements, by their numbers at IANA.
mod element {
    pub(super) const OCTET_DELTA_COUNT: u16 = 1;
    pub(super) const PACKET_DELTA_COUNT: u16 = 2;
    pub(super) const PROTOCOL_IDENTIFIER: u16 = 4;
    pub(super) const TCP_CONTROL_BITS: u16 = 6;
    pub(super) const SOURCE_TRANSPORT_PORT: u16 = 7;
    pub(super) const SOURCE_IPV4_ADDRESS: u16 = 8;
    pub(super) const DESTINATION_TRANSPORT_PORT: u16 = 11;
    pub(super) const DESTINATION_IPV4_ADDRESS: u16 = 12;
    pub(super) const SOURCE_IPV6_ADDRESS: u16 = 27;
    pub(super) const DESTINATION_IPV6_ADDRESS: u16 = 28;
    pub(super) const FLOW_LABEL_IPV6: u16 = 31;
    pub(super) const ICMP_TYPE_CODE_IPV4: u16 = 32;
    pub(super) const FLOW_DIRECTION: u16 = 61;
    pub(super) const FLOW_END_REASON: u16 = 136;
    pub(super) const ICMP_TYPE_CODE_IPV6: u16 = 139;
    pub(super) const FLOW_START_MILLISECONDS: u16 = 152;
    pub(super) const FLOW_END_MILLISECONDS: u16 = 153;
    pub(super) const SRH_FLAGS: u16 = 492;
    pub(super) const SRH_TAG: u16 = 493;
    pub(super) const SRH_SEGMENT: u16 = 494;
    pub(super) const SRH_ACTIVE_SEGMENT: u16 = 495;
    pub(super) const SRH_BASIC_LIST: u16 = 496;
    pub(super) const SRH_LIST_SECTION: u16 = 497;
    pub(super) const SRH_SEGMENTS_LEFT: u16 = 498;
    pub(super) const SRH_SECTION: u16 = 499;
    pub(super) const SRH_ACTIVE_SEGMENT_TYPE: u16 = 500;
    pub(super) const SRH_LOCATOR_LENGTH: u16 = 501;
    pub(super) const SRH_ENDPOINT_BEHAVIOR: u16 = 502;
}

/// The elements of a record of this version's addresses and ICMP, each with its bytes.
const fn fields(source: u16, destination: u16, address_bytes: u16, icmp: u16) -> [(u16, u16); 13] {
    [
        (source, address_bytes),
        (destination, address_bytes),
        (element::SOURCE_TRANSPORT_PORT, 2),
        (element::DESTINATION_TRANSPORT_PORT, 2),
        (element::PROTOCOL_IDENTIFIER, 1),
        (element::OCTET_DELTA_COUNT, 8),
        (element::PACKET_DELTA_COUNT, 8),
        (element::TCP_CONTROL_BITS, 2),
        (element::FLOW_END_REASON, 1),
        (element::FLOW_DIRECTION, 1),
        (element::FLOW_START_MILLISECONDS, 8),
        (element::FLOW_END_MILLISECONDS, 8),
        (icmp, 2),
    ]
}

const FIELDS_V4: [(u16, u16); 13] = fields(
    element::SOURCE_IPV4_ADDRESS,
    element::DESTINATION_IPV4_ADDRESS,
    4,
    element::ICMP_TYPE_CODE_IPV4,
);
const FIELDS_V6: [(u16, u16); 13] = fields(
    element::SOURCE_IPV6_ADDRESS,
    element::DESTINATION_IPV6_ADDRESS,
    16,
    element::ICMP_TYPE_CODE_IPV6,
);

/// Bytes of a record of a flow of IPv4.
pub const RECORD_V4_BYTES: usize = 51;
/// Bytes of a record of a flow of IPv6.
pub const RECORD_V6_BYTES: usize = 75;

/// Bytes of a message with so many records of flows of IPv4 and of IPv6.
#[must_use]
pub const fn data_bytes(v4: usize, v6: usize) -> usize {
    const fn set(records: usize, record_bytes: usize) -> usize {
        if records == 0 { 0 } else { SET_HEADER_BYTES + records * record_bytes }
    }
    HEADER_BYTES + set(v4, RECORD_V4_BYTES) + set(v6, RECORD_V6_BYTES)
}

/// What stands before the sets of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageHeader {
    /// When it left, seconds since 1970.
    pub export_seconds: u32,
    /// Data records of this domain that were sent before it, modulo 2^32.
    pub sequence: u32,
    /// The observation domain.
    pub domain: u32,
}

/// Why a record ended (element 136).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum EndReason {
    /// No packet came for long.
    Idle = 1,
    /// It was open for long.
    Active = 2,
    /// Its packets said so: FIN or RST.
    Ended = 3,
    /// Somebody asked for it.
    Forced = 4,
    /// Another needed its room.
    Full = 5,
}

impl EndReason {
    /// The one with this number.
    #[must_use]
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::Idle),
            2 => Some(Self::Active),
            3 => Some(Self::Ended),
            4 => Some(Self::Forced),
            5 => Some(Self::Full),
            _ => None,
        }
    }
}

/// What a message says of a flow. Its addresses are of one version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowRecord {
    /// The flow; of ICMP and ICMPv6 the ports are 0 and type and code, as [`icmp_port`] joins them.
    pub flow: FlowKey,
    /// Its bytes of IP.
    pub bytes: u64,
    /// Its packets.
    pub packets: u64,
    /// Flags of TCP that any of them had.
    pub tcp_flags: TcpFlags,
    /// Why it ended.
    pub end: EndReason,
    /// Did it leave where it was observed, in place of coming in?
    pub is_egress: bool,
    /// When the first came, milliseconds since 1970.
    pub first_ms: u64,
    /// When the last came.
    pub last_ms: u64,
}

/// Type and code of ICMP in the place of a destination port.
#[must_use]
pub const fn icmp_port(kind: u8, code: u8) -> u16 {
    u16::from_be_bytes([kind, code])
}

const fn is_icmp(flow: &FlowKey) -> bool {
    matches!(
        (flow.source, flow.protocol),
        (IpAddr::V4(_), IpProtocol::ICMP) | (IpAddr::V6(_), IpProtocol::ICMPV6)
    )
}

/// Why a message is none, or none can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpfixError {
    /// There is less than it says, or less room than it needs.
    Truncated {
        /// Bytes that it needs.
        need: usize,
        /// Bytes that there are.
        have: usize,
    },
    /// It is of another version.
    Version(u16),
    /// A set of this number has a length that is none.
    Set(u16),
    /// A message has 65,535 bytes at most.
    TooLong,
}

impl fmt::Display for IpfixError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { need, have } => {
                write!(f, "IPFIX message cut short: {have} of {need} bytes")
            }
            Self::Version(version) => write!(f, "no IPFIX but version {version}"),
            Self::Set(id) => write!(f, "the IPFIX set {id} has a length that is none"),
            Self::TooLong => f.write_str("the IPFIX message would have more than 65,535 bytes"),
        }
    }
}

impl core::error::Error for IpfixError {}

/// Writes the message that tells of the templates, and answers its length, [`TEMPLATES_BYTES`].
///
/// # Errors
/// When there is not room for it.
pub fn emit_templates(header: MessageHeader, into: &mut [u8]) -> Result<usize, IpfixError> {
    let mut writer = Writer::begin(into, header, TEMPLATES_BYTES)?;
    writer.numbers(&[TEMPLATE_SET, (TEMPLATES_BYTES - HEADER_BYTES) as u16]);
    for (id, fields) in [(TEMPLATE_V4, FIELDS_V4), (TEMPLATE_V6, FIELDS_V6)] {
        writer.numbers(&[id, fields.len() as u16]);
        fields.iter().for_each(|(element, bytes)| writer.numbers(&[*element, *bytes]));
    }
    Ok(writer.at)
}

/// Writes a message of these records, those of IPv4 before those of IPv6, and answers its length,
/// that of [`data_bytes`].
///
/// # Errors
/// When there is not room for it.
pub fn emit_data(
    header: MessageHeader,
    records: &[FlowRecord],
    into: &mut [u8],
) -> Result<usize, IpfixError> {
    let is_v6 = |record: &&FlowRecord| record.flow.source.is_ipv6();
    let v6 = records.iter().filter(is_v6).count();
    let v4 = records.len() - v6;
    let mut writer = Writer::begin(into, header, data_bytes(v4, v6))?;
    let sets = [(TEMPLATE_V4, v4, RECORD_V4_BYTES), (TEMPLATE_V6, v6, RECORD_V6_BYTES)];
    for (id, count, record_bytes) in sets {
        if count == 0 {
            continue;
        }
        writer.numbers(&[id, (SET_HEADER_BYTES + count * record_bytes) as u16]);
        let own = records.iter().filter(|record| is_v6(record) == (id == TEMPLATE_V6));
        own.for_each(|record| writer.record(record));
    }
    Ok(writer.at)
}

/// Writes where there is known to be room.
struct Writer<'w> {
    into: &'w mut [u8],
    at: usize,
}

impl<'w> Writer<'w> {
    fn begin(into: &'w mut [u8], header: MessageHeader, need: usize) -> Result<Self, IpfixError> {
        let length = u16::try_from(need).map_err(|_| IpfixError::TooLong)?;
        let have = into.len();
        let into = into.get_mut(..need).ok_or(IpfixError::Truncated { need, have })?;
        let mut writer = Self { into, at: 0 };
        writer.numbers(&[VERSION, length]);
        for word in [header.export_seconds, header.sequence, header.domain] {
            writer.put(&word.to_be_bytes());
        }
        Ok(writer)
    }

    fn put(&mut self, bytes: &[u8]) {
        if let Some(place) = self.into.get_mut(self.at..self.at + bytes.len()) {
            place.copy_from_slice(bytes);
            self.at += bytes.len();
        }
    }

    fn numbers(&mut self, numbers: &[u16]) {
        numbers.iter().for_each(|number| self.put(&number.to_be_bytes()));
    }

    fn record(&mut self, record: &FlowRecord) {
        let flow = &record.flow;
        for address in [flow.source, flow.destination] {
            match address {
                IpAddr::V4(address) => self.put(&address.octets()),
                IpAddr::V6(address) => self.put(&address.octets()),
            }
        }
        let is_icmp = is_icmp(flow);
        let ports = if is_icmp { [0, 0] } else { [flow.source_port, flow.destination_port] };
        self.numbers(&ports);
        self.put(&[flow.protocol.0]);
        self.put(&record.bytes.to_be_bytes());
        self.put(&record.packets.to_be_bytes());
        self.numbers(&[record.tcp_flags.0.into()]);
        self.put(&[record.end as u8, record.is_egress.into()]);
        self.put(&record.first_ms.to_be_bytes());
        self.put(&record.last_ms.to_be_bytes());
        self.numbers(&[if is_icmp { flow.destination_port } else { 0 }]);
    }
}

#[cfg(test)]
mod tests;
