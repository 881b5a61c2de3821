//! What `iptables-save` and `ip6tables-save` write, as `iptables-restore` reads it.
//!
//! Knows the table `filter`: of its chains forwarded packets meet FORWARD and those it leads to. INPUT
//! and OUTPUT are read, so that their mistakes are told, and never applied; other tables belong to
//! other functions.

mod matches;
pub mod rewrite;
mod targets;
#[cfg(test)]
mod tests;
mod words;

use crate::check;
use crate::error::{Lint, LintKind, RuleError, Skipped};
use crate::options::{ReadOptions, Unsupported};
use crate::refusal::Refusal;
use crate::rule_set::{Base, Chain, ChainIndex, Families, Policy, Rule, RuleSet};
use std::collections::HashMap;
use words::Words;

/// The chain that forwarded packets meet.
const FORWARD: &str = "FORWARD";
/// Chains that the kernel has by itself.
const BUILT_IN: [&str; 3] = ["INPUT", FORWARD, "OUTPUT"];

/// Reads a rule set of one version of IP, or of both alike.
///
/// # Errors
/// At the first statement that is wrong or not supported, with its line and what to do; with
/// [`Unsupported::Skip`] rules that are not supported are left out and listed instead.
pub fn read(text: &str, families: Families, options: &ReadOptions) -> Result<RuleSet, RuleError> {
    let mut reader = Reader {
        options,
        is_v6_only: !families.v4,
        table: None,
        chains: Vec::new(),
        names: HashMap::new(),
        policies: Vec::new(),
        rules: 0,
        set: RuleSet { file: options.file.clone(), ..RuleSet::default() },
    };
    check::bytes(text).map_err(|refusal| refusal.at(0, options))?;
    // A chain may be led to before its own rules stand: the names come first.
    for (line, words) in (1..).zip(text.lines()) {
        reader.declare(line, words).map_err(|refusal| refusal.at(line, options))?;
    }
    reader.table = None;
    for (line, words) in (1..).zip(text.lines()) {
        if let Err(refusal) = reader.line(line, words) {
            let may_skip = options.unsupported == Unsupported::Skip && refusal.may_be_skipped;
            if !may_skip {
                return Err(refusal.at(line, options));
            }
            let text = words.trim().to_owned();
            reader.set.skipped.push(Skipped { line, text, what: refusal.what });
        }
    }
    reader.finish(families)
}

/// A table that is being read.
#[derive(Clone, PartialEq, Eq)]
enum Table {
    Filter,
    Other(String),
}

struct Reader<'o> {
    options: &'o ReadOptions,
    is_v6_only: bool,
    table: Option<Table>,
    chains: Vec<Chain>,
    /// Where each is, by its name.
    names: HashMap<String, ChainIndex>,
    policies: Vec<Option<Policy>>,
    /// How many there are in all chains.
    rules: usize,
    set: RuleSet,
}

