//! What carries a chain between hosts, and when the controller is asked for its flows: read, told as networking-sfc
//! has words for it, and changed where it has none. Refuses to know what an encapsulation can carry.

use super::{ChainDocument, id_of};
use crate::client::unexpected;
use crate::{ChainChange, Client, ClientError, Kind};
use catena_model::resource::Encapsulation;
use catena_model::setup::Setup;
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

/// What networking-sfc has no words for: a new chain must be changed so before it takes packets.
pub(super) fn beyond_networking_sfc(document: &ChainDocument) -> Option<ChainChange> {
    let encapsulation = document.encapsulation.filter(|carrier| !carrier.is_tunnelled());
    let setup = document.setup.filter(|setup| !setup.is_proactive());
    let change = ChainChange { encapsulation, setup };
    (change != ChainChange::default()).then_some(change)
}

/// Gives a chain the set-up that a document says, if it has another; answers the chain as it is then.
pub(super) fn set_up(
    client: &Client,
    chain: Value,
    document: &ChainDocument,
) -> Result<Value, ClientError> {
    let now = setup_of(&chain)?;
    let Some(setup) = document.setup.filter(|wanted| *wanted != now) else { return Ok(chain) };
    client
        .change_chain(&id_of(&chain), &ChainChange { setup: Some(setup), encapsulation: None })?;
    client.show(Kind::PortChain, &id_of(&chain))
}

/// A chain that a document moves.
pub(super) struct Move {
    to: Option<Encapsulation>,
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
        Ok(Self { to, is_first: !is_spoken })
    }

    /// Before the chain gets other functions.
    pub(super) fn before(&self, client: &Client, chain: &Value) -> Result<(), ClientError> {
        match self.to.filter(|_| self.is_first) {
            Some(to) => client.move_chain(&id_of(chain), to).map(|_| ()),
            None => Ok(()),
        }
    }

    /// When it has them; answers the chain as it is then.
    pub(super) fn after(&self, client: &Client, chain: Value) -> Result<Value, ClientError> {
        let Some(to) = self.to.filter(|_| !self.is_first) else { return Ok(chain) };
        client.move_chain(&id_of(&chain), to)?;
        client.show(Kind::PortChain, &id_of(&chain))
    }
}
