//! The independent proofs: which script judges the captures of a lab, and what it is told. The
//! scripts link none of our code; they are laid beside their captures, so that any lab file has
//! them, wherever it lies, and that people may run them again.

use super::capture::{Captured, read_json, write_json};
use super::tool::TrafficResult;
use super::updates::Update;
use super::verdicts;
use crate::error::{LabError, Result};
use crate::up::RunningLab;
use crate::vocabulary::{Lab, Tool};
use catena_client::deploy::ChainStep;
use serde_json::{Map, Value, json};
use std::fs;
use std::path::Path;
use std::process::Command;

const STEERING: &str = include_str!("../../../../labs/proof/steering_proof.py");
const UPDATE: &str = include_str!("../../../../labs/proof/update_proof.py");
const PATHS: &str = include_str!("../../../../labs/proof/path_proof.py");
const STREAMS: &str = include_str!("../../../../labs/proof/stream_proof.py");
const USERS: &str = include_str!("../../../../labs/proof/user_proof.py");
const FORGED: &str = include_str!("../../../../labs/proof/forged_proof.py");
const VERDICTS: &str = include_str!("../../../../labs/proof/verdict_proof.py");
const ROUTES: &str = include_str!("../../../../labs/proof/route_proof.py");
const TELEMETRY: &str = include_str!("../../../../labs/proof/telemetry_proof.py");
/// What several of them share.
const SHARED: [(&str, &str); 5] = [
    ("captures.py", include_str!("../../../../labs/proof/captures.py")),
    ("carriers.py", include_str!("../../../../labs/proof/carriers.py")),
    ("records.py", include_str!("../../../../labs/proof/records.py")),
    ("routers.py", include_str!("../../../../labs/proof/routers.py")),
    ("steering_proof.py", STEERING),
];

/// What the captures of a run are judged for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Question {
    /// Did each datagram of iperf3 take its chain?
    Steering,
    /// What did a stream suffer while its chain changed?
    Update,
    /// Did each datagram of ours take one instance of each function, and each flow the same?
    Paths,
    /// Did the streams of TCP go by the functions of their chains, and by no other?
    Streams,
    /// Did each slice's frames go by the functions of its tenant's chain, in order?
    Users,
    /// Did firewalls let through what their rules say?
    Verdicts,
    /// Did each source-routed frame go where its ports lead? Asked beside the others.
    Routes,
    /// Is what packets took along of their nodes true? Asked beside the others.
    Telemetry,
    /// Did frames that nobody may send come anywhere? Asked of captures of their own.
    Forged,
}

impl Question {
    /// What a lab's captures are for.
    pub(crate) fn of(lab: &Lab) -> Self {
        let is_between = lab.updates.as_ref().map(|updates| updates.is_between);
        let is_any = |is_it: fn(Tool) -> bool| lab.traffic.iter().any(|one| is_it(one.tool));
        let has_ours = is_any(|tool| tool == Tool::Datagrams);
        let has_datagrams = has_ours || is_any(|tool| tool == Tool::IperfUdp);
        match is_between {
            _ if lab.users.is_some() => Self::Users,
            _ if verdicts::are_asked(lab) => Self::Verdicts,
            _ if !has_datagrams && is_any(Tool::is_tcp) => Self::Streams,
            Some(false) => Self::Update,
            _ if has_ours => Self::Paths,
            _ => Self::Steering,
        }
    }

    fn script(self) -> (&'static str, &'static str) {
        match self {
            Self::Steering => ("steering_proof.py", STEERING),
            Self::Update => ("update_proof.py", UPDATE),
            Self::Paths => ("path_proof.py", PATHS),
            Self::Streams => ("stream_proof.py", STREAMS),
            Self::Users => ("user_proof.py", USERS),
            Self::Verdicts => ("verdict_proof.py", VERDICTS),
            Self::Routes => ("route_proof.py", ROUTES),
            Self::Telemetry => ("telemetry_proof.py", TELEMETRY),
            Self::Forged => ("forged_proof.py", FORGED),
        }
    }
}

