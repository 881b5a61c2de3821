//! The HTTP server: one server for networking-sfc (`/v2.0`), the native API (`/v1`) and metrics.
//!
//! Knows paths, bounds of requests and who may pass. Refuses to know any resource.

pub(crate) mod body;
mod drafts;
mod hosts;
mod names;
mod native;
mod networking_sfc;
mod routes;
mod seats;
mod serve;

use drafts::{Drafts, Maker};
pub(crate) use networking_sfc::{DRAFT, Quotas, SLICE, WATCHER};
pub use routes::{Access, Route, routes};
pub(crate) use seats::Seats;
pub(crate) use serve::serve;

use crate::auth::{Guard, Identity, Refusal};
use crate::config::Overlap;
use crate::declared::Declared;
use crate::reconcile::receipts::Receipts;
use crate::reconcile::{Signals, Situation};
use crate::southbound::collector::Collector;
use crate::southbound::fleet::Fleet;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use body::Broken;
use catena_store::StoreError;
use ipnet::IpNet;
use serde_json::Value;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Largest request body, in bytes.
pub(crate) const BODY_BYTES_MAX: usize = 1024 * 1024;
/// Requests of one project, where projects are told apart, that may be sent or wait for their answer at
/// a time: no project takes the connections that another needs.
const REQUESTS_OF_PROJECT_MAX: usize = 64;

/// What requests are answered from.
pub(crate) struct App {
    pub(crate) declared: Arc<Declared>,
    pub(crate) situation: watch::Receiver<Situation>,
    pub(crate) receipts: watch::Receiver<Arc<Receipts>>,
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) collector: Arc<Collector>,
    pub(crate) signals: Signals,
    pub(crate) guard: Arc<Guard>,
    /// How long a chain request waits for nodes that do not answer.
    pub(crate) answer_wait: Duration,
    pub(crate) overlap: Overlap,
    pub(crate) watchers: Seats,
    pub(crate) drafts: Arc<Drafts>,
    pub(crate) quotas: Arc<Quotas>,
    pub(crate) bulks: Seats,
    pub(crate) requests: Seats,
    pub(crate) trusted_proxies: Arc<[IpNet]>,
}

impl App {
    /// The same, but what is declared is a draft. Nobody waits for nodes: they hear nothing of it.
    fn in_draft(&self, id: &str, maker: &Maker) -> Option<Self> {
        Some(Self {
            declared: self.drafts.get(id, maker)?.declared,
            situation: self.situation.clone(),
            receipts: self.receipts.clone(),
            fleet: Arc::clone(&self.fleet),
            collector: Arc::clone(&self.collector),
            signals: self.signals.clone(),
            guard: Arc::clone(&self.guard),
            answer_wait: Duration::ZERO,
            overlap: self.overlap,
            watchers: self.watchers.clone(),
            drafts: Arc::clone(&self.drafts),
            quotas: Arc::clone(&self.quotas),
            bulks: self.bulks.clone(),
            requests: self.requests.clone(),
            trusted_proxies: Arc::clone(&self.trusted_proxies),
        })
    }
}

/// A request, read whole.
pub(crate) struct Call {
    pub(crate) method: Method,
    /// The parts of the path, percent-decoded.
    pub(crate) path: Vec<String>,
    pub(crate) query: Vec<(String, String)>,
    pub(crate) headers: HeaderMap,
    /// Empty until it is read; or why it did not come whole.
    pub(crate) body: Result<Bytes, Broken>,
    /// By which the client called, as far as we may believe it.
    pub(crate) scheme: &'static str,
}

impl Call {
    /// Is the body declared to be JSON?
    fn has_json(&self) -> bool {
        self.has_kind("application/json")
    }

    /// Is the body declared to be of a media type?
    fn has_kind(&self, kind: &str) -> bool {
        let declared = self.headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok());
        let essence = declared.and_then(|text| text.split(';').next());
        essence.is_some_and(|text| text.trim().eq_ignore_ascii_case(kind))
    }
}

/// What is known of a request beside what is in it.
#[derive(Clone, Copy, Debug)]
struct Peer(IpAddr);

