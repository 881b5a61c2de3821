//! What the left side of a match speaks of, or the key of a map: which subject, how its values are
//! written, and which protocols it implies.

use super::names::{self, Names};
use crate::condition::{SUBJECTS_MAX, Subject};
use crate::options::Side;
use crate::refusal::Refusal;
use catena_wire::field::Field;
use catena_wire::scalar::IpProtocol;
use serde_json::Value;

/// How the values of a key are written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Domain {
    /// By number, or by one of these names.
    Number(Names),
    /// As bits, by number or by names that may be joined.
    Bits(Names),
    /// The states of connections, bits too.
    States,
    /// As addresses of IPv4.
    Ipv4,
    /// As addresses of IPv6.
    Ipv6,
    /// As addresses of Ethernet.
    Mac,
    /// By names of interfaces, at this side.
    Interface(Side),
    /// As what stands for a version of IP: the EtherType, or the family in the kernel.
    Version(Names),
    /// As the 16 bits of IPv4 that hold the flags and the offset of fragments.
    FragmentWord,
}

/// A header that a key implies.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Header {
    /// None.
    None,
    /// IP of this version.
    Ip(u8),
    /// An upper protocol.
    Upper(IpProtocol),
    /// ICMP of this version of IP; of messages that are echoes, for their fields.
    Icmp {
        /// The version of IP.
        version: u8,
        /// Does only an echo have the field?
        is_echo: bool,
    },
    /// Any upper protocol with ports.
    Ports,
}

/// What a match speaks of.
#[derive(Clone, Copy)]
pub(super) struct Key {
    pub(super) subject: Subject,
    pub(super) domain: Domain,
    /// All bits of its values.
    pub(super) all: u128,
    pub(super) header: Header,
}

/// The only member of an object, with its name.
pub(super) fn only(value: &Value) -> Option<(&str, &Value)> {
    let object = value.as_object()?;
    let mut members = object.iter();
    let (name, value) = members.next()?;
    members.next().is_none().then_some((&**name, value))
}

/// A member that is a string.
pub(super) fn text<'v>(object: &'v Value, name: &str) -> Result<&'v str, Refusal> {
    object.get(name).and_then(Value::as_str).ok_or_else(|| malformed(&format!("'{name}'"), object))
}

/// Something that is not as the schema says.
pub(super) fn malformed(what: &str, value: &Value) -> Refusal {
    let mut shown = value.to_string();
    if let Some((end, _)) = shown.char_indices().nth(80) {
        shown.truncate(end);
        shown.push('…');
    }
    let what = format!("{what} is missing or of another kind in {shown}");
    Refusal::wrong(what, "write the file by nft -j list ruleset")
}

/// The keys of a left side: one, or those of a concatenation.
pub(super) fn keys(left: &Value) -> Result<Vec<Key>, Refusal> {
    match only(left) {
        Some(("concat", parts)) => {
            let is_short = |parts: &&Vec<Value>| (1..=SUBJECTS_MAX).contains(&parts.len());
            let parts = parts.as_array().filter(is_short);
            parts
                .ok_or_else(|| malformed("a list of 1 to 16 parts", left))?
                .iter()
                .map(key)
                .collect()
        }
        _ => Ok(vec![key(left)?]),
    }
}

/// The key of an expression that is no concatenation.
pub(super) fn key(left: &Value) -> Result<Key, Refusal> {
    match only(left) {
        Some(("payload", body)) if body.get("protocol").is_some() => {
            payload(text(body, "protocol")?, text(body, "field")?)
        }
        Some(("meta", body)) => meta(text(body, "key")?),
        Some(("ct", body)) => match text(body, "key")? {
            "state" => {
                let (subject, domain) = (Subject::State, Domain::States);
                Ok(Key { subject, domain, all: u32::MAX.into(), header: Header::None })
            }
            other => Err(Refusal::unsupported(format!("ct {other} is not supported"))),
        },
        Some((other, _)) => {
            Err(Refusal::unsupported(format!("the expression {other} is not supported")))
        }
        None => Err(malformed("an expression", left)),
    }
}

fn meta(name: &str) -> Result<Key, Refusal> {
    let number = |subject, names, bits| (subject, Domain::Number(names), bits);
    let version = |names, bits| (Subject::Version, Domain::Version(names), bits);
    let interface = |side| (Subject::CameIn, Domain::Interface(side), 1);
    let (subject, domain, bits) = match name {
        "l4proto" => number(Subject::Field(Field::Protocol), names::PROTOCOLS, 8),
        "length" => number(Subject::PacketBytes, &[], 32),
        "protocol" => version(names::ETHER_TYPES, 16),
        "nfproto" => version(names::NF_PROTOCOLS, 8),
        "iif" | "iifname" => interface(Side::In),
        "oif" | "oifname" => interface(Side::Out),
        _ => return Err(Refusal::unsupported(format!("meta {name} is not supported"))),
    };
    Ok(Key { subject, domain, all: u128::MAX >> (128 - bits), header: Header::None })
}

