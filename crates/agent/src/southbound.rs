//! The session with the controller: dials, introduces the node, carries messages, dials again.
//! Knows TLS and gRPC; refuses to know what the messages mean.

use crate::capacity::capacity;
use crate::stubs::southbound_client::SouthboundClient;
use crate::{AgentError, Config, QUEUE_MESSAGES_MAX, TlsPaths};
use catena_model::entry::ProgramVersion;
use catena_protocol::frame::FRAME_BYTES_MAX;
use catena_protocol::message::{FromAgent, ToAgent, to_agent};
use catena_protocol::session;
use std::path::Path;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use uuid::Uuid;

/// Name in the controller's certificate.
const CONTROLLER_NAME: &str = "controller";
const BACKOFF_MIN: Duration = Duration::from_millis(100);
const BACKOFF_MAX: Duration = Duration::from_secs(2);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// A silent peer is asked this often; with the timeout a cut link is noticed within 2 s.
const KEEPALIVE_INTERVAL: Duration = Duration::from_millis(700);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_millis(1_200);
/// How long the controller may take to answer the introduction.
const WELCOME_TIMEOUT: Duration = Duration::from_secs(5);

/// What the next Hello says. A change of `epoch` ends the session, so that a new Hello is said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Announcement {
    /// What the data plane runs; none: it is not up yet.
    pub(crate) running: Option<ProgramVersion>,
    /// Grows when what was said is no longer true.
    pub(crate) epoch: u64,
    /// The interfaces that are links; none: nobody has looked yet, and nothing is to be said.
    pub(crate) links: Option<Vec<String>>,
}

impl Announcement {
    /// Is all known that a Hello says?
    fn is_whole(&self) -> bool {
        self.running.is_some() && self.links.is_some()
    }

    /// Whoever was told this must not go on from it: it cannot have become what runs now.
    pub(crate) fn is_contradicted_by(&self, running: ProgramVersion) -> bool {
        self.running.is_some_and(|told| running.number <= told.number && running != told)
    }
}

/// What the node learns from its session.
#[derive(Debug)]
pub(crate) enum SessionEvent {
    /// The controller welcomed the node.
    Up {
        /// Way to the controller.
        outgoing: mpsc::Sender<FromAgent>,
        /// The version of the protocol that the session has.
        protocol: u32,
    },
    /// The controller spoke.
    Message(ToAgent),
    /// The session is over.
    Down,
}

