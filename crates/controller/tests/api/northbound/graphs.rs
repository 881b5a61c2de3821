//! Service graphs at the border: which are taken, and what they hold fast.

use crate::support::lab::{Lab, id};
use crate::support::{Controller, kind, message, open, with_controller};
use serde_json::{Value, json};

const GRAPHS: &str = "/v2.0/sfc/service_graphs";
const CHAINS: &str = "/v2.0/sfc/port_chains";
const UNKNOWN: &str = "00000000-0000-4000-8000-000000000000";

/// Chains that may be branched: each over its own function that speaks NSH.
struct Chains<'c> {
    lab: Lab<'c>,
    source: String,
}

impl<'c> Chains<'c> {
    fn new(controller: &'c Controller) -> Self {
        let lab = Lab::new(controller);
        let source = lab.port("S", "S", "host1");
        Self { lab, source }
    }

    fn over(&self, groups: &[&str], correlation: &str, ports: &[u16]) -> String {
        let classifier =
            |port: &u16| self.lab.classifier(&format!("fc{port}"), &self.source, *port);
        let classifiers: Vec<String> = ports.iter().map(classifier).collect();
        let chain = json!({"port_pair_groups": groups, "flow_classifiers": classifiers,
                           "chain_parameters": {"correlation": correlation}});
        id(&self.lab.controller.create(CHAINS, &chain))
    }

    fn speaking(&self, name: &str, port: u16) -> String {
        let function = self.lab.function_speaking("nsh", name, "host1");
        self.over(&[&function], "nsh", &[port])
    }
}

/// Posts a graph and takes it away again: status and type of the error.
fn tried(controller: &Controller, branches: &Value) -> (u16, String) {
    let (status, body) = controller.post(GRAPHS, &json!({ "port_chains": branches }));
    if status == 201 {
        assert_eq!(&body["port_chains"], branches);
        assert_eq!(controller.call("DELETE", &format!("{GRAPHS}/{}", id(&body)), None).0, 204);
        return (status, String::new());
    }
    assert!(message(&body).len() > 10 && !message(&body).contains("%("), "{body}");
    (status, kind(&body).to_owned())
}

#[test]
fn service_graph_rules_of_3_5() {
    with_controller(|controller| {
        let chains = Chains::new(controller);
        let [a, b, c, d] = [("a", 1), ("b", 2), ("c", 3), ("d", 4)]
            .map(|(name, port)| chains.speaking(name, port));
        let plain = chains.lab.function_on("plain", "host1");
        let plain = chains.over(&[&plain], "nsh", &[5]);
        let mpls = chains.lab.function_speaking("mpls", "m", "host1");
        let mpls = chains.over(&[&mpls], "mpls", &[6]);
        let empty = id(&controller.create("/v2.0/sfc/port_pair_groups", &json!({})));
        let empty = chains.over(&[&empty], "nsh", &[]);
        for (branches, status, expected) in [
            (json!({ &a: [b] }), 201, ""),
            (json!({ &a: [b, c] }), 201, ""),
            (json!({ &a: [b], &b: [c], &c: [d] }), 201, ""),
            (json!({ &a: [c], &b: [c] }), 201, ""),
            (json!({ &a: [b, c], &b: [d], &c: [d] }), 201, ""),
            (json!({ &a: [empty] }), 201, ""),
            (json!({ &empty: [a] }), 201, ""),
            (json!({ "abc": [b] }), 400, "InvalidUUID"),
            (json!({ &a: ["abc"] }), 400, "InvalidUUID"),
            (json!({ &a: [7] }), 400, "InvalidUUID"),
            (json!({ &a: "abc" }), 400, "HTTPBadRequest"),
            (json!([]), 400, "HTTPBadRequest"),
            (json!("abc"), 400, "HTTPBadRequest"),
            (json!({ &a: [UNKNOWN] }), 404, "PortChainNotFound"),
            (json!({ UNKNOWN: [a] }), 404, "PortChainNotFound"),
            (json!({ &a: [plain] }), 400, "ServiceGraphImpossibleBranching"),
            (json!({ &plain: [a] }), 400, "ServiceGraphImpossibleBranching"),
            (json!({ &a: [mpls] }), 400, "ServiceGraphInconsistentEncapsulation"),
            (json!({ &a: [b, b] }), 400, "ServiceGraphPortChainInConflict"),
            (json!({ &a: [a] }), 400, "ServiceGraphLoopDetected"),
            (json!({ &a: [b], &b: [a] }), 400, "ServiceGraphLoopDetected"),
            (json!({ &a: [b], &b: [c], &c: [a] }), 400, "ServiceGraphLoopDetected"),
        ] {
            assert_eq!(tried(controller, &branches), (status, expected.to_owned()), "{branches}");
        }
    });
}

