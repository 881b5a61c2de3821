//! Waiting for signals one after the other, instead of being interrupted by them.
//! It refuses to install any routine that runs in the middle of other code.
#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::ptr;

pub use rustix::process::Signal;

use crate::{KernelError, Result};

/// Signals held back from this thread, and from threads and children it starts from now on; they
/// are collected by [`BlockedSignals::wait`]. The mask stays when this value is dropped.
pub struct BlockedSignals {
    set: libc::sigset_t,
    previous: libc::sigset_t,
}

/// One collected signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceivedSignal {
    /// Which one.
    pub signal: Signal,
    /// Whether the terminal sent it: then the whole foreground process group has it already.
    pub from_terminal: bool,
}

impl BlockedSignals {
    /// Holds these signals back. Call it before other threads are started.
    ///
    /// # Errors
    /// The kernel refuses the mask.
    pub fn block(signals: &[Signal]) -> Result<Self> {
        let mut set = empty_set();
        for signal in signals {
            // SAFETY: `set` is an initialised signal set; a wrong number is refused, not stored.
            if unsafe { libc::sigaddset(&raw mut set, signal.as_raw()) } != 0 {
                return Err(failed("hold back", io::Error::last_os_error()));
            }
        }
        let mut previous = empty_set();
        // SAFETY: both sets are initialised and live; only this thread's mask changes.
        let code =
            unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, &raw mut previous) };
        if code != 0 {
            return Err(failed("hold back", io::Error::from_raw_os_error(code)));
        }
        Ok(Self { set, previous })
    }

    /// Waits for the next of the signals.
    ///
    /// # Errors
    /// The kernel refuses the wait.
    pub fn wait(&self) -> Result<ReceivedSignal> {
        loop {
            if let Some(signal) = self.collect()? {
                return Ok(signal);
            }
        }
    }

    /// A descriptor that becomes readable when one of the signals has come: for a process that
    /// waits for other descriptors too, without a thread of its own for signals.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn descriptor(&self) -> Result<OwnedFd> {
        let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
        // SAFETY: the set is initialised and only read.
        let number = unsafe { libc::signalfd(-1, &raw const self.set, flags) };
        if number < 0 {
            return Err(failed("open a descriptor of", io::Error::last_os_error()));
        }
        // SAFETY: the call has just opened it, and nobody else knows its number.
        Ok(unsafe { OwnedFd::from_raw_fd(number) })
    }

    /// Gives a child the mask that was in force before.
    pub fn restore_in(&self, command: &mut Command) {
        let previous = self.previous;
        // SAFETY: the closure runs between fork and exec and makes one async-signal-safe call on
        // a set it owns.
        unsafe {
            command.pre_exec(move || {
                match libc::pthread_sigmask(libc::SIG_SETMASK, &raw const previous, ptr::null_mut())
                {
                    0 => Ok(()),
                    code => Err(io::Error::from_raw_os_error(code)),
                }
            });
        }
    }

    fn collect(&self) -> Result<Option<ReceivedSignal>> {
        let mut information = MaybeUninit::<libc::siginfo_t>::uninit();
        // SAFETY: the set lives through the call; the kernel fills `information`.
        let number = unsafe { libc::sigwaitinfo(&raw const self.set, information.as_mut_ptr()) };
        if number < 0 {
            let error = io::Error::last_os_error();
            return match error.raw_os_error() {
                Some(libc::EINTR) => Ok(None),
                _ => Err(failed("wait for", error)),
            };
        }
        // SAFETY: a positive answer says that the kernel filled it.
        let from_terminal = unsafe { information.assume_init() }.si_code == libc::SI_KERNEL;
        Ok(Signal::from_named_raw(number).map(|signal| ReceivedSignal { signal, from_terminal }))
    }
}

impl std::fmt::Debug for BlockedSignals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlockedSignals").finish_non_exhaustive()
    }
}

fn empty_set() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: `sigemptyset` initialises the whole set it is pointed to.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        set.assume_init()
    }
}

fn failed(operation: &'static str, error: io::Error) -> KernelError {
    KernelError::system(operation, "signals", error)
}
