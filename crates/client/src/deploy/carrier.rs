//! What carries a chain between hosts, when the controller is asked for its flows, and what nodes write of its packets:
//! read, told as networking-sfc has words for it, and changed where it has none. Refuses to know what an encapsulation
//! can carry.

use super::{ChainDocument, id_of};
use crate::client::unexpected;
use crate::{ChainChange, Client, ClientError, Kind};
use catena_model::resource::Encapsulation;
use catena_model::setup::Setup;
use catena_model::telemetry::Telemetry;
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::Ipv6Addr;

/// Segments by the functions that they lead to.
type Via = BTreeMap<String, Vec<Ipv6Addr>>;

/// What carries a port chain.
pub(super) fn carrier_of(chain: &Value) -> Result<Encapsulation, ClientError> {
    let carrier = serde_json::from_value(chain["encapsulation"].clone());
    carrier.map_err(|error| unexpected("a port chain", &error.to_string()))
}

/// The `correlation` that a new chain is made with, if the document has one.
pub(super) fn correlation(document: &ChainDocument) -> Option<Encapsulation> {
    document.encapsulation.filter(|carrier| carrier.is_tunnelled())
}

/// When the controller is asked for flows of a port chain.
pub(super) fn setup_of(chain: &Value) -> Result<Setup, ClientError> {
    let setup = serde_json::from_value(chain["setup"].clone());
    setup.map_err(|error| unexpected("a port chain", &error.to_string()))
}

/// What packets of a port chain take along.
pub(super) fn telemetry_of(chain: &Value) -> Result<Option<Telemetry>, ClientError> {
    let telemetry = serde_json::from_value(chain["telemetry"].clone());
    telemetry.map_err(|error| unexpected("a port chain", &error.to_string()))
}

/// The segments of others that packets of a port chain visit on their way to a function, by its name, or by its
/// identity where the chain has another of that name.
pub(super) fn via_of(client: &Client, chain: &Value) -> Result<Via, ClientError> {
    let by_id: Option<Via> = serde_json::from_value(chain["via"].clone())
        .map_err(|error| unexpected("a port chain", &error.to_string()))?;
    let by_id = by_id.unwrap_or_default();
    if by_id.is_empty() {
        return Ok(by_id);
    }
    let groups = chain["port_pair_groups"].as_array().into_iter().flatten();
    let named = groups.filter_map(Value::as_str).map(|id| {
        let group = client.show(Kind::PortPairGroup, id)?;
        Ok((id.to_owned(), group["name"].as_str().unwrap_or_default().to_owned()))
    });
    let names: BTreeMap<String, String> = named.collect::<Result<_, ClientError>>()?;
    let is_alone = |name: &&String| {
        !name.is_empty() && names.values().filter(|other| other == name).count() < 2
    };
    let key = |id: String| names.get(&id).filter(is_alone).cloned().unwrap_or(id);
    Ok(by_id.into_iter().map(|(id, segments)| (key(id), segments)).collect())
}

/// What networking-sfc has no words for: a new chain must be changed so before it takes packets.
pub(super) fn beyond_networking_sfc(document: &ChainDocument) -> Option<ChainChange> {
    let encapsulation = document.encapsulation.filter(|carrier| !carrier.is_tunnelled());
    let setup = document.setup.filter(|setup| !setup.is_proactive());
    let telemetry = document.telemetry.clone().filter(Option::is_some);
    let via = document.via.clone().filter(|via| !via.is_empty());
    let change = ChainChange { encapsulation, setup, telemetry, via, ..ChainChange::default() };
    (change != ChainChange::default()).then_some(change)
}

/// Gives a chain the set-up, the telemetry and the segments on its way that a document says, if it has others; answers
/// the chain as it is then.
pub(super) fn set_up(
    client: &Client,
    chain: Value,
    document: &ChainDocument,
) -> Result<Value, ClientError> {
    let now = setup_of(&chain)?;
    let setup = document.setup.filter(|wanted| *wanted != now);
    let now = telemetry_of(&chain)?;
    let telemetry = document.telemetry.clone().filter(|wanted| *wanted != now);
    let via = match &document.via {
        Some(wanted) if *wanted != via_of(client, &chain)? => Some(wanted.clone()),
        _ => None,
    };
    let change = ChainChange { setup, telemetry, via, ..ChainChange::default() };
    if change == ChainChange::default() {
        return Ok(chain);
    }
    client.change_chain(&id_of(&chain), &change)?;
    client.show(Kind::PortChain, &id_of(&chain))
}

/// A chain that a document moves.
pub(super) struct Move {
    to: Option<Encapsulation>,
    /// What the former encapsulation has room for, the other one may have none for, and the other way round.
    telemetry: Option<Option<Telemetry>>,
    /// The same of segments on the way, where it takes them away; others may lead to functions that come behind.
    via: Option<Via>,
    /// What speaks the former encapsulation has to leave the chain first; what speaks the other one
    /// could not come before.
    is_first: bool,
}

impl Move {
    /// `is_spoken`: does a function of the chain speak an encapsulation now?
    pub(super) fn of(
        chain: &Value,
        document: &ChainDocument,
        is_spoken: bool,
    ) -> Result<Self, ClientError> {
        let carrier = carrier_of(chain)?;
        let to = document.encapsulation.filter(|wanted| *wanted != carrier);
        let via = document.via.clone().filter(Via::is_empty);
        Ok(Self { to, telemetry: document.telemetry.clone(), via, is_first: !is_spoken })
    }

    /// Before the chain gets other functions.
    pub(super) fn before(&self, client: &Client, chain: &Value) -> Result<(), ClientError> {
        match self.to.filter(|_| self.is_first) {
            Some(to) => self.make(client, chain, to),
            None => Ok(()),
        }
    }

    fn make(&self, client: &Client, chain: &Value, to: Encapsulation) -> Result<(), ClientError> {
        let (telemetry, via) = (self.telemetry.clone(), self.via.clone());
        let change =
            ChainChange { encapsulation: Some(to), telemetry, via, ..ChainChange::default() };
        client.change_chain(&id_of(chain), &change).map(|_| ())
    }

    /// When it has them; answers the chain as it is then.
    pub(super) fn after(&self, client: &Client, chain: Value) -> Result<Value, ClientError> {
        let Some(to) = self.to.filter(|_| !self.is_first) else { return Ok(chain) };
        self.make(client, &chain, to)?;
        client.show(Kind::PortChain, &id_of(&chain))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_new_chain_is_changed_for_telemetry_and_not_for_none() {
        let change = |telemetry: &str| {
            let text = format!(r#"{{"source": "S", "chain": [], "telemetry": {telemetry}}}"#);
            beyond_networking_sfc(&serde_json::from_str(&text).unwrap())
        };
        assert_eq!(change("null"), None);
        let telemetry = Some(Some(Telemetry::default()));
        assert_eq!(change("{}"), Some(ChainChange { telemetry, ..ChainChange::default() }));
    }

    #[test]
    fn telemetry_of_a_chain_is_read_as_it_is_shown() {
        let shown = json!({"telemetry": {"mirror": 3}});
        let mirror = telemetry_of(&shown).unwrap().map(|telemetry| telemetry.mirror.get());
        assert_eq!(mirror, Some(3));
        assert_eq!(telemetry_of(&json!({"telemetry": null})).unwrap(), None);
    }
}
