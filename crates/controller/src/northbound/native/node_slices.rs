//! `/v1/nodes/{node}/slices` and `/injected`: what a node's data plane says of slices itself, and
//! those that people put in there by hand. Knows names and pages; refuses to declare anything.

use super::change::body;
use super::problem::Problem;
use super::slices::{Found, document, made_of, page_of};
use super::view::View;
use crate::reconcile::Situation;
use axum::response::Response;
use catena_model::id::{ChainId, SliceId};
use catena_model::limits::SLICE_COUNTERS_MAX;
use catena_model::program::SliceEntry;
use catena_model::resource::Label;
use catena_model::slice::{InjectedSlice, Slice, SliceDocument, SlicePlace};
use catena_model::{Answer, NodeName, ProjectId, Question};
use catena_plan::Intent;
use uuid::Uuid;

/// A page of the paths of slices that a node has, in the order of their slices.
pub(super) async fn list(view: &View) -> Result<Response, Problem> {
    let (limit, after) = page_of(&view.call, SLICE_COUNTERS_MAX)?;
    let question = Question::Slices { after, limit: u32::try_from(limit).unwrap_or(u32::MAX) };
    match ask(view, &question).await? {
        Answer::Slices(page) => view.told(&page),
        _ => Err(wrong(view)),
    }
}

/// What is in at a node by hand.
pub(super) async fn injected(view: &View) -> Result<Response, Problem> {
    told(view, &view.intent, &Question::Injected).await
}

/// Puts slices in at a node by hand instead of those that were.
pub(super) async fn inject(view: &View) -> Result<Response, Problem> {
    let View { app, call, identity, situation, .. } = view;
    let given: Vec<SliceDocument> = body(call)?;
    let intent = &app.declared.snapshot().intent;
    // Lower than all that are declared: where both take a packet, what was put in by hand does.
    let ids = (1_u128..).map(|number| SliceId(Uuid::from_u128(number)));
    let mut found = Found::default();
    let slices = ids.zip(&given).map(|(id, document)| {
        let slice = made_of(intent, identity, id, document, &mut found)?;
        match slice.fault() {
            Some(fault) => Err(Problem::bad_body(&format!("slice '{}': {fault}", slice.name()))),
            None => Ok(slice),
        }
    });
    let slices = slices.collect::<Result<Vec<Slice>, Problem>>()?;
    intent.check_more_slices(&slices)?;
    let entries = slices.iter().map(|slice| entry(situation, intent, slice));
    let entries = entries.collect::<Result<Vec<SliceEntry>, Problem>>()?;
    told(view, intent, &Question::Inject(entries)).await
}

/// A slice in the path that its chain's own rules send into.
fn entry(situation: &Situation, intent: &Intent, slice: &Slice) -> Result<SliceEntry, Problem> {
    let status = situation.chain_status(intent, slice.chain);
    let path = status.path.ok_or_else(|| {
        Problem::conflict(format!("The chain of slice '{}' has no path yet.", slice.name()))
    })?;
    Ok(SliceEntry { is_injected: true, ..SliceEntry::of(slice, path) })
}

/// Asks the data plane of the node that a call names.
pub(super) async fn ask(view: &View, question: &Question) -> Result<Answer, Problem> {
    let (app, node) = (&view.app, &view.call.name);
    let unknown = || Problem::not_found(format!("There is no node '{node}'."));
    let name = NodeName::new(node).map_err(|_| unknown())?;
    if app.situation.borrow().inventory.facts(&name).is_none() {
        return Err(unknown());
    }
    app.fleet.ask(&name, question).await.map_err(Problem::conflict)
}

/// What is in at a node by hand, as it answers a question with it.
async fn told(view: &View, intent: &Intent, question: &Question) -> Result<Response, Problem> {
    let Answer::Injected(entries) = ask(view, question).await? else { return Err(wrong(view)) };
    let told = entries.iter().map(|entry| told_of(&view.situation, intent, entry));
    view.told(&told.collect::<Vec<InjectedSlice>>())
}

fn told_of(situation: &Situation, intent: &Intent, entry: &SliceEntry) -> InjectedSlice {
    let chain = situation.blueprint.ledger.paths.get(&entry.path).map(|record| record.chain);
    let label = Label {
        name: entry.name.clone(),
        description: String::new(),
        project: ProjectId(String::new()),
    };
    let (source_port, after) = match entry.matches.place {
        SlicePlace::Endpoints => (None, None),
        SlicePlace::Port(port) => (Some(port), None),
        SlicePlace::After(chain) => (None, Some(chain)),
    };
    let slice = Slice {
        id: entry.id,
        label,
        chain: chain.unwrap_or(ChainId::MIN),
        source_port,
        after,
        tunnel_id: entry.matches.tunnel_id,
        teids: entry.matches.teids,
        qfi: entry.matches.qfi,
        carries_metadata: false,
        policy: entry.policy,
    };
    InjectedSlice { slice: document(intent, &slice), path: entry.path }
}

/// The agent of the node that a call names has answered what nobody asked.
pub(super) fn wrong(view: &View) -> Problem {
    let node = &view.call.name;
    Problem::conflict(format!("The agent of node '{node}' answered another question."))
}