/// Why a session ended.
#[derive(Debug, thiserror::Error)]
enum SessionEnd {
    #[error(transparent)]
    Files(#[from] AgentError),
    #[error("'{0}' is not an address of a controller")]
    Address(String),
    #[error("no secure connection: {}", chain(.0))]
    Connect(#[source] tonic::transport::Error),
    #[error("the controller ended the session: {}", .0.message())]
    Status(#[from] tonic::Status),
    #[error("the controller closed the session")]
    Closed,
    #[error("the controller did not answer the introduction within {} s", WELCOME_TIMEOUT.as_secs())]
    Silent,
    #[error("the controller did not begin with its welcome")]
    NoWelcome,
    #[error("the data plane changed, the node introduces itself anew")]
    Stale,
}

/// Keeps a session for as long as somebody listens to its events.
pub(crate) async fn keep(
    config: Config,
    mut announced: watch::Receiver<Announcement>,
    events: mpsc::Sender<SessionEvent>,
) {
    let agent = Uuid::new_v4().to_string();
    let mut backoff = BACKOFF_MIN;
    let mut told = String::new();
    loop {
        if announced.wait_for(Announcement::is_whole).await.is_err() {
            return;
        }
        let mut was_up = false;
        let end = converse(&config, &agent, &mut announced, &events, &mut was_up).await;
        if was_up {
            backoff = BACKOFF_MIN;
            told.clear();
            if events.send(SessionEvent::Down).await.is_err() {
                return;
            }
        }
        let reason = end.to_string();
        if reason != told {
            tracing::warn!(controller = config.controller, "no session: {reason}");
            told = reason;
        }
        tokio::time::sleep(backoff).await;
        backoff = (backoff * 2).min(BACKOFF_MAX);
    }
}

/// One session from dialling to its end.
async fn converse(
    config: &Config,
    agent: &str,
    announced: &mut watch::Receiver<Announcement>,
    events: &mpsc::Sender<SessionEvent>,
    was_up: &mut bool,
) -> SessionEnd {
    match open(config, agent, announced).await {
        Ok(Opened { outgoing, mut incoming, epoch, protocol }) => {
            *was_up = true;
            tracing::info!(controller = config.controller, "session with the controller is up");
            if events.send(SessionEvent::Up { outgoing, protocol }).await.is_err() {
                return SessionEnd::Closed;
            }
            carry(&mut incoming, announced, epoch, events).await
        }
        Err(end) => end,
    }
}

/// A session that the controller welcomed.
struct Opened {
    /// The way there, and the way back.
    outgoing: mpsc::Sender<FromAgent>,
    incoming: tonic::Streaming<ToAgent>,
    /// That of what was said.
    epoch: u64,
    protocol: u32,
}

async fn open(
    config: &Config,
    agent: &str,
    announced: &mut watch::Receiver<Announcement>,
) -> Result<Opened, SessionEnd> {
    let channel = dial(config).await?;
    let (outgoing, messages) = mpsc::channel(QUEUE_MESSAGES_MAX);
    let Announcement { running, epoch, links } = announced.borrow_and_update().clone();
    let (running, links) = (running.unwrap_or_default(), links.unwrap_or_default());
    let place = session::ToldPlace {
        address: config.underlay_address.to_string(),
        mtu: config.underlay_mtu.into(),
        segments: config.segments,
        clock: crate::clock::identity(Path::new("/")),
    };
    let capacity = capacity(Path::new("/"), config.underlay_address, &config.underlay_devices);
    let told = (links, &capacity);
    let hello = session::hello(config.node.as_str(), agent, place, config.role, told, running);
    outgoing.send(hello).await.map_err(|_| SessionEnd::Closed)?;
    let mut client = SouthboundClient::new(channel)
        .max_decoding_message_size(FRAME_BYTES_MAX)
        .max_encoding_message_size(FRAME_BYTES_MAX);
    let introduce = async {
        let mut incoming = client.session(ReceiverStream::new(messages)).await?.into_inner();
        match incoming.message().await? {
            Some(ToAgent { message: Some(to_agent::Message::Welcome(welcome)) }) => {
                Ok((incoming, welcome.protocol_version))
            }
            Some(_) => Err(SessionEnd::NoWelcome),
            None => Err(SessionEnd::Closed),
        }
    };
    let (incoming, protocol) = tokio::time::timeout(WELCOME_TIMEOUT, introduce)
        .await
        .map_err(|_| SessionEnd::Silent)??;
    Ok(Opened { outgoing, incoming, epoch, protocol })
}

async fn carry(
    incoming: &mut tonic::Streaming<ToAgent>,
    announced: &mut watch::Receiver<Announcement>,
    epoch: u64,
    events: &mpsc::Sender<SessionEvent>,
) -> SessionEnd {
    loop {
        tokio::select! {
            message = incoming.message() => match message {
                Ok(Some(message)) => {
                    if events.send(SessionEvent::Message(message)).await.is_err() {
                        return SessionEnd::Closed;
                    }
                }
                Ok(None) => return SessionEnd::Closed,
                Err(status) => return SessionEnd::Status(status),
            },
            changed = announced.changed() => {
                if changed.is_err() {
                    return SessionEnd::Closed;
                }
                if announced.borrow_and_update().epoch != epoch {
                    return SessionEnd::Stale;
                }
            }
        }
    }
}

async fn dial(config: &Config) -> Result<Channel, SessionEnd> {
    let (ca, identity) = read_identity(&config.tls)?;
    let tls = ClientTlsConfig::new()
        .ca_certificate(ca)
        .identity(identity)
        .domain_name(CONTROLLER_NAME)
        .timeout(CONNECT_TIMEOUT);
    Endpoint::from_shared(format!("https://{}", config.controller))
        .map_err(|_| SessionEnd::Address(config.controller.clone()))?
        .connect_timeout(CONNECT_TIMEOUT)
        .http2_keep_alive_interval(KEEPALIVE_INTERVAL)
        .keep_alive_timeout(KEEPALIVE_TIMEOUT)
        .keep_alive_while_idle(true)
        .tcp_nodelay(true)
        .tls_config(tls)
        .map_err(SessionEnd::Connect)?
        .connect()
        .await
        .map_err(SessionEnd::Connect)
}

/// Reads the certificates.
pub(crate) fn read_identity(paths: &TlsPaths) -> Result<(Certificate, Identity), AgentError> {
    let ca = Certificate::from_pem(read(&paths.ca)?);
    let identity = Identity::from_pem(read(&paths.cert)?, read(&paths.key)?);
    Ok((ca, identity))
}

fn read(path: &Path) -> Result<Vec<u8>, AgentError> {
    std::fs::read(path).map_err(|source| AgentError::TlsFile { path: path.into(), source })
}

/// An error with its causes in one line: tonic's own text is only «transport error».
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
