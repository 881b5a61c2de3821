//! TLVs of the segment routing header, RFC 8754 section 2.1.
//!
//! Knows how they follow one another, padding, and the fields of the HMAC. Refuses to know what others mean: they are
//! gone by.
//!
//! ```text
//! |   Type = 5    |  Length = 38  |D|          Reserved           |
//! |                       HMAC Key ID (4)                         |
//! |                       HMAC (8, 16, 24 or 32)                  |
//! ```
//!
//! Pad1 is one zero octet. It is read and never written: Linux takes the octet behind it for its length. The reserved
//! bits are sent as zero and ignored on receipt.

use super::{Srv6Error, UNIT};
use core::ops::Range;

/// Octets in front of a value.
const HEAD: usize = 2;
/// The longest padding, without its head.
const ZEROS: [u8; UNIT - 1] = [0; UNIT - 1];

/// What a TLV is (section 8.2): an open registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TlvType(pub u8);

impl TlvType {
    /// One octet of padding, without length.
    pub const PAD_1: Self = Self(0);
    /// Padding.
    pub const PAD_N: Self = Self(4);
    /// A keyed digest of the header.
    pub const HMAC: Self = Self(5);

    /// May its value change on the way? Then no digest covers it (section 2.1).
    #[must_use]
    pub const fn is_mutable(self) -> bool {
        self.0 & 0x80 != 0
    }

    const fn is_padding(self) -> bool {
        self.0 == Self::PAD_1.0 || self.0 == Self::PAD_N.0
    }
}

/// A TLV.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tlv<'p> {
    /// What it is.
    pub kind: TlvType,
    /// Its value, up to 255 bytes.
    pub value: &'p [u8],
}

impl<'p> Tlv<'p> {
    /// Bytes that it takes.
    #[must_use]
    pub const fn len_bytes(&self) -> usize {
        HEAD + self.value.len()
    }

    /// Padding and digest have places of their own, and a length is an octet.
    pub(super) fn is_writable(&self) -> bool {
        let is_own = self.kind.is_padding() || self.kind == TlvType::HMAC;
        !is_own && u8::try_from(self.value.len()).is_ok()
    }

    /// The first one, padding or not, and what is behind it; none: it is cut short.
    fn split(bytes: &'p [u8]) -> Option<(Self, &'p [u8])> {
        match bytes {
            [0, rest @ ..] => Some((Self { kind: TlvType::PAD_1, value: &[] }, rest)),
            [kind, length, rest @ ..] => {
                let (value, rest) = rest.split_at_checked(usize::from(*length))?;
                Some((Self { kind: TlvType(*kind), value }, rest))
            }
            _ => None,
        }
    }
}

/// TLVs in the order in which they stand, without padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tlvs<'p> {
    all: &'p [u8],
    at: usize,
}

impl<'p> Tlvs<'p> {
    /// Checks that they end where the bytes do.
    pub(super) fn parse(bytes: &'p [u8]) -> Result<Self, Srv6Error> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let offset = bytes.len() - rest.len();
            let (tlv, behind) = Tlv::split(rest).ok_or(Srv6Error::Tlv { offset })?;
            if tlv.kind == TlvType::HMAC && HmacTlv::read(&tlv).is_none() {
                return Err(Srv6Error::HmacLength { bytes: tlv.value.len() });
            }
            rest = behind;
        }
        Ok(Self::within(bytes))
    }

    /// Those of bytes that have been checked, or as far as they can be read.
    pub(super) const fn within(all: &'p [u8]) -> Self {
        Self { all, at: 0 }
    }

    /// Where the value of the first TLV of this kind lies, bytes from the first TLV.
    pub(crate) fn place(mut self, kind: TlvType) -> Option<Range<usize>> {
        let tlv = self.find(|tlv| tlv.kind == kind)?;
        Some(self.at - tlv.value.len()..self.at)
    }
}

impl<'p> Iterator for Tlvs<'p> {
    type Item = Tlv<'p>;

