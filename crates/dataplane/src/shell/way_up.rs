//! What is lost between the kernel's program, which counts the frames that it sends up, and the ring,
//! which counts those that come. Knows numbers; refuses to know why a frame was lost.

use std::collections::VecDeque;

/// How often it looks, in nanoseconds.
const LOOK_NS: u64 = 20_000_000;
/// A frame that is still missing so many looks after it was sent up is lost: none is on its way for as long.
const LOOKS: usize = 2;
/// How often both counts are read until none comes in between.
const READINGS_MAX: usize = 8;

/// Both counts as they were when a ring was opened, and what is missing since.
#[derive(Debug)]
pub(super) struct WayUp {
    sent_before: u64,
    arrived_before: u64,
    /// What had been sent up at the last looks.
    sent: VecDeque<u64>,
    next_look_ns: u64,
    lost: u64,
}

impl WayUp {
    /// Begins to compare: what was sent up before is not asked for.
    pub(super) fn begin(
        mut sent_up: impl FnMut() -> u64,
        mut arrived: impl FnMut() -> u64,
    ) -> Self {
        let (mut sent_before, mut arrived_before) = (sent_up(), arrived());
        for _ in 0..READINGS_MAX {
            let again = sent_up();
            if again == sent_before {
                break;
            }
            (sent_before, arrived_before) = (again, arrived());
        }
        let sent = VecDeque::with_capacity(LOOKS + 1);
        Self { sent_before, arrived_before, sent, next_look_ns: 0, lost: 0 }
    }

    /// Compares, if it is time to. `sent_up` must have been read before `arrived`.
    pub(super) fn look(&mut self, now_ns: u64, sent_up: u64, arrived: impl FnOnce() -> u64) {
        if now_ns < self.next_look_ns {
            return;
        }
        self.next_look_ns = now_ns.saturating_add(LOOK_NS);
        // While frames go on coming, later ones hide a part of what is lost; once none comes, none is hidden.
        if self.sent.len() == LOOKS
            && let Some(sent_up) = self.sent.pop_front()
        {
            self.lost = self.lost.max(self.missing(sent_up, arrived()));
        }
        self.sent.push_back(sent_up);
    }

    /// Frames that were lost when another ring takes this one's place: what is missing now never comes.
    /// `arrived` tells of both.
    pub(super) fn lost_at_end(&self, sent_up: u64, arrived: u64) -> u64 {
        self.lost.max(self.missing(sent_up, arrived))
    }

    fn missing(&self, sent_up: u64, arrived: u64) -> u64 {
        let sent = sent_up.saturating_sub(self.sent_before);
        sent.saturating_sub(arrived.saturating_sub(self.arrived_before))
    }

    /// Frames that were lost.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_two_looks_later_is_lost_and_what_is_on_its_way_is_not() {
        let mut way_up = WayUp::begin(|| 100, || 40);
        let mut now_ns = 0;
        let mut look = |sent: u64, arrived: u64| {
            now_ns += LOOK_NS;
            way_up.look(now_ns, 100 + sent, || 40 + arrived);
            way_up.lost()
        };
        // Some are always on their way, but none of them for long.
        assert_eq!([look(3, 0), look(9, 4), look(9, 9), look(12, 9), look(19, 12)], [0; 5]);
        // Seven of nineteen are gone; while others come, they hide some of these.
        assert_eq!([look(19, 12), look(25, 17), look(30, 23), look(30, 23)], [0, 2, 2, 2]);
        assert_eq!(look(30, 23), 7);
        // None of them comes back.
        assert_eq!([look(30, 30), look(30, 30), look(30, 30)], [7; 3]);
        assert_eq!(way_up.lost_at_end(130, 70), 7);
        assert_eq!(way_up.lost_at_end(150, 81), 9, "eleven came to the next ring");
    }

    #[test]
    fn a_frame_that_comes_while_it_begins_is_not_lost() {
        let mut sent = [5, 6, 6].into_iter();
        let mut arrived = [4, 5].into_iter();
        let mut way_up = WayUp::begin(|| sent.next().unwrap_or(6), || arrived.next().unwrap_or(5));
        for look in 1..=LOOKS as u64 + 1 {
            way_up.look(look * LOOK_NS, 6, || 5);
        }
        assert_eq!(way_up.lost(), 0);
    }
}
