//! When the node had no data plane, and for how long. Pure: time is an argument, and what came
//! meanwhile is counted where the interfaces are read.

use catena_model::Absences;
use std::time::{Duration, Instant};

/// What the agent saw of its data planes.
#[derive(Debug, Default)]
pub(crate) struct Absence {
    /// The process that answered last.
    process: Option<u32>,
    /// Since when nobody answers, or not all ports are attached again.
    since: Option<Instant>,
    /// Another process has answered since.
    is_replaced: bool,
    known: Absences,
}

impl Absence {
    /// The connection to the data plane is gone.
    pub(crate) fn begin(&mut self, now: Instant) {
        // The replacement may end too before it has its ports: one absence, from the first end.
        self.since.get_or_insert(now);
    }

    /// A data plane answers; `was_started`: by this agent, because none did; `resumed`: it runs a
    /// program that it found on disk. Is it another process than before?
    pub(crate) fn answered(&mut self, process: u32, was_started: bool, resumed: bool) -> bool {
        let former = self.process.replace(process);
        let is_other = former.is_some_and(|former| former != process);
        if is_other {
            self.is_replaced = true;
        } else if !self.is_replaced {
            // The connection broke, or began: packets went on.
            self.since = None;
        }
        if former.is_none() && was_started && resumed {
            self.known.unseen += 1;
        }
        is_other
    }

    /// Every port of the program has been tried: an absence is over. How long it was, if it was one.
    pub(crate) fn end(&mut self, now: Instant) -> Option<Duration> {
        if !std::mem::take(&mut self.is_replaced) {
            return None;
        }
        let away = now.saturating_duration_since(self.since.take()?);
        let away_ms = u64::try_from(away.as_millis()).unwrap_or(u64::MAX);
        self.known.seen += 1;
        self.known.last_ms = away_ms;
        self.known.total_ms = self.known.total_ms.saturating_add(away_ms);
        Some(away)
    }

    /// All of them; what was missed is not in it.
    pub(crate) fn known(&self) -> Absences {
        self.known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn an_absence_lasts_from_the_end_of_the_one_to_the_ports_of_the_other() {
        let start = Instant::now();
        let mut absence = Absence::default();
        assert!(!absence.answered(10, true, false), "the first one replaces nobody");
        assert_eq!(absence.end(start), None);
        absence.begin(start);
        assert!(absence.answered(11, true, true));
        assert_eq!(absence.end(start + 70 * MS), Some(70 * MS));
        assert_eq!(absence.end(start + 80 * MS), None, "told once");
        absence.begin(start + 100 * MS);
        assert!(absence.answered(12, true, true));
        // It ends as well before its ports are there.
        absence.begin(start + 130 * MS);
        assert!(absence.answered(13, true, true));
        assert_eq!(absence.end(start + 150 * MS), Some(50 * MS));
        let expected = Absences { seen: 2, last_ms: 50, total_ms: 120, ..Absences::default() };
        assert_eq!(absence.known(), expected);
    }

    #[test]
    fn a_broken_connection_to_the_same_data_plane_is_no_absence() {
        let start = Instant::now();
        let mut absence = Absence::default();
        assert!(!absence.answered(10, false, true), "an adopted one has not been away");
        absence.begin(start);
        assert!(!absence.answered(10, false, true));
        assert_eq!(absence.end(start + 5 * MS), None);
        assert_eq!(absence.known(), Absences::default());
    }

    #[test]
    fn a_data_plane_that_had_ended_before_the_agent_came_is_told_without_a_time() {
        let mut absence = Absence::default();
        assert!(!absence.answered(10, true, true));
        assert_eq!(absence.end(Instant::now()), None);
        assert_eq!(absence.known(), Absences { unseen: 1, ..Absences::default() });
    }
}
