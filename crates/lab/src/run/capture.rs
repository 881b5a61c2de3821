//! Captures at the interfaces of endpoints and functions, and of what comes in from other nodes. Knows tcpdump;
//! refuses to know what the captures are judged for, except that millions of frames are taken more thriftily.

use super::proof::Question;
use super::telemetry::Moment;
use super::tool::Process;
use crate::error::{LabError, Result};
use crate::up::RunningLab;
use crate::vocabulary::{Claim, Lab, Subnets};
use crate::wiring::{DATA_INTERFACE, STRANGE_LINK};
use catena_model::topology::NodeRole;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Bytes kept of each packet: Ethernet, IPv6, UDP and what iperf3 writes first.
const SNAP_BYTES: &str = "128";
/// The same for our own datagrams.
const SNAP_BYTES_OURS: &str = "80";
/// The same for frames of users, made as short as they can be: their last bytes tell them apart.
const SNAP_BYTES_USERS: &str = "256";
/// Of the packets of a stream one in so many is kept, a power of two: chosen by its sequence number,
/// so that it is the same ones everywhere.
const SAMPLED_BITS: u32 = 4;
/// Spreads sequence numbers, which go by steps (Knuth's, 2³² by the golden ratio).
const SPREAD: u32 = 2_654_435_761;
/// What links bring of chains, in tcpdump's words.
const SOURCE_ROUTES: &str =
    "ether proto 0x88b5 or ether proto 0x88b6 or ether proto 0x8847 or vlan";
/// What the data network brings of chains: NSH and MPLS in tunnels.
const TUNNELS: &str = "udp dst port 4790 or udp dst port 6635 or ip6 proto 43";
/// Kernel buffer of a capture, in KiB.
const BUFFER_KIB: &str = "8192";
/// The same where hardly anything comes. The kernel hands over whole blocks, and each second takes one however little
/// came: of many captures at once some get to theirs later than that.
const SMALL_BUFFER_KIB: &str = "2048";
/// How long the last packets may take to reach their capture.
const SETTLE: Duration = Duration::from_millis(300);
/// The same where the kernel hands frames over by the block, the last one after a second.
const SETTLE_BLOCKS: Duration = Duration::from_millis(1_300);
struct Capture {
    node: String,
    /// Of an endpoint or function the network.
    interface: String,
    /// Is it of what comes in from other nodes?
    is_between: bool,
    program: Process,
}

/// Running captures of one run.
pub(crate) struct Captures {
    folder: PathBuf,
    began: Moment,
    settle: Duration,
    captures: Vec<Capture>,
}

/// Captures that have ended.
pub(crate) struct Captured {
    pub(crate) folder: PathBuf,
    /// When they began.
    pub(crate) began: Moment,
    /// By node and network: hardware address, file, and what speaks against it.
    pub(crate) interfaces: Map<String, Value>,
    /// Of what came in from other nodes: node, interface, file, and what speaks against it.
    pub(crate) between: Vec<Value>,
    /// The same of what came in at routers on its way from node to node.
    pub(crate) at_routers: Vec<Value>,
}

impl Captures {
    /// Starts one capture per interface of the lab's `capture` list, and waits until all listen.
    pub(crate) fn start(running: &RunningLab, folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder)
            .map_err(|error| LabError::io("create", folder.display().to_string(), error))?;
        let question = Question::of(&running.lab);
        let is_thrifty = matches!(question, Question::Update | Question::Paths);
        let is_thrifty = is_thrifty || running.lab.captures_links;
        let settle = if is_thrifty { SETTLE_BLOCKS } else { SETTLE };
        let mut all = Self::none(folder, settle);
        let of_ports = words(question, &running.lab);
        for node in &running.lab.capture {
            let networks = running.lab.networks_of(node);
            let mut networks = networks.iter();
            networks.try_for_each(|network| {
                all.add(running, (node, network, false), BUFFER_KIB, &of_ports)
            })?;
        }
        for (node, interface, filter) in between(running) {
            let words = [words(Question::Routes, &running.lab), vec![filter.to_owned()]].concat();
            all.add(running, (node, interface, true), BUFFER_KIB, &words)?;
        }
        all.listen()
    }

    /// Starts captures of whatever comes in anywhere: at links, from the data network, and at endpoints and functions.
    pub(crate) fn start_everywhere(running: &RunningLab, folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder)
            .map_err(|error| LabError::io("create", folder.display().to_string(), error))?;
        let mut all = Self::none(folder, SETTLE_BLOCKS);
        let words = words(Question::Forged, &running.lab);
        for node in &running.plan.nodes {
            let links = node.links.iter().map(String::as_str);
            let is_host = node.role == NodeRole::Host;
            for interface in links.chain(is_host.then_some(DATA_INTERFACE)) {
                all.add(running, (&node.name, interface, true), SMALL_BUFFER_KIB, &words)?;
            }
        }
        for port in &running.plan.ports {
            let place = (port.device.as_str(), port.network.as_str(), true);
            all.add(running, place, SMALL_BUFFER_KIB, &words)?;
        }
        all.listen()
    }

    fn none(folder: &Path, settle: Duration) -> Self {
        Self { folder: folder.to_path_buf(), began: Moment::now(), settle, captures: Vec::new() }
    }

    fn add(
        &mut self,
        running: &RunningLab,
        (node, interface, is_between): (&str, &str, bool),
        buffer_kib: &str,
        words: &[String],
    ) -> Result<()> {
        let file = self.folder.join(pcap_name(node, interface));
        let said = self.folder.join(format!("{node}.{interface}.txt"));
        let mut command = Command::new("tcpdump");
        command.args(["-n", "--time-stamp-precision=nano", "-Z", "root"]);
        command.args(["-B", buffer_kib, "-i", interface, "-w"]).arg(&file).args(words);
        let program = Process::start(&running.doorway(node)?, command, &said)?;
        let (node, interface) = (node.to_owned(), interface.to_owned());
        self.captures.push(Capture { node, interface, is_between, program });
        Ok(())
    }

    /// Waits until all listen.
    fn listen(mut self) -> Result<Self> {
        for capture in &mut self.captures {
            capture.program.wait_for("listening on")?;
        }
        Ok(self)
    }

    /// Ends the captures. `counted`: the frames that each interface (`v1@customer`) counted
    /// meanwhile; a capture with fewer has lost some.
    pub(crate) fn end(
        self,
        running: &RunningLab,
        counted: &BTreeMap<String, u64>,
    ) -> Result<Captured> {
        std::thread::sleep(self.settle);
        let mut captured = Captured {
            folder: self.folder,
            began: self.began,
            interfaces: Map::new(),
            between: Vec::new(),
            at_routers: Vec::new(),
        };
        for Capture { node, interface, is_between, program } in self.captures {
            let lost = lost_in(&program.interrupt()?);
            if is_between {
                let pcap = pcap_name(&node, &interface);
                let is_router = running.lab.routers.contains(&node);
                let Captured { between, at_routers, .. } = &mut captured;
                let all = if is_router { at_routers } else { between };
                all.push(json!({"node": node, "interface": interface, "pcap": pcap, "lost": lost}));
                continue;
            }
            let mut of_port = interface_of(running, &node, &interface, lost);
            of_port["counted"] = json!(counted.get(&format!("{node}@{interface}")));
            captured.interfaces.entry(node).or_insert_with(|| json!({}))[interface] = of_port;
        }
        Ok(captured)
    }
}

