//! The key of a packet as the kernel's program reads it. Knows whom to ask; refuses to read itself.

use catena_fastpath::{FlowKey, Sight};
use catena_io::Buffer;
use catena_model::TunnelKind;
use catena_wire::flow;
use catena_wire::scalar::IpProtocol;
use catena_wire::srv6;

/// The key of a frame that came in by the port of this number; none: it is not keyed.
pub(super) fn of_frame(number: u32, buffer: &Buffer) -> Option<FlowKey> {
    let segment_bytes = buffer.offload.segmentation.map(|segmentation| segmentation.segment_bytes);
    let sight = Sight::at_port(u16::try_from(number).ok()?, buffer.bytes(), segment_bytes)?;
    Some(sight.key)
}

/// The key of what the node with this number has sent by a tunnel or by segments, and where its frame
/// begins; none: it is not keyed.
pub(super) fn of_payload(
    kind: TunnelKind,
    sender: u16,
    buffer: &Buffer,
) -> Option<(FlowKey, usize)> {
    let segment_bytes = buffer.offload.segmentation.map(|segmentation| segmentation.segment_bytes);
    let sight = match kind.is_segmented() {
        true if srv6::is_compressed(buffer.bytes()) => return None,
        true => Sight::in_segments(buffer.bytes(), segment_bytes)?,
        false => Sight::in_tunnel(kind.udp_port(), buffer.bytes(), segment_bytes)?,
    };
    let sight = sight.sent_by(sender);
    Some((sight.key, sight.inner_offset))
}

/// Could a slice be told by what is inside the packets of this flow?
pub(super) fn may_hide_slices(flow: &flow::FlowKey) -> bool {
    flow.protocol != IpProtocol::ICMP && flow.protocol != IpProtocol::ICMPV6
}
