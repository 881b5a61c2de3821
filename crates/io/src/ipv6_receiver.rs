//! The receiving port of an IPv6 underlay: whole packets to one prefix, by whichever interface they
//! come. Knows where an IPv6 header says what follows it and where it goes (RFC 8200 section 3); refuses
//! to know what a packet carries.
//!
//! A socket's queue and not a ring: a ring has as many slots for packets of 100 bytes as for super-frames
//! of 64 KiB, and this is the one port for all that comes from other nodes. One call takes one packet:
//! `recvmmsg` is none of those that a confined worker has.

use std::net::Ipv6Addr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;

use crate::buffer::{Buffer, BufferPool};
use crate::error::IoError;
use crate::ipv6_reserve::Ipv6Reserve;
use crate::offload::{Offload, VIRTIO_HEADER_BYTES};
use crate::options;
use crate::packet_socket::{self, ArrivedFrame, NOTHING, WHOLE, instruction};

/// Most next headers that a receiver tells apart from others.
pub const IPV6_NEXT_HEADERS_MAX: usize = 16;

/// Where an IPv6 header names the next one, and the destination.
const NEXT_HEADER_AT: u32 = 6;
const DESTINATION_AT: u32 = 24;
/// Header of the links that most packets come by.
const ETHERNET_BYTES: usize = 14;

/// Which packets are taken: those to a prefix (its address and length) with one of these next headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv6Match<'m> {
    /// An address of the prefix; what is behind its length does not matter.
    pub prefix: Ipv6Addr,
    /// Length of the prefix, from 1 bit to 128.
    pub prefix_len: u8,
    /// The next headers, up to [`IPV6_NEXT_HEADERS_MAX`].
    pub next_headers: &'m [u8],
}

/// What one call of [`Ipv6Receiver::receive`] took; a super-frame counts as one packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ipv6Received {
    /// Delivered.
    pub packets: u32,
    /// Not delivered: larger than a buffer, so not whole.
    pub truncated: u32,
    /// Not delivered: a segmentation that nothing here can undo.
    pub unsupported_offload: u32,
    /// Came in by an interface of which none are taken, and not delivered.
    pub foreign: u32,
    /// The bytes of those.
    pub foreign_bytes: u64,
    /// The pool ran out of buffers; the rest waits.
    pub pool_empty: bool,
    /// Error that the kernel reported for the socket (`errno`), if any.
    pub socket_error: Option<i32>,
}

/// A packet socket on all interfaces of its namespace.
///
/// It is bound for IPv6 alone and not for every EtherType: so each packet comes once, by the interface
/// that the host's own stack has it from (a bridge, not its port), and nothing of what the host sends.
pub struct Ipv6Receiver {
    socket: OwnedFd,
    /// The interfaces whose packets are taken.
    interfaces: Vec<u32>,
}

impl Ipv6Receiver {
    /// Lets a socket of the reserve take such packets; nothing else is ever queued. It delivers nothing
    /// before it is told from where. Needs no right.
    ///
    /// # Errors
    /// No socket is left, a number is outside its limits, or the kernel's refusal.
    pub fn bind(takes: Ipv6Match<'_>, reserve: &mut Ipv6Reserve) -> Result<Self, IoError> {
        let program = program(takes)?;
        let socket = reserve.take_packet()?;
        let fd = socket.as_fd();
        for option in [libc::PACKET_VNET_HDR, libc::PACKET_AUXDATA] {
            options::set(fd, libc::SOL_PACKET, option, [1])
                .map_err(IoError::system("asking for offload words"))?;
        }
        packet_socket::filter(fd, program).map_err(IoError::system("filtering packets"))?;
        packet_socket::bind(fd, libc::ETH_P_IPV6 as u16, 0)
            .map_err(IoError::system("binding a packet socket"))?;
        Ok(Self { socket, interfaces: Vec::new() })
    }

    /// Takes other packets from now on; what waits already is still delivered. Needs no right.
    ///
    /// # Errors
    /// A number outside its limits, or the kernel's refusal.
    pub fn take(&mut self, takes: Ipv6Match<'_>) -> Result<(), IoError> {
        packet_socket::filter(self.socket.as_fd(), program(takes)?)
            .map_err(IoError::system("filtering packets"))
    }

    /// Delivers from now on only what comes in by one of these interfaces.
    pub fn take_only_from(&mut self, interfaces: Vec<u32>) {
        self.interfaces = interfaces;
    }

