//! The roles of a deployment: controller, agent, data plane. Turns command lines into their
//! configurations and runs them until they end.

use crate::connection::default_api;
use crate::failure::Failure;
use crate::nf_beside;
use crate::user;
use catena_agent::{DataplanePaths, Exports, InstancePaths, PortIo, TlsPaths};
use catena_controller::{Auth, ListenerSource, Otlp, Overlap};
use catena_dataplane::engine::FLOOD_FRAMES_PER_SECOND;
use catena_dataplane::shell::User;
use catena_kernel::signals::{BlockedSignals, Signal};
use catena_model::NodeName;
use catena_model::limits::{NODE_FUNCTION_THREADS_MAX, NODE_WORKERS_MAX};
use catena_model::parallelism::Form;
use catena_model::program::{Locator, SegmentPlace};
use catena_model::topology::NodeRole;
use clap::{Args, ValueEnum};
use ipnet::IpNet;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener};
use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// How long a controller that was told to stop waits for the disk.
const END_WAIT: Duration = Duration::from_secs(10);
/// How long an agent that was told to stop waits for its tasks.
const TASKS_END_WAIT: Duration = Duration::from_secs(1);

/// Where instances of nodes are kept, if nothing else is said.
const INSTANCES: &str = "/var/lib/catena-instances";
/// Where control groups are written down, for all agents of a machine: those of a lab are gone before their groups.
const CGROUP_JOURNAL: &str = "/var/lib/catena-cgroups";

/// Threads that serve what does not block.
const WORKERS: usize = 2;
/// As many heaps as can be busy at a time: with one for each thread a controller of 10,000 chains takes a
/// sixth more memory (`controller_mib_10000` of `cargo xtask bench growth`).
const CONTROLLER_HEAPS: u8 = 2;

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
    /// Who the controller becomes, without any right of root: NAME, UID or UID:GID; --data is given to
    /// it. Where root starts it and there is a user catena-controller, that one.
    #[arg(long, value_name = "USER", value_parser = user::parse)]
    user: Option<User>,
    /// Who may use the API; `none` is for loopback only.
    #[arg(long, value_enum, default_value = "token")]
    auth: AuthChoice,
    /// Whether flow classifiers may overlap; `refused` is what networking-sfc does.
    #[arg(long, value_enum, default_value = "refused")]
    overlap: OverlapChoice,
    /// Take the store as it is, though changes that were acknowledged are missing: for one start,
    /// after a damage that no backup helps against.
    #[arg(long)]
    accept_store: bool,
    /// A proxy in front of the API, ADDRESS or ADDRESS/LENGTH, whose X-Forwarded-Proto is believed:
    /// links then begin as its clients called (may be given several times).
    #[arg(long = "trusted-proxy", value_name = "PREFIX", value_parser = proxies)]
    trusted_proxies: Vec<IpNet>,
    /// A collector of OpenTelemetry that is told all of /metrics at intervals (OTLP over HTTP), such as
    /// http://127.0.0.1:4318.
    #[arg(long, value_name = "URL")]
    otlp_endpoint: Option<String>,
    /// Seconds from one such telling to the next.
    #[arg(long, value_name = "SECONDS", default_value_t = 15, requires = "otlp_endpoint", value_parser = clap::value_parser!(u64).range(1..=3_600))]
    otlp_interval: u64,
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

/// A pattern of interfaces that may be links.
fn link_pattern(text: &str) -> Result<String, String> {
    match text {
        "" => Err("name an interface".into()),
        "lo" => Err("it leads to nobody else; name an interface with a cable in it".into()),
        _ => Ok(text.to_owned()),
    }
}

/// A collector of telemetry. Its host is looked up when there is something to tell.
pub(crate) fn collector(text: &str) -> Result<String, String> {
    let is_port = |port: &str| port.parse().is_ok_and(|port: u16| port > 0);
    let parts = text.rsplit_once(':').filter(|(host, port)| !host.is_empty() && is_port(port));
    let is_address = |host: &str| {
        let inside = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        inside.is_some_and(|inside| inside.parse::<Ipv6Addr>().is_ok())
    };
    let is_name =
        |host: &str| !host.contains([':', '[', ']']) && !host.contains(char::is_whitespace);
    match parts {
        Some((host, _)) if is_address(host) || is_name(host) => Ok(text.to_owned()),
        _ => Err("expected HOST:PORT, such as 192.0.2.7:4739 or [2001:db8::7]:4739".into()),
    }
}

