//! A packet in words, and what a packet must look like in words. Knows the two small languages of
//! the command line; refuses to make or read bytes.

use crate::classifier::{FIELDS, Field, FieldMatch};
use crate::resource::{IpFamily, Transport};
use catena_wire::scalar::VlanId;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};
use std::str::{FromStr, SplitWhitespace};

/// Time to live of a described packet, unless it says another.
const TTL_DEFAULT: u8 = 64;

/// A text that describes no packet, or no filter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PacketTextError {
    /// It is no packet.
    #[error(
        "'{0}' describes no packet ({1}); write it as 'tcp 10.0.1.7:40112 > 198.51.100.9:443', \
         'udp [2001:db8::1]:9 > [2001:db8::2]:53' or 'icmp 10.0.1.7 > 10.0.1.9', and behind that \
         'vlan 7', 'ttl 3', 'length 1400' or a field such as 'dscp ef' if it matters"
    )]
    Packet(String, String),
    /// It is no filter.
    #[error(
        "'{0}' is no filter ({1}); write words as 'udp', 'src 10.0.1.7', 'dst 10.0.0.0/8', 'host \
         2001:db8::1', 'dst port 443', 'ip6', a field such as 'dscp ef', joined by 'and'"
    )]
    Filter(String, String),
}

/// A packet in words: `tcp 10.0.1.7:40112 > 198.51.100.9:443`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PacketDescription {
    /// Transport protocol; ICMP means an echo request.
    pub transport: Transport,
    /// Source address.
    pub source: IpAddr,
    /// Destination address, of the same family.
    pub destination: IpAddr,
    /// Source and destination port; zero for ICMP.
    pub ports: (u16, u16),
    /// VLAN tag.
    pub vlan: Option<VlanId>,
    /// Time to live or hop limit.
    pub ttl: u8,
    /// Length of the IP packet, in bytes; none: without payload.
    pub length: Option<u16>,
    /// Fields beside the flow.
    #[serde(default)]
    pub fields: FieldMatch,
}

impl FromStr for PacketDescription {
    type Err = PacketTextError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        describe(text).map_err(|why| PacketTextError::Packet(text.to_owned(), why))
    }
}

fn describe(text: &str) -> Result<PacketDescription, String> {
    let mut words = text.split_whitespace();
    let transport = match next(&mut words, "a protocol")? {
        "tcp" => Transport::Tcp,
        "udp" => Transport::Udp,
        "icmp" => Transport::Icmp,
        other => return Err(format!("'{other}' is not tcp, udp or icmp")),
    };
    let (source, source_port) = end(next(&mut words, "a source")?, transport)?;
    let sign = next(&mut words, "'>'")?;
    if sign != ">" {
        return Err(format!("'{sign}' stands in place of '>'"));
    }
    let (destination, destination_port) = end(next(&mut words, "a destination")?, transport)?;
    if source.is_ipv4() != destination.is_ipv4() {
        return Err("a packet has one IP version".to_owned());
    }
    let mut packet = PacketDescription {
        transport,
        source,
        destination,
        ports: (source_port, destination_port),
        vlan: None,
        ttl: TTL_DEFAULT,
        length: None,
        fields: FieldMatch::default(),
    };
    while let Some(word) = words.next() {
        let value = next(&mut words, "a number")?;
        match word {
            "vlan" => {
                let id = number(value)?;
                packet.vlan = Some(VlanId::new(id).map_err(|error| error.to_string())?);
            }
            "ttl" => packet.ttl = number(value)?,
            "length" => packet.length = Some(number(value)?),
            other => packet
                .fields
                .set(
                    Field::named(other).ok_or_else(|| {
                        format!("'{other}' is not vlan, ttl, length or {}", names())
                    })?,
                    value,
                )
                .map_err(|error| error.to_string())?,
        }
    }
    match packet.fields.missing(Some(packet.transport)) {
        Some((field, _)) => Err(format!("such a packet has no {}", field.title())),
        None => Ok(packet),
    }
}

