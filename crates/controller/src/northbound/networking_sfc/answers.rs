//! The answers of this dialect: their envelope and their number.

use crate::northbound::answers::{JSON, json, of_kind};
use axum::body::Body;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use serde::Serialize;
use serde_json::json;
use uuid::Uuid;

const REQUEST_ID_HEADER: &str = "x-openstack-request-id";

/// What was asked for, under its key.
pub(super) fn keyed(key: &str, value: &impl Serialize) -> Response {
    json(StatusCode::OK, JSON, &json!({ key: value }))
}

/// The answer to a deletion.
pub(super) fn nothing() -> Response {
    of_kind(StatusCode::NO_CONTENT, JSON, Body::empty())
}

/// Every answer has a number of its own.
pub(super) fn numbered(mut response: Response) -> Response {
    let id = format!("req-{}", Uuid::new_v4());
    if let Ok(id) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID_HEADER, id);
    }
    response
}
