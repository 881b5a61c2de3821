//! What a worker tells the control thread of its own accord.

use super::Worker;
use crate::shell::order::Report;

impl Worker {
    /// Has the controller asked for what the last vectors brought.
    pub(super) fn ask_for_flows(&mut self) {
        let flows = self.engine.take_flows_asked();
        if !flows.is_empty() {
            self.reports.ask_for(flows);
        }
    }

    pub(super) fn report_links(&mut self) {
        let turns = self.engine.link_turns();
        if turns != self.link_turns {
            self.link_turns = turns;
            self.reports.send(Report::LinksTurned);
        }
    }

    /// Hands on what functions have handed out: now and then, so that a row of them costs no more than one.
    pub(super) fn report_messages(&mut self) {
        let messages = self.engine.take_function_messages();
        if !messages.is_empty() {
            self.reports.send(Report::FunctionMessages(messages));
        }
    }

    /// Has what functions remember written down.
    pub(super) fn report_function_state(&mut self) {
        let changes = self.engine.take_function_state(false);
        if !changes.is_empty() {
            self.reports.tell_state(changes);
        }
    }
}
