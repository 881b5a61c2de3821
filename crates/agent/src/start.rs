//! Finds a running data plane at its control socket, or starts one that outlives the agent.

use crate::DataplanePaths;
use catena_kernel::signals::Signal;
use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::process::{Child, Command};

/// How long a new data plane may take until its control socket answers.
const START_TIMEOUT: Duration = Duration::from_secs(10);
const START_POLL: Duration = Duration::from_millis(10);

/// Why there is no data plane.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    #[error("the control socket {path} cannot be reached: {source}; it must belong to this user")]
    Connect { path: PathBuf, source: std::io::Error },
    #[error("it cannot be started: {0}; see whether the catena binary is still in its place")]
    Spawn(#[source] std::io::Error),
    #[error("it ended while starting ({0}); its own log says why")]
    Ended(ExitStatus),
    #[error("it ended while starting: {0}")]
    Stopped(&'static str),
    #[error("it did not open its control socket within {} s", START_TIMEOUT.as_secs())]
    TooSlow,
}

/// A connection to the data plane of this node; was it started for that?
///
/// # Errors
/// When none runs and none can be started.
pub(crate) async fn connect_or_start(
    paths: &DataplanePaths,
) -> Result<(UnixStream, bool), StartError> {
    if let Some(stream) = connect(paths).await? {
        return Ok((stream, false));
    }
    let mut child = spawn(paths)?;
    tracing::info!(pid = child.id(), "started a data plane");
    let connected = tokio::time::timeout(START_TIMEOUT, wait_for_socket(paths, &mut child)).await;
    let stream = match connected.unwrap_or(Err(StartError::TooSlow)) {
        Ok(stream) => stream,
        Err(error) => {
            // It must not linger beside the next attempt; it may also have ended by itself.
            child.kill().await.ok();
            return Err(error);
        }
    };
    // Somebody must collect its exit status for as long as this agent is its parent.
    tokio::spawn(async move {
        if let Ok(status) = child.wait().await {
            match by_kernel(status) {
                Some(words) => tracing::error!("{words}"),
                None => tracing::warn!("the data plane ended ({status})"),
            }
        }
    });
    Ok((stream, true))
}

/// What to say where it broke out of its sandbox; none: it ended otherwise.
fn by_kernel(status: ExitStatus) -> Option<&'static str> {
    (status.signal() == Some(Signal::SYS.as_raw())).then_some(
        "the data plane was ended by the kernel: a system call outside its list (SIGSYS), or the \
         end of a thread that crashed; where the kernel audits, its log names the thread and the \
         call: please report both",
    )
}

/// None: nobody listens there.
async fn connect(paths: &DataplanePaths) -> Result<Option<UnixStream>, StartError> {
    match UnixStream::connect(&paths.control_socket).await {
        Ok(stream) => Ok(Some(stream)),
        Err(error)
            if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) =>
        {
            Ok(None)
        }
        Err(source) => Err(StartError::Connect { path: paths.control_socket.clone(), source }),
    }
}

async fn wait_for_socket(
    paths: &DataplanePaths,
    child: &mut Child,
) -> Result<UnixStream, StartError> {
    loop {
        if let Some(stream) = connect(paths).await? {
            return Ok(stream);
        }
        if let Some(status) = child.try_wait().map_err(StartError::Spawn)? {
            return Err(match by_kernel(status) {
                Some(words) => StartError::Stopped(words),
                None => StartError::Ended(status),
            });
        }
        tokio::time::sleep(START_POLL).await;
    }
}

/// The data plane makes a session of its own as its first act; neither the agent's death nor a
/// signal to the agent's terminal reaches it after that.
fn spawn(paths: &DataplanePaths) -> Result<Child, StartError> {
    let (program, arguments) =
        paths.command.split_first().ok_or(StartError::Spawn(ErrorKind::NotFound.into()))?;
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .kill_on_drop(false)
        .spawn()
        .map_err(StartError::Spawn)
}
