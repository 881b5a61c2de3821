//! IPv4, RFC 791.
//!
//! Knows the header, its options as bytes, its fragment fields and its checksum. Refuses to know
//! what follows, and to reassemble.
//!
//! ```text
//! |Version|  IHL  |    DSCP   |ECN|         Total Length          |
//! |        Identification         |R|D|M|     Fragment Offset     |
//! | Time to Live  |   Protocol    |        Header Checksum        |
//! |                        Source Address                         |
//! |                      Destination Address                      |
//! |                        Options ...                            |
//! ```

use core::fmt;
use core::net::Ipv4Addr;
use core::ops::Range;

use crate::checksum::{self, Sum};
use crate::scalar::{FragmentOffset, IpProtocol};

mod field {
    pub(super) const TRAFFIC_CLASS: usize = 1;
    pub(super) const TOTAL_LENGTH: usize = 2;
    pub(super) const IDENTIFICATION: usize = 4;
    pub(super) const FRAGMENT: usize = 6;
    pub(super) const TTL: usize = 8;
    pub(super) const PROTOCOL: usize = 9;
    pub(super) const CHECKSUM: usize = 10;
    pub(super) const SOURCE: usize = 12;
    pub(super) const DESTINATION: usize = 16;
}

/// Length of the header without options, bytes.
pub const HEADER_BYTES: usize = 20;
/// Where the time to live is in the header.
pub const TTL_OFFSET: usize = field::TTL;
/// Where the header checksum is in the header.
pub const CHECKSUM_OFFSET: usize = field::CHECKSUM;
/// Largest packet, header included, bytes.
pub const PACKET_BYTES_MAX: usize = 65_535;
/// Version and header length of a header without options.
const VERSION_AND_LENGTH: u8 = 0x45;
const CHECKSUM_RANGE: Range<usize> = field::CHECKSUM..field::CHECKSUM + 2;
const RESERVED_FLAG: u16 = 0x8000;
const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;

/// Why bytes are no IPv4 packet, or a header does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ipv4Error {
    /// The bytes end inside the header.
    Truncated {
        /// Bytes the header takes, as far as known.
        need: usize,
        /// Bytes there are.
        have: usize,
    },
    /// The version is not 4.
    Version(u8),
    /// The header length is below five words.
    HeaderLength {
        /// The length field, 32-bit words.
        words: u8,
    },
    /// The total length is shorter than the header or longer than the bytes.
    TotalLength {
        /// The length field, bytes.
        field: u16,
        /// Bytes there are.
        have: usize,
    },
    /// The payload is longer than a packet can say.
    TooLong {
        /// Bytes of the payload.
        payload: usize,
    },
}

impl fmt::Display for Ipv4Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { need, have } => {
                write!(f, "IPv4 header cut short: {have} of {need} bytes")
            }
            Self::Version(version) => write!(f, "IP version {version} where 4 is expected"),
            Self::HeaderLength { words } => write!(f, "IPv4 header length of {words} words"),
            Self::TotalLength { field, have } => {
                write!(f, "IPv4 total length {field} in {have} bytes")
            }
            Self::TooLong { payload } => write!(f, "{payload} bytes do not fit an IPv4 packet"),
        }
    }
}

impl core::error::Error for Ipv4Error {}

/// A view of a packet. Once [`Ipv4View::parse`] has returned it, no accessor can fail.
#[derive(Clone, Copy, Debug)]
pub struct Ipv4View<'p> {
    fixed: &'p [u8; HEADER_BYTES],
    options: &'p [u8],
    payload: &'p [u8],
}

impl<'p> Ipv4View<'p> {
    /// Reads the packet at the front of the bytes; what is after its total length is padding.
    ///
    /// The header checksum is not judged here, see [`Ipv4View::is_checksum_correct`].
    ///
    /// # Errors
    /// When version or lengths contradict the bytes.
    #[inline]
    pub fn parse(bytes: &'p [u8]) -> Result<Self, Ipv4Error> {
        Self::read(bytes, false)
    }

    /// The same for what a fragment holds of a packet: its total length may reach beyond the bytes.
    ///
    /// # Errors
    /// As [`Ipv4View::parse`].
    #[inline]
    pub fn parse_cut(bytes: &'p [u8]) -> Result<Self, Ipv4Error> {
        Self::read(bytes, true)
    }

    #[inline]
    fn read(bytes: &'p [u8], is_cut: bool) -> Result<Self, Ipv4Error> {
        let have = bytes.len();
        let (fixed, rest) = bytes
            .split_first_chunk::<HEADER_BYTES>()
            .ok_or(Ipv4Error::Truncated { need: HEADER_BYTES, have })?;
        let (version, words) = (fixed[0] >> 4, fixed[0] & 0x0f);
        if version != 4 {
            return Err(Ipv4Error::Version(version));
        }
        let need = usize::from(words) * 4;
        let options_bytes =
            need.checked_sub(HEADER_BYTES).ok_or(Ipv4Error::HeaderLength { words })?;
        let (options, rest) =
            rest.split_at_checked(options_bytes).ok_or(Ipv4Error::Truncated { need, have })?;
        let field = word(fixed, field::TOTAL_LENGTH);
        let payload = usize::from(field)
            .checked_sub(need)
            .and_then(|length| rest.get(..length).or(is_cut.then_some(rest)))
            .ok_or(Ipv4Error::TotalLength { field, have })?;
        Ok(Self { fixed, options, payload })
    }

