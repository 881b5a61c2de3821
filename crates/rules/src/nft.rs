//! What `nft -j list ruleset` writes (libnftables-json(5), schema version 1), as the kernel applies it to
//! packets that are forwarded.
//!
//! Knows the tables of the families `ip`, `ip6` and `inet`: of their chains forwarded packets meet those
//! of the hook `forward`, by priority, and those that they lead to. Other chains, `input` and `output`
//! first of all, are read as far as they can be and never applied; what forwarded packets would meet
//! elsewhere, in `prerouting`, `postrouting` or other families, is refused.
//!
//! The lines of rules are those of the file, if it has several. A file of one line, as `nft` itself
//! writes, has one object a line as far as messages go, as `jq -c '.nftables[]'` shows them.

mod keys;
mod matches;
pub(crate) mod names;
mod objects;
mod sets;
mod statements;
#[cfg(test)]
mod tests;
mod values;
mod words;

use crate::check;
use crate::error::{Lint, LintKind, RuleError, Skipped};
use crate::options::{ReadOptions, Unsupported};
use crate::refusal::Refusal;
use crate::rule_set::{Base, Chain, ChainIndex, Families, Policy, Rule, RuleSet, Statement};
use keys::{malformed, text};
use objects::Object;
use serde_json::Value;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Family, table and name.
type Id<'t> = (&'t str, &'t str, &'t str);

/// What the statements of a rule may speak of.
struct Scope<'a> {
    options: &'a ReadOptions,
    family: &'a str,
    table: &'a str,
    sets: &'a HashMap<Id<'a>, &'a Value>,
    /// Sets that rules put elements into.
    growing: &'a BTreeSet<Id<'a>>,
    chains: &'a HashMap<Id<'a>, Declared>,
    /// Ranges that the rules have asked for so far.
    ranges: &'a Cell<usize>,
}

impl<'a> Scope<'a> {
    /// The chain that a rule leads to.
    fn led(&self, name: &str) -> Result<ChainIndex, Refusal> {
        match self.chains.get(&(self.family, self.table, name)) {
            Some(Declared { index: Some(index), hook: Hook::None, .. }) => Ok(*index),
            Some(_) => {
                let what = format!("{name} is a base chain, which no rule may lead to");
                Err(Refusal::wrong(what, "lead to a chain without hook"))
            }
            None => {
                let what = format!("there is no chain {name} in the table {}", self.table);
                Err(Refusal::wrong(what, "list the whole rule set, by nft -j list ruleset"))
            }
        }
    }
}

/// Where packets meet a chain.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hook {
    /// Where rules lead to it.
    None,
    /// When they are forwarded.
    Forward,
    /// When they are for the host itself or from it.
    Local,
    /// Elsewhere, those that are forwarded too.
    Elsewhere,
}

/// A chain as it was declared.
struct Declared {
    /// Its place; none: its rules are of no kind that is read.
    index: Option<ChainIndex>,
    hook: Hook,
    policy: Policy,
    priority: i64,
    families: Families,
    /// As messages name it.
    name: String,
    /// Why it is never applied, in words.
    why: &'static str,
}

/// A rule that was read, or not.
struct Read {
    chain: Option<ChainIndex>,
    line: u32,
    text: String,
    statements: Result<Vec<Statement>, Refusal>,
}

/// Reads a rule set.
///
/// # Errors
/// At the first rule that is wrong or not supported, with its chain and what to do; with
/// [`Unsupported::Skip`] rules that are not supported are left out and listed instead. Rules that no
/// forwarded packet meets are left out without a word where they cannot be read.
pub fn read(text: &str, options: &ReadOptions) -> Result<RuleSet, RuleError> {
    check::bytes(text).map_err(|refusal| refusal.at(0, options))?;
    let objects = objects::read(text, options)?;
    let mut reader = Reader {
        options,
        names: objects::shared_tables(&objects),
        dormant: objects::dormant_tables(&objects),
        sets: HashMap::new(),
        growing: objects::growing_sets(&objects),
        declared: HashMap::new(),
        chains: Vec::new(),
        set: RuleSet { file: options.file.clone(), ..RuleSet::default() },
    };
    for object in &objects {
        reader.declare(object).map_err(|refusal| refusal.at(object.line, options))?;
    }
    let mut reads = Vec::new();
    let ranges = Cell::new(0);
    let mut numbers = HashMap::new();
    for object in objects.iter().filter(|object| object.kind == "rule") {
        let place = |refusal: Refusal| refusal.at(object.line, options);
        reads.push(reader.rule(object, &ranges, &mut numbers).map_err(place)?);
        check::rules(reads.len()).map_err(place)?;
    }
    reader.finish(reads)
}

