//! One node's session with its controller, both ends, as state machines without I/O.
//!
//! A shell feeds what arrived (`accept`) and carries out what comes out (`poll_output`). Programs
//! are numbered: the controller sends only the newest, as what differs from the one that the node runs,
//! the node refuses an older one than it has seen, and an acknowledgement of a number stands for all
//! numbers below it.

use crate::PROTOCOL_VERSION;
use crate::delta::deltas;
use crate::message::{
    self, Answer, Delta, FlowsAsked, FromAgent, Hello, InstanceStates, LinkStates, PathEnds,
    PortStates, ProgramResult, Question, Role, ToAgent, Welcome, from_agent, to_agent,
};
pub use crate::told_place::ToldPlace;
use catena_model::capacity::{CORE_MILLI, Capacity};
use catena_model::entry::{Program, ProgramVersion};
use catena_model::topology::NodeRole;
use catena_model::{BlueprintNumber, NodeName};
use std::collections::VecDeque;

/// What the controller's end learns about a node.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeEvent {
    /// The agent introduced itself.
    Hello(Hello),
    /// The node runs this program.
    Acknowledged(u64),
    /// The node refused this program and goes on with the former.
    Refused {
        /// Number of the program.
        number: u64,
        /// The node's reason.
        reason: String,
    },
    /// Which ports have an interface.
    Ports(PortStates),
    /// How its links are.
    Links(LinkStates),
    /// The answer to a question.
    Answer(Answer),
    /// Flows that its classifiers ask for.
    FlowsAsked(FlowsAsked),
    /// What became of the instances that it runs.
    Instances(InstanceStates),
    /// Packets with telemetry that came to the end of their path.
    PathEnds(PathEnds),
}

/// What a session wants done.
#[derive(Clone, Debug, PartialEq)]
pub enum ControllerOutput {
    /// Send to the agent.
    Send(ToAgent),
    /// Tell the reconciler.
    Event(NodeEvent),
}

/// Why a session must end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// Something came before the introduction.
    #[error("the agent spoke before it introduced itself")]
    NotIntroduced,
    /// The message is empty or of a newer kind.
    #[error("the agent sent a message of an unknown kind")]
    UnknownMessage,
    /// The certificate is of another node.
    #[error("the agent of '{claimed}' came with the certificate of '{certified}'")]
    WrongNode {
        /// Name in the message.
        claimed: String,
        /// Name in the certificate.
        certified: String,
    },
    /// No common protocol version.
    #[error("the agent speaks protocol version {0}, this controller {PROTOCOL_VERSION}")]
    Version(u32),
}

/// What is on its way to the node.
#[derive(Debug)]
struct Sending {
    target: Program,
    /// It begins with nothing.
    is_whole: bool,
    /// What follows the part that is answered next.
    rest: VecDeque<Delta>,
    /// The node keeps what it refused and tries it again; something newer goes first.
    is_refused: bool,
}

/// The controller's end.
#[derive(Debug)]
pub struct ControllerSession {
    certified: NodeName,
    introduced: bool,
    wanted: Option<Program>,
    /// What the node runs, if that is known here.
    running: Option<Program>,
    sending: Option<Sending>,
    /// Programs that the node may have come to run in sessions before this.
    known: Vec<Program>,
    /// Highest number sent in this session or already running at the node.
    reached: BlueprintNumber,
    next_request: u64,
    output: VecDeque<ControllerOutput>,
}

impl ControllerSession {
    /// A session with the node that the peer's certificate names, and the programs that it may run, as
    /// far as they are known.
    #[must_use]
    pub fn new(certified: NodeName, known: Vec<Program>) -> Self {
        Self {
            certified,
            introduced: false,
            wanted: None,
            running: None,
            sending: None,
            known,
            reached: BlueprintNumber::default(),
            next_request: 0,
            output: VecDeque::new(),
        }
    }

    /// What the node should run; an older state than known is not taken back.
    pub fn want(&mut self, wanted: Program) {
        let is_newer = self.wanted.as_ref().is_none_or(|known| known.number < wanted.number);
        if is_newer {
            self.wanted = Some(wanted);
            self.send_wanted();
        }
    }

    /// The programs that the node may run when the session ends now.
    #[must_use]
    pub fn may_run(&self) -> Vec<Program> {
        if !self.introduced {
            return self.known.clone();
        }
        let sending = self.sending.as_ref().map(|sending| &sending.target);
        self.running.iter().chain(sending).cloned().collect()
    }

