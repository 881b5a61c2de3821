//! `/v2.0/quotas`: how many resources of each kind a project may have, and has. Counts what is declared
//! when somebody asks; refuses to know where limits are kept.

use super::attributes::{Attribute, Verb, optional, prepare};
use super::errors::ApiError;
use super::scope::Edit;
use super::{CONTENT_TYPE, Collection, NETWORKING, SFC, dispatch, values};
use crate::auth::Identity;
use crate::northbound::answers::json;
use crate::northbound::app::App;
use crate::northbound::call::Call;
use crate::northbound::quotas::{DRAFT, Limits, PORT_PER_NODE, SLICE, UNLIMITED, WATCHER};
use axum::body::Body;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use catena_model::ProjectId;
use catena_model::resource::Port;
use catena_model::slice::Slice;
use catena_plan::IndexedIntent;
use serde_json::{Value, json};
use std::sync::Arc;

/// Attributes of a body; what is not given stays as it is.
const TABLE: &[Attribute] = &[
    optional("network", unlimited, true, limit),
    optional("subnet", unlimited, true, limit),
    optional("port", unlimited, true, limit),
    optional("flow_classifier", unlimited, true, limit),
    optional("service_graph", unlimited, true, limit),
    optional("port_pair", unlimited, true, limit),
    optional("port_chain", unlimited, true, limit),
    optional("port_pair_group", unlimited, true, limit),
    optional(SLICE, unlimited, true, limit),
    optional(PORT_PER_NODE, unlimited, true, limit),
    optional(DRAFT, unlimited, true, limit),
    optional(WATCHER, unlimited, true, limit),
];

/// May the project have one more of this collection?
pub(super) fn check(
    collection: &dyn Collection,
    edit: &Edit<'_>,
    project: &ProjectId,
) -> Result<(), ApiError> {
    let kind = collection.singular();
    match edit.quotas.limit(project, kind) {
        Some(limit) if collection.count(edit.draft.intent(), project) >= limit => Err(over(kind)),
        _ => Ok(()),
    }
}

/// May the project of a port have this one, too, at the node where it is?
pub(super) fn check_node(edit: &Edit<'_>, port: &Port) -> Result<(), ApiError> {
    let project = &port.label.project;
    let (Some(node), Some(limit)) = (&port.node, edit.quotas.limit(project, PORT_PER_NODE)) else {
        return Ok(());
    };
    let intent = edit.draft.intent();
    let is_there = |former: &Port| former.node == port.node && former.label.project == *project;
    let is_counted = intent.ports.get(&port.id).is_some_and(is_there);
    let others = intent.index().ports_at(node, project).saturating_sub(usize::from(is_counted));
    if others >= limit { Err(over(PORT_PER_NODE)) } else { Ok(()) }
}

fn over(kind: &str) -> ApiError {
    ApiError::conflict("OverQuota", format!("Quota exceeded for resources: ['{kind}']."))
}

/// How many of a kind a project has.
fn used_of(app: &App, intent: &IndexedIntent, kind: &str, project: &ProjectId) -> usize {
    match kind {
        SLICE => intent.index().count_owned::<Slice>(project),
        // At the node where it has most.
        PORT_PER_NODE => intent.index().most_ports_at(project),
        DRAFT => app.drafts.count(project),
        WATCHER => app.watchers.count(project),
        _ => {
            let mut collections = NETWORKING.into_iter().chain(SFC);
            let collection = collections.find(|collection| collection.singular() == kind);
            collection.map_or(0, |collection| collection.count(intent, project))
        }
    }
}

/// `/v2.0/quotas`.
pub(super) fn list(app: &App) -> Response {
    let of = |project: String| {
        let mut quota = app.quotas.all(&project);
        quota.insert("project_id".into(), json!(project));
        quota.insert("tenant_id".into(), json!(project));
        quota
    };
    let quotas: Vec<_> = app.quotas.projects().into_iter().map(of).collect();
    json(StatusCode::OK, CONTENT_TYPE, &json!({ "quotas": quotas }))
}

