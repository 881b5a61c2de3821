//! What the answers of both dialects have in common. Refuses to know what they say.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use catena_store::StoreError;
use serde_json::Value;

/// The media type of most of them.
pub(super) const JSON: &str = "application/json";
/// That of lines of them.
pub(super) const NDJSON: &str = "application/x-ndjson";

/// A JSON answer.
pub(super) fn json(status: StatusCode, content_type: &'static str, body: &Value) -> Response {
    of_kind(status, content_type, body.to_string())
}

/// An answer of a media type.
pub(super) fn of_kind(
    status: StatusCode,
    content_type: &'static str,
    body: impl Into<Body>,
) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// What an answer's status says of a change that the store did not take.
pub(super) fn store_status(error: &StoreError) -> StatusCode {
    match error {
        StoreError::Full(_) => StatusCode::INSUFFICIENT_STORAGE,
        StoreError::Conflict { .. } => StatusCode::CONFLICT,
        StoreError::Overloaded(_) => StatusCode::SERVICE_UNAVAILABLE,
        StoreError::TooManyWrites(_) | StoreError::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
