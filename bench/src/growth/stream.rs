//! A stream of numbered datagrams through one chain, counted at both ends. Each end is this program
//! again, inside the network of its endpoint. Knows sockets and a pace; refuses to know chains.

use crate::engine::drive::wrong;
use crate::error::BenchError;
use crate::peers::program::Running;
use catena_lab::Doorway;
use rustix::net::sockopt::set_socket_recv_buffer_size_force;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::UdpSocket;
use std::process::{ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

/// Datagrams a second.
pub(super) const PER_SECOND: u32 = 5_000;
/// Bytes of a datagram's payload.
pub(super) const PAYLOAD_BYTES: usize = 100;
/// Where a datagram's number is; 0: it only asks whether the way is open.
const NUMBER_BYTES: usize = 8;
/// What the receiver says when it can be sent to, and when the first datagram has come.
const LISTENING: &str = "listening";
const OPEN: &str = "open";
/// Pause between two datagrams that ask.
const ASK_PAUSE: Duration = Duration::from_millis(50);
/// How long the way may take to open.
const OPEN_WAIT: Duration = Duration::from_secs(20);
/// Pause between two bursts.
const BURST_PAUSE: Duration = Duration::from_millis(1);
/// Datagrams of a burst at most: a sender that was not let run does not make up for it at once, which
/// no ring could take.
const BURST_MAX: u64 = 50;
/// Room of the receiving socket: what its end does not read in time must not look lost.
const BUFFER_BYTES: usize = 32 * 1024 * 1024;
/// How often a waiting receiver looks up.
const LOOK: Duration = Duration::from_millis(20);
/// Silence after which what is missing is lost.
const SILENCE: Duration = Duration::from_secs(1);
const WORD_BITS: u64 = 64;

/// A stream that runs; ended with this value.
pub(super) struct Stream {
    sender: End,
    receiver: End,
}

/// What became of a stream.
pub(super) struct Counted {
    /// Datagrams that were sent.
    pub(super) sent: u64,
    /// Those of them that did not come.
    pub(super) lost: u64,
}

impl Stream {
    /// Starts it; answers when the way is open and it has begun.
    pub(super) fn start(
        from: &Doorway,
        to: &Doorway,
        address: &str,
        port: u16,
    ) -> Result<Self, BenchError> {
        let port = port.to_string();
        let mut receiver = End::start(to, &["take-stream", &port])?;
        receiver.hear(LISTENING)?;
        let mut sender = End::start(from, &["send-stream", address, &port])?;
        receiver.hear(OPEN)?;
        sender.say_begin()?;
        Ok(Self { sender, receiver })
    }

    /// Ends it and counts.
    pub(super) fn end(mut self) -> Result<Counted, BenchError> {
        let sent = self.sender.last_number()?;
        let came = self.receiver.last_number()?;
        Ok(Counted { sent, lost: sent.saturating_sub(came) })
    }
}

/// One end: a process that ends when its input does.
struct End {
    running: Running,
    said: BufReader<ChildStdout>,
}

impl End {
    fn start(place: &Doorway, words: &[&str]) -> Result<Self, BenchError> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut running = Running(place.spawn(command)?);
        let said =
            running.0.stdout.take().ok_or_else(|| wrong("the stream", &"it has no output"))?;
        Ok(Self { running, said: BufReader::new(said) })
    }

    fn line(&mut self) -> Result<String, BenchError> {
        let mut line = String::new();
        match self.said.read_line(&mut line)? {
            0 => Err(wrong("the stream", &"an end of it has ended")),
            _ => Ok(line.trim().to_owned()),
        }
    }

    fn hear(&mut self, sign: &str) -> Result<(), BenchError> {
        let line = self.line()?;
        if line == sign { Ok(()) } else { Err(wrong("the stream", &format!("it said '{line}'"))) }
    }

    fn say_begin(&mut self) -> Result<(), BenchError> {
        let input = self.running.0.stdin.as_mut();
        let input = input.ok_or_else(|| wrong("the stream", &"it has no input"))?;
        Ok(writeln!(input)?)
    }

    /// Ends it; what it has counted.
    fn last_number(&mut self) -> Result<u64, BenchError> {
        drop(self.running.0.stdin.take());
        let line = self.line()?;
        line.parse().map_err(|_| wrong("the stream", &format!("it said '{line}'")))
    }
}

