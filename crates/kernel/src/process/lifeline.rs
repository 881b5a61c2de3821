//! A pipe nobody writes to: its end tells one process that another is gone, however it went.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::Timespec;
use rustix::pipe::PipeFlags;

use super::pidfd::{is_ready, wait_readable};
use crate::{KernelError, Result};

/// The end that is held. When the last process holding it is gone, the line is cut.
#[derive(Debug)]
pub struct LifelineHolder {
    _held: OwnedFd,
}

/// The end that is watched. To hand it to a child, turn it into its descriptor.
#[derive(Debug)]
pub struct LifelineWatch {
    watched: OwnedFd,
}

/// Makes a line. Both ends are closed on exec unless the child is given one on purpose.
///
/// # Errors
/// No descriptor is left.
pub fn lifeline() -> Result<(LifelineHolder, LifelineWatch)> {
    let (watched, held) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)
        .map_err(|e| KernelError::system("make", "lifeline", e))?;
    Ok((LifelineHolder { _held: held }, LifelineWatch { watched }))
}

impl LifelineWatch {
    /// Whether the other side is gone.
    ///
    /// # Errors
    /// The descriptor cannot be examined.
    pub fn is_cut(&self) -> Result<bool> {
        self.poll(Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))
    }

    /// Waits, blocking the thread, until the other side is gone.
    ///
    /// # Errors
    /// The descriptor cannot be examined.
    pub fn wait_cut(&self) -> Result<()> {
        while !self.poll(None)? {}
        Ok(())
    }

    /// Waits, as a task of the current tokio runtime, until the other side is gone.
    ///
    /// # Errors
    /// The descriptor cannot be watched.
    ///
    /// # Panics
    /// Outside of a tokio runtime with I/O.
    pub async fn cut(&self) -> Result<()> {
        wait_readable(self.watched.as_fd())
            .await
            .map_err(|e| KernelError::system("watch", "lifeline", e))
    }

    fn poll(&self, limit: Option<&Timespec>) -> Result<bool> {
        is_ready(self.watched.as_fd(), limit)
            .map_err(|e| KernelError::system("watch", "lifeline", e))
    }
}

impl AsFd for LifelineWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.watched.as_fd()
    }
}

impl From<OwnedFd> for LifelineWatch {
    fn from(watched: OwnedFd) -> Self {
        Self { watched }
    }
}

impl From<LifelineWatch> for OwnedFd {
    fn from(watch: LifelineWatch) -> Self {
        watch.watched
    }
}
