//! What bundled functions of a run have told and ended. Knows where that is counted; refuses to know why it was.

use super::accounting::{Snapshot, Standing};
use super::evidence::{Evidence, RunEvidence};
use crate::error::{LabError, Result};
use crate::up::RunningLab;
use crate::vocabulary::{Claim, FunctionCount, Lab, Statement, denies_beside, tells};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

/// How long messages may be on their way to the agent.
const MESSAGES_WAIT: Duration = Duration::from_secs(10);
/// Pause between two looks.
const LOOK_PAUSE: Duration = Duration::from_millis(50);

/// Alerts by the sid of their rule.
pub(super) type Alerts = BTreeMap<u64, u64>;

/// What a bundled function did in a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FunctionEvidence {
    /// Its alerts by the sid of the rule, where the file asks for them.
    pub alerts: Option<BTreeMap<u64, u64>>,
    /// Alerts that were kept no longer when they were asked for, or never came to the agent.
    pub alerts_lost: u64,
    /// Packets that its rules ended; none: they are not told from those of another one on the same host.
    pub denied: Option<u64>,
}

/// The figures of bundled functions over all runs of a lab.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FunctionFigures {
    /// Packets that entered chains with such functions.
    pub sent: u64,
    /// Alerts that were told.
    pub alerts: u64,
    /// Alerts that the file says there are.
    pub expected_alerts: u64,
    /// Packets that rules ended.
    pub denied: u64,
    /// What the identity leaves over.
    pub unaccounted: u64,
}

impl fmt::Display for FunctionFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sent, alerts, expected_alerts, denied, unaccounted } = self;
        write!(
            f,
            "{sent} packets entered · {alerts} of {expected_alerts} alerts · {denied} denied · \
             {unaccounted} unaccounted for"
        )
    }
}

/// What the functions whose alerts are asked for have told before a run, as marks to go on from.
pub(super) struct Told(BTreeMap<String, Option<String>>);

impl Told {
    /// Reads all that there is.
    pub(super) fn until_now(running: &RunningLab, chains: &[Standing]) -> Result<Self> {
        let mut told = BTreeMap::new();
        for function in with_alerts(&running.lab, chains) {
            let mut after = None;
            read(running, function, &mut after, &mut |_| ())?;
            told.insert(function.to_owned(), after);
        }
        Ok(Self(told))
    }

    /// What came since, by function and sid, with what was lost; waits for what is on its way.
    fn since(self, running: &RunningLab) -> Result<BTreeMap<String, (Alerts, u64)>> {
        let mut all = BTreeMap::new();
        for (function, mut after) in self.0 {
            let mut lost = settle(running, &function)?;
            let mut alerts = Alerts::new();
            lost += read(running, &function, &mut after, &mut |line| {
                let told: Value = serde_json::from_str(line).unwrap_or_default();
                let sid = told["alert"]["signature_id"].as_u64().unwrap_or_default();
                *alerts.entry(sid).or_default() += 1;
            })?;
            all.insert(function, (alerts, lost));
        }
        Ok(all)
    }
}

/// Functions of chains that stand, whose alerts statements ask for.
fn with_alerts<'l>(lab: &'l Lab, chains: &[Standing]) -> impl Iterator<Item = &'l str> {
    let is_in = |chain: &str, function: &str| {
        let steps = lab.chain(chain).into_iter().flat_map(|chain| &chain.document.chain);
        lab.bundled.get(function).is_some_and(tells)
            && steps.into_iter().any(|step| step.name == function)
    };
    let is_asked = move |function: &str| {
        let mut statements = lab.checks.iter().chain(&lab.goals);
        statements.any(|statement| match &statement.claim {
            Claim::Function { what: FunctionCount::Alerts(_), function: asked, .. } => {
                asked == function
            }
            Claim::SameAs { one, other } => is_in(one, function) || is_in(other, function),
            _ => false,
        })
    };
    in_chains(lab, chains).filter(move |function| is_asked(function))
}

/// The bundled functions of chains that stand.
fn in_chains<'l>(lab: &'l Lab, chains: &[Standing]) -> impl Iterator<Item = &'l str> {
    let stands_in = |function: &str| chains_of(lab, chains, function).next().is_some();
    let found: Vec<&str> = lab.bundled.names().filter(|function| stands_in(function)).collect();
    found.into_iter()
}

/// The chains that stand and have this function.
fn chains_of<'c>(
    lab: &'c Lab,
    chains: &'c [Standing],
    function: &'c str,
) -> impl Iterator<Item = &'c Standing> {
    chains.iter().filter(move |standing| {
        let chain = lab.chain(&standing.name);
        chain.is_some_and(|it| it.document.chain.iter().any(|step| step.name == function))
    })
}

