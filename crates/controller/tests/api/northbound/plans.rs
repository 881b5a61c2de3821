//! The native API where it changes what is declared: drafts that become so at once or not at all,
//! templates of functions, and a watch that goes on where another ended.

use crate::support::agent::FakeAgent;
use crate::support::lab::{Lab, id};
use crate::support::{Controller, eventually, open};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};

/// Requests that concern a draft.
struct Draft<'c> {
    controller: &'c Controller,
    id: String,
}

impl<'c> Draft<'c> {
    fn open(controller: &'c Controller) -> Self {
        let (status, draft) = controller.call("POST", "/v1/plan", Some(&json!({})));
        assert_eq!(status, 201, "{draft}");
        Self { controller, id: draft["draft"].as_str().unwrap().to_owned() }
    }

    fn create(&self, plural: &str, attributes: &Value) -> Value {
        let (http, url) = self.controller.raw();
        let singular = plural.strip_suffix('s').unwrap();
        let request = http.post(format!("{url}/v2.0/sfc/{plural}"));
        let request = request.header("Catena-Draft", &self.id);
        let answer = request.json(&json!({ singular: attributes })).send().unwrap();
        assert_eq!(answer.status().as_u16(), 201, "{plural} {attributes}");
        answer.json::<Value>().unwrap()[singular].take()
    }

    fn plan(&self) -> Value {
        self.controller.get(&format!("/v1/plan/{}", self.id))
    }

    fn apply(&self, request: &Value) -> (u16, Value) {
        self.controller.call("POST", &format!("/v1/plan/{}/apply", self.id), Some(request))
    }
}

/// A draft with a chain and all that it is made of.
fn drafted<'c>(controller: &'c Controller, lab: &Lab<'_>) -> Draft<'c> {
    let (source, port) = (lab.port("S", "S", "host1"), lab.port("v1", "v1", "host1"));
    let draft = Draft::open(controller);
    let rule = json!({"name": "web", "protocol": "tcp", "logical_source_port": source});
    let rule = id(&draft.create("flow_classifiers", &rule));
    let pair = json!({"name": "v1", "ingress": port, "egress": port});
    let pair = id(&draft.create("port_pairs", &pair));
    let group = json!({"name": "v1", "port_pairs": [pair]});
    let group = id(&draft.create("port_pair_groups", &group));
    let chain = json!({"name": "web", "port_pair_groups": [group], "flow_classifiers": [rule]});
    draft.create("port_chains", &chain);
    draft
}

fn sfc_objects(controller: &Controller) -> usize {
    let plurals = ["flow_classifiers", "port_pairs", "port_pair_groups", "port_chains"];
    let count = |plural: &str| {
        controller.get(&format!("/v2.0/sfc/{plural}"))[plural].as_array().unwrap().len()
    };
    plurals.into_iter().map(count).sum()
}

#[test]
fn a_draft_becomes_what_is_declared_in_one_revision() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    let agent = FakeAgent::connect(&controller.data, "host1", 1, controller.southbound);
    let lab = Lab::new(&controller);
    let draft = drafted(&controller, &lab);
    let plan = draft.plan();
    let made: Vec<(&str, &str)> = plan["resources"]
        .as_array()
        .unwrap()
        .iter()
        .map(|change| (change["kind"].as_str().unwrap(), change["change"].as_str().unwrap()))
        .collect();
    let expected = ["rule", "instance", "function", "chain"].map(|kind| (kind, "create"));
    assert_eq!(made, expected, "{plan}");
    assert_eq!(sfc_objects(&controller), 0);

    let number = plan["plan"].as_u64().unwrap();
    let (status, applied) = draft.apply(&json!({"plan": number, "wait": true}));
    assert_eq!(status, 200, "{applied}");
    assert_eq!(applied["resources"], plan["resources"]);
    assert_eq!(applied["chains"][0]["name"], "web");
    assert_eq!(applied["nodes"][0]["node"], "host1");
    assert_eq!(sfc_objects(&controller), 4);
    let (http, url) = controller.raw();
    let watch = http.get(format!("{url}/v1/watch?after={number}")).send().unwrap();
    let mut lines = BufReader::new(watch).lines().map_while(Result::ok);
    for kind in ["chain", "function", "instance", "rule"] {
        let line: Value = serde_json::from_str(&lines.next().unwrap()).unwrap();
        assert_eq!(line["event"], "declared", "{line}");
        assert_eq!(line["revision"], applied["revision"], "all in one revision: {line}");
        assert_eq!(line["kind"], kind);
    }
    let (status, _) = draft.apply(&json!({}));
    assert_eq!(status, 404, "a draft is applied once");
    drop(agent);
}

