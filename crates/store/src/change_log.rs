//! The bounded memory of what changed since the store was opened. Knows no document.

use crate::{CHANGES_KEPT_MAX, Change, Key, Revision, StoreError};
use std::collections::VecDeque;

/// The last changes; whoever asks for older ones must list again.
#[derive(Debug)]
pub(crate) struct ChangeLog {
    /// Everything after this revision is in `changes`.
    complete_after: Revision,
    changes: VecDeque<Change>,
}

impl ChangeLog {
    pub(crate) fn starting_at(revision: Revision) -> Self {
        Self { complete_after: revision, changes: VecDeque::new() }
    }

    pub(crate) fn record(&mut self, revision: Revision, key: Key, is_removed: bool) {
        if self.changes.len() == CHANGES_KEPT_MAX
            && let Some(lost) = self.changes.pop_front()
        {
            self.complete_after = lost.revision;
        }
        self.changes.push_back(Change { revision, key, is_removed });
    }

    pub(crate) fn after(&self, after: Revision) -> Result<Vec<Change>, StoreError> {
        if after < self.complete_after {
            return Err(StoreError::Compacted { after, oldest: self.complete_after });
        }
        Ok(self.changes.iter().filter(|change| change.revision > after).cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_pushed_out_of_the_log_is_never_silently_missing() {
        let mut log = ChangeLog::starting_at(Revision(10));
        assert!(matches!(log.after(Revision(9)), Err(StoreError::Compacted { .. })));
        for n in 0..=CHANGES_KEPT_MAX as u64 {
            log.record(Revision(11 + n), Key::new("k", n), false);
        }
        assert!(matches!(log.after(Revision(10)), Err(StoreError::Compacted { .. })));
        assert_eq!(log.after(Revision(11)).unwrap().len(), CHANGES_KEPT_MAX);
        assert!(log.after(Revision(99_999)).unwrap().is_empty());
    }
}
