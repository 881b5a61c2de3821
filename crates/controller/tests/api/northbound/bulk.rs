//! Bulk creation: lines in, lines out, as they come.

use crate::support::{Controller, open};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

fn post(controller: &Controller, kind: &str, body: String) -> (u16, Vec<Value>) {
    let (http, url) = controller.raw();
    let request = http.post(format!("{url}/v1/bulk")).header("Content-Type", kind).body(body);
    let answer = request.send().unwrap();
    let status = answer.status().as_u16();
    let text = answer.text().unwrap();
    (status, text.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

const NDJSON: &str = "application/x-ndjson";

#[test]
fn each_line_is_answered_in_order_and_a_wrong_one_takes_no_other_with_it() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    let lines = [
        json!({"network": {"name": "one"}}).to_string(),
        "{".into(),
        json!({"colour": {"name": "red"}}).to_string(),
        json!({"network": {"name": "two", "colour": "red"}}).to_string(),
        json!({"port_pair_group": {"port_pairs": [uuid()]}}).to_string(),
        json!({"network": {"name": "three"}}).to_string(),
    ];
    let (status, answers) = post(&controller, NDJSON, lines.join("\n"));
    assert_eq!(status, 200);
    let told: Vec<(u64, u64)> = answers
        .iter()
        .map(|answer| (answer["line"].as_u64().unwrap(), answer["status"].as_u64().unwrap()))
        .collect();
    assert_eq!(told, [(1, 201), (2, 400), (3, 400), (4, 400), (5, 404), (6, 201)], "{answers:#?}");
    assert_eq!(answers[0]["network"]["name"], "one");
    assert_eq!(answers[4]["NeutronError"]["type"], "PortPairNotFound");
    controller.stop();
    let controller = Controller::start(open(data.path()));
    let kept = controller.get("/v2.0/networks");
    let mut names: Vec<&str> =
        kept["networks"].as_array().unwrap().iter().map(|n| n["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["one", "three"], "what was answered with 201 is durable");
}

fn uuid() -> &'static str {
    "00000000-0000-4000-8000-000000000001"
}

#[test]
fn a_body_may_be_long_but_not_a_line_and_it_says_what_it_is() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    let text = "x".repeat(100_000);
    let line = json!({"network": {"name": "n", "description": text}}).to_string();
    let lines = vec![line; 20].join("\n");
    let too_long = format!("{{\"network\": {{\"name\": \"{}\"}}}}", "y".repeat(1_100_000));
    let (_, answers) =
        post(&controller, NDJSON, format!("{lines}\n{too_long}\n{{\"network\": {{}}}}"));
    let statuses: Vec<u64> = answers.iter().map(|a| a["status"].as_u64().unwrap()).collect();
    // A description is bounded as it is for a single one: each line is judged alike.
    assert_eq!(statuses.len(), 21, "nothing after a line that is too long is read");
    assert_eq!(statuses.last(), Some(&413));
    assert!(statuses[..20].iter().all(|status| *status == statuses[0]), "{statuses:?}");
    let (status, _) = post(&controller, "application/json", String::new());
    assert_eq!(status, 415);
}

#[test]
fn a_line_is_answered_before_the_next_is_sent() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    let address = controller.url.trim_start_matches("http://").to_owned();
    let mut socket = TcpStream::connect(&address).unwrap();
    let head = format!(
        "POST /v1/bulk HTTP/1.1\r\nHost: {address}\r\nContent-Type: {NDJSON}\r\n\
         Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    );
    socket.write_all(head.as_bytes()).unwrap();
    let mut reader = BufReader::new(socket.try_clone().unwrap());
    let mut send = |line: &Value| {
        let line = format!("{line}\n");
        let chunk = format!("{:x}\r\n{line}\r\n", line.len());
        socket.write_all(chunk.as_bytes()).unwrap();
    };
    let mut answer = || loop {
        let mut line = String::new();
        assert!(reader.read_line(&mut line).unwrap() > 0, "the answers have ended");
        if line.starts_with('{') {
            return serde_json::from_str::<Value>(&line).unwrap();
        }
    };
    send(&json!({"network": {"name": "n"}}));
    let network = answer()["network"]["id"].clone();
    assert!(network.is_string());
    send(&json!({"subnet": {"network_id": network, "cidr": "10.0.0.0/24", "ip_version": 4}}));
    let subnet = answer();
    assert_eq!((&subnet["status"], &subnet["line"]), (&json!(201), &json!(2)), "{subnet}");
}
