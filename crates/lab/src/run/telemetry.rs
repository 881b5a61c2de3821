//! Whether what packets took along of their nodes is true: what the script that judges it is told of the lab, and what
//! its verdicts come to. Knows numbers and addresses of nodes and what clocks said; refuses to know headers.

use super::capture::Captured;
use super::evidence::{Evidence, RunEvidence};
use super::proof::{self, Question};
use super::tool::TrafficResult;
use crate::error::Result;
use crate::up::RunningLab;
use crate::vocabulary::{Lab, LabChain, Subnets};
use catena_client::deploy::{ChainStep, Direction};
use rustix::time::{ClockId, Timespec, clock_gettime};
use serde::Serialize;
use serde_json::{Map, Value, json};

/// How often clocks are looked at for one moment: whoever looks may be interrupted between the two.
const LOOKS: usize = 8;

/// What two clocks of the machine say at one moment, in nanoseconds: that of captures, and that of records.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Moment {
    real: i64,
    monotonic: i64,
}

impl Moment {
    /// This one.
    pub(crate) fn now() -> Self {
        let one = |_| {
            let [before, real, after] =
                [ClockId::Monotonic, ClockId::Realtime, ClockId::Monotonic].map(read);
            (after - before, Self { real, monotonic: before + (after - before) / 2 })
        };
        let first = one(0);
        (1..LOOKS).map(one).fold(first, |best, one| if one.0 < best.0 { one } else { best }).1
    }
}

fn read(clock: ClockId) -> i64 {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(clock);
    tv_sec.saturating_mul(1_000_000_000).saturating_add(tv_nsec)
}

/// Lets the independent proof judge what came in from other nodes.
pub(crate) fn ask(
    running: &RunningLab,
    captured: &Captured,
    results: &[TrafficResult],
) -> Result<Value> {
    let lab = &running.lab;
    let (mut devices, mut addresses) = (Map::new(), Map::new());
    for node in lab.nodes() {
        let detail = running.client.node(node)?;
        devices.insert(node.to_owned(), json!(detail.device));
        if let Some(place) = detail.segments {
            addresses.insert(node.to_owned(), json!(place.address));
        }
    }
    let told = json!({
        "captures": captured.between, "devices": devices, "addresses": addresses, "hosts": hosts(lab),
        "clock": [captured.began, Moment::now()], "streams": streams(lab, results),
        "routers": captured.at_routers, "crossings": crossings(lab),
    });
    let Value::Object(told) = told else { return Ok(Value::Null) };
    proof::ask(Question::Telemetry, running, captured, told)
}

/// Where endpoints and functions are.
fn hosts(lab: &Lab) -> Map<String, Value> {
    let endpoints = lab.endpoints.iter().map(|(name, endpoint)| (name, endpoint.on.as_str()));
    let functions = lab.functions.iter().map(|(name, function)| (name, function.on.as_str()));
    endpoints.chain(functions).map(|(name, host)| (name.to_owned(), json!(host))).collect()
}

/// The routers that packets pass from one node to another, where there are any.
fn crossings(lab: &Lab) -> Map<String, Value> {
    let subnets = Subnets::of_lab(lab);
    let from = |one: &str| {
        let way = |other: &str| subnets.way(subnets.of_node(one), subnets.of_node(other));
        let ways = lab.nodes().map(|other| (other.to_owned(), json!(way(other))));
        (one.to_owned(), Value::Object(ways.collect()))
    };
    lab.nodes().filter(|_| !lab.routers.is_empty()).map(from).collect()
}

/// The datagrams of chains whose packets take records along to other nodes.
fn streams(lab: &Lab, results: &[TrafficResult]) -> Vec<Value> {
    let one = |result: &TrafficResult| {
        let run = result.run?;
        let traffic = lab.traffic.iter().find(|traffic| traffic.name == result.traffic)?;
        let chain = lab.chain(result.chain.as_deref()?)?;
        let telemetry = chain.document.telemetry.as_ref()?.as_ref()?;
        let way = way(lab, chain);
        let ingress = lab.endpoints.get(&traffic.from)?.on.as_str();
        let stays = way.as_ref().is_some_and(|way| way.iter().all(|node| *node == ingress));
        (!stays).then(|| {
            json!({
                "name": traffic.name, "run": run, "source": traffic.from, "destination": traffic.to,
                "port": traffic.port, "sent": result.packets, "way": way, "telemetry": telemetry,
            })
        })
    };
    results.iter().filter_map(one).collect()
}

