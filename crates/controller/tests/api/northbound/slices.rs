//! Slices over HTTP, and what nodes hear of them.

use crate::support::agent::FakeAgent;
use crate::support::lab::Lab;
use crate::support::{Controller, eventually, open};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;

/// A controller with the chain `web` from `S` on `host1` over `v1` there and `v2` on `host2`, and both
/// nodes.
fn start(data: &Path) -> (Controller, [FakeAgent; 2]) {
    let controller = Controller::start(open(data));
    let agents = connect(&controller);
    let lab = Lab::new(&controller);
    let source = lab.port("S", "S", "host1");
    let functions = [lab.function_on("v1", "host1"), lab.function_on("v2", "host2")];
    let classifier = lab.classifier("fc", &source, 5_001);
    let functions: Vec<&str> = functions.iter().map(String::as_str).collect();
    let chain = lab.chain("web", &functions, &[&classifier]);
    controller.create("/v2.0/sfc/port_chains", &chain);
    (controller, agents)
}

/// Another chain beside `web`, over `v3` on `host2`, without classifiers; its identity.
fn add_deep(controller: &Controller) -> String {
    let lab = Lab::of(controller);
    let function = lab.function_on("v3", "host2");
    let chain = lab.chain("deep", &[&function], &[]);
    let made = controller.create("/v2.0/sfc/port_chains", &chain);
    made["id"].as_str().unwrap().to_owned()
}

fn connect(controller: &Controller) -> [FakeAgent; 2] {
    [("host1", 1), ("host2", 2)]
        .map(|(node, host)| FakeAgent::connect(&controller.data, node, host, controller.southbound))
}

