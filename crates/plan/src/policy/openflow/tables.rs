//! Chains as tables: each is written from its last rule to the first, so that where packets go on is known, and stands
//! in a table behind. A rule after which packets come back begins a new table.
//!
//! Knows what follows from verdicts. Refuses to know what flows ask.

use super::asks::{self, Asks, Unsayable, product};
use super::matches::{FlowMatch, MatchField};
use super::{FLOWS_MAX, Flow, FlowEnd, RefusedRule, TABLE_PASSED, TABLE_UNSAID, TABLES_MAX};
use crate::policy::finding::Site;
use catena_rules::rule_set::{ChainIndex, Policy, Rule, RuleSet, Statement, Verdict, VerdictMap};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Flows of one rule that stand beside others in a table; a rule that takes more asks in several tables.
const BESIDE_MAX: usize = 256;

/// Letters of a rule that are written above its flows.
const PURPOSE_MAX: usize = 160;

/// Where packets go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Then {
    Pass,
    Drop,
    /// The switch does not see enough.
    Unsaid,
    /// A table, by its number from the last.
    Table(usize),
}

/// Flows of one priority and one end.
struct Level {
    matches: Vec<FlowMatch>,
    then: Then,
    purpose: Arc<str>,
}

/// A table that is being written: its levels, the last first, and where all other packets go.
struct Open {
    levels: Vec<Level>,
    missed: Then,
}

struct Finished {
    levels: Vec<Level>,
    missed: Then,
    is_v6: bool,
}

/// Tables of all rule sets, the last first.
#[derive(Default)]
pub(super) struct Builder {
    tables: Vec<Finished>,
    flows: usize,
    unsaid: Vec<Site>,
}

/// What one rule set is written with.
struct Writer<'w> {
    builder: &'w mut Builder,
    set: &'w RuleSet,
    is_v6: bool,
    /// Chains that were written, by where packets go on behind them.
    written: BTreeMap<(ChainIndex, Then, Then), Then>,
}

/// Where packets of a chain go: those that it accepts, and those that nothing in it decides.
#[derive(Clone, Copy)]
struct Behind {
    accepted: Then,
    fallen: Then,
}

impl Builder {
    /// Writes a rule set for a version of IP; packets that pass it go on so.
    pub(super) fn set(
        &mut self,
        set: &RuleSet,
        is_v6: bool,
        passed: Then,
    ) -> Result<Then, RefusedRule> {
        let mut writer = Writer { builder: self, set, is_v6, written: BTreeMap::new() };
        let bases = set.bases.iter().rev().filter(|base| base.families.has(is_v6));
        bases.into_iter().try_fold(passed, |then, base| {
            let fallen = match base.policy {
                Policy::Accept => then,
                Policy::Drop => Then::Drop,
            };
            writer.chain(base.chain, Behind { accepted: then, fallen })
        })
    }

    /// All flows, with the table in front that tells versions of IP apart.
    pub(super) fn finish(self, roots: &[(bool, Then)]) -> (Vec<Flow>, Vec<Site>) {
        let count = self.tables.len();
        let end = |then| match then {
            Then::Drop => FlowEnd::Drop,
            Then::Pass => FlowEnd::Goto(TABLE_PASSED),
            Then::Unsaid => FlowEnd::Goto(TABLE_UNSAID),
            Then::Table(at) => FlowEnd::Goto(number(count - at)),
        };
        let mut flows = Vec::new();
        let mut first = |priority, matches, is_v6, then, purpose: &str| {
            let purpose = purpose.into();
            flows.push(Flow { table: 0, priority, matches, is_v6, then: end(then), purpose });
        };
        for tag in [0x8100, 0x88a8] {
            let behind_two = FlowMatch::equals(MatchField::EtherType, tag);
            first(2, behind_two, None, Then::Unsaid, "behind two VLAN tags");
        }
        for (is_v6, root) in roots {
            first(2, FlowMatch::default(), Some(*is_v6), *root, "versions of IP");
        }
        first(0, FlowMatch::default(), None, Then::Pass, "what is no IP");
        let rest: Arc<str> = "what no rule here takes".into();
        for (at, table) in self.tables.into_iter().enumerate().rev() {
            let (table_number, is_v6) = (number(count - at), Some(table.is_v6));
            let top = table.levels.len();
            for (below, level) in table.levels.into_iter().rev().enumerate() {
                // There are fewer levels than flows.
                let priority = u16::try_from(top - below).unwrap_or(u16::MAX);
                let flow = |matches| Flow {
                    table: table_number,
                    priority,
                    matches,
                    is_v6,
                    then: end(level.then),
                    purpose: Arc::clone(&level.purpose),
                };
                flows.extend(level.matches.into_iter().map(flow));
            }
            let (matches, then) = (FlowMatch::default(), end(table.missed));
            let purpose = Arc::clone(&rest);
            flows.push(Flow { table: table_number, priority: 0, matches, is_v6, then, purpose });
        }
        let mut unsaid = self.unsaid;
        unsaid.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
        unsaid.dedup();
        (flows, unsaid)
    }
}

