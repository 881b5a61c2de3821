//! Receipts, instances that drain, functions that may die: what the native API answers, and what
//! nodes are told.

use crate::support::agent::FakeAgent;
use crate::support::lab::{Lab, id};
use crate::support::{Controller, eventually, open};
use catena_model::id::{ChainId, InstanceId};
use catena_model::resource::{ContextHeader, FailurePolicy};
use catena_model::service_time::ServiceTime;
use catena_model::sojourn_time::SojournTime;
use catena_model::status::{DrainProof, InstanceReport, InstanceUse, Receipt};
use catena_model::{ChainCounters, HopCounters, PathId, Volume};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const CHAINS: &str = "/v2.0/sfc/port_chains";
const GROUPS: &str = "/v2.0/sfc/port_pair_groups";

/// One node with a chain over function `web` of instances v1 and v2, then function `last`.
struct House<'c> {
    lab: Lab<'c>,
    node: FakeAgent,
    chain: String,
    web: String,
}

impl<'c> House<'c> {
    fn new(controller: &'c Controller) -> Self {
        let node = FakeAgent::connect(&controller.data, "host1", 1, controller.southbound);
        let lab = Lab::new(controller);
        let source = lab.port("S", "S", "host1");
        let web = lab.function_on("v1", "host1");
        let second = pair(&lab, "v2");
        let first = controller.get(&format!("{GROUPS}/{web}"))["port_pair_group"]["port_pairs"][0]
            .as_str()
            .unwrap()
            .to_owned();
        let members = json!({"name": "web", "port_pairs": [first, second]});
        controller.put(&format!("{GROUPS}/{web}"), &members);
        let last = lab.function_on("last", "host1");
        let classifier = lab.classifier("fc", &source, 5_001);
        eventually("all ports bound", || {
            let ports = controller.get("/v2.0/ports");
            let all = ports["ports"].as_array().unwrap();
            all.iter().all(|port| port["status"] == "ACTIVE").then_some(())
        });
        let chain = controller.create(CHAINS, &lab.chain("pc", &[&web, &last], &[&classifier]));
        assert_eq!(chain["status"], "active", "{chain}");
        Self { lab, node, chain: id(&chain), web }
    }

    fn path(&self) -> PathId {
        self.node.program().unwrap().rules[0].path
    }

    fn count(&self, counted: ChainCounters) {
        self.node.state.lock().unwrap().chains = vec![counted];
    }

    fn nothing(&self, path: PathId) -> ChainCounters {
        ChainCounters {
            chain: ChainId(self.chain.parse().unwrap()),
            path,
            entered: Volume::default(),
            finished: Volume::default(),
            tapped: Volume::default(),
            is_partial: false,
            pinned_flows: 0,
            tunnelled_out: Volume::default(),
            tunnelled_in: Volume::default(),
            dropped: BTreeMap::new(),
            hops: Vec::new(),
        }
    }

    /// The weights of the first function's instances on the path in use.
    fn weights(&self) -> Vec<(String, u32)> {
        let program = self.node.program().unwrap();
        let path = program.paths.iter().find(|path| path.id == program.rules[0].path).unwrap();
        let instances = path.hops[0].instances.iter();
        instances.map(|instance| (instance.name.clone(), instance.weight)).collect()
    }
}

fn pair(lab: &Lab<'_>, name: &str) -> String {
    let port = |end: &str| lab.port(&format!("{name}-{end}"), name, "host1");
    let pair = json!({"name": name, "ingress": port("in"), "egress": port("out")});
    id(&lab.controller.create("/v2.0/sfc/port_pairs", &pair))
}

fn packets(packets: u64) -> Volume {
    Volume { packets, bytes: packets * 100 }
}

fn receipt(controller: &Controller, chain: &str) -> Receipt {
    serde_json::from_value(controller.get(&format!("/v1/chains/{chain}/receipt"))).unwrap()
}

fn reversed(controller: &Controller, chain: &str) -> Value {
    let shown = controller.get(&format!("{CHAINS}/{chain}"));
    let mut groups = shown["port_chain"]["port_pair_groups"].as_array().unwrap().clone();
    groups.reverse();
    json!({"port_pair_groups": groups})
}

#[test]
fn every_change_of_a_chain_ends_with_its_receipt() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    let house = House::new(&controller);
    // The answer to the creation does not wait for it.
    let made = eventually("the receipt of the creation", || {
        let (status, found) = controller.call("GET", "/v1/chains/pc/receipt", None);
        (status == 200).then(|| serde_json::from_value::<Receipt>(found).unwrap())
    });
    assert_eq!(
        (made.name.as_str(), &made.drained[..], &made.paths[..]),
        ("pc", &[][..], &[house.path()][..])
    );

    // A renamed chain is the same path: nothing changed that has a receipt.
    let shown = format!("{CHAINS}/{}", house.chain);
    let (status, renamed) = controller.put(&shown, &json!({"description": "d"}));
    assert_eq!((status, &renamed["receipt"]), (200, &Value::Null));

    // A group's change is its chains' change.
    let third = pair(&house.lab, "v3");
    eventually("the new ports", || {
        let ports = controller.get("/v2.0/ports");
        ports["ports"].as_array().unwrap().iter().all(|p| p["status"] == "ACTIVE").then_some(())
    });
    let group = format!("{GROUPS}/{}", house.web);
    let mut pairs = controller.get(&group)["port_pair_group"]["port_pairs"].clone();
    pairs.as_array_mut().unwrap().push(json!(third));
    let old = house.path();
    let (status, changed) = controller.put(&group, &json!({"port_pairs": pairs}));
    assert_eq!((status, &changed["receipts"][0]["drained"][0]["path"]), (200, &json!(old)));
    assert_eq!(house.weights().len(), 3);

    let old = house.path();
    assert_eq!(controller.call("DELETE", &shown, None).0, 204);
    let gone = eventually("the receipt of the deletion", || {
        Some(receipt(&controller, "pc")).filter(|receipt| receipt.paths.is_empty())
    });
    assert_eq!((gone.drained[0].path, gone.drained[0].proof), (old, DrainProof::Counted));
    let (status, problem) = controller.call("GET", "/v1/chains/nobody/receipt", None);
    assert_eq!((status, &problem["title"]), (404, &json!("Not found")));
}

