//! What every frame is read for: its layers, what its offload stands for, the number of its flow. Knows
//! frames and their offload; refuses to know where a frame came from and where it goes.

use catena_io::{Buffer, PartialChecksum, SegmentationKind};
use catena_model::DropReason;
use catena_model::account::Volume;
use catena_wire::frame::Network;
use catena_wire::frame::{FrameError, FrameView};
use catena_wire::scalar::IpProtocol;
use catena_wire::sctp;
use catena_wire::segment::{SegmentKind, SuperFrame};

/// Parses a frame, or names what is wrong with it.
pub(crate) fn parse_frame(bytes: &[u8]) -> Result<FrameView, DropReason> {
    FrameView::parse(bytes).map_err(|error| match error {
        FrameError::Ethernet(_) => DropReason::MalformedEthernet,
        FrameError::Ip(_) => DropReason::MalformedIp,
        FrameError::Transport(_) => DropReason::MalformedTransport,
    })
}

/// Checks a frame's offload against the frame, makes it exact, and measures the wire packets that
/// the frame stands for.
pub(crate) fn settle(buffer: &mut Buffer, view: &FrameView) -> Result<Volume, DropReason> {
    if let Some(checksum) = buffer.offload.checksum {
        let field_end = u32::from(checksum.start) + u32::from(checksum.offset) + 2;
        if field_end > view.end || checksum.start < view.l3_offset {
            return Err(DropReason::UnsupportedOffload);
        }
        if is_of_sctp(checksum, view) {
            finish_sctp(buffer, view)?;
        }
    }
    let bytes = buffer.len() as u64;
    let Some(mut segmentation) = buffer.offload.segmentation else {
        return Ok(Volume { packets: 1, bytes });
    };
    let planned = plan(buffer, segmentation.kind, segmentation.segment_bytes)?;
    let header_bytes = planned.header_bytes();
    segmentation.header_bytes =
        u16::try_from(header_bytes).map_err(|_| DropReason::UnsupportedOffload)?;
    buffer.offload.segmentation = Some(segmentation);
    let packets = u64::from(planned.count());
    Ok(Volume { packets, bytes: u64::from(view.end) + (packets - 1) * header_bytes as u64 })
}

/// Is it the checksum of SCTP, a CRC that no sum can finish?
fn is_of_sctp(open: PartialChecksum, view: &FrameView) -> bool {
    view.protocol == Some(IpProtocol::SCTP)
        && view.l4_offset == Some(open.start)
        && usize::from(open.offset) == sctp::CHECKSUM_OFFSET
}

/// Whoever transmits the frame would take its open checksum for that of TCP: the kernel's word does not
/// tell which it is. So it is finished here, wherever the frame goes.
fn finish_sctp(buffer: &mut Buffer, view: &FrameView) -> Result<(), DropReason> {
    let start = view.l4_offset.map_or(0, usize::from);
    let packet = buffer.bytes_mut().get_mut(start..view.end as usize).unwrap_or_default();
    if !sctp::finish_checksum(packet) {
        return Err(DropReason::UnsupportedOffload);
    }
    buffer.offload.checksum = None;
    Ok(())
}

/// How a super-frame is cut.
pub(crate) fn plan(
    buffer: &Buffer,
    kind: SegmentationKind,
    segment_bytes: u16,
) -> Result<SuperFrame, DropReason> {
    let kind = match kind {
        SegmentationKind::TcpV4 | SegmentationKind::TcpV6 => SegmentKind::Tcp,
        SegmentationKind::UdpL4 => SegmentKind::Udp,
    };
    let bytes = buffer.bytes();
    let planned = SuperFrame::parse(bytes, kind, segment_bytes).or_else(|error| {
        // Of a super-frame in a tunnel of its sender the kernel tells about the inner packet alone.
        let checksum = buffer.offload.checksum.filter(|_| kind == SegmentKind::Tcp);
        let open = checksum.ok_or(error)?;
        SuperFrame::parse_in_vxlan(bytes, kind, segment_bytes, open.start)
    });
    planned.map_err(|_| DropReason::UnsupportedOffload)
}

/// The measure of a frame that could not be parsed.
pub(crate) fn guess(buffer: &Buffer) -> Volume {
    let packets = u64::from(buffer.offload.wire_packets(buffer.len()));
    Volume { packets, bytes: buffer.len() as u64 }
}

/// A number that the packets of a flow share, in both directions, so that a symmetric chain meets
/// the same instances; of what is no IP packet, those of an Ethernet pair. Only who knows the seed
/// knows it before.
pub(crate) fn flow_hash(view: &FrameView, seed: u64) -> u64 {
    view.flow.map_or_else(
        || {
            let number = |mac: [u8; 6]| mac.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
            let (one, other) = (number(view.source.0), number(view.destination.0));
            one.min(other) ^ one.max(other).rotate_left(16) ^ seed
        },
        |flow| flow.symmetric_hash(seed),
    )
}

/// Is it discovery, or meant for its link?
pub(crate) fn is_never_classified(view: &FrameView) -> bool {
    view.network == Network::Arp || view.is_neighbour_discovery() || view.is_meant_for_link()
}
