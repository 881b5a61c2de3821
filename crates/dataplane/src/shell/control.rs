//! The control thread: hears agents, checks and keeps programs, makes rings, orders the worker.
//!
//! Knows the messages and in which order a program is checked, compiled, made durable, put in
//! force and acknowledged. Refuses to touch packets.

use super::agent_connection::{AgentConnection, ConnectionEnd};
use super::control_socket::ControlSocket;
use super::desk::Desk;
use super::order::{Order, Report};
use super::rings::LostPort;
use super::underlay::Underlay;
use super::{Config, DataplaneError, program_file};
use crate::engine::{Rehearsal, Tables};
use catena_io::{PacketRing, RingConfig, drop_privileges};
use catena_model::explain::ExplainRequest;
use catena_model::id::PortId;
use catena_model::{Answer, NodeProgram, Question};
use catena_protocol::message::{
    self, PortOperation, PortResult, ProgramResult, State, from_dataplane, to_dataplane,
};
use catena_protocol::program;
use catena_protocol::session::{ProgramGate, program_result};
use rustix::event::{PollFd, PollFlags, Timespec};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often tunnel sockets are tried again whose address this host did not have.
const UNDERLAY_RETRY: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// How long an agent waits that could not be let in.
const ACCEPT_REST: Duration = Duration::from_millis(200);
const ACCEPT_RETRY: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// The program in force.
struct Running {
    number: u64,
    checksum: u64,
    underlay: IpAddr,
    /// Kept so that the worker is never the one who takes old tables apart.
    tables: Arc<Tables>,
}

/// The state of the thread.
pub(super) struct Control {
    config: Config,
    socket: ControlSocket,
    agent: Option<AgentConnection>,
    desk: Desk,
    gate: ProgramGate,
    running: Option<Running>,
    /// Address of the tunnel sockets that are open.
    underlay: Option<IpAddr>,
    /// The number of the order that attached the port; 0: another agent's.
    attached: BTreeMap<PortId, u64>,
    is_confined: bool,
    /// Until when nobody is let in: there was no descriptor left for the last who came.
    deaf_until: Option<Instant>,
    /// Another data plane counted on the paths of the program that comes next.
    has_predecessor: bool,
    /// Why the tunnel sockets are not open.
    no_tunnels: Option<String>,
}

impl Control {
    pub(super) fn new(config: Config, socket: ControlSocket, desk: Desk) -> Self {
        Self {
            config,
            socket,
            agent: None,
            desk,
            gate: ProgramGate::default(),
            running: None,
            underlay: None,
            attached: BTreeMap::new(),
            is_confined: false,
            deaf_until: None,
            has_predecessor: false,
            no_tunnels: None,
        }
    }

    /// Runs what was accepted last, if it can still be read.
    pub(super) fn resume(&mut self) -> Result<(), DataplaneError> {
        let packed = match program_file::load(&self.config.state_dir) {
            Ok(Some(packed)) => packed,
            Ok(None) => {
                tracing::info!("no program yet; waiting for the agent");
                return Ok(());
            }
            Err(error) => {
                tracing::error!("starting without a program: {error}");
                self.has_predecessor = true;
                return Ok(());
            }
        };
        self.has_predecessor = true;
        match self.check(&packed) {
            Ok((program, tables)) => {
                let underlay = self.open_underlay_if_possible(program.underlay.address);
                self.use_underlay(underlay)?;
                self.put_in_force(&packed, &program, tables)?;
                tracing::info!(program = packed.number, "resumed the last program");
            }
            Err(refusal) => tracing::error!("starting without a program: {refusal}"),
        }
        Ok(())
    }

