//! The connection to the data plane: adopts the one that runs, starts one if none does, carries
//! messages and packet sockets. Knows framing and the Unix socket, not what messages mean.

use crate::{Config, QUEUE_MESSAGES_MAX, start};
use catena_kernel::fds;
use catena_protocol::PROTOCOL_VERSION;
use catena_protocol::frame::{self, FrameError, FrameReader};
use catena_protocol::message::{
    FromDataplane, State, StateRequest, ToDataplane, from_dataplane, to_dataplane,
};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;

/// A killed process keeps its files until the kernel has taken its rings apart, which takes some
/// tens of milliseconds: until then the next one finds its place taken.
const BACKOFF_MIN: Duration = Duration::from_millis(15);
const BACKOFF_MAX: Duration = Duration::from_secs(2);
/// Who has lived so long is replaced without a rest: packets wait for it.
const LIFE_MIN: Duration = Duration::from_secs(1);
/// How long a data plane may take to say what it runs.
const STATE_TIMEOUT: Duration = Duration::from_secs(5);
const READ_BYTES: usize = 64 * 1024;

/// A message to the data plane, with the packet socket that goes beside it.
#[derive(Debug)]
pub(crate) struct Outgoing {
    /// The message.
    pub(crate) message: to_dataplane::Message,
    /// Only beside `AttachPort` and `KernelPath`.
    pub(crate) sockets: Vec<OwnedFd>,
}

/// What the node learns about its data plane.
#[derive(Debug)]
pub(crate) enum LinkEvent {
    /// A data plane answers; what it runs, and the way to it.
    Up {
        /// What it runs.
        state: State,
        /// It was started for this connection: none ran.
        was_started: bool,
        /// Way to this data plane; useless after the next `Up`.
        outgoing: mpsc::Sender<Outgoing>,
    },
    /// It spoke.
    Message(from_dataplane::Message),
    /// The connection is gone.
    Down,
}

