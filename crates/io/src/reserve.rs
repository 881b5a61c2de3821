//! UDP sockets that are opened while the process has its privileges, for tunnels whose address is
//! known only when it has none: without them the kernel grants no large buffers. Refuses to know what
//! the sockets are for.

use std::net::IpAddr;
use std::os::fd::OwnedFd;

use rustix::net::sockopt::{set_socket_recv_buffer_size_force, set_socket_send_buffer_size_force};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use crate::error::IoError;

/// Receive buffer of a tunnel socket, in bytes.
pub(crate) const RECEIVE_BUFFER_BYTES: usize = 16 << 20;
/// Send buffer of a tunnel socket, in bytes.
pub(crate) const SEND_BUFFER_BYTES: usize = 4 << 20;

/// Unbound sockets of both families.
#[derive(Debug, Default)]
pub struct TunnelReserve {
    v4: Vec<OwnedFd>,
    v6: Vec<OwnedFd>,
}

impl TunnelReserve {
    /// Opens so many sockets of each family in the caller's network namespace. A kernel without one
    /// of the families, or a process without the right to force buffers, has none of them.
    #[must_use]
    pub fn open(sockets: usize) -> Self {
        let open = |family| (0..sockets).map_while(|_| open(family)).collect();
        Self { v4: open(AddressFamily::INET), v6: open(AddressFamily::INET6) }
    }

    /// A socket for this local address: one of the reserve as long as there is one.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub(crate) fn take(&mut self, local: IpAddr) -> Result<OwnedFd, IoError> {
        let (own, family) = match local {
            IpAddr::V4(_) => (&mut self.v4, AddressFamily::INET),
            IpAddr::V6(_) => (&mut self.v6, AddressFamily::INET6),
        };
        match own.pop() {
            Some(socket) => Ok(socket),
            None => unbound(family).map_err(IoError::system("opening a tunnel socket")),
        }
    }
}

fn open(family: AddressFamily) -> Option<OwnedFd> {
    let socket = unbound(family).ok()?;
    set_socket_recv_buffer_size_force(&socket, RECEIVE_BUFFER_BYTES).ok()?;
    set_socket_send_buffer_size_force(&socket, SEND_BUFFER_BYTES).ok()?;
    Some(socket)
}

fn unbound(family: AddressFamily) -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(family, SocketType::DGRAM, flags, None)
}
