//! `catena nf beside` and `catena nf starter`: functions in processes of their own beside a data plane, and who starts
//! them. Knows how this program calls itself; refuses to know what is said to a function.

use crate::failure::Failure;
use catena_dataplane::shell::StarterProgram;
use catena_runner::{serve_beside, start_processes};
use std::ffi::OsStr;
use std::io::stdin;
use std::os::fd::AsFd;

/// This program, whatever became of its file.
const ITSELF: &str = "/proc/self/exe";

/// Who starts functions, as a data plane starts it.
pub(crate) fn starter() -> StarterProgram {
    let arguments = ["nf", "starter"].map(Into::into).into();
    StarterProgram { program: ITSELF.into(), arguments }
}

/// Starts functions until the data plane ends.
pub(crate) fn start() -> Result<(), Failure> {
    let socket = stdin().as_fd().try_clone_to_owned()?;
    Ok(start_processes(&socket, OsStr::new(ITSELF), &["nf", "beside"])?)
}

/// Is asked until the data plane ends.
pub(crate) fn serve() -> Result<(), Failure> {
    // A backtrace reads files, which are out of reach.
    std::panic::set_hook(Box::new(|panic| eprintln!("{panic}")));
    Ok(serve_beside(stdin().as_fd().try_clone_to_owned()?)?)
}
