//! A packet's way through the chains. Knows what ends a rule, a chain and the whole; refuses to know what
//! is counted where.

use super::program::{Final, Program, RuleNumber};
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
        for rule in &self.chains.get(chain)?.rules {
            let mut limit = rule.first_limit;
            for statement in &rule.statements {
                let goes_on = match statement {
                    Statement::Match(condition) => condition.takes(|subject| match subject {
                        Subject::State => effects.state(),
                        _ => value(packet, direction, subject),
                    }),
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
                    Statement::Verdict(Verdict::Return) => return None,
                    Statement::Verdict(Verdict::Goto(next)) => {
                        return self.walk(*next, direction, packet, effects);
                    }
                    Statement::Verdict(Verdict::Jump(next)) => {
                        let decided = self.walk(*next, direction, packet, effects);
                        if decided.is_some() {
                            return decided;
                        }
                        true
                    }
                    Statement::Verdict(said) => {
                        return Some(Final { rule: rule.number, said: *said });
                    }
                };
                if !goes_on {
                    break;
                }
            }
        }
        None
    }
}

/// What no rule speaks of goes on; there is no rule with this number.
const PASSED_BY: Final = Final { rule: RuleNumber::MAX, said: Verdict::Accept };
