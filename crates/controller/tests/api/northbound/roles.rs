//! Switches: nodes without tenants, which no chain, network or slice reaches.

use crate::support::agent::{FakeAgent, State};
use crate::support::lab::{Lab, id};
use crate::support::{Controller, eventually, open};
use catena_model::topology::NodeRole;
use serde_json::{Value, json};

fn connect(controller: &Controller, node: &str, host: u8, role: NodeRole) -> FakeAgent {
    let state = State { role, ..State::default() };
    FakeAgent::connect_running(&controller.data, node, host, controller.southbound, state)
}

/// Names of the nodes, what they are for, and whether they are connected.
fn nodes(controller: &Controller) -> Vec<(String, String, bool)> {
    let nodes = controller.get("/v1/nodes");
    let word = |status: &Value, key: &str| status[key].as_str().unwrap().to_owned();
    let one = |node: &Value| {
        let status = &node["status"];
        (word(status, "node"), word(status, "role"), status["is_connected"] == true)
    };
    nodes.as_array().unwrap().iter().map(one).collect()
}

fn expect_nodes(controller: &Controller, expected: &[(&str, &str, bool)]) {
    let own = |(node, role, is_connected): &(&str, &str, bool)| {
        ((*node).to_owned(), (*role).to_owned(), *is_connected)
    };
    let expected: Vec<_> = expected.iter().map(own).collect();
    eventually("the nodes and their roles", || (nodes(controller) == expected).then_some(()));
}

#[test]
fn a_switch_knows_itself_alone_and_nobody_waits_for_it() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    let switch = connect(&controller, "s1", 9, NodeRole::Switch);
    let hosts = [("host1", 1), ("host2", 2)];
    let hosts = hosts.map(|(node, host)| connect(&controller, node, host, NodeRole::Host));
    let all = [("host1", "host", true), ("host2", "host", true), ("s1", "switch", true)];
    expect_nodes(&controller, &all);
    // What it was told when it came is all that it will be told.
    let first = eventually("the first program", || switch.program());
    switch.hold();
    let lab = Lab::new(&controller);
    let source = lab.port("S", "S", "host1");
    let function = lab.function_on("v1", "host2");
    let anywhere = json!({
        "name": "fc", "ethertype": "IPv4", "protocol": "udp", "destination_port_range_min": 5_001,
        "destination_port_range_max": 5_001, "logical_source_port": source,
    });
    let classifier = id(&controller.create("/v2.0/sfc/flow_classifiers", &anywhere));
    let chain = lab.chain("web", &[&function], &[&classifier]);
    controller.create("/v2.0/sfc/port_chains", &chain);
    // Its packets may come anywhere that has tenants.
    let slice = json!({"name": "gold", "chain": "web", "vni": 7});
    let (status, made) = controller.call("POST", "/v1/slices", Some(&slice));
    assert_eq!((status, &made["status"]["state"]), (201, &json!("active")), "{made}");
    for host in &hosts {
        let program = host.program().unwrap();
        let others: Vec<String> = program.tunnels.iter().map(|one| one.node.to_string()).collect();
        assert_eq!(others.len(), 1, "{others:?}");
        assert_ne!(others, ["s1"], "a host has no tunnel to a switch");
        assert_eq!(program.slices.len(), 1);
    }
    assert_eq!(switch.program(), Some(first.clone()));
    let itself = catena_model::NodeProgram {
        choice_seed: first.choice_seed,
        discovery_key: first.discovery_key,
        ..catena_model::NodeProgram::empty(first.node.clone(), first.number, first.underlay)
    };
    assert_eq!(first, itself);
}

#[test]
fn a_chain_over_a_port_at_a_switch_says_so_and_roles_outlive_the_controller() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    let switch = connect(&controller, "s1", 9, NodeRole::Switch);
    let host = connect(&controller, "host1", 1, NodeRole::Host);
    expect_nodes(&controller, &[("host1", "host", true), ("s1", "switch", true)]);
    let lab = Lab::new(&controller);
    let source = lab.port("S", "S", "host1");
    let function = lab.function_on("v1", "s1");
    let classifier = lab.classifier("fc", &source, 5_001);
    let chain = lab.chain("web", &[&function], &[&classifier]);
    let chain = controller.create("/v2.0/sfc/port_chains", &chain);
    let path = format!("/v1/chains/{}", chain["id"].as_str().unwrap());
    let reason = eventually("the reason", || {
        let status = &controller.get(&path)["status"];
        let reason = status["reason"].as_str()?.to_owned();
        reason.contains("'s1'").then_some(reason)
    });
    assert!(reason.contains("is a switch, which has no ports of tenants"), "{reason}");
    assert!(switch.program().unwrap().ports.is_empty());
    drop((switch, host));
    controller.stop();
    let controller = Controller::start(open(data.path()));
    expect_nodes(&controller, &[("host1", "host", false), ("s1", "switch", false)]);
    // A node that comes back for something else is that from now on, and serves the chain.
    let _agents = [
        connect(&controller, "s1", 9, NodeRole::Host),
        connect(&controller, "host1", 1, NodeRole::Host),
    ];
    expect_nodes(&controller, &[("host1", "host", true), ("s1", "host", true)]);
    eventually("the chain", || {
        (controller.get(&path)["status"]["state"] == "active").then_some(())
    });
}