/// What a node is for.
#[derive(Clone, Copy, ValueEnum)]
enum RoleChoice {
    /// It has ports of tenants.
    Host,
    /// It forwards between links, and has no tenants.
    Switch,
}

impl From<RoleChoice> for NodeRole {
    fn from(choice: RoleChoice) -> Self {
        match choice {
            RoleChoice::Host => Self::Host,
            RoleChoice::Switch => Self::Switch,
        }
    }
}

/// How data planes take frames from ports.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum PortIoChoice {
    /// A packet ring at any interface; the kernel path stands in front of it.
    Afpacket,
    /// AF_XDP, zero-copy where the driver can.
    Xdp,
    /// A TAP in the namespace that the port leads to, made if it is not there.
    Tap,
}

impl PortIoChoice {
    /// As it stands on a command line.
    pub(crate) fn word(self) -> Option<String> {
        Some(self.to_possible_value()?.get_name().to_owned())
    }
}

impl From<PortIoChoice> for PortIo {
    fn from(choice: PortIoChoice) -> Self {
        match choice {
            PortIoChoice::Afpacket => Self::PacketRing,
            PortIoChoice::Xdp => Self::Xdp,
            PortIoChoice::Tap => Self::Tap,
        }
    }
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
    /// What the node is for: a host has ports of tenants, a switch forwards between links and has none.
    #[arg(long, value_enum, default_value = "host")]
    role: RoleChoice,
    /// An interface that is a link between nodes, by name; in it `*` stands for any characters and `?` for one.
    /// It is never a port's. May be given several times.
    #[arg(long = "link", value_name = "INTERFACE", value_parser = link_pattern)]
    links: Vec<String>,
    /// Where the data plane keeps its last program and its socket.
    #[arg(long)]
    state: PathBuf,
    /// Where instances of functions that this node runs itself are kept; nobody else may write there. Without it, a
    /// folder below /var/lib/catena-instances with the node's name.
    #[arg(long, value_name = "DIR")]
    instances: Option<PathBuf>,
    /// Own address on the data network.
    #[arg(long)]
    underlay: IpAddr,
    /// Own address in the IPv6 underlay, for chains over segments (SRv6).
    #[arg(long, value_name = "ADDRESS", requires = "locator")]
    underlay6: Option<Ipv6Addr>,
    /// The prefix of this node's segment identifiers, of 48 bits and nobody else's; the routers between nodes lead it
    /// here.
    #[arg(long, value_name = "PREFIX/48", requires = "underlay6")]
    locator: Option<Locator>,
    /// A device by which tunnels of other nodes come in, where it is not the one that has the
    /// address: an address on lo, or several links. It is never a port's. May be given several times.
    #[arg(long = "underlay-device", value_name = "INTERFACE")]
    underlay_devices: Vec<String>,
    /// Largest IP packet of the data network, in bytes.
    #[arg(long, default_value_t = 1_500)]
    underlay_mtu: u16,
    #[command(flatten)]
    staff: StaffArguments,
    /// Decide every packet in the data plane: the kernel repeats nothing.
    #[arg(long)]
    no_fastpath: bool,
    /// Who the data plane is once its sockets are open: NAME, UID or UID:GID; where the agent is root
    /// and there is a user catena-dataplane, that one.
    #[arg(long, value_name = "USER", value_parser = user::parse)]
    dataplane_user: Option<User>,
    /// Run the data plane without its sandbox, to look at it: any system call, any file of its user.
    #[arg(long)]
    no_sandbox: bool,
    /// Tell a collector, HOST:PORT by UDP, what packets with telemetry say at the end of their path, as IPFIX.
    #[arg(long, value_name = "HOST:PORT", value_parser = collector)]
    ipfix_collector: Option<String>,
    /// The same as telemetry reports 2.0 of the P4 applications working group.
    #[arg(long, value_name = "HOST:PORT", value_parser = collector)]
    int_collector: Option<String>,
    /// How the data plane takes frames from ports; `xdp` and `tap` need --no-fastpath.
    #[arg(long, value_enum, default_value = "afpacket")]
    port_io: PortIoChoice,
    /// What slices with a delay class may send together, in bits per second; without it as much as
    /// the node can.
    #[arg(long)]
    slice_rate: Option<NonZeroU64>,
    /// What one port may send to everybody in its network (broadcast, multicast), in frames per
    /// second, and as many at once.
    #[arg(long, default_value_t = FLOOD_FRAMES_PER_SECOND)]
    flood_rate: NonZeroU32,
}

