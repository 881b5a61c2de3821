//! The chain client of the OpenStack SFC study: from its JSON document to flow classifier, port
//! pairs, port pair groups and port chain, each step timed. Knows the document and what its
//! directions mean; refuses to know how a chain is carried.

use crate::{Client, ClientError, Kind};
use catena_model::id::{NetworkId, PortId};
use catena_model::resource::Encapsulation;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::time::Instant;

/// A chain as the study's JSON file declares it (its section IV).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChainDocument {
    /// Name of the chain; without one, `source-destination`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Where the traffic begins: name of an instance.
    pub source: String,
    /// Where it ends.
    pub destination: String,
    /// Attributes of the flow classifier; `destination_port` and `source_port` may stand for
    /// both bounds of a range.
    #[serde(default)]
    pub match_fields: Map<String, Value>,
    /// The functions in order.
    pub chain: Vec<ChainStep>,
    /// How the path is carried between hosts; without one, as the API chooses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encapsulation: Option<Encapsulation>,
}

/// One function of a chain document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChainStep {
    /// Name of the function's instance.
    pub name: String,
    /// Where its traffic goes.
    pub direction: Direction,
}

/// Which port of a function the traffic leaves by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// By its port on the internal network: the one that the endpoints are not on.
    In,
    /// By its port on the endpoints' network.
    Out,
    /// By the port it came in by.
    Same,
    /// Nowhere: the function gets a copy.
    Tap,
}

impl Direction {
    /// Reads the document's word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "in" => Some(Self::In),
            "out" => Some(Self::Out),
            "same" => Some(Self::Same),
            "tap" => Some(Self::Tap),
            _ => None,
        }
    }
}

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

/// Why a chain document could not be deployed.
#[derive(Debug, thiserror::Error)]
pub enum DeployError {
    /// The document has no functions.
    #[error("the chain has no functions; add at least one to 'chain'")]
    Empty,
    /// No port belongs to an instance of this name.
    #[error(
        "no port belongs to '{name}'; create its port with device_id '{name}', or mend the name"
    )]
    NoInstance {
        /// The name in the document.
        name: String,
    },
    /// The endpoints are not on one network.
    #[error("'{source_name}' and '{destination}' have no network in common; attach them to one")]
    NoSharedNetwork {
        /// Name of the source.
        source_name: String,
        /// Name of the destination.
        destination: String,
    },
    /// A function cannot take the traffic in or pass it on as its direction says.
    #[error("function {step} ('{name}', direction {direction:?}): {problem}")]
    NoPassage {
        /// Its place in the chain, from 1.
        step: usize,
        /// Its name.
        name: String,
        /// Its direction.
        direction: Direction,
        /// What is missing, and what to do.
        problem: &'static str,
    },
    /// A match field that cannot be understood.
    #[error("match field '{field}': {problem}")]
    MatchField {
        /// Its name.
        field: String,
        /// What is wrong, and what to do.
        problem: &'static str,
    },
    /// The controller refused, or did not answer.
    #[error(transparent)]
    Api(#[from] ClientError),
}

/// A port as a deployment needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
struct PortAt {
    id: PortId,
    network_id: NetworkId,
}

/// Ingress and egress of one function in a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Passage {
    ingress: PortId,
    egress: PortId,
    is_tap: bool,
}

/// Deploys and removes chains in the four steps of the study.
#[derive(Debug)]
pub struct Deployment;