#[test]
fn a_host_that_becomes_a_switch_holds_no_chain_up() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    let first = connect(&controller, "host1", 1, NodeRole::Host);
    let _others = [("host2", 2), ("host3", 3)]
        .map(|(node, host)| connect(&controller, node, host, NodeRole::Host));
    let [two, three] = [("host2", "host", true), ("host3", "host", true)];
    expect_nodes(&controller, &[("host1", "host", true), two, three]);
    let lab = Lab::new(&controller);
    let source = lab.port("S", "S", "host1");
    let function = lab.function_on("v1", "host2");
    let classifier = lab.classifier("fc", &source, 5_001);
    let chain = lab.chain("web", &[&function], &[&classifier]);
    let chain = controller.create("/v2.0/sfc/port_chains", &chain);
    let path = format!("/v1/chains/{}", chain["id"].as_str().unwrap());
    let state = |wanted: &str| {
        let status = controller.get(&path)["status"].clone();
        (status["state"] == wanted).then_some(())
    };
    eventually("the chain", || state("active"));
    let slice = json!({"name": "gold", "chain": "web", "vni": 7, "source_port": source});
    let (status, made) = controller.call("POST", "/v1/slices", Some(&slice));
    assert_eq!(status, 201, "{made}");
    first.disconnect();
    let _switch = connect(&controller, "host1", 1, NodeRole::Switch);
    expect_nodes(&controller, &[("host1", "switch", true), two, three]);
    // Its machine has moved.
    let (status, moved) =
        controller.put(&format!("/v2.0/ports/{source}"), &json!({"binding:host_id": "host3"}));
    assert_eq!(status, 200, "{moved}");
    eventually("the chain from elsewhere", || state("active"));
    let slice = json!({"name": "silver", "chain": "web", "vni": 8});
    let (status, made) = controller.call("POST", "/v1/slices", Some(&slice));
    assert_eq!((status, &made["status"]["state"]), (201, &json!("active")), "{made}");
    eventually("the slice from elsewhere", || {
        let slices = controller.get("/v1/slices");
        let all = slices.as_array()?.iter().all(|slice| slice["status"]["state"] == "active");
        all.then_some(())
    });
}

#[test]
fn a_switch_is_marked_as_an_edge_by_operators_and_that_outlives_it_and_the_controller() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    let switch = connect(&controller, "s1", 9, NodeRole::Switch);
    let _host = connect(&controller, "host1", 1, NodeRole::Host);
    expect_nodes(&controller, &[("host1", "host", true), ("s1", "switch", true)]);
    let is_edge =
        |controller: &Controller| controller.get("/v1/nodes/s1")["status"]["is_edge"].clone();
    assert_eq!(is_edge(&controller), false);
    let patch = |node: &str, change: Value| {
        let (status, answer) =
            controller.call("PATCH", &format!("/v1/nodes/{node}"), Some(&change));
        let detail = answer["detail"].as_str().unwrap_or_default().to_owned();
        (status, detail, answer["status"]["is_edge"].clone())
    };
    for (node, change, refused, part) in [
        ("nobody", json!({"is_edge": true}), 404, "There is no node 'nobody'"),
        ("host1", json!({"is_edge": true}), 409, "Node 'host1' is a host"),
        ("s1", json!({"is_edge": 1}), 400, "expected a boolean"),
        ("s1", json!({"edge": true}), 400, "unknown field"),
    ] {
        let (status, detail, _) = patch(node, change);
        assert!(status == refused && detail.contains(part), "{status}: {detail}");
    }
    assert_eq!(patch("s1", json!({"is_edge": true})).2, true);
    assert_eq!(patch("s1", json!({"is_edge": true})).2, true, "it is one already");
    assert_eq!(patch("host1", json!({"is_edge": false})).2, false, "it is none");
    switch.disconnect();
    controller.stop();
    let controller = Controller::start(open(data.path()));
    assert_eq!(is_edge(&controller), true);
    let switch = connect(&controller, "s1", 9, NodeRole::Switch);
    expect_nodes(&controller, &[("host1", "host", false), ("s1", "switch", true)]);
    assert_eq!(is_edge(&controller), true, "it does not say itself what it was marked as");
    let change = json!({"is_edge": false});
    assert_eq!(controller.call("PATCH", "/v1/nodes/s1", Some(&change)).0, 200);
    assert_eq!(is_edge(&controller), false);
    // What becomes a host is no edge any more, also when it is a switch again.
    controller.call("PATCH", "/v1/nodes/s1", Some(&json!({"is_edge": true})));
    switch.disconnect();
    let host = connect(&controller, "s1", 9, NodeRole::Host);
    expect_nodes(&controller, &[("host1", "host", false), ("s1", "host", true)]);
    assert_eq!(is_edge(&controller), false);
    host.disconnect();
    let _switch = connect(&controller, "s1", 9, NodeRole::Switch);
    expect_nodes(&controller, &[("host1", "host", false), ("s1", "switch", true)]);
    assert_eq!(is_edge(&controller), false);
}
