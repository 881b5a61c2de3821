//! The process around the engine: a control thread, one worker or several with an engine each, a Unix
//! socket for the agent, the last accepted program on disk.
//!
//! Knows descriptors, threads and files. Refuses to know what a packet means (that is the engine's)
//! and to decide what runs (that is the program's). It goes on without agent and controller.

mod agent_connection;
mod barrier;
mod beside;
mod clock;
mod control;
mod control_socket;
mod dump;
mod function_keeper;
mod function_log;
mod function_threads;
mod hand_off;
mod kernel_tables;
mod ledger;
mod makers;
mod order;
mod priority;
mod program_log;
mod punt;
mod punt_shares;
mod rings;
mod sandbox;
mod segment_sockets;
mod segmenting_port;
mod standalone_workers;
mod tunnels;
mod underlay;
mod waker;
mod way_up;
mod worker;
mod worker_pool;

pub use catena_io::{User, drop_privileges, give_to};
pub use control_socket::ControlSocketError;
pub use function_threads::FunctionThreads;
pub use kernel_tables::KernelTables;
pub use makers::{FunctionMakers, StarterProgram};
pub use program_log::{LoggedChange, decode};
pub use standalone_workers::StandaloneWorkers;

use crate::engine::{EngineConfig, Form};
use catena_io::{IoError, TunnelReserve, share_one_heap};
use catena_model::NodeName;
use catena_model::check::ClockTime;
use control::Control;
use control_socket::ControlSocket;
use function_keeper::FunctionKeeper;
use function_log::FunctionLog;
use std::num::{NonZeroU32, NonZeroU64, NonZeroUsize};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use underlay::UNDERLAY_SOCKETS;
use worker_pool::{WorkerPool, WorkerPoolParts};

const STATE_DIR_MODE: u32 = 0o700;
/// Said in the log and among the troubles of a node.
const WITHOUT_SANDBOX: &str =
    "the data plane may make any system call and open any file of its user (--no-sandbox)";

const WITHOUT_PRIORITY: &str = "other processes that want all of the processor make packets wait, and where their rows are full, end";

/// What a data plane must be told; everything else comes with its program.
#[derive(Debug)]
pub struct Config {
    /// The node; a program of another is refused.
    pub node: NodeName,
    /// Where the agent connects; made with mode 0600.
    pub control_socket: PathBuf,
    /// Where the last accepted program is kept; made if it is missing.
    pub state_dir: PathBuf,
    /// What slices with a delay class may send together; none: as much as the node can.
    pub slice_bits_per_second: Option<NonZeroU64>,
    /// What one port may send to everybody in its network, in frames per second.
    pub flood_frames_per_second: NonZeroU32,
    /// Lead a session of its own, so that whoever started it may end.
    pub leads_session: bool,
    /// Threads that share the packets, by flow. With more than one the kernel repeats nothing.
    pub workers: NonZeroUsize,
    /// Cores that are each a worker's alone: it stays there and never sleeps. Workers without one
    /// sleep when there is nothing to do, wherever they run.
    pub busy_poll_cores: Vec<u32>,
    /// Threads that ask functions side by side for the workers, where that is worth it; 0: the workers ask them.
    pub function_threads: usize,
    /// The form in which they ask, whatever it costs; none: that which costs least.
    pub function_form: Option<Form>,
    /// Who moves packets, once what takes rights is open; none: whoever starts it.
    pub user: Option<User>,
    /// Who starts processes for functions that have one of their own; none: no such function can run.
    pub starter: Option<StarterProgram>,
    /// Leave the process only the files and system calls that it needs: it ends at once when it asks
    /// for others. For processes of their own: threads stay what they have become.
    pub is_confined: bool,
    /// Ends the process cleanly when it becomes readable or its other end is closed.
    pub stop: Option<OwnedFd>,
}

