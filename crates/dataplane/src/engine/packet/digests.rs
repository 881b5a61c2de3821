//! The digests of a frame's wire packets. A function may cut and merge super-frames, so each
//! segment has its own. Knows how a frame is cut; refuses to know what digests are for.

use crate::engine::packet::parse;
use catena_io::Buffer;
use catena_wire::digest;
use catena_wire::frame::FrameView;

/// Working memory, kept so that no packet allocates once the longest has been seen.
#[derive(Debug, Default)]
pub(crate) struct Digests {
    segment: Vec<u8>,
    digests: Vec<u64>,
}

impl Digests {
    /// Of each wire packet, in order; at least one.
    pub(crate) fn of(&mut self, buffer: &Buffer, view: &FrameView) -> &[u64] {
        self.digests.clear();
        let bytes = buffer.bytes();
        let segmentation = buffer.offload.segmentation;
        let cut = segmentation.and_then(|segmentation| {
            parse::plan(buffer, segmentation.kind, segmentation.segment_bytes).ok()
        });
        let Some(cut) = cut else {
            self.digests.push(digest::kept(view, bytes));
            return &self.digests;
        };
        for index in 0..cut.count() {
            self.segment.resize(cut.segment_len(index), 0);
            cut.write_segment(bytes, index, &mut self.segment);
            let parsed = FrameView::parse(&self.segment);
            self.digests.push(parsed.map_or(0, |view| digest::kept(&view, &self.segment)));
        }
        &self.digests
    }
}
