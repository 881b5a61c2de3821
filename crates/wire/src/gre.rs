//! Generic Routing Encapsulation, RFC 2784 section 2, with key and sequence number, RFC 2890.
//!
//! Knows the flags and the optional words. Refuses to verify the checksum, and to know what a key
//! stands for; [`GreHeader::virtual_subnet`] reads it as NVGRE does (RFC 7637 section 3.2).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |C|R|K|S|    Reserved     | Ver |         Protocol Type         |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |      Checksum (with C)        |           Reserved            |
//! |                         Key (with K)                          |
//! |                   Sequence Number (with S)                    |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

use core::fmt;

use crate::scalar::{EtherType, Vni};

mod field {
    //! Bits of the first half word.
    pub(super) const CHECKSUM: u16 = 0x8000;
    pub(super) const ROUTING: u16 = 0x4000;
    pub(super) const KEY: u16 = 0x2000;
    pub(super) const SEQUENCE: u16 = 0x1000;
    pub(super) const VERSION: u16 = 0x0007;
    /// Bits 4 and 5, which a receiver may not ignore (RFC 2784 section 2.3).
    pub(super) const RESERVED_STRICT: u16 = 0x0c00;
}

/// Bytes of the header without optional words.
pub const HEADER_BYTES: usize = 4;
const WORD: usize = 4;

/// The meaning of a header of version 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GreHeader {
    /// What follows: [`EtherType::TRANSPARENT_ETHERNET`] for a frame.
    pub protocol: EtherType,
    /// The checksum of header and payload as it stands, if there is one.
    pub checksum: Option<u16>,
    /// The key, if there is one.
    pub key: Option<u32>,
    /// The number of the packet, if it has one.
    pub sequence: Option<u32>,
}

impl GreHeader {
    /// The header, and the bytes after it.
    ///
    /// # Errors
    /// When the bytes are too few, the version is not 0 (PPTP has 1), or the header says what
    /// RFC 2784 tells its receivers to discard.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), GreError> {
        let have = bytes.len();
        let (&[a, b, c, d], mut rest) = bytes
            .split_first_chunk::<HEADER_BYTES>()
            .ok_or(GreError::Truncated { need: HEADER_BYTES, have })?;
        let flags = u16::from_be_bytes([a, b]);
        if flags & field::VERSION != 0 {
            return Err(GreError::Version((flags & field::VERSION) as u8));
        }
        if flags & (field::ROUTING | field::RESERVED_STRICT) != 0 {
            return Err(GreError::Reserved { flags });
        }
        let mut need = HEADER_BYTES;
        let mut word = |bit: u16| -> Result<Option<u32>, GreError> {
            if flags & bit == 0 {
                return Ok(None);
            }
            need += WORD;
            let (word, after) =
                rest.split_first_chunk::<WORD>().ok_or(GreError::Truncated { need, have })?;
            rest = after;
            Ok(Some(u32::from_be_bytes(*word)))
        };
        let checksum = word(field::CHECKSUM)?.map(|word| (word >> 16) as u16);
        let (key, sequence) = (word(field::KEY)?, word(field::SEQUENCE)?);
        let protocol = EtherType(u16::from_be_bytes([c, d]));
        Ok((Self { protocol, checksum, key, sequence }, rest))
    }

    /// Bytes that [`GreHeader::emit`] writes.
    #[must_use]
    pub const fn len_bytes(&self) -> usize {
        let optional = [self.checksum.is_some(), self.key.is_some(), self.sequence.is_some()];
        HEADER_BYTES + WORD * (optional[0] as usize + optional[1] as usize + optional[2] as usize)
    }

    /// Writes the header at the start of `into` and answers its length.
    ///
    /// # Errors
    /// When `into` is shorter than the header.
    pub fn emit(&self, into: &mut [u8]) -> Result<usize, GreError> {
        let (need, have) = (self.len_bytes(), into.len());
        let header = into.get_mut(..need).ok_or(GreError::Truncated { need, have })?;
        let bit = |is_set: bool, bit: u16| if is_set { bit } else { 0 };
        let flags = bit(self.checksum.is_some(), field::CHECKSUM)
            | bit(self.key.is_some(), field::KEY)
            | bit(self.sequence.is_some(), field::SEQUENCE);
        let first = u32::from(flags) << 16 | u32::from(self.protocol.0);
        let checksum = self.checksum.map(|checksum| u32::from(checksum) << 16);
        let words = [Some(first), checksum, self.key, self.sequence];
        for (place, word) in header.chunks_exact_mut(WORD).zip(words.into_iter().flatten()) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        Ok(need)
    }

    /// The virtual subnet, where the key is that of NVGRE: its upper 24 bits.
    #[must_use]
    pub fn virtual_subnet(&self) -> Option<Vni> {
        self.key.map(|key| Vni::from_low_bits(key >> 8))
    }
}

/// Why bytes are no GRE header, or where none fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GreError {
    /// Too few bytes for the header at offset 0.
    Truncated {
        /// Bytes needed, as far as known.
        need: usize,
        /// Bytes there.
        have: usize,
    },
    /// A version other than 0 (offset 1).
    Version(u8),
    /// Source routing (RFC 1701) or reserved bits that may not be ignored (offset 0).
    Reserved {
        /// The first half word.
        flags: u16,
    },
}

impl fmt::Display for GreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { need, have } => {
                write!(f, "a GRE header needs {need} bytes, there are {have}")
            }
            Self::Version(version) => write!(f, "GRE version {version} is unknown"),
            Self::Reserved { flags } => write!(f, "GRE flags {flags:#06x} are reserved"),
        }
    }
}

impl core::error::Error for GreError {}

#[cfg(test)]
mod tests;
