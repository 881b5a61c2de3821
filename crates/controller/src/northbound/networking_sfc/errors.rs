//! The error body of networking-sfc: status, type and message. Clients depend on the first two and
//! show the third to people.

use crate::auth::{Identity, Refusal};
use crate::northbound::answers::{JSON, json, store_status};
use crate::northbound::app::App;
use crate::northbound::body::Broken;
use crate::northbound::{hosts, names};
use axum::http::StatusCode;
use axum::response::Response;
use catena_plan::PlanError;
use catena_store::StoreError;
use serde_json::{Map, Value, json};

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApiError {
    pub(crate) status: StatusCode,
    /// `NeutronError.type`.
    pub(crate) kind: &'static str,
    /// `NeutronError.message`.
    pub(crate) message: String,
}

impl ApiError {
    pub(crate) fn new(status: StatusCode, kind: &'static str, message: impl Into<String>) -> Self {
        Self { status, kind, message: message.into() }
    }

    /// An attribute that cannot be taken as it is.
    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "HTTPBadRequest", message)
    }

    /// A rule of a resource that does not hold.
    pub(crate) fn invalid(kind: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, kind, message)
    }

    /// The value of an attribute is not legal.
    pub(crate) fn attribute(name: &str, reason: impl std::fmt::Display) -> Self {
        Self::bad_request(format!("Invalid input for {name}. Reason: {reason}"))
    }

    /// A value cannot be converted.
    pub(crate) fn conversion(reason: impl std::fmt::Display) -> Self {
        Self::invalid("InvalidInput", format!("Invalid input for operation: {reason}"))
    }

    /// The attribute is another role's to set.
    pub(crate) fn not_authorized(resource: &str, verb: &str, attribute: &str) -> Self {
        let message = format!(
            "rule:{verb}_{resource}:{attribute} is disallowed by policy: it needs the role \
             'operator' or 'admin'. Leave it out, and ask an operator to set it."
        );
        Self::new(StatusCode::FORBIDDEN, "PolicyNotAuthorized", message)
    }

    pub(crate) fn not_found(kind: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, kind, message)
    }

    pub(crate) fn conflict(kind: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, kind, message)
    }

    /// There is nothing of that kind here at all.
    pub(crate) fn no_such_resource() -> Self {
        Self::not_found("HTTPNotFound", "The resource could not be found.")
    }

    pub(crate) fn method_not_allowed() -> Self {
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "HTTPMethodNotAllowed",
            "The method is not allowed for this resource.",
        )
    }

    /// The body of a request did not come whole.
    pub(crate) fn broken(why: Broken) -> Self {
        let (status, kind) = match why {
            Broken::TooLarge(_) => (StatusCode::PAYLOAD_TOO_LARGE, "HTTPRequestEntityTooLarge"),
            Broken::Malformed => (StatusCode::BAD_REQUEST, "HTTPBadRequest"),
            Broken::Slow => (StatusCode::REQUEST_TIMEOUT, "HTTPRequestTimeout"),
        };
        Self::new(status, kind, why.advice())
    }

    pub(crate) fn not_json() -> Self {
        Self::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "HTTPUnsupportedMediaType",
            "The body is not declared to be JSON; send it with Content-Type: application/json.",
        )
    }

    /// The same, as somebody may read it; by names, if he wants them.
    pub(super) fn told_to(mut self, app: &App, identity: &Identity, wants_names: bool) -> Self {
        if !identity.sees_all() {
            self.message = hosts::in_sentence(&self.message, &app.situation.borrow());
        }
        // What is not found is told as it was asked for.
        if wants_names && self.status != StatusCode::NOT_FOUND {
            let intent = app.declared.snapshot().intent;
            self.message = names::in_sentence(&self.message, &intent, identity).into_owned();
        }
        self
    }

    pub(crate) fn into_response(self) -> Response {
        let body: Value = json!({ "NeutronError": self.body() });
        json(self.status, JSON, &body)
    }

    /// The error beside its status, where several errors share one answer.
    pub(super) fn told(self) -> Map<String, Value> {
        let status = json!(self.status.as_u16());
        let told = [("status".to_owned(), status), ("NeutronError".to_owned(), self.body())];
        told.into_iter().collect()
    }

    fn body(&self) -> Value {
        json!({"type": self.kind, "message": self.message, "detail": ""})
    }
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        let message = refusal.to_string();
        match refusal {
            Refusal::Unauthenticated { .. } => {
                Self::new(StatusCode::UNAUTHORIZED, "HTTPUnauthorized", message)
            }
            Refusal::Forbidden(_) => {
                Self::new(StatusCode::FORBIDDEN, "PolicyNotAuthorized", message)
            }
            Refusal::Unavailable(_) => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "HTTPServiceUnavailable", message)
            }
        }
    }
}

impl From<PlanError> for ApiError {
    fn from(error: PlanError) -> Self {
        Self::conflict("ChainNotRealizable", error.to_string())
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        let kind = match error {
            StoreError::Full(_) => "StoreFull",
            StoreError::Conflict { .. } => "StoreConflict",
            StoreError::Overloaded(_) => "StoreOverloaded",
            StoreError::TooManyWrites(_) | StoreError::TooLarge { .. } => "StoreTooLarge",
            _ => "StoreFailed",
        };
        Self::new(store_status(&error), kind, error.to_string())
    }
}
