//! The native API: what happens as it happens, drafts, functions and instances.

use crate::support::agent::FakeAgent;
use crate::support::lab::{Lab, id};
use crate::support::{Controller, eventually, open};
use catena_model::Event;
use catena_model::status::{ChainState, Health, InstanceHealth};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};

fn wait_bound(controller: &Controller) {
    eventually("all ports bound", || {
        let ports = controller.get("/v2.0/ports");
        let all = ports["ports"].as_array().unwrap();
        all.iter().all(|port| port["status"] == "ACTIVE").then_some(())
    });
}

/// Reads events of `/v1/watch` until one fits.
fn read_until(lines: &mut impl Iterator<Item = String>, what: &str, fits: impl Fn(&Event) -> bool) {
    let mut seen = Vec::new();
    for line in lines {
        if line.is_empty() {
            continue;
        }
        let event: Event = serde_json::from_str(&line).unwrap();
        if fits(&event) {
            return;
        }
        seen.push(event);
    }
    panic!("the watch ended without {what}; before came {seen:#?}");
}

#[test]
fn who_watches_hears_how_things_stand_and_then_every_change() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    let (http, url) = controller.raw();
    let watch = || {
        let answer = http.get(format!("{url}/v1/watch")).send().unwrap();
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()["content-type"], "application/x-ndjson");
        BufReader::new(answer).lines().map_while(Result::ok)
    };
    let mut lines = watch();
    let agent = FakeAgent::connect(&controller.data, "host1", 1, controller.southbound);
    read_until(
        &mut lines,
        "the node",
        |event| matches!(event, Event::Node { node, is_connected: true, .. } if node.as_str() == "host1"),
    );
    let chain = controller.create("/v2.0/sfc/port_chains", &Lab::web(&controller));
    let is_active = |event: &Event| {
        matches!(event, Event::Chain { name, status }
            if name == "web" && status.state == ChainState::Active && status.path.is_some())
    };
    read_until(&mut lines, "the active chain", is_active);
    read_until(&mut watch(), "the chain among how things stand", is_active);
    let state = agent.disconnect();
    read_until(&mut lines, "the lost node", |event| {
        matches!(event, Event::Node { is_connected: false, .. })
    });
    // A node that is away goes on with what nobody declares any more.
    controller.call("DELETE", &format!("/v2.0/sfc/port_chains/{}", id(&chain)), None);
    let is_withdrawing = |event: &Event| {
        matches!(event, Event::ChainWithdrawing { name, nodes, .. }
            if name == "web" && nodes.iter().any(|node| node.as_str() == "host1"))
    };
    read_until(&mut lines, "what is still in force", is_withdrawing);
    read_until(&mut watch(), "the same among how things stand", is_withdrawing);
    let _agent =
        FakeAgent::connect_running(&controller.data, "host1", 1, controller.southbound, state);
    read_until(
        &mut lines,
        "the end of the chain",
        |event| matches!(event, Event::ChainGone { name, .. } if name == "web"),
    );
}