/// The names of the fields beside the flow.
fn names() -> String {
    FIELDS.each_ref().map(|field| field.name).join(" or ")
}

fn next<'t>(words: &mut SplitWhitespace<'t>, what: &str) -> Result<&'t str, String> {
    words.next().ok_or_else(|| format!("{what} is missing"))
}

fn number<N: FromStr<Err: Display>>(word: &str) -> Result<N, String> {
    word.parse().map_err(|error| format!("'{word}': {error}"))
}

/// One end of a packet; ICMP has no ports.
fn end(word: &str, transport: Transport) -> Result<(IpAddr, u16), String> {
    if transport == Transport::Icmp {
        let bare = word.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(word);
        return Ok((bare.parse().map_err(|_| format!("'{word}' is no address"))?, 0));
    }
    let parsed: Result<SocketAddr, _> = word.parse();
    let end = parsed.map_err(|_| format!("'{word}' is no address with a port"))?;
    Ok((end.ip(), end.port()))
}

/// What a packet must look like; what is not said may be anything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PacketFilter {
    /// IP version.
    pub family: Option<IpFamily>,
    /// Transport protocol.
    pub transport: Option<Transport>,
    /// Source address.
    pub source: Option<IpNet>,
    /// Destination address.
    pub destination: Option<IpNet>,
    /// Source or destination address.
    pub host: Option<IpNet>,
    /// Source port.
    pub source_port: Option<u16>,
    /// Destination port.
    pub destination_port: Option<u16>,
    /// Source or destination port.
    pub port: Option<u16>,
    /// Fields beside the flow.
    #[serde(default)]
    pub fields: FieldMatch,
}

impl FromStr for PacketFilter {
    type Err = PacketTextError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        filter(text).map_err(|why| PacketTextError::Filter(text.to_owned(), why))
    }
}

/// Which end of a packet a word is about.
#[derive(Clone, Copy)]
enum Side {
    Source,
    Destination,
    Either,
}

fn filter(text: &str) -> Result<PacketFilter, String> {
    let mut filter = PacketFilter::default();
    let mut words = text.split_whitespace();
    while let Some(word) = words.next() {
        match word {
            "and" => {}
            "tcp" => filter.transport = Some(Transport::Tcp),
            "udp" => filter.transport = Some(Transport::Udp),
            "icmp" => filter.transport = Some(Transport::Icmp),
            "ip" => filter.family = Some(IpFamily::Ipv4),
            "ip6" => filter.family = Some(IpFamily::Ipv6),
            "src" => filter.narrow(Side::Source, &mut words)?,
            "dst" => filter.narrow(Side::Destination, &mut words)?,
            "host" | "net" => {
                filter.address(Side::Either, next(&mut words, "an address")?)?;
            }
            "port" => filter.port(Side::Either, next(&mut words, "a port")?)?,
            other => {
                let field = Field::named(other);
                let field = field.ok_or_else(|| format!("'{other}' is no word of it"))?;
                let value = next(&mut words, "a value")?;
                filter.fields.set(field, value).map_err(|error| error.to_string())?;
            }
        }
    }
    Ok(filter)
}

impl PacketFilter {
    /// What follows `src` or `dst`.
    fn narrow(&mut self, side: Side, words: &mut SplitWhitespace<'_>) -> Result<(), String> {
        match next(words, "an address or a port")? {
            "port" => self.port(side, next(words, "a port")?),
            "host" | "net" => self.address(side, next(words, "an address")?),
            address => self.address(side, address),
        }
    }

    fn port(&mut self, side: Side, word: &str) -> Result<(), String> {
        let port = Some(number(word)?);
        match side {
            Side::Source => self.source_port = port,
            Side::Destination => self.destination_port = port,
            Side::Either => self.port = port,
        }
        Ok(())
    }

