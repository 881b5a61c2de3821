//! Segment identifiers as we give them out, RFC 8986 section 3.1.
//!
//! Knows how one is laid out, and which locators nobody has. Refuses to know which function has which number.
//!
//! ```text
//! |          locator (48)         | function (16) |      path (32)      |  hop (16) |  zero (16) |
//! ```
//!
//! The locator is of the node, function, path and hop are the function in the words of the RFC, and the argument is
//! zero. So a header says on which path a packet is, and how far it has come. Identifiers of others have 0 for path and
//! hop, or anything.

use core::fmt;
use core::net::Ipv6Addr;
use core::str::FromStr;

/// The prefix of a node, 48 bits, below which its identifiers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Locator([u8; Locator::BYTES]);

impl Locator {
    /// Its bytes.
    pub const BYTES: usize = 6;
    /// Its bits.
    pub const BITS: u8 = 48;

    /// That of these bytes.
    ///
    /// # Errors
    /// When no node may have it: 1000::/4 marks telemetry in a list of segments, and 0000::/8, fe80::/10 and ff00::/8
    /// are no addresses that are routed to one node (RFC 4291 sections 2.4 and 2.5).
    pub const fn new(bytes: [u8; Self::BYTES]) -> Result<Self, SidError> {
        match bytes {
            [0x00 | 0x10..=0x1f | 0xff, ..] | [0xfe, 0x80..=0xbf, ..] => {
                Err(SidError::Reserved(bytes))
            }
            _ => Ok(Self(bytes)),
        }
    }

    /// The first address below it.
    #[must_use]
    pub fn address(self) -> Ipv6Addr {
        let [a, b, c, d, e, f] = self.0;
        Ipv6Addr::from([a, b, c, d, e, f, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
    }

    /// Is the address below it?
    #[must_use]
    pub fn contains(self, address: Ipv6Addr) -> bool {
        address.octets().starts_with(&self.0)
    }
}

/// As text for people, as its bytes for machines.
#[cfg(feature = "serde")]
impl serde::Serialize for Locator {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(self)
        } else {
            self.0.serialize(serializer)
        }
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Locator {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        if deserializer.is_human_readable() {
            let text = alloc::string::String::deserialize(deserializer)?;
            text.parse().map_err(D::Error::custom)
        } else {
            Self::new(<[u8; Self::BYTES]>::deserialize(deserializer)?).map_err(D::Error::custom)
        }
    }
}

impl fmt::Display for Locator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address(), Self::BITS)
    }
}

impl FromStr for Locator {
    type Err = SidError;

    fn from_str(text: &str) -> Result<Self, SidError> {
        let address = text.strip_suffix("/48").and_then(|address| address.parse().ok());
        let address: Ipv6Addr = address.ok_or(SidError::Text)?;
        let [a, b, c, d, e, f, rest @ ..] = address.octets();
        if rest != [0; 10] {
            return Err(SidError::Text);
        }
        Self::new([a, b, c, d, e, f])
    }
}

/// A segment identifier of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sid {
    /// Whose it is.
    pub locator: Locator,
    /// What its node does with the packet.
    pub function: u16,
    /// The path, and so its version; 0: an identifier of no path.
    pub path: u32,
    /// The position on the path.
    pub hop: u16,
}

impl Sid {
    /// Reads it from an address.
    ///
    /// # Errors
    /// When nobody has such a locator, or the argument is not zero.
    pub const fn read(address: Ipv6Addr) -> Result<Self, SidError> {
        let [a, b, c, d, e, f, f0, f1, p0, p1, p2, p3, h0, h1, a0, a1] = address.octets();
        let locator = match Locator::new([a, b, c, d, e, f]) {
            Ok(locator) => locator,
            Err(error) => return Err(error),
        };
        let argument = u16::from_be_bytes([a0, a1]);
        if argument != 0 {
            return Err(SidError::Argument(argument));
        }
        Ok(Self {
            locator,
            function: u16::from_be_bytes([f0, f1]),
            path: u32::from_be_bytes([p0, p1, p2, p3]),
            hop: u16::from_be_bytes([h0, h1]),
        })
    }

