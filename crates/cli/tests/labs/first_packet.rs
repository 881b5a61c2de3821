//! The promise of the answer: when a chain's POST is answered «active», the first packet takes it;
//! when its DELETE is answered, no packet does any more.

use crate::account::{self, ChainTotal};
use crate::capture::Capture;
use crate::house::in_shared_house;
use crate::patience::Chance;
use crate::traffic::{Family, Receiver, Sender, address};
use crate::updates::{groups_of, number_of};
use catena_client::Kind;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::net::SocketAddr;
use std::time::Duration;

const PORT: u16 = 5_010;
const REPEATS: u32 = 200;
/// One answer in so many comes while the classifier's node is the slowest of all.
const SLOWED: u32 = 8;
const SLOWNESS_MS_MAX: u64 = 60;
/// Functions of one port; v11 is beside the source, the others are on other hosts.
const FUNCTIONS: [&str; 4] = ["v8", "v9", "v10", "v11"];

#[test]
fn the_first_packet_after_the_answer_takes_the_chain() {
    in_shared_house(|house| {
        let mut chance = Chance::new("the_first_packet_after_the_answer_takes_the_chain");
        let groups = groups_of(house, &FUNCTIONS);
        let source_port = house.client.list(Kind::Port, &[("device_id", "S")]).expect("a list");
        let folder = tempfile::tempdir().expect("a folder");
        let filter = format!("udp dst port {PORT}");
        let captures = FUNCTIONS
            .map(|name| Capture::start(&house.node(name), "customer", &filter, folder.path()));
        let to = SocketAddr::new(address("D", Family::V4), PORT);
        let receiver = Receiver::new(&house.node("D"), to);
        let mut sender = Sender::new(&house.node("S"), to);
        let agent = house.process("agent", Some("host1")).pid;
        let mut expected = FUNCTIONS.map(|_| Vec::new());
        for repeat in 0..REPEATS {
            let turn = repeat as usize % FUNCTIONS.len();
            let rule = json!({
                "name": format!("rule-{repeat}"), "protocol": "udp",
                "destination_port_range_min": PORT, "destination_port_range_max": PORT,
                "logical_source_port": source_port[0]["id"],
            });
            let rule = house.client.create(Kind::FlowClassifier, &rule).expect("a classifier");
            let chain = json!({
                "name": format!("chain-{repeat}"), "port_pair_groups": [groups[FUNCTIONS[turn]]],
                "flow_classifiers": [rule["id"]],
            });
            let slowness =
                (repeat % SLOWED == 0).then(|| slow(agent, chance.below(SLOWNESS_MS_MAX)));
            let chain = house.client.create(Kind::PortChain, &chain).expect("a chain");
            expected[turn].push(sender.send());
            assert_eq!(chain["status"], "active", "{repeat}: {}", chain["status_reason"]);
            if let Some(slowness) = slowness {
                slowness.join().expect("the agent goes on");
            }
            let id = chain["id"].as_str().expect("an id");
            account::assert_chain(house, id, &ChainTotal::whole(1, &[FUNCTIONS[turn]]));
            house.client.delete(Kind::PortChain, id).expect("the chain goes");
            let rule = rule["id"].as_str().expect("an id");
            house.client.delete(Kind::FlowClassifier, rule).expect("the classifier goes");
            // Expected at no function.
            sender.send();
        }
        receiver.assert_all(2 * REPEATS);
        for ((name, capture), expected) in FUNCTIONS.iter().zip(captures).zip(expected) {
            // Each packet is seen twice at the one interface: into the function and out of it.
            let mut seen: Vec<u32> = capture.frames().iter().map(number_of).collect();
            seen.sort_unstable();
            let twice: Vec<u32> = expected.iter().flat_map(|number| [*number; 2]).collect();
            assert_eq!(seen, twice, "{name}");
        }
    });
}

/// Keeps an agent from running for a while, beginning now.
fn slow(agent: u32, milliseconds: u64) -> std::thread::JoinHandle<()> {
    let pid = i32::try_from(agent).ok().and_then(Pid::from_raw).expect("a process number");
    kill_process(pid, Signal::STOP).expect("the agent stops");
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(milliseconds));
        kill_process(pid, Signal::CONT).expect("the agent goes on");
    })
}
