//! Slices that people put in at this node, for a time: in no program, on no disk, marked wherever
//! they are shown. They outlive the agent, and end with this process, with the last rule that sends
//! into their path, or when others are put in.

use super::super::DataplaneError;
use super::Control;
use crate::engine::Tables;
use catena_model::Answer;
use catena_model::limits::NODE_INJECTED_SLICES_MAX;
use catena_model::program::SliceEntry;

impl Control {
    /// Puts slices in instead of those that were: all of them, or none.
    pub(super) fn inject(&mut self, slices: Vec<SliceEntry>) -> Result<Answer, DataplaneError> {
        let refused = |reason: String| Ok(Answer::Refused { reason });
        let Some(running) = &self.running else {
            return refused("this data plane has no program yet".into());
        };
        if slices.len() > NODE_INJECTED_SLICES_MAX {
            let have = slices.len();
            return refused(format!(
                "at most {NODE_INJECTED_SLICES_MAX} slices are put in by hand, not {have}"
            ));
        }
        let mark = |slice| SliceEntry { is_injected: true, ..slice };
        let slices: Vec<SliceEntry> = slices.into_iter().map(mark).collect();
        let mut tables = running.tables.without_injected();
        let are_in = tables.inject(slices.clone());
        if let Some(left) = slices.iter().find(|slice| !are_in.contains(slice)) {
            return refused(format!(
                "slice '{}' would go into path {}, into which no rule of this node sends",
                left.name, left.path
            ));
        }
        self.injected = are_in;
        let tables = self.order_tables(tables)?;
        if let Some(running) = &mut self.running {
            running.tables = tables;
        }
        tracing::warn!("{} slices are put in by hand", self.injected.len());
        Ok(Answer::Injected(self.injected.clone()))
    }

    /// Puts them into tables that come into force, as far as these send where they lead.
    pub(super) fn keep_injected(&mut self, tables: &mut Tables) {
        if self.injected.is_empty() {
            return;
        }
        let before = self.injected.len();
        self.injected = tables.inject(std::mem::take(&mut self.injected));
        let ended = before - self.injected.len();
        if ended > 0 {
            tracing::warn!("{ended} slices put in by hand have ended with the path they go into");
        }
    }

    /// What is said of them beside all other news of the data plane.
    pub(super) fn injected_by_hand(&self) -> Option<String> {
        let count = self.injected.len();
        let words = if count == 1 { "slice is" } else { "slices are" };
        (count > 0).then(|| format!("{count} {words} put in by hand"))
    }
}
