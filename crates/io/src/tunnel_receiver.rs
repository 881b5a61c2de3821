//! The receiving port of tunnels between hosts: one kernel UDP socket. Knows datagrams, also when
//! the kernel joins several into one (`UDP_GRO`); refuses to know what they carry.

use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::sockopt::{
    set_ipv6_v6only, set_socket_recv_buffer_size, set_socket_recv_buffer_size_force,
    socket_recv_buffer_size,
};
use rustix::net::{bind, getsockname};

use crate::buffer::{Buffer, BufferPool};
use crate::error::IoError;
use crate::reserve::{RECEIVE_BUFFER_BYTES, TunnelReserve};
use crate::{datagram, options};

/// Room for the largest row of datagrams that the kernel joins, in bytes.
const JOINED_BYTES_MAX: usize = 65_536;

/// What one call of [`TunnelReceiver::receive`] took, in datagrams as they were sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TunnelReceived {
    /// Delivered.
    pub datagrams: u32,
    /// Cut off by the kernel and not delivered.
    pub truncated: u32,
    /// Came in by an interface of which none are taken, and not delivered.
    pub foreign: u32,
    /// The bytes of those.
    pub foreign_bytes: u64,
    /// The pool ran out of buffers; the rest is kept for the next call.
    pub pool_empty: bool,
    /// Error that the kernel reported for the socket (`errno`), if any.
    pub socket_error: Option<i32>,
}

impl TunnelReceived {
    /// All that was taken from the socket or a row, whatever became of it.
    fn taken(&self) -> usize {
        (self.datagrams + self.truncated + self.foreign) as usize
    }

    /// Counts the datagrams of a row that is not delivered.
    fn refuse(&mut self, row: &datagram::Arrival) {
        let each = row.segment_bytes.unwrap_or(row.bytes).max(1);
        self.foreign += row.bytes.div_ceil(each).max(1) as u32;
        self.foreign_bytes += row.bytes as u64;
    }
}

/// A row of datagrams of one sender, as far as it is not delivered yet.
struct Joined {
    from: SocketAddr,
    segment_bytes: usize,
    rest: Range<usize>,
}

/// A bound UDP socket.
pub struct TunnelReceiver {
    socket: OwnedFd,
    memory: Box<[u8]>,
    joined: Option<Joined>,
    /// The interfaces whose datagrams are taken.
    interfaces: Vec<u32>,
}

impl TunnelReceiver {
    /// Opens a socket in the caller's network namespace and binds it to `local`. It delivers nothing
    /// before it is told from where.
    ///
    /// # Errors
    /// The kernel's refusal, such as an address in use.
    pub fn bind(local: SocketAddr, reserve: &mut TunnelReserve) -> Result<Self, IoError> {
        let socket = reserve.take(local.ip())?;
        if local.is_ipv6() {
            set_ipv6_v6only(&socket, true).map_err(IoError::system("keeping IPv4 out"))?;
        }
        options::set(socket.as_fd(), libc::SOL_UDP, libc::UDP_GRO, [1])
            .map_err(IoError::system("asking for joined datagrams"))?;
        let (level, told) = match local {
            SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_PKTINFO),
            SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO),
        };
        options::set(socket.as_fd(), level, told, [1])
            .map_err(IoError::system("asking for the interface of datagrams"))?;
        let granted = socket_recv_buffer_size(&socket).unwrap_or_default();
        if granted < RECEIVE_BUFFER_BYTES
            && set_socket_recv_buffer_size_force(&socket, RECEIVE_BUFFER_BYTES).is_err()
        {
            set_socket_recv_buffer_size(&socket, RECEIVE_BUFFER_BYTES)
                .map_err(IoError::system("sizing the receive buffer"))?;
        }
        bind(&socket, &local).map_err(IoError::system("binding a tunnel socket"))?;
        let memory = vec![0; JOINED_BYTES_MAX].into_boxed_slice();
        Ok(Self { socket, memory, joined: None, interfaces: Vec::new() })
    }

    /// Delivers from now on only what comes in by one of these interfaces.
    pub fn take_only_from(&mut self, interfaces: Vec<u32>) {
        self.interfaces = interfaces;
    }

    /// The address it is bound to.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn local_address(&self) -> Result<SocketAddr, IoError> {
        getsockname(&self.socket)
            .and_then(SocketAddr::try_from)
            .map_err(IoError::system("reading the address of a tunnel socket"))
    }

    /// Size of the receive buffer that the kernel granted, in bytes of its own bookkeeping.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn receive_buffer_bytes(&self) -> Result<usize, IoError> {
        socket_recv_buffer_size(&self.socket).map_err(IoError::system("reading the buffer size"))
    }

    /// Takes up to `max` datagrams, unless more came in one row that is refused, and delivers them
    /// with their senders, each in a buffer of its own, in order.
    /// When the pool runs out amid a row of joined datagrams, the next call goes on with the row.
    pub fn receive(
        &mut self,
        pool: &mut BufferPool,
        out: &mut Vec<(Buffer, SocketAddr)>,
        max: usize,
    ) -> TunnelReceived {
        let mut received = TunnelReceived::default();
        while received.taken() < max {
            if let Some(joined) = &mut self.joined {
                let Some(buffer) = pool.take() else {
                    received.pool_empty = true;
                    break;
                };
                out.push((next_datagram(joined, &self.memory, buffer), joined.from));
                received.datagrams += 1;
                if joined.rest.is_empty() {
                    self.joined = None;
                }
                continue;
            }
            match datagram::receive(self.socket.as_fd(), &mut self.memory) {
                Ok(arrival) if arrival.is_truncated => received.truncated += 1,
                Ok(arrival) if !self.takes_from(arrival.interface) => received.refuse(&arrival),
                Ok(arrival) => {
                    self.joined = Some(Joined {
                        from: arrival.from,
                        segment_bytes: arrival.segment_bytes.unwrap_or(arrival.bytes),
                        rest: 0..arrival.bytes,
                    });
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(errno) => {
                    received.socket_error = Some(errno.raw_os_error());
                    break;
                }
            }
        }
        received
    }

    fn takes_from(&self, interface: Option<u32>) -> bool {
        interface.is_some_and(|interface| self.interfaces.contains(&interface))
    }

    /// Whether datagrams are kept for the next call: the socket itself will not become readable
    /// for them.
    #[must_use]
    pub fn has_pending(&self) -> bool {
        self.joined.is_some()
    }

    /// Datagrams lost because the receive buffer was full, since the socket was opened; the kernel
    /// counts in 32 bits, and a row of joined datagrams as one.
    #[must_use]
    pub fn kernel_drops(&self) -> u64 {
        options::drops(self.as_fd())
    }
}

/// Copies the next datagram of a row; a datagram without payload is a row of one.
fn next_datagram(joined: &mut Joined, memory: &[u8], mut buffer: Buffer) -> Buffer {
    let end = joined.rest.end.min(joined.rest.start + joined.segment_bytes);
    let fits = buffer.fill(&memory[joined.rest.start..end]);
    debug_assert!(fits, "a buffer holds any datagram");
    joined.rest.start = end;
    buffer
}

impl AsFd for TunnelReceiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