    /// Takes up to `max` packets, whatever becomes of them, and delivers each from its IPv6 header on,
    /// with what its link padded it with, in order. Stops early when the pool is empty; those packets stay.
    pub fn receive(
        &mut self,
        pool: &mut BufferPool,
        out: &mut Vec<Buffer>,
        max: usize,
    ) -> Ipv6Received {
        let mut received = Ipv6Received::default();
        for _ in 0..max {
            let Some(mut buffer) = pool.take() else {
                received.pool_empty = true;
                break;
            };
            let arrival = match packet_socket::receive(self.socket.as_fd(), room(&mut buffer)) {
                Ok(arrival) => arrival,
                // A segmentation that the kernel has no words for.
                Err(Errno::INVAL) => {
                    pool.put(buffer);
                    received.unsupported_offload += 1;
                    continue;
                }
                Err(errno) => {
                    pool.put(buffer);
                    if ![Errno::AGAIN, Errno::INTR].contains(&errno) {
                        received.socket_error = Some(errno.raw_os_error());
                    }
                    break;
                }
            };
            match self.judge(&arrival, &mut buffer) {
                Ok(()) => {
                    received.packets += 1;
                    out.push(buffer);
                    continue;
                }
                Err(Refused::Foreign(bytes)) => {
                    received.foreign += 1;
                    received.foreign_bytes += bytes;
                }
                Err(Refused::Truncated) => received.truncated += 1,
                Err(Refused::UnsupportedOffload) => received.unsupported_offload += 1,
            }
            pool.put(buffer);
        }
        received
    }

    /// Makes a packet of what was received into a buffer.
    fn judge(&self, arrival: &ArrivedFrame, buffer: &mut Buffer) -> Result<(), Refused> {
        let before = VIRTIO_HEADER_BYTES + usize::from(arrival.link_header_bytes);
        if !self.interfaces.contains(&arrival.interface) {
            return Err(Refused::Foreign(arrival.bytes.saturating_sub(before) as u64));
        }
        if !buffer.set_len(arrival.bytes) {
            return Err(Refused::Truncated);
        }
        let words = *buffer.bytes().first_chunk().ok_or(Refused::Truncated)?;
        let mut offload = Offload::parse(words).ok_or(Refused::UnsupportedOffload)?;
        offload.shift_back(arrival.link_header_bytes);
        if !buffer.trim_front(before) {
            return Err(Refused::Truncated);
        }
        buffer.offload = offload;
        Ok(())
    }

    /// Packets lost because the receive buffer was full, since the socket was opened; the kernel counts in
    /// 32 bits.
    #[must_use]
    pub fn kernel_drops(&self) -> u64 {
        options::drops(self.as_fd())
    }
}

impl AsFd for Ipv6Receiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

enum Refused {
    /// With the bytes of the packet.
    Foreign(u64),
    Truncated,
    UnsupportedOffload,
}

/// The memory of an empty buffer, with the kernel's words and an Ethernet header before its usual
/// beginning: that is where the packet will be.
fn room(buffer: &mut Buffer) -> &mut [u8] {
    buffer.clear();
    if buffer.prepend(VIRTIO_HEADER_BYTES + ETHERNET_BYTES).is_some() {
        // Empty again, and it begins sooner.
        let _ = buffer.set_len(0);
    }
    buffer.spare_mut()
}

/// The filter: what is addressed to this host on its link, has one of the next headers, and goes to
/// the prefix. It counts from the network header, so that links may have headers of any length.
fn program(takes: Ipv6Match<'_>) -> Result<Vec<libc::sock_filter>, IoError> {
    let Ipv6Match { prefix, prefix_len, next_headers } = takes;
    IoError::check_range("bits of a prefix", prefix_len.into(), 1, 128)?;
    IoError::check_range("next headers", next_headers.len(), 1, IPV6_NEXT_HEADERS_MAX)?;
    let load = |size, at| instruction(libc::BPF_LD | size | libc::BPF_ABS, (0, 0), at);
    let beside = |what: libc::c_int| (libc::SKF_AD_OFF + what) as u32;
    let header = |at: u32| (libc::SKF_NET_OFF as u32).wrapping_add(at);
    let is = |value, jumps| instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, jumps, value);

    let mut program = vec![load(libc::BPF_W, beside(libc::SKF_AD_PKTTYPE))];
    program.extend([is(libc::PACKET_HOST.into(), (1, 0)), NOTHING]);
    program.push(load(libc::BPF_B, header(NEXT_HEADER_AT)));
    // The last of them leaves out the refusal alone, the first also those between.
    let left = (1..=next_headers.len() as u8).rev();
    program.extend(next_headers.iter().zip(left).map(|(next, left)| is((*next).into(), (left, 0))));
    program.push(NOTHING);
    let mask = u128::MAX << (128 - u32::from(prefix_len));
    for word in 0..4 {
        let part = |bits: u128| (bits >> (96 - 32 * word)) as u32;
        if part(mask) == 0 {
            break;
        }
        program.push(load(libc::BPF_W, header(DESTINATION_AT + 4 * word)));
        program.push(instruction(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, (0, 0), part(mask)));
        program.extend([is(part(prefix.to_bits() & mask), (1, 0)), NOTHING]);
    }
    program.push(WHOLE);
    Ok(program)
}
