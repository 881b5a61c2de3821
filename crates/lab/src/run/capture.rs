//! Captures at the interfaces of endpoints and functions, and their judgement by a script that
//! links none of our code. Knows tcpdump and the script's description of a lab.

use super::tool::Program;
use crate::error::{LabError, Result};
use crate::up::RunningLab;
use serde_json::{Map, Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Bytes kept of each packet: Ethernet, IPv6, UDP and what iperf3 writes first.
const SNAP_BYTES: &str = "128";
/// Kernel buffer of a capture, in KiB.
const BUFFER_KIB: &str = "8192";
/// How long the last packets may take to reach their capture.
const SETTLE: Duration = Duration::from_millis(300);
/// The script. It is laid beside its captures, so that any lab file has it, wherever it lies, and
/// that people may run it again.
const SCRIPT: &str = include_str!("../../../../labs/proof/steering_proof.py");

struct Capture {
    node: String,
    network: String,
    program: Program,
}

/// Running captures of one run.
pub(crate) struct Captures {
    folder: PathBuf,
    captures: Vec<Capture>,
}

impl Captures {
    /// Starts one capture per interface of the lab's `capture` list, and waits until all listen.
    pub(crate) fn start(running: &RunningLab, folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder)
            .map_err(|error| LabError::io("create", folder.display().to_string(), error))?;
        let mut captures = Vec::new();
        for node in &running.lab.capture {
            let doorway = running.doorway(node)?;
            for network in running.lab.networks_of(node) {
                let file = folder.join(pcap_name(node, network));
                let said = folder.join(format!("{node}.{network}.txt"));
                let mut command = Command::new("tcpdump");
                command.args([
                    "-n",
                    "--immediate-mode",
                    "--time-stamp-precision=nano",
                    "-Z",
                    "root",
                ]);
                command.args(["-s", SNAP_BYTES, "-B", BUFFER_KIB, "-i", network, "-w"]);
                command.arg(&file).arg("udp");
                let program = Program::start(&doorway, command, &said)?;
                captures.push(Capture { node: node.clone(), network: network.clone(), program });
            }
        }
        for capture in &mut captures {
            capture.program.wait_for("listening on")?;
        }
        Ok(Self { folder: folder.to_path_buf(), captures })
    }

    /// Ends the captures and lets the script judge them; its verdict is the answer.
    pub(crate) fn prove(self, running: &RunningLab) -> Result<Value> {
        std::thread::sleep(SETTLE);
        let mut interfaces: Map<String, Value> = Map::new();
        for Capture { node, network, program } in self.captures {
            let said = program.interrupt()?;
            let interface = interface_of(running, &node, &network, lost_in(&said));
            let entry = interfaces.entry(node).or_insert_with(|| json!({}));
            entry[network] = interface;
        }
        let description = self.folder.join("lab.json");
        write_json(&description, &description_of(running, &interfaces))?;
        let script = self.folder.join("steering_proof.py");
        fs::write(&script, SCRIPT)
            .map_err(|error| LabError::io("write", script.display().to_string(), error))?;
        let output = self.folder.join("proof.json");
        let table = self.folder.join("egress.csv");
        let judged = Command::new("python3")
            .args([&script, &description, &output, &table])
            .output()
            .map_err(|error| LabError::io("start", "python3", error))?;
        match judged.status.code() {
            Some(0 | 1) => read_json(&output),
            _ => Err(LabError::Tool {
                tool: script.display().to_string(),
                problem: String::from_utf8_lossy(&judged.stderr).trim().to_owned(),
                advice: format!("look at the captures in {}", self.folder.display()),
            }),
        }
    }
}

fn pcap_name(node: &str, network: &str) -> String {
    format!("{node}.{network}.pcap")
}

fn interface_of(running: &RunningLab, node: &str, network: &str, lost: u64) -> Value {
    let is_it = |port: &&crate::wiring::PortPlan| port.device == node && port.network == network;
    let mac = running.plan.ports.iter().find(is_it).map_or([0; 6], |port| port.mac);
    let mac: Vec<String> = mac.iter().map(|byte| format!("{byte:02x}")).collect();
    json!({"mac": mac.join(":"), "pcap": pcap_name(node, network), "lost": lost})
}

/// What tcpdump says at its end: `3 packets dropped by kernel`.
fn lost_in(said: &str) -> u64 {
    said.lines()
        .find(|line| line.contains("dropped by kernel"))
        .and_then(|line| line.split_whitespace().next()?.parse().ok())
        .unwrap_or_default()
}

/// Endpoints and functions with their captures, and the chains that the traffic takes.
fn description_of(running: &RunningLab, interfaces: &Map<String, Value>) -> Value {
    let lab = &running.lab;
    let part = |is_function: bool| {
        let of = |(node, _): &(&String, &Value)| lab.functions.contains(node) == is_function;
        let entries = interfaces.iter().filter(of);
        Value::Object(entries.map(|(node, value)| (node.clone(), value.clone())).collect())
    };
    let chains: Vec<Value> = lab
        .traffic
        .iter()
        .filter_map(|traffic| {
            let chain = lab.chain(traffic.chain.as_deref()?)?;
            Some(json!({
                "name": chain.name, "source": chain.document.source,
                "destination": chain.document.destination, "port": traffic.port,
                "chain": chain.document.chain,
            }))
        })
        .collect();
    json!({"endpoints": part(false), "functions": part(true), "chains": chains})
}

pub(crate) fn write_json(path: &Path, value: &impl serde::Serialize) -> Result<()> {
    let object = || path.display().to_string();
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| LabError::io("encode", object(), error))?;
    fs::write(path, text + "\n").map_err(|error| LabError::io("write", object(), error))
}

fn read_json(path: &Path) -> Result<Value> {
    let object = || path.display().to_string();
    let text = fs::read_to_string(path).map_err(|error| LabError::io("read", object(), error))?;
    serde_json::from_str(&text).map_err(|error| LabError::io("decode", object(), error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_capture_lost_is_read_from_its_last_words() {
        let said = "listening on customer\n12 packets captured\n12 packets received by filter\n\
            3 packets dropped by kernel\n";
        assert_eq!(lost_in(said), 3);
        assert_eq!(lost_in(""), 0);
    }
}
