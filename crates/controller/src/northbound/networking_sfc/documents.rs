//! What a client reads before it does anything: versions, the index of resources, extensions.

use super::errors::ApiError;
use super::{CONTENT_TYPE, NETWORKING, SFC};
use crate::northbound::answers::json;
use crate::northbound::call::Call;
use axum::body::Body;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use serde_json::{Value, json};

/// Alias, name, description and date of each extension.
const EXTENSIONS: [[&str; 4]; 6] = [
    [
        "sfc",
        "Service Function Chaining",
        "Service Function Chain extension.",
        "2015-10-05T10:00:00-00:00",
    ],
    [
        "flow_classifier",
        "Flow Classifier",
        "Flow Classifier Extension.",
        "2015-10-05T10:00:00-00:00",
    ],
    ["service_graph", "Service Graph", "Service Graph extension.", "2017-09-20T00:00:00-00:00"],
    [
        "networking-sfc-tap",
        "Networking SFC Passive Tap Service Function support",
        "Extension for Passive TAP Service Function support",
        "2017-10-20T10:00:00-00:00",
    ],
    [
        "quotas",
        "Quota management support",
        "Expose functions for quotas management per project",
        "2012-07-29T10:00:00-00:00",
    ],
    [
        "quota_details",
        "Quota details management support",
        "Expose functions for quotas usage statistics per project",
        "2017-02-10T10:00:00-00:00",
    ],
];

/// `GET /`: the link names the host as the client called it.
pub(crate) fn versions(call: &Call) -> Response {
    if call.method != Method::GET {
        return ApiError::method_not_allowed().into_response();
    }
    let link = json!({"rel": "self", "href": format!("{}/v2.0/", call.base())});
    let version = json!({"id": "v2.0", "status": "CURRENT", "links": [link]});
    json(StatusCode::OK, CONTENT_TYPE, &json!({ "versions": [version] }))
}

/// `GET /v2.0/`.
pub(super) fn index(call: &Call) -> Result<Response, ApiError> {
    only_get(call)?;
    let base = call.base();
    let entry = |prefix: &str, singular: &str, plural: &str| {
        let href = format!("{base}/v2.0/{prefix}{plural}");
        json!({"name": singular, "collection": plural, "links": [{"rel": "self", "href": href}]})
    };
    let plain = NETWORKING.iter().map(|c| entry("", c.singular(), c.plural()));
    let sfc = SFC.iter().map(|c| entry("sfc/", c.singular(), c.plural()));
    let resources: Vec<Value> = plain.chain(sfc).collect();
    Ok(json(StatusCode::OK, CONTENT_TYPE, &json!({ "resources": resources })))
}

/// `GET /v2.0/extensions`.
pub(super) fn extensions(call: &Call) -> Result<Response, ApiError> {
    only_get(call)?;
    let all: Vec<Value> = EXTENSIONS.iter().map(entry).collect();
    Ok(json(StatusCode::OK, CONTENT_TYPE, &json!({ "extensions": all })))
}

/// `GET /v2.0/extensions/{alias}`; an unknown one is answered in HTML, as clients know it.
pub(super) fn extension(call: &Call, alias: &str) -> Result<Response, ApiError> {
    only_get(call)?;
    if let Some(known) = EXTENSIONS.iter().find(|[known, ..]| *known == alias) {
        return Ok(json(StatusCode::OK, CONTENT_TYPE, &json!({ "extension": entry(known) })));
    }
    let page = "<html><head><title>404 Not Found</title></head><body><h1>404 Not Found</h1>\
                There is no extension of that alias.</body></html>\n";
    let mut response = Response::new(Body::from(page));
    *response.status_mut() = StatusCode::NOT_FOUND;
    let html = HeaderValue::from_static("text/html; charset=UTF-8");
    response.headers_mut().insert(header::CONTENT_TYPE, html);
    Ok(response)
}

fn entry([alias, name, description, updated]: &[&str; 4]) -> Value {
    json!({"name": name, "alias": alias, "description": description, "updated": updated,
           "links": []})
}

fn only_get(call: &Call) -> Result<(), ApiError> {
    if call.method == Method::GET { Ok(()) } else { Err(ApiError::method_not_allowed()) }
}
