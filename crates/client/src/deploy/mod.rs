//! The chain client of the OpenStack SFC study: from its JSON document to flow classifier, port
//! pairs, port pair groups and port chain, each step timed. Knows the four steps; refuses
//! to know how a chain is carried.

mod beside;
mod carrier;
mod declare;
mod describe;
mod document;
mod file;
mod key_twice;
mod known;
mod passage;
mod update;
mod words;

pub use beside::{read_config_files, text_beside};
pub use document::{ChainDocument, ChainInstance, ChainStep, Direction};
pub use file::{Document, DocumentError, FunctionDocument, GraphDocument, place_of};
pub use key_twice::{KeyTwice, key_twice};
pub use update::Updated;

use crate::{Client, ClientError, Draft, Kind};
use carrier::{beyond_networking_sfc, correlation};
use catena_model::preview::ApplyRequest;
use catena_model::status::ChainStatus;
use known::Known;
use passage::{PortAt, Route, route};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::time::Instant;

/// How long each of the four steps of a deployment took, in seconds, at the client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StepTimings {
    /// Flow classifier.
    pub fc: f64,
    /// All port pairs.
    pub pp: f64,
    /// All port pair groups.
    pub ppg: f64,
    /// Port chain: answered when every node concerned has acknowledged.
    pub pc: f64,
}

impl StepTimings {
    /// The four together.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.fc + self.pp + self.ppg + self.pc
    }
}

/// What a deployment made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Deployed {
    /// The chain's identity.
    pub chain: String,
    /// The chain's name.
    pub name: String,
    /// Its state as the controller answered: `active`, or `building` with the reason below.
    pub status: String,
    /// What is missing; empty when active.
    pub status_reason: String,
    /// The flow classifier's identity.
    pub classifier: String,
    /// Identities of the port pairs, in the chain's order.
    pub pairs: Vec<String>,
    /// Identities of the port pair groups, in the chain's order.
    pub groups: Vec<String>,
    /// How long it took.
    pub timings: StepTimings,
}

/// What became of a document.
#[derive(Clone, Debug, PartialEq)]
pub enum Applied {
    /// Its chain is new.
    Created(Deployed),
    /// Its chain was there and has been changed.
    Updated(Updated),
}

/// Why a chain document could not be deployed.
#[derive(Debug, thiserror::Error)]
pub enum DeployError {
    /// The document has no functions.
    #[error("the chain has no functions; give at least one")]
    Empty,
    /// No port belongs to an instance of this name.
    #[error(
        "no port belongs to '{name}'; create its port with device_id '{name}', or mend the name"
    )]
    NoInstance {
        /// The name in the document.
        name: String,
    },
    /// Nobody knows which network the traffic is on.
    #[error("chain '{chain}' does not say where it ends, and {problem}; give it a destination")]
    NoDestination {
        /// Name of the chain.
        chain: String,
        /// Why it must.
        problem: &'static str,
    },
    /// The endpoints are not on one network.
    #[error("'{source_name}' and '{destination}' have no network in common; attach them to one")]
    NoSharedNetwork {
        /// Name of the source.
        source_name: String,
        /// Name of the destination.
        destination: String,
    },
    /// The functions lead into a network that the destination is not on.
    #[error(
        "'{destination}' has no port on the network into which the functions lead; attach it there, or name another"
    )]
    NotLedTo {
        /// Name of the destination.
        destination: String,
    },
    /// A function cannot take the traffic in or pass it on as its direction says.
    #[error(
        "function {step} ('{name}', direction '{direction}'){}: {problem}",
        named(name, instance)
    )]
    NoPassage {
        /// Its place in the chain, from 1.
        step: usize,
        /// Its name.
        name: String,
        /// The instance that cannot.
        instance: String,
        /// Its direction.
        direction: Direction,
        /// What is missing, and what to do.
        problem: &'static str,
    },
    /// A chain keeps this for life.
    #[error(
        "the {what} of chain '{chain}' cannot be changed while it is there; \
         undeploy it first, or give the document another name"
    )]
    Fixed {
        /// Name of the chain.
        chain: String,
        /// What differs.
        what: &'static str,
    },
    /// A match field that cannot be understood.
    #[error("match field '{field}': {problem}")]
    MatchField {
        /// Its name.
        field: String,
        /// What is wrong, and what to do.
        problem: &'static str,
    },
    /// Something of a chain document.
    #[error("{source}")]
    At {
        /// The key of it in the chain.
        key: String,
        /// What is wrong with it.
        source: Box<DeployError>,
    },
    /// One of the things that a document declares.
    #[error("{owner}: {source}")]
    OfDocument {
        /// The key of it in a whole document.
        key: String,
        /// What it is, and its name.
        owner: String,
        /// What is wrong with it.
        source: Box<DeployError>,
    },
    /// The controller refused, or did not answer.
    #[error(transparent)]
    Api(#[from] ClientError),
}

