//! A packet's way through the chains. Knows what ends a rule, a chain and the whole; refuses to know what
//! is counted where.

use super::lookup::Lookup;
use super::program::{Chain, Compiled, Final, Program, RuleNumber};
use crate::packet::{Direction, Packet};
use crate::subject::value;
use catena_rules::condition::{Subject, TupleCondition, are_in, values_of};
use catena_rules::rule_set::{MapEntry, Statement, Verdict, VerdictMap};
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
        let Chain { rules, index, .. } = self.chains.get(chain)?;
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
        for (statement, lookup) in rule.statements.iter().zip(&rule.lookups) {
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
                Statement::MatchTuple(tuple) => takes_tuple(tuple, lookup.as_ref(), shown),
                Statement::Map(map) => {
                    let entry = entry_of(map, lookup.as_ref(), shown);
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
    rule.statements.iter().zip(&rule.lookups).all(|(statement, lookup)| match statement {
        Statement::Match(condition) => condition.takes(shown),
        Statement::MatchTuple(tuple) => takes_tuple(tuple, lookup.as_ref(), shown),
        _ => true,
    })
}

/// As [`TupleCondition::takes`].
fn takes_tuple(
    tuple: &TupleCondition,
    lookup: Option<&Lookup>,
    shown: impl Fn(Subject) -> Option<u128> + Copy,
) -> bool {
    let Some(lookup) = lookup else { return tuple.takes(shown) };
    let Some(values) = values_of(&tuple.subjects, shown) else { return false };
    let mut candidates = lookup.candidates(values.as_slice()).iter();
    let tuple_of = |at: &u32| tuple.tuples.get(*at as usize);
    let is_met =
        candidates.any(|at| tuple_of(at).is_some_and(|one| are_in(values.as_slice(), one)));
    is_met != tuple.is_negated
}

/// As [`VerdictMap::entry`].
fn entry_of<'m>(
    map: &'m VerdictMap,
    lookup: Option<&Lookup>,
    shown: impl Fn(Subject) -> Option<u128> + Copy,
) -> Option<&'m MapEntry> {
    let Some(lookup) = lookup else { return map.entry(shown) };
    let values = values_of(&map.subjects, shown)?;
    let candidates = lookup.candidates(values.as_slice()).iter();
    let mut entries = candidates.filter_map(|at| map.entries.get(*at as usize));
    entries.find(|entry| are_in(values.as_slice(), &entry.values))
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
