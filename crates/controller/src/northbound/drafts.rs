//! Drafts: copies of what is declared, on which requests can be tried before they are made. Knows
//! which copies there are and for how long; refuses to know any resource and any planner.
//!
//! A request that names a draft in `Catena-OpenDraft` is validated and carried out like every other,
//! but on the copy: nothing is stored and no node hears of it.

use crate::auth::{Bearer, Identity};
use crate::declared::{Declared, Snapshot};
use axum::http::HeaderMap;
use catena_model::ProjectId;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use uuid::Uuid;

/// The header that names a draft.
pub(crate) const DRAFT_HEADER: &str = "catena-draft";
/// Drafts at one time, whoever's they are.
const DRAFTS_MAX: usize = 256;
/// A draft that nobody has used for so long is gone.
const IDLE_MAX: Duration = Duration::from_secs(60);

/// A copy and what it was made of.
#[derive(Clone)]
pub(crate) struct OpenDraft {
    /// What was declared when it was made.
    pub(crate) origin: Snapshot,
    /// The copy.
    pub(crate) declared: Arc<Declared>,
}

/// Who made a draft: nobody else's requests may name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Maker {
    project: ProjectId,
    bearer: Bearer,
}

impl Maker {
    /// The sender of a request.
    pub(crate) fn of(headers: &HeaderMap, identity: &Identity) -> Self {
        Self { project: identity.project.clone(), bearer: Bearer::of(headers) }
    }
}

/// Why there is no room for a further draft.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoRoom {
    /// The project has as many as it may.
    Project,
    /// So many are open in all.
    All(usize),
}

struct Kept {
    draft: OpenDraft,
    maker: Maker,
    used: Instant,
}

/// All drafts.
#[derive(Default)]
pub(crate) struct Drafts(Mutex<BTreeMap<Uuid, Kept>>);

impl Drafts {
    /// Copies what is declared now. Where the project has as many as it may, or all have, the one
    /// that its maker used longest ago goes for it, and nobody else's.
    pub(crate) fn open(
        &self,
        declared: &Declared,
        maker: Maker,
        project_max: Option<usize>,
    ) -> Result<Uuid, NoRoom> {
        let origin = declared.snapshot();
        let draft = OpenDraft { declared: Arc::new(Declared::copy_of(&origin)), origin };
        let mut drafts = self.fresh();
        let is_over = project_max.is_some_and(|max| of_project(&drafts, &maker.project) >= max);
        if is_over || drafts.len() >= DRAFTS_MAX {
            let own = drafts.iter().filter(|(_, kept)| kept.maker == maker);
            let oldest = own.min_by_key(|(_, kept)| kept.used).map(|(id, _)| *id);
            let no_room = if is_over { NoRoom::Project } else { NoRoom::All(DRAFTS_MAX) };
            drafts.remove(&oldest.ok_or(no_room)?);
        }
        let id = Uuid::new_v4();
        drafts.insert(id, Kept { draft, maker, used: Instant::now() });
        Ok(id)
    }

    /// The draft of this name, if it is still there and he made it.
    pub(crate) fn get(&self, id: &str, maker: &Maker) -> Option<OpenDraft> {
        let id = Uuid::parse_str(id).ok()?;
        let mut drafts = self.fresh();
        let kept = drafts.get_mut(&id).filter(|kept| kept.maker == *maker)?;
        kept.used = Instant::now();
        Some(kept.draft.clone())
    }

    /// Throws a draft away; was it there?
    pub(crate) fn close(&self, id: &str, maker: &Maker) -> bool {
        let Ok(id) = Uuid::parse_str(id) else { return false };
        let mut drafts = self.fresh();
        let is_own = drafts.get(&id).is_some_and(|kept| kept.maker == *maker);
        is_own && drafts.remove(&id).is_some()
    }

    /// How many a project has.
    pub(crate) fn count(&self, project: &ProjectId) -> usize {
        of_project(&self.fresh(), project)
    }

    /// Those of a project, as they are now.
    pub(crate) fn of_project(&self, project: &ProjectId) -> Vec<OpenDraft> {
        let drafts = self.fresh();
        let own = drafts.values().filter(|kept| kept.maker.project == *project);
        own.map(|kept| kept.draft.clone()).collect()
    }

    fn fresh(&self) -> MutexGuard<'_, BTreeMap<Uuid, Kept>> {
        let mut drafts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        drafts.retain(|_, kept| kept.used.elapsed() < IDLE_MAX);
        drafts
    }
}

fn of_project(drafts: &BTreeMap<Uuid, Kept>, project: &ProjectId) -> usize {
    drafts.values().filter(|kept| kept.maker.project == *project).count()
}

/// The draft that a request names.
pub(crate) fn named(headers: &HeaderMap) -> Option<&str> {
    headers.get(DRAFT_HEADER).map(|value| value.to_str().unwrap_or_default())
}
