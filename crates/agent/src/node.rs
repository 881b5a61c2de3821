//! The one task that knows everything about the node: carries programs from the controller to the
//! data plane and the results back, and keeps the ports of the running program attached.
//!
//! Refuses to do I/O: connections and interfaces live in tasks of their own, which talk to this one
//! through bounded queues.

mod kernel_path;
mod links;
mod path_ends;
mod ports;
mod setups;

use links::LinkTroubles;
use ports::Leaving;
pub(crate) use ports::parse_port;

use crate::Config;
use crate::absence::Absence;
use crate::counters::{self, Wanted};
use crate::export::Exporter;
use crate::interfaces::{Interfaces, Seen};
use crate::link::{LinkEvent, Outgoing};
use crate::links::Links;
use crate::messages::Messages;
use crate::orchestrator::{Crew, InstanceNews, Processes};
use crate::path_ends::EndsForController;
use crate::ports::Ports;
use crate::punt_watch::PuntDevice;
use crate::southbound::{Announcement, SessionEvent};
use catena_model::entry::ProgramVersion;
use catena_model::question::AlertQuestion;
use catena_protocol::message::{
    Answer, Delta, FromAgent, LinkStates, ProgramResult, Question, State, ToAgent, from_agent,
    from_dataplane, to_agent, to_dataplane,
};
use catena_protocol::offers::Offers;
use catena_protocol::session::{ProgramGate, program_result};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::time::Instant;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

/// Questions that may be open at one time; the oldest is given up.
const QUESTIONS_MAX: usize = 64;

const TOO_MANY_ORDERS: &str = "too many interfaces wait to be opened";
const DATAPLANE_GONE: &str = "the data plane of this node does not run";

/// A question of the controller that was passed on.
struct Asked {
    /// The controller's number.
    request: u64,
    /// What is to be added to the answer.
    wanted: Wanted,
}

/// The state of the node.
pub(crate) struct Node {
    config: Config,
    announce: watch::Sender<Announcement>,
    gate: ProgramGate,
    /// What the data plane runs, as it said last.
    running: ProgramVersion,
    offers: Offers<Instant>,
    link: Option<mpsc::Sender<Outgoing>>,
    session: Option<mpsc::Sender<FromAgent>>,
    ports: Ports,
    /// Number of the last order about a port.
    sequence: u64,
    /// Ports that the data plane was told to give back, by the number of that order; their
    /// interfaces are released after it.
    leaving: BTreeMap<u64, Leaving>,
    /// Program that is running, but acknowledged only when the state of its ports is known.
    unanswered: Option<u64>,
    /// The data plane came with its program, which is told only when the state of its ports is known.
    must_announce: bool,
    /// Open questions to the data plane, by own number.
    questions: BTreeMap<u64, Asked>,
    next_question: u64,
    interfaces: Interfaces,
    absence: Absence,
    kernel_path: KernelPath,
    /// Who keeps the kernel's program before the underlay.
    underlay: Option<JoinHandle<()>>,
    /// The data plane has none of the kernel's tables: what an earlier agent left must go.
    must_free_underlay: bool,
    /// The way from the kernel up to the engine, as it was last seen.
    punt_device: PuntDevice,
    /// What the program says of links.
    programmed: watch::Sender<Links>,
    /// How the links are.
    links: LinkStates,
    link_troubles: LinkTroubles,
    /// The data plane was told that there is a session with the controller.
    told_presence: bool,
    /// What functions have handed out.
    messages: Messages,
    /// Packets that came to the end of their path.
    path_ends: EndsForController,
    /// The same on their way to collectors of others.
    exporter: Exporter,
    /// The instances that this node runs itself.
    crew: Crew<Processes>,
}

/// How far the data plane of this connection has come with the kernel's tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KernelPath {
    /// It has none, or none of this agent's.
    None,
    /// They are on their way; ports wait for the answer.
    Given,
    /// It uses them.
    Used,
}