/// Who moves packets in a data plane.
#[derive(Args)]
struct StaffArguments {
    /// Threads of the data plane that share the packets, by flow. More than one needs --no-fastpath.
    #[arg(long, default_value_t = NonZeroUsize::MIN)]
    workers: NonZeroUsize,
    /// A core that is a worker's alone: it stays there and never sleeps; once for each worker.
    /// Without it workers sleep when there is nothing to do.
    #[arg(long = "busy-poll-core", value_name = "CORE")]
    busy_poll_cores: Vec<u32>,
    /// Threads of the data plane that ask functions of a hop side by side, or in a pipeline, where that is faster: two
    /// for a pipeline, for side by side at least as many as the widest stage has functions (`catena chain show NAME
    /// --why`). 0: its workers ask them, one after the other.
    #[arg(long, default_value_t = 0)]
    function_threads: usize,
    /// The form in which functions are asked, whatever it costs: for experiments. Without it each node chooses.
    #[arg(long, value_enum, requires = "function_threads")]
    function_form: Option<FormArgument>,
}

/// How functions of a hop are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FormArgument {
    /// By the worker, one after the other.
    Fuse,
    /// By a thread each, one after the other.
    Pipeline,
    /// By a thread each, side by side where nobody can tell.
    Fork,
}

impl FormArgument {
    const fn form(self) -> Form {
        match self {
            Self::Fuse => Form::Fuse,
            Self::Pipeline => Form::Pipeline,
            Self::Fork => Form::Fork,
        }
    }

    /// Its word on a command line.
    pub(crate) const fn word(self) -> &'static str {
        self.form().name()
    }
}

/// Refuses more workers than a data plane has.
pub(crate) fn check_workers(workers: NonZeroUsize) -> Result<(), Failure> {
    if workers.get() > NODE_WORKERS_MAX {
        return Err(Failure::usage(format!(
            "--workers {workers}: a data plane has at most {NODE_WORKERS_MAX}"
        )));
    }
    Ok(())
}

impl StaffArguments {
    /// As they stand on a command line.
    fn words(&self) -> Vec<OsString> {
        let mut words = vec!["--workers".into(), self.workers.to_string().into()];
        words.extend(["--function-threads".into(), self.function_threads.to_string().into()]);
        if let Some(form) = self.function_form {
            words.extend(["--function-form".into(), form.word().into()]);
        }
        for core in &self.busy_poll_cores {
            words.extend(["--busy-poll-core".into(), core.to_string().into()]);
        }
        words
    }

    fn check(&self) -> Result<(), Failure> {
        check_workers(self.workers)?;
        if self.function_threads > NODE_FUNCTION_THREADS_MAX {
            return Err(Failure::usage(format!(
                "--function-threads {}: a data plane has at most {NODE_FUNCTION_THREADS_MAX}",
                self.function_threads
            )));
        }
        if self.function_threads == 0
            && let Some(form @ (FormArgument::Pipeline | FormArgument::Fork)) = self.function_form
        {
            return Err(Failure::usage(format!(
                "--function-form {} needs threads that ask functions: give --function-threads N, too",
                form.word()
            )));
        }
        let (workers, cores) = (self.workers.get(), self.busy_poll_cores.len());
        let distinct: BTreeSet<&u32> = self.busy_poll_cores.iter().collect();
        if distinct.len() < cores {
            return Err(Failure::usage(
                "--busy-poll-core names a core twice: a worker that never sleeps starves the other",
            ));
        }
        if cores != 0 && cores != workers {
            return Err(Failure::usage(format!(
                "--busy-poll-core is given {cores} times for {workers} workers: name a core for \
                 each worker, or for none"
            )));
        }
        Ok(())
    }
}

