//! The native API: how things stand and what networking-sfc has no words for, in the words of
//! `model`. Errors are problem details (RFC 9457).

mod alerts;
mod bulk;
mod chains;
mod change;
mod check;
mod delays;
mod dump;
mod edge;
mod explain;
mod forget;
mod functions;
mod graphs;
mod instance_delays;
mod instances;
mod links;
pub(super) mod metrics;
mod node_slices;
mod openapi;
mod openflow;
mod paths;
mod placement;
mod plan;
mod problem;
mod route;
mod routes;
mod rule_sets;
mod slices;
mod status;
mod telemetry_metrics;
mod tokens;
mod view;
mod warnings;
mod watch;
mod watched_links;

pub(super) use routes::routes;

use super::routes::Place;
use crate::auth::Refusal;
use axum::response::Response;
use problem::Problem;

/// The answer to who may not.
pub(super) fn refuse(refusal: Refusal) -> Response {
    Problem::from(refusal).into_response()
}

/// The answer where there is no such route, or it has no such method.
pub(super) fn unknown(place: &Place<'_>, path: &[String]) -> Response {
    let problem = if place.is_known() {
        Problem::method_not_allowed()
    } else {
        Problem::not_found(format!("There is nothing at /{}.", path.join("/")))
    };
    problem.into_response()
}

/// The answer to a request that names a draft that is not there.
pub(super) fn no_draft(id: &str) -> Response {
    Problem::no_draft(id).into_response()
}

/// The answer to a request that makes no sense.
pub(super) fn bad_request(detail: String) -> Response {
    Problem::bad_request(detail).into_response()
}

/// The answer to a request under a name that is not ours.
pub(super) fn foreign_host() -> Response {
    Problem::foreign_host().into_response()
}
