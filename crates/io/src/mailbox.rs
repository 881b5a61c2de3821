//! Two processes that speak by turns: one asks, the other answers, each by memory that the other only reads, with a
//! bell for each and a socket whose end says that the other process is gone. Knows numbers of messages and
//! patience; refuses to know what is said.

use crate::error::IoError;
use crate::passed::{receive_with_fds, send_with_fds};
use crate::shared::{SharedReader, SharedWriter, seal_for_readers, shared_memory};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use std::fmt;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// Descriptors of one end, in this order: what it writes, what it reads, its own bell, that of the other.
const END_FDS: usize = 4;

/// Why nothing is heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unheard {
    /// The other process has ended.
    Ended,
    /// It said nothing for as long as was to be waited.
    Silent,
    /// What stands there is no message of it.
    Garbled,
}

impl fmt::Display for Unheard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ended => "its process has ended",
            Self::Silent => "its process does not answer",
            Self::Garbled => "its process writes what is no answer",
        })
    }
}

/// The descriptors that two ends are made of.
pub struct MailboxParts {
    asks: OwnedFd,
    /// The same, by which nothing can be written.
    asks_read_only: OwnedFd,
    answers: OwnedFd,
    asker_bell: OwnedFd,
    answerer_bell: OwnedFd,
}

impl MailboxParts {
    /// Room for questions and answers of so many bytes each. Needs files of this process below `/proc`.
    ///
    /// # Errors
    /// A size outside its limits, or the kernel's refusal.
    pub fn new(question_bytes: usize, answer_bytes: usize) -> Result<Self, IoError> {
        let told = || IoError::system("making a bell");
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let asks = shared_memory(question_bytes)?;
        let itself = format!("/proc/self/fd/{}", asks.as_raw_fd());
        let asks_read_only = open(itself, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .map_err(IoError::system("opening shared memory for its reader"))?;
        Ok(Self {
            asks,
            asks_read_only,
            answers: shared_memory(answer_bytes)?,
            asker_bell: eventfd(0, flags).map_err(told())?,
            answerer_bell: eventfd(0, flags).map_err(told())?,
        })
    }

    /// Hands the asker's end over, beside some bytes.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn send_asker(
        &self,
        to: BorrowedFd<'_>,
        bytes: &[u8],
        life: &OwnedFd,
    ) -> Result<(), IoError> {
        let Self { asks, answers, asker_bell, answerer_bell, .. } = self;
        let fds = [asks, answers, asker_bell, answerer_bell, life].map(AsFd::as_fd);
        send_with_fds(to, bytes, &fds).map(drop)
    }

    /// Hands the answerer's end over.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn send_answerer(&self, to: BorrowedFd<'_>) -> Result<(), IoError> {
        let Self { asks_read_only, answers, asker_bell, answerer_bell, .. } = self;
        let fds = [answers, asks_read_only, answerer_bell, asker_bell].map(AsFd::as_fd);
        send_with_fds(to, &[0], &fds).map(drop)
    }
}

/// One end.
pub struct Mailbox {
    writes: SharedWriter,
    reads: SharedReader,
    own_bell: OwnedFd,
    other_bell: OwnedFd,
    /// It ends when the other process does.
    life: OwnedFd,
    /// Of the message that was written last.
    written: u64,
    /// Of that which was read last.
    read: u64,
}

impl Mailbox {
    /// The asker's end, of the descriptors that came with it. From now on nobody else can write questions.
    ///
    /// # Errors
    /// They are others, or the kernel's refusal.
    pub fn asker(mut fds: Vec<OwnedFd>) -> Result<Self, IoError> {
        let life = fds.pop();
        let writes = fds.first().map(|fd| {
            let writes = SharedWriter::map(fd)?;
            seal_for_readers(fd)?;
            Ok(writes)
        });
        Self::of(writes.transpose()?, fds, life)
    }

    /// The answerer's end, which comes over a socket whose other end is held by whoever asks.
    ///
    /// # Errors
    /// Something else comes, or the kernel's refusal.
    pub fn answerer(life: OwnedFd) -> Result<Self, IoError> {
        let (_, fds) = receive_with_fds(life.as_fd(), &mut [0])?;
        let writes = fds.first().map(|fd| {
            let writes = SharedWriter::map(fd)?;
            seal_for_readers(fd)?;
            Ok(writes)
        });
        Self::of(writes.transpose()?, fds, Some(life))
    }

    fn of(
        writes: Option<SharedWriter>,
        fds: Vec<OwnedFd>,
        life: Option<OwnedFd>,
    ) -> Result<Self, IoError> {
        let wrong = || {
            let what = std::io::Error::other("other descriptors came than belong to an end");
            IoError::system("opening a mailbox")(what)
        };
        let [_, reads, own_bell, other_bell]: [OwnedFd; END_FDS] =
            fds.try_into().map_err(|_| wrong())?;
        let (Some(writes), Some(life)) = (writes, life) else { return Err(wrong()) };
        let reads = SharedReader::map(reads)?;
        Ok(Self { writes, reads, own_bell, other_bell, life, written: 0, read: 0 })
    }

    /// Bytes that a message to the other side may have.
    #[must_use]
    pub fn room(&self) -> usize {
        self.writes.room()
    }

