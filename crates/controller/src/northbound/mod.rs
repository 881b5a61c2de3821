//! The HTTP server: one server for networking-sfc (`/v2.0`), the native API (`/v1`) and metrics.
//!
//! Knows paths, bounds of requests and who may pass. Refuses to know any resource.

mod answers;
mod app;
mod body;
mod call;
mod drafts;
mod hosts;
mod names;
mod native;
mod networking_sfc;
mod quotas;
mod routes;
mod seats;
mod serve;

pub(crate) use app::App;
pub(crate) use quotas::Quotas;
pub use routes::{Access, Route, routes};
pub(crate) use seats::Seats;
pub(crate) use serve::serve;

use crate::auth::{Identity, Refusal};
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use call::{Call, Peer, pairs, parts, scheme};
use drafts::Maker;
use std::sync::Arc;

/// Requests of one project, where projects are told apart, that may be sent or wait for their answer at
/// a time: no project takes the connections that another needs.
const REQUESTS_OF_PROJECT_MAX: usize = 64;

async fn answer(State(app): State<Arc<App>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let peer = head.extensions.get().map(|Peer(address)| *address);
    if !app.guard.accepts_host(&head.headers) {
        return native::foreign_host();
    }
    let mut call = Call {
        method: if head.method == Method::HEAD { Method::GET } else { head.method.clone() },
        path: parts(head.uri.path()),
        query: pairs(head.uri.query().unwrap_or_default()),
        scheme: scheme(peer, &app.trusted_proxies, &head.headers),
        headers: head.headers,
        body: Ok(Bytes::new()),
    };
    networking_sfc::drop_suffix(&mut call.path);
    let route = routes::find(&call.method, &call.path);
    if route.is_some_and(|route| route.access == Access::Open) {
        return networking_sfc::versions(&call);
    }
    let identity = match app.guard.identify(&call.headers).await {
        Ok(identity) => identity,
        Err(refusal) => {
            serve::note_refusal(&refusal, peer, &head.method, head.uri.path());
            return refuse(&call, refusal);
        }
    };
    let draft = drafts::named(&call.headers);
    let app = match draft {
        None => app,
        Some(id) => match app.in_draft(id, &Maker::of(&call.headers, &identity)) {
            Some(draft) => Arc::new(draft),
            None => return native::no_draft(id),
        },
    };
    let Some(route) = route else { return unknown(&call) };
    if route.access > Access::Least(identity.role) {
        return forbid(&app, &route, call, identity).await;
    }
    if draft.is_some() && !routes::is_in_drafts(&route) {
        return refuse_in_draft(&call, &route);
    }
    if native::is_bulk(&call) {
        return native::bulk(&app, &call, identity, body);
    }
    let share = (!app.guard.is_open()).then_some(REQUESTS_OF_PROJECT_MAX);
    let Ok(_seat) = app.requests.sit(&identity.project, share, usize::MAX) else {
        return refuse(&call, too_many());
    };
    call.body = body::read(body).await;
    carry_out(&app, call, identity).await
}

async fn carry_out(app: &Arc<App>, call: Call, identity: Identity) -> Response {
    if is_native(&call) {
        native::answer(app, &call, &identity).await
    } else {
        networking_sfc::answer(app, call, identity).await
    }
}

fn is_native(call: &Call) -> bool {
    call.path.first().is_some_and(|part| part != "v2.0")
}

/// The answer to who is known but may not: of an object that he may not even see, that there is
/// none, and the same as of one that there is not.
async fn forbid(app: &Arc<App>, route: &Route, mut call: Call, identity: Identity) -> Response {
    let needed = match route.access {
        Access::Least(role) => role.name(),
        Access::Open => "any",
    };
    let refusal = Refusal::Forbidden(format!(
        "{} {} needs the role '{needed}' or a higher one, and this token has '{}'; ask an \
         administrator for one that has it.",
        route.method, route.path, identity.role
    ));
    let refused = refuse(&call, refusal);
    let Some(parts) = routes::object_parts(route) else { return refused };
    call.path.truncate(parts);
    call.method = Method::GET;
    call.query.clear();
    let look = routes::find(&call.method, &call.path);
    if look.is_none_or(|look| look.access > Access::Least(identity.role)) {
        return refused;
    }
    let seen = carry_out(app, call, identity).await;
    if seen.status() == StatusCode::NOT_FOUND { seen } else { refused }
}

/// Why nothing is done for a project that waits for so many answers.
fn too_many() -> Refusal {
    Refusal::Unavailable(format!(
        "{REQUESTS_OF_PROJECT_MAX} other requests of your project are sent or wait for their answers \
         at this time; wait for one of them"
    ))
}

/// The answer to a request that is not looked into.
fn refuse(call: &Call, refusal: Refusal) -> Response {
    let challenge = match &refusal {
        Refusal::Unauthenticated { challenge, .. } => HeaderValue::from_str(challenge).ok(),
        Refusal::Forbidden(_) | Refusal::Unavailable(_) => None,
    };
    let mut response =
        if is_native(call) { native::refuse(refusal) } else { networking_sfc::refuse(refusal) };
    if let Some(challenge) = challenge {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    }
    response
}

/// The answer to a request in a draft that no draft could keep from being carried out.
fn refuse_in_draft(call: &Call, route: &Route) -> Response {
    let what = format!(
        "{} {} is about what no draft holds and would be carried out at once; send it without \
         Catena-Draft.",
        route.method, route.path
    );
    if is_native(call) { native::bad_request(what) } else { networking_sfc::bad_request(what) }
}

/// The answer where there is no such route, or it has no such method.
fn unknown(call: &Call) -> Response {
    if is_native(call) {
        native::unknown(call, routes::is_known(&call.path))
    } else {
        networking_sfc::unknown(call)
    }
}
