//! Visiting a running lab from outside: finding it, asking how it stands, entering a node, ending
//! it. A lab is found by its abstract socket alone, which dies with it.

use super::protocol::{Answer, Incoming, LabStatus, Request, send};
use crate::error::{LabError, Result};
use catena_kernel::{KernelError, abstract_socket, namespace};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, ExitStatus};

/// What every lab's socket name begins with.
pub(crate) const SOCKET_PREFIX: &str = "catena-lab-";
/// The shell of people who have set none.
const SHELL_DEFAULT: &str = "/bin/sh";

/// Names of the labs that run in this network namespace.
///
/// # Errors
/// `/proc` is not readable.
pub fn list() -> Result<Vec<String>> {
    let sockets = abstract_socket::list(SOCKET_PREFIX)?;
    let name = |socket: &String| Some(socket.strip_prefix(SOCKET_PREFIX)?.to_owned());
    Ok(sockets.iter().filter_map(name).collect())
}

/// The lab of this name, or the only one that runs.
///
/// # Errors
/// None runs, or several do and no name is given.
pub fn find(name: Option<&str>) -> Result<String> {
    let running = list()?;
    match (name, running.as_slice()) {
        (Some(name), _) if running.iter().any(|lab| lab == name) => Ok(name.to_owned()),
        (None, [only]) => Ok(only.clone()),
        _ => Err(LabError::NotRunning { name: name.map(str::to_owned), running }),
    }
}

/// A conversation with a lab's supervisor.
pub(crate) struct Visit {
    lab: String,
    socket: UnixStream,
    incoming: Incoming,
}

impl Visit {
    pub(crate) fn to(lab: &str) -> Result<Self> {
        let socket = abstract_socket::connect(&format!("{SOCKET_PREFIX}{lab}"))?;
        let reading =
            socket.try_clone().map_err(|error| LabError::io("copy", "the lab's socket", error))?;
        Ok(Self { lab: lab.to_owned(), socket, incoming: Incoming::new(reading) })
    }

    pub(crate) fn ask(&self, request: &Request) -> Result<()> {
        send(&self.socket, request, &[])
    }

    /// The next answer; a lab that went away is an error.
    pub(crate) fn hear(&mut self) -> Result<(Answer, Vec<OwnedFd>)> {
        match self.incoming.next::<Answer>()? {
            Some((Answer::Refused { reason }, _)) => {
                Err(LabError::Refused { lab: self.lab.clone(), reason })
            }
            Some(answer) => Ok(answer),
            None => {
                let reason = "ended before it answered".to_owned();
                Err(LabError::Refused { lab: self.lab.clone(), reason })
            }
        }
    }

    fn unexpected(&self, answer: &Answer) -> LabError {
        let reason = format!("answered {answer:?}; is it of another version?");
        LabError::Refused { lab: self.lab.clone(), reason }
    }
}

/// How a lab stands.
///
/// # Errors
/// It does not run, or does not answer.
pub fn status(lab: &str) -> Result<LabStatus> {
    let mut visit = Visit::to(lab)?;
    visit.ask(&Request::Status)?;
    match visit.hear()? {
        (Answer::Status(status), _) => Ok(status),
        (other, _) => Err(visit.unexpected(&other)),
    }
}

/// Ends a lab and waits until its first process is gone, and with it all others.
///
/// # Errors
/// It does not run, or does not answer.
pub fn down(lab: &str) -> Result<()> {
    let mut visit = Visit::to(lab)?;
    visit.ask(&Request::Down)?;
    match visit.hear()? {
        (Answer::Ending, descriptors) => {
            for ended in &descriptors {
                wait_readable(ended)?;
            }
            Ok(())
        }
        (other, _) => Err(visit.unexpected(&other)),
    }
}

