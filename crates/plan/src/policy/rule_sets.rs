//! What is wrong with the rules of one rule set, or more than need be.
//!
//! Knows what packets make of rules. Refuses to change them.

use super::bdd::{Set, TooLarge};
use super::decision::{RulePlace, Walk, own, shared, subjects, walk};
use super::finding::{Finding, FindingKind, Site};
use super::headers::Headers;
use super::merge::mergeable;
use catena_rules::rule_set::{Rule, RuleSet, Statement, Verdict};
use catena_rules::{Lint, LintKind, Skipped};
use std::collections::{BTreeMap, BTreeSet};

/// Rules that are told of as those that take a shadowed one's packets.
const TOLD_MAX: usize = 4;

/// What an analysis of a rule set has found, and how large it was.
pub(crate) struct Analysed {
    pub(crate) findings: Vec<Finding>,
    /// Rules of which nothing would change if they were not there.
    pub(crate) needless: BTreeSet<RulePlace>,
}

/// Looks through a rule set, for each version of IP that it is about. A rule is needless when it is for all of them.
pub(crate) fn analyse(set: &RuleSet) -> Result<Analysed, TooLarge> {
    let mut found: Vec<Found> = Vec::new();
    let mut met = BTreeSet::new();
    for is_v6 in [false, true] {
        if !set.bases.iter().any(|base| base.families.has(is_v6)) {
            continue;
        }
        let mut headers = Headers::new(is_v6, &subjects(set))?;
        let walked = walk(set, is_v6, &mut headers)?;
        met.extend(walked.seen.keys().copied());
        found.push(of_version(&walked, &mut headers)?);
    }
    // What one version has no use for, the other may have.
    let mut findings = Vec::new();
    let mut needless = BTreeSet::new();
    for ((place, _), finding) in found.first().into_iter().flatten() {
        let key = |of_version: &Found| of_version.contains_key(&(*place, finding.kind));
        if found.iter().all(key) {
            if finding.kind != FindingKind::Mergeable {
                needless.insert(*place);
            }
            findings.push(finding.clone());
        }
    }
    findings.extend(unreached(set, &met));
    findings.extend(set.lints.iter().map(|one| lint(&set.file, one)));
    findings.extend(set.skipped.iter().map(|one| skipped(&set.file, one)));
    findings.sort_by_key(|finding| (finding.site.line, finding.kind));
    Ok(Analysed { findings, needless })
}

/// What was found, by the rule that it is about.
type Found = BTreeMap<(RulePlace, FindingKind), Finding>;

/// What was said when the rules were read.
fn lint(file: &str, lint: &Lint) -> Finding {
    let advice = match lint.kind {
        LintKind::NoEffect => "take it out, or write it for forwarded packets",
        LintKind::OtherVersion => {
            "give the function rules for that version, too, if not all of it may pass"
        }
    };
    no_effect(Site { file: file.to_owned(), line: lint.line }, lint.what.clone(), advice)
}

/// A rule that was left out.
pub(super) fn skipped(file: &str, skipped: &Skipped) -> Finding {
    let remark = skipped.remark(file);
    let advice = "write it with what is supported; the function does not run it";
    no_effect(Site { file: file.to_owned(), line: remark.line }, remark.what, advice)
}

fn no_effect(site: Site, what: String, advice: &str) -> Finding {
    let kind = FindingKind::NoEffect;
    Finding { kind, site, what, advice: advice.to_owned(), class: None, others: Vec::new() }
}

/// Chains with rules that nothing leads to.
fn unreached<'s>(
    set: &'s RuleSet,
    met: &'s BTreeSet<RulePlace>,
) -> impl Iterator<Item = Finding> + 's {
    let unmet = set.chains.iter().enumerate().filter(|(at, chain)| {
        !chain.rules.is_empty() && !met.contains(&(*at, 0)) && !is_local(&chain.name)
    });
    unmet.map(|(_, chain)| Finding {
        kind: FindingKind::Unreached,
        site: Site { file: set.file.clone(), line: chain.line },
        what: format!(
            "no forwarded packet comes to the chain {}, which has {} rules",
            chain.name,
            chain.rules.len()
        ),
        advice: "lead to it from a chain that packets meet, or take it out".to_owned(),
        class: None,
        others: Vec::new(),
    })
}

/// Those that filter what is for the host itself are told of when they are read.
fn is_local(name: &str) -> bool {
    matches!(name, "INPUT" | "OUTPUT")
}

