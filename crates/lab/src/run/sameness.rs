//! Whether the traffic of two chains came to the same. Knows ends of programs, alerts and what rules ended; refuses to
//! know by which functions.

use super::evidence::{Evidence, RunEvidence};
use super::functions::{Alerts, FunctionEvidence};
use super::programs::{ProgramEnd, ProgramResult};
use crate::vocabulary::{Claim, Lab, counts_what_ends, tells};
use serde::Serialize;
use std::collections::BTreeMap;

/// What the traffic of one chain came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ChainOutcome {
    /// Each program of its traffic, and how it ended, each time.
    pub ends: Vec<(String, Vec<ProgramEnd>)>,
    /// Alerts by the sid of their rule; none: no function of it tells any, or some were lost.
    pub alerts: Option<BTreeMap<u64, u64>>,
    /// Did alerts get lost?
    pub has_lost_alerts: bool,
    /// Packets that its rules ended; none: that is not counted of all of its functions.
    pub denied: Option<u64>,
}

/// The outcomes of the chains that statements compare, by name.
pub(super) fn outcomes(
    lab: &Lab,
    programs: &[ProgramResult],
    functions: &BTreeMap<String, FunctionEvidence>,
) -> BTreeMap<String, ChainOutcome> {
    let claims = lab.checks.iter().chain(&lab.goals).map(|statement| &statement.claim);
    let compared = claims.flat_map(|claim| match claim {
        Claim::SameAs { one, other } => vec![one, other],
        _ => Vec::new(),
    });
    compared.map(|name| (name.clone(), outcome(lab, name, programs, functions))).collect()
}

fn outcome(
    lab: &Lab,
    name: &str,
    programs: &[ProgramResult],
    functions: &BTreeMap<String, FunctionEvidence>,
) -> ChainOutcome {
    let own = programs.iter().filter(|program| program.chain.as_deref() == Some(name));
    let ends = own.map(|program| (program.traffic.clone(), program.ends.clone())).collect();
    let mut outcome = ChainOutcome { ends, denied: Some(0), ..ChainOutcome::default() };
    for step in lab.chain(name).into_iter().flat_map(|chain| &chain.document.chain) {
        let bundled = lab.bundled.get(&step.name);
        let found = functions.get(&step.name);
        let denied =
            found.filter(|_| bundled.is_some_and(counts_what_ends)).and_then(|it| it.denied);
        outcome.denied = outcome.denied.zip(denied).map(|(all, own)| all + own);
        if let Some(found) = found.filter(|_| bundled.is_some_and(tells)) {
            outcome.has_lost_alerts |= found.alerts_lost > 0;
            let all = outcome.alerts.get_or_insert_default();
            add(all, found.alerts.iter().flatten());
        }
    }
    outcome
}

fn add<'a>(all: &mut Alerts, more: impl Iterator<Item = (&'a u64, &'a u64)>) {
    more.for_each(|(sid, count)| *all.entry(*sid).or_default() += count);
}

/// Did both chains come to the same, in each run?
pub(super) fn judge(evidence: &Evidence, one: &str, other: &str) -> (bool, String) {
    let mut found = Vec::new();
    for run in &evidence.runs {
        match compare(run, one, other) {
            Ok(same) => found.push(format!("{}: {same}", run.case)),
            Err(difference) => return (false, format!("{}: {difference}", run.case)),
        }
    }
    match found.is_empty() {
        true => (false, "was not measured".to_owned()),
        false => (true, found.join("; ")),
    }
}

