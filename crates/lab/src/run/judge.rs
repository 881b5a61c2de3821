//! Holds checks and goals against the evidence. Pure: what was not measured fails a check.

use super::delays;
use super::evidence::{Evidence, RunEvidence};
use super::faults::FaultOutcome;
use super::flows;
use super::forged;
use super::functions;
use super::kills;
use super::programs;
use super::routes;
use super::sameness;
use super::setups;
use super::stateless;
use super::statistics::median;
use super::telemetry;
use super::tool::TrafficResult;
use super::updates::Update;
use super::users::Isolation;
use super::verdicts;
use crate::vocabulary::{Claim, FaultKind, Metric, Statement};
use serde::Serialize;
use serde_json::Value;

/// A statement with what was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Judged {
    /// The statement as written.
    pub text: String,
    /// Does it hold?
    pub holds: bool,
    /// What was found, for people.
    pub found: String,
}

/// The check that every run with chains has, whatever its file says.
pub(crate) const GIVEN: &str = "every chain was given packets";

/// Was any packet given to each chain that was deployed? None without chains.
pub(crate) fn given(evidence: &Evidence) -> Option<Judged> {
    let all = evidence.runs.iter().flat_map(|run| &run.entered);
    let (name, fewest) = all.min_by_key(|(_, packets)| **packets)?;
    let idle = idle(evidence);
    let holds = idle.is_none();
    let found = idle.unwrap_or_else(|| format!("the fewest: {fewest} packets for '{name}'"));
    Some(Judged { text: GIVEN.to_owned(), holds, found })
}

/// The chains that were given no packet, if there are any.
fn idle(evidence: &Evidence) -> Option<String> {
    let of = |run: &RunEvidence| -> Vec<String> {
        run.idle().map(|name| format!("{}: chain '{name}' was given no packet", run.case)).collect()
    };
    let mut found: Vec<String> = evidence.runs.iter().flat_map(of).collect();
    found.dedup();
    (!found.is_empty()).then(|| found.join("; "))
}

/// Judges statements.
pub(crate) fn judge(statements: &[Statement], evidence: &Evidence) -> Vec<Judged> {
    let one = |statement: &Statement| {
        let (holds, found) = judge_claim(&statement.claim, evidence);
        Judged { text: statement.text.clone(), holds, found }
    };
    statements.iter().map(one).collect()
}

fn judge_claim(claim: &Claim, evidence: &Evidence) -> (bool, String) {
    match claim {
        Claim::Order => order(evidence),
        Claim::Interfaces => {
            let good = "every function's interface counted what the data plane did";
            without(evidence, |run| &run.differing, good)
        }
        Claim::Hops => {
            let good = "every hop got and gave back all that entered its chain";
            idle(evidence).map_or_else(
                || without(evidence, |run| &run.uneven, good),
                |nothing| (false, nothing),
            )
        }
        Claim::Sum { whole, parts } => sum(evidence, whole, parts),
        Claim::Paths => flows::paths(evidence),
        Claim::Shares { within } => flows::shares(evidence, *within),
        Claim::Moves => flows::moves(evidence),
        Claim::BothVersions => both_versions(evidence),
        Claim::Streams => streams(evidence),
        Claim::Users => users(evidence),
        Claim::Route => routes::judge(evidence),
        Claim::Forged => forged::judge(evidence),
        Claim::Telemetry => telemetry::judge(evidence),
        Claim::Stateless => stateless::judge(evidence),
        Claim::Expected => programs::judge(evidence),
        Claim::Verdicts { function } => verdicts::judge(evidence, function),
        Claim::SameAs { one, other } => sameness::judge(evidence, one, other),
        Claim::Recovered => kills::judge(evidence),
        Claim::Predicted { within } => delays::judge(&evidence.delays, within.as_ref()),
        Claim::Function { what, function, relation, value } => {
            functions::judge(evidence, *what, function, |count| relation.holds(count, *value))
        }
        Claim::Compare { metric, subject, relation, value } => {
            match measured(evidence, *metric, subject.as_deref()) {
                Ok(found) => (relation.holds(found, *value), metric.show(found)),
                Err(reason) => (false, reason),
            }
        }
    }
}

