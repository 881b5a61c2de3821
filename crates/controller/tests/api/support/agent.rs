//! An agent without a node: it dials over mutual TLS, takes programs, binds every port it is told
//! of and acknowledges, as far as the test lets it.

use super::Controller;
use catena_model::capacity::{Capacity, NumaNode};
use catena_model::entry::{Entries, Program, ProgramVersion};
use catena_model::id::PortId;
use catena_model::instance::{InstanceSpec, InstanceState};
use catena_model::setup::SetupCounters;
use catena_model::status::InstanceHealth;
use catena_model::topology::NodeRole;
use catena_model::{ChainCounters, NodeCounters, NodeName, NodeProgram, PortCounters};
use catena_protocol::delta::Draft;
use catena_protocol::frame::FRAME_BYTES_MAX;
use catena_protocol::message::{
    self, Answer, FromAgent, InstanceStates, PortState, PortStates, ToAgent, from_agent, to_agent,
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
    /// How it says that set-ups of flows went.
    pub setups: SetupCounters,
    /// The counters it tells.
    pub chains: Vec<ChainCounters>,
    /// Those of its ports.
    pub ports: Vec<PortCounters>,
    /// How often it was asked for them.
    pub asked: usize,
    /// How it says that instances are.
    pub health: Vec<InstanceHealth>,
    /// The newest program.
    pub running: Program,
    /// The one that was acknowledged last.
    pub told: ProgramVersion,
    /// How many messages told of programs, and how many of these were whole ones.
    pub deltas: usize,
    pub wholes: usize,
    /// A change whose last part has not come.
    pub draft: Option<Draft>,
    /// What the node is for.
    pub role: NodeRole,
    /// Its interfaces that are links, as it says when it comes.
    pub links: Vec<String>,
    /// Its address and its locator in the IPv6 underlay, as it says when it comes; empty: it has none.
    pub segments: (String, String),
    /// By which clock it stamps packets; 0: it does not say.
    pub clock: u64,
    /// What it says that it has for instances.
    pub capacity: Capacity,
    /// The flows that it was answered for.
    pub flow_answers: Vec<message::FlowAnswer>,
    /// What it is to run itself, and what each that it is told of ends with; empty: they run.
    pub instances: Vec<InstanceSpec>,
    pub ends_with: String,
    pub outgoing: Option<mpsc::Sender<FromAgent>>,
}

/// A fake agent, connected until it is dropped.
pub struct FakeAgent {
    pub state: Arc<Mutex<State>>,
    runtime: Option<tokio::runtime::Runtime>,
}

fn instance_states(state: &State) -> from_agent::Message {
    let of = |spec: &InstanceSpec| InstanceState {
        id: spec.id,
        is_running: state.ends_with.is_empty(),
        restarts: 2,
        last_exit: state.ends_with.clone(),
    };
    let states: Vec<InstanceState> = state.instances.iter().map(of).collect();
    let body = serde_json::to_vec(&states).unwrap();
    from_agent::Message::InstanceStates(InstanceStates { body })
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
    let mut client = SouthboundClient::new(channel).max_decoding_message_size(FRAME_BYTES_MAX);
    let answer = client.session(ReceiverStream::new(stream)).await;
    Ok((outgoing, answer.map_err(|status| format!("{status:?}"))?.into_inner()))
}

impl FakeAgent {
    /// Connects as a node that runs no program yet; its underlay address ends in `host`.
    pub fn connect(data: &Path, node: &str, host: u8, to: SocketAddr) -> Self {
        Self::connect_running(data, node, host, to, State::default())
    }

