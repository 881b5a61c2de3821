//! The Internet checksum: RFC 1071, and its update in place, RFC 1624.
//!
//! Knows one's-complement sums of byte strings and the pseudo headers of IPv4 and IPv6. Refuses to
//! know where a header keeps its checksum.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::scalar::IpProtocol;

/// A one's-complement sum of 16-bit words that may end in the middle of a word.
///
/// Sums of consecutive byte strings combine with [`Sum::then`], whatever their lengths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    folded: u16,
    is_odd: bool,
}

impl Sum {
    /// The sum of no bytes.
    pub const EMPTY: Self = Self { folded: 0, is_odd: false };

    /// The sum of a byte string that starts at a word boundary.
    #[inline]
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        // A one's-complement sum does not depend on byte order (RFC 1071 section 2 (B)): words are
        // loaded as the machine likes them, and only the folded result is turned round. Additions
        // wrap in name only: half of 2^32 words of 32 bits fit each accumulator.
        let (words, rest) = bytes.as_chunks::<8>();
        let (mut low, mut high) = (0_u64, 0_u64);
        for word in words {
            let word = u64::from_ne_bytes(*word);
            low = low.wrapping_add(word & 0xffff_ffff);
            high = high.wrapping_add(word >> 32);
        }
        let (pairs, odd) = rest.as_chunks::<2>();
        for pair in pairs {
            low = low.wrapping_add(u64::from(u16::from_ne_bytes(*pair)));
        }
        if let [last] = *odd {
            low = low.wrapping_add(u64::from(u16::from_ne_bytes([last, 0])));
        }
        let native = fold(low.wrapping_add(high));
        Self { folded: u16::from_be_bytes(native.to_ne_bytes()), is_odd: bytes.len() % 2 == 1 }
    }

    /// The sum of one 16-bit word.
    #[must_use]
    pub const fn of_word(word: u16) -> Self {
        Self { folded: word, is_odd: false }
    }

    /// The sum of these bytes followed by those of `next` (RFC 1071 section 2 (A) and (B)).
    #[must_use]
    pub fn then(self, next: Self) -> Self {
        let next_folded = if self.is_odd { next.folded.swap_bytes() } else { next.folded };
        Self { folded: add(self.folded, next_folded), is_odd: self.is_odd != next.is_odd }
    }

    /// The sum of these bytes followed by more bytes.
    #[must_use]
    pub fn then_bytes(self, bytes: &[u8]) -> Self {
        self.then(Self::of(bytes))
    }

    /// The sum in 16 bits, not inverted. Over data and a correct checksum it is `0xffff`.
    #[must_use]
    pub const fn folded(self) -> u16 {
        self.folded
    }

    /// The checksum: the inverted sum.
    #[must_use]
    pub const fn checksum(self) -> u16 {
        !self.folded
    }

    /// The checksum where zero means «none» (UDP, RFC 768): the other zero is taken instead.
    #[must_use]
    pub const fn checksum_never_zero(self) -> u16 {
        match self.checksum() {
            0 => 0xffff,
            checksum => checksum,
        }
    }

    /// Is the sum that of data including a correct checksum?
    #[must_use]
    pub const fn is_correct(self) -> bool {
        self.folded == 0xffff
    }
}

/// The pseudo header of the upper-layer checksum over IPv4 (RFC 9293 section 3.1).
///
/// `length_bytes` counts the upper-layer header and its data.
#[must_use]
pub fn pseudo_header_v4(
    source: Ipv4Addr,
    destination: Ipv4Addr,
    protocol: IpProtocol,
    length_bytes: u32,
) -> Sum {
    Sum::of(&source.octets())
        .then_bytes(&destination.octets())
        .then(protocol_and_length(protocol, length_bytes))
}

/// The pseudo header of the upper-layer checksum over IPv6 (RFC 8200 section 8.1).
///
/// `length_bytes` counts the upper-layer header and its data, without extension headers.
#[must_use]
pub fn pseudo_header_v6(
    source: Ipv6Addr,
    destination: Ipv6Addr,
    protocol: IpProtocol,
    length_bytes: u32,
) -> Sum {
    Sum::of(&source.octets())
        .then_bytes(&destination.octets())
        .then(protocol_and_length(protocol, length_bytes))
}

/// The pseudo header for two addresses of the same version.
///
/// Addresses of different versions sum to something no receiver expects.
#[must_use]
pub fn pseudo_header(
    source: IpAddr,
    destination: IpAddr,
    protocol: IpProtocol,
    length_bytes: u32,
) -> Sum {
    let tail = protocol_and_length(protocol, length_bytes);
    address_sum(source).then(address_sum(destination)).then(tail)
}

fn address_sum(address: IpAddr) -> Sum {
    match address {
        IpAddr::V4(v4) => Sum::of(&v4.octets()),
        IpAddr::V6(v6) => Sum::of(&v6.octets()),
    }
}

fn protocol_and_length(protocol: IpProtocol, length_bytes: u32) -> Sum {
    let length = fold(u64::from(length_bytes));
    Sum::of_word(add(u16::from(protocol.0), length))
}

/// A checksum after one 16-bit word of what it covers has changed (RFC 1624 equation 3).
///
/// A checksum that was wrong before stays wrong by the same amount.
#[must_use]
pub const fn update_word(checksum: u16, old: u16, new: u16) -> u16 {
    !add(add(!checksum, !old), new)
}

/// A checksum after a part of what it covers has changed; both parts begin at a word boundary and
/// have the same length (RFC 1624 equation 3).
#[must_use]
pub const fn update(checksum: u16, old: Sum, new: Sum) -> u16 {
    update_word(checksum, old.folded, new.folded)
}

/// One's-complement addition: the carry comes back in at the low end.
const fn add(a: u16, b: u16) -> u16 {
    let (sum, carry) = a.overflowing_add(b);
    // After a carry the sum is at most 0xfffe.
    if carry { sum + 1 } else { sum }
}

/// Folds a sum of words into one word.
const fn fold(sum: u64) -> u16 {
    let sum = (sum >> 32) + (sum & 0xffff_ffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    sum as u16
}

#[cfg(test)]
mod tests;
