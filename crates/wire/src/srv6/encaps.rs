//! H.Encaps, H.Encaps.Red and H.Encaps.L2, RFC 8986 section 5: the headers that go in front of a packet or frame.
//!
//! Knows when the first segment may be left out, and when the whole header. Refuses to know who chose the way.

use core::net::Ipv6Addr;

use super::{HmacTlv, Inner, SegmentFlags, SegmentRoutingHeader, Srv6Error, Tlv};
use crate::ipv6::{self, Ipv6Header};
use crate::scalar::{FlowLabel, IpProtocol};

/// What goes in front of a packet or frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encaps<'p> {
    /// Source address.
    pub source: Ipv6Addr,
    /// The segments in the order in which they are visited.
    pub way: &'p [Ipv6Addr],
    /// DSCP and ECN in one octet, those of the packet inside (RFC 6040 section 4.1).
    pub traffic_class: u8,
    /// Flow label, by which the ways of equal cost are chosen among (RFC 6437).
    pub flow_label: FlowLabel,
    /// Hops left.
    pub hop_limit: u8,
    /// What is inside.
    pub inner: Inner,
    /// H.Encaps.Red: without the first segment, and without the header where it would say nothing else.
    pub is_reduced: bool,
    /// The flags.
    pub flags: SegmentFlags,
    /// What marks packets of one class.
    pub tag: u16,
    /// TLVs without padding and HMAC.
    pub tlvs: &'p [Tlv<'p>],
    /// Number of the key by which the header is to be signed.
    pub key_id: Option<u32>,
}

impl Encaps<'_> {
    /// Hops that a packet begins with.
    pub const HOP_LIMIT: u8 = 64;

    /// The segment routing header; none: the only segment is the destination, and nothing else is to be said.
    fn routing(&self) -> Option<SegmentRoutingHeader<'_>> {
        let has_more = self.flags != SegmentFlags::default()
            || self.tag != 0
            || !self.tlvs.is_empty()
            || self.key_id.is_some();
        let (way, is_reduced) = match self.way {
            [_] if self.is_reduced && !has_more => return None,
            [_, rest @ ..] if self.is_reduced && !rest.is_empty() => (rest, true),
            whole => (whole, false),
        };
        Some(SegmentRoutingHeader {
            next: self.inner.protocol(),
            // More than a list holds are refused where it is written.
            segments_left: u8::try_from(self.way.len().saturating_sub(1)).unwrap_or(u8::MAX),
            flags: self.flags,
            tag: self.tag,
            way,
            tlvs: self.tlvs,
            hmac: self.key_id.map(|key_id| HmacTlv::unsigned(key_id, is_reduced)),
        })
    }

    /// Bytes by which a packet grows.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        ipv6::HEADER_BYTES + self.routing().map_or(0, |routing| routing.len_bytes())
    }

    /// Writes the headers of a packet or frame of so many bytes at the start of `into`, and answers their length.
    ///
    /// # Errors
    /// When there is no segment or too many, the packet becomes longer than its length field counts, or `into` is
    /// shorter than [`Self::len_bytes`]. What it has no room for is left alone.
    pub fn emit(&self, inner_bytes: usize, into: &mut [u8]) -> Result<usize, Srv6Error> {
        let destination = *self.way.first().ok_or(Srv6Error::NoSegments)?;
        let routing = self.routing();
        let routing_bytes = routing.map_or(0, |routing| routing.len_bytes());
        let (need, have) = (ipv6::HEADER_BYTES + routing_bytes, into.len());
        let bytes = routing_bytes + inner_bytes;
        let most = usize::from(u16::MAX);
        let payload_length =
            u16::try_from(bytes).map_err(|_| Srv6Error::TooLong { bytes, most })?;
        let into = into.get_mut(..need).ok_or(Srv6Error::Truncated { need, have })?;
        let (header_into, routing_into) = into.split_at_mut(ipv6::HEADER_BYTES);
        let next_header = match routing {
            Some(routing) => {
                routing.emit(routing_into)?;
                IpProtocol::ROUTING
            }
            None => self.inner.protocol(),
        };
        let header = Ipv6Header {
            traffic_class: self.traffic_class,
            flow_label: self.flow_label,
            payload_length,
            next_header,
            hop_limit: self.hop_limit,
            source: self.source,
            destination,
        };
        header.emit(header_into).map_err(Srv6Error::Ip)?;
        Ok(need)
    }
}
