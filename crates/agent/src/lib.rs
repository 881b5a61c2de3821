//! Node agent: keeps one node at its program.
//!
//! Knows the controller's session, the data plane process and the interfaces behind ports. Refuses
//! to decide anything about packets: the program says it all, and the data plane, a process of its
//! own, goes on when the agent is gone.
#![forbid(unsafe_code)]

mod absence;
mod capacity;
mod clock;
mod collectors;
mod counters;
mod discovery;
mod error;
mod export;
mod fast_path;
mod flaps;
mod holdings;
mod interfaces;
mod link;
mod links;
mod locator;
mod messages;
mod missed;
mod needed;
mod node;
mod open_error;
mod orchestrator;
mod path_ends;
mod port_io;
mod ports;
mod punt_watch;
mod southbound;
mod start;
mod stubs;
mod underlay;

pub use error::AgentError;
pub use export::Exports;
pub use port_io::PortIo;

use catena_model::NodeName;
use catena_model::program::SegmentPlace;
use catena_model::topology::NodeRole;
use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};

/// Messages that may wait between two tasks of the agent; above it the slower side is reset.
const QUEUE_MESSAGES_MAX: usize = 256;

/// What an agent must be told.
#[derive(Clone, Debug)]
pub struct Config {
    /// The node; its certificate must carry the same name.
    pub node: NodeName,
    /// What the node is for.
    pub role: NodeRole,
    /// Where the controller listens for agents, `host:port`.
    pub controller: String,
    /// Mutual TLS with the controller.
    pub tls: TlsPaths,
    /// Own address on the data network.
    pub underlay_address: IpAddr,
    /// Own place in the IPv6 underlay, if the node has one.
    pub segments: Option<SegmentPlace>,
    /// Devices by which tunnels of other nodes come in; none: the one that has the address.
    pub underlay_devices: Vec<String>,
    /// Largest IP packet of the data network, in bytes.
    pub underlay_mtu: u16,
    /// The interfaces that are links between nodes, by name; `*` stands for any characters, `?` for one.
    pub links: Vec<String>,
    /// The data plane of this node.
    pub dataplane: DataplanePaths,
    /// Where the instances that the node runs itself are kept.
    pub instances: InstancePaths,
    /// Let the kernel repeat what the data plane decides, if it can.
    pub uses_fast_path: bool,
    /// How the data plane takes frames from ports; anything but a packet ring goes past the kernel
    /// path and needs `uses_fast_path` to be false.
    pub port_io: PortIo,
    /// Collectors of what packets with telemetry say.
    pub exports: Exports,
}

/// PEM files of mutual TLS. They are read at each connection, so that they may be renewed.
#[derive(Clone, Debug)]
pub struct TlsPaths {
    /// Certificate of the authority that signed the controller's certificate.
    pub ca: PathBuf,
    /// Own certificate; its name is the node's.
    pub cert: PathBuf,
    /// Own private key.
    pub key: PathBuf,
}

/// Where the data plane is found, and how it is started when it is not there.
#[derive(Clone, Debug)]
pub struct DataplanePaths {
    /// Program and arguments of a data plane for this node and this control socket.
    pub command: Vec<OsString>,
    /// Its control socket.
    pub control_socket: PathBuf,
}

/// Where instances that a node runs itself are kept.
#[derive(Clone, Debug)]
pub struct InstancePaths {
    /// A folder that nobody else may write to: by it, what runs is found again. Made when it is needed.
    pub home: PathBuf,
    /// The binary of `catena nf`.
    pub binary: PathBuf,
    /// Where control groups are mounted.
    pub cgroups: PathBuf,
    /// Where control groups that were made are written down: a folder of the machine, whatever becomes of `home`.
    pub cgroup_journal: PathBuf,
}

/// Keeps the node at its program until SIGTERM or SIGINT. The data plane goes on after that.
///
/// # Errors
/// When the configuration cannot work: no command, no signals, unreadable certificates.
pub async fn run(config: Config) -> Result<(), AgentError> {
    southbound::read_identity(&config.tls)?;
    if config.dataplane.command.is_empty() {
        return Err(AgentError::NoCommand);
    }
    if config.port_io != PortIo::PacketRing && config.uses_fast_path {
        return Err(AgentError::PortsPastTheFastPath);
    }
    if config.port_io == PortIo::Xdp
        && let Err(error) = catena_kernel::xdp::allow_locked_memory()
    {
        tracing::warn!("AF_XDP ports get small rings: {error}");
    }
    let mut terminate = signal(SignalKind::terminate()).map_err(AgentError::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(AgentError::Signals)?;

    let (link_events, from_link) = mpsc::channel(QUEUE_MESSAGES_MAX);
    let (session_events, from_session) = mpsc::channel(QUEUE_MESSAGES_MAX);
    let links = config.links.is_empty().then(Vec::new);
    let announcement = southbound::Announcement { links, ..Default::default() };
    let (announce, announced) = watch::channel(announcement);
    let (opened, from_opening) = mpsc::channel(QUEUE_MESSAGES_MAX);
    let interfaces = interfaces::Interfaces::of_this_node(opened, &config).await;
    let interfaces = interfaces.map_err(AgentError::Interfaces)?;
    let link = tokio::spawn(link::keep(config.clone(), link_events));
    let session = tokio::spawn(southbound::keep(config.clone(), announced, session_events));
    let (instance_news, from_instances) = mpsc::channel(QUEUE_MESSAGES_MAX);
    let crew =
        orchestrator::crew(&config.instances, instance_news).map_err(AgentError::Interfaces)?;
    let node = node::Node::new(config, announce, interfaces, crew);
    tokio::select! {
        () = node.run(from_link, from_session, from_opening, from_instances) => {}
        _ = terminate.recv() => tracing::info!("told to stop; the data plane goes on"),
        _ = interrupt.recv() => tracing::info!("interrupted; the data plane goes on"),
    }
    link.abort();
    session.abort();
    Ok(())
}
