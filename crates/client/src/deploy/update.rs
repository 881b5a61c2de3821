//! A chain that is there already is brought to a changed document: what is missing is made, the
//! chain turns by one request, what nobody uses any more goes. Knows the order of these steps;
//! refuses to know how paths are swapped.

use super::carrier::{Move, set_up};
use super::describe::conditions;
use super::known::{Known, group_body, pair_body, speak};
use super::passage::{Route, route};
use super::{
    Applied, ChainDocument, DeployError, Deployment, Direction, classifier_body, delete_unused,
    id_of, settled, texts,
};
use crate::{Client, ClientError, Draft, Kind};
use serde_json::{Map, Value, json};

/// What an update came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Updated {
    /// The chain's identity.
    pub chain: String,
    /// Its state as the controller answered.
    pub status: String,
    /// What is missing; empty when active.
    pub status_reason: String,
}

impl Deployment {
    /// Makes what a document says: its chain is created, or brought to it if it is there.
    ///
    /// # Errors
    /// Those of [`Deployment::deploy`] and [`Deployment::update`].
    pub fn apply(client: &Client, document: &ChainDocument) -> Result<Applied, DeployError> {
        let name = document.name();
        match client.named(Kind::PortChain, &name) {
            Ok(known) => {
                // An update is several requests: they are made on a copy, and the copy at once.
                let draft = Draft::open(client)?;
                let mut updated = Self::update(draft.client(), &id_of(&known), document)?;
                let status = settled(client, draft, &updated.chain)?;
                updated.status = status.state.name().into();
                updated.status_reason = status.reason;
                Ok(Applied::Updated(updated))
            }
            Err(error) if error.is_not_found() => {
                Ok(Applied::Created(Self::deploy(client, document)?))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Brings the functions, the classifier, the encapsulation and the set-up of a chain that is deployed to those
    /// of a document. A function that keeps its name and changes its instances keeps its group; a
    /// document without an encapsulation or a set-up leaves the chain what it has.
    ///
    /// # Errors
    /// No such chain, the document does not fit the ports, or the controller refuses.
    pub fn update(
        client: &Client,
        chain: &str,
        document: &ChainDocument,
    ) -> Result<Updated, DeployError> {
        if document.chain.is_empty() {
            return Err(DeployError::Empty.at("through"));
        }
        let route = route(document, &|name: &str| super::ports_of(client, name))?;
        let chain = client.find(Kind::PortChain, chain)?;
        check_symmetry(&chain, document)?;
        let before = texts(&chain["port_pair_groups"]);
        let known = Known::read(client)?;
        let moving = Move::of(&chain, document, known.is_spoken_in(&before))?;
        moving.before(client, &chain)?;
        let mut left = Vec::new();
        let groups = groups(client, &known, (document, &route), &before, &mut left)?;
        let rules = texts(&chain["flow_classifiers"]);
        let rule = classifier(client, &rules, &classifier_body(document, &route)?)?;
        let chain = turn(client, &chain, (&before, &groups), (&rules, &[rule]))?;
        let chain = moving.after(client, chain)?;
        let chain = set_up(client, chain, document)?;
        delete_unused(client, Kind::FlowClassifier, &rules)?;
        for group in before.iter().filter(|group| !groups.contains(group)) {
            left.extend(texts(&client.show(Kind::PortPairGroup, group)?["port_pairs"]));
        }
        delete_unused(client, Kind::PortPairGroup, &before)?;
        delete_unused(client, Kind::PortPair, &left)?;
        let text = |key: &str| chain[key].as_str().unwrap_or_default().to_owned();
        let (status, status_reason) = (text("status"), text("status_reason"));
        Ok(Updated { chain: id_of(&chain), status, status_reason })
    }
}

/// What a chain keeps for life cannot be brought to another document.
fn check_symmetry(chain: &Value, document: &ChainDocument) -> Result<(), DeployError> {
    if chain["chain_parameters"]["symmetric"] != json!(document.symmetric) {
        return Err(DeployError::Fixed { chain: document.name(), what: "symmetry" });
    }
    Ok(())
}

/// The groups of a document's functions, with the pairs that it wants; `left` gets the pairs that
/// they had before.
fn groups(
    client: &Client,
    known: &Known,
    (document, route): (&ChainDocument, &Route),
    before: &[String],
    left: &mut Vec<String>,
) -> Result<Vec<String>, ClientError> {
    let mut groups = Vec::new();
    for (step, passages) in document.chain.iter().zip(&route.functions) {
        let mut pairs = Vec::new();
        for passage in passages {
            pairs.push(match known.pair(passage) {
                Some(pair) => pair,
                None => {
                    let pair = id_of(&client.create(Kind::PortPair, &pair_body(passage))?);
                    speak(client, &pair, passage)?;
                    pair
                }
            });
        }
        let is_tap = step.direction == Direction::Tap;
        let fill =
            |group: &str| client.update(Kind::PortPairGroup, group, &json!({"port_pairs": pairs}));
        groups.push(match (known.group(&pairs, is_tap), known.named(before, &step.name)) {
            (Some(group), _) => group,
            (None, Some(group)) if group["tap_enabled"] == json!(is_tap) => {
                left.extend(texts(&group["port_pairs"]));
                id_of(&fill(&id_of(group))?)
            }
            _ => match known.empty(&step.name, is_tap) {
                Some(group) => id_of(&fill(&group)?),
                None => id_of(&client.create(Kind::PortPairGroup, &group_body(step, &pairs))?),
            },
        });
    }
    Ok(groups)
}

/// The classifier of the chain that says what the document says, made if there is none.
fn classifier(client: &Client, rules: &[String], wanted: &Value) -> Result<String, ClientError> {
    for rule in rules {
        let known = client.show(Kind::FlowClassifier, rule)?;
        let says = |(field, value): (&String, &Value)| known[field.as_str()] == *value;
        // A condition that the document no longer has must not stay.
        let mut left_out = conditions().filter(|field| wanted.get(field).is_none());
        let says_no_more = left_out.all(|field| known[field].is_null());
        if says_no_more && wanted.as_object().is_some_and(|wanted| wanted.iter().all(says)) {
            return Ok(rule.clone());
        }
    }
    Ok(id_of(&client.create(Kind::FlowClassifier, wanted)?))
}

/// Gives a chain its groups and classifiers, each as (before, after); without a change it is only
/// asked how it is.
fn turn(
    client: &Client,
    chain: &Value,
    groups: (&[String], &[String]),
    rules: (&[String], &[String]),
) -> Result<Value, ClientError> {
    let id = id_of(chain);
    let mut body = Map::new();
    if groups.0 != groups.1 {
        body.insert("port_pair_groups".into(), json!(groups.1));
    }
    if rules.0 != rules.1 {
        body.insert("flow_classifiers".into(), json!(rules.1));
    }
    if body.is_empty() {
        return client.show(Kind::PortChain, &id);
    }
    client.update(Kind::PortChain, &id, &Value::Object(body))
}
