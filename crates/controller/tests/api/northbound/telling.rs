//! What is told of nodes, chains and changes is what was seen of them.

use crate::support::agent::{FakeAgent, State};
use crate::support::lab::{Lab, id};
use crate::support::{Controller, eventually, open};
use catena_model::id::ChainId;
use catena_model::{ChainCounters, PathId, Volume};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};

const CHAINS: &str = "/v2.0/sfc/port_chains";

fn node(controller: &Controller, name: &str) -> Option<Value> {
    let nodes = controller.get("/v1/nodes");
    let mut nodes = nodes.as_array().unwrap().iter();
    nodes.find(|node| node["status"]["node"] == name).map(|node| node["status"].clone())
}

fn connected(controller: &Controller, agent: &str) -> FakeAgent {
    let state = State { agent: agent.into(), ..State::default() };
    FakeAgent::connect_running(&controller.data, "host1", 1, controller.southbound, state)
}

#[test]
fn two_agents_of_one_name_are_told_and_an_agent_started_anew_is_none() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    let is_contested = |agent: &FakeAgent| {
        eventually("the session", || agent.state.lock().unwrap().outgoing.clone());
        let status = eventually("the node", || {
            node(&controller, "host1").filter(|status| status["is_connected"] == true)
        });
        status["is_contested"] == true
    };
    let first = connected(&controller, "one");
    assert!(!is_contested(&first));
    // Killed and started again before the controller noticed.
    let second = connected(&controller, "two");
    assert!(!is_contested(&second));
    // The same agent over another connection, because the link broke.
    let again = connected(&controller, "two");
    assert!(!is_contested(&again));
    // The first one is not dead: it takes its session back.
    let back = connected(&controller, "one");
    assert!(is_contested(&back));
}

/// A chain over v1 and v2 on one node.
struct House<'c> {
    controller: &'c Controller,
    agent: FakeAgent,
    lab: Lab<'c>,
    chain: Value,
}

impl<'c> House<'c> {
    fn new(controller: &'c Controller) -> Self {
        let agent = connected(controller, "one");
        let lab = Lab::new(controller);
        let source = lab.port("S", "S", "host1");
        let functions = ["v1", "v2"].map(|name| lab.function_on(name, "host1"));
        let rule = lab.classifier("fc", &source, 5_001);
        eventually("all ports bound", || {
            let ports = controller.get("/v2.0/ports");
            let all = ports["ports"].as_array().unwrap();
            all.iter().all(|port| port["status"] == "ACTIVE").then_some(())
        });
        let functions: Vec<&str> = functions.iter().map(String::as_str).collect();
        let mut chain = lab.chain("web", &functions, &[&rule]);
        chain["chain_parameters"]["symmetric"] = json!(true);
        let chain = controller.create(CHAINS, &chain);
        assert_eq!(chain["status"], "active", "{chain}");
        Self { controller, agent, lab, chain }
    }

    /// Counters by which packets are inside a function.
    fn keep_packets(&self, path: PathId) {
        let packets = |packets| Volume { packets, bytes: packets * 100 };
        self.agent.state.lock().unwrap().chains = vec![ChainCounters {
            chain: ChainId(id(&self.chain).parse().unwrap()),
            path,
            entered: packets(9),
            finished: packets(6),
            tapped: packets(0),
            is_partial: false,
            pinned_flows: 0,
            tunnelled_out: packets(0),
            tunnelled_in: packets(0),
            dropped: BTreeMap::new(),
            hops: Vec::new(),
        }];
    }

    /// Turns the order of the functions round by a draft, and waits for so long.
    fn turn_round(&self, wait_ms: u64) -> Value {
        let mut groups = self.chain["port_pair_groups"].as_array().unwrap().clone();
        groups.reverse();
        let body = json!({"port_chain": {"port_pair_groups": groups}});
        self.apply("PUT", &format!("{CHAINS}/{}", id(&self.chain)), &body, wait_ms)
    }

    /// Makes one request in a draft, applies it and waits for so long.
    fn apply(&self, method: &str, path: &str, body: &Value, wait_ms: u64) -> Value {
        let (status, draft) = self.controller.call("POST", "/v1/plan", Some(&json!({})));
        assert_eq!(status, 201, "{draft}");
        let draft = draft["draft"].as_str().unwrap();
        let (http, url) = self.controller.raw();
        let request = http.request(method.parse().unwrap(), format!("{url}{path}"));
        let answer = request.header("Catena-Draft", draft).json(body).send().unwrap();
        assert!(answer.status().is_success(), "{}", answer.text().unwrap());
        let request = json!({"wait": true, "wait_ms": wait_ms});
        let path = format!("/v1/plan/{draft}/apply");
        let (status, applied) = self.controller.call("POST", &path, Some(&request));
        assert_eq!(status, 200, "{applied}");
        applied
    }
}

