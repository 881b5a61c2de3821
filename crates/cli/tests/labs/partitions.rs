//! The management network of a node is cut: packets go on as before, an update waits whole for the
//! node's return, and what is older than what a node has seen is refused by it.

use crate::account;
use crate::capture::Capture;
use crate::deaths::{kill, start_agent_again, wait_gone};
use crate::house::{House, in_own_house};
use crate::patience::wait_for;
use crate::traffic::{Family, Receiver, Sender, address};
use crate::updates::{groups_of, number_of};
use catena_client::Kind;
use catena_model::entry::ProgramVersion;
use catena_model::status::ChainState;
use catena_protocol::frame::{self, FrameReader};
use catena_protocol::message::{
    Delta, FromDataplane, ProgramResult, ToDataplane, from_dataplane, to_dataplane,
};
use serde_json::json;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;

const PORT: u16 = 5_050;
const AWAY: &str = "host2";

fn state_file(house: &House, name: &str) -> std::path::PathBuf {
    house.path("/run/catena/node").join(AWAY).join("state").join(name)
}

fn running(house: &House) -> ProgramVersion {
    let bytes = std::fs::read(state_file(house, "program.log")).expect("a program on disk");
    let changes = catena_dataplane::shell::decode(&bytes).expect("a program");
    changes.last().expect("one change").to
}

fn connected(house: &House, is_connected: bool) {
    wait_for("the controller's word on the node", || {
        let nodes = house.nodes();
        let node = nodes.iter().find(|node| node.status.node.as_str() == AWAY).expect("known");
        let is_it = node.status.is_connected == is_connected;
        if is_it { Ok(()) } else { Err(format!("{:?}", node.status)) }
    });
}

/// Speaks to the data plane of the node as an agent would; the refusal is the answer.
fn offer(house: &House, program: ProgramVersion) -> String {
    let mut stream = UnixStream::connect(state_file(house, "dataplane.sock")).expect("it listens");
    let message = Some(to_dataplane::Message::Delta(Delta {
        node: AWAY.into(),
        number: program.number.0,
        digest: program.digest.0,
        is_last: true,
        ..Delta::default()
    }));
    stream.write_all(&frame::encode(&ToDataplane { message })).expect("it hears");
    let (mut frames, mut bytes) = (FrameReader::default(), [0; 65_536]);
    loop {
        let length = stream.read(&mut bytes).expect("it answers");
        assert!(length > 0, "it hung up");
        frames.push(&bytes[..length]);
        while let Some(FromDataplane { message }) = frames.next_message().expect("in step") {
            if let Some(from_dataplane::Message::ProgramResult(result)) = message {
                let ProgramResult { refusal, .. } = result;
                return refusal;
            }
        }
    }
}

#[test]
fn a_node_cut_off_forwards_on_takes_no_half_update_and_no_older_program() {
    in_own_house("pair.yaml", |house| {
        let to = SocketAddr::new(address("D", Family::V4), PORT);
        let groups = groups_of(house, &["v1", "v2"]);
        let source = house.client.list(Kind::Port, &[("device_id", "S")]).expect("a list");
        let rule = json!({
            "protocol": "udp", "logical_source_port": source[0]["id"],
            "destination_port_range_min": PORT, "destination_port_range_max": PORT,
        });
        let rule = house.client.create(Kind::FlowClassifier, &rule).expect("a rule");
        let chain = json!({
            "name": "cut", "flow_classifiers": [rule["id"]], "port_pair_groups": [groups["v1"]],
        });
        let chain = house.client.create(Kind::PortChain, &chain).expect("a chain");
        let chain = chain["id"].as_str().expect("an id").to_owned();
        house.wait_active(&chain);
        house.wait_settled();
        let (first, stale) = (house.chain(&chain).status.path, running(house));

        let folder = tempfile::tempdir().expect("a folder");
        let filter = format!("udp dst port {PORT}");
        let captures = ["v1", "v2"].map(|name| {
            (name, Capture::start(&house.node(name), "customer", &filter, folder.path()))
        });
        let ring_full = account::ring_full(house);
        let receiver = Receiver::new(&house.node("D"), to);
        let sending = Sender::new(&house.node("S"), to).keep_sending();
        house.node("mgmt").ip(&format!("link set {AWAY} down"));
        connected(house, false);
        // Inserted meanwhile: a function on the node that does not hear of it.
        let longer = json!({"port_pair_groups": [groups["v1"], groups["v2"]]});
        house.client.update(Kind::PortChain, &chain, &longer).expect("it is declared");
        let waiting = house.chain(&chain).status;
        assert_eq!((waiting.state, waiting.path), (ChainState::Updating, first), "{waiting:?}");
        assert!(waiting.reason.contains(AWAY), "{waiting:?}");
        assert_eq!(running(house), stale, "the node has heard nothing");
        house.node("mgmt").ip(&format!("link set {AWAY} up"));
        connected(house, true);
        house.wait_active(&chain);
        house.wait_settled();
        assert_ne!(house.chain(&chain).status.path, first, "it has caught up");
        assert!(running(house).number > stale.number);

        // What was true before comes again, to the data plane itself.
        let agent = house.process("agent", Some(AWAY));
        kill(&agent);
        wait_gone(house, &agent);
        let refusal = offer(house, stale);
        assert!(refusal.contains("is older than program"), "{refusal:?}");
        start_agent_again(house, AWAY, &agent);
        connected(house, true);
        house.wait_settled();
        assert!(running(house).number > stale.number);
        let sent = sending.stop();
        receiver.assert_all(sent);
        assert_eq!(account::ring_full(house), ring_full);

        let mut visits: BTreeMap<u32, Vec<&str>> = BTreeMap::new();
        for (name, capture) in captures {
            for frame in capture.frames() {
                visits.entry(number_of(&frame)).or_default().push(name);
            }
        }
        // Each function is seen twice: into it and out of it.
        let took = |path: &[&str]| visits.values().filter(|seen| seen.as_slice() == path).count();
        let (short, long) = (took(&["v1", "v1"]), took(&["v1", "v1", "v2", "v2"]));
        println!("sent {sent}: {short} by the former path, {long} by the new one");
        assert_eq!(short + long, sent as usize, "a packet took half a path");
        assert!(short > 0 && long > 0);
    });
}
