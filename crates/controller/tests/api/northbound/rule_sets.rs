//! Rule sets that are larger than a request: sent by themselves, named by functions, hidden from others, gone with the
//! last who names them.

use super::bundled::house;
use crate::support::agent::FakeAgent;
use crate::support::tokens::{Caller, start};
use crate::support::{Controller, PATIENCE, eventually, open};
use catena_controller::Auth;
use catena_model::bundle::Configuration;
use catena_model::limits::{FUNCTION_CONFIG_BYTES_MAX, PROJECT_RULE_SETS_BYTES_MAX};
use catena_model::rule_set::RuleSetDigest;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const END: &str = "-A FORWARD -p tcp -m tcp --dport 4711 -j DROP\nCOMMIT\n";

/// Rules of so many bytes.
fn rules(mark: &str, bytes: usize) -> String {
    let mut text = format!("*filter\n:FORWARD ACCEPT [0:0]\n# {mark}\n");
    while text.len() + 100 + END.len() <= bytes {
        text.push_str(&format!("# {}\n", "x".repeat(97)));
    }
    let left = bytes.saturating_sub(text.len() + END.len() + 2);
    text.push_str(&format!("#{}\n{END}", "x".repeat(left)));
    text
}

fn path(digest: RuleSetDigest) -> String {
    format!("/v1/rule-sets/{digest}")
}

fn naming(digest: RuleSetDigest) -> Value {
    json!({"template": {
        "runs": {"bundled": "firewall"}, "on": ["host1"], "networks": ["left"],
        "config": {"file": {"name": "edge.iptables", "sha256": digest}},
    }})
}

/// Status and body of what somebody is answered who sends bytes.
fn send_as(
    controller: &Controller,
    token: Option<&str>,
    path: &str,
    kind: &str,
    bytes: impl Into<Vec<u8>>,
) -> (u16, Value) {
    let (http, url) = controller.raw();
    let request = http.put(format!("{url}{path}")).header("Content-Type", kind);
    let request = match token {
        Some(token) => request.header("X-Auth-Token", token),
        None => request,
    };
    let answer = request.body(bytes.into()).send().unwrap();
    (answer.status().as_u16(), answer.json().unwrap())
}

fn send(controller: &Controller, text: &str) -> (u16, Value) {
    let path = path(RuleSetDigest::of(text));
    send_as(controller, None, &path, "application/octet-stream", text)
}

fn sent(controller: &Controller, text: &str) -> RuleSetDigest {
    let (status, told) = send(controller, text);
    assert_eq!((status, &told["bytes"]), (200, &json!(text.len())), "{told}");
    RuleSetDigest::of(text)
}

fn digests(controller: &Controller) -> Vec<String> {
    let all = controller.get("/v1/rule-sets");
    let text = |one: &Value| one["sha256"].as_str().unwrap().to_owned();
    all.as_array().unwrap().iter().map(text).collect()
}

fn put(controller: &Controller, function: &str, body: &Value) -> (u16, Value) {
    controller.call("PUT", &format!("/v1/functions/{function}"), Some(body))
}

/// A chain from a port of this host through the function.
fn chain(controller: &Controller) {
    let network = controller.get("/v2.0/networks?name=left")["networks"][0]["id"].clone();
    let port = json!({"network_id": network, "name": "s", "binding:host_id": "host1",
                      "binding:profile": {"interface": "s0"}});
    let port = controller.create("/v2.0/ports", &port)["id"].clone();
    let rule = json!({"name": "web", "protocol": "tcp", "logical_source_port": port});
    let rule = controller.create("/v2.0/sfc/flow_classifiers", &rule)["id"].clone();
    let groups = controller.get("/v2.0/sfc/port_pair_groups?name=edge");
    let group = groups["port_pair_groups"][0]["id"].clone();
    let chain = json!({"name": "web", "port_pair_groups": [group], "flow_classifiers": [rule]});
    let made = controller.create("/v2.0/sfc/port_chains", &chain);
    assert_eq!(made["status"], "active", "{made}");
}

