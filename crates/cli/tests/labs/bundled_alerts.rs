//! What bundled functions of a chain tell: alerts are read at the controller, flow records reach their collector, and
//! an ips ends what its rules say.

use crate::account;
use crate::bundled::{PATIENCE, SILENCE, connect, talk};
use crate::house::{House, in_shared_house};
use crate::patience::wait_for;
use crate::traffic::{Family, address};
use catena_wire::ipfix::{FlowRecord, Message};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::process::{Command, Stdio};

const PORT: u16 = 5_181;
/// The lines of the rules.
const RULES: &str = "alert http any any -> any any (msg:\"seen \\\"evil\\\"\"; flow:established,to_server; http.uri; \
                     content:\"/evil\"; sid:1000001; rev:3;)\n\
                     drop tcp any any -> any any (msg:\"ended\"; content:\"attack\"; sid:1000002;)\n";
const REQUEST: &[u8] = b"GET /evil?x=%1b[2J HTTP/1.1\r\nHost: web\r\nUser-Agent: curl\r\n\r\n";

fn document(collector: SocketAddr) -> String {
    format!(
        "
functions:
  - {{name: guard, template: {{runs: {{bundled: ips}}, config: {{file: web.rules}}, \
       networks: [customer], on: [host2]}}}}
  - {{name: flows, template: {{runs: {{bundled: monitor}}, config: {{ipfix: \"{collector}\", idle_seconds: 1, domain: 9}}, \
       networks: [customer], on: [host2]}}}}
chains:
  - {{name: watched, source: S, destination: D, classify: tcp, through: [guard, flows, v8], symmetric: true}}
"
    )
}

/// The records that come within the patience, until there is one of a port.
fn record_of(collector: &UdpSocket, port: u16) -> FlowRecord {
    collector.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let mut bytes = [0; 65_535];
    loop {
        let length = collector.recv(&mut bytes).expect("records come");
        let message = Message::parse(&bytes[..length]).expect("IPFIX");
        assert_eq!(message.header.domain, 9);
        let mut records = message.sets().flat_map(|set| set.records());
        if let Some(record) = records.find(|record| record.flow.destination_port == port) {
            return record;
        }
    }
}

/// By another clock than ours, in the form of alerts.
fn now() -> String {
    let told = Command::new("date").args(["-u", "+%Y-%m-%dT%H:%M:%S"]).output();
    String::from_utf8_lossy(&told.expect("it tells").stdout).trim().to_owned()
}

fn alerts(house: &House) -> Vec<Value> {
    let told = house.tell(&["function", "alerts", "guard"]);
    told.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn what_functions_of_a_chain_tell_is_read_where_it_is_asked_for() {
    in_shared_house(|house| {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("watched.yaml");
        let to = SocketAddr::new(address("D", Family::V4), PORT);
        let listener = house.node("D").inside(|| TcpListener::bind(to).expect("a free port"));
        let collector = house.node("host2").inside(|| UdpSocket::bind("127.0.0.1:0"));
        let collector = collector.expect("a socket");
        let place = collector.local_addr().expect("an address");
        std::fs::write(folder.path().join("web.rules"), RULES).expect("a file");
        std::fs::write(&file, document(place)).expect("a file");
        let file = file.display().to_string();
        let before = house.declared();
        let told = house.tell(&["apply", "-f", &file, "--wait"]);
        assert!(told.contains("chain watched   active"), "{told}");
        assert!(alerts(house).is_empty());
        // Both inside stand beside each other at one host.
        let shown = house.tell(&["chain", "show", "watched", "-o", "json"]);
        let shown: Value = serde_json::from_str(&shown).expect("JSON");
        let hops = shown["paths"][0]["hops"].as_array().expect("hops").iter();
        let hops: Vec<Value> =
            hops.map(|hop| json!([hop["hop"], hop["member"], hop["function"]])).collect();
        assert_eq!(json!(hops), json!([[0, 0, "guard"], [0, 1, "flows"], [1, 0, "v8"]]));
        let checked = house.tell(&["chain", "check", "watched"]);
        assert!(checked.contains("16 probes visited guard, flows, v8 in order"), "{checked}");

        let mut near = connect(house, PORT, PATIENCE).expect("it passes");
        let (mut far, _) = listener.accept().expect("it arrives");
        talk(&mut near, &mut far);
        let began = now();
        near.write_all(REQUEST).expect("it leaves");
        let mut heard = [0; REQUEST.len()];
        far.read_exact(&mut heard).expect("an alert ends nothing");
        let alert = wait_for("an alert", || {
            alerts(house).into_iter().next().ok_or_else(|| "there is none".to_owned())
        });
        assert_eq!(alert["alert"]["signature"], "seen \"evil\"", "{alert}");
        assert_eq!(alert["alert"]["action"], "allowed", "{alert}");
        assert_eq!(alert["http"]["url"], "/evil?x=%1b[2J", "{alert}");
        assert_eq!(alert["dest_port"], PORT, "{alert}");
        let told = alert["timestamp"].as_str().and_then(|time| time.get(..19)).expect("a time");
        assert!(*began <= *told && *told <= *now(), "{began} {told}");

        // Who follows is told of what comes.
        let mut command = Command::new(env!("CARGO_BIN_EXE_catena"));
        command.args(["--url", house.client.base(), "function", "alerts", "guard", "--follow"]);
        let mut follower = command.stdout(Stdio::piped()).spawn().expect("the binary runs");
        let mut lines = BufReader::new(follower.stdout.take().expect("a pipe")).lines();
        let mut next = || -> Value {
            let line = lines.next().expect("it goes on").expect("a line");
            serde_json::from_str(&line).expect("JSON")
        };
        assert_eq!(next(), alert);
        near.write_all(b"an attack").expect("it leaves");
        let ended = next();
        assert_eq!(ended["alert"]["signature_id"], 1_000_002, "{ended}");
        assert_eq!(ended["alert"]["action"], "blocked", "{ended}");
        follower.kill().and_then(|()| follower.wait()).expect("it ends");
        far.set_read_timeout(Some(SILENCE)).expect("a timeout");
        let passed = far.read(&mut heard).expect_err("the ips ends it, and what comes again");
        assert_eq!(passed.kind(), ErrorKind::WouldBlock);

        drop((near, far));
        let record = record_of(&collector, PORT);
        assert_eq!(record.flow.source, address("S", Family::V4));
        wait_for("all that was told", || {
            let shown = house.tell(&["function", "show", "flows"]);
            let is_sent = shown.contains("sent to its collector") && !shown.contains("not sent");
            if is_sent { Ok(()) } else { Err(shown) }
        });
        let shown = house.tell(&["function", "show", "guard"]);
        for part in
            ["web.rules line 1, sid 1000001", "web.rules line 2, sid 1000002", "kept as alerts"]
        {
            assert!(shown.contains(part), "no '{part}' in:\n{shown}");
        }
        account::assert_holds(house);
        let refused = house.refuse(&["function", "alerts", "v8"]);
        assert!(refused.contains("'v8' does not come with Catena"), "{refused}");
        house.tell(&["apply", "-f", &file, "--undeploy"]);
        assert_eq!(house.declared(), before, "nothing of it is left");
    });
}