impl DeployError {
    /// The same, as that of something in a chain document.
    fn at(self, key: impl Into<String>) -> Self {
        Self::At { key: key.into(), source: Box::new(self) }
    }
}

/// An instance that is not called as its function.
fn named(function: &str, instance: &str) -> String {
    if function == instance { String::new() } else { format!(", instance '{instance}'") }
}

/// Deploys and removes chains in the four steps of the study.
#[derive(Debug)]
pub struct Deployment;

impl Deployment {
    /// Makes flow classifier, port pairs, port pair groups and port chain, in this order. A pair
    /// or group that is there already is used. What was made is removed again on failure.
    ///
    /// A chain that networking-sfc has no words for is made in a draft and changed there, so that no
    /// packet of it is ever carried otherwise.
    ///
    /// # Errors
    /// The document does not fit the ports, or the controller refuses.
    pub fn deploy(client: &Client, document: &ChainDocument) -> Result<Deployed, DeployError> {
        if beyond_networking_sfc(document).is_none() || client.is_in_draft() {
            return Self::deploy_here(client, document);
        }
        let draft = Draft::open(client)?;
        let mut deployed = Self::deploy_here(draft.client(), document)?;
        let start = Instant::now();
        let status = settled(client, draft, &deployed.chain)?;
        deployed.timings.pc += start.elapsed().as_secs_f64();
        deployed.status = status.state.name().into();
        deployed.status_reason = status.reason;
        Ok(deployed)
    }

    fn deploy_here(client: &Client, document: &ChainDocument) -> Result<Deployed, DeployError> {
        if document.chain.is_empty() {
            return Err(DeployError::Empty.at("through"));
        }
        let ports_of = |name: &str| ports_of(client, name);
        let route = route(document, &ports_of)?;
        let classifier = classifier_body(document, &route)?;
        let mut made = Vec::new();
        make(client, document, &classifier, &route, &mut made).inspect_err(|_| {
            for (kind, id) in made.iter().rev() {
                // The first error is the one to tell.
                let _ = client.delete(*kind, id);
            }
        })
    }

    /// Removes a chain, its classifiers, and those of its groups and pairs that no other chain
    /// uses.
    ///
    /// # Errors
    /// No such chain, or the controller refuses.
    pub fn undeploy(client: &Client, chain: &str) -> Result<(), DeployError> {
        let chain = client.find(Kind::PortChain, chain)?;
        let groups = texts(&chain["port_pair_groups"]);
        let mut pairs = Vec::new();
        for group in &groups {
            pairs.extend(texts(&client.show(Kind::PortPairGroup, group)?["port_pairs"]));
        }
        client.delete(Kind::PortChain, &id_of(&chain))?;
        let classifiers = texts(&chain["flow_classifiers"]);
        delete_unused(client, Kind::FlowClassifier, &classifiers)?;
        delete_unused(client, Kind::PortPairGroup, &groups)?;
        delete_unused(client, Kind::PortPair, &pairs)
    }
}

