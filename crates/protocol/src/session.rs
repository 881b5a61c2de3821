//! One node's session with its controller, both ends, as state machines without I/O.
//!
//! A shell feeds what arrived (`accept`) and carries out what comes out (`poll_output`). Programs
//! are numbered: the controller sends only the newest, the node refuses an older one than it has
//! seen, and an acknowledgement of a number stands for all numbers below it.

use crate::PROTOCOL_VERSION;
use crate::message::{
    self, Answer, FromAgent, Hello, PortStates, Program, ProgramResult, Question, ToAgent, Welcome,
    from_agent, to_agent,
};
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
    /// The answer to a question.
    Answer(Answer),
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

/// What a node should run, and the messages that bring it there.
pub trait Wanted: Clone {
    /// Its number.
    fn number(&self) -> u64;

    /// Everything, whatever the node runs; at least one message.
    fn whole(&self) -> Vec<to_agent::Message>;

    /// Is the whole one message?
    fn is_one_message(&self) -> bool;

    /// What makes this of a state that the node runs; none: it must get the whole.
    fn since(&self, running: &Self) -> Option<Vec<to_agent::Message>>;

    /// A state of before, if it is still known.
    fn former(&self, number: u64) -> Option<Self>;
}

/// A program without slices is always sent whole.
impl Wanted for Program {
    fn number(&self) -> u64 {
        self.number
    }

    fn whole(&self) -> Vec<to_agent::Message> {
        vec![to_agent::Message::Program(self.clone())]
    }

    fn is_one_message(&self) -> bool {
        true
    }

    fn since(&self, _: &Self) -> Option<Vec<to_agent::Message>> {
        None
    }

    fn former(&self, _: u64) -> Option<Self> {
        None
    }
}

/// What is on its way to the node.
#[derive(Debug)]
struct Sending<W> {
    target: W,
    /// What follows the message that is answered next.
    rest: VecDeque<to_agent::Message>,
    /// It does not wait for an answer, and nobody waits for its.
    is_one_message: bool,
    /// The node keeps what it refused and tries it again; something newer goes first.
    is_refused: bool,
}

/// The controller's end.
#[derive(Debug)]
pub struct ControllerSession<W = Program> {
    certified: String,
    introduced: bool,
    wanted: Option<W>,
    /// What the node runs, if that is known here.
    running: Option<W>,
    sending: Option<Sending<W>>,
    /// Highest number sent in this session or already running at the node.
    reached: u64,
    next_request: u64,
    output: VecDeque<ControllerOutput>,
}

impl<W: Wanted> ControllerSession<W> {
    /// A session with the node that the peer's certificate names.
    #[must_use]
    pub fn new(certified: impl Into<String>) -> Self {
        Self {
            certified: certified.into(),
            introduced: false,
            wanted: None,
            running: None,
            sending: None,
            reached: 0,
            next_request: 0,
            output: VecDeque::new(),
        }
    }

    /// What the node should run; an older state than known is not taken back.
    pub fn want(&mut self, wanted: W) {
        let is_newer = self.wanted.as_ref().is_none_or(|known| known.number() < wanted.number());
        if is_newer {
            self.wanted = Some(wanted);
            self.send_wanted();
        }
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
        if hello.node != self.certified {
            return Err(SessionError::WrongNode {
                claimed: hello.node,
                certified: self.certified.clone(),
            });
        }
        self.introduced = true;
        self.reached = hello.program_number;
        self.running = None;
        self.sending = None;
        self.send(to_agent::Message::Welcome(Welcome {
            protocol_version: PROTOCOL_VERSION,
            software_version: env!("CARGO_PKG_VERSION").into(),
        }));
        let running = hello.program_number;
        self.output.push_back(ControllerOutput::Event(NodeEvent::Hello(hello)));
        if running > 0 {
            self.output.push_back(ControllerOutput::Event(NodeEvent::Acknowledged(running)));
        }
        self.send_wanted();
        Ok(())
    }

