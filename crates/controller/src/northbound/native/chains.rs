//! `/v1/chains`: receipts of changes, and the metadata that travels with a chain's packets, for
//! which networking-sfc has no words.

use super::functions::{body, declare};
use super::problem::Problem;
use super::{find, report, shown};
use crate::northbound::{App, Call, json};
use crate::reconcile::settle;
use axum::http::StatusCode;
use axum::response::Response;
use catena_model::id::ChainId;
use catena_model::resource::{Chain, ContextHeader, Encapsulation};
use catena_model::status::Receipt;
use catena_plan::Intent;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::mem::discriminant;
use tokio::time::Instant;
use uuid::Uuid;

/// Longest tenant of a context, in bytes.
const TENANT_BYTES_MAX: usize = 32;

/// The account of a chain's last change; of a deleted chain by the name that it had.
pub(super) fn receipt(app: &App, intent: &Intent, name: &str) -> Result<Receipt, Problem> {
    let receipts = app.receipts.borrow();
    let found = match find(intent, name) {
        Ok(chain) => receipts.of(chain.id),
        Err(problem) => {
            let gone = Uuid::parse_str(name).ok().and_then(|id| receipts.of(ChainId(id)));
            Some(gone.or_else(|| receipts.named(name)).ok_or(problem)?)
        }
    };
    found.cloned().ok_or_else(|| {
        Problem::not_found(format!(
            "Chain '{name}' has no receipt: no change of it has ended since this controller started."
        ))
    })
}

/// What may be changed here.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Patch {
    context: Vec<ContextHeader>,
}

pub(super) async fn patch(app: &App, call: &Call, name: &str) -> Result<Response, Problem> {
    let Patch { context } = body(call)?;
    check_context(&context)?;
    let before = app.situation.borrow().blueprint.number;
    let id = find(&app.declared.snapshot().intent, name)?.id;
    let snapshot = declare(app, move |draft| {
        let chain = draft.intent().chains.get(&id).cloned().ok_or_else(Problem::gone)?;
        if !context.is_empty() && chain.encapsulation != Encapsulation::Nsh {
            return Err(Problem::conflict(format!(
                "Chain '{}' is carried by {}, which has no room for a context; make it with \
                 correlation nsh.",
                chain.label.name,
                chain.encapsulation.name()
            )));
        }
        draft.put(Chain { context, ..chain })?;
        Ok(())
    })
    .await?;
    let deadline = Instant::now() + app.answer_wait;
    settle::changed(app, snapshot.revision, before, &[id], deadline).await;
    let situation = app.situation.borrow().clone();
    let chain = snapshot.intent.chains.get(&id).ok_or_else(Problem::gone)?;
    let body = shown(&report(app, &situation, &snapshot.intent, chain).await)?;
    Ok(json(StatusCode::OK, super::CONTENT_TYPE, &body))
}

fn check_context(context: &[ContextHeader]) -> Result<(), Problem> {
    let mut kinds = BTreeSet::new();
    for header in context {
        if !kinds.insert(format!("{:?}", discriminant(header))) {
            let detail = "'context' has two headers of one kind";
            return Err(Problem::bad_body(detail));
        }
        if let ContextHeader::Tenant(tenant) = header
            && !(1..=TENANT_BYTES_MAX).contains(&tenant.len())
        {
            return Err(Problem::bad_body(&format!(
                "a tenant has 1 to {TENANT_BYTES_MAX} bytes, '{tenant}' has {}",
                tenant.len()
            )));
        }
    }
    Ok(())
}