impl Deployment {
    /// Makes flow classifier, port pairs, port pair groups and port chain, in this order. A pair
    /// or group that is there already is used. What was made is removed again on failure.
    ///
    /// # Errors
    /// The document does not fit the ports, or the controller refuses.
    pub fn deploy(client: &Client, document: &ChainDocument) -> Result<Deployed, DeployError> {
        if document.chain.is_empty() {
            return Err(DeployError::Empty);
        }
        let ports_of = |name: &str| ports_of(client, name);
        let (source, passages) = passages(document, &ports_of)?;
        let classifier = classifier_body(document, source)?;
        let mut made = Vec::new();
        make(client, document, &classifier, &passages, &mut made).inspect_err(|_| {
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
    passages: &[Passage],
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
    let mut pairs = Vec::new();
    for (step, passage) in document.chain.iter().zip(passages) {
        let Passage { ingress, egress, .. } = passage;
        let body = json!({"name": step.name, "ingress": ingress, "egress": egress});
        pairs.push(match known.pair(passage) {
            Some(pair) => pair,
            None => id_of(&create(Kind::PortPair, &body, &mut timings.pp)?),
        });
    }
    let mut groups = Vec::new();
    for ((step, passage), pair) in document.chain.iter().zip(passages).zip(&pairs) {
        let mut body = json!({"name": step.name, "port_pairs": [pair]});
        if passage.is_tap {
            body["tap_enabled"] = Value::Bool(true);
        }
        groups.push(match known.group(pair, passage.is_tap) {
            Some(group) => group,
            None => id_of(&create(Kind::PortPairGroup, &body, &mut timings.ppg)?),
        });
    }
    let name = name_of(document);
    let mut body = json!({
        "name": name, "port_pair_groups": groups, "flow_classifiers": [id_of(&classifier)],
    });
    if let Some(encapsulation) = document.encapsulation {
        body["chain_parameters"] = json!({"correlation": encapsulation.name(), "symmetric": false});
    }
    let chain = create(Kind::PortChain, &body, &mut timings.pc)?;
    let text = |key: &str| chain[key].as_str().unwrap_or_default().to_owned();
    Ok(Deployed {
        chain: id_of(&chain),
        name,
        status: text("status"),
        status_reason: text("status_reason"),
        classifier: id_of(&classifier),
        pairs,
        groups,
        timings,
    })
}

/// Pairs and groups that were there before.
struct Known {
    pairs: Vec<Value>,
    groups: Vec<Value>,
}

impl Known {
    fn read(client: &Client) -> Result<Self, ClientError> {
        let pairs = client.list(Kind::PortPair, &[])?;
        let groups = client.list(Kind::PortPairGroup, &[])?;
        Ok(Self { pairs, groups })
    }

    fn pair(&self, passage: &Passage) -> Option<String> {
        let is_it = |pair: &&Value| {
            pair["ingress"] == json!(passage.ingress) && pair["egress"] == json!(passage.egress)
        };
        self.pairs.iter().find(is_it).map(id_of)
    }

    fn group(&self, pair: &str, is_tap: bool) -> Option<String> {
        let is_it = |group: &&Value| {
            group["port_pairs"] == json!([pair])
                && group["tap_enabled"].as_bool().unwrap_or_default() == is_tap
        };
        self.groups.iter().find(is_it).map(id_of)
    }
}

fn name_of(document: &ChainDocument) -> String {
    let ends = || format!("{}-{}", document.source, document.destination);
    document.name.clone().unwrap_or_else(ends)
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

type PortsOf<'p> = dyn Fn(&str) -> Result<Vec<PortAt>, DeployError> + 'p;

/// The source's port, and where the traffic enters and leaves each function.
fn passages(
    document: &ChainDocument,
    ports_of: &PortsOf<'_>,
) -> Result<(PortId, Vec<Passage>), DeployError> {
    let sources = ports_of(&document.source)?;
    let destinations = ports_of(&document.destination)?;
    let is_shared =
        |port: &&PortAt| destinations.iter().any(|other| other.network_id == port.network_id);
    let source = sources.iter().find(is_shared).ok_or_else(|| DeployError::NoSharedNetwork {
        source_name: document.source.clone(),
        destination: document.destination.clone(),
    })?;
    let outer = source.network_id;
    let mut current = outer;
    let mut passages = Vec::new();
    for (index, step) in document.chain.iter().enumerate() {
        let ports = ports_of(&step.name)?;
        let (passage, next) = pass(step.direction, &ports, current, outer).map_err(|problem| {
            DeployError::NoPassage {
                step: index + 1,
                name: step.name.clone(),
                direction: step.direction,
                problem,
            }
        })?;
        passages.push(passage);
        current = next;
    }
    Ok((source.id, passages))
}

/// The passage through one function that traffic reaches on network `current`, and the network
/// that it goes on by; `outer` is the endpoints' network.
fn pass(
    direction: Direction,
    ports: &[PortAt],
    current: NetworkId,
    outer: NetworkId,
) -> Result<(Passage, NetworkId), &'static str> {
    let on = |network: NetworkId| ports.iter().find(|port| port.network_id == network);
    let ingress = on(current).ok_or(
        "it has no port on the network that the traffic arrives by; attach it there, or change \
         the direction of the function before it",
    )?;
    let egress = match direction {
        Direction::Same | Direction::Tap => ingress,
        Direction::Out => on(outer).ok_or("it has no port on the endpoints' network")?,
        Direction::In => {
            let mut inner = ports.iter().filter(|port| port.network_id != outer);
            match (inner.next(), inner.next()) {
                (Some(port), None) => port,
                (None, _) => return Err("it has no port on an internal network; use 'same'"),
                _ => return Err("it has ports on several internal networks; 'in' means only one"),
            }
        }
    };
    let is_tap = direction == Direction::Tap;
    Ok((Passage { ingress: ingress.id, egress: egress.id, is_tap }, egress.network_id))
}

/// The flow classifier: the match fields, at the source's port.
fn classifier_body(document: &ChainDocument, source: PortId) -> Result<Value, DeployError> {
    let mut body = Map::new();
    body.insert("name".into(), json!(name_of(document)));
    body.insert("logical_source_port".into(), json!(source));
    for (field, value) in &document.match_fields {
        match field.as_str() {
            "destination_port" | "source_port" => {
                for bound in ["min", "max"] {
                    body.insert(format!("{field}_range_{bound}"), value.clone());
                }
            }
            "logical_source_port" | "name" => {
                let problem = "follows from 'source' and 'name'; leave it out";
                return Err(DeployError::MatchField { field: field.clone(), problem });
            }
            _ => {
                body.insert(field.clone(), value.clone());
            }
        }
    }
    Ok(Value::Object(body))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Network 1 is the endpoints', 2 is internal; a port's number is device * 10 + network.
    fn port(device: u8, network: u8) -> PortAt {
        let id = |n: u8| format!("\"00000000-0000-0000-0000-0000000000{n:02}\"");
        PortAt {
            id: serde_json::from_str(&id(device * 10 + network)).unwrap(),
            network_id: serde_json::from_str(&id(network)).unwrap(),
        }
    }

    fn two_networks(name: &str) -> Result<Vec<PortAt>, DeployError> {
        match name {
            "S" => Ok(vec![port(8, 1)]),
            "D" => Ok(vec![port(9, 1)]),
            "lonely" => Ok(vec![port(7, 2)]),
            "outer" => Ok(vec![port(6, 1)]),
            "v1" | "v2" | "v3" => {
                let device = name.as_bytes()[1] - b'0';
                Ok(vec![port(device, 1), port(device, 2)])
            }
            other => Err(DeployError::NoInstance { name: other.into() }),
        }
    }

    fn document(steps: &str) -> ChainDocument {
        serde_json::from_str(&format!(
            r#"{{"source": "S", "destination": "D",
                "match_fields": {{"protocol": "udp", "destination_port": 5001}},
                "chain": {steps}}}"#
        ))
        .unwrap()
    }

    fn ports(steps: &str) -> Result<Vec<(PortId, PortId)>, String> {
        match passages(&document(steps), &two_networks) {
            Ok((_, passages)) => Ok(passages.iter().map(|p| (p.ingress, p.egress)).collect()),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn directions_choose_ingress_and_egress_as_in_the_study() {
        let steps = r#"[{"name": "v1", "direction": "in"}, {"name": "v2", "direction": "same"},
                        {"name": "v3", "direction": "out"}]"#;
        let expected = vec![
            (port(1, 1).id, port(1, 2).id),
            (port(2, 2).id, port(2, 2).id),
            (port(3, 2).id, port(3, 1).id),
        ];
        assert_eq!(ports(steps), Ok(expected));
    }

    #[test]
    fn a_tap_leaves_the_traffic_where_it_was() {
        let steps = r#"[{"name": "v1", "direction": "tap"}, {"name": "v2", "direction": "same"}]"#;
        let (source, passages) = passages(&document(steps), &two_networks).unwrap();
        assert_eq!(source, port(8, 1).id);
        assert_eq!(passages.iter().map(|p| p.is_tap).collect::<Vec<_>>(), [true, false]);
        assert_eq!(passages[1].ingress, port(2, 1).id);
    }

    #[test]
    fn a_function_without_the_port_it_needs_is_named_with_the_remedy() {
        let cases = [
            (r#"[{"name": "lonely", "direction": "same"}]"#, "function 1 ('lonely'"),
            (r#"[{"name": "outer", "direction": "in"}]"#, "no port on an internal network"),
            (r#"[{"name": "nobody", "direction": "in"}]"#, "no port belongs to 'nobody'"),
            (
                r#"[{"name": "v1", "direction": "in"}, {"name": "outer", "direction": "same"}]"#,
                "function 2 ('outer'",
            ),
        ];
        for (steps, expected) in cases {
            let problem = ports(steps).unwrap_err();
            assert!(problem.contains(expected), "{problem}");
        }
    }

    #[test]
    fn the_classifier_begins_at_the_source_and_ports_may_be_single() {
        let body = classifier_body(&document("[]"), port(8, 1).id).unwrap();
        assert_eq!(body["logical_source_port"], json!(port(8, 1).id));
        assert_eq!(body["destination_port_range_min"], 5001);
        assert_eq!(body["destination_port_range_max"], 5001);
        assert_eq!(body["protocol"], "udp");
        assert!(body.get("destination_port").is_none());
    }

    #[test]
    fn a_document_with_an_unknown_key_or_direction_is_refused() {
        for bad in [
            r#"{"source": "S", "destination": "D", "chain": [], "colour": 1}"#,
            r#"{"source": "S", "destination": "D", "chain": [{"name": "v1", "direction": "up"}]}"#,
            r#"{"source": "S", "chain": []}"#,
        ] {
            assert!(serde_json::from_str::<ChainDocument>(bad).is_err(), "{bad}");
        }
    }
}
