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

/// The controller's end.
#[derive(Debug)]
pub struct ControllerSession {
    certified: String,
    introduced: bool,
    wanted: Option<Program>,
    /// Highest number sent in this session or already running at the node.
    reached: u64,
    next_request: u64,
    output: VecDeque<ControllerOutput>,
}

impl ControllerSession {
    /// A session with the node that the peer's certificate names.
    #[must_use]
    pub fn new(certified: impl Into<String>) -> Self {
        Self {
            certified: certified.into(),
            introduced: false,
            wanted: None,
            reached: 0,
            next_request: 0,
            output: VecDeque::new(),
        }
    }

    /// The program that the node should run; an older one than known is not taken back.
    pub fn want(&mut self, program: Program) {
        let is_newer = self.wanted.as_ref().is_none_or(|known| known.number < program.number);
        if is_newer {
            self.wanted = Some(program);
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
            from_agent::Message::ProgramResult(ProgramResult { number, refusal }) => {
                if refusal.is_empty() {
                    NodeEvent::Acknowledged(number)
                } else {
                    NodeEvent::Refused { number, reason: refusal }
                }
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

    fn send_wanted(&mut self) {
        let Some(program) = &self.wanted else { return };
        if self.introduced && program.number > self.reached {
            self.reached = program.number;
            let message = to_agent::Message::Program(program.clone());
            self.send(message);
        }
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

/// The agent's first word.
#[must_use]
pub fn hello(node: &str, underlay_address: String, underlay_mtu: u32, running: u64) -> FromAgent {
    let hello = Hello {
        protocol_version: PROTOCOL_VERSION,
        software_version: env!("CARGO_PKG_VERSION").into(),
        node: node.into(),
        underlay_address,
        underlay_mtu,
        program_number: running,
    };
    FromAgent { message: Some(from_agent::Message::Hello(hello)) }
}

/// The acknowledgement (empty refusal) or refusal of a program.
#[must_use]
pub fn program_result(number: u64, refusal: impl Into<String>) -> message::ProgramResult {
    ProgramResult { number, refusal: refusal.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(number: u64) -> Program {
        Program { number, body: Vec::new(), checksum: 0 }
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
        let mut session = ControllerSession::new("host1");
        session.want(program(3));
        session.want(program(5));
        session.want(program(4));
        assert!(drain(&mut session).is_empty(), "nothing before the introduction");
        session.accept(hello("host1", "192.0.2.1".into(), 1_500, 2)).unwrap();
        let outputs = drain(&mut session);
        assert_eq!(sent_programs(&outputs), [5]);
        assert!(outputs.contains(&ControllerOutput::Event(NodeEvent::Acknowledged(2))));
    }

    #[test]
    fn a_node_that_already_runs_the_wanted_program_gets_none() {
        let mut session = ControllerSession::new("host1");
        session.want(program(5));
        session.accept(hello("host1", "192.0.2.1".into(), 1_500, 5)).unwrap();
        assert!(sent_programs(&drain(&mut session)).is_empty());
        session.want(program(6));
        assert_eq!(sent_programs(&drain(&mut session)), [6]);
    }

    #[test]
    fn a_certificate_of_another_node_ends_the_session() {
        let mut session = ControllerSession::new("host2");
        let error = session.accept(hello("host1", String::new(), 0, 0)).unwrap_err();
        assert!(matches!(error, SessionError::WrongNode { .. }));
        assert!(drain(&mut session).is_empty());
    }

    #[test]
    fn nothing_is_taken_before_the_introduction() {
        let mut session = ControllerSession::new("host1");
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