#[test]
fn what_is_tried_on_a_draft_is_told_and_changes_nothing() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    let agent = FakeAgent::connect(&controller.data, "host1", 1, controller.southbound);
    let chain = Lab::web(&controller);
    wait_bound(&controller);
    let known = agent.program().unwrap().number;
    let (status, draft) = controller.call("POST", "/v1/plan", Some(&json!({})));
    assert_eq!(status, 201, "{draft}");
    let draft = draft["draft"].as_str().unwrap().to_owned();
    let (http, url) = controller.raw();
    let in_draft = |name: &str, body: &Value| {
        let request = http.post(format!("{url}/v2.0/sfc/port_chains")).header("Catena-Draft", name);
        let answer = request.json(&json!({"port_chain": body})).send().unwrap();
        (answer.status().as_u16(), answer.json::<Value>().unwrap())
    };
    // The same validation as for the real thing.
    let mut wrong = chain.clone();
    wrong["port_pair_groups"] = json!([chain["port_pair_groups"][0], chain["port_pair_groups"][0]]);
    assert!(in_draft(&draft, &wrong).0 >= 400);
    let (status, made) = in_draft(&draft, &chain);
    assert_eq!((status, &made["port_chain"]["status"]), (201, &json!("building")), "{made}");
    let preview = controller.get(&format!("/v1/plan/{draft}"));
    assert_eq!(preview["chains"][0]["name"], "web", "{preview}");
    assert_eq!(preview["chains"][0]["kind"], "create");
    assert_eq!(preview["disruption"], json!([]));
    assert_eq!(preview["nodes"][0]["node"], "host1");

    assert_eq!(controller.get("/v2.0/sfc/port_chains")["port_chains"], json!([]));
    assert_eq!(agent.program().unwrap().number, known, "no node hears of a draft");
    let (status, _) = controller.call("DELETE", &format!("/v1/plan/{draft}"), None);
    assert_eq!(status, 204);
    let (status, problem) = in_draft(&draft, &chain);
    assert_eq!((status, &problem["title"]), (404, &json!("Not found")), "{problem}");
    assert_eq!(controller.call("GET", &format!("/v1/plan/{draft}"), None).0, 404);
}

#[test]
fn what_becomes_of_packets_of_a_dead_instance_is_declared_and_kept() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    let lab = Lab::new(&controller);
    let group = lab.function_on("v1", "host1");
    let shown = controller.get("/v1/functions/v1");
    assert_eq!((&shown["on_failure"], &shown["instances"]), (&json!("unwatched"), &json!(["v1"])));
    let patch = |body: Value| controller.call("PATCH", "/v1/functions/v1", Some(&body));
    let (status, changed) = patch(json!({"on_failure": "bypass"}));
    assert_eq!((status, &changed["on_failure"]), (200, &json!("bypass")), "{changed}");
    assert_eq!(changed["keeps_mac"], false, "{changed}");
    let (status, changed) = patch(json!({"keeps_mac": true}));
    assert_eq!((status, &changed["keeps_mac"]), (200, &json!(true)), "{changed}");
    assert_eq!(changed["on_failure"], "bypass", "what is not given stays: {changed}");
    for wrong in [json!({"on_failure": "shrug"}), json!({"is_tap": true}), json!({}), json!(7)] {
        let (status, problem) = patch(wrong);
        assert_eq!((status, &problem["title"]), (400, &json!("Bad request")), "{problem}");
    }
    let (status, problem) =
        controller.call("PATCH", "/v1/functions/v9", Some(&json!({"on_failure": "block"})));
    assert_eq!(status, 404, "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains("catena function list"), "{problem}");
    // The border neither shows nor loses it.
    let path = format!("/v2.0/sfc/port_pair_groups/{group}");
    let (status, group) = controller.put(&path, &json!({"description": "renamed"}));
    assert_eq!(status, 200);
    assert!(group.get("on_failure").is_none() && group.get("keeps_mac").is_none(), "{group}");
    controller.stop();
    let controller = Controller::start(open(data.path()));
    let function = &controller.get("/v1/functions")[0];
    assert_eq!((&function["on_failure"], &function["keeps_mac"]), (&json!("bypass"), &json!(true)));
}