#[test]
fn what_a_function_kept_is_told_when_the_bound_has_passed() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    let house = House::new(&controller);
    let old = house.path();
    let kept = HopCounters {
        member: 0,
        hop: 0,
        instance: InstanceId(uuid::Uuid::nil()),
        name: "v1".into(),
        delivered: packets(9),
        returned: packets(6),
        rewritten: 0,
        ambiguous: 0,
        bypassed: Volume::default(),
        denied: 0,
        generated: 0,
        service_time: ServiceTime::default(),
        sojourn_time: SojournTime::default(),
    };
    let counted = house.nothing(old);
    house.count(ChainCounters {
        entered: packets(9),
        finished: packets(6),
        hops: vec![kept],
        ..counted
    });
    let shown = format!("{CHAINS}/{}", house.chain);
    let (status, changed) = controller.put(&shown, &reversed(&controller, &house.chain));
    assert_eq!(status, 200, "{changed}");
    let told: Receipt = serde_json::from_value(changed["receipt"].clone()).unwrap();
    let drained = &told.drained[0];
    assert_eq!(drained.proof, DrainProof::Bound { after_ms: 2_000 });
    assert_eq!((drained.path, drained.lost_in_function, drained.in_flight), (old, 3, 3));
}

#[test]
fn flows_of_an_instance_that_drains_stay_until_they_have_ended() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    let house = House::new(&controller);
    let old = house.path();
    let mut counted = house.nothing(old);
    counted.pinned_flows = 3;
    house.count(counted.clone());
    let drain = json!({"is_draining": true});
    let (status, left) = controller.call("PATCH", "/v1/instances/v1", Some(&drain));
    assert_eq!(status, 200, "{left}");
    let pin = eventually("the turned classifier", || {
        let program = house.node.program().unwrap();
        let rule = program.rules[0].path;
        program.pins.into_iter().find(|pin| pin.new == rule)
    });
    let instance = || -> InstanceReport {
        serde_json::from_value(controller.get("/v1/instances/v1")).unwrap()
    };
    let left = instance();
    assert_eq!((left.used, left.flows_left), (InstanceUse::Draining, 3));
    assert_eq!(house.weights(), [("v1".into(), 0), ("v2".into(), 1)]);
    assert_eq!((pin.old, &pin.instances[..]), (old, &[left.id][..]));

    // Whoever watches the drain has read them: it asks again when it has judged an answer. Who
    // watches functions asks too, once a second.
    let asked = || house.node.state.lock().unwrap().asked;
    let before = asked();
    eventually("more questions", || (asked() >= before + 4).then_some(()));
    counted.pinned_flows = 0;
    house.count(counted);
    eventually("drained", || (instance().used == InstanceUse::Drained).then_some(()));
    let told = eventually("the receipt", || {
        Some(receipt(&controller, "pc")).filter(|told| !told.drained.is_empty())
    });
    assert_eq!((told.drained[0].pinned_flows, told.drained[0].moved_flows), (3, 0));
    eventually("the pins are gone", || house.node.program().unwrap().pins.is_empty().then_some(()));
}

#[test]
fn how_a_function_fails_is_in_force_when_it_is_answered() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    let house = House::new(&controller);
    let patch = json!({"on_failure": "bypass"});
    assert_eq!(controller.call("PATCH", "/v1/functions/web", Some(&patch)).0, 200);
    let program = house.node.program().unwrap();
    let path = program.paths.iter().find(|path| path.id == program.rules[0].path).unwrap();
    assert_eq!(path.hops[0].on_failure, FailurePolicy::Bypass);
    assert!(program.number.0 <= house.node.acknowledged());
}

#[test]
fn the_metadata_of_a_chain_travels_on_a_new_path() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    let house = House::new(&controller);
    let old = house.path();
    let context = json!([{"tenant": "red"}, "flow_id", {"policy": 7}]);
    let (status, report) =
        controller.call("PATCH", "/v1/chains/pc", Some(&json!({"context": context})));
    assert_eq!((status, &report["receipt"]["drained"][0]["path"]), (200, &json!(old)), "{report}");
    let program = house.node.program().unwrap();
    let path = program.paths.iter().find(|path| path.id == program.rules[0].path).unwrap();
    let expected =
        [ContextHeader::Tenant("red".into()), ContextHeader::FlowId, ContextHeader::Policy(7)];
    assert_eq!(path.context, expected);
    for bad in [
        json!([{"tenant": "x".repeat(33)}]),
        json!([{"tenant": ""}]),
        json!(["flow_id", "flow_id"]),
        json!(["colour"]),
    ] {
        let body = json!({"context": bad});
        assert_eq!(controller.call("PATCH", "/v1/chains/pc", Some(&body)).0, 400, "{bad}");
    }
    let shown = format!("{CHAINS}/{}", house.chain);
    controller.put(&shown, &json!({"name": "other"}));
    let program = house.node.program().unwrap();
    let path = program.paths.iter().find(|path| path.id == program.rules[0].path).unwrap();
    assert_eq!(path.context, expected, "a PUT does not lose it");
}
