//! When a resource was made and changed, and how often: kept beside what it means, in its document.
//! Of what was stored before there were stamps, what nobody wrote down stays unknown.

use super::Resource;
use crate::wall_clock;
use serde::{Deserialize, Serialize};

/// The history of a resource, as short as it is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stamp {
    /// When it was made, in seconds since 1970; none: nobody wrote it down.
    made_s: Option<u64>,
    /// When it was changed last, likewise.
    changed_s: Option<u64>,
    /// Rises by one with each change.
    pub(crate) revision: u64,
}

impl Stamp {
    /// Of what is made now.
    pub(super) fn new(now_s: u64) -> Self {
        Self { made_s: Some(now_s), changed_s: Some(now_s), revision: 0 }
    }

    /// After one more change. A clock that was set back takes no change before another.
    pub(super) fn changed(self, now_s: u64) -> Self {
        let changed_s = self.changed_s.map_or(now_s, |before| before.max(now_s));
        Self { changed_s: Some(changed_s), revision: self.revision.saturating_add(1), ..self }
    }

    /// When it was made, as RFC 3339 text.
    pub(crate) fn made(self) -> Option<String> {
        self.made_s.map(wall_clock::text)
    }

    /// When it was changed last, as RFC 3339 text.
    pub(crate) fn changed_last(self) -> Option<String> {
        self.changed_s.map(wall_clock::text)
    }
}

/// A document that has a stamp.
#[derive(Serialize)]
pub(super) struct Stamped<'r, R: Resource> {
    #[serde(flatten)]
    pub(super) resource: &'r R,
    pub(super) stamp: Stamp,
}

/// The stamp of a document that may have one.
#[derive(Deserialize)]
pub(super) struct StampOf {
    #[serde(default)]
    pub(super) stamp: Stamp,
}
