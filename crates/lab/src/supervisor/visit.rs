//! Visiting a running lab from outside: finding it, asking how it stands, entering a node, ending
//! it. A lab is found by its abstract socket alone, which dies with it.

use super::protocol::{Answer, Incoming, LabStatus, Request, send};
use super::trust::stranger_at;
use crate::error::{LabError, Result};
use catena_kernel::{KernelError, abstract_socket, namespace};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

/// What every lab's socket name begins with.
pub(crate) const SOCKET_PREFIX: &str = "catena-lab-";
/// How long a supervisor may take for an answer.
const ANSWER_WAIT: Duration = Duration::from_secs(5);
/// The shell of people who have set none.
const SHELL_DEFAULT: &str = "/bin/sh";

/// Names of the labs that run in this network namespace, root's and one's own: a name may be
/// anybody's, so who listens is asked.
///
/// # Errors
/// `/proc` is not readable.
pub fn list() -> Result<Vec<String>> {
    let sockets = abstract_socket::list(SOCKET_PREFIX)?;
    let name = |socket: &String| Some(socket.strip_prefix(SOCKET_PREFIX)?.to_owned());
    Ok(sockets.iter().filter_map(name).filter(|lab| connect(lab).is_ok()).collect())
}

/// A connection to whoever answers for a lab, if that is root or the user who asks.
fn connect(lab: &str) -> Result<UnixStream> {
    let socket = abstract_socket::connect(&format!("{SOCKET_PREFIX}{lab}"))?;
    match stranger_at(&socket)? {
        None => Ok(socket),
        Some(user) => Err(LabError::Stranger { lab: lab.to_owned(), user }),
    }
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
#[derive(Debug)]
pub(crate) struct Visit {
    lab: String,
    socket: UnixStream,
    incoming: Incoming,
}

impl Visit {
    /// A visit whose every answer comes within a few seconds, or is an error.
    pub(crate) fn to(lab: &str) -> Result<Self> {
        Self::with_limit(lab, Some(ANSWER_WAIT))
    }

    /// A visit that waits as long as the lab lives.
    pub(crate) fn patient(lab: &str) -> Result<Self> {
        Self::with_limit(lab, None)
    }

    fn with_limit(lab: &str, limit: Option<Duration>) -> Result<Self> {
        let socket = connect(lab)?;
        let open = || {
            socket.set_read_timeout(limit)?;
            socket.set_write_timeout(limit)?;
            socket.try_clone()
        };
        let reading = open().map_err(|error| LabError::io("open", "the lab's socket", error))?;
        Ok(Self { lab: lab.to_owned(), socket, incoming: Incoming::new(reading) })
    }

    pub(crate) fn ask(&self, request: &Request) -> Result<()> {
        send(&self.socket, request, &[])
    }

    /// The next answer; a lab that went away is an error.
    pub(crate) fn hear(&mut self) -> Result<(Answer, Vec<OwnedFd>)> {
        match self.incoming.next::<Answer>().map_err(|error| self.silence(error))? {
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

    /// An answer that did not come in time, in words.
    fn silence(&self, error: LabError) -> LabError {
        let is_late = matches!(&error, LabError::Kernel(error)
            if error.errno() == Some(rustix::io::Errno::AGAIN.raw_os_error()));
        if !is_late {
            return error;
        }
        let reason = format!(
            "has not answered for {} s; is its supervisor stopped? (ps: lab-supervisor; killing \
             its parent lab-init ends the lab)",
            ANSWER_WAIT.as_secs()
        );
        LabError::Refused { lab: self.lab.clone(), reason }
    }

    pub(crate) fn unexpected(&self, answer: &Answer) -> LabError {
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

    /// Does something on a thread in the node's network: a socket made there stays there.
    ///
    /// # Errors
    /// The namespace cannot be entered.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        std::thread::scope(|scope| {
            let work = || namespace::enter(self.network.as_fd()).map(|()| work());
            let done = scope.spawn(work).join();
            Ok(done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?)
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

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::Uid;
    use rustix::thread::set_thread_res_uid;
    use std::os::unix::net::UnixListener;

    /// Somebody who listens under a lab's name.
    fn listen(lab: &str, user: u32) -> UnixListener {
        let work = || {
            if user != 0 {
                set_thread_res_uid(None, Uid::from_raw(user), None).unwrap();
            }
            abstract_socket::bind(&format!("{SOCKET_PREFIX}{lab}")).unwrap()
        };
        // Only this thread becomes somebody else; it ends with its work.
        std::thread::scope(|scope| scope.spawn(work).join().unwrap())
    }

    fn unique(name: &str) -> String {
        format!("{name}-{}", std::process::id())
    }

    #[test]
    fn nobody_is_led_into_the_namespaces_of_a_stranger() {
        if !rustix::process::geteuid().is_root() {
            println!("SKIPPED: nobody_is_led_into_the_namespaces_of_a_stranger: not root");
            return;
        }
        let (own, strange) = (unique("own"), unique("strange"));
        let (_own, _strange) = (listen(&own, 0), listen(&strange, 65_534));
        let listed = list().unwrap();
        assert!(listed.contains(&own) && !listed.contains(&strange), "{listed:?}");
        assert!(find(Some(&strange)).is_err());
        for refused in
            [status(&strange).err(), down(&strange).err(), Doorway::to(&strange, "S").err()]
        {
            assert!(
                matches!(refused, Some(LabError::Stranger { user: 65_534, .. })),
                "{refused:?}"
            );
        }
    }

    #[test]
    fn a_lab_that_does_not_answer_is_not_waited_for_without_end() {
        let lab = unique("stopped");
        let _listener = listen(&lab, 0);
        let mut visit = Visit::with_limit(&lab, Some(Duration::from_millis(20))).unwrap();
        visit.ask(&Request::Status).unwrap();
        let told = visit.hear().unwrap_err().to_string();
        assert!(told.contains("has not answered"), "{told}");
    }
}
