//! The control thread: hears agents, checks and keeps programs, makes rings, orders the worker.
//!
//! Knows the messages and who takes which. Refuses to touch packets.

mod dump;
mod function_state;
mod injected;
mod kernel_path;
mod links;
mod messages;
mod path_ends;
mod ports;
mod programs;
pub(in crate::shell) mod segments;
mod setups;
mod underlay;

use super::agent_connection::{AgentConnection, ConnectionEnd};
use super::control_socket::ControlSocket;
use super::function_keeper::FunctionKeeper;
use super::makers::FunctionMakers;
use super::order::{Order, Report};
use super::underlay::Underlay;
use super::worker_pool::WorkerPool;
use super::{Config, DataplaneError, WITHOUT_SANDBOX};
use crate::engine::{EngineConfig, KernelPort, Rehearsal, Tables, UnderlayInterface};
use catena_io::{Ipv6Reserve, TunnelReserve};
use catena_model::check::{CheckQuestion, Sighting};
use catena_model::explain::{CatchRequest, CaughtPacket, ExplainRequest};
use catena_model::id::PortId;
use catena_model::limits::SLICE_COUNTERS_MAX;
use catena_model::program::SegmentPlace;
use catena_model::program::SliceEntry;
use catena_model::{Answer, Question};
use catena_protocol::PROTOCOL_VERSION;
use catena_protocol::message::{
    self, InterfacePlace, PortOperation, State, from_dataplane, to_dataplane,
};
use catena_protocol::session::ProgramGate;
use kernel_path::{KernelPath, OPENING_REST, Opening};
use links::Links;
use messages::Messages;
use path_ends::EndsForAgent;
use ports::port_result;
use programs::{Running, Unfinished};
use rustix::event::{PollFd, PollFlags, Timespec};
use setups::Setups;
use std::collections::BTreeMap;
use std::hash::RandomState;
use std::io::ErrorKind;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often tunnel sockets are tried again whose address this host did not have.
const UNDERLAY_RETRY: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
/// How often it is looked whether whoever starts processes has ended.
const STARTER_LOOK: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// How long an agent waits that could not be let in.
const ACCEPT_REST: Duration = Duration::from_millis(200);
const ACCEPT_RETRY: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// A port with a ring.
struct Attached {
    /// The number of the order that attached it; 0: another agent's.
    sequence: u64,
    kernel: Option<KernelPort>,
    /// Which interface it is, in the words of its agent.
    place: Option<InterfacePlace>,
}

/// The state of the thread.
pub(super) struct Control {
    config: Config,
    socket: ControlSocket,
    agent: Option<AgentConnection>,
    workers: WorkerPool,
    /// Who writes down what functions remember.
    keeper: FunctionKeeper,
    /// Who makes functions.
    makers: Arc<FunctionMakers>,
    began: Instant,
    links: Links,
    setups: Setups,
    messages: Messages,
    path_ends: EndsForAgent,
    gate: ProgramGate,
    running: Option<Running>,
    /// Address of the tunnel sockets that are open.
    underlay: Option<IpAddr>,
    /// Sockets with large buffers for tunnels that are not open yet.
    reserve: TunnelReserve,
    /// Sockets of the IPv6 underlay, while they are not needed; and why there are none.
    segment_reserve: Result<Ipv6Reserve, String>,
    /// Where packets of segments are taken for.
    segments: Option<SegmentPlace>,
    /// Why they are not.
    no_segments: Option<String>,
    /// By which interfaces datagrams of other nodes come in; by none until an agent says it.
    underlay_devices: Vec<u32>,
    /// The longest IP packet that they take, in bytes.
    underlay_mtu: u16,
    attached: BTreeMap<PortId, Attached>,
    kernel_path: Option<KernelPath>,
    /// A kernel path that waits for its ports.
    opening: Option<Opening>,
    /// The interface of the underlay that the kernel's program stands before.
    kernel_underlay: Option<UnderlayInterface>,
    /// Until when nobody is let in: there was no descriptor left for the last who came.
    deaf_until: Option<Instant>,
    /// Another data plane counted on the paths of the program that comes next.
    has_predecessor: bool,
    /// Why the tunnel sockets are not open.
    no_tunnels: Option<String>,
    /// A change whose last part has not come.
    unfinished: Option<Unfinished>,
    /// Slices that were put in by hand: known to this process alone.
    injected: Vec<SliceEntry>,
    /// When the time of functions starts.
    functions_epoch_seconds: u64,
    /// Of digests that are told: nobody else can make one.
    dump_key: RandomState,
}

