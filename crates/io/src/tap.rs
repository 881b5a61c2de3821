//! The port of a virtual machine: a TAP interface with the kernel's offload words, so that
//! super-frames pass whole. One system call a frame. Refuses to know who opened it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, read, write};

use crate::buffer::{Buffer, BufferPool};
use crate::offload::{Offload, VIRTIO_HEADER_BYTES};
use crate::port::{Outcome, Port, Received, RefusedFrame, Transmitted};

/// How often a full queue is waited for before a frame is given up.
const TRANSMIT_WAITS_MAX: u32 = 2;
/// How long each wait is.
const TRANSMIT_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
/// Ethernet without a payload: less is no frame.
const FRAME_BYTES_MIN: usize = 14;

/// A TAP that was opened without packet information, with offload words (`IFF_NO_PI`,
/// `IFF_VNET_HDR`), and not blocking.
pub struct TapPort {
    file: OwnedFd,
    outcome: Outcome,
}

impl TapPort {
    /// A port on an opened TAP. Needs no capability.
    #[must_use]
    pub fn new(file: OwnedFd) -> Self {
        Self { file, outcome: Outcome::default() }
    }

    /// The frame's words and the frame, by one piece of memory: a plain `write` is among the system
    /// calls of a confined worker.
    fn send(&self, frame: &mut Buffer) -> Result<(), Errno> {
        let words = frame.offload.emit();
        let Some(room) = frame.prepend(VIRTIO_HEADER_BYTES) else {
            return self.write(&[&words, frame.bytes()].concat());
        };
        room.copy_from_slice(&words);
        let sent = self.write(frame.bytes());
        let is_back = frame.trim_front(VIRTIO_HEADER_BYTES);
        debug_assert!(is_back, "the words were put there");
        sent
    }

    fn write(&self, bytes: &[u8]) -> Result<(), Errno> {
        let mut waits = 0;
        loop {
            match write(&self.file, bytes) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if waits < TRANSMIT_WAITS_MAX => {
                    waits += 1;
                    let mut writable = [PollFd::new(&self.file, PollFlags::OUT)];
                    // Whatever ends the wait, the next attempt tells how it is.
                    let _ = poll(&mut writable, Some(&TRANSMIT_WAIT));
                }
                Err(errno) => return Err(errno),
            }
        }
    }
}

/// The memory of an empty buffer, with the words of the frame before its usual beginning.
fn room_with_words(buffer: &mut Buffer) -> &mut [u8] {
    buffer.clear();
    if buffer.prepend(VIRTIO_HEADER_BYTES).is_some() {
        // Empty again, and it begins sooner.
        let _ = buffer.set_len(0);
    }
    buffer.spare_mut()
}

/// Takes the words off what came; `None`: it is too short, or too long.
fn take_words(buffer: &mut Buffer, came: usize) -> Option<[u8; VIRTIO_HEADER_BYTES]> {
    let words = buffer.set_len(came).then(|| buffer.bytes().first_chunk().copied()).flatten();
    words.filter(|_| buffer.trim_front(VIRTIO_HEADER_BYTES))
}

impl Port for TapPort {
    fn receive(&mut self, pool: &mut BufferPool, out: &mut Vec<Buffer>, max: usize) -> Received {
        let mut received = Received::default();
        for _ in 0..max {
            let Some(mut buffer) = pool.take() else {
                received.pool_empty = true;
                break;
            };
            let came = match read(&self.file, room_with_words(&mut buffer)) {
                Ok(came) => came,
                Err(errno) => {
                    pool.put(buffer);
                    if ![Errno::AGAIN, Errno::INTR].contains(&errno) && received.frames == 0 {
                        received.socket_error = Some(errno.raw_os_error());
                    }
                    break;
                }
            };
            let words = take_words(&mut buffer, came);
            match words.map_or(Some(Offload::default()), Offload::parse) {
                Some(offload) if words.is_some() && buffer.len() >= FRAME_BYTES_MIN => {
                    buffer.offload = offload;
                    received.frames += 1;
                    out.push(buffer);
                }
                Some(_) => {
                    received.truncated += 1;
                    pool.put(buffer);
                }
                None => {
                    received.unsupported_offload += 1;
                    pool.put(buffer);
                }
            }
        }
        received
    }

    fn transmit(&mut self, frames: &mut Vec<Buffer>, pool: &mut BufferPool) -> Transmitted {
        self.outcome.begin();
        for mut frame in frames.drain(..) {
            let sent = self.send(&mut frame).map_err(Errno::raw_os_error);
            self.outcome.note(&frame, sent);
            pool.put(frame);
        }
        self.outcome.transmitted
    }

    fn refused(&self) -> &[RefusedFrame] {
        self.outcome.refused()
    }

    /// None: the kernel counts them at the interface alone.
    fn lost(&mut self) -> u64 {
        0
    }
}

impl AsFd for TapPort {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