#[test]
fn who_waits_for_a_change_is_told_which_paths_of_before_are_left_and_why() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    let house = House::new(&controller);
    let path = controller.get("/v1/chains/web")["status"]["path"].as_u64().unwrap();
    house.keep_packets(PathId(u32::try_from(path).unwrap()));
    let applied = house.turn_round(300);
    assert_eq!(applied["chains"][0]["state"], "active", "{applied}");
    assert_eq!(applied["receipts"], json!([]), "{applied}");
    let draining = applied["draining"].as_array().unwrap();
    let of_before = draining.iter().find(|one| one["path"] == json!(path));
    let of_before = of_before.unwrap_or_else(|| panic!("{applied}"));
    assert_eq!(of_before["chain"], "web");
    let reason = of_before["reason"].as_str().unwrap();
    assert!(reason.starts_with("packets are inside functions or between nodes"), "{reason}");
    // The chain tells of it, too.
    let chain = controller.get("/v1/chains/web");
    let phase = |of: &Value| {
        let paths = chain["paths"].as_array().unwrap();
        let path = paths.iter().find(|known| known["path"] == *of);
        path.map(|path| path["phase"].as_str().unwrap().to_owned())
    };
    assert_eq!(phase(&json!(path)).as_deref(), Some("superseded"), "{chain}");
}

#[test]
fn who_waits_for_a_change_waits_for_slices_too_and_is_told_what_is_left_of_them() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    let house = House::new(&controller);
    let progress = |applied: &Value| {
        let slices = &applied["slices"];
        json!([slices["settled"], slices["count"]])
    };
    // Its port is at a node that never came.
    house.lab.port("far", "far", "host9");
    let late = json!({"name": "late", "chain": "web", "teid": 9, "source_port": "far"});
    let applied = house.apply("POST", "/v1/slices", &late, 300);
    assert_eq!(progress(&applied), json!([0, 1]), "{applied}");
    assert_eq!(applied["slices"]["waiting"]["slice"], "late", "{applied}");
    let reason = applied["slices"]["waiting"]["reason"].as_str().unwrap();
    assert!(!reason.is_empty(), "{applied}");
    assert_eq!(controller.call("DELETE", "/v1/slices/late", None).0, 204);
    for (name, teid) in [("gold", 1), ("silver", 2)] {
        let slice = json!({"name": name, "chain": "web", "teid": teid});
        let applied = house.apply("POST", "/v1/slices", &slice, 10_000);
        assert_eq!(progress(&applied), json!([1, 1]), "{applied}");
    }
    // Both go the other way round, and something is still inside the functions.
    let path = controller.get("/v1/chains/web")["status"]["path"].as_u64().unwrap();
    house.keep_packets(PathId(u32::try_from(path).unwrap()));
    let applied = house.turn_round(300);
    assert_eq!(progress(&applied), json!([2, 2]), "{applied}");
    assert_eq!(applied["slices"]["draining"]["paths"], 2, "{applied}");
    let reason = applied["slices"]["draining"]["reason"].as_str().unwrap();
    assert!(reason.starts_with("packets are inside functions or between nodes"), "{reason}");
    house.agent.state.lock().unwrap().chains.clear();
    let applied = house.apply("DELETE", "/v1/slices/gold", &Value::Null, 10_000);
    let gone = json!({"count": 1, "settled": 1, "waiting": null, "draining": null});
    assert_eq!(applied["slices"], gone, "{applied}");
    // Of a change that concerns no slice nothing is told.
    let network = json!({"network": {"name": "lan"}});
    let applied = house.apply("POST", "/v2.0/networks", &network, 300);
    assert_eq!(applied.get("slices"), None, "{applied}");
}

#[test]
fn a_symmetric_chain_tells_both_its_ways_and_the_nodes_that_are_silent() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    let house = House::new(&controller);
    let ways = |chain: &Value| -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let paths = chain["paths"].as_array().unwrap().iter();
        paths.map(|path| (text(&path["direction"]), text(&path["phase"]))).collect()
    };
    let chain = controller.get("/v1/chains/web");
    let both = ["forward", "reverse"].map(|way| (way.to_owned(), "classified".to_owned()));
    assert_eq!((ways(&chain), &chain["silent"]), (both.to_vec(), &json!([])), "{chain}");
    house.agent.state.lock().unwrap().is_silent = true;
    assert_eq!(controller.get("/v1/chains/web")["silent"], json!([{"node": "host1"}]));
}

#[test]
fn what_is_removed_is_told_by_the_name_that_it_had() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    let network = controller.create("/v2.0/networks", &json!({"name": "lan"}));
    let (http, url) = controller.raw();
    let watch = http.get(format!("{url}/v1/watch")).send().unwrap();
    let path = format!("/v2.0/networks/{}", id(&network));
    assert_eq!(controller.call("DELETE", &path, None).0, 204);
    let mut lines = BufReader::new(watch).lines().map_while(Result::ok);
    let line = lines.find(|line| line.contains("declared")).unwrap();
    let line: Value = serde_json::from_str(&line).unwrap();
    let told = (&line["is_removed"], &line["kind"], &line["name"]);
    assert_eq!(told, (&json!(true), &json!("network"), &json!("lan")), "{line}");
}
