//! Telemetry in the segments that a packet is done with: SRv6-INT, profile version 1.
//!
//! Knows the record of a node, the marks of a packet that takes records along, and the steps that write them. Refuses
//! to know what is measured how, and who reads it.
//!
//! Over a segment routing header ([`crate::srv6`]) with flag I, 0x01, from encapsulation to decapsulation:
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |  Last Entry   |0 0 O 0 H 0 0 I|Version|S|P|E|M|    Colour     |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ~ Segment List: entries behind Segments Left become records     ~
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |  Type = 252   |  Length = 6   |0 0 0 0 0 0 0 0 0 0 0| MapInfo |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |V|Function     |      Latency of it, unit 128 ns               |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```
//!
//! - Version 1. S: the way leads through functions. P: the packet is in a function, whose latency is still to be
//!   written. E: some node could not write its record. M: to be mirrored at the end, as was decided at the beginning.
//! - MapInfo: what records hold. The word behind it is the detection result: what the function measured of an earlier
//!   packet. Without V there is none, and the rest of it is sent as zero and ignored on receipt.
//! - With [`Tail::Paper`] the TLV has type 124 and length 2, and the detection result stands bare behind it: for
//!   switches that know only the paper. Such a header cannot be signed, and Linux drops most of them.
//!
//! The list is never reduced, so that the first node has an entry too, and never popped before its end.

mod behaviour;
mod error;
mod metadata;

pub use behaviour::{
    Egress, IntEncaps, Return, Step, Visit, count_on, end_dt_int, end_t_int, end_t_int_kept,
    end_t_int_return, mark_incomplete, mark_mirrored, takes_records,
};
pub use error::IntError;
pub use metadata::{ArrivalTime, FunctionLatency, IntMetadata, Queue};

use core::net::Ipv6Addr;

use crate::ipv6;
use crate::scalar::{FunctionIndex, LatencyUnits};
use crate::srv6::{FIXED_BYTES, SEGMENT_BYTES, SegmentFlags, Srv6Error, Srv6View, TlvType};

mod field {
    //! Bits of the tag.
    pub(super) const VERSION_SHIFT: u32 = 12;
    pub(super) const FOR_FUNCTIONS: u16 = 1 << 11;
    pub(super) const PENDING: u16 = 1 << 10;
    pub(super) const INCOMPLETE: u16 = 1 << 9;
    pub(super) const MIRRORED: u16 = 1 << 8;
}

/// I: the packet takes records along.
pub const FLAG: SegmentFlags = SegmentFlags(0x01);
/// The TLV of MapInfo and detection result: experimental, and mutable.
pub const TLV: TlvType = TlvType(252);
/// The TLV of MapInfo alone, of the paper: experimental.
pub const PAPER_TLV: TlvType = TlvType(124);
/// Bytes behind the list, whichever tail.
pub const TAIL_BYTES: usize = 8;
/// Bytes of the detection result.
const RESULT_BYTES: usize = 4;
/// Bytes of MapInfo, with the zero bits in front of it.
const MAP_BYTES: usize = 2;

/// Type and length of the TLV.
const TLV_HEAD: [u8; 2] = [TLV.0, (MAP_BYTES + RESULT_BYTES) as u8];

/// Bytes by which a packet grows that takes records of so many segments along, without HMAC.
#[must_use]
pub const fn encapsulation_bytes(segments: usize) -> usize {
    ipv6::HEADER_BYTES + FIXED_BYTES + SEGMENT_BYTES * segments + TAIL_BYTES
}

/// How MapInfo and detection result end the header: a domain has one of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Tail {
    /// In one TLV.
    #[default]
    Tlv,
    /// As in the paper.
    Paper,
}

impl Tail {
    /// Reads a packet, whether it takes records along or not.
    fn read(self, packet: &[u8]) -> Result<Srv6View<'_>, Srv6Error> {
        if self == Self::Paper {
            let view = Srv6View::parse_but_tlvs(packet)?;
            if view.routing().flags().contains(FLAG) {
                return Ok(view);
            }
        }
        Srv6View::parse(packet)
    }

    /// MapInfo and detection result of a packet, and where they begin, bytes behind the list.
    fn find<'p>(self, view: &Srv6View<'p>) -> Option<(usize, &'p [u8; MAP_BYTES + RESULT_BYTES])> {
        let (routing, head) = (view.routing(), 2);
        let behind = routing.behind();
        let place = match self {
            // Whoever begins with it needs no search.
            Self::Tlv if behind.starts_with(&TLV_HEAD) => head..TAIL_BYTES,
            Self::Tlv => routing.tlvs().place(TLV)?,
            Self::Paper => {
                let is_whole = behind.len() == TAIL_BYTES;
                let is_ours = behind.starts_with(&[PAPER_TLV.0, MAP_BYTES as u8]);
                (is_whole && is_ours).then_some(head..TAIL_BYTES)?
            }
        };
        Some((place.start, behind.get(place)?.try_into().ok()?))
    }
}

/// What records hold: five fields, each or none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct MapInfo(u8);

impl MapInfo {
    /// The number of the node.
    pub const DEVICE: Self = Self(0x10);
    /// When the packet came.
    pub const ARRIVAL: Self = Self(0x08);
    /// How long functions took.
    pub const LATENCY: Self = Self(0x04);
    /// The queue that the packet left by, and its length.
    pub const QUEUE: Self = Self(0x02);
    /// Packets of the flow.
    pub const COUNTER: Self = Self(0x01);
    /// All of them.
    pub const ALL: Self = Self(0x1f);

    /// That of five bits.
    ///
    /// # Errors
    /// When there are more.
    pub fn new(bits: u16) -> Result<Self, IntError> {
        match u8::try_from(bits) {
            Ok(low @ 0..=0x1f) => Ok(Self(low)),
            _ => Err(IntError::MapInfo(bits)),
        }
    }

    /// The five bits.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Are all of these in it?
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// The tag of a packet that takes records along. It changes on the way, and no HMAC covers it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct IntTag {
    /// S: the way leads through functions.
    pub is_for_functions: bool,
    /// P: the packet is in a function.
    pub is_pending: bool,
    /// E: some node could not write its record.
    pub is_incomplete: bool,
    /// M: to be mirrored at the end.
    pub is_mirrored: bool,
    /// Which chain or map, as the domain agrees on.
    pub colour: u8,
}

impl IntTag {
    /// The only version.
    pub const VERSION: u8 = 1;

    /// Reads it.
    ///
    /// # Errors
    /// When it is of another version.
    pub const fn read(tag: u16) -> Result<Self, IntError> {
        match Self::version_of(tag) {
            Self::VERSION => Ok(Self::of_bits(tag)),
            other => Err(IntError::Version(other)),
        }
    }

    const fn version_of(tag: u16) -> u8 {
        (tag >> field::VERSION_SHIFT) as u8
    }

    /// That of a tag whose version is known.
    const fn of_bits(tag: u16) -> Self {
        Self {
            is_for_functions: tag & field::FOR_FUNCTIONS != 0,
            is_pending: tag & field::PENDING != 0,
            is_incomplete: tag & field::INCOMPLETE != 0,
            is_mirrored: tag & field::MIRRORED != 0,
            colour: tag as u8,
        }
    }

    /// As it is written.
    #[must_use]
    pub const fn bits(self) -> u16 {
        const fn bit(is_set: bool, bit: u16) -> u16 {
            if is_set { bit } else { 0 }
        }
        (Self::VERSION as u16) << field::VERSION_SHIFT
            | bit(self.is_for_functions, field::FOR_FUNCTIONS)
            | bit(self.is_pending, field::PENDING)
            | bit(self.is_incomplete, field::INCOMPLETE)
            | bit(self.is_mirrored, field::MIRRORED)
            | self.colour as u16
    }
}

/// What a function measured of an earlier packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DetectionResult {
    /// Which one of its node.
    pub function: FunctionIndex,
    /// How long it took.
    pub latency: LatencyUnits,
}

impl DetectionResult {
    const VALID: u32 = 1 << 31;
    const FUNCTION_SHIFT: u32 = 24;

    /// Reads the word; none: there is no sample in it.
    #[must_use]
    pub const fn read(word: u32) -> Option<Self> {
        if word & Self::VALID == 0 {
            return None;
        }
        Some(Self {
            function: FunctionIndex::from_low_bits(word >> Self::FUNCTION_SHIFT),
            latency: LatencyUnits::from_low_bits(word),
        })
    }

    /// As it is written.
    #[must_use]
    pub const fn bits(self) -> u32 {
        Self::VALID | (self.function.get() as u32) << Self::FUNCTION_SHIFT | self.latency.get()
    }
}

/// What an entry of the list says of its hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hop {
    /// Still to be visited.
    Ahead(Ipv6Addr),
    /// Visited, and its node writes no telemetry.
    Silent(Ipv6Addr),
    /// Visited, and this is its record.
    Recorded(IntMetadata),
    /// A record that contradicts itself, the map, or how far the packet has come.
    Malformed,
}

/// What the header of a packet says of the records that it takes along.
#[derive(Clone, Copy, Debug)]
struct Marks {
    /// The bits of the tag, of the only version.
    tag: u16,
    map: MapInfo,
    /// The word of the detection result.
    result: u32,
    /// Where the detection result is, bytes from the start of the packet.
    result_offset: usize,
}

impl Marks {
    fn of(packet: &Srv6View<'_>, tail: Tail) -> Result<Self, IntError> {
        let routing = packet.routing();
        if !routing.flags().contains(FLAG) {
            return Err(IntError::NoFlag);
        }
        let tag = routing.tag();
        let version = IntTag::version_of(tag);
        if version != IntTag::VERSION {
            return Err(IntError::Version(version));
        }
        let (segments_left, last_entry) = (routing.segments_left(), routing.last_entry());
        if segments_left > last_entry {
            return Err(IntError::Srv6(Srv6Error::SegmentsLeft { segments_left, last_entry }));
        }
        let (at, &[high, low, a, b, c, d]) = tail.find(packet).ok_or(IntError::NoTail)?;
        let map = MapInfo::new(u16::from_be_bytes([high, low]))?;
        let result = u32::from_be_bytes([a, b, c, d]);
        let result_offset = ipv6::HEADER_BYTES + routing.behind_offset() + at + MAP_BYTES;
        Ok(Self { tag, map, result, result_offset })
    }
}

/// A view: a packet that takes records along.
#[derive(Clone, Copy, Debug)]
pub struct IntView<'p> {
    packet: Srv6View<'p>,
    marks: Marks,
}

impl<'p> IntView<'p> {
    /// Reads the packet at the front of the bytes.
    ///
    /// # Errors
    /// When it is none of segment routing, takes no records along, has no legal tag or tail, or more segments left
    /// than its list has.
    pub fn parse(packet: &'p [u8], tail: Tail) -> Result<Self, IntError> {
        let packet = tail.read(packet).map_err(IntError::Srv6)?;
        let marks = Marks::of(&packet, tail)?;
        Ok(Self { packet, marks })
    }

    /// The packet.
    #[must_use]
    pub const fn packet(&self) -> &Srv6View<'p> {
        &self.packet
    }

    /// Its tag.
    #[must_use]
    pub const fn tag(&self) -> IntTag {
        IntTag::of_bits(self.marks.tag)
    }

    /// What records hold.
    #[must_use]
    pub const fn map(&self) -> MapInfo {
        self.marks.map
    }

    /// What the function that the packet is in measured of an earlier one, if that is there.
    #[must_use]
    pub const fn result(&self) -> Option<DetectionResult> {
        DetectionResult::read(self.marks.result)
    }

    /// What each entry says, in the order in which they are visited.
    pub fn hops(&self) -> impl Iterator<Item = Hop> + use<'p> {
        let (map, left) = (self.marks.map, usize::from(self.packet.routing().segments_left()));
        let entries = self.packet.routing().list().iter().enumerate().rev();
        entries.map(move |(index, entry)| match IntMetadata::read(entry) {
            Err(IntError::NoMetadata) if index <= left => Hop::Ahead(Ipv6Addr::from(*entry)),
            Err(IntError::NoMetadata) => Hop::Silent(Ipv6Addr::from(*entry)),
            // The active segment has no record before its node is done with it, which only the last one is here.
            Ok(record) if map.contains(record.valid()) && (index > left || index == 0) => {
                Hop::Recorded(record)
            }
            _ => Hop::Malformed,
        })
    }
}

#[cfg(test)]
mod tests;
