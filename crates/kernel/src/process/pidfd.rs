//! A process held by a descriptor: its number can be reused, the descriptor cannot.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::Child;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal};

use crate::{KernelError, Result};

/// A process, ours or another's, that can be watched and signalled without mistake.
#[derive(Debug)]
pub struct PidFd {
    descriptor: OwnedFd,
    object: String,
}

impl PidFd {
    /// Opens a running process by its number (which must be known to be the right one).
    ///
    /// # Errors
    /// [`KernelError::NotFoundYet`] if there is no such process.
    pub fn open(pid: u32) -> Result<Self> {
        let object = format!("process {pid}");
        let missing = || KernelError::not_found_yet(object.clone());
        let number = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or_else(missing)?;
        match rustix::process::pidfd_open(number, PidfdFlags::empty()) {
            Ok(descriptor) => Ok(Self { descriptor, object }),
            Err(rustix::io::Errno::SRCH) => Err(missing()),
            Err(error) => Err(KernelError::system("watch", object, error)),
        }
    }

    pub(super) fn of(child: &Child) -> Option<Self> {
        Self::open(child.id()).ok()
    }

    /// Whether it has ended (a zombie has).
    ///
    /// # Errors
    /// The descriptor cannot be examined.
    pub fn has_exited(&self) -> Result<bool> {
        self.poll(Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))
    }

    /// Waits, blocking the thread, until it has ended.
    ///
    /// # Errors
    /// The descriptor cannot be examined.
    pub fn wait_exit(&self) -> Result<()> {
        while !self.poll(None)? {}
        Ok(())
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// It has ended, or it belongs to somebody else.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        rustix::process::pidfd_send_signal(&self.descriptor, signal)
            .map_err(|e| self.failed("signal", e.into()))
    }

    fn poll(&self, limit: Option<&Timespec>) -> Result<bool> {
        let mut polled = [PollFd::new(&self.descriptor, PollFlags::IN)];
        match poll(&mut polled, limit) {
            Ok(ready) => Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(self.failed("watch", error.into())),
        }
    }

    fn failed(&self, operation: &'static str, error: io::Error) -> KernelError {
        KernelError::system(operation, self.object.clone(), error)
    }
}

impl AsFd for PidFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// For a descriptor that another process opened and passed here.
impl From<OwnedFd> for PidFd {
    fn from(descriptor: OwnedFd) -> Self {
        Self { descriptor, object: "a process".to_owned() }
    }
}

impl From<PidFd> for OwnedFd {
    fn from(process: PidFd) -> Self {
        process.descriptor
    }
}
