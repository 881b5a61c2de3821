//! Which of many intervals meet one, without looking at the others. Persistent.
//!
//! Each interval belongs to the smallest aligned block that holds it (its level: the leading bits
//! that its ends share). Of a block around a point, the intervals that hold the point are a row of
//! those sorted by their first number, or by their last.

use super::relation::Member;
use crate::counts::{Counts, Edit};
use imbl::OrdSet;

/// First and last number.
pub(super) type Interval = (u128, u128);

/// Bits of a number: the level of an interval of one.
const BITS: u32 = u128::BITS;

/// Intervals and whose they are.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Intervals<M: Ord + Clone> {
    /// Level, first number, member.
    firsts: OrdSet<(u32, u128, M)>,
    /// Level, last number, member.
    lasts: OrdSet<(u32, u128, M)>,
    /// Intervals of each level.
    levels: Counts<u32>,
}

impl<M: Member> Default for Intervals<M> {
    fn default() -> Self {
        Self { firsts: OrdSet::new(), lasts: OrdSet::new(), levels: Counts::default() }
    }
}

impl<M: Member> Intervals<M> {
    pub(super) fn edit(&mut self, edit: Edit, (first, last): Interval, member: M) {
        let level = level(first, last);
        if edit.apply(&mut self.firsts, (level, first, member)) {
            self.levels.edit(edit, level);
        }
        edit.apply(&mut self.lasts, (level, last, member));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.levels.is_empty()
    }

    /// The members whose intervals share a number with this one, each once.
    pub(super) fn meeting(&self, (first, last): Interval) -> impl Iterator<Item = M> + '_ {
        self.levels.iter().flat_map(move |(level, _)| {
            let begin_inside = first.checked_add(1).map(|next| (next, last));
            let begin_inside = begin_inside.filter(|(next, last)| next <= last);
            let begin_inside = begin_inside.map(|row| row_of(&self.firsts, *level, row));
            self.around(*level, first).chain(begin_inside.into_iter().flatten())
        })
    }

    /// The members of a level whose intervals hold a number.
    fn around(&self, level: u32, number: u128) -> impl Iterator<Item = M> + '_ {
        let below = u128::MAX.checked_shr(level).unwrap_or(0);
        let block = (number & !below, number | below);
        // An interval of a block has its first number in the lower half, its last in the upper.
        let is_in_upper_half = number & (below ^ (below >> 1)) != 0;
        if is_in_upper_half {
            row_of(&self.lasts, level, (number, block.1))
        } else {
            row_of(&self.firsts, level, (block.0, number))
        }
    }
}

fn level(first: u128, last: u128) -> u32 {
    (first ^ last).leading_zeros().min(BITS)
}

fn row_of<M: Member>(
    sorted: &OrdSet<(u32, u128, M)>,
    level: u32,
    (from, to): Interval,
) -> impl Iterator<Item = M> + '_ {
    let row = sorted.range((level, from, M::MIN)..);
    row.take_while(move |(at, number, _)| *at == level && *number <= to).map(|(_, _, m)| *m)
}

#[cfg(test)]
mod tests {
    use super::*;
    use catena_model::id::RuleId;
    use proptest::prelude::*;
    use uuid::Uuid;

    fn interval() -> impl Strategy<Value = Interval> {
        let small = (0..40u128, 0..40u128);
        let wide = (any::<u128>(), any::<u128>());
        let edge = (0..3u128, u128::MAX - 2..=u128::MAX);
        let near = (u128::MAX - 40..=u128::MAX, u128::MAX - 40..=u128::MAX);
        prop_oneof![8 => small, 1 => wide, 1 => edge, 2 => near]
            .prop_map(|(a, b)| (a.min(b), a.max(b)))
    }

    proptest! {
        #[test]
        fn those_that_meet_an_interval_are_those_of_a_scan(
            members in prop::collection::vec((interval(), any::<bool>()), 0..60),
            wanted in interval(),
        ) {
            let mut intervals = Intervals::default();
            let id = |number: usize| RuleId(Uuid::from_u128(number as u128));
            for (number, (interval, _)) in members.iter().enumerate() {
                intervals.edit(Edit::Add, *interval, id(number));
            }
            for (number, (interval, _)) in members.iter().enumerate().filter(|(_, m)| m.1) {
                intervals.edit(Edit::Remove, *interval, id(number));
            }
            let meets = |(a, b): Interval| a <= wanted.1 && wanted.0 <= b;
            let kept = members.iter().enumerate().filter(|(_, (i, gone))| !gone && meets(*i));
            let expected: Vec<RuleId> = kept.map(|(number, _)| id(number)).collect();
            let mut found: Vec<RuleId> = intervals.meeting(wanted).collect();
            found.sort();
            prop_assert_eq!(found, expected);
        }
    }
}
