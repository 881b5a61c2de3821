//! Generic Protocol Extension for VXLAN, draft-ietf-nvo3-vxlan-gpe section 3.
//!
//! Knows the flags, the next protocol and the identifier. Refuses to know what the inner header
//! says. The B flag (ingress-replicated) changes nothing for us: sent as zero, ignored on receipt.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |R|R|Ver|I|P|B|O|           Reserved            | Next Protocol |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |        VXLAN Network Identifier (VNI)         |   Reserved    |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

use core::fmt;

use crate::scalar::Vni;
use crate::vxlan::{VxlanHeader, read_vni, write_vni};

mod field {
    //! Where each field lies; the identifier is where VXLAN has it.
    pub(super) const FLAGS: usize = 0;
    pub(super) const VERSION_MASK: u8 = 0x30;
    pub(super) const VERSION_SHIFT: u32 = 4;
    pub(super) const FLAG_I: u8 = 0x08;
    pub(super) const FLAG_P: u8 = 0x04;
    pub(super) const FLAG_O: u8 = 0x01;
    pub(super) const NEXT: usize = 3;
}

/// What follows the header: an open registry, so an unknown number is a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GpeNextProtocol(pub u8);

impl GpeNextProtocol {
    /// IPv4.
    pub const IPV4: Self = Self(1);
    /// IPv6.
    pub const IPV6: Self = Self(2);
    /// Ethernet.
    pub const ETHERNET: Self = Self(3);
    /// Network Service Header (RFC 8300).
    pub const NSH: Self = Self(4);
}

/// The meaning of a VXLAN-GPE header of version 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VxlanGpeHeader {
    /// The network of the inner packet.
    pub vni: Vni,
    /// What follows.
    pub next: GpeNextProtocol,
    /// O flag: a packet of operations and maintenance, not of a user.
    pub is_oam: bool,
}

impl VxlanGpeHeader {
    /// Bytes of the header.
    pub const LEN: usize = VxlanHeader::LEN;
    /// The only version.
    pub const VERSION: u8 = 0;

    /// The header, and the bytes after it. Without the P flag the next protocol is Ethernet, as in
    /// plain VXLAN (section 3.1 of the draft).
    ///
    /// # Errors
    /// When the bytes are too few, the version is not 0, or the I flag is clear.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), VxlanGpeError> {
        let (header, rest) = bytes
            .split_first_chunk::<{ Self::LEN }>()
            .ok_or(VxlanGpeError::Truncated { need: Self::LEN, have: bytes.len() })?;
        let flags = header[field::FLAGS];
        let version = (flags & field::VERSION_MASK) >> field::VERSION_SHIFT;
        if version != Self::VERSION {
            return Err(VxlanGpeError::Version(version));
        }
        if flags & field::FLAG_I == 0 {
            return Err(VxlanGpeError::NoIdentifier { flags });
        }
        let next = if flags & field::FLAG_P == 0 {
            GpeNextProtocol::ETHERNET
        } else {
            GpeNextProtocol(header[field::NEXT])
        };
        let is_oam = flags & field::FLAG_O != 0;
        Ok((Self { vni: read_vni(header), next, is_oam }, rest))
    }

    /// Writes the header at the start of `into` and answers its length.
    ///
    /// # Errors
    /// When `into` is shorter than the header.
    #[inline]
    pub fn emit(&self, into: &mut [u8]) -> Result<usize, VxlanGpeError> {
        let have = into.len();
        let header = into
            .first_chunk_mut::<{ Self::LEN }>()
            .ok_or(VxlanGpeError::Truncated { need: Self::LEN, have })?;
        *header = [0; Self::LEN];
        header[field::FLAGS] = field::FLAG_I | field::FLAG_P;
        if self.is_oam {
            header[field::FLAGS] |= field::FLAG_O;
        }
        header[field::NEXT] = self.next.0;
        write_vni(header, self.vni);
        Ok(Self::LEN)
    }
}

/// Why bytes are no VXLAN-GPE header, or where none fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VxlanGpeError {
    /// Too few bytes for the header at offset 0.
    Truncated {
        /// Bytes needed.
        need: usize,
        /// Bytes there.
        have: usize,
    },
    /// A version other than 0 (offset 0).
    Version(u8),
    /// The I flag is clear (offset 0).
    NoIdentifier {
        /// The flags byte.
        flags: u8,
    },
}

impl fmt::Display for VxlanGpeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { need, have } => {
                write!(f, "a VXLAN-GPE header needs {need} bytes, there are {have}")
            }
            Self::Version(version) => write!(f, "VXLAN-GPE version {version} is unknown"),
            Self::NoIdentifier { flags } => {
                write!(f, "VXLAN-GPE flags {flags:#04x} carry no valid network identifier")
            }
        }
    }
}

impl core::error::Error for VxlanGpeError {}

#[cfg(test)]
mod tests;
