//! What this kernel can hold a process back with: Landlock and filters of system calls. Only asks; refuses to know
//! who is held back.
#![allow(unsafe_code)]

use std::fs;
use std::path::Path;

/// From `linux/landlock.h`: the question for the version in place of a rule set.
const LANDLOCK_CREATE_RULESET_VERSION: libc::c_uint = 1;

/// The version of Landlock's interface; none: the kernel has none, or was started without it.
#[must_use]
pub fn landlock_version() -> Option<u32> {
    // SAFETY: with this flag the call reads no memory, and makes nothing (landlock_create_ruleset(2)).
    let answer = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<libc::c_void>(),
            0_usize,
            LANDLOCK_CREATE_RULESET_VERSION,
        )
    };
    u32::try_from(answer).ok().filter(|version| *version > 0)
}

/// Can a filter end a process for a call that it may not make (seccomp(2))? `root` is `/` for this machine.
#[must_use]
pub fn filters_calls(root: &Path) -> bool {
    let offered = fs::read_to_string(root.join("proc/sys/kernel/seccomp/actions_avail"));
    offered.is_ok_and(|offered| offered.split_whitespace().any(|action| action == "kill_process"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_there_when_the_kernel_says_so() {
        let root = std::env::temp_dir().join(format!("catena-confinement-{}", std::process::id()));
        assert!(!filters_calls(&root));
        let folder = root.join("proc/sys/kernel/seccomp");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("actions_avail"), "kill_thread trap errno\n").unwrap();
        assert!(!filters_calls(&root));
        fs::write(folder.join("actions_avail"), "kill_process kill_thread\n").unwrap();
        assert!(filters_calls(&root));
        fs::remove_dir_all(&root).unwrap();
    }
}