fn proofs(evidence: &Evidence) -> impl Iterator<Item = (&str, &Value)> {
    let of = |run: &'_ RunEvidence| run.proof.is_some();
    evidence
        .runs
        .iter()
        .filter(move |run| of(run))
        .filter_map(|run| Some((run.case.as_str(), run.proof.as_ref()?)))
}

/// Verdicts on updates, by case.
fn update_proofs(evidence: &Evidence) -> impl Iterator<Item = (&str, &Value)> {
    let runs = evidence.runs.iter();
    runs.filter_map(|run| Some((run.case.as_str(), run.update_proof.as_ref()?)))
}

fn both_versions(evidence: &Evidence) -> (bool, String) {
    let mut holds = true;
    let mut found = Vec::new();
    for (case, proof) in update_proofs(evidence) {
        let number = |key: &str| proof[key].as_u64().unwrap_or_default();
        let (both, changes) = (number("both_versions"), number("changes"));
        // A capture that lost frames proves nothing of this.
        holds &= both == changes && changes > 0 && number("capture_faults") == 0;
        found.push(format!(
            "{case}: {both} of {changes} changes seen on both versions, {} packets under way on \
             the old ones, {} faults of captures",
            number("in_flight"),
            number("capture_faults")
        ));
    }
    if found.is_empty() {
        return (false, "nothing was captured".to_owned());
    }
    (holds, found.join("; "))
}

/// What traffic suffered from faults of cables. `subject`: from those of this kind alone.
#[allow(clippy::cast_precision_loss, reason = "packet counts of a run are far below 2^52")]
fn of_faults(evidence: &Evidence, metric: Metric, subject: Option<&str>) -> Result<f64, String> {
    let is_asked = |fault: &&FaultOutcome| match subject {
        Some("cut") => fault.kind == FaultKind::Cut,
        Some("silence") => fault.kind == FaultKind::Silence,
        Some(_) => false,
        None => true,
    };
    let faults = || evidence.runs.iter().flat_map(|run| &run.faults).filter(is_asked);
    let was_measured = match metric {
        Metric::Unnamed => evidence.runs.iter().any(|run| run.named_losses.is_some()),
        _ => faults().next().is_some(),
    };
    if !was_measured {
        return Err("was not measured".to_owned());
    }
    let failures = faults().filter(|fault| fault.kind != FaultKind::Heal);
    match metric {
        Metric::Detour => Ok(failures.map(|fault| fault.outage_ms).fold(0.0, f64::max)),
        Metric::OvertakenLate => Ok(faults().map(|fault| fault.overtaken_late as f64).sum()),
        _ => {
            let unnamed = |run: &RunEvidence| {
                let lost: u64 = run.traffic.iter().filter_map(|traffic| traffic.lost).sum();
                lost.saturating_sub(run.named_losses.unwrap_or_default()) as f64
            };
            Ok(evidence.runs.iter().map(unnamed).sum())
        }
    }
}

/// A number of the verdicts on updates, summed.
#[allow(clippy::cast_precision_loss, reason = "packet counts of a run are far below 2^52")]
fn of_updates(evidence: &Evidence, key: &str) -> Result<f64, String> {
    let numbers: Vec<u64> =
        update_proofs(evidence).filter_map(|(_, proof)| proof[key].as_u64()).collect();
    if numbers.is_empty() {
        return Err("was not measured".to_owned());
    }
    Ok(numbers.iter().sum::<u64>() as f64)
}

/// A number of the updates themselves, the least of all runs.
#[allow(clippy::cast_precision_loss, reason = "updates of a run are few")]
fn least_of_updates(evidence: &Evidence, count: fn(&Update) -> usize) -> Result<f64, String> {
    let updates = evidence.runs.iter().filter_map(|run| run.update.as_ref());
    updates.map(count).min().map(|n| n as f64).ok_or_else(|| "was not measured".to_owned())
}

