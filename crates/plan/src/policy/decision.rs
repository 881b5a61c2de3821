//! What a rule set makes of packets: of each rule which packets reach it and which it takes, and of all rules together
//! what becomes of every packet.
//!
//! Knows how rules follow each other, as the function that runs them does. Refuses to judge rules.

use super::bdd::{Set, TooLarge};
use super::headers::Headers;
use catena_rules::condition::Subject;
use catena_rules::rule_set::{
    Chain, ChainIndex, Policy, Reject, Rule, RuleSet, Statement, Verdict, VerdictMap,
};
use std::collections::{BTreeMap, BTreeSet};

/// How a packet ends that does not pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Without a word.
    Drop,
    /// Its sender is told.
    Reject(Reject),
}

/// What is asked of two decisions about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    /// Both say the same.
    Alike,
    /// They do not.
    Different,
}

/// What becomes of packets: those that end, each in one way; the others pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    ends: Vec<(End, Set)>,
    /// Packets that leave something behind on their way: a line, a token that is gone, a count for its own sake.
    pub(crate) traced: Set,
}

impl Decision {
    /// All pass.
    const fn pass() -> Self {
        Self { ends: Vec::new(), traced: Set::NONE }
    }

    /// Packets that end.
    pub(crate) fn ended(&self, headers: &mut Headers) -> Result<Set, TooLarge> {
        self.ends.iter().try_fold(Set::NONE, |all, (_, set)| headers.bdd.or(all, *set))
    }

    /// All end so.
    fn all(end: End) -> Self {
        Self { ends: vec![(end, Set::ALL)], traced: Set::NONE }
    }

    fn of(&self, end: End) -> Set {
        self.ends.iter().find(|(own, _)| *own == end).map_or(Set::NONE, |(_, set)| *set)
    }

    /// This where `condition` holds, and else the other.
    fn choose(
        &self,
        condition: Set,
        other: &Self,
        headers: &mut Headers,
    ) -> Result<Self, TooLarge> {
        if condition == Set::ALL {
            return Ok(self.clone());
        }
        let traced = headers.bdd.if_then_else(condition, self.traced, other.traced)?;
        let mut ends: Vec<End> = self.ends.iter().map(|(end, _)| *end).collect();
        ends.extend(
            other.ends.iter().map(|(end, _)| *end).filter(|end| self.of(*end) == Set::NONE),
        );
        let mut chosen = Vec::with_capacity(ends.len());
        for end in ends {
            let set = headers.bdd.if_then_else(condition, self.of(end), other.of(end))?;
            if !set.is_empty() {
                chosen.push((end, set));
            }
        }
        Ok(Self { ends: chosen, traced })
    }

    /// Is there one of some packets that two decisions compare so?
    pub(crate) fn is_any(
        &self,
        how: Comparison,
        other: &Self,
        packets: Set,
        headers: &mut Headers,
    ) -> Result<bool, TooLarge> {
        let theirs = |set: Set| if how == Comparison::Alike { set } else { !set };
        for (end, mine) in &self.ends {
            let ended = headers.bdd.and(packets, *mine)?;
            if headers.bdd.meets(ended, theirs(other.of(*end))) {
                return Ok(true);
            }
        }
        let (mine, others) = (self.ended(headers)?, other.ended(headers)?);
        let passed = headers.bdd.minus(packets, mine)?;
        Ok(headers.bdd.meets(passed, theirs(!others)))
    }
}

/// A rule's place in its rule set.
pub(crate) type RulePlace = (ChainIndex, usize);

/// What a rule does to packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Those that come to it.
    pub(crate) reaching: Set,
    /// Those of them that meet all that it asks.
    pub(crate) taken: Set,
    /// How many others were met before it, the first time.
    pub(crate) order: usize,
}

/// What forwarded packets meet.
pub(crate) struct Walk<'w> {
    pub(crate) set: &'w RuleSet,
    pub(crate) seen: BTreeMap<RulePlace, Seen>,
    is_v6: bool,
    /// Do packets that one base chain accepts come to another one?
    is_accepted_asked: bool,
}

/// Where packets go behind a rule or a chain.
struct Onward {
    accepted: Set,
    next: Set,
    returned: Set,
}

/// All that rules ask about.
pub(crate) fn subjects(set: &RuleSet) -> BTreeSet<Subject> {
    let asked = set.statements().flat_map(|statement| match statement {
        Statement::Match(condition) => condition.subjects.as_slice(),
        Statement::MatchTuple(condition) => condition.subjects.as_slice(),
        Statement::Map(map) => map.subjects.as_slice(),
        _ => &[],
    });
    asked.copied().collect()
}