#[test]
fn the_largest_rule_set_reaches_a_node_as_the_configuration_that_inlined_rules_make() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    let agent = FakeAgent::connect(&controller.data, "host1", 1, controller.southbound);
    house(&controller);
    let text = rules("large", FUNCTION_CONFIG_BYTES_MAX);
    assert_eq!(text.len(), FUNCTION_CONFIG_BYTES_MAX);
    let digest = sent(&controller, &text);
    let (status, told) = put(&controller, "edge", &naming(digest));
    let file = json!({"name": "edge.iptables", "sha256": digest});
    assert_eq!((status, &told["template"]["config"]["file"]), (200, &file), "{told}");
    let (_, shown) = controller.call("GET", &path(digest), None);
    assert_eq!((&shown["functions"], &shown["bytes"]), (&json!(["edge"]), &json!(text.len())));
    chain(&controller);
    let id = |text: &str| {
        let config = json!({"file": {"name": "edge.iptables", "text": text}}).to_string();
        Configuration::new("firewall", config).id()
    };
    let known = || {
        let program = agent.program()?;
        let ids = program.configurations.iter().map(|entry| entry.configuration.id());
        Some(ids.collect::<Vec<_>>())
    };
    assert_eq!(known(), Some(vec![id(&text)]), "it was acknowledged with the chain");

    // One with a text of its own takes its place, and the large one goes with the last path over it.
    let small = rules("small", 1_000);
    let mut inlined = naming(digest);
    inlined["template"]["config"] = json!({"file": {"name": "edge.iptables", "text": small}});
    assert_eq!(put(&controller, "edge", &inlined).0, 200);
    assert!(digests(&controller).is_empty());
    eventually("the end of the former path", || (known()? == [id(&small)]).then_some(()));
    controller.stop();
}

#[test]
fn what_is_wrong_with_one_is_told_and_nothing_is_kept() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    house(&controller);
    let octets = "application/octet-stream";
    let text = rules("x", 1_000);
    let digest = RuleSetDigest::of(&text);
    let other = RuleSetDigest::of("other");
    let too_large = rules("x", FUNCTION_CONFIG_BYTES_MAX + 1);
    let place = |text: &str| path(RuleSetDigest::of(text));
    let cases: [(String, &str, Vec<u8>, u16, &str); 6] = [
        (path(other), octets, text.clone().into(), 400, "its SHA-256 is"),
        (path(digest), "text/plain", text.clone().into(), 415, "application/octet-stream"),
        (path(digest), "application/json", text.clone().into(), 415, "application/octet-stream"),
        (path(digest), octets, b"abc\xff".to_vec(), 400, "no text in UTF-8 from its byte 3"),
        ("/v1/rule-sets/edge".into(), octets, text.clone().into(), 400, "64 hexadecimal digits"),
        (place(&too_large), octets, too_large.clone().into(), 413, "at most 8388608 bytes"),
    ];
    for (path, kind, bytes, status, part) in cases {
        let (got, problem) = send_as(&controller, None, &path, kind, bytes);
        let detail = problem["detail"].as_str().unwrap_or_default();
        assert!(got == status && detail.contains(part), "{path} {kind}: {got} {problem}");
    }
    assert!(digests(&controller).is_empty());
    assert_eq!(controller.call("GET", &path(digest), None).0, 404);

    // Elsewhere a body is as small as it was.
    let mut inlined = naming(digest);
    let large = rules("x", 1024 * 1024 + 1);
    inlined["template"]["config"] = json!({"file": {"name": "edge.iptables", "text": large}});
    let (status, problem) = put(&controller, "edge", &inlined);
    let detail = problem["detail"].as_str().unwrap();
    assert!(status == 413 && detail.contains("at most 1048576 bytes"), "{problem}");

    // What is named must be there, and be rules.
    let (status, problem) = put(&controller, "edge", &naming(digest));
    let detail = problem["detail"].as_str().unwrap();
    assert!(
        status == 400 && detail.contains(&format!("send it (PUT {}", path(digest))),
        "{problem}"
    );
    let mut wrong = naming(digest);
    wrong["template"]["config"]["file"]["sha256"] = json!("12");
    let (status, problem) = put(&controller, "edge", &wrong);
    let detail = problem["detail"].as_str().unwrap();
    assert!(status == 400 && detail.contains("'config.file.sha256' is '12'"), "{problem}");
    let wrong = rules("x", 2 * 1024 * 1024).replace("--dport 4711", "-m u32 --u32 1");
    let line = wrong.lines().count() - 1;
    let (status, problem) = put(&controller, "edge", &naming(sent(&controller, &wrong)));
    let detail = problem["detail"].as_str().unwrap();
    let part = format!("edge.iptables line {line}");
    assert!(status == 400 && detail.contains(&part), "{part}: {problem}");
    // Two files are one configuration.
    let halves = ["a", "b"].map(|mark| sent(&controller, &rules(mark, 5 * 1024 * 1024)));
    let mut two = naming(halves[0]);
    two["template"]["config"]["v6_file"] = json!({"name": "edge.ip6tables", "sha256": halves[1]});
    let (status, problem) = put(&controller, "edge", &two);
    let detail = problem["detail"].as_str().unwrap();
    assert!(status == 400 && detail.contains("8388608 bytes together"), "{problem}");
    let function = controller.get("/v1/functions/edge");
    assert!(function["template"].is_null(), "{function}");
    controller.stop();
}

