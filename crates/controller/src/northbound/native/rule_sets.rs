//! `/v1/rule-sets`: rule sets that are larger than a request may be, sent by themselves. Knows digests and sizes;
//! refuses to know what stands in them, and when they go.

use super::change::declare;
use super::problem::Problem;
use super::view::View;
use crate::northbound::rule_sets::{bytes_in_drafts, keep, users};
use crate::wall_clock;
use axum::response::Response;
use catena_model::ProjectId;
use catena_model::id::RuleSetId;
use catena_model::resource::ServiceFunction;
use catena_model::rule_set::{RuleSet, RuleSetDigest, RuleSetReport};
use catena_plan::IndexedIntent;
use std::sync::Arc;

/// What its body is.
pub(super) const KIND: &str = "application/octet-stream";

pub(super) async fn list(view: &View) -> Result<Response, Problem> {
    let declared = view.app.declared.snapshot().intent;
    let all = view.intent.rule_sets.values();
    view.told(&all.map(|one| report(&declared, one)).collect::<Vec<_>>())
}

pub(super) async fn show(view: &View) -> Result<Response, Problem> {
    let name = &view.call.name;
    let digest = name.parse::<RuleSetDigest>().map_err(|_| no_rule_set(name))?;
    // Where several projects have it, his own first.
    let own = view.intent.rule_sets.get(&RuleSetId::of(&view.identity.project, digest));
    let found = own.or_else(|| view.intent.rule_sets.values().find(|one| one.digest == digest));
    let found = found.ok_or_else(|| no_rule_set(name))?;
    view.told(&report(&view.app.declared.snapshot().intent, found))
}

/// Keeps a text under its digest, for the project of whoever sends it.
pub(super) async fn put(view: &View) -> Result<Response, Problem> {
    let bytes = view.call.body.as_ref().map_err(|why| Problem::broken(*why))?;
    if !view.call.has_kind(KIND) {
        return Err(Problem::not_octets());
    }
    let wanted: RuleSetDigest = view.call.name.parse().map_err(|why| {
        Problem::bad_request(format!("'{}' is no rule set: {why}.", view.call.name))
    })?;
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let at = error.valid_up_to();
        Problem::bad_body(&format!("it is no text in UTF-8 from its byte {at} on"))
    })?;
    let sent = sent(view.identity.project.clone(), text).await?;
    if sent.digest != wanted {
        return Err(Problem::bad_body(&format!(
            "its SHA-256 is {}, not {wanted}; send the text that the digest was made of",
            sent.digest
        )));
    }
    let (id, quotas) = (sent.id, Arc::clone(&view.app.quotas));
    let elsewhere = bytes_in_drafts(&view.app, &view.identity.project);
    let made = declare(&view.app, move |draft| Ok(keep(draft, &quotas, sent, elsewhere)?)).await?;
    let kept = made.intent.rule_sets.get(&id).ok_or_else(Problem::gone)?;
    view.told(&report(&made.intent, kept))
}

/// What came, with its digest: to make that takes its time, where nobody else waits for it.
async fn sent(project: ProjectId, text: &str) -> Result<RuleSet, Problem> {
    let text = text.to_owned();
    let made = tokio::task::spawn_blocking(move || RuleSet::new(project, &text, wall_clock::now()));
    made.await.map_err(|error| Problem::internal(error.to_string()))
}

/// The same answer whether nobody has it or somebody else.
fn no_rule_set(name: &str) -> Problem {
    Problem::not_found(format!("There is no rule set '{name}'."))
}

fn report(intent: &IndexedIntent, rule_set: &RuleSet) -> RuleSetReport {
    let named_by = users(intent, &rule_set.label.project, rule_set.digest);
    RuleSetReport {
        sha256: rule_set.digest,
        bytes: rule_set.text.len(),
        sent: wall_clock::text(rule_set.sent_s),
        functions: named_by.map(ServiceFunction::name).collect(),
    }
}
