//! The connection of one agent: bytes and passed sockets in, messages out. Never waits. Knows
//! framing; refuses to know what messages mean.

use catena_io::receive_with_fds;
use catena_protocol::frame::{self, FRAME_BYTES_MAX, FrameError, FrameReader};
use catena_protocol::message::{FromDataplane, ToDataplane, from_dataplane};
use rustix::event::PollFlags;
use std::collections::VecDeque;
use std::io::{ErrorKind, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

const READ_BYTES: usize = 256 * 1024;
/// Answers that may wait for an agent that does not read them, in bytes: two of the largest.
const WAITING_BYTES_MAX: usize = 2 * FRAME_BYTES_MAX;
/// Sockets that may wait for their message.
const WAITING_SOCKETS_MAX: usize = 256;

/// Why a connection is over.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConnectionEnd {
    #[error("the agent closed the connection")]
    Closed,
    #[error("the agent is out of step: {0}")]
    Frame(#[from] FrameError),
    #[error("the connection broke: {0}")]
    Socket(#[from] std::io::Error),
    #[error("the connection broke: {0}")]
    Receive(#[from] catena_io::IoError),
    #[error("the agent passed more sockets than messages for them")]
    StraySockets,
    #[error("the agent does not read its answers")]
    NotReading,
}

/// One agent.
pub(super) struct AgentConnection {
    stream: UnixStream,
    frames: FrameReader,
    sockets: VecDeque<OwnedFd>,
    waiting: Vec<u8>,
    memory: Box<[u8]>,
}

impl AgentConnection {
    /// Takes an accepted connection.
    ///
    /// # Errors
    /// When it cannot be made non-blocking.
    pub(super) fn new(stream: UnixStream) -> std::io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream,
            frames: FrameReader::default(),
            sockets: VecDeque::new(),
            waiting: Vec::new(),
            memory: vec![0; READ_BYTES].into_boxed_slice(),
        })
    }

    /// What to wait for.
    pub(super) fn interest(&self) -> PollFlags {
        if self.waiting.is_empty() { PollFlags::IN } else { PollFlags::IN | PollFlags::OUT }
    }

    /// Has the agent taken all that it was sent?
    pub(super) fn is_reading(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Takes what has come, once.
    ///
    /// # Errors
    /// When the connection is over.
    pub(super) fn read(&mut self) -> Result<(), ConnectionEnd> {
        let (length, sockets) = match receive_with_fds(self.stream.as_fd(), &mut self.memory) {
            Ok(received) => received,
            Err(catena_io::IoError::System { source, .. })
                if source.kind() == ErrorKind::WouldBlock =>
            {
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        if length == 0 {
            return Err(ConnectionEnd::Closed);
        }
        self.sockets.extend(sockets);
        if self.sockets.len() > WAITING_SOCKETS_MAX {
            return Err(ConnectionEnd::StraySockets);
        }
        self.frames.push(self.memory.get(..length).unwrap_or_default());
        Ok(())
    }

    /// The next whole message.
    ///
    /// # Errors
    /// When the stream is out of step.
    pub(super) fn next(&mut self) -> Result<Option<ToDataplane>, ConnectionEnd> {
        Ok(self.frames.next_message()?)
    }

    /// The socket that came beside the message just read: they come in the same order.
    pub(super) fn take_socket(&mut self) -> Option<OwnedFd> {
        self.sockets.pop_front()
    }

    /// Queues a message and writes what the agent takes now.
    ///
    /// # Errors
    /// When the connection is over.
    pub(super) fn send(&mut self, message: from_dataplane::Message) -> Result<(), ConnectionEnd> {
        self.waiting.extend(frame::encode(&FromDataplane { message: Some(message) }));
        if self.waiting.len() > WAITING_BYTES_MAX {
            return Err(ConnectionEnd::NotReading);
        }
        self.write()
    }

    /// Writes what waits, as far as the agent takes it now.
    ///
    /// # Errors
    /// When the connection is over.
    pub(super) fn write(&mut self) -> Result<(), ConnectionEnd> {
        while !self.waiting.is_empty() {
            match self.stream.write(&self.waiting) {
                Ok(0) => return Err(ConnectionEnd::Closed),
                Ok(written) => {
                    self.waiting.drain(..written);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

impl AsFd for AgentConnection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
