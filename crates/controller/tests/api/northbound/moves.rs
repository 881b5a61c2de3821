//! Chains that are moved to another encapsulation while they are there: what nodes are told, what the
//! border shows, and what is refused.

use crate::support::agent::{FakeAgent, State};
use crate::support::lab::{Lab, id};
use crate::support::{Controller, eventually, kind, message, open, with_controller};
use catena_model::program::PathEntry;
use catena_model::resource::Encapsulation;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

const CHAINS: &str = "/v2.0/sfc/port_chains";
const GRAPHS: &str = "/v2.0/sfc/service_graphs";

/// The chain `web` from `S` on `host1` over `v1` there and `v2` on `host2`.
pub(super) struct House {
    pub(super) controller: Controller,
    pub(super) agents: [FakeAgent; 2],
    chain: String,
}

impl House {
    pub(super) fn start(data: &Path, answer_wait: Duration) -> Self {
        Self::start_with(data, answer_wait, |_| State::default())
    }

    /// The same, with hosts in these states.
    pub(super) fn start_with(
        data: &Path,
        answer_wait: Duration,
        state: impl Fn(u8) -> State,
    ) -> Self {
        let mut config = open(data);
        config.answer_wait = answer_wait;
        let controller = Controller::start(config);
        let agents = [("host1", 1), ("host2", 2)].map(|(node, host)| {
            let southbound = controller.southbound;
            FakeAgent::connect_running(&controller.data, node, host, southbound, state(host))
        });
        let lab = Lab::new(&controller);
        let source = lab.port("S", "S", "host1");
        let functions = [lab.function_on("v1", "host1"), lab.function_on("v2", "host2")];
        let classifier = lab.classifier("fc", &source, 5_001);
        let functions = functions.each_ref().map(String::as_str);
        let chain = controller.create(CHAINS, &lab.chain("web", &functions, &[&classifier]));
        let chain = id(&chain);
        eventually("the chain", || {
            (controller.get("/v1/chains/web")["status"]["state"] == "active").then_some(())
        });
        Self { controller, agents, chain }
    }

    fn move_to(&self, encapsulation: &str) -> (u16, Value) {
        change(&self.controller, "web", &json!({ "encapsulation": encapsulation }))
    }

    pub(super) fn at_border(&self) -> Value {
        self.controller.get(&format!("{CHAINS}/{}", self.chain))["port_chain"].take()
    }

    /// The path that packets are sent into.
    pub(super) fn path(&self) -> PathEntry {
        let program = self.agents[0].program().unwrap();
        let is_used = |path: &&PathEntry| path.id == program.rules[0].path;
        program.paths.iter().find(is_used).unwrap().clone()
    }
}

pub(super) const LONG: Duration = Duration::from_secs(20);

pub(super) fn change(controller: &Controller, chain: &str, body: &Value) -> (u16, Value) {
    controller.call("PATCH", &format!("/v1/chains/{chain}"), Some(body))
}

fn carried(shown: &Value) -> (&str, &str) {
    let correlation = shown["chain_parameters"]["correlation"].as_str().unwrap();
    (correlation, shown["encapsulation"].as_str().unwrap())
}

#[test]
fn a_chain_moves_by_a_new_path_and_the_border_shows_what_was_declared_there() {
    let data = tempfile::tempdir().unwrap();
    let house = House::start(data.path(), LONG);
    assert_eq!(carried(&house.at_border()), ("nsh", "nsh"));
    let first = house.path();
    let (status, report) = house.move_to("mpls");
    assert_eq!((status, &report["encapsulation"]), (200, &json!("mpls")), "{report}");
    assert_eq!(report["status"]["state"], "active", "{report}");
    assert_eq!(report["receipt"]["drained"][0]["path"], json!(first.id), "{report}");
    let second = house.path();
    assert_eq!(second.encapsulation, Encapsulation::Mpls);
    assert_eq!(report["receipt"]["paths"], json!([second.id]));
    assert_eq!(carried(&house.at_border()), ("nsh", "mpls"));

    // Where it is already, nothing changes.
    let (status, report) = house.move_to("mpls");
    assert_eq!((status, &report["receipt"]), (200, &Value::Null), "{report}");
    assert_eq!(house.path().id, second.id);

    // What the border changes does not move it back.
    let item = format!("{CHAINS}/{}", house.chain);
    let groups = house.at_border()["port_pair_groups"].clone();
    let body = json!({"port_pair_groups": [groups[0]], "name": "web"});
    let (status, changed) = house.controller.put(&item, &body);
    assert_eq!((status, carried(&changed)), (200, ("nsh", "mpls")), "{changed}");
    assert_eq!(house.path().encapsulation, Encapsulation::Mpls);
    for body in
        [json!({"chain_parameters": {"correlation": "nsh"}}), json!({"encapsulation": "nsh"})]
    {
        let (status, problem) = house.controller.put(&item, &body);
        assert_eq!((status, kind(&problem)), (400, "HTTPBadRequest"), "{body}");
        assert!(message(&problem).contains("Cannot update read-only attribute"), "{problem}");
    }

    let (status, report) = house.move_to("nsh");
    assert_eq!((status, &report["encapsulation"]), (200, &json!("nsh")), "{report}");
    assert_eq!(house.path().encapsulation, Encapsulation::Nsh);
    assert_eq!(carried(&house.at_border()), ("nsh", "nsh"));
}

