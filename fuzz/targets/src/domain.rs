//! A domain with one of each resource, so that bodies can name what is there. Knows how it is made;
//! refuses to know what is asked of it.

use crate::http::{Answer, ask};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Chains, each over a function of its own that speaks NSH, as graphs want it.
const CHAINS: usize = 4;

/// A controller, and the identities of what was declared there by their names in bodies (`$port`).
pub(crate) struct Domain {
    pub(crate) controller: SocketAddr,
    identities: BTreeMap<String, String>,
}

impl Domain {
    /// Declares everything.
    pub(crate) fn new(controller: SocketAddr) -> Self {
        let mut domain = Self { controller, identities: BTreeMap::new() };
        domain.make("network", "networks", "network", &json!({"name": "n"}));
        let subnet = json!({"network_id": "$network", "cidr": "10.0.0.0/24", "ip_version": 4});
        domain.make("subnet", "subnets", "subnet", &subnet);
        for port in ["source", "ingress", "egress"] {
            domain.port(port, "d");
        }
        for number in 0..CHAINS {
            domain.chain(number);
        }
        domain.pair("spare-pair", "ingress", "egress");
        let spare = json!({"protocol": "udp", "logical_source_port": "$source"});
        domain.make("spare-classifier", "sfc/flow_classifiers", "flow_classifier", &spare);
        domain.group("spare-group", "spare-pair");
        domain.port("free-ingress", "f");
        domain.port("free-egress", "f");
        domain.pair("free-pair", "free-ingress", "free-egress");
        domain.port("new-ingress", "g");
        domain.port("new-egress", "g");
        let graph = json!({"name": "g", "port_chains": {"$chain0": ["$chain1"]}});
        domain.make("graph", "sfc/service_graphs", "service_graph", &graph);
        let slice = json!({"name": "s", "chain": "c2", "vni": 9, "teids": [1, 9]});
        let answer = domain.ask(("POST", "/v1/slices"), slice.to_string().as_bytes());
        domain.learn("slice", &answer);
        domain
    }

    /// A text with the identities of what it names.
    pub(crate) fn named(&self, text: &str) -> String {
        // The longer names first: one may begin another.
        let longest_first = self.identities.iter().rev();
        longest_first.fold(text.to_owned(), |text, (name, id)| text.replace(name, id))
    }

    pub(crate) fn ask(&self, (method, path): (&str, &str), body: &[u8]) -> Answer {
        ask(self.controller, (method, path), "", body)
    }

    fn chain(&mut self, number: usize) {
        let [source, ingress, egress, pair, group, classifier, chain] =
            ["source", "ingress", "egress", "pair", "group", "classifier", "chain"]
                .map(|name| format!("{name}{number}"));
        for port in [&source, &ingress, &egress] {
            self.port(port, &format!("d{number}"));
        }
        self.pair(&pair, &ingress, &egress);
        self.group(&group, &pair);
        let port = 1_000 + number;
        let rule = json!({"protocol": "tcp", "logical_source_port": format!("${source}"),
            "destination_port_range_min": port, "destination_port_range_max": port});
        self.make(&classifier, "sfc/flow_classifiers", "flow_classifier", &rule);
        let document = json!({"name": format!("c{number}"),
            "port_pair_groups": [format!("${group}")],
            "flow_classifiers": [format!("${classifier}")],
            "chain_parameters": {"correlation": "nsh"}});
        self.make(&chain, "sfc/port_chains", "port_chain", &document);
    }

    fn port(&mut self, name: &str, device: &str) {
        let port = json!({"name": name, "network_id": "$network", "device_id": device});
        self.make(name, "ports", "port", &port);
    }

    fn pair(&mut self, name: &str, ingress: &str, egress: &str) {
        let pair = json!({"name": name, "ingress": format!("${ingress}"),
            "egress": format!("${egress}"),
            "service_function_parameters": {"correlation": "nsh"}});
        self.make(name, "sfc/port_pairs", "port_pair", &pair);
    }

    fn group(&mut self, name: &str, pair: &str) {
        let group = json!({"name": name, "port_pairs": [format!("${pair}")]});
        self.make(name, "sfc/port_pair_groups", "port_pair_group", &group);
    }

    fn make(&mut self, name: &str, collection: &str, kind: &str, attributes: &Value) {
        let body = self.named(&json!({ kind: attributes }).to_string());
        let answer = self.ask(("POST", &format!("/v2.0/{collection}")), body.as_bytes());
        self.learn(name, &answer);
    }

    fn learn(&mut self, name: &str, answer: &Answer) {
        let made = answer.made();
        let (_, id) = made.first().unwrap_or_else(|| panic!("no {name}: {}", answer.body));
        self.identities.insert(format!("${name}"), id.clone());
    }
}

impl Answer {
    /// The kind (empty: that of the request) and identity of everything that was made.
    pub(crate) fn made(&self) -> Vec<(String, String)> {
        let objects = self.body.lines().filter_map(|line| serde_json::from_str(line).ok());
        objects.filter_map(|object: Value| made(&object)).collect()
    }
}

fn made(object: &Value) -> Option<(String, String)> {
    let id = |object: &Value| Some(object.get("id")?.as_str()?.to_owned());
    if let Some(id) = id(object) {
        return Some((String::new(), id));
    }
    object.as_object()?.iter().find_map(|(kind, inner)| Some((kind.clone(), id(inner)?)))
}
