//! Instances that nodes run themselves: what is refused, what nodes are told, and what is told of them.

use super::bundled::{house, list};
use crate::support;
use crate::support::agent::FakeAgent;
use crate::support::{Controller, open};
use serde_json::{Value, json};

/// Waits until it is so.
fn eventually(what: &str, is_so: impl Fn() -> bool) {
    support::eventually(what, || is_so().then_some(()));
}

fn put(controller: &Controller, template: &Value) -> (u16, Value) {
    let body = json!({"template": template});
    controller.call("PUT", "/v1/functions/edge", Some(&body))
}

fn command(words: &[&str]) -> Value {
    json!({"runs": {"command": words}, "networks": ["left"], "on": ["host1"]})
}

#[test]
fn a_node_is_told_what_it_is_to_run_and_its_word_is_the_condition() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    house(&controller);
    let agent = FakeAgent::connect(&controller.data, "host1", 1, controller.southbound);
    let told = || agent.state.lock().unwrap().instances.clone();
    let condition = || {
        let (_, function) = controller.call("GET", "/v1/functions/edge", None);
        function["conditions"][0].clone()
    };
    let (status, function) = put(&controller, &command(&["sleep", "1"]));
    assert_eq!(status, 200, "{function}");
    eventually("it runs", || condition()["text"] == "1 of 1 instances run");
    let first = told();
    let [spec] = first.as_slice() else { panic!("{first:?}") };
    assert_eq!(spec.interfaces.len(), 2);
    let ports = list(&controller, "/v2.0/ports", "ports");
    for (interface, name) in spec.interfaces.iter().zip(["edge", "edge-out"]) {
        let port = ports.iter().find(|port| port["name"] == name).unwrap();
        assert_eq!(port["id"], interface.port.to_string());
        assert_eq!(port["mac_address"], interface.mac.to_string());
        let profile = &port["binding:profile"];
        assert_eq!(
            (&profile["netns"], &profile["interface"]),
            (&json!(spec.namespace), &json!(interface.name))
        );
        let address = port["fixed_ips"][0]["ip_address"].as_str().unwrap();
        assert_eq!(interface.addresses[0].to_string(), format!("{address}/24"));
    }

    // Bounds change what is there; another command is another instance.
    let mut bounded = command(&["sleep", "1"]);
    bounded["cpu_milli"] = json!(250);
    assert_eq!(put(&controller, &bounded).0, 200);
    eventually("other bounds", || {
        told().first().is_some_and(|spec| spec.bounds.cpu_milli == Some(250))
    });
    assert_eq!(told()[0].id, spec.id);
    agent.state.lock().unwrap().ends_with = "it ended with exit code 3".into();
    assert_eq!(put(&controller, &command(&["sleep", "2"])).0, 200);
    eventually("another instance", || told().first().is_some_and(|now| now.id != spec.id));
    let failed =
        "0 of 1 instances run; edge at host1: it ended with exit code 3 (started anew 2 times)";
    eventually("its end", || condition()["text"] == failed);
    assert_eq!(list(&controller, "/v2.0/ports", "ports").len(), 2, "the former's are gone");

    assert_eq!(put(&controller, &json!({"runs": {"external": "x"}})).0, 200);
    eventually("nothing to run", || told().is_empty());
    assert!(list(&controller, "/v2.0/ports", "ports").is_empty());
    drop(agent);
    controller.stop();
}

#[test]
fn what_no_node_can_run_is_refused_with_what_to_do() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    house(&controller);
    let file = json!({"name": "x", "text": "*filter\n:FORWARD ACCEPT [0:0]\nCOMMIT\n"});
    let firewall = |more: Value| {
        let mut template = json!({"runs": {"bundled": "firewall"}, "config": {"file": file}, "networks": ["left"]});
        template.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        template
    };
    let mut doored = command(&["sleep"]);
    doored["door"] = json!("apart");
    let mut nothing = command(&["sleep"]);
    nothing["memory_mib"] = json!(0);
    let nat = json!({"runs": {"bundled": "nat"}, "door": "apart", "on": ["host1"], "networks": ["left"],
        "config": {"masquerade": ["10.0.1.0/24"], "pool": ["203.0.113.4"]}});
    let shaper = json!({"name": "x", "text": "classes: []\n"});
    let monitor = json!({"runs": {"bundled": "monitor"}, "door": "apart", "on": ["host1"], "networks": ["left"],
        "config": {"ipfix": "192.0.2.1:4739"}});
    for (template, part) in [
        (
            json!({"runs": {"image": "registry/ids:3"}}),
            "images of containers are run by nobody here",
        ),
        (doored, "'door' is where a bundled function runs"),
        (nothing, "'memory_mib' is 0"),
        (
            firewall(json!({"door": "apart", "priority": 1, "on": ["host1"]})),
            "'priority' is of instances that are placed",
        ),
        (firewall(json!({"cpu_milli": 100})), "say 'door: apart'"),
        (nat, "addresses that the configuration names are answered for by the data plane"),
        (monitor, "'ipfix' names a collector"),
        (json!({"runs": {"bundled": "shaper"}, "config": {"file": shaper}}), "by 'door: apart'"),
        (
            json!({"runs": {"bundled": "router"}, "config": {"file": file}, "door": "apart", "on": ["host1"]}),
            "stands in no chain yet",
        ),
    ] {
        let (status, problem) = put(&controller, &template);
        let detail = problem["detail"].as_str().unwrap_or_default();
        assert!(status == 400 && detail.contains(part), "{template}: {status} {problem}");
    }
    let (_, function) = controller.call("GET", "/v1/functions/edge", None);
    assert!(function["template"].is_null(), "{function}");
    controller.stop();
}