#[test]
fn the_order_of_the_checks_is_the_originals() {
    with_controller(|controller| {
        let chains = Chains::new(controller);
        let [a, b, c] =
            [("a", 1), ("b", 2), ("c", 3)].map(|(name, port)| chains.speaking(name, port));
        let plain = chains.lab.function_on("plain", "host1");
        let plain = chains.over(&[&plain], "nsh", &[5]);
        controller.create(GRAPHS, &json!({"port_chains": { &a: [b] }}));
        for (branches, status, expected) in [
            // What is in use comes before what does not exist.
            (json!({ &a: [UNKNOWN] }), 409, "ServiceGraphInvalidPortChains"),
            (json!({ &c: [b] }), 409, "ServiceGraphInvalidPortChains"),
            // The source is looked at before where it leads, twice before unknown, cycles last.
            (json!({ &plain: [UNKNOWN] }), 400, "ServiceGraphImpossibleBranching"),
            (json!({ &c: [plain, plain] }), 400, "ServiceGraphImpossibleBranching"),
            (json!({ &c: [c, c] }), 400, "ServiceGraphPortChainInConflict"),
        ] {
            assert_eq!(tried(controller, &branches), (status, expected.to_owned()), "{branches}");
        }
    });
}

#[test]
fn surprise_10_of_the_original_graphs_without_branches_are_taken() {
    with_controller(|controller| {
        let chain = Chains::new(controller).speaking("a", 1);
        for branches in [json!({}), json!({ &chain: [] })] {
            assert_eq!(tried(controller, &branches), (201, String::new()), "{branches}");
        }
        let nothing = controller.create(GRAPHS, &json!({"port_chains": null}));
        assert_eq!(nothing["port_chains"], json!({}));
        let (status, body) = controller.post(GRAPHS, &json!({}));
        assert_eq!((status, kind(&body)), (400, "HTTPBadRequest"));
        assert!(message(&body).contains("Required attribute 'port_chains' not specified"));
    });
}

#[test]
fn a_chain_of_a_graph_keeps_its_groups_and_classifiers_until_the_graph_is_gone() {
    with_controller(|controller| {
        let chains = Chains::new(controller);
        let [a, b] = [("a", 1), ("b", 2)].map(|(name, port)| chains.speaking(name, port));
        let graph = json!({"name": "g", "description": "d", "port_chains": { &a: [b] }});
        let graph = controller.create(GRAPHS, &graph);
        let keys: Vec<&String> = graph.as_object().unwrap().keys().collect();
        let known = ["id", "name", "project_id", "description", "port_chains", "tenant_id"];
        assert_eq!(keys.iter().filter(|key| known.contains(&key.as_str())).count(), known.len());
        for chain in [&a, &b] {
            let item = format!("{CHAINS}/{chain}");
            let in_use = |(status, body): (u16, Value)| {
                assert_eq!((status, kind(&body)), (409, "ServiceGraphPortChainInUse"), "{body}");
            };
            in_use(controller.call("DELETE", &item, None));
            in_use(controller.put(&item, &json!({"flow_classifiers": []})));
            let groups = controller.get(&item)["port_chain"]["port_pair_groups"].clone();
            in_use(controller.put(&item, &json!({ "port_pair_groups": groups })));
            let (status, renamed) = controller.put(&item, &json!({"name": "n"}));
            assert_eq!((status, &renamed["name"]), (200, &json!("n")));
        }
        let item = format!("{GRAPHS}/{}", id(&graph));
        let (status, body) = controller.put(&item, &json!({"port_chains": {}}));
        assert_eq!((status, kind(&body)), (400, "HTTPBadRequest"));
        assert_eq!(message(&body), "Cannot update read-only attribute port_chains");
        let (status, renamed) = controller.put(&item, &json!({"name": "h", "description": "e"}));
        assert_eq!(
            (status, &renamed["name"], &renamed["description"]),
            (200, &json!("h"), &json!("e"))
        );
        assert_eq!(renamed["port_chains"], json!({ &a: [b] }));
        assert_eq!(controller.get(GRAPHS)["service_graphs"].as_array().unwrap().len(), 1);
        assert_eq!(controller.call("DELETE", &item, None).0, 204);
        let (status, body) = controller.call("DELETE", &item, None);
        assert_eq!((status, kind(&body)), (404, "ServiceGraphNotFound"));
        assert_eq!(controller.call("DELETE", &format!("{CHAINS}/{a}"), None).0, 204);
    });
}

#[test]
fn graphs_outlive_the_controller() {
    let data = tempfile::tempdir().unwrap();
    let controller = Controller::start(open(data.path()));
    let chains = Chains::new(&controller);
    let [a, b] = [("a", 1), ("b", 2)].map(|(name, port)| chains.speaking(name, port));
    let graph = controller.create(GRAPHS, &json!({"port_chains": { &a: [b] }}));
    controller.stop();
    let again = Controller::start(open(data.path()));
    assert_eq!(again.get(GRAPHS)["service_graphs"], json!([graph]));
}