/// Goes through the rules with all packets of a version, as packets do.
pub(crate) fn walk<'w>(
    set: &'w RuleSet,
    is_v6: bool,
    headers: &mut Headers,
) -> Result<Walk<'w>, TooLarge> {
    let is_accepted_asked = set.bases.len() > 1;
    let mut walk = Walk { set, seen: BTreeMap::new(), is_v6, is_accepted_asked };
    let mut passing = headers.universe();
    for base in set.bases.iter().filter(|base| base.families.has(is_v6)) {
        let behind = walk.chain(base.chain, passing, headers)?;
        passing = behind.accepted;
        if base.policy == Policy::Accept {
            passing = headers.bdd.or(passing, behind.next)?;
        }
    }
    Ok(walk)
}

impl Walk<'_> {
    fn chain(
        &mut self,
        at: ChainIndex,
        packets: Set,
        headers: &mut Headers,
    ) -> Result<Onward, TooLarge> {
        let mut onward = Onward { accepted: Set::NONE, next: packets, returned: Set::NONE };
        let set = self.set;
        for (place, rule) in set.chains[at].rules.iter().enumerate() {
            let reaching = onward.next;
            let behind = self.rule((at, place), rule, reaching, headers)?;
            onward.returned = headers.bdd.or(onward.returned, behind.returned)?;
            onward.next = behind.next;
            if self.is_accepted_asked {
                onward.accepted = headers.bdd.or(onward.accepted, behind.accepted)?;
            }
        }
        onward.next = headers.bdd.or(onward.next, onward.returned)?;
        Ok(onward)
    }

    fn rule(
        &mut self,
        place: RulePlace,
        rule: &Rule,
        reaching: Set,
        headers: &mut Headers,
    ) -> Result<Onward, TooLarge> {
        let mut onward = Onward { accepted: Set::NONE, next: Set::NONE, returned: Set::NONE };
        headers.visit()?;
        let order = self.seen.len();
        let (mut here, mut taken) = (reaching, Set::NONE);
        let mut at = 0;
        while let Some(statement) = rule.statements.get(at) {
            let (asked, asking) = all_asked(&rule.statements[at..], number(place), headers)?;
            at += asking.max(1);
            if asking > 0 {
                let missed = headers.bdd.minus(here, asked)?;
                onward.next = headers.bdd.or(onward.next, missed)?;
                here = headers.bdd.and(here, asked)?;
                continue;
            }
            match statement {
                Statement::Verdict(verdict) => {
                    taken = headers.bdd.or(taken, here)?;
                    self.follow(*verdict, here, &mut onward, headers)?;
                    here = Set::NONE;
                    break;
                }
                Statement::Map(map) => {
                    let (decided, going_on, missed) = entries(map, here, headers)?;
                    onward.next = headers.bdd.or(onward.next, missed)?;
                    for (verdict, packets) in decided {
                        taken = headers.bdd.or(taken, packets)?;
                        self.follow(verdict, packets, &mut onward, headers)?;
                    }
                    here = going_on;
                }
                _ => {}
            }
        }
        taken = headers.bdd.or(taken, here)?;
        onward.next = headers.bdd.or(onward.next, here)?;
        let seen =
            self.seen.entry(place).or_insert(Seen { reaching: Set::NONE, taken: Set::NONE, order });
        seen.reaching = headers.bdd.or(seen.reaching, reaching)?;
        seen.taken = headers.bdd.or(seen.taken, taken)?;
        Ok(onward)
    }

    fn follow(
        &mut self,
        verdict: Verdict,
        packets: Set,
        onward: &mut Onward,
        headers: &mut Headers,
    ) -> Result<(), TooLarge> {
        match verdict {
            Verdict::Accept => onward.accepted = headers.bdd.or(onward.accepted, packets)?,
            Verdict::Drop | Verdict::Reject(_) => {}
            Verdict::Return => onward.returned = headers.bdd.or(onward.returned, packets)?,
            Verdict::Jump(chain) => {
                let behind = self.chain(chain, packets, headers)?;
                onward.accepted = headers.bdd.or(onward.accepted, behind.accepted)?;
                onward.next = headers.bdd.or(onward.next, behind.next)?;
            }
            Verdict::Goto(chain) => {
                let behind = self.chain(chain, packets, headers)?;
                onward.accepted = headers.bdd.or(onward.accepted, behind.accepted)?;
                onward.returned = headers.bdd.or(onward.returned, behind.next)?;
            }
        }
        Ok(())
    }

    /// What becomes of all packets, read from the last rule to the first, without those rules that a judge leaves out.
    pub(crate) fn decide(
        &self,
        headers: &mut Headers,
        judge: &mut dyn Judge,
    ) -> Result<Decision, TooLarge> {
        let mut decision = Decision::pass();
        for base in self.set.bases.iter().rev().filter(|base| base.families.has(self.is_v6)) {
            let fallen = match base.policy {
                Policy::Accept => decision.clone(),
                Policy::Drop => Decision::all(End::Drop),
            };
            decision = self.decide_chain(base.chain, (&decision, &fallen), headers, judge)?;
        }
        Ok(decision)
    }

    /// Behind a chain: what becomes of those it accepts, and of those that fall through.
    fn decide_chain(
        &self,
        at: ChainIndex,
        (accepted, fallen): (&Decision, &Decision),
        headers: &mut Headers,
        judge: &mut dyn Judge,
    ) -> Result<Decision, TooLarge> {
        let mut next = fallen.clone();
        let mut left_out = Vec::new();
        for (place, rule) in self.set.chains[at].rules.iter().enumerate().rev() {
            headers.visit()?;
            let mut with = next.clone();
            let mut behind = Set::ALL;
            for statement in rule.statements.iter().rev() {
                if let Some(asked) = asked(statement, number((at, place)), headers)? {
                    behind = headers.bdd.and(behind, asked)?;
                    if !matches!(statement, Statement::Limit(_)) {
                        continue;
                    }
                }
                with = with.choose(behind, &next, headers)?;
                behind = Set::ALL;
                let is_silent = rule.verdicts().next().is_none();
                if matches!(statement, Statement::Log(_) | Statement::Limit(_)) || is_silent {
                    with.traced = Set::ALL;
                }
                with = match statement {
                    Statement::Verdict(verdict) => {
                        self.decide_verdict(*verdict, (accepted, &next, fallen), headers, judge)?
                    }
                    Statement::Map(map) => {
                        let (decided, going_on, _) = entries(map, Set::ALL, headers)?;
                        let mut all = with.choose(going_on, &next, headers)?;
                        for (verdict, packets) in decided {
                            let one = self.decide_verdict(
                                verdict,
                                (accepted, &next, fallen),
                                headers,
                                judge,
                            )?;
                            all = one.choose(packets, &all, headers)?;
                        }
                        all
                    }
                    _ => with,
                };
            }
            with = with.choose(behind, &next, headers)?;
            if judge.is_needless((at, place), [&with, &next], headers)? {
                left_out.push((place, with));
            } else {
                next = with;
            }
        }
        for (place, with) in left_out {
            judge.settle((at, place), [&with, &next], headers)?;
        }
        Ok(next)
    }

    fn decide_verdict(
        &self,
        verdict: Verdict,
        (accepted, next, fallen): (&Decision, &Decision, &Decision),
        headers: &mut Headers,
        judge: &mut dyn Judge,
    ) -> Result<Decision, TooLarge> {
        match verdict {
            Verdict::Accept => Ok(accepted.clone()),
            Verdict::Drop => Ok(Decision::all(End::Drop)),
            Verdict::Reject(how) => Ok(Decision::all(End::Reject(how))),
            Verdict::Return => Ok(fallen.clone()),
            Verdict::Jump(chain) => self.decide_chain(chain, (accepted, next), headers, judge),
            Verdict::Goto(chain) => self.decide_chain(chain, (accepted, fallen), headers, judge),
        }
    }
}

