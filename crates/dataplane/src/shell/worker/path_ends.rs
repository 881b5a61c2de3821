//! Packets that came to the end of their path, on their way to the control thread: a few times a second, and never
//! more than it takes. Refuses to know what is told of them.

use super::Worker;
use crate::shell::order::ToldEnds;
use std::sync::Arc;

/// How long the first of them waits for others, in nanoseconds.
const GATHER_NS: u64 = 200_000_000;
/// Reports that the control thread may not have taken yet. While it has as many, the engine keeps the rest.
const UNTAKEN_MAX: usize = 2;

/// What a worker knows of its reports of them.
#[derive(Debug, Default)]
pub(super) struct EndReports {
    /// When the next is made; none: there is nothing to tell.
    due_ns: Option<u64>,
    /// Each report that was not taken yet has one more of it.
    untaken: Arc<()>,
}

impl EndReports {
    /// Is it time for a report? Answers when it is, if it is not.
    fn is_due(&mut self, now_ns: u64) -> Result<(), u64> {
        let due_ns = *self.due_ns.get_or_insert(now_ns.saturating_add(GATHER_NS));
        if now_ns < due_ns {
            return Err(due_ns);
        }
        let untaken = Arc::strong_count(&self.untaken) - 1;
        self.due_ns = (untaken >= UNTAKEN_MAX).then(|| now_ns.saturating_add(GATHER_NS));
        self.due_ns.map_or(Ok(()), Err)
    }
}

impl Worker {
    /// Hands on what the engine has of them.
    pub(super) fn report_path_ends(&mut self) {
        if !self.engine.has_path_ends() {
            return;
        }
        if let Err(due_ns) = self.end_reports.is_due(self.now_ns()) {
            // Without any packet more it would sleep for longer.
            self.tick_ns = Some(self.tick_ns.map_or(due_ns, |tick_ns| tick_ns.min(due_ns)));
            return;
        }
        let told = ToldEnds {
            ends: self.engine.take_path_ends(),
            lost_in_engine: self.engine.record_losses(),
            _untaken: Arc::clone(&self.end_reports.untaken),
        };
        self.reports.tell_ends(told);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_some_time_apart_and_wait_while_nobody_takes_them() {
        let mut reports = EndReports::default();
        assert_eq!(reports.is_due(50), Err(50 + GATHER_NS));
        assert_eq!(reports.is_due(60), Err(50 + GATHER_NS));
        let mut now = 50 + GATHER_NS;
        let mut untaken = Vec::new();
        for _ in 0..UNTAKEN_MAX {
            assert_eq!(reports.is_due(now), Ok(()));
            untaken.push(Arc::clone(&reports.untaken));
            assert_eq!(reports.is_due(now), Err(now + GATHER_NS));
            now += GATHER_NS;
        }
        for _ in 0..5 {
            assert_eq!(reports.is_due(now), Err(now + GATHER_NS));
            now += GATHER_NS;
        }
        untaken.pop();
        assert_eq!(reports.is_due(now), Ok(()));
    }
}
