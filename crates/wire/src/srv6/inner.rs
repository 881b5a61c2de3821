//! What is inside: the packet or frame that comes out at the last segment, RFC 8986 sections 4.4 to 4.12.
//!
//! Knows where it is, and what its ECN becomes (RFC 6040). Refuses to know where it goes.

use core::ops::Range;

use super::{Srv6Error, Srv6View};
use crate::ipv4;
use crate::ipv6::{self, Ipv6Header};
use crate::scalar::IpProtocol;

/// The bits of ECN in a traffic class (RFC 3168 section 5).
const ECN: u8 = 3;

/// What is carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Inner {
    /// An IPv4 packet (End.DT4, End.DX4).
    Ipv4,
    /// An IPv6 packet (End.DT6, End.DX6).
    Ipv6,
    /// An Ethernet frame (End.DX2).
    Ethernet,
}

impl Inner {
    /// The next header in front of it.
    #[must_use]
    pub const fn protocol(self) -> IpProtocol {
        match self {
            Self::Ipv4 => IpProtocol::IPV4,
            Self::Ipv6 => IpProtocol::IPV6,
            Self::Ethernet => IpProtocol::ETHERNET,
        }
    }

    const fn of(protocol: IpProtocol, offset: usize) -> Result<Self, Srv6Error> {
        match protocol {
            IpProtocol::IPV4 => Ok(Self::Ipv4),
            IpProtocol::IPV6 => Ok(Self::Ipv6),
            IpProtocol::ETHERNET => Ok(Self::Ethernet),
            protocol => Err(Srv6Error::Inner { protocol, offset }),
        }
    }
}

/// What comes out of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decapsulation {
    /// What it is.
    pub inner: Inner,
    /// Where it is, bytes from the start of the packet.
    pub range: Range<usize>,
}

/// What comes out of a packet at its last segment, whether its header is still there or came off at the segment
/// before, or never was, as with a single segment.
///
/// # Errors
/// When the packet is no IPv6 or its header is malformed, more segments follow, or what follows is neither IP nor
/// Ethernet.
pub fn decapsulation(packet: &[u8]) -> Result<Decapsulation, Srv6Error> {
    let (header, payload) = Ipv6Header::parse(packet).map_err(Srv6Error::Ip)?;
    let end = ipv6::HEADER_BYTES + payload.len();
    if header.next_header != IpProtocol::ROUTING {
        let inner = Inner::of(header.next_header, ipv6::HEADER_BYTES)?;
        return Ok(Decapsulation { inner, range: ipv6::HEADER_BYTES..end });
    }
    of_view(&Srv6View::parse(packet)?)
}

/// The same of a packet that has been read.
pub(crate) fn of_view(view: &Srv6View<'_>) -> Result<Decapsulation, Srv6Error> {
    let routing = view.routing();
    if routing.segments_left() != 0 {
        return Err(Srv6Error::SegmentsRemain(routing.segments_left()));
    }
    let start = view.payload_offset();
    let range = start..start + view.payload().len();
    Ok(Decapsulation { inner: Inner::of(routing.next(), start)?, range })
}

/// ECN of a packet that comes out, by its own and that of the packet it was in (RFC 6040 section 4.2); none: it may
/// not go on, as it met congestion and cannot say so.
#[must_use]
pub const fn combined_ecn(inner: u8, outer: u8) -> Option<u8> {
    const NOT_CAPABLE: u8 = 0;
    const CAPABLE_1: u8 = 1;
    const CONGESTED: u8 = 3;
    match (inner & ECN, outer & ECN) {
        (NOT_CAPABLE, CONGESTED) => None,
        (NOT_CAPABLE, _) => Some(NOT_CAPABLE),
        (_, CONGESTED) => Some(CONGESTED),
        (inner, CAPABLE_1) if inner != CONGESTED => Some(CAPABLE_1),
        (inner, _) => Some(inner),
    }
}

impl Decapsulation {
    /// Writes into the packet inside what becomes of its ECN; a frame has none.
    ///
    /// # Errors
    /// When it met congestion and cannot say so, or is another than the header in front of it says. It is left as it
    /// was.
    pub fn inherit_ecn(&self, packet: &mut [u8]) -> Result<(), Srv6Error> {
        let (outer, _) = Ipv6Header::parse(packet).map_err(Srv6Error::Ip)?;
        let inner = packet.get_mut(self.range.clone()).unwrap_or_default();
        let (version, of) = match *inner {
            _ if self.inner == Inner::Ethernet => return Ok(()),
            [first, second, ..] if self.inner == Inner::Ipv6 => {
                (first >> 4, first << 4 | second >> 4)
            }
            [first, second, ..] => (first >> 4, second),
            _ => return Err(Srv6Error::InnerVersion),
        };
        let ecn = combined_ecn(of, outer.traffic_class).ok_or(Srv6Error::Congestion)?;
        let new = of & !ECN | ecn;
        match (self.inner, version) {
            (Inner::Ipv4, 4) => {
                ipv4::set_traffic_class(inner, new).map_err(|_| Srv6Error::InnerVersion)
            }
            (Inner::Ipv6, 6) => {
                ipv6::set_traffic_class(inner, new).map_err(|_| Srv6Error::InnerVersion)
            }
            _ => Err(Srv6Error::InnerVersion),
        }
    }
}