/// Who says which rules are left out of a decision.
pub(crate) trait Judge {
    /// Is a rule, given what becomes of packets that come to it, and of those that come to the rules behind it?
    fn is_needless(
        &mut self,
        place: RulePlace,
        with_and_without: [&Decision; 2],
        headers: &mut Headers,
    ) -> Result<bool, TooLarge>;

    /// Of one that was left out: what would become of packets that come to it, and what becomes of those that come to
    /// its chain.
    fn settle(
        &mut self,
        place: RulePlace,
        wanted_and_real: [&Decision; 2],
        headers: &mut Headers,
    ) -> Result<(), TooLarge>;
}

/// Leaves none out.
pub(crate) struct AllStand;

impl Judge for AllStand {
    fn is_needless(
        &mut self,
        _: RulePlace,
        _: [&Decision; 2],
        _: &mut Headers,
    ) -> Result<bool, TooLarge> {
        Ok(false)
    }

    fn settle(&mut self, _: RulePlace, _: [&Decision; 2], _: &mut Headers) -> Result<(), TooLarge> {
        Ok(())
    }
}

/// Chains that packets come to by more than one way.
pub(crate) fn shared(chains: &[Chain]) -> BTreeSet<ChainIndex> {
    let mut ways: BTreeMap<ChainIndex, Vec<ChainIndex>> = BTreeMap::new();
    for (at, chain) in chains.iter().enumerate() {
        for verdict in chain.rules.iter().flat_map(Rule::verdicts) {
            if let Verdict::Jump(led) | Verdict::Goto(led) = verdict {
                ways.entry(led).or_default().push(at);
            }
        }
    }
    let mut shared: BTreeSet<ChainIndex> = BTreeSet::new();
    loop {
        let is_new = |(led, from): &(&ChainIndex, &Vec<ChainIndex>)| {
            let is_shared = from.len() > 1 || from.iter().any(|at| shared.contains(at));
            is_shared && !shared.contains(led)
        };
        let new: Vec<ChainIndex> = ways.iter().filter(is_new).map(|(led, _)| *led).collect();
        if new.is_empty() {
            return shared;
        }
        shared.extend(new);
    }
}

