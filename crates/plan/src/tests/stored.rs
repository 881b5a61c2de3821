//! What a store gives back of what was written.
#![allow(clippy::unwrap_used)]

use super::rig::{World, versions};
use crate::{Blueprint, Ledger};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A ledger as a store gives it back: a head, and the rest beside it.
pub(crate) fn stored(ledger: &Ledger) -> Ledger {
    fn again<T: Serialize + DeserializeOwned>(document: &T) -> T {
        serde_json::from_str(&serde_json::to_string(document).unwrap()).unwrap()
    }
    let head: Ledger = again(ledger);
    assert!(head.paths.is_empty(), "the head has none");
    let paths = ledger.paths.iter().map(|(id, record)| (*id, again(record)));
    let port_numbers = ledger.port_numbers.iter().map(|(node, book)| (node.clone(), again(book)));
    let ways = ledger.ways.iter().map(|(node, ways)| (node.clone(), again(ways)));
    let detours = ledger.detours.iter().map(|(node, detours)| (node.clone(), again(detours)));
    Ledger {
        paths: paths.collect(),
        port_numbers: port_numbers.collect(),
        cables: again(&ledger.cables),
        devices: again(&ledger.devices),
        ways: ways.collect(),
        detours: detours.collect(),
        ..head
    }
}

impl World {
    /// Another controller goes on with what was stored.
    pub(crate) fn restart(&mut self) {
        let told = versions(&self.blueprint);
        self.blueprint = Blueprint::resume(stored(&self.blueprint.ledger), told);
    }
}
