//! Packets that take records of nodes along: where they begin to, where they go on and where they end. Knows which
//! paths want that, and what time it is; refuses to know what a record looks like.

use crate::engine::action::context::Context;
use crate::engine::encap::{Beginning, PathPosition};
use crate::engine::state::proxy_flows::Recalled;
use crate::engine::vector::Work;
use catena_model::program::HopKind;
use std::num::NonZeroU32;

/// The position of a packet that enters a path here whose packets take records along. `by_tunnel`: another node has
/// sent it.
pub(crate) fn begin(
    work: &Work,
    position: PathPosition,
    by_tunnel: bool,
    context: &mut Context<'_>,
) -> PathPosition {
    let place = context.tables.positions.place(position);
    let path = context.tables.path(place.path);
    let Some(telemetry) = &path.entry.telemetry else { return position };
    if by_tunnel || place.hop > 0 || context.is_probe || position.carries_metadata() {
        return position;
    }
    let beginning = Beginning {
        flow: (path.id, work.flow_hash),
        packets: work.volume.packets,
        one_in: telemetry.mirror,
    };
    let now_ns = context.now_ns;
    position.with_records(context.carried.records.begin(now_ns, &beginning))
}

/// Notes the flow of a packet that another node has sent. Those that come without records are counted as well: else
/// they would seem lost.
pub(crate) fn note(work: &Work, position: PathPosition, context: &mut Context<'_>) {
    let place = context.tables.positions.place(position);
    let path = context.tables.path(place.path);
    let (flow, records) = ((path.id, work.flow_hash), &mut context.carried.records);
    let hop = path.hops.get(usize::from(place.hop));
    let is_copy = hop.is_some_and(|hop| hop.kind == HopKind::Tap);
    match position.records() {
        Some(name) => records.note_flow(name, flow),
        None if path.entry.telemetry.is_some() && !is_copy && !context.is_probe => {
            records.pass_by(flow, work.volume.packets);
        }
        None => {}
    }
}

/// Packets came back to a position. Of those whose bytes did not tell which they are, nobody knows how long they were
/// away.
pub(crate) fn come_back(position: PathPosition, recalled: &[Recalled], context: &mut Context<'_>) {
    if let Some(name) = position.records()
        && recalled.iter().any(|one| one.is_by_order)
    {
        context.carried.records.doubt(name);
    }
}

/// Tells what the packet has along, at the end of its path, if that is to be told. Answers the position without.
pub(crate) fn end(work: &Work, position: PathPosition, context: &mut Context<'_>) -> PathPosition {
    let Some(name) = position.records() else { return position };
    let path = context.tables.path(context.tables.positions.place(position).path);
    let telemetry = path.entry.telemetry.as_ref();
    let limit_us = telemetry.and_then(|telemetry| telemetry.latency_limit_us);
    let limit_ns = limit_us.map(|limit: NonZeroU32| u64::from(limit.get()) * 1_000);
    let (recorder, flow) = (context.recorder(), (path.id, work.flow_hash));
    context.carried.records.end(name, work.volume.packets, recorder, (flow, limit_ns));
    position.without_metadata()
}
