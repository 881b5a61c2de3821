//! `/v1/plan`: opens a draft, tells what its changes would do, throws it away. Knows no planner:
//! the telling is `catena_plan::preview`'s.

use super::problem::Problem;
use crate::auth::Identity;
use crate::northbound::{App, json};
use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Response;
use catena_model::preview::Preview;
use serde_json::json;

pub(super) fn open(app: &App, identity: &Identity) -> Result<Response, Problem> {
    let id = app.drafts.open(&app.declared, identity)?;
    let body = json!({ "draft": id });
    Ok(json(StatusCode::CREATED, super::CONTENT_TYPE, &body))
}

/// What the changes made to a draft would do.
pub(super) fn preview(app: &App, id: &str, identity: &Identity) -> Result<Preview, Problem> {
    let draft = app.drafts.get(id, identity).ok_or_else(|| Problem::no_draft(id))?;
    let situation = app.situation.borrow().clone();
    let then = draft.declared.snapshot().intent;
    let (blueprint, inventory) = (&situation.blueprint, &situation.inventory);
    Ok(catena_plan::preview(blueprint, &draft.origin.intent, &then, inventory))
}

pub(super) fn close(app: &App, id: &str, identity: &Identity) -> Result<Response, Problem> {
    if !app.drafts.close(id, identity) {
        return Err(Problem::no_draft(id));
    }
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    Ok(response)
}
