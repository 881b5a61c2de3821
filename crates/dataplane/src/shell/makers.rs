//! The thread that makes functions for the workers, and the process that starts others for functions that have one of
//! their own. Knows how a process is asked for and let go; refuses to know what a function does.

use super::beside::{Beside, Process};
use super::{DataplaneError, sandbox};
use crate::engine::Makers;
use catena_io::{IoError, Mailbox, receive_with_fds};
use catena_model::bundle::Configuration;
use catena_nf::Function;
use catena_nf::registry::{self, Surroundings};
use rustix::io::Errno;
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socketpair};
use std::ffi::OsString;
use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Bytes of what the starter answers, at most.
const ANSWER_BYTES: usize = 512;
/// How long nothing is made after something could not be.
const PAUSE: Duration = Duration::from_millis(200);
/// How long the starter may take for an answer.
const STARTING: Duration = Duration::from_secs(5);

/// The program that starts processes for functions: it speaks with its standard input, a socket.
#[derive(Clone, Debug)]
pub struct StarterProgram {
    /// Its file.
    pub program: PathBuf,
    /// What it is told.
    pub arguments: Vec<OsString>,
}

/// What the thread has to do.
pub(super) enum Task {
    Do(Box<dyn FnOnce() -> bool + Send>),
    /// Lets go of a process that has been ended.
    Close(Process),
}

/// Who makes functions for the workers of a data plane.
pub struct FunctionMakers {
    /// None: processes cannot be started here.
    starter: Option<Arc<OwnedFd>>,
    /// Held by whoever asks it.
    turn: Mutex<()>,
    /// It was asked for a process.
    is_asked: AtomicBool,
    /// The last process that it was asked for did not come.
    is_in_trouble: AtomicBool,
    /// It has ended: no process will come of it any more.
    has_ended: AtomicBool,
    tasks: Sender<Task>,
}

impl fmt::Debug for FunctionMakers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FunctionMakers").finish_non_exhaustive()
    }
}

/// Starts the starter, with the rights of the calling thread. None: there is no such program.
///
/// # Errors
/// It cannot be started.
pub(super) fn start_starter(
    program: Option<&StarterProgram>,
) -> Result<Option<OwnedFd>, DataplaneError> {
    let Some(StarterProgram { program, arguments }) = program else { return Ok(None) };
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let ends = socketpair(family, kind, SocketFlags::CLOEXEC, None);
    let (ours, theirs) = ends.map_err(|errno| DataplaneError::Start(errno.into()))?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::from(theirs)).stdout(Stdio::null());
    command.spawn().map_err(DataplaneError::Start)?;
    sockopt::set_socket_timeout(&ours, Timeout::Recv, Some(STARTING))
        .map_err(|errno| DataplaneError::Start(errno.into()))?;
    Ok(Some(ours))
}

impl FunctionMakers {
    /// Those of a process without walls, for whoever embeds workers.
    ///
    /// # Errors
    /// Neither a process nor a thread can be started.
    pub fn embedded(program: &StarterProgram) -> Result<Self, DataplaneError> {
        Self::start(start_starter(Some(program))?, false)
    }

    /// Starts the thread, with the privileges of the calling one. Confined: it has the system calls of the control
    /// thread, by none of which a thread ends.
    ///
    /// # Errors
    /// No thread is left.
    pub(super) fn start(
        starter: Option<OwnedFd>,
        is_confined: bool,
    ) -> Result<Self, DataplaneError> {
        let (tasks, receiver) = mpsc::channel();
        let work = move || {
            match if is_confined { sandbox::confine_control() } else { Ok(()) } {
                Ok(()) => serve(&receiver),
                Err(error) => tracing::error!("functions that die stay dead: {error}"),
            }
            if is_confined {
                loop {
                    std::thread::park();
                }
            }
        };
        std::thread::Builder::new()
            .name("makers".into())
            .spawn(work)
            .map_err(DataplaneError::Start)?;
        let (is_asked, is_in_trouble, has_ended) = Default::default();
        let (starter, turn) = (starter.map(Arc::new), Mutex::default());
        Ok(Self { starter, turn, is_asked, is_in_trouble, has_ended, tasks })
    }

