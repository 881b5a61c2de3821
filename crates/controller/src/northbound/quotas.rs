//! Quotas: how many resources of each kind a project may have. Knows the limits that were set and
//! where they are kept; refuses to know how many there are.

use catena_model::ProjectId;
use catena_store::{Expect, Key, Revision, Store, StoreError, Transaction};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a project may have when nobody has said otherwise, by kind of resource. The original means
/// the same number of service graphs, but an option of another name makes them unlimited there.
const DEFAULTS: [(&str, i64); 13] = [
    ("network", 100),
    ("subnet", 100),
    ("port", 500),
    ("flow_classifier", 100),
    ("service_graph", 10),
    ("port_pair", 100),
    ("port_chain", 10),
    ("port_pair_group", 10),
    (SLICE, 1_000),
    (PORT_PER_NODE, 128),
    (DRAFT, 8),
    (WATCHER, 16),
    (RULE_SET, 16),
];
/// Kinds that the original does not know: they are told only where they are limited.
const OURS: [&str; 5] = [SLICE, PORT_PER_NODE, DRAFT, WATCHER, RULE_SET];
/// Slices.
pub(super) const SLICE: &str = "slice";
/// Ports at any one node.
pub(super) const PORT_PER_NODE: &str = "port_per_node";
/// Drafts that are open.
pub(super) const DRAFT: &str = "draft";
/// Requests that watch.
pub(super) const WATCHER: &str = "watcher";
/// Rule sets that were sent by themselves.
pub(super) const RULE_SET: &str = "rule_set";
/// As many as it likes.
pub(super) const UNLIMITED: i64 = -1;
const KIND: &str = "quota";

/// Limits by kind of resource.
pub(super) type Limits = BTreeMap<String, i64>;

/// The limits that were set, by project.
pub(crate) struct Quotas {
    store: Arc<dyn Store>,
    /// Do the defaults count? Not where everybody is everything: labs have no limits but those that
    /// somebody sets.
    has_defaults: bool,
    kept: Mutex<BTreeMap<String, Kept>>,
}

#[derive(Clone)]
struct Kept {
    limits: Limits,
    revision: Revision,
}

impl Quotas {
    /// Reads what was set.
    pub(crate) fn load(store: Arc<dyn Store>, has_defaults: bool) -> Result<Self, StoreError> {
        let mut kept = BTreeMap::new();
        for document in store.list(KIND)? {
            let limits: Limits = document.decode()?;
            kept.insert(document.key.id, Kept { limits, revision: document.revision });
        }
        Ok(Self { store, has_defaults, kept: Mutex::new(kept) })
    }

    /// How many resources of a kind a project may have; none: as many as it likes.
    pub(crate) fn limit(&self, project: &ProjectId, kind: &str) -> Option<usize> {
        let set = self.kept().get(&project.0).and_then(|kept| kept.limits.get(kind).copied());
        usize::try_from(set.unwrap_or_else(|| self.default_of(kind))).ok()
    }

    fn default_of(&self, kind: &str) -> i64 {
        let known = DEFAULTS.iter().find(|(known, _)| *known == kind && self.has_defaults);
        known.map_or(UNLIMITED, |(_, limit)| *limit)
    }

    pub(super) fn defaults(&self) -> Map<String, Value> {
        let all = DEFAULTS.iter().map(|(kind, _)| (*kind, self.default_of(kind)));
        let is_told = |kind: &str, limit: i64| limit != UNLIMITED || !OURS.contains(&kind);
        let told = all.filter(|(kind, limit)| is_told(kind, *limit));
        told.map(|(kind, limit)| (kind.into(), json!(limit))).collect()
    }

    /// Every limit of a project.
    pub(super) fn all(&self, project: &str) -> Map<String, Value> {
        let mut limits = self.defaults();
        if let Some(kept) = self.kept().get(project) {
            limits.extend(kept.limits.iter().map(|(kind, limit)| (kind.clone(), json!(limit))));
        }
        limits
    }

    /// The projects for which something was set.
    pub(super) fn projects(&self) -> Vec<String> {
        self.kept().keys().cloned().collect()
    }

    /// Changes some limits of a project. Blocks on the disk.
    pub(super) fn set(&self, project: &str, changed: Limits) -> Result<(), StoreError> {
        let mut kept = self.kept();
        let former = kept.get(project);
        let expect = former.map_or(Expect::Absent, |kept| Expect::At(kept.revision));
        let mut limits = former.map(|kept| kept.limits.clone()).unwrap_or_default();
        limits.extend(changed);
        let mut transaction = Transaction::new();
        transaction.put(Key::new(KIND, project), &limits, expect)?;
        let revision = self.store.commit(transaction)?;
        kept.insert(project.into(), Kept { limits, revision });
        Ok(())
    }

    /// Lets the defaults count again; was anything set? Blocks on the disk.
    pub(super) fn reset(&self, project: &str) -> Result<bool, StoreError> {
        let mut kept = self.kept();
        let Some(former) = kept.get(project) else { return Ok(false) };
        let mut transaction = Transaction::new();
        transaction.delete(Key::new(KIND, project), Expect::At(former.revision));
        self.store.commit(transaction)?;
        kept.remove(project);
        Ok(true)
    }

    fn kept(&self) -> MutexGuard<'_, BTreeMap<String, Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
