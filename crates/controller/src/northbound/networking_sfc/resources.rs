//! What is done with a resource, of whichever kind: reads from what is declared, changes in a
//! transaction, and when a change is answered. Refuses to know any kind.

use super::answers::{keyed, nothing};
use super::attributes::{Prepared, Verb, prepare};
use super::collection::{Collection, Shown};
use super::errors::ApiError;
use super::kinds::Kind;
use super::list;
use super::scope::{Edit, View};
use crate::auth::Identity;
use crate::declared::{Draft, Snapshot};
use crate::northbound::answers::{JSON, json};
use crate::northbound::app::App;
use crate::northbound::call::{Asked, Call};
use crate::northbound::packing::Placing;
use crate::reconcile::settle;
use axum::http::StatusCode;
use axum::response::Response;
use catena_model::id::ChainId;
use catena_store::Revision;
use serde_json::json;
use std::sync::Arc;
use tokio::time::Instant;
use uuid::Uuid;

/// Those that a query asks for.
pub(super) async fn list(kind: &Kind, asked: Asked) -> Result<Response, ApiError> {
    let Asked { app, call, identity } = asked;
    let plural = kind.collection.plural();
    let listed = list::list(kind, &view(&app, identity), &call)?;
    let mut body = json!({ plural: listed.items });
    if let Some(links) = listed.links {
        body[format!("{plural}_links")] = json!(links);
    }
    Ok(json(StatusCode::OK, JSON, &body))
}

/// The one that is named.
pub(super) async fn show(kind: &Kind, asked: Asked) -> Result<Response, ApiError> {
    let (id, collection) = (id_of(kind, &asked)?, kind.collection);
    let shown = collection.show(&view(&asked.app, asked.identity), id);
    let shown = shown.ok_or_else(|| collection.not_found(&asked.call.name))?;
    Ok(keyed(collection.singular(), &list::one(shown, &asked.call.query)))
}

/// Makes one.
pub(super) async fn create(kind: &Kind, asked: Asked) -> Result<Response, ApiError> {
    let Asked { app, call, identity } = asked;
    let collection = kind.collection;
    let given = judge(collection, Verb::Create, &call, &identity)?;
    let (editor, overlap, quotas) = (identity.clone(), app.overlap, Arc::clone(&app.quotas));
    let (placing, inventory) = (placing(&app, &identity), app.inventory());
    let edit = move |draft: &mut Draft| {
        let (quotas, placing, inventory) = (&quotas, placing.as_ref(), inventory.as_ref());
        let edit = &mut Edit { draft, identity: &editor, overlap, quotas, placing, inventory };
        make(collection, edit, &given)
    };
    let (id, snapshot) = app.declared.change(edit).await?;
    if collection.waits() {
        let chains = collection.chains(&snapshot.intent, id);
        settle_chains(&app, snapshot.revision, &chains).await;
    }
    let shown = changed(collection, view(&app, identity), id, snapshot)?;
    Ok(json(StatusCode::CREATED, JSON, &json!({ collection.singular(): shown })))
}

/// Makes a resource, if its owner may have one more.
pub(super) fn make(
    collection: &dyn Collection,
    edit: &mut Edit<'_>,
    given: &Prepared,
) -> Result<Uuid, ApiError> {
    let own = collection.count(edit.draft.intent(), &given.project);
    edit.check_quota(collection.singular(), &given.project, own)?;
    collection.create(edit, given)
}

/// Changes the one that is named.
pub(super) async fn update(kind: &Kind, asked: Asked) -> Result<Response, ApiError> {
    let (id, collection) = (id_of(kind, &asked)?, kind.collection);
    let Asked { app, call, identity } = asked;
    // What does not exist is reported before what is wrong with the body.
    let seen = collection.show(&view(&app, identity.clone()), id);
    seen.ok_or_else(|| collection.not_found(&call.name))?;
    let given = judge(collection, Verb::Update, &call, &identity)?;
    let before = app.situation.borrow().blueprint.number;
    let (editor, overlap, quotas) = (identity.clone(), app.overlap, Arc::clone(&app.quotas));
    let (placing, inventory) = (placing(&app, &identity), app.inventory());
    let edit = move |draft: &mut Draft| {
        let (quotas, placing, inventory) = (&quotas, placing.as_ref(), inventory.as_ref());
        let edit = &mut Edit { draft, identity: &editor, overlap, quotas, placing, inventory };
        collection.update(edit, id, &given)
    };
    let ((), snapshot) = app.declared.change(edit).await?;
    let chains = collection.chains(&snapshot.intent, id);
    let deadline = Instant::now() + app.answer_wait;
    let receipts = settle::changed(&app, snapshot.revision, before, &chains, deadline).await;
    let mut shown = changed(collection, view(&app, identity), id, snapshot)?;
    if let Some((attribute, value)) = collection.receipts(&receipts) {
        shown.insert(attribute.into(), value);
    }
    Ok(keyed(collection.singular(), &shown))
}

