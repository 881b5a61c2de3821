//! Messages as they come: the sets of any, and the records of our templates.

use super::headers::HeaderRecord;
use super::packets::{PacketRecord, TEMPLATE_PACKETS};
use super::telemetry::{DELAY_BYTES, DelayRecord, HOP_BYTES, HopRecord};
use super::{
    EndReason, FlowRecord, HEADER_BYTES, IpfixError, MessageHeader, RECORD_V4_BYTES,
    RECORD_V6_BYTES, SET_HEADER_BYTES, TEMPLATE_BASIC_LIST, TEMPLATE_DELAYS, TEMPLATE_HEADER,
    TEMPLATE_HOPS, TEMPLATE_LIST_SECTION, TEMPLATE_V4, TEMPLATE_V6, VERSION, is_icmp,
};
use crate::flow::FlowKey;
use crate::scalar::IpProtocol;
use crate::tcp::TcpFlags;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A message, its sets known to be whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'p> {
    /// What stands before its sets.
    pub header: MessageHeader,
    sets: &'p [u8],
}

impl<'p> Message<'p> {
    /// Reads one from the front of these bytes.
    ///
    /// # Errors
    /// It is cut short, of another version, or its sets do not fill it.
    pub fn parse(bytes: &'p [u8]) -> Result<Self, IpfixError> {
        let have = bytes.len();
        let cut = |need| IpfixError::Truncated { need, have };
        let head: &[u8; HEADER_BYTES] = bytes.first_chunk().ok_or(cut(HEADER_BYTES))?;
        let [v0, v1, l0, l1, e0, e1, e2, e3, s0, s1, s2, s3, d0, d1, d2, d3] = *head;
        let version = u16::from_be_bytes([v0, v1]);
        if version != VERSION {
            return Err(IpfixError::Version(version));
        }
        let length = usize::from(u16::from_be_bytes([l0, l1])).max(HEADER_BYTES);
        let header = MessageHeader {
            export_seconds: u32::from_be_bytes([e0, e1, e2, e3]),
            sequence: u32::from_be_bytes([s0, s1, s2, s3]),
            domain: u32::from_be_bytes([d0, d1, d2, d3]),
        };
        let sets = bytes.get(HEADER_BYTES..length).ok_or(cut(length))?;
        let mut rest = sets;
        while !rest.is_empty() {
            (_, rest) = Set::read(rest)?;
        }
        Ok(Self { header, sets })
    }

    /// Its sets, in their order.
    #[must_use]
    pub const fn sets(&self) -> Sets<'p> {
        Sets { rest: self.sets }
    }
}

/// A set of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Set<'p> {
    /// What its records are: 2 templates, from 256 on those of the template of this number.
    pub id: u16,
    /// Its records.
    pub content: &'p [u8],
}

impl<'p> Set<'p> {
    fn read(bytes: &'p [u8]) -> Result<(Self, &'p [u8]), IpfixError> {
        let cut = IpfixError::Truncated { need: SET_HEADER_BYTES, have: bytes.len() };
        let [i0, i1, l0, l1] = *bytes.first_chunk::<SET_HEADER_BYTES>().ok_or(cut)?;
        let id = u16::from_be_bytes([i0, i1]);
        let length = usize::from(u16::from_be_bytes([l0, l1]));
        let (set, rest) = bytes.split_at_checked(length).ok_or(IpfixError::Set(id))?;
        let content = set.get(SET_HEADER_BYTES..).ok_or(IpfixError::Set(id))?;
        Ok((Self { id, content }, rest))
    }

