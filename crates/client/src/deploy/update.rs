//! A chain that is there already is brought to a changed document: what is missing is made, the
//! chain turns by one request, what nobody uses any more goes. Knows the order of these steps;
//! refuses to know how paths are swapped.

use super::known::{Known, group_body, pair_body};
use super::passage::route;
use super::{ChainDocument, DeployError, Deployment, Direction, delete_unused, id_of, texts};
use crate::{Client, ClientError, Kind};
use serde_json::{Value, json};

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
    /// Brings the functions of a chain that is deployed to those of a document. A function that
    /// keeps its name and changes its instances keeps its group.
    ///
    /// # Errors
    /// No such chain, the document does not fit the ports, or the controller refuses.
    pub fn update(
        client: &Client,
        chain: &str,
        document: &ChainDocument,
    ) -> Result<Updated, DeployError> {
        if document.chain.is_empty() {
            return Err(DeployError::Empty);
        }
        let route = route(document, &|name: &str| super::ports_of(client, name))?;
        let chain = client.find(Kind::PortChain, chain)?;
        let before = texts(&chain["port_pair_groups"]);
        let known = Known::read(client)?;
        let mut groups = Vec::new();
        let mut left = Vec::new();
        for (step, passages) in document.chain.iter().zip(&route.functions) {
            let mut pairs = Vec::new();
            for passage in passages {
                pairs.push(match known.pair(passage) {
                    Some(pair) => pair,
                    None => id_of(&client.create(Kind::PortPair, &pair_body(passage))?),
                });
            }
            let is_tap = step.direction == Direction::Tap;
            groups.push(match (known.group(&pairs, is_tap), known.named(&before, &step.name)) {
                (Some(group), _) => group,
                (None, Some(group)) if group["tap_enabled"] == json!(is_tap) => {
                    left.extend(texts(&group["port_pairs"]));
                    let body = json!({"port_pairs": pairs});
                    id_of(&client.update(Kind::PortPairGroup, &id_of(group), &body)?)
                }
                _ => id_of(&client.create(Kind::PortPairGroup, &group_body(step, &pairs))?),
            });
        }
        let chain = turn(client, &chain, &before, &groups)?;
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

/// Gives a chain its groups; without a change it is only asked how it is.
fn turn(
    client: &Client,
    chain: &Value,
    before: &[String],
    groups: &[String],
) -> Result<Value, ClientError> {
    let id = id_of(chain);
    if before == groups {
        return client.show(Kind::PortChain, &id);
    }
    client.update(Kind::PortChain, &id, &json!({"port_pair_groups": groups}))
}
