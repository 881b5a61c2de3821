//! A child in namespaces of its own, as their first process.
//!
//! The kernel kills every process of a PID namespace when its first one ends, and a network or
//! mount namespace ends with its last process: what such a child makes cannot outlive it.
//! The caller's own namespaces never change, and neither do those of its later children.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::mpsc;
use std::thread;

use rustix::mount::MountFlags;
use rustix::pipe::PipeFlags;
use rustix::process::Signal;
use rustix::thread::UnshareFlags;

use super::{PidFd, end_orphan, keep_open, program_of};
use crate::{KernelError, Result, namespace};

/// What the child shall have of its own.
#[derive(Debug, Default)]
pub struct Isolation {
    /// A network namespace (its loopback is down).
    pub net: bool,
    /// A PID namespace, whose process 1 it is.
    pub pid: bool,
    /// A mount namespace from which nothing leaks out; with `pid` also a `/proc` that fits.
    pub mount: bool,
    /// Killed when this process ends, however it ends, from the first instant on.
    pub dies_with_parent: bool,
    /// Descriptors left open in the child under the numbers they have here.
    pub keep_fds: Vec<OwnedFd>,
}

/// Starts `command` so. The child is an ordinary child of this process: wait for it as usual.
///
/// # Errors
/// The program cannot be started, or the kernel refuses a namespace (`CAP_SYS_ADMIN` is needed).
pub fn spawn_isolated(mut command: Command, isolation: Isolation) -> Result<Child> {
    let program = program_of(&command);
    let failed = |e: io::Error| KernelError::system("start isolated", program.clone(), e);
    let new_pid_namespace = isolation.pid;
    let tied = isolation.dies_with_parent;
    let (ours, childs) = if tied {
        let (ours, childs) = Handshake::new().map_err(failed)?;
        (Some(ours), Some(childs))
    } else {
        (None, None)
    };
    prepare(&mut command, isolation, childs);
    let (answer, outcome) = mpsc::channel();
    // Only the children of *this* thread are born into the new PID namespace. And the death signal
    // comes when this thread ends: with `tied` it stays until the child is gone.
    let work = move || {
        let born = spawn_here(command, new_pid_namespace);
        let watched = match &born {
            Ok(child) if tied => PidFd::of(child),
            _ => None,
        };
        // The caller waits for this answer, or it panicked and the tie no longer matters.
        let _ = answer.send(born);
        if let Some(child) = watched {
            // A wait that fails would end the child with this thread, which is the safe side.
            let _ = child.wait_exit();
        }
    };
    thread::Builder::new().name("spawner".to_owned()).spawn(work).map_err(failed)?;
    if let Some(ours) = ours {
        ours.answer();
    }
    outcome.recv().map_err(|_| failed(io::Error::other("no thread")))?.map_err(failed)
}

fn spawn_here(mut command: Command, new_pid_namespace: bool) -> io::Result<Child> {
    if new_pid_namespace {
        // SAFETY: only where this thread's next children are born changes; no file table is
        // unshared.
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWPID) }?;
    }
    command.spawn()
}

fn prepare(command: &mut Command, isolation: Isolation, handshake: Option<ChildsEnds>) {
    let Isolation { net, pid, mount, dies_with_parent: _, keep_fds } = isolation;
    let mut own = UnshareFlags::empty();
    own.set(UnshareFlags::NEWNET, net);
    own.set(UnshareFlags::NEWNS, mount);
    let setup = move || {
        if let Some(handshake) = &handshake {
            rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
            handshake.ask()?;
        }
        if !own.is_empty() {
            // SAFETY: this process has one thread and no table is unshared that others use.
            unsafe { rustix::thread::unshare_unsafe(own) }?;
        }
        if mount {
            namespace::make_mounts_private()?;
            if pid {
                let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
                rustix::mount::mount(c"proc", c"/proc", c"proc", flags, None)?;
            }
        }
        keep_open(&keep_fds)
    };
    // SAFETY: the closure runs between fork and exec and makes system calls only, on values that
    // it owns; nothing in it allocates or locks.
    unsafe { command.pre_exec(setup) };
}

/// Closes the gap between the child's birth and its asking for the death signal: the child asks,
/// then goes on only if the parent still answers. From another PID namespace it cannot see its
/// parent's number change, so it must ask.
struct Handshake {
    asked: OwnedFd,
    answers: OwnedFd,
}

struct ChildsEnds {
    asks: OwnedFd,
    answered: OwnedFd,
    /// The child's copy of the parent's end: open, it would hide the parent's death.
    parents_end: RawFd,
}

impl Handshake {
    fn new() -> io::Result<(Self, ChildsEnds)> {
        let (asked, asks) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        let (answered, answers) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        let parents_end = answers.as_raw_fd();
        Ok((Self { asked, answers }, ChildsEnds { asks, answered, parents_end }))
    }

    /// Waits for the child's question, or until no child can ask any more. Whoever returns here
    /// was not being killed when the child asked.
    fn answer(self) {
        let mut question = [0];
        let asked = rustix::io::retry_on_intr(|| rustix::io::read(&self.asked, &mut question));
        if asked == Ok(1) {
            // A child that is gone by now shows in the outcome of the start.
            let _ = rustix::io::write(&self.answers, &question);
        }
    }
}

impl ChildsEnds {
    fn ask(&self) -> io::Result<()> {
        // SAFETY: in the child nothing owns this number: the parent's value was not moved here,
        // and this process goes on to exec or exit.
        unsafe { rustix::io::close(self.parents_end) };
        let mut answer = [0];
        rustix::io::retry_on_intr(|| rustix::io::write(&self.asks, &[0]))?;
        match rustix::io::retry_on_intr(|| rustix::io::read(&self.answered, &mut answer))? {
            1 => Ok(()),
            _ => end_orphan(),
        }
    }
}
