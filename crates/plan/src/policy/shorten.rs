//! A rule set with fewer rules and the same end for every packet: without those that nothing would miss, and with
//! neighbours said as one.
//!
//! Knows what may go, and proves that what is left says the same. Refuses to touch rules whose counts are read, and
//! rules that do not do what they say: of these, whoever wrote them should know.

use super::AnalysisError;
use super::bdd::TooLarge;
use super::decision::{AllStand, Comparison, RulePlace, subjects, walk};
use super::finding::FindingKind;
use super::headers::Headers;
use super::rule_sets::{Versions, analyse};
use catena_rules::condition::{Condition, Subject, Test};
use catena_rules::iptables::rewrite::{joined, without};
use catena_rules::rule_set::{Rule, RuleSet, Statement};
use std::collections::BTreeSet;

/// The word that, in the comment of a rule, says that its count is read.
pub const MONITORED: &str = "monitored";

/// What has become of a rule set.
#[derive(Clone, Debug)]
pub struct Shortened {
    /// The text; rules that are gone are comments in it.
    pub text: String,
    /// Lines of rules that are gone, since nothing changes without them.
    pub removed: BTreeSet<u32>,
    /// Lines of rules that are said as one: of the one that stays, and of the one that is gone.
    pub merged: Vec<(u32, u32)>,
    /// Lines of rules that could go and whose counts are read.
    pub monitored: BTreeSet<u32>,
    set: RuleSet,
}

impl Shortened {
    /// Are these the rules that were proved to say the same?
    #[must_use]
    pub fn is_read_as(&self, read: &RuleSet) -> bool {
        let of_rules = |rules: &[Rule], others: &[Rule]| {
            let mut pairs = rules.iter().zip(others);
            rules.len() == others.len() && pairs.all(|(a, b)| a.statements == b.statements)
        };
        let mut chains = self.set.chains.iter().zip(&read.chains);
        self.set.chains.len() == read.chains.len()
            && chains.all(|(own, read)| of_rules(&own.rules, &read.rules))
            && self.set.bases == read.bases
    }
}

/// Shortens a rule set of `iptables-save`, whose text this is; none: what is left would not say the same.
///
/// # Errors
/// When its rules are too many and too different.
pub fn shorten(set: &RuleSet, text: &str) -> Result<Option<Shortened>, AnalysisError> {
    let too_large = |source| AnalysisError { whose: set.file.clone(), source };
    shortened(set, text).map_err(too_large)
}

fn shortened(set: &RuleSet, text: &str) -> Result<Option<Shortened>, TooLarge> {
    let found = analyse(set)?.needless;
    let goes = |kind: &FindingKind| matches!(kind, FindingKind::Shadowed | FindingKind::Redundant);
    let could_go = found.iter().filter(|(_, kind)| goes(kind)).map(|(place, _)| *place);
    let (monitored, may_go): (BTreeSet<RulePlace>, BTreeSet<RulePlace>) =
        could_go.partition(|place| is_monitored(&set.chains[place.0].rules[place.1]));
    // Read with the eyes of whoever reads counts: a rule that is monitored leaves something behind, as one that logs.
    let watched = watched(set);
    let mut versions = Versions::of(&watched)?;
    let (removed, _) = versions.needless(may_go)?;
    let line = |place: &RulePlace| set.chains[place.0].rules[place.1].line;
    let mut left = set.clone();
    let mut gone = removed.clone();
    for place in &removed {
        never(&mut left, *place);
    }
    let lines = removed.iter().map(line).collect();
    let mut text = without(text, &lines);
    let mut merged = Vec::new();
    for (second, first) in versions.mergeable(&found.into_keys().collect())? {
        if let Some(shorter) = joined(&text, line(&first), line(&second)) {
            take_both(&mut left, first, second);
            never(&mut left, second);
            gone.insert(second);
            merged.push((line(&first), line(&second)));
            text = shorter;
        }
    }
    if !is_same(set, &left)? {
        return Ok(None);
    }
    for (at, chain) in left.chains.iter_mut().enumerate() {
        let mut places = 0..;
        chain.rules.retain(|_| places.next().is_some_and(|place| !gone.contains(&(at, place))));
    }
    let monitored = monitored.iter().map(line).collect();
    Ok(Some(Shortened { text, removed: lines, merged, monitored, set: left }))
}

/// Says a comment of the rule so, as a word of its own?
fn is_monitored(rule: &Rule) -> bool {
    let comments = rule.text.split("--comment").skip(1).map(str::trim_start);
    let value = |rest: &'_ str| -> String {
        let quoted = |quote: char| rest.strip_prefix(quote)?.split(quote).next();
        let value = ['"', '\''].into_iter().find_map(quoted);
        value.or_else(|| rest.split_whitespace().next()).unwrap_or_default().to_lowercase()
    };
    let is_word =
        |text: String| text.split(|c: char| !c.is_alphanumeric()).any(|word| word == MONITORED);
    comments.map(value).any(is_word)
}

/// The rules, with a line of log in each that is monitored.
fn watched(set: &RuleSet) -> RuleSet {
    let mut set = set.clone();
    for rule in set.chains.iter_mut().flat_map(|chain| &mut chain.rules) {
        if is_monitored(rule) {
            let ends = |one: &Statement| matches!(one, Statement::Verdict(_) | Statement::Map(_));
            let at = rule.statements.iter().position(ends).unwrap_or(rule.statements.len());
            rule.statements.insert(at, Statement::Log(MONITORED.to_owned()));
        }
    }
    set
}

/// No packet meets it any more; it stays where it is, so that others do, too.
fn never(set: &mut RuleSet, (chain, rule): RulePlace) {
    let nothing = Condition::of(Subject::Version, Test::In(Vec::new()), false);
    set.chains[chain].rules[rule].statements = vec![Statement::Match(nothing)];
}

/// The first takes the packets of the second as well, from which it differs in the values of one condition.
fn take_both(set: &mut RuleSet, first: RulePlace, second: RulePlace) {
    let others = set.chains[second.0].rules[second.1].statements.clone();
    let statements = &mut set.chains[first.0].rules[first.1].statements;
    for (statement, other) in statements.iter_mut().zip(others) {
        if let (Statement::Match(mine), Statement::Match(other)) = (statement, other)
            && let (Test::In(ranges), Test::In(others)) = (&mine.test, other.test)
        {
            mine.test = Test::among(ranges.iter().copied().chain(others).collect());
        }
    }
}

/// Does the same become of every packet, and does it leave the same behind? Rules stand at the same places in both.
fn is_same(first: &RuleSet, second: &RuleSet) -> Result<bool, TooLarge> {
    for is_v6 in [false, true] {
        if !first.bases.iter().any(|base| base.families.has(is_v6)) {
            continue;
        }
        let mut asked = subjects(first);
        asked.extend(subjects(second));
        let mut headers = Headers::new(is_v6, &asked)?;
        let all = headers.universe();
        let (one, other) = (walk(first, is_v6, &mut headers)?, walk(second, is_v6, &mut headers)?);
        let one = one.decide(&mut headers, &mut AllStand)?;
        let other = other.decide(&mut headers, &mut AllStand)?;
        let traced = headers.bdd.if_then_else(one.traced, !other.traced, other.traced)?;
        if headers.bdd.meets(all, traced)
            || one.is_any(Comparison::Different, &other, all, &mut headers)?
        {
            return Ok(false);
        }
    }
    Ok(true)
}