/// Lets the script judge; its verdict is the answer.
pub(crate) fn judge(
    question: Question,
    running: &RunningLab,
    captured: &Captured,
    traffic: &[TrafficResult],
    update: Option<&Update>,
) -> Result<Value> {
    let mut told = Map::new();
    let mut tell = |key: &str, value: Value| drop(told.insert(key.to_owned(), value));
    match question {
        Question::Steering => tell("chains", steered_chains(&running.lab)),
        Question::Update => {
            tell("stream", stream(&running.lab, traffic));
            tell("versions", versions(&running.lab, update));
            if running.lab.captures_links {
                tell("carriers", json!(captured.between));
            }
        }
        Question::Paths => tell("traffic", flows(&running.lab, traffic, update)),
        Question::Streams => tell("streams", streams(&running.lab, traffic, update)),
        // What users sent is told by who made them, of routes, records and forged frames by `routes`, `telemetry` and
        // `forged`, and rules by `verdicts`.
        Question::Users
        | Question::Routes
        | Question::Telemetry
        | Question::Forged
        | Question::Verdicts => {}
    }
    ask(question, running, captured, told)
}

/// Lets the script of a question judge captures by what it is told beside them.
pub(crate) fn ask(
    question: Question,
    running: &RunningLab,
    captured: &Captured,
    told: Map<String, Value>,
) -> Result<Value> {
    let folder = captured.folder.as_path();
    let mut description = interfaces_of(&running.lab, &captured.interfaces);
    told.into_iter().for_each(|(key, value)| description[key] = value);
    let lay = |name: &str, text: &str| {
        let file = folder.join(name);
        let told = |error| LabError::io("write", file.display().to_string(), error);
        fs::write(&file, text).map_err(told)?;
        Ok::<_, LabError>(file)
    };
    let (name, text) = question.script();
    let script = lay(name, text)?;
    for (name, text) in SHARED {
        lay(name, text)?;
    }
    // One lab may be asked for its routes and records, too.
    let names = match question {
        Question::Routes => ["routes.json", "route_proof.json"],
        Question::Telemetry => ["telemetry.json", "telemetry_proof.json"],
        _ => ["lab.json", "proof.json"],
    };
    let [told, output] = names.map(|name| folder.join(name));
    write_json(&told, &description)?;
    let mut command = Command::new("python3");
    command.args([&script, &told, &output]);
    if question == Question::Steering {
        command.arg(folder.join("egress.csv"));
    }
    // No compiled script is left beside the captures.
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    let judged = command.output().map_err(|error| LabError::io("start", "python3", error))?;
    match judged.status.code() {
        Some(0 | 1) => read_json(&output),
        _ => Err(not_judged(&script, folder, &judged.stderr)),
    }
}

fn not_judged(script: &Path, folder: &Path, said: &[u8]) -> LabError {
    LabError::Tool {
        tool: script.display().to_string(),
        problem: String::from_utf8_lossy(said).trim().to_owned(),
        advice: format!("look at the captures in {}", folder.display()),
    }
}

/// Endpoints and functions with their captures.
fn interfaces_of(lab: &Lab, interfaces: &Map<String, Value>) -> Value {
    let part = |is_function: bool| {
        let of = |(node, _): &(&String, &Value)| lab.functions.contains(node) == is_function;
        let entries = interfaces.iter().filter(of);
        Value::Object(entries.map(|(node, value)| (node.clone(), value.clone())).collect())
    };
    json!({"endpoints": part(false), "functions": part(true)})
}

/// The chains that the traffic takes.
fn steered_chains(lab: &Lab) -> Value {
    let chain = |traffic: &crate::vocabulary::Traffic| {
        let chain = lab.chain(traffic.chain.as_deref()?)?;
        Some(json!({
            "name": chain.name, "source": chain.document.source,
            "destination": chain.document.destination, "port": traffic.port,
            "chain": chain.document.chain,
        }))
    };
    lab.traffic.iter().filter_map(chain).collect()
}