/// Why a connection to the data plane ended or did not begin.
#[derive(Debug, thiserror::Error)]
enum LinkEnd {
    #[error(transparent)]
    Start(#[from] start::StartError),
    #[error("the control socket broke: {0}")]
    Socket(#[from] std::io::Error),
    #[error("the data plane closed the connection")]
    Closed,
    #[error("the data plane is out of step: {0}")]
    Frame(#[from] FrameError),
    #[error("the data plane does not say what it runs within {} s", STATE_TIMEOUT.as_secs())]
    Silent,
    #[error("the control socket belongs to the data plane of node '{0}'; give each node its own")]
    OtherNode(String),
    #[error(
        "the one that runs (process {0}) is of another version of Catena; end it, and this agent starts \
         one of its own version, which goes on with the same program"
    )]
    OtherVersion(u32),
    #[error("the agent is stopping")]
    Stopping,
}

/// Keeps a connection to a data plane for as long as somebody listens to its events.
pub(crate) async fn keep(config: Config, events: mpsc::Sender<LinkEvent>) {
    let mut backoff = BACKOFF_MIN;
    let mut told = String::new();
    while !events.is_closed() {
        let mut was_up = false;
        let begun = Instant::now();
        let end = match start::connect_or_start(&config.dataplane).await {
            Ok(found) => converse(&config, found, &events, &mut was_up).await,
            Err(error) => LinkEnd::Start(error),
        };
        if matches!(end, LinkEnd::Stopping) {
            return;
        }
        if was_up {
            backoff = BACKOFF_MIN;
            told.clear();
            if events.send(LinkEvent::Down).await.is_err() {
                return;
            }
        }
        let reason = end.to_string();
        if reason != told {
            tracing::warn!("no data plane: {reason}");
            told = reason;
        }
        if was_up && begun.elapsed() >= LIFE_MIN {
            continue;
        }
        tokio::time::sleep(backoff).await;
        backoff = (backoff * 2).min(BACKOFF_MAX);
    }
}

async fn converse(
    config: &Config,
    (stream, was_started): (UnixStream, bool),
    events: &mpsc::Sender<LinkEvent>,
    was_up: &mut bool,
) -> LinkEnd {
    let (read_half, write_half) = stream.into_split();
    let mut incoming = Incoming { read_half, frames: FrameReader::default() };
    let (outgoing, queue) = mpsc::channel(QUEUE_MESSAGES_MAX);
    let mut writer = tokio::spawn(write_all(write_half, queue));
    let end = tokio::select! {
        end = listen(config, &mut incoming, (outgoing, was_started), events, was_up) => end,
        written = &mut writer => match written {
            Ok(Err(error)) => LinkEnd::Socket(error),
            Ok(Ok(())) | Err(_) => LinkEnd::Closed,
        },
    };
    writer.abort();
    end
}

async fn listen(
    config: &Config,
    incoming: &mut Incoming,
    (outgoing, was_started): (mpsc::Sender<Outgoing>, bool),
    events: &mpsc::Sender<LinkEvent>,
    was_up: &mut bool,
) -> LinkEnd {
    let request = Outgoing {
        message: to_dataplane::Message::StateRequest(StateRequest {}),
        sockets: Vec::new(),
    };
    if outgoing.send(request).await.is_err() {
        return LinkEnd::Closed;
    }
    let state = match tokio::time::timeout(STATE_TIMEOUT, incoming.state()).await {
        Ok(Ok(state)) => state,
        Ok(Err(end)) => return end,
        Err(_) => return LinkEnd::Silent,
    };
    if state.node != config.node.as_str() {
        return LinkEnd::OtherNode(state.node);
    }
    if state.protocol_version != PROTOCOL_VERSION {
        return LinkEnd::OtherVersion(state.process_id);
    }
    tracing::info!(
        pid = state.process_id,
        program = state.program_number,
        ports = state.attached_ports.len(),
        "connected to the data plane"
    );
    *was_up = true;
    if events.send(LinkEvent::Up { state, was_started, outgoing }).await.is_err() {
        return LinkEnd::Stopping;
    }
    loop {
        match incoming.next().await {
            Ok(message) => {
                if events.send(LinkEvent::Message(message)).await.is_err() {
                    return LinkEnd::Stopping;
                }
            }
            Err(end) => return end,
        }
    }
}

struct Incoming {
    read_half: OwnedReadHalf,
    frames: FrameReader,
}

impl Incoming {
    async fn next(&mut self) -> Result<from_dataplane::Message, LinkEnd> {
        let mut bytes = vec![0; READ_BYTES];
        loop {
            // A message of a kind that this agent does not know is skipped.
            while let Some(FromDataplane { message }) = self.frames.next_message()? {
                if let Some(message) = message {
                    return Ok(message);
                }
            }
            let length = self.read_half.read(&mut bytes).await?;
            if length == 0 {
                return Err(LinkEnd::Closed);
            }
            self.frames.push(bytes.get(..length).unwrap_or_default());
        }
    }

    /// The answer to the first request; a port that vanished may be reported before it.
    async fn state(&mut self) -> Result<State, LinkEnd> {
        loop {
            if let from_dataplane::Message::State(state) = self.next().await? {
                return Ok(state);
            }
        }
    }
}

async fn write_all(
    mut half: OwnedWriteHalf,
    mut queue: mpsc::Receiver<Outgoing>,
) -> std::io::Result<()> {
    while let Some(Outgoing { message, sockets }) = queue.recv().await {
        let bytes = frame::encode(&ToDataplane { message: Some(message) });
        let begun = if sockets.is_empty() {
            0
        } else {
            write_beside(half.as_ref(), &bytes, &sockets).await?
        };
        half.write_all(bytes.get(begun..).unwrap_or_default()).await?;
    }
    Ok(())
}

/// Writes the first bytes with the sockets beside them; answers how many were taken.
async fn write_beside(
    stream: &UnixStream,
    bytes: &[u8],
    sockets: &[OwnedFd],
) -> std::io::Result<usize> {
    let sockets: Vec<_> = sockets.iter().map(AsFd::as_fd).collect();
    let send = || {
        fds::send_with_fds(stream, bytes, &sockets).map_err(|error| match error.errno() {
            Some(errno) => std::io::Error::from_raw_os_error(errno),
            None => std::io::Error::other(error),
        })
    };
    stream.async_io(Interest::WRITABLE, send).await
}
