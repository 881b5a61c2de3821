//! Connections as bytes, for whoever takes them over. Knows the layout; refuses to judge what is in it.
//!
//! ```text
//! key:   'c', version of IP, protocol, source, destination, source port, destination port
//! value: expires, has_reply, is_assured, and of UDP when it is a stream, of TCP its state
//! ```
//! All numbers are big-endian.

use super::connection::{Connection, Layer};
use super::key::Way;
use super::tcp::{Flags, Kind, Last, Side, State, Tcp};
use crate::packet::Time;
use catena_wire::flow::FlowKey;
use catena_wire::scalar::IpProtocol;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The first byte of keys of connections.
const TAG: u8 = b'c';

/// Bytes of a key.
pub(crate) fn key_bytes(key: &FlowKey) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(39);
    let version = if key.source.is_ipv4() { 4 } else { 6 };
    bytes.extend([TAG, version, key.protocol.0]);
    for end in [key.source, key.destination] {
        match end {
            IpAddr::V4(v4) => bytes.extend(v4.octets()),
            IpAddr::V6(v6) => bytes.extend(v6.octets()),
        }
    }
    bytes.extend(key.source_port.to_be_bytes());
    bytes.extend(key.destination_port.to_be_bytes());
    bytes
}

/// The key that bytes say; none: they say none.
pub(crate) fn read_key(bytes: &[u8]) -> Option<FlowKey> {
    let mut bytes = Bytes(bytes);
    if bytes.byte()? != TAG {
        return None;
    }
    let version = bytes.byte()?;
    let protocol = IpProtocol(bytes.byte()?);
    let mut address = || match version {
        4 => bytes.take().map(|octets: [u8; 4]| IpAddr::V4(Ipv4Addr::from(octets))),
        6 => bytes.take().map(|octets: [u8; 16]| IpAddr::V6(Ipv6Addr::from(octets))),
        _ => None,
    };
    let (source, destination) = (address()?, address()?);
    let (source_port, destination_port) = (bytes.word()?, bytes.word()?);
    let key = FlowKey { source, destination, protocol, source_port, destination_port };
    bytes.0.is_empty().then_some(key)
}

/// Bytes of what is known of a connection.
pub(super) fn value_bytes(connection: &Connection) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(80);
    bytes.extend(connection.expires.0.to_be_bytes());
    bytes.extend([u8::from(connection.has_reply), u8::from(connection.is_assured)]);
    match &connection.layer {
        Layer::Udp { stream } => bytes.extend(stream.0.to_be_bytes()),
        Layer::Tcp(tcp) => write_tcp(tcp, &mut bytes),
        Layer::Gre | Layer::Icmp | Layer::Other => {}
    }
    bytes
}

/// The connection that bytes say; none: they say none.
pub(super) fn read_value(key: FlowKey, bytes: &[u8]) -> Option<Connection> {
    let mut bytes = Bytes(bytes);
    let expires = Time(bytes.long()?);
    let (has_reply, is_assured) = (bytes.byte()? != 0, bytes.byte()? != 0);
    let layer = match key.protocol {
        IpProtocol::TCP => Layer::Tcp(read_tcp(&mut bytes)?),
        IpProtocol::UDP => Layer::Udp { stream: Time(bytes.long()?) },
        IpProtocol::GRE => Layer::Gre,
        IpProtocol::ICMP | IpProtocol::ICMPV6 => Layer::Icmp,
        _ => Layer::Other,
    };
    let connection = Connection { key, expires, has_reply, is_assured, layer };
    bytes.0.is_empty().then_some(connection)
}

fn write_tcp(tcp: &Tcp, into: &mut Vec<u8>) {
    into.push(tcp.state as u8);
    for side in &tcp.sides {
        for number in [side.end, side.end_max, side.window_max, side.acknowledged] {
            into.extend(number.to_be_bytes());
        }
        into.extend([side.scale, side.flags.0]);
    }
    let last = &tcp.last;
    into.extend([last.way as u8, last.kind as u8]);
    for number in [last.sequence, last.acknowledgment, last.end] {
        into.extend(number.to_be_bytes());
    }
    into.extend(last.window.to_be_bytes());
    into.extend([last.scale, last.flags.0, last.repeated]);
}

fn read_tcp(bytes: &mut Bytes<'_>) -> Option<Tcp> {
    let state = *State::ALL.get(usize::from(bytes.byte()?))?;
    let mut side = || {
        Some(Side {
            end: bytes.double_word()?,
            end_max: bytes.double_word()?,
            window_max: bytes.double_word()?,
            acknowledged: bytes.double_word()?,
            scale: bytes.byte().filter(|scale| *scale <= 14)?,
            flags: Flags(bytes.byte()?),
        })
    };
    let sides = [side()?, side()?];
    let last = Last {
        way: match bytes.byte()? {
            0 => Way::Original,
            1 => Way::Reply,
            _ => return None,
        },
        kind: *Kind::ALL.get(usize::from(bytes.byte()?))?,
        sequence: bytes.double_word()?,
        acknowledgment: bytes.double_word()?,
        end: bytes.double_word()?,
        window: bytes.word()?,
        scale: bytes.byte().filter(|scale| *scale <= 14)?,
        flags: Flags(bytes.byte()?),
        repeated: bytes.byte()?,
    };
    Some(Tcp { state, sides, last })
}

/// Bytes that are read from their front.
pub(crate) struct Bytes<'b>(pub(crate) &'b [u8]);

impl Bytes<'_> {
    pub(crate) fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        self.take().map(u8::from_be_bytes)
    }

    pub(crate) fn word(&mut self) -> Option<u16> {
        self.take().map(u16::from_be_bytes)
    }

    pub(crate) fn double_word(&mut self) -> Option<u32> {
        self.take().map(u32::from_be_bytes)
    }

    pub(crate) fn long(&mut self) -> Option<u64> {
        self.take().map(u64::from_be_bytes)
    }
}