fn order(evidence: &Evidence) -> (bool, String) {
    let mut found = Vec::new();
    let mut holds = true;
    for (case, proof) in proofs(evidence) {
        holds &= proof["ok"].as_bool() == Some(true);
        let chains = proof["chains"].as_object();
        let total = |key: &str| -> u64 {
            chains.into_iter().flatten().filter_map(|(_, chain)| chain[key].as_u64()).sum()
        };
        found.push(format!(
            "{case}: {} of {} packets proved, {} missing, {} twice, {} elsewhere, {} out of order, \
             {} violations",
            total("proved"),
            total("packets"),
            total("missing"),
            total("twice"),
            total("elsewhere"),
            total("order"),
            proof["violation_count"]
        ));
    }
    if found.is_empty() {
        return (false, "nothing was captured".to_owned());
    }
    (holds, found.join("; "))
}

/// Holds if no run has such faults.
fn without(
    evidence: &Evidence,
    faults: fn(&RunEvidence) -> &Vec<String>,
    good: &str,
) -> (bool, String) {
    if evidence.runs.is_empty() {
        return (false, "nothing ran".to_owned());
    }
    if let Some(run) = evidence.runs.iter().find(|run| !run.silent.is_empty()) {
        return (false, format!("{} did not answer for its counters", run.silent.join(", ")));
    }
    let found: Vec<String> = evidence
        .runs
        .iter()
        .flat_map(|run| faults(run).iter().map(|text| format!("{}: {text}", run.case)))
        .collect();
    match found.first() {
        None => (true, good.to_owned()),
        Some(first) => (false, format!("{} differ, the first: {first}", found.len())),
    }
}

/// Holds if each sampled packet of TCP was where it should be.
fn streams(evidence: &Evidence) -> (bool, String) {
    let runs = evidence.runs.iter();
    let verdicts: Vec<(&str, &Value)> =
        runs.filter_map(|run| Some((run.case.as_str(), run.stream_proof.as_ref()?))).collect();
    let Some((first, _)) = verdicts.first() else {
        return (false, "nothing was captured".to_owned());
    };
    let sum = |key: &str| -> u64 {
        verdicts.iter().filter_map(|(_, verdict)| verdict[key].as_u64()).sum()
    };
    let wrong = verdicts.iter().find(|(_, verdict)| verdict["ok"].as_bool() != Some(true));
    if let Some((case, verdict)) = wrong {
        let (count, text) = (&verdict["violation_count"], &verdict["violations"][0]);
        return (false, format!("{case}: {count} violations, the first: {text}"));
    }
    let arrived = |verdict: &Value| verdict["arrived"].as_u64().unwrap_or(0);
    if let Some((case, _)) = verdicts.iter().find(|(_, verdict)| arrived(verdict) == 0) {
        return (false, format!("{case}: no sample came to the destination"));
    }
    let found = format!(
        "{} samples from {} packets at the destination in {} runs from {first} on, each by its \
         chain's functions in order and by no other",
        sum("samples"),
        sum("arrived"),
        verdicts.len(),
    );
    (true, found)
}

/// Holds if every stream of users, and beside them, was clean, and the independent proof found each
/// slice at the functions of its tenant.
fn users(evidence: &Evidence) -> (bool, String) {
    let Some(users) = &evidence.users else { return (false, "was not measured".to_owned()) };
    let (mut streams, mut frames) = (0, 0);
    for (name, run) in users.streams() {
        if !run.is_clean() {
            let found = format!(
                "{name}: of {} sent {} lost ({} of them unread by the receiver), {} twice, {} \
                 altered, {} by another number of functions, {} out of order",
                run.sent, run.lost, run.unread, run.twice, run.altered, run.astray, run.reordered
            );
            return (false, found);
        }
        streams += 1;
        frames += run.sent;
    }
    let Some(proof) = &users.proof else {
        return (false, "nothing was captured".to_owned());
    };
    if proof["ok"].as_bool() != Some(true) {
        let (count, text) = (&proof["violation_count"], &proof["violations"][0]);
        return (false, format!("{count} violations of slices, the first: {text}"));
    }
    let found = format!(
        "{streams} streams, {frames} frames: each came once, whole, in order; {} frames of {} slices \
         and {} plain ones proved from captures at their tenants' functions",
        proof["proved"], proof["slices"], proof["plain"]
    );
    (streams > 0, found)
}