/// Sends once a line comes, until the input ends, and prints how many: one end of the stream.
pub(crate) fn send(address: &str, port: u16) -> std::io::Result<()> {
    let socket = UdpSocket::bind(("0.0.0.0", 0))?;
    socket.connect((address, port))?;
    let input = lines_of_input();
    let mut payload = [0; PAYLOAD_BYTES];
    while let Err(reason) = input.recv_timeout(ASK_PAUSE) {
        if reason == RecvTimeoutError::Disconnected {
            return Ok(());
        }
        // What does not get through, or is refused at the far end, is asked again.
        let _ = socket.send(&payload);
    }
    let (mut number, mut left_out) = (0_u64, 0_u64);
    let began = Instant::now();
    while input.try_recv() != Err(TryRecvError::Disconnected) {
        std::thread::sleep(BURST_PAUSE);
        let scheduled = began.elapsed().as_micros() * u128::from(PER_SECOND) / 1_000_000;
        let scheduled = u64::try_from(scheduled).unwrap_or(u64::MAX);
        left_out += scheduled.saturating_sub(left_out + number + BURST_MAX);
        while number + left_out < scheduled {
            number += 1;
            payload[..NUMBER_BYTES].copy_from_slice(&number.to_be_bytes());
            socket.send(&payload)?;
        }
    }
    say(number)
}

/// Tells whoever has started this; nobody listens any more when it fails.
fn say(what: impl std::fmt::Display) -> std::io::Result<()> {
    writeln!(std::io::stdout(), "{what}")
}

/// A word for each line that comes; they end with the input.
fn lines_of_input() -> Receiver<()> {
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for _ in std::io::stdin().lines().map_while(Result::ok) {
            // Nobody listens any more when this fails.
            let _ = tell.send(());
        }
    });
    told
}

/// Receives until the input has ended and nothing more comes, and prints how many different
/// datagrams there were: the other end.
pub(crate) fn take(port: u16) -> std::io::Result<()> {
    let socket = UdpSocket::bind(("0.0.0.0", port))?;
    socket.set_read_timeout(Some(LOOK))?;
    set_socket_recv_buffer_size_force(&socket, BUFFER_BYTES)?;
    let is_over = Arc::new(AtomicBool::new(false));
    let ending = Arc::clone(&is_over);
    std::thread::spawn(move || {
        // Broken or at its end: either way nobody wants more.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        ending.store(true, Ordering::Relaxed);
    });
    say(LISTENING)?;
    let mut payload = [0; 2 * PAYLOAD_BYTES];
    let (mut came, mut is_open) = (Came::default(), false);
    let mut last = Instant::now();
    loop {
        if !is_open && last.elapsed() > OPEN_WAIT {
            return Err(std::io::Error::other("nothing comes through the chain"));
        }
        if is_over.load(Ordering::Relaxed) && last.elapsed() > SILENCE {
            break;
        }
        let Ok(length) = socket.recv(&mut payload) else { continue };
        last = Instant::now();
        if !is_open {
            is_open = true;
            say(OPEN)?;
        }
        came.take(payload.get(..length).unwrap_or_default());
    }
    say(came.distinct)
}

/// Which datagrams came, a bit each.
#[derive(Default)]
struct Came {
    words: Vec<u64>,
    distinct: u64,
}

impl Came {
    fn take(&mut self, payload: &[u8]) {
        let number = payload.get(..NUMBER_BYTES).and_then(|bytes| bytes.try_into().ok());
        let number = number.map_or(0, u64::from_be_bytes);
        // Beyond what a stream can reach it is nobody's of ours.
        let Some(word) = usize::try_from(number / WORD_BITS).ok().filter(|_| number != 0) else {
            return;
        };
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        let Some(bits) = self.words.get_mut(word) else { return };
        let bit = 1 << (number % WORD_BITS);
        if *bits & bit == 0 {
            *bits |= bit;
            self.distinct += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_counts_once_and_one_that_asks_does_not() {
        let mut came = Came::default();
        for number in [0_u64, 1, 63, 64, 64, 1, 200_000, 0] {
            came.take(&number.to_be_bytes());
        }
        came.take(b"short");
        assert_eq!(came.distinct, 4);
    }
}
