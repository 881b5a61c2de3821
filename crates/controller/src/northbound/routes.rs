//! What a route is made of, and which of them a request takes. Knows methods, paths and what each asks
//! of who calls it; refuses to know what is done.
//!
//! What no dialect gives as a route is not answered, whatever the code behind it could do: nobody can
//! forget to guard one.

use super::call::{Asked, Call};
use axum::body::Body;
use axum::http::Method;
use axum::response::Response;
use catena_model::Role;
use std::collections::BTreeMap;
use std::pin::Pin;

/// What a route asks of who calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// Nothing: what it tells is no secret.
    Open,
    /// At least this role.
    Least(Role),
}

/// One method of one path. `HEAD` is answered as `GET`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The method.
    pub method: &'static str,
    /// The path; a part in braces stands for one object, and says of which kind.
    pub path: &'static str,
    /// What it asks.
    pub access: Access,
}

/// An answer to come.
pub(super) type Answering = Pin<Box<dyn Future<Output = Response> + Send>>;

/// Who answers a call.
pub(super) enum Handler {
    /// Answers whoever calls.
    Open(fn(&Call) -> Response),
    /// Answers a call that has come whole.
    Whole(Box<dyn Fn(Asked) -> Answering + Send + Sync>),
    /// Answers a call whose body is yet to come.
    Streamed(fn(Asked, Body) -> Response),
}

/// A route and who answers there.
pub(super) struct Entry {
    pub(super) route: Route,
    /// Is it carried out on the copy alone, when a request names a draft?
    pub(super) is_in_drafts: bool,
    /// Largest body, in bytes.
    pub(super) body_bytes_max: usize,
    pub(super) handler: Handler,
}

/// The routes of each path.
pub(super) struct Paths(matchit::Router<At>);

/// What there is at a path.
struct At {
    entries: Vec<&'static Entry>,
    /// Which of its parts is a name.
    name: Option<usize>,
}

/// What there is where a request went.
#[derive(Default)]
pub(super) struct Place<'p> {
    /// Its routes; none: there is no such path.
    entries: &'p [&'static Entry],
    /// What stands where the path has braces.
    pub(super) name: String,
}

impl Paths {
    pub(super) fn new(entries: &'static [Entry]) -> Self {
        let mut paths: BTreeMap<&str, Vec<&Entry>> = BTreeMap::new();
        for entry in entries {
            paths.entry(entry.route.path).or_default().push(entry);
        }
        let mut router = matchit::Router::new();
        for (path, entries) in paths {
            let name = path.split('/').skip(1).position(|part| part.starts_with('{'));
            if let Err(why) = router.insert(path, At { entries, name }) {
                tracing::error!("nothing is answered at {path}: {why}");
            }
        }
        Self(router)
    }

    /// What there is at a path of these parts.
    pub(super) fn at(&self, parts: &[String]) -> Place<'_> {
        let path: String = parts.iter().flat_map(|part| ["/", spelt(part)]).collect();
        let Ok(found) = self.0.at(if path.is_empty() { "/" } else { &path }) else {
            return Place::default();
        };
        let name = found.value.name.and_then(|place| parts.get(place));
        Place { entries: &found.value.entries, name: name.cloned().unwrap_or_default() }
    }

    /// The route that shows the one object that a route is about.
    pub(super) fn look(&self, route: Route) -> Option<&'static Entry> {
        // A path with braces fits itself: they are a name as good as any.
        let item = route.path.get(..=route.path.rfind('}')?)?;
        let found = self.0.at(item).ok()?;
        found.value.entries.iter().copied().find(|entry| entry.route.method == "GET")
    }
}

/// A part as it can be matched: one that is empty or holds a slash is a name, whatever stands for it,
/// and no word of a path.
fn spelt(part: &str) -> &str {
    if part.is_empty() || part.contains('/') { "{}" } else { part }
}

impl Place<'_> {
    /// Has the path a method at all?
    pub(super) fn is_known(&self) -> bool {
        !self.entries.is_empty()
    }

    /// The route of a method.
    pub(super) fn entry(&self, method: &Method) -> Option<&'static Entry> {
        self.entries.iter().copied().find(|entry| entry.route.method == method.as_str())
    }
}
