//! How long functions took: those inside for packets, and how long packets were with those outside. Knows sums and
//! shares; refuses to read a clock, and to know which packets are timed.

use crate::engine::collections::histogram::Histogram;
use catena_model::service_time::ServiceTime;
use catena_model::sojourn_time::{RECENT_NS, SojournTime};

/// How long a function took for packets.
#[derive(Clone, Default)]
pub(crate) struct Times {
    packets: u64,
    ns: u64,
    each: Histogram,
}

impl Times {
    /// So many packets took so long: together, and each of them.
    pub(crate) fn note(&mut self, packets: u64, (together_ns, each_ns): (u64, u64)) {
        self.packets += packets;
        self.ns = self.ns.saturating_add(together_ns);
        self.each.note(each_ns, packets);
    }

    /// `has_shares`: how many took how long is told as well, which is long.
    pub(super) fn export(&self, has_shares: bool) -> ServiceTime {
        let counts = self.each.counts().filter(|_| has_shares).collect();
        ServiceTime { packets: self.packets, ns: self.ns, counts }
    }
}

/// How long a packet was with a function, and for how many packets that stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sojourn {
    pub(crate) ns: u64,
    pub(crate) stands_for: u64,
}

/// How long packets were with a function outside.
#[derive(Clone, Default)]
pub(crate) struct SojournTimes {
    pub(crate) sampled: u64,
    timed: u64,
    packets: u64,
    ns: u64,
    /// Of the period that is open, and of the one before.
    recent: [Recent; 2],
    /// Which one is open, from the start of the engine's time.
    period: u64,
}

/// Those of a period.
#[derive(Clone, Default)]
struct Recent {
    timed: u64,
    each: Histogram,
}

impl SojournTimes {
    /// Asks for all the memory it will need.
    pub(crate) fn make_room(&mut self) {
        self.recent.iter_mut().for_each(|recent| recent.each.make_room());
    }

    /// One of those that are timed has come back.
    pub(crate) fn note(&mut self, sojourn: Sojourn, now_ns: u64) {
        let Sojourn { ns, stands_for } = sojourn;
        self.timed += 1;
        self.packets = self.packets.saturating_add(stands_for);
        self.ns = self.ns.saturating_add(ns.saturating_mul(stands_for));
        self.turn_to(now_ns / RECENT_NS);
        let [open, _] = &mut self.recent;
        open.timed += 1;
        open.each.note(ns, stands_for);
    }

    fn turn_to(&mut self, period: u64) {
        let periods = period.saturating_sub(std::mem::replace(&mut self.period, period));
        if periods == 0 {
            return;
        }
        self.recent.swap(0, 1);
        self.recent[0].clear();
        if periods > 1 {
            self.recent[1].clear();
        }
    }

    /// `has_shares`: how many took how long of late is told as well, which is long.
    pub(super) fn export(&self, has_shares: bool, now_ns: u64) -> SojournTime {
        let Self { sampled, timed, packets, ns, .. } = *self;
        let mut told = SojournTime { sampled, timed, packets, ns, ..SojournTime::default() };
        let gone = (now_ns / RECENT_NS).saturating_sub(self.period);
        let still = [gone < 2, gone < 1];
        for (recent, _) in self.recent.iter().zip(still).filter(|(_, is_recent)| *is_recent) {
            told.recent_timed += recent.timed;
            for (longest, count) in recent.each.counts().filter(|_| has_shares) {
                *told.recent.entry(longest).or_default() += count;
            }
        }
        told
    }
}

impl Recent {
    fn clear(&mut self) {
        self.timed = 0;
        self.each.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Sojourn = Sojourn { ns: 100, stands_for: 1 };

    #[test]
    fn what_is_recent_is_of_this_period_and_the_one_before() {
        let mut times = SojournTimes { sampled: 4, ..SojournTimes::default() };
        times.note(ONE, 0);
        times.note(Sojourn { ns: 5_000, stands_for: 64 }, RECENT_NS);
        let told = |now_ns: u64| times.export(true, now_ns);
        let both = told(RECENT_NS * 2 - 1);
        assert_eq!((both.sampled, both.timed, both.packets), (4, 2, 65));
        assert_eq!((both.ns, both.recent_timed), (100 + 64 * 5_000, 2));
        assert_eq!(both.recent.values().sum::<u64>(), 65);
        let last = told(RECENT_NS * 2);
        assert_eq!((last.recent_timed, last.recent.len(), last.timed), (1, 1, 2));
        let none = told(RECENT_NS * 3);
        assert_eq!((none.recent_timed, none.recent.len(), none.timed), (0, 0, 2));
        assert!(times.export(false, RECENT_NS).recent.is_empty());
    }

    #[test]
    fn a_period_without_any_forgets_both() {
        let mut times = SojournTimes::default();
        times.note(ONE, 0);
        times.note(ONE, RECENT_NS * 2);
        assert_eq!(times.export(true, RECENT_NS * 2).recent_timed, 1);
    }
}
