//! A frame as a port brings it, read for a function: what it holds, what it becomes on the wire, how its
//! checksum stands. Knows offloads; refuses to know where a frame goes.

use catena_io::{Buffer, Offload, SegmentationKind};
use catena_model::DropReason;
use catena_nf::packet::{Metadata, Packet};
use catena_wire::field::UpperChecksum;
use catena_wire::frame::{FrameError, FrameView, Network};
use catena_wire::scalar::IpProtocol;
use catena_wire::sctp;
use catena_wire::segment::{SegmentKind, SuperFrame, complete_checksum};

/// A frame that a port brought.
pub(crate) struct Taken {
    pub(crate) buffer: Buffer,
    pub(crate) view: FrameView,
    upper: UpperChecksum,
    /// Packets that it becomes on the wire.
    pub(crate) packets: u32,
    /// Bytes of IP that these have.
    bytes: u64,
    /// How it is cut, if it is a super-frame of IP.
    pub(crate) planned: Option<SuperFrame>,
}

impl Taken {
    /// Reads a frame, and makes its offload exact.
    pub(crate) fn read(mut buffer: Buffer) -> Result<Self, (Buffer, DropReason)> {
        let view = match FrameView::parse(buffer.bytes()) {
            Ok(view) => view,
            Err(error) => return Err((buffer, reason_of(&error))),
        };
        let bytes = u64::from(view.end).saturating_sub(view.l3_offset.into());
        let packets = buffer.offload.wire_packets(buffer.len());
        let upper = UpperChecksum::Closed;
        if !is_ip(&view) {
            return Ok(Self { buffer, view, upper, packets, bytes, planned: None });
        }
        let planned = match settle(&mut buffer, &view) {
            Ok(planned) => planned,
            Err(reason) => return Err((buffer, reason)),
        };
        // In a tunnel of its sender's the open one is the inner packet's.
        let open = buffer.offload.checksum.filter(|open| view.l4_offset == Some(open.start));
        let upper = open.map_or(upper, |_| UpperChecksum::Open);
        let packets = planned.map_or(1, |planned| planned.count());
        let repeated = planned.map_or(0, |planned| planned.header_bytes() as u64);
        let repeated = repeated.saturating_sub(view.l3_offset.into());
        let bytes = bytes + u64::from(packets - 1) * repeated;
        Ok(Self { buffer, view, upper, packets, bytes, planned })
    }

    /// Is it a packet, which a function is asked about?
    pub(crate) fn is_packet(&self) -> bool {
        is_ip(&self.view)
    }

    /// Is it no super-frame?
    pub(crate) const fn is_single(&self) -> bool {
        self.planned.is_none()
    }

    /// As the function sees it.
    pub(crate) fn packet(&self) -> Packet<'_> {
        Packet {
            frame: self.buffer.bytes(),
            view: self.view,
            upper: self.upper,
            wire_packets: self.packets,
            wire_bytes: self.bytes,
            metadata: Metadata::default(),
        }
    }

    /// The frame for a change, what it held before, and how its checksum stands.
    pub(crate) fn parts_mut(&mut self) -> (&mut [u8], &FrameView, UpperChecksum) {
        (self.buffer.bytes_mut(), &self.view, self.upper)
    }

    /// Makes a packet that is one on the wire what it is there: its checksum is finished.
    pub(crate) fn close(&mut self) -> Result<(), DropReason> {
        let Some(open) = self.buffer.offload.checksum else { return Ok(()) };
        // The sum covers all that is there, so padding must go first.
        self.buffer.truncate(self.view.end as usize);
        complete_checksum(self.buffer.bytes_mut(), open.start, open.offset)
            .map_err(|_| DropReason::UnsupportedOffload)?;
        self.buffer.offload = Offload::default();
        self.upper = UpperChecksum::Closed;
        Ok(())
    }
}

const fn is_ip(view: &FrameView) -> bool {
    matches!(view.network, Network::Ipv4 | Network::Ipv6)
}

const fn reason_of(error: &FrameError) -> DropReason {
    match error {
        FrameError::Ethernet(_) => DropReason::MalformedEthernet,
        FrameError::Ip(_) => DropReason::MalformedIp,
        FrameError::Transport(_) => DropReason::MalformedTransport,
    }
}

/// Holds a packet's offload against the packet, and makes it exact.
fn settle(buffer: &mut Buffer, view: &FrameView) -> Result<Option<SuperFrame>, DropReason> {
    if let Some(open) = buffer.offload.checksum {
        let field_end = u32::from(open.start) + u32::from(open.offset) + 2;
        if field_end > view.end || open.start < view.l3_offset {
            return Err(DropReason::UnsupportedOffload);
        }
        let is_sctp = view.protocol == Some(IpProtocol::SCTP)
            && view.l4_offset == Some(open.start)
            && usize::from(open.offset) == sctp::CHECKSUM_OFFSET;
        if is_sctp {
            // The kernel's word does not tell a CRC from a sum: whoever sends the frame would sum it.
            let packet = usize::from(open.start)..view.end as usize;
            let packet = buffer.bytes_mut().get_mut(packet).unwrap_or_default();
            if !sctp::finish_checksum(packet) {
                return Err(DropReason::UnsupportedOffload);
            }
            buffer.offload.checksum = None;
        }
    }
    let Some(mut segmentation) = buffer.offload.segmentation else { return Ok(None) };
    let kind = match segmentation.kind {
        SegmentationKind::TcpV4 | SegmentationKind::TcpV6 => SegmentKind::Tcp,
        SegmentationKind::UdpL4 => SegmentKind::Udp,
    };
    let (bytes, size) = (buffer.bytes(), segmentation.segment_bytes);
    let planned = SuperFrame::parse(bytes, kind, size).or_else(|error| {
        // Of a super-frame in a tunnel of its sender the kernel tells about the inner packet alone.
        let open = buffer.offload.checksum.filter(|_| kind == SegmentKind::Tcp).ok_or(error)?;
        SuperFrame::parse_in_vxlan(bytes, kind, size, open.start)
    });
    let planned = planned.map_err(|_| DropReason::UnsupportedOffload)?;
    segmentation.header_bytes =
        u16::try_from(planned.header_bytes()).map_err(|_| DropReason::UnsupportedOffload)?;
    buffer.offload.segmentation = Some(segmentation);
    Ok(Some(planned))
}
