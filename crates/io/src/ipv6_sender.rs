//! The sending port of an IPv6 underlay: whole packets, header included, that leave by the host's own
//! routes and neighbours (`IPPROTO_RAW`, Linux raw(7)). Knows packets and rows of them; refuses to
//! know what is in one.

use std::io::IoSlice;
use std::net::{Ipv6Addr, SocketAddrV6};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::addr::SocketAddrArg;
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, SocketAddrAny, sendmmsg};

use crate::error::IoError;
use crate::ipv6_reserve::Ipv6Reserve;
use crate::options;
use crate::poll::rest;

/// Packets given to the kernel in one system call.
const ROW_PACKETS_MAX: usize = 64;
/// How often a full send buffer is waited for.
const SEND_RETRIES_MAX: u32 = 2;
/// How long each wait is.
const SEND_WAIT: Duration = Duration::from_millis(1);

/// Why a packet was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PacketFailure {
    /// Larger than the MTU of the link, or of the route.
    #[error("larger than the path takes")]
    TooLarge,
    /// No route leads to its destination, or one of the type `unreachable`.
    #[error("no route leads there")]
    NoRoute,
    /// The send buffer, or the queue of the link, stayed full.
    #[error("the send buffer is full")]
    BufferFull,
    /// The kernel refused for another reason (`errno`), such as a route of the type `prohibit` or `blackhole`.
    #[error("refused by the kernel (errno {0})")]
    Refused(i32),
}

/// A row of packets that did not leave whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}, after {sent} packets of the row were sent")]
pub struct BrokenRow {
    /// The first packets, which were sent.
    pub sent: usize,
    /// Why the next one was not; the others behind it were not tried.
    pub why: PacketFailure,
}

/// A raw socket.
pub struct Ipv6Sender {
    socket: OwnedFd,
}

impl Ipv6Sender {
    /// Sends by a socket of the reserve. Needs no right.
    ///
    /// # Errors
    /// No socket is left, or the kernel's refusal.
    pub fn new(reserve: &mut Ipv6Reserve) -> Result<Self, IoError> {
        let socket = reserve.take_raw()?;
        // Without it the kernel says nothing of packets that the queue of a link has no room for.
        options::set(socket.as_fd(), libc::IPPROTO_IPV6, libc::IPV6_RECVERR, [1])
            .map_err(IoError::system("asking for errors of queues"))?;
        Ok(Self { socket })
    }

    /// Sends whole IPv6 packets as they are: one, or, when there are more bytes than
    /// `segment_bytes`, a row of packets of that size of which the last may be shorter. `to` is where
    /// their headers say that they go: the host's route to it is taken.
    ///
    /// # Errors
    /// How much was sent, and why no more.
    pub fn send(
        &mut self,
        to: Ipv6Addr,
        packets: &[u8],
        segment_bytes: Option<u16>,
    ) -> Result<(), BrokenRow> {
        let to = SocketAddrV6::new(to, 0, 0, 0).as_any();
        let each = segment_bytes.map_or(packets.len(), usize::from).max(1);
        let (mut sent, mut retries, mut rest_of_row) = (0, 0, packets);
        while !rest_of_row.is_empty() {
            // A row has arrays for each of its packets to fill, which most packets need not wait for.
            let outcome = if rest_of_row.len() <= each {
                self.send_some::<1>(&to, rest_of_row, each)
            } else {
                self.send_some::<ROW_PACKETS_MAX>(&to, rest_of_row, each)
            };
            match outcome {
                Ok(count) => {
                    sent += count;
                    retries = 0;
                    rest_of_row = rest_of_row.get(count * each..).unwrap_or_default();
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN | Errno::NOBUFS) if retries < SEND_RETRIES_MAX => {
                    retries += 1;
                    rest(SEND_WAIT);
                }
                Err(errno) => return Err(BrokenRow { sent, why: PacketFailure::from(errno) }),
            }
        }
        Ok(())
    }

    /// Sends the first of the row in one system call; how many of them the kernel took, or why it did
    /// not take the first.
    fn send_some<const MAX: usize>(
        &self,
        to: &SocketAddrAny,
        row: &[u8],
        each: usize,
    ) -> Result<usize, Errno> {
        let mut packets = row.chunks(each);
        let parts: [_; MAX] =
            std::array::from_fn(|_| [IoSlice::new(packets.next().unwrap_or_default())]);
        let mut controls: [SendAncillaryBuffer<'_, '_, '_>; MAX] =
            std::array::from_fn(|_| SendAncillaryBuffer::default());
        let mut parts = parts.iter();
        let mut messages = controls.each_mut().map(|control| {
            let part = parts.next().map_or(&[][..], |part| &part[..]);
            MMsgHdr::new_with_addr(to, part, control)
        });
        let count = row.len().div_ceil(each).min(MAX);
        sendmmsg(&self.socket, &mut messages[..count], SendFlags::DONTWAIT)
    }
}

impl From<Errno> for PacketFailure {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::MSGSIZE => Self::TooLarge,
            Errno::NETUNREACH | Errno::HOSTUNREACH => Self::NoRoute,
            Errno::AGAIN | Errno::NOBUFS => Self::BufferFull,
            other => Self::Refused(other.raw_os_error()),
        }
    }
}
