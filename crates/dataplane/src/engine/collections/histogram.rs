//! How often durations were how long, in room that does not grow. Knows numbers alone.

/// Buckets of each doubling: a value is told within an eighth.
const STEPS: usize = 8;
const STEP_BITS: u32 = STEPS.trailing_zeros();
/// Doublings from a nanosecond: the last bucket is for four seconds and longer.
const DOUBLINGS: usize = 30;
const BUCKETS: usize = STEPS * DOUBLINGS;

/// Durations in nanoseconds, by buckets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Histogram {
    /// Made by the first that is noted, or before.
    counts: Option<Box<[u64; BUCKETS]>>,
}

impl Histogram {
    /// So many took so long.
    pub(crate) fn note(&mut self, ns: u64, times: u64) {
        if let Some(count) = self.room().get_mut(bucket(ns)) {
            *count = count.saturating_add(times);
        }
    }

    /// Asks for its memory, so that noting asks for none.
    pub(crate) fn make_room(&mut self) {
        self.room();
    }

    fn room(&mut self) -> &mut [u64; BUCKETS] {
        self.counts.get_or_insert_with(|| Box::new([0; BUCKETS]))
    }

    /// Forgets them, and keeps the room.
    pub(crate) fn clear(&mut self) {
        if let Some(counts) = &mut self.counts {
            counts.fill(0);
        }
    }

    /// The longest of each bucket in which there is any, with how many there are.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (u64, u64)> {
        let counts = self.counts.as_deref().map_or(&[][..], |counts| &counts[..]);
        let counted = counts.iter().enumerate().filter(|(_, count)| **count > 0);
        counted.map(|(place, count)| (upper_end(place), *count))
    }

    /// The upper end of the bucket in which so many hundredths of all are reached; none: there are none.
    pub(crate) fn quantile(&self, hundredths: u64) -> Option<u64> {
        let all: u64 = self.counts().map(|(_, count)| count).sum();
        let wanted = (all * hundredths).div_ceil(100);
        let mut seen = 0;
        let mut ends = self.counts();
        ends.find_map(|(end, count)| {
            seen += count;
            (seen >= wanted).then_some(end)
        })
    }
}

/// Values below `STEPS` have a bucket each; beyond, each doubling has as many.
fn bucket(value: u64) -> usize {
    let small = usize::try_from(value).unwrap_or(usize::MAX);
    if small < STEPS {
        return small;
    }
    let doubling = value.ilog2() - STEP_BITS;
    let step = usize::try_from(value >> doubling).unwrap_or(0) - STEPS;
    ((doubling as usize + 1) * STEPS + step).min(BUCKETS - 1)
}

/// The greatest value of a bucket.
fn upper_end(bucket: usize) -> u64 {
    if bucket < STEPS {
        return bucket as u64;
    }
    let (doubling, step) = (bucket / STEPS - 1, bucket % STEPS);
    (((STEPS + step) as u64 + 1) << doubling) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_duration_is_in_a_bucket_that_ends_within_an_eighth_of_it() {
        for value in (0..4_096).chain((12..29).flat_map(|bit| [1 << bit, (1 << bit) + 12_345])) {
            let end = upper_end(bucket(value));
            assert!(end >= value && end <= value + value / STEPS as u64, "{value}: {end}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn as_many_are_told_as_were_noted() {
        let mut histogram = Histogram::default();
        assert_eq!((histogram.counts().count(), histogram.quantile(50)), (0, None));
        histogram.note(100, 3);
        histogram.note(7, 1);
        histogram.note(103, 4);
        assert_eq!(histogram.counts().collect::<Vec<_>>(), [(7, 1), (103, 7)]);
        assert_eq!([1, 50, 100].map(|part| histogram.quantile(part)), [7, 103, 103].map(Some));
    }
}
