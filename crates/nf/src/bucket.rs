//! Buckets of tokens, as `limit` of iptables and nftables has them. Knows levels in nanoseconds: a token
//! costs the time in which one comes.

use crate::packet::Time;
use catena_model::limits::{FUNCTION_ERRORS_BURST, FUNCTION_ERRORS_PER_SECOND};
use catena_rules::rule_set::Limit;

/// How many ICMP errors whoever runs a function lets it make, however many packets of whoever ask for one (RFC 1812
/// section 4.3.2.8).
pub const ICMP_ERRORS: Limit = Limit {
    rate: FUNCTION_ERRORS_PER_SECOND,
    period_s: 1,
    burst: FUNCTION_ERRORS_BURST,
    is_over: false,
};

/// A bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Nanoseconds' worth of tokens.
    level: u64,
    /// When that was so.
    at: Time,
}

/// Nanoseconds in which a token comes.
fn cost(limit: &Limit) -> u64 {
    limit.period_s.saturating_mul(1_000_000_000) / limit.rate.max(1)
}

/// The most that a bucket holds.
fn capacity(limit: &Limit) -> u64 {
    cost(limit).saturating_mul(limit.burst)
}

impl Bucket {
    /// A full one.
    #[must_use]
    pub fn new(limit: &Limit) -> Self {
        Self { level: capacity(limit), at: Time::default() }
    }

    /// Does a packet pass now? Takes a token for it, if there is one.
    pub fn take(&mut self, limit: &Limit, now: Time) -> bool {
        let level = self.level.saturating_add(now.since(self.at)).min(capacity(limit));
        self.at = now.max(self.at);
        let left = level.checked_sub(cost(limit));
        self.level = left.unwrap_or(level);
        left.is_some() != limit.is_over
    }

    pub(crate) fn write(&self, into: &mut Vec<u8>) {
        into.extend(self.level.to_be_bytes());
        into.extend(self.at.0.to_be_bytes());
    }

    /// Reads one, and what is behind it; never fuller than it may be.
    pub(crate) fn read<'b>(bytes: &'b [u8], limit: &Limit) -> Option<(Self, &'b [u8])> {
        let (level, rest) = bytes.split_first_chunk()?;
        let (at, rest) = rest.split_first_chunk()?;
        let level = u64::from_be_bytes(*level).min(capacity(limit));
        Some((Self { level, at: Time(u64::from_be_bytes(*at)) }, rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_and_then_one_for_each_token() {
        let limit = Limit { rate: 2, period_s: 1, burst: 3, is_over: false };
        let mut bucket = Bucket::new(&limit);
        let at = |milliseconds: u64| Time(milliseconds * 1_000_000);
        let mut pass = |milliseconds| bucket.take(&limit, at(milliseconds));
        assert_eq!([pass(0), pass(0), pass(0), pass(0)], [true, true, true, false]);
        assert_eq!([pass(499), pass(500), pass(501)], [false, true, false]);
        // However long nobody came: not more than the burst.
        assert_eq!(
            [pass(99_000), pass(99_000), pass(99_000), pass(99_000)],
            [true, true, true, false]
        );
        let over = Limit { is_over: true, ..limit };
        let mut bucket = Bucket::new(&over);
        let passed: Vec<bool> = (0..4).map(|_| bucket.take(&over, at(0))).collect();
        assert_eq!(passed, [false, false, false, true]);
    }
}