    /// Asks the node; `body` is a `model::Question` in JSON. The answer carries the returned number.
    pub fn ask(&mut self, body: Vec<u8>) -> u64 {
        self.next_request += 1;
        let request = self.next_request;
        self.send(to_agent::Message::Question(Question { request, body }));
        request
    }

    /// Takes a message of the agent.
    ///
    /// # Errors
    /// When the session must end.
    pub fn accept(&mut self, message: FromAgent) -> Result<(), SessionError> {
        let message = message.message.ok_or(SessionError::UnknownMessage)?;
        if let from_agent::Message::Hello(hello) = message {
            return self.introduce(hello);
        }
        if !self.introduced {
            return Err(SessionError::NotIntroduced);
        }
        let event = match message {
            from_agent::Message::Hello(_) => return Err(SessionError::UnknownMessage),
            from_agent::Message::ProgramResult(result) => {
                self.take_result(result);
                return Ok(());
            }
            from_agent::Message::PortStates(states) => NodeEvent::Ports(states),
            from_agent::Message::Answer(answer) => NodeEvent::Answer(answer),
            from_agent::Message::LinkStates(states) => NodeEvent::Links(states),
            from_agent::Message::FlowsAsked(asked) => NodeEvent::FlowsAsked(asked),
            from_agent::Message::InstanceStates(states) => NodeEvent::Instances(states),
            from_agent::Message::PathEnds(ends) => NodeEvent::PathEnds(ends),
        };
        self.output.push_back(ControllerOutput::Event(event));
        Ok(())
    }

    /// The next thing to do, until there is none.
    #[must_use]
    pub fn poll_output(&mut self) -> Option<ControllerOutput> {
        self.output.pop_front()
    }

    fn introduce(&mut self, hello: Hello) -> Result<(), SessionError> {
        if hello.protocol_version != PROTOCOL_VERSION {
            return Err(SessionError::Version(hello.protocol_version));
        }
        if hello.node != self.certified.as_str() {
            return Err(SessionError::WrongNode {
                claimed: hello.node,
                certified: self.certified.to_string(),
            });
        }
        self.introduced = true;
        self.sending = None;
        self.send(to_agent::Message::Welcome(Welcome {
            protocol_version: PROTOCOL_VERSION,
            software_version: env!("CARGO_PKG_VERSION").into(),
        }));
        let mut hello = hello;
        let told = hello.version();
        let programs = || self.known.iter().chain(&self.wanted);
        self.running = programs().find(|known| known.version() == told).cloned();
        if told == ProgramVersion::default() {
            self.running = Some(Program::default());
        } else if self.running.is_none() && programs().any(|known| known.number == told.number) {
            // It has it from a controller with another store.
            hello.program_number = 0;
        }
        self.reached = BlueprintNumber(hello.program_number);
        let running = hello.program_number;
        self.output.push_back(ControllerOutput::Event(NodeEvent::Hello(hello)));
        if running > 0 {
            self.output.push_back(ControllerOutput::Event(NodeEvent::Acknowledged(running)));
        }
        self.send_wanted();
        Ok(())
    }

    fn take_result(&mut self, result: ProgramResult) {
        let ProgramResult { number, refusal, is_part, needs_whole, .. } = result;
        let sending = self.sending.as_mut().filter(|sending| sending.target.number.0 == number);
        let event = match (sending, refusal.is_empty()) {
            (Some(sending), true) if is_part => {
                if let Some(next) = sending.rest.pop_front() {
                    self.send(to_agent::Message::Delta(next));
                }
                return;
            }
            (Some(sending), false) if needs_whole && !sending.is_whole => {
                // What runs there is not what was thought.
                self.sending = None;
                self.running = None;
                self.reached = BlueprintNumber::default();
                self.send_wanted();
                return;
            }
            (Some(sending), false) => {
                sending.is_refused = true;
                NodeEvent::Refused { number, reason: refusal }
            }
            (Some(_), true) => {
                self.running = self.sending.take().map(|sending| sending.target);
                NodeEvent::Acknowledged(number)
            }
            (None, _) if is_part || needs_whole => return,
            (None, true) => NodeEvent::Acknowledged(number),
            (None, false) => NodeEvent::Refused { number, reason: refusal },
        };
        self.output.push_back(ControllerOutput::Event(event));
        self.send_wanted();
    }

