//! `/v1/plan`: opens a draft, tells what its changes would do, makes all of them at once or throws
//! them away. Knows no planner: the telling is `catena_plan::preview`'s.

use super::chains::summary;
use super::change::{body, declare, declared_json};
use super::problem::Problem;
use super::status::progress;
use super::view::{View, seen};
use crate::auth::Identity;
use crate::declared::{Draft, differences};
use crate::northbound::app::App;
use crate::northbound::drafts::{Maker, NoRoom, OpenDraft};
use crate::northbound::packing::{self, Placing};
use crate::northbound::quotas::DRAFT;
use crate::reconcile::settle;
use axum::response::Response;
use catena_model::capacity::Packing;
use catena_model::id::{ChainId, FunctionId, InstanceId};
use catena_model::preview::{Applied, ApplyRequest, Plan};
use catena_plan::Intent;
use catena_store::{Revision, StoreError};
use serde::Serialize;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use utoipa::ToSchema;
use uuid::Uuid;

/// Longest wait for a change: an answer must come while its asker waits.
const APPLY_WAIT_MAX: Duration = Duration::from_secs(20);
/// Names that a refusal lists at most.
const MOVED_NAMES_MAX: usize = 8;

/// The identity of a draft.
#[derive(Serialize, ToSchema)]
pub(super) struct DraftReport {
    /// What requests name in `Catena-Draft`.
    draft: Uuid,
}

/// The identity of a new draft.
pub(super) async fn open(view: &View) -> Result<Response, Problem> {
    declared_json(&view.call)?;
    let (app, maker) = (&view.app, maker(view));
    let max = app.quotas.limit(&view.identity.project, DRAFT);
    let draft = app.drafts.open(&app.declared, maker, max).map_err(|no_room| match no_room {
        NoRoom::Project => Problem::over_quota(DRAFT),
        NoRoom::All(count) => Problem::overloaded(format!(
            "{count} drafts are open already; one that nobody uses goes after a minute. Try again."
        )),
    })?;
    view.told(&DraftReport { draft })
}

fn maker(view: &View) -> Maker {
    Maker::of(&view.call.headers, &view.identity)
}

/// The draft that is named.
pub(super) fn draft(view: &View) -> Result<OpenDraft, Problem> {
    let id = &view.call.name;
    view.app.drafts.get(id, &maker(view)).ok_or_else(|| Problem::no_draft(id))
}

/// What the changes made to a draft would do.
pub(super) async fn preview(view: &View) -> Result<Response, Problem> {
    let draft = draft(view)?;
    let situation = view.app.situation.borrow().clone();
    let packing = place(view, &draft).await?;
    let then = draft.declared.snapshot().intent;
    let (blueprint, inventory) = (&situation.blueprint, &situation.inventory);
    let mut preview = catena_plan::preview(blueprint, &draft.origin.intent, &then, inventory);
    // Nodes are the operator's, and so is what is between them.
    let sees_all = view.identity.sees_all();
    preview.nodes.retain(|_| sees_all);
    for chain in &mut preview.chains {
        chain.lines.retain(|line| sees_all || !catena_plan::is_for_operators(line));
    }
    view.told(&Plan {
        plan: draft.origin.revision.0,
        preview,
        resources: differences(&draft.origin.intent, &then),
        packing: packing.filter(|_| view.identity.sees_all()),
    })
}

/// Gives hosts to what a draft leaves to be placed, if it changes anything of that.
async fn place(view: &View, draft: &OpenDraft) -> Result<Option<Packing>, Problem> {
    let former = Arc::clone(&draft.origin.intent);
    if !packing::is_asked(&former, &draft.declared.snapshot().intent) {
        return Ok(None);
    }
    let placing = Placing::new(&view.app, &view.identity);
    let edit = move |open: &mut Draft| packing::place(open, &former, &placing);
    let placed = draft.declared.change(move |open| edit(open).map_err(Problem::from)).await;
    placed.map(|(told, _)| Some(told))
}

