//! The versions that a chain steps through during a run. Knows how they follow from one another,
//! the same each time; refuses to know how a chain is changed.

use super::document::{Document, UpdatesEntry};
use super::error::Fault;
use super::lab::{Lab, LabChain};
use super::rule_sets::{self, RuleSet};
use super::validate::unknown;
use super::validate_run::check_steps;
use catena_client::deploy::{ChainStep, Direction};
use catena_model::resource::Encapsulation;
use serde::{Deserialize, Serialize};

/// Most changes of one run.
pub(crate) const CHANGES_MAX: usize = 10_000;
/// Packets that a new path must have carried where the file does not say.
const PACKETS_DEFAULT: u64 = 50;

/// Changes of a chain during a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Updates {
    /// The chain; under a sweep over chains, the case's stands in for it.
    pub chain: String,
    /// What it becomes, one after the other; each differs from the one before.
    pub versions: Vec<Version>,
    /// Packets that the new path must have carried before the next change.
    pub packets: u64,
    /// What the chain begins with, where it is moved among encapsulations.
    pub begins_with: Option<Encapsulation>,
    /// What its bundled functions are told in turns; it begins with the first.
    pub rule_sets: Vec<RuleSet>,
    /// Is all traffic made at each version, between the changes? Otherwise it goes on during them.
    pub is_between: bool,
}

/// What a chain becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// How it follows from the one before.
    pub kind: ChangeKind,
    /// The functions.
    pub steps: Vec<ChainStep>,
    /// The encapsulation that it is moved to; none: it stays as it is carried.
    pub encapsulation: Option<Encapsulation>,
    /// The rule set, by its place, that its bundled functions are told; none: they keep theirs.
    pub rule_set: Option<usize>,
}

/// How a version follows from the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChangeKind {
    /// The same functions in another order.
    Reorder,
    /// One function more.
    Insert,
    /// One function less.
    Remove,
    /// Another function in the place of one.
    Replace,
    /// The same functions over another encapsulation.
    Encapsulation,
    /// The same functions, told another rule set.
    Config,
    /// As the file says.
    Given,
}

/// The updates of a lab file.
pub(super) fn understand(document: &Document, lab: &Lab) -> Result<Option<Updates>, Fault> {
    let Some(entry) = &document.updates else { return Ok(None) };
    let Some(chain) = lab.chain(&entry.chain) else {
        let known = lab.chains.iter().map(|chain| chain.name.as_str());
        return Err(unknown("updates.chain", "chain", &entry.chain, known));
    };
    let first = &chain.document.chain;
    let begins_with = begins_with(lab, chain, entry)?;
    let rule_sets = rule_sets::understand(lab, chain, entry)?;
    let versions = match (entry.versions.as_slice(), entry.kinds.as_slice()) {
        ([], []) => {
            let advice = "write versions: with the chains, or kinds:, count: and among:";
            return Err(Fault::new("updates", "says no version", advice));
        }
        ([], _) => generated(lab, first, entry)?,
        (versions, []) => {
            let given = |(index, version): (usize, &Vec<ChainStep>)| {
                check_steps(lab, &format!("updates.versions[{index}]"), version)?;
                let steps = version.clone();
                Ok(Version { kind: ChangeKind::Given, steps, encapsulation: None, rule_set: None })
            };
            versions.iter().enumerate().map(given).collect::<Result<Vec<_>, Fault>>()?
        }
        _ => {
            let problem = "says versions and kinds";
            return Err(Fault::new("updates", problem, "keep one of them"));
        }
    };
    let mut before = first;
    for (index, version) in versions.iter().enumerate() {
        let is_else = version.encapsulation.is_some() || version.rule_set.is_some();
        let is_same = version.steps == *before && !is_else;
        if is_same || version.steps.is_empty() {
            let key = format!("updates.versions[{index}]");
            let advice = "give it functions, and others than the version before";
            return Err(Fault::new(key, "changes nothing, or leaves nothing", advice));
        }
        before = &version.steps;
    }
    Ok(Some(Updates {
        chain: entry.chain.clone(),
        begins_with,
        rule_sets,
        is_between: entry.kinds.is_empty(),
        packets: entry.packets.unwrap_or(PACKETS_DEFAULT),
        versions,
    }))
}

/// What a chain begins with that is moved among encapsulations: the first of them.
fn begins_with(
    lab: &Lab,
    chain: &LabChain,
    entry: &UpdatesEntry,
) -> Result<Option<Encapsulation>, Fault> {
    let key = "updates.encapsulations";
    let all = &entry.encapsulations;
    let is_moved = entry.kinds.contains(&ChangeKind::Encapsulation);
    let is_twice = |(index, one): (usize, &Encapsulation)| all.iter().take(index).any(|b| b == one);
    match all.first() {
        None if !is_moved => Ok(None),
        Some(_) if !is_moved => {
            let advice = "add encapsulation to kinds:, or leave them out";
            Err(Fault::new(key, "are for changes of the kind encapsulation", advice))
        }
        Some(first) if all.len() > 1 && !all.iter().enumerate().any(is_twice) => {
            let said = chain.document.encapsulation.filter(|said| said != first);
            if let Some(said) = said {
                let problem =
                    format!("begin with {}, and the chain with {}", first.name(), said.name());
                return Err(Fault::new(key, problem, "begin both with the same"));
            }
            if !lab.sweep.encapsulations.is_empty() {
                let advice = "leave one out: the chain begins with the first of \
                              updates.encapsulations";
                return Err(Fault::new("sweep.encapsulation", "is said beside moves", advice));
            }
            Ok(Some(*first))
        }
        _ => {
            let names = Encapsulation::ALL.map(Encapsulation::name).join(", ");
            let advice = format!("write encapsulations: with two or more of {names}");
            Err(Fault::new(key, "names no two encapsulations, or one twice", advice))
        }
    }
}

