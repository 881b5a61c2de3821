//! Rates at which nothing is lost. Knows when one turned out to be none; refuses to know what is measured.

use super::bench::{Bench, SEARCH_MARGIN};
use super::{BESIDE, Comparison, UsersRow};
use crate::error::Result;
use crate::run::accounting::Snapshot;
use serde::Serialize;
use std::fmt;

/// So often a rate is lowered, in all of an experiment: what goes on to lose frames then is not measured too fast.
const LOWERED_MAX: usize = 3;

/// A rate at which the switch had no room for all frames, though it had when the rate was looked for: its processors
/// were somebody else's meanwhile. What was measured at it is measured anew at the lower one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Lowered {
    /// Hops of all slices.
    pub hops: u32,
    /// Frames a second before.
    pub from: f64,
    /// Frames a second from then on.
    pub to: f64,
    /// Frames of all streams at the former rate.
    pub sent: u64,
    /// Of them lost.
    pub lost: u64,
    /// Frames that the switch says it had no room for.
    pub refused: u64,
    /// The streams that lost any.
    pub runs: Vec<Comparison>,
}

impl fmt::Display for Lowered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { hops, from, to, sent, lost, refused, .. } = self;
        write!(
            f,
            "rate lowered from {from:.0} to {to:.0} frames a second at {hops} hops, and all of these measured anew: of \
             {sent} sent {lost} lost, and of {refused} the switch says it had no room"
        )
    }
}

impl Bench<'_> {
    /// Measures at a rate; where frames were lost and the switch counted each of them as one that it had no room for,
    /// the rate is lowered and all is measured anew, unless the file asks for that rate. Whatever else went wrong is
    /// left in the rows.
    pub(super) fn at_a_rate_it_keeps(
        &mut self,
        rate: &mut f64,
        hops: u32,
        lowered: &mut Vec<Lowered>,
        mut measure: impl FnMut(&mut Self, f64) -> Result<Vec<UsersRow>>,
    ) -> Result<Vec<UsersRow>> {
        loop {
            let before = Snapshot::take_at_rest(&self.running.client)?;
            let rows = measure(self, *rate)?;
            let (sent, lost) = lost_alone(&rows);
            let is_asked_for = self.users.packets_per_second.is_some();
            if lost == 0 || is_asked_for || lowered.len() >= LOWERED_MAX {
                return Ok(rows);
            }
            let refused = Snapshot::take_at_rest(&self.running.client)?.refused_since(&before);
            // Whatever else it had no room for meanwhile would hide what was lost otherwise.
            if refused != lost {
                return Ok(rows);
            }
            let (from, to) = (*rate, *rate * SEARCH_MARGIN);
            let runs = rows.iter().flat_map(|row| &row.runs).filter(|run| run.lost > 0);
            let runs = runs.cloned().collect();
            lowered.push(Lowered { hops, from, to, sent, lost, refused, runs });
            *rate = to;
        }
    }
}

/// Frames that were sent and lost through ours, if none had another fault.
fn lost_alone(rows: &[UsersRow]) -> (u64, u64) {
    let ours = rows.iter().filter(|row| row.content != BESIDE);
    let runs: Vec<&Comparison> = ours.flat_map(|row| &row.runs).collect();
    let has_other_faults =
        runs.iter().any(|run| !Comparison { lost: 0, ..(*run).clone() }.is_clean());
    let of = |count: fn(&Comparison) -> u64| runs.iter().map(|run| count(run)).sum::<u64>();
    (of(|run| run.sent), if has_other_faults { 0 } else { of(|run| run.lost) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_lowered_for_frames_that_were_lost_and_for_no_other_fault() {
        let run =
            |lost, reordered| Comparison { sent: 10, lost, reordered, ..Comparison::default() };
        let row = |content, runs| UsersRow { runs, ..UsersRow::new(content, 64, 1, 1.0) };
        let of = |runs| lost_alone(&[row("users", runs), row(BESIDE, vec![run(7, 0)])]);
        assert_eq!(of(vec![run(0, 0), run(3, 0)]), (20, 3));
        assert_eq!(of(vec![run(0, 0), run(3, 1)]), (20, 0));
        assert_eq!(of(vec![run(3, 0), run(0, 1)]), (20, 0));
        assert_eq!(of(vec![run(0, 0)]), (10, 0));
    }
}
