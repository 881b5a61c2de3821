//! Rule sets as they are run: chains of numbered rules. Knows what is the same in two rule sets; refuses to
//! know packets.

use super::index::Index;
use super::lookup::Lookup;
use catena_model::limits::FUNCTION_RULES_MAX;
use catena_rules::condition::Subject;
use catena_rules::rule_set::{Families, Limit, Policy, RuleSet, Statement, Verdict};
use std::collections::HashMap;
use std::fmt;

/// A rule's number among all; policies have numbers behind those of the rules.
pub(super) type RuleNumber = u32;

/// What a packet comes to in the end, and which rule or policy says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Final {
    pub(super) rule: RuleNumber,
    /// Accept, drop or reject.
    pub(super) said: Verdict,
}

/// Rules that no firewall can be made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FirewallError {
    /// There are too many rules in all.
    TooMany {
        /// How many.
        rules: usize,
    },
}

impl fmt::Display for FirewallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMany { rules } => {
                write!(
                    f,
                    "there are {rules} rules of at most {FUNCTION_RULES_MAX}; use several functions"
                )
            }
        }
    }
}

impl std::error::Error for FirewallError {}

/// All chains of all rule sets.
#[derive(Clone, Debug)]
pub(super) struct Program {
    pub(super) chains: Vec<Chain>,
    pub(super) bases: Vec<Base>,
    /// Each rule and policy in its user's words.
    pub(super) rules: Vec<String>,
    /// What each is known by in whatever rule set it stands: its words, and which of several equal
    /// ones it is.
    pub(super) contents: Vec<u128>,
    /// Which rule has which content.
    pub(super) by_content: HashMap<u128, usize>,
    /// The limits, each with its rule.
    pub(super) limits: Vec<(RuleNumber, Limit)>,
    /// Versions of IP of whose connections rules ask for the states.
    pub(super) tracked: Families,
}

/// A chain that packets meet.
#[derive(Clone, Debug)]
pub(super) struct Base {
    pub(super) chain: usize,
    pub(super) families: Families,
    /// What becomes of packets that no rule decides.
    pub(super) policy: Final,
}

/// A chain.
#[derive(Clone, Debug)]
pub(super) struct Chain {
    pub(super) rules: Vec<Compiled>,
    /// Versions of IP whose packets may come here.
    families: Families,
    pub(super) index: Option<Index>,
}

/// A rule.
#[derive(Clone, Debug)]
pub(super) struct Compiled {
    pub(super) number: RuleNumber,
    pub(super) statements: Vec<Statement>,
    /// The place of its first limit among all.
    pub(super) first_limit: usize,
    /// One for each statement that has many entries.
    pub(super) lookups: Vec<Option<Lookup>>,
}

impl Program {
    /// `indexed_from`: rules that end a chain from which on they are searched and not walked along.
    pub(super) fn compile(sets: &[RuleSet], indexed_from: usize) -> Result<Self, FirewallError> {
        let rules = sets.iter().map(RuleSet::rules).sum();
        if rules > FUNCTION_RULES_MAX {
            return Err(FirewallError::TooMany { rules });
        }
        let mut program = Self {
            chains: Vec::new(),
            bases: Vec::new(),
            rules: Vec::new(),
            contents: Vec::new(),
            by_content: HashMap::new(),
            limits: Vec::new(),
            tracked: Families { v4: false, v6: false },
        };
        let mut seen = HashMap::new();
        for set in sets {
            program.add(set, &mut seen);
        }
        let mut first = 0;
        for set in sets {
            program.add_bases(set, first, &mut seen);
            first += set.chains.len();
        }
        for chain in &mut program.chains {
            chain.index = Index::of(&chain.rules, chain.families, indexed_from);
        }
        Ok(program)
    }

