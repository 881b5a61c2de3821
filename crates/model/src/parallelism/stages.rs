//! The members of a chain, put into stages: those of one stage work side by side, stages one after the other.
//!
//! Knows verdicts of pairs. Refuses to move a function before another one that stands before it in the chain: who drops
//! first, and in which order alerts are told, stays as it is without a second thought.

use super::{Verdict, judge};
use crate::profile::Profile;
use std::ops::Range;

/// A function of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageMember {
    /// Its name, for whoever reads the plan.
    pub name: String,
    /// What it is.
    pub profile: Profile,
}

/// The stages of a chain, with the verdict of each pair that led to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stages {
    /// Places in the chain, of each stage in their order.
    pub stages: Vec<Vec<usize>>,
    /// Pairs of places in the chain, the first before the second, with their verdicts.
    pub pairs: Vec<(usize, usize, Verdict)>,
}

impl Stages {
    /// As few as there may be: a function joins the stage before it unless one of that stage forbids it. Of the way
    /// back the members come in the order in which packets meet them there.
    #[must_use]
    pub fn of(members: &[StageMember]) -> Self {
        let mut made = Self { stages: Vec::new(), pairs: Vec::new() };
        for (at, member) in members.iter().enumerate() {
            let before = members.iter().take(at).enumerate();
            let verdicts =
                before.map(|(first, other)| (first, at, judge(&other.profile, &member.profile)));
            made.pairs.extend(verdicts);
            let waits = |first: &usize| {
                made.verdict(*first, at).is_none_or(|verdict| !verdict.is_parallel())
            };
            match made.stages.last() {
                Some(stage) if !stage.iter().any(waits) => {
                    let last = made.stages.len() - 1;
                    made.stages[last].push(at);
                }
                _ => made.stages.push(vec![at]),
            }
        }
        made
    }

    /// The same where nobody holds effects until another's verdict is known: who would need that waits. So it is at
    /// nodes.
    #[must_use]
    pub fn without_holding(&self) -> Vec<Range<usize>> {
        let is_held =
            |first: usize, second: usize| self.verdict(first, second).is_some_and(Verdict::is_held);
        let mut stages = Vec::new();
        for stage in &self.stages {
            let mut start = stage.first().copied().unwrap_or(0);
            for at in stage.iter().copied() {
                if (start..at).any(|first| is_held(first, at)) {
                    stages.push(start..at);
                    start = at;
                }
            }
            stages.extend(stage.last().map(|last| start..last + 1));
        }
        stages
    }

    /// The verdict about two places in the chain, the first before the second.
    #[must_use]
    pub fn verdict(&self, first: usize, second: usize) -> Option<&Verdict> {
        let pair = self.pairs.iter().find(|(a, b, _)| (*a, *b) == (first, second));
        pair.map(|(_, _, verdict)| verdict)
    }
}