/// Hands out alerts behind a mark until there are no more; answers how many were kept no longer.
fn read(
    running: &RunningLab,
    function: &str,
    after: &mut Option<String>,
    each: &mut dyn FnMut(&str),
) -> Result<u64> {
    let mut lost = 0;
    loop {
        let report = running.client.alerts(function, after.as_deref())?;
        if let Some(silent) = report.silent.first() {
            return Err(unheard(function, &format!("the node of '{silent}' does not answer")));
        }
        report.alerts.iter().for_each(|alert| each(&alert.line));
        lost += report.lost;
        *after = Some(report.next);
        if report.alerts.is_empty() {
            return Ok(lost);
        }
    }
}

/// Waits until every message of a function has come somewhere; answers how many found no room on their way.
fn settle(running: &RunningLab, function: &str) -> Result<u64> {
    let start = Instant::now();
    loop {
        let counters = running.client.function(function)?.counters;
        let sum = |of: fn(&catena_model::account::MessageCounters) -> u64| -> u64 {
            counters.iter().map(|one| of(&one.messages)).sum()
        };
        let came = sum(|it| it.kept + it.unwanted + it.lost + it.sent + it.unsent);
        if came == sum(|it| it.handed_out) {
            return Ok(sum(|it| it.lost));
        }
        if start.elapsed() > MESSAGES_WAIT {
            return Err(unheard(function, "messages of it are still on their way"));
        }
        std::thread::sleep(LOOK_PAUSE);
    }
}

fn unheard(function: &str, problem: &str) -> LabError {
    LabError::Tool {
        tool: format!("function '{function}'"),
        problem: problem.to_owned(),
        advice: "read the logs of its host's agent and data plane".to_owned(),
    }
}

/// What all bundled functions of a run did.
pub(super) fn gather(
    running: &RunningLab,
    told: Told,
    chains: &[Standing],
    between: (&Snapshot, &Snapshot),
) -> Result<BTreeMap<String, FunctionEvidence>> {
    let (lab, (before, after)) = (&running.lab, between);
    let mut alerts = told.since(running)?;
    let one = |function: &str| {
        let denied =
            |chain: &Standing| after.denied_since(before, &chain.id, lab.host_of(function));
        let is_told_apart = denies_beside(lab, function).is_none();
        let denied = is_told_apart.then(|| chains_of(lab, chains, function).map(denied).sum());
        let (alerts, alerts_lost) = alerts.remove(function).unzip();
        let evidence =
            FunctionEvidence { alerts, alerts_lost: alerts_lost.unwrap_or_default(), denied };
        (function.to_owned(), evidence)
    };
    Ok(in_chains(lab, chains).map(one).collect())
}

/// Packets that rules of bundled functions ended on the paths of these chains.
pub(super) fn denied(
    running: &RunningLab,
    chains: &[Standing],
    before: &Snapshot,
    after: &Snapshot,
) -> u64 {
    let has_any = |chain: &&Standing| has_bundled(&running.lab, &chain.name);
    chains.iter().filter(has_any).map(|chain| after.denied_since(before, &chain.id, None)).sum()
}

fn has_bundled(lab: &Lab, chain: &str) -> bool {
    let chain = lab.chain(chain);
    chain.is_some_and(|it| it.document.chain.iter().any(|step| lab.bundled.contains(&step.name)))
}

/// What a statement counts in each run.
#[allow(clippy::cast_precision_loss, reason = "counts of a run are far below 2^52")]
pub(super) fn judge(
    evidence: &Evidence,
    what: FunctionCount,
    function: &str,
    holds: impl Fn(f64) -> bool,
) -> (bool, String) {
    let runs = evidence.runs.iter().filter_map(|run| Some((run, run.functions.get(function)?)));
    let mut all = true;
    let mut found = Vec::new();
    for (run, of) in runs {
        match count(of, what) {
            Ok(count) => {
                all &= holds(count as f64);
                found.push(format!("{}: {count}", run.case));
            }
            Err(problem) => {
                all = false;
                found.push(format!("{}: {problem}", run.case));
            }
        }
    }
    if found.is_empty() {
        return (false, "was not measured".to_owned());
    }
    (all, found.join("; "))
}

