//! A seeded simulation of controller, agents, data planes, store and network.
//!
//! Pure: no clock, no I/O, no threads. One seed decides everything: when messages arrive, which
//! process dies at which operation of its disk, what an operator declares, where packets are. The
//! same seed gives the same run, event by event.
//!
//! What is real: the reconciler, the drain watch and all planning (`catena-plan`), the session's
//! state machine, the gate of program numbers, the order of offers, packing and framing
//! (`catena-protocol`), transactions and their rules (`catena-store`), all resources, programs and
//! counters (`catena-model`).
//!
//! What is a model, because the original is bound to sockets, files or threads: the order of work inside the
//! controller's tasks (`controller`, `controller_process`, `declared`, `ledger_store`, `translate`), the
//! agent's node (`agent`) and its discovery (`discovery`), the data plane's control thread (`dataplane`) and
//! its hellos (`hellos`), forwarding (`packets` and `frames`, without bytes), cables (`cables`), SQLite
//! (`journal_store`). A mistake that lives only in an original is not found here: for those there are the tests
//! that kill real processes.
#![forbid(unsafe_code)]

mod agent;
mod cables;
mod checks;
mod config;
mod controller;
mod controller_process;
mod dataplane;
mod declared;
mod delivery;
mod discovery;
mod disk;
mod edges;
mod faults;
mod frames;
mod headers;
mod hellos;
mod host;
mod journal_store;
mod ledger_store;
mod network;
mod operator;
mod packets;
mod planted;
mod random;
mod topology;
mod trace;
mod translate;
mod world;

pub use checks::Tally;
pub use config::{Config, Fabric, Faults};
pub use planted::Planted;

use std::fmt;

/// A run in which every promise held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// Its seed.
    pub seed: u64,
    /// Events that happened.
    pub events: u64,
    /// One number for the whole trace: equal runs have equal digests.
    pub digest: u64,
    /// How much happened.
    pub tally: Tally,
}

/// A run in which a promise was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Its seed.
    pub seed: u64,
    /// What was promised and did not hold.
    pub promise: String,
    /// The line of the trace at which it was noticed.
    pub event: u64,
    /// One number for the trace so far.
    pub digest: u64,
    /// The last events, oldest first.
    pub last: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}, event {}: {}", self.seed, self.event, self.promise)?;
        for line in &self.last {
            writeln!(f, "  {line}")?;
        }
        write!(
            f,
            "again: CATENA_SIM_SEED={} cargo test --release -p catena-sim --test seeds \
             (CATENA_SIM_FAULTS=crashes,… and CATENA_SIM_TURNS=… make it smaller)",
            self.seed
        )
    }
}

/// Runs one seed to its end.
///
/// # Errors
/// With the promise that was broken and the last events, in words.
pub fn run(seed: u64, config: Config) -> Result<Report, Box<Failure>> {
    world::World::new(seed, config).run()
}
