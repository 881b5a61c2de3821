//! An agent without a node: it dials over mutual TLS, takes programs, binds every port it is told
//! of and acknowledges, as far as the test lets it.

use catena_model::PathId;
use catena_model::id::PortId;
use catena_model::id::SliceId;
use catena_model::program::{SliceEntry, SlicePathEntry};
use catena_model::status::InstanceHealth;
use catena_model::{ChainCounters, NodeCounters, NodeName, NodeProgram, PortCounters};
use catena_protocol::message::{
    self, Answer, FromAgent, PortState, PortStates, ToAgent, from_agent, to_agent,
};
use catena_protocol::session::{hello, part_result, program_result, whole_needed};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

#[allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic)]
mod stubs {
    tonic::include_proto!("catena.v1");
}
use stubs::southbound_client::SouthboundClient;

/// What the fake node does and has seen.
#[derive(Default)]
pub struct State {
    /// What tells it from other agents of its node.
    pub agent: String,
    /// Every program that came, in order.
    pub programs: Vec<NodeProgram>,
    /// The newest number that was acknowledged.
    pub acknowledged: u64,
    /// While set, acknowledgements are kept back.
    pub is_held: bool,
    /// While set, programs are refused with this reason.
    pub refuses: Option<String>,
    /// While set, nothing is answered at all.
    pub is_silent: bool,
    /// Ports without an interface, by name, and why.
    pub unbound: BTreeMap<String, String>,
    /// The counters it tells.
    pub chains: Vec<ChainCounters>,
    /// Those of its ports.
    pub ports: Vec<PortCounters>,
    /// How often it was asked for them.
    pub asked: usize,
    /// How it says that instances are.
    pub health: Vec<InstanceHealth>,
    /// The slices of the newest program.
    pub slices: BTreeMap<SliceId, SliceEntry>,
    /// Their paths.
    pub slice_paths: BTreeMap<PathId, SlicePathEntry>,
    /// How many messages told of slices.
    pub deltas: usize,
    /// The program that awaits its slices, and the number of it with them.
    pub followed: Option<(NodeProgram, u64)>,
    pub outgoing: Option<mpsc::Sender<FromAgent>>,
}

/// A fake agent, connected until it is dropped.
pub struct FakeAgent {
    pub state: Arc<Mutex<State>>,
    runtime: Option<tokio::runtime::Runtime>,
}

/// Where an enrolled node's certificate lies.
pub fn enroll(data: &Path, node: &str) -> PathBuf {
    let out = data.join(format!("enrolled-{node}"));
    catena_controller::enroll(data, &NodeName::new(node).unwrap(), &out).unwrap();
    out
}

/// Dials with the certificate of a directory; the error text when it is refused.
pub async fn dial(
    certificates: &Path,
    ca: &Path,
    to: SocketAddr,
    first: FromAgent,
) -> Result<(mpsc::Sender<FromAgent>, tonic::Streaming<ToAgent>), String> {
    let read = |path: PathBuf| std::fs::read_to_string(path).unwrap();
    let identity = Identity::from_pem(
        read(certificates.join("node.pem")),
        read(certificates.join("node.key")),
    );
    let tls = ClientTlsConfig::new()
        .ca_certificate(Certificate::from_pem(read(ca.join("ca.pem"))))
        .identity(identity)
        .domain_name("controller");
    let endpoint = Endpoint::from_shared(format!("https://{to}")).unwrap().tls_config(tls).unwrap();
    let channel = endpoint.connect().await.map_err(|e| format!("{e:?}"))?;
    let (outgoing, stream) = mpsc::channel(64);
    outgoing.send(first).await.unwrap();
    let answer = SouthboundClient::new(channel).session(ReceiverStream::new(stream)).await;
    Ok((outgoing, answer.map_err(|status| format!("{status:?}"))?.into_inner()))
}

impl FakeAgent {
    /// Connects as a node that runs no program yet; its underlay address ends in `host`.
    pub fn connect(data: &Path, node: &str, host: u8, to: SocketAddr) -> Self {
        Self::connect_running(data, node, host, to, State::default())
    }