fn count(of: &FunctionEvidence, what: FunctionCount) -> std::result::Result<u64, String> {
    let FunctionCount::Alerts(sid) = what else {
        return of.denied.ok_or_else(|| "was not measured".to_owned());
    };
    match &of.alerts {
        _ if of.alerts_lost > 0 => Err(format!("{} alerts were lost", of.alerts_lost)),
        None => Err("was not measured".to_owned()),
        Some(alerts) => Ok(match sid {
            Some(sid) => alerts.get(&sid.into()).copied().unwrap_or_default(),
            None => alerts.values().sum(),
        }),
    }
}

/// The figures of a lab that has bundled functions.
pub(super) fn figures(lab: &Lab, evidence: &Evidence) -> Option<FunctionFigures> {
    if lab.bundled.is_empty() {
        return None;
    }
    let sent = |run: &RunEvidence| -> u64 {
        let entered = run.entered.iter().filter(|(name, _)| has_bundled(lab, name));
        entered.map(|(_, packets)| packets).sum()
    };
    let mut figures = FunctionFigures::default();
    for run in &evidence.runs {
        figures.sent += sent(run);
        figures.unaccounted += run.unaccounted;
        for function in run.functions.values() {
            figures.alerts += function.alerts.iter().flat_map(BTreeMap::values).sum::<u64>();
        }
        figures.denied += run.denied;
        figures.expected_alerts += lab.checks.iter().filter_map(expected_alerts).sum::<u64>();
    }
    Some(figures)
}

/// The alerts that a check says a function tells.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count of a lab file")]
fn expected_alerts(statement: &Statement) -> Option<u64> {
    match &statement.claim {
        Claim::Function { what: FunctionCount::Alerts(None), value, .. } => Some(*value as u64),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evidence(alerts: Option<&[(u64, u64)]>, alerts_lost: u64, denied: Option<u64>) -> Evidence {
        let alerts = alerts.map(|alerts| alerts.iter().copied().collect());
        let function = FunctionEvidence { alerts, alerts_lost, denied };
        let mut run = RunEvidence::new("all".into(), None, None);
        run.functions = [("ids".to_owned(), function)].into();
        run.entered = [("web".to_owned(), 70), ("other".to_owned(), 9)].into();
        run.denied = denied.unwrap_or_default();
        Evidence { runs: vec![run], ..Evidence::default() }
    }

    fn judged(what: FunctionCount, evidence: &Evidence, value: f64) -> (bool, String) {
        judge(evidence, what, "ids", |count| (count - value).abs() < f64::EPSILON)
    }

    #[test]
    fn alerts_are_counted_by_rule_and_together_and_lost_ones_prove_nothing() {
        let (all, one) = (FunctionCount::Alerts(None), |sid| FunctionCount::Alerts(Some(sid)));
        let told = evidence(Some(&[(7, 3), (8, 1)]), 0, None);
        assert_eq!(judged(all, &told, 4.0), (true, "all: 4".to_owned()));
        assert!(judged(one(7), &told, 3.0).0 && judged(one(9), &told, 0.0).0);
        assert!(!judged(one(8), &told, 3.0).0);
        let lost = evidence(Some(&[(7, 3)]), 1, None);
        assert_eq!(judged(one(7), &lost, 3.0), (false, "all: 1 alerts were lost".to_owned()));
        for nothing in [evidence(None, 0, None), Evidence::default()] {
            assert!(!judged(all, &nothing, 0.0).0);
        }
    }

    #[test]
    fn what_ended_is_counted_where_it_can_be_told_whose_it_was() {
        let denied = FunctionCount::Denied;
        assert!(judged(denied, &evidence(None, 0, Some(5)), 5.0).0);
        assert!(!judged(denied, &evidence(None, 0, None), 0.0).0);
    }

    #[test]
    fn each_run_must_have_what_a_statement_says() {
        let mut two = evidence(Some(&[(7, 3)]), 0, None);
        two.runs.extend(evidence(Some(&[(7, 2)]), 0, None).runs);
        let (holds, found) = judged(FunctionCount::Alerts(None), &two, 3.0);
        assert_eq!((holds, found.as_str()), (false, "all: 3; all: 2"));
    }

    #[test]
    fn the_figures_are_those_of_chains_with_such_functions() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../labs/secure-web.yaml");
        let lab = Lab::read(file.as_ref(), false).unwrap();
        let found = figures(&lab, &evidence(Some(&[(7, 3)]), 0, Some(2))).unwrap();
        let expected_alerts = lab.checks.iter().find_map(expected_alerts).unwrap();
        let wanted =
            FunctionFigures { sent: 70, alerts: 3, expected_alerts, denied: 2, unaccounted: 0 };
        assert_eq!(found, wanted);
        let none = Lab { bundled: crate::vocabulary::Ordered::default(), ..lab };
        assert_eq!(figures(&none, &Evidence::default()), None);
    }
}