    fn add(&mut self, set: &RuleSet, seen: &mut HashMap<u64, u64>) {
        let first = self.chains.len();
        for chain in &set.chains {
            let mut compiled = Chain { rules: Vec::new(), families: of_set(set), index: None };
            for rule in &chain.rules {
                let words = set.in_words(rule);
                let number = self.number(words, &[&chain.name, &rule.text], seen);
                let first_limit = self.limits.len();
                let moved = |verdict: Verdict| match verdict {
                    Verdict::Jump(chain) => Verdict::Jump(chain + first),
                    Verdict::Goto(chain) => Verdict::Goto(chain + first),
                    other => other,
                };
                let mut statements = rule.statements.clone();
                for statement in &mut statements {
                    match statement {
                        Statement::Verdict(verdict) => *verdict = moved(*verdict),
                        Statement::Map(map) => {
                            let verdicts =
                                map.entries.iter_mut().flat_map(|entry| &mut entry.verdict);
                            verdicts.for_each(|verdict| *verdict = moved(*verdict));
                        }
                        Statement::Limit(limit) => self.limits.push((number, limit.clone())),
                        Statement::Match(_)
                        | Statement::MatchTuple(_)
                        | Statement::Count
                        | Statement::Log(_) => {}
                    }
                }
                let lookups = statements.iter().map(lookup).collect();
                compiled.rules.push(Compiled { number, statements, first_limit, lookups });
            }
            self.chains.push(compiled);
        }
        if set.statements().any(asks_state) {
            let Families { v4, v6 } = of_set(set);
            self.tracked = Families { v4: self.tracked.v4 || v4, v6: self.tracked.v6 || v6 };
        }
    }

    fn add_bases(&mut self, set: &RuleSet, first: usize, seen: &mut HashMap<u64, u64>) {
        for base in &set.bases {
            let Some(chain) = set.chains.get(base.chain) else { continue };
            let (said, word) = match base.policy {
                Policy::Accept => (Verdict::Accept, "ACCEPT"),
                Policy::Drop => (Verdict::Drop, "DROP"),
            };
            let words =
                format!("{} line {}, policy {word} of {}", set.file, chain.line, chain.name);
            let rule = self.number(words, &["policy", &chain.name, word], seen);
            let policy = Final { rule, said };
            self.bases.push(Base { chain: base.chain + first, families: base.families, policy });
        }
    }

    /// Gives a rule or policy its number.
    fn number(
        &mut self,
        words: String,
        content: &[&str],
        seen: &mut HashMap<u64, u64>,
    ) -> RuleNumber {
        let hash = stable_hash(content);
        let nth = seen.entry(hash).or_default();
        let content = u128::from(hash) << 64 | u128::from(*nth);
        self.by_content.entry(content).or_insert(self.contents.len());
        self.contents.push(content);
        *nth += 1;
        self.rules.push(words);
        u32::try_from(self.rules.len() - 1).unwrap_or(u32::MAX)
    }

    /// All that rules ask and do.
    pub(super) fn statements(&self) -> impl Iterator<Item = &Statement> {
        self.chains.iter().flat_map(|chain| &chain.rules).flat_map(|rule| &rule.statements)
    }

    /// Can a packet end here?
    pub(super) fn may_drop(&self) -> bool {
        let ends = |verdict: &Verdict| matches!(verdict, Verdict::Drop | Verdict::Reject(_));
        let mut verdicts = self.statements().flat_map(Statement::verdicts);
        self.bases.iter().any(|base| ends(&base.policy.said)) || verdicts.any(|one| ends(&one))
    }
}

/// The lookup of a statement that has many entries.
fn lookup(statement: &Statement) -> Option<Lookup> {
    match statement {
        Statement::MatchTuple(tuple) => Lookup::of(&tuple.tuples.iter().map(Vec::as_slice)),
        Statement::Map(map) => Lookup::of(&map.entries.iter().map(|entry| entry.values.as_slice())),
        _ => None,
    }
}

/// The versions of IP whose packets meet a rule set.
fn of_set(set: &RuleSet) -> Families {
    let of = |is_v6| set.bases.iter().any(|base| base.families.has(is_v6));
    Families { v4: of(false), v6: of(true) }
}

/// What a statement asks about.
pub(super) fn subjects(statement: &Statement) -> &[Subject] {
    match statement {
        Statement::Match(condition) => &condition.subjects,
        Statement::MatchTuple(tuple) => &tuple.subjects,
        Statement::Map(map) => &map.subjects,
        Statement::Limit(_) | Statement::Count | Statement::Log(_) | Statement::Verdict(_) => &[],
    }
}

/// Does it ask for the state of a connection?
fn asks_state(statement: &Statement) -> bool {
    subjects(statement).contains(&Subject::State)
}

/// A hash that is the same in every build: what a former data plane has exported is found by it (FNV-1a,
/// Fowler, Noll, Vo).
fn stable_hash(words: &[&str]) -> u64 {
    let bytes = words.iter().flat_map(|word| word.bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