    /// Connects as a node in this state.
    pub fn connect_running(
        data: &Path,
        node: &str,
        host: u8,
        to: SocketAddr,
        state: State,
    ) -> Self {
        let certificates = enroll(data, node);
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).enable_all().build().unwrap();
        let first = hello(node, &state.agent, format!("192.0.2.{host}"), 1_500, state.acknowledged);
        let state = Arc::new(Mutex::new(state));
        let shared = Arc::clone(&state);
        let node = NodeName::new(node).unwrap();
        runtime.spawn(async move {
            let (outgoing, mut incoming) =
                dial(&certificates, &certificates, to, first).await.unwrap();
            shared.lock().unwrap().outgoing = Some(outgoing.clone());
            while let Ok(Some(ToAgent { message: Some(message) })) = incoming.message().await {
                for answer in answers(&shared, &node, message) {
                    if outgoing.send(FromAgent { message: Some(answer) }).await.is_err() {
                        return;
                    }
                }
            }
        });
        Self { state, runtime: Some(runtime) }
    }

    pub fn hold(&self) {
        self.state.lock().unwrap().is_held = true;
    }

    /// Acknowledges the newest program and all that come.
    pub fn release(&self) {
        let mut state = self.state.lock().unwrap();
        state.is_held = false;
        let newest = state.programs.last().map(|program| program.number.0);
        if let (Some(newest), Some(outgoing)) = (newest, state.outgoing.clone()) {
            state.acknowledged = newest;
            let result = from_agent::Message::ProgramResult(program_result(newest, ""));
            outgoing.try_send(FromAgent { message: Some(result) }).unwrap();
        }
    }

    /// Tells that every port of the newest program has an interface now.
    pub fn bind_all(&self) {
        let mut state = self.state.lock().unwrap();
        state.unbound.clear();
        let states = port_states(&state);
        let outgoing = state.outgoing.clone().unwrap();
        outgoing.try_send(FromAgent { message: Some(states) }).unwrap();
    }

    /// Tells of these ports of the newest program alone: name, and why it has no interface.
    pub fn tell_ports(&self, told: &[(&str, &str)]) {
        let state = self.state.lock().unwrap();
        let program = state.programs.last().unwrap();
        let port = |(name, reason): &(&str, &str)| PortState {
            port_id: program.ports.iter().find(|p| p.name == *name).unwrap().id.to_string(),
            reason: (*reason).into(),
        };
        let states = PortStates { ports: told.iter().map(port).collect() };
        let message = FromAgent { message: Some(from_agent::Message::PortStates(states)) };
        state.outgoing.clone().unwrap().try_send(message).unwrap();
    }

    /// The newest program.
    pub fn program(&self) -> Option<NodeProgram> {
        self.state.lock().unwrap().programs.last().cloned()
    }

    pub fn acknowledged(&self) -> u64 {
        self.state.lock().unwrap().acknowledged
    }

    /// Breaks the connection and hands out what the node still has.
    pub fn disconnect(mut self) -> State {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(std::time::Duration::from_secs(5));
        }
        let mut state = std::mem::take(&mut *self.state.lock().unwrap());
        state.outgoing = None;
        state
    }
}