/// Makes what a draft holds, and waits; answers how a chain of it is then.
fn settled(client: &Client, draft: Draft, chain: &str) -> Result<ChainStatus, ClientError> {
    draft.apply(ApplyRequest { wait: true, ..ApplyRequest::default() })?;
    Ok(client.chain(chain)?.status)
}

fn delete_unused(client: &Client, kind: Kind, ids: &[String]) -> Result<(), DeployError> {
    for id in ids {
        match client.delete(kind, id) {
            // In use elsewhere, or gone already: both are what is wanted.
            Ok(()) | Err(ClientError::Refused { status: 404 | 409, .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn make(
    client: &Client,
    document: &ChainDocument,
    classifier: &Value,
    route: &Route,
    made: &mut Vec<(Kind, String)>,
) -> Result<Deployed, DeployError> {
    let mut timings = StepTimings::default();
    let mut create = |kind: Kind, body: &Value, time: &mut f64| {
        let start = Instant::now();
        let resource = client.create(kind, body)?;
        *time += start.elapsed().as_secs_f64();
        made.push((kind, id_of(&resource)));
        Ok::<Value, ClientError>(resource)
    };
    let known = Known::read(client)?;
    let classifier = create(Kind::FlowClassifier, classifier, &mut timings.fc)?;
    let mut pairs: Vec<Vec<String>> = Vec::new();
    for passage in &route.functions {
        let mut of = Vec::new();
        for passage in passage {
            of.push(match known.pair(passage) {
                Some(pair) => pair,
                None => {
                    let body = known::pair_body(passage);
                    let pair = id_of(&create(Kind::PortPair, &body, &mut timings.pp)?);
                    known::speak(client, &pair, passage)?;
                    pair
                }
            });
        }
        pairs.push(of);
    }
    let mut groups = Vec::new();
    for (step, pairs) in document.chain.iter().zip(&pairs) {
        let is_tap = step.direction == Direction::Tap;
        groups.push(match (known.group(pairs, is_tap), known.empty(&step.name, is_tap)) {
            (Some(group), _) => group,
            (None, Some(group)) => {
                client.update(Kind::PortPairGroup, &group, &json!({"port_pairs": pairs}))?;
                group
            }
            (None, None) => {
                let body = known::group_body(step, pairs);
                id_of(&create(Kind::PortPairGroup, &body, &mut timings.ppg)?)
            }
        });
    }
    let chain = chain_body(document, &groups, &id_of(&classifier));
    let chain = create(Kind::PortChain, &chain, &mut timings.pc)?;
    if let Some(change) = beyond_networking_sfc(document) {
        client.change_chain(&id_of(&chain), &change)?;
    }
    let text = |key: &str| chain[key].as_str().unwrap_or_default().to_owned();
    Ok(Deployed {
        chain: id_of(&chain),
        name: document.name(),
        status: text("status"),
        status_reason: text("status_reason"),
        classifier: id_of(&classifier),
        pairs: pairs.concat(),
        groups,
        timings,
    })
}

fn chain_body(document: &ChainDocument, groups: &[String], classifier: &str) -> Value {
    let mut body = json!({
        "name": document.name(), "port_pair_groups": groups, "flow_classifiers": [classifier],
    });
    let correlation = correlation(document);
    if correlation.is_some() || document.symmetric {
        let mut parameters = json!({"symmetric": document.symmetric});
        if let Some(correlation) = correlation {
            parameters["correlation"] = correlation.name().into();
        }
        body["chain_parameters"] = parameters;
    }
    body
}

fn id_of(resource: &Value) -> String {
    resource["id"].as_str().unwrap_or_default().to_owned()
}

fn texts(list: &Value) -> Vec<String> {
    let items = list.as_array().map(Vec::as_slice).unwrap_or_default();
    items.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn ports_of(client: &Client, name: &str) -> Result<Vec<PortAt>, DeployError> {
    let listed = client.list(Kind::Port, &[("device_id", name)])?;
    let ports: Vec<PortAt> =
        listed.into_iter().map(serde_json::from_value).collect::<Result<_, _>>().map_err(
            |error| ClientError::Unexpected { what: "a port".into(), reason: error.to_string() },
        )?;
    if ports.is_empty() { Err(DeployError::NoInstance { name: name.into() }) } else { Ok(ports) }
}

/// What names a destination by its address.
const DESTINATION_ADDRESS: &str = "destination_ip_prefix";

/// The flow classifier: the match fields, at the source's port; where answers begin, if they are steered, too. A
/// balancer's answers begin at any of its servers: who names its virtual address says enough.
fn classifier_body(document: &ChainDocument, route: &Route) -> Result<Value, DeployError> {
    let mut body = Map::new();
    body.insert("name".into(), json!(document.name()));
    body.insert("logical_source_port".into(), json!(route.source));
    match route.destination.filter(|_| document.symmetric) {
        Some(destination) => {
            body.insert("logical_destination_port".into(), json!(destination));
        }
        None if document.symmetric && !document.match_fields.contains_key(DESTINATION_ADDRESS) => {
            return Err(DeployError::NoDestination {
                chain: document.name(),
                problem: "its answers begin there",
            });
        }
        None => {}
    }
    for (field, value) in &document.match_fields {
        match field.as_str() {
            "logical_source_port" | "logical_destination_port" | "name" => {
                let problem = "follows from 'source', 'destination' and 'name'; leave it out";
                let error = DeployError::MatchField { field: field.clone(), problem };
                return Err(error.at(format!("classify.{field}")));
            }
            _ => say(&mut body, field, value),
        }
    }
    Ok(Value::Object(body))
}

/// The attributes of the flow classifier that words such as `tcp dport 5201` stand for.
///
/// # Errors
/// The word that means nothing, and those that would.
pub fn classifier_attributes(text: &str) -> Result<Map<String, Value>, String> {
    let mut body = Map::new();
    for (field, value) in words::fields(text)? {
        say(&mut body, &field, &value);
    }
    Ok(body)
}

/// A single port stands for both bounds.
fn say(body: &mut Map<String, Value>, field: &str, value: &Value) {
    if ["destination_port", "source_port"].contains(&field) {
        for bound in ["min", "max"] {
            body.insert(format!("{field}_range_{bound}"), value.clone());
        }
    } else {
        body.insert(field.to_owned(), value.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_classifier_begins_at_the_source_and_ports_may_be_single() {
        let document = r#"{"source": "S", "destination": "D", "chain": [],
            "match_fields": {"protocol": "udp", "destination_port": 5001}}"#;
        let id = |n: u8| {
            serde_json::from_value(json!(format!("00000000-0000-0000-0000-0000000000{n:02}")))
                .unwrap()
        };
        let route = Route { source: id(81), destination: Some(id(91)), functions: vec![] };
        let mut document: ChainDocument = serde_json::from_str(document).unwrap();
        let body = classifier_body(&document, &route).unwrap();
        assert_eq!(body["logical_source_port"], json!(route.source));
        assert!(body.get("logical_destination_port").is_none());
        assert_eq!(body["destination_port_range_min"], 5001);
        assert_eq!(body["destination_port_range_max"], 5001);
        assert_eq!(body["protocol"], "udp");
        assert!(body.get("destination_port").is_none());
        document.symmetric = true;
        let body = classifier_body(&document, &route).unwrap();
        assert_eq!(body["logical_destination_port"], json!(route.destination));

        // Behind a virtual address it ends at any server.
        let open = Route { destination: None, ..route };
        let refused = classifier_body(&document, &open).unwrap_err().to_string();
        assert!(refused.contains("give it a destination"), "{refused}");
        document.match_fields.insert(DESTINATION_ADDRESS.into(), json!("10.0.0.200/32"));
        let body = classifier_body(&document, &open).unwrap();
        assert!(body.get("logical_destination_port").is_none());
        assert_eq!(body[DESTINATION_ADDRESS], "10.0.0.200/32");
    }
}
