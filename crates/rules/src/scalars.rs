//! Scalars as configurations write them: prefixes, ports, protocols, code points, and lists of them. Knows their
//! words; refuses to know what they are for.

use crate::condition::Range;
use crate::nft::names::{PROTOCOLS, number};
use catena_model::classifier::CODE_POINTS;
use catena_wire::scalar::PortRange;
use ipnet::IpNet;
use serde::de::{self, Deserialize, Deserializer, SeqAccess, Visitor};
use std::fmt;
use std::marker::PhantomData;
use std::net::IpAddr;

/// Reads a prefix, or an address as that of one host.
pub(crate) fn prefix(text: &str) -> Result<IpNet, String> {
    if let Ok(one) = text.parse::<IpAddr>() {
        return Ok(IpNet::from(one));
    }
    let net: IpNet = text
        .parse()
        .map_err(|_| format!("'{text}' is no address and no prefix, such as 10.0.1.0/24"))?;
    if net.addr() != net.network() {
        let (net, one) = (net.trunc(), net.addr());
        return Err(format!(
            "'{text}' is no prefix: say {net} for all of it, or {one} for one host"
        ));
    }
    Ok(net)
}

/// Reads a port from 1 on, or the first and the last of some: `8080`, `8000-8010`.
pub(crate) fn ports(text: &str) -> Option<PortRange> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let port = |digits: &str| digits.trim().parse::<u16>().ok().filter(|port| *port > 0);
    let (first, last) = port(first).zip(port(last))?;
    PortRange::new(first, last).ok()
}

/// Something that is written as one word or number.
pub(crate) trait Word: Sized {
    /// What it may be.
    const EXPECTED: &'static str;

    /// Reads it.
    fn read(text: &str) -> Result<Self, String>;

    /// What is said of a text that is none.
    fn refused(text: &str) -> String {
        format!("'{text}' is not {}", Self::EXPECTED)
    }
}

/// One of them, as it stands in a document.
struct One<T>(T);

/// One, or a list of them, which is not empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listed<T>(pub(crate) Vec<T>);

struct OneOrMany<T>(PhantomData<T>);

impl<'de, T: Word> Visitor<'de> for OneOrMany<T> {
    type Value = Listed<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, or a list of such", T::EXPECTED)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Listed<T>, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Listed<T>, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Listed<T>, E> {
        T::read(text).map(|one| Listed(vec![one])).map_err(E::custom)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Listed<T>, A::Error> {
        let mut all = Vec::new();
        while let Some(One(one)) = list.next_element::<One<T>>()? {
            all.push(one);
        }
        if all.is_empty() {
            return Err(de::Error::custom("the list is empty: leave its key out, or name one"));
        }
        Ok(Listed(all))
    }
}

impl<'de, T: Word> Visitor<'de> for One<PhantomData<T>> {
    type Value = One<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXPECTED)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<One<T>, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<One<T>, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<One<T>, E> {
        T::read(text).map(One).map_err(E::custom)
    }
}

impl<'de, T: Word> Deserialize<'de> for One<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(One(PhantomData))
    }
}

impl<'de, T: Word> Deserialize<'de> for Listed<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OneOrMany(PhantomData))
    }
}

/// Reads one word, for `deserialize_with`.
pub(crate) fn word<'de, D: Deserializer<'de>, T: Word>(deserializer: D) -> Result<T, D::Error> {
    One::deserialize(deserializer).map(|One(one)| one)
}

/// The same, of a key that may be left out.
pub(crate) fn optional_word<'de, D: Deserializer<'de>, T: Word>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    word(deserializer).map(Some)
}

impl Word for IpNet {
    const EXPECTED: &'static str = "an address or a prefix, such as 10.0.1.0/24 or 2001:db8::/32";

    fn read(text: &str) -> Result<Self, String> {
        prefix(text)
    }
}

impl Word for PortRange {
    const EXPECTED: &'static str = "a port from 1 to 65535, or a range of them such as 8000-8010";

    fn read(text: &str) -> Result<Self, String> {
        ports(text).ok_or_else(|| Self::refused(text))
    }
}

/// The number of an IP protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProtocolNumber(pub(crate) u8);

impl Word for ProtocolNumber {
    const EXPECTED: &'static str = "a protocol, such as tcp, udp, icmp, icmpv6, or a number to 255";

    fn read(text: &str) -> Result<Self, String> {
        let named = number(PROTOCOLS, text).and_then(|number| u8::try_from(number).ok());
        named.or_else(|| text.parse().ok()).map(Self).ok_or_else(|| Self::refused(text))
    }
}

/// A code point (RFC 2474).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dscp(u8);

impl Dscp {
    /// The code point of this number; none: it has more than six bits.
    #[must_use]
    pub const fn new(number: u8) -> Option<Self> {
        if number < 64 { Some(Self(number)) } else { None }
    }

    /// Its number.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }

    pub(crate) const fn range(self) -> Range {
        Range::one(self.0 as u128)
    }
}

impl fmt::Display for Dscp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match CODE_POINTS.iter().find(|(_, number)| *number == self.0) {
            Some((name, _)) => f.write_str(name),
            None => write!(f, "{}", self.0),
        }
    }
}

impl Word for Dscp {
    const EXPECTED: &'static str = "a code point, such as ef, af11, cs0, or a number to 63";

    fn read(text: &str) -> Result<Self, String> {
        let named = CODE_POINTS.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
        let number = named.map_or_else(|| text.parse().ok(), |(_, number)| Some(*number));
        number.and_then(Self::new).ok_or_else(|| Self::refused(text))
    }
}
