//! A small declared network: one tenant network, ports on nodes, functions, classifiers.

use super::Controller;
use serde_json::{Value, json};

/// What tests build chains from.
pub struct Lab<'c> {
    pub controller: &'c Controller,
    pub network: String,
}

pub fn id(resource: &Value) -> String {
    resource["id"].as_str().unwrap().to_owned()
}

impl<'c> Lab<'c> {
    pub fn new(controller: &'c Controller) -> Self {
        let network = controller.create("/v2.0/networks", &json!({"name": "customer"}));
        let network = id(&network);
        let subnet = json!({"network_id": network, "cidr": "10.0.0.0/24", "ip_version": 4});
        controller.create("/v2.0/subnets", &subnet);
        Self { controller, network }
    }

    /// The lab of a controller that has one.
    pub fn of(controller: &'c Controller) -> Self {
        let found = controller.get("/v2.0/networks?name=customer");
        Self { controller, network: id(&found["networks"][0]) }
    }

    /// A port on a node, with an interface of its own name in a namespace of its device's.
    pub fn port(&self, name: &str, device: &str, node: &str) -> String {
        let port = json!({
            "name": name, "network_id": self.network, "device_id": device,
            "binding:host_id": node, "binding:profile": {"netns": device, "interface": name},
        });
        id(&self.controller.create("/v2.0/ports", &port))
    }

    /// A port that is nowhere yet.
    pub fn loose_port(&self, name: &str, device: &str) -> String {
        let port = json!({"name": name, "network_id": self.network, "device_id": device});
        id(&self.controller.create("/v2.0/ports", &port))
    }

    /// A function of one instance with these ports.
    pub fn function(&self, name: &str, ingress: &str, egress: &str) -> String {
        self.function_of(&json!({"name": name, "ingress": ingress, "egress": egress}))
    }

    /// A function of this one instance, under its name.
    fn function_of(&self, pair: &Value) -> String {
        let made = id(&self.controller.create("/v2.0/sfc/port_pairs", pair));
        let group = json!({"name": pair["name"], "port_pairs": [made]});
        id(&self.controller.create("/v2.0/sfc/port_pair_groups", &group))
    }

    /// A function of one instance with both ports on a node.
    pub fn function_on(&self, name: &str, node: &str) -> String {
        let (ingress, egress) = self.ports_of(name, node);
        self.function(name, &ingress, &egress)
    }

    fn ports_of(&self, name: &str, node: &str) -> (String, String) {
        let port = |end: &str| self.port(&format!("{name}-{end}"), name, node);
        (port("in"), port("out"))
    }

    /// A function of one instance that speaks an encapsulation, on a node.
    pub fn function_speaking(&self, encapsulation: &str, name: &str, node: &str) -> String {
        let (ingress, egress) = self.ports_of(name, node);
        self.function_of(&json!({"name": name, "ingress": ingress, "egress": egress,
            "service_function_parameters": {"correlation": encapsulation}}))
    }

    /// A classifier of UDP to one port, from one source.
    pub fn classifier(&self, name: &str, source: &str, port: u16) -> String {
        let classifier = json!({
            "name": name, "protocol": "udp", "logical_source_port": source,
            "destination_port_range_min": port, "destination_port_range_max": port,
        });
        id(&self.controller.create("/v2.0/sfc/flow_classifiers", &classifier))
    }

    /// An endpoint `S` and a function `v1` on `host1`, and the attributes of a chain `web` over it.
    pub fn web(controller: &'c Controller) -> Value {
        let lab = Self::new(controller);
        let source = lab.port("S", "S", "host1");
        let function = lab.function_on("v1", "host1");
        let classifier = lab.classifier("fc", &source, 5_001);
        lab.chain("web", &[&function], &[&classifier])
    }

    /// Attributes of a chain.
    pub fn chain(&self, name: &str, functions: &[&str], classifiers: &[&str]) -> Value {
        json!({"name": name, "port_pair_groups": functions, "flow_classifiers": classifiers,
               "chain_parameters": {"correlation": "nsh"}})
    }
}