fn isolation(evidence: &Evidence) -> Result<f64, String> {
    let isolation = evidence.users.as_ref().and_then(|users| users.isolation.as_ref());
    isolation.map_or_else(|| Err("was not measured".to_owned()), Isolation::at_most)
}

fn sum(evidence: &Evidence, whole: &str, parts: &[String]) -> (bool, String) {
    let mut found = Vec::new();
    let mut holds = true;
    for (case, proof) in proofs(evidence) {
        let out = |name: &str| proof["packets_out"][name].as_u64().unwrap_or_default();
        let total: u64 = parts.iter().map(|part| out(part)).sum();
        holds &= total == out(whole) && total > 0;
        found.push(format!("{case}: {whole} {} packets, together {total}", out(whole)));
    }
    if found.is_empty() {
        return (false, "nothing was captured".to_owned());
    }
    (holds, found.join("; "))
}

#[allow(clippy::cast_precision_loss, reason = "packet counts of a run are far below 2^52")]
fn measured(evidence: &Evidence, metric: Metric, subject: Option<&str>) -> Result<f64, String> {
    let is_about = |traffic: &&TrafficResult| {
        subject.is_none_or(|name| traffic.traffic == name || traffic.chain.as_deref() == Some(name))
    };
    let of = |value: fn(&TrafficResult) -> Option<f64>| -> Vec<f64> {
        let traffic = evidence.runs.iter().flat_map(|run| &run.traffic);
        traffic.filter(is_about).filter_map(value).collect()
    };
    let some = |values: Vec<f64>| {
        if values.is_empty() { Err("was not measured".to_owned()) } else { Ok(values) }
    };
    let silent = evidence.runs.iter().flat_map(|run| &run.silent).next();
    match (metric, silent) {
        (Metric::Unaccounted | Metric::RingFull | Metric::FalseAlarms, Some(node)) => {
            Err(format!("{node} did not answer for its counters"))
        }
        (Metric::Unaccounted | Metric::RingFull | Metric::FalseAlarms, _)
            if evidence.runs.is_empty() =>
        {
            Err("was not measured".to_owned())
        }
        (Metric::Unaccounted, None) => {
            if let Some(nothing) = idle(evidence) {
                return Err(nothing);
            }
            Ok(evidence.runs.iter().map(|run| run.unaccounted as f64).sum())
        }
        (Metric::FalseAlarms, None) => {
            Ok(evidence.runs.iter().map(|run| run.silences as f64).sum())
        }
        (Metric::RingFull, None) => Ok(evidence.runs.iter().map(|run| run.ring_full as f64).sum()),
        (Metric::Loss, _) => some(of(|t| t.lost.map(|n| n as f64))).map(|v| v.iter().sum()),
        (Metric::Unanswered, _) => {
            some(of(|t| t.unanswered.map(|n| n as f64))).map(|v| v.iter().sum())
        }
        (Metric::Stalled, _) => some(of(|t| t.stalled.map(|n| n as f64))).map(|v| v.iter().sum()),
        (Metric::Broken, _) => some(of(|t| t.broken.map(|n| n as f64))).map(|v| v.iter().sum()),
        (Metric::Lost, _) => of_updates(evidence, "lost"),
        (Metric::Duplicated, _) if evidence.runs.iter().all(|run| run.update_proof.is_none()) => {
            some(of(|t| t.duplicated.map(|n| n as f64))).map(|v| v.iter().sum())
        }
        (Metric::Duplicated, _) => of_updates(evidence, "duplicated"),
        (Metric::Mixed, _) => of_updates(evidence, "mixed"),
        (Metric::Overtaken, _) => of_updates(evidence, "overtaken"),
        (Metric::Changes, _) => least_of_updates(evidence, |update| update.changes.len()),
        (Metric::Receipts, _) => least_of_updates(evidence, Update::counted),
        (Metric::Isolation, _) => isolation(evidence),
        (
            Metric::Setup
            | Metric::SetupHeader
            | Metric::SetupEdge
            | Metric::Unset
            | Metric::SouthboundUp
            | Metric::SouthboundDown,
            _,
        ) => setups::measured(evidence.runs.iter(), metric, subject),
        (Metric::Start | Metric::Idle | Metric::Memory | Metric::SwitchMemory, _) => {
            let found = evidence.footprint.and_then(|found| found.value(metric));
            found.ok_or_else(|| "was not measured".to_owned())
        }
        (Metric::Passages, _) => routes::count(evidence, "passages"),
        (Metric::Detours, _) => routes::count(evidence, "detoured"),
        (Metric::Detour | Metric::OvertakenLate | Metric::Unnamed, _) => {
            of_faults(evidence, metric, subject)
        }
        (Metric::Throughput, _) => some(of(|t| t.bits_per_second)).map(|v| median(&v)),
        (Metric::DeployPerFunction, _) => {
            evidence.deploy_seconds_per_function().ok_or_else(|| "was not measured".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn evidence() -> Evidence {
        let traffic = |name: &str, lost: u64, rate: f64| TrafficResult {
            traffic: name.into(),
            chain: Some(format!("chain-{name}")),
            lost: Some(lost),
            bits_per_second: Some(rate),
            ..TrafficResult::default()
        };
        let mut run = RunEvidence::new("nsh".into(), None, None);
        run.traffic = vec![traffic("a", 0, 3e6), traffic("b", 2, 1e6)];
        run.proof = Some(json!({"ok": true, "violation_count": 0,
            "chains": {"a": {"packets": 5, "proved": 5, "missing": 0, "twice": 0,
                "elsewhere": 0, "order": 0}},
            "packets_out": {"v1": 2, "v2": 3, "v4": 5}}));
        Evidence { runs: vec![run], ..Evidence::default() }
    }

    fn holds(text: &str, evidence: &Evidence) -> bool {
        let statement = Statement::parse(text).unwrap();
        judge(&[statement], evidence).first().unwrap().holds
    }

    #[test]
    fn statements_hold_exactly_when_the_evidence_says_so() {
        let evidence = evidence();
        for good in [
            "order",
            "interfaces",
            "hops",
            "sum v4 = v1 + v2",
            "loss a == 0",
            "loss chain-a == 0",
            "loss == 2",
            "throughput a >= 3M",
            "unaccounted == 0",
            "ring_full == 0",
            "false_alarms == 0",
        ] {
            assert!(holds(good, &evidence), "{good}");
        }
        for bad in ["sum v4 = v1", "loss b == 0", "throughput b >= 2M", "unanswered == 0"] {
            assert!(!holds(bad, &evidence), "{bad}");
        }
    }

    fn updated(proof: Value) -> Evidence {
        let mut run = RunEvidence::new("nsh".into(), None, None);
        run.update_proof = Some(proof);
        Evidence { runs: vec![run], ..Evidence::default() }
    }

    #[test]
    fn updates_are_judged_by_the_independent_proof() {
        let good = json!({"changes": 100, "both_versions": 100, "in_flight": 9, "lost": 0,
            "duplicated": 0, "mixed": 0, "overtaken": 0, "capture_faults": 0});
        let truths =
            ["both_versions", "lost == 0", "duplicated == 0", "mixed == 0", "overtaken == 0"];
        for text in truths {
            assert!(holds(text, &updated(good.clone())), "{text}");
        }
        for (key, value, text) in [
            ("both_versions", 99, "both_versions"),
            ("capture_faults", 1, "both_versions"),
            ("lost", 1, "lost == 0"),
            ("duplicated", 1, "duplicated == 0"),
            ("mixed", 1, "mixed == 0"),
            ("overtaken", 1, "overtaken == 0"),
        ] {
            let mut proof = good.clone();
            proof[key] = value.into();
            assert!(!holds(text, &updated(proof)), "{key}");
        }
        for text in ["both_versions", "lost == 0", "mixed == 0", "changes == 0", "stalled == 0"] {
            assert!(!holds(text, &Evidence::default()), "{text}");
        }
    }

    #[test]
    fn a_chain_that_was_given_no_packet_fails_by_its_name() {
        let given_to = |packets: u64| {
            let mut evidence = evidence();
            evidence.runs[0].entered = [("forth".to_owned(), packets)].into();
            evidence
        };
        assert!(given(&given_to(3)).unwrap().holds);
        assert!(holds("hops", &given_to(3)) && holds("unaccounted == 0", &given_to(3)));
        let found = given(&given_to(0)).unwrap();
        assert!(!found.holds && found.found.contains("'forth' was given no packet"), "{found:?}");
        assert!(!holds("hops", &given_to(0)) && !holds("unaccounted == 0", &given_to(0)));
        assert_eq!(given(&evidence()), None);
    }

    #[test]
    fn streams_and_users_hold_only_by_the_independent_proofs() {
        let streams = |verdict: Option<Value>| {
            let mut evidence = evidence();
            evidence.runs[0].stream_proof = verdict;
            holds("streams", &evidence)
        };
        let verdict = |ok: bool, arrived: u64| {
            json!({"ok": ok, "arrived": arrived, "samples": 9, "violation_count": u64::from(!ok),
                "violations": []})
        };
        assert!(streams(Some(verdict(true, 3))));
        assert!(!streams(Some(verdict(false, 3))) && !streams(Some(verdict(true, 0))));
        assert!(!streams(None));
        let mut two = evidence();
        two.runs.extend(evidence().runs);
        for (run, arrived) in two.runs.iter_mut().zip([3, 0]) {
            run.stream_proof = Some(verdict(true, arrived));
        }
        assert!(!holds("streams", &two), "a run in which nothing came hides behind no other");
        let users = |proof: Option<Value>| {
            let moved = crate::run::users::Comparison { sent: 5, ..Default::default() };
            let users = crate::run::users::UsersEvidence {
                moved: Some((1, moved)),
                proof,
                ..Default::default()
            };
            holds("users", &Evidence { users: Some(users), ..Evidence::default() })
        };
        let proof = |ok: bool| json!({"ok": ok, "proved": 5, "slices": 2, "plain": 0});
        assert!(users(Some(proof(true))) && !users(Some(proof(false))) && !users(None));
    }

    #[test]
    fn what_was_lost_beyond_what_has_a_name_is_found() {
        let named = |named: Option<u64>| {
            let mut evidence = evidence();
            evidence.runs[0].named_losses = named;
            holds("unnamed == 0", &evidence)
        };
        assert!(named(Some(2)) && !named(Some(1)) && !named(None));
    }

    #[test]
    fn what_was_not_measured_fails() {
        let nothing = Evidence::default();
        for text in [
            "order",
            "interfaces",
            "loss == 0",
            "unaccounted == 0",
            "deploy_per_function <= 1s",
            "false_alarms == 0",
        ] {
            assert!(!holds(text, &nothing), "{text}");
        }
        let mut silent = evidence();
        silent.runs[0].silent.push("host2".into());
        assert!(!holds("unaccounted == 0", &silent) && !holds("false_alarms == 0", &silent));
        let mut alarmed = evidence();
        alarmed.runs[0].silences = 1;
        assert!(!holds("false_alarms == 0", &alarmed) && holds("false_alarms <= 1", &alarmed));
        let mut differing = evidence();
        differing.runs[0].differing.push("v1".into());
        assert!(!holds("interfaces", &differing) && holds("hops", &differing));
        let mut uneven = evidence();
        uneven.runs[0].uneven.push("v1".into());
        assert!(!holds("hops", &uneven) && holds("interfaces", &uneven));
    }
}
