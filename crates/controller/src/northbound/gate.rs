//! What is asked of every request before it is carried out, and in which order. Knows hosts, senders,
//! roles, drafts and seats; refuses to know any resource.

use super::app::App;
use super::call::{Asked, Call, Peer, pairs, parts, scheme};
use super::drafts::{self, Maker};
use super::routes::{Access, Entry, Handler, Paths, Place, Route};
use super::seats::{NoSeat, Seat};
use super::{body, native, networking_sfc};
use crate::auth::Refusal;
use crate::connections::Tally;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use std::net::IpAddr;
use std::sync::{Arc, LazyLock};

/// Requests of one project, where projects are told apart, that may be sent or wait for their answer at
/// a time: no project takes the connections that another needs.
const REQUESTS_OF_PROJECT_MAX: usize = 64;

/// Bodies of more than [`body::BODY_BYTES_MAX`] that are read at a time, and those of one project among them.
const LARGE_BODIES_MAX: usize = 16;
const LARGE_BODIES_OF_PROJECT_MAX: usize = 4;

/// Who came without proving who he is.
static UNKNOWN: LazyLock<Tally> = LazyLock::new(Tally::new);

/// Every route of both dialects: what is not here is not answered.
static ROUTES: LazyLock<Vec<Entry>> =
    LazyLock::new(|| networking_sfc::routes().into_iter().chain(native::routes()).collect());
/// The same, as a path finds them.
static PATHS: LazyLock<Paths> = LazyLock::new(|| Paths::new(&ROUTES));

/// Every route of the API.
pub fn routes() -> impl Iterator<Item = Route> {
    ROUTES.iter().map(|entry| entry.route)
}

/// Answers from what there is.
pub(super) fn router(app: Arc<App>) -> Router {
    LazyLock::force(&PATHS);
    Router::new().fallback(answer).with_state(app)
}

