//! What became of what collectors of others were told. Knows counts; refuses to know who was told what.

use std::sync::atomic::{AtomicU64, Ordering};

/// What became of what was told.
#[derive(Debug, Default)]
pub(crate) struct Tellings {
    told: AtomicU64,
    failed: AtomicU64,
    refused_points: AtomicU64,
}

impl Tellings {
    /// A request was taken, but for so many of its figures.
    pub(super) fn took(&self, refused: u64) {
        self.told.fetch_add(1, Ordering::Relaxed);
        self.refused_points.fetch_add(refused, Ordering::Relaxed);
    }

    /// A request was not taken.
    pub(super) fn failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    /// Requests by what became of them.
    pub(super) fn requests(&self) -> [(&'static str, u64); 2] {
        [
            ("told", self.told.load(Ordering::Relaxed)),
            ("failed", self.failed.load(Ordering::Relaxed)),
        ]
    }

    /// Figures that a collector took none of, in requests that it took.
    pub(super) fn refused_points(&self) -> u64 {
        self.refused_points.load(Ordering::Relaxed)
    }
}
