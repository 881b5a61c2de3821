//! Mounts of a process that has a mount namespace of its own.
//! It refuses to know which mounts a lab needs.

use std::ffi::CString;
use std::path::Path;

use rustix::mount::MountFlags;

use crate::{KernelError, Result, namespace};

/// Stops every mount under `/` from being seen by, or seen from, other mount namespaces.
///
/// # Errors
/// `CAP_SYS_ADMIN` is missing.
pub fn make_private() -> Result<()> {
    namespace::make_mounts_private()
        .map_err(|e| KernelError::system("make private", "the mounts under /", e))
}

/// Mounts a fresh `/proc`-like file system, which shows the caller's own PID namespace.
///
/// # Errors
/// The path is missing or `CAP_SYS_ADMIN` is.
pub fn mount_proc(path: &Path) -> Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    rustix::mount::mount(c"proc", path, c"proc", flags, None)
        .map_err(|e| KernelError::system("mount proc on", path.display().to_string(), e))
}

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

/// Shows `source` (a file or a directory, without what is mounted below it) at `target` too.
///
/// # Errors
/// A path is missing or `CAP_SYS_ADMIN` is.
pub fn bind(source: &Path, target: &Path) -> Result<()> {
    rustix::mount::mount_bind(source, target).map_err(|e| {
        let object = format!("{} to {}", source.display(), target.display());
        KernelError::system("bind", object, e)
    })
}
