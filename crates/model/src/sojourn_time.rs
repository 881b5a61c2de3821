//! How long packets are with functions outside a data plane (in queueing, their sojourn time). Knows sums and shares;
//! refuses to read a clock.

use crate::service_time::quantile;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// How long a period is whose times are told apart, in nanoseconds: what is recent is of the one that is open, and of
/// the one before.
pub const RECENT_NS: u64 = 10_000_000_000;

/// How long packets of one path were with an instance, from when a node gave them to it until they were back.
///
/// Some are sampled, at random: the more seldom, the more there are. What is in rings and queues on both ways is
/// in their time. Flows that the kernel repeats are not seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SojournTime {
    /// Packets that were sampled.
    pub sampled: u64,
    /// Of these came back, and were known again by their bytes.
    pub timed: u64,
    /// So many packets these stand for.
    pub packets: u64,
    /// What those took together, in nanoseconds.
    pub ns: u64,
    /// Of the ones that were timed: in the last ten to twenty seconds.
    pub recent_timed: u64,
    /// How many of the packets that they stand for took how long: by the longest time of their class in nanoseconds,
    /// which is less than an eighth above any in it.
    pub recent: BTreeMap<u64, u64>,
}

impl SojournTime {
    /// Was nothing timed?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sampled == 0
    }

    /// What a packet took in the mean, in nanoseconds; none: none was timed.
    #[must_use]
    pub fn mean_ns(&self) -> Option<u64> {
        self.ns.checked_div(self.packets)
    }

    /// So many hundredths of the packets of the last ten to twenty seconds took no longer than this, in nanoseconds;
    /// none: none was timed.
    #[must_use]
    pub fn recent_quantile_ns(&self, hundredths: u64) -> Option<u64> {
        quantile(&self.recent, hundredths)
    }

    /// Adds those of another worker. The numbers may be foreign: whatever they are, nobody stops over their sum.
    pub fn merge(&mut self, other: &Self) {
        let sums = [
            (&mut self.sampled, other.sampled),
            (&mut self.timed, other.timed),
            (&mut self.packets, other.packets),
            (&mut self.ns, other.ns),
            (&mut self.recent_timed, other.recent_timed),
        ];
        for (sum, more) in sums {
            *sum = sum.wrapping_add(more);
        }
        for (ns, count) in &other.recent {
            let sum = self.recent.entry(*ns).or_default();
            *sum = sum.wrapping_add(*count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_workers_the_sums_are_told() {
        let time = |recent: &[(u64, u64)]| SojournTime {
            sampled: 3,
            timed: 2,
            packets: 100,
            ns: 20_000,
            recent_timed: 1,
            recent: recent.iter().copied().collect(),
        };
        let mut all = time(&[(100, 98)]);
        all.merge(&time(&[(100, 1), (5_000, 1)]));
        assert_eq!((all.sampled, all.timed, all.recent_timed), (6, 4, 2));
        assert_eq!(all.mean_ns(), Some(200));
        let told = [50, 99, 100].map(|part| all.recent_quantile_ns(part));
        assert_eq!(told, [100, 100, 5_000].map(Some));
        let nothing = SojournTime::default();
        assert_eq!((nothing.mean_ns(), nothing.recent_quantile_ns(50)), (None, None));
        assert!(nothing.is_empty() && !all.is_empty());
    }
}
