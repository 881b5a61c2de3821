//! Which entries of a long concatenation or verdict map may have a packet's values, without a look at each.
//! Knows ranges of one of the subjects; refuses to decide by it alone.

use catena_rules::condition::Range;

/// Entries from which on a lookup costs less than a look at each.
const ENTRIES_MIN: usize = 16;
/// A lookup lists entries this many times at most, on average; else ranges overlap too much.
const LISTED_MAX: usize = 4;

/// The entries by the values of one subject.
#[derive(Clone, Debug)]
pub(super) struct Lookup {
    /// The place of the subject.
    subject: usize,
    /// Where the values begin that have the same entries, in their order.
    starts: Vec<u128>,
    /// The entries of each, as a place in the list.
    rows: Vec<(u32, u32)>,
    /// In the order in which they decide.
    list: Vec<u32>,
}

impl Lookup {
    /// A lookup of entries, each a range for each subject; none: there are few, or they overlap too much.
    pub(super) fn of<'e>(entries: &(impl Iterator<Item = &'e [Range]> + Clone)) -> Option<Self> {
        let count = entries.clone().count();
        if count < ENTRIES_MIN {
            return None;
        }
        let subjects = entries.clone().next()?.len();
        // The subject that tells most.
        let lookups = (0..subjects).filter_map(|subject| {
            let ranges: Option<Vec<Range>> =
                entries.clone().map(|entry| entry.get(subject).copied()).collect();
            Self::by(subject, &ranges?)
        });
        lookups.min_by_key(Self::longest)
    }

    fn by(subject: usize, ranges: &[Range]) -> Option<Self> {
        let behind = ranges.iter().filter_map(|range| range.last.checked_add(1));
        let mut starts: Vec<u128> = ranges.iter().map(|range| range.first).chain(behind).collect();
        starts.sort_unstable();
        starts.dedup();
        let mut order: Vec<(u128, u32)> =
            (0..).zip(ranges).map(|(at, range)| (range.first, at)).collect();
        order.sort_unstable();
        let mut lookup = Self { subject, starts, rows: Vec::new(), list: Vec::new() };
        let mut open: Vec<u32> = Vec::new();
        let mut coming = order.into_iter().peekable();
        for start in &lookup.starts {
            open.retain(|at| ranges.get(*at as usize).is_some_and(|range| range.contains(*start)));
            while let Some((_, at)) = coming.next_if(|(first, _)| first == start) {
                open.insert(open.partition_point(|other| *other < at), at);
            }
            let first = u32::try_from(lookup.list.len()).ok()?;
            lookup.list.extend(&open);
            lookup.rows.push((first, u32::try_from(open.len()).ok()?));
            if lookup.list.len() > LISTED_MAX * ranges.len() {
                return None;
            }
        }
        Some(lookup)
    }

    fn longest(&self) -> u32 {
        self.rows.iter().map(|(_, length)| *length).max().unwrap_or(0)
    }

    /// The places of the entries that may have these values, in the order in which they decide.
    #[inline]
    pub(super) fn candidates(&self, values: &[u128]) -> &[u32] {
        let value = values.get(self.subject).copied().unwrap_or(0);
        let row = self.starts.partition_point(|start| *start <= value).checked_sub(1);
        let row = row.and_then(|row| self.rows.get(row)).copied();
        let (first, length) = row.unwrap_or_default();
        self.list.get(first as usize..(first + length) as usize).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::traffic::Random;

    #[test]
    fn every_entry_that_has_the_values_is_a_candidate_and_few_others_are() {
        let mut random = Random::new(4);
        let mut range = |most: usize, wide: usize| {
            let first = random.below(most) as u128;
            Range { first, last: first + random.below(wide) as u128 }
        };
        let entries: Vec<Vec<Range>> =
            (0..400).map(|_| vec![range(8, 4), range(10_000, 20)]).collect();
        let lookup = Lookup::of(&entries.iter().map(Vec::as_slice)).unwrap();
        assert_eq!(lookup.subject, 1, "the subject that tells most");
        for first in 0..12 {
            for second in (0..10_100).step_by(7) {
                let values = [first, second];
                let has = |entry: &[Range]| {
                    entry.iter().zip(values).all(|(range, value)| range.contains(value))
                };
                let candidates = lookup.candidates(&values);
                assert!(candidates.is_sorted() && candidates.len() < 20, "{}", candidates.len());
                for (at, entry) in (0..).zip(&entries) {
                    assert!(!has(entry) || candidates.contains(&at), "{values:?}");
                }
            }
        }
        let few = &entries[..ENTRIES_MIN - 1];
        assert!(Lookup::of(&few.iter().map(Vec::as_slice)).is_none());
        let alike = vec![vec![Range { first: 0, last: 9 }]; 40];
        assert!(Lookup::of(&alike.iter().map(Vec::as_slice)).is_some());
    }

    #[test]
    fn the_whole_range_of_values_is_there() {
        let all = Range { first: 0, last: u128::MAX };
        let entries: Vec<Vec<Range>> =
            (0..20_u128).map(|at| vec![Range::one(at)]).chain([vec![all]]).collect();
        let lookup = Lookup::of(&entries.iter().map(Vec::as_slice)).unwrap();
        assert_eq!(lookup.candidates(&[3]), [3, 20]);
        assert_eq!(lookup.candidates(&[u128::MAX]), [20]);
    }
}