/// Makes all changes of a draft in one revision, if nothing has been declared since it was opened.
pub(super) async fn apply(view: &View) -> Result<Response, Problem> {
    let View { app, call, identity, .. } = view;
    let request: ApplyRequest = body(call)?;
    let draft = draft(view)?;
    let expected = request.plan.map_or(draft.origin.revision, Revision);
    if expected != draft.origin.revision {
        return Err(moved(app, identity, expected).await);
    }
    place(view, &draft).await?;
    let (origin, then) = (draft.origin, draft.declared.snapshot().intent);
    let resources = differences(&origin.intent, &then);
    let chains = concerned(&origin.intent, &then);
    let slices = settle::concerned_slices(&origin.intent, &then, &chains);
    let former = origin.intent.clone();
    let before = app.situation.borrow().blueprint.number;
    let who = identity.clone();
    let made = declare(app, move |current| {
        if current.base() != expected {
            let now = seen(current.intent(), &who);
            let moved = differences(&seen(&origin.intent, &who), &now).into_iter();
            return Err(moved_to(expected, moved.map(|change| (change.kind, change.name))));
        }
        Ok(current.carry(&origin.intent, &then)?)
    })
    .await?;
    app.drafts.close(&call.name, &maker(view));
    let (mut receipts, mut draining) = (Vec::new(), Vec::new());
    if request.wait {
        let wait = request.wait_ms.map_or(app.answer_wait, Duration::from_millis);
        let deadline = Instant::now() + wait.min(APPLY_WAIT_MAX);
        let declared = chains.iter().filter(|id| made.intent.chains.contains_key(*id));
        let declared: Vec<ChainId> = declared.copied().collect();
        receipts = settle::changed(app, made.revision, before, &declared, deadline).await;
        let mut situations = app.situation.clone();
        for gone in chains.iter().filter(|id| !made.intent.chains.contains_key(*id)) {
            settle::withdrawn(&mut situations, made.revision, *gone, deadline).await;
        }
        draining = settle::drained(app, made.revision, &chains, deadline).await;
        settle::slices(app, made.revision, &slices, deadline).await;
    }
    let situation = app.situation.borrow().clone();
    let shown = chains.iter().filter_map(|id| made.intent.chains.get(id));
    // Nodes are the operator's.
    let is_told = identity.sees_all();
    view.told(&Applied {
        revision: made.revision.0,
        resources,
        chains: shown.map(|chain| summary(&situation, &made.intent, chain)).collect(),
        receipts,
        nodes: if is_told { progress(&situation) } else { Vec::new() },
        draining,
        slices: settle::slices_progress(&situation, &former, &slices),
    })
}

/// The refusal of a plan that was made before the draft was opened.
async fn moved(app: &App, identity: &Identity, plan: Revision) -> Problem {
    // What others declare is nobody else's.
    if !identity.sees_all() {
        return moved_to(plan, []);
    }
    let declared = Arc::clone(&app.declared);
    let changes = tokio::task::spawn_blocking(move || declared.changes(plan, None)).await;
    match changes {
        Ok(Ok(changes)) => {
            moved_to(plan, changes.into_iter().map(|(_, c)| (c.kind, c.name.unwrap_or(c.id))))
        }
        // It is too long ago to be known, or was never made.
        Ok(Err(StoreError::Compacted { .. })) => moved_to(plan, []),
        Ok(Err(error)) => error.into(),
        Err(error) => Problem::internal(error.to_string()),
    }
}

/// The refusal of a plan, with the kinds and names of what has been declared since.
fn moved_to(plan: Revision, changes: impl IntoIterator<Item = (String, String)>) -> Problem {
    let changes: BTreeSet<(String, String)> = changes.into_iter().collect();
    let mut names: Vec<String> =
        changes.into_iter().map(|(kind, name)| format!("{kind} '{name}'")).collect();
    let more = names.len().saturating_sub(MOVED_NAMES_MAX);
    names.truncate(MOVED_NAMES_MAX);
    let what = match (names.as_slice(), more) {
        ([], _) => "what is not told".to_owned(),
        (names, 0) => names.join(", "),
        (names, more) => format!("{} and {more} more", names.join(", ")),
    };
    Problem::moved_on(format!(
        "Plan {plan} is outdated: something has been declared since ({what}). Make a new plan with \
         'catena plan' and apply that."
    ))
}

/// The chains that differ, themselves or in what they are made of.
fn concerned(from: &Intent, to: &Intent) -> BTreeSet<ChainId> {
    let functions = |id: &FunctionId| {
        let (old, new) = (from.functions.get(id), to.functions.get(id));
        let instances = new.into_iter().chain(old).flat_map(|function| &function.instances);
        let is_other = |id: &InstanceId| from.instances.get(id) != to.instances.get(id);
        old != new || instances.into_iter().any(is_other)
    };
    let ids = from.chains.keys().chain(to.chains.keys()).copied();
    let differs = |id: &ChainId| {
        let (old, new) = (from.chains.get(id), to.chains.get(id));
        old != new || new.is_some_and(|chain| chain.functions.iter().any(functions))
    };
    let mut chains: BTreeSet<ChainId> = ids.filter(differs).collect();
    let graphs = |here: &Intent, there: &Intent| {
        let other = here.graphs.iter().filter(|(id, graph)| there.graphs.get(*id) != Some(*graph));
        let branches = other.flat_map(|(_, graph)| graph.branches.iter());
        branches.flat_map(|(id, onward)| onward.iter().chain([id])).copied().collect::<Vec<_>>()
    };
    chains.extend(graphs(from, to));
    chains.extend(graphs(to, from));
    chains
}

pub(super) async fn close(view: &View) -> Result<Response, Problem> {
    let id = &view.call.name;
    if !view.app.drafts.close(id, &maker(view)) {
        return Err(Problem::no_draft(id));
    }
    Ok(view.done())
}