fn payload(protocol: &str, name: &str) -> Result<Key, Refusal> {
    let (header, found) = match protocol {
        "ip" => (Header::Ip(4), ip(name)),
        "ip6" => (Header::Ip(6), ip6(name)?),
        "ether" => (Header::None, ether(name)),
        "tcp" => (Header::Upper(IpProtocol::TCP), tcp(name)),
        "udp" => (Header::Upper(IpProtocol::UDP), ports(name).or_else(|| checksum(name))),
        "th" => (Header::Ports, ports(name)),
        "icmp" | "icmpv6" => {
            let version = if protocol == "icmp" { 4 } else { 6 };
            let is_echo = matches!(name, "id" | "sequence");
            (Header::Icmp { version, is_echo }, icmp(name, version))
        }
        _ => (Header::None, None),
    };
    let (field, domain) = found.ok_or_else(|| {
        Refusal::unsupported(format!("the field {protocol} {name} is not supported"))
    })?;
    let all = match domain {
        Domain::Ipv4 => u32::MAX.into(),
        Domain::FragmentWord => u16::MAX.into(),
        _ => field.all(),
    };
    Ok(Key { subject: Subject::Field(field), domain, all, header })
}

type Found = Option<(Field, Domain)>;

const PLAIN: Domain = Domain::Number(&[]);

fn ip(name: &str) -> Found {
    Some(match name {
        "saddr" => (Field::Source, Domain::Ipv4),
        "daddr" => (Field::Destination, Domain::Ipv4),
        "protocol" => (Field::Protocol, Domain::Number(names::PROTOCOLS)),
        "ttl" => (Field::Ttl, PLAIN),
        "dscp" => (Field::Dscp, Domain::Number(names::DSCP)),
        "ecn" => (Field::Ecn, Domain::Number(names::ECN)),
        "length" => (Field::Length, PLAIN),
        "id" => (Field::Identification, PLAIN),
        "frag-off" => (Field::FragmentOffset, Domain::FragmentWord),
        "checksum" => (Field::HeaderChecksum, PLAIN),
        _ => return None,
    })
}

fn ip6(name: &str) -> Result<Found, Refusal> {
    Ok(Some(match name {
        "saddr" => (Field::Source, Domain::Ipv6),
        "daddr" => (Field::Destination, Domain::Ipv6),
        "hoplimit" => (Field::Ttl, PLAIN),
        "dscp" => (Field::Dscp, Domain::Number(names::DSCP)),
        "ecn" => (Field::Ecn, Domain::Number(names::ECN)),
        "length" => (Field::Length, PLAIN),
        "flowlabel" => (Field::FlowLabel, PLAIN),
        // Behind extension headers it is not the protocol that the field means.
        "nexthdr" => {
            let what = "ip6 nexthdr names the next header alone, which may be an extension";
            let advice = "say meta l4proto, or 'unsupported: skip' to leave such rules out".into();
            return Err(Refusal { advice, ..Refusal::unsupported(what) });
        }
        _ => return Ok(None),
    }))
}

fn ether(name: &str) -> Found {
    Some(match name {
        "saddr" => (Field::EthernetSource, Domain::Mac),
        "daddr" => (Field::EthernetDestination, Domain::Mac),
        "type" => (Field::EtherType, Domain::Number(names::ETHER_TYPES)),
        _ => return None,
    })
}

fn tcp(name: &str) -> Found {
    Some(match name {
        "sequence" => (Field::Sequence, PLAIN),
        "ackseq" => (Field::Acknowledgment, PLAIN),
        "flags" => (Field::TcpFlags, Domain::Bits(names::TCP_FLAGS)),
        "window" => (Field::Window, PLAIN),
        "urgptr" => (Field::UrgentPointer, PLAIN),
        _ => return ports(name).or_else(|| checksum(name)),
    })
}

fn ports(name: &str) -> Found {
    match name {
        "sport" => Some((Field::SourcePort, PLAIN)),
        "dport" => Some((Field::DestinationPort, PLAIN)),
        _ => None,
    }
}

fn checksum(name: &str) -> Found {
    (name == "checksum").then_some((Field::UpperChecksum, PLAIN))
}

fn icmp(name: &str, version: u8) -> Found {
    let of = |v4, v6| Domain::Number(if version == 4 { v4 } else { v6 });
    Some(match name {
        "type" => (Field::IcmpType, of(names::ICMP_TYPES, names::ICMPV6_TYPES)),
        "code" => (Field::IcmpCode, of(names::ICMP_CODES, names::ICMPV6_CODES)),
        "id" => (Field::IcmpIdentifier, PLAIN),
        "sequence" => (Field::IcmpSequence, PLAIN),
        _ => return checksum(name),
    })
}
