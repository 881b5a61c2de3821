//! What ports send to everybody in their networks. Knows how often each may, and what is only the echo
//! of another station; refuses to know who gets it.
//!
//! The switch knows where every station is and sends to everybody at most what is addressed so: a frame
//! for an unknown station goes to nobody. A group frame costs as many copies as there are stations,
//! hence a rate for each port (as the storm control of switches). A function that bridges two ports of
//! one network gives back by each what it hears by the other. All have had that from its sender, and
//! are spared it; what the function's machine sends of its own goes to everybody but itself. Whose a
//! frame is tells its source; where that is no station's, where it was heard first (`flood_memory`).

use super::flood_memory::FloodMemory;
use super::port_rates::PortRates;
use std::num::NonZeroU32;

/// The buckets of all ports, and what was sent to everybody.
#[derive(Debug)]
pub(crate) struct Floods {
    pub(crate) rates: PortRates,
    pub(crate) memory: FloodMemory,
}

impl Floods {
    /// So many frames a second for each port, and as many at once.
    pub(crate) fn new(frames_per_second: NonZeroU32, seed: u64) -> Self {
        let rates = PortRates::new(frames_per_second.get(), frames_per_second.get());
        Self { rates, memory: FloodMemory::new(seed) }
    }
}
