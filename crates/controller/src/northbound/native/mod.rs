//! The native API: how things stand and what networking-sfc has no words for, in the words of
//! `model`. Errors are problem details (RFC 9457).

mod chains;
mod change;
mod check;
mod explain;
mod functions;
mod instances;
mod metrics;
mod plan;
mod problem;
pub(crate) mod routes;
mod status;
mod watch;

use super::{App, Call, json};
use crate::auth::Identity;
use axum::http::StatusCode;
use axum::response::Response;
use problem::Problem;
use routes::Operation;
use serde_json::Value;
use std::sync::Arc;
pub(crate) use watch::Watchers;

const CONTENT_TYPE: &str = "application/json";

/// Answers a call below `/v1`, and `/metrics`.
pub(super) async fn answer(app: &Arc<App>, call: &Call) -> Response {
    let Some(identity) = app.guard.identify(&call.headers) else {
        return Problem::unauthorized().into_response();
    };
    route(app, call, &identity).await.unwrap_or_else(Problem::into_response)
}

/// The answer to a request that names a draft that is not there.
pub(super) fn no_draft(id: &str) -> Response {
    Problem::no_draft(id).into_response()
}

/// The answer to a request under a name that is not ours.
pub(super) fn foreign_host() -> Response {
    Problem::foreign_host().into_response()
}

async fn route(app: &Arc<App>, call: &Call, identity: &Identity) -> Result<Response, Problem> {
    let (route, name) = routes::find(&call.method, &call.path)?;
    if identity.role < route.least {
        return Err(Problem::forbidden(route));
    }
    let situation = app.situation.borrow().clone();
    let intent = app.declared.snapshot().intent;
    let body = match route.operation {
        Operation::ReadMetrics => {
            let counters = app.fleet.counters(true).await;
            return Ok(metrics::answer(&situation, &intent, &counters));
        }
        Operation::Watch => return watch::answer(app),
        Operation::OpenDraft => return plan::open(app),
        Operation::CloseDraft => return plan::close(app, name),
        Operation::PreviewDraft => shown(&plan::preview(app, name)?)?,
        Operation::ReadStatus => status::status(&situation, &intent),
        Operation::ListNodes => shown(&status::nodes(app, &situation).await)?,
        Operation::ListChains => shown(&chains::list(&situation, &intent))?,
        Operation::ShowChain => {
            let chain = chains::find(&intent, name)?;
            shown(&chains::report(app, &situation, &intent, chain).await)?
        }
        Operation::UpdateChain => shown(&chains::patch(app, call, name).await?)?,
        Operation::ShowReceipt => shown(&chains::receipt(app, &intent, name)?)?,
        Operation::CheckChain => {
            let chain = chains::find(&intent, name)?;
            shown(&check::chain(app, &situation, &intent, chain).await?)?
        }
        Operation::ListFunctions => shown(&functions::list(&intent))?,
        Operation::ShowFunction => shown(&functions::show(&intent, name)?)?,
        Operation::UpdateFunction => shown(&functions::patch(app, call, name).await?)?,
        Operation::ListInstances => shown(&instances::list(app, &intent).await)?,
        Operation::ShowInstance => shown(&instances::show(app, &intent, name).await?)?,
        Operation::UpdateInstance => shown(&instances::patch(app, call, name).await?)?,
        Operation::Explain => shown(&explain::answer(app, call).await?)?,
    };
    Ok(json(StatusCode::OK, CONTENT_TYPE, &body))
}

fn shown(value: &impl serde::Serialize) -> Result<Value, Problem> {
    serde_json::to_value(value).map_err(|error| Problem::internal(error.to_string()))
}
