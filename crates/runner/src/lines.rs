//! Messages that are lines, on their way to a file or a pipe. A thread writes them, so that no packet waits for whoever
//! reads slowly. Refuses to know what they say.

use std::io::Write;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Lines that may wait to be written.
const WAITING_MAX: usize = 4_096;
/// How long the end waits for what is still to be written, and how often it looks.
const PATIENCE: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(2);

/// Lines on their way.
pub struct Lines {
    waiting: Option<SyncSender<Vec<u8>>>,
    writer: Option<JoinHandle<()>>,
}

impl Lines {
    /// With a thread that writes them here. What cannot be written any more ends the thread, and what comes then is
    /// refused.
    pub fn new(mut to: impl Write + Send + 'static) -> Self {
        let (waiting, due) = sync_channel::<Vec<u8>>(WAITING_MAX);
        let writer = std::thread::spawn(move || {
            for line in due {
                if to.write_all(&line).and_then(|()| to.flush()).is_err() {
                    return;
                }
            }
        });
        Self { waiting: Some(waiting), writer: Some(writer) }
    }

    /// Takes a line, unless too many wait or nobody writes any more.
    pub(crate) fn take(&self, message: &[u8]) -> bool {
        let line = [message, b"\n"].concat();
        self.waiting.as_ref().is_some_and(|waiting| match waiting.try_send(line) {
            Ok(()) => true,
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => false,
        })
    }

    /// Takes no more, and waits a second at most until what came is written.
    pub(crate) fn close(&mut self) {
        self.waiting = None;
        let Some(writer) = self.writer.take() else { return };
        let until = Instant::now() + PATIENCE;
        while !writer.is_finished() && Instant::now() < until {
            std::thread::sleep(LOOK);
        }
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Sender, channel};

    /// Tells what is written, and may refuse it.
    struct Told(Sender<Vec<u8>>, bool);

    impl Write for Told {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            if self.1 {
                return Err(std::io::ErrorKind::BrokenPipe.into());
            }
            self.0.send(bytes.to_vec()).map_err(std::io::Error::other)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_was_taken_is_written_before_the_end() {
        let (told, written) = channel();
        let mut lines = Lines::new(Told(told, false));
        assert!((0..100).all(|number| lines.take(format!("{{{number}}}").as_bytes())));
        lines.close();
        assert!(!lines.take(b"late"));
        let all: Vec<u8> = written.iter().flatten().collect();
        assert!(all.starts_with(b"{0}\n{1}\n") && all.ends_with(b"{99}\n"));
    }

    #[test]
    fn a_reader_that_is_gone_is_told_by_refusals() {
        let mut lines = Lines::new(Told(channel().0, true));
        let refused = (0..2 * WAITING_MAX).any(|_| !lines.take(b"{}"));
        lines.close();
        assert!(refused);
    }
}
