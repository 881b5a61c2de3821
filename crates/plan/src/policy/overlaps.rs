//! How often rules of two functions meet. Knows ranges of all rules, which are read once and held against any others;
//! refuses to know what a rule does.

use super::sweep::{self, Cube, Cubes};
use catena_rules::ReadRules;
use catena_rules::exactness::Exactness;
use catena_rules::rule_set::RuleSet;

/// Pairs of cubes that are held against each other at once: a bit each.
const OVERLAPS_MAX: usize = 1 << 30;

/// Pairs of rules, one of each function, that some packet meets both of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverlappingRules {
    /// How many, as far as protocol, addresses and ports go.
    pub pairs: usize,
    /// Do the rules ask for nothing else, that might keep some of them apart?
    pub is_exact: bool,
}

/// What rules of a function ask of protocol, addresses and ports, as ranges.
#[derive(Clone, Debug)]
pub struct RuleRanges {
    /// Of IPv4 and of IPv6.
    versions: [Version; 2],
    /// How many rules there are.
    rules: usize,
    is_exact: bool,
}

/// Cubes of all rules in packets of one version, each with the number of its rule.
#[derive(Clone, Debug)]
struct Version {
    rules: Vec<usize>,
    cubes: Vec<Cube>,
}

impl RuleRanges {
    /// Those of rules; none: they are not known.
    #[must_use]
    pub fn of(rules: &ReadRules) -> Option<Self> {
        let (v4, v6) = (cubes(rules, false)?, cubes(rules, true)?);
        let mut all = v4.iter().chain(&v6);
        let is_exact = all.all(|cubes| cubes.exactness == Exactness::Exact);
        let versions = [&v4, &v6].map(|version| Version::of(version));
        Some(Self { versions, rules: v4.len(), is_exact })
    }

    /// How often they meet others; none: both have too many.
    #[must_use]
    pub fn overlaps(&self, others: &Self) -> Option<OverlappingRules> {
        // Of each rule, a bit for each of the others that it meets in one version or the other.
        let mut met = vec![vec![0; others.rules.div_ceil(64)]; self.rules];
        for (first, second) in self.versions.iter().zip(&others.versions) {
            if first.cubes.len().saturating_mul(second.cubes.len()) > OVERLAPS_MAX {
                return None;
            }
            first.mark(second, others.rules, &mut met);
        }
        let pairs = met.iter().flatten().map(|word: &u64| word.count_ones() as usize).sum();
        Some(OverlappingRules { pairs, is_exact: self.is_exact && others.is_exact })
    }
}

impl Version {
    fn of(rules: &[Cubes]) -> Self {
        let cubes = rules.iter().enumerate();
        let cubes =
            cubes.flat_map(|(rule, cubes)| cubes.cubes.iter().map(move |cube| (rule, *cube)));
        let (rules, cubes) = cubes.unzip();
        Self { rules, cubes }
    }

    /// Marks in the row of each rule which of so many others it meets.
    fn mark(&self, others: &Self, count: usize, met: &mut [Vec<u64>]) {
        let overlaps = sweep::OverlapRows::of(&self.cubes, &others.cubes);
        // Where each rule is one cube, bits of cubes are bits of rules.
        let is_each_one = others.rules.iter().copied().eq(0..count);
        for (row, rule) in self.rules.iter().enumerate() {
            let (Some(met), row) = (met.get_mut(*rule), overlaps.row(row)) else { continue };
            if is_each_one {
                met.iter_mut().zip(row).for_each(|(word, more)| *word |= more);
                continue;
            }
            for other in sweep::places(row).filter_map(|cube| others.rules.get(cube)) {
                met[other / 64] |= 1 << (other % 64);
            }
        }
    }
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
