//! The native API: how things stand and what networking-sfc has no words for, in the words of
//! `model`. Errors are problem details (RFC 9457).

mod bulk;
mod chains;
mod change;
mod check;
mod explain;
mod forget;
mod functions;
mod graphs;
mod instances;
mod metrics;
mod node_slices;
mod openapi;
mod paths;
mod plan;
mod problem;
pub(crate) mod routes;
mod slices;
mod status;
mod tokens;
mod watch;

use super::answers::json;
use super::app::App;
use super::call::Call;
use super::hosts;
use crate::auth::{Identity, Pass, Refusal};
use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Response;
use catena_plan::{IndexedIntent, Intent, Resource, Table};
use problem::Problem;
use routes::Operation;
use serde_json::Value;
use std::sync::Arc;

const CONTENT_TYPE: &str = "application/json";

/// Answers a call below `/v1`, and `/metrics`, of somebody whose role is enough for its route.
pub(super) async fn answer(app: &Arc<App>, call: &Call, identity: &Identity) -> Response {
    let answer = route(app, call, identity).await;
    answer.unwrap_or_else(|problem| problem.told_to(app, identity).into_response())
}

/// Is it the one request whose body is not read whole before it is looked at?
pub(super) fn is_bulk(call: &Call) -> bool {
    routes::find(&call.method, &call.path)
        .is_some_and(|(route, _)| route.operation == Operation::CreateMany)
}

/// Makes resources as their lines come.
pub(super) fn bulk(app: &Arc<App>, call: &Call, identity: Identity, body: Body) -> Response {
    // A browser sends any other kind of body for any page without asking us.
    if !call.has_kind(bulk::CONTENT_TYPE) {
        return Problem::not_ndjson().into_response();
    }
    let pass = Pass::new(&app.guard, &call.headers, identity);
    bulk::answer(app, pass, body).unwrap_or_else(Problem::into_response)
}

/// The answer to who may not.
pub(super) fn refuse(refusal: Refusal) -> Response {
    Problem::from(refusal).into_response()
}

/// The answer where there is no such route, or it has no such method.
pub(super) fn unknown(call: &Call, is_path_known: bool) -> Response {
    let problem = if is_path_known {
        Problem::method_not_allowed()
    } else {
        Problem::not_found(format!("There is nothing at /{}.", call.path.join("/")))
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

async fn route(app: &Arc<App>, call: &Call, identity: &Identity) -> Result<Response, Problem> {
    let Some((route, name)) = routes::find(&call.method, &call.path) else {
        return Ok(unknown(call, false));
    };
    let situation = app.situation.borrow().clone();
    let mut status = StatusCode::OK;
    let intent = seen(&app.declared.snapshot().intent, identity);
    let mut body = match route.operation {
        Operation::ReadMetrics => {
            let counters = app.collector.all(true).await;
            return Ok(metrics::answer(&situation, &intent, &counters));
        }
        Operation::Watch => return watch::answer(app, call, identity).await,
        Operation::OpenDraft => return plan::open(app, call, identity),
        Operation::CloseDraft => return plan::close(app, call, identity, name),
        Operation::PreviewDraft => shown(&plan::preview(app, call, identity, name)?)?,
        Operation::ApplyDraft => shown(&plan::apply(app, call, identity, name).await?)?,
        Operation::ShowOpenApi => shown(&openapi::document())?,
        // Its body is not here: see `bulk`.
        Operation::CreateMany => return Err(Problem::not_ndjson()),
        Operation::ReadStatus => status::status(&situation, &intent),
        Operation::ListNodes => shown(&status::nodes(app, &situation).await)?,
        Operation::ShowNode => shown(&status::node(app, &situation, name).await?)?,
        Operation::ForgetNode => return forget::forget(app, name).await,
        Operation::ListNodeSlices => shown(&node_slices::list(app, call, name).await?)?,
        Operation::ListInjected => {
            shown(&node_slices::injected(app, &situation, &intent, name).await?)?
        }
        Operation::PutInjected => {
            shown(&node_slices::inject(app, call, &situation, identity, name).await?)?
        }
        Operation::ListPaths => shown(&paths::list(&situation, &intent, identity))?,
        Operation::ShowPath => shown(&paths::show(&situation, &intent, identity, name)?)?,
        Operation::ListGraphs => shown(&graphs::list(&situation, &intent))?,
        Operation::ShowGraph => shown(&graphs::show(&situation, &intent, name)?)?,
        Operation::ListChains => shown(&chains::list(&situation, &intent))?,
        Operation::ShowChain => {
            let chain = chains::find(&intent, name)?;
            shown(&chains::report(app, &situation, &intent, identity, chain).await)?
        }
        Operation::UpdateChain => shown(&chains::patch(app, call, &intent, identity, name).await?)?,
        Operation::ShowReceipt => shown(&chains::receipt(app, &intent, identity, name)?)?,
        Operation::CheckChain => {
            change::declared_json(call)?;
            let chain = chains::find(&intent, name)?;
            shown(&check::chain(app, &situation, &intent, chain).await?)?
        }
        Operation::ListFunctions => shown(&functions::list(&intent))?,
        Operation::ShowFunction => shown(&functions::show(&intent, name)?)?,
        Operation::UpdateFunction => shown(&functions::patch(app, call, &intent, name).await?)?,
        Operation::PutFunction => shown(&functions::put(app, call, &intent, name).await?)?,
        Operation::ListInstances => shown(&instances::list(app, &intent).await)?,
        Operation::ShowInstance => shown(&instances::show(app, &intent, name).await?)?,
        Operation::UpdateInstance => shown(&instances::patch(app, call, &intent, name).await?)?,
        Operation::ListSlices => shown(&slices::list(&situation, &intent, call)?)?,
        Operation::ShowSlice => shown(&slices::show(app, &situation, &intent, name).await?)?,
        Operation::CreateSlice => {
            status = StatusCode::CREATED;
            shown(&slices::create(app, call, identity).await?)?
        }
        Operation::PutSlice => shown(&slices::put(app, call, identity, &intent, name).await?)?,
        Operation::DeleteSlice => return slices::delete(app, &intent, name).await,
        Operation::ListTokens => shown(&app.guard.tokens().list())?,
        Operation::CreateToken => return tokens::create(app, call).await,
        Operation::DeleteToken => return tokens::delete(app, name).await,
        Operation::Explain => shown(&explain::answer(app, call).await?)?,
    };
    if !identity.sees_all() {
        hosts::hide(&mut body, &situation);
    }
    Ok(json(status, CONTENT_TYPE, &body))
}

fn shown(value: &impl serde::Serialize) -> Result<Value, Problem> {
    serde_json::to_value(value).map_err(|error| Problem::internal(error.to_string()))
}

/// What somebody sees of what is declared. Whatever looks for an object looks here, so nobody can
/// find another tenant's.
fn seen(declared: &IndexedIntent, identity: &Identity) -> Arc<Intent> {
    if identity.sees_all() {
        return Arc::new(declared.intent().clone());
    }
    fn of<R: Resource>(declared: &IndexedIntent, identity: &Identity) -> Table<R::Id, R> {
        let own = declared.index().owned::<R>(&identity.project);
        own.filter_map(|id| Some((id, R::table(declared).get(&id)?.clone()))).collect()
    }
    Arc::new(Intent {
        networks: of(declared, identity),
        subnets: of(declared, identity),
        ports: of(declared, identity),
        rules: of(declared, identity),
        instances: of(declared, identity),
        functions: of(declared, identity),
        chains: of(declared, identity),
        graphs: of(declared, identity),
        slices: of(declared, identity),
    })
}
