//! Tables and programs by what the kernel calls them: how one process finds what another holds.
//! Knows the system call; refuses to know which program is meant.

use super::{bpf, map_info};
use std::io;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd};

// enum bpf_cmd of linux/bpf.h.
const BPF_PROG_GET_FD_BY_ID: libc::c_int = 13;
const BPF_MAP_GET_FD_BY_ID: libc::c_int = 14;

/// `union bpf_attr` for objects by what the kernel calls them.
#[repr(C)]
struct IdentifierRequest {
    identifier: u32,
    next: u32,
    flags: u32,
}

/// What the kernel calls a table or a program.
pub(crate) fn identifier(fd: BorrowedFd<'_>) -> io::Result<u32> {
    map_info(fd).map(|info| info.id)
}

/// The table that the kernel calls so. Needs `CAP_SYS_ADMIN`.
pub(crate) fn table_by_identifier(identifier: u32) -> io::Result<OwnedFd> {
    by_identifier(BPF_MAP_GET_FD_BY_ID, identifier)
}

/// The program that the kernel calls so. Needs `CAP_SYS_ADMIN`.
pub(crate) fn program_by_identifier(identifier: u32) -> io::Result<OwnedFd> {
    by_identifier(BPF_PROG_GET_FD_BY_ID, identifier)
}

fn by_identifier(command: libc::c_int, identifier: u32) -> io::Result<OwnedFd> {
    let mut request = IdentifierRequest { identifier, next: 0, flags: 0 };
    // SAFETY: the request holds no address.
    let fd = unsafe { bpf(command, &mut request)? };
    // SAFETY: the kernel has just made this descriptor for us (`bpf` answers no negative number).
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