    /// Says something, in place of what was said before; false: it is too long.
    #[must_use]
    pub fn say(&mut self, message: &[u8]) -> bool {
        let is_said = self.writes.write(self.written + 1, message);
        if is_said {
            self.written += 1;
            // It can only fail when it is rung already.
            let _ = rustix::io::write(&self.other_bell, &1_u64.to_ne_bytes());
        }
        is_said
    }

    /// Waits for what the other side says next; none of `patience`: as long as it lives.
    ///
    /// # Errors
    /// Why nothing is heard.
    pub fn hear(&mut self, patience: Option<Duration>, into: &mut Vec<u8>) -> Result<(), Unheard> {
        let until = patience.map(|patience| Instant::now() + patience);
        loop {
            let number = self.reads.number();
            if number == self.read + 1 {
                self.read = number;
                return if self.reads.read(into) { Ok(()) } else { Err(Unheard::Garbled) };
            }
            if number != self.read {
                return Err(Unheard::Garbled);
            }
            self.sleep(until)?;
        }
    }

    /// However often it is woken, it sleeps no longer than that.
    fn sleep(&self, until: Option<Instant>) -> Result<(), Unheard> {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let timeout = left.map(|left| Timespec {
            tv_sec: left.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        });
        let mut fds = [
            PollFd::new(&self.own_bell, PollFlags::IN),
            PollFd::new(&self.life, PollFlags::IN | PollFlags::RDHUP),
        ];
        match poll(&mut fds, timeout.as_ref()) {
            Ok(0) => return Err(Unheard::Silent),
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return Err(Unheard::Ended),
        }
        let [bell, life] = fds.map(|fd| !fd.revents().is_empty());
        if bell {
            // It can only fail when it is not rung.
            let _ = rustix::io::read(&self.own_bell, &mut [0; 8]);
        } else if life {
            return Err(Unheard::Ended);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    const PATIENCE: Option<Duration> = Some(Duration::from_secs(20));

    fn ends() -> (Mailbox, Mailbox) {
        let (near, far) = UnixStream::pair().unwrap();
        let (here, there) = UnixStream::pair().unwrap();
        let parts = MailboxParts::new(4_096, 4_096).unwrap();
        parts.send_answerer(near.as_fd()).unwrap();
        parts.send_asker(here.as_fd(), b"x", &near.into()).unwrap();
        let (_, fds) = receive_with_fds(there.as_fd(), &mut [0; 9]).unwrap();
        (Mailbox::asker(fds).unwrap(), Mailbox::answerer(far.into()).unwrap())
    }

    #[test]
    fn questions_are_answered_in_turn_and_as_they_are_said() {
        let (mut asker, mut answerer) = ends();
        let answering = std::thread::spawn(move || {
            let mut heard = Vec::new();
            while answerer.hear(None, &mut heard).is_ok() {
                heard.reverse();
                assert!(answerer.say(&heard));
            }
        });
        let mut heard = Vec::new();
        for turn in 0..20_000_u32 {
            let length = turn as usize % 4_096;
            let question: Vec<u8> = (0..length).map(|at| (at as u32 ^ turn) as u8).collect();
            assert!(asker.say(&question));
            asker.hear(PATIENCE, &mut heard).unwrap();
            heard.reverse();
            assert_eq!(heard, question);
        }
        assert!(!asker.say(&[0; 4_097]), "there is no room for it");
        drop(asker);
        answering.join().unwrap();
    }

    #[test]
    fn who_is_gone_silent_or_numbers_otherwise_is_told_apart() {
        let (mut asker, answerer) = ends();
        let mut heard = Vec::new();
        assert!(asker.say(b"?"));
        let soon = Some(Duration::from_millis(1));
        assert_eq!(asker.hear(soon, &mut heard), Err(Unheard::Silent));
        drop(answerer);
        assert_eq!(asker.hear(PATIENCE, &mut heard), Err(Unheard::Ended));

        let (mut asker, mut answerer) = ends();
        answerer.written = 5;
        assert!(answerer.say(b"!"));
        assert_eq!(asker.hear(PATIENCE, &mut heard), Err(Unheard::Garbled));
    }

    /// Its bell alone keeps nobody waiting.
    #[test]
    fn who_rings_and_says_nothing_is_silent() {
        let (mut asker, answerer) = ends();
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let ringing = std::thread::spawn(move || {
            while let Err(std::sync::mpsc::TryRecvError::Empty) = stopped.try_recv() {
                let _ = rustix::io::write(&answerer.other_bell, &1_u64.to_ne_bytes());
            }
            answerer
        });
        let soon = Some(Duration::from_millis(20));
        assert_eq!(asker.hear(soon, &mut Vec::new()), Err(Unheard::Silent));
        drop(stop);
        ringing.join().unwrap();
    }

    /// What it said before it ended is heard.
    #[test]
    fn last_words_are_heard() {
        let (mut asker, mut answerer) = ends();
        assert!(answerer.say(b"last"));
        drop(answerer);
        let mut heard = Vec::new();
        asker.hear(PATIENCE, &mut heard).unwrap();
        assert_eq!(heard, b"last");
        assert_eq!(asker.hear(PATIENCE, &mut heard), Err(Unheard::Ended));
    }
}
