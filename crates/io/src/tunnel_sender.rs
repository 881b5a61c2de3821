//! The sending port of tunnels between hosts: a row of kernel UDP sockets, whose source ports are
//! the entropy by which routers between the hosts spread flows (RFC 7348 section 5). Knows
//! datagrams and rows of them in one call (`UDP_SEGMENT`); refuses to know what they carry.

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::bind;
use rustix::net::sockopt::{
    Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery, set_ip_mtu_discover, set_ipv6_mtu_discover,
    set_socket_send_buffer_size, set_socket_send_buffer_size_force, socket_send_buffer_size,
};

use crate::error::IoError;
use crate::reserve::{SEND_BUFFER_BYTES, TunnelReserve};
use crate::{datagram, options};

/// Most datagrams in one call.
pub const TUNNEL_SEGMENTS_MAX: usize = 44;
/// Most bytes in one call.
pub const TUNNEL_PAYLOAD_BYTES_MAX: usize = 65_000;
/// Source ports unless asked otherwise.
pub const TUNNEL_SOURCE_PORTS_DEFAULT: usize = 16;
/// Most source ports.
pub const TUNNEL_SOURCE_PORTS_MAX: usize = 256;

/// The least source port: those that RFC 7510 section 3 and RFC 7348 section 5 ask for are dynamic ones.
pub const TUNNEL_SOURCE_PORT_MIN: u16 = 49_152;

/// How often a full send buffer is waited for, or an error of an earlier datagram passed over.
const SEND_RETRIES_MAX: u32 = 2;
/// How long each wait is.
const SEND_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };

/// Why nothing was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendFailure {
    /// A datagram is larger than the path MTU, or the whole larger than one call may be.
    #[error("larger than the path takes")]
    TooLarge,
    /// More datagrams than one call may send.
    #[error("more than {TUNNEL_SEGMENTS_MAX} datagrams in one call")]
    TooManySegments,
    /// The send buffer stayed full.
    #[error("the send buffer is full")]
    BufferFull,
    /// The kernel refused for another reason, such as no route (`errno`).
    #[error("refused by the kernel (errno {0})")]
    Refused(i32),
}

/// Whether a datagram has a checksum over all of it. Over IPv6 it always has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OuterChecksum {
    /// It has, and a row of datagrams must.
    Full,
    /// It has none, as RFC 7348 and RFC 7510 allow over IPv4.
    None,
}

/// UDP sockets on one local address, one for each source port.
pub struct TunnelSender {
    sockets: Vec<Source>,
}

/// One of them, and what it was told of checksums last.
struct Source {
    socket: OwnedFd,
    checksum: OuterChecksum,
}

impl TunnelSender {
    /// Opens `ports` sockets in the caller's network namespace, each bound to `local` and a source
    /// port from [`TUNNEL_SOURCE_PORT_MIN`] on that nobody else has. They never fragment.
    ///
    /// # Errors
    /// A number of ports outside its limits, no port that is free, or the kernel's refusal.
    pub fn new(local: IpAddr, ports: usize, reserve: &mut TunnelReserve) -> Result<Self, IoError> {
        IoError::check_range("tunnel source ports", ports, 1, TUNNEL_SOURCE_PORTS_MAX)?;
        let mut free = TUNNEL_SOURCE_PORT_MIN..=u16::MAX;
        let mut source = || {
            let socket = open(local, reserve)?;
            bind_to_next(&socket, local, &mut free)?;
            Ok(Source { socket, checksum: OuterChecksum::Full })
        };
        let sockets = (0..ports).map(|_| source()).collect::<Result<_, IoError>>()?;
        Ok(Self { sockets })
    }

