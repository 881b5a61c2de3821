//! The networking-sfc dialect: its words, envelope, status codes and error bodies. It only
//! translates; what a resource means and where it is kept is decided elsewhere.

mod addresses;
mod attributes;
mod bulk;
mod dispatch;
mod documents;
mod errors;
mod flow_classifier;
mod group_parameters;
mod list;
mod network;
mod port;
mod port_chain;
mod port_pair;
mod port_pair_group;
mod quotas;
mod scope;
mod service_graph;
mod subnet;
mod uses;
mod values;

pub(crate) use bulk::create_all;
pub(crate) use documents::versions;

use crate::auth::{Identity, Refusal};
use crate::northbound::app::App;
use crate::northbound::call::Call;
use crate::northbound::{hosts, names, routes};
use attributes::{Attribute, Prepared, read_only};
use axum::http::{HeaderValue, Method, StatusCode};
use axum::response::Response;
use catena_model::ProjectId;
use catena_model::id::ChainId;
use catena_model::status::Receipt;
use catena_plan::IndexedIntent;
use errors::ApiError;
use scope::{Edit, Labels, Scope, View};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use uuid::Uuid;

const CONTENT_TYPE: &str = "application/json";
const REQUEST_ID_HEADER: &str = "x-openstack-request-id";

/// A resource as clients see it.
type Shown = Map<String, Value>;

/// When a resource was made and changed, as the original tells it.
const CREATED_AT: Attribute = read_only("created_at");
const UPDATED_AT: Attribute = read_only("updated_at");
const REVISION_NUMBER: Attribute = read_only("revision_number");

/// A resource with its stamp.
fn stamped(mut shown: Shown, view: &View, id: Uuid) -> Shown {
    let stamp = view.stamps.get(&id).copied().unwrap_or_default();
    shown.insert("created_at".into(), json!(stamp.made()));
    shown.insert("updated_at".into(), json!(stamp.changed_last()));
    shown.insert("revision_number".into(), json!(stamp.revision));
    shown
}

/// One kind of resource of this dialect.
trait Collection: Sync {
    /// Key of one resource in a body.
    fn singular(&self) -> &'static str;
    /// Name of the collection in paths and bodies.
    fn plural(&self) -> &'static str;
    fn table(&self) -> &'static [Attribute];
    fn not_found(&self, id: &str) -> ApiError;
    /// All that the caller may know of, ordered by identity; only those of a name, if one is given.
    fn labels<'a>(&self, scope: Scope<'a>, name: Option<&str>) -> Labels<'a>;
    /// How many a project has.
    fn count(&self, intent: &IndexedIntent, project: &ProjectId) -> usize;
    /// The resource with every attribute that it has.
    fn render(&self, view: &View, id: Uuid) -> Option<Shown>;
    /// The resource with the attributes that the caller may see.
    fn show(&self, view: &View, id: Uuid) -> Option<Shown> {
        let mut shown = self.render(view, id)?;
        let hidden = self.table().iter().filter(|attribute| !attribute.is_for(&view.identity));
        hidden.for_each(|attribute| drop(shown.remove(attribute.name)));
        if !view.identity.sees_all() {
            hosts::hide_in_map(&mut shown, &view.situation);
        }
        Some(shown)
    }
    fn create(&self, edit: &mut Edit<'_>, given: &Prepared) -> Result<Uuid, ApiError>;
    fn update(&self, edit: &mut Edit<'_>, id: Uuid, given: &Prepared) -> Result<(), ApiError>;
    fn delete(&self, edit: &mut Edit<'_>, id: Uuid) -> Result<(), ApiError>;
    /// Does making or deleting it change the paths of chains, so that its answer waits for them?
    fn waits(&self) -> bool {
        false
    }
    /// The chains whose paths a change of it may change: the answer to an update waits for them.
    fn chains(&self, _intent: &IndexedIntent, _id: Uuid) -> Vec<ChainId> {
        Vec::new()
    }
    /// What the answer to a change says of those that are over.
    fn receipts(&self, receipts: &[Receipt]) -> Option<(&'static str, Value)> {
        (!receipts.is_empty()).then(|| ("receipts", json!(receipts)))
    }
}

const NETWORKING: [&'static dyn Collection; 3] =
    [&network::Networks, &subnet::Subnets, &port::Ports];
const SFC: [&'static dyn Collection; 5] = [
    &flow_classifier::FlowClassifiers,
    &port_pair::PortPairs,
    &port_pair_group::PortPairGroups,
    &port_chain::PortChains,
    &service_graph::ServiceGraphs,
];

/// Answers a call below `/v2.0`.
pub(crate) async fn answer(app: &Arc<App>, call: Call, identity: Identity) -> Response {
    let asker = identity.clone();
    let wants_names = call.headers.contains_key(names::HEADER);
    let answer = dispatch::route(app, call, identity).await;
    numbered(answer.unwrap_or_else(|mut error| {
        if !asker.sees_all() {
            error.message = hosts::in_sentence(&error.message, &app.situation.borrow());
        }
        // What is not found is told as it was asked for.
        if wants_names && error.status != StatusCode::NOT_FOUND {
            let intent = app.declared.snapshot().intent;
            error.message = names::in_sentence(&error.message, &intent, &asker).into_owned();
        }
        error.into_response()
    }))
}

/// The answer to who may not.
pub(crate) fn refuse(refusal: Refusal) -> Response {
    numbered(ApiError::from(refusal).into_response())
}

/// The answer to a request that makes no sense.
pub(crate) fn bad_request(message: String) -> Response {
    numbered(ApiError::bad_request(message).into_response())
}

/// The answer where there is no such route, or it has no such method.
pub(crate) fn unknown(call: &Call) -> Response {
    // The original takes an update or a deletion of a collection for one of an unknown resource.
    let is_collection = routes::find(&Method::POST, &call.path).is_some();
    let is_of_one = [Method::PUT, Method::DELETE].contains(&call.method);
    let error = if routes::is_known(&call.path) && !(is_collection && is_of_one) {
        ApiError::method_not_allowed()
    } else {
        ApiError::no_such_resource()
    };
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

/// What a resource's `json!` made, as the map that it is.
fn shown(resource: Value) -> Shown {
    match resource {
        Value::Object(map) => map,
        _ => Shown::new(),
    }
}