#[test]
fn the_slices_of_a_chain_move_with_it_unless_they_carry_metadata() {
    let data = tempfile::tempdir().unwrap();
    let house = House::start(data.path(), LONG);
    let slice = |carries_metadata: bool| {
        json!({"name": "gold", "chain": "web", "source_port": "S", "vni": 7,
               "carries_metadata": carries_metadata})
    };
    let controller = &house.controller;
    assert_eq!(controller.call("POST", "/v1/slices", Some(&slice(true))).0, 201);
    let (status, problem) = house.move_to("mpls");
    let detail = problem["detail"].as_str().unwrap_or_default();
    assert!(status == 409 && detail.contains("slice 'gold'"), "{problem}");
    assert!(detail.contains("without 'carries_metadata'"), "{problem}");
    assert_eq!(carried(&house.at_border()), ("nsh", "nsh"));

    assert_eq!(controller.call("PUT", "/v1/slices/gold", Some(&slice(false))).0, 200);
    let (status, problem) = house.move_to("source-route/safe-9");
    let detail = problem["detail"].as_str().unwrap_or_default();
    assert!(status == 409 && detail.contains("slice 'gold'"), "{problem}");
    assert!(detail.contains("no room for the paths of slices"), "{problem}");
    for carrier in [Encapsulation::Mpls, Encapsulation::Nsh] {
        let (status, report) = house.move_to(carrier.name());
        assert_eq!(status, 200, "{report}");
        let pool = &carrier.capabilities().slice_path_ids;
        eventually("the slice over its chain's new path", || {
            let shown = controller.get("/v1/slices/gold");
            let path = u32::try_from(shown["status"]["path"].as_u64()?).ok()?;
            (shown["status"]["state"] == "active" && pool.contains(&path)).then_some(())
        });
    }
}

#[test]
fn what_cannot_go_with_an_encapsulation_is_named_with_what_to_do_and_nothing_moves() {
    with_controller(|controller| {
        let lab = Lab::new(controller);
        let source = lab.port("S", "S", "host1");
        let chain = |name: &str, function: &str, port: u16| {
            let classifier = lab.classifier(&format!("fc{port}"), &source, port);
            id(&controller.create(CHAINS, &lab.chain(name, &[function], &[&classifier])))
        };
        chain("plain", &lab.function_on("v1", "host1"), 1);
        let [aware, before, behind] =
            [("aware", 2), ("before", 3), ("behind", 4)].map(|(name, port)| {
                chain(name, &lab.function_speaking("nsh", &format!("f{port}"), "host1"), port)
            });
        chain("marked", &lab.function_on("v5", "host1"), 5);
        let marks = json!({"context": ["flow_id"]});
        assert_eq!(change(controller, "marked", &marks).0, 200);
        let graph = json!({"name": "edge", "port_chains": { &before: [behind] }});
        controller.create(GRAPHS, &graph);
        let (stored, mpls) = (controller.get(CHAINS), json!({"encapsulation": "mpls"}));
        for (name, body, status, words) in [
            (
                "plain",
                json!({}),
                400,
                [
                    "it changes nothing",
                    "'encapsulation', 'payload', 'setup', 'context', 'telemetry' or 'via'",
                ],
            ),
            ("plain", json!({"encapsulation": null}), 400, ["it changes nothing", "'context'"]),
            (
                "plain",
                json!({"encapsulation": "gre"}),
                400,
                ["`nsh`, `mpls`", "`source-route/native`"],
            ),
            ("plain", json!({"correlation": "mpls"}), 400, ["correlation", "encapsulation"]),
            ("nowhere", mpls.clone(), 404, ["'nowhere'", "catena chain list"]),
            ("aware", mpls.clone(), 409, ["'f2' speaks nsh", "carry the chain by nsh"]),
            (
                "aware",
                json!({"encapsulation": "source-route/native"}),
                409,
                ["carried by source-route/native", "speaks no encapsulation"],
            ),
            ("before", mpls.clone(), 409, ["'before' is in graph 'edge'", "delete the graph"]),
            ("behind", mpls.clone(), 409, ["'behind' is in graph 'edge'", "delete the graph"]),
            ("marked", mpls.clone(), 409, ["'marked' has a context", "take its context away"]),
            (
                "marked",
                json!({"encapsulation": "source-route/native", "context": [{"policy": 1}]}),
                409,
                ["source-route/native has no room", "take its context away"],
            ),
        ] {
            let (told, problem) = change(controller, name, &body);
            let detail = problem["detail"].as_str().unwrap_or_default();
            let is_told = words.iter().all(|word| detail.contains(word));
            assert!(told == status && is_told, "{name} {body}: {told} {detail}");
        }
        assert_eq!(controller.get(CHAINS), stored, "nothing is half applied");
        assert_eq!(change(controller, "aware", &json!({"encapsulation": "nsh"})).0, 200);

        // Both together are one change; what has moved takes none.
        let bare = json!({"encapsulation": "mpls", "context": []});
        assert_eq!(change(controller, "marked", &bare).0, 200);
        let (status, problem) = change(controller, "marked", &marks);
        let detail = problem["detail"].as_str().unwrap_or_default();
        assert!(status == 409 && detail.contains("move it to nsh"), "{detail}");

        // Behind the border counts what carries a chain, not what was declared.
        let speaking = lab.function_speaking("nsh", "f6", "host1");
        let item = format!("{CHAINS}/{}", stored_id(&stored, "marked"));
        let (status, problem) = controller.put(&item, &json!({"port_pair_groups": [speaking]}));
        let told = (status, kind(&problem));
        assert_eq!(told, (400, "PortChainInconsistentCorrelations"), "{problem}");
        assert!(message(&problem).contains("is carried by mpls"), "{problem}");
        let empty = id(&controller.create("/v2.0/sfc/port_pair_groups", &json!({})));
        let moved = controller.create(CHAINS, &lab.chain("empty", &[&empty], &[]));
        assert_eq!(change(controller, "empty", &json!({"encapsulation": "mpls"})).0, 200);
        let branches = json!({"port_chains": { &aware: [id(&moved)] }});
        let (status, problem) = controller.post(GRAPHS, &branches);
        let told = (status, kind(&problem));
        assert_eq!(told, (400, "ServiceGraphInconsistentEncapsulation"), "{problem}");
    });
}

