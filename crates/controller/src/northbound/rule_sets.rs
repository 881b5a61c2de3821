//! Rule sets that were sent by themselves: how many a project may have, who names one, and when it goes. Knows
//! digests and templates; refuses to know what stands in a rule set.
//!
//! One goes with the last function that names it, and an hour after it was sent if none ever has.

use super::app::App;
use super::quotas::{Quotas, RULE_SET};
use crate::auth::Identity;
use crate::declared::{Declared, Draft};
use crate::error::ControllerError;
use crate::wall_clock;
use catena_model::ProjectId;
use catena_model::id::RuleSetId;
use catena_model::limits::{PROJECT_RULE_SETS_BYTES_MAX, RULE_SET_UNNAMED_S};
use catena_model::resource::{FunctionTemplate, ServiceFunction};
use catena_model::rule_set::{BadRuleSet, RuleSet, RuleSetDigest};
use catena_plan::{IndexedIntent, Intent, PlanError};
use catena_store::StoreError;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How often it is looked for what nobody has named.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// Why a rule set is not taken, or not removed.
pub(super) enum Refusal {
    /// The project has as many as it may.
    Quota,
    /// Those of the project have as many bytes as they may.
    Bytes(String),
    /// What is named is not there.
    Missing(BadRuleSet),
    Plan(PlanError),
    Store(StoreError),
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<PlanError> for Refusal {
    fn from(error: PlanError) -> Self {
        Self::Plan(error)
    }
}

/// A template of a function of some project with all texts, as far as whoever asks may know of them.
pub(super) fn with_texts(
    intent: &Intent,
    template: &FunctionTemplate,
    owner: &ProjectId,
    asker: &Identity,
) -> Result<FunctionTemplate, BadRuleSet> {
    template.with_texts(|digest| Some(Arc::clone(&find(intent, owner, asker, digest)?.text)))
}

/// What was sent: in the project itself, or else in one that whoever asks sees.
fn find<'i>(
    intent: &'i Intent,
    owner: &ProjectId,
    asker: &Identity,
    digest: RuleSetDigest,
) -> Option<&'i RuleSet> {
    let own = intent.rule_sets.get(&RuleSetId::of(owner, digest));
    let is_seen = |one: &&RuleSet| one.digest == digest && asker.sees(&one.label.project);
    own.or_else(|| intent.rule_sets.values().find(is_seen))
}

/// Keeps what was sent; what is there already is sent anew. `elsewhere`: bytes that the project has sent into drafts
/// beside this.
pub(super) fn keep(
    draft: &mut Draft,
    quotas: &Quotas,
    sent: RuleSet,
    elsewhere: usize,
) -> Result<(), Refusal> {
    let project = sent.label.project.clone();
    let now_s = wall_clock::now();
    for id in unnamed(draft.intent(), now_s) {
        // Of others nobody is to learn.
        let owner = draft.intent().rule_sets.get(&id).map(|one| &one.label.project);
        if id != sent.id && owner == Some(&project) {
            draft.remove::<RuleSet>(id);
        }
    }
    let intent = draft.intent();
    if let Some(known) = intent.rule_sets.get(&sent.id) {
        // Named or not: who names it now may leave it soon. It is written whole, hence not at each word.
        if now_s.saturating_sub(known.sent_s) >= RULE_SET_UNNAMED_S / 2 {
            draft.put(sent)?;
        }
        return Ok(());
    }
    let own = || intent.index().owned::<RuleSet>(&project);
    if quotas.limit(&project, RULE_SET).is_some_and(|limit| own().count() >= limit) {
        return Err(Refusal::Quota);
    }
    let own = own().filter_map(|id| intent.rule_sets.get(&id)).map(|one| one.text.len());
    let bytes = own.sum::<usize>() + sent.text.len() + elsewhere;
    if bytes > PROJECT_RULE_SETS_BYTES_MAX {
        return Err(Refusal::Bytes(format!(
            "The rule sets of a project, those in its drafts among them, have at most {PROJECT_RULE_SETS_BYTES_MAX} \
             bytes together, and with this one they would have {bytes}. One goes with the last function that names it."
        )));
    }
    Ok(draft.put(sent)?)
}

/// Bytes that a project has sent into drafts, but for the one that this is: they are in memory, and as bounded.
pub(super) fn bytes_in_drafts(app: &App, project: &ProjectId) -> usize {
    let others = app.drafts.of_project(project);
    let here = app.declared.snapshot().intent;
    let mut held: BTreeMap<RuleSetId, usize> = BTreeMap::new();
    let mut sent_there = 0;
    for one in others.iter().filter(|one| !Arc::ptr_eq(&one.declared, &app.declared)) {
        let (now, origin) = (one.declared.snapshot().intent, &one.origin.intent);
        let own = now.index().owned::<RuleSet>(project);
        let new = own.filter(|id| !origin.rule_sets.contains_key(id));
        let bytes = new.filter_map(|id| now.rule_sets.get(&id)).map(|sent| sent.text.len());
        sent_there += bytes.sum::<usize>();
        // What it began with it holds, though it is gone since.
        let gone = origin.index().owned::<RuleSet>(project);
        let gone = gone.filter(|id| !here.rule_sets.contains_key(id));
        held.extend(gone.filter_map(|id| Some((id, origin.rule_sets.get(&id)?.text.len()))));
    }
    sent_there + held.values().sum::<usize>()
}

