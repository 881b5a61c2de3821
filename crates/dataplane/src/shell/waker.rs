//! Waking a thread that waits for descriptors, from another thread.

use rustix::event::EventfdFlags;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// A waker: it stays rung until it is silenced. Clones are the same waker.
#[derive(Clone, Debug)]
pub(super) struct Waker {
    eventfd: Arc<OwnedFd>,
}

impl Waker {
    /// A silent waker.
    ///
    /// # Errors
    /// No descriptor is left.
    pub(super) fn new() -> rustix::io::Result<Self> {
        let eventfd = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { eventfd: Arc::new(eventfd) })
    }

    /// Wakes whoever waits.
    pub(super) fn ring(&self) {
        // It can only fail when it has been rung 2^64 - 1 times, and is rung then.
        let _ = rustix::io::write(&self.eventfd, &1u64.to_ne_bytes());
    }

    /// Makes it silent again; to be done before looking for what it was rung for.
    pub(super) fn silence(&self) {
        // It fails when the waker is silent already.
        let _ = rustix::io::read(&self.eventfd, &mut [0; size_of::<u64>()]);
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.eventfd.as_fd()
    }
}