impl Reader<'_> {
    /// Enters or leaves a table; true: that was all of the line.
    fn enters(&mut self, text: &str) -> bool {
        if let Some(name) = text.strip_prefix('*') {
            let name = name.trim();
            let other = || Table::Other(name.to_owned());
            self.table = Some(if name == "filter" { Table::Filter } else { other() });
            return true;
        }
        if text == "COMMIT" {
            self.table = None;
        }
        text.is_empty() || text.starts_with('#') || text == "COMMIT"
    }

    /// Takes note of a chain, if the line declares one of the table `filter`.
    fn declare(&mut self, line: u32, text: &str) -> Result<(), Refusal> {
        let text = text.trim();
        if self.enters(text) || self.table != Some(Table::Filter) {
            return Ok(());
        }
        let Some(declared) = text.strip_prefix(':') else { return Ok(()) };
        let (name, policy) = chain_and_policy(declared)?;
        if self.index(name).is_some() {
            let what = format!("the chain {name} is declared twice");
            return Err(Refusal::wrong(what, "leave one of the lines out"));
        }
        let is_built_in = BUILT_IN.contains(&name);
        if policy.is_some() != is_built_in {
            let what = format!("{name} has a policy though it is none of the built-in chains");
            let what = if is_built_in { format!("{name} has no policy") } else { what };
            return Err(Refusal::wrong(
                what,
                "built-in chains have one, ACCEPT or DROP; others '-'",
            ));
        }
        self.names.insert(name.to_owned(), self.chains.len());
        self.chains.push(Chain { name: name.to_owned(), line, rules: Vec::new() });
        self.policies.push(policy);
        check::chains(self.chains.len())
    }

    fn line(&mut self, line: u32, text: &str) -> Result<(), Refusal> {
        let text = text.trim();
        if self.enters(text) {
            return Ok(());
        }
        match self.table.clone() {
            None => Err(Refusal::wrong(
                format!("'{text}' stands outside of every table"),
                "rule sets begin with *filter and end with COMMIT, as iptables-save writes them",
            )),
            Some(Table::Filter) if text.starts_with(':') => Ok(()),
            Some(Table::Filter) => self.rule(line, text),
            Some(Table::Other(table)) => self.foreign(line, &table, text),
        }
    }

    /// A line of a table that is not ours: harmless as long as it says nothing.
    fn foreign(&mut self, line: u32, table: &str, text: &str) -> Result<(), Refusal> {
        let is_quiet = text.strip_prefix(':').is_some_and(|declared| {
            !matches!(chain_and_policy(declared), Ok((_, Some(Policy::Drop))))
        });
        if !is_quiet {
            let whose =
                if table == "nat" { ": addresses are translated by the function nat" } else { "" };
            return Err(Refusal::unsupported(format!(
                "the table {table} is not the firewall's{whose}"
            )));
        }
        if !self.set.lints.iter().any(|lint| lint.what.contains(table)) {
            let what = format!("the table {table} has no rules and is left out");
            self.set.lints.push(Lint { line, kind: LintKind::NoEffect, what });
        }
        Ok(())
    }

    fn rule(&mut self, line: u32, text: &str) -> Result<(), Refusal> {
        let mut words = Words::of(text)?;
        words.skip_counters();
        let append = words.next_word();
        if !matches!(append.as_deref(), Some("-A" | "--append")) {
            let what = format!("'{text}' appends no rule");
            return Err(Refusal::wrong(
                what,
                "rules are written -A CHAIN …, as iptables-save does",
            ));
        }
        let name = words.need("the chain of -A")?;
        let Some(chain) = self.index(&name) else {
            let what = format!("there is no chain {name}");
            return Err(Refusal::wrong(what, format!("declare it by a line ':{name} - [0:0]'")));
        };
        let text = words.rest().to_owned();
        let mut statements = matches::read(&mut words, self.options, self.is_v6_only)?;
        let led = |name: &str| self.index(name).filter(|_| !BUILT_IN.contains(&name));
        targets::read(&mut words, self.is_v6_only, led, &mut statements)?;
        self.chains[chain].rules.push(Rule { line, text, statements, owner: None });
        self.rules += 1;
        check::rules(self.rules)
    }

    fn index(&self, name: &str) -> Option<ChainIndex> {
        self.names.get(name).copied()
    }

    fn finish(mut self, families: Families) -> Result<RuleSet, RuleError> {
        check::loops(&self.chains).map_err(|(line, refusal)| refusal.at(line, self.options))?;
        let Some(forward) = self.index(FORWARD) else {
            let advice = "a rule set of the firewall has a line ':FORWARD ACCEPT [0:0]' in *filter";
            let refusal = Refusal::wrong("there is no chain FORWARD", advice);
            return Err(refusal.at(0, self.options));
        };
        let local = self.chains.iter().zip(&self.policies);
        let local =
            local.filter(|(chain, _)| BUILT_IN.contains(&&*chain.name) && chain.name != FORWARD);
        for (chain, policy) in local {
            if !chain.rules.is_empty() || *policy == Some(Policy::Drop) {
                let what = format!(
                    "{} filters what is for the host itself or from it; nothing that is forwarded meets it",
                    chain.name
                );
                self.set.lints.push(Lint { line: chain.line, kind: LintKind::NoEffect, what });
            }
        }
        if families != Families::BOTH {
            let other = if families.v4 { "IPv6" } else { "IPv4" };
            let what = format!("no rule speaks of {other}, whose packets pass");
            let line = self.chains[forward].line;
            self.set.lints.push(Lint { line, kind: LintKind::OtherVersion, what });
        }
        let policy = self.policies[forward].unwrap_or(Policy::Accept);
        self.set.bases.push(Base { chain: forward, families, policy });
        self.set.chains = self.chains;
        Ok(self.set)
    }
}

/// Name and policy of a declared chain; none: '-'.
fn chain_and_policy(declared: &str) -> Result<(&str, Option<Policy>), Refusal> {
    let mut words = declared.split_whitespace();
    let (Some(name), Some(policy)) = (words.next(), words.next()) else {
        let what = format!("':{declared}' declares no chain");
        return Err(Refusal::wrong(what, "a chain is declared ':NAME POLICY [packets:bytes]'"));
    };
    match policy {
        "ACCEPT" => Ok((name, Some(Policy::Accept))),
        "DROP" => Ok((name, Some(Policy::Drop))),
        "-" => Ok((name, None)),
        other => {
            let what = format!("{other} is no policy");
            Err(Refusal::wrong(what, "ACCEPT and DROP are"))
        }
    }
}