async fn answer(State(app): State<Arc<App>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let peer = head.extensions.get().map(|Peer(address)| *address);
    if !app.guard.accepts_host(&head.headers) {
        return native::foreign_host();
    }
    let method = if head.method == Method::HEAD { &Method::GET } else { &head.method };
    let mut path = parts(head.uri.path());
    networking_sfc::drop_suffix(&mut path);
    let dialect = Dialect::of(&path);
    let mut place = PATHS.at(&path);
    let entry = place.entry(method);
    let call = Call {
        name: std::mem::take(&mut place.name),
        query: pairs(head.uri.query().unwrap_or_default()),
        scheme: scheme(peer, &app.trusted_proxies, &head.headers),
        headers: head.headers,
        body: Ok(Bytes::new()),
    };
    if let Some(Entry { handler: Handler::Open(answer), .. }) = entry {
        return answer(&call);
    }
    let identity = match app.guard.identify(&call.headers).await {
        Ok(identity) => identity,
        Err(refusal) => {
            note_refusal(&refusal, peer, &head.method, head.uri.path());
            return dialect.refuse(refusal);
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
    let is_on_copy = draft.is_some();
    let Some(Entry { route, is_in_drafts, body_bytes_max, handler }) = entry else {
        return dialect.unknown(&place, method, &path);
    };
    let mut asked = Asked { app, call, identity };
    if route.access > Access::Least(asked.identity.role) {
        return forbid(dialect, *route, asked).await;
    }
    if is_on_copy && !is_in_drafts {
        return dialect.refuse_in_draft(*route);
    }
    match handler {
        Handler::Open(answer) => answer(&asked.call),
        Handler::Streamed(answer) => answer(asked, body),
        Handler::Whole(answer) => {
            let share = (!asked.app.guard.is_open()).then_some(REQUESTS_OF_PROJECT_MAX);
            let project = &asked.identity.project;
            let Ok(_seat) = asked.app.requests.sit(project, share, usize::MAX) else {
                return dialect.refuse(too_many());
            };
            let Ok(_large) = seat_if_large(&asked, *body_bytes_max) else {
                return dialect.refuse(too_many_large());
            };
            asked.call.body = body::read(body, *body_bytes_max).await;
            answer(asked).await
        }
    }
}

/// The answer to who is known but may not: of an object that he may not even see, that there is
/// none, and the same as of one that there is not.
async fn forbid(dialect: Dialect, route: Route, mut asked: Asked) -> Response {
    let needed = match route.access {
        Access::Least(role) => role.name(),
        Access::Open => "any",
    };
    let role = asked.identity.role;
    let refused = dialect.refuse(Refusal::Forbidden(format!(
        "{} {} needs the role '{needed}' or a higher one, and this token has '{role}'; ask an \
         administrator for one that has it.",
        route.method, route.path
    )));
    let look = PATHS.look(route).filter(|look| look.route.access <= Access::Least(role));
    let Some(Entry { handler: Handler::Whole(look), .. }) = look else { return refused };
    asked.call.query.clear();
    let seen = look(asked).await;
    if seen.status() == StatusCode::NOT_FOUND { seen } else { refused }
}

/// A seat for a body that may be larger than others: memory for it is bounded by their number.
fn seat_if_large(asked: &Asked, bytes_max: usize) -> Result<Option<Seat>, NoSeat> {
    if bytes_max <= body::BODY_BYTES_MAX {
        return Ok(None);
    }
    let project = &asked.identity.project;
    let seats = &asked.app.large_bodies;
    seats.sit(project, Some(LARGE_BODIES_OF_PROJECT_MAX), LARGE_BODIES_MAX).map(Some)
}

fn too_many_large() -> Refusal {
    Refusal::Unavailable(format!(
        "{LARGE_BODIES_OF_PROJECT_MAX} rule sets of your project, or {LARGE_BODIES_MAX} of all, are being sent at \
         this time; wait for one of them"
    ))
}

/// Why nothing is done for a project that waits for so many answers.
fn too_many() -> Refusal {
    Refusal::Unavailable(format!(
        "{REQUESTS_OF_PROJECT_MAX} other requests of your project are sent or wait for their answers \
         at this time; wait for one of them"
    ))
}

/// Tells the log who was not let in; never what he showed.
fn note_refusal(refusal: &Refusal, peer: Option<IpAddr>, method: &Method, path: &str) {
    if !matches!(refusal, Refusal::Unauthenticated { .. }) {
        return;
    }
    let peer = peer.map_or_else(|| "an unknown address".into(), |peer| peer.to_string());
    UNKNOWN.note(|count| {
        format!("{count} requests without a valid token were refused, the last from {peer}: {method} {path:.200}")
    });
}

/// In whose words a request is refused.
#[derive(Clone, Copy)]
enum Dialect {
    Native,
    NetworkingSfc,
}

impl Dialect {
    /// That of a path, whether there is such a path or not.
    fn of(path: &[String]) -> Self {
        match path.first() {
            Some(part) if part != networking_sfc::ROOT => Self::Native,
            _ => Self::NetworkingSfc,
        }
    }

    /// The answer to a request that is not looked into.
    fn refuse(self, refusal: Refusal) -> Response {
        let challenge = match &refusal {
            Refusal::Unauthenticated { challenge, .. } => HeaderValue::from_str(challenge).ok(),
            Refusal::Forbidden(_) | Refusal::Unavailable(_) => None,
        };
        let mut response = match self {
            Self::Native => native::refuse(refusal),
            Self::NetworkingSfc => networking_sfc::refuse(refusal),
        };
        if let Some(challenge) = challenge {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        }
        response
    }

    /// The answer to a request in a draft that no draft could keep from being carried out.
    fn refuse_in_draft(self, route: Route) -> Response {
        let what = format!(
            "{} {} is about what no draft holds and would be carried out at once; send it without \
             Catena-Draft.",
            route.method, route.path
        );
        match self {
            Self::Native => native::bad_request(what),
            Self::NetworkingSfc => networking_sfc::bad_request(what),
        }
    }

    /// The answer where there is no such route, or it has no such method.
    fn unknown(self, place: &Place<'_>, method: &Method, path: &[String]) -> Response {
        match self {
            Self::Native => native::unknown(place, path),
            Self::NetworkingSfc => networking_sfc::unknown(place, method),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The path of the route that a request takes, and the name in it.
    fn found(method: &Method, path: &str) -> Option<(&'static str, String)> {
        let place = PATHS.at(&parts(path));
        Some((place.entry(method)?.route.path, place.name))
    }

    #[test]
    fn a_path_is_found_whole_or_not_at_all() {
        let chain = Some(("/v2.0/sfc/port_chains/{port_chain}", "a".to_owned()));
        assert_eq!(found(&Method::GET, "/"), Some(("/", String::new())));
        assert_eq!(found(&Method::GET, "/v1/chains"), Some(("/v1/chains", String::new())));
        assert_eq!(found(&Method::GET, "/v2.0/sfc/port_chains/a"), chain);
        assert_eq!(found(&Method::GET, "//v2%2E0/sfc/port_chains//a/"), chain);
        for path in ["/v1", "/v2.0/sfc", "/v2.0/sfc/port_chains/a/b", "/v1/chains/a/receipt/b"] {
            assert_eq!(found(&Method::GET, path), None, "{path}");
            assert!(!PATHS.at(&parts(path)).is_known(), "{path}");
        }
        for (method, path) in [
            (Method::PATCH, "/v2.0/ports/a"),
            (Method::POST, "/v1/chains"),
            (Method::DELETE, "/v1/status"),
            (Method::GET, "/v1/chains/a/check"),
        ] {
            assert_eq!(found(&method, path), None, "{path}");
            assert!(PATHS.at(&parts(path)).is_known(), "{path}");
        }
    }

    #[test]
    fn a_name_is_what_was_sent_whatever_is_in_it() {
        let receipt = |name: &str| Some(("/v1/chains/{chain}/receipt", name.to_owned()));
        for (sent, name) in [("web", "web"), ("a%2Fb", "a/b"), ("%2F", "/"), ("%7B%7D", "{}")] {
            assert_eq!(found(&Method::GET, &format!("/v1/chains/{sent}/receipt")), receipt(name));
        }
        assert_eq!(found(&Method::GET, "/v1%2Fchains"), None, "an escaped slash parts nothing");
        let nameless = ["v2.0", "ports", ""].map(str::to_owned);
        assert_eq!(
            PATHS.at(&nameless).entry(&Method::GET).unwrap().route.path,
            "/v2.0/ports/{port}"
        );
    }

    #[test]
    fn an_object_is_looked_at_where_its_path_ends_with_its_name() {
        let look = |path| {
            let entry = PATHS.at(&parts(path)).entry(&Method::GET).unwrap();
            PATHS.look(entry.route).map(|look| look.route.path)
        };
        assert_eq!(look("/v1/chains"), None);
        assert_eq!(look("/v1/chains/a"), Some("/v1/chains/{chain}"));
        assert_eq!(look("/v1/chains/a/receipt"), Some("/v1/chains/{chain}"));
        assert_eq!(look("/v2.0/quotas/a/details"), Some("/v2.0/quotas/{project}"));
    }

    #[test]
    fn no_route_hides_another() {
        for route in routes() {
            let entry = PATHS.at(&parts(route.path)).entry(&route.method.parse().unwrap());
            assert_eq!(entry.unwrap().route, route);
        }
    }
}
