//! A packet socket for measurements: sends rows of frames with one call, and says of each frame that
//! comes when the kernel took it from its interface. Knows two system calls; refuses to know what
//! the frames are.
#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::net::sockopt::{set_socket_recv_buffer_size_force, set_socket_timeout};
use rustix::net::{AddressFamily, SocketFlags, SocketType, netdevice, socket_with};

use crate::error::IoError;
use crate::{options, packet_socket};

/// Frames of one call.
pub const STAMPED_ROW_MAX: usize = 64;
/// Longest frame that is received whole, in bytes.
pub const STAMPED_FRAME_BYTES_MAX: usize = 9_216;
/// Room for one control message that holds a time, in bytes.
const CONTROL_BYTES: usize = 64;
const NS_PER_SECOND: u64 = 1_000_000_000;

/// What came.
#[derive(Clone, Copy, Debug)]
pub struct StampedFrame<'f> {
    /// The frame from its Ethernet header on.
    pub bytes: &'f [u8],
    /// When the kernel took it, in nanoseconds of the system's clock (`CLOCK_REALTIME`).
    pub arrived_ns: u64,
}

/// A packet socket on one interface, with memory for a row.
pub struct StampedSocket {
    socket: OwnedFd,
    memory: Vec<[u8; STAMPED_FRAME_BYTES_MAX]>,
}

#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

impl StampedSocket {
    /// Opens a socket on an interface of the caller's network namespace. Frames that the namespace
    /// itself sends do not come. `wait`: how long a call waits for the first frame.
    ///
    /// # Errors
    /// The kernel's refusal: it needs `CAP_NET_RAW`, and the interface must be there.
    pub fn open(interface: &str, receive_bytes: usize, wait: Duration) -> Result<Self, IoError> {
        let socket =
            socket_with(AddressFamily::PACKET, SocketType::RAW, SocketFlags::CLOEXEC, None)
                .map_err(IoError::system("opening a packet socket"))?;
        let index = netdevice::name_to_index(&socket, interface)
            .map_err(IoError::system("looking for an interface"))?;
        let option = |level, name, value| options::set(socket.as_fd(), level, name, [value]);
        option(libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1)
            .map_err(IoError::system("keeping own frames out"))?;
        option(libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)
            .map_err(IoError::system("asking for times of arrival"))?;
        set_socket_recv_buffer_size_force(&socket, receive_bytes)
            .map_err(IoError::system("sizing the receive buffer"))?;
        set_socket_timeout(&socket, rustix::net::sockopt::Timeout::Recv, Some(wait))
            .map_err(IoError::system("bounding the wait"))?;
        packet_socket::bind(socket.as_fd(), libc::ETH_P_ALL as u16, index)
            .map_err(IoError::system("binding a packet socket"))?;
        Ok(Self { socket, memory: vec![[0; STAMPED_FRAME_BYTES_MAX]; STAMPED_ROW_MAX] })
    }

    /// Sends frames, at most [`STAMPED_ROW_MAX`] of them, with one call; how many left.
    ///
    /// # Errors
    /// The kernel's refusal of the first of them.
    pub fn send(&self, frames: &[&[u8]]) -> io::Result<usize> {
        let mut parts = frames.iter().take(STAMPED_ROW_MAX).map(|frame| libc::iovec {
            iov_base: frame.as_ptr().cast_mut().cast(),
            iov_len: frame.len(),
        });
        let mut row: [MaybeUninit<libc::iovec>; STAMPED_ROW_MAX] =
            [const { MaybeUninit::uninit() }; STAMPED_ROW_MAX];
        // SAFETY: zero is a valid value of each field: null pointers with zero lengths.
        let mut messages: [libc::mmsghdr; STAMPED_ROW_MAX] = unsafe { std::mem::zeroed() };
        let mut count = 0;
        for (place, message) in row.iter_mut().zip(&mut messages) {
            let Some(part) = parts.next() else { break };
            message.msg_hdr.msg_iov = place.write(part);
            message.msg_hdr.msg_iovlen = 1;
            count += 1;
        }
        // SAFETY: the first `count` messages point to parts that were written above and to frames
        // that live until the call returns; the kernel only reads both.
        let sent =
            unsafe { libc::sendmmsg(self.socket.as_raw_fd(), messages.as_mut_ptr(), count, 0) };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }

    /// Takes the frames that have come, waiting for the first as long as the socket was opened with.
    ///
    /// # Errors
    /// The kernel's refusal; that nothing came is none.
    pub fn receive(&mut self, mut take: impl FnMut(StampedFrame<'_>)) -> io::Result<usize> {
        let mut controls = [Control([0; CONTROL_BYTES]); STAMPED_ROW_MAX];
        let mut parts: Vec<libc::iovec> = self
            .memory
            .iter_mut()
            .map(|frame| libc::iovec {
                iov_base: frame.as_mut_ptr().cast(),
                iov_len: STAMPED_FRAME_BYTES_MAX,
            })
            .collect();
        // SAFETY: zero is a valid value of each field: null pointers with zero lengths.
        let mut messages: [libc::mmsghdr; STAMPED_ROW_MAX] = unsafe { std::mem::zeroed() };
        for ((message, part), control) in messages.iter_mut().zip(&mut parts).zip(&mut controls) {
            message.msg_hdr.msg_iov = part;
            message.msg_hdr.msg_iovlen = 1;
            message.msg_hdr.msg_control = control.0.as_mut_ptr().cast();
            message.msg_hdr.msg_controllen = CONTROL_BYTES;
        }
        // SAFETY: each message points to one part of writable memory of the length it says and to
        // control memory of its own; all of it lives until the last look at the messages below.
        let count = unsafe {
            libc::recvmmsg(
                self.socket.as_raw_fd(),
                messages.as_mut_ptr(),
                STAMPED_ROW_MAX as libc::c_uint,
                libc::MSG_WAITFORONE,
                std::ptr::null_mut(),
            )
        };
        let Ok(count) = usize::try_from(count) else {
            let error = io::Error::last_os_error();
            let is_nothing =
                matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted);
            return if is_nothing { Ok(0) } else { Err(error) };
        };
        for (message, memory) in messages.iter().zip(&self.memory).take(count) {
            let length = (message.msg_len as usize).min(STAMPED_FRAME_BYTES_MAX);
            let bytes = memory.get(..length).unwrap_or_default();
            take(StampedFrame { bytes, arrived_ns: arrival_ns(&message.msg_hdr).unwrap_or(0) });
        }
        Ok(count)
    }

    /// Frames that the kernel lost because the receive buffer was full, since the last call.
    #[must_use]
    pub fn lost(&self) -> u64 {
        // struct tpacket_stats: packets, drops; reading resets both.
        let words = options::get::<2>(self.as_fd(), libc::SOL_PACKET, libc::PACKET_STATISTICS);
        words.map_or(0, |[_, drops]| u64::from(drops))
    }
}

impl AsFd for StampedSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Finds the time of arrival of a received message.
fn arrival_ns(message: &libc::msghdr) -> Option<u64> {
    // SAFETY: `message` was filled by a successful `recvmmsg`, so its control pointer and length
    // describe control messages written by the kernel, which these functions walk; the memory is
    // the caller's and lives on.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(message);
        while let Some(found) = header.as_ref() {
            if found.cmsg_level == libc::SOL_SOCKET && found.cmsg_type == libc::SCM_TIMESTAMPNS {
                let time = libc::CMSG_DATA(header).cast::<libc::timespec>().read_unaligned();
                let seconds = u64::try_from(time.tv_sec).ok()?;
                return Some(seconds * NS_PER_SECOND + u64::try_from(time.tv_nsec).ok()?);
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
    None
}
