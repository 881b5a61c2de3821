//! The networking-sfc dialect: its words, envelope, status codes and error bodies. It only
//! translates; what a resource means and where it is kept is decided elsewhere.

mod addresses;
mod attributes;
mod documents;
mod errors;
mod filter;
mod flow_classifier;
mod network;
mod port;
mod port_chain;
mod port_pair;
mod port_pair_group;
mod subnet;
mod values;

pub(crate) use documents::versions;

use crate::auth::{Identity, Refusal};
use crate::declared::{Draft, Snapshot};
use crate::northbound::{App, Call, json, routes};
use crate::reconcile::{Situation, settle};
use attributes::{Attribute, Prepared, Verb, prepare};
use axum::body::Body;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use catena_model::id::ChainId;
use catena_model::status::Receipt;
use catena_plan::Intent;
use catena_store::Revision;
use errors::ApiError;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use tokio::time::Instant;
use uuid::Uuid;

const CONTENT_TYPE: &str = "application/json";
const REQUEST_ID_HEADER: &str = "x-openstack-request-id";

/// What resources are shown from.
pub(crate) struct View {
    pub(crate) intent: Arc<Intent>,
    pub(crate) situation: Situation,
}

/// A resource as clients see it.
type Shown = Map<String, Value>;

/// One kind of resource of this dialect.
trait Collection: Sync {
    /// Key of one resource in a body.
    fn singular(&self) -> &'static str;
    /// Name of the collection in paths and bodies.
    fn plural(&self) -> &'static str;
    fn table(&self) -> &'static [Attribute];
    fn not_found(&self, id: &str) -> ApiError;
    fn list(&self, view: &View) -> Vec<Shown>;
    fn show(&self, view: &View, id: Uuid) -> Option<Shown>;
    fn create(&self, draft: &mut Draft, given: &Prepared) -> Result<Uuid, ApiError>;
    fn update(&self, draft: &mut Draft, id: Uuid, given: &Prepared) -> Result<(), ApiError>;
    fn delete(&self, draft: &mut Draft, id: Uuid) -> Result<(), ApiError>;
    /// Does making or deleting it wait for the nodes?
    fn waits(&self) -> bool {
        false
    }
    /// The chains whose paths a change of it may change: its answer waits for them.
    fn chains(&self, _intent: &Intent, _id: Uuid) -> Vec<ChainId> {
        Vec::new()
    }
    /// What the answer to a change says of those that are over.
    fn receipts(&self, receipts: &[Receipt]) -> Option<(&'static str, Value)> {
        (!receipts.is_empty()).then(|| ("receipts", json!(receipts)))
    }
}

const NETWORKING: [&'static dyn Collection; 3] =
    [&network::Networks, &subnet::Subnets, &port::Ports];
const SFC: [&'static dyn Collection; 4] = [
    &flow_classifier::FlowClassifiers,
    &port_pair::PortPairs,
    &port_pair_group::PortPairGroups,
    &port_chain::PortChains,
];

/// Answers a call below `/v2.0`.
pub(crate) async fn answer(app: &Arc<App>, call: Call, identity: Identity) -> Response {
    numbered(route(app, call, identity).await.unwrap_or_else(ApiError::into_response))
}

/// The answer to who may not.
pub(crate) fn refuse(refusal: Refusal) -> Response {
    numbered(ApiError::from(refusal).into_response())
}

/// The answer where there is no such route, or it has no such method.
pub(crate) fn unknown(call: &Call) -> Response {
    // The original knows no other method on a collection and answers as if it were unknown.
    let is_item = routes::is_known(&call.path) && routes::find(&Method::POST, &call.path).is_none();
    let error = if is_item { ApiError::method_not_allowed() } else { ApiError::no_such_resource() };
    numbered(error.into_response())
}

/// Paths may end in `.json`: it means nothing.
pub(crate) fn drop_suffix(path: &mut [String]) {
    if let [first, .., last] = path
        && first == "v2.0"
        && let Some(plain) = last.strip_suffix(".json")
    {
        *last = plain.into();
    }
}

/// Every answer has a number of its own.
fn numbered(mut response: Response) -> Response {
    let id = format!("req-{}", Uuid::new_v4());
    if let Ok(id) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID_HEADER, id);
    }
    response
}

