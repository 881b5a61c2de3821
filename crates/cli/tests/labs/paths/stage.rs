//! A stage for chains: their parts by the networking-sfc API, and probes on the ways between the
//! ends. Knows requests and lab names; refuses to know stories.

use super::witness::{Way, Witness};
use crate::house::{House, in_shared_house};
use crate::traffic::{Family, address};
use catena_client::Kind;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::IpAddr;

/// The ways of the stories: two to one destination, and two from one source.
pub(super) const FORTH: Way = Way::new("S", "D");
pub(super) const BESIDE: Way = Way::new("ext", "D");
pub(super) const ASIDE: Way = Way::new("S", "ext");

/// An instance of a function: its node, and the networks by which packets enter and leave it.
#[derive(Clone, Copy, Debug)]
pub(super) struct At(&'static str, &'static str, &'static str);

/// One port for both, on four hosts.
pub(super) const V8: At = At("v8", "customer", "customer");
pub(super) const V9: At = At("v9", "customer", "customer");
pub(super) const V10: At = At("v10", "customer", "customer");
pub(super) const V11: At = At("v11", "customer", "customer");
/// Two ports, one way only.
pub(super) const V1: At = At("v1", "customer", "internal");
pub(super) const V4: At = At("v4", "internal", "internal");
pub(super) const V7: At = At("v7", "internal", "customer");
/// Two ports, both ways.
pub(super) const V13: At = At("v13", "customer", "internal");
pub(super) const V14: At = At("v14", "internal", "customer");

const CUSTOMER: &[&str] = &["customer"];
const BOTH: &[&str] = &["customer", "internal"];
/// Where the stories' functions are looked at.
const FUNCTIONS: &[(&str, &[&str])] = &[
    ("v8", CUSTOMER),
    ("v9", CUSTOMER),
    ("v10", CUSTOMER),
    ("v11", CUSTOMER),
    ("v1", BOTH),
    ("v4", BOTH),
    ("v7", BOTH),
    ("v13", BOTH),
    ("v14", BOTH),
];

/// One telling of a story: a family, an encapsulation, a stage without chains.
pub(super) struct Stage<'s> {
    pub(super) house: &'s House,
    witness: &'s mut Witness,
    pub(super) family: Family,
    pub(super) encapsulation: &'static str,
    pub(super) is_symmetric: bool,
}

