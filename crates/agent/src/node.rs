//! The one task that knows everything about the node: carries programs from the controller to the
//! data plane and the results back, and keeps the ports of the running program attached.
//!
//! Refuses to do I/O: connections and interfaces live in tasks of their own, which talk to this one
//! through bounded queues.

use crate::Config;
use crate::counters;
use crate::interfaces::{Interfaces, Opened};
use crate::link::{LinkEvent, Outgoing};
use crate::ports::Ports;
use crate::southbound::{Announcement, SessionEvent};
use catena_model::NodeProgram;
use catena_model::id::PortId;
use catena_model::program::PortEntry;
use catena_protocol::message::{
    AttachPort, Counters, CountersRequest, DetachPort, FromAgent, PortResult, Program,
    ProgramResult, State, ToAgent, from_agent, from_dataplane, to_agent, to_dataplane,
};
use catena_protocol::program;
use catena_protocol::session::{ProgramGate, program_result};
use prost::Message;
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Instant;
use tokio::sync::{mpsc, watch};

/// Questions for counters that may be open at one time; the oldest is given up.
const QUESTIONS_MAX: usize = 64;

/// A program with its packed form.
#[derive(Clone, Debug)]
struct Whole {
    packed: Program,
    program: NodeProgram,
}

/// The state of the node.
pub(crate) struct Node {
    config: Config,
    announce: watch::Sender<Announcement>,
    gate: ProgramGate,
    /// The program that the data plane took last.
    accepted: Option<Whole>,
    /// Programs whose result the data plane owes, oldest first; without data plane the newest.
    candidates: VecDeque<Whole>,
    link: Option<mpsc::Sender<Outgoing>>,
    session: Option<mpsc::Sender<FromAgent>>,
    ports: Ports,
    /// Ports that the data plane was told to give back; their interfaces are released after it.
    leaving: BTreeMap<PortId, PortEntry>,
    /// Program that is running, but acknowledged only when the state of its ports is known.
    unanswered: Option<u64>,
    /// Own number of each question for counters → the controller's.
    questions: BTreeMap<u64, u64>,
    next_question: u64,
    interfaces: Interfaces,
}

impl Node {
    /// A node that knows nothing yet.
    pub(crate) fn new(
        config: Config,
        announce: watch::Sender<Announcement>,
        interfaces: Interfaces,
    ) -> Self {
        Self {
            config,
            announce,
            gate: ProgramGate::default(),
            accepted: None,
            candidates: VecDeque::new(),
            link: None,
            session: None,
            ports: Ports::default(),
            leaving: BTreeMap::new(),
            unanswered: None,
            questions: BTreeMap::new(),
            next_question: 0,
            interfaces,
        }
    }

    /// Runs until one of the two connections is given up for good.
    pub(crate) async fn run(
        mut self,
        mut from_link: mpsc::Receiver<LinkEvent>,
        mut from_session: mpsc::Receiver<SessionEvent>,
        mut from_opening: mpsc::Receiver<Opened>,
    ) {
        let mut link_changes = self.interfaces.watch();
        loop {
            self.advance();
            let retry = self.link.as_ref().and_then(|_| self.ports.next_retry());
            tokio::select! {
                event = from_link.recv() => match event {
                    Some(event) => self.take_link_event(event),
                    None => return,
                },
                event = from_session.recv() => match event {
                    Some(event) => self.take_session_event(event),
                    None => return,
                },
                Some(opened) = from_opening.recv() => self.take_opened(opened),
                Some(()) = link_changes.recv() => self.ports.hurry(Instant::now()),
                () = sleep_until(retry) => {}
            }
        }
    }

    /// Does what became possible: opens interfaces that are due, tells what is known now.
    fn advance(&mut self) {
        if self.link.is_some() {
            for entry in self.ports.take_due(Instant::now()) {
                self.interfaces.open(entry);
            }
        }
        if self.unanswered.is_some() && !self.ports.is_settled() {
            return;
        }
        if let Some(states) = self.ports.take_changes() {
            self.tell(from_agent::Message::PortStates(states));
        }
        if let Some(number) = self.unanswered.take() {
            self.tell(from_agent::Message::ProgramResult(program_result(number, "")));
        }
    }

    // ----- the controller -----

