//! The wire packets of a frame, where no kernel can make them: super-frames are cut and checksums
//! completed before a header is put in front. Knows what the offload asks for.

use crate::engine::packet::parse;
use catena_io::{Buffer, Offload};
use catena_model::DropReason;
use catena_wire::frame::FrameView;
use catena_wire::segment::{SuperFrame, complete_checksum};

/// A frame as its wire packets, at least one.
pub(crate) enum Segments {
    /// The frame is one complete wire packet of this length.
    Whole(usize),
    /// The frame is to be cut.
    Cut(SuperFrame),
}

impl Segments {
    /// Plans the cut; a frame that is one packet is completed in place.
    pub(crate) fn of(buffer: &mut Buffer, view: &FrameView) -> Result<Self, DropReason> {
        if let Some(segmentation) = buffer.offload.segmentation {
            let planned = parse::plan(buffer, segmentation.kind, segmentation.segment_bytes)?;
            return Ok(Self::Cut(planned));
        }
        if let Some(checksum) = buffer.offload.checksum {
            // The sum covers all that is there, so padding must go first.
            buffer.truncate(view.end as usize);
            complete_checksum(buffer.bytes_mut(), checksum.start, checksum.offset)
                .map_err(|_| DropReason::UnsupportedOffload)?;
            buffer.offload = Offload::default();
        }
        Ok(Self::Whole(buffer.len()))
    }

    pub(crate) fn count(&self) -> u32 {
        match self {
            Self::Whole(_) => 1,
            Self::Cut(planned) => planned.count(),
        }
    }

    /// Length of a wire packet, in bytes.
    pub(crate) fn len(&self, index: u32) -> usize {
        match self {
            Self::Whole(len) => *len,
            Self::Cut(planned) => planned.segment_len(index),
        }
    }

    /// Appends a wire packet to another buffer; `bytes` is the frame that was planned. False, and
    /// nothing appended, when there is no room.
    pub(crate) fn append_to(&self, bytes: &[u8], index: u32, into: &mut Buffer) -> bool {
        match self {
            Self::Whole(_) => into.append(bytes),
            Self::Cut(planned) => {
                let written = planned.write_segment(bytes, index, into.spare_mut());
                written > 0 && into.set_len(into.len() + written)
            }
        }
    }
}