fn of_version(walked: &Walk<'_>, headers: &mut Headers) -> Result<Found, TooLarge> {
    let mut found = BTreeMap::new();
    let mut needless = BTreeSet::new();
    for (place, seen) in &walked.seen {
        if seen.taken.is_empty() {
            let finding = shadowed(walked, *place, headers)?;
            found.insert((*place, finding.kind), finding);
            needless.insert(*place);
        }
    }
    let shared = shared(&walked.set.chains);
    let mut redundant = Vec::new();
    walked.decide(headers, &mut |place, with, without, headers| {
        let rule = &walked.set.chains[place.0].rules[place.1];
        if needless.contains(&place) {
            return Ok(true);
        }
        if shared.contains(&place.0) || has_effects(rule) || rule.verdicts().next().is_none() {
            return Ok(false);
        }
        let taken = walked.seen.get(&place).map_or(Set::NONE, |seen| seen.taken);
        let is_needless = with.agrees(without, taken, headers)?;
        if is_needless {
            redundant.push(place);
        }
        Ok(is_needless)
    })?;
    for place in redundant {
        let rule = &walked.set.chains[place.0].rules[place.1];
        let taken = walked.seen.get(&place).map_or(Set::NONE, |seen| seen.taken);
        let finding = Finding {
            kind: FindingKind::Redundant,
            site: Site { file: walked.set.file.clone(), line: rule.line },
            what: format!("the rules behind it do the same with what it takes: {}", rule.text),
            advice: "take it out, unless its counter is read".to_owned(),
            class: headers.in_words(taken),
            others: Vec::new(),
        };
        found.insert((place, finding.kind), finding);
        needless.insert(place);
    }
    for (second, first) in mergeable(walked, &needless, headers)? {
        let rule = |place: RulePlace| &walked.set.chains[place.0].rules[place.1];
        let site =
            |place: RulePlace| Site { file: walked.set.file.clone(), line: rule(place).line };
        let finding = Finding {
            kind: FindingKind::Mergeable,
            site: site(second),
            what: format!(
                "line {} could take its packets as well: {}",
                rule(first).line,
                rule(second).text
            ),
            advice: "make one rule of both, in the place of the first".to_owned(),
            class: None,
            others: vec![site(first)],
        };
        found.insert((second, finding.kind), finding);
    }
    Ok(found)
}

/// Does it do more than to decide and to count?
fn has_effects(rule: &Rule) -> bool {
    let does_more =
        |statement: &Statement| matches!(statement, Statement::Log(_) | Statement::Limit(_));
    rule.statements.iter().any(does_more)
}

/// A rule that no packet comes to, or none that it asks for.
fn shadowed(
    walked: &Walk<'_>,
    place: RulePlace,
    headers: &mut Headers,
) -> Result<Finding, TooLarge> {
    let rule = &walked.set.chains[place.0].rules[place.1];
    let own = own(rule, place, headers)?;
    let asks = own != headers.universe();
    let site = Site { file: walked.set.file.clone(), line: rule.line };
    let finding = |kind, what: String, advice: &str, class, others| Finding {
        kind,
        site,
        what,
        advice: advice.to_owned(),
        class,
        others,
    };
    if own.is_empty() {
        let what = format!("no packet is as it asks: {}", rule.text);
        return Ok(finding(
            FindingKind::Impossible,
            what,
            "correct what it asks, or take it out",
            None,
            Vec::new(),
        ));
    }
    let mut takers = Vec::new();
    let mut is_contradicted = false;
    for (other, seen) in &walked.seen {
        let earlier = &walked.set.chains[other.0].rules[other.1];
        let decides = earlier.verdict().is_some_and(|verdict| !leads_on(verdict));
        if *other == place || !decides || headers.bdd.and(seen.taken, own)?.is_empty() {
            continue;
        }
        // Who asks for all packets means the rest of them.
        is_contradicted |= asks && ends(earlier) != ends(rule);
        takers.push(earlier);
    }
    let lines: Vec<String> =
        takers.iter().take(TOLD_MAX).map(|rule| rule.line.to_string()).collect();
    let more = if takers.len() > TOLD_MAX { " and others" } else { "" };
    let before = match lines.as_slice() {
        [] => "the rules before it".to_owned(),
        [one] => format!("line {one}"),
        several => format!("lines {}{more}", several.join(", ")),
    };
    let what =
        format!("it takes no packet, since {before} took all that it asks for: {}", rule.text);
    let others = takers.into_iter().take(TOLD_MAX);
    let others =
        others.map(|rule| Site { file: walked.set.file.clone(), line: rule.line }).collect();
    let class = headers.in_words(own);
    Ok(match is_contradicted {
        true => finding(
            FindingKind::Contradicted,
            what,
            "put it before them, or take it out",
            class,
            others,
        ),
        false => finding(FindingKind::Shadowed, what, "take it out", class, others),
    })
}

/// Does a packet that it takes end?
fn ends(rule: &Rule) -> bool {
    rule.verdicts().any(|verdict| matches!(verdict, Verdict::Drop | Verdict::Reject(_)))
}

const fn leads_on(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Jump(_) | Verdict::Goto(_) | Verdict::Return)
}
