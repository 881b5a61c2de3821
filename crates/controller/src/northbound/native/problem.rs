//! Problem details (RFC 9457): the error body of everything that is not networking-sfc.

use crate::northbound::json;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;

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

    pub(super) fn ambiguous(detail: String) -> Self {
        Self { status: StatusCode::CONFLICT, title: "Ambiguous name", detail }
    }

    pub(super) fn overloaded(detail: String) -> Self {
        Self { status: StatusCode::SERVICE_UNAVAILABLE, title: "Overloaded", detail }
    }

    pub(super) fn no_draft(id: &str) -> Self {
        let detail = format!("There is no draft '{id}' (any more); open one with POST /v1/plan.");
        Self::not_found(detail)
    }

    pub(super) fn internal(detail: String) -> Self {
        Self { status: StatusCode::INTERNAL_SERVER_ERROR, title: "Internal error", detail }
    }

    pub(super) fn method_not_allowed() -> Self {
        let detail = "Only GET is allowed here; resources are declared below /v2.0.".into();
        Self { status: StatusCode::METHOD_NOT_ALLOWED, title: "Method not allowed", detail }
    }

    pub(super) fn foreign_host() -> Self {
        let detail = "Without authentication only a loopback address or 'localhost' is answered; \
                      ask for one of them, or start the controller with '--auth token'.";
        Self { status: StatusCode::FORBIDDEN, title: "Foreign host", detail: detail.into() }
    }

    pub(super) fn unauthorized() -> Self {
        let detail = "The request carries no valid token; send the admin token in X-Auth-Token.";
        Self { status: StatusCode::UNAUTHORIZED, title: "Unauthorized", detail: detail.into() }
    }

    pub(super) fn into_response(self) -> Response {
        let body = json!({
            "type": "about:blank",
            "title": self.title,
            "status": self.status.as_u16(),
            "detail": self.detail,
        });
        json(self.status, "application/problem+json", &body)
    }
}