#[derive(Args)]
pub(crate) struct DataplaneArguments {
    /// Name of this node.
    #[arg(long)]
    node: NodeName,
    /// Where its last program and its socket are kept.
    #[arg(long)]
    state: PathBuf,
    #[command(flatten)]
    staff: StaffArguments,
    /// What slices with a delay class may send together, in bits per second.
    #[arg(long)]
    slice_rate: Option<NonZeroU64>,
    /// What one port may send to everybody in its network, in frames per second.
    #[arg(long, default_value_t = FLOOD_FRAMES_PER_SECOND)]
    flood_rate: NonZeroU32,
    /// Who it is once its sockets are open: NAME, UID or UID:GID.
    #[arg(long, value_name = "USER", value_parser = user::parse)]
    user: Option<User>,
    /// Any system call, any file of its user.
    #[arg(long)]
    no_sandbox: bool,
}

/// The socket on which agent and data plane of a node meet.
fn control_socket(state: &Path) -> PathBuf {
    state.join("dataplane.sock")
}

/// A prefix; an address alone is one of its whole length.
fn proxies(text: &str) -> Result<IpNet, String> {
    let address = || text.parse::<IpAddr>().map(IpNet::from);
    text.parse().or_else(|_| address()).map_err(|_| {
        format!("'{text}' is neither an address nor a prefix; write 192.0.2.7 or 192.0.2.0/24")
    })
}

pub(crate) fn controller(arguments: ControllerArguments) -> Result<(), Failure> {
    // What one request leaves in its thread's heap serves the next, whichever thread that comes to.
    catena_kernel::heaps::share(CONTROLLER_HEAPS);
    // Threads inherit what this one has left: none may start before.
    if let Some(user) = arguments.user.or_else(user::of_controllers) {
        user::become_owner(user, &arguments.data)?;
    }
    let mut config = catena_controller::Config::new(listener(&arguments.listen)?, arguments.data);
    config.southbound = arguments.southbound.map(ListenerSource::Address);
    config.trusted_proxies = arguments.trusted_proxies;
    let interval = Duration::from_secs(arguments.otlp_interval);
    let otlp = arguments.otlp_endpoint.map(|endpoint| Otlp::new(&endpoint, interval));
    config.otlp = otlp.transpose()?;
    config.overlap = match arguments.overlap {
        OverlapChoice::Refused => Overlap::Refused,
        OverlapChoice::Allowed => Overlap::Allowed,
    };
    config.auth = match arguments.auth {
        AuthChoice::None => Auth::None,
        AuthChoice::Token => Auth::Token,
        AuthChoice::Keystone => Auth::Keystone(Box::new(arguments.keystone.config()?)),
    };
    config.accepts_loss = arguments.accept_store;
    let runtime = runtime()?;
    let end = runtime.block_on(async {
        tokio::select! {
            end = catena_controller::run(config) => end.map_err(Failure::from),
            end = told_to_stop() => end,
        }
    });
    // What is on its way to the disk gets there; then the store is closed.
    runtime.shutdown_timeout(END_WAIT);
    end
}

/// Waits until the process is told to stop.
async fn told_to_stop() -> Result<(), Failure> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = terminate.recv() => tracing::info!("told to stop; nodes go on as they are"),
        _ = interrupt.recv() => tracing::info!("interrupted; nodes go on as they are"),
    }
    Ok(())
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

/// A node's place in the IPv6 underlay, if it is to have one.
fn segments(
    address: Option<Ipv6Addr>,
    locator: Option<Locator>,
) -> Result<Option<SegmentPlace>, Failure> {
    let place = address.zip(locator).map(|(address, locator)| SegmentPlace { address, locator });
    match place.filter(|place| place.locator.contains(place.address)) {
        None => Ok(place),
        Some(SegmentPlace { address, locator }) => Err(Failure::usage(format!(
            "--underlay6 {address} is below --locator {locator}, whose packets never come to the host: give an address \
             outside of it"
        ))),
    }
}

