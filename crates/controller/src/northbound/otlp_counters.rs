//! What became of the metrics that were exported by OTLP. Knows counts; refuses to know to whom.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// What became of what was exported.
#[derive(Debug, Default)]
pub(crate) struct OtlpCounters {
    exported: AtomicU64,
    failed: AtomicU64,
    rejected_points: AtomicU64,
    trouble: Mutex<Option<String>>,
}

impl OtlpCounters {
    /// A request was taken, but for so many of its figures.
    pub(super) fn took(&self, rejected: u64) {
        self.exported.fetch_add(1, Ordering::Relaxed);
        self.rejected_points.fetch_add(rejected, Ordering::Relaxed);
    }

    /// A request was not taken.
    pub(super) fn failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    /// Why figures were not taken the last time; none: they were.
    pub(super) fn say(&self, trouble: Option<String>) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = trouble;
    }

    /// What was said last.
    pub(super) fn trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Requests by what became of them.
    pub(super) fn requests(&self) -> [(&'static str, u64); 2] {
        [
            ("exported", self.exported.load(Ordering::Relaxed)),
            ("failed", self.failed.load(Ordering::Relaxed)),
        ]
    }

    /// Figures that a collector took none of, in requests that it took.
    pub(super) fn rejected_points(&self) -> u64 {
        self.rejected_points.load(Ordering::Relaxed)
    }
}
