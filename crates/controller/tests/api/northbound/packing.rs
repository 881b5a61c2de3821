//! Instances that no `on` names hosts for: where they go by what nodes say of themselves, and what has no room.

use super::bundled::{house, list};
use crate::support::agent::FakeAgent;
use crate::support::{Controller, eventually, open};
use serde_json::{Value, json};

fn template(instances: u32, cpu_milli: u32, more: &Value) -> Value {
    let mut template = json!({
        "runs": {"command": ["sleep", "1"]}, "networks": ["left"], "instances": instances,
        "cpu_milli": cpu_milli, "memory_mib": 64,
    });
    template.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({ "template": template })
}

fn put(controller: &Controller, name: &str, body: &Value) -> (u16, Value) {
    controller.call("PUT", &format!("/v1/functions/{name}"), Some(body))
}

fn hosts(controller: &Controller, name: &str) -> Value {
    controller.get(&format!("/v1/functions/{name}"))["hosts"].clone()
}

/// Agents of a host with two NUMA nodes of a core, one with a core, and one that says nothing of itself.
fn begin(controller: &Controller) -> [FakeAgent; 3] {
    house(controller);
    for name in ["more", "huge", "batch", "late"] {
        controller.create("/v2.0/sfc/port_pair_groups", &json!({"name": name}));
    }
    let agents = [
        FakeAgent::with_room(controller, 1, &[(1, 512), (1, 512)]),
        FakeAgent::with_room(controller, 2, &[(1, 256)]),
        FakeAgent::with_room(controller, 3, &[]),
    ];
    eventually("all are there", || {
        let nodes = controller.get("/v1/nodes");
        let connected = |node: &&Value| node["status"]["is_connected"] == true;
        (nodes.as_array()?.iter().filter(connected).count() == 3).then_some(())
    });
    agents
}

#[test]
fn nodes_tell_processors_and_memory_and_what_is_placed_goes_where_there_is_room() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    let agents = begin(&controller);
    let node = eventually("it says what it has", || {
        let node = controller.get("/v1/nodes/host1");
        node["status"]["capacity"].is_object().then_some(node)
    });
    let numa = |number| json!({"number": number, "cpu_milli": 1_000, "memory_mib": 512});
    assert_eq!(node["status"]["capacity"], json!({"numa": [numa(0), numa(1)]}), "{node}");
    assert!(controller.get("/v1/nodes/host3")["status"]["capacity"].is_null());

    let (status, function) = put(&controller, "edge", &template(3, 500, &json!({})));
    assert_eq!(status, 200, "{function}");
    let all_on = |host: &str, names: &[&str]| -> Value {
        names
            .iter()
            .map(|name| ((*name).to_owned(), json!(host)))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    assert_eq!(function["hosts"], all_on("host1", &["edge-1", "edge-2", "edge-3"]));
    eventually("its node runs them", || {
        (agents[0].state.lock().unwrap().instances.len() == 3).then_some(())
    });
    let known = list(&controller, "/v2.0/ports", "ports");
    // One more goes beside them, and those that are there stay who they are.
    let (_, function) = put(&controller, "edge", &template(4, 500, &json!({})));
    assert_eq!(function["hosts"], all_on("host1", &["edge-1", "edge-2", "edge-3", "edge-4"]));
    let now = list(&controller, "/v2.0/ports", "ports");
    assert!(known.iter().all(|port| now.iter().any(|one| one["id"] == port["id"])));
    let (_, function) = put(&controller, "more", &template(1, 900, &json!({})));
    assert_eq!(function["hosts"], all_on("host2", &["more"]));
    eventually("it is told as taken", || {
        let taken = controller.get("/v1/nodes/host2")["status"]["taken"].take();
        (taken == json!({"cpu_milli": 900, "memory_mib": 64})).then_some(())
    });
    // What is smaller than it was stays; what has grown moves where there is room.
    assert_eq!(put(&controller, "edge", &template(1, 100, &json!({}))).0, 200);
    assert_eq!(put(&controller, "more", &template(1, 1_500, &json!({}))).0, 200);
    assert_eq!(hosts(&controller, "more"), all_on("host1", &["more"]));
    drop(agents);
    controller.stop();
}

