//! Policies between named groups: what the tenants of a cloud let pass and what not, in their order of priority.
//!
//! Knows names, and which rule comes before which. Refuses to hold packets against rules, and to read files: text in
//! YAML comes in, the [`RuleSet`] that a firewall runs or a [`RuleError`] with its line goes out.

mod names;
#[cfg(test)]
mod tests;

pub(crate) use names::{End, Groups, has_key, items};

use crate::check;
use crate::condition::Condition;
use crate::error::RuleError;
use crate::matches::MatchText;
use crate::options::ReadOptions;
use crate::refusal::Refusal;
use crate::rule_set::{Base, Chain, Families, Owner, Policy, Rule, RuleSet, Statement, Verdict};
use ipnet::IpNet;
use serde::Deserialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Groups by the addresses that they are made of, for whoever tells of these.
pub type GroupNames = BTreeMap<IpNet, String>;

/// The key that such a document has.
const KEY: &str = "rules";

/// Is a text such a policy? Its keys stand at the beginnings of lines, where no other language of rules has any.
#[must_use]
pub fn is_policy(text: &str) -> bool {
    has_key(text, KEY)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    groups: Groups,
    /// What becomes of packets that no rule takes.
    #[serde(default)]
    policy: Action,
    rules: Vec<RuleText>,
}

/// A rule as it is written. One of a higher priority comes first; of one priority, that which stands first.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleText {
    tenant: Option<String>,
    #[serde(default)]
    priority: u32,
    /// None: it takes all packets.
    #[serde(rename = "match")]
    asks: Option<MatchText<End>>,
    action: Action,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Action {
    #[default]
    Accept,
    Drop,
}

impl Action {
    const fn policy(self) -> Policy {
        match self {
            Self::Accept => Policy::Accept,
            Self::Drop => Policy::Drop,
        }
    }

    const fn verdict(self) -> Verdict {
        match self {
            Self::Accept => Verdict::Accept,
            Self::Drop => Verdict::Drop,
        }
    }
}

/// Reads a policy.
///
/// # Errors
/// When it is malformed, with its line; or when a rule names a group that is not there, or asks for what no packet is.
pub fn read(text: &str, options: &ReadOptions) -> Result<RuleSet, RuleError> {
    let Document { groups, policy, rules } = check::document(text, &options.file, "Firewall")?;
    check::rules(rules.len()).map_err(|refusal| refusal.at(0, options))?;
    let places = items(text, KEY, rules.len());
    let mut ordered = Vec::new();
    for (rule, (line, text)) in rules.into_iter().zip(places) {
        let priority = rule.priority;
        let own = rule.read(&groups, line, &text);
        let own = own.map_err(|what| wrong(what).at(line, options))?;
        ordered.extend(own.into_iter().map(|rule| (Reverse(priority), rule)));
    }
    ordered.sort_by_key(|(priority, _)| *priority);
    let rules = ordered.into_iter().map(|(_, rule)| rule).collect();
    let base = Base { chain: 0, families: Families::BOTH, policy: policy.policy() };
    let chain = Chain { name: KEY.to_owned(), line: names::line_of(text, KEY), rules };
    Ok(RuleSet {
        file: options.file.clone(),
        chains: vec![chain],
        bases: vec![base],
        groups: groups.names(),
        ..RuleSet::default()
    })
}

fn wrong(what: String) -> Refusal {
    Refusal::wrong(what, "correct it; the page «Firewall» of the book lists what a rule may say")
}

impl RuleText {
    /// A rule for each version of IP whose packets it can take.
    fn read(self, groups: &Groups, line: u32, text: &str) -> Result<Vec<Rule>, String> {
        let Self { tenant, priority, asks, action } = self;
        let owner = tenant.map(|tenant| Owner { tenant, priority });
        let rows = asks.map_or_else(|| Ok(vec![Vec::new()]), |asks| groups.rows(asks))?;
        let rule = |row| Rule {
            owner: owner.clone(),
            ..row_as_rule((line, text), row, Some(Statement::Verdict(action.verdict())))
        };
        Ok(rows.into_iter().map(rule).collect())
    }
}

/// Conditions as a rule, with what follows.
pub(crate) fn row_as_rule(
    (line, text): (u32, &str),
    row: Vec<Condition>,
    verdict: Option<Statement>,
) -> Rule {
    let statements = row.into_iter().map(Statement::Match).chain(verdict).collect();
    Rule { line, text: text.to_owned(), statements, owner: None }
}