    fn address(&mut self, side: Side, word: &str) -> Result<(), String> {
        let net: Result<IpNet, _> = word.parse().or_else(|_| word.parse().map(IpAddr::into));
        let net = Some(net.map_err(|_| format!("'{word}' is no address or prefix"))?);
        match side {
            Side::Source => self.source = net,
            Side::Destination => self.destination = net,
            Side::Either => self.host = net,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_read_as_people_write_them() {
        let packet: PacketDescription = "tcp 10.0.1.7:40112 > 198.51.100.9:443".parse().unwrap();
        assert_eq!(packet.transport, Transport::Tcp);
        assert_eq!(packet.source, "10.0.1.7".parse::<IpAddr>().unwrap());
        assert_eq!(packet.ports, (40_112, 443));
        assert_eq!((packet.vlan, packet.ttl, packet.length), (None, 64, None));
        let text = "udp [2001:db8::1]:9 > [2001:db8::2]:53 vlan 7 ttl 3 length 1400";
        let packet: PacketDescription = text.parse().unwrap();
        assert_eq!(packet.destination, "2001:db8::2".parse::<IpAddr>().unwrap());
        assert_eq!(packet.vlan.map(VlanId::get), Some(7));
        assert_eq!((packet.ttl, packet.length), (3, Some(1_400)));
        for text in ["icmp 10.0.1.7 > 10.0.1.9", "icmp [2001:db8::1] > 2001:db8::2"] {
            assert_eq!(text.parse::<PacketDescription>().unwrap().ports, (0, 0));
        }
    }

    #[test]
    fn what_is_no_packet_is_refused_with_an_example() {
        for text in [
            "",
            "tcp",
            "sctp 10.0.0.1:1 > 10.0.0.2:2",
            "tcp 10.0.0.1 > 10.0.0.2",
            "tcp 10.0.0.1:1 - 10.0.0.2:2",
            "tcp 10.0.0.1:1 > [::1]:2",
            "tcp 10.0.0.1:1 > 10.0.0.2:70000",
            "udp 10.0.0.1:1 > 10.0.0.2:2 vlan 4096",
            "udp 10.0.0.1:1 > 10.0.0.2:2 colour 7",
            "udp 10.0.0.1:1 > 10.0.0.2:2 ttl",
            "udp 10.0.0.1:1 > 10.0.0.2:2 tcp_flags syn",
            "udp 10.0.0.1:1 > 10.0.0.2:2 dscp 64",
        ] {
            let error = text.parse::<PacketDescription>().unwrap_err().to_string();
            assert!(error.contains("write it as 'tcp 10.0.1.7:40112"), "{text}: {error}");
        }
    }

    #[test]
    fn filters_are_read_as_capture_tools_write_them() {
        let filter: PacketFilter = "udp and src 10.0.1.7 and dst port 443".parse().unwrap();
        assert_eq!(filter.transport, Some(Transport::Udp));
        assert_eq!(filter.source, Some("10.0.1.7/32".parse().unwrap()));
        assert_eq!(filter.destination_port, Some(443));
        let filter: PacketFilter =
            "ip6 host 2001:db8::1 dst net 2001:db8::/32 port 53".parse().unwrap();
        assert_eq!(filter.family, Some(IpFamily::Ipv6));
        assert_eq!(filter.host, Some("2001:db8::1/128".parse().unwrap()));
        assert_eq!(filter.destination, Some("2001:db8::/32".parse().unwrap()));
        assert_eq!(filter.port, Some(53));
        let filter: PacketFilter = "tcp dscp 46 and tcp_flags syn,!ack".parse().unwrap();
        let words: Vec<_> = filter.fields.words().map(|(_, words)| words).collect();
        assert_eq!(words, ["ef", "syn,!ack"]);
        assert_eq!("".parse(), Ok(PacketFilter::default()));
        for text in ["vlan 7", "dst port x", "host", "src port", "net 10.0.0.0/40"] {
            assert!(text.parse::<PacketFilter>().is_err(), "{text}");
        }
    }
}
