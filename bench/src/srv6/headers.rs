//! Headers in front of packets: any, to be timed and counted, and those that the other node writes in front of what it
//! sends to the one that is measured.

use crate::engine::{FAR_SEGMENTS, FIRST_PATH, own_place, place, wrong};
use crate::error::BenchError;
use catena_wire::scalar::FlowLabel;
use catena_wire::srv6::{self, Encaps, Inner, Locator, SegmentFlags, Sid};
use catena_wire::srv6_int::{IntEncaps, IntTag, MapInfo, Tail};
use std::net::Ipv6Addr;

/// What nodes do whose segment is active (RFC 8986 section 10.2.2).
const END: u16 = 1;
const END_DT46: u16 = 20;
/// Of the packets of the measurement, without their Ethernet header.
const INNER_BYTES: usize = 64 - 14;

fn sid(locator: Locator, function: u16, hop: u16) -> Ipv6Addr {
    Sid { locator, function, path: FIRST_PATH, hop }.address()
}

/// A header by which this node is first, and the other last.
pub(super) fn at_first(takes_records: bool) -> Result<Vec<u8>, BenchError> {
    let (own, far) = (own_place()?.locator, place(FAR_SEGMENTS)?.locator);
    emit(&[sid(own, END, 0), sid(far, END_DT46, 1)], takes_records)
}

/// One by which the other was first, and this one is last.
pub(super) fn at_last(takes_records: bool) -> Result<Vec<u8>, BenchError> {
    let (own, far) = (own_place()?.locator, place(FAR_SEGMENTS)?.locator);
    let mut packet = emit(&[sid(far, END, 0), sid(own, END_DT46, 1)], takes_records)?;
    let length = packet.len();
    // A step is one of whole packets.
    packet.resize(length + INNER_BYTES, 0);
    srv6::end(&mut packet).map_err(|error| wrong("a header", &error))?;
    packet.truncate(length);
    Ok(packet)
}

fn emit(way: &[Ipv6Addr], takes_records: bool) -> Result<Vec<u8>, BenchError> {
    let front = Front { source: place(FAR_SEGMENTS)?.address, way, inner_bytes: INNER_BYTES };
    let mut room = [0; ROOM];
    let length = match takes_records {
        true => front.recorded(None, &mut room)?,
        false => front.plain(false, &mut room)?,
    };
    Ok(room.get(..length).unwrap_or_default().to_vec())
}

/// Room for any of them.
pub(super) const ROOM: usize = 512;

/// What stands in front of a packet of IPv4 with so many bytes.
pub(super) struct Front<'w> {
    source: Ipv6Addr,
    way: &'w [Ipv6Addr],
    inner_bytes: usize,
}

impl<'w> Front<'w> {
    /// In front of nothing, from nobody.
    pub(super) fn of(way: &'w [Ipv6Addr]) -> Self {
        Self { source: Ipv6Addr::UNSPECIFIED, way, inner_bytes: 0 }
    }

    /// Writes a plain header, and answers its length.
    pub(super) fn plain(&self, is_reduced: bool, into: &mut [u8]) -> Result<usize, BenchError> {
        let encaps = Encaps {
            source: self.source,
            way: self.way,
            traffic_class: 0,
            flow_label: FlowLabel::new(1).map_err(|error| wrong("a header", &error))?,
            hop_limit: Encaps::HOP_LIMIT,
            inner: Inner::Ipv4,
            is_reduced,
            flags: SegmentFlags::default(),
            tag: 0,
            tlvs: &[],
            key_id: None,
        };
        encaps.emit(self.inner_bytes, into).map_err(|error| wrong("a header", &error))
    }

    /// The same of one that takes records along. `key_id`: it has room for an HMAC.
    pub(super) fn recorded(
        &self,
        key_id: Option<u32>,
        into: &mut [u8],
    ) -> Result<usize, BenchError> {
        let encaps = IntEncaps {
            source: self.source,
            way: self.way,
            traffic_class: 0,
            flow_label: FlowLabel::new(1).map_err(|error| wrong("a header", &error))?,
            inner: Inner::Ipv4,
            map: MapInfo::ALL,
            tag: IntTag { is_for_functions: true, ..IntTag::default() },
            tail: Tail::Tlv,
            key_id,
        };
        encaps.emit(self.inner_bytes, into).map_err(|error| wrong("a header", &error))
    }
}
