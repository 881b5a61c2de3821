//! IPv6 Segment Routing Header, RFC 8754, and what endpoints do to its bytes, RFC 8986.
//!
//! Knows the header, its TLVs and its HMAC, how a packet is encapsulated, stepped along and taken out again, and how
//! an identifier of ours is laid out. Refuses to know which identifier is whose, and where anything leads.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |  Next Header  |  Hdr Ext Len  | Routing Type 4| Segments Left |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |  Last Entry   |     Flags     |              Tag              |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ~      Segment List[0] .. [Last Entry], 16 bytes each           ~
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ~      TLVs: type, length, value                                ~
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```
//!
//! The list is backwards: entry 0 is the last segment of the way, and Segments Left is the index of the active one
//! (section 2). A reduced header leaves the first segment out, which the destination address has already, so
//! Segments Left may be one more than Last Entry (section 4.1.1). Unassigned flags are sent as zero and ignored on
//! receipt. Once [`SegmentRoutingView::parse`] has returned, no accessor can fail.

mod csid;
mod encaps;
mod endpoint;
mod error;
mod hmac;
mod inner;
mod sid;
mod tlv;

pub use csid::{BLOCK_BYTES, CSID_BYTES, CSIDS_MAX, container, next_csid};
pub use encaps::Encaps;
pub use endpoint::{end, pop};
pub use error::Srv6Error;
pub use hmac::{HmacKey, sign, verify};
pub use inner::{Decapsulation, Inner, combined_ecn, decapsulation};
pub use sid::{Locator, Sid, SidError};
pub use tlv::{HmacTlv, Tlv, TlvType, Tlvs};

pub(crate) use endpoint::{Advance, hop};
pub(crate) use inner::of_view;

use core::net::Ipv6Addr;

use crate::ipv6::{self, Ipv6Header};
use crate::scalar::IpProtocol;

mod field {
    //! Where each field lies in the header.
    use core::ops::Range;

    pub(super) const NEXT_HEADER: usize = 0;
    pub(super) const ROUTING_TYPE: usize = 2;
    pub(super) const SEGMENTS_LEFT: usize = 3;
    pub(super) const LAST_ENTRY: usize = 4;
    pub(super) const FLAGS: usize = 5;
    pub(super) const TAG: Range<usize> = 6..8;
}

/// Bytes in front of the segment list.
pub const FIXED_BYTES: usize = 8;
/// Bytes of a segment.
pub const SEGMENT_BYTES: usize = 16;
/// Segments of one list at most: its length is counted by an octet, two for each.
pub const SEGMENTS_MAX: usize = 127;
/// Where the routing type is, bytes from the start of the packet.
const ROUTING_TYPE_OFFSET: usize = ipv6::HEADER_BYTES + field::ROUTING_TYPE;
/// Where Segments Left is, bytes from the start of the packet.
const SEGMENTS_LEFT_OFFSET: usize = ipv6::HEADER_BYTES + field::SEGMENTS_LEFT;
/// The unit of the length field, bytes.
const UNIT: usize = 8;
const ROUTING_TYPE: u8 = 4;
/// Bytes of the longest header.
const LEN_MAX: usize = FIXED_BYTES + 255 * UNIT;

/// Where the tag lies, bytes from the start of the header.
pub(crate) const TAG_RANGE: core::ops::Range<usize> = field::TAG;

/// Flags of the header (section 2): an open registry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SegmentFlags(pub u8);

impl SegmentFlags {
    /// O: to be told of by operations and maintenance (RFC 9259 section 2.1).
    pub const OAM: Self = Self(0x20);
    /// Linux looks for an HMAC by it alone; RFC 8754 left it unassigned.
    pub const HMAC: Self = Self(0x08);

    /// Are all of these set?
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

/// A view: the bytes of one whole, legal header.
#[derive(Clone, Copy, Debug)]
pub struct SegmentRoutingView<'p> {
    fixed: [u8; FIXED_BYTES],
    list: &'p [[u8; SEGMENT_BYTES]],
    behind: &'p [u8],
}

impl<'p> SegmentRoutingView<'p> {
    /// The header, and the bytes after it.
    ///
    /// # Errors
    /// When it is cut short, of another routing type, or its lengths, counters or TLVs contradict each other
    /// (RFC 8754 section 4.3.1.1).
    #[inline]
    pub fn parse(bytes: &'p [u8]) -> Result<(Self, &'p [u8]), Srv6Error> {
        let (view, rest) = Self::parse_but_tlvs(bytes)?;
        Tlvs::parse(view.behind)?;
        Ok((view, rest))
    }

    /// The same for a header whose end is no TLV. [`Self::tlvs`] ends where they do.
    pub(crate) fn parse_but_tlvs(bytes: &'p [u8]) -> Result<(Self, &'p [u8]), Srv6Error> {
        let truncated = |need| Srv6Error::Truncated { need, have: bytes.len() };
        let fixed = *bytes.first_chunk::<FIXED_BYTES>().ok_or(truncated(FIXED_BYTES))?;
        let [_, octets, routing_type, segments_left, last_entry, ..] = fixed;
        if routing_type != ROUTING_TYPE {
            return Err(Srv6Error::RoutingType(routing_type));
        }
        let length = FIXED_BYTES + usize::from(octets) * UNIT;
        let (header, rest) = bytes.split_at_checked(length).ok_or(truncated(length))?;
        let segments = usize::from(last_entry) + 1;
        let (list, behind) = header
            .get(FIXED_BYTES..)
            .and_then(|behind| behind.split_at_checked(segments * SEGMENT_BYTES))
            .ok_or(Srv6Error::LastEntry { last_entry, octets })?;
        if usize::from(segments_left) > segments {
            return Err(Srv6Error::SegmentsLeft { segments_left, last_entry });
        }
        let (list, _) = list.as_chunks();
        Ok((Self { fixed, list, behind }, rest))
    }

    /// What follows the header.
    #[must_use]
    pub const fn next(&self) -> IpProtocol {
        IpProtocol(self.fixed[field::NEXT_HEADER])
    }

    /// Index of the active segment; one more than [`Self::last_entry`] in a reduced header at its first segment.
    #[must_use]
    pub const fn segments_left(&self) -> u8 {
        self.fixed[field::SEGMENTS_LEFT]
    }

    /// Index of the entry that is visited first.
    #[must_use]
    pub const fn last_entry(&self) -> u8 {
        self.fixed[field::LAST_ENTRY]
    }

    /// The flags.
    #[must_use]
    pub const fn flags(&self) -> SegmentFlags {
        SegmentFlags(self.fixed[field::FLAGS])
    }

    /// What marks packets of one class (section 2).
    #[must_use]
    pub const fn tag(&self) -> u16 {
        let [.., high, low] = self.fixed;
        u16::from_be_bytes([high, low])
    }

    /// The entry with this index; none: the list is shorter.
    #[must_use]
    pub fn segment(&self, index: u8) -> Option<Ipv6Addr> {
        self.list.get(usize::from(index)).copied().map(Ipv6Addr::from)
    }

    /// The entries in the order in which they are visited.
    pub fn way(&self) -> impl DoubleEndedIterator<Item = Ipv6Addr> + ExactSizeIterator + use<'p> {
        self.list.iter().rev().copied().map(Ipv6Addr::from)
    }

    /// The entries as they stand, entry 0 first.
    pub(crate) const fn list(&self) -> &'p [[u8; SEGMENT_BYTES]] {
        self.list
    }

    /// Its TLVs, without padding.
    #[must_use]
    pub const fn tlvs(&self) -> Tlvs<'p> {
        Tlvs::within(self.behind)
    }

    /// The HMAC, if it has one.
    #[must_use]
    pub fn hmac(&self) -> Option<HmacTlv<'p>> {
        self.tlvs().find_map(|tlv| HmacTlv::read(&tlv))
    }

    /// All bytes behind the list.
    pub(crate) const fn behind(&self) -> &'p [u8] {
        self.behind
    }

    /// Where they begin, bytes from the start of the header.
    pub(crate) const fn behind_offset(&self) -> usize {
        FIXED_BYTES + self.list.len() * SEGMENT_BYTES
    }

    /// Bytes of the whole header.
    #[must_use]
    pub const fn len_bytes(&self) -> usize {
        self.behind_offset() + self.behind.len()
    }
}

/// Where an entry lies, bytes from the start of the header.
pub(crate) fn entry_range(index: u8) -> core::ops::Range<usize> {
    let start = FIXED_BYTES + usize::from(index) * SEGMENT_BYTES;
    start..start + SEGMENT_BYTES
}

/// The meaning. What it holds beyond the bounds of its fields is refused where it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentRoutingHeader<'p> {
    /// What follows the header.
    pub next: IpProtocol,
    /// Index of the active segment.
    pub segments_left: u8,
    /// The flags.
    pub flags: SegmentFlags,
    /// What marks packets of one class.
    pub tag: u16,
    /// The entries in the order in which they are visited; a reduced header leaves the first segment out.
    pub way: &'p [Ipv6Addr],
    /// TLVs without padding and HMAC.
    pub tlvs: &'p [Tlv<'p>],
    /// Written at the very end, where Linux looks for it; [`sign`] fills its digest.
    pub hmac: Option<HmacTlv<'p>>,
}

impl SegmentRoutingHeader<'_> {
    /// Bytes that [`Self::emit`] writes.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        let tlvs: usize = self.tlvs.iter().map(Tlv::len_bytes).sum();
        let hmac = self.hmac.map_or(0, |hmac| hmac.len_bytes());
        FIXED_BYTES + self.way.len() * SEGMENT_BYTES + tlvs + tlv::padding_bytes(tlvs) + hmac
    }

    /// Writes the header at the start of `into` and answers its length.
    ///
    /// # Errors
    /// When it has no segment, more than its counters count, or `into` is shorter than [`Self::len_bytes`]. What it
    /// has no room for is left alone.
    pub fn emit(&self, into: &mut [u8]) -> Result<usize, Srv6Error> {
        let segments = self.way.len();
        let last_entry = match segments {
            0 => return Err(Srv6Error::NoSegments),
            1..=SEGMENTS_MAX => segments as u8 - 1,
            _ => return Err(Srv6Error::TooManySegments { segments, most: SEGMENTS_MAX }),
        };
        let segments_left = self.segments_left;
        if usize::from(segments_left) > segments {
            return Err(Srv6Error::SegmentsLeft { segments_left, last_entry });
        }
        let (need, have) = (self.len_bytes(), into.len());
        if need > LEN_MAX {
            return Err(Srv6Error::TooLong { bytes: need, most: LEN_MAX });
        }
        if let Some(tlv) = self.tlvs.iter().find(|tlv| !tlv.is_writable()) {
            return Err(Srv6Error::TlvValue { kind: tlv.kind, bytes: tlv.value.len() });
        }
        if let Some(hmac) = self.hmac.filter(|hmac| !hmac.is_writable()) {
            return Err(Srv6Error::HmacLength { bytes: hmac.digest.len() });
        }
        let into = into.get_mut(..need).ok_or(Srv6Error::Truncated { need, have })?;
        let (fixed, rest) = into.split_at_mut(FIXED_BYTES);
        // At most 255, as the longest header has no more.
        let octets = ((need - FIXED_BYTES) / UNIT) as u8;
        let [high, low] = self.tag.to_be_bytes();
        let Self { next, flags, .. } = self;
        fixed.copy_from_slice(&[
            next.0,
            octets,
            ROUTING_TYPE,
            segments_left,
            last_entry,
            flags.0,
            high,
            low,
        ]);
        let (list, behind) = rest.split_at_mut(segments * SEGMENT_BYTES);
        let entries = list.as_chunks_mut::<SEGMENT_BYTES>().0;
        for (entry, segment) in entries.iter_mut().zip(self.way.iter().rev()) {
            *entry = segment.octets();
        }
        tlv::emit_all(self.tlvs, self.hmac, behind)?;
        Ok(need)
    }
}

/// A packet whose segment routing header is the first behind its IPv6 header.
#[derive(Clone, Copy, Debug)]
pub struct Srv6View<'p> {
    header: Ipv6Header,
    routing: SegmentRoutingView<'p>,
    payload: &'p [u8],
}

impl<'p> Srv6View<'p> {
    /// Reads the packet at the front of the bytes; what is after its payload length is padding.
    ///
    /// # Errors
    /// When it is no IPv6, has another next header, or as [`SegmentRoutingView::parse`].
    #[inline]
    pub fn parse(packet: &'p [u8]) -> Result<Self, Srv6Error> {
        Self::read(packet, SegmentRoutingView::parse)
    }

    /// The same for a header whose end is no TLV.
    pub(crate) fn parse_but_tlvs(packet: &'p [u8]) -> Result<Self, Srv6Error> {
        Self::read(packet, SegmentRoutingView::parse_but_tlvs)
    }

    #[inline]
    fn read(
        packet: &'p [u8],
        parse: impl FnOnce(&'p [u8]) -> Result<(SegmentRoutingView<'p>, &'p [u8]), Srv6Error>,
    ) -> Result<Self, Srv6Error> {
        let (header, payload) = Ipv6Header::parse(packet).map_err(Srv6Error::Ip)?;
        if header.next_header != IpProtocol::ROUTING {
            return Err(Srv6Error::NextHeader(header.next_header));
        }
        let (routing, payload) = parse(payload)?;
        Ok(Self { header, routing, payload })
    }

    /// The IPv6 header.
    #[must_use]
    pub const fn header(&self) -> &Ipv6Header {
        &self.header
    }

    /// The segment routing header.
    #[must_use]
    pub const fn routing(&self) -> &SegmentRoutingView<'p> {
        &self.routing
    }

    /// What follows both.
    #[must_use]
    pub const fn payload(&self) -> &'p [u8] {
        self.payload
    }

    /// Where it begins, bytes from the start of the packet.
    #[must_use]
    pub const fn payload_offset(&self) -> usize {
        ipv6::HEADER_BYTES + self.routing.len_bytes()
    }

    /// The segment that the packet goes to when the active one is done with; none: that is the last.
    #[must_use]
    pub fn next_segment(&self) -> Option<Ipv6Addr> {
        self.routing.segment(self.routing.segments_left().checked_sub(1)?)
    }
}

/// The protocol behind the IPv6 header, or behind the segment routing header that follows it: no more is read. None:
/// the packet ends before.
#[must_use]
#[inline]
pub fn carried_protocol(packet: &[u8]) -> Option<IpProtocol> {
    match IpProtocol(*packet.get(ipv6::NEXT_HEADER_OFFSET)?) {
        IpProtocol::ROUTING => packet.get(ipv6::HEADER_BYTES).copied().map(IpProtocol),
        other => Some(other),
    }
}

/// Replaces the protocol that [`carried_protocol`] reads.
///
/// # Errors
/// When the packet is shorter than that.
#[inline]
pub fn set_carried_protocol(packet: &mut [u8], protocol: IpProtocol) -> Result<(), Srv6Error> {
    let have = packet.len();
    let is_routed = packet.get(ipv6::NEXT_HEADER_OFFSET) == Some(&IpProtocol::ROUTING.0);
    let at = match is_routed {
        true => ipv6::HEADER_BYTES + field::NEXT_HEADER,
        false => ipv6::NEXT_HEADER_OFFSET,
    };
    let place = packet.get_mut(at).ok_or(Srv6Error::Truncated { need: at + 1, have })?;
    *place = protocol.0;
    Ok(())
}

/// The segment at which the way ends that the first header behind the IPv6 header leads on, or the destination where
/// that is no segment routing header: no more is read. None: the packet ends before.
#[must_use]
#[inline]
pub fn last_segment(packet: &[u8]) -> Option<Ipv6Addr> {
    let at = match IpProtocol(*packet.get(ipv6::NEXT_HEADER_OFFSET)?) {
        IpProtocol::ROUTING => ipv6::HEADER_BYTES + FIXED_BYTES,
        _ => ipv6::DESTINATION_OFFSET,
    };
    Some(Ipv6Addr::from(*packet.get(at..)?.first_chunk::<SEGMENT_BYTES>()?))
}

/// Replaces the tag of the segment routing header, which is the first behind the IPv6 header. No HMAC covers it.
///
/// # Errors
/// When the packet is none of segment routing.
pub fn set_tag(packet: &mut [u8], tag: u16) -> Result<(), Srv6Error> {
    put_in_routing(packet, field::TAG.start, &tag.to_be_bytes())
}

/// Do compressed identifiers name the nodes on the way of a packet, by what its [`last_segment`] says?
#[must_use]
#[inline]
pub fn is_compressed(packet: &[u8]) -> bool {
    let last = last_segment(packet).and_then(|last| Sid::read(last).ok());
    last.is_some_and(|sid| sid.ends_compressed())
}

#[inline]
fn put_in_routing(packet: &mut [u8], at: usize, octets: &[u8]) -> Result<(), Srv6Error> {
    match packet.get(ipv6::NEXT_HEADER_OFFSET).copied().map(IpProtocol) {
        Some(IpProtocol::ROUTING) | None => {}
        Some(other) => return Err(Srv6Error::NextHeader(other)),
    }
    let start = ipv6::HEADER_BYTES + at;
    let (need, have) = (start + octets.len(), packet.len());
    let place = packet.get_mut(start..need).ok_or(Srv6Error::Truncated { need, have })?;
    place.copy_from_slice(octets);
    Ok(())
}

#[cfg(test)]
mod tests;
