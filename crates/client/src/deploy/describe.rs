//! What is declared, told as a document: the way back from resources to what a file would say. Knows
//! names; refuses to know what a file did say.

use super::carrier::{carrier_of, setup_of, telemetry_of, via_of};
use super::document::{ChainDocument, ChainInstance, ChainStep, Direction};
use super::file::{Document, FunctionDocument, GraphDocument};
use super::known::weight_of;
use super::{Deployment, texts};
use crate::{Client, ClientError, Kind};
use catena_model::classifier::FIELDS;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// What a document may say of a classifier: `ethertype`, which is IPv4 where it says nothing, and these
/// conditions, which are none.
const CONDITIONS: [&str; 7] = [
    "protocol",
    "source_ip_prefix",
    "destination_ip_prefix",
    "source_port_range_min",
    "source_port_range_max",
    "destination_port_range_min",
    "destination_port_range_max",
];

/// The attributes of all conditions, our own fields among them.
pub(super) fn conditions() -> impl Iterator<Item = &'static str> {
    CONDITIONS.into_iter().chain(FIELDS.iter().map(|field| field.name))
}

impl Deployment {
    /// What is declared of the things that a document names; those that are not there are left out.
    ///
    /// # Errors
    /// When the controller does not answer, or a name means several.
    pub fn describe(client: &Client, document: &Document) -> Result<Document, ClientError> {
        let mut described = Document::default();
        for chain in &document.chains {
            if let Some(chain) = there(client.named(Kind::PortChain, &chain.name()))? {
                described.chains.push(described_chain(client, &chain)?);
            }
        }
        for function in &document.functions {
            let known = there(client.function(&function.name))?;
            if let Some(known) = known.filter(|known| known.name == function.name) {
                described.functions.push(FunctionDocument {
                    name: known.name,
                    on_failure: known.on_failure,
                    keeps_mac: known.keeps_mac,
                    template: known.template,
                });
            }
        }
        for graph in &document.graphs {
            let known = there(client.graph(&graph.name))?;
            if let Some(known) = known.filter(|known| known.name == graph.name) {
                let (name, branches) = (known.name, known.branches);
                described.graphs.push(GraphDocument { name, branches });
            }
        }
        for slice in &document.slices {
            if let Some(known) = there(client.slice_named(&slice.name))? {
                described.slices.push(known.slice);
            }
        }
        Ok(described)
    }

    /// A chain as a document would declare it. Where its packets end is only told of a symmetric
    /// one: of another nobody keeps it.
    ///
    /// # Errors
    /// No such chain, or the controller does not answer.
    pub fn describe_chain(client: &Client, name: &str) -> Result<ChainDocument, ClientError> {
        described_chain(client, &client.find(Kind::PortChain, name)?)
    }
}

fn described_chain(client: &Client, chain: &Value) -> Result<ChainDocument, ClientError> {
    let ports = Ports::read(client)?;
    let mut match_fields = Map::new();
    let (mut source, mut destination) = (String::new(), String::new());
    let mut outer = Value::Null;
    for rule in texts(&chain["flow_classifiers"]) {
        let rule = client.show(Kind::FlowClassifier, &rule)?;
        match_fields = fields(&rule);
        source = ports.device(&rule["logical_source_port"]);
        destination = ports.device(&rule["logical_destination_port"]);
        outer = ports.network(&rule["logical_source_port"]);
    }
    let mut steps = Vec::new();
    for group in texts(&chain["port_pair_groups"]) {
        let group = client.show(Kind::PortPairGroup, &group)?;
        steps.push(step(client, &ports, &outer, &group)?);
    }
    let encapsulation = Some(carrier_of(chain)?);
    Ok(ChainDocument {
        name: chain["name"].as_str().map(str::to_owned),
        source,
        destination,
        match_fields,
        chain: steps,
        encapsulation,
        payload: None,
        setup: Some(setup_of(chain)?).filter(|setup| !setup.is_proactive()),
        telemetry: telemetry_of(chain)?.map(Some),
        via: Some(via_of(client, chain)?).filter(|via| !via.is_empty()),
        symmetric: chain["chain_parameters"]["symmetric"].as_bool().unwrap_or_default(),
        group: None,
        label: None,
    })
}

fn there<T>(found: Result<T, ClientError>) -> Result<Option<T>, ClientError> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Every port, by id.
struct Ports(BTreeMap<String, Value>);

impl Ports {
    fn read(client: &Client) -> Result<Self, ClientError> {
        let ports = client.list(Kind::Port, &[])?;
        Ok(Self(ports.into_iter().map(|port| (super::id_of(&port), port)).collect()))
    }

    fn of(&self, id: &Value) -> Option<&Value> {
        self.0.get(id.as_str()?)
    }

    /// The machine that a port belongs to; the port's identity if it names none.
    fn device(&self, id: &Value) -> String {
        let device = self.of(id).and_then(|port| port["device_id"].as_str());
        let device = device.filter(|device| !device.is_empty()).or(id.as_str());
        device.unwrap_or_default().to_owned()
    }

    fn network(&self, id: &Value) -> Value {
        self.of(id).map(|port| port["network_id"].clone()).unwrap_or_default()
    }
}

fn fields(rule: &Value) -> Map<String, Value> {
    let mut fields = Map::new();
    for field in std::iter::once("ethertype").chain(conditions()) {
        if !rule[field].is_null() {
            fields.insert(field.into(), rule[field].clone());
        }
    }
    for side in ["source_port", "destination_port"] {
        let bounds = ["min", "max"].map(|bound| format!("{side}_range_{bound}"));
        if let [Some(min), Some(max)] = bounds.each_ref().map(|bound| fields.get(bound))
            && min == max
        {
            let only = min.clone();
            for bound in &bounds {
                fields.shift_remove(bound);
            }
            fields.insert(side.into(), only);
        }
    }
    fields
}

fn step(
    client: &Client,
    ports: &Ports,
    outer: &Value,
    group: &Value,
) -> Result<ChainStep, ClientError> {
    let name = group["name"].as_str().unwrap_or_default().to_owned();
    let mut direction = Direction::Same;
    let mut speaks = None;
    let mut instances = Vec::new();
    for pair in texts(&group["port_pairs"]) {
        let pair = client.show(Kind::PortPair, &pair)?;
        direction = match (ports.network(&pair["ingress"]), ports.network(&pair["egress"])) {
            _ if group["tap_enabled"] == json!(true) => Direction::Tap,
            (ingress, egress) if ingress == egress => Direction::Same,
            (_, egress) if egress == *outer => Direction::Out,
            _ => Direction::In,
        };
        speaks = serde_json::from_value(pair["speaks"].clone()).unwrap_or_default();
        let weight = u32::try_from(weight_of(&pair)).unwrap_or(u32::MAX);
        instances.push(ChainInstance { name: ports.device(&pair["ingress"]), weight });
    }
    let own = ChainStep { name: name.clone(), direction, speaks, instances: Vec::new() };
    if own.all_instances() == instances {
        instances.clear();
    }
    Ok(ChainStep { name, direction, speaks, instances })
}
