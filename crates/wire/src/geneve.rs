//! GENEVE, RFC 8926 section 3.4.
//!
//! Knows the header and how its options are laid out. Refuses to know what an option means: it is
//! carried on, critical or not, as section 2.2.1 asks of who is no end of the tunnel.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |Ver|  Opt Len  |O|C|    Rsvd.  |          Protocol Type        |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |        Virtual Network Identifier (VNI)       |    Reserved   |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ~ options: class (16), type (8), reserved (3), words (5), value ~
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

use core::fmt;

use crate::scalar::{EtherType, Vni};
use crate::vxlan::{read_vni, write_vni};

mod field {
    //! Where each field lies; the identifier is where VXLAN has it.
    pub(super) const VERSION_SHIFT: u32 = 6;
    pub(super) const OPTION_WORDS_MASK: u8 = 0x3f;
    pub(super) const FLAG_OAM: u8 = 0x80;
    pub(super) const FLAG_CRITICAL: u8 = 0x40;
    pub(super) const OPTION_LENGTH_MASK: u8 = 0x1f;
}

/// Bytes of the header without options.
pub const HEADER_BYTES: usize = 8;
/// Bytes of the longest options.
pub const OPTIONS_BYTES_MAX: usize = 63 * WORD;
const VERSION: u8 = 0;
const WORD: usize = 4;

/// The meaning of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GeneveHeader<'p> {
    /// The network of the inner packet.
    pub vni: Vni,
    /// What follows: [`EtherType::TRANSPARENT_ETHERNET`] for a frame.
    pub protocol: EtherType,
    /// A packet of operations, not of a user.
    pub is_oam: bool,
    /// An option must be understood by the end of the tunnel.
    pub is_critical: bool,
    /// All options as they stand: whole words.
    pub options: &'p [u8],
}

impl<'p> GeneveHeader<'p> {
    /// The header, and the bytes after it.
    ///
    /// # Errors
    /// When the bytes are too few, the version is not 0, or an option ends behind the options.
    #[inline]
    pub fn parse(bytes: &'p [u8]) -> Result<(Self, &'p [u8]), GeneveError> {
        let have = bytes.len();
        let (header, rest) = bytes
            .split_first_chunk::<HEADER_BYTES>()
            .ok_or(GeneveError::Truncated { need: HEADER_BYTES, have })?;
        let [first, flags, high, low, ..] = *header;
        let version = first >> field::VERSION_SHIFT;
        if version != VERSION {
            return Err(GeneveError::Version(version));
        }
        let length = usize::from(first & field::OPTION_WORDS_MASK) * WORD;
        let need = HEADER_BYTES + length;
        let (options, rest) =
            rest.split_at_checked(length).ok_or(GeneveError::Truncated { need, have })?;
        check_options(options)?;
        let header = Self {
            vni: read_vni(header),
            protocol: EtherType(u16::from_be_bytes([high, low])),
            is_oam: flags & field::FLAG_OAM != 0,
            is_critical: flags & field::FLAG_CRITICAL != 0,
            options,
        };
        Ok((header, rest))
    }

    /// Writes the header with its options at the start of `into` and answers its length.
    ///
    /// # Errors
    /// When `into` is shorter than that, or the options are none that can be read.
    pub fn emit(&self, into: &mut [u8]) -> Result<usize, GeneveError> {
        let (need, have) = (HEADER_BYTES + self.options.len(), into.len());
        let too_long = GeneveError::Option { offset: OPTIONS_BYTES_MAX };
        if self.options.len() > OPTIONS_BYTES_MAX || !self.options.len().is_multiple_of(WORD) {
            return Err(too_long);
        }
        check_options(self.options)?;
        let words = u8::try_from(self.options.len() / WORD).map_err(|_| too_long)?;
        let header = into.get_mut(..need).ok_or(GeneveError::Truncated { need, have })?;
        let flags = if self.is_oam { field::FLAG_OAM } else { 0 }
            | if self.is_critical { field::FLAG_CRITICAL } else { 0 };
        let [high, low] = self.protocol.0.to_be_bytes();
        if let Some(fixed) = header.first_chunk_mut::<HEADER_BYTES>() {
            *fixed = [words, flags, high, low, 0, 0, 0, 0];
            write_vni(fixed, self.vni);
        }
        header[HEADER_BYTES..].copy_from_slice(self.options);
        Ok(need)
    }
}

/// Options must end where all of them end (section 3.5).
fn check_options(options: &[u8]) -> Result<(), GeneveError> {
    let mut rest = options;
    while !rest.is_empty() {
        let wrong = GeneveError::Option { offset: options.len() - rest.len() };
        let (&[_, _, _, length], values) = rest.split_first_chunk::<WORD>().ok_or(wrong)?;
        let value = usize::from(length & field::OPTION_LENGTH_MASK) * WORD;
        rest = values.get(value..).ok_or(wrong)?;
    }
    Ok(())
}

/// Why bytes are no GENEVE header, or where none fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GeneveError {
    /// Too few bytes for the header at offset 0.
    Truncated {
        /// Bytes needed.
        need: usize,
        /// Bytes there.
        have: usize,
    },
    /// A version other than 0 (offset 0).
    Version(u8),
    /// An option ends behind the options, or they are too long.
    Option {
        /// Where it begins, bytes from the first option.
        offset: usize,
    },
}

impl fmt::Display for GeneveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { need, have } => {
                write!(f, "a GENEVE header needs {need} bytes, there are {have}")
            }
            Self::Version(version) => write!(f, "GENEVE version {version} is unknown"),
            Self::Option { offset } => {
                write!(f, "the GENEVE option at {offset} ends behind the options")
            }
        }
    }
}

impl core::error::Error for GeneveError {}

#[cfg(test)]
mod tests;
