//! A node that left for good: what waits for it, and how it is forgotten.

use crate::support::agent::FakeAgent;
use crate::support::lab::Lab;
use crate::support::{Controller, eventually, open};
use serde_json::{Value, json};
use std::time::Duration;

fn nodes(controller: &Controller) -> Vec<String> {
    let nodes = controller.get("/v1/nodes");
    let names =
        nodes.as_array().unwrap().iter().map(|node| node["status"]["node"].as_str().unwrap());
    names.map(str::to_owned).collect()
}

fn connect(controller: &Controller, node: &str, host: u8) -> FakeAgent {
    let agent = FakeAgent::connect(&controller.data, node, host, controller.southbound);
    eventually("its connection", || is_connected(controller, node).then_some(()));
    agent
}

fn is_connected(controller: &Controller, node: &str) -> bool {
    let nodes = controller.get("/v1/nodes");
    let mut nodes = nodes.as_array().unwrap().iter();
    nodes.any(|found| found["status"]["node"] == node && found["status"]["is_connected"] == true)
}

fn wait_gone(controller: &Controller, node: &str) {
    eventually("its end", || (!is_connected(controller, node)).then_some(()));
}

fn forget(controller: &Controller, node: &str) -> (u16, String) {
    let (status, body) = controller.call("DELETE", &format!("/v1/nodes/{node}"), None);
    (status, body["detail"].as_str().unwrap_or_default().to_owned())
}

#[test]
fn a_node_that_left_holds_slices_up_until_it_is_forgotten_and_may_come_back() {
    let data = tempfile::tempdir().unwrap();
    let mut config = open(data.path());
    config.answer_wait = Duration::from_secs(1);
    let controller = Controller::start(config);
    let agents = [connect(&controller, "host1", 1), connect(&controller, "host2", 2)];
    let lab = Lab::new(&controller);
    let source = lab.port("S", "S", "host1");
    let function = lab.function_on("v1", "host1");
    let classifier = lab.classifier("fc", &source, 5_001);
    let chain = lab.chain("web", &[&function], &[&classifier]);
    controller.create("/v2.0/sfc/port_chains", &chain);
    connect(&controller, "guest", 3).disconnect();
    wait_gone(&controller, "guest");
    // Its packets may come anywhere: every node that is known must know it.
    let slice = json!({"name": "gold", "chain": "web", "vni": 7});
    let (status, made) = controller.call("POST", "/v1/slices", Some(&slice));
    assert_eq!((status, &made["status"]["state"]), (201, &json!("building")), "{made}");
    assert!(made["status"]["reason"].as_str().unwrap().contains("'guest'"), "{made}");
    assert_eq!(forget(&controller, "nobody").0, 404);
    let (status, detail) = forget(&controller, "host2");
    assert!(status == 409 && detail.contains("is connected"), "{status} {detail}");
    assert_eq!(forget(&controller, "guest"), (204, String::new()));
    assert_eq!(nodes(&controller), ["host1", "host2"]);
    let state = |controller: &Controller| {
        let slices = controller.get("/v1/slices");
        let of = |slice: &Value| slice["status"]["state"].as_str().map(str::to_owned);
        of(&slices.as_array().unwrap()[0])
    };
    let active = || (state(&controller).as_deref() == Some("active")).then_some(());
    eventually("an active slice", active);
    // Who comes back, with whatever it ran, is a node like any other.
    let guest = connect(&controller, "guest", 3);
    eventually("the slice at the node that is back", || {
        let known = guest.state.lock().unwrap().running.entries.slices.len();
        (known == 1 && active().is_some()).then_some(())
    });
    drop(guest);
    wait_gone(&controller, "guest");
    assert_eq!(forget(&controller, "guest").0, 204);
    drop(agents);
    controller.stop();
    let controller = Controller::start(open(data.path()));
    assert_eq!(nodes(&controller), ["host1", "host2"], "forgotten for good");
}

#[test]
fn a_node_is_not_forgotten_while_a_chain_needs_it_and_then_its_paths_go() {
    let data = tempfile::tempdir().unwrap();
    let mut config = open(data.path());
    config.answer_wait = Duration::from_secs(1);
    let controller = Controller::start(config);
    let _host1 = connect(&controller, "host1", 1);
    let host2 = connect(&controller, "host2", 2);
    let lab = Lab::new(&controller);
    let source = lab.port("S", "S", "host1");
    let function = lab.function_on("v2", "host2");
    let classifier = lab.classifier("fc", &source, 5_001);
    let chain = lab.chain("web", &[&function], &[&classifier]);
    let chain = controller.create("/v2.0/sfc/port_chains", &chain);
    host2.disconnect();
    wait_gone(&controller, "host2");
    let (status, detail) = forget(&controller, "host2");
    assert!(status == 409 && detail.contains("of chain 'web' is bound there"), "{detail}");
    let path = format!("/v2.0/sfc/port_chains/{}", chain["id"].as_str().unwrap());
    assert_eq!(controller.call("DELETE", &path, None).0, 204);
    assert_eq!(forget(&controller, "host2").0, 204);
    eventually("no path of what is gone", || {
        controller.get("/v1/paths").as_array().unwrap().is_empty().then_some(())
    });
}