    /// Its records, where they are of our templates; else there are none.
    #[must_use]
    pub const fn records(&self) -> Records<'p> {
        let record_bytes = match self.id {
            TEMPLATE_V4 => RECORD_V4_BYTES,
            TEMPLATE_V6 => RECORD_V6_BYTES,
            _ => usize::MAX,
        };
        Records { rest: self.content, record_bytes }
    }

    /// Headers of segment routing that it tells of, up to one that is none.
    pub fn headers(&self) -> impl Iterator<Item = HeaderRecord<'p>> + use<'p> {
        let id = self.id;
        let is_own = matches!(id, TEMPLATE_HEADER | TEMPLATE_LIST_SECTION | TEMPLATE_BASIC_LIST);
        let mut rest = Reader(if is_own { self.content } else { &[] });
        core::iter::from_fn(move || HeaderRecord::read(id, &mut rest))
    }

    /// Packets that it tells of, up to one that contradicts itself.
    pub fn packets(&self) -> impl Iterator<Item = PacketRecord<'p>> + use<'p> {
        let is_own = self.id == TEMPLATE_PACKETS;
        let mut rest = Reader(if is_own { self.content } else { &[] });
        core::iter::from_fn(move || PacketRecord::read(&mut rest))
    }

    /// Hops that it tells of, up to one that contradicts itself.
    pub fn hops(&self) -> impl Iterator<Item = HopRecord> + use<'p> {
        let (records, _) = self.content.as_chunks::<HOP_BYTES>();
        let own = if self.id == TEMPLATE_HOPS { records } else { &[] };
        own.iter().map_while(HopRecord::read)
    }

    /// Delays that it tells of, up to some that contradict themselves.
    pub fn delays(&self) -> impl Iterator<Item = DelayRecord> + use<'p> {
        let (records, _) = self.content.as_chunks::<DELAY_BYTES>();
        let own = if self.id == TEMPLATE_DELAYS { records } else { &[] };
        own.iter().map_while(DelayRecord::read)
    }
}

/// The sets of a message, one after the other.
#[derive(Clone, Debug)]
pub struct Sets<'p> {
    rest: &'p [u8],
}

impl<'p> Iterator for Sets<'p> {
    type Item = Set<'p>;

    fn next(&mut self) -> Option<Set<'p>> {
        let (set, rest) = Set::read(self.rest).ok()?;
        self.rest = rest;
        Some(set)
    }
}

/// The records of a set, one after the other.
#[derive(Clone, Debug)]
pub struct Records<'p> {
    rest: &'p [u8],
    record_bytes: usize,
}

impl Iterator for Records<'_> {
    type Item = FlowRecord;

    /// A record whose end has a reason that is none ends them.
    fn next(&mut self) -> Option<FlowRecord> {
        let (record, rest) = self.rest.split_at_checked(self.record_bytes)?;
        self.rest = rest;
        record_of(record)
    }
}

fn record_of(record: &[u8]) -> Option<FlowRecord> {
    let mut bytes = Reader(record);
    let (source, destination): (IpAddr, IpAddr) = if record.len() == RECORD_V4_BYTES {
        (Ipv4Addr::from(bytes.take::<4>()?).into(), Ipv4Addr::from(bytes.take::<4>()?).into())
    } else {
        (Ipv6Addr::from(bytes.take::<16>()?).into(), Ipv6Addr::from(bytes.take::<16>()?).into())
    };
    let source_port = u16::from_be_bytes(bytes.take()?);
    let destination_port = u16::from_be_bytes(bytes.take()?);
    let [protocol] = bytes.take()?;
    let (octets, packets) = (bytes.take()?, bytes.take()?);
    let [_, flags] = bytes.take()?;
    let [end, direction] = bytes.take()?;
    let (first, last) = (bytes.take()?, bytes.take()?);
    let icmp = u16::from_be_bytes(bytes.take()?);
    let protocol = IpProtocol(protocol);
    let mut flow = FlowKey { source, destination, protocol, source_port, destination_port };
    if is_icmp(&flow) {
        flow.destination_port = icmp;
    }
    Some(FlowRecord {
        flow,
        bytes: u64::from_be_bytes(octets),
        packets: u64::from_be_bytes(packets),
        tcp_flags: TcpFlags(flags),
        end: EndReason::from_number(end)?,
        is_egress: direction != 0,
        first_ms: u64::from_be_bytes(first),
        last_ms: u64::from_be_bytes(last),
    })
}

/// Octets that are still to be read.
#[derive(Clone, Copy)]
pub(super) struct Reader<'p>(pub(super) &'p [u8]);

impl<'p> Reader<'p> {
    pub(super) fn take<const BYTES: usize>(&mut self) -> Option<[u8; BYTES]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    pub(super) fn octet(&mut self) -> Option<u8> {
        self.take().map(|[octet]| octet)
    }

    pub(super) fn long(&mut self) -> Option<u64> {
        self.take().map(u64::from_be_bytes)
    }

    /// So many of them apart.
    pub(super) fn split(&mut self, bytes: usize) -> Option<Self> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(Self(taken))
    }

    /// All that are left.
    pub(super) const fn rest(&self) -> &'p [u8] {
        self.0
    }
}
