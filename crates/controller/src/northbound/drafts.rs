//! Drafts: copies of what is declared, on which requests can be tried before they are made. Knows
//! which copies there are and for how long; refuses to know any resource and any planner.
//!
//! A request that names a draft in `Catena-Draft` is validated and carried out like every other,
//! but on the copy: nothing is stored and no node hears of it.

use crate::auth::Identity;
use crate::declared::{Declared, Snapshot};
use axum::http::HeaderMap;
use catena_model::ProjectId;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use uuid::Uuid;

/// The header that names a draft.
pub(crate) const DRAFT_HEADER: &str = "catena-draft";
/// Drafts at one time; a further one takes the place of the one that was used longest ago.
const DRAFTS_MAX: usize = 16;
/// A draft that nobody has used for so long is gone.
const IDLE_MAX: Duration = Duration::from_secs(60);

/// A copy and what it was made of.
#[derive(Clone)]
pub(crate) struct Draft {
    /// What was declared when it was made.
    pub(crate) origin: Snapshot,
    /// The copy.
    pub(crate) declared: Arc<Declared>,
}

struct Kept {
    draft: Draft,
    /// Whose it is: nobody else's requests may name it.
    project: ProjectId,
    used: Instant,
}

/// All drafts.
#[derive(Default)]
pub(crate) struct Drafts(Mutex<BTreeMap<Uuid, Kept>>);

impl Drafts {
    /// Copies what is declared now.
    pub(crate) fn open(&self, declared: &Declared, identity: &Identity) -> Uuid {
        let origin = declared.snapshot();
        let draft = Draft { declared: Arc::new(Declared::copy_of(&origin)), origin };
        let mut drafts = self.fresh();
        if drafts.len() >= DRAFTS_MAX {
            let oldest = drafts.iter().min_by_key(|(_, kept)| kept.used).map(|(id, _)| *id);
            oldest.and_then(|id| drafts.remove(&id));
        }
        let id = Uuid::new_v4();
        let project = identity.project.clone();
        drafts.insert(id, Kept { draft, project, used: Instant::now() });
        id
    }

    /// The draft of this name, if it is still there.
    pub(crate) fn get(&self, id: &str, identity: &Identity) -> Option<Draft> {
        let id = Uuid::parse_str(id).ok()?;
        let mut drafts = self.fresh();
        let kept = drafts.get_mut(&id).filter(|kept| identity.sees(&kept.project))?;
        kept.used = Instant::now();
        Some(kept.draft.clone())
    }

    /// Throws a draft away; was it there?
    pub(crate) fn close(&self, id: &str, identity: &Identity) -> bool {
        let Ok(id) = Uuid::parse_str(id) else { return false };
        let mut drafts = self.fresh();
        let is_seen = drafts.get(&id).is_some_and(|kept| identity.sees(&kept.project));
        is_seen && drafts.remove(&id).is_some()
    }

    fn fresh(&self) -> MutexGuard<'_, BTreeMap<Uuid, Kept>> {
        let mut drafts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        drafts.retain(|_, kept| kept.used.elapsed() < IDLE_MAX);
        drafts
    }
}

/// The draft that a request names.
pub(crate) fn named(headers: &HeaderMap) -> Option<&str> {
    headers.get(DRAFT_HEADER).map(|value| value.to_str().unwrap_or_default())
}