    /// Connects as the node of a host with these NUMA nodes: cores, and MiB.
    pub fn with_room(controller: &Controller, number: u8, numa: &[(u64, u64)]) -> Self {
        let numa = (0..).zip(numa).map(|(number, (cores, memory_mib))| NumaNode {
            number,
            cpu_milli: cores * 1_000,
            memory_mib: *memory_mib,
        });
        let capacity = Capacity { numa: numa.collect(), link_mbit: None };
        let state = State { capacity, ..State::default() };
        let name = format!("host{number}");
        Self::connect_running(&controller.data, &name, number, controller.southbound, state)
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
        let place = (format!("192.0.2.{host}"), 1_500);
        let told = (state.links.clone(), &state.capacity);
        let mut first = hello(node, &state.agent, place, state.role, told, state.told);
        if let Some(from_agent::Message::Hello(hello)) = &mut first.message {
            (hello.segment_address, hello.locator) = state.segments.clone();
            hello.clock = state.clock;
        }
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
            state.told = state.running.version();
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

    /// Tells how its links are.
    pub fn tell_links(&self, links: Vec<message::LinkState>) {
        let states = message::LinkStates { links };
        let message = FromAgent { message: Some(from_agent::Message::LinkStates(states)) };
        self.state.lock().unwrap().outgoing.clone().unwrap().try_send(message).unwrap();
    }

    /// Asks for flows.
    pub fn ask_for_flows(&self, flows: Vec<message::FlowAsked>) {
        let asked = from_agent::Message::FlowsAsked(message::FlowsAsked { flows });
        let message = FromAgent { message: Some(asked) };
        self.state.lock().unwrap().outgoing.clone().unwrap().try_send(message).unwrap();
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
        to_agent::Message::Welcome(_) => vec![port_states(&state)],
        to_agent::Message::Delta(part) => take_delta(&mut state, node, &part),
        to_agent::Message::Question(request) => {
            state.asked += 1;
            let counters = counters(&state, node);
            let body =
                serde_json::to_vec(&catena_model::Answer::Counters(Box::new(counters))).unwrap();
            let request = request.request;
            vec![from_agent::Message::Answer(Answer { request, body })]
        }
        to_agent::Message::Instances(told) => {
            let read = |body: &Vec<u8>| serde_json::from_slice::<InstanceSpec>(body).unwrap();
            state.instances = told.instances.iter().map(read).collect();
            vec![instance_states(&state)]
        }
        to_agent::Message::FlowAnswers(answers) => {
            state.flow_answers.extend(answers.flows);
            Vec::new()
        }
    }
}

/// Takes a change as a data plane does: what it changes must run here, and what it names must be known.
fn take_delta(
    state: &mut State,
    node: &NodeName,
    part: &message::Delta,
) -> Vec<from_agent::Message> {
    let result = |result| vec![from_agent::Message::ProgramResult(result)];
    let number = part.number;
    let base = if part.is_whole() { Program::default() } else { state.running.clone() };
    if base.version() != part.from_version() {
        return result(whole_needed(number, "it is not what runs here"));
    }
    state.deltas += 1;
    state.wholes += usize::from(part.is_whole());
    let newest = state.running.number.0.max(state.acknowledged);
    assert!(number > newest, "program {number} after {newest}");
    let mut draft = state.draft.take().unwrap_or_else(|| Draft::begin(part, &base));
    draft.add(part).unwrap();
    if !part.is_last {
        state.draft = Some(draft);
        return result(part_result(number));
    }
    if let Some(reason) = &state.refuses {
        return result(program_result(number, reason));
    }
    state.running = draft.finish(&base).unwrap();
    assert_refers(&state.running.entries);
    state.programs.push(state.running.entries.program(node.clone(), state.running.number));
    let mut answers = vec![port_states(state)];
    if !state.is_held {
        (state.acknowledged, state.told) = (number, state.running.version());
        answers.extend(result(program_result(number, "")));
    }
    answers
}

/// What entries name is there.
fn assert_refers(entries: &Entries) {
    assert!(entries.rules.values().all(|rule| entries.paths.contains_key(&rule.path)));
    assert!(entries.ports.values().all(|port| entries.networks.contains_key(&port.network)));
    let slices = entries.slices.values();
    assert!(slices.into_iter().all(|slice| entries.slice_paths.contains_key(&slice.path)));
    assert!(entries.slice_paths.values().all(|path| entries.paths.contains_key(&path.like)));
}

fn port_states(state: &State) -> from_agent::Message {
    let port = |port: &catena_model::program::PortEntry| PortState {
        port_id: port.id.to_string(),
        reason: state.unbound.get(&port.name).cloned().unwrap_or_default(),
    };
    from_agent::Message::PortStates(PortStates {
        ports: state.running.entries.ports.values().map(|entry| port(entry)).collect(),
    })
}

fn counters(state: &State, node: &NodeName) -> NodeCounters {
    NodeCounters {
        chains: state.chains.clone(),
        ports: state.ports.clone(),
        health: state.health.clone(),
        setups: state.setups.clone(),
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
