//! How long the answer to a change waits for the slices that it concerns, and how far they are.

use super::{slice, until};
use crate::northbound::App;
use crate::reconcile::Situation;
use catena_model::id::{ChainId, SliceId};
use catena_model::preview::{SliceWaiting, SlicesDraining, SlicesProgress};
use catena_model::status::ChainState;
use catena_plan::IndexedIntent;
use catena_store::Revision;
use std::collections::BTreeSet;
use tokio::time::Instant;

/// The slices that differ, and those of chains that do.
pub(crate) fn concerned(
    from: &IndexedIntent,
    to: &IndexedIntent,
    chains: &BTreeSet<ChainId>,
) -> BTreeSet<SliceId> {
    let differs = |id: &SliceId| from.slices.get(id) != to.slices.get(id);
    let ids = from.slices.keys().chain(to.slices.keys());
    let changed = ids.copied().filter(differs);
    let of_chain = |id: &ChainId| to.index().slices_of_chain(*id).collect::<Vec<_>>();
    changed.chain(chains.iter().flat_map(of_chain)).collect()
}

/// Waits until each slice is in force as it is declared, or gone, and its former paths are; cannot
/// become so by waiting; or the deadline is there.
pub(crate) async fn slices(
    app: &App,
    revision: Revision,
    slices: &BTreeSet<SliceId>,
    deadline: Instant,
) {
    let mut situations = app.situation.clone();
    for id in slices {
        slice(&mut situations, revision, *id, deadline).await;
    }
    let is_settled = |now: &Situation| now.trouble.is_some() || draining(now, slices).is_none();
    until(&mut situations, is_settled, deadline).await;
}

/// How far slices are that one or the other intent declares.
pub(crate) fn progress(
    now: &Situation,
    former: &IndexedIntent,
    slices: &BTreeSet<SliceId>,
) -> Option<SlicesProgress> {
    let mut waiting = slices.iter().filter_map(|id| {
        let reason = missing(now, *id)?;
        let known = now.intent.slices.get(id).or_else(|| former.slices.get(id));
        let name = known.map(|slice| slice.label.name.clone());
        let slice = name.filter(|name| !name.is_empty()).unwrap_or_else(|| id.to_string());
        Some(SliceWaiting { slice, reason })
    });
    let first = waiting.next();
    let left = waiting.count() + usize::from(first.is_some());
    (!slices.is_empty()).then(|| SlicesProgress {
        count: slices.len() as u64,
        settled: (slices.len() - left) as u64,
        waiting: first,
        draining: draining(now, slices),
    })
}

/// What a slice waits for.
fn missing(now: &Situation, id: SliceId) -> Option<String> {
    let Some(slice) = now.intent.slices.get(&id) else {
        let is_gone = catena_plan::is_slice_withdrawn(&now.blueprint, &now.inventory, id);
        return (!is_gone).then(|| "nodes still send into its path".into());
    };
    let status = now.slice_status(slice);
    (status.state != ChainState::Active).then_some(status.reason)
}

fn draining(now: &Situation, slices: &BTreeSet<SliceId>) -> Option<SlicesDraining> {
    catena_plan::slices_draining(&now.blueprint, &now.inventory, |id| slices.contains(&id))
}