#[test]
fn an_instance_drains_only_where_another_takes_its_place() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    let agent = FakeAgent::connect(&controller.data, "host1", 1, controller.southbound);
    let lab = Lab::new(&controller);
    let source = lab.port("S", "S", "host1");
    let pair = |name: &str| {
        let (ingress, egress) = (
            lab.port(&format!("{name}-in"), name, "host1"),
            lab.port(&format!("{name}-out"), name, "host1"),
        );
        let pair = json!({"name": name, "ingress": ingress, "egress": egress});
        id(&controller.create("/v2.0/sfc/port_pairs", &pair))
    };
    let (one, two) = (pair("i1"), pair("i2"));
    let group = json!({"name": "ids", "port_pairs": [one]});
    let group = id(&controller.create("/v2.0/sfc/port_pair_groups", &group));
    let classifier = lab.classifier("fc", &source, 5_001);
    wait_bound(&controller);
    controller.create("/v2.0/sfc/port_chains", &lab.chain("web", &[&group], &[&classifier]));
    let drain = |body: Value| controller.call("PATCH", "/v1/instances/i1", Some(&body));
    let (status, problem) = drain(json!({"is_draining": true}));
    assert_eq!(status, 409, "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains("function 'ids'"), "{problem}");
    assert_eq!(controller.get("/v1/instances/i1")["used"], "taking");

    let path = format!("/v2.0/sfc/port_pair_groups/{group}");
    assert_eq!(controller.put(&path, &json!({"port_pairs": [one, two]})).0, 200);
    let (status, instance) = drain(json!({"is_draining": true}));
    assert_eq!((status, &instance["is_draining"]), (200, &json!(true)), "{instance}");
    eventually("the end of the drain", || {
        (controller.get("/v1/instances/i1")["used"] == "drained").then_some(())
    });
    let weights = || -> Vec<u32> {
        let program = agent.program().unwrap();
        let path = program.paths.iter().find(|path| path.id == program.rules[0].path).unwrap();
        path.hops[0].instances.iter().map(|instance| instance.weight).collect()
    };
    assert_eq!(weights(), [0, 1], "new flows go to the other");
    // Now the other cannot drain too, and the first can be taken back.
    let (status, _) =
        controller.call("PATCH", "/v1/instances/i2", Some(&json!({"is_draining": true})));
    assert_eq!(status, 409);
    assert_eq!(drain(json!({"is_draining": false})).0, 200);
    eventually("the instance in use again", || {
        (controller.get("/v1/instances/i1")["used"] == "taking").then_some(())
    });
}

#[test]
fn an_instance_says_what_it_speaks_where_networking_sfc_has_no_word_for_it() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    let _agent = FakeAgent::connect(&controller.data, "host1", 1, controller.southbound);
    let lab = Lab::new(&controller);
    let source = lab.port("S", "S", "host1");
    let function = lab.function_on("v1", "host1");
    let pair = id(&controller.get("/v2.0/sfc/port_pairs")["port_pairs"][0]);
    let shown = || controller.get(&format!("/v2.0/sfc/port_pairs/{pair}"))["port_pair"].clone();
    assert_eq!(shown()["speaks"], Value::Null);
    let change =
        |body: Value| controller.call("PATCH", &format!("/v1/instances/{pair}"), Some(&body));
    for (body, words) in [
        (json!({}), ["Nothing is changed", "'speaks'"]),
        (json!({"speaks": null}), ["Nothing is changed", "'is_draining'"]),
        (json!({"speaks": "gre"}), ["'gre'", "nsh, mpls, source-route/native"]),
        (json!({"speaks": "source-route/safe-9"}), ["'source-route/safe-9'", "empty name"]),
    ] {
        let (status, problem) = change(body);
        let detail = problem["detail"].as_str().unwrap();
        assert!(status == 400 && words.iter().all(|word| detail.contains(word)), "{problem}");
    }
    let (status, instance) = change(json!({"speaks": "source-route/native"}));
    assert_eq!((status, &instance["speaks"]), (200, &json!("source-route/native")), "{instance}");
    let pair_shown = shown();
    assert_eq!(pair_shown["speaks"], "source-route/native");
    assert_eq!(pair_shown["service_function_parameters"]["correlation"], Value::Null);

    // No correlation carries a chain over it, so it is carried as it must be.
    let classifier = lab.classifier("fc", &source, 5_001);
    wait_bound(&controller);
    let chain = lab.chain("web", &[&function], &[&classifier]);
    let chain = controller.create("/v2.0/sfc/port_chains", &chain);
    assert_eq!(chain["encapsulation"], "source-route/native");
    assert_eq!(chain["chain_parameters"]["correlation"], "nsh", "as it was declared");
    let (status, problem) =
        controller.call("PATCH", "/v1/chains/web", Some(&json!({"encapsulation": "nsh"})));
    let detail = problem["detail"].as_str().unwrap();
    let words = ["speaks source-route/native", "carry the chain by source-route/native"];
    assert!(status == 409 && words.iter().all(|word| detail.contains(word)), "{problem}");
    // Packets go through it.
    eventually("the chain", || {
        (controller.get("/v1/chains/web")["status"]["state"] == "active").then_some(())
    });
    let (status, problem) = change(json!({"speaks": ""}));
    let detail = problem["detail"].as_str().unwrap();
    assert!(status == 409 && detail.contains("Packets go through instance"), "{problem}");
    // What it speaks already is no change of it.
    assert_eq!(change(json!({"speaks": "source-route/native"})).0, 200);
    // Others of its function speak the same.
    let (ingress, egress) = (lab.port("o-in", "o", "host1"), lab.port("o-out", "o", "host1"));
    let other = json!({"name": "other", "ingress": ingress, "egress": egress});
    let other = id(&controller.create("/v2.0/sfc/port_pairs", &other));
    let path = format!("/v2.0/sfc/port_pair_groups/{function}");
    let (status, _) = controller.put(&path, &json!({"port_pairs": [pair, other]}));
    assert_eq!(status, 400);
}

