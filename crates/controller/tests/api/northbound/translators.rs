//! Bundled functions that have addresses of their own: these are their ports', and nobody else's.

use crate::support::{Controller, open};
use serde_json::{Value, json};

fn house(controller: &Controller) {
    for (name, cidr) in [("inner", "10.0.1.0/24"), ("outer", "203.0.113.0/24")] {
        let network = controller.create("/v2.0/networks", &json!({"name": name}));
        let subnet = json!({"network_id": network["id"], "cidr": cidr, "ip_version": 4});
        controller.create("/v2.0/subnets", &subnet);
    }
    controller.create("/v2.0/sfc/port_pair_groups", &json!({"name": "nat"}));
}

fn template(pool: &[&str], networks: &[&str]) -> Value {
    json!({"template": {
        "runs": {"bundled": "nat"}, "config": {"masquerade": ["10.0.1.0/24"], "pool": pool},
        "networks": networks, "on": ["host2"],
    }})
}

fn put(controller: &Controller, body: &Value) -> (u16, Value) {
    controller.call("PUT", "/v1/functions/nat", Some(body))
}

/// The addresses of each port, by its name.
fn addresses(controller: &Controller) -> Vec<(String, Vec<String>)> {
    let (status, body) = controller.call("GET", "/v2.0/ports", None);
    assert_eq!(status, 200, "{body}");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let of = |port: &Value| {
        let fixed = port["fixed_ips"].as_array().unwrap().iter();
        (text(&port["name"]), fixed.map(|one| text(&one["ip_address"])).collect())
    };
    let mut all: Vec<_> = body["ports"].as_array().unwrap().iter().map(of).collect();
    all.sort();
    all
}

#[test]
fn the_addresses_of_a_pool_are_those_of_the_port_by_which_packets_leave() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    house(&controller);
    let networks = ["inner", "outer"];
    let (status, told) = put(&controller, &template(&["203.0.113.4", "198.51.100.7"], &networks));
    assert_eq!(status, 200, "{told}");
    let named =
        |name: &str, of: &[&str]| (name.to_owned(), of.iter().map(ToString::to_string).collect());
    let inner: (String, Vec<String>) = named("nat", &["10.0.1.2"]);
    assert_eq!(
        addresses(&controller),
        [inner.clone(), named("nat-out", &["203.0.113.2", "203.0.113.4"])]
    );
    // Nobody else gets it.
    let outer =
        controller.call("GET", "/v2.0/networks?name=outer", None).1["networks"][0]["id"].clone();
    let wanted =
        json!({"port": {"network_id": outer, "fixed_ips": [{"ip_address": "203.0.113.4"}]}});
    let (status, refused) = controller.call("POST", "/v2.0/ports", Some(&wanted));
    assert_eq!(
        (status, &refused["NeutronError"]["type"]),
        (409, &json!("IpAddressAlreadyAllocated"))
    );
    // Another pool takes its place, and what another port has is refused.
    let (status, told) = put(&controller, &template(&["203.0.113.5"], &networks));
    assert_eq!(status, 200, "{told}");
    assert_eq!(addresses(&controller)[1], named("nat-out", &["203.0.113.2", "203.0.113.5"]));
    let other =
        json!({"network_id": outer, "name": "other", "fixed_ips": [{"ip_address": "203.0.113.9"}]});
    controller.create("/v2.0/ports", &other);
    let (status, problem) = put(&controller, &template(&["203.0.113.9"], &networks));
    let detail = problem["detail"].as_str().unwrap_or_default();
    assert!(
        status == 409 && detail.contains("203.0.113.9 is to be an address of the function 'nat'"),
        "{problem}"
    );
    // In one network, one port has all; what is given out first is no address of the pool.
    assert_eq!(put(&controller, &json!({})).0, 200);
    let (status, told) = put(&controller, &template(&["203.0.113.2"], &["outer"]));
    assert_eq!(status, 200, "{told}");
    assert_eq!(addresses(&controller)[0], named("nat", &["203.0.113.3", "203.0.113.2"]));
    controller.stop();
}

#[test]
fn who_has_addresses_is_one() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    house(&controller);
    let mut two = template(&["203.0.113.4"], &["inner", "outer"]);
    two["template"]["instances"] = json!(2);
    let (status, problem) = put(&controller, &two);
    let detail = problem["detail"].as_str().unwrap_or_default();
    assert!(status == 400 && detail.contains("'instances' is 2"), "{problem}");
    assert!(addresses(&controller).is_empty());
    controller.stop();
}

#[test]
fn a_chain_of_one_direction_through_a_nat_is_refused_with_that_advice() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    house(&controller);
    let (status, told) = put(&controller, &template(&["203.0.113.4"], &["inner", "outer"]));
    assert_eq!(status, 200, "{told}");
    let network = |name: &str| {
        let path = format!("/v2.0/networks?name={name}");
        controller.call("GET", &path, None).1["networks"][0]["id"].clone()
    };
    let port = |name: &str| {
        controller.create("/v2.0/ports", &json!({"network_id": network(name)}))["id"].clone()
    };
    let rule = json!({
        "name": "web", "protocol": "tcp", "logical_source_port": port("inner"),
        "logical_destination_port": port("outer"),
    });
    let rule = controller.create("/v2.0/sfc/flow_classifiers", &rule);
    let group = controller.call("GET", "/v2.0/sfc/port_pair_groups", None).1;
    let group = group["port_pair_groups"][0]["id"].clone();
    let chain = |symmetric: bool| {
        json!({"port_chain": {
            "name": "web", "port_pair_groups": [group], "flow_classifiers": [rule["id"]],
            "chain_parameters": {"symmetric": symmetric},
        }})
    };
    let (status, refused) = controller.call("POST", "/v2.0/sfc/port_chains", Some(&chain(false)));
    let told = refused.to_string();
    assert!(status >= 400 && told.contains("make the chain symmetric"), "{status} {told}");
    let (status, made) = controller.call("POST", "/v2.0/sfc/port_chains", Some(&chain(true)));
    assert_eq!(status, 201, "{made}");
    controller.stop();
}
