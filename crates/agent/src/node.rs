//! The one task that knows everything about the node: carries programs from the controller to the
//! data plane and the results back, and keeps the ports of the running program attached.
//!
//! Refuses to do I/O: connections and interfaces live in tasks of their own, which talk to this one
//! through bounded queues.

use crate::Config;
use crate::absence::Absence;
use crate::counters;
use crate::interfaces::{Interfaces, Opened};
use crate::link::{LinkEvent, Outgoing};
use crate::ports::Ports;
use crate::southbound::{Announcement, SessionEvent};
use catena_model::id::PortId;
use catena_model::program::PortEntry;
use catena_protocol::message::{
    Answer, AttachPort, DetachPort, FromAgent, PortOperation, PortResult, Program, ProgramResult,
    Question, State, ToAgent, from_agent, from_dataplane, to_agent, to_dataplane,
};
use catena_protocol::offers::{Offers, ReadProgram};
use catena_protocol::program;
use catena_protocol::session::{ProgramGate, program_result};
use prost::Message;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::{mpsc, watch};

/// Questions that may be open at one time; the oldest is given up.
const QUESTIONS_MAX: usize = 64;

const TOO_MANY_ORDERS: &str = "too many interfaces wait to be opened";
const DATAPLANE_GONE: &str = "the data plane of this node does not run";

/// Ports of a running program that nobody here could read: they may all be needed.
struct UnknownPorts {
    running: u64,
    attached: Vec<PortId>,
}

/// A question of the controller that was passed on.
struct Asked {
    /// The controller's number.
    request: u64,
    /// The interfaces' own counters are to be added to the answer.
    with_interfaces: bool,
}

/// The state of the node.
pub(crate) struct Node {
    config: Config,
    announce: watch::Sender<Announcement>,
    gate: ProgramGate,
    /// The program that the data plane took last.
    accepted: Option<Arc<ReadProgram>>,
    offers: Offers<Instant>,
    link: Option<mpsc::Sender<Outgoing>>,
    session: Option<mpsc::Sender<FromAgent>>,
    ports: Ports,
    unknown: Option<UnknownPorts>,
    /// Number of the last order about a port.
    sequence: u64,
    /// Ports that the data plane was told to give back, by the number of that order; their
    /// interfaces are released after it.
    leaving: BTreeMap<u64, PortEntry>,
    /// Program that is running, but acknowledged only when the state of its ports is known.
    unanswered: Option<u64>,
    /// Open questions to the data plane, by own number.
    questions: BTreeMap<u64, Asked>,
    next_question: u64,
    interfaces: Interfaces,
    absence: Absence,
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
            offers: Offers::default(),
            link: None,
            session: None,
            ports: Ports::default(),
            unknown: None,
            sequence: 0,
            leaving: BTreeMap::new(),
            unanswered: None,
            questions: BTreeMap::new(),
            next_question: 0,
            interfaces,
            absence: Absence::default(),
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
            let retries = [self.ports.next_retry(), self.offers.next_due()];
            let retry = self.link.as_ref().and_then(|_| retries.into_iter().flatten().min());
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