async fn answer(State(app): State<Arc<App>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let peer = head.extensions.get().map(|Peer(address)| *address);
    if !app.guard.accepts_host(&head.headers) {
        return native::foreign_host();
    }
    let mut call = Call {
        method: if head.method == Method::HEAD { Method::GET } else { head.method.clone() },
        path: head.uri.path().split('/').filter(|part| !part.is_empty()).map(decode).collect(),
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

/// The scheme by which a client called: what a proxy in front of us says of it, if we may believe that
/// proxy.
fn scheme(peer: Option<IpAddr>, trusted: &[IpNet], headers: &HeaderMap) -> &'static str {
    let is_trusted = peer
        .is_some_and(|peer| trusted.iter().any(|proxies| proxies.contains(&peer.to_canonical())));
    let said = headers.get_all("x-forwarded-proto").iter().next_back();
    let said = said.filter(|_| is_trusted).and_then(|said| said.to_str().ok());
    // The last of several is the nearest proxy's.
    match said.and_then(|said| said.rsplit(',').next()).map(str::trim) {
        Some(said) if said.eq_ignore_ascii_case("https") => "https",
        _ => "http",
    }
}

/// A JSON answer.
pub(crate) fn json(status: StatusCode, content_type: &'static str, body: &Value) -> Response {
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// What an answer's status says of a change that the store did not take.
fn store_status(error: &StoreError) -> StatusCode {
    match error {
        StoreError::Full(_) => StatusCode::INSUFFICIENT_STORAGE,
        StoreError::Conflict { .. } => StatusCode::CONFLICT,
        StoreError::Overloaded(_) => StatusCode::SERVICE_UNAVAILABLE,
        StoreError::TooManyWrites(_) | StoreError::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

fn pairs(query: &str) -> Vec<(String, String)> {
    let parts = query.split('&').filter(|part| !part.is_empty());
    let split = |part: &str| {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        (decode(&key.replace('+', " ")), decode(&value.replace('+', " ")))
    };
    parts.map(split).collect()
}

/// Percent-decoding (RFC 3986 section 2.1); what is no escape stays as it is.
fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let escaped = tail
            .get(..2)
            .filter(|_| *first == b'%')
            .and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        bytes.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { tail.get(2..).unwrap_or_default() } else { tail };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_and_paths_are_decoded_and_broken_escapes_stay() {
        assert_eq!(decode("a%20b%2Fc"), "a b/c");
        for broken in ["%", "%2", "%zz", "100%"] {
            assert_eq!(decode(broken), broken);
        }
        let expected = [("name", "a b"), ("x", ""), ("y", "1=2")];
        let expected: Vec<_> = expected.map(|(k, v)| (k.into(), v.into())).into();
        assert_eq!(pairs("name=a+b&x&&y=1=2"), expected);
    }

    #[test]
    fn only_a_trusted_proxy_says_how_a_client_called() {
        let trusted: [IpNet; 2] = ["192.0.2.0/24".parse().unwrap(), "::1/128".parse().unwrap()];
        let by = |peer: &str, said: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("x-forwarded-proto", HeaderValue::from_str(said).unwrap());
            scheme(Some(peer.parse().unwrap()), &trusted, &headers)
        };
        for peer in ["192.0.2.7", "::ffff:192.0.2.7", "::1"] {
            assert_eq!(by(peer, "https"), "https", "{peer}");
        }
        assert_eq!(by("192.0.2.7", "HTTPS"), "https");
        assert_eq!(by("192.0.2.7", "http, https"), "https");
        assert_eq!(by("192.0.2.7", "https, http"), "http", "the nearest proxy's word");
        assert_eq!(by("192.0.2.7", "javascript"), "http");
        assert_eq!(by("203.0.113.1", "https"), "http", "anybody can say so");
        assert_eq!(scheme(Some("192.0.2.7".parse().unwrap()), &trusted, &HeaderMap::new()), "http");
        assert_eq!(scheme(None, &trusted, &HeaderMap::new()), "http");
    }
}
