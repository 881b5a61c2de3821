//! How long functions inside a data plane take for packets (in queueing, their service time). Knows sums and shares;
//! refuses to read a clock.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// How long a bundled function took for packets of one path at one node.
///
/// The clock is read before and behind each call of the function, which is about some packets of one vector; each of
/// these counts as having taken its share of the call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServiceTime {
    /// Packets that were timed, as on the wire.
    pub packets: u64,
    /// What they took together, in nanoseconds.
    pub ns: u64,
    /// How many of them took how long: by the longest time of their class in nanoseconds, which is less than an
    /// eighth above any in it.
    pub counts: BTreeMap<u64, u64>,
}

impl ServiceTime {
    /// Was nothing timed?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.packets == 0
    }

    /// What a packet took in the mean, in nanoseconds; none: none was timed.
    #[must_use]
    pub fn mean_ns(&self) -> Option<u64> {
        self.ns.checked_div(self.packets)
    }

    /// So many hundredths of all packets took no longer than this, in nanoseconds; none: none was timed.
    #[must_use]
    pub fn quantile_ns(&self, hundredths: u64) -> Option<u64> {
        quantile(&self.counts, hundredths)
    }

    /// Adds those of another worker. The numbers may be foreign: whatever they are, nobody stops over their sum.
    pub fn merge(&mut self, other: &Self) {
        self.packets = self.packets.wrapping_add(other.packets);
        self.ns = self.ns.wrapping_add(other.ns);
        for (ns, count) in &other.counts {
            let sum = self.counts.entry(*ns).or_default();
            *sum = sum.wrapping_add(*count);
        }
    }
}

/// So many hundredths of all that are counted took no longer than this; none: there are none.
pub(crate) fn quantile(counts: &BTreeMap<u64, u64>, hundredths: u64) -> Option<u64> {
    let all: u128 = counts.values().copied().map(u128::from).sum();
    let wanted = all * u128::from(hundredths.min(100));
    let mut seen = 0_u128;
    counts.iter().find_map(|(ns, count)| {
        seen += u128::from(*count) * 100;
        (seen >= wanted).then_some(*ns)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(counts: &[(u64, u64)]) -> ServiceTime {
        let packets = counts.iter().map(|(_, count)| count).sum();
        let ns = counts.iter().map(|(ns, count)| ns * count).sum();
        ServiceTime { packets, ns, counts: counts.iter().copied().collect() }
    }

    #[test]
    fn shares_and_means_are_those_of_all_that_was_merged() {
        let mut all = time(&[(100, 98)]);
        all.merge(&time(&[(100, 1), (5_000, 1)]));
        assert_eq!(all, time(&[(100, 99), (5_000, 1)]));
        assert_eq!(all.mean_ns(), Some(149));
        assert_eq!(
            [1, 50, 99, 100].map(|part| all.quantile_ns(part)),
            [100, 100, 100, 5_000].map(Some)
        );
        let nothing = ServiceTime::default();
        assert_eq!((nothing.mean_ns(), nothing.quantile_ns(50)), (None, None));
        assert!(nothing.is_empty() && !all.is_empty());
        // Numbers of whoever.
        let most = ServiceTime { packets: 1, ns: 0, counts: [(1, u64::MAX), (2, u64::MAX)].into() };
        assert_eq!(most.quantile_ns(100), Some(2));
    }
}
