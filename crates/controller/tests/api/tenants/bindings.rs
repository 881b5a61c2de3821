//! Where a port's interface is found, attribute by attribute and role by role: who may say it, and
//! who is told.

use crate::support::agent::{FakeAgent, State};
use crate::support::tokens::{Answer, Caller, start};
use crate::support::{Controller, eventually};
use catena_controller::Auth;
use catena_model::Role;
use serde_json::{Value, json};

const NODE: &str = "rack7";
const INTERFACE: &str = "secret0";
const PORTS: &str = "/v2.0/ports";
/// What only the operator sees of a port.
const HIDDEN: [&str; 4] =
    ["binding:host_id", "binding:profile", "binding:vif_type", "binding:vif_details"];

fn bound(namespace: &str) -> Value {
    json!({"binding:host_id": NODE,
           "binding:profile": {"netns": namespace, "interface": INTERFACE}})
}

/// Whoever asks with each role in the project `own`.
fn callers<'c>(admin: &Caller<'c>) -> Vec<(Role, Caller<'c>)> {
    let call = |role: Role| (role, admin.with_role(&format!("the {role}"), "own", role.name()));
    Role::ALL.into_iter().map(call).collect()
}

fn in_draft(caller: &Caller<'_>, draft: &str, method: &str, path: &str, body: &Value) -> Answer {
    let (http, url) = caller.controller.raw();
    let request = http.request(method.parse().unwrap(), format!("{url}{path}")).json(body);
    let request = request.header("X-Auth-Token", caller.token.as_deref().unwrap());
    let answer = request.header("Catena-Draft", draft).send().unwrap();
    let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
    Answer { status, headers, text: answer.text().unwrap() }
}

/// The one answer to one line.
fn in_bulk(caller: &Caller<'_>, line: &Value) -> Answer {
    let (http, url) = caller.controller.raw();
    let request = http.post(format!("{url}/v1/bulk")).body(line.to_string());
    let request = request.header("Content-Type", "application/x-ndjson");
    let answer = request.header("X-Auth-Token", caller.token.as_deref().unwrap()).send().unwrap();
    let (whole, headers) = (answer.status().as_u16(), answer.headers().clone());
    let text = answer.text().unwrap();
    let told: Value = serde_json::from_str(&text).unwrap_or_default();
    let status = told["status"].as_u64().and_then(|status| u16::try_from(status).ok());
    Answer { status: status.unwrap_or(whole), headers, text }
}

#[test]
fn bindings_are_set_by_whoever_runs_the_deployment_on_every_way_in() {
    let data = tempfile::tempdir().unwrap();
    let controller = start(data.path(), Auth::Token);
    let admin = Caller::admin(&controller);
    let owner = admin.with_role("owner", "own", "tenant");
    let network = owner.create("/v2.0/networks", &json!({}));
    let port = owner.create(PORTS, &json!({"network_id": network}));
    let item = format!("{PORTS}/{port}");
    let given = [
        ("binding:host_id", vec![json!(NODE), json!(""), Value::Null]),
        (
            "binding:profile",
            vec![json!({"netns": "a", "interface": INTERFACE}), json!({}), Value::Null],
        ),
    ];
    let mut cases = 0;
    for (role, caller) in callers(&admin) {
        let draft = caller.call("POST", "/v1/plan", Some(&json!({})));
        let draft = draft.json()["draft"].as_str().unwrap_or_default().to_owned();
        for (attribute, values) in &given {
            for value in values {
                let new = json!({"port": {"network_id": network, *attribute: value}});
                let change = json!({"port": {*attribute: value}});
                let mut answers = vec![
                    ("POST", 201, caller.call("POST", PORTS, Some(&new))),
                    ("PUT", 200, caller.call("PUT", &item, Some(&change))),
                    ("bulk", 201, in_bulk(&caller, &new)),
                ];
                if role >= Role::Tenant {
                    let made = in_draft(&caller, &draft, "POST", PORTS, &new);
                    let changed = in_draft(&caller, &draft, "PUT", &item, &change);
                    answers.extend([("draft POST", 201, made), ("draft PUT", 200, changed)]);
                }
                for (way, done, answer) in answers {
                    cases += 1;
                    let case = format!("{way} {attribute}={value} as {role}: {answer:?}");
                    if role >= Role::Operator {
                        assert_eq!(answer.status, done, "{case}");
                    } else if (way, role) == ("bulk", Role::Viewer) {
                        assert_eq!(answer.status, 403, "{case}");
                    } else {
                        let kind = answer.kind();
                        assert_eq!(
                            (answer.status, kind.as_str()),
                            (403, "PolicyNotAuthorized"),
                            "{case}"
                        );
                    }
                }
            }
        }
    }
    assert_eq!(cases, 6 * (3 + 3 * 5));
    // What is no place is still his.
    let own = json!({"port": {"network_id": network, "binding:vnic_type": "normal"}});
    let made = owner.call("POST", PORTS, Some(&own));
    assert_eq!(made.status, 201, "{made:?}");
    assert_eq!(made.json()["port"]["binding:vnic_type"], "normal");
    let refused = owner.call("PUT", &item, Some(&json!({"port": {"binding:host_id": NODE}})));
    let message = refused.json()["NeutronError"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("update_port:binding:host_id"), "{message}");
}