    fn send_wanted(&mut self) {
        let Some(wanted) = self.wanted.clone().filter(|_| self.introduced) else { return };
        let is_running = |running: &Program| running.version() == wanted.version();
        let is_on_its_way = self
            .sending
            .as_ref()
            .is_some_and(|sending| !sending.is_refused || sending.target.number >= wanted.number);
        let is_older = wanted.number < self.reached;
        if is_on_its_way || is_older || self.running.as_ref().is_some_and(is_running) {
            return;
        }
        let (base, is_whole) = match &self.running {
            Some(running) => (running.clone(), running.number == BlueprintNumber::default()),
            None => (Program::default(), true),
        };
        let mut rest = VecDeque::from(deltas(&self.certified, &base, &wanted));
        let Some(first) = rest.pop_front() else { return };
        self.reached = wanted.number;
        self.sending = Some(Sending { target: wanted, is_whole, rest, is_refused: false });
        self.send(to_agent::Message::Delta(first));
    }

    fn send(&mut self, message: to_agent::Message) {
        self.output.push_back(ControllerOutput::Send(ToAgent { message: Some(message) }));
    }
}

/// The node's end of the numbering: which programs may still be taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProgramGate {
    newest: u64,
}

impl ProgramGate {
    /// A node that already runs `number` (0: none).
    #[must_use]
    pub fn at(number: u64) -> Self {
        Self { newest: number }
    }

    /// The newest number taken.
    #[must_use]
    pub fn newest(self) -> u64 {
        self.newest
    }

    /// Lets a program pass, or says why not. The same number again passes: a repeated message
    /// must be acknowledged again.
    ///
    /// # Errors
    /// With the refusal to send back.
    pub fn admit(&mut self, number: u64) -> Result<(), String> {
        if number < self.newest {
            return Err(format!(
                "program {number} is older than program {}, which this node has already seen",
                self.newest
            ));
        }
        self.newest = number;
        Ok(())
    }
}

/// The agent's first word; `agent` tells it from another of the same node. Of a capacity that is not told, nothing is
/// said.
#[must_use]
pub fn hello(
    node: &str,
    agent: &str,
    place: impl Into<ToldPlace>,
    role: NodeRole,
    (links, capacity): (Vec<String>, &Capacity),
    running: ProgramVersion,
) -> FromAgent {
    let numa = capacity.numa.iter().map(|node| message::NumaNode {
        number: node.number,
        cores: u32::try_from(node.cpu_milli / CORE_MILLI).unwrap_or(u32::MAX),
        memory_mib: node.memory_mib,
    });
    let ToldPlace { address, mtu, segments, clock } = place.into();
    let hello = Hello {
        protocol_version: PROTOCOL_VERSION,
        software_version: env!("CARGO_PKG_VERSION").into(),
        node: node.into(),
        underlay_address: address,
        underlay_mtu: mtu,
        segment_address: segments.map(|own| own.address.to_string()).unwrap_or_default(),
        locator: segments.map(|own| own.locator.to_string()).unwrap_or_default(),
        clock: clock.unwrap_or_default(),
        program_number: running.number.0,
        program_digest: running.digest.0,
        agent: agent.into(),
        role: match role {
            NodeRole::Host => Role::Host.into(),
            NodeRole::Switch => Role::Switch.into(),
        },
        links,
        numa: numa.collect(),
        link_mbit: capacity.link_mbit.unwrap_or_default(),
    };
    FromAgent { message: Some(from_agent::Message::Hello(hello)) }
}

/// The acknowledgement (empty refusal) or refusal of a program.
#[must_use]
pub fn program_result(number: u64, refusal: impl Into<String>) -> message::ProgramResult {
    ProgramResult { number, refusal: refusal.into(), ..ProgramResult::default() }
}

/// The word that a part of a change is taken and the next is awaited.
#[must_use]
pub fn part_result(number: u64) -> message::ProgramResult {
    ProgramResult { number, is_part: true, ..ProgramResult::default() }
}

