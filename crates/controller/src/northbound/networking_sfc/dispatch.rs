//! From path and method to a resource's own answer: reads from what is declared, changes in a
//! transaction, and when a change is answered.

use super::attributes::{Prepared, Verb, prepare};
use super::errors::ApiError;
use super::scope::{Edit, View};
use super::{CONTENT_TYPE, Collection, NETWORKING, SFC, Shown, documents, list, quotas};
use crate::auth::Identity;
use crate::declared::{Draft, Snapshot};
use crate::northbound::answers::json;
use crate::northbound::app::App;
use crate::northbound::call::Call;
use crate::reconcile::settle;
use axum::body::Body;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use catena_model::id::ChainId;
use catena_store::Revision;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::time::Instant;
use uuid::Uuid;

/// Finds what a path names and does what the method asks.
pub(super) async fn route(
    app: &Arc<App>,
    call: Call,
    identity: Identity,
) -> Result<Response, ApiError> {
    let path: Vec<&str> = call.path.iter().skip(1).map(String::as_str).collect();
    let find = |collections: &[&'static dyn Collection], plural: &str| {
        let found = collections.iter().find(|collection| collection.plural() == plural).copied();
        found.ok_or_else(ApiError::no_such_resource)
    };
    let (collection, id) = match path.as_slice() {
        [] => return documents::index(&call),
        ["extensions"] => return documents::extensions(&call),
        ["extensions", alias] => return documents::extension(&call, alias),
        ["quotas"] => return Ok(quotas::list(app)),
        ["quotas", project] => {
            let project = (*project).to_owned();
            return quotas::one(app, call, project, identity).await;
        }
        ["quotas", project, "default"] => return quotas::defaults(app, project, &identity),
        ["quotas", project, "details"] => return quotas::details(app, project, &identity),
        ["sfc", plural] => (find(&SFC, plural)?, None),
        ["sfc", plural, id] => (find(&SFC, plural)?, Some((*id).to_owned())),
        [plural] => (find(&NETWORKING, plural)?, None),
        [plural, id] => (find(&NETWORKING, plural)?, Some((*id).to_owned())),
        _ => return Err(ApiError::no_such_resource()),
    };
    let Some(id) = id else { return on_collection(app, collection, call, identity).await };
    if ![Method::GET, Method::PUT, Method::DELETE].contains(&call.method) {
        return Err(ApiError::method_not_allowed());
    }
    let known = Uuid::parse_str(&id).ok().filter(|uuid| uuid.to_string() == id);
    let known = known.ok_or_else(|| collection.not_found(&id))?;
    match call.method {
        Method::PUT => update(app, collection, known, call, identity).await,
        Method::DELETE => delete(app, collection, known, identity).await,
        _ => show(&view(app, identity), collection, StatusCode::OK, known, &call.query),
    }
}

async fn on_collection(
    app: &Arc<App>,
    collection: &'static dyn Collection,
    call: Call,
    identity: Identity,
) -> Result<Response, ApiError> {
    match call.method {
        Method::GET => {
            let listed = list::list(collection, &view(app, identity), &call)?;
            let mut body = json!({ collection.plural(): listed.items });
            if let Some(links) = listed.links {
                body[format!("{}_links", collection.plural())] = json!(links);
            }
            Ok(json(StatusCode::OK, CONTENT_TYPE, &body))
        }
        Method::POST => create(app, collection, call, identity).await,
        // The original knows no such method on a collection and answers as if it were unknown.
        _ => Err(ApiError::no_such_resource()),
    }
}

async fn create(
    app: &Arc<App>,
    collection: &'static dyn Collection,
    call: Call,
    identity: Identity,
) -> Result<Response, ApiError> {
    let given = judge(collection, Verb::Create, &call, &identity)?;
    let (editor, overlap, quotas) = (identity.clone(), app.overlap, Arc::clone(&app.quotas));
    let edit = move |draft: &mut Draft| {
        make(collection, &mut Edit { draft, identity: &editor, overlap, quotas: &quotas }, &given)
    };
    let (id, snapshot) = app.declared.change(edit).await?;
    if collection.waits() {
        let chains = collection.chains(&snapshot.intent, id);
        settle_chains(app, snapshot.revision, &chains).await;
    }
    show_changed(app, identity, collection, StatusCode::CREATED, id, snapshot, None)
}

