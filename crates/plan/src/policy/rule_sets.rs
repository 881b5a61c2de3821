//! What is wrong with the rules of one rule set, or more than need be.
//!
//! Knows what packets make of rules. Refuses to change them.

use super::bdd::{Set, TooLarge};
use super::decision::{
    Comparison, Decision, Judge, RulePlace, Seen, Walk, own, shared, subjects, walk,
};
use super::finding::{Finding, FindingKind, Site};
use super::headers::Headers;
use super::merge::mergeable;
use super::tenants;
use catena_rules::rule_set::{ChainIndex, Rule, RuleSet, Verdict};
use catena_rules::{Lint, LintKind, Skipped};
use std::collections::{BTreeMap, BTreeSet};

/// Rules that are told of as those that take a shadowed one's packets.
pub(super) const TOLD_MAX: usize = 4;
/// Shadowed rules of which it is told who takes their packets: each is held against all rules before it.
const EXPLAINED_MAX: usize = 256;

/// What an analysis of a rule set has found.
pub(crate) struct Analysed {
    pub(crate) findings: Vec<Finding>,
    /// Rules of which nothing would change if all of them were gone, with what is told of each.
    pub(crate) needless: BTreeMap<RulePlace, FindingKind>,
}

/// The packets of one version of IP, and what rules make of them.
struct Version<'s> {
    headers: Headers,
    walk: Walk<'s>,
    /// What rules ask for that were looked at closely, of the packets that come to their chains.
    entering: BTreeMap<RulePlace, Set>,
}

/// A rule set, for each version of IP that it is about.
pub(super) struct Versions<'s>(Vec<Version<'s>>);

impl<'s> Versions<'s> {
    pub(super) fn of(set: &'s RuleSet) -> Result<Self, TooLarge> {
        let mut versions = Vec::new();
        for is_v6 in [false, true] {
            if set.bases.iter().any(|base| base.families.has(is_v6)) {
                let mut headers = Headers::new(is_v6, &subjects(set))?;
                headers.name(&set.groups);
                let walk = walk(set, is_v6, &mut headers)?;
                versions.push(Version { headers, walk, entering: BTreeMap::new() });
            }
        }
        Ok(Self(versions))
    }

    /// Rules that packets come to, in one version or the other.
    fn met(&self) -> BTreeSet<RulePlace> {
        self.0.iter().flat_map(|version| version.walk.seen.keys().copied()).collect()
    }

    /// Of these rules those without which, all of them, nothing would change; and of those that take nothing, those
    /// some of whose packets meet with what they want all the same.
    pub(super) fn needless(
        &mut self,
        mut needless: BTreeSet<RulePlace>,
    ) -> Result<(BTreeSet<RulePlace>, BTreeSet<RulePlace>), TooLarge> {
        // A rule goes for all versions or for none; and with one that stays, another may have to.
        loop {
            let mut left = needless.clone();
            let mut served = BTreeSet::new();
            for version in &mut self.0 {
                let mut looker = Looker::new(&version.walk, &needless, &mut version.entering);
                version.walk.decide(&mut version.headers, &mut looker)?;
                let Looker { found, served: as_wanted, .. } = looker;
                left.retain(|place| {
                    found.contains(place) || !version.walk.seen.contains_key(place)
                });
                served.extend(as_wanted);
            }
            if left == needless {
                return Ok((needless, served));
            }
            needless = left;
        }
    }

    /// Pairs of rules that could be one, for all versions alike: the second, with the first.
    pub(super) fn mergeable(
        &mut self,
        needless: &BTreeSet<RulePlace>,
    ) -> Result<BTreeMap<RulePlace, RulePlace>, TooLarge> {
        let mut common: Option<BTreeMap<RulePlace, RulePlace>> = None;
        for Version { headers, walk, .. } in &mut self.0 {
            let mut found = mergeable(walk, needless, headers)?;
            if let Some(other) = &common {
                found.retain(|second, first| other.get(second) == Some(first));
            }
            common = Some(found);
        }
        Ok(common.unwrap_or_default())
    }
}

/// Looks through a rule set.
pub(crate) fn analyse(set: &RuleSet) -> Result<Analysed, TooLarge> {
    let mut versions = Versions::of(set)?;
    let met = versions.met();
    let (needless, served) = versions.needless(met.clone())?;
    let mut findings = Vec::new();
    for (count, place) in needless.iter().enumerate() {
        let is_explained = count < EXPLAINED_MAX;
        let is_served = served.contains(place);
        findings.push(of_needless(*place, &mut versions.0, is_served, is_explained)?);
    }
    let kinds = findings.iter().map(|finding| finding.kind);
    let kinds = needless.iter().copied().zip(kinds).collect();
    findings.extend(merges(set, versions.mergeable(&needless)?));
    for Version { headers, walk, .. } in &mut versions.0 {
        findings.extend(tenants::conflicts(walk, headers)?);
    }
    findings.extend(unreached(set, &met));
    findings.extend(set.lints.iter().map(|one| lint(&set.file, one)));
    findings.extend(set.skipped.iter().map(|one| skipped(&set.file, one)));
    findings.sort_by_key(|finding| (finding.site.line, finding.kind));
    // Both versions tell of the same rules.
    findings.dedup_by(|a, b| (a.kind, &a.site, &a.what) == (b.kind, &b.site, &b.what));
    Ok(Analysed { findings, needless: kinds })
}

