//! Packets of slices that have a rate or a delay class: charged where their slice is known, set aside
//! until it is their turn, and then classified by the tables that are in force then.
//!
//! Knows what a packet needs to go on. Refuses to know whose turn it is (see `scheduler`). What waits
//! is held in the counters of the port that it came by, and on no path yet: so no change of a path waits
//! for it.

use super::setup;
use crate::engine::action::context::Context;
use crate::engine::vector::{Step, VECTOR_PACKETS_MAX, Work};
use catena_model::program::{DelayClass, SlicePolicy};
use catena_model::{DropReason, SliceId};

/// Charges a packet of an endpoint to its slice; false: it must wait for its turn, and its step says
/// where. A packet that somebody asks about (`explain`, probes) is no traffic, and never waits.
///
/// # Errors
/// It is over its slice's rate, or there is no room to wait.
pub(crate) fn charge(
    work: &mut Work,
    slice: SliceId,
    policy: &SlicePolicy,
    context: &mut Context<'_>,
) -> Result<bool, DropReason> {
    if policy.is_none() || context.is_uncharged {
        return Ok(true);
    }
    let charged = (work.owner, work.volume.bytes);
    let place = context.shaper.meter(context.now_ns, slice, policy, charged)?;
    if let Some(place) = place {
        work.step = Step::Waiting(place);
    }
    Ok(place.is_none())
}

/// The same at the end of a path, where packets are on their way and wait for nobody: only the rate
/// counts.
///
/// # Errors
/// It is over its slice's rate.
pub(crate) fn charge_on_the_way(
    work: &Work,
    slice: SliceId,
    policy: &SlicePolicy,
    context: &mut Context<'_>,
) -> Result<(), DropReason> {
    if policy.rate.is_none() || context.is_uncharged {
        return Ok(());
    }
    let policy = SlicePolicy { class: DelayClass::Unscheduled, ..*policy };
    let charged = (work.owner, work.volume.bytes);
    context.shaper.meter(context.now_ns, slice, &policy, charged).map(drop)
}

/// Takes those that must wait out of a vector.
pub(crate) fn set_aside(vector: &mut Vec<Work>, context: &mut Context<'_>) {
    if !context.shaper.is_expecting() {
        return;
    }
    for work in vector.extract_if(.., |work| matches!(work.step, Step::Waiting(_))) {
        let Step::Waiting(place) = work.step else { continue };
        let (owner, volume) = (work.owner, work.volume);
        match context.shaper.hold(context.now_ns, place, volume, work) {
            Ok(()) => context.counters.held(owner, volume.packets),
            Err(work) => context.end_work(work, DropReason::SliceQueueFull),
        }
    }
}

/// Fills a vector with those whose turn it is.
pub(crate) fn release(vector: &mut Vec<Work>, context: &mut Context<'_>) {
    while vector.len() < VECTOR_PACKETS_MAX {
        let Some(work) = context.shaper.release(context.now_ns) else { return };
        context.counters.given_back(work.owner, work.volume.packets);
        setup::before_classifier(work, vector, context);
    }
}
