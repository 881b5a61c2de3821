//! Problem details (RFC 9457): the error body of everything that is not networking-sfc.

use crate::auth::{Identity, Refusal};
use crate::northbound::answers::{json, store_status};
use crate::northbound::app::App;
use crate::northbound::body::Broken;
use crate::northbound::networking_sfc::PortRefusal;
use crate::northbound::quotas::RULE_SET;
use crate::northbound::{hosts, names, rule_sets, templates};
use axum::http::StatusCode;
use axum::response::Response;
use catena_model::preview::MOVED_ON;
use catena_plan::PlanError;
use catena_store::{Revision, StoreError};
use serde_json::{Map, Value, json};

/// The media type of problems.
pub(super) const PROBLEM: &str = "application/problem+json";

/// Why a request is refused.
#[derive(Debug)]
pub(super) struct Problem {
    status: StatusCode,
    title: &'static str,
    detail: String,
}

impl Problem {
    pub(super) fn not_found(detail: String) -> Self {
        Self { status: StatusCode::NOT_FOUND, title: "Not found", detail }
    }

    pub(super) fn bad_request(detail: String) -> Self {
        Self { status: StatusCode::BAD_REQUEST, title: "Bad request", detail }
    }

    pub(super) fn ambiguous(detail: String) -> Self {
        Self { status: StatusCode::CONFLICT, title: "Ambiguous name", detail }
    }

    pub(super) fn overloaded(detail: String) -> Self {
        Self { status: StatusCode::SERVICE_UNAVAILABLE, title: "Overloaded", detail }
    }

    pub(super) fn conflict(detail: String) -> Self {
        Self { status: StatusCode::CONFLICT, title: "Conflict", detail }
    }

    /// The project has as many of them as it may.
    pub(super) fn over_quota(kind: &str) -> Self {
        Self::conflict(format!(
            "Quota exceeded for resources: ['{kind}']. Remove what is not needed, or ask an \
             administrator for more (PUT /v2.0/quotas)."
        ))
    }

    pub(super) fn gone() -> Self {
        Self::not_found("Somebody removed it meanwhile.".into())
    }

    /// A plan was made of what is no longer declared so.
    pub(super) fn moved_on(detail: String) -> Self {
        Self { status: StatusCode::CONFLICT, title: MOVED_ON, detail }
    }

    /// The changes after a revision are not known any more.
    pub(super) fn forgotten(after: Revision, oldest: Revision) -> Self {
        let detail = format!(
            "What changed after revision {after} is forgotten; what changed after {oldest} is known. \
             List everything, and watch without 'after' from then on."
        );
        Self { status: StatusCode::GONE, title: "Forgotten", detail }
    }

    pub(super) fn bad_body(reason: &str) -> Self {
        let detail = format!("The body is not what this resource takes: {reason}.");
        Self { status: StatusCode::BAD_REQUEST, title: "Bad request", detail }
    }

    pub(super) fn not_json() -> Self {
        let detail = "The body must be JSON, and say so: Content-Type: application/json.".into();
        Self { status: StatusCode::UNSUPPORTED_MEDIA_TYPE, title: "Not JSON", detail }
    }

    pub(super) fn not_octets() -> Self {
        let detail = "The body must be the text of a rule set, and say so: Content-Type: \
                      application/octet-stream.";
        let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        Self { status, title: "Not octets", detail: detail.into() }
    }

    pub(super) fn not_ndjson() -> Self {
        let detail = "The body must be JSON objects, one a line, and say so: Content-Type: \
                      application/x-ndjson.";
        let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        Self { status, title: "Not NDJSON", detail: detail.into() }
    }

    /// The body of a request did not come whole.
    pub(super) fn broken(why: Broken) -> Self {
        let (status, title) = match why {
            Broken::TooLarge(_) => (StatusCode::PAYLOAD_TOO_LARGE, "Too large"),
            Broken::Malformed => (StatusCode::BAD_REQUEST, "Bad request"),
            Broken::Slow => (StatusCode::REQUEST_TIMEOUT, "Too slow"),
        };
        Self { status, title, detail: why.advice() }
    }

