//! 8.1: the 21 tests that drive a whole deployment through its API.

use super::bench::{Bench, CHAINS, GROUPS, PAIRS, PORTS, RULES};
use crate::support::lab::id;
use serde_json::{Value, json};

/// What was created is listed and shown as it was answered; its name can be changed.
fn goes_round(bench: &Bench, path: &str, attributes: &Value) -> Value {
    let made = bench.controller.create(path, attributes);
    for (key, value) in attributes.as_object().unwrap() {
        assert_eq!(&made[key], value, "{path} {key}");
    }
    let shown = bench.show(path, &id(&made));
    let list = bench.controller.get(path)[path.rsplit('/').next().unwrap()].clone();
    let listed = list.as_array().unwrap().iter().find(|item| item["id"] == made["id"]).unwrap();
    for (key, value) in made.as_object().unwrap() {
        assert_eq!((&shown[key], &listed[key]), (value, value), "{path} {key}");
    }
    let item = format!("{path}/{}", id(&made));
    let (status, renamed) = bench.controller.put(&item, &json!({"name": "renamed"}));
    assert_eq!((status, &renamed["name"]), (200, &json!("renamed")), "{path}");
    made
}

#[test]
fn list_show_and_update_of_every_resource() {
    let bench = Bench::new();
    let (a, b) = (bench.port("d"), bench.port("d"));
    let rule = json!({"name": "fc", "source_ip_prefix": "10.0.0.0/24",
        "destination_ip_prefix": "10.1.0.0/24", "logical_source_port": a,
        "logical_destination_port": b});
    goes_round(&bench, RULES, &rule);
    let pair = goes_round(&bench, PAIRS, &json!({"name": "pp", "ingress": a, "egress": b}));
    let group = json!({"name": "ppg", "port_pairs": [id(&pair)]});
    let group = goes_round(&bench, GROUPS, &group);
    goes_round(&bench, CHAINS, &json!({"name": "pc", "port_pair_groups": [id(&group)]}));
}

#[test]
fn create_port_pair_different_ingress_egress() {
    let bench = Bench::new();
    let port = || {
        let network = bench.made("/v2.0/networks", json!({}));
        let subnet = json!({"network_id": network, "cidr": "10.0.0.0/24", "ip_version": 4});
        bench.made("/v2.0/subnets", subnet);
        bench.made(PORTS, json!({"network_id": network, "device_id": "router"}))
    };
    let (ingress, egress) = (port(), port());
    goes_round(&bench, PAIRS, &json!({"ingress": ingress, "egress": egress}));
}

#[test]
fn create_port_pair_group_without_and_with_several_port_pairs() {
    let bench = Bench::new();
    goes_round(&bench, GROUPS, &json!({"port_pairs": []}));
    let pairs = [bench.pair(json!(null)), bench.pair(json!(null))];
    goes_round(&bench, GROUPS, &json!({ "port_pairs": pairs }));
}

#[test]
fn create_port_chain_without_and_with_several_members_and_symmetric() {
    let bench = Bench::new();
    let [a, b, c, d, e] = [(); 5].map(|()| bench.group(json!(null)));
    let rules: Vec<String> = (80..82).map(|port| bench.rule(port)).collect();
    goes_round(&bench, CHAINS, &json!({"port_pair_groups": [a], "flow_classifiers": []}));
    goes_round(&bench, CHAINS, &json!({"port_pair_groups": [b], "flow_classifiers": rules}));
    goes_round(&bench, CHAINS, &json!({"port_pair_groups": [c, a, b]}));
    for (groups, port) in [(json!([d]), 90), (json!([d, e]), 91)] {
        let chain = json!({"port_pair_groups": groups, "flow_classifiers": [bench.rule(port)],
            "chain_parameters": {"correlation": "mpls", "symmetric": true}});
        goes_round(&bench, CHAINS, &chain);
    }
}
