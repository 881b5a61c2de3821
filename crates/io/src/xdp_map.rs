//! The map by which an XDP program finds the socket of a queue. Knows the one command of bpf(2) that
//! puts a socket in, for which its descriptor is leave enough; refuses to make maps or programs.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Command of bpf(2), Linux `bpf.h`.
const MAP_UPDATE: libc::c_int = 2;

/// What that command takes.
#[repr(C, align(8))]
struct Update {
    map: u32,
    _room: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// Has the queue's frames sent to this socket, which has its memory and rings.
pub(crate) fn put(map: BorrowedFd<'_>, queue: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
    let value = socket.as_raw_fd();
    let update = Update {
        map: map.as_raw_fd().cast_unsigned(),
        _room: 0,
        key: &raw const queue as u64,
        value: &raw const value as u64,
        flags: 0,
    };
    // SAFETY: the pointer and the length describe `update`, which the kernel reads. The pointers in
    // it are to integers that live until the call returns and are as long as a map of XDP sockets
    // has its keys and values; of another map the kernel would read the same few bytes, all of them
    // on this stack.
    let answer =
        unsafe { libc::syscall(libc::SYS_bpf, MAP_UPDATE, &raw const update, size_of::<Update>()) };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
