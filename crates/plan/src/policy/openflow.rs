//! Rules of firewalls as flows of OpenFlow 1.3, in the words of `ovs-ofctl`: every packet comes to the same end.
//!
//! Knows tables, priorities and what flows can ask. Refuses what they cannot, by file and line: a rule is never written
//! as one that takes other packets.

mod asks;
mod matches;
mod tables;
#[cfg(test)]
mod tests;
mod values;

use super::finding::Site;
use asks::Unsayable;
use catena_rules::rule_set::{ChainIndex, Rule, RuleSet, Statement, Verdict};
use matches::FlowMatch;
use std::collections::BTreeSet;
use std::fmt::{self, Write as _};
use std::sync::Arc;
use tables::{Builder, Then};
use thiserror::Error;

/// Tables that a compilation may need; [`TABLE_PASSED`] is behind all of them.
pub const TABLES_MAX: usize = 250;
/// Flows that a compilation may need.
pub const FLOWS_MAX: usize = 65_535;
/// The table that what passes comes to.
pub const TABLE_PASSED: u8 = 252;
/// The table that packets come to of which the switch does not see enough to decide: no flow is there, so they end.
pub const TABLE_UNSAID: u8 = 253;

/// Rules that are told of when some are refused.
const REFUSED_TOLD_MAX: usize = 20;

/// Ports of a switch at the two sides of a function, by name or number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchSides {
    /// Where packets come in on their way forward.
    pub inside: String,
    /// Where they go out.
    pub outside: String,
}

impl SwitchSides {
    /// Ports with these names.
    ///
    /// # Errors
    /// A name that flows cannot hold, or twice the same.
    pub fn new(inside: &str, outside: &str) -> Result<Self, SwitchSidesError> {
        let is_bad = |letter: char| {
            letter.is_whitespace()
                || letter.is_control()
                || ['"', '\\', '#', ',', '(', ')', '='].contains(&letter)
        };
        for name in [inside, outside] {
            if name.is_empty() || name.contains(is_bad) {
                return Err(SwitchSidesError::Name(name.escape_debug().to_string()));
            }
        }
        if inside == outside {
            return Err(SwitchSidesError::Same(inside.to_owned()));
        }
        Ok(Self { inside: inside.to_owned(), outside: outside.to_owned() })
    }

    /// The port of a side, as flows write it.
    fn words(&self, is_outside: bool) -> String {
        let name = if is_outside { &self.outside } else { &self.inside };
        let is_number = name.bytes().all(|letter| letter.is_ascii_digit());
        if is_number { name.clone() } else { format!("\"{name}\"") }
    }
}

/// Why two ports are not the sides of a function.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SwitchSidesError {
    /// Flows cannot name it.
    #[error(
        "'{0}' is no name of a port of a switch; use one without spaces, quotes, commas and brackets, or its number"
    )]
    Name(String),
    /// What comes in at one side goes out by the other.
    #[error("'{0}' cannot be both sides; name the ports at which packets come in and go out")]
    Same(String),
}

/// Why there are no flows for rules.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}", in_lines(.refused))]
pub struct CompileError {
    /// What cannot be said in OpenFlow 1.3.
    pub refused: Vec<RefusedRule>,
}

fn in_lines(refused: &[RefusedRule]) -> String {
    let told = refused.iter().take(REFUSED_TOLD_MAX).map(ToString::to_string);
    let more = refused.len().saturating_sub(REFUSED_TOLD_MAX);
    let more = (more > 0).then(|| format!("and {more} more"));
    told.chain(more).collect::<Vec<_>>().join("\n")
}

/// A rule that flows cannot say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedRule {
    /// Where it is.
    pub site: Site,
    /// What of it flows cannot say.
    pub what: String,
    /// What to do.
    pub advice: &'static str,
}

impl fmt::Display for RefusedRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.site, self.what, self.advice)
    }
}

/// Flows, and what they do not say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompiledFlows {
    sides: Option<SwitchSides>,
    flows: Vec<Flow>,
    /// What its writer should know: rules that were left out when they were read, or have no effect.
    remarks: Vec<String>,
    /// Rules that ask what the switch does not see of some packets, which come to [`TABLE_UNSAID`].
    pub unsaid: Vec<Site>,
}

/// One flow.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Flow {
    table: u8,
    priority: u16,
    matches: FlowMatch,
    /// The version of IP of its packets; none: any packet.
    is_v6: Option<bool>,
    then: FlowEnd,
    /// The rule that it is of.
    purpose: Arc<str>,
}

/// What a flow does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FlowEnd {
    Drop,
    Goto(u8),
}

/// Flows for rule sets that packets meet one after the other, as a firewall of them does. `sides`: the ports of the
/// switch that stand for the function's sides, which rules about interfaces need.
///
/// # Errors
/// What flows cannot say: all of it, by file and line, or the rule that takes more tables or flows than there may be.
pub fn compile(
    sets: &[RuleSet],
    sides: Option<&SwitchSides>,
) -> Result<CompiledFlows, CompileError> {
    let refused: Vec<RefusedRule> = sets.iter().flat_map(|set| refused(set, sides)).collect();
    if !refused.is_empty() {
        return Err(CompileError { refused });
    }
    let mut builder = Builder::default();
    let mut roots = Vec::new();
    for is_v6 in [false, true] {
        let root =
            sets.iter().rev().try_fold(Then::Pass, |then, set| builder.set(set, is_v6, then));
        roots.push((is_v6, root.map_err(|one| CompileError { refused: vec![one] })?));
    }
    let remarks = sets.iter().flat_map(RuleSet::remarks).map(|remark| remark.to_string()).collect();
    let (flows, unsaid) = builder.finish(&roots);
    Ok(CompiledFlows { sides: sides.cloned(), flows, remarks, unsaid })
}

