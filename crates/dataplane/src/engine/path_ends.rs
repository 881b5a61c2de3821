//! What is told of packets at the ends of their paths, until somebody asks. Refuses to know who is told.

use super::{Engine, RecordLosses, ToldEnd};

impl Engine {
    /// What was told of packets at the ends of their paths since this was asked last, in their order. What was lost
    /// until now counts as told.
    pub fn take_path_ends(&mut self) -> Vec<ToldEnd> {
        self.carried.records.take_ends()
    }

    /// Was anything told, or lost?
    #[must_use]
    pub fn has_path_ends(&self) -> bool {
        self.carried.records.has_news()
    }

    /// What was lost of records, since the engine began.
    #[must_use]
    pub const fn record_losses(&self) -> RecordLosses {
        self.carried.records.losses()
    }
}
