//! A node that tells: how much it may say, and what of it is new. Knows rates and numbers of reports; refuses to know
//! what they say.

use super::Delivery;
use super::limits::Limits;
use super::refusal::{Refusal, Refusals};

/// Reports before the last one that are told apart as repeated or late.
const REMEMBERED: u64 = 64;
const NS_PER_SECOND: u64 = 1_000_000_000;

/// What a node told, and how much of that was heard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeTelling {
    /// Reports that were believed.
    pub believed: u64,
    /// Reports that were not heard, or late: numbers that were left out, also of those beyond its rate.
    pub left_out: u64,
    /// Reports that were not believed.
    pub refused: Refusals,
}

/// A node that may tell something of a path that is watched.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) telling: NodeTelling,
    connection: u64,
    last: Option<u64>,
    /// Bit n: the report n + 1 before the last one came.
    came: u64,
    /// Nanoseconds in which what may still be said would come again.
    credit_ns: u64,
    refilled_ns: u64,
}

impl Node {
    pub(super) fn new(now_ns: u64, limits: &Limits) -> Self {
        let telling = NodeTelling::default();
        let credit_ns = credit_max(limits);
        Self { telling, connection: 0, last: None, came: 0, credit_ns, refilled_ns: now_ns }
    }

    /// Counts a report as refused.
    pub(super) fn refuse(&mut self, refusal: Refusal) {
        self.telling.refused.count(refusal);
    }

    /// May it be heard, and is it the next one?
    pub(super) fn admit(
        &mut self,
        delivery: &Delivery,
        sequence: u64,
        limits: &Limits,
    ) -> Result<(), Refusal> {
        self.spend(delivery.now_ns, limits)?;
        if delivery.connection < self.connection {
            return Err(Refusal::OutOfOrder);
        }
        if delivery.connection > self.connection {
            (self.connection, self.last, self.came) = (delivery.connection, None, 0);
        }
        let Some(last) = self.last else {
            self.last = Some(sequence);
            return Ok(());
        };
        if sequence <= last {
            return Err(self.of_before(last - sequence));
        }
        let gap = sequence - last;
        self.telling.left_out = self.telling.left_out.saturating_add(gap - 1);
        let shift = |bits: u64, by: u64| if by < REMEMBERED { bits << by } else { 0 };
        self.came = shift(self.came, gap) | shift(1, gap - 1);
        self.last = Some(sequence);
        Ok(())
    }

    /// Why one is not believed that is so many before the last one.
    fn of_before(&mut self, back: u64) -> Refusal {
        let Some(place) = back.checked_sub(1) else { return Refusal::Repeated };
        if place >= REMEMBERED {
            return Refusal::OutOfOrder;
        }
        let had = self.came & 1 << place != 0;
        self.came |= 1 << place;
        if had { Refusal::Repeated } else { Refusal::OutOfOrder }
    }

    /// One report of what it may tell at a time.
    fn spend(&mut self, now_ns: u64, limits: &Limits) -> Result<(), Refusal> {
        let passed = now_ns.saturating_sub(self.refilled_ns);
        self.refilled_ns = self.refilled_ns.max(now_ns);
        self.credit_ns = self.credit_ns.saturating_add(passed).min(credit_max(limits));
        let left = self.credit_ns.checked_sub(price_ns(limits)).ok_or(Refusal::Flooded)?;
        self.credit_ns = left;
        Ok(())
    }
}

/// For how long a report uses the rate up.
fn price_ns(limits: &Limits) -> u64 {
    NS_PER_SECOND / limits.reports_per_second.clamp(1, NS_PER_SECOND)
}

fn credit_max(limits: &Limits) -> u64 {
    limits.reports_at_once.max(1).saturating_mul(price_ns(limits))
}
