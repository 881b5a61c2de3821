//! The steps of a header that takes records along, by a node that keeps it while functions have the packet. Knows what
//! is written into it and read from it at the end; refuses to know where it is kept and where the packet goes.

use super::{Place, RecordLosses, Recorder};
use crate::engine::encap::header::{HEADER_BYTES_MAX, Numbered, Sample};
use catena_model::PathId;
use catena_model::telemetry::{
    DeviceId, FlowCounter, FlowName, HopRecord, HopReport, PathEnd, QueueState, ReportReason,
    Stamp, VisitLatency,
};
use catena_wire::ipv6::{self, Ipv6Header};
use catena_wire::srv6;
use catena_wire::srv6_int::{
    self, ArrivalTime, FunctionLatency, Hop, IntMetadata, IntTag, IntView, Tail,
};
use std::net::Ipv6Addr;

/// How all headers here end.
pub(in crate::engine::encap) const TAIL: Tail = Tail::Tlv;

/// A header that is not where it says, or says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Strayed;

/// The bytes of headers, by place.
#[derive(Default)]
pub(super) struct Headers(Vec<[u8; HEADER_BYTES_MAX]>);

impl Headers {
    /// Keeps one; none: it is too long.
    pub(super) fn put(&mut self, index: usize, header: &[u8]) -> Option<()> {
        if self.0.len() <= index {
            self.0.resize(index + 1, [0; HEADER_BYTES_MAX]);
        }
        let kept = self.0.get_mut(index)?.get_mut(..header.len())?;
        kept.copy_from_slice(header);
        if let Some(routing) = header.len().checked_sub(ipv6::HEADER_BYTES) {
            // Alone it is a packet with nothing inside.
            ipv6::set_payload_length(kept, u16::try_from(routing).ok()?).ok()?;
        }
        Some(())
    }

    pub(super) fn get(&self, index: usize, bytes: usize) -> Option<&[u8]> {
        self.0.get(index)?.get(..bytes)
    }

    pub(super) fn get_mut(&mut self, index: usize, bytes: usize) -> Option<&mut [u8]> {
        self.0.get_mut(index)?.get_mut(..bytes)
    }
}

/// What this node writes of a packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Own(IntMetadata);

impl Own {
    pub(super) fn new(place: &Place, recorder: Recorder) -> Self {
        let Recorder { device: DeviceId(device), now_ns, began_ns } = recorder;
        let since = now_ns.checked_sub(place.since_ns);
        // Of a packet that only order tells from others nobody knows when it went in.
        let latency = since.filter(|_| place.has_visited && !place.is_doubtful);
        let arrival = began_ns.map(|began_ns| began_ns.wrapping_add(place.since_ns));
        let counter = place.counter.map(|first| u64::from(first) + u64::from(place.gone));
        Self(IntMetadata {
            device: Some(device),
            arrival: arrival.map(ArrivalTime::from_ns),
            latency: latency.map(FunctionLatency::from_ns),
            // Which queue the packet leaves by is not known before it has left.
            queue: None,
            counter: counter.map(FlowCounter::of),
            is_of_function: place.has_visited,
            is_synchronised: false,
        })
    }
}

/// A packet that leaves for the next node.
pub(crate) struct LeavingRecords<'r> {
    /// The header that it came with; none: it begins to take records along.
    pub(super) header: Option<&'r [u8]>,
    pub(super) own: Option<Own>,
    pub(super) has_visited: bool,
    /// Which of its wire packets are told of at the end, where it begins here.
    pub(super) sample: Option<Sample>,
    pub(super) losses: &'r mut RecordLosses,
}

/// The headers of a path that takes records along, with nothing written into them: from here, and from here with this
/// node as the first.
#[derive(Clone, Copy)]
pub(in crate::engine::encap) struct Fresh<'h> {
    pub(in crate::engine::encap) onward: &'h [u8],
    pub(in crate::engine::encap) from_here: &'h [u8],
}