#[test]
fn what_has_no_room_is_refused_with_what_is_missing_and_nothing_is_half_applied() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    let agents = begin(&controller);
    let (status, problem) = put(&controller, "huge", &template(2, 1_500, &json!({})));
    let detail = problem["detail"].as_str().unwrap_or_default();
    let missing = "host 'host1' has 500 of 2000 thousandths of a core free, 1000 more are needed";
    assert!(status == 409 && detail.contains(missing), "{problem}");
    assert!(
        detail.contains("instance 'huge-2'")
            && detail.contains("host 'host3' does not say what it has")
    );
    let function = controller.get("/v1/functions/huge");
    assert!(function["template"].is_null() && function["instances"] == json!([]), "{function}");
    assert!(list(&controller, "/v2.0/ports", "ports").is_empty());

    // The same in a draft, which is refused as a whole when it is looked at, and when it is applied.
    let (_, draft) = controller.call("POST", "/v1/plan", Some(&json!({})));
    let path = format!("/v1/plan/{}", draft["draft"].as_str().unwrap());
    let in_draft = |name: &str, body: &Value| {
        let (http, url) = controller.raw();
        let request = http.put(format!("{url}/v1/functions/{name}")).json(body);
        request.header("Catena-Draft", draft["draft"].as_str().unwrap()).send().unwrap().status()
    };
    assert!(in_draft("edge", &template(1, 100, &json!({}))).is_success());
    assert!(in_draft("huge", &template(2, 1_500, &json!({}))).is_success());
    let (status, problem) = controller.call("GET", &path, None);
    assert!(status == 409 && problem["detail"].as_str().unwrap().contains("'huge-2'"), "{problem}");
    let (status, _) = controller.call("POST", &format!("{path}/apply"), Some(&json!({})));
    assert_eq!(status, 409);
    assert!(controller.get("/v1/functions/edge")["template"].is_null());

    // With what fits together, it is told where all go, and what is left.
    assert!(in_draft("huge", &template(2, 900, &json!({}))).is_success());
    let plan = controller.get(&path);
    let packing = &plan["packing"];
    assert_eq!(
        (&packing["hosts_used"], &packing["is_proved"]),
        (&json!(1), &json!(true)),
        "{plan}"
    );
    let places = packing["instances"].as_array().unwrap();
    assert!(places.iter().all(|one| one["host"] == "host1" && one["former"].is_null()), "{plan}");
    let room = |cpu: u64, mib: u64| json!({"cpu_milli": cpu, "memory_mib": mib});
    assert_eq!(
        packing["hosts"],
        json!([{"host": "host1", "total": room(2_000, 1_024), "before": room(2_000, 1_024), "after": room(100, 832)}])
    );
    let (status, applied) = controller.call("POST", &format!("{path}/apply"), Some(&json!({})));
    assert_eq!(status, 200, "{applied}");
    assert_eq!(hosts(&controller, "huge"), json!({"huge-1": "host1", "huge-2": "host1"}));
    drop(agents);
    controller.stop();
}

#[test]
fn who_has_the_lowest_priority_goes_without_where_there_is_no_room_for_all() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    let agents = begin(&controller);
    assert_eq!(put(&controller, "edge", &template(2, 900, &json!({}))).0, 200);
    let (_, batch) = put(&controller, "batch", &template(1, 600, &json!({"priority": 1})));
    assert_eq!(batch["hosts"], json!({"batch": "host2"}));
    let (_, late) = put(&controller, "late", &template(1, 600, &json!({"priority": 2})));
    assert_eq!(late["hosts"], json!({"late": "host2"}), "{late}");
    let batch = controller.get("/v1/functions/batch");
    assert_eq!((&batch["instances"], &batch["hosts"]), (&json!([]), &Value::Null), "{batch}");
    assert_eq!(batch["conditions"][0]["text"], "0 of 1 instances run");
    eventually("its node has stopped it", || {
        let told = agents[1].state.lock().unwrap().instances.clone();
        (told.len() == 1 && told[0].name == "late").then_some(())
    });
    // It comes back with the next that is placed, when there is room.
    let (status, gone) = put(&controller, "late", &json!({}));
    assert_eq!(status, 200, "{gone}");
    assert_eq!(put(&controller, "more", &template(1, 100, &json!({}))).0, 200);
    assert_eq!(hosts(&controller, "batch"), json!({"batch": "host2"}));
    let (status, problem) = put(&controller, "huge", &template(1, 900, &json!({"priority": 0})));
    assert_eq!((status, &problem["instances"]), (200, &json!([])), "{problem}");
    drop(agents);
    controller.stop();
}

#[test]
fn a_chain_brings_neighbours_that_must_be_near_together_or_is_refused() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    let agents = begin(&controller);
    let near = json!({"delay_us": 0});
    for (name, body, host) in [
        ("huge", template(1, 1_000, &json!({})), "host1"),
        ("edge", template(1, 900, &json!({})), "host1"),
        ("more", template(1, 900, &near), "host2"),
    ] {
        assert_eq!(put(&controller, name, &body).1["hosts"], json!({ name: host }));
    }
    assert_eq!(put(&controller, "huge", &json!({})).0, 200);
    let group = |name: &str| controller.get(&format!("/v1/functions/{name}"))["id"].clone();
    let chain = |names: [&str; 2]| json!({"port_chain": {"name": names.join("-"), "port_pair_groups": names.map(group)}});
    let (_, draft) = controller.call("POST", "/v1/plan", Some(&json!({})));
    let path = format!("/v1/plan/{}", draft["draft"].as_str().unwrap());
    let (http, url) = controller.raw();
    let request = http.post(format!("{url}/v2.0/sfc/port_chains")).json(&chain(["edge", "more"]));
    let request = request.header("Catena-Draft", draft["draft"].as_str().unwrap());
    assert_eq!(request.send().unwrap().status(), 201);
    let plan = controller.get(&path);
    let places = plan["packing"]["instances"].as_array().unwrap_or_else(|| panic!("{plan}"));
    let moved = places.iter().find(|one| one["instance"] == "more").unwrap();
    assert_eq!((&moved["former"], &moved["host"]), (&json!("host2"), &json!("host1")));
    assert_eq!(hosts(&controller, "more"), json!({"more": "host2"}), "a plan changes nothing");

    // The same without a draft; then a neighbour for which there is no room beside both.
    let create = |names| controller.call("POST", "/v2.0/sfc/port_chains", Some(&chain(names)));
    assert_eq!(create(["edge", "more"]).0, 201);
    assert_eq!(hosts(&controller, "more"), json!({"more": "host1"}));
    assert_eq!(put(&controller, "huge", &template(1, 900, &json!({}))).0, 200);
    let (status, refused) = create(["huge", "more"]);
    assert!(status == 409 && refused.to_string().contains("there is no host for"), "{refused}");
    assert_eq!(hosts(&controller, "more"), json!({"more": "host1"}));
    // Where nothing has a bound, chains go over whatever is there.
    assert_eq!(create(["huge", "edge"]).0, 201);
    drop(agents);
    controller.stop();
}
