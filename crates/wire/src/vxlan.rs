//! VXLAN header, RFC 7348 section 5.
//!
//! Knows the flag that makes the identifier valid and the identifier. Refuses to know which network
//! the identifier stands for, and what the inner frame says.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |R|R|R|R|I|R|R|R|                   Reserved                    |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |        VXLAN Network Identifier (VNI)         |   Reserved    |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

use core::fmt;

use crate::scalar::Vni;

mod field {
    //! Where each field lies.
    pub(super) const FLAGS: usize = 0;
    pub(super) const FLAG_I: u8 = 0x08;
    pub(super) const VNI: core::ops::Range<usize> = 4..7;
}

/// The meaning of a VXLAN header. Reserved bits are sent as zero and ignored when received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VxlanHeader {
    /// The network of the inner frame.
    pub vni: Vni,
}

impl VxlanHeader {
    /// Bytes of the header.
    pub const LEN: usize = 8;

    /// The header, and the inner Ethernet frame after it.
    ///
    /// # Errors
    /// When the bytes are too few, or the I flag is clear: then there is no valid identifier.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), VxlanError> {
        let (header, rest) = bytes
            .split_first_chunk::<{ Self::LEN }>()
            .ok_or(VxlanError::Truncated { need: Self::LEN, have: bytes.len() })?;
        if header[field::FLAGS] & field::FLAG_I == 0 {
            return Err(VxlanError::NoIdentifier { flags: header[field::FLAGS] });
        }
        Ok((Self { vni: read_vni(header) }, rest))
    }

    /// Writes the header at the start of `into` and answers its length.
    ///
    /// # Errors
    /// When `into` is shorter than the header.
    #[inline]
    pub fn emit(&self, into: &mut [u8]) -> Result<usize, VxlanError> {
        let have = into.len();
        let header = into
            .first_chunk_mut::<{ Self::LEN }>()
            .ok_or(VxlanError::Truncated { need: Self::LEN, have })?;
        *header = [0; Self::LEN];
        header[field::FLAGS] = field::FLAG_I;
        write_vni(header, self.vni);
        Ok(Self::LEN)
    }
}

/// VXLAN-GPE keeps the identifier in the same place.
#[inline]
pub(crate) fn read_vni(header: &[u8; VxlanHeader::LEN]) -> Vni {
    let [_, _, _, _, high, middle, low, _] = *header;
    Vni::from_low_bits(u32::from_be_bytes([0, high, middle, low]))
}

#[inline]
pub(crate) fn write_vni(header: &mut [u8; VxlanHeader::LEN], vni: Vni) {
    let [_, high, middle, low] = vni.get().to_be_bytes();
    header[field::VNI].copy_from_slice(&[high, middle, low]);
}

/// Why bytes are no VXLAN header, or where none fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VxlanError {
    /// Too few bytes for the header at offset 0.
    Truncated {
        /// Bytes needed.
        need: usize,
        /// Bytes there.
        have: usize,
    },
    /// The I flag is clear (offset 0).
    NoIdentifier {
        /// The flags byte.
        flags: u8,
    },
}

impl fmt::Display for VxlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { need, have } => {
                write!(f, "a VXLAN header needs {need} bytes, there are {have}")
            }
            Self::NoIdentifier { flags } => {
                write!(f, "VXLAN flags {flags:#04x} carry no valid network identifier")
            }
        }
    }
}

impl core::error::Error for VxlanError {}

#[cfg(test)]
mod tests;
