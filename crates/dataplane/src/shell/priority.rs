//! What this process is to the scheduler: packets wait in rows that are bounded, and who wants all of the
//! processor must not keep it from them until these are full. Knows niceness; refuses to know cores.

use std::fs;
use std::io::{Error, ErrorKind};

/// Open vSwitch's daemon starts with the same.
const NICENESS: i32 = -10;
/// The scheduler's weight of a session among others, in niceness (sched(7)): where it groups tasks by session,
/// what a process asks for counts within its own alone.
const OF_SESSION: &str = "/proc/self/autogroup";

/// Lets this process, the threads that it starts and the session that it leads go first. A session that
/// another leads, such as that of a terminal, stays as it is.
///
/// # Errors
/// It has no right to, or the session's weight cannot be set.
pub(super) fn go_first() -> Result<(), Error> {
    rustix::process::setpriority_process(None, NICENESS)?;
    if rustix::process::getsid(None)? != rustix::process::getpid() {
        return Ok(());
    }
    match fs::write(OF_SESSION, NICENESS.to_string()) {
        // The kernel does not group by session.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    }
}