    /// Sends `payload` to a tunnel end: as one datagram, or, when it is longer than `segment_bytes`,
    /// as a row of datagrams of that size of which the last may be shorter. The same `entropy`
    /// always takes the same source port, whatever the checksum.
    ///
    /// # Errors
    /// Nothing was sent, for the reason given.
    pub fn send(
        &mut self,
        to: SocketAddr,
        payload: &[u8],
        segment_bytes: Option<u16>,
        entropy: u16,
        checksum: OuterChecksum,
    ) -> Result<(), SendFailure> {
        if payload.len() > TUNNEL_PAYLOAD_BYTES_MAX {
            return Err(SendFailure::TooLarge);
        }
        let segment_bytes = segment_bytes.filter(|bytes| payload.len() > usize::from(*bytes));
        if let Some(bytes) = segment_bytes
            && payload.len() > usize::from(bytes) * TUNNEL_SEGMENTS_MAX
        {
            return Err(SendFailure::TooManySegments);
        }
        let number = usize::from(entropy) % self.sockets.len();
        let socket = self.sockets[number].with(checksum, segment_bytes.is_some())?;
        let mut retries = 0;
        loop {
            let refusal = match datagram::send(socket.as_fd(), &to, payload, segment_bytes) {
                Ok(()) => return Ok(()),
                Err(Errno::INTR) => continue,
                // Kernels before 6.14 answer a segment beyond the MTU with EINVAL.
                Err(Errno::INVAL) if segment_bytes.is_some() => return Err(SendFailure::TooLarge),
                Err(Errno::MSGSIZE) => return Err(SendFailure::TooLarge),
                Err(refusal) => refusal,
            };
            let is_full = refusal == Errno::AGAIN;
            // An ICMP answer to an earlier datagram says nothing about this one.
            if retries == SEND_RETRIES_MAX || !(is_full || refusal == Errno::CONNREFUSED) {
                let errno = refusal.raw_os_error();
                return Err(if is_full {
                    SendFailure::BufferFull
                } else {
                    SendFailure::Refused(errno)
                });
            }
            retries += 1;
            if is_full {
                let mut writable = [PollFd::new(socket, PollFlags::OUT)];
                // Whatever ends the wait, the next attempt tells how it is.
                let _ = poll(&mut writable, Some(&SEND_WAIT));
            }
        }
    }
}

impl Source {
    /// The socket, once its next datagram has the checksum that is asked for.
    fn with(&mut self, checksum: OuterChecksum, is_row: bool) -> Result<&OwnedFd, SendFailure> {
        // The kernel sends no row without.
        let checksum = if is_row { OuterChecksum::Full } else { checksum };
        if self.checksum != checksum {
            let has_none = u32::from(checksum == OuterChecksum::None);
            let option = (libc::SOL_SOCKET, libc::SO_NO_CHECK);
            options::set(self.socket.as_fd(), option.0, option.1, [has_none])
                .map_err(|error| SendFailure::Refused(error.raw_os_error().unwrap_or(0)))?;
            self.checksum = checksum;
        }
        Ok(&self.socket)
    }
}

fn open(local: IpAddr, reserve: &mut TunnelReserve) -> Result<OwnedFd, IoError> {
    let socket = reserve.take(local)?;
    match local {
        IpAddr::V4(_) => set_ip_mtu_discover(&socket, Ipv4PathMtuDiscovery::DO),
        IpAddr::V6(_) => set_ipv6_mtu_discover(&socket, Ipv6PathMtuDiscovery::DO),
    }
    .map_err(IoError::system("forbidding fragments"))?;
    let granted = socket_send_buffer_size(&socket).unwrap_or_default();
    if granted < SEND_BUFFER_BYTES
        && set_socket_send_buffer_size_force(&socket, SEND_BUFFER_BYTES).is_err()
    {
        set_socket_send_buffer_size(&socket, SEND_BUFFER_BYTES)
            .map_err(IoError::system("sizing the send buffer"))?;
    }
    Ok(socket)
}

/// Binds a socket to the next port that is free.
fn bind_to_next(
    socket: &OwnedFd,
    local: IpAddr,
    ports: &mut RangeInclusive<u16>,
) -> Result<(), IoError> {
    let mut tried = ports.by_ref().map(|port| bind(socket, &SocketAddr::new(local, port)));
    let outcome = tried.find(|outcome| *outcome != Err(Errno::ADDRINUSE));
    outcome.unwrap_or(Err(Errno::ADDRINUSE)).map_err(IoError::system("binding a tunnel socket"))
}