#[test]
fn one_goes_with_the_last_function_that_names_it() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    house(&controller);
    let other = controller.create("/v2.0/sfc/port_pair_groups", &json!({"name": "other"}));
    let [one, two] = ["one", "two"].map(|mark| sent(&controller, &rules(mark, 2_000)));
    assert_eq!(put(&controller, "edge", &naming(one)).0, 200);
    assert_eq!(put(&controller, "other", &naming(one)).0, 200);
    assert_eq!(sent(&controller, &rules("one", 2_000)), one, "again, of no effect");
    let (_, shown) = controller.call("GET", &path(one), None);
    assert_eq!(shown["functions"].as_array().unwrap().len(), 2, "{shown}");
    assert_eq!(digests(&controller).len(), 2);
    // What changes something else leaves it.
    let failing = json!({"on_failure": "block"});
    assert_eq!(controller.call("PATCH", "/v1/functions/edge", Some(&failing)).0, 200);
    assert_eq!(put(&controller, "edge", &naming(two)).0, 200);
    assert_eq!(digests(&controller).len(), 2);
    let group = format!("/v2.0/sfc/port_pair_groups/{}", other["id"].as_str().unwrap());
    assert_eq!(controller.call("DELETE", &group, None).0, 204);
    assert_eq!(digests(&controller), [two.to_string()]);
    assert_eq!(put(&controller, "edge", &json!({})).0, 200);
    assert!(digests(&controller).is_empty());
    controller.stop();
}

#[test]
fn one_outlives_the_controller_and_a_draft_has_its_own() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    house(&controller);
    let text = rules("kept", 3 * 1024 * 1024);
    let digest = sent(&controller, &text);
    assert_eq!(put(&controller, "edge", &naming(digest)).0, 200);
    controller.stop();
    let again = Controller::start(open(data.path()));
    assert_eq!(digests(&again), [digest.to_string()]);
    let two = json!({"instances": 2});
    let mut more = naming(digest);
    more["template"]["instances"] = two["instances"].clone();
    let (status, told) = put(&again, "edge", &more);
    assert_eq!((status, told["instances"].as_array().unwrap().len()), (200, 2), "{told}");

    // In a draft nothing is sent until it is applied.
    let draft = again.call("POST", "/v1/plan", Some(&json!({}))).1["draft"].clone();
    let draft = draft.as_str().unwrap();
    let (http, url) = again.raw();
    let drafted = rules("drafted", 2 * 1024 * 1024);
    let place = path(RuleSetDigest::of(&drafted));
    let request = http.put(format!("{url}{place}")).header("Catena-Draft", draft);
    let request = request.header("Content-Type", "application/octet-stream");
    assert_eq!(request.body(drafted.clone()).send().unwrap().status(), 200);
    let request = http.put(format!("{url}/v1/functions/edge")).header("Catena-Draft", draft);
    let named = request.json(&naming(RuleSetDigest::of(&drafted))).send().unwrap();
    assert_eq!(named.status(), 200, "{}", named.text().unwrap());
    assert_eq!(digests(&again), [digest.to_string()]);
    let applied = again.call("POST", &format!("/v1/plan/{draft}/apply"), Some(&json!({})));
    assert_eq!(applied.0, 200, "{}", applied.1);
    assert_eq!(digests(&again), [RuleSetDigest::of(&drafted).to_string()]);
    again.stop();
}

