//! Rules that one could say: two of a chain that differ in the values of one condition, which lie side by side.
//!
//! Knows what lies between them. Refuses to put them together.

use super::bdd::TooLarge;
use super::decision::{RulePlace, Walk, own};
use super::headers::Headers;
use catena_rules::condition::{Condition, Subject, Test};
use catena_rules::rule_set::{Rule, Statement, Verdict};
use catena_wire::field::Field;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Rules that may lie between two that are put together.
const BETWEEN_MAX: usize = 64;

/// The second rule of each pair, with the first one, which could take its packets as well.
pub(super) fn mergeable(
    walk: &Walk<'_>,
    needless: &BTreeSet<RulePlace>,
    headers: &mut Headers,
) -> Result<BTreeMap<RulePlace, RulePlace>, TooLarge> {
    let mut found = BTreeMap::new();
    for (at, chain) in walk.set.chains.iter().enumerate() {
        let mut known: HashMap<(usize, Vec<Statement>), usize> = HashMap::new();
        let mut taken = BTreeSet::new();
        for (place, rule) in chain.rules.iter().enumerate() {
            let here = (at, place);
            if !walk.seen.contains_key(&here) || needless.contains(&here) || !is_plain(rule) {
                continue;
            }
            for (varying, rest) in variants(rule) {
                let Some(first) = known.insert((varying, rest), place) else { continue };
                let touches = values(&chain.rules[first], varying)
                    .zip(values(rule, varying))
                    .is_some_and(|(a, b)| do_touch(a, b));
                // A rule is told of once, so that what is done one after the other stays right.
                if touches
                    && place - first <= BETWEEN_MAX
                    && !taken.contains(&first)
                    && !taken.contains(&place)
                    && passes_over((at, first), place, walk, headers)?
                {
                    taken.extend([first, place]);
                    found.insert(here, (at, first));
                }
            }
        }
    }
    Ok(found)
}

/// Does it decide, and nothing else?
fn is_plain(rule: &Rule) -> bool {
    rule.verdict().is_some()
        && rule.statements.iter().all(|statement| match statement {
            Statement::Match(_) | Statement::Count => true,
            Statement::Verdict(verdict) => !matches!(verdict, Verdict::Jump(_) | Verdict::Goto(_)),
            _ => false,
        })
}

/// A rule with the values of one of its conditions left open, for each that has ranges.
fn variants(rule: &Rule) -> impl Iterator<Item = (usize, Vec<Statement>)> {
    (0..rule.statements.len()).filter(|at| values(rule, *at).is_some()).map(|at| {
        let mut rest = rule.statements.clone();
        if let Some(Statement::Match(condition)) = rest.get_mut(at) {
            condition.test = Test::In(Vec::new());
        }
        (at, rest)
    })
}

/// The condition at a place, if it asks for ranges of one subject.
fn values(rule: &Rule, at: usize) -> Option<&Condition> {
    match rule.statements.get(at) {
        Some(Statement::Match(condition))
            if !condition.is_negated && condition.subjects.len() == 1 =>
        {
            matches!(condition.test, Test::In(_)).then_some(condition)
        }
        _ => None,
    }
}

/// Is what both take one range, as languages of rules have one: of ports and lengths any, of addresses a prefix?
fn do_touch(a: &Condition, b: &Condition) -> bool {
    let values = |condition: &Condition| match &condition.test {
        Test::In(ranges) => ranges.clone(),
        _ => Vec::new(),
    };
    let both: Vec<_> = values(a).into_iter().chain(values(b)).collect();
    let Test::In(joined) = Test::among(both) else { return false };
    let [whole] = joined.as_slice() else { return false };
    match a.subjects.as_slice() {
        [Subject::PacketBytes | Subject::Field(Field::SourcePort | Field::DestinationPort)] => true,
        [Subject::Field(Field::Source | Field::Destination)] => {
            let free = whole.first ^ whole.last;
            free & free.wrapping_add(1) == 0 && whole.first & free == 0
        }
        _ => false,
    }
}

/// May the packets of a rule be taken by an earlier one of its chain? Nothing else is done with them between.
fn passes_over(
    (chain, first): RulePlace,
    second: usize,
    walk: &Walk<'_>,
    headers: &mut Headers,
) -> Result<bool, TooLarge> {
    let rules = &walk.set.chains[chain].rules;
    let packets = own(&rules[second], (chain, second), headers)?;
    let packets = headers.bdd.and(packets, headers.universe())?;
    for (at, rule) in rules.iter().enumerate().take(second).skip(first + 1) {
        if is_plain(rule) && rule.verdict() == rules[second].verdict() {
            continue;
        }
        let between = own(rule, (chain, at), headers)?;
        if headers.bdd.meets(packets, between) {
            return Ok(false);
        }
    }
    Ok(true)
}
