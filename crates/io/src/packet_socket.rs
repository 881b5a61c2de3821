//! What rustix cannot do with a packet socket: saying which packets it is to take (classic BPF, Linux
//! filter.rst) and of which interface, and receiving one with what the kernel says of it. Knows system
//! calls; refuses to know any format.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;

/// Room for the control message that is asked for (`PACKET_AUXDATA`), in bytes.
const CONTROL_BYTES: usize = 64;

/// Memory for control messages, aligned as their header needs it.
#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

/// What one call received.
pub(crate) struct ArrivedFrame {
    /// Bytes of the frame with what the kernel says before it; more than the caller's memory has: the rest
    /// is gone.
    pub(crate) bytes: usize,
    /// Index of the interface by which it came in.
    pub(crate) interface: u32,
    /// Bytes of the frame before its network header.
    pub(crate) link_header_bytes: u16,
}

/// Receives a frame from a socket that was told to describe it (`PACKET_AUXDATA`), if one waits.
pub(crate) fn receive(socket: BorrowedFd<'_>, into: &mut [u8]) -> Result<ArrivedFrame, Errno> {
    let mut control = Control([0; CONTROL_BYTES]);
    let mut part = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    // SAFETY: zero is a valid value of each field of this structure of integers.
    let mut from: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    // SAFETY: zero is a valid value of each field: null pointers with zero lengths.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_name = (&raw mut from).cast();
    message.msg_namelen = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut control).cast();
    message.msg_controllen = CONTROL_BYTES;
    let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
    // SAFETY: every pointer of `message` is valid for writing as many bytes as its length says, and
    // what it points to lives until after the call.
    let bytes = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags) };
    let bytes = usize::try_from(bytes).map_err(|_| last_errno())?;
    Ok(ArrivedFrame {
        bytes,
        interface: u32::try_from(from.sll_ifindex).unwrap_or(0),
        link_header_bytes: link_header_bytes(&message).unwrap_or(0),
    })
}

/// Reads from the control message of a received frame where its network header is.
fn link_header_bytes(message: &libc::msghdr) -> Option<u16> {
    // SAFETY: `message` comes from a successful `recvmsg`, so its control pointer and length
    // describe control messages written by the kernel, which these functions walk; the value is of
    // the type that its level and number stand for.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(message).as_ref()?;
        let is_wanted =
            (header.cmsg_level, header.cmsg_type) == (libc::SOL_PACKET, libc::PACKET_AUXDATA);
        is_wanted.then(|| {
            let told = libc::CMSG_DATA(header).cast::<libc::tpacket_auxdata>().read_unaligned();
            told.tp_net.saturating_sub(told.tp_mac)
        })
    }
}

fn last_errno() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// No byte of a packet is wanted.
pub(crate) const NOTHING: libc::sock_filter = instruction(libc::BPF_RET | libc::BPF_K, (0, 0), 0);
/// All of it is.
pub(crate) const WHOLE: libc::sock_filter =
    instruction(libc::BPF_RET | libc::BPF_K, (0, 0), u32::MAX);

/// `jumps`: so many instructions to leave out where a comparison holds, and where it does not.
pub(crate) const fn instruction(code: u32, (jt, jf): (u8, u8), k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt, jf, k }
}

/// Lets a socket take what a program says, in place of what an earlier one said. Needs no right.
pub(crate) fn filter(
    socket: BorrowedFd<'_>,
    mut program: Vec<libc::sock_filter>,
) -> io::Result<()> {
    let len = program.len().try_into().map_err(|_| io::ErrorKind::InvalidInput)?;
    let program = libc::sock_fprog { len, filter: program.as_mut_ptr() };
    // SAFETY: the pointer and the length describe `program`, which points to as many instructions
    // as it says; the kernel only reads both, and they live until the call returns.
    let outcome = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const program).cast(),
            size_of_val(&program) as libc::socklen_t,
        )
    };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Lets a socket take the frames of one EtherType of an interface; 0 is all of them. Needs no right.
pub(crate) fn bind(socket: BorrowedFd<'_>, ethertype: u16, interface: u32) -> io::Result<()> {
    let index = i32::try_from(interface).map_err(|_| io::Error::from_raw_os_error(libc::ENODEV))?;
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as libc::c_ushort,
        sll_protocol: ethertype.to_be(),
        sll_ifindex: index,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    // SAFETY: `address` is a live, fully set `sockaddr_ll` and the length given is exactly its
    // size; the kernel only reads it.
    let answer = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            size_of::<libc::sockaddr_ll>() as libc::socklen_t,
        )
    };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