    fn take_session_event(&mut self, event: SessionEvent) {
        match event {
            SessionEvent::Up { outgoing } => {
                self.session = Some(outgoing);
                self.tell(from_agent::Message::PortStates(self.ports.states()));
            }
            SessionEvent::Down => {
                self.session = None;
                self.questions.clear();
            }
            SessionEvent::Message(ToAgent { message: Some(message) }) => match message {
                to_agent::Message::Program(packed) => self.take_program(packed),
                to_agent::Message::CountersRequest(question) => self.ask(question.request),
                to_agent::Message::Welcome(_) => {}
            },
            // A kind of message that this version does not know.
            SessionEvent::Message(ToAgent { message: None }) => {}
        }
    }

    fn take_program(&mut self, packed: Program) {
        let number = packed.number;
        match self.admit(packed) {
            Ok(whole) => {
                tracing::info!(program = number, "program received");
                if self.link.is_none() {
                    self.candidates.clear();
                }
                self.candidates.push_back(whole);
                self.offer_last();
            }
            Err(refusal) => self.refuse(number, refusal),
        }
    }

    fn admit(&mut self, packed: Program) -> Result<Whole, String> {
        let program = program::unpack(&packed).map_err(|error| error.to_string())?;
        if program.node != self.config.node {
            return Err(format!(
                "program {} is for node '{}', this is '{}'",
                packed.number, program.node, self.config.node
            ));
        }
        self.gate.admit(packed.number)?;
        Ok(Whole { packed, program })
    }

    fn refuse(&mut self, number: u64, refusal: String) {
        tracing::warn!(program = number, "program refused: {refusal}");
        self.tell(from_agent::Message::ProgramResult(program_result(number, refusal)));
    }

    fn ask(&mut self, request: u64) {
        self.next_question += 1;
        let question = CountersRequest { request: self.next_question };
        if self.send(to_dataplane::Message::CountersRequest(question), None) {
            self.questions.insert(self.next_question, request);
            if self.questions.len() > QUESTIONS_MAX {
                self.questions.pop_first();
            }
        }
    }

    fn tell(&mut self, message: from_agent::Message) {
        let Some(session) = &self.session else { return };
        if session.try_send(FromAgent { message: Some(message) }).is_err() {
            // Letting go of the sender ends a session that does not keep up; a new one begins.
            self.session = None;
        }
    }

    // ----- the data plane -----

    fn take_link_event(&mut self, event: LinkEvent) {
        match event {
            LinkEvent::Up { state, outgoing } => {
                self.link = Some(outgoing);
                self.take_over(&state);
            }
            LinkEvent::Down => {
                self.link = None;
                self.questions.clear();
            }
            LinkEvent::Message(message) => match message {
                from_dataplane::Message::ProgramResult(result) => self.take_result(result),
                from_dataplane::Message::PortResult(result) => self.take_port_result(&result),
                from_dataplane::Message::Counters(counters) => self.answer(counters),
                from_dataplane::Message::State(_) => {}
            },
        }
    }

    /// Brings a data plane that just answered and this agent to the same program and ports.
    fn take_over(&mut self, state: &State) {
        let running = state.program_number;
        self.gate = ProgramGate::at(self.gate.newest().max(running));
        if self.accepted_number() < running {
            self.learn_from_file(running);
        }
        for entry in std::mem::take(&mut self.leaving).into_values() {
            self.release(entry);
        }
        let attached: Vec<PortId> =
            state.attached_ports.iter().filter_map(|id| parse_port(id)).collect();
        for stray in self.ports.adopt(&attached, Instant::now()) {
            self.send_detach(stray);
        }
        self.candidates.drain(..self.candidates.len().saturating_sub(1));
        if self.candidates.is_empty() && self.accepted_number() > running {
            self.candidates.extend(self.accepted.clone());
        }
        self.offer_last();
        let known = if self.accepted_number() == running { running } else { 0 };
        self.announce_running(known);
    }

    /// A new agent knows the ports of a running program only from the data plane's own file.
    fn learn_from_file(&mut self, running: u64) {
        match read_program(&self.config.dataplane.program_file) {
            Ok(packed) if packed.number == running => match program::unpack(&packed) {
                Ok(program) => {
                    for entry in self.ports.want(&program.ports, Instant::now()) {
                        self.release(entry);
                    }
                    self.accepted = Some(Whole { packed, program });
                }
                Err(error) => tracing::warn!("the running program is unknown here: {error}"),
            },
            Ok(packed) => tracing::warn!(
                running,
                on_disk = packed.number,
                "the running program is unknown here; the controller will send it again"
            ),
            Err(error) => tracing::warn!("the running program is unknown here: {error}"),
        }
    }

