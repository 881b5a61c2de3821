//! What it costs to ask by a thread: from handing a question to a lane that has none until its answer is heard, without
//! the time that the function takes. A thread that sleeps is woken for it, and so is whoever hears the answer, so that it
//! is dearer where little comes. Knows lanes by number; refuses to know what is asked.

use std::collections::BTreeMap;

/// How much of a newer price goes into the mean.
const NEWER: f64 = 0.125;
/// How much of it is forgotten at each look between which nobody was asked.
const FORGOTTEN: f64 = 1.0 / 64.0;
/// A price beyond so many times the mean is a moment that the machine has missed, and counts as that.
const OUTLIER: f64 = 8.0;

/// What a question knows of its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Errand {
    lane: usize,
    /// When it was handed to a lane that had nothing else; none: others were before it, or nobody wants to know.
    handed_ns: Option<u64>,
}

/// The lanes, and what asking by one of them has cost.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hops {
    /// Questions that are with each lane.
    with: BTreeMap<usize, usize>,
    mean_ns: Option<f64>,
    /// Has any been seen since it was looked at?
    has_seen: bool,
}

impl Hops {
    /// A question goes to a lane.
    pub(crate) fn hand(&mut self, lane: usize, meter: Option<fn() -> u64>) -> Errand {
        let with = self.with.entry(lane).or_default();
        *with += 1;
        Errand { lane, handed_ns: meter.filter(|_| *with == 1).map(|meter| meter()) }
    }

    /// Its answer is heard.
    pub(crate) fn back(
        &mut self,
        errand: Errand,
        took_ns: Option<u64>,
        meter: Option<fn() -> u64>,
    ) {
        let with = self.with.entry(errand.lane).or_default();
        *with = with.saturating_sub(1);
        let (Some(handed), Some(took), Some(meter)) = (errand.handed_ns, took_ns, meter) else {
            return;
        };
        self.note(meter().saturating_sub(handed).saturating_sub(took) as f64);
    }

    /// A lane has stopped, with all that is with it.
    pub(crate) fn end(&mut self, lane: usize) {
        self.with.remove(&lane);
    }

    fn note(&mut self, hop_ns: f64) {
        self.has_seen = true;
        let mean = self.mean_ns.get_or_insert(hop_ns);
        *mean += NEWER * (hop_ns.min(*mean * OUTLIER) - *mean);
    }

    /// In the mean, in nanoseconds; `first_ns` as long as nobody was asked. While nobody is asked, what was seen last is
    /// forgotten slowly, so that it is tried again.
    pub(crate) fn look(&mut self, first_ns: f64) -> f64 {
        let has_seen = std::mem::take(&mut self.has_seen);
        let mean = self.mean_ns.get_or_insert(first_ns);
        if !has_seen {
            *mean += FORGOTTEN * (first_ns - *mean);
        }
        *mean
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    static NOW: AtomicU64 = AtomicU64::new(0);

    fn now() -> u64 {
        NOW.load(Ordering::Relaxed)
    }

    #[test]
    fn questions_that_wait_behind_others_tell_nothing_of_the_hop() {
        let mut hops = Hops::default();
        NOW.store(1_000, Ordering::Relaxed);
        let first = hops.hand(0, Some(now));
        let second = hops.hand(0, Some(now));
        let other = hops.hand(1, Some(now));
        NOW.store(31_000, Ordering::Relaxed);
        hops.back(first, Some(20_000), Some(now));
        assert_eq!(hops.mean_ns, Some(10_000.0));
        hops.back(second, Some(1), Some(now));
        assert_eq!(hops.mean_ns, Some(10_000.0));
        hops.back(other, Some(14_000), Some(now));
        assert_eq!(hops.mean_ns, Some(10_750.0));
        // Not timed, or far too late.
        let untimed = hops.hand(1, None);
        hops.back(untimed, Some(5), Some(now));
        let late = hops.hand(1, Some(now));
        NOW.store(90_000_000, Ordering::Relaxed);
        hops.back(late, Some(0), Some(now));
        assert_eq!(hops.mean_ns, Some(10_750.0 * (1.0 + 7.0 * NEWER)));
        assert_eq!(hops.with.values().sum::<usize>(), 0);
        let seen = hops.look(500.0);
        assert_eq!(hops.mean_ns, Some(seen));
        assert!(hops.look(500.0) < seen);
        (0..1_000).for_each(|_| {
            hops.look(500.0);
        });
        assert!((hops.look(500.0) - 500.0).abs() < 1.0);
        assert_eq!(Hops::default().look(700.0), 700.0);
    }
}
