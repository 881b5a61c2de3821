//! TCP, RFC 9293.
//!
//! Knows the header, its flags and its options as bytes. Refuses to know connections.
//!
//! ```text
//! |          Source Port          |       Destination Port        |
//! |                        Sequence Number                        |
//! |                    Acknowledgment Number                      |
//! |Offset | Rsrvd |C|E|U|A|P|R|S|F|            Window             |
//! |           Checksum            |         Urgent Pointer        |
//! |                           Options ...                         |
//! ```

pub mod reset;

use core::fmt;
use core::net::IpAddr;

use crate::checksum;
use crate::scalar::IpProtocol;

mod field {
    pub(super) const SOURCE_PORT: usize = 0;
    pub(super) const DESTINATION_PORT: usize = 2;
    pub(super) const SEQUENCE: usize = 4;
    pub(super) const ACKNOWLEDGMENT: usize = 8;
    pub(super) const DATA_OFFSET: usize = 12;
    pub(super) const FLAGS: usize = 13;
    pub(super) const WINDOW: usize = 14;
    pub(super) const URGENT: usize = 18;
}

/// Length of the header without options, bytes.
pub const HEADER_BYTES: usize = 20;
/// Longest header, bytes.
pub const HEADER_BYTES_MAX: usize = 60;
/// Where the flags are, bytes from the start of the header.
pub const FLAGS_OFFSET: usize = field::FLAGS;
/// Where the checksum is, bytes from the start of the header.
pub const CHECKSUM_OFFSET: usize = 16;

/// Why bytes are no TCP segment, or a header does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpError {
    /// The bytes end inside the header.
    Truncated {
        /// Bytes the header takes, as far as known.
        need: usize,
        /// Bytes there are.
        have: usize,
    },
    /// The data offset is below five words.
    DataOffset {
        /// The field, 32-bit words.
        words: u8,
    },
}

impl fmt::Display for TcpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { need, have } => {
                write!(f, "TCP header cut short: {have} of {need} bytes")
            }
            Self::DataOffset { words } => write!(f, "TCP data offset of {words} words"),
        }
    }
}

impl core::error::Error for TcpError {}

/// Control bits, in the order of the octet that holds them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TcpFlags(pub u8);

impl TcpFlags {
    /// No more data.
    pub const FIN: Self = Self(0x01);
    /// Synchronise sequence numbers.
    pub const SYN: Self = Self(0x02);
    /// Reset the connection.
    pub const RST: Self = Self(0x04);
    /// Push to the receiver.
    pub const PSH: Self = Self(0x08);
    /// The acknowledgment number counts.
    pub const ACK: Self = Self(0x10);
    /// The urgent pointer counts.
    pub const URG: Self = Self(0x20);
    /// ECN echo (RFC 3168).
    pub const ECE: Self = Self(0x40);
    /// Congestion window reduced (RFC 3168).
    pub const CWR: Self = Self(0x80);

    /// Both sets together.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// This set without the other.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Those that segment `i` of so many has, cut from one with these: FIN and PSH are only on the last,
    /// CWR only on the first (RFC 3168 section 6.1.2).
    #[must_use]
    pub const fn of_segment(self, i: u32, count: u32) -> Self {
        let later = if i > 0 { Self::CWR } else { Self(0) };
        let earlier = if i + 1 < count { Self::FIN.with(Self::PSH) } else { Self(0) };
        self.without(later.with(earlier))
    }

    /// Is one of the others in this set?
    #[must_use]
    pub const fn has_any(self, others: Self) -> bool {
        self.0 & others.0 != 0
    }
}

/// A view of a segment. Once [`TcpView::parse`] has returned it, no accessor can fail.
#[derive(Clone, Copy, Debug)]
pub struct TcpView<'p> {
    fixed: &'p [u8; HEADER_BYTES],
    segment: &'p [u8],
    header_bytes: u8,
}

impl<'p> TcpView<'p> {
    /// Reads the segment that fills an IP payload.
    ///
    /// # Errors
    /// When the data offset contradicts the bytes.
    #[inline]
    pub fn parse(segment: &'p [u8]) -> Result<Self, TcpError> {
        let have = segment.len();
        let fixed =
            segment.first_chunk().ok_or(TcpError::Truncated { need: HEADER_BYTES, have })?;
        let words = fixed[field::DATA_OFFSET] >> 4;
        let header_bytes = words * 4;
        let need = usize::from(header_bytes);
        if need < HEADER_BYTES {
            return Err(TcpError::DataOffset { words });
        }
        if have < need {
            return Err(TcpError::Truncated { need, have });
        }
        Ok(Self { fixed, segment, header_bytes })
    }

    /// Source port.
    #[must_use]
    pub fn source_port(&self) -> u16 {
        word(self.fixed, field::SOURCE_PORT)
    }

    /// Destination port.
    #[must_use]
    pub fn destination_port(&self) -> u16 {
        word(self.fixed, field::DESTINATION_PORT)
    }

    /// Number of the first byte (or of the SYN).
    #[must_use]
    pub fn sequence(&self) -> u32 {
        double_word(self.fixed, field::SEQUENCE)
    }

    /// Number of the next byte expected.
    #[must_use]
    pub fn acknowledgment(&self) -> u32 {
        double_word(self.fixed, field::ACKNOWLEDGMENT)
    }

    /// The four bits between data offset and flags.
    #[must_use]
    pub const fn reserved(&self) -> u8 {
        self.fixed[field::DATA_OFFSET] & 0x0f
    }

    /// Control bits.
    #[must_use]
    pub const fn flags(&self) -> TcpFlags {
        TcpFlags(self.fixed[field::FLAGS])
    }

