//! Holds what is claimed of flows against the verdicts of the path proof: paths, shares, moves.
//! Pure: what was not measured fails.

use super::evidence::Evidence;
use serde_json::Value;

fn verdicts(evidence: &Evidence) -> impl Iterator<Item = (&str, &Value)> {
    let runs = evidence.runs.iter();
    runs.filter_map(|run| Some((run.case.as_str(), run.path_proof.as_ref()?)))
}

fn entries<'v>(verdict: &'v Value, key: &str) -> impl Iterator<Item = &'v Value> {
    verdict[key].as_array().into_iter().flatten()
}

fn told(holds: bool, found: &[String]) -> (bool, String) {
    if found.is_empty() {
        (false, "was not measured".to_owned())
    } else {
        (holds, found.join("; "))
    }
}

/// Every datagram met exactly the instances it must.
pub(super) fn paths(evidence: &Evidence) -> (bool, String) {
    let mut holds = true;
    let mut found = Vec::new();
    for (case, verdict) in verdicts(evidence) {
        holds &= verdict["ok"].as_bool() == Some(true);
        let sum = |key: &str| -> u64 {
            entries(verdict, "traffic").filter_map(|one| one[key].as_u64()).sum()
        };
        found.push(format!(
            "{case}: {} of {} packets in {} flows proved, {} copies for taps, {} of {} answers \
             the same way back, {} violations",
            sum("proved"),
            sum("packets"),
            sum("flows"),
            sum("copies"),
            sum("mirrored"),
            sum("answers"),
            verdict["violation_count"]
        ));
    }
    told(holds, &found)
}

/// Each instance has its share of the flows.
pub(super) fn shares(evidence: &Evidence, within: f64) -> (bool, String) {
    const PERCENT: f64 = 100.0;
    let mut holds = true;
    let mut found = Vec::new();
    for (case, verdict) in verdicts(evidence) {
        let off = |one: &Value| {
            let (share, wanted) = (one["share"].as_f64()?, one["wanted"].as_f64()?);
            Some((share - wanted).abs() * PERCENT)
        };
        let worst = entries(verdict, "shares").map(|one| off(one).unwrap_or(PERCENT));
        let Some(worst) = worst.reduce(f64::max) else { continue };
        holds &= worst <= within && verdict["capture_faults"].as_u64() == Some(0);
        let count = entries(verdict, "shares").count();
        found.push(format!("{case}: {count} shares, at most {worst:.2} points from their weight"));
    }
    told(holds, &found)
}

/// Only flows that had to move have moved, and some have.
pub(super) fn moves(evidence: &Evidence) -> (bool, String) {
    let mut holds = true;
    let mut found = Vec::new();
    for (case, verdict) in verdicts(evidence) {
        for one in entries(verdict, "moves") {
            let number = |key: &str| one[key].as_u64();
            holds &= number("needless") == Some(0) && number("moved") > Some(0);
            found.push(format!(
                "{case}, {} change {}: {} of {} flows moved, {} needlessly",
                one["traffic"].as_str().unwrap_or_default(),
                one["phase"],
                one["moved"],
                one["flows"],
                one["needless"]
            ));
        }
    }
    told(holds, &found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::RunEvidence;
    use serde_json::json;

    fn evidence(verdict: Value) -> Evidence {
        let mut run = RunEvidence::new("nsh".into(), None, None);
        run.path_proof = Some(verdict);
        Evidence { runs: vec![run], ..Evidence::default() }
    }

    #[test]
    fn shares_hold_within_the_points_and_not_beyond() {
        let shares = |share: f64| {
            let verdict = json!({"capture_faults": 0, "shares": [
                {"share": 0.5, "wanted": 0.5}, {"share": share, "wanted": 0.25}]});
            shares(&evidence(verdict), 2.0).0
        };
        assert!(shares(0.26) && shares(0.235));
        assert!(!shares(0.28) && !shares(0.2));
        assert!(!super::shares(&evidence(json!({"shares": []})), 2.0).0);
        assert!(!super::shares(&Evidence::default(), 2.0).0);
    }

    #[test]
    fn a_needless_move_or_none_at_all_is_a_fault() {
        let moves = |moved: u64, needless: u64| {
            let verdict = json!({"moves": [{"traffic": "a", "phase": 1, "flows": 9,
                "moved": moved, "needless": needless}]});
            moves(&evidence(verdict)).0
        };
        assert!(moves(3, 0));
        assert!(!moves(3, 1) && !moves(0, 0));
        assert!(!super::moves(&Evidence::default()).0);
    }

    #[test]
    fn paths_hold_when_the_proof_says_so() {
        let traffic = json!([{"packets": 4, "proved": 4, "flows": 2, "copies": 0, "answers": 0,
            "mirrored": 0}]);
        for ok in [true, false] {
            let verdict = json!({"ok": ok, "traffic": traffic, "violation_count": 0});
            assert_eq!(paths(&evidence(verdict)).0, ok);
        }
        assert!(!paths(&Evidence::default()).0);
    }
}