/// Chains that packets of a version may come to.
fn reached(set: &RuleSet, is_v6: bool) -> BTreeSet<ChainIndex> {
    let bases = set.bases.iter().filter(|base| base.families.has(is_v6));
    let mut waiting: Vec<ChainIndex> = bases.map(|base| base.chain).collect();
    let mut reached = BTreeSet::new();
    while let Some(at) = waiting.pop() {
        let Some(chain) = set.chains.get(at) else { continue };
        if reached.insert(at) {
            waiting.extend(chain.rules.iter().flat_map(Rule::verdicts).filter_map(|verdict| {
                match verdict {
                    Verdict::Jump(led) | Verdict::Goto(led) => Some(led),
                    _ => None,
                }
            }));
        }
    }
    reached
}

/// All that rules say which flows cannot.
fn refused(set: &RuleSet, sides: Option<&SwitchSides>) -> Vec<RefusedRule> {
    let mut refused: Vec<RefusedRule> = Vec::new();
    for is_v6 in [false, true] {
        let chains = reached(set, is_v6).into_iter().filter_map(|at| set.chains.get(at));
        for rule in chains.flat_map(|chain| &chain.rules) {
            let site = || Site { file: set.file.clone(), line: rule.line };
            for Unsayable { what, advice } in unsayable(rule, is_v6, sides.is_some()) {
                refused.push(RefusedRule { site: site(), what: what.into_owned(), advice });
            }
        }
    }
    refused.sort_by(|a, b| (a.site.line, &a.what).cmp(&(b.site.line, &b.what)));
    // Both versions tell of the same rules.
    refused.dedup();
    refused
}

/// What of a rule flows cannot say.
fn unsayable(rule: &Rule, is_v6: bool, has_sides: bool) -> Vec<Unsayable> {
    let mut found = Vec::new();
    let mut has_counted = false;
    for statement in &rule.statements {
        let asked = match statement {
            Statement::Match(condition) => asks::condition(condition, is_v6).map(|_| ()),
            Statement::MatchTuple(condition) => asks::tuple(condition, is_v6).map(|_| ()),
            Statement::Map(map) => map.entries.iter().try_for_each(|entry| {
                asks::values(&map.subjects, &entry.values, is_v6).map(|_| ())
            }),
            Statement::Limit(_) => Err(asks::LIMIT),
            Statement::Log(_) => Err(asks::LOG),
            Statement::Count | Statement::Verdict(_) => Ok(()),
        };
        let is_asking =
            matches!(statement, Statement::Match(_) | Statement::MatchTuple(_) | Statement::Map(_));
        found.extend(asked.err());
        found.extend((has_counted && is_asking).then_some(asks::COUNT));
        found.extend((!has_sides && asks::is_about_sides(statement)).then_some(asks::SIDES));
        let rejects = statement.verdicts().any(|verdict| matches!(verdict, Verdict::Reject(_)));
        found.extend(rejects.then_some(asks::REJECT));
        has_counted |= *statement == Statement::Count;
    }
    found
}

impl CompiledFlows {
    /// How many there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.flows.len()
    }

    /// Are there none?
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    /// One line a flow, as `ovs-ofctl -O OpenFlow13 add-flows` takes them, with comments.
    #[must_use]
    pub fn text(&self) -> String {
        let sides = self.sides.as_ref();
        let mut text = String::new();
        let mut line = |words: &str| _ = writeln!(text, "{words}");
        for words in HEAD {
            line(&format!("# {words}"));
        }
        line(&format!(
            "# table {TABLE_PASSED} gets what passes, and is yours to change; what is no IP passes"
        ));
        line(&format!(
            "# table {TABLE_UNSAID} gets what the switch does not see enough of, such as packets behind two VLAN tags; \
             empty, it ends them"
        ));
        for remark in &self.remarks {
            line(&format!("# {}", one_line(remark)));
        }
        for site in &self.unsaid {
            let site = one_line(&site.to_string());
            line(&format!(
                "# not said: {site}: a later fragment of IPv6 does not show its protocol; those that meet all else \
                 that the rule asks go to table {TABLE_UNSAID}"
            ));
        }
        let mut purpose = "";
        for flow in &self.flows {
            if *flow.purpose != *purpose {
                purpose = &flow.purpose;
                line(&format!("# {}", one_line(purpose)));
            }
            line(&flow.words(sides));
        }
        line("# what passes");
        match sides {
            Some(sides) => {
                for is_outside in [false, true] {
                    let [from, to] = [is_outside, !is_outside].map(|side| sides.words(side));
                    line(&format!(
                        "table={TABLE_PASSED},priority=1,in_port={from},actions=output:{to}"
                    ));
                }
            }
            None => line(&format!("table={TABLE_PASSED},priority=0,actions=NORMAL")),
        }
        text
    }
}

/// What a switch needs to know before.
const HEAD: [&str; 3] = [
    "flows for OpenFlow 1.3; before them: ovs-ofctl -O OpenFlow13 set-frags BRIDGE nx-match",
    "(else the first fragment of a packet looks as if its ports were 0); conditions on fragments and on flags of TCP",
    "are extensions that Open vSwitch has",
];

impl Flow {
    fn words(&self, sides: Option<&SwitchSides>) -> String {
        let mut words = vec![format!("table={},priority={}", self.table, self.priority)];
        words.extend(self.matches.words(self.is_v6, sides));
        let action = match self.then {
            FlowEnd::Drop => "drop".to_owned(),
            FlowEnd::Goto(table) => format!("goto_table:{table}"),
        };
        format!("{},actions={action}", words.join(","))
    }
}

/// A comment ends with its line, whatever stands in somebody's rules.
fn one_line(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}