impl Control {
    pub(super) fn new(
        config: Config,
        socket: ControlSocket,
        (workers, keeper, makers): (WorkerPool, FunctionKeeper, Arc<FunctionMakers>),
        engine: EngineConfig,
        (reserve, segment_reserve): (TunnelReserve, Result<Ipv6Reserve, String>),
    ) -> Self {
        Self {
            config,
            socket,
            agent: None,
            workers,
            keeper,
            makers,
            began: Instant::now(),
            links: Links::new(engine.links),
            setups: Setups::default(),
            messages: Messages::default(),
            path_ends: EndsForAgent::default(),
            gate: ProgramGate::default(),
            running: None,
            underlay: None,
            reserve,
            segment_reserve,
            segments: None,
            no_segments: None,
            underlay_devices: Vec::new(),
            underlay_mtu: u16::MAX,
            attached: BTreeMap::new(),
            kernel_path: None,
            opening: None,
            kernel_underlay: None,
            deaf_until: None,
            has_predecessor: false,
            no_tunnels: None,
            unfinished: None,
            injected: Vec::new(),
            functions_epoch_seconds: engine.functions_epoch_seconds,
            dump_key: RandomState::new(),
        }
    }

    /// Serves agents until told to stop.
    pub(super) fn serve(mut self) -> Result<(), DataplaneError> {
        loop {
            let ready = self.wait()?;
            if ready.stop {
                self.keep_last_state();
                tracing::info!("told to stop");
                return Ok(());
            }
            if ready.reports {
                self.workers.waker().silence();
                while let Some(report) = self.workers.next_report()? {
                    match report {
                        Report::PortLost(lost) => self.port_lost(lost)?,
                        Report::FlowsAsked(worker, flows) => self.ask_for_flows(worker, &flows),
                        Report::FunctionMessages(messages) => self.take_messages(messages),
                        Report::PathEnds(worker, told) => self.take_path_ends(worker, &told),
                        Report::FunctionState(worker, changes) => self.keep_state(worker, changes),
                        Report::LinksTurned | Report::Ended(_) => {}
                    }
                }
            }
            if ready.agent {
                self.hear()?;
            }
            if ready.newcomer {
                self.accept();
            }
            self.deaf_until = self.deaf_until.filter(|until| Instant::now() < *until);
            self.retry_underlay()?;
            self.open_if_ready()?;
            self.tell_unheard();
            self.tell_presence();
            self.pass_messages();
            self.pass_path_ends();
            self.end_without_starter()?;
        }
    }

