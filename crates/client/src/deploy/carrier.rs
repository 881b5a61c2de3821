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

/// What networking-sfc has no words for: a new chain must be changed so before it takes packets.
pub(super) fn beyond_networking_sfc(document: &ChainDocument) -> Option<ChainChange> {
    let encapsulation = document.encapsulation.filter(|carrier| !carrier.is_tunnelled());
    let setup = document.setup.filter(|setup| !setup.is_proactive());
    let telemetry = document.telemetry.clone().filter(Option::is_some);
    let change = ChainChange { encapsulation, setup, telemetry, ..ChainChange::default() };
    (change != ChainChange::default()).then_some(change)
}

/// Gives a chain the set-up and the telemetry that a document says, if it has others; answers the chain as it is then.
pub(super) fn set_up(
    client: &Client,
    chain: Value,
    document: &ChainDocument,
) -> Result<Value, ClientError> {
    let now = setup_of(&chain)?;
    let setup = document.setup.filter(|wanted| *wanted != now);
    let now = telemetry_of(&chain)?;
    let telemetry = document.telemetry.clone().filter(|wanted| *wanted != now);
    if setup.is_none() && telemetry.is_none() {
        return Ok(chain);
    }
    client.change_chain(
        &id_of(&chain),
        &ChainChange { setup, telemetry, ..ChainChange::default() },
    )?;
    client.show(Kind::PortChain, &id_of(&chain))
}

/// A chain that a document moves.
pub(super) struct Move {
    to: Option<Encapsulation>,
    /// What the former encapsulation has room for, the other one may have none for, and the other way round.
    telemetry: Option<Option<Telemetry>>,
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
        Ok(Self { to, telemetry: document.telemetry.clone(), is_first: !is_spoken })
    }

    /// Before the chain gets other functions.
    pub(super) fn before(&self, client: &Client, chain: &Value) -> Result<(), ClientError> {
        match self.to.filter(|_| self.is_first) {
            Some(to) => self.make(client, chain, to),
            None => Ok(()),
        }
    }

    fn make(&self, client: &Client, chain: &Value, to: Encapsulation) -> Result<(), ClientError> {
        let telemetry = self.telemetry.clone();
        let change = ChainChange { encapsulation: Some(to), telemetry, ..ChainChange::default() };
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