fn stored_id(chains: &Value, name: &str) -> String {
    let mut all = chains["port_chains"].as_array().unwrap().iter();
    id(all.find(|chain| chain["name"] == name).unwrap())
}

#[test]
fn a_move_that_waits_keeps_the_former_path_and_outlives_the_controller() {
    let data = tempfile::tempdir().unwrap();
    let house = House::start(data.path(), Duration::from_millis(300));
    let former = house.path();
    // Where nodes do not answer, or no way leads to them, nothing turns.
    house.agents.iter().for_each(FakeAgent::hold);
    let (status, report) = house.move_to("source-route/native");
    let told = (status, &report["encapsulation"], &report["receipt"]);
    assert_eq!(told, (200, &json!("source-route/native"), &Value::Null), "{report}");
    assert_ne!(report["status"]["state"], "active", "{report}");
    assert_eq!(report["status"]["path"], json!(former.id), "{report}");
    assert_eq!(house.path().id, former.id);
    assert_eq!(carried(&house.at_border()), ("nsh", "source-route/native"));
    let House { controller, agents, chain } = house;
    drop(agents);
    controller.stop();
    let controller = Controller::start(open(data.path()));
    let shown = controller.get(&format!("{CHAINS}/{chain}"))["port_chain"].take();
    assert_eq!(carried(&shown), ("nsh", "source-route/native"));
}

#[test]
fn chains_move_together_in_a_draft() {
    let data = tempfile::tempdir().unwrap();
    let house = House::start(data.path(), LONG);
    let controller = &house.controller;
    let (status, draft) = controller.call("POST", "/v1/plan", Some(&json!({})));
    assert_eq!(status, 201, "{draft}");
    let draft = draft["draft"].as_str().unwrap();
    let (http, url) = controller.raw();
    let request = http.patch(format!("{url}/v1/chains/web")).header("Catena-Draft", draft);
    let answer = request.json(&json!({"encapsulation": "mpls"})).send().unwrap();
    assert_eq!(answer.status().as_u16(), 200);
    let plan = controller.get(&format!("/v1/plan/{draft}"));
    assert!(plan.to_string().contains("encapsulation   nsh → mpls"), "{plan}");
    assert_eq!(carried(&house.at_border()), ("nsh", "nsh"), "a draft moves nothing");
    let apply = format!("/v1/plan/{draft}/apply");
    let (status, applied) = controller.call("POST", &apply, Some(&json!({"wait": true})));
    assert_eq!(status, 200, "{applied}");
    assert_eq!(applied["receipts"].as_array().unwrap().len(), 1, "{applied}");
    assert_eq!(carried(&house.at_border()), ("nsh", "mpls"));
}
