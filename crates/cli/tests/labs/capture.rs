//! Captures by tcpdump, and their judgement by the proof that links nothing of ours.

use crate::house::House;
use crate::node::Node;
use crate::patience::wait_for;
use serde_json::{Map, Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

/// Bytes of a classic pcap file's head, and of each packet's.
const FILE_HEAD_BYTES: usize = 24;
const PACKET_HEAD_BYTES: usize = 16;

/// A running capture.
pub(crate) struct Capture {
    child: Child,
    said: BufReader<std::process::ChildStderr>,
    pub(crate) file: PathBuf,
}

/// A captured frame.
pub(crate) struct Frame {
    /// Its length on the wire, in bytes.
    pub(crate) length: usize,
    /// The part that was kept.
    pub(crate) bytes: Vec<u8>,
    /// When it was seen, since 1970.
    pub(crate) at: Duration,
}

impl Capture {
    /// Captures what a filter lets through at an interface; it listens when this returns.
    pub(crate) fn start(node: &Node, interface: &str, filter: &str, folder: &Path) -> Self {
        let file = folder.join(format!("{}.{interface}.pcap", node.name));
        let path = file.display().to_string();
        let mut arguments = vec![
            "-n",
            "--immediate-mode",
            "--time-stamp-precision=nano",
            "-Z",
            "root",
            "-U",
            "-s",
            "128",
            "-B",
            "8192",
            "-i",
            interface,
            "-w",
            &path,
        ];
        arguments.extend(filter.split(' ').filter(|word| !word.is_empty()));
        let mut child = node.start("tcpdump", &arguments);
        let mut said = BufReader::new(child.stderr.take().expect("stderr is a pipe"));
        let mut line = String::new();
        while !line.contains("listening on") {
            line.clear();
            let length = said.read_line(&mut line).expect("a line of tcpdump");
            assert!(length > 0, "tcpdump did not begin at {} {interface}", node.name);
        }
        Self { child, said, file }
    }

    /// Ends it; it must have lost nothing. What it has not read yet it would leave behind: it sleeps
    /// once it has read all, since each frame wakes it.
    pub(crate) fn stop(mut self) -> PathBuf {
        let pid = self.child.id().to_string();
        let stat = format!("/proc/{pid}/stat");
        wait_for("the sleep of tcpdump", || {
            let state = fs::read_to_string(&stat).map_err(|error| error.to_string())?;
            if state.contains(") S ") { Ok(()) } else { Err(state) }
        });
        let ended = Command::new("kill").args(["-INT", &pid]).status().expect("kill runs");
        assert!(ended.success());
        let mut said = String::new();
        let _ = self.said.read_to_string(&mut said);
        self.child.wait().expect("tcpdump ends");
        assert!(said.contains("\n0 packets dropped by kernel"), "{said}");
        self.file.clone()
    }

    /// Ends it and reads what it saw.
    pub(crate) fn frames(self) -> Vec<Frame> {
        let file = self.stop();
        let bytes = fs::read(&file).expect("the capture can be read");
        let word = |at: usize| {
            let four = bytes.get(at..at + 4).and_then(|four| four.try_into().ok());
            u32::from_ne_bytes(four.expect("a whole capture")) as usize
        };
        let mut frames = Vec::new();
        let mut at = FILE_HEAD_BYTES;
        while at < bytes.len() {
            let (kept, length) = (word(at + 8), word(at + 12));
            let seen = Duration::new(word(at) as u64, word(at + 4) as u32);
            at += PACKET_HEAD_BYTES;
            frames.push(Frame { length, bytes: bytes[at..at + kept].to_vec(), at: seen });
            at += kept;
        }
        frames
    }
}

/// Captures at every interface of every endpoint and function of the shared lab.
pub(crate) struct Captures {
    folder: tempfile::TempDir,
    /// Node, network, hardware address, capture.
    captures: Vec<(String, String, String, Capture)>,
}

const ENDPOINTS: &[(&str, &[&str])] =
    &[("S", &["customer"]), ("D", &["customer"]), ("ext", &["customer"]), ("I", &["internal"])];
const FUNCTIONS: &[&str] = &["v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10"];
const SMALL_FUNCTIONS: &[&str] = &["v11", "v12"];

impl Captures {
    /// Begins with all of them.
    pub(crate) fn start(house: &House, filter: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let both: &[&str] = &["customer", "internal"];
        let functions = FUNCTIONS.iter().map(|name| (*name, both));
        let small = SMALL_FUNCTIONS.iter().map(|name| (*name, &["customer"][..]));
        let mut captures = Vec::new();
        for (name, networks) in ENDPOINTS.iter().copied().chain(functions).chain(small) {
            let node = house.node(name);
            for network in networks {
                let capture = Capture::start(&node, network, filter, folder.path());
                captures.push((name.into(), (*network).into(), node.mac(network), capture));
            }
        }
        Self { folder, captures }
    }

    /// Ends them: how many frames each node saw.
    pub(crate) fn seen(self) -> Vec<(String, usize)> {
        let captures = self.captures.into_iter();
        captures.map(|(node, _, _, capture)| (node, capture.frames().len())).collect()
    }

    /// Ends them and has the independent proof judge the chain: its verdict on it.
    pub(crate) fn prove(self, document: &Value, port: u16) -> Value {
        let mut endpoints = Map::new();
        let mut functions = Map::new();
        for (node, network, mac, capture) in self.captures {
            let group = if node.starts_with('v') { &mut functions } else { &mut endpoints };
            let file = capture.stop();
            let name = file.file_name().expect("a name").to_string_lossy().into_owned();
            let entry = group.entry(node).or_insert_with(|| json!({}));
            entry[network] = json!({"mac": mac, "pcap": name, "lost": 0});
        }
        let description = json!({"endpoints": endpoints, "functions": functions, "chains": [{
            "name": document["name"], "source": document["source"],
            "destination": document["destination"], "port": port, "chain": document["chain"],
        }]});
        let folder = self.folder.path();
        let file = |name: &str| folder.join(name);
        fs::write(file("lab.json"), description.to_string()).expect("the description is written");
        let script =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs/proof/steering_proof.py");
        let judged = Command::new("python3")
            .args([&script, &file("lab.json"), &file("proof.json"), &file("egress.csv")])
            .output()
            .expect("python3 runs");
        let wrong = String::from_utf8_lossy(&judged.stderr);
        assert!(judged.status.success(), "not proved: {wrong}");
        let proof = fs::read_to_string(file("proof.json")).expect("a verdict");
        let proof: Value = serde_json::from_str(&proof).expect("a verdict in JSON");
        proof["chains"][document["name"].as_str().expect("a name")].clone()
    }
}
