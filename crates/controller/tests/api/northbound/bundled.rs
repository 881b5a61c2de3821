//! Bundled functions: their ports and pairs are made, kept and removed as their template says.

use crate::support::{Controller, open};
use serde_json::{Value, json};

const NOTHING: &str = "*filter\n:FORWARD ACCEPT [0:0]\nCOMMIT\n";

fn template(instances: u32, on: &[&str]) -> Value {
    json!({"template": {
        "runs": {"bundled": "firewall"}, "config": {"file": {"name": "edge.iptables", "text": NOTHING}},
        "networks": ["left"], "instances": instances, "on": on,
    }})
}

pub(super) fn house(controller: &Controller) {
    for name in ["left", "right"] {
        let network = controller.create("/v2.0/networks", &json!({"name": name}));
        let cidr = if name == "left" { "10.0.1.0/24" } else { "10.0.2.0/24" };
        controller.create(
            "/v2.0/subnets",
            &json!({"network_id": network["id"], "cidr": cidr, "ip_version": 4}),
        );
    }
    controller.create("/v2.0/sfc/port_pair_groups", &json!({"name": "edge"}));
}

pub(super) fn list(controller: &Controller, path: &str, plural: &str) -> Vec<Value> {
    let (status, body) = controller.call("GET", path, None);
    assert_eq!(status, 200, "{body}");
    body[plural].as_array().unwrap().clone()
}

fn ports(controller: &Controller) -> Vec<Value> {
    list(controller, "/v2.0/ports", "ports")
}

fn put(controller: &Controller, body: &Value) -> (u16, Value) {
    controller.call("PUT", "/v1/functions/edge", Some(body))
}

#[test]
fn ports_and_pairs_are_as_many_as_the_template_says_and_where_it_says() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    house(&controller);
    let (status, function) = put(&controller, &template(1, &["host1"]));
    assert_eq!((status, &function["instances"]), (200, &json!(["edge"])), "{function}");
    let made = ports(&controller);
    assert_eq!(made.len(), 1, "{made:?}");
    for (key, value) in [
        ("name", json!("edge")),
        ("device_id", json!("edge")),
        ("device_owner", json!("catena:function")),
        ("binding:host_id", json!("host1")),
        ("binding:profile", json!({"door": "inside"})),
    ] {
        assert_eq!(made[0][key], value, "{key}");
    }
    assert_eq!(made[0]["fixed_ips"][0]["ip_address"], "10.0.1.2");
    let pairs = list(&controller, "/v2.0/sfc/port_pairs", "port_pairs");
    assert_eq!((&pairs[0]["ingress"], &pairs[0]["egress"]), (&made[0]["id"], &made[0]["id"]));

    // The one that is there stays; another comes beside it.
    let (status, function) = put(&controller, &template(2, &["host1", "host2"]));
    assert_eq!((status, function["instances"].as_array().unwrap().len()), (200, 2), "{function}");
    let more = ports(&controller);
    assert!(more.iter().any(|port| port["id"] == made[0]["id"]), "{more:?}");
    let mut hosts: Vec<&str> =
        more.iter().map(|port| port["binding:host_id"].as_str().unwrap()).collect();
    hosts.sort_unstable();
    assert_eq!(hosts, ["host1", "host2"]);

    // Packets that go by another network leave by a port there.
    let mut both = template(1, &["host2"]);
    both["template"]["networks"] = json!(["left", "right"]);
    let (status, function) = put(&controller, &both);
    assert_eq!(status, 200, "{function}");
    let all = ports(&controller);
    assert_eq!(all.len(), 2, "{all:?}");
    assert!(all.iter().all(|port| port["binding:host_id"] == "host2"), "{all:?}");
    let pairs = list(&controller, "/v2.0/sfc/port_pairs", "port_pairs");
    assert!(pairs.len() == 1 && pairs[0]["ingress"] != pairs[0]["egress"], "{pairs:?}");

    // It goes with its template, and with its group.
    assert_eq!(put(&controller, &json!({})).0, 200);
    assert!(ports(&controller).is_empty());
    assert_eq!(put(&controller, &template(1, &["host1"])).0, 200);
    let group =
        list(&controller, "/v2.0/sfc/port_pair_groups", "port_pair_groups")[0]["id"].clone();
    let path = format!("/v2.0/sfc/port_pair_groups/{}", group.as_str().unwrap());
    let emptied = json!({"port_pair_group": {"port_pairs": []}});
    let (status, refused) = controller.call("PUT", &path, Some(&emptied));
    assert_eq!((status, &refused["NeutronError"]["type"]), (409, &json!("PortPairGroupInUse")));
    assert_eq!(controller.call("DELETE", &path, None).0, 204);
    assert!(ports(&controller).is_empty());
    assert!(list(&controller, "/v2.0/sfc/port_pairs", "port_pairs").is_empty());
    controller.stop();
}

