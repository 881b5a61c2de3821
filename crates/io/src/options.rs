//! Socket options that rustix does not know. Knows that each of them is a row of 32-bit words.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Sets an option that is `WORDS` words long.
pub(crate) fn set<const WORDS: usize>(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    value: [u32; WORDS],
) -> io::Result<()> {
    let bytes = size_of_val(&value) as libc::socklen_t;
    // SAFETY: the pointer and the length describe `value`, which the kernel only reads and which
    // lives until the call returns.
    let outcome = unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const value).cast(), bytes)
    };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Reads an option that is at least `WORDS` words long in this kernel; words that an older kernel
/// does not write are zero.
pub(crate) fn get<const WORDS: usize>(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
) -> io::Result<[u32; WORDS]> {
    let mut value = [0; WORDS];
    let mut bytes = size_of_val(&value) as libc::socklen_t;
    // SAFETY: the pointer and the length describe `value`; the kernel writes at most that many
    // bytes, and any bits are a valid row of words.
    let outcome = unsafe {
        libc::getsockopt(socket.as_raw_fd(), level, name, (&raw mut value).cast(), &mut bytes)
    };
    if outcome == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

/// Messages that a socket has lost because its receive buffer was full, or for the like.
pub(crate) fn drops(socket: BorrowedFd<'_>) -> u64 {
    const WORDS: usize = libc::SK_MEMINFO_DROPS as usize + 1;
    let words = get::<WORDS>(socket, libc::SOL_SOCKET, libc::SO_MEMINFO);
    words.map_or(0, |words| u64::from(words[WORDS - 1]))
}