    fn next(&mut self) -> Option<Tlv<'p>> {
        loop {
            let (tlv, behind) = Tlv::split(self.all.get(self.at..)?)?;
            self.at = self.all.len() - behind.len();
            if !tlv.kind.is_padding() {
                return Some(tlv);
            }
        }
    }
}

/// A keyed digest of source, last entry, flags, key identifier and list (section 2.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HmacTlv<'p> {
    /// D: the destination is not held against the list, which is reduced.
    pub is_reduced: bool,
    /// Which key it is by.
    pub key_id: u32,
    /// The digest: 8, 16, 24 or 32 bytes.
    pub digest: &'p [u8],
}

impl<'p> HmacTlv<'p> {
    /// Bytes of a digest by SHA-256.
    pub const DIGEST_BYTES: usize = 32;
    /// Bytes of the whole TLV with it.
    pub const LEN: usize = HEAD + Self::DIGEST_AT + Self::DIGEST_BYTES;
    /// Where the digest begins in the value.
    pub(super) const DIGEST_AT: usize = 6;
    const REDUCED: u8 = 0x80;

    /// One that is still to be signed.
    #[must_use]
    pub const fn unsigned(key_id: u32, is_reduced: bool) -> Self {
        Self { is_reduced, key_id, digest: &[0; Self::DIGEST_BYTES] }
    }

    /// None: it is another TLV, or its digest has no such length.
    pub(super) fn read(tlv: &Tlv<'p>) -> Option<Self> {
        let (&[flags, _, a, b, c, d], digest) = tlv.value.split_first_chunk()?;
        let is_whole = Self::is_length(digest.len()) && tlv.kind == TlvType::HMAC;
        let key_id = u32::from_be_bytes([a, b, c, d]);
        is_whole.then_some(Self { is_reduced: flags & Self::REDUCED != 0, key_id, digest })
    }

    pub(super) const fn is_writable(&self) -> bool {
        Self::is_length(self.digest.len())
    }

    const fn is_length(bytes: usize) -> bool {
        matches!(bytes, 8 | 16 | 24 | Self::DIGEST_BYTES)
    }

    /// Bytes that it takes.
    #[must_use]
    pub const fn len_bytes(&self) -> usize {
        HEAD + Self::DIGEST_AT + self.digest.len()
    }
}

/// Bytes of padding behind TLVs of so many bytes. One octet alone would be a Pad1, so it is nine.
pub(super) const fn padding_bytes(tlvs: usize) -> usize {
    match (UNIT - tlvs % UNIT) % UNIT {
        1 => 1 + UNIT,
        gap => gap,
    }
}

/// Writes TLVs, padding and digest over all of `into`, which is as long as they are.
pub(super) fn emit_all(
    tlvs: &[Tlv<'_>],
    hmac: Option<HmacTlv<'_>>,
    mut into: &mut [u8],
) -> Result<(), Srv6Error> {
    let mut put = |kind: TlvType, parts: [&[u8]; 2]| {
        let length = parts[0].len() + parts[1].len();
        let (need, have) = (HEAD + length, into.len());
        let no_room = Srv6Error::Truncated { need, have };
        let (place, rest) = core::mem::take(&mut into).split_at_mut_checked(need).ok_or(no_room)?;
        let head = [kind.0, length as u8];
        let octets = head.iter().chain(parts[0]).chain(parts[1]);
        place.iter_mut().zip(octets).for_each(|(place, octet)| *place = *octet);
        into = rest;
        Ok(())
    };
    for tlv in tlvs {
        put(tlv.kind, [tlv.value, &[]])?;
    }
    let padding = padding_bytes(tlvs.iter().map(Tlv::len_bytes).sum());
    if let Some(value) = padding.checked_sub(HEAD).and_then(|zeros| ZEROS.get(..zeros)) {
        put(TlvType::PAD_N, [value, &[]])?;
    }
    if let Some(HmacTlv { is_reduced, key_id, digest }) = hmac {
        let [a, b, c, d] = key_id.to_be_bytes();
        let flags = if is_reduced { HmacTlv::REDUCED } else { 0 };
        put(TlvType::HMAC, [&[flags, 0, a, b, c, d], digest])?;
    }
    Ok(())
}
