//! Ethernet II with up to two VLAN tags (IEEE 802.3, 802.1Q, 802.1ad).
//!
//! Knows addresses, tags and the EtherType behind them. Refuses to know what the payload means, and
//! to tell padding from payload: only the payload's own length can.
//!
//! ```text
//! | destination 6 | source 6 | [ TPID 2 | PCP 3b DEI 1b VID 12b ] x 0..2 | EtherType 2 | payload
//! ```

use core::fmt;

use crate::scalar::{EtherType, MacAddr, VlanId};

mod field {
    use core::ops::Range;

    pub(super) const DESTINATION: Range<usize> = 0..6;
    pub(super) const SOURCE: Range<usize> = 6..12;
    pub(super) const ETHERTYPE: usize = 12;
}

/// Length of the header without tags, bytes.
pub const HEADER_BYTES: usize = 14;
/// Bytes of both addresses, which come first.
pub const ADDRESSES_BYTES: usize = 12;
/// Length of one VLAN tag, bytes.
pub const TAG_BYTES: usize = 4;
/// Tags that are read; a third one is payload of EtherType 0x8100 or 0x88a8.
pub const TAGS_MAX: usize = 2;
/// EtherTypes below are lengths (IEEE 802.3 section 3.2.6).
pub const ETHERTYPE_MIN: u16 = 0x0600;

/// Why bytes are no Ethernet frame, or a header does not fit its buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EthernetError {
    /// The bytes end inside the header.
    Truncated {
        /// Bytes the header takes, as far as known.
        need: usize,
        /// Bytes there are.
        have: usize,
    },
}

impl fmt::Display for EthernetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Truncated { need, have } = self;
        write!(f, "Ethernet header cut short: {have} of {need} bytes")
    }
}

impl core::error::Error for EthernetError {}

/// One VLAN tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VlanTag {
    /// 0x8100 or 0x88a8.
    pub tag_type: EtherType,
    /// Priority code point, 0 to 7; only the low three bits are sent.
    pub priority: u8,
    /// May be dropped first.
    pub is_drop_eligible: bool,
    /// VLAN identifier.
    pub id: VlanId,
}

impl VlanTag {
    fn read(tag_type: EtherType, control: u16) -> Self {
        Self {
            tag_type,
            priority: (control >> 13) as u8,
            is_drop_eligible: control & 0x1000 != 0,
            id: VlanId::from_low_bits(u32::from(control)),
        }
    }

    fn bytes(self) -> [u8; TAG_BYTES] {
        let control = u16::from(self.priority & 7) << 13
            | u16::from(self.is_drop_eligible) << 12
            | self.id.get();
        let ([a, b], [c, d]) = (self.tag_type.0.to_be_bytes(), control.to_be_bytes());
        [a, b, c, d]
    }
}

/// The address that a frame is sent to, if it is long enough to say.
#[inline]
#[must_use]
pub fn destination(frame: &[u8]) -> Option<MacAddr> {
    frame.first_chunk().map(|bytes| MacAddr(*bytes))
}

/// The address that a frame comes from, if it is long enough to say.
#[inline]
#[must_use]
pub fn source(frame: &[u8]) -> Option<MacAddr> {
    frame.get(field::SOURCE)?.first_chunk().map(|bytes| MacAddr(*bytes))
}

/// The type of an untagged frame's payload, or of its tag, if the frame is long enough to say.
#[inline]
#[must_use]
pub fn outer_type(frame: &[u8]) -> Option<EtherType> {
    frame.get(field::ETHERTYPE..)?.first_chunk().map(|bytes| EtherType(u16::from_be_bytes(*bytes)))
}

/// Is this the type of an untagged frame's payload, or of its tag?
#[inline]
#[must_use]
pub fn ethertype_is(frame: &[u8], ethertype: EtherType) -> bool {
    let [high, low] = ethertype.0.to_be_bytes();
    frame.get(field::ETHERTYPE) == Some(&high) && frame.get(field::ETHERTYPE + 1) == Some(&low)
}

/// Type and control word of the outermost tag, whatever its type is, if the frame is long enough.
#[must_use]
pub fn outer_tag(frame: &[u8]) -> Option<(EtherType, u16)> {
    let [a, b, c, d] = *frame.get(field::ETHERTYPE..)?.first_chunk()?;
    Some((EtherType(u16::from_be_bytes([a, b])), u16::from_be_bytes([c, d])))
}

/// Is this the type of a VLAN tag?
#[must_use]
pub const fn is_tag(ethertype: EtherType) -> bool {
    matches!(ethertype, EtherType::VLAN | EtherType::SERVICE_VLAN)
}

/// A view of a frame. Once [`EthernetView::parse`] has returned it, no accessor can fail.
#[derive(Clone, Copy, Debug)]
pub struct EthernetView<'p> {
    fixed: &'p [u8; HEADER_BYTES],
    tags: [Option<VlanTag>; TAGS_MAX],
    ethertype: EtherType,
    header_bytes: u8,
    payload: &'p [u8],
}