    pub(super) fn no_draft(id: &str) -> Self {
        let detail = format!("There is no draft '{id}' (any more); open one with POST /v1/plan.");
        Self::not_found(detail)
    }

    pub(super) fn internal(detail: String) -> Self {
        Self { status: StatusCode::INTERNAL_SERVER_ERROR, title: "Internal error", detail }
    }

    pub(super) fn method_not_allowed() -> Self {
        let detail =
            "This method is not allowed here; GET /v1/openapi.json tells which are.".into();
        Self { status: StatusCode::METHOD_NOT_ALLOWED, title: "Method not allowed", detail }
    }

    pub(super) fn foreign_host() -> Self {
        let detail = "Without authentication only a loopback address or 'localhost' is answered; \
                      ask for one of them, or start the controller with '--auth token'.";
        Self { status: StatusCode::FORBIDDEN, title: "Foreign host", detail: detail.into() }
    }

    /// The same, as somebody may read it.
    pub(super) fn told_to(mut self, app: &App, identity: &Identity) -> Self {
        if !identity.sees_all() {
            self.detail = hosts::in_sentence(&self.detail, &app.situation.borrow());
        }
        // What is not found is told as it was asked for.
        if self.status == StatusCode::NOT_FOUND {
            return self;
        }
        let intent = app.declared.snapshot().intent;
        self.detail = names::in_sentence(&self.detail, &intent, identity).into_owned();
        self
    }

    pub(super) fn into_response(self) -> Response {
        json(self.status, PROBLEM, &self.body())
    }

    /// The answer to one of several lines.
    pub(super) fn told(&self) -> Map<String, Value> {
        let status = ("status".to_owned(), json!(self.status.as_u16()));
        Map::from_iter([status, ("problem".to_owned(), self.body())])
    }

    fn body(&self) -> Value {
        json!({
            "type": "about:blank",
            "title": self.title,
            "status": self.status.as_u16(),
            "detail": self.detail,
        })
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let detail = refusal.to_string();
        let (status, title) = match refusal {
            Refusal::Unauthenticated { .. } => (StatusCode::UNAUTHORIZED, "Unauthorized"),
            Refusal::Forbidden(_) => (StatusCode::FORBIDDEN, "Forbidden"),
            Refusal::Unavailable(_) => (StatusCode::SERVICE_UNAVAILABLE, "Unavailable"),
        };
        Self { status, title, detail }
    }
}

impl From<templates::Refusal> for Problem {
    fn from(refusal: templates::Refusal) -> Self {
        match refusal {
            templates::Refusal::Template(why) => Self::bad_body(&format!("'template': {why}")),
            templates::Refusal::Port(PortRefusal::Quota(kind)) => Self::over_quota(kind),
            templates::Refusal::InUse(why)
            | templates::Refusal::NoHost(why)
            | templates::Refusal::Port(PortRefusal::Addresses(why)) => Self::conflict(why),
            templates::Refusal::Store(error) => error.into(),
        }
    }
}

impl From<rule_sets::Refusal> for Problem {
    fn from(refusal: rule_sets::Refusal) -> Self {
        match refusal {
            rule_sets::Refusal::Quota => Self::over_quota(RULE_SET),
            rule_sets::Refusal::Bytes(why) => Self::conflict(why),
            rule_sets::Refusal::Missing(why) => Self::bad_body(&format!("'template': {why}")),
            rule_sets::Refusal::Plan(error) => error.into(),
            rule_sets::Refusal::Store(error) => error.into(),
        }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        let (status, detail) = (store_status(&error), error.to_string());
        let title = status.canonical_reason().unwrap_or("Internal error");
        Self { status, title, detail }
    }
}

impl From<PlanError> for Problem {
    fn from(error: PlanError) -> Self {
        Self::conflict(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_store_does_not_take_is_told_with_what_to_do() {
        let problem = Problem::from(StoreError::TooManyWrites(5_000));
        assert_eq!(problem.status, StatusCode::PAYLOAD_TOO_LARGE);
        assert!(problem.detail.contains("5000 writes"), "{}", problem.detail);
        assert!(problem.detail.contains("in parts"), "{}", problem.detail);
        assert_eq!(Problem::from(StoreError::Overloaded(9)).status.as_u16(), 503);
    }
}