    fn process(&self) -> Result<Process, String> {
        let starter = self.starter.as_ref().ok_or(
            "this data plane starts no processes; leave out 'door: beside', or use one that an agent has started",
        )?;
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_asked.store(true, Ordering::Relaxed);
        let asked = ask_for_process(starter);
        self.is_in_trouble.store(asked.is_err(), Ordering::Relaxed);
        asked.map_err(|why| {
            self.has_ended.store(matches!(why, NotStarted::Ended), Ordering::Relaxed);
            format!("no process can be started for it: {why}")
        })
    }

    /// Was it ever asked for a process?
    pub(super) fn is_asked(&self) -> bool {
        self.is_asked.load(Ordering::Relaxed)
    }

    /// Was a process asked for, and whoever starts them has ended? Another has the rights for that only before the
    /// walls of the data plane close.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }

    /// What is wrong with it, for whoever looks at the node.
    pub(super) fn trouble(&self) -> Option<String> {
        self.is_in_trouble.load(Ordering::Relaxed).then(|| {
            "functions with 'door: beside' cannot be started (the log of the data plane says why): those that have \
             died stay dead until they can"
                .to_owned()
        })
    }
}

/// Why no process has come.
#[derive(Debug, thiserror::Error)]
enum NotStarted {
    #[error("who starts them has ended")]
    Ended,
    #[error("{0}")]
    Refused(String),
}

impl From<IoError> for NotStarted {
    fn from(error: IoError) -> Self {
        Self::Refused(error.to_string())
    }
}

/// One at a time asks.
fn ask_for_process(starter: &Arc<OwnedFd>) -> Result<Process, NotStarted> {
    send(starter, b"s", SendFlags::NOSIGNAL).map_err(|errno| match errno {
        Errno::PIPE | Errno::CONNRESET => NotStarted::Ended,
        errno => NotStarted::Refused(errno.to_string()),
    })?;
    let mut answer = [0; ANSWER_BYTES];
    let (length, fds) = receive_with_fds(starter.as_fd(), &mut answer)?;
    match answer.get(..length).unwrap_or_default() {
        [b's', number @ ..] => {
            let number = number.try_into().map(u32::from_le_bytes).unwrap_or_default();
            let mailbox = Mailbox::asker(fds)?;
            Ok(Process { mailbox, number, starter: Arc::clone(starter) })
        }
        [b'e', why @ ..] => Err(NotStarted::Refused(String::from_utf8_lossy(why).into_owned())),
        _ => Err(NotStarted::Ended),
    }
}

fn serve(tasks: &Receiver<Task>) {
    for task in tasks {
        match task {
            Task::Do(task) => {
                if !catch_unwind(AssertUnwindSafe(task)).unwrap_or_default() {
                    catena_io::rest(PAUSE);
                }
            }
            Task::Close(process) => drop(process),
        }
    }
}

impl Makers for FunctionMakers {
    fn beside(
        &self,
        configuration: &Configuration,
        surroundings: &Surroundings,
    ) -> Result<Box<dyn Function>, String> {
        // What it says of itself follows from its configuration: a process is not asked for it.
        let within = registry::make(configuration, surroundings);
        let profile = *within.map_err(|error| error.to_string())?.function.profile();
        let (process, ended) = (self.process()?, self.tasks.clone());
        let beside = Beside::make(process, ended, profile, (configuration, surroundings))?;
        Ok(Box::new(beside))
    }

    fn soon(&self, task: Box<dyn FnOnce() -> bool + Send>) {
        // A thread that is gone has said why.
        self.tasks.send(Task::Do(task)).ok();
    }
}