impl LeavingRecords<'_> {
    /// Writes the header with which the packet goes on, which must lead to this segment; none, and it is counted: it
    /// does not. Answers its length, and what differs among the wire packets of a frame.
    pub(in crate::engine::encap) fn write(
        self,
        fresh: Fresh<'_>,
        next: Ipv6Addr,
        into: &mut [u8; HEADER_BYTES_MAX],
    ) -> Option<(usize, Option<Numbered>)> {
        let Self { header, own, has_visited, sample, losses } = self;
        let (former, is_step) = match header {
            Some(header) => (header, true),
            None if has_visited => (fresh.from_here, true),
            None => (fresh.onward, false),
        };
        let bytes = into.get_mut(..former.len())?;
        bytes.copy_from_slice(former);
        let stepped = if is_step { step(bytes, own.as_ref()) } else { Ok(()) };
        let leads_to = Ipv6Header::parse(bytes).ok().map(|(header, _)| header.destination);
        if stepped.is_err() || leads_to != Some(next) {
            losses.strayed += 1;
            return None;
        }
        // What came with its header is one wire packet.
        let numbered = Numbered { has_record: is_step, sample };
        Some((former.len(), header.is_none().then_some(numbered)))
    }
}

/// To the next segment, with the record of this node.
fn step(header: &mut [u8], own: Option<&Own>) -> Result<(), Strayed> {
    let Some(own) = own else {
        srv6::end(header).map_err(|_| Strayed)?;
        srv6_int::mark_incomplete(header);
        return Ok(());
    };
    srv6_int::end_t_int_kept(header, &own.0, TAIL).map(drop).map_err(|_| Strayed)
}

/// The last record, and what is told of the packet; none: nothing is to be.
///
/// # Errors
/// It is not at its last segment, or takes no records along.
pub(super) fn end(
    header: &mut [u8],
    own: Option<&Own>,
    (path, flow): (PathId, u64),
    limit_ns: Option<u64>,
) -> Result<Option<PathEnd>, Strayed> {
    match own {
        Some(own) => {
            srv6_int::end_dt_int(header, &own.0, TAIL).map_err(|_| Strayed)?;
        }
        None => srv6_int::mark_incomplete(header),
    }
    let view = IntView::parse(header, TAIL).map_err(|_| Strayed)?;
    if view.packet().routing().segments_left() != 0 {
        return Err(Strayed);
    }
    let Some(reason) = reason(&view, limit_ns) else { return Ok(None) };
    Ok(Some(PathEnd {
        path,
        flow: FlowName(flow),
        reason,
        is_incomplete: view.tag().is_incomplete,
        hops: view.hops().map(report).collect(),
    }))
}

/// Why a packet is told of. A sample is one whatever else it is, or samples would be no fair ones.
fn reason(view: &IntView<'_>, limit_ns: Option<u64>) -> Option<ReportReason> {
    let IntTag { is_mirrored, is_incomplete, .. } = view.tag();
    let latencies = || {
        view.hops().filter_map(|hop| match hop {
            Hop::Recorded(record) => record.latency,
            _ => None,
        })
    };
    let is_long = |latency: FunctionLatency| limit_ns.is_some_and(|limit| latency.ns() > limit);
    if is_mirrored {
        return Some(ReportReason::Sampled);
    }
    if is_incomplete {
        return Some(ReportReason::Incomplete);
    }
    if latencies().any(FunctionLatency::is_saturated) {
        return Some(ReportReason::Saturated);
    }
    latencies().any(is_long).then_some(ReportReason::Latency)
}

fn report(hop: Hop) -> HopReport {
    match hop {
        Hop::Recorded(record) => HopReport::Recorded(HopRecord {
            device: record.device.map(DeviceId),
            arrival: record
                .arrival
                .map(|time| Stamp { time, is_synchronised: record.is_synchronised }),
            latency: record.latency.map(|latency| VisitLatency {
                ns: latency.ns(),
                is_saturated: latency.is_saturated(),
            }),
            queue: record.queue.map(|queue| QueueState { id: queue.id, length: queue.length }),
            counter: record.counter,
        }),
        Hop::Silent(_) => HopReport::Silent,
        Hop::Ahead(_) | Hop::Malformed => HopReport::Malformed,
    }
}