/// Finds, from behind, the rules that could go.
struct Looker<'w> {
    walk: &'w Walk<'w>,
    /// Only these may.
    may_go: &'w BTreeSet<RulePlace>,
    /// Chains that more than one way leads to: what is behind them differs.
    shared: BTreeSet<ChainIndex>,
    entering: &'w mut BTreeMap<RulePlace, Set>,
    found: BTreeSet<RulePlace>,
    /// Of those that take nothing, those some of whose packets meet with what they want all the same.
    served: BTreeSet<RulePlace>,
}

impl<'w> Looker<'w> {
    fn new(
        walk: &'w Walk<'w>,
        may_go: &'w BTreeSet<RulePlace>,
        entering: &'w mut BTreeMap<RulePlace, Set>,
    ) -> Self {
        let shared = shared(&walk.set.chains);
        let (found, served) = (BTreeSet::new(), BTreeSet::new());
        Self { walk, may_go, shared, entering, found, served }
    }
}

impl Judge for Looker<'_> {
    fn is_needless(
        &mut self,
        place: RulePlace,
        [with, without]: [&Decision; 2],
        headers: &mut Headers,
    ) -> Result<bool, TooLarge> {
        let Some(seen) = self.walk.seen.get(&place) else { return Ok(false) };
        // Of a chain that nothing comes to, whoever leads there is told.
        let comes =
            self.walk.seen.get(&(place.0, 0)).is_some_and(|first| !first.reaching.is_empty());
        if !self.may_go.contains(&place) || !comes {
            return Ok(false);
        }
        // Whoever leaves something behind, here or behind it, would leave something else.
        let traced = headers.bdd.or(with.traced, without.traced)?;
        let is_needless = seen.taken.is_empty()
            || !self.shared.contains(&place.0)
                && !headers.bdd.meets(traced, seen.taken)
                && !with.is_any(Comparison::Different, without, seen.taken, headers)?;
        if is_needless {
            self.found.insert(place);
        }
        Ok(is_needless)
    }

    fn settle(
        &mut self,
        place: RulePlace,
        [wanted, real]: [&Decision; 2],
        headers: &mut Headers,
    ) -> Result<(), TooLarge> {
        let Some(seen) = self.walk.seen.get(&place) else { return Ok(()) };
        if seen.taken.is_empty() {
            let packets = entering(self.walk, place, self.entering, headers)?;
            if wanted.is_any(Comparison::Alike, real, packets, headers)? {
                self.served.insert(place);
            }
        }
        Ok(())
    }
}

fn rule_at(set: &RuleSet, place: RulePlace) -> &Rule {
    &set.chains[place.0].rules[place.1]
}

/// Packets that a rule asks for, of those that come to its chain.
fn entering(
    walk: &Walk<'_>,
    place: RulePlace,
    known: &mut BTreeMap<RulePlace, Set>,
    headers: &mut Headers,
) -> Result<Set, TooLarge> {
    if let Some(packets) = known.get(&place) {
        return Ok(*packets);
    }
    let own = own(rule_at(walk.set, place), place, headers)?;
    let come = walk.seen.get(&(place.0, 0)).map_or(Set::NONE, |seen| seen.reaching);
    let packets = headers.bdd.and(own, come)?;
    known.insert(place, packets);
    Ok(packets)
}

