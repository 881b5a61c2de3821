//! Which flows are let up for a moment, so that the engine sees how long packets are with functions. Knows when a flow
//! is due; refuses to know how it is taken out and put in again.

use super::flows::{Flow, Flows};
use catena_fastpath::FlowKey;
use std::collections::HashMap;

/// How often a flow into a function is let up, in nanoseconds.
const LOOK_EVERY_NS: u64 = 500_000_000;

/// Flows of more packets a second stay: so many would come up before the first of them is through that they would slow
/// one another down for long.
const PER_SECOND_MAX: u64 = 10_000;

/// Ports are forgotten that were not asked about for so long: of many flows, each is looked after rarely.
const FORGET_NS: u64 = 60_000_000_000;

/// When the next one is due, by the serial of the port that its packets come out of.
#[derive(Debug, Default)]
pub(super) struct Looks {
    due_ns: HashMap<u32, u64>,
    /// Flows that were let up, both ways of each.
    pub(super) flows: u64,
}

impl Looks {
    /// Is a flow that comes out of this port to be let up now? One that is new waits: its first packets were seen.
    fn is_due(&mut self, egress: u32, now_ns: u64) -> bool {
        let next_ns = now_ns.saturating_add(LOOK_EVERY_NS);
        let due_ns = self.due_ns.entry(egress).or_insert(next_ns);
        let is_due = *due_ns <= now_ns;
        if is_due {
            *due_ns = next_ns;
        }
        is_due
    }

    /// The flows by which packets go into a function and come back from it, if their next ones are to pass the engine,
    /// which times them there. Each is put in again with the first that comes up, behind which the others wait.
    pub(super) fn let_up(&mut self, flow: &Flow, flows: &Flows, now_ns: u64) -> Vec<FlowKey> {
        let is_handed_over = flow.forwarded.is_none();
        let is_used = now_ns.saturating_sub(flow.seen_ns) < LOOK_EVERY_NS;
        let is_slow = is_slow(flow.passed, now_ns.saturating_sub(flow.installed_ns));
        // What a function rewrites is not known again.
        match flow.into.as_ref().map(|into| &into.keys[..]) {
            Some([known])
                if is_handed_over && is_used && is_slow && self.is_due(known.egress, now_ns) =>
            {
                let both = flows.of(known).to_vec();
                self.flows += both.len() as u64;
                both
            }
            _ => Vec::new(),
        }
    }

    /// Forgets ports whose flows have gone.
    pub(super) fn forget_unused(&mut self, now_ns: u64) {
        self.due_ns.retain(|_, due_ns| due_ns.saturating_add(FORGET_NS) > now_ns);
    }
}

/// Are so few packets in this time few enough?
fn is_slow(packets: u64, passed_ns: u64) -> bool {
    let max = u128::from(PER_SECOND_MAX) * u128::from(passed_ns);
    u128::from(packets) * 1_000_000_000 <= max
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_port_is_looked_into_by_itself_and_no_oftener_than_it_may() {
        let mut looks = Looks::default();
        let mut seen = [0; 2];
        for now_ns in (0..10 * LOOK_EVERY_NS).step_by(10_000_000) {
            for (count, egress) in seen.iter_mut().zip([1, 2]) {
                *count += u32::from(looks.is_due(egress, now_ns));
            }
        }
        assert_eq!(seen, [9, 9]);
        assert!(is_slow(10_000, 1_000_000_000) && !is_slow(10_001, 1_000_000_000));
        assert!(is_slow(0, 0) && !is_slow(1, 0));
        looks.forget_unused(10 * LOOK_EVERY_NS);
        assert_eq!(looks.due_ns.len(), 2);
        looks.forget_unused(10 * LOOK_EVERY_NS + FORGET_NS);
        assert!(looks.due_ns.is_empty());
    }

    #[test]
    fn a_port_whose_flow_is_looked_after_rarely_has_its_turn_all_the_same() {
        let mut looks = Looks::default();
        // 65,536 flows go round in 6.4 s.
        let turns = (1..=10).filter(|turn| {
            let now_ns = turn * 6_400_000_000;
            looks.forget_unused(now_ns - 50_000_000);
            looks.is_due(1, now_ns)
        });
        assert_eq!(turns.count(), 9);
    }
}
