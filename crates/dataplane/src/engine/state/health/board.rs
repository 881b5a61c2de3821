//! What engines that share a node's packets tell each other of its watched instances. One of them
//! probes and judges; what the others see come back is evidence for it, and its verdicts are theirs.
//! Each looks once in a heartbeat, so no packet waits for the lock.

use super::{Due, GAP_NS, Health, ProbeWay, Watch};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Which part an engine has in watching.
#[derive(Clone, Debug, Default)]
pub enum WatchDuty {
    /// It is the only engine.
    #[default]
    Alone,
    /// It probes and judges, for others too.
    Judges(Arc<Board>),
    /// It tells what it sees, under a number of its own.
    Tells(Arc<Board>, usize),
}

/// The board.
#[derive(Debug, Default)]
pub struct Board(Mutex<Notes>);

#[derive(Debug, Default)]
struct Notes {
    /// Of each watch, by the serial that all engines know it by.
    lines: HashMap<u64, Line>,
    /// How often each who tells has been here.
    beats: BTreeMap<usize, u64>,
}

#[derive(Debug, Default)]
struct Line {
    news: News,
    is_dead: bool,
    is_way_proven: bool,
}

/// What was seen of an instance since the last heartbeat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct News {
    pub(super) has_returned: bool,
    pub(super) way: Option<ProbeWay>,
    pub(super) answers_link: bool,
    pub(super) returns_marks: bool,
}

impl News {
    fn add(&mut self, later: Self) {
        self.has_returned |= later.has_returned;
        self.way = later.way.or(self.way);
        self.answers_link |= later.answers_link;
        self.returns_marks |= later.returns_marks;
    }
}

impl Board {
    fn notes(&self) -> MutexGuard<'_, Notes> {
        // A line is whole whoever panicked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Health {
    /// Tells the news, and takes the verdicts over.
    pub(super) fn tell(&mut self, board: &Board, teller: usize) {
        let mut notes = board.notes();
        *notes.beats.entry(teller).or_default() += 1;
        for watch in &mut self.watches {
            let line = notes.lines.entry(watch.serial).or_default();
            line.news.add(std::mem::take(&mut watch.news));
            watch.is_way_proven = line.is_way_proven;
            // What was judged without the news is no verdict.
            if line.news == News::default() {
                watch.is_dead = line.is_dead;
            }
        }
    }

    /// Takes what others have seen as if it had been seen here, judges, and tells who is dead.
    pub(super) fn judge_by(&mut self, board: &Board, now_ns: u64, due: &mut Vec<Due>) -> u64 {
        let notes = &mut *board.notes();
        for (teller, beat) in &notes.beats {
            let heard = self.tellers.entry(*teller).or_insert((*beat, now_ns));
            if heard.0 != *beat {
                *heard = (*beat, now_ns);
            }
        }
        for watch in &mut self.watches {
            if let Some(line) = notes.lines.get_mut(&watch.serial) {
                watch.hear(std::mem::take(&mut line.news));
            }
        }
        let wake_ns = self.judge(now_ns, due);
        for watch in &self.watches {
            let line = notes.lines.entry(watch.serial).or_default();
            (line.is_dead, line.is_way_proven) = (watch.is_dead, watch.is_way_proven);
        }
        wake_ns
    }

    /// Has somebody who tells not been heard for so long that silence means nothing?
    pub(super) fn is_deaf(&self, now_ns: u64) -> bool {
        self.tellers.values().any(|(_, heard_ns)| now_ns.saturating_sub(*heard_ns) > GAP_NS)
    }

    /// Lines the board up with new tables: ways that were told may be gone with the old.
    pub(super) fn align_board(&self) {
        let WatchDuty::Judges(board) = &self.duty else { return };
        let serials: BTreeSet<u64> = self.watches.iter().map(|watch| watch.serial).collect();
        let mut notes = board.notes();
        notes.lines.retain(|serial, _| serials.contains(serial));
        notes.lines.values_mut().for_each(|line| line.news.way = None);
    }
}

