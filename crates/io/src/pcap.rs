//! A port that is a capture: what comes is read from one file, what is sent is written to another.
//! For replay and for tests. Refuses to wait between frames.

use std::fs::File;
use std::io::{BufReader, BufWriter, Error, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use pcap_file::pcap::{PcapPacket, PcapReader, PcapWriter};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

use crate::buffer::{Buffer, BufferPool};
use crate::error::IoError;
use crate::offload::finish_checksum;
use crate::port::{Outcome, Port, Received, RefusedFrame, Transmitted};

/// A capture to read and one to write, either of which may be missing.
pub struct PcapPort {
    source: Option<PcapReader<BufReader<File>>>,
    sink: Option<PcapWriter<BufWriter<File>>>,
    /// Read while no frame could be given away.
    waiting: Option<Vec<u8>>,
    /// Can be read until the source has ended.
    event: OwnedFd,
    began: Instant,
    outcome: Outcome,
}

impl PcapPort {
    /// Opens the source and makes the sink anew.
    ///
    /// # Errors
    /// A file cannot be opened, or the source is no capture.
    pub fn open(source: Option<&Path>, sink: Option<&Path>) -> Result<Self, IoError> {
        let other = |error: pcap_file::PcapError| Error::other(error);
        let source = match source {
            None => None,
            Some(path) => {
                let file = File::open(path).map_err(IoError::system("opening a capture"))?;
                let reader = PcapReader::new(BufReader::new(file)).map_err(other);
                Some(reader.map_err(IoError::system("reading a capture"))?)
            }
        };
        let sink = match sink {
            None => None,
            Some(path) => {
                let file = File::create(path).map_err(IoError::system("making a capture"))?;
                let writer = PcapWriter::new(BufWriter::new(file)).map_err(other);
                Some(writer.map_err(IoError::system("writing a capture"))?)
            }
        };
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let event = eventfd(u32::from(source.is_some()), flags)
            .map_err(IoError::system("making a bell"))?;
        let (began, outcome) = (Instant::now(), Outcome::default());
        Ok(Self { source, sink, waiting: None, event, began, outcome })
    }

    /// Ends the port; what is still in memory is written.
    ///
    /// # Errors
    /// The file system's refusal.
    pub fn finish(self) -> Result<(), IoError> {
        let Some(sink) = self.sink else { return Ok(()) };
        sink.into_writer().flush().map_err(IoError::system("writing a capture"))
    }

    /// The next frame of the source; after the last one, or one that cannot be read, none.
    fn next(&mut self) -> Option<Vec<u8>> {
        if let Some(waiting) = self.waiting.take() {
            return Some(waiting);
        }
        if let Some(Ok(packet)) = self.source.as_mut()?.next_packet() {
            return Some(packet.data.into_owned());
        }
        self.source = None;
        // It can only fail when it is silent already.
        let _ = rustix::io::read(&self.event, &mut [0; 8]);
        None
    }

    fn write(&mut self, frame: &mut Buffer) -> Result<(), i32> {
        let Some(sink) = &mut self.sink else { return Err(Errno::NOTCONN.raw_os_error()) };
        if let Some(open) = frame.offload.checksum {
            // A place outside the frame leaves it as it is: the capture shows what was sent.
            let _ = finish_checksum(frame.bytes_mut(), open);
        }
        let length = u32::try_from(frame.len()).unwrap_or(u32::MAX);
        let since =
            Duration::from_micros(u64::try_from(self.began.elapsed().as_micros()).unwrap_or(0));
        let packet = PcapPacket::new(since, length, frame.bytes());
        sink.write_packet(&packet).map(drop).map_err(|_| Errno::IO.raw_os_error())
    }
}

impl Port for PcapPort {
    fn receive(&mut self, pool: &mut BufferPool, out: &mut Vec<Buffer>, max: usize) -> Received {
        let mut received = Received::default();
        for _ in 0..max {
            let Some(frame) = self.next() else { break };
            let Some(mut buffer) = pool.take() else {
                self.waiting = Some(frame);
                received.pool_empty = true;
                break;
            };
            if buffer.fill(&frame) {
                received.frames += 1;
                out.push(buffer);
            } else {
                received.truncated += 1;
                pool.put(buffer);
            }
        }
        received
    }

    /// Super-frames are written whole. Without a sink everything is refused (`ENOTCONN`).
    fn transmit(&mut self, frames: &mut Vec<Buffer>, pool: &mut BufferPool) -> Transmitted {
        self.outcome.begin();
        for mut frame in frames.drain(..) {
            let written = self.write(&mut frame);
            self.outcome.note(&frame, written);
            pool.put(frame);
        }
        self.outcome.transmitted
    }

    fn refused(&self) -> &[RefusedFrame] {
        self.outcome.refused()
    }

    fn lost(&mut self) -> u64 {
        0
    }
}

impl AsFd for PcapPort {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Poller;
    use crate::offload::PartialChecksum;

    #[test]
    fn what_is_written_is_read_again_in_order_and_the_end_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("frames.pcap");
        let mut pool = BufferPool::new(8);
        let mut writer = PcapPort::open(None, Some(&path)).unwrap();
        let mut frames = Vec::new();
        for number in 1..=3_u8 {
            let mut frame = pool.take().unwrap();
            assert!(frame.fill(&vec![number; 60 * usize::from(number)]));
            frames.push(frame);
        }
        frames[1].offload.checksum = Some(PartialChecksum { start: 34, offset: 6 });
        assert_eq!(writer.transmit(&mut frames, &mut pool).sent, 3);
        assert!(frames.is_empty());
        assert_eq!(writer.receive(&mut pool, &mut frames, 9), Received::default());
        writer.finish().unwrap();

        let mut reader = PcapPort::open(Some(&path), None).unwrap();
        let (mut poller, mut ready) = (Poller::new().unwrap(), Vec::new());
        poller.add(&reader, 1).unwrap();
        poller.wait(Some(Duration::ZERO), &mut ready).unwrap();
        assert_eq!(ready, [1]);
        let (mut none, mut came) = (BufferPool::new(0), Vec::new());
        assert!(reader.receive(&mut none, &mut came, 9).pool_empty);
        assert_eq!(reader.receive(&mut pool, &mut came, 2).frames, 2);
        assert_eq!(reader.receive(&mut pool, &mut came, 2).frames, 1);
        assert_eq!(came.iter().map(Buffer::len).collect::<Vec<_>>(), [60, 120, 180]);
        assert_eq!(came[0].bytes(), [1; 60]);
        assert_ne!(came[1].bytes()[40..42], [2, 2], "the open checksum was finished");
        poller.wait(Some(Duration::ZERO), &mut ready).unwrap();
        assert!(ready.is_empty());
        assert_eq!(reader.transmit(&mut came, &mut pool).failed, 3);
        assert_eq!(reader.refused().len(), 3);
    }

    #[test]
    fn what_is_no_capture_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text");
        std::fs::write(&path, "not a capture").unwrap();
        assert!(PcapPort::open(Some(&path), None).is_err());
        assert!(PcapPort::open(Some(&folder.path().join("none")), None).is_err());
    }
}