#[test]
fn a_plan_is_refused_when_the_world_has_moved_on_and_says_what_moved() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    let lab = Lab::new(&controller);
    let draft = drafted(&controller, &lab);
    let number = draft.plan()["plan"].as_u64().unwrap();
    controller.create("/v2.0/networks", &json!({"name": "elsewhere"}));
    let refused = |(status, problem): (u16, Value)| {
        assert_eq!((status, &problem["title"]), (409, &json!("Moved on")), "{problem}");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(&format!("Plan {number}")), "{detail}");
        assert!(detail.contains("network 'elsewhere'"), "{detail}");
        assert_eq!(sfc_objects(&controller), 0, "nothing of it was made");
    };
    refused(draft.apply(&json!({"plan": number})));
    refused(draft.apply(&json!({})));
    let later = Draft::open(&controller);
    refused(later.apply(&json!({"plan": number})));
    for wrong in [json!({"plan": "one"}), json!({"plna": 1}), json!(7)] {
        assert_eq!(later.apply(&wrong).0, 400, "{wrong}");
    }
}

#[test]
fn who_asks_for_changes_that_are_forgotten_or_to_come_is_told_so() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    controller.create("/v2.0/networks", &json!({"name": "n"}));
    let (status, problem) = controller.call("GET", "/v1/watch?after=99", None);
    assert_eq!(status, 400, "{problem}");
    assert_eq!(controller.call("GET", "/v1/watch?after=soon", None).0, 400);
    controller.stop();
    // What changed before a start is not remembered.
    let controller = Controller::start(open(data.path()));
    let (status, problem) = controller.call("GET", "/v1/watch?after=0", None);
    assert_eq!((status, &problem["title"]), (410, &json!("Forgotten")), "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains("after revision 0"), "{problem}");
}

#[test]
fn a_function_says_how_its_instances_are_to_be_run_and_how_many_are_there() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    let lab = Lab::new(&controller);
    lab.function_on("ids", "host1");
    let template = json!({
        "runs": {"external": "registry/ids:3"}, "cpu_milli": 500, "memory_mib": 256,
        "instances": 3, "labels": {"tier": "edge"},
    });
    let put = |body: Value| controller.call("PUT", "/v1/functions/ids", Some(&body));
    let (status, function) =
        put(json!({"on_failure": "reroute", "keeps_mac": true, "template": template}));
    assert_eq!((status, &function["template"]), (200, &template), "{function}");
    assert_eq!(function["keeps_mac"], true, "{function}");
    let condition = &function["conditions"][0];
    assert_eq!(
        (&condition["name"], &condition["holds"]),
        (&json!("InstancesReady"), &json!(false))
    );
    assert!(condition["text"].as_str().unwrap().starts_with("1 of 3 "), "{condition}");
    for wrong in [
        json!({"template": {"runs": {"external": " "}}}),
        json!({"template": {"runs": {"command": []}}}),
        json!({"template": {"runs": {"external": "x"}, "instances": 257}}),
        json!({"template": {"runs": {"external": "x"}, "colour": "red"}}),
        json!({"template": {"runs": {"magic": "x"}}}),
    ] {
        let (status, problem) = put(wrong.clone());
        assert_eq!(status, 400, "{wrong}: {problem}");
    }
    controller.stop();
    let controller = Controller::start(open(data.path()));
    let patch = |body: Value| controller.call("PATCH", "/v1/functions/ids", Some(&body));
    let (status, function) = patch(json!({"on_failure": "block"}));
    assert_eq!((status, &function["template"]), (200, &template), "what is not given stays");
    let (_, function) = patch(json!({"template": null}));
    assert!(function.get("template").is_none(), "{function}");
    assert_eq!((&function["on_failure"], &function["conditions"]), (&json!("block"), &json!([])));
    let (_, function) =
        controller.call("PUT", "/v1/functions/ids", Some(&json!({"template": template})));
    let (policy, keeps_mac) = (&function["on_failure"], &function["keeps_mac"]);
    assert_eq!((policy, keeps_mac), (&json!("unwatched"), &json!(false)), "PUT sets all there is");
}