/// What was the same, or the first difference.
fn compare(run: &RunEvidence, one: &str, other: &str) -> Result<String, String> {
    let of =
        |name: &str| run.outcomes.get(name).ok_or_else(|| format!("'{name}' was not measured"));
    let (ours, theirs) = (of(one)?, of(other)?);
    if ours.ends.is_empty() || ours.ends.len() != theirs.ends.len() {
        let (own, its) = (ours.ends.len(), theirs.ends.len());
        return Err(format!("'{one}' has {own} programs of traffic, and '{other}' {its}"));
    }
    for ((name, ends), (other_name, other_ends)) in ours.ends.iter().zip(&theirs.ends) {
        if ends != other_ends {
            let differ = ends.iter().zip(other_ends).find(|(own, its)| own != its);
            let how = differ.map_or_else(String::new, |(own, its)| format!(": {own}, and {its}"));
            return Err(format!("'{name}' and '{other_name}' ended differently{how}"));
        }
    }
    if let Some((name, _)) =
        [(one, ours), (other, theirs)].iter().find(|(_, it)| it.has_lost_alerts)
    {
        return Err(format!("alerts of '{name}' were lost"));
    }
    let count: usize = ours.ends.iter().map(|(_, ends)| ends.len()).sum();
    let mut same = vec![format!("{count} ends")];
    if let (Some(own), Some(its)) = (&ours.alerts, &theirs.alerts) {
        if own != its {
            return Err(format!("'{one}' told {own:?} by sid, and '{other}' {its:?}"));
        }
        same.push(format!("{} alerts", own.values().sum::<u64>()));
    }
    if let (Some(own), Some(its)) = (ours.denied, theirs.denied) {
        if own != its {
            return Err(format!("'{one}' ended {own} packets, and '{other}' {its}"));
        }
        same.push(format!("{own} packets that ended"));
    }
    Ok(format!("the same {}", same.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(exit: i32, stdout: &str) -> ProgramEnd {
        ProgramEnd { exit: Some(exit), stdout: stdout.to_owned() }
    }

    fn good() -> ChainOutcome {
        ChainOutcome {
            ends: vec![
                ("page".into(), vec![end(0, "welcome"), end(0, "welcome")]),
                ("closed".into(), vec![end(7, "")]),
            ],
            alerts: Some([(7, 2), (8, 1)].into()),
            has_lost_alerts: false,
            denied: Some(4),
        }
    }

    fn judged(ours: ChainOutcome, theirs: ChainOutcome) -> (bool, String) {
        let mut run = RunEvidence::new("all".into(), None, None);
        run.outcomes = [("inside".to_owned(), ours), ("apart".to_owned(), theirs)].into();
        judge(&Evidence { runs: vec![run], ..Evidence::default() }, "apart", "inside")
    }

    #[test]
    fn chains_that_came_to_the_same_are_told_with_what_was_compared() {
        let same = "all: the same 3 ends, 3 alerts, 4 packets that ended";
        assert_eq!(judged(good(), good()), (true, same.to_owned()));
        // Commands tell nothing by Catena.
        let alone = ChainOutcome { alerts: None, denied: None, ..good() };
        assert_eq!(judged(good(), alone), (true, "all: the same 3 ends".to_owned()));
    }

    #[test]
    fn each_difference_is_found() {
        let differing = |change: fn(&mut ChainOutcome)| {
            let mut other = good();
            change(&mut other);
            let (holds, found) = judged(good(), other);
            assert!(!holds, "{found}");
            found
        };
        let exit = differing(|it| it.ends[1].1[0] = end(28, ""));
        assert!(exit.contains("'closed' and 'closed' ended differently: exit 28, ''"), "{exit}");
        let said = differing(|it| it.ends[0].1[1] = end(0, "other"));
        assert!(said.contains("exit 0, 'other'"), "{said}");
        assert!(differing(|it| drop(it.ends.pop())).contains("has 1 programs"));
        let told = differing(|it| it.alerts = Some([(7, 2), (8, 2)].into()));
        assert!(told.contains("8: 2"), "{told}");
        assert!(differing(|it| it.has_lost_alerts = true).contains("were lost"));
        assert!(differing(|it| it.denied = Some(5)).contains("ended 5 packets"));
    }

    #[test]
    fn what_was_not_measured_is_not_the_same() {
        assert!(!judged(ChainOutcome::default(), ChainOutcome::default()).0);
        assert!(!judge(&Evidence::default(), "apart", "inside").0);
        let run = RunEvidence::new("all".into(), None, None);
        assert!(!judge(&Evidence { runs: vec![run], ..Evidence::default() }, "a", "b").0);
    }
}