#[test]
fn bindings_are_shown_to_whoever_runs_the_deployment_on_every_way_out() {
    let data = tempfile::tempdir().unwrap();
    let controller = start(data.path(), Auth::Token);
    let admin = Caller::admin(&controller);
    let owner = admin.with_role("owner", "own", "tenant");
    let network = owner.create("/v2.0/networks", &json!({}));
    let ids: Vec<String> =
        (0..2).map(|_| owner.create(PORTS, &json!({"network_id": network}))).collect();
    let item = format!("{PORTS}/{}", ids[0]);
    assert_eq!(admin.call("PUT", &item, Some(&json!({"port": bound("a")}))).status, 200);
    for (role, caller) in callers(&admin) {
        let sees = role >= Role::Operator;
        let list = caller.call("GET", PORTS, None);
        let one = caller.call("GET", &item, None);
        let mut answers = vec![list, one];
        if role >= Role::Tenant {
            answers.push(caller.call("PUT", &item, Some(&json!({"port": {"name": "x"}}))));
            let change = json!({"port": {"network_id": network}});
            answers.push(in_bulk(&caller, &change));
        }
        for answer in answers {
            assert!(answer.status < 300, "{answer:?}");
            for hidden in HIDDEN.map(|attribute| format!("\"{attribute}\"")) {
                assert_eq!(answer.text.contains(&hidden), sees, "{hidden} as {role}: {answer:?}");
            }
            assert!(answer.text.contains("binding:vnic_type"), "{role}: {answer:?}");
            assert!(sees || !answer.text.contains(NODE), "{role}: {answer:?}");
            assert!(sees || !answer.text.contains(INTERFACE), "{role}: {answer:?}");
        }
        let fields = caller.call("GET", &format!("{item}?fields=id&fields=binding:host_id"), None);
        assert_eq!(fields.text.contains(NODE), sees, "{role}: {fields:?}");
        // A filter that matched would tell what is not shown.
        let count = |query: &str| {
            let found = caller.call("GET", &format!("{PORTS}?{query}"), None).json();
            found["ports"].as_array().map(Vec::len)
        };
        for attribute in ["binding:host_id", "binding:vif_type"] {
            let (right, wrong) =
                (count(&format!("{attribute}={NODE}")), count(&format!("{attribute}=elsewhere")));
            assert_eq!(right == wrong, !sees || attribute == "binding:vif_type", "{role}");
        }
        let sorted = format!("{PORTS}?sort_key=binding:host_id&sort_dir=asc");
        let sorted = caller.call("GET", &sorted, None);
        assert_eq!(sorted.status, if sees { 200 } else { 400 }, "{role}: {sorted:?}");
    }
}

#[test]
fn the_refusal_of_a_taken_interface_names_nothing_of_another_project() {
    let data = tempfile::tempdir().unwrap();
    let controller = start(data.path(), Auth::Token);
    let admin = Caller::admin(&controller);
    let (owner, stranger) =
        (admin.with_role("a", "own", "tenant"), admin.with_role("b", "foreign", "tenant"));
    let port = |caller: &Caller<'_>| {
        let network = caller.create("/v2.0/networks", &json!({}));
        caller.create(PORTS, &json!({"network_id": network}))
    };
    let (theirs, first, second) = (port(&stranger), port(&owner), port(&owner));
    let bind = |port: &str, namespace: &str| {
        let body = json!({"port": bound(namespace)});
        admin.call("PUT", &format!("{PORTS}/{port}"), Some(&body))
    };
    assert_eq!(bind(&theirs, "x").status, 200);
    assert_eq!(bind(&first, "y").status, 200);
    let taken = bind(&second, "x");
    assert_eq!((taken.status, taken.kind()), (409, "InterfaceInUse".into()), "{taken:?}");
    assert!(taken.text.contains(INTERFACE) && !taken.text.contains(&theirs), "{taken:?}");
    let own = bind(&second, "y");
    assert!(own.status == 409 && own.text.contains(&first), "{own:?}");
}

