//! The verbs as people and programs use them, against a running lab.

use crate::house::{House, in_shared_house};
use crate::patience::wait_for;
use crate::traffic::{Family, address, send_and_count};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

const PORT: u16 = 5_001;
/// The form of the study's section IV.
const DOCUMENT: &str = r#"{
  "name": "SFP1",
  "source": "S",
  "destination": "D",
  "match_fields": {"protocol": "udp", "destination_port": 5001},
  "chain": [
    {"name": "v1", "direction": "in"},
    {"name": "v4", "direction": "same"},
    {"name": "v7", "direction": "out"}
  ]
}"#;

fn send(house: &House, count: u32) {
    let to = SocketAddr::new(address("D", Family::V4), PORT);
    send_and_count(&house.node("S"), &house.node("D"), to, count);
}

/// The line of a table that begins with a word.
fn line<'t>(table: &'t str, word: &str) -> &'t str {
    let is_it = |line: &&str| line.split_whitespace().next() == Some(word);
    table.lines().find(is_it).unwrap_or_else(|| panic!("no line '{word}' in:\n{table}"))
}

pub(crate) fn metrics(house: &House) -> String {
    let address = house.client.base().trim_start_matches("http://");
    let mut socket = TcpStream::connect(address).expect("the API listens");
    let head = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    socket.write_all(head.as_bytes()).expect("a request leaves");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("an answer in UTF-8");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    answer
}

#[test]
fn a_chain_is_deployed_and_undeployed_by_the_command_line() {
    in_shared_house(|house| {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("sfp1.json");
        std::fs::write(&file, DOCUMENT).expect("a file");
        let file = file.display().to_string();
        let before = house.declared();

        let table = house.tell(&["chain", "deploy", &file]);
        assert!(line(&table, "SFP1").contains("active"), "{table}");
        send(house, 70);
        wait_for("moving counters", || {
            let shown = house.tell(&["chain", "show", "SFP1"]);
            let is_there =
                ["v1", "v4", "v7"].iter().all(|name| line(&shown, name).contains(" 70 "));
            if is_there { Ok(()) } else { Err(shown) }
        });
        let shown = house.tell(&["chain", "show", "SFP1", "-o", "json"]);
        let shown: Value = serde_json::from_str(&shown).expect("JSON");
        assert_eq!(shown["functions"], serde_json::json!(["v1", "v4", "v7"]));
        assert!(line(&house.tell(&["chain", "list"]), "SFP1").contains("active"));
        house.tell(&["chain", "undeploy", &file]);
        assert_eq!(house.declared(), before, "undeploy takes everything along");
        house.refuse(&["chain", "show", "SFP1"]);

        let runs = house.tell(&["chain", "deploy", &file, "--repeat", "3", "-o", "json"]);
        let runs: Vec<Value> = serde_json::from_str(&runs).expect("JSON");
        assert_eq!(runs.len(), 3);
        for run in &runs {
            assert_eq!(run["status"], "active");
            for step in ["fc", "pp", "ppg", "pc"] {
                let seconds = run["timings"][step].as_f64().expect("a time");
                assert!(seconds > 0.0, "{step}: {run}");
            }
        }
        house.tell(&["chain", "undeploy", "SFP1"]);
        assert_eq!(house.declared(), before);
    });
}

#[test]
fn how_everything_stands_is_told_to_people_and_to_programs() {
    in_shared_house(|house| {
        let document: Value = serde_json::from_str(DOCUMENT).expect("JSON");
        house.deploy(document);
        send(house, 40);
        let status = house.tell(&["status"]);
        assert!(line(&status, "nodes").contains("4/4"), "{status}");
        assert!(line(&status, "chains").contains("1 of 1 active"), "{status}");
        assert!(status.contains("unaccounted 0"), "{status}");
        assert!(line(&status, "ring").contains("ring full"), "{status}");
        let nodes = house.tell(&["node", "list"]);
        for host in ["host1", "host2", "host3", "host4"] {
            let line = line(&nodes, host);
            assert!(line.contains(" ok ") && line.trim_end().ends_with(" 0"), "{nodes}");
        }
        let metrics = metrics(house);
        let value = |name: &str, labels: &[&str]| -> Option<f64> {
            let is_it = |line: &&str| {
                line.starts_with(name) && labels.iter().all(|label| line.contains(label))
            };
            metrics.lines().find(is_it)?.rsplit(' ').next()?.parse().ok()
        };
        let entered = value("catena_chain_entered_packets", &["SFP1", "host1"]);
        assert_eq!(entered, Some(40.0), "{metrics}");
        for (function, host) in [("v1", "host1"), ("v4", "host3"), ("v7", "host3")] {
            let instance = format!("instance=\"{function}\"");
            let returned = value("catena_hop_returned_packets", &["SFP1", host, &instance]);
            assert_eq!(returned, Some(40.0), "{function}: {metrics}");
        }
        for host in ["host1", "host2", "host3", "host4"] {
            assert_eq!(value("catena_unaccounted_packets", &[host]), Some(0.0), "{host}");
            assert_eq!(value("catena_node_connected", &[host]), Some(1.0), "{host}");
        }
        assert!(metrics.trim_end().ends_with("# EOF"), "{metrics}");
    });
}

#[test]
fn a_lab_is_looked_into_by_the_command_line() {
    in_shared_house(|house| {
        let status = house.tell(&["lab", "status", &house.name]);
        for word in [house.name.as_str(), "S", "v10", "host4", "controller", "agent-host1"] {
            assert!(status.contains(word), "'{word}' is missing in:\n{status}");
        }
        assert!(house.tell(&["lab", "status"]).contains(&house.name));
        let inside = |node: &str| format!("{}/{node}", house.name);
        let addresses = house.tell(&["lab", "shell", &inside("S"), "ip", "-o", "address"]);
        assert!(addresses.contains("10.10.0.10/24"), "{addresses}");
        let ping = ["lab", "shell", &inside("S"), "ping", "-q", "-c", "1", "10.10.0.11"];
        assert!(house.tell(&ping).contains("1 received"));
        // The exit code of the command is the verb's.
        let code = house.catena(&["lab", "shell", &inside("D"), "sh", "-c", "exit 7"]);
        assert_eq!(code.status.code(), Some(7));
        // Options behind the node are the command's own.
        let said =
            house.tell(&["lab", "shell", &inside("v1"), "sh", "-c", "echo $CATENA_LAB_NODE"]);
        assert_eq!(said, "v1\n");
    });
}
