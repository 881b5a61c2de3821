//! Firewalls of chains held against an evaluator of its own, `labs/proof/verdict_proof.py`, that reads their rules and
//! the captures at both ends of their chains. Knows what it is told; refuses to know what rules mean.

use super::accounting::Standing;
use super::evidence::Evidence;
use crate::error::Result;
use crate::up::RunningLab;
use crate::vocabulary::{Claim, Lab, chains_with, counts_what_ends, ports_of, rules_of};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// How often hits are read again while they may still change.
const READS_MAX: usize = 40;
/// Pause between two reads.
const READ_PAUSE: Duration = Duration::from_millis(50);
/// What stands in a rule's words before the number of its line.
const LINE: &str = " line ";

/// Packets that met each rule, by the line of its file.
type ByLine = BTreeMap<String, u64>;

/// The hits of the firewalls that statements ask for, by function; none where Catena tells none.
pub(super) struct Hits(BTreeMap<String, Option<ByLine>>);

impl Hits {
    /// Reads them once nothing changes any more.
    pub(super) fn at_rest(running: &RunningLab, chains: &[Standing]) -> Result<Self> {
        let mut last = Self::now(running, chains)?;
        if last.0.is_empty() {
            return Ok(last);
        }
        for _ in 0..READS_MAX {
            std::thread::sleep(READ_PAUSE);
            let now = Self::now(running, chains)?;
            let is_at_rest = now.0 == last.0;
            last = now;
            if is_at_rest {
                break;
            }
        }
        Ok(last)
    }

    fn now(running: &RunningLab, chains: &[Standing]) -> Result<Self> {
        let mut hits = BTreeMap::new();
        for function in asked(&running.lab) {
            let stands = |name: &str| chains.iter().any(|standing| standing.name == name);
            if chains_with(&running.lab, function).any(|chain| stands(&chain.name)) {
                let is_told = running.lab.bundled.get(function).is_some_and(counts_what_ends);
                let own = if is_told { Some(Self::of(running, function)?) } else { None };
                hits.insert(function.to_owned(), own);
            }
        }
        Ok(Self(hits))
    }

    fn of(running: &RunningLab, function: &str) -> Result<ByLine> {
        let mut hits = ByLine::new();
        for instance in running.client.function(function)?.counters {
            for rule in instance.rules {
                *hits.entry(line_of(&rule.rule)).or_default() += rule.packets;
            }
        }
        Ok(hits)
    }

    /// What the evaluator is told of each firewall, beside the captures.
    pub(super) fn told_since(&self, before: &Self, lab: &Lab, chains: &[Standing]) -> Value {
        let one = |(function, now): (&String, &Option<ByLine>)| {
            let (_, rules) = rules_of(lab.bundled.get(function)?)?;
            let then = before.0.get(function).and_then(Option::as_ref);
            let gain = |(line, count): (&String, &u64)| {
                let then = then.and_then(|then| then.get(line)).copied().unwrap_or_default();
                (line.clone(), count.saturating_sub(then))
            };
            let hits: Option<ByLine> = now.as_ref().map(|now| now.iter().map(gain).collect());
            let standing = chains_with(lab, function)
                .filter(|chain| chains.iter().any(|standing| standing.name == chain.name));
            let chains = standing.map(|chain| {
                let (document, ports) = (&chain.document, ports_of(chain));
                json!({
                    "name": chain.name, "source": document.source, "destination": document.destination,
                    "protocol": document.match_fields.get("protocol"), "ports": [ports.start(), ports.end()],
                })
            });
            Some(json!({
                "function": function, "rules": rules, "hits": hits, "chains": chains.collect::<Value>(),
            }))
        };
        self.0.iter().filter_map(one).collect()
    }
}

/// The line in the words of a rule (`edge.iptables line 8, -p tcp -j DROP`); what has none is kept whole, and fits no
/// rule of the evaluator's.
fn line_of(words: &str) -> String {
    let line = words.split_once(LINE).and_then(|(_, rest)| rest.split(',').next());
    let line = line.filter(|line| line.parse::<u64>().is_ok());
    line.unwrap_or(words).to_owned()
}

/// The firewalls that statements ask for.
fn asked(lab: &Lab) -> impl Iterator<Item = &str> {
    let claims = lab.checks.iter().chain(&lab.goals).map(|statement| &statement.claim);
    claims.filter_map(|claim| match claim {
        Claim::Verdicts { function } => Some(function.as_str()),
        _ => None,
    })
}

/// Does any statement ask for verdicts?
pub(super) fn are_asked(lab: &Lab) -> bool {
    asked(lab).next().is_some()
}

/// Did the evaluator come to what the firewall did, in each run?
pub(super) fn judge(evidence: &Evidence, function: &str) -> (bool, String) {
    let mut found = Vec::new();
    let verdicts = evidence.runs.iter().map(|run| (&run.case, run.verdict_proof.as_ref()));
    for (case, verdict) in verdicts {
        let of = verdict.map(|verdict| &verdict["functions"][function]).filter(|it| it.is_object());
        let Some(of) = of else { return (false, format!("{case}: was not measured")) };
        let number = |key: &str| of[key].as_u64().unwrap_or_default();
        if of["ok"].as_bool() != Some(true) {
            let (count, first) = (&of["violation_count"], &of["violations"][0]);
            return (false, format!("{case}: {count} violations, the first: {first}"));
        }
        if number("packets") == 0 {
            return (false, format!("{case}: it was given no packet"));
        }
        let mut text = format!(
            "{case}: {} packets judged, {} accepted, {} ended, {} of these answered",
            number("packets"),
            number("accepted"),
            number("ended"),
            number("answers")
        );
        if of["has_hits"].as_bool() == Some(true) {
            text += ", each rule met as often as Catena says";
        }
        found.push(text);
    }
    match found.is_empty() {
        true => (false, "was not measured".to_owned()),
        false => (true, found.join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::RunEvidence;

    #[test]
    fn rules_are_known_by_their_lines() {
        assert_eq!(line_of("edge.iptables line 14, -p tcp -j DROP"), "14");
        assert_eq!(line_of("edge.iptables line 3, policy DROP of FORWARD"), "3");
        assert_eq!(line_of("rule 7"), "rule 7");
    }

    #[test]
    fn verdicts_hold_by_the_evaluator_alone() {
        let judged = |verdicts: &[Option<Value>]| {
            let run = |verdict: &Option<Value>| {
                let mut run = RunEvidence::new("all".into(), None, None);
                run.verdict_proof = verdict.clone();
                run
            };
            let runs = verdicts.iter().map(run).collect();
            judge(&Evidence { runs, ..Evidence::default() }, "edge")
        };
        let verdict = |ok: bool, packets: u64| {
            Some(json!({"functions": {"edge": {
                "ok": ok, "packets": packets, "accepted": 5, "ended": 2, "answers": 1, "has_hits": true,
                "violation_count": u64::from(!ok), "violations": ["line 6"],
            }}}))
        };
        let (holds, found) = judged(&[verdict(true, 7)]);
        assert!(holds && found.contains("7 packets judged, 5 accepted, 2 ended"), "{found}");
        assert!(found.ends_with("each rule met as often as Catena says"), "{found}");
        assert!(judged(&[verdict(false, 7)]).1.contains("the first: \"line 6\""));
        for wrong in
            [&[verdict(false, 7)][..], &[verdict(true, 0)], &[None], &[], &[verdict(true, 7), None]]
        {
            assert!(!judged(wrong).0, "{wrong:?}");
        }
        assert!(!judge(&Evidence::default(), "other").0);
    }
}