    /// Does what became possible: offers a program, opens interfaces that are due, tells what is
    /// known now.
    fn advance(&mut self) {
        let now = Instant::now();
        if self.link.is_some() {
            if let Some(packed) = self.offers.next(now) {
                self.send(to_dataplane::Message::Program(packed), None);
            }
            for entry in self.ports.take_due(now) {
                let id = entry.id;
                if !self.interfaces.open(entry) {
                    self.ports.missing(id, TOO_MANY_ORDERS, now);
                }
            }
        }
        let is_up = self.link.is_some();
        if is_up && self.unanswered.is_some() && !self.ports.is_settled() {
            return;
        }
        if is_up
            && self.ports.is_settled()
            && let Some(away) = self.absence.end(now)
        {
            tracing::warn!("the data plane is back after {} ms", away.as_millis());
        }
        if let Some(states) = self.ports.take_changes() {
            self.tell(from_agent::Message::PortStates(states));
        }
        if is_up && let Some(number) = self.unanswered.take() {
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
                to_agent::Message::Question(question) => self.ask(question),
                to_agent::Message::Welcome(_) => {}
            },
            // A kind of message that this version does not know.
            SessionEvent::Message(ToAgent { message: None }) => {}
        }
    }

    fn take_program(&mut self, packed: Program) {
        let number = packed.number;
        match self.admit(packed) {
            Ok(program) => {
                tracing::info!(program = number, "program received");
                self.offers.take(Arc::new(program), Instant::now());
            }
            Err(refusal) => self.refuse(number, refusal),
        }
    }

    fn admit(&mut self, packed: Program) -> Result<ReadProgram, String> {
        let program = program::unpack(&packed).map_err(|error| error.to_string())?;
        if program.node != self.config.node {
            return Err(format!(
                "program {} is for node '{}', this is '{}'",
                packed.number, program.node, self.config.node
            ));
        }
        self.gate.admit(packed.number)?;
        Ok(ReadProgram { packed, program })
    }

    fn refuse(&mut self, number: u64, refusal: String) {
        tracing::warn!(program = number, "program refused: {refusal}");
        self.tell(from_agent::Message::ProgramResult(program_result(number, refusal)));
    }

    fn ask(&mut self, question: Question) {
        self.next_question += 1;
        let asked = Asked {
            request: question.request,
            with_interfaces: counters::are_wanted_with_interfaces(&question.body),
        };
        let question = Question { request: self.next_question, body: question.body };
        if self.send(to_dataplane::Message::Question(question), None) {
            self.questions.insert(self.next_question, asked);
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
            LinkEvent::Up { state, was_started, outgoing } => {
                self.link = Some(outgoing);
                let resumed = state.program_number > 0;
                let is_other = self.absence.answered(state.process_id, was_started, resumed);
                self.interfaces.found(is_other);
                self.take_over(&state);
            }
            LinkEvent::Down => {
                self.link = None;
                self.questions.clear();
                self.absence.begin(Instant::now());
                self.interfaces.lost(self.ports.attached_entries());
                self.ports.lost(DATAPLANE_GONE, Instant::now());
            }
            LinkEvent::Message(message) => match message {
                from_dataplane::Message::ProgramResult(result) => self.take_result(result),
                from_dataplane::Message::PortResult(result) => self.take_port_result(&result),
                from_dataplane::Message::Answer(answer) => self.answer(answer),
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
        let attached: Vec<PortId> =
            state.attached_ports.iter().filter_map(|id| parse_port(id)).collect();
        self.take_over_ports(attached, running);
        self.offers.begin_again(Instant::now());
        if let Some(accepted) = self.accepted.clone()
            && accepted.number() > running
            && self.offers.is_empty()
        {
            self.offers.take(accepted, Instant::now());
        }
        let known = if self.accepted_number() == running { running } else { 0 };
        self.announce_running(known);
    }

    fn take_over_ports(&mut self, attached: Vec<PortId>, running: u64) {
        let leaving = std::mem::take(&mut self.leaving).into_values();
        if self.accepted_number() < running {
            // Packets flow through them: better a stray too many than one port torn out.
            self.ports = Ports::default();
            self.unknown = Some(UnknownPorts { running, attached });
            return leaving.for_each(|entry| self.release(entry));
        }
        self.unknown = None;
        let strays = self.ports.adopt(&attached, Instant::now());
        let (again, over): (Vec<_>, Vec<_>) = leaving.partition(|entry| strays.contains(&entry.id));
        for stray in strays.iter().filter(|id| again.iter().all(|entry| entry.id != **id)) {
            self.detach(*stray, None);
        }
        again.into_iter().for_each(|entry| self.detach(entry.id, Some(entry)));
        over.into_iter().for_each(|entry| self.release(entry));
    }

    /// A new agent knows the ports of a running program only from the data plane's own file.
    fn learn_from_file(&mut self, running: u64) {
        match read_program(&self.config.dataplane.program_file) {
            Ok(packed) if packed.number == running => match program::unpack(&packed) {
                Ok(program) => {
                    for entry in self.ports.want(&program.ports, Instant::now()) {
                        self.release(entry);
                    }
                    self.accepted = Some(Arc::new(ReadProgram { packed, program }));
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

    fn take_result(&mut self, result: ProgramResult) {
        let ProgramResult { number, refusal } = result;
        let now = Instant::now();
        if !refusal.is_empty() {
            if self.offers.refused(number, &refusal, now) {
                self.refuse(number, refusal);
            }
            return;
        }
        let Some(accepted) = self.offers.accepted(number) else { return };
        tracing::info!(program = number, "program running");
        for entry in self.ports.want(&accepted.program.ports, now) {
            self.detach(entry.id, Some(entry));
        }
        if let Some(unknown) = self.unknown.take() {
            let strays = if unknown.running == number {
                self.ports.adopt(&unknown.attached, now)
            } else {
                // The others are attached anew: who knows which interface they had.
                self.ports.without(&unknown.attached)
            };
            strays.into_iter().for_each(|stray| self.detach(stray, None));
        }
        self.accepted = Some(accepted);
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
        self.accepted.as_ref().map_or(0, |accepted| accepted.number())
    }

    fn answer(&mut self, answer: Answer) {
        let Some(asked) = self.questions.remove(&answer.request) else { return };
        let Asked { request, with_interfaces } = asked;
        if !with_interfaces {
            return self.tell(from_agent::Message::Answer(Answer { request, body: answer.body }));
        }
        let Some(session) = self.session.clone() else { return };
        let (entries, interfaces) = (self.ports.attached_entries(), self.interfaces.clone());
        let absences = self.absence.known();
        tokio::spawn(async move {
            let body = counters::complete(answer.body, entries, absences, &interfaces).await;
            let message = from_agent::Message::Answer(Answer { request, body });
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
                self.sequence += 1;
                self.ports.sent(entry.id, self.sequence);
                let (port_id, sequence) = (entry.id.to_string(), self.sequence);
                let attach = AttachPort { port_id, sequence };
                self.send(to_dataplane::Message::AttachPort(attach), Some(socket));
            }
            Err(reason) => self.ports.missing(entry.id, &reason, Instant::now()),
        }
    }

    fn take_port_result(&mut self, result: &PortResult) {
        let Some(id) = parse_port(&result.port_id) else { return };
        match result.operation() {
            PortOperation::Attach | PortOperation::InterfaceGone => {
                // Of a port that left and came back meanwhile, only the last order counts.
                if !self.ports.is_current(id, result.sequence) {
                    return;
                }
                if result.refusal.is_empty() {
                    self.ports.attached(id);
                } else {
                    self.ports.missing(id, &result.refusal, Instant::now());
                }
            }
            PortOperation::Detach => {
                if let Some(entry) = self.leaving.remove(&result.sequence) {
                    self.release(entry);
                }
            }
            // A kind that this version does not know.
            PortOperation::Unknown => {}
        }
    }

    /// Lets the data plane give a port back, and the host its interface after that.
    fn detach(&mut self, id: PortId, entry: Option<PortEntry>) {
        self.sequence += 1;
        if let Some(entry) = entry {
            self.leaving.insert(self.sequence, entry);
        }
        let detach = DetachPort { port_id: id.to_string(), sequence: self.sequence };
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
