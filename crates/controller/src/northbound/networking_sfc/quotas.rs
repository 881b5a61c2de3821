//! `/v2.0/quotas`: how many resources of each kind a project may have, and has. Counts what is declared
//! when somebody asks; refuses to know where limits are kept.

use super::answers::{keyed, nothing};
use super::attributes::{Attribute, Verb, optional, prepare};
use super::errors::ApiError;
use super::kinds::KINDS;
use super::resources::json_body;
use super::values;
use crate::northbound::app::App;
use crate::northbound::call::Asked;
use crate::northbound::quotas::{
    DRAFT, Limits, PORT_PER_NODE, RULE_SET, SLICE, UNLIMITED, WATCHER,
};
use axum::http::StatusCode;
use axum::response::Response;
use catena_model::ProjectId;
use catena_model::rule_set::RuleSet;
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
    optional(RULE_SET, unlimited, true, limit),
];

/// How many of a kind a project has.
fn used_of(app: &App, intent: &IndexedIntent, kind: &str, project: &ProjectId) -> usize {
    match kind {
        SLICE => intent.index().count_owned::<Slice>(project),
        // At the node where it has most.
        PORT_PER_NODE => intent.index().most_ports_at(project),
        RULE_SET => intent.index().count_owned::<RuleSet>(project),
        DRAFT => app.drafts.count(project),
        WATCHER => app.watchers.count(project),
        _ => {
            let known = KINDS.iter().find(|known| known.collection.singular() == kind);
            known.map_or(0, |known| known.collection.count(intent, project))
        }
    }
}

/// `GET /v2.0/quotas`.
pub(super) async fn list(Asked { app, .. }: Asked) -> Result<Response, ApiError> {
    let of = |project: String| {
        let mut quota = app.quotas.all(&project);
        quota.insert("project_id".into(), json!(project));
        quota.insert("tenant_id".into(), json!(project));
        quota
    };
    let quotas: Vec<_> = app.quotas.projects().into_iter().map(of).collect();
    Ok(keyed("quotas", &quotas))
}

/// `GET /v2.0/quotas/{project}`.
pub(super) async fn show(asked: Asked) -> Result<Response, ApiError> {
    if let Some(who) = who(&asked) {
        return Ok(who);
    }
    let project = project_of(&asked)?;
    Ok(keyed("quota", &asked.app.quotas.all(project)))
}

/// `GET /v2.0/quotas/{project}/default`.
pub(super) async fn defaults(asked: Asked) -> Result<Response, ApiError> {
    project_of(&asked)?;
    Ok(keyed("quota", &asked.app.quotas.defaults()))
}

/// `GET /v2.0/quotas/{project}/details`.
pub(super) async fn details(asked: Asked) -> Result<Response, ApiError> {
    let (project, app) = (project_of(&asked)?, &asked.app);
    let intent = app.declared.snapshot().intent;
    let mut quota = app.quotas.all(project);
    for (kind, limit) in &mut quota {
        let used = used_of(app, &intent, kind, &ProjectId(project.into()));
        *limit = json!({"limit": limit, "used": used, "reserved": 0});
    }
    Ok(keyed("quota", &quota))
}

/// `PUT /v2.0/quotas/{project}`.
pub(super) async fn set(asked: Asked) -> Result<Response, ApiError> {
    if let Some(who) = who(&asked) {
        return Ok(who);
    }
    let (project, app) = (project_of(&asked)?.to_owned(), &asked.app);
    let body = json_body(&asked.call)?;
    let given = prepare("quota", "quotas", TABLE, Verb::Update, &asked.identity, body)?;
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
    let (shared, name) = (Arc::clone(app), project.clone());
    on_disk(move || Ok(shared.quotas.set(&name, changed)?)).await?;
    Ok(keyed("quota", &app.quotas.all(&project)))
}

/// `DELETE /v2.0/quotas/{project}`.
pub(super) async fn reset(asked: Asked) -> Result<Response, ApiError> {
    if let Some(who) = who(&asked) {
        return Ok(who);
    }
    let (project, shared) = (project_of(&asked)?.to_owned(), Arc::clone(&asked.app));
    if on_disk(move || Ok(shared.quotas.reset(&project)?)).await? {
        return Ok(nothing());
    }
    Err(not_found(&asked.call.name))
}

/// Clients ask under two names which project they are.
fn who(asked: &Asked) -> Option<Response> {
    let key @ ("project" | "tenant") = asked.call.name.as_str() else { return None };
    Some(keyed(key, &json!({ format!("{key}_id"): asked.identity.project })))
}

/// Whose limits are asked for, if somebody may know of them.
fn project_of(asked: &Asked) -> Result<&str, ApiError> {
    let project = asked.call.name.as_str();
    let is_seen = asked.identity.sees(&ProjectId(project.into()));
    if is_seen { Ok(project) } else { Err(not_found(project)) }
}

fn not_found(project: &str) -> ApiError {
    let message = format!("Quota for tenant {project} could not be found.");
    ApiError::not_found("TenantQuotaNotFound", message)
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
