//! The independent proofs: which script judges the captures of a lab, and what it is told. The
//! scripts link none of our code; they are laid beside their captures, so that any lab file has
//! them, wherever it lies, and that people may run them again.

use super::capture::{Captured, read_json, write_json};
use super::tool::TrafficResult;
use super::updates::Update;
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
/// What all of them share.
const READER: (&str, &str) = ("captures.py", include_str!("../../../../labs/proof/captures.py"));

/// What the captures of a run are judged for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Question {
    /// Did each datagram of iperf3 take its chain?
    Steering,
    /// What did a stream suffer while its chain changed?
    Update,
    /// Did each datagram of ours take one instance of each function, and each flow the same?
    Paths,
}

impl Question {
    /// What a lab's captures are for.
    pub(crate) fn of(lab: &Lab) -> Self {
        let is_between = lab.updates.as_ref().map(|updates| updates.is_between);
        let has_ours = lab.traffic.iter().any(|traffic| traffic.tool == Tool::Datagrams);
        match (is_between, has_ours) {
            (Some(false), _) => Self::Update,
            (_, true) => Self::Paths,
            _ => Self::Steering,
        }
    }

    fn script(self) -> (&'static str, &'static str) {
        match self {
            Self::Steering => ("steering_proof.py", STEERING),
            Self::Update => ("update_proof.py", UPDATE),
            Self::Paths => ("path_proof.py", PATHS),
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
    let folder = captured.folder.as_path();
    let mut description = interfaces_of(&running.lab, &captured.interfaces);
    match question {
        Question::Steering => description["chains"] = steered_chains(&running.lab),
        Question::Update => {
            description["stream"] = stream(&running.lab, traffic);
            description["versions"] = versions(update);
        }
        Question::Paths => description["traffic"] = flows(&running.lab, traffic, update),
    }
    let lay = |name: &str, text: &str| {
        let file = folder.join(name);
        let told = |error| LabError::io("write", file.display().to_string(), error);
        fs::write(&file, text).map_err(told)?;
        Ok::<_, LabError>(file)
    };
    let (name, text) = question.script();
    let script = lay(name, text)?;
    lay(READER.0, READER.1)?;
    let (told, output) = (folder.join("lab.json"), folder.join("proof.json"));
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

fn names_of(steps: &[ChainStep]) -> Vec<&str> {
    steps.iter().map(|step| step.name.as_str()).collect()
}

fn versions(update: Option<&Update>) -> Value {
    let Some(update) = update else { return Value::Null };
    let first = json!({
        "kind": "first", "functions": names_of(&update.first), "asked": 0, "over": null,
    });
    let changes = update.changes.iter().map(|change| {
        json!({
            "kind": change.kind, "functions": names_of(&change.steps),
            "asked": change.asked, "over": change.over,
        })
    });
    std::iter::once(first).chain(changes).collect()
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
    }

    #[test]
    fn a_traffic_meets_the_chain_of_its_phase() {
        let lab = lab("weights.yaml");
        let updates = lab.updates.clone().unwrap();
        let change = |version: &crate::vocabulary::Version| Change {
            kind: ChangeKind::Given,
            steps: version.steps.clone(),
            asked: 1,
            answered: 2,
            over: None,
            receipt: None,
        };
        let chain = lab.chain(&updates.chain).unwrap();
        let update = Update {
            chain: updates.chain.clone(),
            first: chain.document.chain.clone(),
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
