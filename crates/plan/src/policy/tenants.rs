//! Rules of different tenants that want different things of the same packets, with the same right: no priority says
//! whose word counts, and the one that happens to be written first wins.
//!
//! Knows priorities and who wrote what. Refuses to say who is right.

use super::bdd::{Set, TooLarge, VISITS_MAX};
use super::decision::{RulePlace, Walk, own};
use super::finding::{Finding, FindingKind, Site};
use super::headers::Headers;
use super::rule_sets::TOLD_MAX;
use super::sweep::{Cube, OverlapRows, of_rule, places};
use catena_rules::rule_set::{Owner, Rule, RuleSet, Verdict};
use std::collections::BTreeMap;

/// Pairs of cubes of one priority that are held against each other at once: a bit each.
const PAIRS_MAX: usize = 1 << 30;

/// A rule with its place and its owner.
struct Owned<'r> {
    place: RulePlace,
    rule: &'r Rule,
    owner: &'r Owner,
}

/// Rules, each with what it contradicts: of those before it that another tenant wrote, those that take packets of it
/// first.
pub(super) fn conflicts(walk: &Walk<'_>, headers: &mut Headers) -> Result<Vec<Finding>, TooLarge> {
    let all: Vec<Vec<Owned<'_>>> = peers(walk.set).collect();
    let mut found = Vec::new();
    for peers in &all {
        for (first, second) in meeting(peers, headers.is_v6())? {
            headers.visit()?;
            let [first, second] = [&peers[first], &peers[second]];
            let packets = own(second.rule, second.place, headers)?;
            let Some(seen) = walk.seen.get(&first.place) else { continue };
            let packets = headers.bdd.and(packets, seen.taken)?;
            if !packets.is_empty() {
                found.push((first, second, packets));
            }
        }
    }
    told(found, &walk.set.file, headers)
}

/// Rules of one priority each.
fn peers(set: &RuleSet) -> impl Iterator<Item = Vec<Owned<'_>>> {
    let mut peers: BTreeMap<u32, Vec<Owned<'_>>> = BTreeMap::new();
    for (chain, rules) in set.chains.iter().map(|chain| &chain.rules).enumerate() {
        for (at, rule) in rules.iter().enumerate() {
            let Some(owner) = &rule.owner else { continue };
            peers.entry(owner.priority).or_default().push(Owned {
                place: (chain, at),
                rule,
                owner,
            });
        }
    }
    peers.into_values()
}

/// Pairs of rules of different tenants and verdicts whose ranges meet, each in its order.
fn meeting(peers: &[Owned<'_>], is_v6: bool) -> Result<Vec<(usize, usize)>, TooLarge> {
    let is_alone = |one: &Owned<'_>| one.owner.tenant == peers[0].owner.tenant;
    if peers.iter().all(is_alone) {
        return Ok(Vec::new());
    }
    let cubes = peers.iter().enumerate();
    let (rules, cubes): (Vec<usize>, Vec<Cube>) = cubes
        .flat_map(|(at, one)| {
            of_rule(one.rule, is_v6).cubes.into_iter().map(move |cube| (at, cube))
        })
        .unzip();
    if cubes.len().saturating_mul(cubes.len()) > PAIRS_MAX {
        return Err(TooLarge);
    }
    let rows = OverlapRows::of(&cubes, &cubes);
    let mut pairs: Vec<(usize, usize)> = Vec::new();
    for (row, first) in rules.iter().enumerate() {
        let seconds = places(rows.row(row)).map(|second| (*first, rules[second]));
        pairs.extend(seconds.filter(|(first, second)| {
            let [first, other] = [&peers[*first], &peers[*second]];
            first.place < other.place
                && first.owner.tenant != other.owner.tenant
                && first.rule.verdict() != other.rule.verdict()
        }));
        if pairs.len() > VISITS_MAX {
            return Err(TooLarge);
        }
    }
    pairs.sort_unstable();
    pairs.dedup();
    Ok(pairs)
}

/// What there is to say of each rule that contradicts others before it.
fn told(
    found: Vec<(&Owned<'_>, &Owned<'_>, Set)>,
    file: &str,
    headers: &mut Headers,
) -> Result<Vec<Finding>, TooLarge> {
    let site = |one: &Owned<'_>| Site { file: file.to_owned(), line: one.rule.line };
    let mut all: BTreeMap<RulePlace, (&Owned<'_>, Vec<&Owned<'_>>, Set)> = BTreeMap::new();
    for (first, second, packets) in found {
        let (_, firsts, class) = all.entry(second.place).or_insert((second, Vec::new(), Set::NONE));
        firsts.push(first);
        *class = headers.bdd.or(*class, packets)?;
    }
    let finding = |(second, firsts, class): (&Owned<'_>, Vec<&Owned<'_>>, Set)| {
        let Owner { tenant, priority } = second.owner;
        let others: Vec<&str> = firsts.iter().map(|one| one.owner.tenant.as_str()).collect();
        let what = format!(
            "{tenant} wants to {} what {} wants to {}, both with priority {priority}, and who stands first wins: {}",
            word(second.rule),
            others.first().unwrap_or(&""),
            firsts.first().map_or("", |first| word(first.rule)),
            second.rule.text,
        );
        Finding {
            kind: FindingKind::TenantConflict,
            way: None,
            site: site(second),
            what,
            advice: "agree who decides, and give that rule the higher priority".to_owned(),
            class: headers.in_words(class),
            others: firsts.into_iter().take(TOLD_MAX).map(site).collect(),
        }
    };
    Ok(all.into_values().map(finding).collect())
}

/// What a rule does, in a word.
fn word(rule: &Rule) -> &'static str {
    match rule.verdict() {
        Some(Verdict::Accept) => "accept",
        Some(Verdict::Drop | Verdict::Reject(_)) => "drop",
        _ => "decide otherwise on",
    }
}
