//! The last receipt of each chain, numbered as they came. Bounded: the oldest goes first.

use catena_model::id::ChainId;
use catena_model::limits::RECEIPTS_MAX;
use catena_model::status::Receipt;
use std::collections::BTreeMap;

/// Receipts by chain.
#[derive(Clone, Debug, Default)]
pub(crate) struct Receipts {
    /// Each with its number.
    of_chain: BTreeMap<ChainId, (u64, Receipt)>,
    newest: u64,
}

impl Receipts {
    pub(crate) fn keep(&mut self, receipt: Receipt) {
        self.newest += 1;
        self.of_chain.insert(receipt.chain, (self.newest, receipt));
        if self.of_chain.len() > RECEIPTS_MAX {
            let oldest = self.of_chain.iter().min_by_key(|(_, (number, _))| *number);
            if let Some(oldest) = oldest.map(|(chain, _)| *chain) {
                self.of_chain.remove(&oldest);
            }
        }
    }

    /// The account of a chain's last change, if that is over.
    pub(crate) fn of(&self, chain: ChainId) -> Option<&Receipt> {
        self.of_chain.get(&chain).map(|(_, receipt)| receipt)
    }

    /// The newest of those that a chain of this name had.
    pub(crate) fn named(&self, name: &str) -> Option<&Receipt> {
        let named = self.of_chain.values().filter(|(_, receipt)| receipt.name == name);
        named.max_by_key(|(number, _)| *number).map(|(_, receipt)| receipt)
    }

    /// The number of the newest; 0: there is none.
    pub(crate) fn newest(&self) -> u64 {
        self.newest
    }

    /// Those that came after the one of a number, oldest first.
    pub(crate) fn after(&self, number: u64) -> Vec<Receipt> {
        let mut newer: Vec<&(u64, Receipt)> =
            self.of_chain.values().filter(|(own, _)| *own > number).collect();
        newer.sort_by_key(|(own, _)| *own);
        newer.into_iter().map(|(_, receipt)| receipt.clone()).collect()
    }
}