#[test]
fn a_project_has_so_many_of_so_many_bytes_and_knows_of_no_other() {
    let data = tempfile::tempdir().unwrap();
    let controller = start(data.path(), Auth::Token);
    let admin = Caller::admin(&controller);
    let [own, other] = ["own", "other"].map(|name| admin.with_role(name, name, "tenant"));
    let send = |caller: &Caller<'_>, text: &str| {
        let path = path(RuleSetDigest::of(text));
        let kind = "application/octet-stream";
        send_as(&controller, caller.token.as_deref(), &path, kind, text)
    };
    // Foreign ones are as if there were none, and naming them is, too.
    let text = rules("secret", 1_000);
    let place = path(RuleSetDigest::of(&text));
    assert_eq!(send(&own, &text).0, 200);
    let (foreign, absent) = (other.call("GET", &place, None), RuleSetDigest::of("absent"));
    let no = other.call("GET", &path(absent), None);
    assert_eq!((foreign.status, no.status), (404, 404));
    let hidden = RuleSetDigest::of(&text).to_string();
    assert_eq!(foreign.text.replace(&hidden, "X"), no.text.replace(&absent.to_string(), "X"));
    assert_eq!(other.call("GET", "/v1/rule-sets", None).json(), json!([]));
    other.create("/v2.0/sfc/port_pair_groups", &json!({"name": "edge"}));
    let network = other.create("/v2.0/networks", &json!({"name": "left"}));
    let subnet = json!({"network_id": network, "cidr": "10.0.1.0/24", "ip_version": 4});
    other.create("/v2.0/subnets", &subnet);
    let name = |caller: &Caller<'_>, digest| {
        let mut body = naming(digest);
        body["template"]["on"] = json!([]);
        caller.call("PUT", "/v1/functions/edge", Some(&body))
    };
    let [foreign, no] = [RuleSetDigest::of(&text), absent].map(|digest| name(&other, digest));
    assert_eq!((foreign.status, no.status), (400, 400), "{foreign:?}");
    assert_eq!(foreign.text.replace(&hidden, "X"), no.text.replace(&absent.to_string(), "X"));
    // An operator who names what he sees gives it to the project of the function.
    let given = name(&admin, RuleSetDigest::of(&text));
    assert_eq!(given.status, 200, "{given:?}");
    let shown = other.call("GET", &place, None);
    assert_eq!(shown.json()["functions"], json!(["edge"]), "{shown:?}");
    assert_eq!(own.call("GET", &place, None).json()["functions"], json!([]));

    // As many as it may have, and no more.
    let limit = |count: i64| {
        let set = json!({"quota": {"rule_set": count}});
        assert_eq!(admin.call("PUT", "/v2.0/quotas/own", Some(&set)).status, 200);
    };
    limit(1);
    let (status, problem) = send(&own, "more");
    let detail = problem["detail"].as_str().unwrap();
    assert!(status == 409 && detail.contains("['rule_set']"), "{problem}");
    assert_eq!(send(&own, &text).0, 200, "that is there");
    let used = own.call("GET", "/v2.0/quotas/own/details", None).json();
    assert_eq!(used["quota"]["rule_set"], json!({"limit": 1, "used": 1, "reserved": 0}));
    limit(-1);
    let large = |mark: usize| format!("{mark}{}", "x".repeat(FUNCTION_CONFIG_BYTES_MAX - 1));
    // What is sent into a draft counts as well, as long as the draft is there.
    let draft = own.call("POST", "/v1/plan", Some(&json!({}))).json()["draft"].clone();
    let draft = draft.as_str().unwrap();
    let (http, url) = controller.raw();
    let drafted = large(8);
    let request = http.put(format!("{url}{}", path(RuleSetDigest::of(&drafted))));
    let request = request.header("Content-Type", "application/octet-stream");
    let request = request.header("X-Auth-Token", own.token.clone().unwrap());
    let answer = request.header("Catena-Draft", draft).body(drafted).send().unwrap();
    assert_eq!(answer.status(), 200, "{}", answer.text().unwrap());
    let fitting = PROJECT_RULE_SETS_BYTES_MAX / FUNCTION_CONFIG_BYTES_MAX - 1;
    for mark in 0..fitting - 1 {
        assert_eq!(send(&own, &large(mark)).0, 200);
    }
    let is_full = || {
        let (status, problem) = send(&own, &large(9));
        let detail = problem["detail"].as_str().unwrap();
        assert!(status == 409 && detail.contains("at most 67108864"), "{problem}");
    };
    is_full();
    assert_eq!(own.call("DELETE", &format!("/v1/plan/{draft}"), None).status, 204);
    assert_eq!(send(&own, &large(fitting)).0, 200);
    is_full();
    assert_eq!(send(&other, &large(9)).0, 200, "the bytes of others are theirs");
    controller.stop();
}

#[test]
fn so_many_of_a_project_are_sent_at_a_time() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    let text = rules("x", 1_000);
    let begin = || {
        let address = controller.url.strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        let path = path(RuleSetDigest::of(&text));
        let head = format!(
            "PUT {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/octet-stream\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n",
            text.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream
    };
    let mut slow: Vec<TcpStream> = [(); 5].map(|()| begin()).into();
    // Four wait for the rest of their texts; whichever came last is refused at once.
    let refused = eventually("the refusal of one", || {
        slow.iter().position(|stream| {
            stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
            stream.peek(&mut [0]).is_ok()
        })
    });
    let answer = |mut stream: TcpStream| {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let told = answer(slow.remove(refused));
    assert!(told.starts_with("HTTP/1.1 503") && told.contains("4 rule sets of your"), "{told}");
    assert_eq!(controller.get("/v1/functions"), json!([]), "others are answered");
    for mut stream in slow {
        stream.write_all(text.as_bytes()).unwrap();
        let told = answer(stream);
        assert!(told.starts_with("HTTP/1.1 200"), "{told}");
    }
    assert_eq!(send(&controller, &text).0, 200);
    controller.stop();
}
