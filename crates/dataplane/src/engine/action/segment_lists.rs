//! The ways of paths over segments: which nodes one header leads to. Knows where instances are and which of them a
//! flow meets; refuses to know how a header is written.
//!
//! Segments of others that packets visit on their way to a function stand before that of its node.
//!
//! A header leads on as long as every node makes the same choice for a flow ([`behind`]). Functions of one node that
//! follow one another are one segment; where the header ends before the path does, its last node writes the next.

use crate::engine::encap::{Marking, PathPosition, Segment, SegmentsHeader, SegmentsWay};
use crate::engine::tables::Tables;
use crate::engine::tables::path::{HopTable, InstancePlace, PathTable};
use catena_model::DropReason;
use catena_model::limits::SEGMENTS_MAX;
use catena_model::program::{HopKind, SegmentPlace};
use catena_model::source_route::behind;

/// The header of packets at a position whose next instance is the one at this place among those of its hop. `chosen`:
/// which instance of a hop behind a packet meets.
///
/// # Errors
/// A node has no place in the IPv6 underlay, or the way is longer than a header holds.
pub(crate) fn header(
    (position, instance): (PathPosition, usize),
    chosen: impl Fn(&HopTable) -> Option<usize>,
    tables: &Tables,
) -> Result<SegmentsHeader, DropReason> {
    let own = tables.positions.own_segments().ok_or(DropReason::NoSegments)?;
    let place = tables.positions.place(position);
    let path = tables.path(place.path);
    let first = usize::from(place.hop);
    let mut segments: Vec<Segment> = Vec::new();
    let mut met = vec![(first, instance)];
    for next in behind(&path.entry.hops, first) {
        let chosen = path.hops.get(next).and_then(&chosen);
        met.push((next, chosen.ok_or(DropReason::NoInstance)?));
    }
    let last = met.last().map_or(first, |(hop, _)| *hop);
    let mut before = None;
    for (place, instance) in met {
        let SegmentPlace { locator, .. } = node_of(path, (place, instance), own, tables)?;
        if before.replace(locator) != Some(locator) {
            let hop = u16::try_from(place).map_err(|_| DropReason::NoPath)?;
            let via = path.entry.hops.get(place).map_or(&[][..], |hop| &hop.via);
            segments.extend(via.iter().copied().map(Segment::Other));
            segments.push(Segment::Node { locator, hop, is_last: false });
        }
    }
    if let Some(Segment::Node { is_last, .. }) = segments.last_mut() {
        *is_last = ends_at(path, last);
    }
    let telemetry = path.entry.telemetry.as_ref();
    SegmentsHeader::new(SegmentsWay {
        encapsulation: path.encapsulation,
        path: tables.positions.id(position),
        source: own,
        segments: segments.into(),
        marking: telemetry
            .map(|telemetry| Marking { map: telemetry.map(), colour: telemetry.colour }),
    })
}

/// The same for all packets of the position; none: flows meet several instances further on.
///
/// # Errors
/// As [`header`].
pub(super) fn of_all(
    (position, instance): (PathPosition, usize),
    tables: &Tables,
) -> Result<Option<SegmentsHeader>, DropReason> {
    let place = tables.positions.place(position);
    let path = tables.path(place.path);
    let is_one = |hop: usize| path.hops.get(hop).is_some_and(|hop| hop.instances.len() == 1);
    if !behind(&path.entry.hops, place.hop.into()).all(is_one) {
        return Ok(None);
    }
    header((position, instance), |_| Some(0), tables).map(Some)
}

/// The nodes that a header may lead to: what programs may ask for.
const _: () = assert!(SEGMENTS_MAX <= catena_wire::srv6::SEGMENTS_MAX);

fn node_of(
    path: &PathTable,
    (hop, instance): (usize, usize),
    own: SegmentPlace,
    tables: &Tables,
) -> Result<SegmentPlace, DropReason> {
    let found = path.hops.get(hop).and_then(|hop| hop.instances.get(instance));
    match found.map(|instance| instance.place) {
        Some(InstancePlace::There(node)) => {
            tables.node_segments(node).ok_or(DropReason::NoSegments)
        }
        Some(InstancePlace::Here { .. } | InstancePlace::Unported | InstancePlace::Ambiguous) => {
            Ok(own)
        }
        Some(InstancePlace::Nowhere) | None => Err(DropReason::NoInstance),
    }
}

/// Does a path end at the node of this hop?
fn ends_at(path: &PathTable, hop: usize) -> bool {
    path.hops.iter().skip(hop + 1).all(|behind| behind.kind == HopKind::Tap)
}