/// A table's number, of which there are at most [`TABLES_MAX`].
fn number(at: usize) -> u8 {
    u8::try_from(at).unwrap_or(TABLE_UNSAID)
}

impl Writer<'_> {
    fn chain(&mut self, at: ChainIndex, behind: Behind) -> Result<Then, RefusedRule> {
        let key = (at, behind.accepted, behind.fallen);
        if let Some(written) = self.written.get(&key) {
            return Ok(*written);
        }
        let mut open = Open { levels: Vec::new(), missed: behind.fallen };
        let set = self.set;
        let chain = set.chains.get(at);
        for rule in chain.into_iter().flat_map(|chain| &chain.rules).rev() {
            self.rule(rule, &mut open, behind)?;
        }
        let line = chain.map_or(0, |chain| chain.line);
        let written = self.close(open, line)?;
        self.written.insert(key, written);
        Ok(written)
    }

    /// Ends a table; one without flows is none.
    fn close(&mut self, open: Open, line: u32) -> Result<Then, RefusedRule> {
        let Open { levels, missed } = open;
        if levels.is_empty() {
            return Ok(missed);
        }
        let at = self.builder.tables.len();
        if at >= TABLES_MAX {
            return Err(self.refused(
                line,
                format!("the rule set takes more than {TABLES_MAX} tables"),
                "lead to other chains from fewer rules, or split it among several functions",
            ));
        }
        self.builder.tables.push(Finished { levels, missed, is_v6: self.is_v6 });
        Ok(Then::Table(at))
    }

    fn refused(&self, line: u32, what: String, advice: &'static str) -> RefusedRule {
        RefusedRule { site: Site { file: self.set.file.clone(), line }, what, advice }
    }

    fn unsayable(&self, line: u32, Unsayable { what, advice }: Unsayable) -> RefusedRule {
        self.refused(line, what.into_owned(), advice)
    }

    /// Writes a rule in front of those in the open table.
    fn rule(&mut self, rule: &Rule, open: &mut Open, behind: Behind) -> Result<(), RefusedRule> {
        let steps = steps(rule, self.is_v6).map_err(|one| self.unsayable(rule.line, one))?;
        if matches!(steps.first(), Some(Step::Ask(matches)) if matches.is_empty()) {
            return Ok(());
        }
        let comes_back = steps.iter().any(|step| match step {
            Step::End(verdict) => matches!(verdict, Verdict::Jump(_)),
            Step::Ask(_) => false,
            Step::Neither(_) | Step::Map(_) => true,
        });
        let is_one_table = matches!(*steps, [Step::End(_)] | [Step::Ask(_), Step::End(_)]);
        if comes_back || !is_one_table {
            // What comes back, or is not taken further behind, goes on in a table of its own.
            let levels = std::mem::take(&mut open.levels);
            let rest = Open { levels, missed: open.missed };
            open.missed = self.close(rest, rule.line)?;
        }
        let rest = open.missed;
        let mut then = rest;
        let purpose = purpose(self.set, rule);
        for (place, step) in steps.iter().enumerate().rev() {
            match step {
                Step::End(verdict) => then = self.follow(*verdict, behind, then)?,
                Step::Ask(matches) if place == 0 => {
                    return self.level(open, matches, then, (rule.line, &purpose));
                }
                _ => {
                    let missed = if matches!(step, Step::Neither(_)) { then } else { rest };
                    let mut own = Open { levels: Vec::new(), missed };
                    self.own(step, &mut own, (then, rest), behind, (rule.line, &purpose))?;
                    then = self.close(own, rule.line)?;
                }
            }
        }
        // It asks nothing, or begins with a table of its own.
        match steps.first() {
            Some(Step::End(_)) | None => {
                self.level(open, &[FlowMatch::default()], then, (rule.line, &purpose))
            }
            _ => {
                open.missed = then;
                Ok(())
            }
        }
    }

    /// What follows from a verdict; `next`: for those that come back.
    fn follow(
        &mut self,
        verdict: Verdict,
        behind: Behind,
        next: Then,
    ) -> Result<Then, RefusedRule> {
        match verdict {
            Verdict::Accept => Ok(behind.accepted),
            Verdict::Drop | Verdict::Reject(_) => Ok(Then::Drop),
            Verdict::Return => Ok(behind.fallen),
            Verdict::Jump(chain) => self.chain(chain, Behind { fallen: next, ..behind }),
            Verdict::Goto(chain) => self.chain(chain, behind),
        }
    }

    /// Writes what asks in a table of its own: packets go on so, or so if they are not taken.
    fn own(
        &mut self,
        step: &Step<'_>,
        own: &mut Open,
        (then, rest): (Then, Then),
        behind: Behind,
        of: (u32, &Arc<str>),
    ) -> Result<(), RefusedRule> {
        match step {
            Step::End(_) => {}
            Step::Ask(matches) => self.level(own, matches, then, of)?,
            Step::Neither(met) => self.level(own, met, rest, of)?,
            Step::Map(map) => {
                for entry in map.entries.iter().rev() {
                    let matches = asks::values(&map.subjects, &entry.values, self.is_v6)
                        .map_err(|one| self.unsayable(of.0, one))?;
                    let to = match entry.verdict {
                        Some(verdict) => self.follow(verdict, behind, then)?,
                        None => then,
                    };
                    self.level(own, &matches, to, of)?;
                }
            }
        }
        Ok(())
    }

    /// Writes flows above those that are there.
    fn level(
        &mut self,
        open: &mut Open,
        matches: &[FlowMatch],
        then: Then,
        (line, purpose): (u32, &Arc<str>),
    ) -> Result<(), RefusedRule> {
        let (taken, unseen) = self.seen(matches);
        if !unseen.is_empty() && then != Then::Unsaid {
            self.builder.unsaid.push(Site { file: self.set.file.clone(), line });
        }
        for (mut matches, then) in [(unseen, Then::Unsaid), (taken, then)] {
            if self.is_v6 {
                matches = matches.iter().flat_map(FlowMatch::writable).collect();
            }
            self.builder.flows += matches.len();
            if !matches.is_empty() {
                open.levels.push(Level { matches, then, purpose: Arc::clone(purpose) });
            }
        }
        if self.builder.flows > FLOWS_MAX {
            return Err(self.refused(
                line,
                format!("with it the rule set takes more than {FLOWS_MAX} flows"),
                "ask for prefixes instead of ranges, or split it among several functions",
            ));
        }
        Ok(())
    }

    /// What a switch shows of matches, and those of which it does not show enough: a later fragment of IPv6 has the
    /// protocol 44 there, whatever it is a fragment of.
    fn seen(&self, matches: &[FlowMatch]) -> (Vec<FlowMatch>, Vec<FlowMatch>) {
        if !self.is_v6 {
            return (matches.to_vec(), Vec::new());
        }
        let whole = FlowMatch::equals(MatchField::LaterFragment, 0);
        let later = FlowMatch::equals(MatchField::LaterFragment, 1);
        let (mut taken, mut unseen) = (Vec::new(), Vec::new());
        for one in matches {
            match one.without(MatchField::Protocol) {
                None => taken.push(one.clone()),
                Some(others) => {
                    taken.extend(one.and(&whole));
                    unseen.extend(others.and(&later));
                }
            }
        }
        unseen.sort_unstable();
        unseen.dedup();
        (taken, unseen)
    }
}