    fn take_result(&mut self, result: ProgramResult) {
        let ProgramResult { number, refusal, is_part, needs_whole } = result;
        let sending = self.sending.as_mut().filter(|sending| sending.target.number() == number);
        let event = match (sending, refusal.is_empty()) {
            (Some(sending), true) if is_part => {
                if let Some(next) = sending.rest.pop_front() {
                    self.send(next);
                }
                return;
            }
            (Some(_), false) if needs_whole => {
                // What runs there is not what was thought.
                self.sending = None;
                self.running = None;
                self.reached = 0;
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
        let number = wanted.number();
        if self.running.is_none() && self.sending.is_none() {
            let is_it = number == self.reached;
            self.running = if is_it { Some(wanted.clone()) } else { wanted.former(self.reached) };
        }
        if number <= self.reached {
            return;
        }
        let is_one_message = wanted.is_one_message();
        let is_on_its_way = self.sending.as_ref().is_some_and(|sending| {
            !(sending.is_refused || is_one_message && sending.is_one_message)
        });
        if is_on_its_way {
            return;
        }
        let running = self.running.as_ref().filter(|_| self.sending.is_none());
        let messages = running.filter(|_| !is_one_message).and_then(|known| wanted.since(known));
        let mut rest = VecDeque::from(messages.unwrap_or_else(|| wanted.whole()));
        let Some(first) = rest.pop_front() else { return };
        self.reached = number;
        self.sending = Some(Sending { target: wanted, rest, is_one_message, is_refused: false });
        self.send(first);
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

/// The agent's first word; `agent` tells it from another of the same node.
#[must_use]
pub fn hello(
    node: &str,
    agent: &str,
    underlay_address: String,
    underlay_mtu: u32,
    running: u64,
) -> FromAgent {
    let hello = Hello {
        protocol_version: PROTOCOL_VERSION,
        software_version: env!("CARGO_PKG_VERSION").into(),
        node: node.into(),
        underlay_address,
        underlay_mtu,
        program_number: running,
        agent: agent.into(),
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
    ProgramResult { number, refusal: refusal.into(), needs_whole: true, is_part: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(number: u64) -> Program {
        Program { number, ..Program::default() }
    }

    fn drain(session: &mut ControllerSession) -> Vec<ControllerOutput> {
        std::iter::from_fn(|| session.poll_output()).collect()
    }

    fn sent_programs(outputs: &[ControllerOutput]) -> Vec<u64> {
        let program = |output: &ControllerOutput| match output {
            ControllerOutput::Send(ToAgent { message: Some(to_agent::Message::Program(p)) }) => {
                Some(p.number)
            }
            _ => None,
        };
        outputs.iter().filter_map(program).collect()
    }

    #[test]
    fn a_node_that_was_away_gets_only_the_newest_program() {
        let mut session = <ControllerSession>::new("host1");
        session.want(program(3));
        session.want(program(5));
        session.want(program(4));
        assert!(drain(&mut session).is_empty(), "nothing before the introduction");
        session.accept(hello("host1", "a", "192.0.2.1".into(), 1_500, 2)).unwrap();
        let outputs = drain(&mut session);
        assert_eq!(sent_programs(&outputs), [5]);
        assert!(outputs.contains(&ControllerOutput::Event(NodeEvent::Acknowledged(2))));
    }

    #[test]
    fn a_node_that_already_runs_the_wanted_program_gets_none() {
        let mut session = <ControllerSession>::new("host1");
        session.want(program(5));
        session.accept(hello("host1", "a", "192.0.2.1".into(), 1_500, 5)).unwrap();
        assert!(sent_programs(&drain(&mut session)).is_empty());
        session.want(program(6));
        assert_eq!(sent_programs(&drain(&mut session)), [6]);
    }

    #[test]
    fn a_certificate_of_another_node_ends_the_session() {
        let mut session = <ControllerSession>::new("host2");
        let error = session.accept(hello("host1", "a", String::new(), 0, 0)).unwrap_err();
        assert!(matches!(error, SessionError::WrongNode { .. }));
        assert!(drain(&mut session).is_empty());
    }

    #[test]
    fn nothing_is_taken_before_the_introduction() {
        let mut session = <ControllerSession>::new("host1");
        let early = from_agent::Message::ProgramResult(program_result(1, ""));
        let early = FromAgent { message: Some(early) };
        assert_eq!(session.accept(early), Err(SessionError::NotIntroduced));
        assert_eq!(session.accept(FromAgent { message: None }), Err(SessionError::UnknownMessage));
    }

    /// A state of many messages: each is a program whose checksum is its place among them, and a
    /// change says so in `keeps_slices_of`.
    #[derive(Clone, Debug)]
    struct Large(u64);

    impl Large {
        fn messages(&self, base: u64) -> Vec<to_agent::Message> {
            let message = |checksum| Program {
                number: self.0,
                keeps_slices_of: base,
                checksum,
                ..Program::default()
            };
            (0..3).map(|place| to_agent::Message::Program(message(place))).collect()
        }
    }

    impl Wanted for Large {
        fn number(&self) -> u64 {
            self.0
        }

        fn whole(&self) -> Vec<to_agent::Message> {
            self.messages(0)
        }

        fn is_one_message(&self) -> bool {
            false
        }

        fn since(&self, running: &Self) -> Option<Vec<to_agent::Message>> {
            Some(self.messages(running.0))
        }

        fn former(&self, number: u64) -> Option<Self> {
            (number >= 4).then_some(Self(number))
        }
    }

    /// Number, base and place of the programs that were sent.
    fn sent(session: &mut ControllerSession<Large>) -> Vec<(u64, u64, u64)> {
        let outputs = std::iter::from_fn(|| session.poll_output());
        let program = |output| match output {
            ControllerOutput::Send(ToAgent { message: Some(to_agent::Message::Program(p)) }) => {
                Some((p.number, p.keeps_slices_of, p.checksum))
            }
            _ => None,
        };
        outputs.filter_map(program).collect()
    }

    fn hear(session: &mut ControllerSession<Large>, result: ProgramResult) {
        let message = Some(from_agent::Message::ProgramResult(result));
        session.accept(FromAgent { message }).unwrap();
    }

    fn large(running: u64) -> ControllerSession<Large> {
        let mut session = ControllerSession::new("host1");
        session.accept(hello("host1", "a", "192.0.2.1".into(), 1_500, running)).unwrap();
        session
    }

    #[test]
    fn parts_go_one_by_one_and_what_is_wanted_meanwhile_is_made_of_what_runs_then() {
        let mut session = large(4);
        session.want(Large(5));
        session.want(Large(6));
        session.want(Large(7));
        assert_eq!(sent(&mut session), [(5, 4, 0)]);
        hear(&mut session, part_result(5));
        assert_eq!(sent(&mut session), [(5, 4, 1)]);
        hear(&mut session, part_result(5));
        assert_eq!(sent(&mut session), [(5, 4, 2)]);
        hear(&mut session, program_result(5, ""));
        assert_eq!(sent(&mut session), [(7, 5, 0)]);
    }

    #[test]
    fn a_node_that_runs_what_nobody_knows_gets_the_whole() {
        let mut session = large(3);
        session.want(Large(5));
        assert_eq!(sent(&mut session), [(5, 0, 0)]);
        let mut session = large(4);
        session.want(Large(5));
        assert_eq!(sent(&mut session), [(5, 4, 0)]);
        hear(&mut session, whole_needed(5, "it is not what runs here"));
        assert_eq!(sent(&mut session), [(5, 0, 0)]);
    }

    #[test]
    fn something_newer_does_not_wait_for_what_was_refused() {
        let mut session = large(4);
        session.want(Large(5));
        sent(&mut session);
        hear(&mut session, program_result(5, "the disk is full"));
        assert!(sent(&mut session).is_empty(), "the node tries it again by itself");
        session.want(Large(6));
        assert_eq!(sent(&mut session), [(6, 0, 0)], "who knows which of the two runs");
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
