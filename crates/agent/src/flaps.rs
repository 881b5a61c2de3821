//! Links that come and go: each time ways are looked for anew, so one that does so again and again is left out until it
//! has stayed for a while. Knows names and times; refuses to know why.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// So many times gone within the window, and a link is left out.
const GONE_MAX: usize = 3;
const WINDOW: Duration = Duration::from_secs(10);
/// How long it must stay then.
const STAY: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
struct Link {
    is_whole: bool,
    gone: VecDeque<Instant>,
    /// Until when it is left out.
    held: Option<Instant>,
}

/// The links of a node.
#[derive(Debug, Default)]
pub(crate) struct Flaps(BTreeMap<String, Link>);

impl Flaps {
    /// How a link is now. Answers why it is left out, if it is.
    pub(crate) fn note(&mut self, name: &str, is_whole: bool, now: Instant) -> Option<String> {
        let link = self.0.entry(name.to_owned()).or_default();
        if std::mem::replace(&mut link.is_whole, is_whole) && !is_whole {
            link.gone.push_back(now);
            while link.gone.front().is_some_and(|at| now.saturating_duration_since(*at) > WINDOW) {
                link.gone.pop_front();
            }
            if link.held.is_some() || link.gone.len() >= GONE_MAX {
                link.held = Some(now + STAY);
            }
        }
        let left = link.held?.saturating_duration_since(now);
        (!left.is_zero()).then(|| {
            format!(
                "it has come and gone {} times; it is taken again once it has stayed for {} s: look at its cable",
                link.gone.len(),
                STAY.as_secs()
            )
        })
    }

    /// When the next is taken again.
    pub(crate) fn next_release(&self) -> Option<Instant> {
        self.0.values().filter_map(|link| link.held).min()
    }

    /// Takes those again that have stayed; is there any?
    pub(crate) fn release(&mut self, now: Instant) -> bool {
        let mut is_any = false;
        for link in self.0.values_mut() {
            if link.held.is_some_and(|until| until <= now) {
                (link.held, is_any) = (None, true);
                link.gone.clear();
            }
        }
        is_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_comes_and_goes_is_left_out_until_it_has_stayed() {
        let (mut flaps, start) = (Flaps::default(), Instant::now());
        let at = |ms: u64| start + Duration::from_millis(ms);
        for turn in 0..3 {
            assert_eq!(flaps.note("eth1", true, at(turn * 1_000)), None, "turn {turn}");
            let told = flaps.note("eth1", false, at(turn * 1_000 + 500));
            assert_eq!(told.is_some(), turn == 2, "{told:?}");
        }
        assert!(flaps.note("eth1", true, at(3_000)).unwrap().contains("gone 3 times"));
        assert_eq!(flaps.next_release(), Some(at(12_500)));
        // Another time, and it must stay from then on.
        flaps.note("eth1", false, at(8_000));
        assert!(flaps.note("eth1", true, at(12_600)).is_some() && !flaps.release(at(12_600)));
        assert!(flaps.release(at(18_000)));
        assert_eq!((flaps.note("eth1", true, at(18_000)), flaps.next_release()), (None, None));
    }

    #[test]
    fn one_that_goes_now_and_then_is_taken_at_once() {
        let (mut flaps, start) = (Flaps::default(), Instant::now());
        for turn in 0..20 {
            let now = start + Duration::from_secs(turn * 6);
            assert_eq!(flaps.note("eth1", true, now), None, "turn {turn}");
            assert_eq!(flaps.note("eth1", false, now), None, "turn {turn}");
        }
    }
}