/// Sees to it that what a function names is its project's: what whoever asks has sent becomes that, too.
pub(super) fn adopt(
    draft: &mut Draft,
    quotas: &Quotas,
    function: &ServiceFunction,
    asker: &Identity,
) -> Result<(), Refusal> {
    let Some(template) = &function.template else { return Ok(()) };
    let owner = &function.label.project;
    let is_there = |digest| find(draft.intent(), owner, asker, digest).is_some();
    template.check_rule_sets(is_there).map_err(Refusal::Missing)?;
    for digest in template.rule_sets() {
        let found = find(draft.intent(), owner, asker, digest);
        if let Some(sent) = found.filter(|one| one.label.project != *owner) {
            let copy = sent.given_to(owner.clone(), wall_clock::now());
            keep(draft, quotas, copy, 0)?;
        }
    }
    Ok(())
}

/// Removes what a function named that nobody names any more.
pub(super) fn release(draft: &mut Draft, former: &ServiceFunction) {
    let project = &former.label.project;
    for digest in former.template.iter().flat_map(FunctionTemplate::rule_sets) {
        if users(draft.intent(), project, digest).next().is_none() {
            draft.remove::<RuleSet>(RuleSetId::of(project, digest));
        }
    }
}

/// The functions of a project that name a rule set.
pub(super) fn users<'i>(
    intent: &'i IndexedIntent,
    project: &ProjectId,
    digest: RuleSetDigest,
) -> impl Iterator<Item = &'i ServiceFunction> {
    let own = intent.index().owned::<ServiceFunction>(project);
    let own = own.filter_map(|id| intent.functions.get(&id));
    own.filter(move |function| {
        let mut named = function.template.iter().flat_map(FunctionTemplate::rule_sets);
        named.any(|one| one == digest)
    })
}

/// What was sent so long ago and is named by nobody.
fn unnamed(intent: &IndexedIntent, now_s: u64) -> Vec<RuleSetId> {
    let is_old = |one: &&RuleSet| now_s.saturating_sub(one.sent_s) >= RULE_SET_UNNAMED_S;
    let old = intent.rule_sets.values().filter(is_old);
    let is_named = |one: &&RuleSet| users(intent, &one.label.project, one.digest).next().is_some();
    old.filter(|one| !is_named(one)).map(|one| one.id).collect()
}

/// Removes what nobody has named in its time, until the controller stops.
pub(crate) async fn watch(declared: Arc<Declared>) -> Result<(), ControllerError> {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        if unnamed(&declared.snapshot().intent, wall_clock::now()).is_empty() {
            continue;
        }
        let removed = declared.change(|draft| {
            for id in unnamed(draft.intent(), wall_clock::now()) {
                draft.remove::<RuleSet>(id);
            }
            Ok::<(), Refusal>(())
        });
        if let Err(Refusal::Store(error)) = removed.await {
            tracing::warn!("rule sets that no function names stay: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use catena_store::MemoryStore;

    fn sent(project: &str, text: &str, sent_s: u64) -> RuleSet {
        RuleSet::new(ProjectId(project.into()), text, sent_s)
    }

    #[test]
    fn what_nobody_names_is_old_after_an_hour_and_not_before() {
        let mut intent = IndexedIntent::default();
        let (old, new) = (sent("p", "old", 1_000), sent("p", "new", 1_001));
        intent.put(old.clone());
        intent.put(new);
        assert_eq!(unnamed(&intent, 1_000 + RULE_SET_UNNAMED_S), [old.id]);
        assert!(unnamed(&intent, 999 + RULE_SET_UNNAMED_S).is_empty());
        assert!(unnamed(&intent, 0).is_empty(), "a clock that was set back removes nothing");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn who_sends_anew_takes_what_is_old_away_and_renews_what_is_sent() {
        let store = Arc::new(MemoryStore::default());
        let declared = Declared::load(Arc::clone(&store) as _).unwrap();
        let put = declared.change(|draft| {
            draft.put(sent("p", "old", 1))?;
            Ok::<(), Refusal>(draft.put(sent("p", "again", 1))?)
        });
        assert!(put.await.is_ok());
        let now = wall_clock::now();
        let quotas = Quotas::load(store, true).unwrap();
        let kept = declared.change(move |draft| keep(draft, &quotas, sent("p", "again", now), 0));
        assert!(kept.await.is_ok());
        let intent = declared.snapshot().intent;
        let left: Vec<_> = intent.rule_sets.values().map(|one| (&*one.text, one.sent_s)).collect();
        assert_eq!(left, [("again", now)]);
    }
}
