//! A child inside the namespaces of a running process, e.g. a shell in a lab.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::thread;

use rustix::thread::{ThreadNameSpaceType, move_into_thread_name_spaces};

use super::{PidFd, program_of};
use crate::{KernelError, Result};

/// Starts `command` in the PID, mount and network namespaces of `target` (in these only: user and
/// rights stay the caller's). The child is an ordinary child of this process; if `target` is the
/// first of its PID namespace, the child dies with it; the kernel then lets `target` go only when
/// this child has been waited for. The caller's own namespaces never change.
///
/// # Errors
/// The program cannot be started, `target` has ended, or `CAP_SYS_ADMIN` is missing.
pub fn spawn_inside(mut command: Command, target: &PidFd) -> Result<Child> {
    let program = program_of(&command);
    let failed = |e: io::Error| KernelError::system("start inside", program.clone(), e);
    let held = target.as_fd().try_clone_to_owned().map_err(failed)?;
    let setup = move || {
        let wanted = ThreadNameSpaceType::MOUNT | ThreadNameSpaceType::NETWORK;
        Ok(move_into_thread_name_spaces(held.as_fd(), wanted)?)
    };
    // SAFETY: the closure runs between fork and exec and makes one system call, on a descriptor
    // that it owns.
    unsafe { command.pre_exec(setup) };
    // A PID namespace is entered by being born there: the children of a thread follow its choice.
    let work = || {
        move_into_thread_name_spaces(target.as_fd(), ThreadNameSpaceType::PROCESS_ID)?;
        command.spawn()
    };
    thread::scope(|scope| {
        let spawner = thread::Builder::new()
            .name("spawner".to_owned())
            .spawn_scoped(scope, work)
            .map_err(failed)?;
        spawner
            .join()
            .or_else(|panic| std::panic::resume_unwind(panic))
            .and_then(|c| c.map_err(failed))
    })
}
