//! Processes: how a child is born (namespace, descriptors, tie to its parent) and watched.
//! It refuses to know what the child does.
#![allow(unsafe_code)]

mod init;
mod inside;
mod isolated;
mod pidfd;

use std::collections::BTreeSet;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::{Mutex, OnceLock, PoisonError, mpsc};
use std::thread;

use rustix::io::FdFlags;
use rustix::process::Signal;

use crate::namespace::NetNamespace;
use crate::{KernelError, Result};

pub use init::become_init;
pub use inside::spawn_inside;
pub use isolated::{Isolation, spawn_isolated};
pub use pidfd::PidFd;

/// Lets the child die (`SIGKILL`) when the *thread* that starts it ends. Start it from a thread
/// that lives as long as the parent should, or use [`spawn_bound`], which does.
///
/// A parent that is gone before the child could ask for this is noticed: the child then ends
/// before it runs its program. Parent and child must be in one PID namespace.
pub fn die_with_parent(command: &mut Command) {
    let parent = rustix::process::getpid();
    // SAFETY: the closure runs between fork and exec and makes system calls only.
    unsafe {
        command.pre_exec(move || {
            rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
            if rustix::process::getppid() != Some(parent) {
                end_orphan();
            }
            Ok(())
        });
    }
}

/// Starts a child that dies when this process does, from whatever thread it is called.
///
/// # Errors
/// The program cannot be started.
pub fn spawn_bound(mut command: Command) -> Result<Child> {
    type Order = (Command, mpsc::Sender<io::Result<Child>>);
    // The tie is to a thread, so one thread that never ends starts them all.
    static SPAWNER: OnceLock<mpsc::Sender<Order>> = OnceLock::new();
    let program = program_of(&command);
    die_with_parent(&mut command);
    let spawner = SPAWNER.get_or_init(|| {
        let (orders, inbox) = mpsc::channel::<Order>();
        let run = move || {
            for (mut command, answer) in inbox {
                // Nobody waiting for the answer any more is no failure of ours.
                let _ = answer.send(command.spawn());
            }
        };
        // Without the thread the receiver is dropped, and the send below says so.
        let _ = thread::Builder::new().name("spawner".to_owned()).spawn(run);
        orders
    });
    let (answer, outcome) = mpsc::channel();
    let gone = || KernelError::system("start", program.clone(), io::Error::other("no thread"));
    spawner.send((command, answer)).map_err(|_| gone())?;
    outcome
        .recv()
        .map_err(|_| gone())?
        .map_err(|e| KernelError::system("start", program.clone(), e))
}

/// Lets the child run inside a network namespace; its mounts stay the parent's.
pub fn enter_namespace(command: &mut Command, namespace: &NetNamespace) {
    let namespace = namespace.clone();
    // SAFETY: the closure runs between fork and exec and makes one system call; the namespace it
    // owns keeps the descriptor open.
    unsafe {
        command.pre_exec(move || {
            rustix::thread::move_into_link_name_space(
                namespace.as_fd(),
                Some(rustix::thread::LinkNameSpaceType::Network),
            )?;
            Ok(())
        });
    }
}

/// Lets the child be in control groups from its first instruction on; by the doors of
/// [`crate::cgroup::Cgroup`], which close here when the command is dropped.
pub fn enter_cgroups(command: &mut Command, doors: Vec<OwnedFd>) {
    let enter = move || {
        for door in &doors {
            // «0» is whoever writes it.
            rustix::io::write(door, b"0")?;
        }
        Ok(())
    };
    // SAFETY: the closure runs between fork and exec and makes system calls only, on descriptors
    // that it owns.
    unsafe { command.pre_exec(enter) };
}

/// Signals a process group by the number of the process that leads it, which must be known to be the
/// right one. Whoever of it has ended needs none.
///
/// # Errors
/// A process of it is somebody else's.
pub fn signal_group(leader: u32, signal: Signal) -> Result<()> {
    let object = format!("process group {leader}");
    let Some(group) = i32::try_from(leader).ok().and_then(rustix::process::Pid::from_raw) else {
        return Err(KernelError::invalid(object, "no number of a process"));
    };
    match rustix::process::kill_process_group(group, signal) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(KernelError::system("signal", object, error)),
    }
}

/// When a process was started, in ticks since the machine was (`starttime` of proc_pid_stat(5)): by it and its number
/// it is known as long as the machine runs. None: there is no such process, or it has ended.
#[must_use]
pub fn started_at(pid: u32) -> Option<u64> {
    /// Counted behind the name, which may contain anything; the state is the first.
    const STARTTIME: usize = 19;
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut behind_name = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let has_ended = matches!(behind_name.clone().next(), Some("Z" | "X"));
    behind_name.nth(STARTTIME).filter(|_| !has_ended)?.parse().ok()
}

/// Leaves these descriptors open in the child, under the numbers they have here. They close here
/// when the command is dropped.
pub fn inherit_fds(command: &mut Command, descriptors: Vec<OwnedFd>) {
    // SAFETY: the closure runs between fork and exec and makes system calls only, on descriptors
    // that it owns.
    unsafe { command.pre_exec(move || keep_open(&descriptors)) };
}

/// Takes over a descriptor that this process was started with, by the number it was told. It is
/// closed on exec from now on.
///
/// # Errors
/// The number is a standard stream, not open, or was taken before.
pub fn inherited_fd(number: RawFd) -> Result<OwnedFd> {
    static TAKEN: Mutex<BTreeSet<RawFd>> = Mutex::new(BTreeSet::new());
    let object = format!("descriptor {number}");
    if number <= libc::STDERR_FILENO {
        return Err(KernelError::invalid(object, "a standard stream, or no descriptor"));
    }
    // SAFETY: the borrow lasts for this call only, and the number is not -1; a closed one is
    // refused by the kernel.
    rustix::io::fcntl_setfd(unsafe { BorrowedFd::borrow_raw(number) }, FdFlags::CLOEXEC)
        .map_err(|e| KernelError::system("take over", object.clone(), e))?;
    if !TAKEN.lock().unwrap_or_else(PoisonError::into_inner).insert(number) {
        return Err(KernelError::invalid(object, "taken over before"));
    }
    // SAFETY: the descriptor is open, was left to this process by its parent, and the set above
    // gives each number out once.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Names the calling thread, and the process if it is its first (`ps`, `top`): 15 bytes are kept.
///
/// # Errors
/// The name holds a zero byte.
pub fn set_name(name: &str) -> Result<()> {
    let text = CString::new(name)
        .map_err(|_| KernelError::invalid(format!("process name {name:?}"), "zero byte"))?;
    rustix::thread::set_name(&text).map_err(|e| KernelError::system("name", name, e))
}

/// Ends a child whose parent is gone. To report an error instead would be to write to nobody, and
/// the standard library aborts on that.
fn end_orphan() -> ! {
    // SAFETY: ends this process at once, without running anything that was copied at the fork.
    unsafe { libc::_exit(libc::EXIT_FAILURE) }
}

fn keep_open(descriptors: &[OwnedFd]) -> io::Result<()> {
    for descriptor in descriptors {
        rustix::io::fcntl_setfd(descriptor, FdFlags::empty())?;
    }
    Ok(())
}

fn program_of(command: &Command) -> String {
    command.get_program().to_string_lossy().into_owned()
}