/// Removes the one that is named.
pub(super) async fn delete(kind: &Kind, asked: Asked) -> Result<Response, ApiError> {
    let (id, collection) = (id_of(kind, &asked)?, kind.collection);
    let Asked { app, identity, .. } = asked;
    let (overlap, quotas, inventory) = (app.overlap, Arc::clone(&app.quotas), app.inventory());
    let edit = move |draft: &mut Draft| {
        let chains =
            if collection.waits() { collection.chains(draft.intent(), id) } else { Vec::new() };
        let (quotas, placing, inventory) = (&quotas, None, inventory.as_ref());
        let identity = &identity;
        let edit = &mut Edit { draft, identity, overlap, quotas, placing, inventory };
        collection.delete(edit, id)?;
        Ok::<_, ApiError>(chains)
    };
    let (chains, snapshot) = app.declared.change(edit).await?;
    let (kept, removed): (Vec<ChainId>, Vec<ChainId>) =
        chains.into_iter().partition(|chain| snapshot.intent.chains.contains_key(chain));
    settle_chains(&app, snapshot.revision, &kept).await;
    let deadline = Instant::now() + app.answer_wait;
    for chain in removed {
        let mut situation = app.situation.clone();
        settle::withdrawn(&mut situation, snapshot.revision, chain, deadline).await;
    }
    Ok(nothing())
}

/// For chains whose functions ask for hosts. In a draft these are chosen for all of it together.
fn placing(app: &App, asker: &Identity) -> Option<Placing> {
    (!app.is_draft).then(|| Placing::new(app, asker))
}

/// The identity in the path, in the one way that it is written.
fn id_of(kind: &Kind, asked: &Asked) -> Result<Uuid, ApiError> {
    let name = &asked.call.name;
    let known = Uuid::parse_str(name).ok().filter(|id| id.to_string() == *name);
    known.ok_or_else(|| kind.collection.not_found(name))
}

fn judge(
    collection: &dyn Collection,
    verb: Verb,
    call: &Call,
    identity: &Identity,
) -> Result<Prepared, ApiError> {
    let (singular, plural) = (collection.singular(), collection.plural());
    prepare(singular, plural, collection.table(), verb, identity, json_body(call)?)
}

/// The bytes of a body that is declared to be JSON.
pub(super) fn json_body(call: &Call) -> Result<&[u8], ApiError> {
    let body = call.body.as_ref().map_err(|why| ApiError::broken(*why))?;
    // Whatever else a body may be, a browser sends it for any page without asking us.
    if !call.has_json() && !body.is_empty() {
        return Err(ApiError::not_json());
    }
    Ok(body)
}

/// Waits until these chains are as declared, or cannot become so by waiting.
async fn settle_chains(app: &App, revision: Revision, chains: &[ChainId]) {
    let deadline = Instant::now() + app.answer_wait;
    let mut situation = app.situation.clone();
    for chain in chains {
        settle::declared(&mut situation, revision, *chain, deadline).await;
    }
}

/// What somebody sees now.
pub(super) fn view(app: &App, identity: Identity) -> View {
    let situation = app.situation.borrow().clone();
    let receipts = Arc::clone(&app.receipts.borrow());
    let Snapshot { intent, stamps, .. } = app.declared.snapshot();
    View { intent, stamps, situation, receipts, identity }
}

/// What was changed, as it is now: if somebody has removed it since, as it was made.
fn changed(
    collection: &dyn Collection,
    mut view: View,
    id: Uuid,
    made: Snapshot,
) -> Result<Shown, ApiError> {
    let shown = collection.show(&view, id).or_else(|| {
        (view.intent, view.stamps) = (made.intent, made.stamps);
        collection.show(&view, id)
    });
    shown.ok_or_else(|| collection.not_found(&id.to_string()))
}