    /// Receive window, not scaled.
    #[must_use]
    pub fn window(&self) -> u16 {
        word(self.fixed, field::WINDOW)
    }

    /// The checksum as it stands.
    #[must_use]
    pub fn checksum(&self) -> u16 {
        word(self.fixed, CHECKSUM_OFFSET)
    }

    /// Urgent pointer.
    #[must_use]
    pub fn urgent_pointer(&self) -> u16 {
        word(self.fixed, field::URGENT)
    }

    /// Bytes of the header with its options.
    #[must_use]
    pub const fn header_len(&self) -> usize {
        self.header_bytes as usize
    }

    /// Options with their padding, 0 to 40 bytes.
    #[must_use]
    pub fn options(&self) -> &'p [u8] {
        self.segment.get(HEADER_BYTES..self.header_len()).unwrap_or_default()
    }

    /// The data.
    #[must_use]
    pub fn payload(&self) -> &'p [u8] {
        self.segment.get(self.header_len()..).unwrap_or_default()
    }

    /// Does the checksum hold?
    #[must_use]
    pub fn is_checksum_correct(&self, source: IpAddr, destination: IpAddr) -> bool {
        pseudo_header(self.segment, source, destination).then_bytes(self.segment).is_correct()
    }

    /// The meaning of the header, without its options.
    #[must_use]
    pub fn header(&self) -> TcpHeader {
        TcpHeader {
            source_port: self.source_port(),
            destination_port: self.destination_port(),
            sequence: self.sequence(),
            acknowledgment: self.acknowledgment(),
            flags: self.flags(),
            window: self.window(),
            urgent_pointer: self.urgent_pointer(),
        }
    }
}

/// The meaning of a header without options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TcpHeader {
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// Number of the first byte.
    pub sequence: u32,
    /// Number of the next byte expected.
    pub acknowledgment: u32,
    /// Control bits.
    pub flags: TcpFlags,
    /// Receive window.
    pub window: u16,
    /// Urgent pointer.
    pub urgent_pointer: u16,
}

impl TcpHeader {
    /// Writes the header to the front of the buffer, 20 bytes, with a checksum of zero: see
    /// [`refresh_checksum`].
    ///
    /// # Errors
    /// When the buffer is too short; nothing is written then.
    pub fn emit(&self, into: &mut [u8]) -> Result<usize, TcpError> {
        let header = fixed_mut(into)?;
        set_word(header, field::SOURCE_PORT, self.source_port);
        set_word(header, field::DESTINATION_PORT, self.destination_port);
        set_double_word(header, field::SEQUENCE, self.sequence);
        set_double_word(header, field::ACKNOWLEDGMENT, self.acknowledgment);
        header[field::DATA_OFFSET] = 0x50;
        header[field::FLAGS] = self.flags.0;
        set_word(header, field::WINDOW, self.window);
        set_word(header, CHECKSUM_OFFSET, 0);
        set_word(header, field::URGENT, self.urgent_pointer);
        Ok(HEADER_BYTES)
    }
}

/// Replaces the sequence number. The checksum is left alone.
///
/// # Errors
/// When the bytes are shorter than a header.
pub fn set_sequence(segment: &mut [u8], sequence: u32) -> Result<(), TcpError> {
    set_double_word(fixed_mut(segment)?, field::SEQUENCE, sequence);
    Ok(())
}

/// Replaces the control bits. The checksum is left alone.
///
/// # Errors
/// When the bytes are shorter than a header.
pub fn set_flags(segment: &mut [u8], flags: TcpFlags) -> Result<(), TcpError> {
    fixed_mut(segment)?[field::FLAGS] = flags.0;
    Ok(())
}

/// Replaces the checksum.
///
/// # Errors
/// When the bytes are shorter than a header.
pub fn set_checksum(segment: &mut [u8], checksum: u16) -> Result<(), TcpError> {
    set_word(fixed_mut(segment)?, CHECKSUM_OFFSET, checksum);
    Ok(())
}

/// Computes the checksum of a segment that fills the slice.
///
/// # Errors
/// When the bytes are shorter than a header.
pub fn refresh_checksum(
    segment: &mut [u8],
    source: IpAddr,
    destination: IpAddr,
) -> Result<(), TcpError> {
    set_checksum(segment, 0)?;
    let sum = pseudo_header(segment, source, destination).then_bytes(segment);
    set_checksum(segment, sum.checksum())
}

fn pseudo_header(segment: &[u8], source: IpAddr, destination: IpAddr) -> checksum::Sum {
    let length = u32::try_from(segment.len()).unwrap_or(u32::MAX);
    checksum::pseudo_header(source, destination, IpProtocol::TCP, length)
}

fn fixed_mut(segment: &mut [u8]) -> Result<&mut [u8; HEADER_BYTES], TcpError> {
    let have = segment.len();
    segment.first_chunk_mut().ok_or(TcpError::Truncated { need: HEADER_BYTES, have })
}

fn word(header: &[u8; HEADER_BYTES], at: usize) -> u16 {
    u16::from_be_bytes([header[at], header[at + 1]])
}

fn double_word(header: &[u8; HEADER_BYTES], at: usize) -> u32 {
    u32::from(word(header, at)) << 16 | u32::from(word(header, at + 2))
}

fn set_word(header: &mut [u8; HEADER_BYTES], at: usize, value: u16) {
    header[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

fn set_double_word(header: &mut [u8; HEADER_BYTES], at: usize, value: u32) {
    header[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

#[cfg(test)]
mod tests;