    fn offer_last(&mut self) {
        if let Some(whole) = self.candidates.back() {
            let message = to_dataplane::Message::Program(whole.packed.clone());
            self.send(message, None);
        }
    }

    fn take_result(&mut self, result: ProgramResult) {
        let ProgramResult { number, refusal } = result;
        // The data plane answers in order: what was sent before has no answer to come.
        let place = self.candidates.iter().position(|whole| whole.packed.number == number);
        let whole = place.and_then(|place| self.candidates.drain(..=place).next_back());
        if !refusal.is_empty() {
            return self.refuse(number, refusal);
        }
        let Some(whole) = whole else { return };
        tracing::info!(program = number, "program running");
        for entry in self.ports.want(&whole.program.ports, Instant::now()) {
            self.send_detach(entry.id);
            self.leaving.insert(entry.id, entry);
        }
        self.accepted = Some(whole);
        self.unanswered = Some(number);
        self.announce_running(number);
    }

    fn announce_running(&self, number: u64) {
        self.announce.send_modify(|announcement| {
            if number < announcement.running.unwrap_or_default() {
                announcement.epoch += 1;
            }
            announcement.running = Some(number);
        });
    }

    fn accepted_number(&self) -> u64 {
        self.accepted.as_ref().map_or(0, |whole| whole.packed.number)
    }

    fn answer(&mut self, counters: Counters) {
        let Some(request) = self.questions.remove(&counters.request) else { return };
        let Some(session) = self.session.clone() else { return };
        let (entries, interfaces) = (self.ports.attached_entries(), self.interfaces.clone());
        tokio::spawn(async move {
            let body = counters::complete(counters.body, entries, &interfaces).await;
            let message = from_agent::Message::Counters(Counters { request, body });
            // A session that is gone needs no answer.
            session.send(FromAgent { message: Some(message) }).await.ok();
        });
    }

    /// Was it sent?
    fn send(&mut self, message: to_dataplane::Message, socket: Option<OwnedFd>) -> bool {
        let Some(link) = &self.link else { return false };
        let is_sent = link.try_send(Outgoing { message, socket }).is_ok();
        if !is_sent {
            // Letting go of the sender ends a connection that does not keep up; a new one begins.
            self.link = None;
        }
        is_sent
    }

    // ----- ports -----

    fn take_opened(&mut self, opened: Opened) {
        let Opened { entry, socket } = opened;
        if !self.ports.is_wanted(&entry) {
            return self.release(entry);
        }
        match socket {
            Ok(socket) => {
                let attach = AttachPort { port_id: entry.id.to_string() };
                self.send(to_dataplane::Message::AttachPort(attach), Some(socket));
            }
            Err(reason) => self.ports.missing(entry.id, &reason, Instant::now()),
        }
    }

    fn take_port_result(&mut self, result: &PortResult) {
        let Some(id) = parse_port(&result.port_id) else { return };
        if let Some(entry) = self.leaving.remove(&id) {
            self.release(entry);
        } else if result.refusal.is_empty() {
            self.ports.attached(id);
        } else {
            self.ports.missing(id, &result.refusal, Instant::now());
        }
    }

    fn send_detach(&mut self, id: PortId) {
        let detach = DetachPort { port_id: id.to_string() };
        self.send(to_dataplane::Message::DetachPort(detach), None);
    }

    /// Gives an interface back to the host, unless another port of the program is behind it.
    fn release(&self, entry: PortEntry) {
        if !self.ports.uses(&entry.attachment) {
            self.interfaces.release(entry);
        }
    }
}

/// The file is read whole by one task once per data plane: nothing else waits for it meanwhile.
fn read_program(path: &Path) -> std::io::Result<Program> {
    Ok(Program::decode(std::fs::read(path)?.as_slice())?)
}

fn parse_port(text: &str) -> Option<PortId> {
    text.parse().ok().map(PortId)
}

async fn sleep_until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment.into()).await,
        None => std::future::pending().await,
    }
}
