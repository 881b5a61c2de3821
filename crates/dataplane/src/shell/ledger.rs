//! Who hears of what could not be sent: the engine here, or that of another worker.

use crate::engine::{Booking, Engine};
use catena_model::DropReason;

/// Takes back bookings of what was to be sent.
pub(super) trait Ledger {
    /// It could not be sent and ends here.
    fn failed(&mut self, booking: Booking, reason: DropReason);
}

impl Ledger for Engine {
    fn failed(&mut self, booking: Booking, reason: DropReason) {
        self.booked_failed(booking, reason);
    }
}
