//! The versions that a chain steps through during a run. Knows how they follow from one another,
//! the same each time; refuses to know how a chain is changed.

use super::document::Document;
use super::error::Fault;
use super::lab::Lab;
use super::validate::unknown;
use super::validate_run::check_steps;
use catena_client::deploy::{ChainStep, Direction};
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
    let versions = match (entry.versions.as_slice(), entry.kinds.as_slice()) {
        ([], []) => {
            let advice = "write versions: with the chains, or kinds:, count: and among:";
            return Err(Fault::new("updates", "says no version", advice));
        }
        ([], kinds) => generated(lab, first, kinds, entry.count.unwrap_or(1), &entry.among)?,
        (versions, []) => {
            let given = |(index, version): (usize, &Vec<ChainStep>)| {
                check_steps(lab, &format!("updates.versions[{index}]"), version)?;
                Ok(Version { kind: ChangeKind::Given, steps: version.clone() })
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
        if version.steps == *before || version.steps.is_empty() {
            let key = format!("updates.versions[{index}]");
            let advice = "give it functions, and others than the version before";
            return Err(Fault::new(key, "changes nothing, or leaves nothing", advice));
        }
        before = &version.steps;
    }
    Ok(Some(Updates {
        chain: entry.chain.clone(),
        is_between: entry.kinds.is_empty(),
        packets: entry.packets.unwrap_or(PACKETS_DEFAULT),
        versions,
    }))
}

fn generated(
    lab: &Lab,
    first: &[ChainStep],
    kinds: &[ChangeKind],
    count: usize,
    among: &[String],
) -> Result<Vec<Version>, Fault> {
    if count == 0 || count > CHANGES_MAX {
        let advice = format!("use 1 to {CHANGES_MAX}");
        return Err(Fault::new("updates.count", format!("{count} is not a count"), advice));
    }
    if let Some(name) = among.iter().find(|name| !lab.functions.contains(name)) {
        return Err(unknown("updates.among", "function", name, lab.functions.names()));
    }
    let is_plain =
        |step: &ChainStep| step.direction == Direction::Same && step.instances.is_empty();
    if !first.iter().all(is_plain) {
        let advice = "use direction: same without instances in that chain";
        return Err(Fault::new("updates.chain", "has functions that have their place", advice));
    }
    let mut names: Vec<String> = first.iter().map(|step| step.name.clone()).collect();
    let mut versions = Vec::with_capacity(count);
    for (index, kind) in kinds.iter().copied().cycle().take(count).enumerate() {
        names = changed(&names, kind, among, index).ok_or_else(|| {
            let problem = format!("change {} ({kind:?}) is not possible", index + 1);
            let advice = "name more functions in among:, or let inserts and removes alternate";
            Fault::new("updates.kinds", problem, advice)
        })?;
        let step = |name: &String| ChainStep {
            name: name.clone(),
            speaks: None,
            direction: Direction::Same,
            instances: Vec::new(),
        };
        versions.push(Version { kind, steps: names.iter().map(step).collect() });
    }
    Ok(versions)
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
