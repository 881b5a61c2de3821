//! What nodes tell of packets at the end of their paths, as far as it is believed. Knows who is connected and the
//! moment; refuses to plan anything by it.
//!
//! Only sessions tell: the node is that of the certificate. What is believed is decided by `adapt::observe`.

pub(crate) mod planned;
pub(crate) mod state;

use super::fleet::Fleet;
use crate::error::ControllerError;
use crate::reconcile::Situation;
use catena_model::NodeName;
use catena_model::id::PathId;
use catena_model::limits::PATH_ENDS_MESSAGE_MAX;

use catena_protocol::message::PathEnds;
use catena_protocol::telemetry::read_end;
use state::{NodeTold, PathTold, Sender, State};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::sync::watch;

/// What all nodes told.
pub(crate) struct TelemetryBoard {
    began: Instant,
    connections: AtomicU64,
    state: Mutex<State>,
}

impl Default for TelemetryBoard {
    fn default() -> Self {
        Self {
            began: Instant::now(),
            connections: AtomicU64::new(0),
            state: Mutex::new(State::new()),
        }
    }
}

impl TelemetryBoard {
    /// A connection has begun: its number, higher than those of all before.
    pub(crate) fn connect(&self) -> u64 {
        self.connections.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// A node said by which clock it stamps packets; none: it does not know.
    pub(crate) fn note_clock(&self, node: &NodeName, clock: Option<u64>) {
        self.lock().note_clock(node, clock);
    }

    /// A node tells by a connection.
    pub(crate) fn tell(&self, node: &NodeName, connection: u64, told: &PathEnds) {
        self.lock().note_lost(node, told.lost.unwrap_or_default());
        let mut sequence = told.first;
        // Who tells much at once keeps nobody waiting.
        for part in told.ends.chunks(PATH_ENDS_MESSAGE_MAX) {
            let ends: Vec<_> = part.iter().map(read_end).collect();
            let mut state = self.lock();
            let from = Sender { node, connection, now_ns: self.now_ns() };
            for end in ends {
                state.take(&from, sequence, end);
                sequence = sequence.saturating_add(1);
            }
        }
    }

    /// Forgets a node.
    pub(crate) fn forget(&self, node: &NodeName) {
        self.lock().forget_node(node);
    }

    /// What is known of a path; none: it has no telemetry.
    pub(crate) fn told_of(&self, path: PathId) -> Option<PathTold> {
        self.lock().told_of(path, self.now_ns())
    }

    /// What a node told.
    pub(crate) fn told_by(&self, node: &NodeName) -> NodeTold {
        self.lock().told_by(node)
    }

    /// The nodes that told anything, or may.
    pub(crate) fn nodes(&self) -> BTreeSet<NodeName> {
        self.lock().nodes()
    }

    /// The paths with telemetry.
    pub(crate) fn paths(&self) -> Vec<PathId> {
        self.lock().paths()
    }

    fn follow(&self, now: &Situation) {
        let ledger = &now.blueprint.ledger;
        let paths = ledger.paths.iter();
        let paths = paths.filter_map(|(id, path)| Some((*id, path, path.telemetry.as_ref()?)));
        self.lock().follow(paths, |node| ledger.device_of(node), self.now_ns());
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Watches the paths that there are, until the controller stops.
pub(crate) async fn watch(
    mut situations: watch::Receiver<Situation>,
    fleet: Arc<Fleet>,
) -> Result<(), ControllerError> {
    loop {
        let now = situations.borrow_and_update().clone();
        fleet.telemetry.follow(&now);
        let changed = situations.changed().await;
        changed.map_err(|_| ControllerError::Ended("telemetry"))?;
    }
}
