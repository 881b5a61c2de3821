//! Quotas: who may have how much, who may say so, and that labs have none.

use crate::support::tokens::{Caller, start};
use crate::support::{Controller, eventually, kind, message, open};
use catena_controller::Auth;
use serde_json::{Value, json};

const OWN: &str = "/v2.0/quotas/fake_project_id";

#[test]
fn without_tokens_nobody_has_a_limit_until_somebody_sets_one() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    let unlimited = json!({"network": -1, "subnet": -1, "port": -1, "flow_classifier": -1,
        "service_graph": -1, "port_pair": -1, "port_chain": -1, "port_pair_group": -1});
    assert_eq!(controller.get(OWN)["quota"], unlimited);
    assert_eq!(controller.get(&format!("{OWN}/default"))["quota"], unlimited);
    assert_eq!(controller.get("/v2.0/quotas"), json!({"quotas": []}));
    assert_eq!(controller.call("DELETE", OWN, None).0, 404);
    assert_eq!(controller.get("/v2.0/quotas/tenant")["tenant"]["tenant_id"], "fake_project_id");
    assert_eq!(controller.get("/v2.0/quotas/project")["project"]["project_id"], "fake_project_id");

    let groups = "/v2.0/sfc/port_pair_groups";
    controller.create(groups, &json!({}));
    let (status, set) = controller.put(OWN, &json!({"port_pair_group": "2"}));
    assert_eq!((status, &set["port_pair_group"]), (200, &json!(2)), "{set}");
    controller.create(groups, &json!({}));
    let (status, body) = controller.post(groups, &json!({}));
    assert_eq!((status, kind(&body)), (409, "OverQuota"));
    assert_eq!(message(&body), "Quota exceeded for resources: ['port_pair_group'].");
    // What is wrong with a body is said first, what is wrong with the world after.
    let (status, body) = controller.post(groups, &json!({"port_pairs": "x"}));
    assert_eq!((status, kind(&body)), (400, "HTTPBadRequest"));
    // Another project's are counted apart.
    controller.create(groups, &json!({"project_id": "another"}));
    let details = controller.get(&format!("{OWN}/details.json"));
    let expected = json!({"limit": 2, "used": 2, "reserved": 0});
    assert_eq!(details["quota"]["port_pair_group"], expected);
    assert_eq!(details["quota"]["network"], json!({"limit": -1, "used": 0, "reserved": 0}));
    let listed = controller.get("/v2.0/quotas")["quotas"][0].clone();
    assert_eq!(
        (&listed["project_id"], &listed["port_pair_group"]),
        (&json!("fake_project_id"), &json!(2))
    );

    for (limits, expected) in [
        (json!({"port_pair_group": 1}), "HTTPBadRequest"),
        (json!({"port_chain": -2}), "HTTPBadRequest"),
        (json!({"port_chain": "x"}), "InvalidInput"),
        (json!({"port_chain": null}), "InvalidInput"),
        (json!({"colour": 1}), "HTTPBadRequest"),
    ] {
        let (status, body) = controller.put(OWN, &limits);
        assert_eq!((status, kind(&body)), (400, expected), "{limits}: {body}");
    }
    assert_eq!(controller.get(OWN)["quota"]["port_pair_group"], 2, "nothing of it was kept");
    controller.stop();

    let again = Controller::start(open(data.path()));
    assert_eq!(again.post(groups, &json!({})).0, 409, "limits outlive the controller");
    assert_eq!(again.call("DELETE", OWN, None).0, 204);
    again.create(groups, &json!({}));
}

#[test]
fn surprise_12_of_the_original_service_graphs_have_a_default_like_the_others() {
    let data = tempfile::tempdir().unwrap();
    let controller = start(data.path(), Auth::Token);
    let admin = Caller::admin(&controller);
    let tenant = admin.with_role("t", "p", "tenant");
    let expected = json!({"network": 100, "subnet": 100, "port": 500, "flow_classifier": 100,
        "service_graph": 10, "port_pair": 100, "port_chain": 10, "port_pair_group": 10,
        "slice": 1000, "port_per_node": 128, "draft": 8, "watcher": 16, "rule_set": 16});
    assert_eq!(tenant.call("GET", "/v2.0/quotas/p/default", None).json()["quota"], expected);
    for _ in 0..10 {
        tenant.create("/v2.0/sfc/service_graphs", &json!({"port_chains": {}}));
    }
    let graph = json!({"service_graph": {"port_chains": {}}});
    let over = tenant.call("POST", "/v2.0/sfc/service_graphs", Some(&graph));
    assert_eq!((over.status, over.kind()), (409, "OverQuota".into()), "{over:?}");
    for _ in 0..100 {
        tenant.create("/v2.0/networks", &json!({}));
    }
    let over = tenant.call("POST", "/v2.0/networks", Some(&json!({"network": {}})));
    assert_eq!((over.status, over.kind()), (409, "OverQuota".into()), "{over:?}");
    // For another project an administrator has that project's limit.
    let other = json!({"service_graph": {"port_chains": {}, "project_id": "p"}});
    let over = admin.call("POST", "/v2.0/sfc/service_graphs", Some(&other));
    assert_eq!((over.status, over.kind()), (409, "OverQuota".into()), "{over:?}");
}

