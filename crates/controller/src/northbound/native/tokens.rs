//! `/v1/tokens`: who else may use the API. Knows how they are asked for; refuses to know how they
//! are kept.

use super::change::body;
use super::problem::Problem;
use super::view::View;
use crate::auth::{TokenError, Tokens};
use crate::northbound::app::App;
use axum::response::Response;
use catena_model::access::TokenRequest;
use std::sync::Arc;
use uuid::Uuid;

pub(super) async fn list(view: &View) -> Result<Response, Problem> {
    view.told(&view.app.guard.tokens().list())
}

pub(super) async fn create(view: &View) -> Result<Response, Problem> {
    let request: TokenRequest = body(&view.call)?;
    view.told(&on_disk(&view.app, move |tokens| tokens.create(request)).await?)
}

pub(super) async fn delete(view: &View) -> Result<Response, Problem> {
    let id = &view.call.name;
    let absent = || Problem::not_found(TokenError::Absent(id.into()).to_string());
    let id = Uuid::parse_str(id).map_err(|_| absent())?;
    on_disk(&view.app, move |tokens| tokens.delete(id)).await?;
    Ok(view.done())
}

/// Makes a change where the disk may be waited for.
async fn on_disk<T: Send + 'static>(
    app: &App,
    change: impl FnOnce(&Tokens) -> Result<T, TokenError> + Send + 'static,
) -> Result<T, Problem> {
    let tokens = Arc::clone(app.guard.tokens());
    let made = tokio::task::spawn_blocking(move || change(&tokens)).await;
    Ok(made.map_err(|error| Problem::internal(error.to_string()))??)
}

impl From<TokenError> for Problem {
    fn from(error: TokenError) -> Self {
        let detail = error.to_string();
        match error {
            TokenError::BadName { .. } | TokenError::NoLifetime => Self::bad_request(detail),
            TokenError::NameTaken(_) | TokenError::TooMany => Self::conflict(detail),
            TokenError::Absent(_) => Self::not_found(detail),
            TokenError::NoRandomness(_) => Self::internal(detail),
            TokenError::Store(error) => error.into(),
        }
    }
}