/// Makes a resource, if its owner may have one more.
pub(super) fn make(
    collection: &dyn Collection,
    edit: &mut Edit<'_>,
    given: &Prepared,
) -> Result<Uuid, ApiError> {
    quotas::check(collection, edit, &given.project)?;
    collection.create(edit, given)
}

async fn update(
    app: &Arc<App>,
    collection: &'static dyn Collection,
    id: Uuid,
    call: Call,
    identity: Identity,
) -> Result<Response, ApiError> {
    // What does not exist is reported before what is wrong with the body.
    let seen = collection.show(&view(app, identity.clone()), id);
    seen.ok_or_else(|| collection.not_found(&id.to_string()))?;
    let given = judge(collection, Verb::Update, &call, &identity)?;
    let before = app.situation.borrow().blueprint.number;
    let (editor, overlap, quotas) = (identity.clone(), app.overlap, Arc::clone(&app.quotas));
    let edit = move |draft: &mut Draft| {
        let edit = &mut Edit { draft, identity: &editor, overlap, quotas: &quotas };
        collection.update(edit, id, &given)
    };
    let ((), snapshot) = app.declared.change(edit).await?;
    let chains = collection.chains(&snapshot.intent, id);
    let deadline = Instant::now() + app.answer_wait;
    let receipts = settle::changed(app, snapshot.revision, before, &chains, deadline).await;
    let told = collection.receipts(&receipts);
    show_changed(app, identity, collection, StatusCode::OK, id, snapshot, told)
}

async fn delete(
    app: &Arc<App>,
    collection: &'static dyn Collection,
    id: Uuid,
    identity: Identity,
) -> Result<Response, ApiError> {
    let (overlap, quotas) = (app.overlap, Arc::clone(&app.quotas));
    let edit = move |draft: &mut Draft| {
        let chains =
            if collection.waits() { collection.chains(draft.intent(), id) } else { Vec::new() };
        let edit = &mut Edit { draft, identity: &identity, overlap, quotas: &quotas };
        collection.delete(edit, id)?;
        Ok::<_, ApiError>(chains)
    };
    let (chains, snapshot) = app.declared.change(edit).await?;
    let (kept, removed): (Vec<ChainId>, Vec<ChainId>) =
        chains.into_iter().partition(|chain| snapshot.intent.chains.contains_key(chain));
    settle_chains(app, snapshot.revision, &kept).await;
    let deadline = Instant::now() + app.answer_wait;
    for chain in removed {
        let mut situation = app.situation.clone();
        settle::withdrawn(&mut situation, snapshot.revision, chain, deadline).await;
    }
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE));
    Ok(response)
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

fn show(
    view: &View,
    collection: &dyn Collection,
    status: StatusCode,
    id: Uuid,
    query: &[(String, String)],
) -> Result<Response, ApiError> {
    let shown = collection.show(view, id);
    let shown = shown.ok_or_else(|| collection.not_found(&id.to_string()))?;
    Ok(one(collection, status, shown, query))
}

/// The answer to a change that was made: if somebody has removed the resource since, as it was.
fn show_changed(
    app: &App,
    identity: Identity,
    collection: &dyn Collection,
    status: StatusCode,
    id: Uuid,
    made: Snapshot,
    told: Option<(&str, Value)>,
) -> Result<Response, ApiError> {
    let mut view = view(app, identity);
    let shown = collection.show(&view, id).or_else(|| {
        (view.intent, view.stamps) = (made.intent, made.stamps);
        collection.show(&view, id)
    });
    let mut shown = shown.ok_or_else(|| collection.not_found(&id.to_string()))?;
    if let Some((attribute, value)) = told {
        shown.insert(attribute.into(), value);
    }
    Ok(one(collection, status, shown, &[]))
}

fn one(
    collection: &dyn Collection,
    status: StatusCode,
    shown: Shown,
    query: &[(String, String)],
) -> Response {
    let body = json!({ collection.singular(): list::one(shown, query) });
    json(status, CONTENT_TYPE, &body)
}
