//! The networking-sfc dialect: its words, envelope, status codes and error bodies. It only
//! translates; what a resource means and where it is kept is decided elsewhere.

mod addresses;
mod answers;
mod attributes;
mod bulk;
mod collection;
mod documents;
mod errors;
mod flow_classifier;
mod group_parameters;
mod kinds;
mod list;
mod network;
mod port;
mod port_chain;
mod port_pair;
mod port_pair_group;
mod quotas;
mod resources;
mod routes;
mod scope;
mod service_graph;
mod subnet;
mod uses;
mod values;

pub(super) use bulk::create_all;
pub(super) use port::made::{MadePort, PortRefusal, is_made, made_port, named_addresses};
pub(super) use port::user_beside_pairs;
pub(super) use routes::routes;

use super::routes::Place;
use crate::auth::Refusal;
use answers::numbered;
use axum::http::Method;
use axum::response::Response;
use errors::ApiError;

/// The first part of the paths of this dialect.
pub(super) const ROOT: &str = "v2.0";

/// The answer to who may not.
pub(super) fn refuse(refusal: Refusal) -> Response {
    numbered(ApiError::from(refusal).into_response())
}

/// The answer to a request that makes no sense.
pub(super) fn bad_request(message: String) -> Response {
    numbered(ApiError::bad_request(message).into_response())
}

/// The answer where there is no such route, or it has no such method.
pub(super) fn unknown(place: &Place<'_>, method: &Method) -> Response {
    // The original takes an update or a deletion of a collection for one of an unknown resource.
    let is_collection = place.entry(&Method::POST).is_some();
    let is_of_one = [Method::PUT, Method::DELETE].contains(method);
    let error = if place.is_known() && !(is_collection && is_of_one) {
        ApiError::method_not_allowed()
    } else {
        ApiError::no_such_resource()
    };
    numbered(error.into_response())
}

/// Paths may end in `.json`: it means nothing.
pub(super) fn drop_suffix(path: &mut [String]) {
    if let [first, .., last] = path
        && first == ROOT
        && let Some(plain) = last.strip_suffix(".json")
    {
        *last = plain.into();
    }
}