fn bulk(controller: &Controller, lines: String) -> Vec<Value> {
    let (http, url) = controller.raw();
    let request =
        http.post(format!("{url}/v1/bulk")).header("Content-Type", "application/x-ndjson");
    let answer = request.timeout(std::time::Duration::from_secs(120)).body(lines).send().unwrap();
    let text = answer.text().unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn counted(agent: &FakeAgent) -> (usize, usize) {
    let state = agent.state.lock().unwrap();
    (state.running.entries.slices.len(), state.running.entries.slice_paths.len())
}

#[test]
fn a_slice_is_active_when_its_nodes_have_it_and_gone_when_they_have_not() {
    let data = tempfile::tempdir().unwrap();
    let (controller, agents) = start(data.path());
    let slice = json!({"name": "gold", "chain": "web", "source_port": "S", "vni": 7,
        "teids": [1, 9], "rate": {"bits_per_second": 1_000_000, "burst_bytes": 9_000},
        "class": "urgent"});
    let (status, made) = controller.call("POST", "/v1/slices", Some(&slice));
    assert_eq!((status, made["status"]["state"].as_str()), (201, Some("active")), "{made}");
    assert_eq!(made["slice"], slice);
    assert_eq!(counted(&agents[0]), (1, 1), "it is classified where its port is");
    assert_eq!(counted(&agents[1]), (0, 1), "the other node knows its path alone");
    let path = made["status"]["path"].clone();

    let changed = json!({"name": "gold", "chain": "web", "source_port": "S", "vni": 7, "teid": 4});
    let (status, put) = controller.call("PUT", "/v1/slices/gold", Some(&changed));
    assert_eq!((status, put["status"]["state"].as_str()), (200, Some("active")), "{put}");
    assert_eq!((&put["slice"], &put["status"]["path"]), (&changed, &path));
    assert_eq!(controller.get("/v1/slices/gold"), put);

    let (status, problem) = controller.call("DELETE", "/v2.0/sfc/port_chains/web", None);
    assert_eq!(status, 404, "{problem}");
    let chain = controller.get("/v2.0/sfc/port_chains")["port_chains"][0]["id"].clone();
    let chain = format!("/v2.0/sfc/port_chains/{}", chain.as_str().unwrap());
    let (status, problem) = controller.call("DELETE", &chain, None);
    assert_eq!(status, 409, "a chain with slices stays: {problem}");

    assert_eq!(controller.call("DELETE", "/v1/slices/gold", None).0, 204);
    assert_eq!(counted(&agents[0]).0, 0, "nothing is sent into it any more");
    eventually("both nodes forget its path", || {
        (counted(&agents[0]).1 + counted(&agents[1]).1 == 0).then_some(())
    });
    assert_eq!(controller.call("GET", "/v1/slices/gold", None).0, 404);
    assert_eq!(controller.call("DELETE", &chain, None).0, 204);
}

#[test]
fn what_no_slice_can_be_is_refused_in_the_names_that_people_gave() {
    let data = tempfile::tempdir().unwrap();
    let (controller, _agents) = start(data.path());
    let post = |slice: Value| controller.call("POST", "/v1/slices", Some(&slice));
    assert_eq!(post(json!({"name": "one", "chain": "web", "vni": 7})).0, 201);
    for (slice, status, word) in [
        (json!({"name": "two", "chain": "web", "vni": 7}), 409, "'one' and 'two'"),
        (json!({"name": "two", "chain": "web"}), 409, "every packet"),
        (json!({"name": "two", "chain": "nowhere", "vni": 8}), 404, "nowhere"),
        (json!({"name": "two", "chain": "web", "qfi": 64}), 400, "'qfi'"),
        (json!({"name": "two", "chain": "web", "teids": [2, 1]}), 400, "'teids'"),
        (json!({"name": "two", "chain": "web", "source_port": "v1-in", "vni": 8}), 409, "v1-in"),
        (json!({"name": "", "chain": "web", "vni": 8}), 400, "'name'"),
        (json!({"name": "two", "chain": "web", "vni": 8, "colour": 1}), 400, "colour"),
    ] {
        let (told, problem) = post(slice.clone());
        let detail = problem["detail"].as_str().unwrap_or_default();
        assert!(told == status && detail.contains(word), "{slice}: {told} {problem}");
    }
    // The same packets at another place are others.
    let elsewhere = json!({"name": "two", "chain": "web", "vni": 7, "source_port": "S"});
    assert_eq!(post(elsewhere).0, 201);
}

#[test]
fn a_slice_at_the_end_of_a_chain_is_known_everywhere_and_keeps_the_chain() {
    let data = tempfile::tempdir().unwrap();
    let (controller, agents) = start(data.path());
    let deep = add_deep(&controller);
    let slice = json!({"name": "scrubbed", "chain": "deep", "after": "web", "teid": 3});
    let (status, made) = controller.call("POST", "/v1/slices", Some(&slice));
    assert_eq!((status, made["status"]["state"].as_str()), (201, Some("active")), "{made}");
    assert_eq!(made["slice"], slice, "told as it was declared");
    assert_eq!(agents.each_ref().map(counted), [(1, 1), (1, 1)], "web may end at either node");
    let chains = controller.get("/v2.0/sfc/port_chains")["port_chains"].clone();
    let web = chains.as_array().unwrap().iter().find(|chain| chain["name"] == "web").unwrap();
    for chain in [web["id"].as_str().unwrap(), &deep] {
        let path = format!("/v2.0/sfc/port_chains/{chain}");
        let (status, problem) = controller.call("DELETE", &path, None);
        assert!(status == 409 && problem.to_string().contains("'scrubbed'"), "{problem}");
    }
    for (slice, status, word) in [
        (json!({"name": "x", "chain": "web", "after": "deep", "vni": 7}), 409, "back to it"),
        (json!({"name": "x", "chain": "web", "after": "web", "vni": 7}), 409, "back to it"),
        (json!({"name": "x", "chain": "deep", "after": "web", "teid": 3}), 409, "'scrubbed' and"),
        (json!({"name": "x", "chain": "deep", "after": "none", "vni": 7}), 404, "none"),
        (
            json!({"name": "x", "chain": "deep", "after": "web", "source_port": "S", "vni": 7}),
            409,
            "give one of them",
        ),
    ] {
        let (told, problem) = controller.call("POST", "/v1/slices", Some(&slice));
        let detail = problem["detail"].as_str().unwrap_or_default();
        assert!(told == status && detail.contains(word), "{slice}: {told} {problem}");
    }
    // By the line, too, and where a later one closes the circle.
    let lines = [
        json!({"slice": {"name": "b1", "chain": "deep", "after": "web", "vni": 9}}),
        json!({"slice": {"name": "b2", "chain": "web", "after": "deep", "vni": 9}}),
    ];
    let answers = bulk(&controller, lines.map(|line| line.to_string()).join("\n"));
    assert_eq!((&answers[0]["status"], &answers[1]["status"]), (&json!(201), &json!(409)));
    assert_eq!(controller.call("DELETE", "/v1/slices/b1", None).0, 204);
    // By hand it may not close one either.
    let by_hand = json!([{"name": "x", "chain": "web", "after": "deep", "vni": 7}]);
    let (status, problem) = controller.call("PUT", "/v1/nodes/host1/injected", Some(&by_hand));
    assert!(status == 409 && problem.to_string().contains("back to it"), "{status} {problem}");
    // The other way round: what it was does not stand in its way.
    let turned = json!({"name": "scrubbed", "chain": "web", "after": "deep", "teid": 3});
    let (status, put) = controller.call("PUT", "/v1/slices/scrubbed", Some(&turned));
    assert_eq!((status, &put["slice"]), (200, &turned), "{put}");
    // At a port now instead of behind a chain.
    let moved = json!({"name": "scrubbed", "chain": "deep", "source_port": "S", "teid": 3});
    let (status, put) = controller.call("PUT", "/v1/slices/scrubbed", Some(&moved));
    assert_eq!((status, &put["slice"]), (200, &moved), "{put}");
}

#[test]
fn ten_thousand_slices_by_the_line_reach_both_nodes_and_outlive_the_controller() {
    const SLICES: usize = 10_000;
    let data = tempfile::tempdir().unwrap();
    let (controller, agents) = start(data.path());
    let mut lines = String::new();
    for teid in 0..SLICES {
        let slice = json!({"name": format!("s{teid}"), "chain": "web", "vni": 7, "teid": teid});
        writeln!(lines, "{}", json!({ "slice": slice })).unwrap();
    }
    writeln!(lines, "{}", json!({"slice": {"name": "again", "chain": "web", "vni": 7, "teid": 1}}))
        .unwrap();
    let answers = bulk(&controller, lines);
    assert_eq!(answers.len(), SLICES + 1);
    assert!(answers.iter().take(SLICES).all(|answer| answer["status"] == 201));
    let last = answers.last().unwrap();
    assert!(last["status"] == 409 && last["problem"]["detail"].as_str().unwrap().contains("'s1'"));
    for agent in &agents {
        eventually("all slices", || (counted(agent) == (SLICES, SLICES)).then_some(()));
    }
    let deltas: usize = agents.iter().map(|agent| agent.state.lock().unwrap().deltas).sum();
    assert!(deltas < SLICES / 10, "many travel together: {deltas}");

    // Page by page.
    let (mut seen, mut after) = (0, String::new());
    loop {
        let page = controller.get(&format!("/v1/slices?limit=999{after}"));
        let page = page.as_array().unwrap();
        seen += page.len();
        let Some(last) = page.last().filter(|_| page.len() == 999) else { break };
        after = format!("&after={}", last["id"].as_str().unwrap());
    }
    assert_eq!(seen, SLICES);

    // A controller that comes back knows again what each node was told.
    let known = agents.map(FakeAgent::disconnect);
    controller.stop();
    let controller = Controller::start(open(data.path()));
    let mut host = 0;
    let agents = known.map(|state| {
        host += 1;
        let node = format!("host{host}");
        let state = crate::support::agent::State { deltas: 0, wholes: 0, ..state };
        FakeAgent::connect_running(data.path(), &node, host, controller.southbound, state)
    });
    let one = json!({"name": "more", "chain": "web", "vni": 8, "source_port": "S"});
    let (status, made) = controller.call("POST", "/v1/slices", Some(&one));
    assert_eq!((status, made["status"]["state"].as_str()), (201, Some("active")), "{made}");
    let deltas: usize = agents.iter().map(|agent| agent.state.lock().unwrap().deltas).sum();
    assert!(deltas <= 4, "one slice more, and nothing else: {deltas}");
    assert!(agents.iter().all(|agent| agent.state.lock().unwrap().wholes == 0));
    assert_eq!(counted(&agents[0]), (SLICES + 1, SLICES + 1));
}

#[test]
fn a_node_that_has_lost_everything_gets_all_of_it() {
    let data = tempfile::tempdir().unwrap();
    let (controller, agents) = start(data.path());
    let lines: Vec<String> = (0..100)
        .map(|teid| json!({"slice": {"name": format!("s{teid}"), "chain": "web", "teid": teid}}))
        .map(|line| line.to_string())
        .collect();
    bulk(&controller, lines.join("\n"));
    for agent in &agents {
        eventually("all slices", || (counted(agent) == (100, 100)).then_some(()));
    }
    let [first, second] = agents;
    drop(second);
    let second = FakeAgent::connect(&controller.data, "host2", 2, controller.southbound);
    eventually("all slices again", || (counted(&second) == (100, 100)).then_some(()));
    drop(first);
}
