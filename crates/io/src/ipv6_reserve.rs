//! Sockets for whole IPv6 packets, opened while the process has its privileges: making them needs
//! `CAP_NET_RAW`, and forcing large buffers `CAP_NET_ADMIN`; all that comes later needs no
//! right. Refuses to know which packets they are for.

use std::os::fd::OwnedFd;

use rustix::net::sockopt::{
    set_socket_recv_buffer_size, set_socket_recv_buffer_size_force, set_socket_send_buffer_size,
    set_socket_send_buffer_size_force,
};
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, socket_with};

use crate::error::IoError;
use crate::reserve::{RECEIVE_BUFFER_BYTES, SEND_BUFFER_BYTES};

/// Sockets that take nothing yet, and such that send. None is made later: who is confined must not.
#[derive(Debug)]
pub struct Ipv6Reserve {
    packet: Vec<OwnedFd>,
    raw: Vec<OwnedFd>,
}

impl Ipv6Reserve {
    /// Opens so many sockets of either kind in the caller's network namespace.
    ///
    /// # Errors
    /// The kernel's refusal, such as to a process without the right to raw sockets.
    pub fn open(sockets: usize) -> Result<Self, IoError> {
        let packet = (0..sockets).map(|_| packet()).collect::<Result<_, IoError>>()?;
        let raw = (0..sockets).map(|_| raw()).collect::<Result<_, IoError>>()?;
        Ok(Self { packet, raw })
    }

    pub(crate) fn take_packet(&mut self) -> Result<OwnedFd, IoError> {
        self.packet.pop().ok_or(IoError::ReserveEmpty { sockets: "packet socket" })
    }

    pub(crate) fn take_raw(&mut self) -> Result<OwnedFd, IoError> {
        self.raw.pop().ok_or(IoError::ReserveEmpty { sockets: "raw socket" })
    }
}

/// Without a protocol it receives nothing until it is bound.
fn packet() -> Result<OwnedFd, IoError> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)
        .map_err(IoError::system("opening a packet socket"))?;
    if set_socket_recv_buffer_size_force(&socket, RECEIVE_BUFFER_BYTES).is_err() {
        set_socket_recv_buffer_size(&socket, RECEIVE_BUFFER_BYTES)
            .map_err(IoError::system("sizing the receive buffer"))?;
    }
    Ok(socket)
}

fn raw() -> Result<OwnedFd, IoError> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::INET6, SocketType::RAW, flags, Some(ipproto::RAW))
        .map_err(IoError::system("opening a raw socket"))?;
    if set_socket_send_buffer_size_force(&socket, SEND_BUFFER_BYTES).is_err() {
        set_socket_send_buffer_size(&socket, SEND_BUFFER_BYTES)
            .map_err(IoError::system("sizing the send buffer"))?;
    }
    // Nobody reads what the kernel queues at it.
    set_socket_recv_buffer_size(&socket, 0)
        .map_err(IoError::system("sizing the receive buffer"))?;
    Ok(socket)
}
