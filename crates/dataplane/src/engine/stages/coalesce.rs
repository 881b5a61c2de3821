//! Coalescing behind a tunnel: successive TCP segments of one flow with the same batch become one
//! super-frame again, so that functions and endpoints are not charged per wire packet. Knows which
//! packets may stand together; refuses to reorder a flow. The packet counts stay those of the wire.

use crate::engine::action::context::Context;
use crate::engine::packet::parse;
use crate::engine::vector::{Step, Work};
use catena_io::{Offload, PartialChecksum, Segmentation, SegmentationKind};
use catena_wire::frame::Network;
use catena_wire::scalar::IpProtocol;
use catena_wire::segment::coalesce::{Segment, Train, finish_merged};

/// Flows that are gathered at the same time.
const TRAINS_OPEN_MAX: usize = 8;

/// A super-frame in the making, in the buffer of its first segment.
pub(crate) struct OpenTrain {
    work: usize,
    train: Train,
}

/// Merges what came out of tunnels. `open` is working memory.
pub(crate) fn coalesce(
    vector: &mut Vec<Work>,
    open: &mut Vec<OpenTrain>,
    context: &mut Context<'_>,
) {
    for index in 0..vector.len() {
        if context.slots.is_from_node(vector[index].owner)
            && vector[index].view.protocol == Some(IpProtocol::TCP)
        {
            gather(vector, index, open);
        }
    }
    for ready in open.drain(..) {
        finish(vector, &ready);
    }
    for absorbed in vector.extract_if(.., |work| work.step == Step::Absorbed) {
        context.pool.put(absorbed.buffer);
    }
}

fn gather(vector: &mut [Work], index: usize, open: &mut Vec<OpenTrain>) {
    let (before, rest) = vector.split_at_mut(index);
    let Some(work) = rest.first_mut() else { return };
    let segment = Segment::read(&work.view, work.buffer.bytes());
    let same_flow = open.iter().position(|train| before[train.work].view.flow == work.view.flow);
    if let (Some(place), Some(segment)) = (same_flow, &segment)
        && before[open[place].work].step == work.step
        && before[open[place].work].owner == work.owner
        && join(&mut before[open[place].work], &mut open[place].train, work, segment)
    {
        work.step = Step::Absorbed;
        return;
    }
    // Nothing of the flow may join a train that has been overtaken.
    if let Some(place) = same_flow {
        let ready = open.remove(place);
        finish(vector, &ready);
    }
    let Some(segment) = segment else { return };
    if open.len() == TRAINS_OPEN_MAX {
        let oldest = open.remove(0);
        finish(vector, &oldest);
    }
    open.push(OpenTrain { work: index, train: Train::begin(segment) });
}

fn join(first: &mut Work, train: &mut Train, next: &Work, segment: &Segment) -> bool {
    let mut longer = *train;
    if !longer.join(segment) {
        return false;
    }
    // Whatever pads the frame to Ethernet's least length is no data.
    first.buffer.truncate(train.frame_bytes());
    let is_appended = next
        .buffer
        .bytes()
        .get(segment.payload())
        .is_some_and(|payload| first.buffer.append(payload));
    if is_appended {
        *train = longer;
        first.volume.merge(next.volume);
    }
    is_appended
}

fn finish(vector: &mut [Work], ready: &OpenTrain) {
    let work = &mut vector[ready.work];
    let Some(merged) = finish_merged(work.buffer.bytes_mut(), &ready.train) else { return };
    work.view.end = u32::try_from(ready.train.frame_bytes()).unwrap_or(u32::MAX);
    // FIN and PSH of the last segment are those of all.
    if let Ok(view) = parse::parse_frame(work.buffer.bytes()) {
        work.view.varying = view.varying;
    }
    work.buffer.offload = Offload {
        checksum: Some(PartialChecksum {
            start: merged.checksum_start,
            offset: merged.checksum_offset,
        }),
        segmentation: Some(Segmentation {
            kind: match merged.network {
                Network::Ipv6 => SegmentationKind::TcpV6,
                _ => SegmentationKind::TcpV4,
            },
            ecn: merged.has_cwr,
            segment_bytes: merged.segment_bytes,
            header_bytes: merged.header_bytes,
        }),
    };
}