/// The stream of datagrams that went on during the changes.
fn stream(lab: &Lab, results: &[TrafficResult]) -> Value {
    let ours = lab.traffic.iter().find(|traffic| traffic.tool == Tool::Datagrams);
    ours.map_or(Value::Null, |traffic| {
        let result = results.iter().find(|result| result.traffic == traffic.name);
        let sent = result.and_then(|result| result.packets);
        let lost = result.and_then(|result| result.lost).unwrap_or_default();
        json!({
            "source": traffic.from, "destination": traffic.to, "port": traffic.port,
            "sent": sent, "received": sent.map(|sent| sent.saturating_sub(lost)),
        })
    })
}

/// The functions that captures see: bundled ones have no interface.
fn names_of<'s>(lab: &Lab, steps: &'s [ChainStep]) -> Vec<&'s str> {
    let names = steps.iter().map(|step| step.name.as_str());
    names.filter(|name| !lab.bundled.contains(name)).collect()
}

fn versions(lab: &Lab, update: Option<&Update>) -> Value {
    let Some(update) = update else { return Value::Null };
    let first = json!({
        "kind": "first", "functions": names_of(lab, &update.first), "asked": 0, "over": null,
        "encapsulation": update.first_encapsulation, "dscp": update.first_dscp,
    });
    let changes = update.changes.iter().map(|change| {
        json!({
            "kind": change.kind, "functions": names_of(lab, &change.steps),
            "encapsulation": change.encapsulation, "asked": change.asked, "over": change.over,
            "dscp": change.dscp,
        })
    });
    std::iter::once(first).chain(changes).collect()
}

/// The streams of TCP with the chains that they may take: a chain that changes has several.
fn streams(lab: &Lab, results: &[TrafficResult], update: Option<&Update>) -> Value {
    let one = |result: &TrafficResult| {
        let traffic = lab.traffic.iter().find(|traffic| traffic.name == result.traffic)?;
        let chain = result.chain.as_deref().and_then(|name| lab.chain(name));
        let first: &[ChainStep] = chain.map_or(&[], |chain| &chain.document.chain);
        let update = update.filter(|update| chain.is_some_and(|chain| update.chain == chain.name));
        let changes = update.into_iter().flat_map(|update| &update.changes);
        let mut versions: Vec<Value> = Vec::new();
        for steps in std::iter::once(first).chain(changes.map(|change| change.steps.as_slice())) {
            let steps = steps.iter().map(step).collect();
            if !versions.contains(&steps) {
                versions.push(steps);
            }
        }
        traffic.tool.is_tcp().then(|| {
            json!({
                "name": traffic.name, "chain": result.chain, "source": traffic.from,
                "destination": traffic.to, "port": traffic.port, "versions": versions,
            })
        })
    };
    results.iter().filter_map(one).collect()
}

/// What each traffic of ours should have met: the chain as it was at its time.
fn flows(lab: &Lab, results: &[TrafficResult], update: Option<&Update>) -> Value {
    let one = |result: &TrafficResult| {
        let run = result.run?;
        let traffic = lab.traffic.iter().find(|traffic| traffic.name == result.traffic)?;
        let chain = lab.chain(result.chain.as_deref()?)?;
        let phase = phase_of(run);
        let then = update.filter(|update| update.chain == chain.name).and_then(|update| {
            let change = phase.checked_sub(1).and_then(|index| update.changes.get(index));
            change.map(|change| &change.steps)
        });
        Some(json!({
            "name": traffic.name, "run": run, "phase": phase, "chain": chain.name,
            "source": traffic.from, "destination": traffic.to, "port": traffic.port,
            "flows": traffic.load.flows, "sent": result.packets,
            "answers": traffic.load.is_answered, "symmetric": chain.document.symmetric,
            "steps": then.unwrap_or(&chain.document.chain).iter().map(step).collect::<Value>(),
        }))
    };
    results.iter().filter_map(one).collect()
}