impl Drop for FakeAgent {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn answers(
    shared: &Mutex<State>,
    node: &NodeName,
    message: to_agent::Message,
) -> Vec<from_agent::Message> {
    let mut state = shared.lock().unwrap();
    if state.is_silent {
        return Vec::new();
    }
    match message {
        to_agent::Message::Welcome(_) => Vec::new(),
        to_agent::Message::Program(packed) => take_program(&mut state, &packed),
        to_agent::Message::SliceDelta(part) => take_delta(&mut state, &part),
        to_agent::Message::Question(request) => {
            state.asked += 1;
            let counters = counters(&state, node);
            let body =
                serde_json::to_vec(&catena_model::Answer::Counters(Box::new(counters))).unwrap();
            let request = request.request;
            vec![from_agent::Message::Answer(Answer { request, body })]
        }
    }
}

/// Takes a change of slices as a data plane does: what it changes must run here, and what it names
/// must be known.
fn take_delta(state: &mut State, part: &message::SliceDelta) -> Vec<from_agent::Message> {
    let result = |result| vec![from_agent::Message::ProgramResult(result)];
    let delta = catena_protocol::slices::unpack(part).unwrap();
    let follows = state
        .followed
        .as_ref()
        .is_some_and(|(program, number)| (program.number.0, *number) == (part.base, part.number));
    if !follows && state.acknowledged != part.base {
        return result(whole_needed(part.number, "it is not what runs here"));
    }
    state.deltas += 1;
    for slice in &delta.removed {
        state.slices.remove(slice);
    }
    for path in &delta.removed_paths {
        state.slice_paths.remove(path);
    }
    state.slice_paths.extend(delta.paths.into_iter().map(|path| (path.id, path)));
    state.slices.extend(delta.slices.into_iter().map(|slice| (slice.id, slice)));
    if !part.is_last {
        return result(part_result(part.number));
    }
    state.programs.extend(state.followed.take().map(|(program, _)| program));
    let program = state.programs.last().unwrap();
    let known: BTreeSet<PathId> = program.paths.iter().map(|path| path.id).collect();
    assert!(state.slices.values().all(|slice| state.slice_paths.contains_key(&slice.path)));
    assert!(state.slice_paths.values().all(|path| known.contains(&path.like)));
    let mut answers = vec![port_states(state)];
    if !state.is_held {
        state.acknowledged = part.number;
        answers.extend(result(program_result(part.number, "")));
    }
    answers
}

fn take_program(state: &mut State, packed: &message::Program) -> Vec<from_agent::Message> {
    let number = packed.number;
    if packed.keeps_slices_of == 0 {
        state.slices.clear();
        state.slice_paths.clear();
    } else if packed.keeps_slices_of != state.acknowledged {
        let result = whole_needed(number.max(packed.followed_to), "it is not what runs here");
        return vec![from_agent::Message::ProgramResult(result)];
    }
    if packed.followed_to > 0 {
        let program = catena_protocol::program::unpack(packed).unwrap();
        state.followed = Some((program, packed.followed_to));
        return vec![from_agent::Message::ProgramResult(part_result(packed.followed_to))];
    }
    let newest = state.programs.last().map_or(0, |program| program.number.0);
    assert!(number > newest.max(state.acknowledged), "program {number} after {newest}");
    if let Some(reason) = &state.refuses {
        return vec![from_agent::Message::ProgramResult(program_result(number, reason))];
    }
    state.programs.push(catena_protocol::program::unpack(packed).unwrap());
    let mut answers = vec![port_states(state)];
    if !state.is_held {
        state.acknowledged = number;
        answers.push(from_agent::Message::ProgramResult(program_result(number, "")));
    }
    answers
}

fn port_states(state: &State) -> from_agent::Message {
    let ports = state.programs.last().map(|program| program.ports.clone()).unwrap_or_default();
    let port = |port: catena_model::program::PortEntry| PortState {
        port_id: port.id.to_string(),
        reason: state.unbound.get(&port.name).cloned().unwrap_or_default(),
    };
    from_agent::Message::PortStates(PortStates { ports: ports.into_iter().map(port).collect() })
}

fn counters(state: &State, node: &NodeName) -> NodeCounters {
    NodeCounters {
        chains: state.chains.clone(),
        ports: state.ports.clone(),
        health: state.health.clone(),
        ..NodeCounters::none(
            node.clone(),
            state.programs.last().map(|program| program.number).unwrap_or_default(),
        )
    }
}

/// Ids of the ports of a program.
pub fn ports_of(program: &NodeProgram) -> BTreeSet<PortId> {
    program.ports.iter().map(|port| port.id).collect()
}
