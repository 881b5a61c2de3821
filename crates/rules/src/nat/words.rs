//! Prefixes and ports as configurations write them. Knows their words; refuses to know what they are for.

use catena_wire::scalar::{PortRange, ScalarError};
use ipnet::Ipv4Net;
use serde::de::{self, Deserialize, Deserializer, Visitor};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

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
    let address = text.split_once('/').map_or(text, |(address, _)| address);
    if matches!(address.parse(), Ok(IpAddr::V6(_))) {
        return Err(format!(
            "'{text}' is of IPv6, which is not translated; 'ipv6' says what it may"
        ));
    }
    if let Ok(one) = text.parse::<Ipv4Addr>() {
        return Ok(Ipv4Net::from(one));
    }
    let net: Ipv4Net = text
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
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let port = |digits: &str| digits.trim().parse::<u16>().ok().filter(|port| *port > 0);
        let range = port(first).zip(port(last));
        let range = range.and_then(|(first, last)| PortRange::new(first, last).ok());
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
