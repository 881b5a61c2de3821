//! Network Service Header, RFC 8300.
//!
//! Knows the base, service path and context headers. Refuses to know where a path leads, and what
//! the metadata mean: their classes (RFC 9263 and later) are numbers here.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |Ver|O|U|    TTL    |   Length  |U|U|U|U|MD Type| Next Protocol |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |          Service Path Identifier              | Service Index |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ~        MD type 1: 16 bytes; MD type 2: context headers        ~
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```
//!
//! Once [`NshView::parse`] has returned, no accessor can fail. The unassigned bits U are sent as
//! zero and ignored on receipt (section 2.2).

mod context;
mod user;

use core::fmt;

pub use context::{ContextHeader, ContextHeaders};
pub use user::UserContext;

use crate::scalar::{NshTtl, ServiceIndex, Spi};

mod field {
    //! Where each field lies, as shifts in the two 32-bit words.
    pub(super) const VERSION_SHIFT: u32 = 30;
    pub(super) const OAM: u32 = 1 << 29;
    pub(super) const TTL_SHIFT: u32 = 22;
    pub(super) const LENGTH_SHIFT: u32 = 16;
    pub(super) const LENGTH_MASK: u32 = 0x3f;
    pub(super) const MD_TYPE_SHIFT: u32 = 8;
    pub(super) const MD_TYPE_MASK: u32 = 0x0f;
    pub(super) const NEXT_MASK: u32 = 0xff;
    pub(super) const SPI_SHIFT: u32 = 8;
    pub(super) const SERVICE_INDEX_MASK: u32 = 0xff;
}

/// Bytes of one word, the unit of the length field.
const WORD: usize = 4;
/// Bytes of base and service path header together.
const FIXED: usize = 2 * WORD;
const MD_TYPE_1: u8 = 1;
const MD_TYPE_2: u8 = 2;

/// What follows the header (section 2.2): an open registry, so an unknown number is a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NshNextProtocol(pub u8);

impl NshNextProtocol {
    /// IPv4.
    pub const IPV4: Self = Self(1);
    /// IPv6.
    pub const IPV6: Self = Self(2);
    /// Ethernet.
    pub const ETHERNET: Self = Self(3);
    /// Another NSH.
    pub const NSH: Self = Self(4);
    /// MPLS.
    pub const MPLS: Self = Self(5);
}

/// Metadata carried along the path (sections 2.4 and 2.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metadata<'p> {
    /// MD type 1: sixteen bytes, whose layout the domain agrees on.
    Type1([u8; Metadata::TYPE_1_LEN]),
    /// MD type 2: none or more context headers.
    Type2(ContextHeaders<'p>),
}

impl Metadata<'_> {
    /// Bytes of MD type 1 metadata.
    pub const TYPE_1_LEN: usize = 16;
    /// MD type 1 with nothing to say.
    pub const ZERO: Self = Self::Type1([0; Self::TYPE_1_LEN]);

    const fn md_type(&self) -> u8 {
        match self {
            Self::Type1(_) => MD_TYPE_1,
            Self::Type2(_) => MD_TYPE_2,
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::Type1(bytes) => bytes,
            Self::Type2(headers) => headers.bytes(),
        }
    }
}

/// A view: the bytes of one whole, legal header.
#[derive(Clone, Copy, Debug)]
pub struct NshView<'p> {
    base: u32,
    path: u32,
    metadata: Metadata<'p>,
}

impl<'p> NshView<'p> {
    /// The header, and the bytes after it.
    ///
    /// # Errors
    /// When it is cut short, of another version or MD type, or its lengths contradict each other.
    #[inline]
    pub fn parse(bytes: &'p [u8]) -> Result<(Self, &'p [u8]), NshError> {
        let truncated = |need| NshError::Truncated { need, have: bytes.len() };
        let (&[b0, b1, b2, b3, p0, p1, p2, p3], _) =
            bytes.split_first_chunk::<FIXED>().ok_or(truncated(FIXED))?;
        let base = u32::from_be_bytes([b0, b1, b2, b3]);
        let path = u32::from_be_bytes([p0, p1, p2, p3]);
        let version = low_byte(base >> field::VERSION_SHIFT);
        if version != NshHeader::VERSION {
            return Err(NshError::Version(version));
        }
        let words = low_byte((base >> field::LENGTH_SHIFT) & field::LENGTH_MASK);
        let length = usize::from(words) * WORD;
        if length < FIXED {
            return Err(NshError::Length { words });
        }
        let (header, rest) = bytes.split_at_checked(length).ok_or(truncated(length))?;
        let metadata = header.get(FIXED..).unwrap_or_default();
        let metadata = match low_byte((base >> field::MD_TYPE_SHIFT) & field::MD_TYPE_MASK) {
            MD_TYPE_1 => {
                Metadata::Type1(metadata.try_into().map_err(|_| NshError::Length { words })?)
            }
            MD_TYPE_2 => Metadata::Type2(ContextHeaders::parse(metadata)?),
            other => return Err(NshError::MdType(other)),
        };
        Ok((Self { base, path, metadata }, rest))
    }

    /// The path (section 2.3).
    #[must_use]
    pub const fn spi(&self) -> Spi {
        Spi::from_low_bits(self.path >> field::SPI_SHIFT)
    }

    /// The position on the path (section 2.3).
    #[must_use]
    pub const fn si(&self) -> ServiceIndex {
        ServiceIndex(low_byte(self.path & field::SERVICE_INDEX_MASK))
    }

    /// Forwarders the packet may still pass; 0 is read as 64 by [`NshView::next_ttl`].
    #[must_use]
    pub const fn ttl(&self) -> NshTtl {
        NshTtl::from_low_bits(self.base >> field::TTL_SHIFT)
    }

    /// A forwarder's step: the time to live with which the packet goes on, one less, where an
    /// incoming 0 becomes 63 (section 2.2).
    ///
    /// # Errors
    /// When it is 0: such a packet must not be forwarded.
    pub fn next_ttl(&self) -> Result<NshTtl, NshError> {
        let ttl = NshTtl::from_low_bits(u32::from(self.ttl()).wrapping_sub(1));
        if ttl.get() == 0 { Err(NshError::TtlExpired) } else { Ok(ttl) }
    }

    /// What follows the header.
    #[must_use]
    pub const fn next(&self) -> NshNextProtocol {
        NshNextProtocol(low_byte(self.base & field::NEXT_MASK))
    }

    /// O bit: a packet of operations and maintenance, not of a user.
    #[must_use]
    pub const fn is_oam(&self) -> bool {
        self.base & field::OAM != 0
    }

    /// The metadata.
    #[must_use]
    pub const fn metadata(&self) -> Metadata<'p> {
        self.metadata
    }

    /// Bytes of the whole header.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        FIXED + self.metadata.bytes().len()
    }

    /// The meaning.
    #[must_use]
    pub const fn header(&self) -> NshHeader<'p> {
        NshHeader {
            spi: self.spi(),
            si: self.si(),
            ttl: self.ttl(),
            metadata: self.metadata,
            next: self.next(),
            is_oam: self.is_oam(),
        }
    }
}

#[allow(clippy::cast_possible_truncation)]
const fn low_byte(word: u32) -> u8 {
    word as u8
}

/// The meaning. If it exists, it can be emitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NshHeader<'p> {
    /// The path.
    pub spi: Spi,
    /// The position on the path.
    pub si: ServiceIndex,
    /// Forwarders the packet may still pass.
    pub ttl: NshTtl,
    /// The metadata.
    pub metadata: Metadata<'p>,
    /// What follows the header.
    pub next: NshNextProtocol,
    /// A packet of operations and maintenance, not of a user.
    pub is_oam: bool,
}

impl NshHeader<'_> {
    /// The only version.
    pub const VERSION: u8 = 0;
    /// Bytes of the base and service path headers alone.
    pub const LEN_WITHOUT_METADATA: usize = FIXED;
    /// Bytes of a header with MD type 1.
    pub const LEN_MD_TYPE_1: usize = FIXED + Metadata::TYPE_1_LEN;
    /// Bytes of the longest header: 63 words.
    pub const LEN_MAX: usize = 63 * WORD;
    /// The time to live a classifier sets (section 2.2).
    pub const TTL_INITIAL: NshTtl = NshTtl::from_low_bits(63);
    /// The service index a classifier sets (section 2.3).
    pub const SI_INITIAL: ServiceIndex = ServiceIndex(255);

    /// Bytes that [`Self::emit`] writes.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        FIXED + self.metadata.bytes().len()
    }

    /// Writes the header at the start of `into` and answers its length.
    ///
    /// # Errors
    /// When `into` is shorter than [`Self::len_bytes`].
    #[inline]
    pub fn emit(&self, into: &mut [u8]) -> Result<usize, NshError> {
        let (need, have) = (self.len_bytes(), into.len());
        let into = into.get_mut(..need).ok_or(NshError::Truncated { need, have })?;
        // At most 63, since context headers are bounded: the cast keeps every bit.
        #[allow(clippy::cast_possible_truncation)]
        let words = (need / WORD) as u32;
        let base = u32::from(Self::VERSION) << field::VERSION_SHIFT
            | if self.is_oam { field::OAM } else { 0 }
            | u32::from(self.ttl) << field::TTL_SHIFT
            | words << field::LENGTH_SHIFT
            | u32::from(self.metadata.md_type()) << field::MD_TYPE_SHIFT
            | u32::from(self.next.0);
        let path = self.spi.get() << field::SPI_SHIFT | u32::from(self.si.0);
        let (base_into, into) = into.split_at_mut(WORD);
        let (path_into, metadata_into) = into.split_at_mut(WORD);
        base_into.copy_from_slice(&base.to_be_bytes());
        path_into.copy_from_slice(&path.to_be_bytes());
        metadata_into.copy_from_slice(self.metadata.bytes());
        Ok(need)
    }
}

/// Why bytes are no NSH, where none fits, or why one may not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NshError {
    /// Too few bytes, counted from offset 0.
    Truncated {
        /// Bytes needed.
        need: usize,
        /// Bytes there.
        have: usize,
    },
    /// A version other than 0 (offset 0).
    Version(u8),
    /// A length that the MD type does not allow (offset 1).
    Length {
        /// The length field, in words of four bytes.
        words: u8,
    },
    /// An MD type other than 1 and 2 (offset 2).
    MdType(u8),
    /// A context header that ends after the metadata, or half a one.
    ContextHeader {
        /// Where it starts, in bytes from the first context header.
        offset: usize,
    },
    /// More metadata, or a longer value, than the length fields can count.
    MetadataTooLong {
        /// Bytes of it.
        have: usize,
    },
    /// The time to live is used up.
    TtlExpired,
}

impl fmt::Display for NshError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { need, have } => {
                write!(f, "the NSH needs {need} bytes, there are {have}")
            }
            Self::Version(version) => write!(f, "NSH version {version} is unknown"),
            Self::Length { words } => {
                write!(f, "an NSH length of {words} words contradicts its MD type")
            }
            Self::MdType(md_type) => write!(f, "NSH MD type {md_type} is unknown"),
            Self::ContextHeader { offset } => {
                write!(f, "the NSH context header at byte {offset} is cut short")
            }
            Self::MetadataTooLong { have } => {
                write!(f, "{have} bytes of NSH metadata are too many")
            }
            Self::TtlExpired => f.write_str("the NSH time to live is used up"),
        }
    }
}

impl core::error::Error for NshError {}

#[cfg(test)]
mod tests;
