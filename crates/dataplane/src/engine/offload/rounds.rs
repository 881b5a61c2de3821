//! When flows that the kernel carries are looked after, a few at a time: packets wait meanwhile, and each costs
//! calls of the kernel. Knows numbers; refuses to know flows.

/// How often a round begins, in nanoseconds, and how many flows it has.
pub(super) const ROUND_NS: u64 = 50_000_000;
const ROUND_FLOWS: usize = 512;
/// How many at a time.
const STEP_FLOWS: usize = 32;
const STEP_NS: u64 = ROUND_NS / (ROUND_FLOWS / STEP_FLOWS) as u64;

/// A part of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// Flows to look after.
    pub(super) flows: usize,
    /// It is the last one.
    pub(super) is_last: bool,
}

/// Where in a round they are.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    next_ns: u64,
    begun_ns: u64,
    left: usize,
}

impl Rounds {
    /// What is due of so many flows; none: nothing yet.
    pub(super) fn step(&mut self, now_ns: u64, flows: usize) -> Option<Step> {
        if now_ns < self.next_ns {
            return None;
        }
        if self.left == 0 {
            (self.begun_ns, self.left) = (now_ns, flows.min(ROUND_FLOWS));
        }
        let step = self.left.min(STEP_FLOWS);
        self.left -= step;
        let is_last = self.left == 0;
        let after_step_ns = now_ns.saturating_add(STEP_NS);
        let after_round_ns = self.begun_ns.saturating_add(ROUND_NS);
        self.next_ns = if is_last { after_step_ns.max(after_round_ns) } else { after_step_ns };
        Some(Step { flows: step, is_last })
    }

    /// When something is due again.
    pub(super) fn next_ns(&self) -> u64 {
        self.next_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks of one second, the most at a time, and rounds, by a clock that wakes when it is asked to.
    fn second(flows: usize) -> (usize, usize, usize) {
        let (mut rounds, mut now_ns) = (Rounds::default(), 0);
        let (mut looks, mut most, mut ended) = (0, 0, 0);
        while now_ns < 1_000_000_000 {
            let step = rounds.step(now_ns, flows).expect("it is due when it says so");
            assert_eq!(rounds.step(now_ns, flows), None);
            looks += step.flows;
            most = most.max(step.flows);
            ended += usize::from(step.is_last);
            now_ns = rounds.next_ns();
        }
        (looks, most, ended)
    }

    #[test]
    fn as_many_flows_are_looked_after_in_a_second_and_few_at_a_time() {
        assert_eq!(second(0), (0, 0, 20));
        assert_eq!(second(20), (400, 20, 20));
        assert_eq!(second(100), (2_000, 32, 20));
        for flows in [512, 513, 65_536] {
            assert_eq!(second(flows), (10_240, 32, 20), "{flows}");
        }
    }

    #[test]
    fn who_comes_late_goes_on_where_it_was() {
        let mut rounds = Rounds::default();
        assert_eq!(rounds.step(0, 40), Some(Step { flows: 32, is_last: false }));
        assert_eq!(rounds.step(900_000_000, 40), Some(Step { flows: 8, is_last: true }));
        assert_eq!(rounds.next_ns(), 900_000_000 + STEP_NS);
    }
}