impl<'p> EthernetView<'p> {
    /// Reads the header and its tags.
    ///
    /// # Errors
    /// When the bytes end inside the header or a tag.
    #[inline]
    pub fn parse(bytes: &'p [u8]) -> Result<Self, EthernetError> {
        let have = bytes.len();
        let (fixed, mut payload) = bytes
            .split_first_chunk::<HEADER_BYTES>()
            .ok_or(EthernetError::Truncated { need: HEADER_BYTES, have })?;
        let mut ethertype =
            EtherType(u16::from_be_bytes([fixed[field::ETHERTYPE], fixed[field::ETHERTYPE + 1]]));
        let mut tags = [None; TAGS_MAX];
        let mut header_bytes = HEADER_BYTES;
        for tag in &mut tags {
            if !is_tag(ethertype) {
                break;
            }
            header_bytes += TAG_BYTES;
            let ([a, b, c, d], rest) = payload
                .split_first_chunk::<TAG_BYTES>()
                .ok_or(EthernetError::Truncated { need: header_bytes, have })?;
            *tag = Some(VlanTag::read(ethertype, u16::from_be_bytes([*a, *b])));
            ethertype = EtherType(u16::from_be_bytes([*c, *d]));
            payload = rest;
        }
        Ok(Self { fixed, tags, ethertype, header_bytes: header_bytes as u8, payload })
    }

    /// Destination address.
    #[must_use]
    pub fn destination(&self) -> MacAddr {
        let [a, b, c, d, e, f, ..] = *self.fixed;
        MacAddr([a, b, c, d, e, f])
    }

    /// Source address.
    #[must_use]
    pub fn source(&self) -> MacAddr {
        let [_, _, _, _, _, _, a, b, c, d, e, f, ..] = *self.fixed;
        MacAddr([a, b, c, d, e, f])
    }

    /// The outer tag.
    #[must_use]
    pub const fn vlan(&self) -> Option<VlanTag> {
        self.tags[0]
    }

    /// The type after the tags.
    #[must_use]
    pub const fn ethertype(&self) -> EtherType {
        self.ethertype
    }

    /// Bytes of the header with its tags: 14, 18 or 22.
    #[must_use]
    pub const fn header_len(&self) -> usize {
        self.header_bytes as usize
    }

    /// Everything after the header, padding included.
    #[must_use]
    pub const fn payload(&self) -> &'p [u8] {
        self.payload
    }

    /// The meaning of the header.
    #[must_use]
    pub fn header(&self) -> EthernetHeader {
        EthernetHeader {
            destination: self.destination(),
            source: self.source(),
            tags: self.tags,
            ethertype: self.ethertype,
        }
    }
}

/// The meaning of a header. If it exists, it can be emitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EthernetHeader {
    /// Destination address.
    pub destination: MacAddr,
    /// Source address.
    pub source: MacAddr,
    /// Tags, the outer one first; empty places are skipped.
    pub tags: [Option<VlanTag>; TAGS_MAX],
    /// The type of the payload.
    pub ethertype: EtherType,
}

impl EthernetHeader {
    /// A header without tags.
    #[must_use]
    pub const fn untagged(destination: MacAddr, source: MacAddr, ethertype: EtherType) -> Self {
        Self { destination, source, tags: [None; TAGS_MAX], ethertype }
    }

    /// Bytes that [`EthernetHeader::emit`] writes.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        HEADER_BYTES + TAG_BYTES * self.tags.iter().flatten().count()
    }

    /// Writes the header to the front of the buffer and says how many bytes it took.
    ///
    /// # Errors
    /// When the buffer is too short; nothing is written then.
    pub fn emit(&self, into: &mut [u8]) -> Result<usize, EthernetError> {
        let (need, have) = (self.len_bytes(), into.len());
        let header = into.get_mut(..need).ok_or(EthernetError::Truncated { need, have })?;
        header[field::DESTINATION].copy_from_slice(&self.destination.0);
        header[field::SOURCE].copy_from_slice(&self.source.0);
        let mut rest = &mut header[field::ETHERTYPE..];
        for tag in self.tags.iter().flatten() {
            let (place, after) = rest.split_at_mut(TAG_BYTES);
            place.copy_from_slice(&tag.bytes());
            rest = after;
        }
        rest.copy_from_slice(&self.ethertype.0.to_be_bytes());
        Ok(need)
    }
}

/// Replaces the destination address of a frame.
///
/// # Errors
/// When the frame is shorter than a header.
#[inline]
pub fn set_destination(frame: &mut [u8], address: MacAddr) -> Result<(), EthernetError> {
    fixed_mut(frame)?[field::DESTINATION].copy_from_slice(&address.0);
    Ok(())
}

/// Writes a frame's source address.
///
/// # Errors
/// When the frame is shorter than a header.
#[inline]
pub fn set_source(frame: &mut [u8], address: MacAddr) -> Result<(), EthernetError> {
    fixed_mut(frame)?[field::SOURCE].copy_from_slice(&address.0);
    Ok(())
}

fn fixed_mut(frame: &mut [u8]) -> Result<&mut [u8; HEADER_BYTES], EthernetError> {
    let have = frame.len();
    frame.first_chunk_mut().ok_or(EthernetError::Truncated { need: HEADER_BYTES, have })
}

#[cfg(test)]
mod tests;
