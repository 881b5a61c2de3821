//! Unix stream sockets with abstract names: no file to leave behind.
//! An abstract name belongs to the network namespace of the thread that binds it, and has no
//! permissions: whoever is first has it. Refuses to know whom to trust; it tells who is there.
#![allow(unsafe_code)]

use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::{KernelError, Result};

/// How long a visitor waits in a listener's full queue; one that serves has room at once.
const CONNECT_WAIT: Duration = Duration::from_millis(200);

/// Listens under `name`.
///
/// # Errors
/// The name is too long (107 bytes) or taken in this network namespace.
pub fn bind(name: &str) -> Result<UnixListener> {
    UnixListener::bind_addr(&address(name)?)
        .map_err(|e| KernelError::system("listen on", format!("abstract socket {name}"), e))
}

/// Connects to the listener of `name`.
///
/// # Errors
/// Nobody listens under this name in this network namespace, or its listener lets visitors queue.
pub fn connect(name: &str) -> Result<UnixStream> {
    let open = || {
        let address = SocketAddrUnix::new_abstract_name(name.as_bytes())?;
        let (family, kind) = (AddressFamily::UNIX, SocketType::STREAM);
        let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
        set_socket_timeout(&socket, Timeout::Send, Some(CONNECT_WAIT))?;
        rustix::io::retry_on_intr(|| rustix::net::connect(&socket, &address))?;
        set_socket_timeout(&socket, Timeout::Send, None)?;
        Ok(UnixStream::from(socket))
    };
    open().map_err(|e: rustix::io::Errno| {
        KernelError::system("connect to", format!("abstract socket {name}"), e)
    })
}

/// The user at the other end: of a listener's, the one that began to listen; of a visitor's, the
/// one that connected. The kernel notes it then; no later change of identity touches it.
///
/// # Errors
/// The socket is not connected.
pub fn peer_uid(socket: &UnixStream) -> Result<u32> {
    // Not by rustix, whose answer takes the process number along: that is 0 for a peer from
    // outside of this PID namespace, which its type cannot hold.
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let failed = |e: io::Error| KernelError::system("read the user of", "a Unix socket's peer", e);
    let wanted = size_of::<libc::ucred>();
    let mut length = libc::socklen_t::try_from(wanted).unwrap_or_default();
    // SAFETY: the descriptor is open for the call, and the kernel writes at most `length` bytes,
    // the size of `peer`, any content of which is legal.
    let answer = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut length,
        )
    };
    if answer != 0 {
        return Err(failed(io::Error::last_os_error()));
    }
    // A peer that nobody is known of is answered as the user «all ones», never as a short answer.
    if usize::try_from(length).ok() != Some(wanted) {
        return Err(failed(io::Error::other("the answer is short")));
    }
    Ok(peer.uid)
}

/// Names of all listening abstract sockets of this network namespace that begin with `prefix`,
/// sorted, without doubles.
///
/// # Errors
/// `/proc` is not mounted.
pub fn list(prefix: &str) -> Result<Vec<String>> {
    const TABLE: &str = "/proc/thread-self/net/unix";
    let table = fs::read(TABLE).map_err(|e| KernelError::system("read", TABLE, e))?;
    Ok(names_in(&String::from_utf8_lossy(&table), prefix))
}

fn address(name: &str) -> Result<SocketAddr> {
    SocketAddr::from_abstract_name(name)
        .map_err(|e| KernelError::system("use as a name of an abstract socket", name, e))
}

/// Columns: Num RefCount Protocol Flags Type St Inode Path; a listener has `__SO_ACCEPTCON`.
fn names_in(table: &str, prefix: &str) -> Vec<String> {
    const ACCEPTS_CONNECTIONS: u32 = 1 << 16;
    let mut names: Vec<String> = table
        .lines()
        .skip(1)
        .filter_map(|line| {
            let mut columns = line.split_whitespace();
            let flags = u32::from_str_radix(columns.nth(3)?, 16).ok()?;
            let name = columns.nth(3)?.strip_prefix('@')?;
            (flags & ACCEPTS_CONNECTIONS != 0 && name.starts_with(prefix)).then(|| name.to_owned())
        })
        .collect();
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listening_abstract_names_with_the_prefix_are_listed() {
        let table = "Num       RefCount Protocol Flags    Type St Inode Path\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 11 @catena/lab/b\n\
            0000000000000000: 00000003 00000000 00000000 0001 03 12 @catena/lab/a\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 13 /run/catena/lab\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 14\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 15 @other\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 16 @catena/lab/a\n";
        assert_eq!(names_in(table, "catena/"), ["catena/lab/a", "catena/lab/b"]);
    }
}
