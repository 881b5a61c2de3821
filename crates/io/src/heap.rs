//! How the threads of this process get memory from the C library. Knows the one setting; refuses to
//! know who needs it.
#![allow(unsafe_code)]

/// All threads that are started from now on take memory from one heap: it grows by `brk` and
/// `mmap` alone, where heaps of their own need more system calls. False: this C library cannot be
/// told.
pub fn share_one_heap() -> bool {
    #[cfg(target_env = "gnu")]
    // SAFETY: sets a number, under the allocator's own lock.
    let is_set = unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) } == 1;
    #[cfg(not(target_env = "gnu"))]
    let is_set = false;
    is_set
}