    /// Serves agents until told to stop.
    pub(super) fn serve(mut self) -> Result<(), DataplaneError> {
        loop {
            let ready = self.wait()?;
            if ready.stop {
                tracing::info!("told to stop");
                return Ok(());
            }
            if ready.reports {
                self.desk.bell().silence();
                while let Some(Report::PortLost(lost)) = self.desk.next_report()? {
                    self.port_lost(lost);
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
        }
    }

    fn wait(&self) -> Result<Ready, DataplaneError> {
        let stop = self.config.stop.as_ref().map(AsFd::as_fd);
        let agent = self.agent.as_ref().map(|agent| (agent.as_fd(), agent.interest()));
        // Whoever waits at the door would wake this thread again and again.
        let at_door = if self.deaf_until.is_some() { PollFlags::empty() } else { PollFlags::IN };
        let mut fds = vec![
            PollFd::new(&self.socket.listener, at_door),
            PollFd::new(self.desk.bell(), PollFlags::IN),
        ];
        fds.extend(agent.map(|(fd, interest)| PollFd::from_borrowed_fd(fd, interest)));
        fds.extend(stop.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        let retries = [
            self.deaf_until.map(|_| &ACCEPT_RETRY),
            self.missing_underlay().map(|_| &UNDERLAY_RETRY),
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
                // The new one counts from the beginning.
                self.attached.values_mut().for_each(|sequence| *sequence = 0);
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
            let answer = self.answer(message, agent)?;
            if let Err(end) = agent.send(answer) {
                return Ok(Err(end));
            }
        }
    }

    fn answer(
        &mut self,
        message: to_dataplane::Message,
        agent: &mut AgentConnection,
    ) -> Result<from_dataplane::Message, DataplaneError> {
        Ok(match message {
            to_dataplane::Message::Program(packed) => {
                from_dataplane::Message::ProgramResult(self.take_program(&packed)?)
            }
            to_dataplane::Message::AttachPort(attach) => {
                let (port_id, sequence) = (attach.port_id, attach.sequence);
                let refusal = self.attach(&port_id, sequence, agent.take_socket())?;
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
            to_dataplane::Message::StateRequest(_) => from_dataplane::Message::State(State {
                node: self.config.node.to_string(),
                program_number: self.running.as_ref().map_or(0, |running| running.number),
                attached_ports: self.attached.keys().map(ToString::to_string).collect(),
                process_id: std::process::id(),
            }),
        })
    }

    fn reply(&mut self, question: &Question) -> Result<Answer, DataplaneError> {
        Ok(match question {
            Question::Counters { .. } => {
                let mut counters = self.desk.order(|done| Order::Counters { done })?;
                counters.dataplane.process = std::process::id();
                counters.dataplane.troubles = self.troubles();
                Answer::Counters(counters)
            }
            Question::Explain(request) => self.explain(request.clone())?,
            Question::Check(question) => {
                let question = question.clone();
                match self.desk.order(|done| Order::Check { question, done })? {
                    Ok(sightings) => Answer::Sighted(sightings),
                    Err(reason) => Answer::Refused { reason },
                }
            }
            Question::CatchNext(request) => {
                let request = request.clone();
                match self.desk.order(|done| Order::Catch { request, done })? {
                    Ok(caught) => Answer::Caught(caught),
                    Err(reason) => Answer::Refused { reason },
                }
            }
        })
    }

    /// The rehearsal is made and told of here, where there is time; the worker only runs it.
    fn explain(&mut self, request: ExplainRequest) -> Result<Answer, DataplaneError> {
        let Some(running) = &self.running else {
            return Ok(Answer::Refused { reason: "this data plane has no program yet".into() });
        };
        let (node, tables) = (self.config.node.clone(), Arc::clone(&running.tables));
        let rehearsal = Box::new(Rehearsal::new(node, tables, request));
        let rehearsed = self.desk.order(|done| Order::Rehearse { rehearsal, done })?;
        Ok(match rehearsed.reply() {
            Ok(reply) => Answer::Explained(Box::new(reply)),
            Err(reason) => Answer::Refused { reason },
        })
    }

    // ----- programs -----

    fn take_program(&mut self, packed: &message::Program) -> Result<ProgramResult, DataplaneError> {
        let number = packed.number;
        let is_running = self
            .running
            .as_ref()
            .is_some_and(|known| (known.number, known.checksum) == (number, packed.checksum));
        if is_running {
            return Ok(program_result(number, ""));
        }
        let refusal = match self.check(packed) {
            Ok((program, tables)) => self.adopt(packed, &program, tables)?.err(),
            Err(refusal) => Some(refusal),
        };
        match &refusal {
            None => tracing::info!(program = number, "program running"),
            Some(refusal) => tracing::warn!(program = number, "program refused: {refusal}"),
        }
        Ok(program_result(number, refusal.unwrap_or_default()))
    }

    fn check(&mut self, packed: &message::Program) -> Result<(NodeProgram, Tables), String> {
        let program = program::unpack(packed).map_err(|error| error.to_string())?;
        if program.node != self.config.node {
            return Err(format!(
                "program {} is for node '{}', this is the data plane of '{}'",
                packed.number, program.node, self.config.node
            ));
        }
        self.gate.admit(packed.number)?;
        let tables = Tables::compile(&program).map_err(|error| error.to_string())?;
        Ok((program, tables))
    }

    /// Everything that may be refused comes first, then the disk, then the worker.
    fn adopt(
        &mut self,
        packed: &message::Program,
        program: &NodeProgram,
        tables: Tables,
    ) -> Result<Result<(), String>, DataplaneError> {
        let underlay = self.open_underlay_if_possible(program.underlay.address);
        if let Err(error) = program_file::save(&self.config.state_dir, packed) {
            return Ok(Err(error.to_string()));
        }
        self.use_underlay(underlay)?;
        self.put_in_force(packed, program, tables)?;
        Ok(Ok(()))
    }

    fn put_in_force(
        &mut self,
        packed: &message::Program,
        program: &NodeProgram,
        tables: Tables,
    ) -> Result<(), DataplaneError> {
        let tables = Arc::new(tables);
        let published = Arc::clone(&tables);
        let is_inherited = std::mem::take(&mut self.has_predecessor);
        self.desk.order(|done| Order::Tables { tables: published, is_inherited, done })?;
        self.running = Some(Running {
            number: packed.number,
            checksum: packed.checksum,
            underlay: program.underlay.address,
            tables,
        });
        Ok(())
    }

    /// Opens the tunnel sockets on this address; none: they are open already.
    fn open_underlay(&self, address: IpAddr) -> Result<Option<Box<Underlay>>, String> {
        if self.underlay == Some(address) {
            return Ok(None);
        }
        let opened = Underlay::open(address).map_err(|error| {
            format!(
                "the tunnel sockets cannot be opened on {address}: {error}; the underlay address \
                 must be one of this host, and its tunnel ports free"
            )
        })?;
        Ok(Some(Box::new(opened)))
    }

    /// None: they are open already, or stay closed until the host has the address; a host whose
    /// data network comes late serves its own ports all the same.
    fn open_underlay_if_possible(&mut self, address: IpAddr) -> Option<Box<Underlay>> {
        self.open_underlay(address).unwrap_or_else(|reason| {
            tracing::error!("no tunnels for now: {reason}");
            self.no_tunnels = Some(reason);
            None
        })
    }

    /// What is in the way of the program in force.
    fn troubles(&self) -> Vec<String> {
        let no_tunnels = self.missing_underlay().and(self.no_tunnels.clone());
        no_tunnels.into_iter().collect()
    }

    /// Gives the worker its tunnel sockets, and all privileges up: from here on none is needed.
    fn use_underlay(&mut self, underlay: Option<Box<Underlay>>) -> Result<(), DataplaneError> {
        let Some(underlay) = underlay else { return Ok(()) };
        let address = underlay.address();
        self.desk.order(|done| Order::Underlay { underlay, done })?;
        self.underlay = Some(address);
        tracing::info!(%address, "tunnel sockets open");
        if !self.is_confined {
            drop_privileges().map_err(DataplaneError::Confine)?;
            self.is_confined = true;
        }
        Ok(())
    }

    /// The address whose tunnel sockets should be open and are not.
    fn missing_underlay(&self) -> Option<IpAddr> {
        let wanted = self.running.as_ref()?.underlay;
        (self.underlay != Some(wanted)).then_some(wanted)
    }

    fn retry_underlay(&mut self) -> Result<(), DataplaneError> {
        if let Some(address) = self.missing_underlay()
            // Why it fails was told when the program was taken.
            && let Ok(underlay) = self.open_underlay(address)
        {
            self.use_underlay(underlay)?;
        }
        Ok(())
    }

    // ----- ports -----

    /// Answers why not.
    fn attach(
        &mut self,
        port: &str,
        sequence: u64,
        socket: Option<OwnedFd>,
    ) -> Result<Option<String>, DataplaneError> {
        let Some(socket) = socket else {
            return Ok(Some("no packet socket came beside the message".into()));
        };
        let Some(id) = parse_port(port) else {
            return Ok(Some("the port's identity cannot be read".into()));
        };
        let ring = match PacketRing::map(socket, RingConfig::default()) {
            Ok(ring) => Box::new(ring),
            Err(error) => return Ok(Some(format!("its ring cannot be made: {error}"))),
        };
        match self.desk.order(|done| Order::Attach { id, ring, done })? {
            Ok(_former) => {
                self.attached.insert(id, sequence);
                Ok(None)
            }
            Err(error) => {
                self.attached.remove(&id);
                Ok(Some(format!("its ring cannot be used: {error}")))
            }
        }
    }

    /// Answers why not.
    fn detach(&mut self, port: &str) -> Result<Option<String>, DataplaneError> {
        let Some(id) = parse_port(port) else {
            return Ok(Some("the port's identity cannot be read".into()));
        };
        self.attached.remove(&id);
        let ring = self.desk.order(|done| Order::Detach { id, done })?;
        Ok(ring.is_none().then(|| "the port is not attached".into()))
    }

    fn port_lost(&mut self, lost: LostPort) {
        let LostPort { id, errno, ring } = lost;
        drop(ring);
        let sequence = self.attached.remove(&id).unwrap_or_default();
        let error = std::io::Error::from_raw_os_error(errno);
        let reason = format!("its interface is gone ({error})");
        tracing::info!(port = %id, "port detached: {reason}");
        let operation = PortOperation::InterfaceGone;
        let message = port_result(id.to_string(), Some(reason), operation, sequence);
        if let Some(agent) = &mut self.agent
            && let Err(end) = agent.send(message)
        {
            tracing::info!("{end}; the data plane goes on");
            self.agent = None;
        }
    }
}

struct Ready {
    newcomer: bool,
    reports: bool,
    agent: bool,
    stop: bool,
}

fn port_result(
    port_id: String,
    refusal: Option<String>,
    operation: PortOperation,
    sequence: u64,
) -> from_dataplane::Message {
    let (refusal, operation) = (refusal.unwrap_or_default(), operation.into());
    from_dataplane::Message::PortResult(PortResult { port_id, refusal, operation, sequence })
}

fn parse_port(text: &str) -> Option<PortId> {
    serde_json::from_value(serde_json::Value::String(text.into())).ok()
}