impl Node {
    /// A node that knows nothing yet.
    pub(crate) fn new(
        config: Config,
        announce: watch::Sender<Announcement>,
        interfaces: Interfaces,
        crew: Crew<Processes>,
    ) -> Self {
        Self {
            exporter: Exporter::new(&config.exports),
            config,
            announce,
            gate: ProgramGate::default(),
            running: ProgramVersion::default(),
            offers: Offers::default(),
            link: None,
            session: None,
            ports: Ports::default(),
            sequence: 0,
            leaving: BTreeMap::new(),
            unanswered: None,
            must_announce: false,
            questions: BTreeMap::new(),
            next_question: 0,
            interfaces,
            absence: Absence::default(),
            kernel_path: KernelPath::None,
            underlay: None,
            must_free_underlay: false,
            punt_device: PuntDevice::default(),
            programmed: watch::Sender::new(Links::default()),
            links: LinkStates::default(),
            link_troubles: LinkTroubles::default(),
            told_presence: false,
            messages: Messages::new(),
            path_ends: EndsForController::default(),
            crew,
        }
    }

    /// Runs until one of the two connections is given up for good.
    pub(crate) async fn run(
        mut self,
        mut from_link: mpsc::Receiver<LinkEvent>,
        mut from_session: mpsc::Receiver<SessionEvent>,
        mut from_opening: mpsc::Receiver<Seen>,
        mut from_instances: mpsc::Receiver<InstanceNews>,
    ) {
        let mut link_changes = self.interfaces.watch();
        let mut punt_device = self.interfaces.follow_punt_device();
        let mut links = self.follow_links();
        self.interfaces.keep_locator(&self.config.node, self.programmed.subscribe());
        loop {
            self.advance();
            let more = self.pass_path_ends(Instant::now());
            let retries = [self.ports.next_retry(), self.offers.next_due()];
            let retry = self.link.as_ref().and_then(|_| retries.into_iter().flatten().min());
            let retry =
                [retry, self.link_troubles.next_release(), more].into_iter().flatten().min();
            tokio::select! {
                event = from_link.recv() => match event {
                    Some(event) => self.take_link_event(event).await,
                    None => return,
                },
                event = from_session.recv() => match event {
                    Some(event) => self.take_session_event(event),
                    None => return,
                },
                Some(seen) = from_opening.recv() => self.take_seen(seen),
                Some(news) = from_instances.recv() => match news {
                    InstanceNews::State(state) => self.crew.learn(state),
                    InstanceNews::Alert(instance, line) => self.messages.take_alert(instance, line),
                },
                Ok(()) = punt_device.changed() => {
                    let seen = punt_device.borrow_and_update().clone();
                    self.take_punt_device(seen).await;
                }
                Ok(()) = links.states.changed() => {
                    let seen = links.states.borrow_and_update().clone();
                    self.take_links(seen);
                }
                Ok(()) = links.dark.changed() => {
                    self.link_troubles.dark = links.dark.borrow_and_update().clone();
                }
                Some(()) = link_changes.recv() => self.ports.hurry(Instant::now()),
                () = sleep_until(retry) => {}
            }
        }
    }

    /// Does what became possible: offers a program, opens interfaces that are due, tells what is
    /// known now.
    fn advance(&mut self) {
        let now = Instant::now();
        self.follow_underlay();
        self.hinder_ports();
        self.tell_carriers();
        self.tell_presence();
        if self.link_troubles.release(now) {
            self.tell_links();
        }
        if self.link.is_some() {
            if let Some(delta) = self.offers.next(now) {
                self.send(to_dataplane::Message::Delta(delta), Vec::new());
            }
            let by_kernel = self.kernel_path == KernelPath::Used;
            let may_open = self.kernel_path != KernelPath::Given;
            let due = if may_open { self.ports.take_due(now) } else { Vec::new() };
            for entry in due {
                let id = entry.id;
                if !self.interfaces.open(entry, by_kernel) {
                    self.ports.missing(id, TOO_MANY_ORDERS, now);
                }
            }
        }
        let is_up = self.link.is_some();
        // As long as no data plane says which ports it has, all are needed.
        self.crew.follow(|port| !is_up || self.ports.entry(port).is_some());
        if let Some(states) = self.crew.take_news() {
            self.tell(from_agent::Message::InstanceStates(states));
        }
        if is_up && self.unanswered.is_some() && !self.ports.is_settled() {
            return;
        }
        if is_up && self.ports.is_settled() {
            if let Some(away) = self.absence.end(now) {
                tracing::warn!("the data plane is back after {} ms", away.as_millis());
            }
            if self.must_announce {
                self.announce_running();
            }
        }
        if let Some(states) = self.ports.take_changes() {
            self.tell(from_agent::Message::PortStates(states));
            self.tell_links();
        }
        if is_up && let Some(number) = self.unanswered.take() {
            self.tell(from_agent::Message::ProgramResult(program_result(number, "")));
        }
    }

