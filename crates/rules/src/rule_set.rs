//! The one form: chains of rules, each a row of conditions, what it does on the way, and a verdict.

use crate::condition::{Condition, Range, Subject, TupleCondition, are_in, values_of};
use crate::error::{Lint, Remark, Skipped};
use crate::groups::GroupNames;

/// A chain's place among those of its rule set.
pub type ChainIndex = usize;

/// Rules as they are run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleSet {
    /// The file that it was read from.
    pub file: String,
    /// All chains.
    pub chains: Vec<Chain>,
    /// Those that forwarded packets meet, in this order.
    pub bases: Vec<Base>,
    /// Rules that were left out.
    pub skipped: Vec<Skipped>,
    /// What has no effect here.
    pub lints: Vec<Lint>,
    /// What its writer calls addresses.
    pub groups: GroupNames,
}

/// A chain that forwarded packets meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    /// The chain.
    pub chain: ChainIndex,
    /// Versions of IP whose packets it meets.
    pub families: Families,
    /// What becomes of packets that no rule decides.
    pub policy: Policy,
}

/// Versions of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Families {
    /// IPv4.
    pub v4: bool,
    /// IPv6.
    pub v6: bool,
}

impl Families {
    /// IPv4 alone.
    pub const V4: Self = Self { v4: true, v6: false };
    /// IPv6 alone.
    pub const V6: Self = Self { v4: false, v6: true };
    /// Both.
    pub const BOTH: Self = Self { v4: true, v6: true };

    /// Is a version among them?
    #[must_use]
    pub const fn has(self, is_v6: bool) -> bool {
        if is_v6 { self.v6 } else { self.v4 }
    }
}

/// What becomes of packets that no rule decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Policy {
    /// They go on.
    Accept,
    /// They end.
    Drop,
}

/// A row of rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    /// Its name, with its table where there are several.
    pub name: String,
    /// The line that declares it, from 1.
    pub line: u32,
    /// Its rules.
    pub rules: Vec<Rule>,
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Its line, from 1.
    pub line: u32,
    /// Its words, without counters.
    pub text: String,
    /// What it asks and does, in the order in which that happens.
    pub statements: Vec<Statement>,
    /// Whose it is, where several tenants write into one policy.
    pub owner: Option<Owner>,
}

/// Who wants a rule, and how much.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The tenant.
    pub tenant: String,
    /// Rules of a higher one come before it.
    pub priority: u32,
}

/// A part of a rule. The first that does not hold ends the rule.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Statement {
    /// Goes on if the packet is such.
    Match(Condition),
    /// Goes on if several values of the packet are such at once.
    MatchTuple(TupleCondition),
    /// Goes on if there is a token, and takes it.
    Limit(Limit),
    /// Counts the packet.
    Count,
    /// Tells of the packet.
    Log(String),
    /// What becomes of it.
    Verdict(Verdict),
    /// What becomes of it by its values; the rule ends where they are in no entry.
    Map(VerdictMap),
}

/// Verdicts by the values of packets.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct VerdictMap {
    /// Whose values are looked up.
    pub subjects: Vec<Subject>,
    /// The entries: the first that has the values decides.
    pub entries: Vec<MapEntry>,
}

/// What becomes of packets with these values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MapEntry {
    /// A range for each subject.
    pub values: Vec<Range>,
    /// What becomes of them; none: the rule goes on.
    pub verdict: Option<Verdict>,
}

impl VerdictMap {
    /// The entry that decides about a packet, whose values are these; none: no entry has them, or the
    /// packet lacks one of the subjects.
    #[must_use]
    pub fn entry(&self, value: impl FnMut(Subject) -> Option<u128>) -> Option<&MapEntry> {
        let values = values_of(&self.subjects, value)?;
        self.entries.iter().find(|entry| are_in(values.as_slice(), &entry.values))
    }
}

/// A bucket of tokens. Packets pass while there are some; with `is_over`, while there are none.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Limit {
    /// Tokens that come for each period.
    pub rate: u64,
    /// The period, seconds.
    pub period_s: u64,
    /// Tokens there are at first and at most.
    pub burst: u64,
    /// Do packets pass that find none?
    pub is_over: bool,
}