/// The nodes that serve the functions of a chain, those that follow one another on one node once; none where that hangs
/// on the flow.
fn way<'l>(lab: &'l Lab, chain: &'l LabChain) -> Option<Vec<&'l str>> {
    let steps = || chain.document.chain.iter().filter(|step| step.direction != Direction::Tap);
    if !steps().all(|step| step.instances.len() < 2) {
        return None;
    }
    let instances = steps().flat_map(ChainStep::all_instances);
    let hosts: Option<Vec<&str>> = instances.map(|instance| lab.host_of(&instance.name)).collect();
    let mut hosts = hosts?;
    hosts.dedup();
    Some(hosts)
}

/// Holds if each record of each run is true, and there were some in each.
pub(super) fn judge(evidence: &Evidence) -> (bool, String) {
    let of = |run: &'_ RunEvidence| -> Option<(bool, String)> {
        let proof = run.telemetry_proof.as_ref()?;
        let [time, devices] = ["microseconds", "devices"].map(|key| &proof[key]);
        let mut found = format!(
            "{}: {} of {} packets proved, {} records in {} headers, {} mirrored; arrivals {} µs after captures in the \
             median, {} at most, latencies {} µs above those of functions, {} at most; no time further than {} µs from \
             where captures have it, {} allowed, {} of 99 in a hundred; numbers {devices}",
            run.case,
            proof["proved"],
            proof["packets"],
            proof["records"],
            proof["headers"],
            proof["mirrored"],
            time["arrival_median"],
            time["arrival_max"],
            time["latency_over_functions_median"],
            time["latency_over_functions_max"],
            time["outside_max"],
            time["tolerance"],
            time["fine"],
        );
        let is_ok = proof["ok"].as_bool() == Some(true);
        if !is_ok {
            let (count, text) = (&proof["violation_count"], &proof["violations"][0]);
            found += &format!("; {count} violations, the first: {text}");
        }
        Some((is_ok && proof["records"].as_u64() > Some(0), found))
    };
    let all: Vec<(bool, String)> = evidence.runs.iter().filter_map(of).collect();
    if all.is_empty() {
        return (false, "nothing was captured between nodes".to_owned());
    }
    let holds = all.iter().all(|(holds, _)| *holds);
    (holds, all.into_iter().map(|(_, found)| found).collect::<Vec<_>>().join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::judge::judge as judge_statements;
    use crate::vocabulary::Statement;
    use std::path::Path;

    #[test]
    fn telemetry_holds_only_by_the_independent_proof_of_records_of_every_run() {
        let of = |verdicts: &[(bool, u64)]| {
            let run = |(ok, records): &(bool, u64)| {
                let mut run = RunEvidence::new("srv6".into(), None, None);
                run.telemetry_proof = Some(json!({
                    "ok": ok, "records": records, "violation_count": 1, "violations": ["counter is 7"],
                }));
                run
            };
            let evidence =
                Evidence { runs: verdicts.iter().map(run).collect(), ..Evidence::default() };
            judge_statements(&[Statement::parse("telemetry").unwrap()], &evidence).remove(0)
        };
        assert!(of(&[(true, 3), (true, 1)]).holds);
        assert!(!of(&[]).holds && !of(&[(true, 3), (true, 0)]).holds);
        let failed = of(&[(true, 3), (false, 3)]);
        assert!(!failed.holds && failed.found.contains("counter is 7"), "{failed:?}");
    }

    #[test]
    fn functions_of_one_node_that_follow_one_another_are_one_hop_of_a_way() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs");
        let mut lab = Lab::read(&folder.join("srv6-int.yaml"), false).unwrap();
        assert_eq!(way(&lab, &lab.chains[0]).unwrap(), ["sw1", "sw2", "sw3", "sw4"]);
        let traffic = &lab.traffic[0];
        let result = TrafficResult {
            traffic: traffic.name.clone(),
            chain: traffic.chain.clone(),
            packets: Some(10),
            run: Some(3),
            ..TrafficResult::default()
        };
        let told = streams(&lab, std::slice::from_ref(&result));
        assert_eq!((&told[0]["run"], &told[0]["sent"]), (&json!(3), &json!(10)));
        assert_eq!(told[0]["telemetry"]["colour"], 7);
        let steps = &mut lab.chains[0].document.chain;
        steps[1].instances = [steps[1].all_instances(), steps[2].all_instances()].concat();
        assert_eq!(way(&lab, &lab.chains[0]), None);
        lab.chains[0].document.chain.truncate(1);
        assert!(streams(&lab, &[result]).is_empty(), "it stays where it is sent");
    }

    #[test]
    fn a_moment_is_between_those_before_and_after_it() {
        let moments: Vec<Moment> = (0..3).map(|_| Moment::now()).collect();
        assert!(moments.is_sorted_by_key(|moment| moment.monotonic), "{moments:?}");
        assert!(moments.iter().all(|moment| moment.real > moment.monotonic), "{moments:?}");
    }
}