struct Reader<'a> {
    options: &'a ReadOptions,
    /// Names of tables that several families have.
    names: BTreeSet<&'a str>,
    /// Tables that are switched off: their families and names.
    dormant: BTreeSet<(&'a str, &'a str)>,
    sets: HashMap<Id<'a>, &'a Value>,
    growing: BTreeSet<Id<'a>>,
    declared: HashMap<Id<'a>, Declared>,
    chains: Vec<Chain>,
    set: RuleSet,
}

impl<'a> Reader<'a> {
    /// Takes note of chains and sets, which rules may name before they stand.
    fn declare(&mut self, object: &'a Object) -> Result<(), Refusal> {
        let body = &object.body;
        match &*object.kind {
            "chain" => self.chain(object),
            "set" | "map" => {
                let id = (text(body, "family")?, text(body, "table")?, text(body, "name")?);
                self.sets.insert(id, body);
                Ok(())
            }
            "metainfo" => match body.get("json_schema_version").and_then(Value::as_u64) {
                None | Some(1) => Ok(()),
                Some(other) => {
                    let what =
                        format!("it is of version {other} of the schema, which is not known");
                    Err(Refusal::wrong(what, "list the rules by an nft that writes version 1"))
                }
            },
            // Of no effect until a rule names it, which is refused then.
            _ => Ok(()),
        }
    }

    fn chain(&mut self, object: &'a Object) -> Result<(), Refusal> {
        let body = &object.body;
        let id = (text(body, "family")?, text(body, "table")?, text(body, "name")?);
        let (family, table, name) = id;
        let shown = if self.names.contains(table) {
            format!("{family} {table} {name}")
        } else {
            format!("{table} {name}")
        };
        if self.declared.contains_key(&id) {
            let what = format!("the chain {shown} is declared twice");
            return Err(Refusal::wrong(what, "leave one of the objects out"));
        }
        let families = objects::families(family);
        let (mut hook, mut why) = objects::hook(body, families.is_some());
        if hook != Hook::None && self.dormant.contains(&(family, table)) {
            (hook, why) = (Hook::Local, "is in a table that is dormant");
        }
        let policy = match body.get("policy").and_then(Value::as_str) {
            None | Some("accept") => Policy::Accept,
            Some("drop") => Policy::Drop,
            Some(other) => {
                let what = format!("{other} is no policy of the chain {shown}");
                return Err(Refusal::wrong(what, "accept and drop are"));
            }
        };
        let priority = body.get("prio").map_or(Some(0), Value::as_i64);
        let priority = priority.ok_or_else(|| malformed("'prio'", body))?;
        if hook == Hook::Elsewhere && policy == Policy::Drop {
            let what = format!("the chain {shown} drops what no rule takes: {why}");
            let mut refusal = Refusal::unsupported(what);
            refusal.advice =
                "take the chain out, or say 'unsupported: skip' to leave it out".into();
            if self.options.unsupported != Unsupported::Skip {
                return Err(refusal);
            }
            let (line, text) = (object.line, format!("chain {shown} policy drop"));
            self.set.skipped.push(Skipped { line, text, what: refusal.what });
        }
        let index = (hook != Hook::Elsewhere).then_some(self.chains.len());
        if index.is_some() {
            let (name, line) = (shown.clone(), object.line);
            self.chains.push(Chain { name, line, rules: Vec::new() });
            check::chains(self.chains.len())?;
        }
        let families = families.unwrap_or(Families { v4: false, v6: false });
        let declared = Declared { index, hook, policy, priority, families, name: shown, why };
        self.declared.insert(id, declared);
        Ok(())
    }

    /// Reads a rule; an error is one of the file, not of what the rule says.
    fn rule(
        &self,
        object: &'a Object,
        ranges: &Cell<usize>,
        numbers: &mut HashMap<Id<'a>, usize>,
    ) -> Result<Read, Refusal> {
        let body = &object.body;
        let id = (text(body, "family")?, text(body, "table")?, text(body, "chain")?);
        let Some(chain) = self.declared.get(&id) else {
            let what = format!("there is no chain {} in the table {}", id.2, id.1);
            return Err(Refusal::wrong(what, "list the whole rule set, by nft -j list ruleset"));
        };
        let number = numbers.entry(id).or_insert(0);
        *number += 1;
        let statements = body.get("expr").and_then(Value::as_array);
        let statements = statements.ok_or_else(|| malformed("'expr'", body))?;
        let scope = Scope {
            options: self.options,
            family: id.0,
            table: id.1,
            sets: &self.sets,
            growing: &self.growing,
            chains: &self.declared,
            ranges,
        };
        let read = match chain.index {
            Some(_) => statements::read(&scope, statements),
            None => Err(Refusal::unsupported(chain.why)),
        };
        let place = |refusal: Refusal| Refusal {
            what: format!("{} rule {number}: {}", chain.name, refusal.what),
            ..refusal
        };
        let comment = body.get("comment").and_then(Value::as_str);
        Ok(Read {
            chain: chain.index,
            line: object.line,
            text: words::rule(statements, comment),
            statements: read.map_err(place),
        })
    }