/// A rule in its user's words, as far as they are few: a set of nftables may have megabytes.
fn purpose(set: &RuleSet, rule: &Rule) -> Arc<str> {
    let mut words = set.in_words(rule);
    if let Some((end, _)) = words.char_indices().nth(PURPOSE_MAX) {
        words.truncate(end);
        words.push('…');
    }
    words.into()
}

/// A part of a rule that is asked in one table.
enum Step<'s> {
    Ask(Vec<FlowMatch>),
    Neither(Vec<FlowMatch>),
    Map(&'s VerdictMap),
    End(Verdict),
}

/// What a rule asks, one table after the other, and its verdict.
fn steps(rule: &Rule, is_v6: bool) -> Result<Vec<Step<'_>>, Unsayable> {
    let mut steps: Vec<Step<'_>> = Vec::new();
    for statement in &rule.statements {
        let asks = match statement {
            Statement::Match(condition) => asks::condition(condition, is_v6)?,
            Statement::MatchTuple(condition) => asks::tuple(condition, is_v6)?,
            Statement::Map(map) => {
                steps.push(Step::Map(map));
                continue;
            }
            Statement::Verdict(verdict) => {
                steps.push(Step::End(*verdict));
                continue;
            }
            // Flows count, and what else they cannot do was refused.
            Statement::Count | Statement::Limit(_) | Statement::Log(_) => continue,
        };
        match asks {
            Asks::Any(matches) => ask(&mut steps, matches),
            Asks::Neither { met, there } => {
                if there != [FlowMatch::default()] {
                    ask(&mut steps, there);
                }
                steps.push(Step::Neither(met));
            }
        }
    }
    Ok(steps)
}

/// Asks one more thing, together with what is asked before unless that takes too many flows.
fn ask(steps: &mut Vec<Step<'_>>, matches: Vec<FlowMatch>) {
    if let Some(Step::Ask(before)) = steps.last_mut()
        && let Ok(both) = product(before, &matches)
        && both.len() <= BESIDE_MAX.max(before.len()).max(matches.len())
    {
        *before = both;
        return;
    }
    steps.push(Step::Ask(matches));
}