/// A chain of the owner's over a function at the node, made in a draft; its id.
fn chain(admin: &Caller<'_>, owner: &Caller<'_>) -> String {
    let network = owner.create("/v2.0/networks", &json!({}));
    let port = |name: &str| {
        let id = owner.create(PORTS, &json!({"network_id": network, "device_id": name}));
        let body = json!({"port": bound(name)});
        assert_eq!(admin.call("PUT", &format!("{PORTS}/{id}"), Some(&body)).status, 200);
        id
    };
    let (source, function) = (port("source"), port("function"));
    let pair =
        owner.create("/v2.0/sfc/port_pairs", &json!({"ingress": function, "egress": function}));
    let group = owner.create("/v2.0/sfc/port_pair_groups", &json!({"port_pairs": [pair]}));
    let rule = json!({"logical_source_port": source});
    let rule = owner.create("/v2.0/sfc/flow_classifiers", &rule);
    let chain = json!({"name": "web", "port_pair_groups": [group], "flow_classifiers": [rule]});
    let opened = owner.call("POST", "/v1/plan", Some(&json!({}))).json();
    let draft = opened["draft"].as_str().unwrap();
    let body = json!({ "port_chain": chain });
    let made = in_draft(owner, draft, "POST", "/v2.0/sfc/port_chains", &body);
    assert_eq!(made.status, 201, "{made:?}");
    let plan = owner.call("GET", &format!("/v1/plan/{draft}"), None);
    assert!(plan.text.contains("carries nothing yet: node '(hidden)'"), "{plan:?}");
    let apply = json!({"plan": null, "wait": false});
    let applied = owner.call("POST", &format!("/v1/plan/{draft}/apply"), Some(&apply));
    assert_eq!(applied.status, 200, "{applied:?}");
    for answer in [&made, &plan, &applied] {
        assert!(!answer.text.contains(NODE), "{answer:?}");
    }
    made.json()["port_chain"]["id"].as_str().unwrap().to_owned()
}

#[test]
fn reports_and_reasons_tell_a_tenant_of_no_node() {
    let data = tempfile::tempdir().unwrap();
    let controller: Controller = start(data.path(), Auth::Token);
    let admin = Caller::admin(&controller);
    let owner = admin.with_role("owner", "own", "tenant");
    // Nobody is at the node yet: the reason of the chain's state is that.
    let chain = chain(&admin, &owner);
    let told = |caller: &Caller<'_>, path: &str| {
        let answer = caller.call("GET", path, None);
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        answer.text
    };
    let border = format!("/v2.0/sfc/port_chains/{chain}");
    for path in ["/v1/chains", "/v1/chains/web", border.as_str(), "/v2.0/sfc/port_chains"] {
        assert!(told(&admin, path).contains(&format!("node '{NODE}'")), "{path}");
        let own = told(&owner, path);
        assert!(own.contains("node '(hidden)'") && !own.contains(NODE), "{path}: {own}");
    }
    let _agent = FakeAgent::connect(&controller.data, NODE, 1, controller.southbound);
    eventually("the chain's path", || told(&admin, "/v1/paths").contains(NODE).then_some(()));
    for path in ["/v1/paths", "/v1/instances"] {
        assert!(told(&admin, path).contains(NODE), "{path}");
        let own = told(&owner, path);
        assert!(own.contains("\"node\":null") && !own.contains(NODE), "{path}: {own}");
    }
    let checked = owner.call("POST", &format!("/v1/chains/{chain}/check"), Some(&json!({})));
    assert!(!checked.text.contains(NODE), "{checked:?}");
}