#[test]
fn paths_and_tables_of_a_node_tell_what_a_chain_has_become() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    let _agent = FakeAgent::connect(&controller.data, "host1", 1, controller.southbound);
    let lab = Lab::new(&controller);
    let source = lab.port("S", "S", "host1");
    let function = lab.function_on("v1", "host1");
    let rule = lab.classifier("fc", &source, 5_001);
    let chain =
        controller.create("/v2.0/sfc/port_chains", &lab.chain("web", &[&function], &[&rule]));
    let path = eventually("the path in use", || {
        let paths = controller.get("/v1/paths");
        (paths[0]["phase"] == "classified").then(|| paths[0].clone())
    });
    assert_eq!((&path["chain"], &path["chain_name"]), (&chain["id"], &json!("web")));
    assert_eq!(path["direction"], "forward");
    assert_eq!(path["hops"][0]["instances"][0]["node"], "host1");
    let shown = controller.get(&format!("/v1/paths/{}", path["path"]));
    assert_eq!(shown, path);
    assert_eq!(controller.call("GET", "/v1/paths/16000000", None).0, 404);

    let node = controller.get("/v1/nodes/host1");
    assert_eq!(node["status"]["node"], "host1");
    let tables = node["tables"].as_array().unwrap();
    let of = |name: &str| tables.iter().find(|fill| fill["table"] == name).unwrap();
    assert_eq!((&of("paths")["entries"], &of("paths")["limit"]), (&json!(1), &json!(65_536)));
    assert_eq!(of("rules")["entries"], 1);
    let (status, problem) = controller.call("GET", "/v1/nodes/host9", None);
    assert!(status == 404 && problem["detail"].as_str().unwrap().contains("host9"), "{problem}");
    // The beginning of an identity is enough where it fits no other.
    let short = chain["id"].as_str().unwrap().get(..8).unwrap().to_owned();
    assert_eq!(controller.get(&format!("/v1/chains/{short}"))["name"], "web");
}

#[test]
fn hosts_are_proposed_for_a_draft_and_what_is_not_there_is_refused_by_name() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    let _agent = FakeAgent::connect(&controller.data, "host1", 1, controller.southbound);
    let lab = Lab::new(&controller);
    let draft = drafted(&controller, &lab);
    let ask = |request: Value| {
        let path = format!("/v1/plan/{}/placement", draft.id);
        controller.call("POST", &path, Some(&request))
    };
    let (status, proposals) = ask(json!({"chains": ["web"], "free": ["v1"]}));
    assert_eq!(status, 200, "{proposals}");
    let function = json!({"function": "v1", "now": ["host1"], "host": "host1", "rack": ["host1"]});
    let cost = json!({"racks": 1, "ports": 0, "pathlets": 0});
    let proposal = json!({
        "chain": "web", "trouble": null, "functions": [function], "now": cost, "proposed": cost,
        "racks_least": 1, "ports_least": 0, "is_proved": true,
    });
    assert_eq!(proposals, json!([proposal]));
    let refusals = [
        (json!({"chains": ["rest"]}), 404, "rest"),
        (json!({"chains": []}), 400, "'chains' names no chain"),
        (json!({"chains": ["web"], "free": ["v2"]}), 404, "called 'v2'; they have v1"),
        (json!({"chains": ["web"], "per_host": 0}), 400, "1 to 64 functions, not 0"),
        (json!({"chains": ["web"], "hosts": 3}), 400, "hosts"),
    ];
    for (request, status, word) in refusals {
        let (answered, why) = ask(request);
        assert_eq!(answered, status, "{why}");
        assert!(why["detail"].as_str().unwrap().contains(word), "{why}");
    }
}
