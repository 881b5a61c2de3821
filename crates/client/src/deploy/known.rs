//! Pairs and groups that the controller has already, and the requests for those it has not. Knows
//! when two are the same; refuses to know when they are made.

use super::passage::Passage;
use super::{ChainStep, Direction, id_of, texts};
use crate::{Client, ClientError, Kind};
use serde_json::{Value, json};

/// Pairs and groups that were there before.
pub(super) struct Known {
    pairs: Vec<Value>,
    groups: Vec<Value>,
}

impl Known {
    pub(super) fn read(client: &Client) -> Result<Self, ClientError> {
        let pairs = client.list(Kind::PortPair, &[])?;
        let groups = client.list(Kind::PortPairGroup, &[])?;
        Ok(Self { pairs, groups })
    }

    /// The pair of these ports; with another weight it is another one, which the controller
    /// refuses in words of its own.
    pub(super) fn pair(&self, passage: &Passage) -> Option<String> {
        let is_it = |pair: &&Value| {
            pair["ingress"] == json!(passage.ingress)
                && pair["egress"] == json!(passage.egress)
                && weight_of(pair) == u64::from(passage.weight)
                && pair["speaks"] == json!(passage.speaks)
        };
        self.pairs.iter().find(is_it).map(id_of)
    }

    /// Does an instance of these groups speak an encapsulation?
    pub(super) fn is_spoken_in(&self, groups: &[String]) -> bool {
        let groups = self.groups.iter().filter(|group| groups.contains(&id_of(group)));
        let members: Vec<String> = groups.flat_map(|group| texts(&group["port_pairs"])).collect();
        let mut pairs = self.pairs.iter().filter(|pair| members.contains(&id_of(pair)));
        pairs.any(|pair| !pair["speaks"].is_null())
    }

    /// The group of exactly these pairs.
    pub(super) fn group(&self, pairs: &[String], is_tap: bool) -> Option<String> {
        let is_it = |group: &&Value| {
            group["port_pairs"] == json!(pairs)
                && group["tap_enabled"].as_bool().unwrap_or_default() == is_tap
        };
        self.groups.iter().find(is_it).map(id_of)
    }

    /// The group of a name that has no pair yet, as one that waits for its instances.
    pub(super) fn empty(&self, name: &str, is_tap: bool) -> Option<String> {
        let is_it = |group: &&Value| {
            group["name"] == name
                && group["port_pairs"].as_array().is_some_and(Vec::is_empty)
                && group["tap_enabled"].as_bool().unwrap_or_default() == is_tap
        };
        self.groups.iter().find(is_it).map(id_of)
    }

    /// The group among `ids` that has a name.
    pub(super) fn named<'k>(&'k self, ids: &[String], name: &str) -> Option<&'k Value> {
        let is_it = |group: &&Value| group["name"] == name && ids.contains(&id_of(group));
        self.groups.iter().find(is_it)
    }
}

/// The share of a pair's flows.
pub(super) fn weight_of(pair: &Value) -> u64 {
    pair["service_function_parameters"]["weight"].as_u64().unwrap_or(1)
}

pub(super) fn pair_body(passage: &Passage) -> Value {
    let Passage { name, weight, speaks, ingress, egress } = passage;
    let mut body = json!({"name": name, "ingress": ingress, "egress": egress});
    if *weight != 1 {
        body["service_function_parameters"]["weight"] = json!(weight);
    }
    // Of source routes networking-sfc knows nothing.
    if let Some(encapsulation) = speaks.filter(|spoken| !spoken.is_source_route()) {
        body["service_function_parameters"]["correlation"] = json!(encapsulation);
    }
    body
}

/// Says of a new pair what it speaks, where networking-sfc has no word for it.
pub(super) fn speak(client: &Client, pair: &str, passage: &Passage) -> Result<(), ClientError> {
    match passage.speaks.filter(|spoken| spoken.is_source_route()) {
        Some(spoken) => client.set_spoken(pair, spoken).map(|_| ()),
        None => Ok(()),
    }
}

pub(super) fn group_body(step: &ChainStep, pairs: &[String]) -> Value {
    let mut body = json!({"name": step.name, "port_pairs": pairs});
    if step.direction == Direction::Tap {
        body["tap_enabled"] = Value::Bool(true);
    }
    body
}