/// Where chains come in from other nodes, or at routers on the way, if that is captured: node, interface, and which
/// frames are theirs.
fn between(running: &RunningLab) -> impl Iterator<Item = (&str, &str, &'static str)> {
    let nodes = running.plan.nodes.iter().filter(|_| running.lab.captures_links);
    let between_nodes = nodes.flat_map(|node| {
        let links = node.links.iter().filter(|link| *link != STRANGE_LINK);
        let links = links.map(|link| (node.name.as_str(), link.as_str(), SOURCE_ROUTES));
        let is_host = node.role == NodeRole::Host;
        let tunnels = is_host.then_some((node.name.as_str(), DATA_INTERFACE, TUNNELS));
        links.chain(tunnels)
    });
    between_nodes.chain(at_routers(&running.lab))
}

/// Where routers get what nodes send each other.
fn at_routers(lab: &Lab) -> Vec<(&str, &str, &'static str)> {
    let subnets = Subnets::of_lab(lab);
    let routers = lab.routers.iter().filter(|_| lab.captures_links);
    let joints = routers.flat_map(|router| {
        subnets.joints(router).iter().map(move |joint| (router.as_str(), joint.bridge, TUNNELS))
    });
    joints.collect()
}

/// What is kept of what, in tcpdump's words.
fn words(question: Question, lab: &Lab) -> Vec<String> {
    let words: &[&str] = match question {
        // Every frame, so that its number can be held against the interface's; where records are judged, to its end:
        // what is left of them may be anywhere.
        Question::Update | Question::Paths if lab.asks_for(&Claim::Telemetry) => &[],
        Question::Update | Question::Paths => &["-s", SNAP_BYTES_OURS],
        Question::Steering => &["--immediate-mode", "-s", SNAP_BYTES, "udp"],
        Question::Users => &["--immediate-mode", "-s", SNAP_BYTES_USERS, "udp"],
        // Whole: what is the same on both sides is told by all of it.
        Question::Verdicts => &["--immediate-mode", "ip"],
        // What a data plane sends is not shown where it leaves, but where it comes in.
        Question::Routes | Question::Telemetry => &["-Q", "in"],
        // They are short, whatever stands in front of them.
        Question::Forged => &["-Q", "in", "-s", SNAP_BYTES_USERS],
        Question::Streams => {
            let words = ["--immediate-mode", "-s", SNAP_BYTES].map(str::to_owned);
            return words.into_iter().chain([sampled(lab)]).collect();
        }
    };
    words.iter().map(|&word| word.to_owned()).collect()
}

/// The packets of streams that are kept: towards the receiver, one in sixteen.
fn sampled(lab: &Lab) -> String {
    let tcp = lab.traffic.iter().filter(|traffic| traffic.tool.is_tcp());
    let mut ports: Vec<String> = tcp.map(|traffic| traffic.port.to_string()).collect();
    ports.sort_unstable();
    ports.dedup();
    // tcpdump finds TCP's header behind IPv4 alone.
    let is_kept = |sequence: &str| {
        let shift = u32::BITS - SAMPLED_BITS;
        format!("((({sequence} * {SPREAD}) >> {shift}) = 0)")
    };
    format!(
        "tcp dst port ({}) and ((ip and {}) or (ip6 and {}))",
        ports.join(" or "),
        is_kept("tcp[4:4]"),
        is_kept("ip6[44:4]")
    )
}

fn pcap_name(node: &str, interface: &str) -> String {
    format!("{node}.{interface}.pcap")
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

pub(crate) fn write_json(path: &Path, value: &impl serde::Serialize) -> Result<()> {
    let object = || path.display().to_string();
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| LabError::io("encode", object(), error))?;
    fs::write(path, text + "\n").map_err(|error| LabError::io("write", object(), error))
}

pub(crate) fn read_json(path: &Path) -> Result<Value> {
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
