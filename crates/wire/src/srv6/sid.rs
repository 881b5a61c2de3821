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

use super::csid::{BLOCK_BYTES, CSID_BYTES};

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

    /// That of the node which an address would be of.
    ///
    /// # Errors
    /// When no node may have it, as in [`Self::new`].
    pub const fn of(address: Ipv6Addr) -> Result<Self, SidError> {
        let [a, b, c, d, e, f, ..] = address.octets();
        Self::new([a, b, c, d, e, f])
    }

    /// The first address below it.
    #[must_use]
    pub fn address(self) -> Ipv6Addr {
        let [a, b, c, d, e, f] = self.0;
        Ipv6Addr::from([a, b, c, d, e, f, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
    }

    /// The block that it is in, and its identifier there, by which containers of NEXT-CSID name its node (RFC 9800
    /// section 4): its first 32 bits, and the 16 behind. 0 ends a container, and is nobody's identifier.
    #[must_use]
    pub const fn compressed(self) -> ([u8; BLOCK_BYTES], u16) {
        const _: () = assert!(BLOCK_BYTES + CSID_BYTES == Locator::BYTES);
        let [a, b, c, d, high, low] = self.0;
        ([a, b, c, d], u16::from_be_bytes([high, low]))
    }

    /// Is the address below it?
    #[must_use]
    pub fn contains(self, address: Ipv6Addr) -> bool {
        address.octets().starts_with(&self.0)
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
        let (address, bits) = text.split_once('/').ok_or(SidError::Text)?;
        let address: Ipv6Addr = address.parse().map_err(|_| SidError::Text)?;
        // Of numbers, one form each.
        let is_padded = bits.len() > 1 && bits.starts_with('0');
        let is_number = bits.bytes().all(|digit| digit.is_ascii_digit()) && !is_padded;
        match bits.parse().map_err(|_| SidError::Text)? {
            Self::BITS if is_number => {}
            bits if is_number => return Err(SidError::Bits(bits)),
            _ => return Err(SidError::Text),
        }
        let [a, b, c, d, e, f, rest @ ..] = address.octets();
        if rest != [0; 10] {
            return Err(SidError::BehindLocator(address));
        }
        Self::new([a, b, c, d, e, f])
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
        let locator = if deserializer.is_human_readable() {
            alloc::string::String::deserialize(deserializer)?.parse()
        } else {
            Self::new(<[u8; Self::BYTES]>::deserialize(deserializer)?)
        };
        locator.map_err(serde::de::Error::custom)
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
    /// Its node leads on (RFC 8986 sections 4.1 and 10.2.2).
    pub const END: u16 = 1;
    /// It is the last, and delivers packets (section 4.8).
    pub const END_DT46: u16 = 20;
    /// It is the last, and delivers frames (section 4.9).
    pub const END_DX2: u16 = 21;
    /// It leads on, behind compressed identifiers (RFC 9800: «End with NEXT-CSID»).
    pub const END_NEXT_CSID: u16 = 43;
    /// It is the last, and delivers packets, behind compressed identifiers (RFC 9800: «End.DT46 with NEXT-CSID»).
    pub const END_DT46_NEXT_CSID: u16 = 64;

    /// Is it of a function that nodes of ours have behind compressed identifiers?
    #[must_use]
    #[inline]
    pub const fn ends_compressed(&self) -> bool {
        matches!(self.function, Self::END_NEXT_CSID | Self::END_DT46_NEXT_CSID)
    }

    /// Is it of a function that nodes of ours have where each is named whole?
    #[must_use]
    #[inline]
    pub const fn is_ours(&self) -> bool {
        matches!(self.function, Self::END | Self::END_DT46 | Self::END_DX2)
    }

    /// Reads it from an address.
    ///
    /// # Errors
    /// When nobody has such a locator, or the argument is not zero.
    pub const fn read(address: Ipv6Addr) -> Result<Self, SidError> {
        let [_, _, _, _, _, _, f0, f1, p0, p1, p2, p3, h0, h1, a0, a1] = address.octets();
        let locator = match Locator::of(address) {
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

impl FromStr for Sid {
    type Err = SidError;

    fn from_str(text: &str) -> Result<Self, SidError> {
        Self::read(text.parse().map_err(|_| SidError::Address)?)
    }
}

/// As its address, text for people and bytes for machines.
#[cfg(feature = "serde")]
impl serde::Serialize for Sid {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.address().serialize(serializer)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Sid {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let address = Ipv6Addr::deserialize(deserializer)?;
        Self::read(address).map_err(serde::de::Error::custom)
    }
}

/// Why an address or text is no segment identifier of ours, or a text no locator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SidError {
    /// A locator that no node may have.
    Reserved([u8; Locator::BYTES]),
    /// An argument, which ours have not.
    Argument(u16),
    /// The text is no address with a number of bits.
    Text,
    /// The text is no address.
    Address,
    /// So many bits, where a locator has 48.
    Bits(u8),
    /// Bits behind those of a locator are set.
    BehindLocator(Ipv6Addr),
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
            Self::Address => f.write_str("expected an address such as 5f00:0:2:e1:0:7:1:0"),
            Self::Bits(bits) => write!(f, "a locator has {} bits, not {bits}", Locator::BITS),
            Self::BehindLocator(address) => {
                write!(f, "{address} has bits set behind the {} of a locator", Locator::BITS)
            }
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
    fn a_locator_is_a_block_and_an_identifier_there() {
        let locator: Locator = "5f00:ca7e:1::/48".parse().unwrap();
        assert_eq!(locator.compressed(), ([0x5f, 0, 0xca, 0x7e], 1));
        for value in 0..=u16::MAX {
            let [high, low] = value.to_be_bytes();
            let locator = Locator::new([0x5f, 1, 2, 3, high, low]).unwrap();
            assert_eq!(locator.compressed(), ([0x5f, 1, 2, 3], value));
            let container = crate::srv6::container([0x5f, 1, 2, 3], &[value]);
            assert_eq!(container.ok(), (value != 0).then(|| locator.address()));
        }
    }

    #[test]
    fn functions_behind_compressed_identifiers_are_none_of_those_named_whole() {
        let locator = Locator::new([0x5f, 0, 0, 0, 0, 1]).unwrap();
        for function in 0..=u16::MAX {
            let sid = Sid { locator, function, path: 1, hop: 1 };
            assert_eq!(sid.ends_compressed(), matches!(function, 43 | 64), "{function}");
            assert!(!(sid.ends_compressed() && sid.is_ours()), "{function}");
        }
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
    fn a_locator_is_written_as_it_is_read_and_a_text_that_is_none_is_told_why() {
        for text in ["fd00:ca7e:1::/48", "5f00:0:3::/48"] {
            assert_eq!(text.parse::<Locator>().unwrap().to_string(), text);
        }
        let form = "expected a locator such as 5f00:0:1::/48";
        let refused = [
            ("", form),
            ("fd00::", form),
            ("fd00::/", form),
            ("fd00::/048", form),
            ("fd00::/+48", form),
            ("fd00::/256", form),
            ("10.0.0.0/48", form),
            ("fd00::/48/48", form),
            ("fd00::/0", "a locator has 48 bits, not 0"),
            ("fd00::/47", "a locator has 48 bits, not 47"),
            ("fd00::/128", "a locator has 48 bits, not 128"),
            ("fd00:0:0:1::/48", "fd00:0:0:1:: has bits set behind the 48 of a locator"),
            ("1234::/48", "no node may have the locator 1234::"),
        ];
        for (text, said) in refused {
            assert_eq!(text.parse::<Locator>().unwrap_err().to_string(), said, "{text}");
        }
    }

    #[test]
    fn an_identifier_is_written_as_it_is_read_and_a_text_that_is_none_is_told_why() {
        let text = "5f00:0:2:e1:12:3456:7:0";
        assert_eq!(text.parse::<Sid>().unwrap().to_string(), text);
        let refused = [
            ("5f00:0:2::/48", "expected an address such as 5f00:0:2:e1:0:7:1:0"),
            ("5f00:0:2:e1::9", "segment identifier with the argument 0x0009"),
            ("fe80::1", "no node may have the locator fe80::"),
        ];
        for (text, said) in refused {
            assert_eq!(text.parse::<Sid>().unwrap_err().to_string(), said, "{text}");
        }
    }

    #[cfg(feature = "serde")]
    #[test]
    fn people_are_given_text_and_machines_bytes_and_neither_may_say_what_no_node_may_have() {
        use serde::Deserialize;
        use serde::de::IntoDeserializer;
        use serde::de::value::{Error, StrDeserializer};
        let text =
            |text: &'static str| -> StrDeserializer<'static, Error> { text.into_deserializer() };
        let locator = Locator::deserialize(text("5f00:0:3::/48")).unwrap();
        let bytes = postcard::to_allocvec(&locator).unwrap();
        assert_eq!(bytes, [0x5f, 0, 0, 0, 0, 3]);
        assert_eq!(postcard::from_bytes::<Locator>(&bytes), Ok(locator));
        assert!(postcard::from_bytes::<Locator>(&[0x1f, 0, 0, 0, 0, 3]).is_err());
        let error = Locator::deserialize(text("5f00::/32")).unwrap_err();
        assert_eq!(error.to_string(), "a locator has 48 bits, not 32");
        let sid = Sid::deserialize(text("5f00:0:3:e1:0:7:1:0")).unwrap();
        assert_eq!(sid, Sid { locator, function: 0xe1, path: 7, hop: 1 });
        let bytes = postcard::to_allocvec(&sid).unwrap();
        assert_eq!(bytes, sid.address().octets());
        assert_eq!(postcard::from_bytes::<Sid>(&bytes), Ok(sid));
        assert!(Sid::deserialize(text("5f00:0:3:e1:0:7:1:9")).is_err());
        struct Text<T>(T);
        impl<T: serde::Serialize> fmt::Display for Text<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.serialize(f)
            }
        }
        assert_eq!(Text(locator).to_string(), "5f00:0:3::/48");
        assert_eq!(Text(sid).to_string(), "5f00:0:3:e1:0:7:1:0");
    }
}