fn wait_readable(descriptor: &OwnedFd) -> Result<()> {
    use rustix::event::{PollFd, PollFlags, poll};
    let mut polled = [PollFd::new(descriptor, PollFlags::IN)];
    rustix::io::retry_on_intr(|| poll(&mut polled, None))
        .map(drop)
        .map_err(|error| LabError::io("wait for", "the end of the lab", error))
}

/// The namespaces of a node of a running lab.
#[derive(Debug)]
pub struct Doorway {
    network: OwnedFd,
    mount: OwnedFd,
    pid: OwnedFd,
}

impl Doorway {
    /// Asks the lab for a node's namespaces.
    ///
    /// # Errors
    /// The lab does not run or has no such node.
    pub fn to(lab: &str, node: &str) -> Result<Self> {
        let mut visit = Visit::to(lab)?;
        visit.ask(&Request::Enter { node: node.to_owned() })?;
        let (answer, descriptors) = visit.hear()?;
        match <[OwnedFd; 3]>::try_from(descriptors) {
            Ok([network, mount, pid]) => Ok(Self { network, mount, pid }),
            Err(_) => Err(visit.unexpected(&answer)),
        }
    }

    /// Starts a program in the node's network and in the lab's PID namespace, so that it cannot
    /// outlive the lab. It sees the caller's files.
    ///
    /// # Errors
    /// The program is missing, or the namespaces cannot be entered.
    pub fn spawn(&self, command: Command) -> Result<Child> {
        let mut command = command;
        let program = command.get_program().to_string_lossy().into_owned();
        std::thread::scope(|scope| {
            // Only this thread moves; it ends with the start.
            let work = || {
                namespace::enter(self.network.as_fd())?;
                self.enter_pid()?;
                command.spawn().map_err(|error| not_started(program, error))
            };
            scope.spawn(work).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    fn enter_pid(&self) -> Result<()> {
        move_into_link_name_space(self.pid.as_fd(), Some(LinkNameSpaceType::ProcessID))
            .map_err(|error| KernelError::system("enter", "the lab's PID namespace", error).into())
    }

    /// Moves the whole calling process inside: network, mounts, and PID namespace of its
    /// children. Only while it has a single thread.
    fn enter(&self) -> Result<()> {
        namespace::enter(self.network.as_fd())?;
        move_into_link_name_space(self.mount.as_fd(), Some(LinkNameSpaceType::Mount))
            .map_err(|error| KernelError::system("enter", "the lab's mount namespace", error))?;
        self.enter_pid()
    }
}

/// Runs a command, or a shell when it is empty, inside a node. Call it from a process with one
/// thread: the process itself moves.
///
/// # Errors
/// The lab does not run, has no such node, or the command cannot be started.
pub fn shell(lab: &str, node: &str, command: &[String]) -> Result<ExitStatus> {
    let doorway = Doorway::to(lab, node)?;
    let directory = std::env::current_dir();
    doorway.enter()?;
    // Another mount namespace puts the process at its root.
    if let Ok(directory) = directory {
        let _ = std::env::set_current_dir(directory);
    }
    let mut program = match command {
        [program, arguments @ ..] => {
            let mut command = Command::new(program);
            command.args(arguments);
            command
        }
        [] => {
            let shell = std::env::var("SHELL").unwrap_or_else(|_| SHELL_DEFAULT.to_owned());
            let mut command = Command::new(shell);
            command.env("PS1", format!("{lab}/{node}# "));
            command
        }
    };
    program.env("CATENA_LAB", lab).env("CATENA_LAB_NODE", node);
    let name = program.get_program().to_string_lossy().into_owned();
    program.status().map_err(|error| not_started(name, error))
}

fn not_started(program: String, error: std::io::Error) -> LabError {
    if error.kind() != std::io::ErrorKind::NotFound {
        return LabError::io("start", program, error);
    }
    let advice = format!("install it (on Debian: apt-get install {program})");
    LabError::Tool { tool: program, problem: "is not installed".into(), advice }
}
