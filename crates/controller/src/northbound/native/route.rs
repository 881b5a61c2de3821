//! What a route of the native API is, with what is told of it. Refuses to know which there are.

use super::problem::Problem;
use super::view::View;
use crate::northbound::answers::JSON;
use crate::northbound::body::BODY_BYTES_MAX;
use crate::northbound::call::Asked;
use crate::northbound::routes::{self, Access, Answering, Entry, Handler};
use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Response;
use catena_model::Role;
use std::collections::BTreeMap;
use std::pin::Pin;
use utoipa::openapi::{RefOr, Schema};

/// Descriptions of types, by their names.
pub(super) type Schemas = BTreeMap<String, RefOr<Schema>>;

/// Describes a type, and all that it holds.
pub(super) type Describe = fn(&mut Schemas) -> RefOr<Schema>;

/// Answers a call that has come whole.
pub(super) type Answer =
    for<'v> fn(&'v View) -> Pin<Box<dyn Future<Output = Result<Response, Problem>> + Send + 'v>>;

/// One method of one path.
pub(super) struct Route {
    pub(super) method: &'static str,
    /// The path; a part in braces is a name.
    pub(super) path: &'static str,
    /// The least that somebody must be to pass.
    pub(super) least: Role,
    /// What it does, in one word and in one line.
    pub(super) name: &'static str,
    pub(super) summary: &'static str,
    /// A number that may stand behind the question mark, and what for.
    pub(super) number: Option<(&'static str, &'static str)>,
    /// The body that a request must have: its media type and what it holds.
    pub(super) takes: Option<(&'static str, Describe)>,
    pub(super) status: StatusCode,
    /// The body of the answer.
    pub(super) answers: Option<(&'static str, Describe)>,
    is_in_drafts: bool,
    body_bytes_max: usize,
    by: By,
}

#[derive(Clone, Copy)]
enum By {
    Whole(Answer),
    Streamed(fn(Asked, Body) -> Response),
}

/// A route of a call that comes whole.
pub(super) const fn route(
    method: &'static str,
    path: &'static str,
    least: Role,
    answer: Answer,
) -> Route {
    of(method, path, least, By::Whole(answer))
}

/// A route of a call that is answered while its body comes.
pub(super) const fn streamed(
    path: &'static str,
    least: Role,
    answer: fn(Asked, Body) -> Response,
) -> Route {
    of("POST", path, least, By::Streamed(answer))
}

/// Nothing is in its answer, and no draft holds it unless it only reads.
const fn of(method: &'static str, path: &'static str, least: Role, by: By) -> Route {
    Route {
        method,
        path,
        least,
        name: "",
        summary: "",
        number: None,
        takes: None,
        status: StatusCode::NO_CONTENT,
        answers: None,
        is_in_drafts: matches!(method.as_bytes(), b"GET"),
        body_bytes_max: BODY_BYTES_MAX,
        by,
    }
}

impl Route {
    pub(super) const fn named(self, name: &'static str, summary: &'static str) -> Self {
        Self { name, summary, ..self }
    }

    pub(super) const fn number(self, name: &'static str, summary: &'static str) -> Self {
        Self { number: Some((name, summary)), ..self }
    }

    pub(super) const fn takes(self, body: Describe) -> Self {
        self.takes_as(JSON, body)
    }

    pub(super) const fn takes_as(self, kind: &'static str, body: Describe) -> Self {
        Self { takes: Some((kind, body)), ..self }
    }

    pub(super) const fn answers(self, body: Describe) -> Self {
        self.answers_as(JSON, body)
    }

    pub(super) const fn answers_as(self, kind: &'static str, body: Describe) -> Self {
        Self { status: StatusCode::OK, answers: Some((kind, body)), ..self }
    }

    /// It makes what it answers.
    pub(super) const fn creates(self, body: Describe) -> Self {
        Self { status: StatusCode::CREATED, ..self.answers(body) }
    }

    /// Is it carried out on the copy alone, when a request names a draft?
    pub(super) const fn in_drafts(self, is_in_drafts: bool) -> Self {
        Self { is_in_drafts, ..self }
    }

    /// Its body may have so many bytes.
    pub(super) const fn up_to(self, body_bytes_max: usize) -> Self {
        Self { body_bytes_max, ..self }
    }

    /// The same, as a request meets it.
    pub(super) fn entry(&self) -> Entry {
        let Self { method, path, least, status, is_in_drafts, body_bytes_max, by, .. } = *self;
        let handler = match by {
            By::Streamed(answer) => Handler::Streamed(answer),
            By::Whole(answer) => Handler::Whole(Box::new(move |asked| -> Answering {
                Box::pin(async move {
                    let view = View::new(asked, status);
                    let told = |problem: Problem| {
                        problem.told_to(&view.app, &view.identity).into_response()
                    };
                    answer(&view).await.unwrap_or_else(told)
                })
            })),
        };
        let route = routes::Route { method, path, access: Access::Least(least) };
        Entry { route, is_in_drafts, body_bytes_max, handler }
    }
}
