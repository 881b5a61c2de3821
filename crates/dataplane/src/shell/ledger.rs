//! Who hears of what could not be sent: the engine here, or that of another worker.

use crate::engine::{Engine, TxCredit};
use catena_model::DropReason;

/// Takes back credits of what was to be sent.
pub(super) trait Ledger {
    /// It could not be sent and ends here.
    fn failed(&mut self, credit: TxCredit, reason: DropReason);
}

impl Ledger for Engine {
    fn failed(&mut self, credit: TxCredit, reason: DropReason) {
        self.credit_failed(credit, reason);
    }
}