    /// DSCP and ECN in one octet (RFC 2474, RFC 3168).
    #[must_use]
    pub const fn traffic_class(&self) -> u8 {
        self.fixed[field::TRAFFIC_CLASS]
    }

    /// Explicit congestion notification, 0 to 3 (3 = congestion experienced).
    #[must_use]
    pub const fn ecn(&self) -> u8 {
        self.traffic_class() & 3
    }

    /// Header and payload, bytes.
    #[must_use]
    pub fn total_length(&self) -> u16 {
        word(self.fixed, field::TOTAL_LENGTH)
    }

    /// Which packet a fragment belongs to.
    #[must_use]
    pub fn identification(&self) -> u16 {
        word(self.fixed, field::IDENTIFICATION)
    }

    /// The first flag bit, zero by RFC 791.
    #[must_use]
    pub fn reserved_flag(&self) -> bool {
        word(self.fixed, field::FRAGMENT) & RESERVED_FLAG != 0
    }

    /// May no router fragment it?
    #[must_use]
    pub fn dont_fragment(&self) -> bool {
        word(self.fixed, field::FRAGMENT) & DONT_FRAGMENT != 0
    }

    /// Do more fragments follow this one?
    #[must_use]
    pub fn more_fragments(&self) -> bool {
        word(self.fixed, field::FRAGMENT) & MORE_FRAGMENTS != 0
    }

    /// Where this fragment begins in its packet.
    #[must_use]
    pub fn fragment_offset(&self) -> FragmentOffset {
        FragmentOffset::from_low_bits(u32::from(word(self.fixed, field::FRAGMENT)))
    }

    /// Hops left.
    #[must_use]
    pub const fn ttl(&self) -> u8 {
        self.fixed[field::TTL]
    }

    /// What the payload is.
    #[must_use]
    pub const fn protocol(&self) -> IpProtocol {
        IpProtocol(self.fixed[field::PROTOCOL])
    }

    /// The header checksum as it stands.
    #[must_use]
    pub fn checksum(&self) -> u16 {
        word(self.fixed, field::CHECKSUM)
    }

    /// Does the header checksum hold?
    #[must_use]
    pub fn is_checksum_correct(&self) -> bool {
        Sum::of(self.fixed).then_bytes(self.options).is_correct()
    }

    /// Source address.
    #[must_use]
    pub fn source(&self) -> Ipv4Addr {
        address(self.fixed, field::SOURCE)
    }

    /// Destination address.
    #[must_use]
    pub fn destination(&self) -> Ipv4Addr {
        address(self.fixed, field::DESTINATION)
    }

    /// Options with their padding, 0 to 40 bytes.
    #[must_use]
    pub const fn options(&self) -> &'p [u8] {
        self.options
    }

    /// Bytes of the header with its options.
    #[must_use]
    pub const fn header_len(&self) -> usize {
        HEADER_BYTES + self.options.len()
    }

    /// What follows the header, without padding.
    #[must_use]
    pub const fn payload(&self) -> &'p [u8] {
        self.payload
    }

    /// The meaning of the header, without its options.
    #[must_use]
    pub fn header(&self) -> Ipv4Header {
        Ipv4Header {
            traffic_class: self.traffic_class(),
            payload_bytes: self.payload.len(),
            identification: self.identification(),
            dont_fragment: self.dont_fragment(),
            more_fragments: self.more_fragments(),
            fragment_offset: self.fragment_offset(),
            ttl: self.ttl(),
            protocol: self.protocol(),
            source: self.source(),
            destination: self.destination(),
        }
    }
}

/// The meaning of a header without options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ipv4Header {
    /// DSCP and ECN in one octet.
    pub traffic_class: u8,
    /// Bytes that follow the header.
    pub payload_bytes: usize,
    /// Which packet a fragment belongs to.
    pub identification: u16,
    /// May no router fragment it?
    pub dont_fragment: bool,
    /// Do more fragments follow?
    pub more_fragments: bool,
    /// Where this fragment begins.
    pub fragment_offset: FragmentOffset,
    /// Hops left.
    pub ttl: u8,
    /// What the payload is.
    pub protocol: IpProtocol,
    /// Source address.
    pub source: Ipv4Addr,
    /// Destination address.
    pub destination: Ipv4Addr,
}

