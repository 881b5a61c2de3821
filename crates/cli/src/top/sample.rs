//! One reading of all counters, and the rates between two. Knows what is counted; refuses to know
//! how it is shown.

use catena_client::{Client, ClientError};
use catena_model::account::{Account, Volume};
use catena_model::delays::ChainDelays;
use catena_model::id::ChainId;
use catena_model::status::{ChainSummary, NodeReport};
use catena_model::{DropReason, NodeCounters, NodeName, PathId};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

const BITS_PER_BYTE: f64 = 8.0;

/// All that was read at one moment.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    taken: Instant,
    pub(super) chains: Vec<ChainSummary>,
    pub(super) nodes: Vec<NodeReport>,
    /// Of the chain that is looked at; none: none is, or nobody could say.
    pub(super) delays: Option<ChainDelays>,
}

/// The sums of one chain over all nodes and paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ChainSums {
    pub(super) entered: Volume,
    pub(super) finished: Volume,
    pub(super) dropped: u64,
    pub(super) hops: BTreeMap<HopName, HopSums>,
}

/// One instance of a hop.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct HopName {
    pub(super) path: PathId,
    pub(super) hop: u16,
    pub(super) member: u8,
    pub(super) instance: String,
    pub(super) node: String,
}

/// What one instance got and gave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct HopSums {
    pub(super) delivered: Volume,
    pub(super) returned: Volume,
}

impl Sample {
    /// Asks the controller for everything; for delays of one chain alone, if any is looked at.
    pub(super) fn take(
        client: &Client,
        looked_at: Option<ChainId>,
        taken: Instant,
    ) -> Result<Self, ClientError> {
        let mut chains = client.chains()?;
        chains.sort_by(|a, b| a.name.cmp(&b.name));
        // A chain that has just gone, or a controller that knows no delays, is no trouble.
        let delays = looked_at.and_then(|chain| client.chain_delays(&chain.to_string()).ok());
        Ok(Self { taken, chains, nodes: client.nodes()?, delays })
    }

    #[cfg(test)]
    pub(super) fn of(taken: Instant, chains: Vec<ChainSummary>, nodes: Vec<NodeReport>) -> Self {
        Self { taken, chains, nodes, delays: None }
    }

    /// How long after another reading this one was taken.
    pub(super) fn since(&self, earlier: &Self) -> Duration {
        self.taken.saturating_duration_since(earlier.taken)
    }

    /// The account over all nodes.
    pub(super) fn total(&self) -> Account {
        let mut total = Account::default();
        for counters in self.nodes.iter().filter_map(|node| node.counters.as_ref()) {
            total.merge(&counters.total());
        }
        total
    }

    /// Frames lost before they were received, over all nodes.
    pub(super) fn ring_full(&self) -> u64 {
        self.nodes
            .iter()
            .filter_map(|node| node.counters.as_ref())
            .map(NodeCounters::ring_full)
            .fold(0, u64::saturating_add)
    }

    /// The sums of a chain.
    pub(super) fn chain(&self, chain: ChainId) -> ChainSums {
        let mut sums = ChainSums::default();
        for report in &self.nodes {
            let counters = report.counters.iter().flat_map(|counters| &counters.chains);
            for counters in counters.filter(|counted| counted.chain == chain) {
                sums.entered.merge(counters.entered);
                sums.finished.merge(counters.finished);
                let dropped = counters.dropped.values().copied();
                sums.dropped = dropped.fold(sums.dropped, u64::saturating_add);
                sums.hops.extend(counters.hops.iter().map(|hop| {
                    let name = HopName {
                        path: counters.path,
                        hop: hop.hop,
                        member: hop.member,
                        instance: hop.name.clone(),
                        node: report.status.node.to_string(),
                    };
                    (name, HopSums { delivered: hop.delivered, returned: hop.returned })
                }));
            }
        }
        sums
    }

    /// How long an instance took for packets of late, in nanoseconds: 50, 95 and 99 of a hundred no longer.
    pub(super) fn quantiles(&self, name: &HopName) -> [Option<u64>; 3] {
        let all = self.delays.iter().flat_map(|delays| &delays.instances);
        let mut all = all.filter(|delay| {
            let node = delay.node.as_ref().map(NodeName::as_str);
            (delay.path, delay.hop, delay.member) == (name.path, name.hop, name.member)
                && delay.instance == name.instance
                && node == Some(&name.node)
        });
        let found = all.next();
        found.map_or([None; 3], |delay| [delay.p50_ns, delay.p95_ns, delay.p99_ns])
    }

    /// Drops over all nodes, the most frequent first.
    pub(super) fn drops(&self) -> Vec<(DropReason, u64)> {
        let total = self.total();
        let mut drops: Vec<_> = total.dropped.into_iter().filter(|(_, n)| *n > 0).collect();
        drops.sort_by_key(|(reason, n)| (std::cmp::Reverse(*n), *reason));
        drops
    }
}

/// Growth per second. A counter that went back began anew with its data plane: what it has since is
/// what it grew.
pub(crate) fn rate(before: u64, after: u64, passed: Duration) -> f64 {
    let grown = after.checked_sub(before).unwrap_or(after);
    let seconds = passed.as_secs_f64();
    if seconds > 0.0 { grown as f64 / seconds } else { 0.0 }
}

/// Growth of the bytes in bits per second; the counters may be foreign and are never multiplied.
pub(crate) fn bit_rate(before: Volume, after: Volume, passed: Duration) -> f64 {
    rate(before.bytes, after.bytes, passed) * BITS_PER_BYTE
}

/// A number with a unit prefix, four places wide at most: `812`, `8.1k`, `812k`, `5.9G`.
pub(crate) fn short(value: f64) -> String {
    const PREFIXES: [&str; 5] = ["", "k", "M", "G", "T"];
    let mut value = value;
    let mut prefix = 0;
    while value >= 999.5 && prefix + 1 < PREFIXES.len() {
        value /= 1_000.0;
        prefix += 1;
    }
    let places = usize::from(prefix > 0 && value < 99.95);
    format!("{value:.places$}{}", PREFIXES[prefix])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_growth_over_time_and_survives_a_counter_that_began_anew() {
        let second = Duration::from_secs(2);
        assert!((rate(100, 300, second) - 100.0).abs() < 1e-9);
        assert!((rate(300, 50, second) - 25.0).abs() < 1e-9);
        assert!(rate(0, 5, Duration::ZERO).abs() < 1e-9);
    }

    #[test]
    fn a_bit_rate_of_any_counters_overflows_nothing() {
        let volume = |bytes| Volume { packets: 0, bytes };
        let second = Duration::from_secs(1);
        assert!((bit_rate(volume(100), volume(300), second) - 1_600.0).abs() < 1e-9);
        assert!(bit_rate(volume(0), volume(u64::MAX), second) > 1e20);
    }

    #[test]
    fn numbers_stay_short() {
        let cases = [
            (0.0, "0"),
            (7.4, "7"),
            (999.0, "999"),
            (1_000.0, "1.0k"),
            (99_940.0, "99.9k"),
            (99_960.0, "100k"),
            (999_600.0, "1.0M"),
            (5.9e9, "5.9G"),
            (1e15, "1000T"),
        ];
        for (value, expected) in cases {
            assert_eq!(short(value), expected);
        }
    }
}
