//! One UDP message with its segment size (`UDP_SEGMENT` on sending, `UDP_GRO` on receiving; Linux
//! udp(7)), which rustix does not know. Knows the two system calls; refuses to know what for.
#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use rustix::io::Errno;
use rustix::net::SocketAddrAny;
use rustix::net::addr::{SocketAddrArg, SocketAddrStorage};

/// Room for the control messages that are asked for, in bytes.
const CONTROL_BYTES: usize = 128;

/// Memory for control messages, aligned as their header needs it.
#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

/// What one call received.
pub(crate) struct Arrival {
    /// Bytes written to the caller's memory.
    pub(crate) bytes: usize,
    /// The sender.
    pub(crate) from: SocketAddr,
    /// Size of each datagram but the last, when the kernel joined several of them.
    pub(crate) segment_bytes: Option<usize>,
    /// Index of the interface by which it came in; none: the socket did not ask for it.
    pub(crate) interface: Option<u32>,
    /// The caller's memory was too small; the rest is gone.
    pub(crate) is_truncated: bool,
}

/// Receives one datagram, or several of one sender that the kernel has joined.
pub(crate) fn receive(socket: BorrowedFd<'_>, into: &mut [u8]) -> Result<Arrival, Errno> {
    let mut name = MaybeUninit::<SocketAddrStorage>::uninit();
    let mut control = Control([0; CONTROL_BYTES]);
    let mut part = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    // SAFETY: zero is a valid value of each field: null pointers with zero lengths.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_name = name.as_mut_ptr().cast();
    message.msg_namelen = size_of::<SocketAddrStorage>() as libc::socklen_t;
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut control).cast();
    message.msg_controllen = CONTROL_BYTES;
    // SAFETY: every pointer of `message` is valid for writing as many bytes as its length says, and
    // what it points to lives until after the call.
    let bytes = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT) };
    let bytes = usize::try_from(bytes).map_err(|_| last_errno())?;
    // SAFETY: after success the kernel has written `msg_namelen` bytes of an address to `name`.
    let from = unsafe { SocketAddrAny::new(name, message.msg_namelen) };
    let (segment_bytes, interface) = told_beside(&message);
    Ok(Arrival {
        bytes,
        from: SocketAddr::try_from(from)?,
        segment_bytes,
        interface,
        is_truncated: message.msg_flags & libc::MSG_TRUNC != 0,
    })
}

/// Reads the control messages of a received message: `UDP_GRO`, and `IP_PKTINFO` or `IPV6_PKTINFO`.
fn told_beside(message: &libc::msghdr) -> (Option<usize>, Option<u32>) {
    let (mut segment_bytes, mut interface) = (None, None);
    // SAFETY: `message` comes from a successful `recvmsg`, so its control pointer and length
    // describe control messages written by the kernel, which these functions walk; each value is of
    // the type that its level and number stand for.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(message);
        while let Some(found) = header.as_ref() {
            let value = libc::CMSG_DATA(header);
            match (found.cmsg_level, found.cmsg_type) {
                (libc::SOL_UDP, libc::UDP_GRO) => {
                    let bytes = value.cast::<libc::c_int>().read_unaligned();
                    segment_bytes = usize::try_from(bytes).ok().filter(|bytes| *bytes > 0);
                }
                (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                    let told = value.cast::<libc::in_pktinfo>().read_unaligned();
                    interface = u32::try_from(told.ipi_ifindex).ok();
                }
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                    let told = value.cast::<libc::in6_pktinfo>().read_unaligned();
                    interface = Some(told.ipi6_ifindex);
                }
                _ => {}
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
    (segment_bytes, interface)
}

/// Sends `payload` as one datagram or, with a segment size, as a row of datagrams of that size.
pub(crate) fn send(
    socket: BorrowedFd<'_>,
    to: &SocketAddr,
    payload: &[u8],
    segment_bytes: Option<u16>,
) -> Result<(), Errno> {
    let mut control = Control([0; CONTROL_BYTES]);
    let mut part =
        libc::iovec { iov_base: payload.as_ptr().cast_mut().cast(), iov_len: payload.len() };
    // SAFETY: zero is a valid value of each field: null pointers with zero lengths.
    let mut row: libc::mmsghdr = unsafe { std::mem::zeroed() };
    let message = &mut row.msg_hdr;
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    if let Some(segment_bytes) = segment_bytes {
        message.msg_control = (&raw mut control).cast();
        // SAFETY: the control memory is zeroed, aligned for its header and longer than the one
        // message of two bytes that is written here, so the first header exists.
        unsafe {
            message.msg_controllen = libc::CMSG_SPACE(size_of::<u16>() as u32) as usize;
            let header = libc::CMSG_FIRSTHDR(&raw const *message);
            (*header).cmsg_level = libc::SOL_UDP;
            (*header).cmsg_type = libc::UDP_SEGMENT;
            (*header).cmsg_len = libc::CMSG_LEN(size_of::<u16>() as u32) as usize;
            ptr::write_unaligned(libc::CMSG_DATA(header).cast(), segment_bytes);
        }
    }
    // SAFETY: the address pointer is valid for its length within this closure, and every other
    // pointer of `message` for reading as many bytes as its length says; the kernel writes
    // only how much was sent, into `row`.
    let sent = unsafe {
        to.with_sockaddr(|name, length| {
            row.msg_hdr.msg_name = name.cast_mut().cast();
            row.msg_hdr.msg_namelen = length;
            // A row of one: packet rings send by this call too, and a confined worker has few.
            libc::sendmmsg(socket.as_raw_fd(), &raw mut row, 1, libc::MSG_DONTWAIT as _)
        })
    };
    if sent < 0 { Err(last_errno()) } else { Ok(()) }
}

fn last_errno() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}