/// Tells a story over both families and both encapsulations in the shared lab; afterwards the
/// captures must have seen what it expected. Answers the verdict of the proof.
pub(super) fn tell(is_symmetric: bool, story: impl Fn(&mut Stage<'_>)) -> Value {
    let mut verdict = Value::Null;
    in_shared_house(|house| {
        let mut witness = Witness::at(house, FUNCTIONS);
        for encapsulation in ["nsh", "mpls"] {
            for family in Family::BOTH {
                let mut stage =
                    Stage { house, witness: &mut witness, family, encapsulation, is_symmetric };
                story(&mut stage);
                house.remove_chains();
            }
        }
        verdict = witness.judge();
    });
    verdict
}

/// The identity of what the API answered.
pub(super) fn id_of(made: &Value) -> String {
    made["id"].as_str().expect("an id").to_owned()
}

impl Stage<'_> {
    /// Probes on a way must pass these functions, or any of the instances named together. Answers
    /// who the receiver took for the sender.
    pub(super) fn expect(
        &mut self,
        what: &str,
        way: Way,
        functions: &[&[&str]],
    ) -> BTreeSet<IpAddr> {
        let telling = format!(
            "{what}, {} to {}, {} by {}",
            way.from,
            way.to,
            self.family.ethertype(),
            self.encapsulation
        );
        // What no chain takes has answers that no chain takes.
        let is_symmetric = self.is_symmetric && !functions.is_empty();
        self.witness.expect(self.house, &telling, (way, self.family), functions, is_symmetric)
    }

    /// Makes something; it must be possible.
    pub(super) fn create(&self, kind: Kind, body: &Value) -> Value {
        self.house.client.create(kind, body).unwrap_or_else(|error| panic!("{body}: {error}"))
    }

    /// The port of a node on a network.
    pub(super) fn port(&self, node: &str, network: &str) -> String {
        let name = format!("{node}@{network}");
        let found = self.house.client.find(Kind::Port, &name);
        id_of(&found.unwrap_or_else(|error| panic!("{error}")))
    }

    /// An instance with parameters of its own.
    pub(super) fn pair_with(&self, At(node, ingress, egress): At, parameters: &Value) -> String {
        id_of(&self.create(
            Kind::PortPair,
            &json!({
                "name": node, "ingress": self.port(node, ingress),
                "egress": self.port(node, egress), "service_function_parameters": parameters,
            }),
        ))
    }

    pub(super) fn pair(&self, at: At) -> String {
        self.pair_with(at, &json!({}))
    }

    pub(super) fn group_of(&self, pairs: &[String]) -> String {
        self.group_with(pairs, &json!({}))
    }

    /// A group with parameters of its own.
    pub(super) fn group_with(&self, pairs: &[String], parameters: &Value) -> String {
        id_of(&self.create(
            Kind::PortPairGroup,
            &json!({"port_pairs": pairs, "port_pair_group_parameters": parameters}),
        ))
    }

    /// A group of a new instance.
    pub(super) fn group(&self, at: At) -> String {
        self.group_of(&[self.pair(at)])
    }

    /// A classifier with these fields besides its family.
    pub(super) fn classifier_with(&self, mut fields: Value) -> String {
        fields["ethertype"] = json!(self.family.ethertype());
        id_of(&self.create(Kind::FlowClassifier, &fields))
    }

    /// The prefix of one address.
    pub(super) fn prefix(&self, address: IpAddr) -> String {
        let bits = if self.family == Family::V4 { 32 } else { 128 };
        format!("{address}/{bits}")
    }

    /// A classifier of everything on a way, with the fields that clients of the original give.
    pub(super) fn classifier(&self, way: Way) -> String {
        let prefix = |end: &str| self.prefix(address(end, self.family));
        let mut fields = json!({
            "logical_source_port": self.port(way.from, "customer"),
            "source_ip_prefix": prefix(way.from), "destination_ip_prefix": prefix(way.to),
        });
        if self.is_symmetric {
            fields["logical_destination_port"] = json!(self.port(way.to, "customer"));
        }
        self.classifier_with(fields)
    }

    /// A chain that is active.
    pub(super) fn chain(&self, groups: &[String], classifiers: &[String]) -> String {
        self.chain_with(&json!({"port_pair_groups": groups, "flow_classifiers": classifiers}))
    }

    /// A chain with attributes of its own that is active.
    pub(super) fn chain_with(&self, body: &Value) -> String {
        let mut body = body.clone();
        body["chain_parameters"] =
            json!({"correlation": self.encapsulation, "symmetric": self.is_symmetric});
        let id = id_of(&self.create(Kind::PortChain, &body));
        self.house.wait_active(&id);
        id
    }

    /// Changes something; the chains that take anything are active again afterwards.
    pub(super) fn update(&self, kind: Kind, id: &str, body: &Value) {
        let updated = self.house.client.update(kind, id, body);
        updated.unwrap_or_else(|error| panic!("{body}: {error}"));
        for chain in self.house.client.list(Kind::PortChain, &[]).expect("a list") {
            // One without classifiers takes nothing and is never active.
            if chain["flow_classifiers"] != json!([]) {
                self.house.wait_active(&id_of(&chain));
            }
        }
    }

    pub(super) fn set_groups(&self, chain: &str, groups: &[String]) {
        self.update(Kind::PortChain, chain, &json!({"port_pair_groups": groups}));
    }

    pub(super) fn set_classifiers(&self, chain: &str, classifiers: &[String]) {
        self.update(Kind::PortChain, chain, &json!({"flow_classifiers": classifiers}));
    }

    pub(super) fn set_pairs(&self, group: &str, pairs: &[String]) {
        self.update(Kind::PortPairGroup, group, &json!({"port_pairs": pairs}));
    }

    pub(super) fn delete_chain(&self, chain: &str) {
        let deleted = self.house.client.delete(Kind::PortChain, chain);
        deleted.unwrap_or_else(|error| panic!("{error}"));
    }
}
