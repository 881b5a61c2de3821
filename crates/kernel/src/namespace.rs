//! Network namespaces: making, opening, comparing, and running a piece of work inside one.
//! It refuses to move the caller's thread, except in [`enter`], which says so.
#![allow(unsafe_code)]

use std::fs::{self, OpenOptions};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountPropagationFlags, UnmountFlags};
use rustix::thread::{LinkNameSpaceType, UnshareFlags};

use crate::{KernelError, Result};

/// Where `ip netns` looks for named namespaces.
pub const NAMED_NAMESPACES: &str = "/run/netns";

/// The network namespace of the calling thread (not of the process: threads may differ).
const OWN_NAMESPACE: &str = "/proc/thread-self/ns/net";

const NOT_A_NAMESPACE: &str = "the path is not a namespace of a network";

/// An open network namespace. It lives at least as long as this value, named or not.
#[derive(Debug, Clone)]
pub struct NetNamespace {
    name: String,
    fd: Arc<OwnedFd>,
}

/// Identity of a namespace: two are the same if these are equal, however they were opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NamespaceId {
    /// The device of its file.
    pub device: u64,
    /// The number of its file there.
    pub inode: u64,
}

impl NetNamespace {
    /// Makes a new namespace and binds it to `dir/name`, so that others can open it by that path
    /// (with `ip netns exec` if `dir` is [`NAMED_NAMESPACES`]).
    ///
    /// # Errors
    /// The name holds a slash or is empty, the path exists already, or the kernel refuses
    /// (`CAP_SYS_ADMIN` is needed).
    pub fn create_named(dir: &Path, name: &str) -> Result<Self> {
        check_name(name)?;
        let path = dir.join(name);
        fs::create_dir_all(dir)
            .map_err(|e| KernelError::system("create directory", dir.display().to_string(), e))?;
        // A bind mount needs a file to lie on; `create_new` makes two creators of one name collide.
        OpenOptions::new().write(true).create_new(true).open(&path).map_err(|e| {
            KernelError::system("create namespace file", path.display().to_string(), e)
        })?;
        let made = on_new_thread(name, || {
            unshare_network(name)?;
            rustix::mount::mount_bind(OWN_NAMESPACE, &path).map_err(|e| {
                KernelError::system("bind namespace to", path.display().to_string(), e)
            })
        })
        .and_then(|bound| bound);
        if let Err(error) = made {
            // The empty file is ours; leaving it would make the name look taken.
            let _ = fs::remove_file(&path);
            return Err(error);
        }
        Self::open(&path)
    }

    /// Makes a new namespace that has no path: it is gone when the last descriptor and the last
    /// process in it are. `label` is only for messages.
    ///
    /// # Errors
    /// The kernel refuses (`CAP_SYS_ADMIN` is needed).
    pub fn create_unnamed(label: &str) -> Result<Self> {
        on_new_thread(label, || {
            unshare_network(label)?;
            Self::open_labelled(Path::new(OWN_NAMESPACE), label.to_owned())
        })?
    }

    /// Opens a namespace by path; its name is the last part of the path.
    ///
    /// # Errors
    /// [`KernelError::NotFoundYet`] if nothing is there, [`KernelError::Invalid`] if it is no
    /// network namespace.
    pub fn open(path: &Path) -> Result<Self> {
        let label = path
            .file_name()
            .map_or_else(|| path.display().to_string(), |n| n.to_string_lossy().into_owned());
        Self::open_labelled(path, label)
    }

    /// Opens the namespace of a process.
    ///
    /// # Errors
    /// [`KernelError::NotFoundYet`] if there is no such process.
    pub fn open_pid(pid: u32) -> Result<Self> {
        Self::open_labelled(Path::new(&format!("/proc/{pid}/ns/net")), format!("pid {pid}"))
    }

    /// The namespace of the calling thread.
    ///
    /// # Errors
    /// `/proc` is not mounted.
    pub fn current() -> Result<Self> {
        Self::open_labelled(Path::new(OWN_NAMESPACE), "current".to_owned())
    }

    fn open_labelled(path: &Path, name: String) -> Result<Self> {
        let object = format!("network namespace {}", path.display());
        let fd = open_checked(path).map_err(|e| match e {
            // ESRCH, too: the process ended while its directory was being walked.
            Refused::System(Errno::NOENT | Errno::SRCH) | Refused::Unfinished => {
                KernelError::not_found_yet(object.clone())
            }
            Refused::System(errno) => KernelError::system("open", object.clone(), errno),
            Refused::Other => KernelError::invalid(object.clone(), NOT_A_NAMESPACE),
        })?;
        Ok(Self { name, fd: Arc::new(fd) })
    }

