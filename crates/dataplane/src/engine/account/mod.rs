//! What is counted: for each port, for the tunnels, for each path, and for what is handed out until it is
//! sent. Knows sums and whose they are; refuses to know why a packet ended as it did.

pub(crate) mod counters;
pub(crate) mod path_counters;
pub(crate) mod slots;
pub(crate) mod times;
pub(crate) mod tx_batches;
pub(crate) mod updates;
