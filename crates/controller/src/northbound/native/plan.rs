//! `/v1/plan`: opens a draft, tells what its changes would do, throws it away. Knows no planner:
//! the telling is `catena_plan::preview`'s.

use super::problem::Problem;
use super::shown;
use crate::northbound::{App, json};
use axum::body::Body;
use axum::http::{Method, StatusCode};
use axum::response::Response;
use serde_json::json;

pub(super) fn open(app: &App) -> Result<Response, Problem> {
    let id =
        app.drafts.open(&app.declared).map_err(|error| Problem::internal(error.to_string()))?;
    let body = json!({ "draft": id });
    Ok(json(StatusCode::CREATED, super::CONTENT_TYPE, &body))
}

pub(super) fn on_draft(app: &App, method: &Method, id: &str) -> Result<Response, Problem> {
    match *method {
        Method::GET => {
            let draft = app.drafts.get(id).ok_or_else(|| Problem::no_draft(id))?;
            let situation = app.situation.borrow().clone();
            let then = draft.declared.snapshot().intent;
            let preview = catena_plan::preview(
                &situation.blueprint,
                &draft.origin.intent,
                &then,
                &situation.inventory,
            );
            Ok(json(StatusCode::OK, super::CONTENT_TYPE, &shown(&preview)?))
        }
        Method::DELETE if app.drafts.close(id) => {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::NO_CONTENT;
            Ok(response)
        }
        Method::DELETE => Err(Problem::no_draft(id)),
        _ => Err(Problem::method_not_allowed()),
    }
}
