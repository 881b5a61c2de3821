//! The routes of networking-sfc, and who answers at each. Knows what each asks of who calls it; refuses
//! to know what is done.

use super::answers::numbered;
use super::errors::ApiError;
use super::kinds::{KINDS, Kind};
use super::{documents, quotas, resources};
use crate::northbound::body::BODY_BYTES_MAX;
use crate::northbound::call::Asked;
use crate::northbound::names;
use crate::northbound::routes::{Access, Answering, Entry, Handler, Route};
use axum::response::Response;
use catena_model::Role::{self, Admin, Operator, Tenant, Viewer};
use std::sync::Arc;

/// Every route; what is not here is not answered.
pub(in crate::northbound) fn routes() -> Vec<Entry> {
    let project = "/v2.0/quotas/{project}";
    let versions = Route { method: "GET", path: "/", access: Access::Open };
    let mut routes = vec![
        entry(versions, true, Handler::Open(documents::versions)),
        shown("/v2.0", Viewer, documents::index),
        shown("/v2.0/extensions", Viewer, documents::extensions),
        shown("/v2.0/extensions/{extension}", Viewer, documents::extension),
        shown("/v2.0/quotas", Operator, quotas::list),
        shown(project, Viewer, quotas::show),
        route("PUT", project, Admin, false, quotas::set),
        route("DELETE", project, Admin, false, quotas::reset),
        shown("/v2.0/quotas/{project}/default", Viewer, quotas::defaults),
        shown("/v2.0/quotas/{project}/details", Viewer, quotas::details),
    ];
    routes.extend(KINDS.iter().flat_map(of_kind));
    routes
}

/// The routes of a kind of resource; a draft holds whatever changes it.
fn of_kind(kind: &'static Kind) -> [Entry; 5] {
    [
        shown(kind.path, Viewer, move |asked| resources::list(kind, asked)),
        route("POST", kind.path, Tenant, true, move |asked| resources::create(kind, asked)),
        shown(kind.item, Viewer, move |asked| resources::show(kind, asked)),
        route("PUT", kind.item, Tenant, true, move |asked| resources::update(kind, asked)),
        route("DELETE", kind.item, Tenant, true, move |asked| resources::delete(kind, asked)),
    ]
}

/// What only reads is done on the copy, if a request names a draft.
fn shown<A>(
    path: &'static str,
    least: Role,
    answer: impl Fn(Asked) -> A + Send + Sync + 'static,
) -> Entry
where
    A: Future<Output = Result<Response, ApiError>> + Send + 'static,
{
    route("GET", path, least, true, answer)
}

fn route<A>(
    method: &'static str,
    path: &'static str,
    least: Role,
    is_in_drafts: bool,
    answer: impl Fn(Asked) -> A + Send + Sync + 'static,
) -> Entry
where
    A: Future<Output = Result<Response, ApiError>> + Send + 'static,
{
    let answer = move |asked: Asked| -> Answering {
        let (app, asker) = (Arc::clone(&asked.app), asked.identity.clone());
        let wants_names = asked.call.headers.contains_key(names::HEADER);
        let answer = answer(asked);
        Box::pin(async move {
            let answer = answer.await;
            let told = |error: ApiError| error.told_to(&app, &asker, wants_names).into_response();
            numbered(answer.unwrap_or_else(told))
        })
    };
    let route = Route { method, path, access: Access::Least(least) };
    entry(route, is_in_drafts, Handler::Whole(Box::new(answer)))
}

const fn entry(route: Route, is_in_drafts: bool, handler: Handler) -> Entry {
    Entry { route, is_in_drafts, body_bytes_max: BODY_BYTES_MAX, handler }
}
