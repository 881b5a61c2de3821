//! The head of ICMP messages, RFC 792 and RFC 4443.
//!
//! Knows type, code, checksum and the identifier of echo messages. Refuses to know the bodies;
//! neighbour discovery's are in [`crate::neighbour`].
//!
//! ```text
//! |     Type      |     Code      |           Checksum            |
//! |  Identifier (of an echo)      |  Sequence number (of an echo) |
//! ```

pub mod error_message;
pub mod too_big;

use core::fmt;
use core::net::{IpAddr, Ipv6Addr};

use crate::checksum::{self, Sum};
use crate::scalar::IpProtocol;

/// ICMP message type (RFC 792); an open registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IcmpV4Type(pub u8);

impl IcmpV4Type {
    /// Echo reply.
    pub const ECHO_REPLY: Self = Self(0);
    /// Destination unreachable.
    pub const DESTINATION_UNREACHABLE: Self = Self(3);
    /// Redirect.
    pub const REDIRECT: Self = Self(5);
    /// Echo request.
    pub const ECHO_REQUEST: Self = Self(8);
    /// Time exceeded.
    pub const TIME_EXCEEDED: Self = Self(11);
    /// Parameter problem.
    pub const PARAMETER_PROBLEM: Self = Self(12);

    /// Does the message carry an identifier and a sequence number?
    #[must_use]
    pub const fn is_echo(self) -> bool {
        matches!(self, Self::ECHO_REQUEST | Self::ECHO_REPLY)
    }

    /// Does a router say by it what it thinks of a packet (RFC 1812 section 4.3.1, which calls
    /// these error messages)?
    #[must_use]
    pub const fn is_error(self) -> bool {
        matches!(
            self,
            Self::DESTINATION_UNREACHABLE
                | Self::REDIRECT
                | Self::TIME_EXCEEDED
                | Self::PARAMETER_PROBLEM
        )
    }
}

/// ICMPv6 message type (RFC 4443, RFC 4861); an open registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IcmpV6Type(pub u8);

impl IcmpV6Type {
    /// Destination unreachable.
    pub const DESTINATION_UNREACHABLE: Self = Self(1);
    /// Packet too big.
    pub const PACKET_TOO_BIG: Self = Self(2);
    /// Time exceeded.
    pub const TIME_EXCEEDED: Self = Self(3);
    /// Parameter problem.
    pub const PARAMETER_PROBLEM: Self = Self(4);
    /// Echo request.
    pub const ECHO_REQUEST: Self = Self(128);
    /// Echo reply.
    pub const ECHO_REPLY: Self = Self(129);
    /// Router solicitation, the first type of neighbour discovery.
    pub const ROUTER_SOLICITATION: Self = Self(133);
    /// Router advertisement.
    pub const ROUTER_ADVERTISEMENT: Self = Self(134);
    /// Neighbour solicitation.
    pub const NEIGHBOUR_SOLICITATION: Self = Self(135);
    /// Neighbour advertisement.
    pub const NEIGHBOUR_ADVERTISEMENT: Self = Self(136);
    /// Redirect, the last type of neighbour discovery.
    pub const REDIRECT: Self = Self(137);

    /// Does the message carry an identifier and a sequence number?
    #[must_use]
    pub const fn is_echo(self) -> bool {
        matches!(self, Self::ECHO_REQUEST | Self::ECHO_REPLY)
    }

    /// Is it an error message: a type without the highest bit (RFC 4443 section 2.1)?
    #[must_use]
    pub const fn is_error(self) -> bool {
        self.0 < 128
    }

    /// Is it one of the five messages of RFC 4861, which never leave a link?
    #[must_use]
    pub const fn is_neighbour_discovery(self) -> bool {
        Self::ROUTER_SOLICITATION.0 <= self.0 && self.0 <= Self::REDIRECT.0
    }
}

/// Where the checksum is in a message, in both versions.
pub const CHECKSUM_OFFSET: usize = 2;

/// A view of a message with at least its first eight bytes.
#[derive(Clone, Copy, Debug)]
pub struct IcmpView<'p> {
    fixed: [u8; IcmpView::HEADER_LEN],
    message: &'p [u8],
}

impl<'p> IcmpView<'p> {
    /// Bytes that every message of both versions has.
    pub const HEADER_LEN: usize = 8;

    /// A message, from its type to its end.
    ///
    /// # Errors
    /// When the bytes are too few. The checksum is not judged here.
    pub fn parse(message: &'p [u8]) -> Result<Self, IcmpError> {
        let fixed = message
            .first_chunk()
            .ok_or(IcmpError::Truncated { need: Self::HEADER_LEN, have: message.len() })?;
        Ok(Self { fixed: *fixed, message })
    }

