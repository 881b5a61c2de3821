//! The classifier's question to the slices: they go before rules, at ports and at the end of paths.
//! Knows what a packet shows and where it is; refuses to know how slices are found.

use super::shaping;
use crate::engine::account::updates::CounterUpdate;
use crate::engine::action::context::Context;
use crate::engine::action::effects::Effect;
use crate::engine::encap::{self, PathPosition};
use crate::engine::packet::index::{NetworkIndex, PortIndex, SliceIndex};
use crate::engine::packet::parse;
use crate::engine::packet::subscriber::Subscriber;
use crate::engine::tables::Tables;
use crate::engine::tables::slices::{Scope, Spot};
use crate::engine::vector::{Step, Work};
use catena_model::DropReason;
use catena_model::PathId;
use catena_wire::nsh::UserContext;

/// Sends a packet of an endpoint into the path of the slice that takes it; false: none does.
pub(crate) fn classify(
    work: &mut Work,
    port: PortIndex,
    network: NetworkIndex,
    context: &mut Context<'_>,
) -> bool {
    let places = [Scope::port(port), Scope::network(network)];
    let found = match take(work, places, None, context) {
        Ok(Some(found)) => found,
        Ok(None) => return false,
        Err(reason) => {
            work.drop(reason);
            return true;
        }
    };
    let Found { slice, start, shown } = found;
    context.trace.note(work.copy, || Effect::Sliced { port: Some(port), slice, shown, start });
    let charged = charge(work, slice, context);
    if charged == Ok(false) {
        return true;
    }
    // What is over its rate has entered, and ends there: so the counters of the slice tell it.
    let entered = enter(work, start, shown, context);
    match charged.and(entered) {
        Ok(position) => work.step = Step::OnPath { position, network: Some(network) },
        Err(reason) => work.drop(reason),
    }
    true
}

/// The path of the slice that takes a packet of an endpoint; none: none does, or it ends by name.
pub(crate) fn path_of(
    work: &Work,
    port: PortIndex,
    network: NetworkIndex,
    tables: &Tables,
) -> Option<PathId> {
    let spots = [Scope::port(port), Scope::network(network)].map(|at| tables.slices.spot(at));
    let shown = match &work.user {
        Subscriber::Known(known) => UserContext::from(&known.inside),
        Subscriber::Unknown => UserContext::default(),
        Subscriber::Unreadable(_) => return None,
    };
    let slice = tables.slices.find(&spots, shown)?;
    tables.slices.get(slice).map(|slice| slice.path)
}

/// Charges a packet to its slice; false: it waits.
fn charge(
    work: &mut Work,
    slice: SliceIndex,
    context: &mut Context<'_>,
) -> Result<bool, DropReason> {
    let tables = context.tables;
    match tables.slices.get(slice) {
        Some(found) => shaping::charge(work, found.id, &found.policy, context),
        None => Ok(true),
    }
}

/// Where a packet at the end of a path goes on that a slice takes there; none: none does.
///
/// # Errors
/// Why the packet ends.
pub(crate) fn follow(
    work: &mut Work,
    ended: PathPosition,
    context: &mut Context<'_>,
) -> Result<Option<PathPosition>, DropReason> {
    let Some(place) = context.tables.end_of(ended) else { return Ok(None) };
    let Some(found) = take(work, [place], Some(ended), context)? else {
        return Ok(None);
    };
    let Found { slice, start, shown } = found;
    let start = start.following(ended)?;
    let tables = context.tables;
    if let Some(found) = tables.slices.get(slice) {
        shaping::charge_on_the_way(work, found.id, &found.policy, context)?;
    }
    context.trace.note(work.copy, || Effect::Sliced { port: None, slice, shown, start });
    if let Some(path_ref) = work.path.take() {
        context.count(work.copy, CounterUpdate::Finished(path_ref), work.volume);
    }
    work.flow_hash = parse::flow_hash(&work.view, tables.choice_seed);
    enter(work, start, shown, context).map(Some)
}

struct Found {
    slice: SliceIndex,
    start: PathPosition,
    shown: UserContext,
}

/// The slice that takes a packet from one of these places. What it carries as metadata goes before
/// what it shows itself: a function may have set it.
fn take<const PLACES: usize>(
    work: &mut Work,
    places: [Scope; PLACES],
    ended: Option<PathPosition>,
    context: &Context<'_>,
) -> Result<Option<Found>, DropReason> {
    let tables = context.tables;
    let spots = places.map(|place| tables.slices.spot(place));
    if spots.iter().all(Spot::is_empty) {
        return Ok(None);
    }
    let carried = ended.and_then(|ended| encap::user(ended, context.carried));
    let shown = match (carried, work.user) {
        (Some(carried), _) => carried,
        (None, Subscriber::Known(known)) => {
            let shown = UserContext::from(&known.inside);
            if known.inside.is_fragment && spots.iter().any(|spot| spot.asks_beyond(shown)) {
                return Err(DropReason::FragmentInTunnel);
            }
            shown
        }
        (None, Subscriber::Unknown) => UserContext::default(),
        (None, Subscriber::Unreadable(reason)) => return Err(reason),
    };
    let found = tables.slices.find(&spots, shown).and_then(|slice| {
        let start = tables.positions.start(tables.slices.get(slice)?.path)?;
        Some(Found { slice, start, shown })
    });
    work.slice = found.as_ref().map(|found| found.slice);
    Ok(found)
}

/// Counts a packet into the path of a slice and gives it what it carries there.
fn enter(
    work: &mut Work,
    start: PathPosition,
    shown: UserContext,
    context: &mut Context<'_>,
) -> Result<PathPosition, DropReason> {
    let path_ref = context.counters.path_ref(start);
    context.count(work.copy, CounterUpdate::Entered(path_ref), work.volume);
    work.path = Some(path_ref);
    work.choose_by_user(start, context.tables.choice_seed);
    encap::enter(
        context.tables.entered_at(start),
        start,
        || work.open_hash(start),
        shown,
        context.carried,
    )
}