#[test]
fn why_a_port_has_no_interface_is_told_at_it_and_the_words_of_its_node_to_operators() {
    let data = tempfile::tempdir().unwrap();
    let controller = start(data.path(), Auth::Token);
    let admin = Caller::admin(&controller);
    let owner = admin.with_role("owner", "own", "tenant");
    let operator = admin.with_role("operator", "elsewhere", "operator");
    let network = owner.create("/v2.0/networks", &json!({}));
    let port = owner.create(PORTS, &json!({"network_id": network, "name": "p"}));
    let item = format!("{PORTS}/{port}");
    let told = |caller: &Caller<'_>| {
        let shown = caller.call("GET", &item, None).json()["port"].take();
        let word = |key: &str| shown[key].as_str().unwrap().to_owned();
        (word("status"), word("status_reason"))
    };
    let unplaced = "port 'p' is not bound: it has no binding:host_id";
    assert_eq!(told(&owner), ("DOWN".into(), unplaced.into()));
    assert_eq!(admin.call("PUT", &item, Some(&json!({"port": bound("a")}))).status, 200);
    let away = "node '(hidden)' of port 'p' has never connected";
    assert_eq!(told(&owner), ("DOWN".into(), away.into()));

    let why = format!("interface '{INTERFACE}' carries the node's own address 192.0.2.7");
    let state = State { unbound: [("p".into(), why.clone())].into(), ..State::default() };
    let agent = FakeAgent::connect_running(&controller.data, NODE, 1, controller.southbound, state);
    eventually("the reason", || told(&operator).1.contains(&why).then_some(()));
    let (status, reason) = told(&owner);
    assert_eq!(status, "DOWN");
    assert!(reason.contains("whoever runs the deployment sees why"), "{reason}");
    for hidden in [NODE, INTERFACE, "192.0.2.7"] {
        assert!(!reason.contains(hidden), "{reason}");
    }
    agent.bind_all();
    eventually("the interface", || (told(&owner).0 == "ACTIVE").then_some(()));
    assert_eq!(told(&owner).1, "");
}

/// Where a function is to be run, too.
#[test]
fn hosts_of_a_template_are_named_and_seen_by_whoever_operates_them_and_stay_for_others() {
    let data = tempfile::tempdir().unwrap();
    let controller = start(data.path(), Auth::Token);
    let admin = Caller::admin(&controller);
    let [owner, operator] = ["tenant", "operator"].map(|role| admin.with_role(role, "own", role));
    let group = owner.create("/v2.0/sfc/port_pair_groups", &json!({"name": "ids"}));
    let item = format!("/v1/functions/{group}");
    let placed = json!({"runs": {"external": "ids"}, "on": [NODE]});
    for method in ["PUT", "PATCH"] {
        let refused = owner.call(method, &item, Some(&json!({"template": placed})));
        assert_eq!(refused.status, 403, "{refused:?}");
        assert!(refused.text.contains("'on' names hosts"), "{refused:?}");
        for (said, part) in [
            (json!({"runs": {"command": ["ids"]}}), "'command' runs on hosts"),
            (
                json!({"runs": {"bundled": "ids"}, "door": "apart"}),
                "'door: apart' starts processes on hosts",
            ),
            (
                json!({"runs": {"bundled": "ids"}, "door": "beside"}),
                "'door: beside' starts processes on hosts",
            ),
            (json!({"runs": {"bundled": "work"}}), "'bundled: work' keeps processors"),
            (json!({"runs": {"external": "ids"}, "cpu_milli": 500}), "'cpu_milli'"),
            (json!({"runs": {"external": "ids"}, "memory_mib": 64}), "'memory_mib'"),
            (
                json!({"runs": {"bundled": "monitor"}, "config": {"ipfix": "10.0.0.1:4739"}}),
                "'ipfix' is sent to by hosts",
            ),
        ] {
            let refused = owner.call(method, &item, Some(&json!({"template": said})));
            assert!(refused.status == 403 && refused.text.contains(part), "{refused:?}");
        }
    }
    let told = operator.call("PATCH", &item, Some(&json!({"template": placed})));
    assert_eq!(told.json()["template"]["on"], json!([NODE]), "{told:?}");
    let own = json!({"template": {"runs": {"external": "ids:2"}}});
    for answer in [
        owner.call("GET", &item, None),
        owner.call("GET", "/v1/functions", None),
        owner.call("PUT", &item, Some(&own)),
        owner.call("PATCH", &item, Some(&json!({"on_failure": "bypass"}))),
    ] {
        assert_eq!(answer.status, 200, "{answer:?}");
        assert!(!answer.text.contains(NODE), "{answer:?}");
    }
    let seen = operator.call("GET", &item, None).json();
    assert_eq!(seen["template"]["on"], json!([NODE]), "{seen}");
    assert_eq!(seen["template"]["runs"], json!({"external": "ids:2"}), "{seen}");
}
