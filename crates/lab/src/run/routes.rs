//! Where source-routed frames went: what the script that judges it is told of the lab, and what its verdicts come
//! to. Knows cables and what the controller tells of links and nodes; refuses to know headers.

use super::capture::Captured;
use super::evidence::{Evidence, RunEvidence};
use super::proof::{self, Question};
use super::tool::TrafficResult;
use super::updates::Update;
use crate::error::Result;
use crate::up::RunningLab;
use crate::vocabulary::{Lab, LabChain, Tool};
use catena_client::deploy::{ChainStep, Direction};
use catena_model::resource::Encapsulation;
use serde_json::{Map, Value, json};

/// Lets the independent proof judge what came in at links. `walks`: how many source routes there must have been,
/// if that is known.
pub(crate) fn ask(running: &RunningLab, captured: &Captured, walks: Option<u64>) -> Result<Value> {
    let nodes: Map<String, Value> = running
        .plan
        .nodes
        .iter()
        .map(|node| (node.name.clone(), json!(node.role.word())))
        .collect();
    let failed: Vec<_> = running
        .lab
        .faults
        .iter()
        .filter_map(|fault| running.lab.cables.get(fault.cable))
        .flat_map(|cable| &cable.ends)
        .collect();
    let cables: Vec<_> = running.lab.cables.iter().map(|cable| &cable.ends).collect();
    let identities: Map<String, Value> = running
        .client
        .nodes()?
        .into_iter()
        .map(|node| (node.status.node.to_string(), json!(node.status.identities)))
        .collect();
    let told = json!({
        "identities": identities, "nodes": nodes, "cables": cables, "links": running.client.links()?,
        "captures": captured.between, "edges": running.lab.edges, "walks": walks, "faults": failed,
    });
    let Value::Object(told) = told else { return Ok(Value::Null) };
    proof::ask(Question::Routes, running, captured, told)
}

/// How many source routes the traffic of a run makes: one for each two functions, or the sender and the first, that
/// are on different hosts; 0 of what goes in tunnels. None where instances are chosen or the chain changes.
pub(crate) fn walks(
    lab: &Lab,
    encapsulation: Option<Encapsulation>,
    results: &[TrafficResult],
    update: Option<&Update>,
) -> Option<u64> {
    let one = |result: &TrafficResult| {
        let traffic = lab.traffic.iter().find(|traffic| traffic.name == result.traffic)?;
        let chain = lab.chain(result.chain.as_deref()?)?;
        let carrier = encapsulation.or(chain.document.encapsulation)?;
        let is_plain = traffic.tool == Tool::Datagrams && !traffic.load.is_answered;
        if !carrier.is_source_route() {
            return Some(0);
        }
        let legs = legs(lab, chain).filter(|_| is_plain)?;
        Some(legs * result.packets?)
    };
    if update.is_some() || results.is_empty() || !lab.faults.is_empty() {
        return None;
    }
    results.iter().map(one).sum()
}

/// How often a packet of a chain goes to another host until its last function; none where that hangs on the flow.
fn legs(lab: &Lab, chain: &LabChain) -> Option<u64> {
    let is_single = |step: &ChainStep| step.instances.len() < 2 && step.direction != Direction::Tap;
    if !chain.document.chain.iter().all(is_single) {
        return None;
    }
    let instances = chain.document.chain.iter().flat_map(ChainStep::all_instances);
    let hosts: Option<Vec<&str>> = instances.map(|instance| lab.host_of(&instance.name)).collect();
    let mut at = lab.endpoints.get(&chain.document.source)?.on.as_str();
    let mut legs = 0;
    for next in hosts? {
        legs += u64::from(next != at);
        at = next;
    }
    Some(legs)
}

/// A number of the proofs of all runs, summed.
#[allow(clippy::cast_precision_loss, reason = "packet counts of a run are far below 2^52")]
pub(super) fn count(evidence: &Evidence, key: &str) -> std::result::Result<f64, String> {
    let proofs = evidence.runs.iter().filter_map(|run| run.route_proof.as_ref());
    let counts: Vec<u64> = proofs.filter_map(|proof| proof[key].as_u64()).collect();
    if counts.is_empty() {
        return Err("was not measured".to_owned());
    }
    Ok(counts.iter().sum::<u64>() as f64)
}