    /// The name it was made or opened by, for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Identity, for comparison.
    ///
    /// # Errors
    /// The descriptor cannot be examined.
    pub fn id(&self) -> Result<NamespaceId> {
        let stat = rustix::fs::fstat(&*self.fd).map_err(|e| {
            KernelError::system("examine", format!("network namespace {}", self.name), e)
        })?;
        Ok(NamespaceId { device: stat.st_dev, inode: stat.st_ino })
    }

    /// Whether both are one namespace.
    ///
    /// # Errors
    /// A descriptor cannot be examined.
    pub fn same_as(&self, other: &Self) -> Result<bool> {
        Ok(self.id()? == other.id()?)
    }
}

impl AsFd for NetNamespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Removes the path of a named namespace; the namespace itself ends with its last user.
///
/// # Errors
/// The path is missing or cannot be unmounted.
pub fn delete_named(dir: &Path, name: &str) -> Result<()> {
    check_name(name)?;
    let path: PathBuf = dir.join(name);
    let object = format!("network namespace {}", path.display());
    rustix::mount::unmount(&path, UnmountFlags::DETACH)
        .map_err(|e| KernelError::system("unmount", object.clone(), e))?;
    fs::remove_file(&path).map_err(|e| KernelError::system("remove", object, e))
}

/// Runs `work` inside `namespace` on a thread of its own; the caller's thread never moves.
/// A panic of `work` continues in the caller.
///
/// # Errors
/// No thread can be started, or the namespace cannot be entered (`CAP_SYS_ADMIN` is needed).
pub fn run_in<T: Send>(namespace: &NetNamespace, work: impl FnOnce() -> T + Send) -> Result<T> {
    on_new_thread(namespace.name(), || enter(namespace.as_fd()).map(|()| work()))?
}

/// Moves the calling thread into a network namespace for the rest of its life. For a child
/// between fork and exec, or for a thread made for this.
///
/// # Errors
/// The descriptor is no network namespace, or `CAP_SYS_ADMIN` is missing.
pub fn enter(namespace: BorrowedFd<'_>) -> Result<()> {
    rustix::thread::move_into_link_name_space(namespace, Some(LinkNameSpaceType::Network))
        .map_err(|e| KernelError::system("enter", "network namespace", e))
}

/// Moves the calling thread into new mount propagation: nothing mounted later leaks out.
pub(crate) fn make_mounts_private() -> rustix::io::Result<()> {
    rustix::mount::mount_change(c"/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
}

/// Why a path is not opened.
enum Refused {
    System(Errno),
    /// An empty file: a creator first makes the file and then binds the namespace over it.
    Unfinished,
    /// Something else than a network namespace.
    Other,
}

impl From<Errno> for Refused {
    fn from(errno: Errno) -> Self {
        Self::System(errno)
    }
}

/// Whoever wrote the path may have meant a pipe or a device, where opening alone does something:
/// first only the place is taken, and it is opened when it is known to be a namespace.
fn open_checked(path: &Path) -> std::result::Result<OwnedFd, Refused> {
    let place = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    if rustix::fs::fstatfs(&place)?.f_type != libc::NSFS_MAGIC {
        let found = rustix::fs::fstat(&place)?;
        let is_file = FileType::from_raw_mode(found.st_mode).is_file();
        let is_unfinished = is_file && found.st_size == 0;
        return Err(if is_unfinished { Refused::Unfinished } else { Refused::Other });
    }
    let again = format!("/proc/self/fd/{}", place.as_raw_fd());
    let opened = rustix::fs::open(again, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    // SAFETY: the descriptor is open for the call, which takes no argument and answers a number.
    let kind = unsafe { libc::ioctl(opened.as_raw_fd(), libc::NS_GET_NSTYPE) };
    if kind == libc::CLONE_NEWNET { Ok(opened) } else { Err(Refused::Other) }
}

fn unshare_network(name: &str) -> Result<()> {
    // SAFETY: only the network namespace of this thread changes; the file table stays shared,
    // which is the one thing this call could break.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }
        .map_err(|e| KernelError::system("create network namespace", name, e))
}

fn on_new_thread<T: Send>(name: &str, work: impl FnOnce() -> T + Send) -> Result<T> {
    thread::scope(|scope| {
        let worker = thread::Builder::new()
            .name("namespace".to_owned())
            .spawn_scoped(scope, work)
            .map_err(|e| KernelError::system("start a thread for", name, e))?;
        worker.join().or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn check_name(name: &str) -> Result<()> {
    let object = format!("namespace name {name:?}");
    if name.is_empty() || name == "." || name == ".." {
        return Err(KernelError::invalid(object, "it must name a file"));
    }
    if name.contains(['/', '\0']) {
        return Err(KernelError::invalid(object, "it must not hold a slash or a zero byte"));
    }
    Ok(())
}
