//! The first process of a PID namespace: starts the main one, collects every orphan, ends with
//! the main one. It has one thread and does nothing else.

use std::process::Command;

use rustix::process::{Pid, WaitOptions, WaitStatus};

use super::program_of;
use crate::signals::{BlockedSignals, Signal};
use crate::{KernelError, Result};

/// Added to a signal's number to make an exit code, as shells do.
const KILLED_BY_SIGNAL: i32 = 128;

/// Starts `main`, passes `SIGTERM` and `SIGINT` on to it, collects every process that ends, and
/// returns `main`'s exit code (128 + n if signal n killed it). Call it from the process's only
/// thread and exit with the answer: the kernel then kills whatever is left in the namespace.
///
/// # Errors
/// `main` cannot be started.
pub fn become_init(mut main: Command) -> Result<i32> {
    let program = program_of(&main);
    // Blocked before the start, so that not even an immediate end is missed.
    let signals = BlockedSignals::block(&[Signal::TERM, Signal::INT, Signal::CHILD])?;
    signals.restore_in(&mut main);
    let child = main.spawn().map_err(|e| KernelError::system("start", program.clone(), e))?;
    let main_pid = i32::try_from(child.id())
        .ok()
        .and_then(Pid::from_raw)
        .ok_or_else(|| KernelError::invalid(program, "it has no process number"))?;
    loop {
        let received = signals.wait()?;
        if received.signal == Signal::CHILD {
            if let Some(code) = collect_until(main_pid)? {
                return Ok(code);
            }
        } else if !received.from_terminal {
            // It may have ended a moment ago; then its end is the next signal.
            let _ = rustix::process::kill_process(main_pid, received.signal);
        }
    }
}

/// Collects all ended children. One signal may stand for several of them.
fn collect_until(main_pid: Pid) -> Result<Option<i32>> {
    let mut code = None;
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) if pid == main_pid => code = exit_code(status).or(code),
            Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
            Ok(None) | Err(rustix::io::Errno::CHILD) => return Ok(code),
            Err(error) => return Err(KernelError::system("collect", "ended processes", error)),
        }
    }
}

fn exit_code(status: WaitStatus) -> Option<i32> {
    status.exit_status().or_else(|| status.terminating_signal().map(|n| KILLED_BY_SIGNAL + n))
}