    fn wait(&self) -> Result<Ready, DataplaneError> {
        let stop = self.config.stop.as_ref().map(AsFd::as_fd);
        let agent = self.agent.as_ref().map(|agent| (agent.as_fd(), agent.interest()));
        // Whoever waits at the door would wake this thread again and again.
        let at_door = if self.deaf_until.is_some() { PollFlags::empty() } else { PollFlags::IN };
        let mut fds = vec![
            PollFd::new(&self.socket.listener, at_door),
            PollFd::new(self.workers.waker(), PollFlags::IN),
        ];
        fds.extend(agent.map(|(fd, interest)| PollFd::from_borrowed_fd(fd, interest)));
        fds.extend(stop.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        let retries = [
            self.opening.as_ref().map(|_| &OPENING_REST),
            self.deaf_until.map(|_| &ACCEPT_RETRY),
            self.missing_underlay().map(|_| &UNDERLAY_RETRY),
            // Whoever makes functions has no way to wake this thread.
            self.makers.is_asked().then_some(&STARTER_LOOK),
        ];
        match rustix::event::poll(&mut fds, retries.into_iter().flatten().next()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(DataplaneError::Start(errno.into())),
        }
        let mut ready = fds.iter().map(|fd| !fd.revents().is_empty());
        Ok(Ready {
            newcomer: ready.next().unwrap_or_default(),
            reports: ready.next().unwrap_or_default(),
            agent: agent.is_some() && ready.next().unwrap_or_default(),
            stop: stop.is_some() && ready.next().unwrap_or_default(),
        })
    }

    // ----- agents -----

    /// A new agent takes the place of the old one.
    fn accept(&mut self) {
        let accepted = self.socket.listener.accept();
        match accepted.and_then(|(stream, _)| AgentConnection::new(stream)) {
            Ok(agent) => {
                let word = if self.agent.is_some() { "replaced the former" } else { "connected" };
                tracing::info!("an agent {word}");
                self.agent = Some(agent);
                self.links.told = None;
                self.setups.has_session = false;
                // The new one counts from the beginning.
                self.attached.values_mut().for_each(|port| port.sequence = 0);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => {
                tracing::warn!("an agent could not connect: {error}");
                self.deaf_until = Some(Instant::now() + ACCEPT_REST);
            }
        }
    }

    fn hear(&mut self) -> Result<(), DataplaneError> {
        let Some(mut agent) = self.agent.take() else { return Ok(()) };
        match self.converse(&mut agent)? {
            Ok(()) => self.agent = Some(agent),
            Err(end) => tracing::info!("{end}; the data plane goes on"),
        }
        Ok(())
    }

    fn converse(
        &mut self,
        agent: &mut AgentConnection,
    ) -> Result<Result<(), ConnectionEnd>, DataplaneError> {
        if let Err(end) = agent.write().and_then(|()| agent.read()) {
            return Ok(Err(end));
        }
        loop {
            let message = match agent.next() {
                Ok(Some(message)) => message,
                Ok(None) => return Ok(Ok(())),
                Err(end) => return Ok(Err(end)),
            };
            // A kind of message that this version does not know has no answer.
            let Some(message) = message.message else { continue };
            let Some(answer) = self.answer(message, agent)? else { continue };
            if let Err(end) = agent.send(answer) {
                return Ok(Err(end));
            }
        }
    }

    /// None: nothing answers it.
    fn answer(
        &mut self,
        message: to_dataplane::Message,
        agent: &mut AgentConnection,
    ) -> Result<Option<from_dataplane::Message>, DataplaneError> {
        Ok(Some(match message {
            to_dataplane::Message::Delta(delta) => {
                from_dataplane::Message::ProgramResult(self.take_delta(delta)?)
            }
            to_dataplane::Message::AttachPort(attach) => {
                let refusal = self.attach(&attach, agent)?;
                let (port_id, sequence) = (attach.port_id, attach.sequence);
                port_result(port_id, refusal, PortOperation::Attach, sequence)
            }
            to_dataplane::Message::DetachPort(detach) => {
                let refusal = self.detach(&detach.port_id)?;
                port_result(detach.port_id, refusal, PortOperation::Detach, detach.sequence)
            }
            to_dataplane::Message::Question(question) => {
                let answer = match serde_json::from_slice(&question.body) {
                    Ok(asked) => self.reply(&asked)?,
                    Err(error) => Answer::Refused {
                        reason: format!("this data plane does not know the question: {error}"),
                    },
                };
                let body = serde_json::to_vec(&answer).map_err(DataplaneError::Answer)?;
                let request = question.request;
                from_dataplane::Message::Answer(message::Answer { request, body })
            }
            to_dataplane::Message::KernelPath(given) => {
                let refusal = self.take_kernel_path(given, agent)?;
                if let Some(reason) = &refusal {
                    tracing::warn!("every packet is decided one by one: {reason}");
                }
                let refusal = refusal.unwrap_or_default();
                from_dataplane::Message::KernelPathResult(message::KernelPathResult { refusal })
            }
            to_dataplane::Message::KernelUnderlay(underlay) => {
                self.serve_underlay(underlay)?;
                from_dataplane::Message::KernelUnderlayResult(message::KernelUnderlayResult {})
            }
            to_dataplane::Message::UnderlayDevices(devices) => {
                self.take_underlay_devices(devices)?;
                from_dataplane::Message::UnderlayDevicesResult(message::UnderlayDevicesResult {})
            }
            to_dataplane::Message::LinkCarriers(carriers) => {
                from_dataplane::Message::LinksUnheard(self.take_carriers(&carriers))
            }
            to_dataplane::Message::StateRequest(_) => from_dataplane::Message::State(self.state()),
            to_dataplane::Message::FlowAnswers(answers) => {
                self.hand_out(&answers);
                return Ok(None);
            }
            to_dataplane::Message::ControllerPresence(presence) => {
                self.take_presence(presence);
                return Ok(None);
            }
        }))
    }

    fn state(&self) -> State {
        let kernel_ports = self.attached.iter().filter_map(|(id, port)| {
            let KernelPort { number, interface, has_peer } = port.kernel?;
            Some(message::KernelPort { port_id: id.to_string(), number, interface, has_peer })
        });
        let place = |(id, port): (&PortId, &Attached)| Some((id.to_string(), port.place?));
        let kernel_path = self.kernel_path.as_ref();
        let program = self.running_version().unwrap_or_default();
        State {
            node: self.config.node.to_string(),
            program_number: program.number.0,
            program_digest: program.digest.0,
            ports: self.ports(),
            protocol_version: PROTOCOL_VERSION,
            attached_ports: self.attached.keys().map(ToString::to_string).collect(),
            process_id: std::process::id(),
            has_kernel_path: kernel_path.is_some(),
            kernel_identifiers: kernel_path.map_or_else(Vec::new, |path| path.identifiers.clone()),
            kernel_ports: kernel_ports.collect(),
            places: self.attached.iter().filter_map(place).collect(),
        }
    }

    fn reply(&mut self, question: &Question) -> Result<Answer, DataplaneError> {
        Ok(match question {
            Question::Counters { with_interfaces: _, of } => {
                let of = of.clone().map(Arc::new);
                let (mut counters, others) =
                    self.workers.order_all(|done| Order::Counters { of: of.clone(), done })?;
                others.iter().for_each(|other| counters.merge(other));
                self.messages.count(&mut counters);
                counters.dataplane.process = std::process::id();
                counters.dataplane.troubles = self.troubles();
                Answer::Counters(counters)
            }
            Question::Slices { after, limit } => {
                let limit = usize::try_from(*limit).unwrap_or(usize::MAX).min(SLICE_COUNTERS_MAX);
                let after = *after;
                // Sorted here, where there is time for it.
                if let Some(running) = &self.running {
                    running.tables.order_slices();
                }
                let told = self.workers.order_all(|done| Order::Slices { after, limit, done })?;
                let (mut slices, others) = told;
                for other in &others {
                    slices.iter_mut().zip(other).for_each(|(slice, other)| slice.merge(other));
                }
                Answer::Slices(slices)
            }
            Question::Dump => self.dump()?,
            Question::Inject(slices) => self.inject(slices.clone())?,
            Question::Injected => Answer::Injected(self.injected.clone()),
            Question::Explain(request) => self.explain(request.clone())?,
            Question::Alerts(_) => {
                Answer::Refused { reason: "the agent of this node keeps alerts, if any".into() }
            }
            Question::Check(question) => match self.check(question)? {
                Ok(sightings) => Answer::Sighted(sightings),
                Err(reason) => Answer::Refused { reason },
            },
            Question::CatchNext(request) => match self.catch_next(request)? {
                Ok(caught) => Answer::Caught(caught),
                Err(reason) => Answer::Refused { reason },
            },
        })
    }

    /// Any worker may have it: the first that came is told, and nobody looks for another.
    fn catch_next(
        &mut self,
        request: &CatchRequest,
    ) -> Result<Result<Option<CaughtPacket>, String>, DataplaneError> {
        let order = |done| Order::Catch { request: request.clone(), done };
        let (first, others) = self.workers.order_all(order)?;
        let told: Vec<_> = std::iter::once(first).chain(others).collect();
        let caught = told.iter().filter_map(|told| told.as_ref().ok()?.as_ref());
        if let Some(caught) = caught.max_by_key(|caught| caught.ago_ms).cloned() {
            let token = request.token;
            self.workers.order_all(|done| Order::ForgetCatch { token, done })?;
            return Ok(Ok(Some(caught)));
        }
        Ok(told.into_iter().find(Result::is_err).unwrap_or(Ok(None)))
    }

    /// Each probe goes into its chain by the worker that decides its flow, and is seen by it.
    fn check(
        &mut self,
        question: &CheckQuestion,
    ) -> Result<Result<Vec<Sighting>, String>, DataplaneError> {
        let told = match question {
            CheckQuestion::Inject { seal, port, frames } => {
                self.workers.order_shared(*port, frames, |frames, done| {
                    let question = CheckQuestion::Inject { seal: *seal, port: *port, frames };
                    Order::Check { question, done }
                })?
            }
            CheckQuestion::Arm { .. }
            | CheckQuestion::Sightings { .. }
            | CheckQuestion::Follow { .. } => {
                let order = |done| Order::Check { question: question.clone(), done };
                let (first, others) = self.workers.order_all(order)?;
                std::iter::once(first).chain(others).collect()
            }
        };
        let sighted: Result<Vec<_>, String> = told.into_iter().collect();
        Ok(sighted.map(|sighted| sighted.into_iter().flatten().collect()))
    }

    /// The rehearsal is made and told of here, where there is time; the worker only runs it.
    fn explain(&mut self, request: ExplainRequest) -> Result<Answer, DataplaneError> {
        let Some(running) = &self.running else {
            return Ok(Answer::Refused { reason: "this data plane has no program yet".into() });
        };
        let (node, tables) = (self.config.node.clone(), Arc::clone(&running.tables));
        let (at, frame) = (request.at.clone(), request.frame.clone());
        let rehearsal = Box::new(Rehearsal::new(node, tables, request));
        let order = |done| Order::Rehearse { rehearsal, done };
        let rehearsed = self.workers.order_decider(&at, &frame, order)?;
        Ok(match rehearsed.reply() {
            Ok(reply) => Answer::Explained(Box::new(reply)),
            Err(reason) => Answer::Refused { reason },
        })
    }

    // ----- programs -----

    /// Puts tables in force.
    fn order_tables(&mut self, mut tables: Tables) -> Result<Arc<Tables>, DataplaneError> {
        // What the kernel knows is of the program before.
        self.open_now()?;
        self.keep_injected(&mut tables);
        if self.kernel_path.is_some() {
            tables.weigh();
        }
        tables.prepare_functions(self.workers.count());
        self.messages.keep_of(&tables);
        self.keeper.keep_only(tables.functions().collect());
        let tables = Arc::new(tables);
        let is_inherited = std::mem::take(&mut self.has_predecessor);
        self.workers.order_at_once(|done| Order::Tables {
            tables: Arc::clone(&tables),
            is_inherited,
            done,
        })?;
        Ok(tables)
    }

    /// What is in the way of the program in force.
    fn troubles(&self) -> Vec<String> {
        let no_tunnels = self.missing_underlay().and(self.no_tunnels.clone());
        let no_segments = self.no_segments.clone();
        let troubles = no_tunnels
            .into_iter()
            .chain(no_segments)
            .chain(self.narrow_underlay())
            .chain(self.injected_by_hand());
        let open = (!self.config.is_confined).then(|| WITHOUT_SANDBOX.to_owned());
        troubles.chain(self.one_for_all()).chain(self.makers.trouble()).chain(open).collect()
    }

    /// Is one of several workers the only one who decides?
    fn one_for_all(&self) -> Option<String> {
        let (workers, running) = (self.workers.count(), self.running.as_ref()?);
        (workers > 1 && running.tables.are_for_one()).then(|| {
            format!(
                "one of {workers} workers decides all packets, since a function rewrites some or a \
                 slice has a rate or delay class"
            )
        })
    }
}

struct Ready {
    newcomer: bool,
    reports: bool,
    agent: bool,
    stop: bool,
}
