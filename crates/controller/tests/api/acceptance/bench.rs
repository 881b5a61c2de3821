//! A controller of its own for each test, and cases as rows.

use crate::support::lab::id;
use crate::support::{Controller, kind, message, open};
use serde_json::{Value, json};

pub(crate) const UNKNOWN: &str = "00000000-0000-4000-8000-000000000000";
pub(crate) const PORTS: &str = "/v2.0/ports";
pub(crate) const RULES: &str = "/v2.0/sfc/flow_classifiers";
pub(crate) const PAIRS: &str = "/v2.0/sfc/port_pairs";
pub(crate) const GROUPS: &str = "/v2.0/sfc/port_pair_groups";
pub(crate) const CHAINS: &str = "/v2.0/sfc/port_chains";
pub(crate) const GRAPHS: &str = "/v2.0/sfc/service_graphs";

/// A case: its name, what is sent, status and type that come back. No type: it is accepted.
pub(crate) type Case = (&'static str, Value, u16, &'static str);

pub(crate) struct Bench {
    pub(crate) controller: Controller,
    network: String,
    _data: tempfile::TempDir,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let data = tempfile::tempdir().unwrap();
        let controller = Controller::start(open(data.path()));
        let network = id(&controller.create("/v2.0/networks", &json!({})));
        Self { controller, network, _data: data }
    }

    pub(crate) fn port(&self, device: &str) -> String {
        let port = json!({"network_id": self.network, "device_id": device});
        id(&self.controller.create(PORTS, &port))
    }

    pub(crate) fn made(&self, path: &str, attributes: Value) -> String {
        id(&self.controller.create(path, &attributes))
    }

    /// A pair on one new port that speaks an encapsulation or none.
    pub(crate) fn pair(&self, correlation: Value) -> String {
        let port = self.port("d");
        let parameters = json!({ "correlation": correlation });
        self.made(
            PAIRS,
            json!({"ingress": port, "egress": port, "service_function_parameters": parameters}),
        )
    }

    /// A group of one such pair.
    pub(crate) fn group(&self, correlation: Value) -> String {
        self.made(GROUPS, json!({"port_pairs": [self.pair(correlation)]}))
    }

    pub(crate) fn rule(&self, port: u16) -> String {
        let rule = json!({"protocol": "tcp", "destination_port_range_min": port,
                          "destination_port_range_max": port});
        self.made(RULES, rule)
    }

    /// Each case on its own: what was made is deleted again.
    pub(crate) fn creates(&self, path: &str, cases: &[Case]) {
        for (name, attributes, status, expected) in cases {
            let (got, body) = self.controller.post(path, attributes);
            let shown = if got == 201 { "" } else { kind(&body) };
            assert_eq!((got, shown), (*status, *expected), "{name}: {attributes}: {body}");
            if got == 201 {
                self.delete(path, &id(&body));
            } else {
                assert!(message(&body).len() > 10, "{name}: {body}");
            }
        }
    }

    /// Each case as an update of one item, in their order.
    pub(crate) fn updates(&self, path: &str, item: &str, cases: &[Case]) {
        for (name, attributes, status, expected) in cases {
            let (got, body) = self.controller.put(&format!("{path}/{item}"), attributes);
            let shown = if got == 200 { "" } else { kind(&body) };
            assert_eq!((got, shown), (*status, *expected), "{name}: {attributes}: {body}");
        }
    }

    pub(crate) fn show(&self, path: &str, item: &str) -> Value {
        let mut body = self.controller.get(&format!("{path}/{item}"));
        body[crate::support::singular(path)].take()
    }

    pub(crate) fn delete(&self, path: &str, item: &str) {
        self.refuses_to_delete(path, item, 204, "");
    }

    pub(crate) fn refuses_to_delete(&self, path: &str, item: &str, status: u16, expected: &str) {
        let (got, body) = self.controller.call("DELETE", &format!("{path}/{item}"), None);
        let shown = if got == 204 { "" } else { kind(&body) };
        assert_eq!((got, shown), (status, expected), "DELETE {path}/{item}: {body}");
    }

    /// How many of a list a query finds.
    pub(crate) fn count(&self, path: &str, query: &str) -> usize {
        let body = self.controller.get(&format!("{path}{query}"));
        body[path.rsplit('/').next().unwrap()].as_array().unwrap().len()
    }

    /// list all, by filter, by unknown value; show; show and delete of what is not there.
    pub(crate) fn lists_and_shows(&self, path: &str, item: &str, not_found: &str) {
        let name = self.show(path, item)["name"].as_str().unwrap().to_owned();
        assert!(self.count(path, "") >= 1);
        assert_eq!(self.count(path, &format!("?name={name}")), 1);
        assert_eq!(self.count(path, &format!("?id={item}")), 1);
        assert_eq!(self.count(path, "?name=unknown"), 0);
        let (status, body) = self.controller.call("GET", &format!("{path}/{UNKNOWN}"), None);
        assert_eq!((status, kind(&body)), (404, not_found));
        self.refuses_to_delete(path, UNKNOWN, 404, not_found);
    }
}
