//! A node's agent. Real: the gate, the order of offers, the words it says. Modelled after
//! `agent::node` and `agent::ports`, which are bound to sockets: who is told what when, and which
//! ports are attached. Knows no network; what it wants said comes out of it.

use crate::discovery::Discovery;
use crate::planted::Planted;
use catena_model::NodeName;
use catena_model::entry::{Change, ProgramVersion};
use catena_model::id::PortId;
use catena_model::limits::NODE_PORTS_MAX;
use catena_protocol::message::{
    Answer, AttachPort, Delta, DetachPort, FromAgent, PortOperation, PortResult, PortState,
    PortStates, ProgramResult, Question, State, from_agent, from_dataplane, to_agent, to_dataplane,
};
use catena_protocol::offers::Offers;
use catena_protocol::session::{ProgramGate, program_result};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How long a port without interface waits until it is looked for again.
pub(crate) const PORT_RETRY: Duration = Duration::from_millis(200);

/// What an agent wants done.
#[derive(Debug)]
pub(crate) enum AgentEffect {
    Tell(FromAgent),
    Order(to_dataplane::Message),
    /// What it announced is no longer true: the session must begin anew.
    IntroduceAnew,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Port {
    /// Not tried since the data plane came up.
    Untried,
    /// Ordered by the order of this number.
    Attaching(u64),
    Attached,
    /// No interface.
    Missing,
}

/// The state of one agent process.
#[derive(Debug)]
pub(crate) struct Agent {
    node: NodeName,
    planted: Planted,
    gate: ProgramGate,
    offers: Offers<Duration>,
    is_linked: bool,
    has_session: bool,
    ports: BTreeMap<PortId, Port>,
    are_ports_changed: bool,
    sequence: u64,
    unanswered: Option<u64>,
    questions: BTreeMap<u64, u64>,
    next_question: u64,
    /// What the next introduction says: the program that the data plane runs.
    running: Option<ProgramVersion>,
    /// None: the node is to have no links.
    discovery: Option<Discovery>,
    effects: Vec<AgentEffect>,
}

impl Agent {
    pub(crate) fn new(node: NodeName, has_links: bool, planted: Planted) -> Self {
        Self {
            node,
            planted,
            gate: ProgramGate::default(),
            offers: Offers::default(),
            is_linked: false,
            has_session: false,
            ports: BTreeMap::new(),
            are_ports_changed: false,
            sequence: 0,
            unanswered: None,
            questions: BTreeMap::new(),
            next_question: 0,
            running: None,
            discovery: has_links.then(Discovery::default),
            effects: Vec::new(),
        }
    }

    /// The program and the links to introduce itself with; none: the data plane has not answered yet, or nobody has
    /// looked for links.
    pub(crate) fn announced(&self) -> Option<(ProgramVersion, Vec<String>)> {
        let links = self.discovery.as_ref().map_or_else(|| Some(Vec::new()), Discovery::interfaces);
        self.running.zip(links)
    }

    pub(crate) fn discovery(&mut self) -> Option<&mut Discovery> {
        self.discovery.as_mut()
    }

    pub(crate) fn is_linked(&self) -> bool {
        self.is_linked
    }

    /// When it must be asked to go on though nothing comes, if ever.
    pub(crate) fn next_due(&self, now: Duration) -> Option<Duration> {
        let is_missing = self.ports.values().any(|port| *port == Port::Missing);
        let ports = is_missing.then_some(now + PORT_RETRY);
        let due = [ports, self.offers.next_due()].into_iter().flatten().min();
        let links = self.discovery.as_ref().and_then(Discovery::next_due);
        [due.filter(|_| self.is_linked), links].into_iter().flatten().min()
    }

    /// What is to be done now; `interfaces` are those on the host.
    pub(crate) fn advance(
        &mut self,
        now: Duration,
        interfaces: &BTreeSet<PortId>,
    ) -> Vec<AgentEffect> {
        if self.is_linked {
            if let Some(delta) = self.offers.next(now) {
                self.effects.push(AgentEffect::Order(to_dataplane::Message::Delta(delta)));
            }
            self.attach_ports(interfaces);
        }
        self.follow_links(now);
        let is_settled = |port: &Port| matches!(port, Port::Attached | Port::Missing);
        let is_waiting =
            self.is_linked && self.unanswered.is_some() && !self.ports.values().all(is_settled);
        if !is_waiting {
            if std::mem::take(&mut self.are_ports_changed) {
                self.tell(from_agent::Message::PortStates(self.states()));
            }
            if self.is_linked
                && let Some(number) = self.unanswered.take()
            {
                self.tell(from_agent::Message::ProgramResult(program_result(number, "")));
            }
        }
        std::mem::take(&mut self.effects)
    }

