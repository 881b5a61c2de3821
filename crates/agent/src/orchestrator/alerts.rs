//! The alerts of a bundled function apart, line by line out of its pipe. Whoever writes there is not trusted: a line
//! without an end takes no more room than the longest that may be. Refuses to know what a line says.

use std::io;
use std::path::Path;
use tokio::net::unix::pipe;

/// The longest line, in bytes.
const LINE_BYTES_MAX: usize = 64 * 1024;

/// The reading end of a pipe.
pub(super) struct Alerts {
    pipe: pipe::Receiver,
    buffer: Vec<u8>,
    /// What has come of the line is more than may be; its rest is left out, too.
    is_too_long: bool,
}

impl Alerts {
    /// The pipe of this name, whether anybody writes there or not.
    ///
    /// # Errors
    /// It is not there.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let pipe = pipe::OpenOptions::new().read_write(true).open_receiver(path)?;
        Ok(Self { pipe, buffer: Vec::new(), is_too_long: false })
    }

    /// The next line; none: nothing can be read any more. Whoever stops waiting loses nothing.
    pub(super) async fn next(&mut self) -> Option<String> {
        loop {
            if let Some(line) = self.take_line() {
                return Some(line);
            }
            self.pipe.readable().await.ok()?;
            match self.pipe.try_read_buf(&mut self.buffer) {
                Ok(0) => return None,
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return None,
                Ok(_) | Err(_) => {}
            }
        }
    }

    /// A whole line of what has come.
    fn take_line(&mut self) -> Option<String> {
        while let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.buffer.drain(..=end).take(end).collect();
            let is_too_long = std::mem::take(&mut self.is_too_long) || line.len() > LINE_BYTES_MAX;
            match String::from_utf8(line) {
                Ok(line) if !is_too_long => return Some(line),
                _ => tracing::warn!("an alert is no text, or longer than {LINE_BYTES_MAX} bytes"),
            }
        }
        if self.buffer.len() > LINE_BYTES_MAX {
            self.buffer.clear();
            self.is_too_long = true;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use std::io::Write;

    #[tokio::test]
    async fn lines_come_one_by_one_and_one_without_an_end_takes_no_room() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("eve");
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let mut alerts = Alerts::open(&path).unwrap();
        let writer = std::thread::spawn(move || {
            let mut file = std::fs::File::options().write(true).open(path).unwrap();
            file.write_all(b"{\"a\":1}\n").unwrap();
            file.write_all(&vec![b'x'; 8 * LINE_BYTES_MAX]).unwrap();
            file.write_all(b"\n\xff\xfe\n{\"b\":2}\n").unwrap();
        });
        assert_eq!(alerts.next().await.as_deref(), Some("{\"a\":1}"));
        assert_eq!(alerts.next().await.as_deref(), Some("{\"b\":2}"));
        writer.join().unwrap();
        assert!(alerts.buffer.capacity() <= 4 * LINE_BYTES_MAX, "{}", alerts.buffer.capacity());
    }
}
