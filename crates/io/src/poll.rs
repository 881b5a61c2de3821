//! Waiting for any of many ports. Knows descriptors and the caller's number for each; refuses to
//! know what they are.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{Timespec, epoll, poll};
use rustix::io::Errno;

use crate::error::IoError;

/// Descriptors reported by one wait; the others follow with the next.
const READY_MAX: usize = 256;
/// Longer than that takes another system call, which who is confined may not have.
const WAIT_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Gives the processor away for about so long.
pub fn rest(time: Duration) {
    let seconds = time.as_secs().min(i32::MAX as u64) as i64;
    let time = Timespec { tv_sec: seconds, tv_nsec: time.subsec_nanos().into() };
    // A signal only makes it shorter.
    let _ = poll(&mut [], Some(&time));
}

/// A set of descriptors to wait for until one can be read.
pub struct Poller {
    epoll: OwnedFd,
}

impl Poller {
    /// An empty set.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn new() -> Result<Self, IoError> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)
            .map_err(IoError::system("making a poller"))?;
        Ok(Self { epoll })
    }

    /// Adds a descriptor; `token` is reported as long as it can be read, was closed by its other
    /// end, or has an error.
    ///
    /// # Errors
    /// The kernel's refusal, such as a descriptor that is in the set already.
    pub fn add(&mut self, fd: impl AsFd, token: u64) -> Result<(), IoError> {
        epoll::add(&self.epoll, fd, epoll::EventData::new_u64(token), epoll::EventFlags::IN)
            .map_err(IoError::system("adding a descriptor to a poller"))
    }

    /// Takes a descriptor out of the set; to be done before it is closed.
    ///
    /// # Errors
    /// The kernel's refusal, such as a descriptor that is not in the set.
    pub fn remove(&mut self, fd: impl AsFd) -> Result<(), IoError> {
        epoll::delete(&self.epoll, fd)
            .map_err(IoError::system("taking a descriptor out of a poller"))
    }

    /// Replaces `ready` with the tokens that are ready. Waits until there is one, at most for
    /// `timeout`, rounded up to milliseconds; a signal, or a day, may end the wait with none.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn wait(&mut self, timeout: Option<Duration>, ready: &mut Vec<u64>) -> Result<(), IoError> {
        ready.clear();
        let timeout = timeout.map(|timeout| timeout.min(WAIT_MAX)).map(|timeout| Timespec {
            tv_sec: timeout.as_secs() as i64,
            tv_nsec: timeout.subsec_nanos().into(),
        });
        let mut room = [MaybeUninit::uninit(); READY_MAX];
        match epoll::wait(&self.epoll, &mut room, timeout.as_ref()) {
            Ok((events, _)) => ready.extend(events.iter().map(|event| event.data.u64())),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(IoError::system("waiting for descriptors")(errno)),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_descriptor_is_reported_while_it_can_be_read_and_in_the_set() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut poller = Poller::new().unwrap();
        let mut ready = vec![9];
        poller.add(&ours, 7).unwrap();
        poller.wait(Some(Duration::ZERO), &mut ready).unwrap();
        assert!(ready.is_empty());

        theirs.write_all(b"x").unwrap();
        for _ in 0..2 {
            poller.wait(None, &mut ready).unwrap();
            assert_eq!(ready, [7]);
        }
        poller.remove(&ours).unwrap();
        poller.wait(Some(Duration::ZERO), &mut ready).unwrap();
        assert!(ready.is_empty());
        assert!(poller.remove(&ours).is_err());
    }

    #[test]
    fn the_end_of_the_other_side_is_reported() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut poller = Poller::new().unwrap();
        poller.add(&ours, 1).unwrap();
        drop(theirs);
        let mut ready = Vec::new();
        poller.wait(None, &mut ready).unwrap();
        assert_eq!(ready, [1]);
    }
}