/// Why a data plane cannot run, or cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum DataplaneError {
    /// The control socket or the state directory is not ours.
    #[error(transparent)]
    ControlSocket(#[from] ControlSocketError),
    /// The state directory cannot be made.
    #[error(
        "the state directory {path} cannot be made: {source}; programs must survive a restart: \
         name a directory that this user may write to"
    )]
    StateDir {
        /// The directory.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// Threads, descriptors or waiting were refused.
    #[error(
        "the system does not give the data plane what it needs: {0}; look at the limits of open \
         files and processes"
    )]
    Start(#[source] std::io::Error),
    /// Privileges could not be given up.
    #[error(
        "privileges cannot be given up: {0}; packets of tenants are not touched with privileges: \
         look for a security policy that forbids it"
    )]
    Confine(#[source] IoError),
    /// The kernel cannot hold it back from what it does not need.
    #[error(
        "the sandbox cannot be closed: {0}; use a kernel with seccomp filters, or start the agent \
         with --no-sandbox"
    )]
    Sandbox(#[source] IoError),
    /// The kernel's tables, which the agent counts on, are of no use.
    #[error("the kernel path is of no use: {0}; the agent will start the data plane anew")]
    KernelPath(String),
    /// Functions have processes of their own, and whoever starts these has ended.
    #[error(
        "the process that starts those of functions with 'door: beside' has ended; the agent will start the data \
         plane anew"
    )]
    StarterEnded,
    /// A worker cannot wait for its ports, or not be confined.
    #[error("a worker ended: {0}; the agent will start the data plane anew")]
    Worker(#[source] IoError),
    /// A worker ended without a reason: it panicked.
    #[error("a worker ended unexpectedly; its last words are in the log: please report them")]
    WorkerEnded,
    /// Counters have no text form.
    #[error("the counters cannot be written: {0}; please report it")]
    Answer(#[source] serde_json::Error),
}

/// Runs a data plane until it is told to stop. The calling thread loses its privileges for good, and
/// should be the only one of the process: threads that exist keep theirs.
///
/// # Errors
/// When it cannot start, or must begin anew.
pub fn run(config: Config) -> Result<(), DataplaneError> {
    if config.leads_session {
        // A process that leads a group already is refused; it is then as independent as it needs.
        rustix::process::setsid().ok();
        if let Err(error) = priority::go_first() {
            tracing::warn!("without priority: {error}; {WITHOUT_PRIORITY}");
        }
    }
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true).mode(STATE_DIR_MODE);
    builder
        .create(&config.state_dir)
        .map_err(|source| DataplaneError::StateDir { path: config.state_dir.clone(), source })?;
    if let Some(user) = config.user {
        give_to(&config.state_dir, user).map_err(|source| DataplaneError::StateDir {
            path: config.state_dir.clone(),
            source,
        })?;
    }
    let mut functions = FunctionLog::open(&config.state_dir, clock::real_seconds());
    let engine = EngineConfig {
        slice_bits_per_second: config.slice_bits_per_second,
        flood_frames_per_second: config.flood_frames_per_second,
        // Nobody reads it within the sandbox.
        began: clock::identity(Path::new("/proc")).map(|clock| ClockTime { clock, ns: 0 }),
        functions_epoch_seconds: functions.epoch_seconds(),
        meter: Some(clock::now_ns),
        ..EngineConfig::new(config.node.clone())
    };
    let workers = u32::try_from(config.workers.get()).unwrap_or(u32::MAX);
    let parts = WorkerPoolParts {
        workers: config.workers,
        remembered: Some(functions.share_out(workers)),
        own_cores: config.busy_poll_cores.clone(),
        function_threads: config.function_threads,
        function_form: config.function_form,
        are_confined: config.is_confined,
    };
    let reserve = (TunnelReserve::open(UNDERLAY_SOCKETS), control::segments::reserve());
    // Threads inherit what this one has left: none may start before.
    drop_privileges(config.user).map_err(DataplaneError::Confine)?;
    // Without privileges, and while processes may be started.
    let starter = makers::start_starter(config.starter.as_ref())?;
    let _lock = control_socket::lock(&config.state_dir)?;
    let socket = ControlSocket::open(&config.control_socket)?;
    if config.is_confined {
        // A backtrace reads files, which would be the end of the process where a function alone is to die.
        std::panic::set_hook(Box::new(|panic| tracing::error!("{panic}")));
        share_one_heap();
        sandbox::wall_in(&config.state_dir, &config.control_socket)
            .map_err(DataplaneError::Sandbox)?;
    } else {
        tracing::warn!("without a sandbox: {WITHOUT_SANDBOX}");
    }
    let keeper = FunctionKeeper::start(functions, config.is_confined)?;
    let workers = WorkerPool::start(&engine, parts)?;
    let makers = Arc::new(FunctionMakers::start(starter, config.is_confined)?);
    if config.is_confined {
        sandbox::confine_control().map_err(DataplaneError::Sandbox)?;
    }
    let mut control = Control::new(config, socket, (workers, keeper, makers), engine, reserve);
    control.resume()?;
    control.serve()
}
