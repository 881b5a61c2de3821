//! What nodes are to run themselves, and what they say became of it. Knows who is told what; refuses to know why.

use catena_model::NodeName;
use catena_model::id::InstanceId;
use catena_model::instance::{InstanceSpec, InstanceState};
use catena_protocol::message::{InstanceStates, Instances};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// What one node is to run; none: that is not known yet.
pub(crate) type Specs = Option<Arc<Vec<InstanceSpec>>>;

/// Bytes of one message about instances, beyond which the next is begun.
const PART_BYTES: usize = 1024 * 1024;

/// By node, what is wanted and what is.
#[derive(Default)]
pub(crate) struct InstanceBoard(Mutex<Seats>);

#[derive(Default)]
struct Seats {
    /// Is it known what nodes are to run?
    is_known: bool,
    nodes: BTreeMap<NodeName, Seat>,
}

struct Seat {
    wanted: watch::Sender<Specs>,
    /// By whose session it was told.
    session: u64,
    states: BTreeMap<InstanceId, InstanceState>,
}

impl Default for Seat {
    fn default() -> Self {
        Self { wanted: watch::Sender::new(None), session: 0, states: BTreeMap::new() }
    }
}

impl InstanceBoard {
    /// Puts down what nodes are to run; others run nothing.
    pub(crate) fn want(&self, mut wanted: BTreeMap<NodeName, Vec<InstanceSpec>>) {
        let mut seats = self.lock();
        seats.is_known = true;
        let known: BTreeSet<NodeName> = seats.nodes.keys().chain(wanted.keys()).cloned().collect();
        for node in known {
            let specs = wanted.remove(&node).unwrap_or_default();
            seats.nodes.entry(node).or_default().wanted.send_if_modified(|former| {
                let is_other = former.as_deref() != Some(&specs);
                if is_other {
                    *former = Some(Arc::new(specs));
                }
                is_other
            });
        }
    }

    /// What a node is to run, from now on; the first is new to whoever follows.
    pub(crate) fn follow(&self, node: &NodeName) -> watch::Receiver<Specs> {
        let mut seats = self.lock();
        let is_known = seats.is_known;
        let seat = seats.nodes.entry(node.clone()).or_default();
        if is_known {
            // Whoever nobody knew until now runs nothing.
            seat.wanted.send_if_modified(|wanted| {
                let is_new = wanted.is_none();
                wanted.get_or_insert_with(Arc::default);
                is_new
            });
        }
        let mut wanted = seat.wanted.subscribe();
        wanted.mark_changed();
        wanted
    }

    /// A node says what became of its instances.
    pub(crate) fn tell(&self, node: &NodeName, session: u64, told: &InstanceStates) {
        let states: Vec<InstanceState> = match serde_json::from_slice(&told.body) {
            Ok(states) => states,
            Err(error) => {
                tracing::warn!(%node, "states of instances cannot be read: {error}");
                return;
            }
        };
        let mut seats = self.lock();
        let seat = seats.nodes.entry(node.clone()).or_default();
        if session >= seat.session {
            seat.session = session;
            seat.states = states.into_iter().map(|state| (state.id, state)).collect();
        }
    }

    /// The session is over: what it said is not known any more.
    pub(crate) fn lost(&self, node: &NodeName, session: u64) {
        if let Some(seat) = self.lock().nodes.get_mut(node)
            && seat.session == session
        {
            seat.states.clear();
        }
    }

    /// What a node said of an instance; none: nothing, or it is not connected.
    pub(crate) fn state(&self, node: &NodeName, instance: InstanceId) -> Option<InstanceState> {
        self.lock().nodes.get(node)?.states.get(&instance).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, Seats> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The messages that tell a node what it is to run.
pub(crate) fn messages(specs: &[InstanceSpec]) -> Vec<Instances> {
    let mut parts = vec![Instances::default()];
    let mut bytes = 0;
    for spec in specs {
        // A list of strings and numbers is always text.
        let body = serde_json::to_vec(spec).unwrap_or_default();
        if bytes > 0 && bytes + body.len() > PART_BYTES {
            parts.push(Instances::default());
            bytes = 0;
        }
        bytes += body.len();
        if let Some(part) = parts.last_mut() {
            part.instances.push(body);
        }
    }
    if let Some(last) = parts.last_mut() {
        last.is_last = true;
    }
    parts
}
