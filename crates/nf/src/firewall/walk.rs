//! A packet's way through the chains. Knows what ends a rule, a chain and the whole; refuses to know what
//! is counted where.

use super::program::{Chain, Compiled, Final, Program, RuleNumber};
use super::values::value;
use crate::packet::{Direction, Packet};
use catena_rules::condition::Subject;
use catena_rules::rule_set::{Statement, Verdict};
use catena_wire::frame::Network;

/// What rules do on the way.
pub(super) trait Effects {
    /// A rule counts the packet.
    fn count(&mut self, rule: RuleNumber);
    /// A rule asks whether this limit lets the packet pass.
    fn take(&mut self, limit: usize) -> bool;
    /// A rule tells of the packet.
    fn tell(&mut self, rule: RuleNumber);
    /// The state of the packet's connection, as a bit; none: nobody looked.
    fn state(&self) -> Option<u128>;
}

impl Program {
    /// What a packet comes to. What is no IP meets no rule.
    pub(super) fn decide(
        &self,
        direction: Direction,
        packet: &Packet<'_>,
        effects: &mut impl Effects,
    ) -> Final {
        let is_v6 = match packet.view.network {
            Network::Ipv4 => false,
            Network::Ipv6 => true,
            Network::Arp | Network::Other => return PASSED_BY,
        };
        let mut last = PASSED_BY;
        for base in self.bases.iter().filter(|base| base.families.has(is_v6)) {
            let decided = self.walk(base.chain, direction, packet, effects);
            last = decided.unwrap_or(base.policy);
            if last.said != Verdict::Accept {
                break;
            }
        }
        last
    }

    /// What the rules of a chain decide; none: whoever led here goes on. Chains lead 16 deep at most.
    fn walk(
        &self,
        chain: usize,
        direction: Direction,
        packet: &Packet<'_>,
        effects: &mut impl Effects,
    ) -> Option<Final> {
        let Chain { rules, index } = self.chains.get(chain)?;
        let Some(index) = index else {
            for rule in rules {
                if let Step::Ends(end) = self.step(rule, direction, packet, effects) {
                    return end;
                }
            }
            return None;
        };
        let state = effects.state();
        let shown = |subject| shown(subject, (direction, packet), state);
        let takes = |place: u32| rules.get(place as usize).is_some_and(|rule| takes(rule, shown));
        let ending = index.ending(&packet.view, takes);
        let on_the_way = index.walked(ending.unwrap_or(u32::MAX)).chain(ending);
        for rule in on_the_way.filter_map(|place| rules.get(place as usize)) {
            if let Step::Ends(end) = self.step(rule, direction, packet, effects) {
                return end;
            }
        }
        None
    }

    /// What one rule does with a packet.
    fn step(
        &self,
        rule: &Compiled,
        direction: Direction,
        packet: &Packet<'_>,
        effects: &mut impl Effects,
    ) -> Step {
        let mut limit = rule.first_limit;
        let state = effects.state();
        let shown = |subject| shown(subject, (direction, packet), state);
        for statement in &rule.statements {
            let goes_on = match statement {
                Statement::Match(condition) => condition.takes(shown),
                Statement::Limit(_) => {
                    limit += 1;
                    effects.take(limit - 1)
                }
                Statement::Count => {
                    effects.count(rule.number);
                    true
                }
                Statement::Log(_) => {
                    effects.tell(rule.number);
                    true
                }
                Statement::MatchTuple(tuple) => tuple.takes(shown),
                Statement::Map(map) => {
                    let entry = map.entry(shown);
                    let said = entry.and_then(|entry| entry.verdict);
                    match said
                        .map(|said| self.follow(said, rule.number, (direction, packet), effects))
                    {
                        Some(Step::GoesOn) => true,
                        Some(ends) => return ends,
                        None => entry.is_some(),
                    }
                }
                Statement::Verdict(said) => {
                    match self.follow(*said, rule.number, (direction, packet), effects) {
                        Step::GoesOn => true,
                        ends => return ends,
                    }
                }
            };
            if !goes_on {
                break;
            }
        }
        Step::GoesOn
    }

    /// What comes of a verdict.
    fn follow(
        &self,
        said: Verdict,
        rule: RuleNumber,
        (direction, packet): (Direction, &Packet<'_>),
        effects: &mut impl Effects,
    ) -> Step {
        match said {
            Verdict::Return => Step::Ends(None),
            Verdict::Goto(next) => Step::Ends(self.walk(next, direction, packet, effects)),
            Verdict::Jump(next) => match self.walk(next, direction, packet, effects) {
                None => Step::GoesOn,
                decided => Step::Ends(decided),
            },
            Verdict::Accept | Verdict::Drop | Verdict::Reject(_) => {
                Step::Ends(Some(Final { rule, said }))
            }
        }
    }
}

/// What comes of a rule.
enum Step {
    /// The next rule is asked.
    GoesOn,
    /// The chain ends; none: without a decision.
    Ends(Option<Final>),
}

/// Does a packet that shows this meet all that a rule asks?
#[inline]
fn takes(rule: &Compiled, shown: impl Fn(Subject) -> Option<u128> + Copy) -> bool {
    rule.statements.iter().all(|statement| match statement {
        Statement::Match(condition) => condition.takes(shown),
        Statement::MatchTuple(tuple) => tuple.takes(shown),
        _ => true,
    })
}

/// What a packet shows of a subject; `state`: that of its connection.
#[inline]
fn shown(
    subject: Subject,
    (direction, packet): (Direction, &Packet<'_>),
    state: Option<u128>,
) -> Option<u128> {
    match subject {
        Subject::State => state,
        _ => value(packet, direction, subject),
    }
}

/// What no rule speaks of goes on; there is no rule with this number.
const PASSED_BY: Final = Final { rule: RuleNumber::MAX, said: Verdict::Accept };