#[test]
fn a_chain_with_a_dead_instance_is_degraded_and_says_what_becomes_of_its_packets() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    let agent = FakeAgent::connect(&controller.data, "host1", 1, controller.southbound);
    let chain = Lab::web(&controller);
    wait_bound(&controller);
    controller.create("/v2.0/sfc/port_chains", &chain);
    let status_is = |state: &str, reason: &str| {
        eventually("the state of the chain", || {
            let chain = controller.get("/v1/chains/web");
            let status = (chain["status"]["state"].as_str()?, chain["status"]["reason"].as_str()?);
            (status == (state, reason)).then_some(chain)
        })
    };
    status_is("active", "");
    let entry = agent.program().unwrap().paths[0].hops[0].instances[0].clone();
    let told = |health| {
        let (instance, name) = (entry.id, entry.name.clone());
        agent.state.lock().unwrap().health = vec![InstanceHealth { instance, name, health }];
    };
    told(Health::Dead);
    for (policy, treatment) in
        [("bypass", "bypassed"), ("block", "blocked"), ("reroute", "blocked")]
    {
        let body = json!({"on_failure": policy});
        assert_eq!(controller.call("PATCH", "/v1/functions/v1", Some(&body)).0, 200);
        let reason = format!("instance 'v1' of function 'v1' is dead: {treatment}");
        let chain = status_is("degraded", &reason);
        assert_eq!(chain["health"][0]["health"], "dead");
    }
    told(Health::Alive);
    status_is("active", "");
}

/// `CATENA_UPDATE_GOLDENS=1` writes the copy anew; read the difference.
#[test]
fn the_committed_description_of_the_api_is_what_the_code_says() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/book/src/reference/openapi.json");
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    let described = controller.get("/v1/openapi.json");
    if std::env::var_os("CATENA_UPDATE_GOLDENS").is_some() {
        std::fs::write(file, serde_json::to_string_pretty(&described).unwrap() + "\n").unwrap();
    }
    let committed = std::fs::read_to_string(file).unwrap();
    let committed: Value = serde_json::from_str(&committed).unwrap();
    assert!(committed == described, "{file} is stale: write it anew and read the difference");
    let routes: Vec<_> =
        catena_controller::routes().filter(|route| !route.path.starts_with("/v2.0")).collect();
    for route in routes.iter().filter(|route| route.path != "/") {
        let operation = &described["paths"][route.path][route.method.to_lowercase()];
        assert!(operation["x-least-role"].is_string(), "{} {}", route.method, route.path);
    }
}