    /// Tells data plane and controller what is news of links.
    fn follow_links(&mut self, now: Duration) {
        let Some(discovery) = &mut self.discovery else { return };
        discovery.expire(now);
        let order = if self.is_linked { discovery.order() } else { None };
        self.effects.extend(order.map(AgentEffect::Order));
        let told = discovery.tell(now);
        told.into_iter().for_each(|told| self.tell(told));
    }

    // ----- the controller -----

    pub(crate) fn session_up(&mut self) {
        self.has_session = true;
        self.discovery.iter_mut().for_each(Discovery::begin_session);
        self.tell(from_agent::Message::PortStates(self.states()));
    }

    pub(crate) fn session_down(&mut self) {
        self.has_session = false;
        self.questions.clear();
    }

    pub(crate) fn hear(&mut self, message: to_agent::Message, now: Duration) {
        match message {
            to_agent::Message::Delta(delta) => self.take_delta(delta, now),
            to_agent::Message::Question(question) => self.ask(question),
            // No chain here has a set-up, and no function a template.
            to_agent::Message::Welcome(_)
            | to_agent::Message::FlowAnswers(_)
            | to_agent::Message::Instances(_) => {}
        }
    }

    fn take_delta(&mut self, delta: Delta, now: Duration) {
        let number = delta.number;
        match self.admit(&delta) {
            Ok(()) => self.offers.take(delta, now),
            Err(refusal) => {
                self.tell(from_agent::Message::ProgramResult(program_result(number, refusal)));
            }
        }
    }

    fn admit(&mut self, delta: &Delta) -> Result<(), String> {
        if delta.node != self.node.as_str() {
            return Err(format!("program {} is for node '{}'", delta.number, delta.node));
        }
        match self.planted {
            Planted::NodeTakesOlder => Ok(()),
            _ => self.gate.admit(delta.number),
        }
    }

    fn ask(&mut self, question: Question) {
        if self.is_linked {
            self.next_question += 1;
            self.questions.insert(self.next_question, question.request);
            let question = Question { request: self.next_question, body: question.body };
            self.effects.push(AgentEffect::Order(to_dataplane::Message::Question(question)));
        }
    }

    fn tell(&mut self, message: from_agent::Message) {
        if self.has_session {
            self.effects.push(AgentEffect::Tell(FromAgent { message: Some(message) }));
        }
    }

    // ----- the data plane -----

    /// A data plane answered.
    pub(crate) fn link_up(&mut self, state: &State, now: Duration) {
        self.is_linked = true;
        let running = state.version();
        let number = running.number;
        self.gate = ProgramGate::at(self.gate.newest().max(number.0));
        // What was lost with the disk of the former must not be acknowledged.
        self.unanswered.take_if(|unanswered| *unanswered > number.0);
        let attached: BTreeSet<PortId> =
            state.attached_ports.iter().filter_map(|id| parse_port(id)).collect();
        self.ports.clear();
        self.discovery.iter_mut().for_each(|discovery| discovery.begin_dataplane(now));
        self.edit_ports(&state.ports);
        for (id, port) in &mut self.ports {
            *port = if attached.contains(id) { Port::Attached } else { Port::Untried };
        }
        let strays: Vec<PortId> =
            attached.into_iter().filter(|id| !self.ports.contains_key(id)).collect();
        strays.into_iter().for_each(|id| self.detach(id));
        self.offers.begin_again(now);
        self.announce(running);
    }

    pub(crate) fn link_down(&mut self) {
        self.is_linked = false;
        self.questions.clear();
        self.ports.values_mut().for_each(|port| *port = Port::Missing);
        self.are_ports_changed = true;
    }

    pub(crate) fn hear_dataplane(&mut self, message: from_dataplane::Message, now: Duration) {
        match message {
            from_dataplane::Message::ProgramResult(result) => self.take_result(result, now),
            from_dataplane::Message::PortResult(result) => self.take_port_result(&result),
            from_dataplane::Message::Answer(answer) => {
                if let Some(request) = self.questions.remove(&answer.request) {
                    let answer = Answer { request, body: answer.body };
                    self.tell(from_agent::Message::Answer(answer));
                }
            }
            from_dataplane::Message::LinksUnheard(told) => {
                self.discovery.iter_mut().for_each(|discovery| discovery.take_unheard(&told));
            }
            from_dataplane::Message::State(_)
            | from_dataplane::Message::KernelPathResult(_)
            | from_dataplane::Message::KernelUnderlayResult(_)
            | from_dataplane::Message::UnderlayDevicesResult(_)
            | from_dataplane::Message::FlowsAsked(_)
            | from_dataplane::Message::FunctionMessages(_)
            | from_dataplane::Message::PathEnds(_) => {}
        }
    }