impl Ipv4Header {
    /// Writes the header with its checksum to the front of the buffer, 20 bytes.
    ///
    /// # Errors
    /// When the buffer is too short or the payload too long; nothing is written then.
    pub fn emit(&self, into: &mut [u8]) -> Result<usize, Ipv4Error> {
        let payload = self.payload_bytes;
        let total = payload
            .checked_add(HEADER_BYTES)
            .and_then(|total| u16::try_from(total).ok())
            .ok_or(Ipv4Error::TooLong { payload })?;
        let header = fixed_mut(into)?;
        let flags = if self.dont_fragment { DONT_FRAGMENT } else { 0 }
            | if self.more_fragments { MORE_FRAGMENTS } else { 0 };
        header[0] = VERSION_AND_LENGTH;
        header[field::TRAFFIC_CLASS] = self.traffic_class;
        set_word(header, field::TOTAL_LENGTH, total);
        set_word(header, field::IDENTIFICATION, self.identification);
        set_word(header, field::FRAGMENT, flags | self.fragment_offset.get());
        header[field::TTL] = self.ttl;
        header[field::PROTOCOL] = self.protocol.0;
        set_word(header, field::CHECKSUM, 0);
        header[field::SOURCE..field::DESTINATION].copy_from_slice(&self.source.octets());
        header[field::DESTINATION..].copy_from_slice(&self.destination.octets());
        let sum = Sum::of(header);
        set_word(header, field::CHECKSUM, sum.checksum());
        Ok(HEADER_BYTES)
    }
}

/// The identification of a packet whose other fields need no look; `None` when the bytes are shorter
/// than a header.
pub(crate) fn identification(packet: &[u8]) -> Option<u16> {
    packet.first_chunk().map(|header| word(header, field::IDENTIFICATION))
}

/// Computes the header checksum anew.
///
/// # Errors
/// When the bytes end inside the header they announce.
pub fn refresh_checksum(packet: &mut [u8]) -> Result<(), Ipv4Error> {
    let have = packet.len();
    let words = fixed_mut(packet)?[0] & 0x0f;
    let need = usize::from(words) * 4;
    if need < HEADER_BYTES {
        return Err(Ipv4Error::HeaderLength { words });
    }
    let header = packet.get_mut(..need).ok_or(Ipv4Error::Truncated { need, have })?;
    header[CHECKSUM_RANGE].fill(0);
    let checksum = Sum::of(header).checksum();
    header[CHECKSUM_RANGE].copy_from_slice(&checksum.to_be_bytes());
    Ok(())
}

/// Replaces the total length and updates the checksum (RFC 1624).
///
/// # Errors
/// When the bytes are shorter than a header.
pub fn set_total_length(packet: &mut [u8], total_length: u16) -> Result<(), Ipv4Error> {
    replace_word(fixed_mut(packet)?, field::TOTAL_LENGTH, total_length);
    Ok(())
}

/// Replaces the identification and updates the checksum (RFC 1624).
///
/// # Errors
/// When the bytes are shorter than a header.
pub fn set_identification(packet: &mut [u8], identification: u16) -> Result<(), Ipv4Error> {
    replace_word(fixed_mut(packet)?, field::IDENTIFICATION, identification);
    Ok(())
}

/// Replaces DSCP and ECN and updates the checksum (RFC 1624).
///
/// # Errors
/// When the bytes are shorter than a header.
pub fn set_traffic_class(packet: &mut [u8], traffic_class: u8) -> Result<(), Ipv4Error> {
    let header = fixed_mut(packet)?;
    let value = u16::from_be_bytes([header[0], traffic_class]);
    replace_word(header, field::TRAFFIC_CLASS - 1, value);
    Ok(())
}

/// Replaces the time to live and updates the checksum (RFC 1624).
///
/// # Errors
/// When the bytes are shorter than a header.
pub fn set_ttl(packet: &mut [u8], ttl: u8) -> Result<(), Ipv4Error> {
    let header = fixed_mut(packet)?;
    let value = u16::from_be_bytes([ttl, header[field::PROTOCOL]]);
    replace_word(header, field::TTL, value);
    Ok(())
}

fn replace_word(header: &mut [u8; HEADER_BYTES], at: usize, new: u16) {
    let (old, checksum) = (word(header, at), word(header, field::CHECKSUM));
    set_word(header, at, new);
    set_word(header, field::CHECKSUM, checksum::update_word(checksum, old, new));
}

fn fixed_mut(packet: &mut [u8]) -> Result<&mut [u8; HEADER_BYTES], Ipv4Error> {
    let have = packet.len();
    packet.first_chunk_mut().ok_or(Ipv4Error::Truncated { need: HEADER_BYTES, have })
}

fn word(header: &[u8; HEADER_BYTES], at: usize) -> u16 {
    u16::from_be_bytes([header[at], header[at + 1]])
}

fn set_word(header: &mut [u8; HEADER_BYTES], at: usize, value: u16) {
    header[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

fn address(header: &[u8; HEADER_BYTES], at: usize) -> Ipv4Addr {
    Ipv4Addr::new(header[at], header[at + 1], header[at + 2], header[at + 3])
}

#[cfg(test)]
mod tests;
