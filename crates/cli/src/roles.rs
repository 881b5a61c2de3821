//! The roles of a deployment: controller, agent, data plane. Turns command lines into their
//! configurations and runs them until they end.

use crate::connection::default_api;
use crate::failure::Failure;
use catena_agent::{DataplanePaths, TlsPaths};
use catena_controller::{Auth, ListenerSource, Overlap};
use catena_kernel::signals::{BlockedSignals, Signal};
use catena_model::NodeName;
use clap::{Args, ValueEnum};
use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(crate) struct ControllerArguments {
    /// Where the REST API listens: ADDRESS:PORT, or fd:N for an inherited socket.
    #[arg(long, default_value = default_api())]
    listen: String,
    /// Where agents dial in: ADDRESS:PORT.
    #[arg(long)]
    southbound: Option<SocketAddr>,
    /// Store and certificates.
    #[arg(long)]
    data: PathBuf,
    /// Who may use the API; `none` is for loopback only.
    #[arg(long, value_enum, default_value = "token")]
    auth: AuthChoice,
    /// Whether flow classifiers may overlap; `refused` is what networking-sfc does.
    #[arg(long, value_enum, default_value = "refused")]
    overlap: OverlapChoice,
    #[command(flatten)]
    keystone: crate::keystone::KeystoneArguments,
}

#[derive(Clone, Copy, ValueEnum)]
enum OverlapChoice {
    /// One packet is for one chain.
    Refused,
    /// The rule with the longer prefixes goes first.
    Allowed,
}

#[derive(Clone, Copy, ValueEnum)]
enum AuthChoice {
    /// Everybody who reaches the socket.
    None,
    /// Holders of a token; the first start prints one.
    Token,
    /// Holders of a token of a Keystone, or of one of ours.
    Keystone,
}

#[derive(Args)]
pub(crate) struct AgentArguments {
    /// Name of this node; its certificate carries the same.
    #[arg(long)]
    node: NodeName,
    /// The controller's southbound address, HOST:PORT.
    #[arg(long)]
    controller: String,
    /// Folder with ca.pem, node.pem and node.key (`catena node enroll` makes them).
    #[arg(long)]
    tls: PathBuf,
    /// Where the data plane keeps its last program and its socket.
    #[arg(long)]
    state: PathBuf,
    /// Own address on the data network.
    #[arg(long)]
    underlay: IpAddr,
    /// Largest IP packet of the data network, in bytes.
    #[arg(long, default_value_t = 1_500)]
    underlay_mtu: u16,
}

#[derive(Args)]
pub(crate) struct DataplaneArguments {
    /// Name of this node.
    #[arg(long)]
    node: NodeName,
    /// Where its last program and its socket are kept.
    #[arg(long)]
    state: PathBuf,
}

/// The socket on which agent and data plane of a node meet.
fn control_socket(state: &Path) -> PathBuf {
    state.join("dataplane.sock")
}

pub(crate) fn controller(arguments: ControllerArguments) -> Result<(), Failure> {
    let mut config = catena_controller::Config::new(listener(&arguments.listen)?, arguments.data);
    config.southbound = arguments.southbound.map(ListenerSource::Address);
    config.overlap = match arguments.overlap {
        OverlapChoice::Refused => Overlap::Refused,
        OverlapChoice::Allowed => Overlap::Allowed,
    };
    config.auth = match arguments.auth {
        AuthChoice::None => Auth::None,
        AuthChoice::Token => Auth::Token,
        AuthChoice::Keystone => Auth::Keystone(Box::new(arguments.keystone.config()?)),
    };
    Ok(runtime()?.block_on(catena_controller::run(config))?)
}

fn listener(text: &str) -> Result<ListenerSource, Failure> {
    let Some(number) = text.strip_prefix("fd:") else {
        let address = text.parse().map_err(|_| {
            Failure::usage(format!("--listen {text}: expected ADDRESS:PORT or fd:N"))
        })?;
        return Ok(ListenerSource::Address(address));
    };
    let number = number.parse().map_err(|_| {
        Failure::usage(format!("--listen {text}: '{number}' is not a descriptor number"))
    })?;
    let socket = catena_kernel::process::inherited_fd(number)?;
    Ok(ListenerSource::Bound(TcpListener::from(socket)))
}

pub(crate) fn agent(arguments: AgentArguments) -> Result<(), Failure> {
    let own = std::env::current_exe()?;
    let mut command: Vec<OsString> = vec![own.into(), "dataplane".into(), "--node".into()];
    command.extend([
        arguments.node.as_str().into(),
        "--state".into(),
        arguments.state.clone().into(),
    ]);
    let config = catena_agent::Config {
        node: arguments.node,
        controller: arguments.controller,
        tls: TlsPaths {
            ca: arguments.tls.join("ca.pem"),
            cert: arguments.tls.join("node.pem"),
            key: arguments.tls.join("node.key"),
        },
        underlay_address: arguments.underlay,
        underlay_mtu: arguments.underlay_mtu,
        dataplane: DataplanePaths {
            command,
            control_socket: control_socket(&arguments.state),
            program_file: catena_dataplane::shell::program_file(&arguments.state),
        },
    };
    Ok(runtime()?.block_on(catena_agent::run(config))?)
}

pub(crate) fn dataplane(arguments: DataplaneArguments) -> Result<(), Failure> {
    let config = catena_dataplane::shell::Config {
        node: arguments.node,
        control_socket: control_socket(&arguments.state),
        state_dir: arguments.state,
        leads_session: true,
        stop: Some(end_of_signals()?),
    };
    Ok(catena_dataplane::shell::run(config)?)
}

/// A socket whose other end closes when the process is told to stop. Call it before the first
/// thread starts: all of them must have the signals blocked.
fn end_of_signals() -> Result<OwnedFd, Failure> {
    let signals = BlockedSignals::block(&[Signal::TERM, Signal::INT])?;
    let (ours, theirs) = UnixStream::pair()?;
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        if let Err(error) = signals.wait() {
            tracing::error!("cannot wait for signals, stopping: {error}");
        }
        drop(ours);
    })?;
    Ok(theirs.into())
}

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?)
}