fn generated(lab: &Lab, first: &[ChainStep], entry: &UpdatesEntry) -> Result<Vec<Version>, Fault> {
    let UpdatesEntry { kinds, among, encapsulations, rule_sets, .. } = entry;
    let count = entry.count.unwrap_or(1);
    if count == 0 || count > CHANGES_MAX {
        let advice = format!("use 1 to {CHANGES_MAX}");
        return Err(Fault::new("updates.count", format!("{count} is not a count"), advice));
    }
    if let Some(name) = among.iter().find(|name| !lab.functions.contains(name)) {
        return Err(unknown("updates.among", "function", name, lab.functions.names()));
    }
    let is_plain =
        |step: &ChainStep| step.direction == Direction::Same && step.instances.is_empty();
    let keeps_steps =
        kinds.iter().all(|kind| matches!(kind, ChangeKind::Encapsulation | ChangeKind::Config));
    if !keeps_steps && !first.iter().all(is_plain) {
        let advice = "use direction: same without instances in that chain";
        return Err(Fault::new("updates.chain", "has functions that have their place", advice));
    }
    let mut names: Vec<String> = first.iter().map(|step| step.name.clone()).collect();
    let mut versions = Vec::with_capacity(count);
    // It begins with the first.
    let mut moves = encapsulations.iter().copied().cycle().skip(1);
    let mut turns = (0..rule_sets.len()).cycle().skip(1);
    for (index, kind) in kinds.iter().copied().cycle().take(count).enumerate() {
        names = changed(&names, kind, among, index).ok_or_else(|| {
            let problem = format!("change {} ({kind:?}) is not possible", index + 1);
            let advice = "name more functions in among:, or let inserts and removes alternate";
            Fault::new("updates.kinds", problem, advice)
        })?;
        let encapsulation = (kind == ChangeKind::Encapsulation).then(|| moves.next()).flatten();
        let rule_set = (kind == ChangeKind::Config).then(|| turns.next()).flatten();
        let steps = if keeps_steps {
            first.to_vec()
        } else {
            names.iter().map(|name| plain_step(name)).collect()
        };
        versions.push(Version { kind, steps, encapsulation, rule_set });
    }
    Ok(versions)
}

fn plain_step(name: &str) -> ChainStep {
    ChainStep {
        name: name.to_owned(),
        speaks: None,
        direction: Direction::Same,
        instances: Vec::new(),
    }
}

/// The list after one change; none if it is not possible. `turn` chooses among the possibilities,
/// so that places and functions alternate and every run is the same.
fn changed(
    names: &[String],
    kind: ChangeKind,
    among: &[String],
    turn: usize,
) -> Option<Vec<String>> {
    let unused: Vec<&String> = among.iter().filter(|name| !names.contains(name)).collect();
    let fresh = || unused.get(turn % unused.len().max(1)).map(|name| (*name).clone());
    let mut next = names.to_vec();
    let place = turn % names.len().max(1);
    match kind {
        ChangeKind::Reorder if names.len() > 1 => {
            // Neighbours, or the whole list by one: every function is somewhere else.
            if (turn / 4).is_multiple_of(2) {
                next.swap(place, (place + 1) % names.len());
            } else {
                next.rotate_left(1);
            }
        }
        ChangeKind::Insert => next.insert(turn % (names.len() + 1), fresh()?),
        ChangeKind::Remove if names.len() > 1 => {
            next.remove(place);
        }
        ChangeKind::Replace => *next.get_mut(place)? = fresh()?,
        ChangeKind::Encapsulation | ChangeKind::Config => {}
        _ => return None,
    }
    Some(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn a_hundred_changes_are_each_of_their_kind_and_none_repeats_the_one_before() {
        use ChangeKind::{Insert, Remove, Reorder, Replace};
        let among = names("v1 v2 v3 v8 v9 v10");
        let mut before = names("v8 v9 v10");
        for turn in 0..100 {
            let kind = [Reorder, Insert, Remove, Replace][turn % 4];
            let after = changed(&before, kind, &among, turn).unwrap();
            let (mut old, mut new) = (before.clone(), after.clone());
            old.sort();
            new.sort();
            let gone = old.iter().filter(|name| !new.contains(name)).count();
            let come = new.iter().filter(|name| !old.contains(name)).count();
            let expected = match kind {
                Insert => (0, 1),
                Remove => (1, 0),
                Replace => (1, 1),
                _ => (0, 0),
            };
            assert_eq!((gone, come), expected, "{turn} {kind:?}: {before:?} {after:?}");
            assert_ne!(before, after, "{turn}");
            new.dedup();
            assert_eq!(new.len(), after.len(), "{turn}: no function twice in {after:?}");
            before = after;
        }
    }

    #[test]
    fn what_is_not_possible_is_not_made_up() {
        let (one, two) = (names("v1"), names("v1 v2"));
        assert_eq!(changed(&one, ChangeKind::Reorder, &two, 0), None);
        assert_eq!(changed(&one, ChangeKind::Remove, &two, 0), None);
        assert_eq!(changed(&two, ChangeKind::Insert, &two, 3), None);
        assert_eq!(changed(&two, ChangeKind::Replace, &two, 3), None);
    }
}
