//! Who hears what became of a transmission: the engine here, or that of another worker.

use crate::engine::{Booking, Engine};
use catena_model::DropReason;

/// Takes back bookings of what was to be sent.
pub(super) trait Ledger {
    /// It was handed to the kernel.
    fn sent(&mut self, booking: Booking);

    /// All of these were.
    fn row_sent(&mut self, bookings: impl Iterator<Item = Booking>);

    /// It could not be sent and ends here.
    fn failed(&mut self, booking: Booking, reason: DropReason);
}

impl Ledger for Engine {
    #[inline]
    fn sent(&mut self, booking: Booking) {
        self.booked_sent(booking);
    }

    #[inline]
    fn row_sent(&mut self, bookings: impl Iterator<Item = Booking>) {
        self.booked_row_sent(bookings);
    }

    fn failed(&mut self, booking: Booking, reason: DropReason) {
        self.booked_failed(booking, reason);
    }
}