/// Packets that go on behind the first statements of a rule that ask for something, and how many these are. They are
/// put together before they are held against others: what one rule asks for is small, and what comes to it is not.
fn all_asked(
    statements: &[Statement],
    owner: usize,
    headers: &mut Headers,
) -> Result<(Set, usize), TooLarge> {
    let mut all = Set::ALL;
    for (count, statement) in statements.iter().enumerate() {
        let Some(asked) = asked(statement, owner, headers)? else { return Ok((all, count)) };
        all = headers.bdd.and(all, asked)?;
    }
    Ok((all, statements.len()))
}

/// Packets of which a rule asks nothing in vain, maps aside; and some that no packet is like.
pub(crate) fn own(rule: &Rule, place: RulePlace, headers: &mut Headers) -> Result<Set, TooLarge> {
    rule.statements.iter().try_fold(Set::ALL, |own, statement| {
        match asked(statement, number(place), headers)? {
            Some(asked) => headers.bdd.and(own, asked),
            None => Ok(own),
        }
    })
}

/// Packets that go on behind a statement; none: all do.
fn asked(
    statement: &Statement,
    owner: usize,
    headers: &mut Headers,
) -> Result<Option<Set>, TooLarge> {
    Ok(match statement {
        Statement::Match(condition) => Some(headers.condition(condition)?),
        Statement::MatchTuple(condition) => Some(headers.tuple(condition)?),
        Statement::Limit(limit) => {
            let token = headers.limit(owner, limit)?;
            Some(if limit.is_over { !token } else { token })
        }
        Statement::Count | Statement::Log(_) | Statement::Verdict(_) | Statement::Map(_) => None,
    })
}

/// Of some packets: those that entries decide about with what they say, those that go on behind the map, and those of
/// which no entry speaks.
type Mapped = (Vec<(Verdict, Set)>, Set, Set);

/// Entries of one verdict are put together, so that each chain is led to once.
fn entries(map: &VerdictMap, packets: Set, headers: &mut Headers) -> Result<Mapped, TooLarge> {
    let (mut going_on, mut rest) = (Set::NONE, packets);
    let mut decided: Vec<(Verdict, Set)> = Vec::new();
    for entry in &map.entries {
        let these = headers.tuple_of(&map.subjects, &entry.values)?;
        let these = headers.bdd.and(rest, these)?;
        rest = headers.bdd.minus(rest, these)?;
        match entry.verdict {
            Some(verdict) => match decided.iter_mut().find(|(own, _)| *own == verdict) {
                Some((_, all)) => *all = headers.bdd.or(*all, these)?,
                None => decided.push((verdict, these)),
            },
            None => going_on = headers.bdd.or(going_on, these)?,
        }
    }
    Ok((decided, going_on, rest))
}

/// A number of a place in a rule set, of which there are at most so many rules.
const fn number((chain, rule): RulePlace) -> usize {
    chain << 24 | rule
}