fn step(step: &ChainStep) -> Value {
    json!({"name": step.name, "direction": step.direction, "instances": step.all_instances()})
}

/// Traffics of a phase that are told apart.
const RUNS_OF_PHASE: u32 = 256;

/// The number that tells the datagrams of a traffic, made for the `phase`-th time, from others.
pub(crate) fn run_of(phase: usize, traffic: usize) -> u32 {
    let number = |n: usize| u32::try_from(n).unwrap_or_default();
    number(phase) * RUNS_OF_PHASE + number(traffic) % RUNS_OF_PHASE
}

fn phase_of(run: u32) -> usize {
    usize::try_from(run / RUNS_OF_PHASE).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Change;
    use crate::vocabulary::ChangeKind;

    fn lab(name: &str) -> Lab {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs");
        Lab::read(&folder.join(name), false).unwrap()
    }

    #[test]
    fn each_lab_is_asked_what_it_is_for() {
        assert_eq!(Question::of(&lab("openstack-steering.yaml")), Question::Steering);
        assert_eq!(Question::of(&lab("chain-updates.yaml")), Question::Update);
        assert_eq!(Question::of(&lab("weights.yaml")), Question::Paths);
        assert_eq!(Question::of(&lab("taps.yaml")), Question::Paths);
        assert_eq!(Question::of(&lab("openstack-tcp.yaml")), Question::Streams);
        assert_eq!(Question::of(&lab("chain-updates-tcp.yaml")), Question::Streams);
        assert_eq!(Question::of(&lab("5g-slices.yaml")), Question::Users);
        assert_eq!(Question::of(&lab("secure-web.yaml")), Question::Verdicts);
    }

    #[test]
    fn versions_of_rule_sets_are_of_what_captures_see_and_told_apart_by_code_points() {
        let lab = lab("policy-changes.yaml");
        let steps = &lab.chain("guarded").unwrap().document.chain;
        let update = Update {
            chain: "guarded".to_owned(),
            first: steps.clone(),
            first_encapsulation: None,
            first_dscp: Some(10),
            changes: vec![Change {
                kind: ChangeKind::Config,
                steps: steps.clone(),
                encapsulation: None,
                dscp: Some(18),
                asked: 1,
                answered: 2,
                over: Some(3),
                receipt: None,
            }],
        };
        let told = versions(&lab, Some(&update));
        let seen = |at: usize| (&told[at]["functions"], &told[at]["dscp"]);
        assert_eq!(seen(0), (&json!(["v8", "v10"]), &json!(10)));
        assert_eq!(seen(1), (&json!(["v8", "v10"]), &json!(18)));
    }

    #[test]
    fn a_traffic_meets_the_chain_of_its_phase() {
        let lab = lab("weights.yaml");
        let updates = lab.updates.clone().unwrap();
        let change = |version: &crate::vocabulary::Version| Change {
            kind: ChangeKind::Given,
            steps: version.steps.clone(),
            encapsulation: version.encapsulation,
            dscp: None,
            asked: 1,
            answered: 2,
            over: None,
            receipt: None,
        };
        let chain = lab.chain(&updates.chain).unwrap();
        let update = Update {
            chain: updates.chain.clone(),
            first: chain.document.chain.clone(),
            first_encapsulation: None,
            first_dscp: None,
            changes: updates.versions.iter().map(change).collect(),
        };
        let traffic = lab.traffic.first().unwrap();
        let result = |phase| TrafficResult {
            traffic: traffic.name.clone(),
            chain: Some(chain.name.clone()),
            run: Some(run_of(phase, 0)),
            ..TrafficResult::default()
        };
        let told = flows(&lab, &[result(0), result(1)], Some(&update));
        assert_eq!((&told[0]["phase"], &told[1]["phase"]), (&json!(0), &json!(1)));
        let instances = |at: usize| &told[at]["steps"][0]["instances"];
        assert_ne!(instances(0), instances(1));
        assert_eq!(*instances(0), json!(chain.document.chain[0].all_instances()));
    }
}