async fn route(app: &Arc<App>, call: Call, identity: Identity) -> Result<Response, ApiError> {
    let path: Vec<&str> = call.path.iter().skip(1).map(String::as_str).collect();
    let find = |collections: &[&'static dyn Collection], plural: &str| {
        let found = collections.iter().find(|collection| collection.plural() == plural).copied();
        found.ok_or_else(ApiError::no_such_resource)
    };
    let (collection, id) = match path.as_slice() {
        [] => return documents::index(&call),
        ["extensions"] => return documents::extensions(&call),
        ["extensions", alias] => return documents::extension(&call, alias),
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
    on_item(app, collection, known, call, identity).await
}

async fn on_collection(
    app: &Arc<App>,
    collection: &'static dyn Collection,
    call: Call,
    identity: Identity,
) -> Result<Response, ApiError> {
    match call.method {
        Method::GET => {
            let items = filter::select(collection.list(&view(app)), &call.query);
            let body = json!({ collection.plural(): items });
            Ok(json(StatusCode::OK, CONTENT_TYPE, &body))
        }
        Method::POST => {
            let given = judge(collection, Verb::Create, &call, &identity)?;
            let edit = move |draft: &mut Draft| collection.create(draft, &given);
            let (id, snapshot) = change(app, edit).await?;
            settle_chain(app, collection, snapshot.revision, id).await;
            show_changed(app, collection, StatusCode::CREATED, id, snapshot, None)
        }
        // The original knows no such method on a collection and answers as if it were unknown.
        _ => Err(ApiError::no_such_resource()),
    }
}

async fn on_item(
    app: &Arc<App>,
    collection: &'static dyn Collection,
    id: Uuid,
    call: Call,
    identity: Identity,
) -> Result<Response, ApiError> {
    if call.method == Method::GET {
        return show(app, collection, StatusCode::OK, id, &call.query);
    }
    if call.method == Method::PUT {
        // What does not exist is reported before what is wrong with the body.
        collection.show(&view(app), id).ok_or_else(|| collection.not_found(&id.to_string()))?;
        let given = judge(collection, Verb::Update, &call, &identity)?;
        let before = app.situation.borrow().blueprint.number;
        let edit = move |draft: &mut Draft| collection.update(draft, id, &given);
        let ((), snapshot) = change(app, edit).await?;
        let chains = collection.chains(&snapshot.intent, id);
        let deadline = Instant::now() + app.answer_wait;
        let receipts = settle::changed(app, snapshot.revision, before, &chains, deadline).await;
        let told = collection.receipts(&receipts);
        return show_changed(app, collection, StatusCode::OK, id, snapshot, told);
    }
    let edit = move |draft: &mut Draft| collection.delete(draft, id);
    let ((), snapshot) = change(app, edit).await?;
    if collection.waits() {
        let deadline = Instant::now() + app.answer_wait;
        let mut situation = app.situation.clone();
        settle::withdrawn(&mut situation, snapshot.revision, ChainId(id), deadline).await;
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
    let body = call.body.as_ref().ok_or_else(ApiError::too_large)?;
    // Whatever else a body may be, a browser sends it for any page without asking us.
    if !call.has_json() && !body.is_empty() {
        return Err(ApiError::not_json());
    }
    let (singular, plural) = (collection.singular(), collection.plural());
    prepare(singular, plural, collection.table(), verb, identity, body)
}

/// Makes a change where the disk may be waited for.
async fn change<T: Send + 'static>(
    app: &Arc<App>,
    edit: impl FnOnce(&mut Draft) -> Result<T, ApiError> + Send + 'static,
) -> Result<(T, Snapshot), ApiError> {
    let declared = Arc::clone(&app.declared);
    tokio::task::spawn_blocking(move || declared.change(edit)).await.unwrap_or_else(|_| {
        Err(ApiError::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "HTTPInternalServerError",
            "The change failed inside the controller and was not kept; please report it.",
        ))
    })
}

async fn settle_chain(app: &App, collection: &dyn Collection, revision: Revision, id: Uuid) {
    if collection.waits() {
        let deadline = Instant::now() + app.answer_wait;
        let mut situation = app.situation.clone();
        settle::declared(&mut situation, revision, ChainId(id), deadline).await;
    }
}

fn view(app: &App) -> View {
    let situation = app.situation.borrow().clone();
    View { intent: app.declared.snapshot().intent, situation }
}

fn show(
    app: &App,
    collection: &dyn Collection,
    status: StatusCode,
    id: Uuid,
    query: &[(String, String)],
) -> Result<Response, ApiError> {
    let shown = collection.show(&view(app), id);
    let shown = shown.ok_or_else(|| collection.not_found(&id.to_string()))?;
    Ok(one(collection, status, shown, query))
}

/// The answer to a change that was made: if somebody has removed the resource since, as it was.
fn show_changed(
    app: &App,
    collection: &dyn Collection,
    status: StatusCode,
    id: Uuid,
    made: Snapshot,
    told: Option<(&str, Value)>,
) -> Result<Response, ApiError> {
    let newest = view(app);
    let shown = collection.show(&newest, id).or_else(|| {
        collection.show(&View { intent: made.intent, situation: newest.situation }, id)
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
    let body = json!({ collection.singular(): filter::one(shown, query) });
    json(status, CONTENT_TYPE, &body)
}

/// What a resource's `json!` made, as the map that it is.
fn shown(resource: Value) -> Shown {
    match resource {
        Value::Object(map) => map,
        _ => Shown::new(),
    }
}