/// What a rule does with a packet in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// This base chain lets it go on.
    Accept,
    /// It ends here.
    Drop,
    /// It ends here, and its sender is told.
    Reject(Reject),
    /// The rules of another chain decide; if they do not, this one goes on.
    Jump(ChainIndex),
    /// The rules of another chain decide; if they do not, whoever jumped here goes on.
    Goto(ChainIndex),
    /// Whoever jumped here goes on.
    Return,
}

/// How the sender of a rejected packet is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reject {
    /// By an ICMP message, destination unreachable, with this code.
    Icmp(u8),
    /// By an ICMPv6 message, destination unreachable, with this code.
    IcmpV6(u8),
    /// By the message of the packet's version of IP: `v4` as [`Reject::Icmp`], `v6` as
    /// [`Reject::IcmpV6`].
    OfVersion {
        /// The code of ICMP.
        v4: u8,
        /// The code of ICMPv6.
        v6: u8,
    },
    /// By a reset of TCP.
    TcpReset,
}

impl RuleSet {
    /// Rules in all chains.
    #[must_use]
    pub fn rules(&self) -> usize {
        self.chains.iter().map(|chain| chain.rules.len()).sum()
    }

    /// What its writer should know of it, with file and line: what has no effect, and what was left out.
    pub fn remarks(&self) -> impl Iterator<Item = Remark<'_>> {
        let file = &self.file;
        let lint = |lint: &Lint| Remark { file, line: lint.line, what: lint.what.clone() };
        let lints = self.lints.iter().map(lint);
        lints.chain(self.skipped.iter().map(|skipped| skipped.remark(file)))
    }

    /// A rule in its user's words: `edge.iptables line 14, --dport 23 -j DROP`.
    #[must_use]
    pub fn in_words(&self, rule: &Rule) -> String {
        format!("{} line {}, {}", self.file, rule.line, rule.text)
    }

    /// All that rules ask.
    pub fn statements(&self) -> impl Iterator<Item = &Statement> {
        self.chains.iter().flat_map(|chain| &chain.rules).flat_map(|rule| &rule.statements)
    }
}

impl Statement {
    /// All verdicts that it may come to.
    pub fn verdicts(&self) -> impl Iterator<Item = Verdict> {
        let (own, entries): (_, &[MapEntry]) = match self {
            Self::Verdict(verdict) => (Some(*verdict), &[]),
            Self::Map(map) => (None, &map.entries),
            _ => (None, &[]),
        };
        own.into_iter().chain(entries.iter().filter_map(|entry| entry.verdict))
    }
}

impl Rule {
    /// All verdicts that it may come to: its own, and those of its maps.
    pub fn verdicts(&self) -> impl Iterator<Item = Verdict> {
        self.statements.iter().flat_map(Statement::verdicts)
    }

    /// Its verdict, if it has one that does not depend on a map.
    #[must_use]
    pub fn verdict(&self) -> Option<Verdict> {
        self.statements.iter().find_map(|statement| match statement {
            Statement::Verdict(verdict) => Some(*verdict),
            _ => None,
        })
    }

    /// What asks the same of packets on their way back, source and destination having changed places.
    #[must_use]
    pub fn mirrored(&self) -> Self {
        let mut rule = self.clone();
        for statement in &mut rule.statements {
            let subjects = match statement {
                Statement::Match(condition) => &mut condition.subjects,
                Statement::MatchTuple(condition) => &mut condition.subjects,
                Statement::Map(map) => &mut map.subjects,
                _ => continue,
            };
            subjects.iter_mut().for_each(|subject| *subject = subject.mirrored());
        }
        rule
    }

    /// What it asks of single values of a packet; tuples and maps ask more.
    pub fn conditions(&self) -> impl Iterator<Item = &Condition> {
        self.statements.iter().filter_map(|statement| match statement {
            Statement::Match(condition) => Some(condition),
            _ => None,
        })
    }
}
