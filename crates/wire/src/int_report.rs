//! Telemetry Report 2.0 of the P4 applications working group: what a node says of packets, in UDP.
//!
//! Knows groups of reports and, of a report, what the node measured at its own hop and how the packet began. Refuses to
//! know where reports go, how often, and what is in the packet.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |Ver = 2| Hardware  |              Sequence                     |
//! |                             Node                              |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |Type=1 |InType |    Length     |   MD Length   |D|Q|F|I|Reserved|
//! |       Metadata bits           |            Domain             |
//! |    Domain's metadata bits     |    Domain's metadata status   |
//! ~ latency 32 | queue 8, occupancy 24 | arrival 64 | counter 32  ~
//! ~                     the packet, cut short                     ~
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```
//!
//! A group has none or more reports. Length counts words of four bytes behind the first of a report; 255: it ends with
//! the group. MD Length counts those of metadata. D: the packet was dropped. Q: the queue was longer than its mark.
//! F: of a watched flow. I: of a node between. Reserved bits of the head are sent as zero and ignored on receipt.
//! Metadata that we never write, and those of another domain, are gone by; reports of other types, and metadata that
//! nobody has defined, are refused by name.

use core::fmt;

use crate::scalar::{FlowCounter, HardwareId, QueueOccupancy, ReportSequence};
use crate::srv6_int::{ArrivalTime, IntMetadata};

mod field {
    //! Where each field lies, as shifts in its word.
    pub(super) const VERSION_SHIFT: u32 = 28;
    pub(super) const HARDWARE_SHIFT: u32 = 22;
    pub(super) const TYPE_SHIFT: u32 = 28;
    pub(super) const INNER_SHIFT: u32 = 24;
    pub(super) const LENGTH_SHIFT: u32 = 16;
    pub(super) const METADATA_LENGTH_SHIFT: u32 = 8;
    pub(super) const DROPPED: u32 = 1 << 7;
    pub(super) const CONGESTED: u32 = 1 << 6;
    pub(super) const WATCHED: u32 = 1 << 5;
    pub(super) const INTERMEDIATE: u32 = 1 << 4;
    pub(super) const OCCUPANCY_BITS: u32 = 24;
}

/// Bits of metadata by their number, bit 0 being the highest.
mod bit {
    pub(super) const LATENCY: u32 = 2;
    pub(super) const QUEUE: u32 = 3;
    pub(super) const ARRIVAL: u32 = 4;
    /// Of our domain.
    pub(super) const COUNTER: u32 = 0;
    /// Reserved: how long such metadata are is not known.
    pub(super) const RESERVED: u16 =
        mask(0) | mask(9) | mask(10) | mask(11) | mask(12) | mask(13) | mask(14);
    /// Metadata of two words.
    pub(super) const TWO_WORDS: u16 = mask(4) | mask(5) | mask(6);

    pub(super) const fn mask(bit: u32) -> u16 {
        1 << 15 >> bit
    }
}

/// Bytes of a word, the unit of length fields.
const WORD: usize = 4;
/// Words of a report in front of its metadata.
const FIXED_WORDS: usize = 3;
/// Words of the longest metadata that we write.
const METADATA_WORDS_MAX: usize = 5;
/// A length that means: to the end of the group.
const TO_THE_END: u8 = 0xff;
const TYPE_INT: u8 = 1;

/// What the packet in a report begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReportedPacket {
    /// An Ethernet header.
    Ethernet,
    /// An IPv4 header.
    Ipv4,
    /// An IPv6 header.
    Ipv6,
}

impl ReportedPacket {
    const fn number(self) -> u8 {
        match self {
            Self::Ethernet => 3,
            Self::Ipv4 => 4,
            Self::Ipv6 => 5,
        }
    }

    const fn of_number(number: u8) -> Result<Self, ReportError> {
        match number {
            3 => Ok(Self::Ethernet),
            4 => Ok(Self::Ipv4),
            5 => Ok(Self::Ipv6),
            other => Err(ReportError::InnerType(other)),
        }
    }
}

impl HardwareId {
    /// Of a node with one part that reports.
    pub const ONLY: Self = Self::from_low_bits(0);
}

impl ReportSequence {
    /// Behind so many groups, modulo 2^22.
    #[must_use]
    pub const fn of(groups: u32) -> Self {
        Self::from_low_bits(groups)
    }
}

/// The head of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReportGroup {
    /// Which part of the node sends.
    pub hardware: HardwareId,
    /// Its number among the groups of this part.
    pub sequence: ReportSequence,
    /// Which node.
    pub node: u32,
}

impl ReportGroup {
    /// The version.
    pub const VERSION: u8 = 2;
    /// Its bytes.
    pub const LEN: usize = 2 * WORD;

    /// Reads the head, and answers what follows: reports, each read by [`Report::parse`] until nothing is left.
    ///
    /// # Errors
    /// When it is cut short or of another version.
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), ReportError> {
        let truncated = ReportError::Truncated { need: Self::LEN, have: bytes.len() };
        let (&[a, b, c, d, node @ ..], rest) =
            bytes.split_first_chunk::<{ Self::LEN }>().ok_or(truncated)?;
        let word = u32::from_be_bytes([a, b, c, d]);
        let version = a >> 4;
        if version != Self::VERSION {
            return Err(ReportError::Version(version));
        }
        let group = Self {
            hardware: HardwareId::from_low_bits(word >> field::HARDWARE_SHIFT),
            sequence: ReportSequence::from_low_bits(word),
            node: u32::from_be_bytes(node),
        };
        Ok((group, rest))
    }

    /// Writes the head at the start of `into` and answers its length.
    ///
    /// # Errors
    /// When `into` is shorter than [`Self::LEN`].
    pub fn emit(&self, into: &mut [u8]) -> Result<usize, ReportError> {
        let truncated = ReportError::Truncated { need: Self::LEN, have: into.len() };
        let word = u32::from(Self::VERSION) << field::VERSION_SHIFT
            | u32::from(self.hardware) << field::HARDWARE_SHIFT
            | self.sequence.get();
        let into = into.get_mut(..Self::LEN).ok_or(truncated)?;
        put(into, &[word, self.node]);
        Ok(Self::LEN)
    }
}

/// What the node that reports measured at its own hop. What it does not know is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ReportMetadata {
    /// How long functions took, ns.
    pub latency_ns: Option<u32>,
    /// The queue that the packet left by, and how full it was.
    pub queue: Option<(u8, QueueOccupancy)>,
    /// When the packet came, ns.
    pub arrival_ns: Option<u64>,
    /// Packets of the flow: metadata of our domain.
    pub counter: Option<u32>,
}

impl ReportMetadata {
    /// What a record says.
    #[must_use]
    pub fn of(record: &IntMetadata) -> Self {
        let occupancy = |length: u16| QueueOccupancy::from_low_bits(length.into());
        Self {
            // The longest latency of a record is 2.147 s.
            latency_ns: record.latency.and_then(|latency| u32::try_from(latency.ns()).ok()),
            queue: record.queue.map(|queue| (queue.id.get(), occupancy(queue.length.get()))),
            arrival_ns: record.arrival.map(ArrivalTime::ns),
            counter: record.counter.map(FlowCounter::get),
        }
    }

    fn bits(&self) -> u16 {
        let bit = |is_some: bool, bit: u32| if is_some { bit::mask(bit) } else { 0 };
        bit(self.latency_ns.is_some(), bit::LATENCY)
            | bit(self.queue.is_some(), bit::QUEUE)
            | bit(self.arrival_ns.is_some(), bit::ARRIVAL)
    }

    fn domain_bits(&self) -> u16 {
        self.counter.map_or(0, |_| bit::mask(bit::COUNTER))
    }

    /// The words, and how many of them there are.
    fn words(&self) -> ([u32; METADATA_WORDS_MAX], usize) {
        let queue = self
            .queue
            .map(|(id, occupancy)| u32::from(id) << field::OCCUPANCY_BITS | occupancy.get());
        let arrival = self.arrival_ns.map(|ns| [(ns >> 32) as u32, ns as u32]);
        let all = self.latency_ns.into_iter().chain(queue);
        let all = all.chain(arrival.into_iter().flatten()).chain(self.counter);
        let mut words = [0; METADATA_WORDS_MAX];
        let count = words.iter_mut().zip(all).map(|(place, word)| *place = word).count();
        (words, count)
    }

    /// Reads the words of these bits.
    fn read(words: &[[u8; WORD]], bits: u16, domain_bits: u16) -> Result<Self, ReportError> {
        if bits & bit::RESERVED != 0 {
            return Err(ReportError::Metadata(bits));
        }
        let mut metadata = Self::default();
        let mut rest = words.iter().copied().map(u32::from_be_bytes);
        let mut next = || rest.next().ok_or(ReportError::MetadataLength { words: words.len() });
        for number in (0..16).filter(|number| bits & bit::mask(*number) != 0) {
            let word = next()?;
            match number {
                bit::LATENCY => metadata.latency_ns = Some(word),
                bit::QUEUE => {
                    let id = (word >> field::OCCUPANCY_BITS) as u8;
                    metadata.queue = Some((id, QueueOccupancy::from_low_bits(word)));
                }
                bit::ARRIVAL => {
                    metadata.arrival_ns = Some(u64::from(word) << 32 | u64::from(next()?));
                }
                other if bit::TWO_WORDS & bit::mask(other) != 0 => _ = next()?,
                _ => {}
            }
        }
        if domain_bits & bit::mask(bit::COUNTER) != 0 {
            metadata.counter = Some(next()?);
        }
        Ok(metadata)
    }
}

/// What a node says of one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report<'p> {
    /// D: the packet was dropped.
    pub is_dropped: bool,
    /// Q: the queue was longer than its mark.
    pub is_congested: bool,
    /// F: of a watched flow.
    pub is_watched: bool,
    /// I: of a node between.
    pub is_intermediate: bool,
    /// Whose metadata those of a domain are.
    pub domain: u16,
    /// What the node measured.
    pub metadata: ReportMetadata,
    /// What the packet begins with.
    pub packet_type: ReportedPacket,
    /// The packet, cut short.
    pub packet: &'p [u8],
}

impl<'p> Report<'p> {
    /// Our domain.
    pub const DOMAIN: u16 = 0x5352;

    /// The first report of a group, and those behind it.
    ///
    /// # Errors
    /// When it is cut short, of another type, holds no packet, or its lengths and bits contradict each other.
    pub fn parse(bytes: &'p [u8]) -> Result<(Self, &'p [u8]), ReportError> {
        let truncated = |need| ReportError::Truncated { need, have: bytes.len() };
        let (head, behind) = bytes.split_first_chunk::<WORD>().ok_or(truncated(WORD))?;
        let &[types, length, metadata_length, _] = head;
        if types >> 4 != TYPE_INT {
            return Err(ReportError::Type(types >> 4));
        }
        let packet_type = ReportedPacket::of_number(types & 0xf)?;
        let length_bytes = match length {
            TO_THE_END => behind.len(),
            words => usize::from(words) * WORD,
        };
        let (contents, rest) =
            behind.split_at_checked(length_bytes).ok_or(truncated(WORD + length_bytes))?;
        let short = ReportError::Length { words: length };
        let (&[b0, b1, d0, d1, s0, s1, _, _], contents) =
            contents.split_first_chunk::<{ (FIXED_WORDS - 1) * WORD }>().ok_or(short)?;
        let words = usize::from(metadata_length);
        let (metadata, packet) = contents.split_at_checked(words * WORD).ok_or(short)?;
        let domain = u16::from_be_bytes([d0, d1]);
        let domain_bits = if domain == Self::DOMAIN { u16::from_be_bytes([s0, s1]) } else { 0 };
        let bits = u16::from_be_bytes([b0, b1]);
        let metadata = ReportMetadata::read(metadata.as_chunks().0, bits, domain_bits)?;
        let flags = u32::from_be_bytes(*head);
        let report = Self {
            is_dropped: flags & field::DROPPED != 0,
            is_congested: flags & field::CONGESTED != 0,
            is_watched: flags & field::WATCHED != 0,
            is_intermediate: flags & field::INTERMEDIATE != 0,
            domain,
            metadata,
            packet_type,
            packet,
        };
        Ok((report, rest))
    }

    /// Bytes that [`Self::emit`] writes.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        (FIXED_WORDS + self.metadata.words().1) * WORD + self.packet.len()
    }

    /// Its length field.
    fn length(&self) -> u8 {
        let behind = self.len_bytes() - WORD;
        let words = u8::try_from(behind / WORD).ok().filter(|_| behind.is_multiple_of(WORD));
        words.unwrap_or(TO_THE_END)
    }

    /// Does it end its group? Its packet is no whole number of words, or too long to be counted.
    #[must_use]
    pub fn ends_group(&self) -> bool {
        self.length() == TO_THE_END
    }

    /// Writes the report at the start of `into` and answers its length.
    ///
    /// # Errors
    /// When `into` is shorter than [`Self::len_bytes`].
    pub fn emit(&self, into: &mut [u8]) -> Result<usize, ReportError> {
        let (need, have) = (self.len_bytes(), into.len());
        let into = into.get_mut(..need).ok_or(ReportError::Truncated { need, have })?;
        let (words, count) = self.metadata.words();
        let flag = |is_set: bool, flag: u32| if is_set { flag } else { 0 };
        let head = u32::from(TYPE_INT) << field::TYPE_SHIFT
            | u32::from(self.packet_type.number()) << field::INNER_SHIFT
            | u32::from(self.length()) << field::LENGTH_SHIFT
            // At most METADATA_WORDS_MAX.
            | (count as u32) << field::METADATA_LENGTH_SHIFT
            | flag(self.is_dropped, field::DROPPED)
            | flag(self.is_congested, field::CONGESTED)
            | flag(self.is_watched, field::WATCHED)
            | flag(self.is_intermediate, field::INTERMEDIATE);
        let bits = u32::from(self.metadata.bits()) << 16 | u32::from(self.domain);
        let domain_bits = u32::from(self.metadata.domain_bits()) << 16;
        let (fixed, behind) = into.split_at_mut(FIXED_WORDS * WORD);
        put(fixed, &[head, bits, domain_bits]);
        let (metadata, packet) = behind.split_at_mut(count * WORD);
        put(metadata, &words);
        packet.copy_from_slice(self.packet);
        Ok(need)
    }
}

/// Writes as many words as there is room for.
fn put(into: &mut [u8], words: &[u32]) {
    for (place, word) in into.as_chunks_mut::<WORD>().0.iter_mut().zip(words) {
        *place = word.to_be_bytes();
    }
}

/// Why bytes are no telemetry report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportError {
    /// Too few bytes, counted from the start of group or report.
    Truncated {
        /// Bytes needed.
        need: usize,
        /// Bytes there.
        have: usize,
    },
    /// A version other than 2.
    Version(u8),
    /// A report of another type than INT.
    Type(u8),
    /// What follows the metadata is no packet.
    InnerType(u8),
    /// A length below that of the fields in it.
    Length {
        /// The length field, in words of four bytes.
        words: u8,
    },
    /// Metadata that nobody has defined.
    Metadata(u16),
    /// Fewer metadata than the bits say.
    MetadataLength {
        /// Words of metadata.
        words: usize,
    },
}

impl fmt::Display for ReportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { need, have } => {
                write!(f, "the telemetry report needs {need} bytes, there are {have}")
            }
            Self::Version(version) => write!(f, "telemetry report of unknown version {version}"),
            Self::Type(kind) => write!(f, "telemetry report of unknown type {kind}"),
            Self::InnerType(kind) => {
                write!(f, "telemetry report with contents of type {kind}, no packet")
            }
            Self::Length { words } => {
                write!(f, "a telemetry report of {words} words is shorter than its fields")
            }
            Self::Metadata(bits) => {
                write!(f, "telemetry report with unknown metadata, {bits:#06x}")
            }
            Self::MetadataLength { words } => {
                write!(f, "{words} words of metadata are fewer than the telemetry report says")
            }
        }
    }
}

impl core::error::Error for ReportError {}

#[cfg(test)]
mod tests;
