//! Service graphs: where the end of a path is the start of another. Knows that the packet leaves
//! the one and enters the other in one step; refuses to know which chains there are: rules say it.

use super::{classify, slices};
use crate::engine::account::updates::CounterUpdate;
use crate::engine::action::context::Context;
use crate::engine::action::effects::Effect;
use crate::engine::encap::{self, PathPosition};
use crate::engine::packet::parse;
use crate::engine::state::affinity::FlowAffinity;
use crate::engine::vector::Work;
use catena_model::DropReason;
use catena_wire::nsh::UserContext;

/// Do the rules at the end of a path judge the wire packets of a super-frame each by what it shows?
pub(super) fn is_judged_apart(work: &Work, ended: PathPosition, context: &Context<'_>) -> bool {
    let tables = context.tables;
    tables.rules.fields_anywhere() != 0 && {
        let path = tables.positions.place(ended).path;
        classify::is_judged_apart(work, tables.rules.fields_after(path))
    }
}

/// Takes a packet at the end of its path into the path that follows for it; none: it is to be
/// delivered. It costs one of its time to live, hence comes to an end.
pub(crate) fn follow(
    work: &mut Work,
    ended: PathPosition,
    affinity: &mut FlowAffinity,
    context: &mut Context<'_>,
) -> Result<Option<PathPosition>, DropReason> {
    let tables = context.tables;
    if let Some(start) = slices::follow(work, ended, context)? {
        return Ok(Some(start));
    }
    let path = tables.positions.place(ended).path;
    // A slice shares the hops of another path, and not what follows on it.
    let flow = work.view.flow.filter(|_| !ended.is_of_slice());
    let found = flow.and_then(|flow| {
        let (rule, start) = tables.rules.find_after(path, &work.view, &flow)?;
        Some((flow, rule, start))
    });
    let Some((flow, rule, start)) = found else { return Ok(None) };
    let chain = tables.path(tables.positions.place(start).path).chain;
    let key = affinity.key(&flow, chain);
    let start = classify::enter(start, key, work, affinity, context).following(ended)?;
    context.trace.note(work.copy, || Effect::Branched { ended, rule, start });
    if let Some(path_ref) = work.path.take() {
        context.count(work.copy, CounterUpdate::Finished(path_ref), work.volume);
    }
    let path_ref = context.counters.path_ref(start);
    context.count(work.copy, CounterUpdate::Entered(path_ref), work.volume);
    work.path = Some(path_ref);
    work.flow_hash = parse::flow_hash(&work.view, tables.choice_seed);
    let flow_id = || work.open_hash(start);
    encap::enter(tables.entered_at(start), start, flow_id, UserContext::default(), context.carried)
        .map(Some)
}