#[test]
fn only_administrators_set_limits_and_tenants_see_their_own() {
    let data = tempfile::tempdir().unwrap();
    let controller = start(data.path(), Auth::Token);
    let admin = Caller::admin(&controller);
    let callers: Vec<(&str, Caller<'_>)> = ["viewer", "tenant", "operator"]
        .into_iter()
        .map(|role| (role, admin.with_role(role, "p", role)))
        .collect();
    let limits: Value = json!({"quota": {"port_chain": 3}});
    for (role, caller) in &callers {
        let refused = caller.call("PUT", "/v2.0/quotas/p", Some(&limits));
        assert_eq!((refused.status, refused.kind()), (403, "PolicyNotAuthorized".into()), "{role}");
        assert_eq!(caller.call("GET", "/v2.0/quotas/p", None).status, 200, "{role}");
        let foreign = caller.call("GET", "/v2.0/quotas/q", None).status;
        assert_eq!(foreign, if *role == "operator" { 200 } else { 404 }, "{role}");
        let list = caller.call("GET", "/v2.0/quotas", None).status;
        assert_eq!(list, if *role == "operator" { 200 } else { 403 }, "{role}");
    }
    assert_eq!(admin.call("PUT", "/v2.0/quotas/p", Some(&limits)).status, 200);
    let seen = callers[0].1.call("GET", "/v2.0/quotas/p", None).json();
    assert_eq!(seen["quota"]["port_chain"], 3);
}

fn lines(controller: &Controller, lines: &[Value]) -> Vec<Value> {
    let (http, url) = controller.raw();
    let text: Vec<String> = lines.iter().map(Value::to_string).collect();
    let request = http.post(format!("{url}/v1/bulk")).body(text.join("\n"));
    let answer = request.header("Content-Type", "application/x-ndjson").send().unwrap();
    answer.text().unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_bulk_line_at_a_limit_fails_alone() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    let (status, _) =
        controller.put(OWN, &json!({"flow_classifier": 2, "slice": 1, "port_pair_group": 1}));
    assert_eq!(status, 200);
    let classifier = |port: u16| {
        json!({"flow_classifier": {"protocol": "udp", "destination_port_range_min": port,
                                   "destination_port_range_max": port}})
    };
    let network = json!({"network": {}});
    let made =
        lines(&controller, &[classifier(1), classifier(2), classifier(3), network, classifier(4)]);
    let told: Vec<u64> = made.iter().map(|line| line["status"].as_u64().unwrap()).collect();
    assert_eq!(told, [201, 201, 409, 201, 409], "{made:#?}");
    assert_eq!(made[2]["NeutronError"]["type"], "OverQuota");
    let group = controller.create("/v2.0/sfc/port_pair_groups", &json!({}));
    let chain = json!({"name": "web", "port_pair_groups": [group["id"]]});
    controller.create("/v2.0/sfc/port_chains", &chain);
    let slice = |vni: u32| json!({"slice": {"name": "s", "chain": "web", "vni": vni}});
    let bad = json!({"slice": {"name": "s", "chain": "nothing", "vni": 9}});
    let made = lines(&controller, &[bad, slice(1), slice(2)]);
    let told: Vec<u64> = made.iter().map(|line| line["status"].as_u64().unwrap()).collect();
    assert_eq!(told, [404, 201, 409], "{made:#?}");
    assert!(made[2].to_string().contains("['slice']"), "{made:#?}");
    let (status, over) = controller.call("POST", "/v1/slices", Some(&slice(3)["slice"]));
    assert_eq!(status, 409, "{over}");
    let details = controller.get(&format!("{OWN}/details"));
    assert_eq!(details["quota"]["slice"], json!({"limit": 1, "used": 1, "reserved": 0}));
}

#[test]
fn ports_at_one_node_and_watchers_are_counted_for_each_project() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    assert_eq!(controller.put(OWN, &json!({"port_per_node": 1, "watcher": 1})).0, 200);
    let network = controller.create("/v2.0/networks", &json!({}))["id"].clone();
    let port = |node: &str, project: &str| {
        let port = json!({"network_id": network, "binding:host_id": node, "project_id": project});
        controller.post("/v2.0/ports", &port)
    };
    let own = "fake_project_id";
    assert_eq!(port("host1", own).0, 201);
    let (status, over) = port("host1", own);
    assert_eq!((status, kind(&over)), (409, "OverQuota"), "{over}");
    assert_eq!(message(&over), "Quota exceeded for resources: ['port_per_node'].");
    assert_eq!(port("host1", "another").0, 201);
    let (_, moved) = port("host2", own);
    let path = format!("/v2.0/ports/{}", moved["id"].as_str().unwrap());
    let (status, over) = controller.put(&path, &json!({"binding:host_id": "host1"}));
    assert_eq!((status, kind(&over)), (409, "OverQuota"), "{over}");
    assert_eq!(controller.put(&path, &json!({"binding:host_id": "host2", "name": "x"})).0, 200);

    let (http, url) = controller.raw();
    let watch = || http.get(format!("{url}/v1/watch")).send().unwrap();
    let first = watch();
    assert_eq!(
        (first.status(), watch().status()),
        (200.try_into().unwrap(), 409.try_into().unwrap())
    );
    drop(first);
    eventually("the place of one that went", || (watch().status() == 200).then_some(()));
}