    fn finish(mut self, reads: Vec<Read>) -> Result<RuleSet, RuleError> {
        self.bases()?;
        self.lint(&reads);
        let met = self.met(&reads);
        for read in reads {
            let Read { chain, line, text, statements } = read;
            match (statements, chain) {
                (Ok(statements), Some(chain)) => {
                    self.chains[chain].rules.push(Rule { line, text, statements, owner: None });
                }
                (Err(refusal), chain) if chain.is_none_or(|chain| met.contains(&chain)) => {
                    let may_skip =
                        self.options.unsupported == Unsupported::Skip && refusal.may_be_skipped;
                    if !may_skip {
                        return Err(refusal.at(line, self.options));
                    }
                    self.set.skipped.push(Skipped { line, text, what: refusal.what });
                }
                _ => {}
            }
        }
        check::loops(&self.chains).map_err(|(line, refusal)| refusal.at(line, self.options))?;
        self.set.skipped.sort_by_key(|skipped| skipped.line);
        self.set.chains = self.chains;
        Ok(self.set)
    }

    /// Which chains forwarded packets may meet.
    fn met(&self, reads: &[Read]) -> BTreeSet<ChainIndex> {
        let mut ways: BTreeMap<ChainIndex, BTreeSet<ChainIndex>> = BTreeMap::new();
        for read in reads {
            let (Some(chain), Ok(statements)) = (read.chain, &read.statements) else { continue };
            let verdicts = statements.iter().flat_map(Statement::verdicts);
            ways.entry(chain).or_default().extend(verdicts.filter_map(check::led_to));
        }
        let mut met = BTreeSet::new();
        let mut next: Vec<ChainIndex> = self.set.bases.iter().map(|base| base.chain).collect();
        while let Some(chain) = next.pop() {
            if met.insert(chain) {
                next.extend(ways.get(&chain).into_iter().flatten());
            }
        }
        met
    }

    /// Tells of chains with rules that are never applied.
    fn lint(&mut self, reads: &[Read]) {
        let with_rules: BTreeSet<ChainIndex> = reads.iter().filter_map(|read| read.chain).collect();
        for declared in self.declared.values().filter(|declared| declared.hook == Hook::Local) {
            let Some(chain) = declared.index else { continue };
            if with_rules.contains(&chain) || declared.policy == Policy::Drop {
                let Declared { name, why, .. } = declared;
                let what = format!("{name} {why}; nothing that is forwarded meets it");
                self.set.lints.push(Lint {
                    line: self.chains[chain].line,
                    kind: LintKind::NoEffect,
                    what,
                });
            }
        }
        self.set.lints.sort_by_key(|lint| lint.line);
    }

    /// The chains that forwarded packets meet first.
    fn bases(&mut self) -> Result<(), RuleError> {
        let mut bases: Vec<(i64, ChainIndex, Base)> = Vec::new();
        for declared in self.declared.values() {
            let (Some(chain), Hook::Forward) = (declared.index, declared.hook) else { continue };
            let (families, policy) = (declared.families, declared.policy);
            bases.push((declared.priority, chain, Base { chain, families, policy }));
        }
        // Of the same priority the kernel runs first what was added last.
        bases.sort_by_key(|(priority, chain, _)| (*priority, std::cmp::Reverse(*chain)));
        self.set.bases = bases.into_iter().map(|(.., base)| base).collect();
        let Some(first) = self.set.bases.first() else {
            let advice = "a rule set of the firewall has a chain 'type filter hook forward'";
            let refusal = Refusal::wrong("there is no chain of the hook forward", advice);
            return Err(refusal.at(0, self.options));
        };
        let line = self.chains[first.chain].line;
        for (is_v6, name) in [(false, "IPv4"), (true, "IPv6")] {
            if !self.set.bases.iter().any(|base| base.families.has(is_v6)) {
                let what = format!("no rule speaks of {name}, whose packets pass");
                self.set.lints.push(Lint { line, kind: LintKind::OtherVersion, what });
            }
        }
        Ok(())
    }
}