    fn take_result(&mut self, mut result: ProgramResult, now: Duration) {
        let (number, ports) = (result.number, std::mem::take(&mut result.ports));
        if result.needs_whole {
            self.offers.give_up(result.number);
            return self.tell(from_agent::Message::ProgramResult(result));
        }
        if !result.refusal.is_empty() {
            if self.offers.refused(number, &result.refusal, now) {
                self.tell(from_agent::Message::ProgramResult(result));
            }
            return;
        }
        let Some(accepted) = self.offers.accepted(number) else { return };
        if result.is_part {
            // A part of a newer session waits: who sent that awaits its own answer.
            if self.offers.is_empty() {
                self.tell(from_agent::Message::ProgramResult(result));
            }
            return;
        }
        self.edit_ports(&ports);
        self.unanswered = Some(number);
        self.announce(accepted.to_version());
    }

    /// The ports of the program are others now, in these edits.
    fn edit_ports(&mut self, edits: &[u8]) {
        self.discovery.iter_mut().for_each(|discovery| discovery.edit(edits));
        for change in Change::read_all(edits, 2 * NODE_PORTS_MAX).unwrap_or_default() {
            let Change::Port(id, edit) = change else { continue };
            if edit.entry().is_some() {
                self.ports.entry(id).or_insert(Port::Untried);
            } else if self.ports.remove(&id).is_some() {
                self.detach(id);
            }
        }
        self.are_ports_changed = true;
    }

    fn announce(&mut self, running: ProgramVersion) {
        if self.running.is_some_and(|told| running.number <= told.number && running != told) {
            self.effects.push(AgentEffect::IntroduceAnew);
        }
        self.running = Some(running);
    }

    // ----- ports -----

    fn attach_ports(&mut self, interfaces: &BTreeSet<PortId>) {
        let mut orders = Vec::new();
        for (id, port) in &mut self.ports {
            let is_there = interfaces.contains(id);
            match port {
                Port::Untried | Port::Missing if is_there => {
                    self.sequence += 1;
                    *port = Port::Attaching(self.sequence);
                    orders.push(AttachPort {
                        port_id: id.to_string(),
                        sequence: self.sequence,
                        ..AttachPort::default()
                    });
                }
                Port::Untried => {
                    *port = Port::Missing;
                    self.are_ports_changed = true;
                }
                Port::Attaching(_) | Port::Attached | Port::Missing => {}
            }
        }
        let orders = orders.into_iter().map(to_dataplane::Message::AttachPort);
        self.effects.extend(orders.map(AgentEffect::Order));
    }

    fn detach(&mut self, id: PortId) {
        self.sequence += 1;
        let detach = DetachPort { port_id: id.to_string(), sequence: self.sequence };
        self.effects.push(AgentEffect::Order(to_dataplane::Message::DetachPort(detach)));
    }

    fn take_port_result(&mut self, result: &PortResult) {
        let Some(id) = parse_port(&result.port_id) else { return };
        let Some(port) = self.ports.get_mut(&id) else { return };
        let outcome = if result.refusal.is_empty() { Port::Attached } else { Port::Missing };
        match result.operation() {
            PortOperation::Attach if *port == Port::Attaching(result.sequence) => *port = outcome,
            PortOperation::InterfaceGone if *port == Port::Attached => *port = Port::Missing,
            _ => return,
        }
        self.are_ports_changed = true;
    }

    /// All states that are known.
    fn states(&self) -> PortStates {
        let state = |(id, port): (&PortId, &Port)| {
            let reason = match port {
                Port::Attached => String::new(),
                Port::Missing => "no such interface".into(),
                Port::Untried | Port::Attaching(_) => return None,
            };
            Some(PortState { port_id: id.to_string(), reason })
        };
        PortStates { ports: self.ports.iter().filter_map(state).collect() }
    }
}

fn parse_port(text: &str) -> Option<PortId> {
    text.parse().ok().map(PortId)
}