    /// The address that it is.
    #[must_use]
    pub const fn address(self) -> Ipv6Addr {
        let [a, b, c, d, e, f] = self.locator.0;
        let [f0, f1] = self.function.to_be_bytes();
        let [p0, p1, p2, p3] = self.path.to_be_bytes();
        let [h0, h1] = self.hop.to_be_bytes();
        let octets = [a, b, c, d, e, f, f0, f1, p0, p1, p2, p3, h0, h1, 0, 0];
        Ipv6Addr::from_bits(u128::from_be_bytes(octets))
    }
}

impl fmt::Display for Sid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address().fmt(f)
    }
}

/// Why an address is no segment identifier of ours, or a text no locator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SidError {
    /// A locator that no node may have.
    Reserved([u8; Locator::BYTES]),
    /// An argument, which ours have not.
    Argument(u16),
    /// The text has another form.
    Text,
}

impl fmt::Display for SidError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reserved(bytes) => {
                write!(f, "no node may have the locator {}", Locator(*bytes).address())
            }
            Self::Argument(argument) => {
                write!(f, "segment identifier with the argument {argument:#06x}")
            }
            Self::Text => f.write_str("expected a locator such as 5f00:0:1::/48"),
        }
    }
}

impl core::error::Error for SidError {}

#[cfg(test)]
mod tests {
    //! The layout by hand, all values of each octet, and what is refused.

    use std::string::ToString;

    use super::*;

    #[test]
    fn an_identifier_is_locator_function_path_and_hop() {
        let sid = Sid {
            locator: "5f00:0:2::/48".parse().unwrap(),
            function: 0x00e1,
            path: 0x0012_3456,
            hop: 7,
        };
        assert_eq!(sid.to_string(), "5f00:0:2:e1:12:3456:7:0");
        assert_eq!(Sid::read(sid.address()), Ok(sid));
        assert!(sid.locator.contains(sid.address()));
        assert!(!sid.locator.contains("5f00:0:3::".parse().unwrap()));
    }

    #[test]
    fn every_value_of_each_field_comes_back() {
        let locator = Locator::new([0x5f, 0, 1, 2, 3, 4]).unwrap();
        for value in 0..=u16::MAX {
            for path in [value.into(), u32::from(value) << 16] {
                let sid = Sid { locator, function: value, path, hop: !value };
                assert_eq!(Sid::read(sid.address()), Ok(sid));
            }
            let argument = u128::from(locator.address()) | u128::from(value);
            let read = Sid::read(argument.into());
            assert_eq!(read.err(), (value != 0).then_some(SidError::Argument(value)));
        }
    }

    #[test]
    fn locators_that_no_node_may_have_are_refused() {
        for first in 0..=u16::MAX {
            let [a, b] = first.to_be_bytes();
            let bytes = [a, b, 0, 0, 0, 0];
            let is_refused = matches!(a, 0 | 0x10..=0x1f | 0xff) || first & 0xffc0 == 0xfe80;
            let expected = is_refused.then_some(SidError::Reserved(bytes));
            assert_eq!(Locator::new(bytes).err(), expected, "{first:#06x}");
            let text = std::format!("{first:x}::/48");
            assert_eq!(text.parse::<Locator>().err(), expected);
        }
    }

    #[test]
    fn a_locator_is_written_as_it_is_read() {
        let text = "fd00:ca7e:1::/48";
        assert_eq!(text.parse::<Locator>().unwrap().to_string(), text);
        for other in ["", "fd00::", "fd00::/47", "fd00::/", "fd00:0:0:1::/48", "10.0.0.0/48"] {
            assert_eq!(other.parse::<Locator>(), Err(SidError::Text), "{other}");
        }
    }
}
