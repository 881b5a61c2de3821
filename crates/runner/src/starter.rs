//! Who starts processes for functions beside a data plane, which itself may start nothing any more: one for each
//! `s` that comes over a socket, with its mailbox sent back; ends those that `k` names, and all of them with the
//! socket. Refuses to know what they run.

use crate::error::RunError;
use catena_io::{IoError, MailboxParts, receive_with_fds, send_with_fds};
use catena_model::limits::{NODE_FUNCTIONS_MAX, NODE_WORKERS_MAX};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Stdio};

/// Bytes of a question and of an answer, at most: a configuration with all its rules, and a portion of what is
/// remembered. Only pages that are written to take memory.
const QUESTION_BYTES: usize = 32 << 20;
const ANSWER_BYTES: usize = 4 << 20;
/// Processes at one time, at most: one for each function and worker, and as many again that take over.
const PROCESSES_MAX: usize = 2 * NODE_FUNCTIONS_MAX * NODE_WORKERS_MAX;
/// How often those are noticed that have ended by themselves.
const LOOK: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
/// Bytes of a reason, at most.
const WHY_BYTES: usize = 400;

/// Starts processes of this program, each with a socket as its standard input, until the socket ends.
///
/// # Errors
/// The socket's.
pub fn start_processes(
    socket: &OwnedFd,
    program: &OsStr,
    arguments: &[&str],
) -> Result<(), RunError> {
    let mut processes: BTreeMap<u32, Child> = BTreeMap::new();
    let outcome = serve(socket, program, arguments, &mut processes);
    for child in processes.values_mut() {
        end(child);
    }
    outcome
}

fn serve(
    socket: &OwnedFd,
    program: &OsStr,
    arguments: &[&str],
    processes: &mut BTreeMap<u32, Child>,
) -> Result<(), RunError> {
    loop {
        let mut fds = [PollFd::new(socket, PollFlags::IN)];
        let is_ready = !matches!(poll(&mut fds, Some(&LOOK)), Ok(0) | Err(_));
        processes.retain(|_, child| matches!(child.try_wait(), Ok(None)));
        if !is_ready {
            continue;
        }
        let mut asked = [0; 8];
        let (length, _) = receive_with_fds(socket.as_fd(), &mut asked)?;
        match asked.get(..length).unwrap_or_default() {
            [] => return Ok(()),
            [b's'] if processes.len() >= PROCESSES_MAX => {
                refuse(socket, &format!("there are {PROCESSES_MAX} already"))?;
            }
            [b's'] => match start(socket, program, arguments) {
                Ok(child) => drop(processes.insert(child.id(), child)),
                Err(why) => refuse(socket, &why.to_string())?,
            },
            [b'k', number @ ..] => {
                let number = number.try_into().map(u32::from_le_bytes).unwrap_or_default();
                if let Some(mut child) = processes.remove(&number) {
                    end(&mut child);
                }
            }
            _ => refuse(socket, "it was asked for what it does not understand")?,
        }
    }
}

fn refuse(socket: &OwnedFd, why: &str) -> Result<(), RunError> {
    let mut told = vec![b'e'];
    told.extend(why.bytes().take(WHY_BYTES));
    send_with_fds(socket.as_fd(), &told, &[])?;
    Ok(())
}

fn start(socket: &OwnedFd, program: &OsStr, arguments: &[&str]) -> Result<Child, RunError> {
    let told = |operation| move |source: std::io::Error| IoError::System { operation, source };
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let ends = socketpair(family, kind, SocketFlags::CLOEXEC, None);
    let (near, far) = ends.map_err(|errno| told("making a socket for a process")(errno.into()))?;
    let parts = MailboxParts::new(QUESTION_BYTES, ANSWER_BYTES)?;
    parts.send_answerer(near.as_fd())?;
    let mut command = Command::new(program);
    // What it has to say goes by its mailbox: nobody writes into the log of the data plane but itself.
    command.args(arguments).stdin(Stdio::from(far)).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(told("starting a process"))?;
    let [a, b, c, d] = child.id().to_le_bytes();
    if let Err(error) = parts.send_asker(socket.as_fd(), &[b's', a, b, c, d], &near) {
        end(&mut child);
        return Err(error.into());
    }
    Ok(child)
}

fn end(child: &mut Child) {
    // One that has ended cannot be killed.
    child.kill().ok();
    child.wait().ok();
}
