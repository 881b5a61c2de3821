//! What packets are made before functions are asked about them: as on the wire, where one of them wants that. Knows
//! segmentation and checksums; refuses to know who asks whom.

use super::segmentation;
use crate::engine::action::context::Context;
use crate::engine::state::running::Running;
use crate::engine::vector::{Step, Work};
use catena_io::Offload;
use catena_model::DropReason;
use catena_wire::segment::complete_checksum;
use std::ops::Range;

/// What packets must be like for who is asked about them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wants {
    is_cut: bool,
    is_closed: bool,
}

impl Wants {
    /// What some that are asked at once want.
    pub(super) fn of<'f>(asked: impl Iterator<Item = &'f Running>) -> Self {
        asked.fold(Self::default(), |wants, one| Self {
            is_cut: wants.is_cut || one.cuts(),
            is_closed: wants.is_closed || one.closes(),
        })
    }

    /// Makes packets of a vector that are at functions so. Answers where they are now.
    pub(super) fn prepare(
        self,
        vector: &mut Vec<Work>,
        run: Range<usize>,
        room: &mut Vec<Work>,
        context: &mut Context<'_>,
    ) -> Range<usize> {
        let Range { start, mut end } = run;
        let mut index = start;
        while index < end {
            let at = index;
            index += 1;
            if !matches!(vector[at].step, Step::Inside(_)) {
                continue;
            }
            if vector[at].buffer.offload.segmentation.is_some() {
                if self.is_cut {
                    let pieces = segmentation::segment(vector, at, room, context, |_, _, _| {});
                    (index, end) = (at + pieces, end + pieces - 1);
                }
            } else if self.is_closed
                && let Err(reason) = close(&mut vector[at])
            {
                vector[at].drop(reason);
            }
        }
        start..end
    }
}

/// Finishes an open checksum.
fn close(work: &mut Work) -> Result<(), DropReason> {
    let Some(open) = work.buffer.offload.checksum else { return Ok(()) };
    // The sum covers all that is there, so padding must go first.
    work.buffer.truncate(work.view.end as usize);
    complete_checksum(work.buffer.bytes_mut(), open.start, open.offset)
        .map_err(|_| DropReason::UnsupportedOffload)?;
    work.buffer.offload = Offload::default();
    Ok(())
}
