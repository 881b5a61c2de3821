//! Prefixes and ports as configurations write them. Knows their words; refuses to know what they are for.

use crate::scalars;
use catena_wire::scalar::{PortRange, ScalarError};
use ipnet::{IpNet, Ipv4Net};
use serde::de::{self, Deserialize, Deserializer, Visitor};
use std::fmt;

/// The ports above those of services (RFC 6335 section 6).
pub(super) fn unprivileged() -> PortRange {
    const RANGE: Result<PortRange, ScalarError> = PortRange::new(1_024, u16::MAX);
    const {
        match RANGE {
            Ok(range) => range,
            Err(_) => panic!("a range that begins before it ends"),
        }
    }
}

struct Prefix(Ipv4Net);

impl<'de> Deserialize<'de> for Prefix {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        read_prefix(&text).map(Self).map_err(de::Error::custom)
    }
}

fn read_prefix(text: &str) -> Result<Ipv4Net, String> {
    match scalars::prefix(text)? {
        IpNet::V4(net) => Ok(net),
        IpNet::V6(_) => {
            Err(format!("'{text}' is of IPv6, which is not translated; 'ipv6' says what it may"))
        }
    }
}

pub(super) fn prefix<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Ipv4Net, D::Error> {
    Prefix::deserialize(deserializer).map(|prefix| prefix.0)
}

pub(super) fn prefixes<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<Ipv4Net>, D::Error> {
    let prefixes = Vec::<Prefix>::deserialize(deserializer)?;
    Ok(prefixes.into_iter().map(|prefix| prefix.0).collect())
}

/// A port, or the first and the last one: `8080`, `8000-8010`.
struct Ports;

impl Visitor<'_> for Ports {
    type Value = PortRange;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a port from 1 to 65535, or a range of them such as 8000-8010")
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<PortRange, E> {
        let port = u16::try_from(number).ok().filter(|port| *port > 0);
        let range = port.and_then(|port| PortRange::new(port, port).ok());
        range.ok_or_else(|| E::invalid_value(de::Unexpected::Unsigned(number), &self))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<PortRange, E> {
        let range = scalars::ports(text);
        range.ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
    }
}

pub(super) fn ports<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PortRange, D::Error> {
    deserializer.deserialize_any(Ports)
}

pub(super) fn optional_ports<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<PortRange>, D::Error> {
    ports(deserializer).map(Some)
}