/// What there is to say of a rule that could go.
fn of_needless(
    place: RulePlace,
    versions: &mut [Version<'_>],
    is_served: bool,
    is_explained: bool,
) -> Result<Finding, TooLarge> {
    let (mut takes, mut asks, mut class) = (false, false, None);
    let mut takers: BTreeMap<usize, Site> = BTreeMap::new();
    for Version { headers, walk, entering: known } in versions.iter_mut() {
        let Some(seen) = walk.seen.get(&place).copied() else { continue };
        let packets = match seen.taken.is_empty() {
            true => entering(walk, place, known, headers)?,
            false => seen.taken,
        };
        takes |= !seen.taken.is_empty();
        asks |= !packets.is_empty();
        class = class.or_else(|| headers.in_words(packets));
        if seen.taken.is_empty() && is_explained {
            takers.extend(takers_of(packets, seen, walk, headers));
        }
    }
    let set = versions.first().map(|version| version.walk.set);
    let (file, rule) = set.map(|set| (set.file.clone(), rule_at(set, place))).unzip();
    let (line, text) = rule.map_or((0, ""), |rule| (rule.line, rule.text.as_str()));
    let others: Vec<Site> = takers.into_values().collect();
    let (kind, what, advice) = match (takes, asks) {
        (true, _) => (
            FindingKind::Redundant,
            format!("the same becomes of what it takes without it: {text}"),
            "take it out, unless its counter is read",
        ),
        (false, false) => (
            FindingKind::Impossible,
            format!("no packet that comes to its chain is as it asks: {text}"),
            "correct what it asks, or take it out",
        ),
        (false, true) => {
            let before = named(&others);
            let what =
                format!("it takes no packet, since {before} took all that it asks for: {text}");
            match is_served {
                true => (FindingKind::Shadowed, what, "take it out"),
                false => (FindingKind::Contradicted, what, "put it before them, or take it out"),
            }
        }
    };
    let site = Site { file: file.unwrap_or_default(), line };
    let others = others.into_iter().take(TOLD_MAX).collect();
    Ok(Finding { kind, way: None, site, what, advice: advice.to_owned(), class, others })
}

fn named(sites: &[Site]) -> String {
    let lines: Vec<String> =
        sites.iter().take(TOLD_MAX).map(|site| site.line.to_string()).collect();
    let more = if sites.len() > TOLD_MAX { " and others" } else { "" };
    match lines.as_slice() {
        [] => "the rules before it".to_owned(),
        [one] => format!("line {one}"),
        several => format!("lines {}{more}", several.join(", ")),
    }
}

/// Rules that packets met before one, and that took some of these for good.
fn takers_of(
    packets: Set,
    own: Seen,
    walk: &Walk<'_>,
    headers: &mut Headers,
) -> BTreeMap<usize, Site> {
    let mut takers = BTreeMap::new();
    for (place, seen) in walk.seen.iter().filter(|(_, seen)| seen.order < own.order) {
        let rule = rule_at(walk.set, *place);
        let leads_on = |verdict| matches!(verdict, Verdict::Jump(_) | Verdict::Goto(_));
        let decides = rule.verdicts().any(|verdict| !leads_on(verdict));
        if decides && headers.bdd.meets(seen.taken, packets) {
            takers.insert(seen.order, Site { file: walk.set.file.clone(), line: rule.line });
            if takers.len() > TOLD_MAX {
                break;
            }
        }
    }
    takers
}

/// What there is to say of pairs of rules that could be one.
fn merges(set: &RuleSet, pairs: BTreeMap<RulePlace, RulePlace>) -> impl Iterator<Item = Finding> {
    let site = |place: RulePlace| Site { file: set.file.clone(), line: rule_at(set, place).line };
    pairs.into_iter().map(move |(second, first)| Finding {
        kind: FindingKind::Mergeable,
        way: None,
        site: site(second),
        what: format!(
            "line {} could take its packets as well: {}",
            rule_at(set, first).line,
            rule_at(set, second).text
        ),
        advice: "make one rule of both, in the place of the first".to_owned(),
        class: None,
        others: vec![site(first)],
    })
}

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
    let advice = advice.to_owned();
    Finding { kind, way: None, site, what, advice, class: None, others: Vec::new() }
}

/// Chains with rules that nothing leads to. Of those that are for the host itself it was told when they were read, and
/// nothing is said of those that they lead to.
fn unreached<'s>(
    set: &'s RuleSet,
    met: &'s BTreeSet<RulePlace>,
) -> impl Iterator<Item = Finding> + 's {
    let is_told = |line: u32| set.lints.iter().any(|lint| lint.line == line);
    let told = set.chains.iter().enumerate().filter(|(_, chain)| is_told(chain.line));
    let mut local: BTreeSet<ChainIndex> = told.map(|(at, _)| at).collect();
    loop {
        let led = local.iter().flat_map(|at| &set.chains[*at].rules).flat_map(Rule::verdicts);
        let led = led.filter_map(|verdict| match verdict {
            Verdict::Jump(chain) | Verdict::Goto(chain) => Some(chain),
            _ => None,
        });
        let new: BTreeSet<ChainIndex> = led.filter(|chain| !local.contains(chain)).collect();
        if new.is_empty() {
            break;
        }
        local.extend(new);
    }
    let unmet = set.chains.iter().enumerate().filter(move |(at, chain)| {
        !chain.rules.is_empty() && !met.contains(&(*at, 0)) && !local.contains(at)
    });
    unmet.map(|(_, chain)| Finding {
        kind: FindingKind::Unreached,
        way: None,
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
