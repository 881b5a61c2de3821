//! What the other node writes in front of the packets that it sends to the one that is measured.

use super::sizes::ROOM;
use crate::engine::{FAR_SEGMENTS, FIRST_PATH, own_place, place, wrong};
use crate::error::BenchError;
use catena_wire::scalar::FlowLabel;
use catena_wire::srv6::{self, Encaps, Inner, Locator, SegmentFlags, Sid};
use catena_wire::srv6_int::{IntEncaps, IntTag, MapInfo, Tail};
use std::net::Ipv6Addr;

/// What nodes do whose segment is active (RFC 8986 section 10.2.2).
const END: u16 = 1;
const END_DT46: u16 = 20;

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
    let mut header = emit(&[sid(far, END, 0), sid(own, END_DT46, 1)], takes_records)?;
    srv6::end(&mut header).map_err(|error| wrong("a header", &error))?;
    Ok(header)
}

fn emit(way: &[Ipv6Addr], takes_records: bool) -> Result<Vec<u8>, BenchError> {
    /// Of the packets of the measurement.
    const INNER_BYTES: usize = 64 - 14;
    let source = place(FAR_SEGMENTS)?.address;
    let flow_label = FlowLabel::new(1).map_err(|error| wrong("a header", &error))?;
    let (traffic_class, inner, key_id) = (0, Inner::Ipv4, None);
    let mut room = [0; ROOM];
    let length = if takes_records {
        let tag = IntTag { is_for_functions: true, ..IntTag::default() };
        let (map, tail) = (MapInfo::ALL, Tail::Tlv);
        let encaps =
            IntEncaps { source, way, traffic_class, flow_label, inner, map, tag, tail, key_id };
        encaps.emit(INNER_BYTES, &mut room).map_err(|error| wrong("a header", &error))?
    } else {
        let encaps = Encaps {
            source,
            way,
            traffic_class,
            flow_label,
            hop_limit: Encaps::HOP_LIMIT,
            inner,
            is_reduced: false,
            flags: SegmentFlags::default(),
            tag: 0,
            tlvs: &[],
            key_id,
        };
        encaps.emit(INNER_BYTES, &mut room).map_err(|error| wrong("a header", &error))?
    };
    Ok(room.get(..length).unwrap_or_default().to_vec())
}
