//! What it costs to ask by a thread: from handing it a question until its answer is heard, without the time that the
//! function takes, where it slept. It is woken for that, and so is whoever hears the answer. Knows prices; refuses to
//! know what is asked.

/// How much of a newer price goes into the mean.
const NEWER: f64 = 0.125;
/// How much of it is forgotten at each look between which nobody was asked.
const FORGOTTEN: f64 = 1.0 / 64.0;
/// A price beyond so many times the mean is a moment that the machine has missed, and counts as that.
const OUTLIER: f64 = 8.0;

/// What a question knows of its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Errand {
    /// When it was handed over; none: nobody wants to know.
    pub(crate) handed_ns: Option<u64>,
    /// Did its thread sleep then? One that was at work has not come to it at once.
    pub(crate) has_woken: bool,
}

/// What asking has cost.
#[derive(Clone, Debug, Default)]
pub(crate) struct Handoffs {
    mean_ns: Option<f64>,
    /// Has any been seen since it was looked at?
    has_seen: bool,
}

impl Handoffs {
    /// An answer is heard now.
    pub(crate) fn back(&mut self, errand: Errand, took_ns: Option<u64>, now_ns: u64) {
        if let (Some(handed), Some(took), true) = (errand.handed_ns, took_ns, errand.has_woken) {
            let handoff_ns = now_ns.saturating_sub(handed).saturating_sub(took) as f64;
            self.has_seen = true;
            let mean = self.mean_ns.get_or_insert(handoff_ns);
            *mean += NEWER * (handoff_ns.min(*mean * OUTLIER) - *mean);
        }
    }

    /// In the mean, in nanoseconds; `first_ns` as long as nobody was asked. While nobody is asked, what was seen last
    /// is forgotten slowly, so that it is tried again.
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

    #[test]
    fn whoever_was_at_work_tells_nothing_of_the_handoff() {
        let mut handoffs = Handoffs::default();
        let errand = |has_woken| Errand { handed_ns: Some(1_000), has_woken };
        handoffs.back(errand(false), Some(1), 90_000);
        handoffs.back(errand(true), None, 90_000);
        handoffs.back(Errand { handed_ns: None, has_woken: true }, Some(1), 90_000);
        assert_eq!(handoffs.mean_ns, None);
        handoffs.back(errand(true), Some(20_000), 31_000);
        assert_eq!(handoffs.mean_ns, Some(10_000.0));
        handoffs.back(errand(true), Some(14_000), 31_000);
        assert_eq!(handoffs.mean_ns, Some(10_750.0));
        // Far too late.
        handoffs.back(errand(true), Some(0), 90_000_000);
        assert_eq!(handoffs.mean_ns, Some(10_750.0 * (1.0 + 7.0 * NEWER)));
        let seen = handoffs.look(500.0);
        assert_eq!(handoffs.mean_ns, Some(seen));
        assert!(handoffs.look(500.0) < seen);
        (0..1_000).for_each(|_| {
            handoffs.look(500.0);
        });
        assert!((handoffs.look(500.0) - 500.0).abs() < 1.0);
        assert_eq!(Handoffs::default().look(700.0), 700.0);
    }
}
