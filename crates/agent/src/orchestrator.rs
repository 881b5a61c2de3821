//! The instances that a node runs itself: which are to run, which do, and what became of them.
//!
//! Knows what the controller asks for and which ports the running program still needs; refuses to know how an
//! instance is run, which is an [`Orchestrator`]'s.

mod alerts;
mod home;
mod keeper;
mod network;
mod process;
mod processes;

pub(crate) use processes::Processes;

use crate::InstancePaths;
use catena_kernel::KernelError;
use catena_kernel::namespace::NetNamespace;
use catena_kernel::netlink::Netlink;
use catena_model::id::{InstanceId, PortId};
use catena_model::instance::{InstanceBounds, InstanceSpec, InstanceState};
use catena_model::limits::NODE_INSTANCES_MAX;
use catena_protocol::message::{InstanceStates, Instances};
use std::collections::BTreeMap;
use tokio::sync::mpsc;

/// Runs instances. Orders are taken at once; what becomes of them is told later, by name.
pub(crate) trait Orchestrator {
    /// Runs an instance, in place of the one of this identity.
    fn deploy(&mut self, spec: InstanceSpec);
    /// Bounds one that runs anew.
    fn resize(&mut self, id: InstanceId, bounds: InstanceBounds);
    /// Ends one, and leaves nothing of it.
    fn remove(&mut self, id: InstanceId);
}

/// The instances of the node that this process is in, with those that an agent before it has left running.
///
/// # Errors
/// When netlink cannot be opened there.
pub(crate) fn crew(
    paths: &InstancePaths,
    news: mpsc::Sender<InstanceNews>,
) -> Result<Crew<Processes>, KernelError> {
    let node = Netlink::open(&NetNamespace::current()?)?;
    let (processes, there) = Processes::resume(paths, node, news);
    Ok(Crew::new(processes, there))
}

/// What is told of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum InstanceNews {
    /// How it is.
    State(InstanceState),
    /// What a bundled function told: a line of EVE.
    Alert(InstanceId, String),
}

/// All instances of a node.
pub(crate) struct Crew<O> {
    orchestrator: O,
    /// Those that the controller asks for, once it has.
    wanted: Option<BTreeMap<InstanceId, InstanceSpec>>,
    /// What has come of a list whose end is still to come.
    part: BTreeMap<InstanceId, InstanceSpec>,
    running: BTreeMap<InstanceId, InstanceSpec>,
    states: BTreeMap<InstanceId, InstanceState>,
    has_news: bool,
}

impl<O: Orchestrator> Crew<O> {
    /// With those that are at the node already.
    pub(crate) fn new(orchestrator: O, there: Vec<InstanceSpec>) -> Self {
        let running = there.into_iter().map(|spec| (spec.id, spec)).collect();
        Self {
            orchestrator,
            wanted: None,
            part: BTreeMap::new(),
            running,
            states: BTreeMap::new(),
            has_news: false,
        }
    }

    /// The controller says what is to run, or a part of it.
    pub(crate) fn take(&mut self, told: &Instances) {
        for body in &told.instances {
            match serde_json::from_slice::<InstanceSpec>(body) {
                Ok(spec) if self.part.len() < NODE_INSTANCES_MAX => {
                    self.part.insert(spec.id, spec);
                }
                Ok(spec) => tracing::warn!(
                    instance = spec.name,
                    "it is not run: {NODE_INSTANCES_MAX} instances run here already, which is the most"
                ),
                Err(error) => {
                    tracing::warn!("an instance that is to run here cannot be read: {error}");
                }
            }
        }
        if told.is_last {
            self.wanted = Some(std::mem::take(&mut self.part));
        }
    }

    /// Deploys what is missing, and removes what is not wanted and not needed: an instance goes on as long as a
    /// path of the running program may lead to it. `is_needed`: is it a port of that program?
    pub(crate) fn follow(&mut self, is_needed: impl Fn(PortId) -> bool) {
        let Some(wanted) = &self.wanted else { return };
        for spec in wanted.values() {
            let known = self.running.get(&spec.id);
            if known == Some(spec) {
                continue;
            }
            let with_bounds =
                |known: &InstanceSpec| InstanceSpec { bounds: spec.bounds, ..known.clone() };
            match known.map(with_bounds) {
                Some(resized) if resized == *spec => self.orchestrator.resize(spec.id, spec.bounds),
                _ => self.orchestrator.deploy(spec.clone()),
            }
            self.running.insert(spec.id, spec.clone());
        }
        let is_over = |spec: &InstanceSpec| {
            let has_use = spec.interfaces.iter().any(|interface| is_needed(interface.port));
            !wanted.contains_key(&spec.id) && !has_use
        };
        let over: Vec<InstanceId> =
            self.running.values().filter(|spec| is_over(spec)).map(|spec| spec.id).collect();
        for id in over {
            self.orchestrator.remove(id);
            self.running.remove(&id);
            self.states.remove(&id);
            self.has_news = true;
        }
    }

    /// How an instance is.
    pub(crate) fn learn(&mut self, state: InstanceState) {
        // What comes late of one that is removed is of no interest.
        if self.running.contains_key(&state.id) {
            self.states.insert(state.id, state);
            self.has_news = true;
        }
    }

    /// Whoever listens now was told nothing yet.
    pub(crate) fn tell_anew(&mut self) {
        self.has_news = !self.running.is_empty();
    }

    /// What the controller has not been told, if it has anything to do with instances.
    pub(crate) fn take_news(&mut self) -> Option<InstanceStates> {
        if !std::mem::take(&mut self.has_news) {
            return None;
        }
        let states: Vec<&InstanceState> = self.states.values().collect();
        serde_json::to_vec(&states).ok().map(|body| InstanceStates { body })
    }
}

#[cfg(test)]
mod tests;
