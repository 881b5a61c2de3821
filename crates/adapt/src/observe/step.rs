//! Whether delays have taken a step. Knows quantiles of windows; refuses to know of what, and when they were.
//!
//! The last four windows are held against the 28 before. Delays have risen when in each of the four the p95, as low as
//! it may be for all packets, is above every p95 of the 28 by more than a sixteenth; they have fallen when it is, as
//! high as it may be, below every one by more. Where nothing changes, the four are the highest of 32 windows once in
//! C(32, 4) = 35,960, whatever the distribution: at most as often a step is told without any, up and down each, and the
//! sixteenth and the ranks make it rarer. Windows that depend on one another, such as those of a slow drift, are not
//! covered by this. Windows without enough samples are passed over, so who loses reports waits longer and sees no step
//! for it; that delays fell is told by windows of more than 250 samples alone.
//!
//! A step is told four windows after it began. Then the 28 are gathered anew: a second step within them is not told.

use super::histogram::{Quantile, Quantiles};
use super::limits::STEP_SAMPLES_MIN;
use std::collections::VecDeque;

/// Windows that have to agree.
pub const STEP_WINDOWS: usize = 4;
/// Windows that they are held against.
pub const STEP_REFERENCE_WINDOWS: usize = 28;
const ALL: usize = STEP_WINDOWS + STEP_REFERENCE_WINDOWS;
/// A step is by more than this part of what was before.
const MARGIN_DIVISOR: u64 = 16;

/// Delays that rose or fell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The window in which it was told, the last of the four.
    pub window: u64,
    /// The median p95 before, nanoseconds.
    pub from_ns: u64,
    /// The median p95 since, nanoseconds.
    pub to_ns: u64,
}

/// Watches one series.
#[derive(Clone, Debug)]
pub(super) struct Detector {
    /// p95 of windows, the oldest first.
    recent: VecDeque<Quantile>,
}

impl Detector {
    pub(super) fn new() -> Self {
        Self { recent: VecDeque::with_capacity(ALL) }
    }

    /// The next window; answers the step that it makes known.
    pub(super) fn judge(&mut self, window: u64, quantiles: &Quantiles) -> Option<Step> {
        if quantiles.samples < STEP_SAMPLES_MIN {
            return None;
        }
        if self.recent.len() == ALL {
            self.recent.pop_front();
        }
        self.recent.push_back(quantiles.p95);
        if self.recent.len() < ALL {
            return None;
        }
        let before = || self.recent.iter().take(STEP_REFERENCE_WINDOWS);
        let since = || self.recent.iter().skip(STEP_REFERENCE_WINDOWS);
        let highest = before().map(told).max()?;
        let lowest = before().map(told).min()?;
        let least = since().map(|p95| p95.at_least).min().flatten();
        let has_risen =
            least.is_some_and(|least| least > highest.saturating_add(highest / MARGIN_DIVISOR));
        let most = since().map(|p95| p95.at_most.unwrap_or(u64::MAX)).max()?;
        let has_fallen = most < lowest - lowest / MARGIN_DIVISOR;
        if !has_risen && !has_fallen {
            return None;
        }
        let step = Step { window, from_ns: median(before()), to_ns: median(since()) };
        self.recent.drain(..STEP_REFERENCE_WINDOWS);
        Some(step)
    }
}

/// What cannot be told is longer than all that can.
fn told(p95: &Quantile) -> u64 {
    p95.ns.unwrap_or(u64::MAX)
}

fn median<'q>(quantiles: impl Iterator<Item = &'q Quantile>) -> u64 {
    let mut values = [0; ALL];
    let count = values.iter_mut().zip(quantiles).map(|(place, p95)| *place = told(p95)).count();
    let values = values.get_mut(..count).unwrap_or_default();
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests;