    // ----- the controller -----

    fn take_session_event(&mut self, event: SessionEvent) {
        match event {
            SessionEvent::Up { outgoing, protocol } => {
                self.session = Some(outgoing);
                self.path_ends.begin(protocol);
                self.tell(from_agent::Message::PortStates(self.ports.states()));
                self.tell_links();
                self.crew.tell_anew();
            }
            SessionEvent::Down => {
                self.session = None;
                self.path_ends.end();
                self.questions.clear();
            }
            SessionEvent::Message(ToAgent { message: Some(message) }) => match message {
                to_agent::Message::Delta(delta) => self.take_delta(delta),
                to_agent::Message::Question(question) => self.ask(question),
                to_agent::Message::FlowAnswers(answers) => {
                    self.pass_answers(answers);
                }
                to_agent::Message::Instances(told) => self.crew.take(&told),
                to_agent::Message::Welcome(_) => {}
            },
            // A kind of message that this version does not know.
            SessionEvent::Message(ToAgent { message: None }) => {}
        }
    }

    /// What is in it is the data plane's to judge.
    fn take_delta(&mut self, delta: Delta) {
        let number = delta.number;
        match self.admit(&delta) {
            Ok(()) => {
                tracing::info!(program = number, is_last = delta.is_last, "program received");
                self.offers.take(delta, Instant::now());
            }
            Err(refusal) => self.refuse(number, refusal),
        }
    }

    fn admit(&mut self, delta: &Delta) -> Result<(), String> {
        let Delta { node, number, .. } = delta;
        if node != self.config.node.as_str() {
            let own = &self.config.node;
            return Err(format!("program {number} is for node '{node}', this is '{own}'"));
        }
        self.gate.admit(*number)
    }

    fn refuse(&mut self, number: u64, refusal: String) {
        tracing::warn!(program = number, "program refused: {refusal}");
        self.tell(from_agent::Message::ProgramResult(program_result(number, refusal)));
    }

    fn ask(&mut self, question: Question) {
        let Question { request, body } = question;
        // What this agent does not know the data plane may.
        let known = serde_json::from_slice(&body).ok();
        if let Some(catena_model::Question::Alerts(asked)) = known {
            return self.answer_alerts(request, &asked);
        }
        self.next_question += 1;
        let wanted = known.as_ref().map_or_else(Wanted::default, Wanted::of);
        let asked = Asked { request, wanted };
        let question = Question { request: self.next_question, body };
        if self.send(to_dataplane::Message::Question(question), Vec::new()) {
            self.questions.insert(self.next_question, asked);
            if self.questions.len() > QUESTIONS_MAX {
                self.questions.pop_first();
            }
        }
    }