    /// The type, when the message came over IPv4.
    #[must_use]
    pub const fn v4_type(&self) -> IcmpV4Type {
        let [kind, ..] = self.fixed;
        IcmpV4Type(kind)
    }

    /// The type, when the message came over IPv6.
    #[must_use]
    pub const fn v6_type(&self) -> IcmpV6Type {
        let [kind, ..] = self.fixed;
        IcmpV6Type(kind)
    }

    /// The code, whose meaning depends on the type.
    #[must_use]
    pub const fn code(&self) -> u8 {
        let [_, code, ..] = self.fixed;
        code
    }

    /// The checksum field.
    #[must_use]
    pub const fn checksum(&self) -> u16 {
        let [_, _, high, low, ..] = self.fixed;
        u16::from_be_bytes([high, low])
    }

    /// The identifier, in an echo message of IPv4.
    #[must_use]
    pub const fn v4_identifier(&self) -> Option<u16> {
        if self.v4_type().is_echo() { Some(self.identifier()) } else { None }
    }

    /// The identifier, in an echo message of IPv6.
    #[must_use]
    pub const fn v6_identifier(&self) -> Option<u16> {
        if self.v6_type().is_echo() { Some(self.identifier()) } else { None }
    }

    const fn identifier(&self) -> u16 {
        let [_, _, _, _, high, low, ..] = self.fixed;
        u16::from_be_bytes([high, low])
    }

    /// Everything after the first eight bytes.
    #[must_use]
    pub fn body(&self) -> &'p [u8] {
        self.message.get(Self::HEADER_LEN..).unwrap_or_default()
    }

    /// Is the checksum that of a message over IPv4 (RFC 792: no pseudo header)?
    #[must_use]
    pub fn is_v4_checksum_correct(&self) -> bool {
        Sum::of(self.message).is_correct()
    }

    /// Is the checksum that of a message between these addresses (RFC 4443 section 2.3)?
    #[must_use]
    pub fn is_v6_checksum_correct(&self, source: Ipv6Addr, destination: Ipv6Addr) -> bool {
        v6_sum(self.message, source, destination).is_correct()
    }
}

/// The sum of an ICMPv6 message and its pseudo header.
pub(crate) fn v6_sum(message: &[u8], source: Ipv6Addr, destination: Ipv6Addr) -> Sum {
    // A message longer than an IPv6 packet can be is never correct, so the bound costs nothing.
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    checksum::pseudo_header_v6(source, destination, IpProtocol::ICMPV6, length).then_bytes(message)
}

/// Makes an echo request of `message`, whose bytes from the ninth on are the data (RFC 792,
/// RFC 4443 section 4.1), for a packet between these addresses.
///
/// # Errors
/// When there are fewer than eight bytes.
pub fn emit_echo_request(
    message: &mut [u8],
    (source, destination): (IpAddr, IpAddr),
    identifier: u16,
    sequence: u16,
) -> Result<(), IcmpError> {
    let have = message.len();
    let fixed = message
        .first_chunk_mut::<{ IcmpView::HEADER_LEN }>()
        .ok_or(IcmpError::Truncated { need: IcmpView::HEADER_LEN, have })?;
    let ends = match (source, destination) {
        (IpAddr::V6(source), IpAddr::V6(destination)) => Some((source, destination)),
        _ => None,
    };
    let kind = ends.map_or(IcmpV4Type::ECHO_REQUEST.0, |_| IcmpV6Type::ECHO_REQUEST.0);
    let ([a, b], [c, d]) = (identifier.to_be_bytes(), sequence.to_be_bytes());
    *fixed = [kind, 0, 0, 0, a, b, c, d];
    let sum = ends.map_or_else(
        || Sum::of(message),
        |(source, destination)| v6_sum(message, source, destination),
    );
    let [high, low] = sum.checksum().to_be_bytes();
    if let [_, _, first, second, ..] = message {
        (*first, *second) = (high, low);
    }
    Ok(())
}

/// Why bytes are no ICMP message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IcmpError {
    /// Too few bytes, counted from offset 0.
    Truncated {
        /// Bytes needed.
        need: usize,
        /// Bytes there.
        have: usize,
    },
}

impl fmt::Display for IcmpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Truncated { need, have } = self;
        write!(f, "an ICMP message needs {need} bytes, there are {have}")
    }
}

impl core::error::Error for IcmpError {}

#[cfg(test)]
mod tests;
