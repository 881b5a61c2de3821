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
mod overlaps;
mod rule_sets;
mod shorten;
mod sweep;
mod tenants;
#[cfg(test)]
mod tests;

pub use chains::ChainFunction;
pub use finding::{Finding, FindingKind, Severity, Site, Way};
pub use overlaps::{OverlappingRules, RuleRanges};
pub use shorten::{MONITORED, Shortened, shorten};

use bdd::TooLarge;
use catena_rules::ReadRules;
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
