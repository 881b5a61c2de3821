//! What is said over a lab's abstract socket: one JSON object per line each way; descriptors ride
//! on the answer to `enter` and `down`. Knows the words, refuses to know who acts on them.

use crate::error::{LabError, Result};
use catena_kernel::fds;
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// Longest line, in bytes.
pub(crate) const LINE_BYTES_MAX: usize = 256 * 1024;

/// What a visitor asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub(crate) enum Request {
    /// Steps of coming up, until the lab stands or has failed. From then on the lab ends with
    /// this visit, unless it is kept.
    Watch,
    /// The lab outlives the visit of its starter.
    Keep,
    /// How the lab stands.
    Status,
    /// The namespaces of a node.
    Enter { node: String },
    /// End the lab.
    Down,
}

/// What the supervisor answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub(crate) enum Answer {
    /// A step is done.
    Step { text: String, seconds: f64 },
    /// The network is wired and every process started.
    Ready,
    /// The lab is kept.
    Kept,
    /// The lab could not come up.
    Failed { reason: String },
    /// The state.
    Status(LabStatus),
    /// Three descriptors come along: network, mount and PID namespace.
    Entered,
    /// One descriptor comes along: it becomes readable when the lab's first process has ended.
    Ending,
    /// The request cannot be met.
    Refused { reason: String },
}

/// How a lab stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LabStatus {
    /// Its name.
    pub name: String,
    /// The file it was made from.
    pub file: String,
    /// Where its API listens.
    pub api: String,
    /// `coming up`, `up`, or why it failed.
    pub state: String,
    /// Seconds since its supervisor started.
    pub seconds: f64,
    /// Its namespaces.
    pub nodes: Vec<LabNode>,
    /// Its processes.
    pub processes: Vec<LabProcess>,
}

/// One namespace of a lab.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabNode {
    /// Name.
    pub name: String,
    /// `host`, `switch`, `endpoint`, `function` or `management`.
    pub role: String,
    /// The host it is attached to.
    pub host: Option<String>,
}

/// One process of a lab.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabProcess {
    /// Name, which is also the name of its log.
    pub name: String,
    /// `running`, or how it ended.
    pub state: String,
}

fn line_of(message: &impl Serialize) -> Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)
        .map_err(|error| LabError::io("encode", "a message of the lab", error))?;
    line.push(b'\n');
    Ok(line)
}

/// Sends a message, descriptors attached to its first byte.
pub(crate) fn send(
    mut socket: &UnixStream,
    message: &impl Serialize,
    descriptors: &[BorrowedFd<'_>],
) -> Result<()> {
    let line = line_of(message)?;
    let sent =
        if descriptors.is_empty() { 0 } else { fds::send_with_fds(socket, &line, descriptors)? };
    let rest = line.get(sent..).unwrap_or_default();
    socket.write_all(rest).map_err(|error| LabError::io("write to", "the lab's socket", error))
}

/// One side's reading end.
#[derive(Debug)]
pub(crate) struct Incoming {
    socket: UnixStream,
    bytes: Vec<u8>,
    descriptors: Vec<OwnedFd>,
}

impl Incoming {
    pub(crate) fn new(socket: UnixStream) -> Self {
        Self { socket, bytes: Vec::new(), descriptors: Vec::new() }
    }

    /// The next message with the descriptors that came so far; none when the other side is gone.
    pub(crate) fn next<M: for<'de> Deserialize<'de>>(
        &mut self,
    ) -> Result<Option<(M, Vec<OwnedFd>)>> {
        loop {
            if let Some(end) = self.bytes.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.bytes.drain(..=end).collect();
                let message = serde_json::from_slice(&line)
                    .map_err(|error| LabError::io("read", "a message of the lab", error))?;
                return Ok(Some((message, std::mem::take(&mut self.descriptors))));
            }
            if self.bytes.len() > LINE_BYTES_MAX {
                let long = std::io::Error::other("the line is too long");
                return Err(LabError::io("read", "a message of the lab", long));
            }
            let mut chunk = [0; 4096];
            let (count, came) = fds::receive_with_fds(&self.socket, &mut chunk)?;
            if count == 0 {
                return Ok(None);
            }
            self.descriptors.extend(came);
            self.bytes.extend_from_slice(chunk.get(..count).unwrap_or_default());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn messages_and_their_descriptors_arrive_together() {
        let (left, right) = UnixStream::pair().unwrap();
        let file = tempfile::tempfile().unwrap();
        send(&left, &Answer::Entered, &[file.as_fd()]).unwrap();
        send(&left, &Answer::Ready, &[]).unwrap();
        drop(left);
        let mut incoming = Incoming::new(right);
        let (answer, descriptors) = incoming.next::<Answer>().unwrap().unwrap();
        assert_eq!(answer, Answer::Entered);
        assert_eq!(descriptors.len(), 1);
        let (answer, descriptors) = incoming.next::<Answer>().unwrap().unwrap();
        assert_eq!(answer, Answer::Ready);
        assert!(descriptors.is_empty());
        assert!(incoming.next::<Answer>().unwrap().is_none());
    }

    #[test]
    fn nonsense_on_the_socket_is_an_error_and_no_panic() {
        let (mut left, right) = UnixStream::pair().unwrap();
        left.write_all(b"{\"ask\":\"fly\"}\n").unwrap();
        assert!(Incoming::new(right).next::<Request>().is_err());
    }
}
