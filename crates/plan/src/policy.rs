//! What rule sets say, alone and together: rules that take no packet, that could go, and that stand in the wrong order
//! (specification of function parallelism, section 2).
//!
//! Knows rules as they were read, the same that functions run. Refuses to read files, and to change what a rule set
//! does.

mod bdd;
mod chains;
mod decision;
mod finding;
mod headers;
mod merge;
pub mod openflow;
mod rule_sets;
mod shorten;
mod sweep;
mod tenants;
#[cfg(test)]
mod tests;

pub use chains::ChainFunction;
pub use finding::{Finding, FindingKind, Severity, Site, Way};
pub use shorten::{MONITORED, Shortened, shorten};

use bdd::TooLarge;
use catena_rules::ReadRules;
use catena_rules::exactness::Exactness;
use catena_rules::rule_set::RuleSet;
use sweep::{Cube, Cubes};
use thiserror::Error;

/// Why rules could not be analysed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{whose}: {source}")]
pub struct AnalysisError {
    /// Whose rules they are: a file, or a chain.
    whose: String,
    source: TooLarge,
}

/// What was found in a function's rules.
#[derive(Clone, Debug, Default)]
pub struct Analysis {
    /// What is wrong with them, or more than need be.
    pub findings: Vec<Finding>,
    /// How many there are.
    pub rules: usize,
    /// Rules of which nothing would change if all of them were gone.
    pub needless: usize,
}

/// Looks through a function's rules.
///
/// # Errors
/// When they are too many and too different.
pub fn analyse_rules(rules: &ReadRules) -> Result<Analysis, AnalysisError> {
    let mut analysis = Analysis::default();
    match rules {
        ReadRules::Filter(sets) => {
            for set in sets {
                let analysed = rule_sets::analyse(set);
                let analysed =
                    analysed.map_err(|source| AnalysisError { whose: set.file.clone(), source })?;
                analysis.findings.extend(analysed.findings);
                analysis.needless += analysed.needless.len();
                analysis.rules += set.rules();
            }
        }
        ReadRules::Inspection(rules) => {
            let skipped = rules.skipped.iter();
            analysis.findings.extend(skipped.map(|one| rule_sets::skipped(&rules.file, one)));
            analysis.rules = rules.rules.len();
        }
        ReadRules::Encryption(selectors) => {
            analysis.rules = selectors.encrypts.len() + selectors.decrypts.len();
        }
        ReadRules::Translation(_) | ReadRules::Opaque => {}
    }
    Ok(analysis)
}

/// What is wrong with the order of a chain's functions, as packets meet them on the way forward and, of a symmetric
/// one, on the way back.
///
/// # Errors
/// When their rules are too many and too different.
pub fn analyse_chain(
    name: &str,
    functions: &[ChainFunction<'_>],
    is_symmetric: bool,
) -> Result<Vec<Finding>, AnalysisError> {
    let mut findings = analyse_way(name, functions, Way::Forth)?;
    if is_symmetric {
        let back: Vec<ChainFunction<'_>> = functions.iter().rev().cloned().collect();
        findings.extend(analyse_way(name, &back, Way::Back)?);
    }
    Ok(findings)
}

fn analyse_way(
    name: &str,
    functions: &[ChainFunction<'_>],
    way: Way,
) -> Result<Vec<Finding>, AnalysisError> {
    let mut findings: Vec<Finding> = Vec::new();
    for is_v6 in [false, true] {
        let found = chains::analyse(functions, way, is_v6);
        let found =
            found.map_err(|source| AnalysisError { whose: format!("the chain {name}"), source })?;
        for finding in found {
            // Both versions tell of the same rules.
            let is_known = |known: &Finding| {
                (known.kind, &known.site, &known.what)
                    == (finding.kind, &finding.site, &finding.what)
            };
            if !findings.iter().any(is_known) {
                findings.push(finding);
            }
        }
    }
    Ok(findings)
}

/// Pairs of rules, one of each function, that some packet meets both of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverlappingRules {
    /// How many, as far as protocol, addresses and ports go.
    pub pairs: usize,
    /// Do the rules ask for nothing else, that might keep some of them apart?
    pub is_exact: bool,
}

/// Pairs of cubes that are held against each other at once: a bit each.
const OVERLAPS_MAX: usize = 1 << 30;

/// How often rules of two functions meet; none: rules of one are not known, or both have too many.
#[must_use]
pub fn overlaps(first: &ReadRules, second: &ReadRules) -> Option<OverlappingRules> {
    let mut is_exact = true;
    // Of each rule of the first, a bit for each of the second that it meets in one version or the other.
    let mut met: Vec<Vec<u64>> = Vec::new();
    for is_v6 in [false, true] {
        let (first, second) = (cubes(first, is_v6)?, cubes(second, is_v6)?);
        is_exact &= first.iter().chain(&second).all(|cubes| cubes.exactness == Exactness::Exact);
        let (rules, cubes) = numbered(&first);
        let (others, other_cubes) = numbered(&second);
        if cubes.len().saturating_mul(other_cubes.len()) > OVERLAPS_MAX {
            return None;
        }
        let overlaps = sweep::OverlapRows::of(&cubes, &other_cubes);
        met.resize_with(first.len().max(met.len()), || vec![0; second.len().div_ceil(64)]);
        // Where each rule is one cube, bits of cubes are bits of rules.
        let is_each_one = others.iter().copied().eq(0..second.len());
        for (row, rule) in rules.iter().enumerate() {
            let (met, row) = (&mut met[*rule], overlaps.row(row));
            if is_each_one {
                met.iter_mut().zip(row).for_each(|(word, more)| *word |= more);
                continue;
            }
            for other in sweep::places(row).map(|cube| others[cube]) {
                met[other / 64] |= 1 << (other % 64);
            }
        }
    }
    let pairs = met.iter().flatten().map(|word| word.count_ones() as usize).sum();
    Some(OverlappingRules { pairs, is_exact })
}

/// Cubes of all rules, each with the number of its rule.
fn numbered(rules: &[Cubes]) -> (Vec<usize>, Vec<Cube>) {
    let cubes = rules.iter().enumerate();
    cubes.flat_map(|(rule, cubes)| cubes.cubes.iter().map(move |cube| (rule, *cube))).unzip()
}

/// The packets of each rule, of a version.
fn cubes(rules: &ReadRules, is_v6: bool) -> Option<Vec<Cubes>> {
    match rules {
        ReadRules::Filter(sets) => {
            let has = |set: &RuleSet| set.bases.iter().any(|base| base.families.has(is_v6));
            let of_set = |set: &RuleSet| -> Vec<Cubes> {
                let rules = set.chains.iter().flat_map(|chain| &chain.rules);
                match has(set) {
                    true => rules.map(|rule| sweep::of_rule(rule, is_v6)).collect(),
                    false => rules.map(|_| Cubes::default()).collect(),
                }
            };
            Some(sets.iter().flat_map(of_set).collect())
        }
        ReadRules::Inspection(rules) => {
            Some(rules.rules.iter().map(|rule| sweep::of_ids_rule(rule, is_v6)).collect())
        }
        ReadRules::Encryption(selectors) => {
            let rules = selectors.encrypts.iter().chain(&selectors.decrypts);
            Some(rules.map(|rule| sweep::of_rule(rule, is_v6)).collect())
        }
        ReadRules::Translation(_) | ReadRules::Opaque => None,
    }
}