impl Watch {
    fn hear(&mut self, news: News) {
        if news.answers_link {
            self.answers_link = true;
        }
        if news.has_returned || news.returns_marks || (news.answers_link && !self.is_way_proven) {
            self.saw();
        }
        if !self.is_way_proven {
            self.way = news.way.or(self.way);
        }
        if news.returns_marks {
            self.is_way_proven = self.way.is_some();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use catena_model::id::{InstanceId, PortId};
    use catena_model::limits::{PROBE_ANSWER_WAIT_MS, PROBE_PERIOD_MS, PROBES_UNANSWERED_MAX};
    use uuid::Uuid;

    const MS: u64 = 1_000_000;

    /// Two engines' watches of one instance whose link is known to answer.
    fn both() -> (Health, Health, Arc<Board>) {
        let ports = [2, 3].map(|number| PortId(Uuid::from_u128(number)));
        let mut watch = Watch::new(InstanceId(Uuid::from_u128(1)), ports.into(), 1);
        watch.answers_link = true;
        let health = |duty| Health {
            watches: vec![watch.clone()],
            places: vec![Some(0)],
            ..Health::new(7, duty)
        };
        let board = Arc::new(Board::default());
        let judges = health(WatchDuty::Judges(Arc::clone(&board)));
        (judges, health(WatchDuty::Tells(Arc::clone(&board), 1)), board)
    }

    #[test]
    fn who_tells_probes_nobody_and_hears_of_a_death() {
        let (mut judge, mut teller, _) = both();
        let (mut asked, mut not_asked) = (Vec::new(), Vec::new());
        for ms in
            1..=PROBE_PERIOD_MS * (u64::from(PROBES_UNANSWERED_MAX) + 1) + PROBE_ANSWER_WAIT_MS
        {
            judge.tick(ms * MS, &mut asked);
            for due in asked.drain(..) {
                judge.sent(due.watch, ms * MS);
            }
            teller.tick(ms * MS, &mut not_asked);
        }
        assert!(not_asked.is_empty());
        assert!(judge.is_dead(Some(0)));
        assert!(teller.is_dead(Some(0)));
    }

    #[test]
    fn what_came_back_to_another_engine_keeps_an_instance_alive() {
        let (mut judge, mut teller, _) = both();
        let mut due = Vec::new();
        for ms in 1..=PROBE_PERIOD_MS * 20 {
            teller.saw_return(0, || None);
            teller.tick(ms * MS, &mut due);
            judge.tick(ms * MS, &mut due);
            for due in due.drain(..) {
                judge.sent(due.watch, ms * MS);
            }
            assert!(!judge.is_dead(Some(0)) && !teller.is_dead(Some(0)), "after {ms} ms");
        }
    }

    #[test]
    fn while_somebody_who_tells_is_silent_nobody_dies() {
        let (mut judge, mut teller, _) = both();
        let mut due = Vec::new();
        teller.tick(MS, &mut due);
        for ms in 1..=PROBE_PERIOD_MS * 20 {
            judge.tick(ms * MS, &mut due);
            for due in due.drain(..) {
                judge.sent(due.watch, ms * MS);
            }
            assert!(!judge.is_dead(Some(0)), "after {ms} ms");
        }
    }

    #[test]
    fn who_is_dead_lives_again_by_what_another_engine_saw() {
        let (mut judge, mut teller, board) = both();
        let mut due = Vec::new();
        judge.watches[0].is_dead = true;
        judge.judge_by(&board, MS, &mut due);
        teller.tell(&board, 1);
        assert!(teller.is_dead(Some(0)));
        teller.saw_return(0, || None);
        assert!(!teller.is_dead(Some(0)));
        // Not judged anew yet: the old verdict must not come back.
        teller.tell(&board, 1);
        assert!(!teller.is_dead(Some(0)));
        judge.judge_by(&board, 2 * MS, &mut due);
        assert!(!judge.is_dead(Some(0)));
        teller.tell(&board, 1);
        assert!(!teller.is_dead(Some(0)));
    }
}
