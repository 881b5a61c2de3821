//! Mounts of a process that has a mount namespace of its own.
//! It refuses to know which mounts a lab needs.

use std::ffi::CString;
use std::path::Path;

use rustix::mount::MountFlags;

use crate::{KernelError, Result};

/// Mounts an empty file system in memory; `options` as in `tmpfs(5)`, e.g. `mode=0755,size=64m`.
///
/// # Errors
/// The path is missing, an option is unknown, or `CAP_SYS_ADMIN` is missing.
pub fn mount_tmpfs(path: &Path, options: &str) -> Result<()> {
    let object = path.display().to_string();
    let data = CString::new(options)
        .map_err(|_| KernelError::invalid(format!("mount options {options:?}"), "zero byte"))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    rustix::mount::mount(c"tmpfs", path, c"tmpfs", flags, data.as_c_str())
        .map_err(|e| KernelError::system("mount tmpfs on", object, e))
}
