//! The thread that makes functions for the workers, and the process that starts others for functions that have one of
//! their own. Knows how a process is asked for and let go; refuses to know what a function does.

use super::beside::{Beside, Process};
use super::{DataplaneError, sandbox};
use crate::engine::Makers;
use catena_io::{IoError, Mailbox, receive_with_fds};
use catena_model::bundle::Configuration;
use catena_nf::Function;
use catena_nf::registry::{self, Surroundings};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socketpair};
use std::ffi::OsString;
use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Bytes of what the starter answers, at most.
const ANSWER_BYTES: usize = 512;
/// How long nothing is made after something could not be.
const PAUSE: Duration = Duration::from_secs(1);

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
    /// Lets go of a process, and has it ended.
    Close(Process),
}

/// Who makes functions for the workers of a data plane.
pub struct FunctionMakers {
    /// None: processes cannot be started here.
    starter: Option<Mutex<OwnedFd>>,
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
        let second = starter.as_ref().map(OwnedFd::try_clone).transpose();
        let second = second.map_err(DataplaneError::Start)?;
        let work = move || {
            match if is_confined { sandbox::confine_control() } else { Ok(()) } {
                Ok(()) => serve(&receiver, second.as_ref()),
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
        Ok(Self { starter: starter.map(Mutex::new), tasks })
    }

    fn process(&self) -> Result<Process, String> {
        let starter = self.starter.as_ref().ok_or(
            "this data plane starts no processes; leave out 'door: beside', or use one that an agent has started",
        )?;
        let starter = starter.lock().unwrap_or_else(PoisonError::into_inner);
        ask_for_process(&starter)
    }
}

/// One at a time asks.
fn ask_for_process(starter: &OwnedFd) -> Result<Process, String> {
    let told = |error: IoError| format!("no process can be started for it: {error}");
    send(starter, b"s", SendFlags::NOSIGNAL)
        .map_err(|errno| format!("no process can be started for it: {errno}"))?;
    let mut answer = [0; ANSWER_BYTES];
    let (length, fds) = receive_with_fds(starter.as_fd(), &mut answer).map_err(told)?;
    match answer.get(..length).unwrap_or_default() {
        [b's', number @ ..] => {
            let number = number.try_into().map(u32::from_le_bytes).unwrap_or_default();
            Ok(Process { mailbox: Mailbox::asker(fds).map_err(told)?, number })
        }
        [b'e', why @ ..] => {
            Err(format!("no process can be started for it: {}", String::from_utf8_lossy(why)))
        }
        _ => Err("no process can be started for it: who starts them has ended".to_owned()),
    }
}

fn serve(tasks: &Receiver<Task>, starter: Option<&OwnedFd>) {
    for task in tasks {
        match task {
            Task::Do(task) => {
                if !task() {
                    catena_io::rest(PAUSE);
                }
            }
            Task::Close(process) => {
                let number = process.number.to_le_bytes();
                let told = [b'k', number[0], number[1], number[2], number[3]];
                if let Some(starter) = starter
                    && let Err(errno) = send(starter, &told, SendFlags::NOSIGNAL)
                {
                    tracing::warn!("the process {} is not ended: {errno}", process.number);
                }
                drop(process);
            }
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