/// Holds if each source-routed frame of each run went where its ports lead, and there were some.
pub(super) fn judge(evidence: &Evidence) -> (bool, String) {
    let of = |run: &'_ RunEvidence| -> Option<(bool, String)> {
        let proof = run.route_proof.as_ref()?;
        let count = |key: &str| proof[key].as_object().map_or(0, Map::len);
        let mut found = format!(
            "{}: {} of {} source routes proved ({} gone on behind functions, {} headers renewed at edges between, \
             {} by detours, {} lost between) in {} frames, {} passages, by {} ways over {} switches",
            run.case,
            proof["proved"],
            proof["walks"],
            proof["gone_on"],
            proof["renewed"],
            proof["detoured"],
            proof["unfinished"],
            proof["frames"],
            proof["passages"],
            count("ways"),
            count("switches")
        );
        let is_ok = proof["ok"].as_bool() == Some(true);
        if !is_ok {
            let (count, text) = (&proof["violation_count"], &proof["violations"][0]);
            found += &format!("; {count} violations, the first: {text}");
        }
        Some((is_ok, found))
    };
    let is_some = |run: &RunEvidence| {
        run.route_proof.as_ref().is_some_and(|proof| proof["proved"].as_u64() > Some(0))
    };
    let all: Vec<(bool, String)> = evidence.runs.iter().filter_map(of).collect();
    if all.is_empty() {
        return (false, "nothing was captured at links".to_owned());
    }
    let holds = all.iter().all(|(is_ok, _)| *is_ok) && evidence.runs.iter().any(is_some);
    (holds, all.into_iter().map(|(_, found)| found).collect::<Vec<_>>().join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::judge::judge as judge_statements;
    use crate::vocabulary::Statement;
    use std::path::Path;

    #[test]
    fn routes_hold_only_by_the_independent_proof_of_every_run() {
        let of = |verdicts: &[(bool, u64)], statement: &str| {
            let run = |(ok, proved): &(bool, u64)| {
                let mut run = RunEvidence::new("nsh".into(), None, None);
                run.route_proof = Some(
                    json!({"ok": ok, "proved": proved, "walks": 3, "frames": 9, "gone_on": 0, "renewed": 0, "detoured": 0,
                    "unfinished": 0, "passages": 2 * proved,
                    "ways": {"h1 a1 h2": 3}, "switches": {"a1": 3}, "violation_count": 1,
                    "violations": ["left a1"]}),
                );
                run
            };
            let evidence =
                Evidence { runs: verdicts.iter().map(run).collect(), ..Evidence::default() };
            judge_statements(&[Statement::parse(statement).unwrap()], &evidence).remove(0)
        };
        assert!(of(&[(true, 3), (true, 0)], "route").holds);
        assert!(!of(&[], "route").holds && !of(&[(true, 0)], "route").holds);
        assert!(of(&[(true, 3), (true, 0)], "passages == 6").holds);
        assert!(!of(&[], "passages == 0").holds);
        let failed = of(&[(true, 3), (false, 3)], "route");
        assert!(!failed.holds && failed.found.contains("left a1"), "{failed:?}");
    }

    #[test]
    fn source_routes_are_foreseen_where_every_packet_has_one_way() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs");
        let lab = Lab::read(&folder.join("source-route.yaml"), false).unwrap();
        let traffic = &lab.traffic[0];
        let result = TrafficResult {
            traffic: traffic.name.clone(),
            chain: traffic.chain.clone(),
            packets: Some(10),
            ..TrafficResult::default()
        };
        let native = Some(Encapsulation::SourceRouteNative);
        let results = std::slice::from_ref(&result);
        assert_eq!(walks(&lab, native, results, None), Some(30));
        assert_eq!(walks(&lab, Some(Encapsulation::Nsh), results, None), Some(0));
        assert_eq!(walks(&lab, native, &[], None), None);
        let mut shared = lab.clone();
        let step = &mut shared.chains[0].document.chain[0];
        step.instances = [step.all_instances(), step.all_instances()].concat();
        assert_eq!(walks(&shared, native, results, None), None);
    }
}
