//! What endpoints do to the bytes of a packet, RFC 8986 section 4.
//!
//! Knows the step to the next segment, which End, End.X and End.T have in common, and how the header comes off where
//! it is done with (PSP). Refuses to know which table or link the packet goes on by.

use core::net::Ipv6Addr;

use super::{FIXED_BYTES, SEGMENTS_LEFT_OFFSET, Srv6Error, Srv6View};
use crate::ipv6::{self, Ipv6Header};

/// The step of a packet to its next segment, before it is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Advance {
    /// Index of the next segment.
    pub(crate) segments_left: u8,
    /// The next segment.
    pub(crate) next: Ipv6Addr,
    hop_limit: u8,
}

impl Advance {
    /// The last segment has no such step, and neither has a packet without hops left.
    pub(crate) fn of(view: &Srv6View<'_>) -> Result<Self, Srv6Error> {
        let routing = view.routing();
        let left = routing.segments_left().checked_sub(1).ok_or(Srv6Error::LastSegment)?;
        let hop_limit = hop(view.header())?;
        let (segments_left, last_entry) = (routing.segments_left(), routing.last_entry());
        let error = Srv6Error::SegmentsLeft { segments_left, last_entry };
        Ok(Self { segments_left: left, next: routing.segment(left).ok_or(error)?, hop_limit })
    }

    /// Writes Segments Left, destination and hop limit.
    pub(crate) fn write(&self, packet: &mut [u8]) -> Result<(), Srv6Error> {
        let (need, have) = (SEGMENTS_LEFT_OFFSET + 1, packet.len());
        let place = packet.get_mut(SEGMENTS_LEFT_OFFSET);
        *place.ok_or(Srv6Error::Truncated { need, have })? = self.segments_left;
        ipv6::set_destination(packet, self.next).map_err(Srv6Error::Ip)?;
        ipv6::set_hop_limit(packet, self.hop_limit).map_err(Srv6Error::Ip)
    }
}

/// The hop limit with which a packet goes on.
///
/// # Errors
/// When it may not: it would be 0.
pub(crate) fn hop(header: &Ipv6Header) -> Result<u8, Srv6Error> {
    match header.hop_limit {
        0 | 1 => Err(Srv6Error::HopLimit),
        more => Ok(more - 1),
    }
}

/// End (section 4.1): the next segment becomes the destination, with a hop less. Answers that segment, for the table
/// or link that the packet goes on by.
///
/// # Errors
/// When the packet is none of segment routing, is at its last segment, or has no hops left. It is left as it was.
pub fn end(packet: &mut [u8]) -> Result<Ipv6Addr, Srv6Error> {
    let advance = Advance::of(&Srv6View::parse(packet)?)?;
    advance.write(packet)?;
    Ok(advance.next)
}

/// PSP (section 4.16.1): takes the header off, as whoever steps to the last segment may. Answers its bytes: the packet
/// begins so much further on.
///
/// # Errors
/// When the packet is none of segment routing, or more segments follow. It is left as it was.
pub fn pop(packet: &mut [u8]) -> Result<usize, Srv6Error> {
    let view = Srv6View::parse(packet)?;
    let routing = view.routing();
    if routing.segments_left() != 0 {
        return Err(Srv6Error::SegmentsRemain(routing.segments_left()));
    }
    let length = routing.len_bytes();
    let mut header = *view.header();
    header.next_header = routing.next();
    // The payload is at least as long as the header in it, whose octet counts up to 2048.
    header.payload_length -= length as u16;
    debug_assert!(length >= FIXED_BYTES);
    header.emit(packet.get_mut(length..).unwrap_or_default()).map_err(Srv6Error::Ip)?;
    Ok(length)
}
