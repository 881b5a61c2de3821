//! Bad input: a clear message that names what is wrong, exit code 1, and nothing left behind.

use crate::house::{CATENA, House, in_shared_house};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;

const ABSENT: &str = "00000000-0000-4000-8000-000000000001";

fn file(folder: &tempfile::TempDir, text: &str) -> PathBuf {
    let path = folder.path().join("chain.json");
    std::fs::write(&path, text).expect("a file");
    path
}

/// The binary refuses a document and says these words; what is declared stays as it was.
fn assert_refused(house: &House, text: &str, words: &[&str]) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = file(&folder, text);
    let before = house.declared();
    let said = house.refuse(&["chain", "deploy", &path.display().to_string()]);
    for word in words {
        assert!(said.contains(word), "'{word}' is missing in: {said}");
    }
    assert_eq!(house.declared(), before, "{said}");
}

/// One request as bytes on the wire: status code and body of the answer.
fn request(house: &House, method: &str, path: &str, body: &[u8]) -> (u16, String) {
    let address = house.client.base().trim_start_matches("http://");
    let mut socket = TcpStream::connect(address).expect("the API listens");
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    socket.write_all(head.as_bytes()).expect("a request leaves");
    socket.write_all(body).expect("a body leaves");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("an answer in UTF-8");
    let status = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    (status, body.to_owned())
}

/// A refusal in the border's own form: its type and its text.
fn neutron_error(body: &str) -> (String, String) {
    let body: Value = serde_json::from_str(body).unwrap_or_else(|_| panic!("no JSON: {body}"));
    let text = |key: &str| body["NeutronError"][key].as_str().unwrap_or_default().to_owned();
    (text("type"), text("message"))
}

#[test]
fn a_chain_document_that_makes_no_sense_is_refused_by_name() {
    in_shared_house(|house| {
        let step = |name: &str, direction: &str| {
            json!({
                "source": "S", "destination": "D", "match_fields": {"protocol": "udp"},
                "chain": [{"name": name, "direction": direction}],
            })
            .to_string()
        };
        assert_refused(house, "{\"source\": \"S\",", &["chain.json", "line 1"]);
        assert_refused(house, "", &["chain.json"]);
        assert_refused(house, "\u{0}\u{1}", &["chain.json"]);
        assert_refused(house, &step("v99", "same"), &["v99"]);
        assert_refused(house, &step("v1", "sideways"), &["sideways"]);
        assert_refused(house, &step("v11", "in"), &["v11"]);
        let with = |key: &str, value: Value| {
            let mut document: Value = serde_json::from_str(&step("v8", "same")).expect("JSON");
            document[key] = value;
            document.to_string()
        };
        assert_refused(house, &with("source", json!("nobody")), &["nobody"]);
        assert_refused(house, &with("destination", json!("I")), &["S", "I"]);
        assert_refused(house, &with("colour", json!("red")), &["colour"]);
        assert_refused(house, &with("encapsulation", json!("pigeon")), &["pigeon"]);
        for (fields, word) in [
            (json!({"destination_port": 70_000, "protocol": "udp"}), "70000"),
            (json!({"protocol": "carrots"}), "carrots"),
            (json!({"source_ip_prefix": "10.0.0.0/33"}), "10.0.0.0/33"),
            (json!({"flavour": "sweet"}), "flavour"),
        ] {
            assert_refused(house, &with("match_fields", fields), &[word]);
        }
    });
}

#[test]
fn a_function_with_two_egresses_for_one_ingress_is_refused_by_name() {
    in_shared_house(|house| {
        let document = |name: &str, direction: &str, port: u16| {
            json!({
                "name": name, "source": "S", "destination": "D",
                "match_fields": {"protocol": "udp", "destination_port": port},
                "chain": [{"name": "v1", "direction": direction}],
            })
        };
        let first = house.deploy(document("first", "in", 5_071));
        assert_refused(house, &document("second", "same", 5_072).to_string(), &["v1"]);
        let state = house.chain(&first.chain).status.state;
        assert_eq!(state, catena_model::status::ChainState::Active);
    });
}

