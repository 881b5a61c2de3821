//! What a client reads before it does anything: versions, the index of resources, extensions.

use super::answers::keyed;
use super::errors::ApiError;
use super::kinds::{KINDS, Kind};
use crate::northbound::answers::of_kind;
use crate::northbound::call::{Asked, Call};
use axum::http::StatusCode;
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
pub(super) fn versions(call: &Call) -> Response {
    let link = json!({"rel": "self", "href": format!("{}/v2.0/", call.base())});
    keyed("versions", &json!([{"id": "v2.0", "status": "CURRENT", "links": [link]}]))
}

/// `GET /v2.0/`.
pub(super) async fn index(asked: Asked) -> Result<Response, ApiError> {
    let base = asked.call.base();
    let entry = |Kind { path, collection, .. }: &Kind| {
        let link = json!({"rel": "self", "href": format!("{base}{path}")});
        json!({"name": collection.singular(), "collection": collection.plural(), "links": [link]})
    };
    Ok(keyed("resources", &KINDS.iter().map(entry).collect::<Vec<Value>>()))
}

/// `GET /v2.0/extensions`.
pub(super) async fn extensions(_: Asked) -> Result<Response, ApiError> {
    Ok(keyed("extensions", &EXTENSIONS.iter().map(entry).collect::<Vec<Value>>()))
}

/// `GET /v2.0/extensions/{extension}`; an unknown one is answered in HTML, as clients know it.
pub(super) async fn extension(asked: Asked) -> Result<Response, ApiError> {
    if let Some(known) = EXTENSIONS.iter().find(|[alias, ..]| *alias == asked.call.name) {
        return Ok(keyed("extension", &entry(known)));
    }
    let page = "<html><head><title>404 Not Found</title></head><body><h1>404 Not Found</h1>\
                There is no extension of that alias.</body></html>\n";
    Ok(of_kind(StatusCode::NOT_FOUND, "text/html; charset=UTF-8", page))
}

fn entry([alias, name, description, updated]: &[&str; 4]) -> Value {
    json!({"name": name, "alias": alias, "description": description, "updated": updated,
           "links": []})
}