/// `/v2.0/quotas/{project}`.
pub(super) async fn one(
    app: &Arc<App>,
    call: Call,
    project: String,
    identity: Identity,
) -> Result<Response, ApiError> {
    // Clients ask under these names which project they are.
    if let key @ ("project" | "tenant") = project.as_str() {
        let who = json!({ format!("{key}_id"): identity.project });
        return Ok(answer(key, &who));
    }
    check_project(&project, &identity)?;
    match call.method {
        Method::PUT => set(app, &call, project, &identity).await,
        Method::DELETE => reset(app, project).await,
        _ => Ok(answer("quota", &json!(app.quotas.all(&project)))),
    }
}

/// `/v2.0/quotas/{project}/default`.
pub(super) fn defaults(
    app: &App,
    project: &str,
    identity: &Identity,
) -> Result<Response, ApiError> {
    check_project(project, identity)?;
    Ok(answer("quota", &json!(app.quotas.defaults())))
}

/// `/v2.0/quotas/{project}/details`.
pub(super) fn details(app: &App, project: &str, identity: &Identity) -> Result<Response, ApiError> {
    check_project(project, identity)?;
    let intent = app.declared.snapshot().intent;
    let mut quota = app.quotas.all(project);
    for (kind, limit) in &mut quota {
        let used = used_of(app, &intent, kind, &ProjectId(project.into()));
        *limit = json!({"limit": limit, "used": used, "reserved": 0});
    }
    Ok(answer("quota", &json!(quota)))
}

async fn set(
    app: &Arc<App>,
    call: &Call,
    project: String,
    identity: &Identity,
) -> Result<Response, ApiError> {
    let body = dispatch::json_body(call)?;
    let given = prepare("quota", "quotas", TABLE, Verb::Update, identity, body)?;
    let intent = app.declared.snapshot().intent;
    let mut changed = Limits::new();
    for Attribute { name: kind, .. } in TABLE {
        let Some(limit) = given.value(kind).and_then(Value::as_i64) else { continue };
        let used = used_of(app, &intent, kind, &ProjectId(project.clone()));
        if usize::try_from(limit).is_ok_and(|limit| limit < used) {
            return Err(ApiError::bad_request(format!(
                "Quota limit {limit} for {kind} must be greater than or equal to already used {used}"
            )));
        }
        changed.insert((*kind).into(), limit);
    }
    let shared = Arc::clone(app);
    let name = project.clone();
    on_disk(move || Ok(shared.quotas.set(&name, changed)?)).await?;
    Ok(answer("quota", &json!(app.quotas.all(&project))))
}

async fn reset(app: &Arc<App>, project: String) -> Result<Response, ApiError> {
    let shared = Arc::clone(app);
    let name = project.clone();
    if !on_disk(move || Ok(shared.quotas.reset(&name)?)).await? {
        let message = format!("Quota for tenant {project} could not be found.");
        return Err(ApiError::not_found("TenantQuotaNotFound", message));
    }
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE));
    Ok(response)
}

/// Whose limits somebody may know of.
fn check_project(project: &str, identity: &Identity) -> Result<(), ApiError> {
    if identity.sees(&ProjectId(project.into())) {
        return Ok(());
    }
    let message = format!("Quota for tenant {project} could not be found.");
    Err(ApiError::not_found("TenantQuotaNotFound", message))
}

/// Does what waits for the disk where nothing else waits for it.
async fn on_disk<T: Send + 'static>(
    write: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    tokio::task::spawn_blocking(write).await.unwrap_or_else(|_| {
        Err(ApiError::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "HTTPInternalServerError",
            "The quota failed to be changed inside the controller and was not; please report it.",
        ))
    })
}

fn answer(key: &str, value: &Value) -> Response {
    json(StatusCode::OK, CONTENT_TYPE, &json!({ key: value }))
}

fn unlimited() -> Value {
    json!(UNLIMITED)
}

fn limit(name: &str, value: &Value) -> Result<Value, ApiError> {
    let limit = values::integer_or_error(value)?;
    if limit >= UNLIMITED {
        return Ok(json!(limit));
    }
    let reason = format!("'{limit}' is too small - must be at least '{UNLIMITED}'.");
    Err(ApiError::attribute(name, reason))
}