#[test]
fn requests_that_make_no_sense_are_refused_in_the_borders_words() {
    in_shared_house(|house| {
        let before = house.declared();
        let chains = "/v2.0/sfc/port_chains";
        let deep = "[".repeat(100_000);
        for body in ["", "{", "nonsense", "[]", "{\"port_chain\": 7}", "\u{fffd}", deep.as_str()] {
            let (status, answer) = request(house, "POST", chains, body.as_bytes());
            assert_eq!(status, 400, "{answer}");
            assert!(!neutron_error(&answer).1.is_empty(), "{answer}");
        }
        let (status, answer) = request(house, "POST", chains, b"{\"port_chain\": \"\xff\"}");
        assert_eq!(status, 400, "{answer}");
        let body = json!({"port_chain": {"name": "x", "port_pair_groups": [ABSENT]}}).to_string();
        let (status, answer) = request(house, "POST", chains, body.as_bytes());
        let (_, message) = neutron_error(&answer);
        assert!(status == 404 && message.contains(ABSENT), "{status} {message}");
        for (method, path) in [
            ("GET", format!("{chains}/{ABSENT}")),
            ("DELETE", format!("{chains}/{ABSENT}")),
            ("GET", "/v2.0/sfc/port_pairs/not-an-id".to_owned()),
            ("GET", "/v2.0/sfc/nothing".to_owned()),
            ("GET", "/v1/chains/nobody".to_owned()),
            ("GET", "/../../etc/passwd".to_owned()),
        ] {
            let (status, answer) = request(house, method, &path, b"");
            assert_eq!(status, 404, "{method} {path}: {answer}");
        }
        assert_eq!(house.declared(), before);
    });
}

#[test]
fn verbs_that_cannot_do_their_work_say_why() {
    in_shared_house(|house| {
        assert!(house.refuse(&["chain", "show", "nobody"]).contains("nobody"));
        assert!(house.refuse(&["chain", "undeploy", "nobody"]).contains("nobody"));
        assert!(house.refuse(&["chain", "deploy", "/no/such/file"]).contains("/no/such/file"));
        assert!(house.refuse(&["lab", "status", "nowhere"]).contains("nowhere"));
        assert!(house.refuse(&["lab", "down", "nowhere"]).contains("nowhere"));
        assert!(house.refuse(&["lab", "up", "/no/such/lab"]).contains("/no/such/lab"));
        let node = format!("{}/nobody", house.name);
        assert!(house.refuse(&["lab", "shell", &node, "true"]).contains("nobody"));
        let nobody = ["--url", "http://127.0.0.1:1", "status"];
        let away = Command::new(CATENA).args(nobody).output().expect("the binary runs");
        assert_eq!(away.status.code(), Some(1));
        let away = String::from_utf8_lossy(&away.stderr);
        assert!(away.contains("http://127.0.0.1:1"), "{away}");
        // Wrong usage is told apart from failure.
        assert_eq!(house.catena(&["chain", "dance"]).status.code(), Some(2));
        assert_eq!(house.catena(&["chain", "deploy", "x", "--repeat", "0"]).status.code(), Some(2));
    });
}

#[test]
fn a_lab_file_that_makes_no_sense_is_refused_with_line_and_advice() {
    in_shared_house(|house| {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("bad.yaml");
        for (text, word) in [
            ("name: x\nhosts: {h1: {}}\ncolour: red\n", "colour"),
            ("name: x\nhosts: {h1: {}}\nendpoints: {S: {on: h2, networks: []}}\n", "h2"),
            ("name: x\nhosts: {}\n", "hosts"),
            ("name: 'a b'\nhosts: {h1: {}}\n", "a b"),
            ("{", "bad.yaml"),
            ("", "bad.yaml"),
        ] {
            std::fs::write(&path, text).expect("a file");
            let said = house.refuse(&["lab", "up", &path.display().to_string()]);
            assert!(said.contains(word), "{said}");
        }
    });
}
