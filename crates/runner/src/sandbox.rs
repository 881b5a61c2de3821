//! The walls around a function in a process of its own, which reads what strangers send: no file, no port, and no
//! system call but those of its loop. Knows what the code of this crate asks of the kernel; refuses to know why.

use crate::error::RunError;
use catena_io::walls::{leave_calls, listed, wall_in};
use libc::c_long;

/// All that the loop asks of the kernel, from its first packet to its end.
const LOOP: [c_long; 15] = [
    // Waiting, and the thread that writes lines.
    libc::SYS_epoll_pwait,
    libc::SYS_ppoll,
    libc::SYS_futex,
    // Signals that wait, lines and accounts.
    libc::SYS_read,
    libc::SYS_write,
    // Packet sockets.
    libc::SYS_sendto,
    libc::SYS_sendmmsg,
    libc::SYS_getsockopt,
    // Memory.
    libc::SYS_brk,
    libc::SYS_mmap,
    libc::SYS_munmap,
    // Where the clock cannot be read without the kernel; and looking for the end of lines.
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    // The end.
    libc::SYS_close,
    libc::SYS_exit_group,
];

/// What the allocator and libraries would like and do without: these fail.
const DENIED: [c_long; 8] = [
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_mprotect,
    libc::SYS_gettid,
    libc::SYS_sigaltstack,
    // Patterns make room for as many threads as there are processors.
    libc::SYS_sched_getaffinity,
    // Builds with debug assertions ask, before they close a descriptor, whether it is open.
    libc::SYS_fcntl,
    // Channels yield where the other side is about to write; they go on looking where that fails.
    libc::SYS_sched_yield,
];

/// Leaves this thread, and those that it starts, no file and no port; answers whether the kernel holds all of it back.
///
/// # Errors
/// The kernel's refusal.
pub fn wall_off() -> Result<bool, RunError> {
    Ok(wall_in(&[])? == catena_io::walls::RulesetStatus::FullyEnforced)
}

/// Leaves this thread the system calls of [`crate::run`], for good. What it is to open and start is open and started
/// before.
///
/// # Errors
/// The kernel takes no filters.
pub fn confine_calls() -> Result<(), RunError> {
    Ok(leave_calls(listed(&[&LOOP]), &DENIED)?)
}