    fn answer_alerts(&mut self, request: u64, asked: &AlertQuestion) {
        let answer = catena_model::Answer::Alerts(self.messages.alerts(asked));
        match serde_json::to_vec(&answer) {
            Ok(body) => self.tell(from_agent::Message::Answer(Answer { request, body })),
            Err(error) => tracing::warn!("alerts cannot be told: {error}"),
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

    async fn take_link_event(&mut self, event: LinkEvent) {
        match event {
            LinkEvent::Up { state, was_started, outgoing } => {
                self.leave_underlay();
                self.interfaces.tell_underlay_devices(outgoing.clone());
                self.link = Some(outgoing);
                self.link_troubles.forget();
                self.told_presence = false;
                let resumed = state.program_number > 0;
                let is_other = self.absence.answered(state.process_id, was_started, resumed);
                self.interfaces.found(is_other);
                self.share_kernel_path(&state).await;
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
                from_dataplane::Message::KernelPathResult(result) => {
                    self.kernel_path = if result.refusal.is_empty() {
                        KernelPath::Used
                    } else {
                        tracing::warn!("every packet is decided one by one: {}", result.refusal);
                        self.must_free_underlay = true;
                        KernelPath::None
                    };
                }
                from_dataplane::Message::LinksUnheard(unheard) => self.take_unheard(&unheard),
                from_dataplane::Message::FlowsAsked(asked) => self.ask_for_flows(asked),
                from_dataplane::Message::FunctionMessages(messages) => self.messages.take(messages),
                from_dataplane::Message::PathEnds(mut ends) => {
                    self.exporter.take(&mut ends.ends);
                    self.path_ends.take(ends);
                }
                from_dataplane::Message::State(_)
                | from_dataplane::Message::KernelUnderlayResult(_)
                | from_dataplane::Message::UnderlayDevicesResult(_) => {}
            },
        }
    }

    /// Brings a data plane that just answered and this agent to the same program and ports.
    fn take_over(&mut self, state: &State) {
        self.running = state.version();
        let number = self.running.number;
        self.gate = ProgramGate::at(self.gate.newest().max(number.0));
        // What was lost with the disk of the former must not be acknowledged.
        self.unanswered.take_if(|unanswered| *unanswered > number.0);
        self.take_over_ports(state);
        self.offers.begin_again(Instant::now());
        // A session that told something else is wrong already; a first one can wait for the ports.
        self.must_announce = true;
        if self.announce.borrow().is_contradicted_by(self.running) {
            self.announce_running();
        }
    }

    fn take_result(&mut self, mut result: ProgramResult) {
        let ports = std::mem::take(&mut result.ports);
        if result.needs_whole {
            self.offers.give_up(result.number);
            return self.tell(from_agent::Message::ProgramResult(result));
        }
        let (number, now) = (result.number, Instant::now());
        if !result.refusal.is_empty() {
            if self.offers.refused(number, &result.refusal, now) {
                self.refuse(number, result.refusal);
            }
            return;
        }
        let Some(offer) = self.offers.accepted(number) else { return };
        if result.is_part {
            // A part of a newer session waits: who sent that awaits its own answer.
            if self.offers.is_empty() {
                self.tell(from_agent::Message::ProgramResult(result));
            }
            return;
        }
        tracing::info!(program = number, "program running");
        self.running = offer.to_version();
        let changes = ports::read(&ports);
        self.programmed.send_modify(|links| links.edit(&changes));
        for entry in self.ports.edit(ports::edits(changes), now) {
            self.detach(Leaving::Port(entry));
        }
        self.unanswered = Some(number);
        self.announce_running();
    }

    fn announce_running(&mut self) {
        self.must_announce = false;
        let running = self.running;
        self.announce.send_modify(|announcement| {
            announcement.epoch += u64::from(announcement.is_contradicted_by(running));
            announcement.running = Some(running);
        });
    }

    fn answer(&mut self, answer: Answer) {
        let Some(asked) = self.questions.remove(&answer.request) else { return };
        let Asked { request, wanted } = asked;
        if wanted.is_none() {
            return self.tell(from_agent::Message::Answer(Answer { request, body: answer.body }));
        }
        let Some(session) = self.session.clone() else { return };
        let (entries, interfaces) = (self.ports.attached_entries(), self.interfaces.clone());
        let (absences, messages) = (self.absence.known(), self.messages.counts.clone());
        let exported = self.exporter.exported.clone();
        tokio::spawn(async move {
            let known = counters::Completion {
                ports: entries,
                absences,
                interfaces: &interfaces,
                messages: &messages,
                exported: &exported,
            };
            let body = counters::complete(answer.body, wanted, known).await;
            let message = from_agent::Message::Answer(Answer { request, body });
            // A session that is gone needs no answer.
            session.send(FromAgent { message: Some(message) }).await.ok();
        });
    }

    /// Was it sent?
    fn send(&mut self, message: to_dataplane::Message, sockets: Vec<OwnedFd>) -> bool {
        let Some(link) = &self.link else { return false };
        let is_sent = link.try_send(Outgoing { message, sockets }).is_ok();
        if !is_sent {
            // Letting go of the sender ends a connection that does not keep up; a new one begins.
            self.link = None;
        }
        is_sent
    }
}

async fn sleep_until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment.into()).await,
        None => std::future::pending().await,
    }
}
