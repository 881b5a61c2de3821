//! What a controller is told at start. Knows defaults and bounds of the settings.

use crate::auth::Auth;
use crate::error::ControllerError;
use catena_model::limits::CHAIN_ANSWER_WAIT_MS;
use ipnet::IpNet;
use reqwest::Url;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A place to listen at.
#[derive(Debug)]
pub enum ListenerSource {
    /// Already bound, perhaps in another network namespace.
    Bound(TcpListener),
    /// To be bound at start.
    Address(SocketAddr),
}

impl ListenerSource {
    pub(crate) fn bind(self) -> Result<tokio::net::TcpListener, ControllerError> {
        let fail = |address: Option<SocketAddr>| {
            let address = address.map_or_else(|| "the given socket".into(), |a| a.to_string());
            move |source| ControllerError::Listen { address, source }
        };
        let (address, listener) = match self {
            Self::Bound(listener) => (listener.local_addr().ok(), listener),
            Self::Address(address) => {
                (Some(address), TcpListener::bind(address).map_err(fail(Some(address)))?)
            }
        };
        listener.set_nonblocking(true).map_err(fail(address))?;
        tokio::net::TcpListener::from_std(listener).map_err(fail(address))
    }
}

/// Whether two chains of one owner may take the same packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overlap {
    /// Flow classifiers that overlap are refused, as in networking-sfc.
    #[default]
    Refused,
    /// They are taken. Where several chains could take a packet, the rule with the longer prefixes
    /// goes first; chains of a graph follow one another.
    Allowed,
}

/// Everything a controller is told at start.
#[derive(Debug)]
pub struct Config {
    /// Where the REST API is served (plain HTTP).
    pub api: ListenerSource,
    /// Where agents dial in (gRPC over mutual TLS); none: no node can connect.
    pub southbound: Option<ListenerSource>,
    /// Store and certificates; made if absent, readable by its owner alone.
    pub data_dir: PathBuf,
    /// Who may use the API.
    pub auth: Auth,
    /// How long the answer to a chain request waits for nodes that do not answer.
    pub answer_wait: Duration,
    /// Whether flow classifiers may overlap.
    pub overlap: Overlap,
    /// Largest store file, in bytes; none: as large as the disk.
    pub store_bytes_max: Option<u64>,
    /// Take the store as it is, though its witness has seen more: what is lost stays lost.
    pub accepts_loss: bool,
    /// How often the log of the store is taken into its file.
    pub checkpoint_interval: Duration,
    /// Whose word about the scheme that a client used (`X-Forwarded-Proto`) is believed.
    pub trusted_proxies: Vec<IpNet>,
    /// Who is told of metrics; none: nobody, who does not ask.
    pub otlp: Option<Otlp>,
}

/// A collector of OpenTelemetry that is told of metrics at intervals (OTLP over HTTP).
#[derive(Clone, Debug)]
pub struct Otlp {
    pub(crate) endpoint: Url,
    pub(crate) interval: Duration,
}

impl Otlp {
    /// Path of metrics below the URL of a collector (OpenTelemetry Protocol Exporter, endpoint URLs).
    const METRICS: &str = "v1/metrics";

    /// A collector by its URL, such as `http://127.0.0.1:4318`, below which metrics have a path of their own.
    ///
    /// # Errors
    /// The URL is none, or not one of plain HTTP; the interval is nothing.
    pub fn new(endpoint: &str, interval: Duration) -> Result<Self, ControllerError> {
        let wrong =
            |reason: String| ControllerError::Otlp { endpoint: endpoint.to_owned(), reason };
        let below = format!("{}/", endpoint.trim_end_matches('/'));
        let url = Url::parse(&below).map_err(|error| wrong(error.to_string()))?;
        if url.scheme() != "http" || url.query().is_some() || url.fragment().is_some() {
            let reason =
                "it is no plain http:// URL of a collector; one on this host can pass on by TLS";
            return Err(wrong(reason.into()));
        }
        if !url.username().is_empty() || url.password().is_some() {
            let reason =
                "it names a user, and whoever is asked for one is not told; leave that out";
            return Err(ControllerError::Otlp {
                endpoint: "(hidden)".into(),
                reason: reason.into(),
            });
        }
        if interval.is_zero() {
            return Err(wrong("it cannot be told without a pause".into()));
        }
        let endpoint = url.join(Self::METRICS).map_err(|error| wrong(error.to_string()))?;
        Ok(Self { endpoint, interval })
    }
}

/// What a killed controller leaves in the log is no older than this.
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(60);

impl Config {
    /// A configuration with the defaults of everything else.
    #[must_use]
    pub fn new(api: ListenerSource, data_dir: impl Into<PathBuf>) -> Self {
        Self {
            api,
            southbound: None,
            data_dir: data_dir.into(),
            auth: Auth::Token,
            answer_wait: Duration::from_millis(CHAIN_ANSWER_WAIT_MS),
            overlap: Overlap::default(),
            store_bytes_max: None,
            accepts_loss: false,
            checkpoint_interval: CHECKPOINT_INTERVAL,
            trusted_proxies: Vec::new(),
            otlp: None,
        }
    }
}

/// Makes a directory that only its owner may enter; one that exists is left as it is.
pub(crate) fn make_private_directory(path: &Path) -> Result<(), ControllerError> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|source| ControllerError::File { path: path.to_path_buf(), source })
}
