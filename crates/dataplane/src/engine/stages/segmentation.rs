//! Segments a super-frame into its wire packets where these are not treated alike. Refuses to know why.

use crate::engine::action::context::Context;
use crate::engine::packet::parse;
use crate::engine::packet::segments::Segments;
use crate::engine::vector::Work;
use catena_io::Offload;
use catena_model::DropReason;
use catena_model::account::Volume;

/// Puts the wire packets of a super-frame in its place, in their order, and answers how many works of the
/// vector it has become. `room`: working memory. `each`: what else is to be done with the packet with this
/// number.
pub(super) fn segment(
    vector: &mut Vec<Work>,
    index: usize,
    room: &mut Vec<Work>,
    context: &mut Context<'_>,
    mut each: impl FnMut(&mut Work, usize, &mut Context<'_>),
) -> usize {
    let whole = &mut vector[index];
    let segments = match Segments::of(&mut whole.buffer, &whole.view) {
        Ok(segments) => segments,
        Err(reason) => {
            whole.drop(reason);
            return 1;
        }
    };
    for number in 0..segments.count() {
        match piece(whole, &segments, number, context) {
            Ok(mut piece) => {
                each(&mut piece, number as usize, context);
                room.push(piece);
            }
            Err(reason) => context.counters.dropped(whole.owner, whole.path, reason, 1),
        }
    }
    let count = room.len();
    for whole in vector.splice(index..=index, room.drain(..)) {
        context.pool.put(whole.buffer);
    }
    count
}

fn piece(
    whole: &Work,
    segments: &Segments,
    number: u32,
    context: &mut Context<'_>,
) -> Result<Work, DropReason> {
    let mut buffer = context.take_buffer(whole.owner).ok_or(DropReason::BuffersExhausted)?;
    if !segments.append_to(whole.buffer.bytes(), number, &mut buffer) {
        context.pool.put(buffer);
        return Err(DropReason::BuffersExhausted);
    }
    buffer.offload = Offload::default();
    match parse::parse_frame(buffer.bytes()) {
        Ok(view) => {
            let volume = Volume { packets: 1, bytes: segments.len(number) as u64 };
            Ok(Work { buffer, view, volume, ..*whole })
        }
        Err(reason) => {
            context.pool.put(buffer);
            Err(reason)
        }
    }
}
