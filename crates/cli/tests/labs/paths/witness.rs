//! What probes were seen at: captures at the ends and at functions, and the independent proof that
//! judges them. Knows where packets must go; refuses to know why.

use crate::capture::Capture;
use crate::house::House;
use crate::traffic::{Family, address};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Destination port of the probes, unless a test says another.
pub(super) const PORT: u16 = 5_030;
/// Flows of one probe unless a test says another number, each of its own source port, and datagrams
/// of each flow.
const FLOWS: u32 = 5;
const DATAGRAMS: u32 = 2;
/// A datagram that takes this long never comes.
const LOST_AFTER: Duration = Duration::from_secs(5);
/// What was answered was seen long before; captures hand over what they saw within this time.
pub(super) const HANDING_OVER: Duration = Duration::from_millis(100);
/// Run, flow and number, as the proof reads them.
const IDENTITY_BYTES: usize = 12;

const ENDS: [&str; 3] = ["S", "D", "ext"];

/// From one end to another, over UDP.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    pub(super) from: &'static str,
    pub(super) to: &'static str,
    /// None: any free one, another for each flow.
    pub(super) source_port: Option<u16>,
    pub(super) port: u16,
    pub(super) flows: u32,
}

impl Way {
    pub(super) const fn new(from: &'static str, to: &'static str) -> Self {
        Self { from, to, source_port: None, port: PORT, flows: FLOWS }
    }

    pub(super) const fn with_port(self, port: u16) -> Self {
        Self { port, ..self }
    }

    pub(super) const fn with_source_port(self, port: u16) -> Self {
        Self { source_port: Some(port), flows: 1, ..self }
    }

    pub(super) const fn of_flows(self, flows: u32) -> Self {
        Self { flows, ..self }
    }
}

/// A capture and whose it is.
struct Place {
    node: String,
    network: String,
    mac: String,
    capture: Capture,
}

/// Captures at all ends and at some functions, and what the probes sent meanwhile must show.
pub(super) struct Witness {
    folder: tempfile::TempDir,
    places: Vec<Place>,
    expected: Vec<Value>,
}

impl Witness {
    /// Begins to look at the ends and at the networks of these functions.
    pub(super) fn at(house: &House, functions: &[(&str, &[&str])]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let ends = ENDS.map(|name| (name, &["customer"][..]));
        let mut places = Vec::new();
        for (name, networks) in ends.iter().chain(functions) {
            let node = house.node(name);
            for network in *networks {
                places.push(Place {
                    node: (*name).into(),
                    network: (*network).into(),
                    mac: node.mac(network),
                    capture: Capture::start(&node, network, "", folder.path()),
                });
            }
        }
        Self { folder, places, expected: Vec::new() }
    }

    /// Sends datagrams on a way, all of which must arrive and be answered. They must be seen to
    /// pass exactly one instance of each of `functions`, in order; answers of a symmetric chain
    /// meet the same ones in reverse, others none. Answers who the receiver took for the sender.
    pub(super) fn expect(
        &mut self,
        house: &House,
        what: &str,
        (way, family): (Way, Family),
        functions: &[&[&str]],
        is_symmetric: bool,
    ) -> BTreeSet<IpAddr> {
        let run = u32::try_from(self.expected.len()).expect("a number of probes");
        let senders = exchange(house, what, way, family, run);
        let steps = functions.iter().map(|names| {
            let instances: Vec<Value> =
                names.iter().map(|name| json!({"name": name, "weight": 1})).collect();
            json!({"name": names.join(" or "), "direction": "same", "instances": instances})
        });
        self.expected.push(json!({
            "name": what, "run": run, "phase": run, "chain": what, "source": way.from,
            "destination": way.to, "port": way.port, "flows": way.flows, "sent": way.flows * DATAGRAMS,
            "answers": true, "symmetric": is_symmetric, "steps": steps.collect::<Vec<_>>(),
        }));
        senders
    }

    /// Has the proof judge everything that was expected; its verdict.
    pub(super) fn judge(self) -> Value {
        std::thread::sleep(HANDING_OVER);
        let mut groups = [Map::new(), Map::new()];
        for Place { node, network, mac, capture } in self.places {
            let [ends, functions] = &mut groups;
            let group = if ENDS.contains(&node.as_str()) { ends } else { functions };
            let file = capture.stop();
            let name = file.file_name().expect("a name").to_string_lossy().into_owned();
            let entry = group.entry(node).or_insert_with(|| json!({}));
            entry[network] = json!({"mac": mac, "pcap": name, "lost": 0});
        }
        let [endpoints, functions] = groups;
        let description =
            json!({"endpoints": endpoints, "functions": functions, "traffic": self.expected});
        let file = |name: &str| self.folder.path().join(name);
        fs::write(file("lab.json"), description.to_string()).expect("the description is written");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs/proof/path_proof.py");
        let judged = Command::new("python3")
            .args([&script, &file("lab.json"), &file("proof.json")])
            .output()
            .expect("python3 runs");
        let wrong = String::from_utf8_lossy(&judged.stderr);
        assert!(judged.status.success(), "not the paths that were expected:\n{wrong}");
        let verdict = fs::read_to_string(file("proof.json")).expect("a verdict");
        serde_json::from_str(&verdict).expect("a verdict in JSON")
    }
}

/// Sends one datagram after the other and awaits each answer. Answers who the receiver took for the
/// sender.
fn exchange(house: &House, what: &str, way: Way, family: Family, run: u32) -> BTreeSet<IpAddr> {
    let mut senders = BTreeSet::new();
    let to = SocketAddr::new(address(way.to, family), way.port);
    let bound = |node: &str, address: SocketAddr| {
        let socket = house.node(node).inside(|| UdpSocket::bind(address)).expect("a free port");
        socket.set_read_timeout(Some(LOST_AFTER)).expect("a timeout");
        socket
    };
    let receiver = bound(way.to, to);
    let own: IpAddr = address(way.from, family);
    for flow in 0..way.flows {
        let sender = bound(way.from, SocketAddr::new(own, way.source_port.unwrap_or(0)));
        for number in 0..DATAGRAMS {
            let identity = [run, flow, number].map(u32::to_be_bytes).concat();
            sender.send_to(&identity, to).expect("a datagram leaves");
            let mut bytes = [0; IDENTITY_BYTES];
            let (_, from) = receiver
                .recv_from(&mut bytes)
                .unwrap_or_else(|error| panic!("{what}: a datagram of {way:?} is lost: {error}"));
            assert_eq!(bytes[..], identity, "{what}");
            senders.insert(from.ip());
            receiver.send_to(&bytes, from).expect("an answer leaves");
            let answer = sender.recv(&mut bytes);
            answer.unwrap_or_else(|error| panic!("{what}: an answer of {way:?} is lost: {error}"));
        }
    }
    senders
}