/// The refusal of a change of something that does not run here.
#[must_use]
pub fn whole_needed(number: u64, refusal: impl Into<String>) -> message::ProgramResult {
    ProgramResult { number, refusal: refusal.into(), needs_whole: true, ..Default::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delta::Draft;
    use catena_model::PathId;
    use catena_model::id::SliceId;
    use catena_model::limits::DELTA_ENTRIES_MAX;
    use catena_model::program::SlicePathEntry;
    use std::sync::Arc;

    fn host1() -> NodeName {
        NodeName::new("host1").unwrap()
    }

    /// A program with as many entries as its number says, whose history is told by a letter.
    fn program(number: u64, history: u32) -> Program {
        let entry = |id: u64| {
            let id = PathId(u32::try_from(id).unwrap());
            let like = PathId(history);
            (
                id,
                Arc::new(SlicePathEntry { id, slice: SliceId::MIN, like, carries_metadata: false }),
            )
        };
        let mut made = Program::default();
        made.entries.slice_paths = (1..=number).map(entry).collect();
        Program::new(BlueprintNumber(number), made.entries)
    }

    fn session(known: Vec<Program>) -> ControllerSession {
        ControllerSession::new(host1(), known)
    }

    fn place() -> (String, u32) {
        ("192.0.2.1".into(), 1_500)
    }

    fn unsaid() -> (Vec<String>, &'static Capacity) {
        const UNSAID: &Capacity = &Capacity { numa: Vec::new(), link_mbit: None };
        (Vec::new(), UNSAID)
    }

    fn introduce(session: &mut ControllerSession, running: &Program) {
        let hello = hello("host1", "a", place(), NodeRole::Host, unsaid(), running.version());
        session.accept(hello).unwrap();
    }

    /// Base and number of what was sent, and the events.
    fn drain(session: &mut ControllerSession) -> (Vec<Delta>, Vec<NodeEvent>) {
        let (mut sent, mut events) = (Vec::new(), Vec::new());
        while let Some(output) = session.poll_output() {
            match output {
                ControllerOutput::Send(ToAgent { message: Some(to_agent::Message::Delta(d)) }) => {
                    sent.push(d);
                }
                ControllerOutput::Send(_) | ControllerOutput::Event(NodeEvent::Hello(_)) => {}
                ControllerOutput::Event(event) => events.push(event),
            }
        }
        (sent, events)
    }

    fn sent(session: &mut ControllerSession) -> Vec<(u64, u64)> {
        drain(session).0.iter().map(|delta| (delta.base, delta.number)).collect()
    }

    fn hear(session: &mut ControllerSession, result: ProgramResult) {
        let message = Some(from_agent::Message::ProgramResult(result));
        session.accept(FromAgent { message }).unwrap();
    }

    #[test]
    fn a_node_that_was_away_gets_what_it_misses_of_the_newest_program_alone() {
        let mut session = session(vec![program(2, 1)]);
        session.want(program(3, 1));
        session.want(program(5, 1));
        session.want(program(4, 1));
        assert!(session.poll_output().is_none(), "nothing before the introduction");
        introduce(&mut session, &program(2, 1));
        let (sent, events) = drain(&mut session);
        assert_eq!(events, [NodeEvent::Acknowledged(2)]);
        let [delta] = sent.as_slice() else { panic!("{sent:?}") };
        let mut draft = Draft::begin(delta, &program(2, 1));
        draft.add(delta).unwrap();
        assert_eq!(draft.finish(&program(2, 1)).unwrap(), program(5, 1));
    }

    #[test]
    fn a_node_that_already_runs_the_wanted_program_gets_none() {
        for known in [vec![], vec![program(4, 1)]] {
            let mut session = session(known);
            session.want(program(4, 1));
            introduce(&mut session, &program(4, 1));
            assert_eq!(drain(&mut session), (vec![], vec![NodeEvent::Acknowledged(4)]));
        }
    }

    #[test]
    fn a_node_that_runs_what_nobody_knows_gets_the_whole() {
        let mut session = session(vec![program(4, 1)]);
        introduce(&mut session, &program(3, 1));
        session.want(program(5, 1));
        assert_eq!(sent(&mut session), [(0, 5)]);
    }

    #[test]
    fn a_number_of_another_history_acknowledges_nothing() {
        let mut session = session(Vec::new());
        session.want(program(4, 1));
        introduce(&mut session, &program(4, 2));
        let (sent, events) = drain(&mut session);
        assert_eq!((sent.len(), sent[0].base, events.len()), (1, 0, 0));
    }

    #[test]
    fn a_node_that_runs_something_newer_is_left_alone() {
        let mut session = session(Vec::new());
        session.want(program(4, 1));
        introduce(&mut session, &program(7, 1));
        assert_eq!(sent(&mut session), []);
        session.want(program(8, 1));
        assert_eq!(sent(&mut session), [(0, 8)]);
    }

    #[test]
    fn what_is_wanted_meanwhile_is_made_of_what_runs_then() {
        let mut session = session(Vec::new());
        introduce(&mut session, &Program::default());
        session.want(program(5, 1));
        session.want(program(6, 1));
        session.want(program(7, 1));
        assert_eq!(sent(&mut session), [(0, 5)]);
        let numbers = |programs: &[Program]| -> Vec<u64> {
            programs.iter().map(|program| program.number.0).collect()
        };
        assert_eq!(numbers(&session.may_run()), [0, 5]);
        hear(&mut session, program_result(5, ""));
        assert_eq!(sent(&mut session), [(5, 7)]);
        assert_eq!(numbers(&session.may_run()), [5, 7]);
    }

    #[test]
    fn parts_go_one_by_one() {
        let entries = DELTA_ENTRIES_MAX as u64;
        let mut session = session(Vec::new());
        introduce(&mut session, &Program::default());
        session.want(program(2 * entries + 1, 1));
        let mut draft: Option<Draft> = None;
        for is_last in [false, false, true] {
            let (sent, _) = drain(&mut session);
            let [part] = sent.as_slice() else { panic!("{} parts", sent.len()) };
            assert_eq!(part.is_last, is_last);
            let draft = draft.get_or_insert_with(|| Draft::begin(part, &Program::default()));
            draft.add(part).unwrap();
            hear(&mut session, part_result(part.number));
        }
        let made = draft.unwrap().finish(&Program::default()).unwrap();
        assert_eq!(made, program(2 * entries + 1, 1));
    }

    #[test]
    fn a_node_that_needs_the_whole_gets_it_and_is_not_asked_for_ever() {
        let mut session = session(vec![program(4, 1)]);
        introduce(&mut session, &program(4, 1));
        session.want(program(5, 1));
        assert_eq!(sent(&mut session), [(4, 5)]);
        hear(&mut session, whole_needed(5, "it is not what runs here"));
        assert_eq!(sent(&mut session), [(0, 5)]);
        hear(&mut session, whole_needed(5, "never"));
        let (sent, events) = drain(&mut session);
        assert!(sent.is_empty());
        assert_eq!(events, [NodeEvent::Refused { number: 5, reason: "never".into() }]);
    }

    #[test]
    fn something_newer_does_not_wait_for_what_was_refused() {
        let mut session = session(vec![program(4, 1)]);
        introduce(&mut session, &program(4, 1));
        session.want(program(5, 1));
        drain(&mut session);
        hear(&mut session, program_result(5, "the disk is full"));
        assert!(drain(&mut session).0.is_empty(), "the node tries it again by itself");
        session.want(program(6, 1));
        assert_eq!(sent(&mut session), [(4, 6)]);
        // It had taken the other after all.
        hear(&mut session, whole_needed(6, "program 4 does not run here"));
        assert_eq!(sent(&mut session), [(0, 6)]);
    }

    #[test]
    fn another_nodes_certificate_ends_the_session() {
        let mut session = session(Vec::new());
        let first =
            hello("host2", "a", place(), NodeRole::Host, unsaid(), ProgramVersion::default());
        let error = session.accept(first).unwrap_err();
        assert!(matches!(error, SessionError::WrongNode { .. }));
        assert!(session.poll_output().is_none());
    }

    #[test]
    fn nothing_is_taken_before_the_introduction() {
        let mut session = session(Vec::new());
        let early = from_agent::Message::ProgramResult(program_result(1, ""));
        let early = FromAgent { message: Some(early) };
        assert_eq!(session.accept(early), Err(SessionError::NotIntroduced));
        assert_eq!(session.accept(FromAgent { message: None }), Err(SessionError::UnknownMessage));
    }

    #[test]
    fn a_node_refuses_an_older_number_and_takes_the_same_again() {
        let mut gate = ProgramGate::at(4);
        assert!(gate.admit(3).unwrap_err().contains("older than program 4"));
        assert_eq!(gate.admit(4), Ok(()));
        assert_eq!(gate.admit(9), Ok(()));
        assert!(gate.admit(8).is_err());
        assert_eq!(gate.newest(), 9);
    }
}
