//! The Unix socket that agents connect to: taken only when no live data plane answers there, put in
//! its place in one step, open to its owner alone.

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::fs;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

const SOCKET_MODE: Mode = Mode::RUSR.union(Mode::WUSR);
/// Connections that may wait: a new agent, while the old one has not been let go.
const BACKLOG: i32 = 4;
const LOCK_NAME: &str = "lock";

/// Why the control socket cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum ControlSocketError {
    /// Another data plane lives there.
    #[error(
        "a data plane already answers at {0}: one node has one data plane; stop it, or give this \
         one another control socket"
    )]
    Taken(PathBuf),
    /// Another data plane uses the state directory.
    #[error(
        "another data plane holds {0}: two would overwrite each other's program; give this one \
         another state directory"
    )]
    Locked(PathBuf),
    /// The system refused.
    #[error("cannot {operation} {path}: {source}; make the directory and give this user rights")]
    System {
        /// What was tried.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
}

/// The listening socket; its file goes when this value goes.
#[derive(Debug)]
pub(super) struct ControlSocket {
    pub(super) listener: UnixListener,
    path: PathBuf,
}

impl ControlSocket {
    /// Opens the socket, non-blocking.
    ///
    /// # Errors
    /// When somebody lives there, or the directory does not take it.
    pub(super) fn open(path: &Path) -> Result<Self, ControlSocketError> {
        match UnixStream::connect(path) {
            Ok(_) => return Err(ControlSocketError::Taken(path.into())),
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {}
            Err(source) => return Err(refused("examine", path)(source)),
        }
        let draft = draft_of(path);
        // Left by a process of the same number that was killed between its two steps.
        fs::remove_file(&draft).ok();
        let socket =
            listen_at(&draft).map_err(|errno| refused("listen at", &draft)(errno.into()))?;
        fs::rename(&draft, path).map_err(refused("put in place", path))?;
        Ok(Self { listener: socket.into(), path: path.into() })
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        fs::remove_file(&self.path).ok();
    }
}

/// Takes the state directory for as long as the returned descriptor is open.
pub(super) fn lock(state_dir: &Path) -> Result<OwnedFd, ControlSocketError> {
    let path = state_dir.join(LOCK_NAME);
    let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = rustix::fs::open(&path, flags, SOCKET_MODE)
        .map_err(|errno| refused("open", &path)(errno.into()))?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(ControlSocketError::Locked(state_dir.into())),
        Err(errno) => Err(refused("lock", &path)(errno.into())),
    }
}

fn listen_at(path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    // The mode of the socket is the mode that its file is born with: it is never wider.
    rustix::fs::fchmod(&socket, SOCKET_MODE)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

fn draft_of(path: &Path) -> PathBuf {
    let mut draft = path.as_os_str().to_owned();
    draft.push(format!(".{}", std::process::id()));
    draft.into()
}

fn refused(
    operation: &'static str,
    path: &Path,
) -> impl FnOnce(std::io::Error) -> ControlSocketError {
    let path = path.to_owned();
    move |source| ControlSocketError::System { operation, path, source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_live_data_plane_keeps_its_socket_and_a_dead_one_loses_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("control");
        let first = ControlSocket::open(&path).unwrap();
        assert!(matches!(ControlSocket::open(&path), Err(ControlSocketError::Taken(_))));
        drop(first);
        assert!(!path.exists());
        // A killed process leaves the file but nobody who listens.
        let stale = dir.path().join("stale");
        drop(UnixListener::bind(&stale).unwrap());
        assert!(stale.exists());
        let second = ControlSocket::open(&stale).unwrap();
        assert!(UnixStream::connect(&stale).is_ok());
        drop(second);
        assert!(!stale.exists());
    }

    #[test]
    fn only_the_owner_may_connect() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("control");
        let _socket = ControlSocket::open(&path).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no draft is left");
    }

    #[test]
    fn two_data_planes_never_share_a_state_directory() {
        let dir = tempfile::tempdir().unwrap();
        let held = lock(dir.path()).unwrap();
        assert!(matches!(lock(dir.path()), Err(ControlSocketError::Locked(_))));
        drop(held);
        assert!(lock(dir.path()).is_ok());
    }
}
