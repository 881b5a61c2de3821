//! Service graphs: where the end of a path is the start of another. Knows that the packet leaves
//! the one and enters the other in one step; refuses to know which chains there are: rules say it.

use super::classifier;
use super::context::Context;
use super::encap::{self, PathPosition};
use super::flow_paths::FlowPaths;
use super::trace::Note;
use super::vector::Work;
use catena_model::DropReason;

/// Takes a packet at the end of its path into the path that follows for it; none: it is to be
/// delivered. It costs one of its time to live, hence comes to an end.
pub(super) fn follow(
    work: &mut Work,
    ended: PathPosition,
    flow_paths: &mut FlowPaths,
    context: &mut Context<'_>,
) -> Result<Option<PathPosition>, DropReason> {
    let tables = context.tables;
    let path = tables.positions.place(ended).path;
    let found = work.view.flow.and_then(|flow| {
        let (rule, start) = tables.rules.find_after(path, &work.view, &flow)?;
        Some((flow, rule, start))
    });
    let Some((flow, rule, start)) = found else { return Ok(None) };
    let chain = tables.path(tables.positions.place(start).path).chain;
    let key = flow_paths.key_after(&flow, chain);
    let start = classifier::enter(start, key, work, flow_paths, context).following(ended)?;
    context.trace.note(work.copy, || Note::Branched { ended, rule, start });
    if let Some(seat) = work.path.take() {
        context.books.finished(seat, work.volume);
    }
    let seat = context.books.seat(tables, start);
    context.books.entered(seat, work.volume);
    work.path = Some(seat);
    encap::enter(tables, start, work.flow_hash, context.carried).map(Some)
}
