//! What is told of packets at the ends of their paths.

use super::{Engine, RecordLosses};
use catena_model::telemetry::PathEnd;

impl Engine {
    /// What was told of packets at the ends of their paths since this was asked last.
    pub fn take_path_ends(&mut self) -> Vec<PathEnd> {
        self.carried.records.take_ends()
    }

    /// What was lost of that, so far.
    #[must_use]
    pub fn record_losses(&self) -> RecordLosses {
        self.carried.records.losses()
    }
}