pub(crate) fn agent(arguments: AgentArguments) -> Result<(), Failure> {
    arguments.staff.check()?;
    if arguments.staff.workers > NonZeroUsize::MIN && !arguments.no_fastpath {
        return Err(Failure::usage(format!(
            "--workers {} needs --no-fastpath: the kernel can repeat what one worker decides alone",
            arguments.staff.workers
        )));
    }
    let segments = segments(arguments.underlay6, arguments.locator)?;
    let own = std::env::current_exe()?;
    let mut command: Vec<OsString> = vec![own.into(), "dataplane".into(), "--node".into()];
    command.extend([
        arguments.node.as_str().into(),
        "--state".into(),
        arguments.state.clone().into(),
    ]);
    command.extend(arguments.staff.words());
    if let Some(rate) = arguments.slice_rate {
        command.extend(["--slice-rate".into(), rate.to_string().into()]);
    }
    command.extend(["--flood-rate".into(), arguments.flood_rate.to_string().into()]);
    if let Some(User { uid, gid }) = arguments.dataplane_user.or_else(user::of_dataplanes) {
        command.extend(["--user".into(), format!("{uid}:{gid}").into()]);
    }
    if arguments.no_sandbox {
        command.push("--no-sandbox".into());
    }
    let home = || Path::new(INSTANCES).join(arguments.node.as_str());
    let instances = InstancePaths {
        home: arguments.instances.clone().unwrap_or_else(home),
        binary: std::env::current_exe()?,
        cgroups: catena_kernel::cgroup::ROOT.into(),
        cgroup_journal: CGROUP_JOURNAL.into(),
    };
    let config = catena_agent::Config {
        node: arguments.node,
        role: arguments.role.into(),
        links: arguments.links,
        controller: arguments.controller,
        tls: TlsPaths {
            ca: arguments.tls.join("ca.pem"),
            cert: arguments.tls.join("node.pem"),
            key: arguments.tls.join("node.key"),
        },
        underlay_address: arguments.underlay,
        segments,
        underlay_devices: arguments.underlay_devices,
        underlay_mtu: arguments.underlay_mtu,
        dataplane: DataplanePaths { command, control_socket: control_socket(&arguments.state) },
        instances,
        uses_fast_path: !arguments.no_fastpath,
        port_io: arguments.port_io.into(),
        exports: Exports { ipfix: arguments.ipfix_collector, int_reports: arguments.int_collector },
    };
    let runtime = runtime()?;
    let end = runtime.block_on(catena_agent::run(config));
    // Whoever still looks a name up is not waited for, but what tasks hold is given back.
    runtime.shutdown_timeout(TASKS_END_WAIT);
    Ok(end?)
}

pub(crate) fn dataplane(arguments: DataplaneArguments) -> Result<(), Failure> {
    arguments.staff.check()?;
    let config = catena_dataplane::shell::Config {
        slice_bits_per_second: arguments.slice_rate,
        flood_frames_per_second: arguments.flood_rate,
        node: arguments.node,
        control_socket: control_socket(&arguments.state),
        state_dir: arguments.state,
        leads_session: true,
        workers: arguments.staff.workers,
        function_threads: arguments.staff.function_threads,
        function_form: arguments.staff.function_form.map(FormArgument::form),
        busy_poll_cores: arguments.staff.busy_poll_cores,
        user: arguments.user,
        starter: Some(nf_beside::starter()),
        is_confined: !arguments.no_sandbox,
        // Without a thread: whoever existed before privileges are dropped would keep them.
        stop: Some(BlockedSignals::block(&[Signal::TERM, Signal::INT])?.descriptor()?),
    };
    Ok(catena_dataplane::shell::run(config)?)
}

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    Ok(builder.worker_threads(WORKERS).enable_all().build()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_is_a_host_and_a_port() {
        for right in ["192.0.2.7:4739", "[2001:db8::7]:4739", "collector.example:1"] {
            assert_eq!(collector(right).as_deref(), Ok(right));
        }
        for wrong in [
            "",
            "192.0.2.7",
            ":4739",
            "a:0",
            "a:65536",
            "a:b",
            "2001:db8::7:4739",
            "2001:db8::7",
            "[]:1",
            "[:1",
            "a b:1",
        ] {
            assert!(collector(wrong).is_err_and(|why| why.contains("HOST:PORT")), "{wrong}");
        }
    }
}
