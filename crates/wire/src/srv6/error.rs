//! Why bytes are no packet of segment routing, or where none fits. Knows the reasons and where they are; refuses to
//! know who is told of them.

use core::fmt;

use super::{ROUTING_TYPE_OFFSET, SEGMENTS_LEFT_OFFSET};
use crate::ipv6::Ipv6Error;
use crate::scalar::IpProtocol;

/// Why bytes are no packet of segment routing, where none fits, or why one may not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Srv6Error {
    /// Too few bytes, counted from the start of the segment routing header, or of the packet where one is written.
    Truncated {
        /// Bytes needed.
        need: usize,
        /// Bytes there.
        have: usize,
    },
    /// The IPv6 header is none.
    Ip(Ipv6Error),
    /// No routing header is the first behind the IPv6 header.
    NextHeader(IpProtocol),
    /// A routing type other than 4 (offset 2).
    RoutingType(u8),
    /// The list ends after the header (offset 4).
    LastEntry {
        /// Index of the last entry of the list.
        last_entry: u8,
        /// The length field, in units of 8 bytes behind the first.
        octets: u8,
    },
    /// The active segment is behind the list, and no first one that was left out (offset 3).
    SegmentsLeft {
        /// Index of the active segment.
        segments_left: u8,
        /// Index of the last entry of the list.
        last_entry: u8,
    },
    /// A TLV that ends after the header, or half a one.
    Tlv {
        /// Where it begins, in bytes from the first TLV.
        offset: usize,
    },
    /// A TLV that is written elsewhere, or whose value is too long.
    TlvValue {
        /// What it is.
        kind: super::TlvType,
        /// Bytes of its value.
        bytes: usize,
    },
    /// An HMAC whose length none has, or not that of SHA-256 where it is checked or made.
    HmacLength {
        /// Bytes of the value or of the digest.
        bytes: usize,
    },
    /// The header has no HMAC.
    NoHmac,
    /// The HMAC is not that of header and source.
    Hmac,
    /// A key that is empty, or longer than Linux has any.
    KeyLength(usize),
    /// The destination is not the active segment, as it must be where an HMAC is checked.
    Destination,
    /// The hop limit is used up.
    HopLimit,
    /// The active segment is the last, where another should follow.
    LastSegment,
    /// More segments follow, where the active one should be the last.
    SegmentsRemain(u8),
    /// A way without a segment.
    NoSegments,
    /// More segments than a list or a container holds.
    TooManySegments {
        /// Segments of the way.
        segments: usize,
        /// Segments that it holds.
        most: usize,
    },
    /// More bytes than a length field counts.
    TooLong {
        /// Bytes of it.
        bytes: usize,
        /// Bytes that are counted.
        most: usize,
    },
    /// What follows is neither IP nor Ethernet.
    Inner {
        /// What it is.
        protocol: IpProtocol,
        /// Where it begins, bytes from the start of the packet.
        offset: usize,
    },
    /// The packet inside is none, or another than the header in front of it says.
    InnerVersion,
    /// Congestion was met on the way, and the packet inside cannot say so (RFC 6040 section 4.2).
    Congestion,
    /// A compressed identifier of 0, which would be the end of its container.
    ZeroCsid,
}

impl Srv6Error {
    /// Code and pointer of the ICMPv6 Parameter Problem that the sender is told; none: it is told of something else, or
    /// of nothing.
    #[must_use]
    pub fn parameter_problem(&self) -> Option<(u8, u32)> {
        const ERRONEOUS_FIELD: u8 = 0;
        // RFC 8754 section 8.3.
        const UPPER_LAYER: u8 = 4;
        let (code, pointer) = match *self {
            // RFC 8200 section 4.4.
            Self::RoutingType(_) => (ERRONEOUS_FIELD, ROUTING_TYPE_OFFSET),
            // RFC 8754 section 4.3.1.1, RFC 8986 sections 4.4 to 4.12.
            Self::LastEntry { .. } | Self::SegmentsLeft { .. } | Self::SegmentsRemain(_) => {
                (ERRONEOUS_FIELD, SEGMENTS_LEFT_OFFSET)
            }
            // RFC 8986 section 4.1.1.
            Self::Inner { offset, .. } => (UPPER_LAYER, offset),
            _ => return None,
        };
        Some((code, u32::try_from(pointer).ok()?))
    }
}

impl fmt::Display for Srv6Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { need, have } => {
                write!(f, "segment routing needs {need} bytes, there are {have}")
            }
            Self::Ip(error) => error.fmt(f),
            Self::NextHeader(header) => {
                write!(f, "next header {} where a routing header is expected", header.0)
            }
            Self::RoutingType(kind) => write!(f, "routing type {kind} where 4 is expected"),
            Self::LastEntry { last_entry, octets } => {
                write!(
                    f,
                    "last entry {last_entry} is behind a segment routing header of length {octets}"
                )
            }
            Self::SegmentsLeft { segments_left, last_entry } => {
                write!(f, "{segments_left} segments left, and the last entry is {last_entry}")
            }
            Self::Tlv { offset } => {
                write!(f, "the segment routing TLV at byte {offset} is cut short")
            }
            Self::TlvValue { kind, bytes } => {
                write!(f, "no segment routing TLV {} of {bytes} bytes is written", kind.0)
            }
            Self::HmacLength { bytes } => write!(f, "no HMAC of segment routing has {bytes} bytes"),
            Self::NoHmac => f.write_str("the segment routing header has no HMAC"),
            Self::Hmac => f.write_str("the HMAC is not that of the segment routing header"),
            Self::KeyLength(bytes) => write!(f, "an HMAC key of {bytes} bytes"),
            Self::Destination => f.write_str("the destination is not the active segment"),
            Self::HopLimit => f.write_str("the hop limit is used up"),
            Self::LastSegment => f.write_str("no segment follows the active one"),
            Self::SegmentsRemain(left) => write!(f, "{left} segments follow the active one"),
            Self::NoSegments => f.write_str("a way without a segment"),
            Self::TooManySegments { segments, most } => {
                write!(f, "a way of {segments} segments, and there is room for {most}")
            }
            Self::TooLong { bytes, most } => write!(f, "{bytes} bytes are more than {most}"),
            Self::Inner { protocol, .. } => {
                write!(
                    f,
                    "next header {} behind the last segment is neither IP nor Ethernet",
                    protocol.0
                )
            }
            Self::InnerVersion => f.write_str("the packet inside is another than its header says"),
            Self::Congestion => f.write_str("the packet inside cannot say that it met congestion"),
            Self::ZeroCsid => f.write_str("a compressed segment identifier of 0"),
        }
    }
}

impl core::error::Error for Srv6Error {}