#[test]
fn a_port_that_was_made_is_nobodys_to_move_or_remove() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    house(&controller);
    assert_eq!(put(&controller, &template(1, &["host1"])).0, 200);
    let port = format!("/v2.0/ports/{}", ports(&controller)[0]["id"].as_str().unwrap());
    for body in [
        json!({"port": {"binding:host_id": "host2"}}),
        json!({"port": {"binding:profile": {"interface": "eth0"}}}),
        json!({"port": {"mac_address": "02:00:00:00:00:77"}}),
    ] {
        let (status, refused) = controller.call("PUT", &port, Some(&body));
        assert_eq!(status, 409, "{body}: {refused}");
        let message = refused["NeutronError"]["message"].as_str().unwrap();
        assert!(message.contains("change the template"), "{message}");
    }
    assert_eq!(controller.call("DELETE", &port, None).0, 409);
    let id = ports(&controller)[0]["id"].clone();
    let own = json!({"network_id": ports(&controller)[0]["network_id"], "device_id": "edge"});
    let own = controller.create("/v2.0/ports", &own)["id"].clone();
    let pair = json!({"port_pair": {"name": "mine", "ingress": id, "egress": own}});
    let (status, refused) = controller.call("POST", "/v2.0/sfc/port_pairs", Some(&pair));
    assert_eq!((status, &refused["NeutronError"]["type"]), (409, &json!("PortInUse")), "{refused}");
    // Nor is it taken from under a classifier.
    let begins = json!({"name": "begins", "logical_source_port": id});
    let rule = controller.create("/v2.0/sfc/flow_classifiers", &begins)["id"].clone();
    let (status, problem) = put(&controller, &json!({}));
    assert_eq!(status, 409, "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains("in use by flow classifier"), "{problem}");
    let rule = format!("/v2.0/sfc/flow_classifiers/{}", rule.as_str().unwrap());
    assert_eq!(controller.call("DELETE", &rule, None).0, 204);
    let (status, renamed) =
        controller.call("PUT", &port, Some(&json!({"port": {"name": "front"}})));
    assert_eq!((status, &renamed["port"]["name"]), (200, &json!("front")), "{renamed}");
    controller.stop();
}

#[test]
fn what_of_the_rules_is_left_out_is_told_with_the_function() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    house(&controller);
    let mut body = template(1, &["host1"]);
    let text = "*filter\n:FORWARD ACCEPT [0:0]\n-A FORWARD -m u32 --u32 1 -j DROP\nCOMMIT\n";
    body["template"]["config"] =
        json!({"file": {"name": "edge.iptables", "text": text}, "unsupported": "skip"});
    assert_eq!(put(&controller, &body).0, 200);
    let (_, function) = controller.call("GET", "/v1/functions/edge", None);
    let remarks: Vec<&str> =
        function["remarks"].as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect();
    assert!(
        remarks.iter().any(|one| one.starts_with("edge.iptables line 3: left out")),
        "{remarks:?}"
    );
    controller.stop();
}

#[test]
fn a_node_has_room_for_so_many_and_the_next_one_is_refused() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    house(&controller);
    let max = catena_model::limits::NODE_FUNCTION_PORTS_MAX as u32;
    assert_eq!(put(&controller, &template(max, &["host1"])).0, 200);
    let (status, problem) = put(&controller, &template(max + 1, &["host1"]));
    assert_eq!(status, 409, "{problem}");
    let detail = problem["detail"].as_str().unwrap();
    assert!(
        detail.contains("65 ports of bundled functions") && detail.contains("host1"),
        "{detail}"
    );
    assert_eq!(ports(&controller).len(), max as usize);
    assert_eq!(put(&controller, &template(max + 1, &["host1", "host2"])).0, 200);
    controller.stop();
}

#[test]
fn what_no_function_can_be_made_of_is_refused_and_nothing_is_stored() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    house(&controller);
    let with = |change: &dyn Fn(&mut Value)| {
        let mut body = template(1, &["host1"]);
        change(&mut body["template"]);
        body
    };
    let cases: [(Value, &str); 7] = [
        (with(&|t| t["runs"] = json!({"bundled": "oracle"})), "there are balancer, "),
        (with(&|t| t["config"] = json!({})), "missing field `file`"),
        (
            with(&|t| t["config"] = json!({"file": "edge.iptables"})),
            "a file with its 'name' and 'text'",
        ),
        (with(&|t| t["networks"] = json!([])), "several networks"),
        (with(&|t| t["networks"] = json!(["middle"])), "no network 'middle'"),
        (with(&|t| t["networks"] = json!(["left", "right", "left"])), "names 3"),
        (with(&|t| t["runs"] = json!({"external": "x"})), "is what a bundled function is told"),
    ];
    for (body, part) in cases {
        let (status, problem) = put(&controller, &body);
        let detail = problem["detail"].as_str().unwrap_or_default().to_owned();
        assert!(status == 400 && detail.contains(part), "{status} {problem}");
    }
    let (_, function) = controller.call("GET", "/v1/functions/edge", None);
    assert!(function["template"].is_null() && ports(&controller).is_empty(), "{function}");
    controller.stop();
}

#[test]
fn alerts_of_a_node_that_does_not_answer_are_said_to_be_missing() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    house(&controller);
    let route = "/v1/functions/edge/alerts";
    let (status, told) = controller.call("GET", route, None);
    let why = told["detail"].as_str().unwrap();
    assert!(status == 409 && why.contains("'edge' does not come with Catena"), "{told}");
    let (status, function) = put(&controller, &template(2, &["host1", "host2"]));
    assert_eq!(status, 200, "{function}");
    let (status, told) = controller.call("GET", route, None);
    let silent = json!(["edge-1", "edge-2"]);
    assert_eq!((status, &told["silent"], &told["alerts"]), (200, &silent, &json!([])), "{told}");
    for wrong in ["after=7", "after=..", "limit=0", "limit=x"] {
        let (status, told) = controller.call("GET", &format!("{route}?{wrong}"), None);
        assert_eq!(status, 400, "{told}");
    }
}
